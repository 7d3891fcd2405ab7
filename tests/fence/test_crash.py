"""Killed at any moment, the fence loses nothing that it acknowledged, and a remount finds the old tree or the new one.

Two ways: it dies at each fault point it has (AGENTFENSE_FAULT=<point>[:n], the n-th time that point is passed), and it is killed at
random moments under load. The base is compared byte for byte every time.
"""

import contextlib
import difflib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import time

import inside
import pytest
from harness import HERE, LONG, PYTHON, TIMEOUT, Fence, Refused, Tree, background, fingerprint, mount, tools_dir, umount, wait_until


def build(root):
    t = Tree(root)
    t.file("file", "base content\n" * 100, 0o640).file("dir/a", "a\n").file("dir/b", "b\n").file("dir/sub/c", "c\n").file(
        "other/x", "x\n"
    ).dir("empty")
    t.file("big", os.urandom(300_000)).link("file", "link").file("target", "old target\n").file("h1", "linked\n").hard(
        "h1", "h2"
    )
    os.setxattr(t.at("file"), "user.note", b"kept")
    t.settle()
    return t


# One step each: a shell command that is a single operation on the tree as far as its user can tell, after some preparation.
STEPS = {
    "append copies up": ("", "echo more >> file"),
    "overwrite copies up": ("", "printf X | dd of=big bs=1 seek=1000 conv=notrunc 2>/dev/null"),
    "truncate": ("", "truncate -s 5 file"),
    "chmod copies up": ("", "chmod 600 file"),
    "chmod of a directory": ("", "chmod 700 dir"),
    "utimens": ("", "touch -d @1234567890 file"),
    "setxattr": ("", "setfattr -n user.more -v v file"),
    "create": ("", "mknod new p"),
    "mkdir": ("", "mkdir newdir"),
    "symlink": ("", "ln -s file newlink"),
    "link of a base file": ("", "ln file hard"),
    "link of a new file": ("echo n > n", "ln n hard"),
    "unlink of a base file": ("", "unlink file"),
    "unlink of a new file": ("echo n > n", "unlink n"),
    "unlink of a changed file": ("echo n > file", "unlink file"),
    "unlink of one of two links": ("", "unlink h1"),
    "rmdir of a base directory": ("", "rmdir empty"),
    "rmdir of an emptied directory": ("rm -r dir/*", "rmdir dir"),
    "mkdir over a removed one": ("rm -r dir", "mkdir dir"),
    "mkdir over a removed file": ("rm file", "mkdir file"),
    "create over a removed file": ("rm file", "mkfifo file"),
    "rename of a base file": ("", "mv -T file renamed"),
    "rename over a base file": ("", "mv -Tf file target"),
    "rename of a new file over a base file": ("echo n > n", "mv -Tf n target"),
    "rename of a new file": ("echo n > n", "mv -T n m"),
    "rename of a changed file": ("echo n >> file", "mv -T file renamed"),
    "rename of a base directory": ("", "RENAME dir moved"),
    "rename of a changed directory": ("echo n > dir/new; rm dir/a", "RENAME dir moved"),
    "rename of a new directory": ("mkdir -p nd/s; echo x > nd/s/f", "RENAME nd moved"),
    "rename of a directory over a removed one": ("rm -r empty; mkdir nd; echo x > nd/f", "RENAME nd empty"),
    "rename of a directory over an empty one": ("mkdir nd; echo x > nd/f", "RENAME nd empty"),
    "rename of a directory over an empty new one": ("mkdir x y; echo z > x/z", "RENAME x y"),
    "rename of a directory over an empty one that was made anew": ("rm -r dir; mkdir dir x; echo z > x/z", "RENAME x dir"),
    "rename into another directory": ("", "mv -T file dir/sub/file"),
    "exchange of base files": ("", "EXCHANGE file target"),
    "exchange of a base file and a new one": ("echo n > n", "EXCHANGE file n"),
    "exchange of directories": ("", "EXCHANGE dir other"),
    "exchange of a file and a directory": ("", "EXCHANGE file dir"),
}


def act(f, command):
    """Does one step; the fence may die under it."""
    word, *rest = command.split()
    if word in ("RENAME", "EXCHANGE"):
        with contextlib.suppress(OSError):
            call = os.rename if word == "RENAME" else inside.exchange
            call(*[os.path.join(f.mnt, name) for name in rest])
    else:
        f.sh(command)


