"""Everything of ours is killed at random moments, again and again. What was acknowledged is there, and nothing else."""

import contextlib
import os
import random
import re
import signal
import threading

import grpc
import pytest
from engine import own_processes
from sandbox.v1 import sandbox_pb2
from server import eventually

SEED = int(os.environ.get("AGENTFENSE_SEED", random.randrange(1 << 30)))
OFF = sandbox_pb2.SYNC_MODE_OFF


def is_dead(pid):
    """Gone, or waiting for who asks how it ended."""
    try:
        return open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace").read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Torment:
    """A server with a sandbox, and what was acknowledged of it."""

    def __init__(self, server, dock):
        self.server, self.dock, self.dice = server, dock, random.Random(SEED)
        self.client = server.client()
        self.sandbox = self.client.create_sandbox(
            codebase_id=self.client.codebase({"a": "a"}), image=dock.image("box"), sync_on_completion=OFF,
            permissions=[sandbox_pb2.PermissionRule(pattern="**/*", permission=4)]).id
        self.written = []

    def work(self, count):
        """Starts it when it does not run, and writes; an answer that comes is a promise."""
        for n in range(count, count + 3):
            with contextlib.suppress(grpc.RpcError):
                if self.client.get_sandbox(sandbox_id=self.sandbox).status != sandbox_pb2.SANDBOX_STATUS_RUNNING:
                    self.client.start_sandbox(sandbox_id=self.sandbox)
                if self.client.run(self.sandbox, f"echo {n} > f{n} && sync f{n}").exit_code == 0:
                    self.written.append(n)

    def runs(self):
        """What the server says."""
        return self.client.get_sandbox(sandbox_id=self.sandbox).status == sandbox_pb2.SANDBOX_STATUS_RUNNING

    def wake(self):
        """Of a kill that was a moment ago the others hear a moment later, the server by the end of a connection, the supervisor by that of
        its child; that is waited for, and nothing else: then a start succeeds at once, whatever the kill has left behind."""
        eventually(lambda: self.runs() == ("supervisor" in (victims := self.victims())) == ("container" in victims))
        if not self.runs():
            self.client.start_sandbox(sandbox_id=self.sandbox)
        assert self.client.run(self.sandbox, "true").exit_code == 0

    def victims(self):
        """Pids of the server, of the supervisor, and of what holds the container."""
        found = {"serve": self.server.process.pid}
        for pid in self.server.supervisors().values():
            found["supervisor"] = pid
            with contextlib.suppress(OSError):
                for child in map(int, open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8").read().split()):
                    _, name, state = re.split(r"[()]", open(f"/proc/{child}/stat", encoding="utf-8").read(), maxsplit=2)
                    if name.startswith("agentfense-con") and state.split()[0] != "Z":
                        found["container"] = child
        return found

    def strike(self):
        victims = self.victims()
        for name in self.dice.sample(sorted(victims), self.dice.randint(1, len(victims))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(victims[name], signal.SIGKILL)
            if name == "serve":
                self.server.process.wait(60)
            else:  # until then it looks alive to wake()
                eventually(lambda pid=victims[name]: is_dead(pid))

    def round(self, count):
        worker = threading.Thread(target=self.work, args=(count,))
        worker.start()
        worker.join(self.dice.choice([0.02, 0.1, 0.3, 0.6, 1.0, 1.5]))
        self.strike()
        if self.server.process.poll() is not None:
            self.server.start()
            self.client = self.server.client()
        worker.join(120)
        assert not worker.is_alive()

    def check(self):
        assert self.written, "nothing was ever acknowledged"
        self.wake()
        there = self.client.run(self.sandbox, "cat f*").stdout.split()
        assert set(map(str, self.written)) <= set(there)
        assert len(self.dock.containers()) == 1 and len(self.server.mounts()) == 1
        # The program of a container whose supervisor was killed ends when the engine has removed that container, in its own time.
        eventually(lambda: len(self.processes()) == 2)
        self.client.destroy_sandbox(sandbox_id=self.sandbox)
        self.check_gone()

    def processes(self):
        """Supervisors of the sandbox, and the programs of its containers."""
        return own_processes(self.sandbox)

    def check_gone(self):
        """An engine takes a container away when its init has ended, in its own time. A mount goes with the call that destroys."""
        assert not self.server.mounts()
        eventually(lambda: not self.dock.containers() and not self.processes())


def torment(make, dock, rounds):
    print(f"seed {SEED}")
    one = Torment(make().start(), dock)
    for n in range(rounds):
        one.round(n * 3)
    one.check()


def test_ten_kills_leave_nothing_behind(make, dock):
    torment(make, dock, 10)


@pytest.mark.long
def test_a_hundred_kills_leave_nothing_behind(make, dock):
    torment(make, dock, 100)


def test_a_server_that_starts_removes_what_all_of_them_left(make, dock):
    """Nobody is left to clean up, and nobody starts a sandbox afterwards."""
    one = Torment(make().start(), dock)
    one.work(0)
    assert one.written and one.server.mounts()
    victims = one.victims()
    assert set(victims) == {"serve", "supervisor", "container"}
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none of them hears of another's end
        for pid in victims.values():
            os.kill(pid, number)
    one.server.process.wait(60)
    one.server.start()
    assert not one.server.mounts()  # gone before it answers; the container goes when the engine has heard of init's end
    eventually(lambda: not dock.containers())
    one.client = one.server.client()
    one.check()
