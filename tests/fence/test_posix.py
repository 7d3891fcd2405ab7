"""POSIX: a fence with full access behaves as a plain filesystem does.

The script below posix/ runs on a tmpfs and on a fence over an equal tree; every check must say the same on both. Then real
tools do their work in both places, and what they print must be the same too.
"""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import harness
import pytest
from harness import (
    HERE,
    IS_ROOT,
    LONG,
    MS_NOATIME,
    PYTHON,
    Fence,
    Refused,
    Tree,
    fingerprint,
    mount,
    run,
    sandbox_ids,
    tools_dir,
    umount,
)

sys.path.insert(0, str(HERE / "posix"))
import posix_script  # noqa: E402

SCRIPT_ENV = {}


def transcript(cwd):
    ran = run([PYTHON, tools_dir() / "posix" / "posix_script.py"], cwd=cwd, env={"PYTHONPATH": str(tools_dir())}, timeout=300)
    assert ran.code == 0, ran.err
    checks, name = {}, None
    for line in ran.out.splitlines():
        if line.startswith("== "):
            name = line[3:]
            checks[name] = []
        else:
            checks[name].append(line)
    return checks


def make_lower(root):
    """As the sandbox's user would have made it, but for root: the fence presents its own owner whoever owns the base."""
    run(
        [PYTHON, tools_dir() / "posix" / "posix_script.py", "--make-lower", root / "lower"], cwd="/", env={"PYTHONPATH": str(tools_dir())}
    ).ok()


@pytest.fixture(scope="module")
def plain(module_work):
    """A tmpfs of the sandbox's user."""
    path = module_work / "plain"
    path.mkdir()
    mount("tmpfs", path, "tmpfs", 0, "mode=755")
    os.chown(path, *sandbox_ids())
    yield path
    umount(path)


@pytest.fixture(scope="module")
def on_plain(plain):
    make_lower(plain)
    return transcript(plain)


class OnFence:
    """The script's transcript on a fence of each data path, run once and kept; and the state of the base."""

    def __init__(self, work):
        self.work = work
        self.known = {}

    def get(self, data_path):
        if data_path not in self.known:
            work = self.work / f"posix-{data_path}"
            (work / "base").mkdir(parents=True)
            os.chown(work / "base", *sandbox_ids())
            make_lower(work / "base")
            before = fingerprint(work / "base")
            try:
                with Fence(work, options=["--data-path", data_path]) as f:
                    result = transcript(f.mnt)
                    assert f.alive(), f.log()
            except Refused as e:
                result = e
            self.known[data_path] = (result, before, fingerprint(work / "base"))
        return self.known[data_path]


@pytest.fixture(scope="module")
def on_fence(module_work):
    return OnFence(module_work)


@pytest.mark.parametrize("check", posix_script.CHECKS)
@pytest.mark.parametrize("data_path", ["auto", "passthrough"])
def test_same_as_on_a_plain_filesystem(on_plain, on_fence, check, data_path):
    got = on_fence.get(data_path)[0]
    if isinstance(got, Refused):
        if data_path == "passthrough":
            pytest.skip(f"no passthrough here: {got}")
        raise got
    assert got.get(check) == on_plain[check]


def test_the_script_left_the_base_alone(on_fence):
    _, before, after = on_fence.get("auto")
    assert before == after


@pytest.mark.no_fence
def test_the_script_makes_enough_checks_and_none_of_them_falls_over(on_plain):
    assert len(on_plain) == len(posix_script.CHECKS) >= 150
    assert not {n: lines for n, lines in on_plain.items() if any("raised" in x for x in lines) or not lines}


# ---- real tools ----

GIT = 'export GIT_AUTHOR_DATE="@1600000000 +0000" GIT_COMMITTER_DATE="@1600000000 +0000" GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org\n'

