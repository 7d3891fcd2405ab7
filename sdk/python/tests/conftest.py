"""A real server with real sandboxes. In a network namespace of the tests' own it listens at the default endpoint, which is free there whatever
else runs on the host: root has such a namespace, an ordinary user where user namespaces are allowed and sandboxes start in them. Without one the
kernel chooses the port, AGENTFENSE_ENDPOINT names it, and tests of the default endpoint are skipped. Nothing is left: no process, mount or file."""

import atexit
import contextlib
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

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
WAIT = 60
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import own_network  # noqa: E402

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"


def has_sandboxes_in_own_network():
    """Tried in a child: there is no way back out of a user namespace, and some hosts refuse what a sandbox needs in one."""
    with tempfile.TemporaryDirectory(prefix="af-sdk-") as top:
        words = [str(PROGRAMS / "agentfense"), "run", "-q", "--rm", top, "--", "true"]
        environment = {"AGENTFENSE_STATE_DIR": f"{top}-state", "PATH": os.environ["PATH"]}
        try:
            done = subprocess.run(words, env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=own_network.enter)
        except subprocess.SubprocessError:
            return False
        finally:
            shutil.rmtree(f"{top}-state", ignore_errors=True)
    return done.returncode == 0


def has_own_network():
    try:
        if os.geteuid() == 0 or has_sandboxes_in_own_network():
            own_network.enter()
            return True
    except OSError:
        pass
    return False


def place_programs():
    """Copies where every user can reach them; they find each other there."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-sdk-programs-"))
    atexit.register(shutil.rmtree, place)
    place.chmod(0o755)
    for variable, built in (
        ("AGENTFENSE", "cli/agentfense"),
        ("AGENTFENSE_SERVER", "server/agentfense-server"),
        ("AGENTFENSE_SUPERVISOR", "supervisor/agentfense-supervisor"),
        ("AGENTFENSE_INIT", "init/agentfense-init"),
    ):
        program = os.environ.pop(variable, str(ROOT / "build/src" / built))
        if not os.access(program, os.X_OK):
            sys.exit(f"'{program}' is to be tested and is not there")
        shutil.copy(program, place / os.path.basename(built))
    return place


PROGRAMS = place_programs()
for name in [name for name in os.environ if name.startswith("AGENTFENSE")]:
    if name not in ("AGENTFENSE_SANITIZED", "AGENTFENSE_TEST_RESULTS"):
        del os.environ[name]
os.environ["PATH"] = f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HAS_OWN_NETWORK = has_own_network()
DEFAULT_ENDPOINT = "localhost:9000"
needs_default_endpoint = pytest.mark.skipif(not HAS_OWN_NETWORK, reason="the default endpoint is free for sure only in a network of the tests' own")


def eventually(condition, timeout=WAIT):
    """Waits for something that another process does in its own time."""
    until = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.02)
    return value


def processes(*words):
    """Pids of processes whose command line has all these words."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if line and all(word in line for word in words):
                    found.append(int(entry.name))
    return found


class Server:
    """`agentfense serve` in a directory of its own. Started again, it listens where it did before."""

    def __init__(self, *settings, endpoint="127.0.0.1:0"):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-sdk-"))
        self.top.chmod(0o755)
        self.settings, self.endpoint = settings, endpoint
        self.environment = {"AGENTFENSE_STATE_DIR": str(self.top / "state"), "PATH": os.environ["PATH"]}
        self.process = None

    @property
    def port(self):
        return int(self.endpoint.rpartition(":")[2])

    def start(self):
        begin = (self.top / "log").stat().st_size if self.process else 0
        with open(self.top / "log", "ab") as log:
            self.process = subprocess.Popen(
                [
                    str(PROGRAMS / "agentfense"), "serve", f"--grpc-addr={self.endpoint}", "--http-addr=", "--logging-format=json",
                    *self.settings,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
            )  # fmt: skip

        def address():
            assert self.process.poll() is None, self.log()
            for line in (self.top / "log").read_bytes()[begin:].splitlines():
                with contextlib.suppress(ValueError):
                    told = json.loads(line)
                    if told.get("msg") == "listening" and not told["address"].startswith("unix:"):
                        return told["address"]

        found = eventually(address)
        if self.endpoint.endswith(":0"):
            self.endpoint = found
        return self

    def log(self):
        return (self.top / "log").read_text(errors="replace")

    def token(self, *args):
        done = subprocess.run(
            [str(PROGRAMS / "agentfense"), "token", *args], env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def remove(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(WAIT)
        for pid in processes("agentfense-supervisor", str(self.top)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        eventually(lambda: not processes("agentfense-supervisor", str(self.top)))
        shutil.rmtree(self.top)


@pytest.fixture(scope="session")
def server():
    """One where clients look for it by themselves, for all tests that do not disturb each other."""
    from agentfense import _private

    server = Server(endpoint=DEFAULT_ENDPOINT if HAS_OWN_NETWORK else "127.0.0.1:0")
    with pytest.MonkeyPatch.context() as patch:
        # On a busy machine an answer may take longer than clients wait before they start a private server instead.
        patch.setattr(_private, "PROBE_SECONDS", WAIT)
        try:
            server.start()
            if not HAS_OWN_NETWORK:
                patch.setenv("AGENTFENSE_ENDPOINT", server.endpoint)
            yield server
        finally:
            server.remove()


@pytest.fixture(scope="module")
def make_server():
    made = []

    def make(*settings):
        made.append(Server(*settings))
        return made[-1].start()

    yield make
    for server in made:
        server.remove()


@pytest.fixture
def client(server):
    from agentfense import SandboxClient

    with SandboxClient() as client:
        yield client


@pytest.fixture
def tree(tmp_path):
    """Writes files: {path: text}; a text None makes a directory. Gives the directory."""

    def write(files, under="project"):
        top = tmp_path / under
        top.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            file = top / path
            if text is None:
                file.mkdir(parents=True, exist_ok=True)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return top

    return write


PROJECT = {
    "README.md": "# Project\n",
    "app.py": "print('hello')  # TODO: more\n",
    "src/main.py": "print('main')\n",
    "config.yaml": "version: 1\n",
    ".env.local": "TOKEN=tell-nobody\n",
    "secrets/private.key": "tell-nobody\n",
    "secrets/public.key": "tell everybody\n",
    "secrets/.env": "TOKEN=tell-nobody\n",
    "docs/guide.md": "read me\n",
    "metadata/schema.json": '{"tell": "nobody"}\n',
    "metadata/config.yaml": "a: 1\n",
}


@pytest.fixture
def project(tree):
    return tree(PROJECT)
