"""A Docker engine for tests.

One of our own, if we may start one: in directories of its own, with a network namespace and a cgroup of its own, so that it touches nothing
of another engine and nothing of it is left. Otherwise the one that runs here. AGENTFENSE_TEST_DOCKER_HOST names one that is to be used
whatever else there is.
"""

import atexit
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import images

WAIT = 120
START = 'ip link set lo up && exec "$@"'
WITHOUT_NETWORK = ["--bridge=none", "--iptables=false", "--ip6tables=false"]


class Unavailable(Exception):
    """No engine can be had here, and why."""


def own_processes(word):
    """Those that live and have it in their command line."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


class Engine:
    namespaces = ()  # words of unshare, beside a network of its own
    prologue = ""  # shell, before it starts
    options = ()

    def __init__(self, host=None):
        self.is_ours = host is None
        self.dir = pathlib.Path(tempfile.gettempdir()) / f"af-dk-{os.urandom(5).hex()}"  # also the name of images
        self.dir.mkdir(mode=0o700)
        self.host = host or f"unix://{self.dir}/sock"
        self.socket = self.host.partition("://")[2]
        self.name = self.dir.name
        self.daemon = None
        self.has_bridge = not self.is_ours
        self.made = {}

    # ---- its life ----

    def words(self, network):
        return ["unshare", "--net", *self.namespaces, "/bin/sh", "-e", "-c", self.prologue + START, "sh", "dockerd", "-H", self.host, "--data-root", str(self.dir / "root"),
                "--exec-root", str(self.dir / "exec"), "--pidfile", str(self.dir / "pid"), "--exec-opt",
                "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{self.name}", "--max-download-attempts", "1",
                *self.options, *network]

    def launch(self, network):
        with open(self.dir / "log", "ab") as log:
            self.daemon = subprocess.Popen(self.words(network), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           start_new_session=True)
        until = time.monotonic() + WAIT
        while not self.answers():
            if self.daemon.poll() is not None:
                raise Unavailable(f"dockerd does not start: {self.last_words()}")
            if time.monotonic() > until:
                raise Unavailable(f"dockerd does not answer: {self.last_words()}")
            time.sleep(0.05)

    def start(self):
        if not self.is_ours:
            return self
        for program in ("dockerd", "docker", "unshare", "ip"):
            if not shutil.which(program):
                raise Unavailable(f"{program} is not installed")
        try:
            self.launch([])
            self.has_bridge = True
        except Unavailable:
            self.end()
            self.launch(WITHOUT_NETWORK)
        return self

    def answers(self):
        return subprocess.run(["docker", "-H", self.host, "version"], capture_output=True, check=False).returncode == 0

    def last_words(self):
        lines = [line for line in (self.dir / "log").read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][-300:] if lines else "it says nothing"

    def end(self, number=signal.SIGTERM):
        """Of the daemon; containers that run go with it, unless it is killed."""
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(number)
            try:
                self.daemon.wait(60)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        self.daemon = None

    def restart(self, number=signal.SIGTERM):
        self.end(number)
        for pid in own_processes(f"{self.dir}/exec/containerd/containerd.toml"):  # goes with a daemon that was killed, a little later
            self.outlast(pid)
        # A zombie that nobody reaps would count as one that lives.
        (self.dir / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)
        self.launch([] if self.has_bridge else WITHOUT_NETWORK)

    @staticmethod
    def outlast(pid, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)

    def stop(self):
        if self.is_ours:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                for container in self.containers():
                    self.docker("rm", "-f", container)
            self.end()
            for pid in own_processes(f"{self.dir}/"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for path in sorted(self.mounts(), reverse=True):
                subprocess.run(["umount", "-l", path], check=False)
            for path in self.cgroups():
                with contextlib.suppress(OSError):
                    path.rmdir()
        else:
            for tag in self.made.values():
                with contextlib.suppress(RuntimeError):
                    self.docker("rmi", "-f", tag)
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- what it has ----

    def docker(self, *words, timeout=WAIT):
        done = subprocess.run(["docker", "-H", self.host, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"docker {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def image(self, kind):
        """The name of an image of images.MAKERS, made when it is first asked for."""
        if kind not in self.made:
            tag = f"{self.name}/{kind}:1"
            tar = images.MAKERS[kind](self.dir / f"{kind}.tar")
            self.docker("import", tar, tag)
            tar.unlink()
            self.made[kind] = tag
        return self.made[kind]

    def containers(self, *filters):
        """Ids of all there are; of another's engine, those of sandboxes."""
        words = [word for each in filters for word in ("--filter", each)]
        if not self.is_ours:
            words += ["--filter", "label=agentfense.sandbox"]
        return self.docker("ps", "-aq", "--no-trunc", *words).split()

    def containers_of(self, place):
        """Names of those of sandboxes whose directories are beneath a path, whether they run or not."""
        found = []
        for container in self.containers("label=agentfense.sandbox"):
            with contextlib.suppress(RuntimeError):  # it went meanwhile
                facts = self.inspect(container)
                if any(str(place) in str(mount.get("Source")) for mount in facts["Mounts"]):
                    found.append(facts["Name"].lstrip("/"))
        return found

    def inspect(self, container):
        return json.loads(self.docker("inspect", container))[0]

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            return [line.split()[4] for line in mounts if line.split()[4].startswith(f"{self.dir}/")]

    def cgroups(self):
        """Deepest first."""
        found = [pathlib.Path(place) for place, _, _ in os.walk("/sys/fs/cgroup") if self.name in pathlib.Path(place).parts]
        return sorted(found, key=lambda path: -len(path.parts))