TOOLS = {
    "git init add commit": GIT
    + """
git init -q -b main r && cd r && mkdir -p src/deep && for i in $(seq 50); do echo $i > src/f$i; echo d$i > src/deep/f$i; done
git add -A && git commit -qm one && git log --format='%H %T %s' && git status --porcelain && git fsck --full 2>&1
echo more >> src/f1 && rm src/f2 && git mv src/f3 src/g3 && git status --porcelain && git commit -qam two && git log --format=%H && git show --stat""",
    "git gc and repack": GIT
    + """
git init -q -b main r && cd r && for i in $(seq 20); do echo $i > f$i; git add f$i; git commit -qm $i; done
git gc -q --prune=now 2>&1 && git count-objects -v | grep -e count -e packs -e in-pack && git fsck --full 2>&1 && git repack -adq && git log --format=%H | tail -1; git status --porcelain""",
    "git checkout and branches": GIT
    + """
git init -q -b main r && cd r && echo a > a && mkdir d && echo b > d/b && git add . && git commit -qm one && git checkout -qb other && git rm -rq d && echo c > d && git add d && git commit -qm 'a file for a directory'
for i in 1 2 3 4 5; do git checkout -q main && ls -R && git checkout -q other && cat d; done; git merge -q main 2>&1; git checkout -q main && git merge -q --no-ff other -m merged && git log --oneline --graph && git reset -q --hard HEAD~1 && git clean -fdq && git status --porcelain""",
    "git stash": GIT
    + """
git init -q -b main r && cd r && echo a > a && git add a && git commit -qm one && echo b >> a && echo n > new && git stash -uq && ls && git stash list | cut -c1-20 && git stash pop 2>&1 | grep -v Dropped && cat a new""",
    "git worktree": GIT
    + """
git init -q -b main r && cd r && echo a > a && git add a && git commit -qm one && git worktree add -q ../w -b side 2>&1 && cd ../w && git status --porcelain -b && echo b > b && git add b && git commit -qm two && cd ../r && git worktree list | wc -l && git worktree remove ../w && ls .. && git branch""",
    "git clone and rebase": GIT
    + """
git init -q -b main r && cd r && for i in 1 2 3 4 5 6; do echo $i >> f; git add f; git commit -qm $i; done; cd .. && git clone -q r c 2>&1 && cd c && git checkout -qb topic HEAD~3 && echo t > t && git add t && git commit -qm t && git rebase -q main 2>&1 && git log --format='%H %s' && git bisect start -q HEAD HEAD~4 2>&1 | grep -c left; git bisect reset -q 2>/dev/null; git grep -c . && git archive HEAD | tar tf - | sort""",
    "git init in a subdirectory": "mkdir -p a/b && cd a/b && git init -q . && pwd | sed 's,.*/a/b,/a/b,' && git rev-parse --is-inside-work-tree",
    "sqlite with a rollback journal": """
sqlite3 x.db 'create table t(a integer primary key, b text); begin; insert into t(b) values("one"),("two"); commit; pragma integrity_check; select * from t;' && sqlite3 x.db 'vacuum; select count(*) from t;' && ls""",
    "sqlite with WAL": """
sqlite3 x.db 'pragma journal_mode=wal; create table t(a integer primary key, b text);' && for i in 1 2 3 4; do (for j in $(seq 10); do sqlite3 -cmd '.timeout 20000' x.db "insert into t(b) values('$i-$j')"; done) & done; wait
sqlite3 x.db 'select count(*), count(distinct b) from t; pragma integrity_check; pragma wal_checkpoint(truncate);' && ls x.db""",
    "sqlite in mmap mode": """
sqlite3 x.db 'pragma mmap_size=100000000; create table t(a); insert into t select value from generate_series(1,20000);' 2>/dev/null || sqlite3 x.db 'pragma mmap_size=100000000; create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) insert into t select x from c;'
sqlite3 x.db 'pragma mmap_size=100000000; update t set a=a+1; select sum(a), count(*) from t; pragma integrity_check;'""",
    "tar": """
mkdir -p t/d && for i in $(seq 100); do echo $i > t/d/f$i; done && ln -s d t/l && ln t/d/f1 t/h && chmod 600 t/d/f2 && touch -d @1000000000 t/d/f3 && mkfifo t/p
tar cf x.tar t && mkdir o && tar xpf x.tar -C o && diff <(cd t && find . -printf '%p %m %s %y %l %n\\n' | grep -v ' d ' | sort) <(cd o/t && find . -printf '%p %m %s %y %l %n\\n' | grep -v ' d ' | sort) && tar df x.tar && stat -c %Y o/t/d/f3 && tar czf x.tgz t && tar tzf x.tgz | wc -l""",
    "rsync": """
mkdir -p s/d && for i in $(seq 50); do echo $i > s/d/f$i; done && ln -s f1 s/d/l && ln s/d/f1 s/h
rsync -aH s/ t/ && rsync -aHni --delete s/ t/ && echo x >> s/d/f1 && rm s/d/f2 && rsync -aHi --delete --no-times --omit-dir-times s/ t/ | cut -c1,2,12- | sort && diff -r s t && rsync -aH --inplace --append-verify s/ t/ && echo done""",
    "sed -i": "for i in 1 2 3; do echo hello $i > f$i; done; chmod 640 f1; sed -i s/hello/bye/ f1 f2 f3 2>&1 && cat f1 f2 f3 && stat -c %a f1 && sed -i.bak s/bye/x/ f1 && ls && perl -pi -e s/x/y/ f1 && cat f1",
    "save as vim does": """
echo one > f && ino=$(stat -c %i f) && cp -p f f~ && mv f f.old && echo two > f && sync f && rm f.old && cat f f~ && touch 4913 && rm 4913
echo three > .f.swp && ln f f.lnk && rename=$(stat -c %h f) && echo $rename && cat f && (umask 077 && echo four > f.new && chmod --reference=f f.new && mv f.new f) && stat -c '%a %h' f f.lnk""",
    "vim": "printf 'alpha\\nbeta\\n' > f && if command -v vim >/dev/null; then vim -u NONE -n -es -c '%s/alpha/ALPHA/' -c wq f </dev/null; vim -u NONE -es -c 'set backup backupcopy=no' -c '%s/beta/BETA/' -c wq f </dev/null; fi; head -c 1 f | tr a A; ls",
    "make -j": r"""
mkdir m && cd m && for i in $(seq 30); do printf 'int f%d(int x) { return x + %d; }\n' $i $i > f$i.c; done && (printf '#include <stdio.h>\n'; for i in $(seq 30); do echo "int f$i(int);"; done; echo 'int main(void) { int x = 0;'; for i in $(seq 30); do echo "x = f$i(x);"; done; echo 'printf("%d\n", x); return 0; }') > main.c
printf 'OBJS = $(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(OBJS)\n\t$(CC) -o $@ $^\n%%.o: %%.c\n\t$(CC) -c -o $@ $<\n' > Makefile
make -s -j8 && ./prog && make -j8 && touch f3.c && make -s -j8 && ./prog && make -q && echo up to date && ar rcs lib.a *.o && ar t lib.a | wc -l && ranlib lib.a && strip prog && ./prog""",
    "cp and mv": "mkdir a && echo x > a/f && ln -s f a/l && cp -a a b && cp -r a c && mv a d && mv d/f d/g && cp --sparse=always d/g s && cp --reflink=auto d/g r && cp -l d/g h && stat -c %h h && install -m 750 d/g i && stat -c %a i && find . | sort && rm -rf b c d && ls",
    "find -delete": "mkdir -p d/e/f && for i in $(seq 300); do : > d/e/f/x$i; done && find d -name 'x1*' -delete && find d -type f | wc -l && find d -delete && ls -A",
    "zip and gzip": "seq 1000 > f && gzip -k f && gunzip -c f.gz | cmp - f && gzip -f f && gunzip f.gz && md5sum f && bzip2 -k f && bunzip2 -c f.bz2 | cmp - f && xz -k f && xz -dc f.xz | cmp - f && ls",
    "sort with temporary files": "seq 200000 | sort -R --random-source=/bin/ls > f && sort -n -S 1M -T . f -o f && head -2 f && tail -1 f && ls -A",
    "dd and sync": "dd if=/dev/zero of=f bs=64k count=50 conv=fsync 2>/dev/null && dd if=/dev/zero of=f bs=1k seek=100 count=1 conv=notrunc 2>/dev/null && stat -c %s f && dd if=f of=g bs=4k iflag=direct oflag=direct 2>/dev/null; cmp f g && truncate -s 1M f && stat -c %s f && fallocate -l 2M f && stat -c %s f && fallocate -p -o 0 -l 1M f && cmp -n 1048576 f /dev/zero && echo same",
    "flock": "(flock 9; sleep 0.3; echo first) 9>l & sleep 0.1; (flock 9; echo second) 9>l; wait; flock -n l true && echo free",
    "python compiles and imports": PYTHON
    + " -c \"import os; os.makedirs('p'); open('p/__init__.py','w').write('x=1'); open('p/m.py','w').write('y=2')\" && PYTHONDONTWRITEBYTECODE= "
    + PYTHON
    + " -c 'import p.m; print(p.x, p.m.y)' && ls p/__pycache__ | wc -l && echo y=3 > p/m.py && touch -d '+5 seconds' p/m.py && PYTHONDONTWRITEBYTECODE= "
    + PYTHON
    + " -c 'import p.m; print(p.m.y)'",
    "python tempfile, without O_TMPFILE": f"""{PYTHON} - <<'END'
import os, tempfile
for make in (tempfile.TemporaryFile, tempfile.NamedTemporaryFile, lambda dir: tempfile.SpooledTemporaryFile(max_size=10, dir=dir)):
    with make(dir=".") as t:
        t.write(b"x" * 100); t.flush(); t.seek(0); print(len(t.read()))
with tempfile.TemporaryDirectory(dir=".") as d: print(os.path.isdir(d))
print(os.listdir("."))
END""",
    "copies of sparse files, without FIEMAP": """truncate -s 8M f && printf x | dd of=f bs=1 seek=4M conv=notrunc 2>/dev/null
cp --sparse=auto f a && cp --sparse=always f b && cp --reflink=auto f c && tar cSf t.tar f && mkdir o && tar xSf t.tar -C o && dd if=f of=d bs=64k conv=sparse 2>/dev/null
for i in a b c d o/f; do cmp f $i && stat -c %s $i && test $(stat -c %b $i) -lt 1024 && echo sparse; done; cp --reflink=always f e 2>/dev/null || echo no reflink""",
    "fallocate, without moving ranges": """fallocate -l 1M f && stat -c %s f && fallocate -p -o 4096 -l 8192 f && fallocate -d f && stat -c %s f && dd if=/dev/zero of=g bs=4k count=4 2>/dev/null
fallocate -i -o 4096 -l 4096 g 2>/dev/null || echo cannot insert; fallocate -c -o 4096 -l 4096 g 2>/dev/null || echo cannot collapse; stat -c %s g""",
    "sqlite with temporary files": """sqlite3 x.db 'pragma temp_store=file; create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<50000) insert into t select x from c; create temp table u as select a*7%50001 b from t order by b; select count(*), max(b) from u; vacuum; pragma integrity_check;' && ls""",
    "git in a shared repository": GIT
    + """umask 022; git init -q -b main --shared r && cd r && echo a > a && git add a && git commit -qm one && stat -c '%a %n' .git .git/objects .git/refs/heads && git config core.sharedRepository && git gc -q && git fsck 2>&1""",
    "mkdir and rmdir -p": "mkdir -p a/b/c/d && rmdir -p a/b/c/d && ls -A && mkdir -m 700 x && stat -c %a x && mktemp -d ./tXXXX | cut -c1-3 && mktemp ./fXXXX | cut -c1-3",
    "patch and diff": "printf '1\\n2\\n3\\n' > a && printf '1\\nx\\n3\\n' > b && diff -u --label a --label b a b > p; patch -s a p && cmp a b && ls && patch -sR a p && cat a",
    "shell redirections": "echo a > f; echo b >> f; cat < f; : > f; stat -c %s f; exec 3<>f; echo c >&3; cat f; set -C; echo d > f 2>/dev/null || echo kept; cat f",
}


