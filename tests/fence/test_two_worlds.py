"""Two worlds: what is hidden leaves no trace.

Every answer of the fence must be a function of the rules and of what is visible. So the same visible tree is mounted with
different hidden files beside it, the same programs run in each, everything they can observe is written down, and the
writings are compared byte for byte. Nothing is normalised but what differs between two moments of time: clock values of
the run itself (told apart as "at mount" and "after mount").

The base is one tree on a tmpfs that records no access times; only the hidden things in it are exchanged between runs, so
inode numbers and times of the visible files are the same in all worlds, and those of directories are deliberately not.
"""

import calendar
import difflib
import os
import re
import shutil
import subprocess
import threading
import time

import pytest
from inside import name_to_handle
from harness import (
    MS_NOATIME,
    OLD,
    PYTHON,
    Fence,
    Tree,
    fingerprint,
    limit_inotify,
    mount,
    run,
    sandbox_ids,
    tools_dir,
    umount,
    wait_until,
)

RULES = [
    "/**=write",
    "**/.env*=none",
    "**/*.key=none",
    "/secrets/**=none",
    "/secrets/public/**=read",
    "/vault/**=none",
    "/vault/open.txt=read",
    "/crypt/**=none",
    "/crypt/ok.txt=read",
    "/ro/**=read",
    "/ro/**/*.sec=none",
    "/viewonly/**=view",
    "/viewonly/**/*.sec=none",
    "ghost=none",
    "/maze/**=none",
    "/maze/**/exit.txt=read",
    "/burrow/**=none",
    "/burrow/**/exit.txt=read",
]

LONG_NAME = "n" * 255
ODD = [b"new\nline", b"\xff\xfe\xfd", b" lead and trail ", b"tab\tquote\"'\\", LONG_NAME.encode()]


def build_visible(root):
    t = Tree(root)
    t.file("README.md", "# read me\n").file("src/main.c", "int main(void) { return 0; }\n").file("src/util.c", "int util;\n")
    t.file("src/Makefile", "all:\n\ttrue\n").file("src/lib/a.py", "A = 1\n").file("src/lib/b.py", "B = 2\n")
    t.file("docs/guide.md", "guide\n" * 500).file("docs/img/logo.bin", bytes(range(256)) * 64)
    t.file("bin/tool", "#!/bin/sh\nexit 7\n", 0o755)
    t.link("README.md", "to-readme").link("secrets/token", "to-hidden").link(".env", "to-env").link("nowhere", "dangling")
    t.link("loop", "loop").link("secrets", "to-passage").link("src/../secrets/./deep", "to-deep")
    t.file("secrets/public/pub.txt", "public\n").file("vault/open.txt", "open\n")
    t.file("ro/data.txt", "read only\n").file("ro/sub/x.txt", "x\n")
    t.file("viewonly/a", "seen, not read\n").file("viewonly/b/c", "c\n")
    t.dir("half").dir("half2").dir("nest/inner").dir("lonely")
    t.file("hard1.txt", "twice\n").hard("hard1.txt", "hard2.txt")
    for i in range(60):
        t.file(f"many/f{i:03}", f"{i}\n")
    for name in ODD:
        t.file(b"odd/" + name, b"odd\n")
    t.file("maze/m/n/o/exit.txt", "out\n")
    os.setxattr(t.at("README.md"), "user.note", b"visible")
    make_repository(root / "repo")
    t.settle()


def make_repository(path):
    t = Tree(path)
    t.file("a.txt", "a\n").file("dir/b.txt", "b\n").file("dir/c.txt", "c\n").file(".gitignore", "*.o\n")
    env = {
        **os.environ,
        "GIT_AUTHOR_DATE": "@1600000000 +0000",
        "GIT_COMMITTER_DATE": "@1600000000 +0000",
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@example.org",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@example.org",
    }
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *args], cwd=path, env=env, check=True)
    t.file("dir/c.txt", "changed\n").file("new.txt", "new\n")


# What is hidden, by world. Each function puts its things in place; take_away() removes whatever any of them made.


def nothing(t):
    pass


