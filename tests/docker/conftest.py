"""Servers whose sandboxes are containers, and a real engine for them. Every test leaves no process, container, mount, cgroup or file."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "serve")]

import engine  # noqa: E402
from installed import install  # noqa: E402
from programs import make_stubs, place_programs  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

ENGINE = engine.engine_or_skip()
PROGRAMS = place_programs()
make_stubs()

from server import Server  # noqa: E402

Server.engine = ENGINE
IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("long") and not IS_LONG:
            item.add_marker(pytest.mark.skip(reason="AGENTFENSE_LONG=1 runs it"))


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes minutes")
    config.addinivalue_line("markers", "restarts: stops the engine")


@pytest.fixture
def dock(request, monkeypatch):
    """The engine; it runs afterwards, and no container of ours is left in it, but what another test failed to remove. Tests that stop it have
    one that nobody else uses."""
    found = ENGINE
    if request.node.get_closest_marker("restarts"):
        try:
            found = engine.private_engine()
        except engine.Unavailable as reason:
            pytest.skip(str(reason))
        monkeypatch.setattr(Server, "engine", found)
    before = set(found.containers())
    yield found
    found.revive()
    assert set(found.containers()) <= before


@pytest.fixture
def make(dock):
    """Makes servers that are not started yet."""
    servers = []

    def make_server(**options):
        servers.append(Server(PROGRAMS, **options))
        dock.adopt(servers[-1].top)
        return servers[-1]

    yield make_server
    dock.revive()
    for server in servers:
        server.remove()


@pytest.fixture
def server(make):
    return make().start()


@pytest.fixture(scope="module")
def shared():
    """One for all tests of a file that do not disturb each other. Containers may have a network, if they ask for it."""
    server = Server(PROGRAMS, **{"runtime-docker-enable-networking": "true"})
    ENGINE.adopt(server.top)
    yield server.start()
    server.remove()
    assert not ENGINE.containers()


@pytest.fixture
def client(shared):
    return shared.client()


class Shop:
    """Who types `agentfense` in a directory of a project."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="af-dkrun-"))
        self.dir.chmod(0o755)
        self.program = install(self.dir / "bin")
        self.base = self.dir / "project"
        self.base.mkdir()
        (self.base / "hello.txt").write_text("hello\n")
        (self.dir / "state").mkdir(mode=0o700)

    def environment(self, **env):
        return {"PATH": os.environ["PATH"], "HOME": str(self.dir), "AGENTFENSE_STATE_DIR": str(self.dir / "state"),
                "AGENTFENSE_SERVER_HTTP_ADDR": "127.0.0.1:1", "DOCKER_HOST": ENGINE.host, **env}

    def call(self, *words, **env):
        return subprocess.run([str(self.program), *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=120, check=False, cwd=self.dir, env=self.environment(**env))

    def run(self, *words, image="box", **env):
        """Options, "--", and the command."""
        return self.call("run", "-q", "--image", ENGINE.image(image), self.base, *words, **env)


@pytest.fixture
def shop(dock):
    made = Shop()
    dock.adopt(made.dir)
    yield made
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
        left = [line for line in mounts if str(made.dir) in line]
    shutil.rmtree(made.dir, ignore_errors=True)
    assert not left