def tool_output(where, name):
    where = Path(where) / ("tool-" + name.replace(" ", "-").replace("/", "-"))
    where.mkdir()
    os.chown(where, *sandbox_ids())
    ran = run(["/bin/bash", "-c", TOOLS[name]], cwd=where, env={"HOME": str(where)}, timeout=120)
    return [ran.code, ran.out.replace(str(where), "HERE"), ran.err.replace(str(where), "HERE")]


@pytest.fixture(scope="module")
def tool_fence(module_work):
    with Fence(module_work / "tools") as f:
        yield f


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_do_the_same_work(plain, tool_fence, tool):
    words = {"sqlite": "sqlite3", "rsync": "rsync", "git": "git", "make": "make", "patch": "patch", "zip": "xz"}
    for word, program in words.items():
        if tool.startswith(word) and not shutil.which(program):
            pytest.skip(f"no {program}")
    expected = tool_output(plain, tool)
    assert expected[0] == 0, expected
    assert tool_output(tool_fence.mnt, tool) == expected
    assert tool_fence.alive(), tool_fence.log()


# What docs/fence.md says is not there, each with the errno at which tools do without it.
ABSENT = """
put("a", b"x" * 20000)
fd, to, here = os.open("a", os.O_RDWR), os.open("b", os.O_RDWR | os.O_CREAT, 0o644), os.open(".", os.O_RDONLY)
def ioctl(fd, number, argument=bytes(512)): return attempt(fcntl.ioctl, fd, number, argument)
def move(mode): return attempt(fallocate, fd, mode, 4096, 4096)
say("O_TMPFILE", opened(".", os.O_TMPFILE | os.O_RDWR), opened(".", os.O_TMPFILE | os.O_WRONLY | os.O_EXCL))
say("FS_IOC_FIEMAP", ioctl(fd, 0xC020660B, struct.pack("QQIIII", 0, 1 << 62, 0, 0, 4, 0) + bytes(4 * 56)))
say("FALLOC_FL_COLLAPSE_RANGE", move(8))
say("FALLOC_FL_INSERT_RANGE", move(32))
say("FALLOC_FL_UNSHARE_RANGE", move(64))
say("FICLONE", ioctl(to, 0x40049409, fd))
say("FS_IOC_GETFLAGS", ioctl(fd, 0x80086601), ioctl(here, 0x80086601))
say("FS_IOC_SETFLAGS", ioctl(fd, 0x40086602, struct.pack("l", 16)))
say("RENAME_WHITEOUT", attempt(renameat2, "b", "c", 4))
say("open_by_handle_at", attempt(open_by_handle, here, name_to_handle("a")))
say("device", attempt(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
say("content", content("a") == b"x" * 20000, listing())
"""