def full(t):
    """Files and directories wherever a rule hides: siblings, contents, sizes, directory sizes and times. No other names of visible files: those
    are the exception (test_no_way_around.py)."""
    t.file(".env", "TOKEN=1\n" * 1000).file("src/.env.local", "x").file("src/lib/.envrc", "y" * 100000)
    t.file("secrets/token", "t").file("secrets/deep/er/than/that", "d").file("secrets/zz", "").file("secrets/public.key", "k")
    t.file("vault/gold", "g" * 5000).dir("vault/shelf").file("vault/shelf/bar", "b")
    t.file("crypt/bones", "b").file("crypt/deep/skull", "s")
    t.file("ro/x.sec", "s").file("ro/sub/y.sec", "s").file("viewonly/z.sec", "z")
    t.file("half/.env", "only child").file("half/server.key", "k").file("half2/.env.d/conf", "c")
    t.file("nest/inner/.env", "n").file("nest/inner/ghost/x", "g").file("lonely/ghost", "g")
    t.file("ghost/of/christmas", "past").file("src/ghost", "g").file("docs/ghost", "g", 0o755)
    t.file("repo/.env", "r").file("repo/dir/id.key", "k")
    for i in range(400):
        t.file(f"many/.env{i}", "m").file(f"many/{i:03}.key", "m")
    for i in range(150):
        t.file(f"maze/dead{i}/end", "e").file(f"maze/m/n/dead{i}/end", "e").file(f"burrow/dead{i}/end{i}", "e")
    t.file(b"odd/" + b"\xff.key", b"k").file("odd/" + "k" * 251 + ".key", "k")


def odd(t):
    """The same names as other kinds of things, closed modes, and other names beside them."""
    t.file(".env/inside/it", "d").link("../README.md", "src/.env.local").fifo("src/lib/.envrc")
    t.link("../README.md", "secrets/token").fifo("secrets/deep").dir("secrets/zz", 0).link("/", "secrets/public.key")
    t.dir("vault/gold").link("../src", "vault/shelf").file("crypt", "a file")
    t.file("ro/x.sec/d", "s").link("nowhere", "ro/sub/y.sec").dir("viewonly/z.sec")
    t.dir("half/.env").dir("half/server.key/deep").link("x", "half2/.env.d")
    t.fifo("nest/inner/.env").dir("nest/inner/ghost").link("../README.md", "lonely/ghost")
    t.link("README.md", "ghost").dir("src/ghost").file("docs/ghost", "#!/bin/sh\n", 0o4755)
    t.dir("repo/.env/.git").file("many/f0000.key", "k").file("burrow", "a file").link("m", "maze/dead0").dir("maze/m/dead1/m/n")


HIDDEN_WORLDS = {"nothing": nothing, "full": full, "odd": odd}
HIDDEN_NAMES = re.compile(rb"^(\.env.*|.*\.key|.*\.sec|ghost)$")


MAZE = (b"maze", b"maze/m", b"maze/m/n", b"maze/m/n/o", b"maze/m/n/o/exit.txt")


def take_away(root):
    """Removes all that the rules hide, however it came there."""
    root = os.fsencode(root)
    for top, dirs, files in os.walk(root, topdown=False):
        rel = os.path.relpath(top, root)
        for name in dirs + files:
            path = os.path.normpath(os.path.join(rel, name))
            first = path.split(b"/")[0]
            hidden = HIDDEN_NAMES.match(name) or first == b"crypt"
            hidden = hidden or (first == b"secrets" and path != b"secrets" and not (path + b"/").startswith(b"secrets/public/"))
            hidden = hidden or first == b"burrow" or (first == b"maze" and path not in MAZE)
            hidden = hidden or (first == b"vault" and path not in (b"vault", b"vault/open.txt"))
            full_path = os.path.join(top, name)
            if hidden and os.path.lexists(full_path):
                if os.path.isdir(full_path) and not os.path.islink(full_path):
                    shutil.rmtree(full_path)
                else:
                    os.unlink(full_path)


def mark_directories(root, when):
    """Hidden changes move the times of the directories they are made in: here to values that no other world has."""
    for top, dirs, files in os.walk(root, topdown=False):
        os.utime(top, ns=(when, when))


