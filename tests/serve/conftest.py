"""A real server, in a directory of its own, and clients for it. Every test leaves no process, mount or file."""

import atexit
import os
import subprocess
import sys

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), os.pardir, "docker")]

import engine  # noqa: E402
from programs import make_stubs, place_programs  # noqa: E402

PROGRAMS = place_programs()
make_stubs()

from disk import have_own_mounts, keep_files_in_memory  # noqa: E402
from postgres import Databases, Postgres  # noqa: E402
from review import FILES, Review  # noqa: E402
from server import Server  # noqa: E402



def find_postgres():
    """The server whose socket is in AGENTFENSE_TEST_POSTGRES_SHARED, which whoever runs many files of tests starts for all of them.
    Otherwise one of our own."""
    shared = os.environ.get("AGENTFENSE_TEST_POSTGRES_SHARED")
    if shared:
        return Databases(shared)
    try:
        own = Postgres()
    except LookupError as missing:
        print(f"skipped: {missing}", flush=True)
        os._exit(77)
    atexit.register(own.stop)
    return own


if os.environ.get("AGENTFENSE_TEST_DB") == "postgres":
    POSTGRES = find_postgres()
    Server.new_database, Server.drop_database = POSTGRES.new_database, POSTGRES.drop_database


def pytest_configure(config):
    engine.pytest_configure(config)
    config.addinivalue_line("markers", "databases: of the workspaces' tests, one that always runs on both")


def pytest_collection_modifyitems(config, items):
    """What workspaces do depends little on the database: of their tests but those of their life, the second one runs a few. AGENTFENSE_LONG=1: all."""
    engine.pytest_collection_modifyitems(items)
    choose_place(items)
    if os.environ.get("AGENTFENSE_TEST_DB") != "postgres" or os.environ.get("AGENTFENSE_LONG") == "1":
        return
    is_left = [item.path.name.startswith("test_ws_") and item.path.name != "test_ws_life.py" and not item.get_closest_marker("databases")
               for item in items]
    config.hook.pytest_deselected(items=[item for item, left in zip(items, is_left) if left])
    items[:] = [item for item, left in zip(items, is_left) if not left]


def choose_place(items):
    """Where projects and servers' state are: on the disk, and in memory for tests of what is above it. Those are the tests of workspaces,
    and whatever runs on the disk with the other database. AGENTFENSE_LONG=1: all on the disk."""
    is_above = os.environ.get("AGENTFENSE_TEST_DB") == "postgres" or all(item.path.name.startswith("test_ws_") for item in items)
    if is_above and os.geteuid() == 0 and not engine.is_wanted() and os.environ.get("AGENTFENSE_LONG") != "1":
        keep_files_in_memory()


if engine.is_wanted():
    Server.engine = engine.engine_or_skip()


@pytest.fixture(scope="module")
def own_mounts():
    """From here on mounts are seen by these tests and their servers only, and end with them."""
    if Server.engine:
        pytest.skip("an engine would not see them")
    try:
        have_own_mounts()
    except OSError as error:
        pytest.skip(f"no mount namespace: {error}")


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


@pytest.fixture(scope="module")
def own_postgres():
    try:
        database = Postgres()
    except LookupError as missing:
        pytest.skip(str(missing))
    yield database
    database.stop()


@pytest.fixture
def postgres(own_postgres):
    """One that a test may kill, and that nobody outside of its file uses."""
    if not own_postgres.is_running:  # the test before failed while it was away
        own_postgres.start()
    return own_postgres


@pytest.fixture
def make(request):
    """Makes servers that are not started yet. All of them are removed, whatever becomes of one."""
    def make_server(**options):
        server = Server(PROGRAMS, **options)
        request.addfinalizer(server.remove)
        return server

    return make_server


@pytest.fixture
def server(make):
    return make().start()


@pytest.fixture(scope="module")
def shared():
    """One for all tests of a file that do not disturb each other."""
    server = Server(PROGRAMS)
    try:
        yield server.start()
    finally:
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