def line_of(path):
    st = os.lstat(path)
    out = [path, oct(st.st_mode), st.st_nlink if not stat.S_ISDIR(st.st_mode) else "-"]
    if stat.S_ISREG(st.st_mode):
        out += [st.st_size, hashlib.sha256(inside.content(path)).hexdigest()[:16]]
    if stat.S_ISLNK(st.st_mode):
        out += [os.readlink(path)]
    else:
        out += [sorted((name, os.getxattr(path, name)) for name in os.listxattr(path))]
    return " ".join(map(str, out))


def lines_of_tree():
    lines = []
    for top, dirs, files in os.walk("."):
        dirs.sort()
        lines += [line_of(os.path.join(top, name)) for name in sorted(dirs + files)]
    return "\n".join(lines)


def snapshot(f):
    """The tree as seen from inside: kinds, modes, contents, links, user xattrs."""
    return f.call(lines_of_tree)


class Laboratory:
    """Runs one step in many lives of the same tree."""

    def __init__(self, work):
        self.work = work
        self.base = work / "base"
        build(self.base)
        self.before = fingerprint(self.base)
        self.count = 0

    def fence(self):
        self.count += 1
        return Fence(self.work / f"life{self.count}", base=self.base)

    def old_and_new(self, prepare, command):
        with self.fence() as f:
            if prepare:
                f.sh(prepare).ok()
            old = snapshot(f)
            act(f, command)
            new = snapshot(f)
        return old, new

    def armed(self, point, nth, prepare, command):
        """A life up to the step: prepares, mounts with the fault armed, acts. Returns the fence, ended, and whether it died by itself."""
        f = self.fence()
        try:
            if prepare:
                f.start()
                f.sh(prepare).ok()
                f.stop()
            try:
                f.start(env={"AGENTFENSE_FAULT": f"{point}:{nth}"})
            except Refused:
                return f, True  # already at mount: making the delta or replaying passed it
            act(f, command)
            code = f.stop()
            assert code in (0, -signal.SIGKILL), f"{point}:{nth}: ended with {code}\n" + f.log()
            return f, code != 0
        finally:
            f.kill()

    def dies_at(self, point, nth, prepare, command):
        """What is there after the fence died at a point: (did it die, the tree, what lies about in the delta)."""
        f, died = self.armed(point, nth, prepare, command)
        try:
            if not died:
                return False, None, None
            f.start()
            tree = snapshot(f)
            f.stop()
            f.start()  # and once more: what the recovery wrote must stand
            assert snapshot(f) == tree, f"a second remount after {point}:{nth} shows another tree"
            f.stop()
            return True, tree, [n for n in os.listdir(f.delta) if "tmp" in n.lower()]
        finally:
            f.kill()
            shutil.rmtree(f.work, ignore_errors=True)

    def check_base(self):
        assert fingerprint(self.base) == self.before, "the base was changed"


@pytest.fixture
def laboratory(work):
    """In memory, but for LONG: whoever is killed, not switched off, has nothing to fear from what no disk has yet."""
    if not LONG:
        mount("tmpfs", work, "tmpfs", 0, "mode=755")
    try:
        lab = Laboratory(work)
        yield lab
        lab.check_base()
    finally:
        if not LONG:
            umount(work)


def fault_points():
    """Every point the sources of the fence name."""
    found = set()
    for source in (HERE.parent.parent / "src" / "fence").glob("*.c"):
        found |= set(re.findall(r'\bfault\("([a-z0-9-]+)"', source.read_text()))
    return sorted(found)


# A hand-over needs somebody who takes: tests/supervisor/test_sync.py dies at its points. A drop needs a hold: tests/unit/fence/test_quiesce.c.
# A copy is compared by whoever reviews it: tests/serve/test_ws_review_bad_times.py. Logs are written anew
# when they are long: tests/unit/fence/test_change_log.c, test_ino_map.c.
POINTS = [point for point in fault_points() if not point.startswith(("handover-", "drop-", "copy-delta-", "log-"))]
REACHED = set()


@pytest.mark.parametrize("step", STEPS)
def test_dying_at_every_fault_point_leaves_the_old_tree_or_the_new(laboratory, step):
    prepare, command = STEPS[step]
    old, new = laboratory.old_and_new(prepare, command)
    assert old != new or step in ("utimens",), "the step changes nothing that is seen"
    for point in POINTS:
        for nth in range(1, 20):
            died, tree, litter = laboratory.dies_at(point, nth, prepare, command)
            if not died:
                break
            assert tree in (old, new), f"a third tree after {point}:{nth}\n" + third(old, new, tree)
            assert not litter, f"{point}: left {litter}"
            REACHED.add(point)
            if not LONG and nth == 2:
                break


