"""Live bases that nobody watches for us: no inotify instance, no more watches, a file system that others change by another way. What
they change is seen within about a second, and nothing hidden is told by it."""

import contextlib
import functools
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from harness import LONG, Fence, Tree, background, is_mountpoint, limit_inotify, umount, wait_until

pytestmark = pytest.mark.own_limits

# The fence looks every ROUND; LONG has the second that people have. A_SECOND is that and a little more.
ROUND = 1 if LONG else 0.1
A_SECOND = ROUND + (0.6 if LONG else 0.2)


FAULT = {} if LONG else {"AGENTFENSE_FAULT": "quick-rounds"}


class Late(Exception):
    """A change was not seen within A_SECOND, which a busy machine may cause."""


class Base:
    """A live base of one kind. Its owner works in `own`, the fence is over `seen`."""

    def __init__(self, work, kind, pause=A_SECOND):
        self.work, self.kind, self.pause = work, kind, pause
        self.seen = work / "base"
        self.own = work / "own" if kind == "remote" else self.seen
        for path in (self.seen, self.own):
            path.mkdir(exist_ok=True)
        self.tree = Tree(self.own)
        self.child = None

    def look_once(self, f, look, want):
        """The first look after a second finds everything: nothing may depend on somebody having looked before."""
        time.sleep(self.pause)
        got = look()
        assert f.alive(), f.log()
        self.expect(got, want)

    def expect(self, got, want):
        """For what shows whether a change was seen within `pause`."""
        if got != want and self.pause == A_SECOND:
            raise Late
        assert got == want

    def put(self, path, text):
        (self.own / path).write_text(text)

    def replace(self, path, text):
        self.put(path + ".new", text)
        os.rename(self.own / (path + ".new"), self.own / path)

    def __enter__(self):
        if self.kind == "instances":
            limit_inotify("instances", 0)
        elif self.kind == "watches":
            limit_inotify("watches", 0)
        elif self.kind == "remote":
            options = "attr_timeout=0,entry_timeout=0,negative_timeout=0"
            self.child = subprocess.Popen(["bindfs", "-f", "-o", options, self.own, self.seen], stderr=subprocess.DEVNULL)
            assert wait_until(lambda: is_mountpoint(self.seen), 10)
        return self

    def __exit__(self, *exc):
        if self.child:
            umount(self.seen)
            self.child.terminate()
            self.child.wait()


def patiently(test):
    """For look_once() and expect(). A test whose change was seen late begins anew, and then has so much time that no machine is that slow."""

    @functools.wraps(test)
    def attempt(base):
        try:
            return test(base)
        except Late:
            return test(make_base(base.work / "again", base.kind, 20))

    return attempt


def make_base(work, kind, pause=A_SECOND):
    work.mkdir(mode=0o755, exist_ok=True)
    made = Base(work, kind, pause)
    made.tree.file("a", "a\n").file("d/b", "b\n")
    return made


@pytest.fixture(params=["instances", "watches", "remote"])
def base(request, work):
    return make_base(work, request.param)


@contextlib.contextmanager
def unwatched_fence(base, **kw):
    with base, Fence(base.work, options=["--live"], env=FAULT, **kw) as f:
        yield f


@patiently
def test_one_look_a_second_later_sees_every_change(base):
    t = base.tree.file("d/old", "old").file("gone", "g").file("to-move", "m").link("a", "l").file("e/f/g", "deep").dir("empty")
    with unwatched_fence(base) as f:
        everything = "find . -type f | sort | xargs cat; ls -laR; cat absent d/absent; readlink l"
        f.sh(everything)
        f.sh(everything)
        base.put("a", "longer than before\n")
        base.replace("d/b", "replaced\n")
        t.file("d/new", "new").file("absent", "now here")
        os.unlink(t.at("gone"))
        os.rename(t.at("to-move"), t.at("d/moved"))
        t.file("n/e/w/f", "deep")
        os.unlink(t.at("l"))
        os.symlink("d", t.at("l"))
        os.chmod(t.at("d/old"), 0o755)
        os.chmod(t.at("empty"), 0o700)
        shutil.rmtree(t.at("e"))
        t.file("e/f/h", "another")
        show = (
            "cat a d/b d/new absent d/moved n/e/w/f; echo; readlink l; stat -c %a d/old empty; ls . d e/f; "
            "cat gone e/f/g 2>/dev/null"
        )
        want = "longer than before\nreplaced\nnewnow heremdeep\nd\n755\n700\n"
        want += ".:\na\nabsent\nd\ne\nempty\nl\nn\n\nd:\nb\nmoved\nnew\nold\n\ne/f:\nh\n"
        base.look_once(f, lambda: f.sh(show).out, want)


