"""kill -9, of whichever process, at whatever moment: what was acknowledged is there, the next start works, nothing is left."""

import fcntl
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

from conftest import ENGINE, IS_LONG, IS_ROOT, TIMEOUT, processes

ROUNDS = 200 if IS_LONG else 15
VICTIMS = ("run", "supervisor", "bwrap", "init")

# A file a turn, told of when it is on disk.
WORK = """
import os, sys
n = 0
while True:
    fd = os.open(f"f{n}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.write(fd, f"{n}\\n".encode() * 100)
    os.fsync(fd) if n % 4 == 0 else None
    os.close(fd)
    os.rename(f"f{n}", f"done{n}")
    if n % 3 == 0:
        os.unlink("old") if os.path.exists("old") else None
        open("old", "w").write("x")
    print(n, flush=True)
    n += 1
"""

# What of them is whole.
CHECK = """
import os
names = [name for name in os.listdir(".") if name.startswith("done")]
assert all(open(name).read() == (name[4:] + "\\n") * 100 for name in names), "torn"
print(len(names), max((int(name[4:]) for name in names), default=-1))
"""


def children(pid):
    found = []
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:
        pass
    return found


def chain(run):
    """run, its supervisor, bwrap (or what holds the container) and init, as far as they are there."""
    pids = [run]
    while len(pids) < len(VICTIMS) and (below := children(pids[-1])):
        pids.append(below[0])
    return pids


def uid_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(text.split("\nUid:\t")[1].split()[0])
    except (OSError, IndexError):
        return None


def lives(pid):
    """Not gone, which may happen while we look, and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def processes_of(uids):
    """Those that live; a zombie waits only for the machine's pid 1 to take note."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if "\nState:\tZ" not in text and int(text.split("\nUid:\t")[1].split()[0]) in uids:
            found.append(f"{status.parent.name} {text.splitlines()[0]}")
    return found


class Round:
    def __init__(self, host, number, rng, options):
        self.host = host
        self.name = f"round{number}-{os.getpid()}"
        self.victim = rng.choice(VICTIMS)
        self.delay = rng.choice([rng.uniform(0, 0.1), rng.uniform(0, 0.4), rng.uniform(0.3, 0.8)])
        self.options = options
        self.uids = set()
        self.what = f"{self.name}: {self.victim} after {self.delay * 1000:.0f} ms"

    def strike(self):
        """Kills it; the last number that the workload told of."""
        log = open(self.host.dir / "acks", "w+b")
        run = self.host.start("-q", "-n", "--name", self.name, *self.options, command=["python3", "-c", WORK], stdout=log,
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.delay)
        while not self.kill(run):
            time.sleep(0.01)
        try:
            self.code = run.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self.tell(run)
            raise
        log.seek(0)
        lines = log.read().splitlines()
        log.close()
        return int(lines[-1]) if lines else -1

    def kill(self, run):
        """The victim, or the last before it that is there. Not what runs only for a moment on the way, of which the end changes
        nothing; and not what is gone before we strike."""
        pids = chain(run.pid)
        self.uids |= {uid for pid in pids[2:] if (uid := uid_of(pid)) not in (None, 0, os.geteuid(), self.host.uid)}
        pid = pids[min(VICTIMS.index(self.victim), len(pids) - 1)]
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return run.poll() is not None
        try:
            name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            if pid != run.pid and name not in ("agentfense", "agentfense-supe", "agentfense-cont", "bwrap", "init"):
                return False
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            self.what += f", a {name}"
        except (OSError, ProcessLookupError):
            return run.poll() is not None
        finally:
            os.close(fd)
        return True

    def tell(self, run):
        """Why does it not end?"""
        print(self.what, "run", run.pid)
        for pid in chain(run.pid):
            for file in ("comm", "wchan", "stack"):
                try:
                    print(pid, file, pathlib.Path(f"/proc/{pid}/{file}").read_text().strip())
                except OSError as problem:
                    print(pid, file, problem)
        for file in ("state", "log"):
            path = self.host.place(self.name) / file
            print(file, path.read_text() if path.exists() else "is not there")

    def check(self, acknowledged):
        host = self.host
        until = time.monotonic() + TIMEOUT
        while ENGINE and processes(str(host.dir)) and time.monotonic() < until:
            time.sleep(0.05)  # an engine takes its time to end a container, and until then the sandbox runs
        if self.name in host.names():
            assert acknowledged < 0 or "done0" in host.changes(self.name), self.what
            again = host.run("-q", "--in", self.name, command=["python3", "-c", CHECK])
            assert again.code == 0, (self.what, again)
            count, last = map(int, again.out.split())
            assert last >= acknowledged and count >= acknowledged + 1, (self.what, again.out)
            left = set(os.listdir(host.place(self.name))) - {"spec", "delta", "lock", "state", "mnt", "log"}
            assert not left, (self.what, left)
            assert host.call("rm", self.name).code == 0, self.what
        else:
            assert acknowledged < 0, f"{self.what}: the sandbox is gone, with {acknowledged} acknowledged"
            again = host.run("-q", "--rm", command="cat hello.txt")
            assert (again.code, again.out) == (0, b"hello\n"), (self.what, again)
        self.check_nothing_left()

    def check_nothing_left(self):
        until = time.monotonic() + TIMEOUT
        while left := processes_of(self.uids) + self.host.leftovers():
            assert time.monotonic() < until, (self.what, left)
            time.sleep(0.05)
        for name in self.host.names():
            assert name.startswith(".af-tmp-"), (self.what, name)


