"""Sandboxes with the real supervisor, each in a directory of its own. Every test leaves no process, mount or file."""

import atexit
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), os.pardir, "docker")]

import ctl  # noqa: E402
import engine  # noqa: E402
from ctl import Box, Codebase  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

ROOT = pathlib.Path(__file__).resolve().parents[2]


def place_programs():
    """Copies where every user can reach them, whatever the build directory allows; they find each other there."""
    supervisor = os.environ.get("AGENTFENSE_SUPERVISOR", str(ROOT / "build/src/supervisor/agentfense-supervisor"))
    init = os.environ.get("AGENTFENSE_INIT", str(ROOT / "build/src/init/agentfense-init"))
    for program in (supervisor, init):
        if not os.access(program, os.X_OK):
            sys.exit(f"'{program}' is to be tested and is not there")
    place = tempfile.mkdtemp(prefix="af-sup-programs-")
    atexit.register(shutil.rmtree, place)
    os.chmod(place, 0o755)
    shutil.copy(init, os.path.join(place, "agentfense-init"))
    engine.place_container_program(place)
    shutil.copy(os.environ.get("CODEBASE_DRIVER", str(ROOT / "build/tests/supervisor/codebase-driver")),
                os.path.join(place, "codebase-driver"))
    return shutil.copy(supervisor, os.path.join(place, "agentfense-supervisor"))


PROGRAM = place_programs()
pytest_configure, pytest_collection_modifyitems = engine.pytest_configure, engine.pytest_collection_modifyitems
if engine.is_wanted():
    found = engine.engine_or_skip()
    ctl.CONTAINER = found.image("tools"), found.socket


@pytest.fixture
def make():
    """Makes sandboxes that are not started yet."""
    boxes = []

    def make_box(**options):
        if ctl.CONTAINER and options.get("user") is not None:
            pytest.skip("an ordinary user's sandbox is no container")
        box = Box(options.pop("program", PROGRAM), **options)
        boxes.append(box)
        return box

    yield make_box
    for box in boxes:
        box.remove()


@pytest.fixture
def make_codebase():
    made = []

    def make_one(**options):
        made.append(Codebase(os.path.join(os.path.dirname(PROGRAM), "codebase-driver"), **options))
        return made[-1]

    yield make_one
    for codebase in made:
        codebase.remove()


@pytest.fixture
def box(make):
    """One that runs."""
    return make().start()


@pytest.fixture(scope="module")
def shared():
    """One that runs, for all tests of a file that do nothing to it but start commands."""
    box = Box(PROGRAM, files={"hello.txt": "hello\n", "sub/x": "x"}, env=["FROM_SANDBOX=yes", "BOTH=sandbox"]).start()
    yield box
    box.remove()


@pytest.fixture
def client(shared):
    client = shared.client()
    yield client
    client.close()
