"""POSIX, by real tools: what they print behind a fence with full access is what they print on a plain filesystem. See test_posix.py."""

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from harness import PYTHON, Fence, fingerprint, run, sandbox_ids

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
