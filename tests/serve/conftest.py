"""A real server, in a directory of its own, and clients for it. Every test leaves no process, mount or file."""

import atexit
import ctypes
import os
import subprocess
import sys

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), os.pardir, "docker")]

import engine  # noqa: E402
from programs import make_stubs, place_programs  # noqa: E402

CLONE_NEWNS = 0x00020000
PROGRAMS = place_programs()
make_stubs()

from postgres import Postgres  # noqa: E402
from review import FILES, Review  # noqa: E402
from server import Server  # noqa: E402

if os.environ.get("AGENTFENSE_TEST_DB") == "postgres":
    try:
        POSTGRES = Postgres()
    except LookupError as missing:
        print(f"skipped: {missing}")
        os._exit(77)
    atexit.register(POSTGRES.stop)
    Server.new_database = POSTGRES.new_database


def pytest_configure(config):
    engine.pytest_configure(config)
    config.addinivalue_line("markers", "databases: of the workspaces' tests, one that always runs on both")


def pytest_collection_modifyitems(config, items):
    """What workspaces do depends little on the database: of their tests but those of their life, the second one runs a few. AGENTFENSE_LONG=1: all."""
    engine.pytest_collection_modifyitems(items)
    if os.environ.get("AGENTFENSE_TEST_DB") != "postgres" or os.environ.get("AGENTFENSE_LONG"):
        return
    is_left = [item.path.name.startswith("test_ws_") and item.path.name != "test_ws_life.py" and not item.get_closest_marker("databases")
               for item in items]
    config.hook.pytest_deselected(items=[item for item, left in zip(items, is_left) if left])
    items[:] = [item for item, left in zip(items, is_left) if not left]


if engine.is_wanted():
    Server.engine = engine.engine_or_skip()


@pytest.fixture(scope="module")
def own_mounts():
    """From here on mounts are seen by these tests and their servers only, and end with them."""
    if Server.engine:
        pytest.skip("an engine would not see them")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        pytest.skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def disk(own_mounts):
    """Makes a small disk at a path."""
    made = []

    def mount(path, size):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "tmpfs", str(path)], check=True)
        made.append(path)
        return path

    yield mount
    for path in reversed(made):
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def postgres():
    try:
        database = Postgres()
    except LookupError as missing:
        pytest.skip(str(missing))
    yield database
    database.stop()


@pytest.fixture
def make():
    """Makes servers that are not started yet."""
    servers = []

    def make_server(**options):
        server = Server(PROGRAMS, **options)
        servers.append(server)
        return server

    yield make_server
    for server in servers:
        server.remove()


@pytest.fixture
def server(make):
    return make().start()


@pytest.fixture(scope="module")
def shared():
    """One for all tests of a file that do not disturb each other."""
    server = Server(PROGRAMS).start()
    yield server
    server.remove()


@pytest.fixture
def client(shared):
    return shared.client()


@pytest.fixture
def box(shared):
    """A workspace to review."""
    made = Review(shared, FILES)
    yield made
    made.remove()