# readdir(3) of an open stream: Python's own opens anew and asks for attributes.
KEEPS_OPEN = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.readdir.argtypes = libc.rewinddir.argtypes = [ctypes.c_void_p]
held = os.open("a", os.O_RDONLY)
stream = libc.opendir(b".")

def names():
    libc.rewinddir(stream)
    while entry := libc.readdir(stream):
        name = ctypes.string_at(entry + 19).decode()
        if name not in (".", ".."):
            yield name

for line in sys.stdin:
    print(os.pread(held, 4, 0).decode(), *sorted(names()), flush=True)
"""


def test_who_keeps_a_file_and_a_directory_open_sees_changes(base):
    """Such a process sends no message: pages and listings that are cached have to be taken from it."""
    base.put("a", "old!")
    with unwatched_fence(base) as f, background(["/usr/bin/python3", "-c", KEEPS_OPEN], f.mnt, text=True) as child:

        def look():
            child.stdin.write("\n")
            child.stdin.flush()
            return child.stdout.readline().split()

        assert look() == ["old!", "a", "d"]
        assert look() == ["old!", "a", "d"]
        base.put("a", "new!")
        base.put("b", "")
        assert wait_until(lambda: look() == ["new!", "a", "b", "d"]), look()
        if base.kind == "remote" or LONG:
            time.sleep(11 * ROUND)  # nobody looks after what was read so long ago: the patrol has left it
        base.put("a", "NEW!")
        os.unlink(base.own / "b")
        assert wait_until(lambda: look() == ["NEW!", "a", "d"]), look()


def test_a_file_that_grows_is_never_padded(base):
    """A new size over a page of the old content would show zeros."""
    with unwatched_fence(base) as f:
        text = "start\n"
        for i in range(12):
            text += f"line {i}\n" * (i + 1)
            base.put("a", text)

            def look():
                seen = f.sh("cat a; stat -c %s a; cat a")
                assert b"\0" not in seen.stdout
                return seen.out == f"{text}{len(text)}\n{text}"

            assert wait_until(look), i


def test_writing_to_a_file_that_changed_keeps_what_changed(base):
    base.put("a", "one two")
    code = "import os, sys; fd = os.open('a', os.O_RDWR); os.pread(fd, 7, 0); print('open', flush=True); "
    code += "sys.stdin.readline(); print(os.pwrite(fd, b'X', 0), flush=True); sys.stdin.readline()"
    with unwatched_fence(base) as f, background(["/usr/bin/python3", "-c", code], f.mnt, text=True) as child:
        assert child.stdout.readline() == "open\n"
        base.put("a", "ONE TWO")
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        assert wait_until(lambda: f.sh("cat a").out == "XNE TWO"), f.sh("cat a").out
        assert (base.own / "a").read_text() == "ONE TWO"


@patiently
def test_a_write_to_a_file_that_was_replaced_does_not_cover_the_new_one(base):
    code = "import os, sys; fd = os.open('a', os.O_RDWR); os.pread(fd, 7, 0); print('open', flush=True); "
    code += "sys.stdin.readline(); print(os.pwrite(fd, b'X', 0), flush=True); sys.stdin.readline()"
    with unwatched_fence(base) as f, background(["/usr/bin/python3", "-c", code], f.mnt, text=True) as child:
        assert child.stdout.readline() == "open\n"
        time.sleep(0.1)
        base.replace("a", "theirs")
        time.sleep(base.pause)
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        base.expect(f.sh("cat a").out, "theirs")


HIDDEN = ["/**=write", "**/.env=none", "/secret/**=none", "/crypt/**=none", "/crypt/**/ok.txt=read"]


def test_hidden_changes_leave_no_trace(base):
    base.tree.file("d/.env", "x").file("secret/s", "s").file("half/.env", "x")
    look = "stat -c '%n %s %h %i %X %Y %Z' . d half a d/b; ls -la --time-style=full-iso . d half; cat a; ls secret .env d/.env"
    with unwatched_fence(base, rules=HIDDEN) as f:
        f.sh("echo mine > d/b").ok()  # a name the delta covers is no change either
        before, time_of_d = f.sh(look).out, f.sh("stat -c %y d").out
        for i in range(3):
            base.replace("d/.env", str(i))
            base.put(".env", str(i))
            base.tree.file(f"secret/{i}", "x")
            os.unlink(base.own / "half/.env")
            time.sleep(1.2 * ROUND)
            assert f.sh(look).out == before
            base.put("half/.env", "again")
            os.unlink(base.own / ".env")
            time.sleep(1.2 * ROUND)
            assert f.sh(look).out == before
        base.put("d/visible", "x")
        assert wait_until(lambda: f.sh("stat -c %y d").out != time_of_d), "a visible change moves the time"
        assert f.sh("ls d").out == "b\nvisible\n"


def is_traced(pid):
    """Every thread of it."""
    with contextlib.suppress(OSError):  # one has ended while we look
        return all("TracerPid:\t0\n" not in status.read_text() for status in Path(f"/proc/{pid}/task").glob("*/status"))


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_names_ruled_none_cost_no_look_at_the_base(base):
    with unwatched_fence(base, rules=HIDDEN) as f:
        f.sh("ls -laR").ok()
        trace = base.work / "trace"
        calls = ["strace", "-f", "-qq", "-e", "trace=newfstatat,statx,openat", "-o", trace, "-p", str(f.process.pid)]
        with subprocess.Popen(calls, stderr=subprocess.PIPE) as tracer:
            assert wait_until(lambda: is_traced(f.process.pid) or tracer.poll() is not None) and tracer.poll() is None
            for _ in range(3):
                f.sh("cat .env d/.env secret/x secret a d/b")
                time.sleep(1.1 * ROUND)
            tracer.terminate()
        text = trace.read_text()
        assert '"b"' in text, "what is visible is looked at"
        assert "secret" not in text and ".env" not in text, text


def test_a_passage_comes_and_goes(base):
    (base.own / "crypt/deep").mkdir(parents=True)

    def inside(expected, what="ls . crypt crypt/deep 2>/dev/null"):
        assert wait_until(lambda: f.sh(what).out == expected), (f.sh(what).out, expected)

    nothing = ".:\na\nd\n"
    with unwatched_fence(base, rules=HIDDEN) as f:
        inside(nothing)
        base.put("crypt/deep/ok.txt", "x")
        inside(".:\na\ncrypt\nd\n\ncrypt:\ndeep\n\ncrypt/deep:\nok.txt\n")
        base.tree.file("crypt/late/token", "x")
        time.sleep(A_SECOND)
        inside("deep\n", "ls crypt")
        base.put("crypt/late/ok.txt", "x")
        inside("deep\nlate\n", "ls crypt")
        shutil.rmtree(base.own / "crypt")
        inside(nothing)
        base.tree.file("crypt/token", "x")
        time.sleep(A_SECOND)
        inside(nothing)


@patiently
def test_who_stands_in_a_directory_does_not_follow_it_into_hiding(base):
    base.tree.dir("secret").file("p/q/file", "x")
    code = "import os, sys; print('in', flush=True)\n"
    code += "for line in sys.stdin: print(*sorted(os.listdir('.')), os.path.exists('leaked'), flush=True)"
    with unwatched_fence(base, rules=HIDDEN) as f, background(["/usr/bin/python3", "-c", code], f.mnt / "p/q", text=True) as child:
        assert child.stdout.readline() == "in\n"

        def look():
            child.stdin.write("\n")
            child.stdin.flush()
            return child.stdout.readline().split()

        assert look() == ["file", "False"]
        os.rename(base.own / "p", base.own / "secret/p")
        base.put("secret/p/q/leaked", "x")
        base.look_once(f, look, ["False"])
        assert f.alive()


@patiently
def test_what_the_sandbox_changed_hides_later_changes(base):
    with unwatched_fence(base) as f:
        f.sh("echo mine > a; rm d/b; mkdir n; echo n > n/n").ok()
        base.put("a", "theirs")
        base.put("d/b", "theirs")
        base.put("d/c", "c\n")
        base.look_once(f, lambda: f.sh("cat a; ls d; cat d/c n/n").out, "mine\nc\nc\nn\n")


@pytest.mark.parametrize("base", ["watched", "instances", "remote"], indirect=True)
@patiently
def test_a_second_life_sees_changes_in_directories_the_delta_shares(base):
    with base:
        with Fence(base.work, options=["--live"], env=FAULT) as f:
            f.sh("echo mine > d/mine").ok()
        with Fence(base.work, options=["--live"], env=FAULT) as f:
            assert f.sh("ls d; cat d/b").out == "b\nmine\nb\n"
            base.replace("d/b", "new\n")
            base.put("d/c", "")
            base.look_once(f, lambda: f.sh("ls d; cat d/b").out, "b\nc\nmine\nnew\n")


def requests_of(f, script):
    before = f.control("stats")["requests"]
    f.sh(script).ok()
    return f.control("stats")["requests"] - before


def test_a_directory_that_gets_its_watch_is_blind_no_longer(work):
    base = Base(work, "instances")
    base.tree.file("a", "a\n").file("d/b", "b\n")
    with unwatched_fence(base) as f:
        look = "stat . a d d/b; cat a d/b; ls . d"
        f.sh(look).ok()
        time.sleep(1.2 * ROUND)
        assert requests_of(f, look) > 5, "blind: asked again"
        limit_inotify("instances", 100)
        quiet = []

        def is_quiet():
            time.sleep(1.2 * ROUND)
            f.sh(look).ok()
            time.sleep(1.2 * ROUND)
            quiet.append(requests_of(f, look))
            return quiet[-1] <= 2

        assert wait_until(is_quiet), quiet
        base.put("a", "changed\n")
        base.replace("d/b", "replaced\n")
        assert wait_until(lambda: f.sh("cat a d/b").out == "changed\nreplaced\n")


@pytest.mark.parametrize("base", ["some"], indirect=True)
@patiently
def test_directories_beyond_the_limit_are_blind_and_the_others_are_not(base):
    shutil.rmtree(base.own / "d")
    for i in range(6):
        base.tree.file(f"d{i}/f", "old\n")
    limit_inotify("watches", 3)
    with unwatched_fence(base) as f:
        look = "cat a; stat d0/f d1/f; ls d0 d1"
        f.sh(f"cat d0/f d1/f; cat */f; {look}; {look}").ok()
        time.sleep(1.2 * ROUND)
        assert requests_of(f, look) <= 2, "watched: nothing is asked twice"
        for i in range(6):
            base.replace(f"d{i}/f", f"new {i}\n")
            base.put(f"d{i}/g", "")
        want = "".join(f"new {i}\n" for i in range(6)) + "a\n" + "".join(f"\nd{i}:\nf\ng\n" for i in range(6))
        base.look_once(f, lambda: f.sh("cat */f; ls *").out, want)


def test_what_changed_before_the_watch_came_is_seen_after_it(work):
    base = Base(work, "instances")
    base.tree.file("a", "old\n").file("d/b", "b\n")
    with unwatched_fence(base) as f:
        for i in range(5):
            f.sh("cat a d/b; ls -la . d").ok()
            limit_inotify("instances", 100)
            base.put("a", f"{i}\n")
            base.replace("d/b", f"new {i}\n")
            base.put(f"d/c{i}", "")
            assert wait_until(lambda: f.sh("cat a d/b; ls d").out.startswith(f"{i}\nnew {i}\nb\nc0\n"))


HAMMER = """
import os, random, sys, time
rng = random.Random(sys.argv[1])
until = time.monotonic() + float(sys.argv[2])
def attempt(fn, *args):
    try:
        fn(*args)
    except OSError:
        pass
