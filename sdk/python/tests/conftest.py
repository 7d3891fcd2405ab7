"""A real server with real sandboxes, at the default endpoint: as root in a network namespace of the tests' own, where that is
free whatever else runs on the host. Nothing is left: no process, mount or file."""

import atexit
import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
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


def enter_own_network():
    """Before any thread is there: namespaces belong to threads."""
    clone_newnet, siocsifflags, iff_up = 0x40000000, 0x8914, 1
    if os.geteuid() != 0 or ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, siocsifflags, struct.pack("16sh14x", b"lo", iff_up))


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


enter_own_network()
PROGRAMS = place_programs()
for name in [name for name in os.environ if name.startswith("AGENTFENSE")]:
    if name != "AGENTFENSE_SANITIZED":
        del os.environ[name]
os.environ["PATH"] = f"{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


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
    """`agentfense serve` in a directory of its own."""

    def __init__(self, *settings):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-sdk-"))
        self.top.chmod(0o755)
        self.settings = settings
        self.environment = {"AGENTFENSE_STATE_DIR": str(self.top / "state"), "PATH": os.environ["PATH"]}
        self.process = None

    def start(self, port=9000):
        with open(self.top / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(PROGRAMS / "agentfense"), "serve", f"--grpc-addr=localhost:{port}", "--http-addr=", *self.settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
            )

        def listens():
            assert self.process.poll() is None, self.log()
            with contextlib.suppress(OSError):
                socket.create_connection(("localhost", port), 1).close()
                return True

        eventually(listens)
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
    """One at localhost:9000 for all tests that do not disturb each other."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", 9000))
        except OSError:
            pytest.skip("port 9000 is in use, and only root has a network of its own")
    server = Server().start()
    yield server
    server.remove()


@pytest.fixture
def make_server():
    made = []

    def make(*settings, port=9100):
        made.append(Server(*settings))
        return made[-1].start(port)

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
