"""Sandboxes started by the driver, as root for a user of the sandbox's own and as an ordinary user. Every test starts its own and
leaves no process, cgroup or file."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "docker"))

import engine  # noqa: E402
from installed import install  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = os.environ.get("RUNTIME_DRIVER", str(ROOT / "build" / "tests" / "runtime" / "runtime-driver"))
IS_ROOT = os.geteuid() == 0
IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
# Users and cgroups of this process of tests alone: others run beside it. Supervisors give their sandboxes uids below 1900000000.
SANDBOX_UID = 1900000000 + os.getpid()
USER_UID = 2000000000 + os.getpid() if IS_ROOT else os.geteuid()
CGROUP_PREFIX = f"sbtest_{os.getpid()}-"
WAIT = 60  # for what takes a moment on an idle machine
PYTHON = "/usr/bin/python3"
ENGINE = engine.engine_or_skip() if engine.is_wanted() else None

pytest_configure, pytest_collection_modifyitems = engine.pytest_configure, engine.pytest_collection_modifyitems


class Result:
    def __init__(self, done):
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")
        self.code = done.returncode
        self.events = re.findall(r"^event (\w+) (\d+) (\d+)$", self.err, re.M)

    def __repr__(self):
        return f"<code {self.code}\nout: {self.out}\nerr: {self.err}>"


class Host:
    """Where sandboxes are started from: the driver, reachable for any user, a workspace, and who starts them."""

    is_container = False
    count = 0  # of sandboxes

    def __init__(self, kind, staged=False):
        self.kind = kind
        self.staged = staged  # as a supervisor does it: the root is made before bwrap, in a mount namespace
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="af-rt-"))
        self.dir.chmod(0o755)
        self.driver = self.dir / "driver"
        shutil.copy(DRIVER, self.driver)
        self.driver.chmod(0o755)
        self.as_root = kind == "root"
        self.kills = False  # set by tests that kill the driver, which then cannot remove its cgroup
        self.uid = SANDBOX_UID if self.as_root else USER_UID
        self.workspace = self.dir / "workspace"
        self.workspace.mkdir(mode=0o755)
        self.stage = self.dir / "stage"
        self.stage.mkdir(mode=0o755)
        if IS_ROOT:
            os.chown(self.workspace, self.uid, self.uid)

    def command(self, *options, script, workspace=True):
        """The words that start a sandbox with this script as its pid 1."""
        Host.count += 1
        words = [str(self.driver), "--id", f"{CGROUP_PREFIX}{Host.count}", *map(str, options)]
        if self.staged and workspace:
            words += ["--stage", str(self.stage)]
        if workspace:
            words += ["--workspace", str(self.workspace)]
        if self.as_root:
            words += ["--uid", str(self.uid)]
        elif IS_ROOT:
            words = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", *words]
        return [*words, "--", script]

    def run(self, script, *options, workspace=True, **kwargs):
        kwargs.setdefault("timeout", 2 * WAIT)
        done = subprocess.run(self.command(*options, script=script, workspace=workspace), capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, **kwargs)
        return Result(done)

    @contextlib.contextmanager
    def start(self, script, *options):
        """The driver while its sandbox runs, killed at the end however the test ends. Gives it, and bwrap's and init's pid."""
        with subprocess.Popen(self.command(*options, script=script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as driver:
            try:
                bwrap, init = (int(n) for n in driver.stderr.readline().split()[1:3])
                yield driver, bwrap, init
            finally:
                driver.kill()

    def sweep(self):
        """Ends orphans of starters that were killed too early; how many there were."""
        words = self.command(script="")
        words = words[:words.index(str(self.driver)) + 1] + ["--sweep"]
        return int(subprocess.run(words, capture_output=True, text=True, timeout=WAIT, check=True).stdout)

    def python(self, source, *options, **kwargs):
        """Runs Python inside; the source is a file of the workspace, so that it needs no quoting."""
        path = self.workspace / "probe.py"
        path.write_text(source)
        path.chmod(0o644)
        return self.run(f"exec {PYTHON} /workspace/probe.py", *options, **kwargs)


class ContainerHost(Host):
    """Where the same scripts run in containers: as commands of `agentfense run`, so init is where the script is otherwise."""

    is_container = True

    def __init__(self):
        super().__init__("root")
        self.state = self.dir / "state"
        self.state.mkdir(mode=0o700)
        self.program = install(self.dir / "bin")

    def command(self, *options, script, workspace=True):
        return [str(self.program), "run", "-q", "-n", "--rm", "--preset", "full-access", "--runtime", "docker", "--image",
                ENGINE.image("tools"), *map(str, options), str(self.workspace), "--", "sh", "-c", f"exec 2>&1\n{script}"]

    def run(self, script, *options, env=None, **kwargs):
        state = {"AGENTFENSE_STATE_DIR": str(self.state), "DOCKER_HOST": ENGINE.host}
        return super().run(script, *options, env={**(env or os.environ), **state}, **kwargs)


def cgroups():
    """Those of this process of tests in every hierarchy. Those of others come and go while one looks, which a walk does not mind."""
    return [pathlib.Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") if place.endswith("/agentfense")
            for name in names if name.startswith(CGROUP_PREFIX)]


def processes_of(*uids):
    """Those that live; a zombie waits only for the machine's pid 1 to take note."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        if any(f"\nUid:\t{uid}\t" in text for uid in uids) and "\nState:\tZ" not in text:
            found.append(pid)
    return found


def sweep():
    """What a killed driver leaves: empty cgroups, which a server's next start sweeps by name."""
    for path in cgroups():
        try:
            path.rmdir()
            path.parent.rmdir()
        except OSError:
            pass


def left_behind():
    return (processes_of(SANDBOX_UID, USER_UID) if IS_ROOT else []) + cgroups()


def check_nothing_left(may_sweep):
    """What was killed a moment ago may take a moment to go."""
    until = time.monotonic() + WAIT
    while True:
        if may_sweep:
            sweep()
        left = left_behind()
        if not left:
            return
        if time.monotonic() > until:
            pytest.fail(f"left behind: {left}")
        time.sleep(0.01)


@pytest.fixture(params=["root", "user", "root staged", "user staged"])
def host(request):
    kind, _, staged = request.param.partition(" ")
    if ENGINE and request.param != "root":
        pytest.skip("in a container it is the same")
    if ENGINE:
        made = ContainerHost()
        ENGINE.adopt(made.dir)
        yield made
        shutil.rmtree(made.dir)
        assert not ENGINE.containers()
        return
    if kind == "root" and not IS_ROOT:
        pytest.skip("a sandbox with a user of its own needs root")
    made = Host(kind, staged == "staged")
    yield made
    shutil.rmtree(made.dir)
    check_nothing_left(made.kills)


@pytest.fixture
def limited():
    """A host that may make cgroups."""
    if not IS_ROOT:
        pytest.skip("cgroups here are root's")
    if ENGINE:
        pytest.skip("in tests/docker")
    made = Host("root")
    yield made
    shutil.rmtree(made.dir)
    check_nothing_left(made.kills)


@pytest.fixture
def user():
    """An ordinary user's host."""
    if ENGINE:
        pytest.skip("an ordinary user's sandbox is no container")
    made = Host("user")
    yield made
    shutil.rmtree(made.dir)
    check_nothing_left(made.kills)