VISIBLE = [
    "README.md",
    "src",
    "src/main.c",
    "src/lib",
    "docs/guide.md",
    "bin/tool",
    "to-readme",
    "to-hidden",
    "to-env",
    "dangling",
    "loop",
    "to-passage",
    "to-deep",
    "secrets",
    "secrets/public",
    "secrets/public/pub.txt",
    "vault",
    "vault/open.txt",
    "ro",
    "ro/data.txt",
    "ro/sub",
    "viewonly",
    "viewonly/a",
    "viewonly/b",
    "viewonly/b/c",
    "half",
    "half2",
    "nest",
    "nest/inner",
    "lonely",
    "maze",
    "maze/m/n",
    "maze/m/n/o/exit.txt",
    "hard1.txt",
    "hard2.txt",
    "many",
    "odd/new\nline",
    "odd/" + LONG_NAME,
    ".",
]
HIDDEN = [
    ".env",
    "src/.env.local",
    "src/lib/.envrc",
    "secrets/token",
    "secrets/deep",
    "secrets/deep/er",
    "secrets/deep/er/than/that",
    "secrets/zz",
    "secrets/main.c",
    "secrets/public.key",
    "secrets/../.env",
    "vault/gold",
    "vault/shelf",
    "vault/shelf/bar",
    "crypt",
    "crypt/bones",
    "crypt/deep/skull",
    "crypt/ok.txt",
    "ro/x.sec",
    "ro/sub/y.sec",
    "viewonly/z.sec",
    "half/.env",
    "half/server.key",
    "half/server.key/deep",
    "half2/.env.d",
    "half2/.env.d/conf",
    "nest/inner/.env",
    "nest/inner/ghost",
    "nest/inner/ghost/x",
    "lonely/ghost",
    "ghost",
    "ghost/of",
    "src/ghost",
    "docs/ghost",
    "many/.env7",
    "many/007.key",
    "odd/" + "k" * 251 + ".key",
    ".env/inside/it",
    "maze/dead0",
    "maze/m/n/dead1/end",
    "burrow",
    "burrow/dead0",
    "burrow/exit.txt",
]
# Names that are hidden and exist in no world, and names that simply do not exist.
ABSENT = [
    ".env.absent",
    "src/none.key",
    "secrets/absent",
    "secrets/absent/child",
    "vault/absent",
    "crypt/absent",
    "ro/absent.sec",
    "viewonly/absent.sec",
    "half/ghost",
    "absent",
    "src/absent",
    "ro/absent",
    "viewonly/absent",
    "absent/child",
    ".wh.README.md",
    "src/.wh.main.c",
    "secrets/.wh.token",
    ".wh..wh..opq",
    "src/main.c/child",
    ".env/child",
    "x" * 256,
]
DIRECTORIES = [
    ".",
    "maze",
    "maze/m",
    "maze/m/n",
    "burrow",
    "maze/dead0",
    "src",
    "src/lib",
    "secrets",
    "secrets/public",
    "vault",
    "crypt",
    "ro",
    "ro/sub",
    "viewonly",
    "viewonly/b",
    "half",
    "half2",
    "nest",
    "nest/inner",
    "lonely",
    "many",
    "odd",
    "ghost",
    ".env",
    "secrets/deep",
    "docs",
    "repo",
]

SECTIONS = {
    "look": VISIBLE + HIDDEN + ABSENT,
    "open": VISIBLE + HIDDEN + ABSENT,
    "list": DIRECTORIES,
    "change": HIDDEN + ABSENT + VISIBLE[:-1],
    "cross": HIDDEN + ABSENT + [p for p in VISIBLE[:-1] if p not in ("src", "many")] + ["src", "many"],
    "socket": HIDDEN + ABSENT + VISIBLE[:-1],
    "destroy": HIDDEN + ABSENT + VISIBLE[:-1] + ["many/f001", "many"],
}