def read(path):
    with open(path, "rb") as f:
        f.read()
def write(path):
    with open(path, "r+b") as f:
        f.write(b"x")
names = ["f0", "f1", "f2", "s/f0", "s/f1", "s/t/f0", "s", "s/t"]
while time.monotonic() < until:
    p, q = rng.choice(names), rng.choice(names)
    attempt(rng.choice([read, read, read, os.stat, os.listdir, os.unlink, write, lambda p: os.rename(p, q), os.rmdir,
                        os.mkdir, lambda p: os.link(p, q + "l")]), p)
"""


@pytest.mark.threads
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("kind", ["instances", "watched"])
def test_a_base_and_a_sandbox_that_both_change_everything(work, kind, told):
    """Nothing to be right about but that it goes on."""
    seconds = 3 if LONG else 1
    base = Base(work, kind)
    names = ["f0", "f1", "f2", "s/f0", "s/f1", "s/t/f0"]

    def renew(i):
        name = names[i % len(names)]
        with contextlib.suppress(OSError):
            if i % 11 == 3:
                shutil.rmtree(base.own / "s")
            elif i % 13 == 5:
                os.rename(base.own / "s", base.own / f"gone{i}")
            elif i % 3 == 0:
                base.tree.file(name, "x" * (i % 5000))
            else:
                base.tree.dir(os.path.dirname(name))
                base.replace(name, "x" * (i % 5000))
        return name

    for i in range(100):
        renew(i)
    with unwatched_fence(base) as f, contextlib.ExitStack() as stack:
        for i in range(4):
            stack.enter_context(background(["/usr/bin/python3", "-c", HAMMER, str(i), str(seconds)], f.mnt))
        until = time.monotonic() + seconds
        i = 0
        while time.monotonic() < until:
            i += 1
            name = renew(i)
            if told and i % 5 == 0:
                assert f.control(f"changed /{name}" if i % 10 else "changed")["ok"]
        assert f.alive(), f.log()
        time.sleep(A_SECOND)
        base.put("final", "here")
        assert wait_until(lambda: f.sh("cat final").out == "here")
        f.sh("ls -laR; find . -type f | xargs cat")
        assert f.alive(), f.log()
