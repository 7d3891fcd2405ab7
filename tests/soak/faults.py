"""What goes wrong, on purpose. Each is over when its function returns: nothing is broken any more, and nobody has been told."""

import contextlib
import os
import pathlib
import random
import resource
import signal
import time

WEIGHTS = {"kill serve": 4, "end serve": 1, "kill serve twice": 1, "kill supervisor": 3, "kill bwrap": 2, "kill init": 2,
           "stop supervisor": 1, "full disk": 2, "no descriptors": 2, "kill postgres": 3, "kill dockerd": 1, "kill all of a sandbox": 1}
COMM = {"kill bwrap": ("bwrap", "agentfense-cont"), "kill init": ("init",)}


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def hold(parent, pid):
    """A descriptor of the process, if it still is the parent's child: numbers are given out again, soon where many come and go."""
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(pid)
        if pid in children(parent):
            return fd
        os.close(fd)
    return None


def descendants(pid):
    """Of those that are there: number and descriptor."""
    found = []
    for child in children(pid):
        fd = hold(pid, child)
        if fd is not None:
            found += [(child, fd), *descendants(child)]
    return found


def comm(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_held(held):
    for _, fd in held:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)


def let_go(held):
    for _, fd in held:
        os.close(fd)


class Faults:
    def __init__(self, stage, kinds=None):
        self.stage, self.server = stage, stage.server
        self.dice = random.Random(f"{stage.seed} faults")
        self.spares_server = False
        self.weights = {kind: weight for kind, weight in WEIGHTS.items() if (not kinds or kind in kinds) and self.can(kind)}

    def can(self, kind):
        if kind == "kill postgres":
            return self.stage.postgres is not None
        if kind == "kill dockerd":
            return self.stage.engine is not None and self.stage.engine.is_ours
        return True

    def strike(self, spare_server=False):
        """One of them. Returns which."""
        self.spares_server = spare_server
        weights = {kind: weight for kind, weight in self.weights.items() if not (spare_server and "serve" in kind)}
        kind = self.dice.choices(list(weights), weights.values())[0]
        self.stage.count_fault(kind)
        getattr(self, kind.replace(" ", "_"))()
        self.stage.last_fault = time.monotonic()
        return kind

    # ---- the server ----

    def kill_serve(self):
        self.server.kill()
        time.sleep(self.dice.choice((0, 0, 0.5)))
        self.server.start()

    def kill_serve_twice(self):
        """The second time while it looks at what the first left."""
        self.server.kill()
        self.server.start(wait=False)
        time.sleep(self.dice.uniform(0, 0.15))
        self.server.kill()
        self.server.start()

    def end_serve(self):
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait(60)
        self.server.start()

    def no_descriptors(self):
        pid = self.server.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + self.dice.randrange(4), hard))
        time.sleep(self.dice.uniform(0.5, 3))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def full_disk(self):
        filler = self.stage.disk / "filler"
        runs = True
        try:
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                room = os.statvfs(self.stage.disk)
                os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_bsize)
            with open(filler, "ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
            time.sleep(self.dice.uniform(0.5, 3))
            if self.dice.random() < 0.3 and not self.spares_server:
                self.stage.count_fault("kill serve on a full disk")
                self.server.kill()
                runs = self.start_without_room()
                time.sleep(0.5)
        finally:
            filler.unlink()
        if not runs:
            self.server.start()

    def start_without_room(self):
        """False: it did not start and said why. Its database gives room back for a moment, which somebody else may take."""
        self.server.start(wait=False)
        try:
            self.server.wait_listening()
            return True
        except AssertionError:
            if self.server.process.poll() is None or "no room for database" not in self.server.log_of_this_life():
                raise
            self.stage.count_fault("serve had no room to start")
            return False

    # ---- sandboxes ----

    def a_supervisor(self):
        found = sorted(self.server.supervisors().items())
        if not found:
            return None, None
        name, pid = self.dice.choice(found)
        return name, pid

    def kill_supervisor(self):
        name, pid = self.a_supervisor()
        if name:
            self.stage.model.note_death(name)
            kill(pid)

    def stop_supervisor(self):
        """It does not answer for a while."""
        _, pid = self.a_supervisor()
        if pid:
            kill(pid, signal.SIGSTOP)
            time.sleep(self.dice.uniform(0.2, 2))
            kill(pid, signal.SIGCONT)

    def kill_below(self, names):
        name, pid = self.a_supervisor()
        held = descendants(pid) if pid else []
        victims = [one for one in held if comm(one[0]) in names]
        if victims:
            self.stage.model.note_death(name)
            kill_held([self.dice.choice(victims)])
        let_go(held)

    def kill_bwrap(self):
        self.kill_below(COMM["kill bwrap"])

    def kill_init(self):
        self.kill_below(COMM["kill init"])

    def kill_all_of_a_sandbox(self):
        name, pid = self.a_supervisor()
        if name:
            self.stage.model.note_death(name)
            held = descendants(pid)
            kill(pid)
            kill_held(held)
            let_go(held)

    # ---- others ----

    def kill_postgres(self):
        if self.dice.random() < 0.5:
            self.stage.postgres.kill()
        else:
            process = self.stage.postgres.server.process
            process.kill()
            process.wait()
            time.sleep(0.3)
        time.sleep(self.dice.uniform(0, 2))
        self.stage.postgres.start()

    def kill_dockerd(self):
        """Takes its time: what is started meanwhile may end with it too."""
        self.stage.model.note_all_dead()
        self.stage.engine.restart(signal.SIGKILL if self.dice.random() < 0.7 else signal.SIGTERM)
        self.stage.model.note_all_dead()