PROGRAMS = {
    "find": "find . | sort",
    "find unsorted": "find .",
    "find -ls": "find . -ls",
    "find printf": r"find . -printf '%p %i %n %s %b %k %m %u %g %T@ %C@ %y %Y %l\n'",
    "find -empty": "find . -empty",
    "find -newer": "find . -newer README.md",
    "find -links": "find . -links +1",
    "find by inode": "find . -samefile src/main.c; find . -samefile hard1.txt",
    "ls -laR": "ls -laR --time-style=full-iso .",
    "ls -laiU": "ls -laiU --time-style=full-iso . src secrets vault many half",
    "ls of hidden": "ls -la .env secrets/token crypt ghost src/ghost 2>&1",
    "globs": "echo *; echo .*; echo */*; echo secrets/* vault/* crypt/* half/* half/.* .e* gh*",
    "test": "for p in .env ghost secrets secrets/token crypt src; do for t in -e -f -d -r -w -x -s -h -p; do test $t $p; echo $p $t $?; done; done",
    "stat of everything": "find . -exec stat -c '%n %A %a %b %B %f %F %g %h %i %o %s %t %T %u %W %X %Y %Z' {} +",
    "stat -f": "stat -f . src secrets vault half; stat -f .env",
    "df": "df -k . | tail -n1 | awk '{print $2,$3,$4}'; df -i . | tail -n1 | awk '{print $2,$3,$4}'",
    "du": "du -a .; du -ab .; du -s --inodes .; du -l .",
    "tar": "tar --mtime=@0 --sort=name -cf - . | sha256sum; tar -cf - . | tar -tvf - --full-time",
    "tar over directories with hidden": "tar cf - half half2 nest lonely ghost 2>&1 | tar tf -",
    "cpio": "find . -depth -print0 | sort -z | cpio -0 -o -H newc --quiet 2>/dev/null | cpio -itv --quiet | awk '{print $1,$2,$3,$4,$5,$9}'",
    "rsync -n": 'rsync -nrlpti --delete ./ "$SCRATCH/rsync-target/"; rsync -nrv . "$SCRATCH/x/" | grep -v -e sent -e speedup',
    # An ordinary user cannot write into the copies of closed directories: the names of rsync's temporary files are random.
    "rsync": r'rsync -rlpt --exclude viewonly ./ "$SCRATCH/copy/" 2>&1 | sed -E "s/[.][[:alnum:]]{6}\" failed/\" failed/"; rsync -rlptcni ./ "$SCRATCH/copy/"; find "$SCRATCH/copy" | sort | md5sum',
    "cp -a": 'cp -a . "$SCRATCH/cpa" 2>&1; cd "$SCRATCH/cpa" && find . -printf "%p %m %s %n %y %l\\n" | grep -v " d " | sort',
    "md5sum": "find . -type f -print0 | sort -z | xargs -0 md5sum 2>&1",
    "grep -r": "grep -rc . . 2>&1; grep -r TOKEN . 2>&1",
    "cat of hidden": "cat .env secrets/token ghost vault/gold src/.env.local to-hidden to-env to-deep 2>&1",
    "python walk": PYTHON
    + " -c \"import os\nfor t,d,f in os.walk(b'.'):\n for e in os.scandir(t):\n  s=e.stat(follow_symlinks=False); print(t,e.name,e.inode(),e.is_dir(),e.is_file(),e.is_symlink(),s.st_size,s.st_nlink,s.st_mode,s.st_mtime_ns if not e.is_dir(follow_symlinks=False) else 0)\"",
    "python glob": PYTHON
    + " -c \"import glob,pathlib\nprint(glob.glob('**',recursive=True,include_hidden=True))\nprint(sorted(pathlib.Path('.').rglob('*.key')))\"",
    "python import": "cd src/lib && " + PYTHON + " -c \"import sys; sys.path.insert(0, '.'); import a, b; print(a.A, b.B)\"",
    "git status": "cd repo && git status --porcelain=v2 --ignored --untracked-files=all 2>&1",
    "git log": "cd repo && git log --stat 2>&1; git diff; git ls-files -o; git ls-files -s; git fsck 2>&1",
    "git add and commit": "cd repo && export GIT_AUTHOR_DATE='@1600000000 +0000' GIT_COMMITTER_DATE='@1600000000 +0000' && git add -A 2>&1; git -c user.name=t -c user.email=t@example.org commit -qm second 2>&1; git log --format='%H %T' 2>&1; git show --stat; git status -s",
    "git add of hidden": "cd repo && git add .env dir/id.key 2>&1; git status -s; git check-ignore -v .env; git clean -nxd",
    "git stash and clean": "cd repo && export GIT_AUTHOR_DATE='@1600000000 +0000' GIT_COMMITTER_DATE='@1600000000 +0000' && git -c user.name=t -c user.email=t@example.org stash -u 2>&1 | cut -c1-40; git status -s; git clean -fdx; git stash pop 2>&1; ls -la --time-style=+",
    "git init over hidden": "cd half && git init -q -b main . && git add -A && git status -s && rm -rf .git && ls -la --time-style=+",
    "touch hidden": "for p in .env src/x.key secrets/new secrets/token vault/new crypt crypt/x ghost ghost/x half/.env; do touch $p 2>&1; echo $?; done",
    "write hidden": "for p in .env src/x.key secrets/new vault/gold crypt/x ghost half/.env; do echo x > $p; echo $?; echo x >> $p; echo $?; done 2>&1",
    "mkdir -p hidden": "for p in .env src/x.key secrets/new/er secrets/deep/er/x vault/shelf crypt crypt/deep ghost/of/x half/.env.d; do mkdir -p $p 2>&1; echo $?; done",
    "mv onto hidden": "cp README.md r; for p in .env src/x.key secrets/token vault/gold crypt ghost half/server.key; do mv r $p 2>&1; echo $?; mv -n r $p 2>&1; echo $?; done; rm -f r",
    "mv from hidden": "for p in .env src/x.key secrets/token secrets/deep vault/gold crypt ghost half/server.key; do mv $p taken 2>&1; echo $?; done; ls taken",
    "ln of hidden": "for p in .env secrets/token vault/gold crypt ghost; do ln $p taken 2>&1; echo $?; ln README.md $p 2>&1; echo $?; ln -s README.md $p 2>&1; echo $?; done",
    "rm of hidden": "for p in .env secrets/token secrets/deep vault/gold crypt ghost half/.env; do rm -rf $p 2>&1; echo $?; rm $p 2>&1; echo $?; rmdir $p 2>&1; echo $?; done",
    "rmdir over hidden": "rmdir half half2 lonely 2>&1; echo $?; rmdir nest/inner nest 2>&1; echo $?; ls -la --time-style=+ half nest 2>&1; mkdir half nest && ls -la --time-style=+ half nest; stat -c '%n %s %h %i' half nest",
    "rm -rf over hidden": "rm -rf half nest src many docs 2>&1; echo $?; ls; ls -la --time-style=+ src 2>&1; mkdir -p src/lib && ls -Ra src",
    "rm -rf of everything": "rm -rf ./* 2>&1 | sort; ls -aR",
    "mv directories over hidden": "mkdir e; mv -T e half 2>&1; echo $?; mkdir e; mv -T e lonely 2>&1; echo $?; mv half moved 2>&1; echo $?; mv src moved-src 2>&1; echo $?; mv many moved-many; echo $?; ls -aR | md5sum; ls",
    "mv of a tree without hidden": "mkdir -p t/u && echo x > t/u/f && mv t v && cat v/u/f && mv v src/v && find src; mv src/v secrets/v 2>&1; mv src/v half/.env 2>&1; find half",
    "chmod -R": "chmod -R u+w,go-w . 2>&1; chmod -R 700 half nest src 2>&1; find . -printf '%p %m\\n'",
    "chown": "chown -R $(id -u):$(id -g) . 2>&1; chown 0 README.md 2>&1; echo $?",
    "cp over": "cp -r src src2 && find src2 && cp -r secrets s2 && find s2; cp -rl docs d2 && find d2 -links 2",
    "sed -i": "sed -i s/read/write/ README.md && cat README.md; sed -i s/x/y/ .env src/ghost 2>&1; ls -a",
    "make": "make -s -C src 2>&1; make -s -C half 2>&1 | head -1",
    "sh cd": "cd secrets && pwd && ls -a && cd .. && cd vault/../secrets/public && pwd; cd ../deep 2>&1; cd ../../crypt 2>&1; cd ../ghost 2>&1; pwd",
    "realpath": "realpath to-hidden to-env to-deep to-passage dangling secrets/../.env 2>&1; readlink -f to-deep; readlink -e to-hidden 2>&1; namei to-hidden .env 2>&1",
    "exec hidden": "./docs/ghost 2>&1; sh ./ghost 2>&1; ./bin/tool; echo $?",
    "locks": "flock -n README.md echo locked; flock -n .env echo locked 2>&1; flock -n ghost true 2>&1",
    "mkfifo": "mkfifo secrets/deep src/lib/.envrc p 2>&1; ls -l --time-style=+ p; rm p",
    "fill a directory": "cd many && for i in $(seq 50); do echo $i > n$i; done; ls -f | wc -l; ls -fi; rm -f n*; cd .. && rmdir many 2>&1; rm -rf many; ls many 2>&1",
    "truncate": "truncate -s 5 README.md .env secrets/token ghost 2>&1; wc -c README.md",
    "xattrs": "getfattr -d README.md src secrets .env 2>&1; setfattr -n user.x -v y .env 2>&1; setfattr -n user.x -v y secrets 2>&1; setfattr -n user.x -v y src && getfattr -d src",
    "diff -r": "mkdir e && diff -r half e && diff -r lonely e; echo $?; diff -rq src docs | sort",
    "sqlite": 'command -v sqlite3 >/dev/null && sqlite3 half/x.db "pragma journal_mode=wal; create table t(a); insert into t values(1); select * from t;" && ls -a half',
    "watch": PYTHON
    + " -c \"import ctypes,os;l=ctypes.CDLL(None);f=l.inotify_init1(2048)\nfor p in (b'.',b'secrets',b'half',b'many'): print(l.inotify_add_watch(f,p,0xfff)>0)\nopen('w1','w').close();os.rename('w1','half/w2');os.unlink('half/w2')\ntry: d=os.read(f,9999); print([(d[i:i+8],d[i+16:i+32]) for i in range(0,len(d),32)])\nexcept OSError as e: print(e)\"",
}


