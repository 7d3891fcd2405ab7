"""Where it all happens: a server on a small disk of its own, its database, and a Docker engine if there is to be one. Leaves nothing."""

import collections
import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "serve"), str(HERE.parent / "docker")]

from checker import Checker  # noqa: E402
from load import Gate  # noqa: E402
from model import Model  # noqa: E402

CLONE_NEWNS = 0x00020000
DISK = "512m"


def have_own_mounts():
    """From here on mounts are seen by this process and those it starts, and end with them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise PermissionError(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class Stage:
    """One server with its clients, from its first start to its last breath."""

    def __init__(self, programs, seed, database=None, engine=None):
        from server import Server, free_port

        self.seed, self.engine, self.postgres = seed, engine, database
        self.model, self.checker, self.gate = Model(), Checker(is_loud=True), Gate()
        self.faults = collections.Counter()
        self.refusals, self.breaks, self.crashes = [], [], []
        self.words = {}  # of each kind of refusal, those of the first
        self.lock = threading.Lock()
        self.is_over = False
        self.may_fault = False
        self.last_fault = 0.0
        # Ports that stay, so that clients find the next server; versions that stay while somebody may look back.
        settings = {"server-grpc-addr": f"127.0.0.1:{free_port()}", "server-http-addr": f"127.0.0.1:{free_port()}",
                    "codebase-versions": "200"}
        if engine:
            settings |= {"runtime-docker-host": engine.host, "runtime-docker-pull": "false",
                         "runtime-docker-default-image": engine.image("box")}
        self.server = Server(programs, db=database.new_database() if database else None, **settings)
        self.disk = self.server.top / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755", "tmpfs", str(self.disk)], check=True)
        self.server.state = self.disk / "state"

    def start(self):
        self.server.start()
        self.baseline = self.state_files()
        return self

    # ---- what happens ----

    def count_fault(self, kind):
        with self.lock:
            self.faults[kind] += 1
            self.last_fault = time.monotonic()

    def note_refusal(self, who, what, problem):
        """Quietly, if something was wrong just before."""
        self.words.setdefault(f"{what}: {problem.code}", str(problem)[:300])
        if time.monotonic() - self.last_fault > 20:
            with self.lock:
                self.refusals.append(f"{who}: {what}: {problem}"[:400])

    def note_break(self, who, what, trace):
        with self.lock:
            self.breaks.append(f"{who}: {what}:\n{trace}")

    def note_crash(self, what):
        with self.lock:
            self.crashes.append(what)

    def look_after_server(self):
        """One that ended and that nobody has killed."""
        if self.server.process.poll() is not None:
            self.note_crash(f"the server ended with {self.server.process.returncode}: {self.server.log()[-3000:]}")
            self.server.start()

    # ---- what there is ----

    def state_files(self):
        """All that is in the state directory but the database's own."""
        place = self.server.state
        return {str(path.relative_to(place)) for path in place.rglob("*") if not path.name.startswith("metadata.db")}

    def remove(self):
        with contextlib.suppress(Exception):
            for pid in self.server.supervisors().values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 15)
        for _ in range(50):
            if subprocess.run(["umount", str(self.disk)], check=False, capture_output=True).returncode == 0:
                break
            if self.server.process and self.server.process.poll() is None:
                self.server.process.kill()
                self.server.process.wait()
            time.sleep(0.2)
        else:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        self.server.remove()
