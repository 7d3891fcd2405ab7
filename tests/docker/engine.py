"""A Docker engine for tests.

One of our own, if we may start one: in directories of its own, with a network namespace and a cgroup of its own, so that it touches nothing
of another engine and nothing of it is left. Otherwise the one that runs here. AGENTFENSE_TEST_DOCKER_HOST names one that is to be used
whatever else there is.

Several processes of tests can share one engine, and then need not start one and import images each:

    /usr/bin/python3 engine.py DIRECTORY

starts it, prints "ready" or "unavailable: REASON", and removes the engine and DIRECTORY when its standard input ends or it gets SIGTERM.
The tests find it by AGENTFENSE_TEST_ENGINE=DIRECTORY, and skip with AGENTFENSE_TEST_ENGINE_UNAVAILABLE=REASON.
"""

import atexit
import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

import images

WAIT = 120
PR_SET_PDEATHSIG = 1
OWN_LABEL = f"agentfense.test={os.getpid()}"  # of containers that tests make by themselves, without a sandbox
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


class Connection(http.client.HTTPConnection):
    """To an engine's socket. Starting the docker program for each question takes many times as long."""

    def __init__(self, path, timeout):
        super().__init__("engine", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Engine:
    namespaces = ()  # words of unshare, beside a network of its own
    prologue = ""  # shell, before it starts
    options = ()
    is_shared = False  # with other processes of tests, so it is not to be stopped, and has containers of others
    preexec = None
    instead = {}  # images that are another here

    def __init__(self, host=None, place=None):
        self.is_ours = host is None
        self.name = f"af-dk-{os.urandom(5).hex()}"  # of its cgroup and of images
        self.dir = pathlib.Path(place or pathlib.Path(tempfile.gettempdir()) / self.name)
        self.dir.mkdir(mode=0o700, exist_ok=place is not None)
        self.host = host or f"unix://{self.dir}/sock"
        self.socket = self.host.partition("://")[2]
        self.daemon = None
        self.has_bridge = not self.is_ours

    @property
    def network_pid(self):
        """A process in the network that the engine calls the host's; None where that is not ours to enter."""
        return self.daemon.pid if self.daemon else None

    # ---- its life ----

    def words(self, network):
        return ["unshare", "--net", *self.namespaces, "/bin/sh", "-e", "-c", self.prologue + START, "sh", "dockerd", "-H", self.host, "--data-root", str(self.dir / "root"),
                "--exec-root", str(self.dir / "exec"), "--pidfile", str(self.dir / "pid"), "--exec-opt",
                "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{self.name}", "--max-download-attempts", "1",
                *self.options, *network]

    def launch(self, network):
        with open(self.dir / "log", "ab") as log:
            # What containerd writes about itself when it is slow to end stays with us.
            self.daemon = subprocess.Popen(self.words(network), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                           env={**os.environ, "TMPDIR": str(self.dir)}, start_new_session=True, preexec_fn=self.preexec)
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
        try:
            self.ask("/version", timeout=10)
        except RuntimeError:
            return False
        return True

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

    def revive(self):
        """After a test that may have stopped it."""
        if self.is_ours and not self.answers():
            self.restart()

    @staticmethod
    def outlast(pid, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    return
            except (FileNotFoundError, ProcessLookupError):
                return
            time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def stop(self):
        if self.is_ours:
            with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
                for container in self.containers():
                    self.docker("rm", "-f", container)
            self.end()
            for pid in own_processes(f"{self.dir}/exec"):  # containerd, and its shims
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for path in sorted(self.mounts(), reverse=True):
                subprocess.run(["umount", "-l", path], check=False)
            for path in self.cgroups():
                with contextlib.suppress(OSError):
                    path.rmdir()
        else:
            for made in self.dir.glob("*.image"):
                with contextlib.suppress(RuntimeError):
                    self.docker("rmi", "-f", made.read_text())
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- what it has ----

    def docker(self, *words, timeout=WAIT):
        done = subprocess.run(["docker", "-H", self.host, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"docker {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done.stdout

    def ask(self, path, timeout=WAIT, **query):
        """What its API answers to a GET."""
        words = urllib.parse.urlencode(query)
        connection = Connection(self.socket, timeout)
        try:
            connection.request("GET", f"{path}?{words}" if words else path)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(f"the engine at {self.host}: {error!r}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the engine at {self.host} answers {answer.status} to {path}: {content.decode(errors='replace')}")
        return json.loads(content)

    def image(self, kind):
        """The name of an image of images.MAKERS, made when it is first asked for. Others may ask for it at the same time."""
        kind = self.instead.get(kind, kind)
        made = self.dir / f"{kind}.image"
        with open(self.dir / f"{kind}.lock", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                tag = f"{self.name}/{kind}:1"
                tar = images.MAKERS[kind](self.dir / f"{kind}.tar")
                self.docker("import", tar, tag, timeout=5 * WAIT)
                tar.unlink()
                made.write_text(tag)
            return made.read_text()

    def listed(self, *filters):
        """What the engine tells of its containers, those that have ended as well. One without a name is the rest of a removal that failed in
        the engine, as one does that was killed: nobody can reach it any more."""
        words = {}
        for each in filters:
            key, _, value = each.partition("=")
            words.setdefault(key, []).append(value)
        return [found for found in self.ask("/containers/json", all=1, filters=json.dumps(words)) if found["Names"]]

    def containers(self, *filters):
        """Ids of all there are; of another's engine, those of sandboxes."""
        if not self.is_ours:
            filters += ("label=agentfense.sandbox",)
        return [found["Id"] for found in self.listed(*filters)]

    def adopt(self, place):
        """Says that containers of sandboxes beneath a path are of this process: of a shared engine, containers() tells of these only."""

    def containers_of(self, place):
        """Names of those of sandboxes whose directories are beneath a path, whether they run or not."""
        return [found["Names"][0].lstrip("/") for found in self.listed("label=agentfense.sandbox") if is_beneath(found, place)]

    def inspect(self, container):
        return self.ask(f"/containers/{container}/json")

    def mounts(self):
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            return [line.split()[4] for line in mounts if line.split()[4].startswith(f"{self.dir}/")]

    def cgroups(self):
        """Deepest first."""
        found = [pathlib.Path(place) for place, _, _ in os.walk("/sys/fs/cgroup") if self.name in pathlib.Path(place).parts]
        return sorted(found, key=lambda path: -len(path.parts))


def is_beneath(container, place):
    return any(f"{place}/" in str(mount.get("Source")) for mount in container["Mounts"])


class SharedEngine(Engine):
    """One that a process of its own started for several processes of tests."""

    is_shared = True

    def __init__(self, place):
        self.dir = pathlib.Path(place)
        facts = json.loads((self.dir / FACTS).read_text())
        self.host, self.name, self.has_bridge, self.pid = (facts[key] for key in ("host", "name", "has_bridge", "pid"))
        self.socket = self.host.partition("://")[2]
        self.is_ours = self.pid is not None
        self.places = []

    @property
    def network_pid(self):
        return self.pid

    def stop(self):
        """Whoever started it does."""

    def revive(self):
        """No test may stop it."""

    def adopt(self, place):
        self.places.append(place)

    def containers(self, *filters):
        key, _, value = OWN_LABEL.partition("=")
        return [found["Id"] for found in self.listed(*filters)
                if (found["Labels"] or {}).get(key) == value or any(is_beneath(found, place) for place in self.places)]


FACTS = "engine.json"
ENGINE = None
PRIVATE = None


def running_engine():
    """The host of an engine that is there anyhow, or None."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not host.startswith("unix://") or not shutil.which("docker"):
        return None
    other = Engine(host)
    try:
        return host if other.answers() else None
    finally:
        other.stop()


def start_engine(place=None, preexec=None):
    """One of our own, or else the one that runs here. Unavailable says why there is neither. The caller stops it."""
    if os.geteuid() != 0:
        raise Unavailable("sandboxes in containers need root")
    engine = Engine(os.environ.get("AGENTFENSE_TEST_DOCKER_HOST"), place)
    engine.preexec = preexec
    try:
        return engine.start()
    except BaseException as reason:
        engine.stop()
        host = running_engine() if isinstance(reason, Unavailable) else None
        if not host:
            raise
        print(f"using the engine at {host}: {reason}", file=sys.stderr)
        return Engine(host, place)


def get_engine():
    """One for all tests of a process. Unavailable says why there is none."""
    global ENGINE
    if ENGINE is None:
        missing, place = os.environ.get("AGENTFENSE_TEST_ENGINE_UNAVAILABLE"), os.environ.get("AGENTFENSE_TEST_ENGINE")
        if missing:
            raise Unavailable(missing)
        ENGINE = SharedEngine(place) if place else start_engine()
        atexit.register(ENGINE.stop)
    return ENGINE


def private_engine():
    """One that tests of this process may stop and start. Unavailable says why there is none."""
    global PRIVATE
    if PRIVATE is None:
        PRIVATE = start_engine() if get_engine().is_shared else get_engine()
        if PRIVATE is not ENGINE:
            atexit.register(PRIVATE.stop)
            PRIVATE.instead = {"tools": "box"}  # none of these tests needs them, and they take longest to import
    if not PRIVATE.is_ours:
        raise Unavailable(f"the engine at {PRIVATE.host} is another's")
    return PRIVATE


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


# ---- as a program ----

def serve(place):
    """Keeps an engine for others until nobody needs it."""
    def interrupt(*_):
        raise SystemExit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, it reaches all: who started us says when the tests have ended
    signal.signal(signal.SIGTERM, interrupt)
    os.makedirs(place, mode=0o700, exist_ok=True)
    try:
        engine = start_engine(os.path.abspath(place), end_with_parent)
    except Unavailable as reason:
        shutil.rmtree(place, ignore_errors=True)
        print(f"unavailable: {reason}", flush=True)
        return
    try:
        facts = {"host": engine.host, "name": engine.name, "has_bridge": engine.has_bridge, "pid": engine.network_pid}
        (engine.dir / FACTS).write_text(json.dumps(facts))
        print("ready", flush=True)
        while os.read(0, 4096):
            pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        engine.stop()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: engine.py DIRECTORY")
    serve(sys.argv[1])