CLOCK_REALTIME_COARSE = 5  # by which the kernel stamps files; Python has no name for it


def pass_tick():
    """Returns when whatever is stamped next gets a later time than whatever was stamped before."""
    now = time.time_ns()
    while time.clock_gettime_ns(CLOCK_REALTIME_COARSE) <= now:
        time.sleep(0.001)


class Worlds:
    def __init__(self, work, wanted=()):
        self.work = work
        self.wanted = wanted  # the names that will be compared with the world without hidden files
        self.store = work / "store"
        self.store.mkdir()
        mount("tmpfs", self.store, "tmpfs", MS_NOATIME, "mode=755")
        self.base = self.store / "base"
        build_visible(self.base)
        self.world = None
        self.seen = {}

    def enter(self, world):
        if self.world != world:
            take_away(self.base)
            HIDDEN_WORLDS[world](Tree(self.base))
            mark_directories(self.base, OLD + 86_400_000_000_000 * (1 + list(HIDDEN_WORLDS).index(world)))
            self.world = world

    def fence(self, rules=RULES, options=()):
        delta, scratch = self.store / "delta", self.store / "scratch"
        for d in (delta, scratch):
            shutil.rmtree(d, ignore_errors=True)
            d.mkdir()
        os.chown(scratch, *sandbox_ids())
        return Fence(
            self.work,
            base=self.base,
            delta=delta,
            rules=rules,
            options=["--quota", "1G", *options],
            mountpoint=self.work / "at" / "mnt",
        )

    def record(self, world, name, rules=RULES, options=(), churn=None):
        """Everything that section or program `name` observes in `world`, as lines."""
        self.enter(world)
        with self.fence(rules, options) as f:
            pass_tick()  # so that no clock tick of the mount lies after PROBE_READY
            ready = time.time_ns()
            pass_tick()
            with Churn(self.base) if churn else NoChurn():
                got = self.observe(f, name, ready)
        return self.normal(got, f.started_ns, ready)

    def observe(self, f, name, ready):
        env = {
            "PROBE_START": str(f.started_ns),
            "PROBE_READY": str(ready),
            "SCRATCH": str(self.store / "scratch"),
            "HOME": str(self.store / "scratch"),
        }
        if name in SECTIONS:
            ran = f.run([tools_dir() / "probe", name, *SECTIONS[name]], env=env)
            assert ran.code == 0, ran.err
        else:
            ran = f.sh(PROGRAMS[name], env=env)
        assert f.alive(), "the fence died: " + f.log()
        return ran.stdout + b"--- stderr\n" + ran.stderr + b"--- code %d\n" % ran.code

    def normal(self, raw, start, ready):
        text = raw.decode("utf-8", "backslashreplace")

        def label(ns):
            return None if ns < start else "<mount>" if ns <= ready else "<run>"

        def moment(seconds, fraction, text):
            if not fraction:  # whole seconds cannot tell the mount from what came after it
                return "<lately>" if seconds >= start // 10**9 else text
            return label(seconds * 10**9 + int(fraction[1:].ljust(9, "0")[:9])) or text

        def absolute(m):
            return moment(calendar.timegm(time.strptime(m[1], "%Y-%m-%d %H:%M:%S")), m[2], m[0])

        def epoch(m):
            return moment(int(m[1]), m[2], m[0])

        text = re.sub(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d+)?", absolute, text)
        text = re.sub(r"\b(1[6-9]\d{8})(\.\d+)?\b", epoch, text)
        # find -ls and others print recent times as "Nov 15 22:00"; a minute is all they tell, and it is that of the run.
        now = {time.strftime("%b %e %H:%M", time.gmtime(t / 1e9 + s)) for t in (start, ready) for s in range(0, 120, 30)}
        for moment in now:
            text = text.replace(moment, "<lately>")
        return text.splitlines()

    def recall(self, world, name, names, rules=RULES):
        """A record that is made once, together with those of `names`: changing worlds takes as long as many records."""
        for each in names if (world, name, *rules) not in self.seen else ():
            if (world, each, *rules) not in self.seen:
                self.seen[(world, each, *rules)] = self.record(world, each, rules)
        return self.seen[(world, name, *rules)]

    def compare(self, name, world):
        return differences(self.recall("nothing", name, self.wanted), self.record(world, name))