def test_what_is_absent_is_refused_with_the_errno_that_tools_expect(fence):
    f = fence()
    got = dict(line.split(" ", 1) for line in f.python(ABSENT).ok().out.splitlines())
    assert got == {
        "O_TMPFILE": "EOPNOTSUPP EOPNOTSUPP",
        "FS_IOC_FIEMAP": "EOPNOTSUPP",
        "FALLOC_FL_COLLAPSE_RANGE": "EOPNOTSUPP",
        "FALLOC_FL_INSERT_RANGE": "EOPNOTSUPP",
        "FALLOC_FL_UNSHARE_RANGE": "EOPNOTSUPP",
        "FICLONE": "EOPNOTSUPP",
        "FS_IOC_GETFLAGS": "ENOTTY ENOTTY",
        "FS_IOC_SETFLAGS": "ENOTTY",
        "RENAME_WHITEOUT": "EINVAL",
        "open_by_handle_at": "EPERM",
        "device": "EPERM",
        "content": "True ['a', 'b']",
    }
    documented = (HERE.parents[1] / "docs/fence.md").read_text()
    for what in got.keys() - {"content", "device"}:
        assert f"`{what}`" in documented, what


def test_tools_work_on_files_of_the_base(work, fence):
    """The same edits to a checked-out repository that lies in the base: everything is copied up as it goes."""
    base = work / "base"
    base.mkdir()
    script = (
        GIT
        + "git init -q -b main r && cd r && mkdir -p src/deep && for i in $(seq 100); do echo $i > src/f$i; echo d$i > src/deep/f$i; done && git add -A && git commit -qm one && git gc -q"
    )
    os.chown(base, *sandbox_ids())
    run(["/bin/bash", "-c", script], cwd=base).ok()
    native = work / "native"
    shutil.copytree(base, native, symlinks=True)
    subprocess.run(["chown", "-R", "{}:{}".format(*sandbox_ids()), native], check=True)
    before = fingerprint(base)
    f = fence()
    edits = (
        GIT
        + """cd r && git status --porcelain && sed -i 's/^/x/' src/f1* && git rm -q src/f2 && git mv src/deep src/shallow && git mv src/f3 top && rm -rf src/f4* && git add -A && git commit -qm two && git log --format='%H %T'
git checkout -q HEAD~1 && git status --porcelain && git checkout -q main && git gc -q --prune=now --aggressive && git fsck --full 2>&1 && git stash list && rm -rf src && git checkout -q . && git status --porcelain && git branch side && git worktree add -q ../w side 2>&1 && git reset -q --hard HEAD~1 && find . -path ./.git -prune -o -type f -print | sort | xargs md5sum"""
    )
    expected = run(["/bin/bash", "-c", edits], cwd=native).ok().out
    assert f.run(["/bin/bash", "-c", edits]).ok().out == expected
    f.remount()
    again = "cd r && git status --porcelain && git fsck --full 2>&1 && git log --format=%H"
    assert f.sh(again).ok().out == run(["/bin/sh", "-c", again], cwd=native).ok().out
    assert fingerprint(base) == before