def third(old, new, tree):
    diff = difflib.unified_diff(old.splitlines(), tree.splitlines(), "old", "third", n=0, lineterm="")
    more = difflib.unified_diff(new.splitlines(), tree.splitlines(), "new", "third", n=0, lineterm="")
    return "\n".join([*diff, *more])


def test_every_fault_point_is_passed_by_some_step(request):
    """A point that nothing reaches proves nothing."""
    if len(STEPS) > sum(item.name.startswith("test_dying_at_every") for item in request.session.items):
        pytest.skip("not all steps were run")
    assert sorted(set(POINTS) - REACHED) == []


def test_dying_during_recovery_is_recovered_from(laboratory):
    """The fault at each point in turn, then the same fault again while the remount replays: the tree is still old or new."""
    prepare, command = STEPS["rename of a changed directory"]
    old, new = laboratory.old_and_new(prepare, command)
    for point in POINTS:
        for second in POINTS:
            f, died = laboratory.armed(point, 1, prepare, command)
            try:
                if not died:
                    break
                try:
                    f.start(env={"AGENTFENSE_FAULT": second})
                    if not LONG:
                        continue  # the remount did not pass it: the same as dying once, which the steps do
                except Refused:
                    pass
                f.kill()
                f.start()
                tree = snapshot(f)
                assert tree in (old, new), f"{point} then {second}\n" + third(old, new, tree)
            finally:
                f.kill()
                shutil.rmtree(f.work, ignore_errors=True)


# ---- random kills ----

JOURNAL = """
import hashlib, random
# Says what it is about to touch, and after the calls returned what each name must hold from then on.
rng = random.Random(int(sys.argv[1]))
live = {}
def digest(data): return hashlib.sha256(data).hexdigest()
def write(p, flags, data):
    fd = os.open(p, flags, 0o644); os.write(fd, data); os.close(fd)
def create(p, q):
    data = rng.randbytes(rng.randint(0, 20000)); write(q, os.O_CREAT|os.O_EXCL|os.O_WRONLY, data); live[q] = data; return [q]
def append(p, q):
    write(p, os.O_WRONLY|os.O_APPEND, b"appended"); live[p] += b"appended"; return [p]
def overwrite(p, q):
    p = f"base{rng.randrange(50)}"; say("try", p); data = rng.randbytes(500); write(p, os.O_WRONLY|os.O_CREAT|os.O_TRUNC, data); live[p] = data; return [p]
def rename(p, q):
    os.rename(p, q); live[q] = live.pop(p); return [p, q]
def replace(p, q):
    other = rng.choice(sorted(live)); say("try", p, other)
    if other != p: os.rename(p, other); live[other] = live.pop(p)
    return [p, other]
def swap(p, q):
    other = rng.choice(sorted(live)); say("try", p, other)
    if other != p: exchange(p, other); live[p], live[other] = live[other], live[p]
    return [p, other]
def unlink(p, q):
    os.unlink(p); del live[p]; return [p]
def link(p, q):
    os.link(p, q); os.unlink(p); live[q] = live.pop(p); return [p, q]
def cut(p, q):
    os.truncate(p, 3); live[p] = live[p][:3].ljust(3, b"\\0"); return [p]
def mkdir(p, q):
    os.mkdir(q); live_dirs.append(q); return [q]
live_dirs = []
i = 0
while True:
    i += 1
    act = rng.choice([create, create, create, append, overwrite, rename, replace, swap, unlink, link, cut, mkdir]) if live else create
    p, q = rng.choice(sorted(live)) if live else "", f"n{i}"
    say("try", p, q)
    try: touched = act(p, q)
    except OSError as e: say("error", name_of(e.errno)); break
    say("ok", *[f"{n}={digest(live[n]) if n in live else 'dir' if n in live_dirs else 'gone'}" for n in touched])
"""


def read_journal(text):
    """What the names must hold, and those of the operation in flight, of which nothing is known."""
    want, unsure = {}, set()
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "try":
            unsure |= set(rest)
        elif word == "ok":
            want.update(item.split("=") for item in rest)
            unsure = set()
    return want, unsure