def differences(one, other):
    if one == other:
        return []  # without a search for what they have in common, which takes long
    return [line for line in difflib.unified_diff(one, other, "without hidden files", "with them", n=0, lineterm="")]


def assert_same(diff):
    assert not diff, f"{sum(1 for d in diff if d[:1] in '+-') - 2} lines differ:\n" + "\n".join(diff[:60])


class NoChurn:
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


class Churn:
    """Hidden things that come and go in the base, some hundred times a second, while others look."""

    def __init__(self, base):
        self.tree = Tree(base)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.rounds = 0

    def work(self):
        paths = [
            ".env",
            "src/.env.local",
            "secrets/token",
            "vault/gold",
            "half/.env",
            "ghost",
            "many/.env7",
            "ro/x.sec",
            "repo/.env",
        ]
        while not self.stop.is_set():
            self.rounds += 1
            for path in paths:
                self.tree.file(path, "flicker" * (self.rounds % 50))
            os.makedirs(self.tree.at("crypt/deep"), exist_ok=True)
            os.makedirs(self.tree.at("nest/inner/ghost"), exist_ok=True)
            os.rename(self.tree.at("half/.env"), self.tree.at("half/server.key"))
            time.sleep(0.001)
            os.unlink(self.tree.at("half/server.key"))
            for path in paths:
                if path != "half/.env":
                    os.unlink(self.tree.at(path))
            shutil.rmtree(self.tree.at("crypt"))
            os.rmdir(self.tree.at("nest/inner/ghost"))
            time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.rounds > 1 or not self.thread.is_alive())
        return self

    def __exit__(self, *exc):
        failed = not self.thread.is_alive()
        self.stop.set()
        self.thread.join()
        assert self.rounds > 1 and not failed