def test_whatever_is_killed_nothing_is_lost_or_left(host):
    seed = int(os.environ.get("AGENTFENSE_SEED", random.randrange(1 << 30)))
    print(f"AGENTFENSE_SEED={seed}")
    rng = random.Random(seed)
    can_limit = host.run("-q", "-m", "256M", command=["true"]).code == 0
    codes = {}
    for number in range(ROUNDS):
        each = Round(host, number, rng, ["-m", "256M"] if can_limit and rng.random() < 0.3 else [])
        acknowledged = each.strike()
        codes.setdefault(each.victim, []).append((each.code, acknowledged))
        each.check(acknowledged)
    print(codes)


def test_what_a_killed_start_left_is_swept_when_it_is_old(one):
    """A directory under a temporary name, as a kill in the middle of making or removing a sandbox leaves."""
    one.run("-q", "--name", "box", command="echo x > x")
    young, old, locked = (one.sandboxes / f".af-tmp-{n:016x}" for n in (1, 2, 3))
    for path in (young, old, locked):
        (path / "delta").mkdir(parents=True)
        (path / "lock").touch()
    with open(locked / "lock") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for path in (old, locked):
            os.utime(path, (time.time() - 3600, time.time() - 3600))
        one.run("-q", "--rm", command=["true"])
        assert one.names() == [young.name, locked.name, "box"]
    assert one.call("rm", "box").code == 0


def test_the_shortest_run_ends_what_a_killed_start_left(one):
    """A child of bwrap that waits for a word which never comes: the gap, held open by a word on standard input."""
    arguments = one.dir / "arguments"
    arguments.write_text("\0".join(["--userns-block-fd", "0", "--bind", "/", "/", ""]))
    script = f"exec 4<{arguments} 5>/dev/null; exec bwrap --unshare-user --unshare-pid --args 4 --info-fd 5 -- /run/agentfense/init"
    until = time.monotonic() + TIMEOUT
    left = None
    while not left or not lives(left):
        assert time.monotonic() < until  # sandboxes of other tests end it too, so it may have to be made anew
        with subprocess.Popen(one.words("sh", "-c", script), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as bwrap:
            while not (below := children(bwrap.pid)):
                assert time.monotonic() < until
                time.sleep(0.01)
            left = below[0]
            bwrap.kill()
    assert one.run("-q", "--rm", command=["true"]).code == 0
    until = time.monotonic() + TIMEOUT
    while lives(left):
        assert time.monotonic() < until, "still there"
        time.sleep(0.05)


@pytest.mark.skipif(not IS_ROOT, reason="looks at processes of another user")
def test_a_killed_run_takes_its_sandbox_with_it(host):
    with host.start("-q", "--name", "box", command="echo x > x; echo ready; sleep 300") as run:
        assert run.stdout.readline() == b"ready\n"
        pids = chain(run.pid)
        run.kill()
    assert len(pids) == (3 if ENGINE else 4)  # init in a container is a child of the engine's
    until = time.monotonic() + TIMEOUT
    while alive := [pid for pid in pids[1:] if lives(pid)]:
        assert time.monotonic() < until, alive
        time.sleep(0.05)
    assert host.run("--in", "box", "-q", command="cat x").out == b"x\n"