@pytest.mark.parametrize("seed", range(40 if LONG else 8))
def test_killed_at_a_random_moment_it_keeps_what_it_acknowledged(work, seed):
    """Every operation that returned before the kill is there afterwards, without any fsync."""
    t = Tree(work / "base")
    for i in range(50):
        t.file(f"base{i}", f"base {i}\n" * 50)
    before = fingerprint(work / "base")
    f = Fence(work)
    f.start()
    log = work / "journal"
    try:
        with open(log, "wb") as out, background(
            [PYTHON, "-c", "from inside import *\n" + JOURNAL, str(seed)], f.mnt, stdout=out
        ) as child:
            assert wait_until(lambda: log.read_bytes().count(b"ok ") > 20), "too little happens: " + log.read_text()[-300:]
            time.sleep(random.Random(seed).random() * 0.6)
            f.kill()
            child.wait(TIMEOUT)
        text = log.read_text()
        want, unsure = read_journal(text)
        f.start()
        have = json.loads(
            f.python(
                "import hashlib, json\nsay(json.dumps({n: hashlib.sha256(content(n)).hexdigest() if os.path.isfile(n) else 'dir' for n in os.listdir('.')}))"
            )
            .ok()
            .out
        )
        wrong = {p: (h[:12], have.get(p, "gone")[:12]) for p, h in want.items() if p not in unsure and have.get(p, "gone") != h}
        assert not wrong, f"acknowledged and lost: {wrong}"
        extra = [p for p in have if p not in want and not p.startswith("base") and p not in unsure]
        assert not extra, f"never made, and there: {extra}"
    finally:
        f.kill()
    assert fingerprint(work / "base") == before


def test_killed_while_many_work_it_mounts_again(work):
    """Eight threads, everything at once, killed, again and again on one delta: always mountable, always a sane tree."""
    t = Tree(work / "base")
    for i in range(200):
        t.file(f"tree/d{i % 10}/f{i}", f"{i}\n" * 10)
    before = fingerprint(work / "base")
    f = Fence(work)
    rng = random.Random(1)
    try:
        for life in range(20 if LONG else 5):
            f.start()
            f.sh("rm -rf tree/own*")
            with background([tools_dir() / "probe_hammer", "5", "8"], f.mnt, stdout=subprocess.DEVNULL) as child:
                time.sleep(0.1 + rng.random() * 0.5)
                f.kill()
                child.wait(TIMEOUT)
            f.start()
            ran = f.sh(
                "find . -print0 | xargs -0 stat >/dev/null && find . -type f -print0 | xargs -0 cat >/dev/null && ls -R >/dev/null"
            ).ok()
            assert ".wh." not in f.sh("find .").out
            f.stop()
    finally:
        f.kill()
    assert fingerprint(work / "base") == before


def test_what_was_mapped_and_synced_survives(work):
    Tree(work / "base").file("m", b"." * 8192)
    f = Fence(work)
    try:
        f.start()
        f.python(
            "fd = os.open('m', os.O_RDWR); m = mmap.mmap(fd, 8192); m[4096:4100] = b'MMAP'; m.flush(); fd2 = os.open('s', os.O_CREAT|os.O_WRONLY, 0o644); os.write(fd2, b'synced'); os.fsync(fd2)"
        ).ok()
        f.kill()
        f.start()
        assert f.python("say(content('m')[4094:4102], content('s'))").ok().out == "b'..MMAP..' b'synced'\n"
    finally:
        f.kill()


def test_times_and_modes_survive_a_kill(work):
    Tree(work / "base").file("a", "a").file("d/b", "b").file("same", "s")
    f = Fence(work)
    try:
        f.start()
        f.sh(
            "echo x >> a; mv d/b d/c; touch -d @1111111111.123456789 d/c; chmod 600 d/c; mkdir -m 700 e; echo n > e/n; touch -d @1222222222.5 e"
        ).ok()
        show = "find . -printf '%p %m %s %n %T@\\n' | sort; stat -c %i a same"
        first = f.sh(show).out
        f.kill()
        f.start()
        assert f.sh(show).out == first
    finally:
        f.kill()


def test_a_dead_fence_leaves_no_hung_program(work):
    """Who uses the mount when the fence dies gets an error, not a wait without end."""
    f = Fence(work)
    f.start()
    with background(["/bin/sh", "-c", "while :; do echo x >> f || exit 3; done"], f.mnt, stdout=subprocess.DEVNULL) as child:
        time.sleep(0.2)
        try:
            f.process.kill()
            f.process.wait()
            f.process = None
            child.wait(TIMEOUT)
        finally:
            f.clear_mount()