@pytest.fixture(scope="module")
def worlds(request, module_work):
    w = Worlds(module_work, [item.callspec.params["compared"] for item in request.session.items
                             if "compared" in getattr(getattr(item, "callspec", None), "params", ())])
    yield w
    umount(w.store)


# The last decorator varies slowest: one world after the other.


@pytest.mark.parametrize("compared", SECTIONS)
@pytest.mark.parametrize("world", ["full", "odd"])
def test_no_system_call_tells_what_is_hidden(worlds, compared, world):
    assert_same(worlds.compare(compared, world))


@pytest.mark.parametrize("compared", PROGRAMS)
@pytest.mark.parametrize("world", ["full", "odd"])
def test_no_program_tells_what_is_hidden(worlds, compared, world):
    assert_same(worlds.compare(compared, world))


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_tells_of_hidden_files_that_come_and_go(worlds, section):
    still = worlds.record("nothing", section, options=["--live"])
    assert_same(differences(still, worlds.record("nothing", section, options=["--live"], churn=True)))


@pytest.mark.parametrize(
    "program",
    [
        "find printf",
        "ls -laR",
        "git status",
        "tar",
        "du",
        "rmdir over hidden",
        "watch",
        "rm -rf over hidden",
        "mv directories over hidden",
        "python walk",
    ],
)
def test_no_program_tells_of_hidden_files_that_come_and_go(worlds, program):
    still = worlds.record("nothing", program, options=["--live"])
    assert_same(differences(still, worlds.record("nothing", program, options=["--live"], churn=True)))