ENGINE = None


def running_engine():
    """The host of an engine that is there anyhow, or None."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://") or not shutil.which("docker"):
        return None
    return host if Engine(host).answers() else None


def get_engine():
    """One for all tests of a process. Unavailable says why there is none."""
    global ENGINE
    if ENGINE is None:
        named = os.environ.get("AGENTFENSE_TEST_DOCKER_HOST")
        if os.geteuid() != 0:
            raise Unavailable("sandboxes in containers need root")
        engine = Engine(named)
        atexit.register(engine.stop)
        try:
            ENGINE = engine.start()
        except Unavailable as reason:
            host = running_engine()
            if not host:
                raise
            print(f"using the engine at {host}: {reason}")
            ENGINE = Engine(host)
            atexit.register(ENGINE.stop)
    return ENGINE


ROOT = pathlib.Path(__file__).resolve().parents[2]


def place_container_program(place):
    """Beside the others of ours, which look for it there."""
    program = pathlib.Path(os.environ.get("AGENTFENSE_CONTAINER", ROOT / "build" / "src" / "container" / "agentfense-container"))
    if program.exists():
        shutil.copy(program, place)
    elif is_wanted():
        sys.exit(f"'{program}' is to be tested and is not there")


# ---- for the conftests of suites that run with both ----

def pytest_configure(config):
    config.addinivalue_line("markers", "docker: is among those that `make test` runs in containers as well")
    config.addinivalue_line("markers", "bwrap(reason): is not about containers")


def pytest_collection_modifyitems(items):
    import pytest  # benchmarks use the engine too, and have none

    if not is_wanted():
        return
    if os.environ.get("AGENTFENSE_DOCKER_ALL") != "1":
        items[:] = [item for item in items if item.get_closest_marker("docker")]
    for item in items:
        mark = item.get_closest_marker("bwrap")
        if mark:
            item.add_marker(pytest.mark.skip(reason=f"bwrap only: {mark.args[0]}"))


def is_wanted():
    """Whether a suite that runs with bubblewrap otherwise is to run in containers."""
    return os.environ.get("AGENTFENSE_TEST_RUNTIME") == "docker"


def engine_or_skip():
    """For a whole process of tests: skipped, with the reason, where no engine can be had."""
    try:
        return get_engine()
    except Unavailable as reason:
        print(f"skipped: {reason}", flush=True)
        os._exit(77)