def test_npm_installs_from_a_tarball(work, tool_fence):
    if not shutil.which("npm", path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip("no npm")
    where = tool_fence.mnt / "npm"
    where.mkdir()
    os.chown(where, *sandbox_ids())
    script = """
mkdir -p leaf dep/bin && echo '{"name":"leaf","version":"1.0.0","main":"i.js"}' > leaf/package.json && echo 'module.exports = 41' > leaf/i.js && (cd leaf && npm pack --silent --offline)
echo '{"name":"dep","version":"1.2.3","main":"i.js","bin":{"dep":"bin/dep.js"}}' > dep/package.json && echo 'module.exports = () => 42' > dep/i.js && printf '#!/usr/bin/env node\\nconsole.log("bin", require("..")())\\n' > dep/bin/dep.js && chmod +x dep/bin/dep.js && (cd dep && npm pack --silent --offline)
mkdir app && cd app && echo '{"name":"app","version":"1.0.0"}' > package.json && npm install --offline --no-audit --no-fund --silent ../dep/dep-1.2.3.tgz ../leaf/leaf-1.0.0.tgz && node -e 'console.log(require("dep")(), require("leaf"))' && ./node_modules/.bin/dep && ls node_modules && rm -rf node_modules && npm ci --offline --no-audit --no-fund --silent && node -e 'console.log(require("dep")())'
"""
    got = tool_fence.run(
        ["/bin/bash", "-c", script], "npm", env={"HOME": str(where), "npm_config_update_notifier": "false"}, timeout=120
    ).ok()
    assert got.out.splitlines()[-5:] == ["42 41", "bin 42", "dep", "leaf", "42"], got.out


def build_wheel(path):
    """A wheel by hand: an archive with a package, its metadata and a list of files."""
    files = {
        "tinypkg/__init__.py": "def answer():\n    return 42\n",
        "tinypkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n",
        "tinypkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tinypkg-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tinypkg:main\n",
    }
    files["tinypkg/__init__.py"] += "def main():\n    print('entry', answer())\n"
    record = "".join(f"{name},,\n" for name in files) + "tinypkg-1.0.dist-info/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as z:
        for name, text in {**files, "tinypkg-1.0.dist-info/RECORD": record}.items():
            z.writestr(name, text)


def test_pip_installs_a_wheel_in_a_venv(work, tool_fence):
    if subprocess.run([PYTHON, "-c", "import venv, ensurepip"], capture_output=True).returncode != 0:
        pytest.skip("no python3-venv")
    wheel = work / "tinypkg-1.0-py3-none-any.whl"
    build_wheel(wheel)
    where = tool_fence.mnt / "pip"
    where.mkdir()
    os.chown(where, *sandbox_ids())
    script = f"""{PYTHON} -m venv v && . v/bin/activate && pip install -q --no-index --disable-pip-version-check {wheel} && python -c 'import tinypkg; print(tinypkg.answer())' && tiny && pip uninstall -qy tinypkg && ! python -c 'import tinypkg' 2>/dev/null && echo gone"""
    got = tool_fence.run(["/bin/bash", "-c", script], "pip", env={"HOME": str(where)}, timeout=180).ok()
    assert got.out.split() == ["42", "entry", "42", "gone"]


@pytest.mark.threads
def test_a_report_of_a_sanitizer_is_noticed(fence):
    """Only in its log: all that the fence was asked for came right."""
    f = fence()
    with open(f.log_path, "a") as log:
        log.write("WARNING: ThreadSanitizer: data race\n")
    assert f.stop() == 0
    assert "data race" in harness.reports.pop()


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
def test_eight_threads_hammer_one_tree(work, fence, served):
    """Counts at the end must add up, and no call may fail in a way that only a broken filesystem explains."""
    t = Tree(work / "base")
    for i in range(200):
        t.file(f"tree/d{i % 10}/f{i}", f"{i}\n" * 10)
    before = fingerprint(work / "base")
    f = fence(env={"AGENTFENSE_FAULT": served})
    seconds = "30" if LONG else "5"
    ran = f.run([tools_dir() / "probe_hammer", seconds, "8"], timeout=120)
    assert ran.code == 0, ran.out + ran.err
    assert f.alive(), f.log()
    assert f.sh("find tree -type f | sort | xargs cat >/dev/null && find . | wc -l").ok()
    listed = f.sh("find tree -printf '%p %y %s\\n' | sort").ok().out
    f.remount()
    assert f.sh("find tree -printf '%p %y %s\\n' | sort").ok().out == listed, "a remount shows another tree"
    assert fingerprint(work / "base") == before


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
def test_a_file_is_read_while_it_is_made(fence, served):
    """The maker writes past the page cache, the readers read from it: what a write has acknowledged they must all see."""
    f = fence(env={"AGENTFENSE_FAULT": served})
    ran = f.run([tools_dir() / "probe_making", "20" if LONG else "4", "1000", "3"], timeout=300)
    assert ran.code == 0, ran.out + ran.err
    reads, stale = (int(word) for word in ran.out.split() if word.isdigit())
    assert reads > 100 and stale == 0, ran.out


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
@pytest.mark.parametrize("layer", ["made", "base"])
def test_a_file_is_read_while_it_is_written_past_the_page_cache(work, fence, served, layer):
    """By O_DIRECT and io_submit, many blocks at once: when they are acknowledged, no page that was read meanwhile is left."""
    if layer == "base":
        Tree(work / "base").file("file", "old" * 1000)
    f = fence(env={"AGENTFENSE_FAULT": served})
    ran = f.run([tools_dir() / "probe_direct", "file", "200" if LONG else "20", "160", "3"], timeout=300)
    assert ran.code == 0, ran.out + ran.err
    reads, stale = (int(word) for word in ran.out.split() if word.isdigit())
    assert reads > 100 and stale == 0, ran.out
    assert f.sh("md5sum < file").out == run(["md5sum"], input=(f.delta / "data/file").read_bytes()).out


def big_directory(f, count):
    code = f"""
os.mkdir("big"); start = time.time()
for i in range({count}): os.close(os.open(f"big/f{{i:06}}", os.O_CREAT|os.O_WRONLY, 0o644))
made = time.time() - start; start = time.time()
names = os.listdir("big"); listed = time.time() - start
say(len(names), len(set(names)))
for i in range(0, {count}, 2): os.unlink(f"big/f{{i:06}}")
say(len(os.listdir("big")), exists("big/f000001"), exists("big/f000002"))
start = time.time(); put("big/last"); one = time.time() - start
say(made, listed, one)
"""
    return f.python(code, timeout=600).ok().out.splitlines()


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_large_directories(fence, count):
    f = fence(options=["--quota-inodes", "1000000"])
    got = big_directory(f, count)
    assert got[:2] == [f"{count} {count}", f"{count // 2} ok ENOENT"]
    f.remount()
    assert f.sh("ls -f big | wc -l").out.strip() == str(count // 2 + 3)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_large_directories_of_the_base(work, fence, count):
    (work / "base/big").mkdir(parents=True)
    for i in range(count):
        os.close(os.open(work / f"base/big/f{i:06}", os.O_CREAT | os.O_WRONLY, 0o644))
    f = fence(options=["--quota-inodes", "1000000"])
    got = (
        f.python(
            f"""
say(len(os.listdir("big")))
for i in range(0, {count}, 10): os.unlink(f"big/f{{i:06}}")
for i in range(100): put(f"big/n{{i}}")
say(len(os.listdir("big")), len(set(os.listdir("big"))))
""",
            timeout=300,
        )
        .ok()
        .out.split()
    )
    assert got == [str(count), str(count * 9 // 10 + 100)] + [str(count * 9 // 10 + 100)]


def test_hard_links_of_the_base_are_whole_or_apart(work, fence):
    """Two names of one inode in the base are shown as one file or as two; never as one in this respect and two in that."""
    Tree(work / "base").file("a", "linked\n").hard("a", "b")
    f = fence()
    got = f.python("""
one = os.stat("a").st_ino == os.stat("b").st_ino
say(one, os.stat("a").st_nlink, os.stat("b").st_nlink)
put("a", b"changed")
say(content("b") == b"changed", os.stat("a").st_ino == os.stat("b").st_ino)
os.unlink("a")
say(os.stat("b").st_nlink)
""").ok().out.split()
    assert got in (["True", "2", "2", "True", "True", "1"], ["False", "1", "1", "False", "False", "1"])


def test_setgid_of_a_directory_is_the_sandboxs_own(work, fence):
    """It lasts in the delta, and neither comes from the base nor is a change that somebody reviews."""
    Tree(work / "base").file("shared/file", "x").file("plain/file", "x")
    os.chmod(work / "base/shared", 0o2775)
    f = fence()
    show = "stat -c '%a %n' shared plain made made/in"
    f.sh("umask 022; chmod 2755 plain; mkdir made; chmod g+s made; mkdir made/in; echo y >> shared/file").ok()
    expected = "775 shared\n2755 plain\n2755 made\n2755 made/in\n"
    assert f.sh(show).ok().out == expected
    f.remount()
    assert f.sh(show).ok().out == expected
    f.stop()
    listed = subprocess.run([os.environ["AGENTFENSE"], "delta", "list", f.delta], capture_output=True, text=True)
    assert listed.returncode == 0 and "/made" in listed.stdout and "plain" not in listed.stdout, listed
    subprocess.run([os.environ["AGENTFENSE"], "delta", "export", f.delta, "--to", work / "out"], check=True, capture_output=True)
    assert [p for p in (work / "out").rglob("*") if p.stat().st_mode & 0o6000] == []


def test_inode_numbers_are_stable(work, fence):
    """Across copy-up, cache pressure and a remount."""
    t = Tree(work / "base")
    for i in range(50):
        t.file(f"d/f{i}", "x")
    f = fence()
    first = f.sh("find . -printf '%p %i\\n' | sort").out
    assert len({line.split()[-1] for line in first.splitlines()}) == len(first.splitlines())
    f.sh("for i in $(seq 0 49); do echo y >> d/f$i; done; chmod 700 d")
    assert f.sh("find . -printf '%p %i\\n' | sort").out == first
    f.remount()
    assert f.sh("find . -printf '%p %i\\n' | sort").out == first


def test_inode_numbers_of_what_is_made_and_moved_are_stable(work, fence):
    t = Tree(work / "base")
    t.file("kept", "k").file("saved", "s").file("tree/a/b", "b").file("one", "1").file("two/2", "2")
    f = fence()
    f.sh("""set -e
        echo new > new; mkdir -p made/deep; echo x > made/deep/x; ln -s new link; mkfifo pipe
        echo saved > .saved.tmp; mv .saved.tmp saved
        mv tree moved-tree; mv made/deep made/deeper; echo y > moved-tree/a/y
        ln kept kept-too; rm two/2; echo 3 > two/2; mv one two/one; echo 1 > one""").ok()
    f.python("exchange('new', 'moved-tree')").ok()
    show = "find . -printf '%p %i %n\\n' | sort"
    first = f.sh(show).ok().out
    f.remount()
    assert f.sh(show).ok().out == first
    f.sh("echo later > later; mkdir more; echo x > more/x; rm two/2").ok()
    second = f.sh(show).ok().out
    numbers = [line.split()[-2] for line in second.splitlines()]
    assert len(set(numbers)) == len(numbers) - 1, "only kept and kept-too are one"
    f.kill()
    f.start()
    assert f.sh(show).ok().out == second