@pytest.mark.own_limits
@pytest.mark.parametrize("what", [*SECTIONS, "ls -laR", "git status", "rmdir over hidden", "watch", "mv directories over hidden"])
def test_nothing_tells_of_them_where_nothing_is_watched(worlds, what):
    limit_inotify("instances", 0)
    still = worlds.record("nothing", what, options=["--live"])
    assert_same(differences(still, worlds.record("nothing", what, options=["--live"], churn=True)))


def test_a_passage_is_the_same_whatever_hidden_comes_and_goes_while_it_is_searched(module_work):
    """Its search takes long, and each change of a hidden name in it begins another. The last names of a tmpfs are those made first."""
    work = module_work / "searched"
    work.mkdir()
    mount("tmpfs", work, "tmpfs", 0, "mode=755")
    tree = Tree(work / "base").file("secrets/public/pub.txt", "public\n")
    for i in range(3000):
        tree.file(f"secrets/token{i}")
    done = threading.Event()

    def flicker():
        while not done.is_set():
            tree.file("secrets/flicker")
            os.unlink(tree.at("secrets/flicker"))

    def described():
        handle, st = name_to_handle("secrets"), os.stat("secrets")
        return f"{bytes(handle.data[:handle.bytes]).hex()} {st.st_ino} {st.st_mode} {st.st_nlink} {os.listdir('secrets')}"

    def look():
        with Fence(work, rules=RULES, options=["--live"]) as f:
            return f.call(described)

    still = look()
    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        assert [look() for _ in range(10)] == [still] * 10
    finally:
        done.set()
        thread.join()
        umount(work)


def test_the_base_is_as_it_was_after_all_of_it(worlds):
    worlds.enter("full")
    before = fingerprint(worlds.base)
    for name in ("change", "cross", "destroy", "rm -rf of everything", "rmdir over hidden"):
        worlds.record("full", name)
    assert fingerprint(worlds.base) == before


# The harness itself: it must see what it is there to see.


LOOSE = [*SECTIONS, "find", "ls -laR", "git status", "tar", "touch hidden", "rmdir over hidden"]


@pytest.mark.parametrize("name", LOOSE)
def test_self_a_forgotten_rule_is_noticed(worlds, name):
    loose = [r for r in RULES if not r.endswith("=none") and "/" in r]
    assert worlds.recall("nothing", name, LOOSE, loose) != worlds.recall("full", name, LOOSE, loose)


def test_self_one_nanosecond_of_a_visible_file_is_noticed(worlds):
    path = worlds.base / "README.md"
    try:
        one = worlds.record("nothing", "look")
        os.utime(path, ns=(OLD, OLD + 1))
        assert one != worlds.record("nothing", "look")
    finally:
        os.utime(path, ns=(OLD, OLD))


def test_self_the_same_world_twice_is_the_same(worlds):
    for name in ("look", "list", "change", "ls -laR"):
        assert_same(differences(worlds.record("full", name), worlds.record("full", name)))


@pytest.mark.no_fence
def test_self_without_a_fence_every_section_differs(module_work):
    """On the bare directory the probe must tell the worlds apart in each section: else it looks at nothing."""
    store = module_work / "bare"
    store.mkdir()
    mount("tmpfs", store, "tmpfs", MS_NOATIME, "mode=755")
    for world in ("nothing", "full"):
        build_visible(store / world)
        HIDDEN_WORLDS[world](Tree(store / world))
        subprocess.run(["chown", "-R", "{}:{}".format(*sandbox_ids()), store / world], check=True)
    for section, paths in SECTIONS.items():
        records = []
        for world in ("nothing", "full"):
            shutil.rmtree(store / "root", ignore_errors=True)
            subprocess.run(["cp", "-a", store / world, store / "root"], check=True)
            ran = run([tools_dir() / "probe", section, *paths], cwd=store / "root")
            records.append(re.sub(r"statfs .*|ino=\d+|off=-?\d+|time=[\d.]+|(seek|tell|then) -?\d+", "", ran.out).splitlines())
        assert records[0] != records[1], section
    umount(store)
