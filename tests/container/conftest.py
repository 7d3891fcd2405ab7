"""Sandboxes in containers, with the real supervisor and a real engine. Every test leaves no process, container, mount or file."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "supervisor"), str(HERE.parent / "docker")]

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

try:
    import engine
except ModuleNotFoundError:
    print("skipped: there is no engine for tests", flush=True)
    os._exit(77)

from ctl import Box, eventually  # noqa: E402

ENGINE = engine.engine_or_skip()
BUILD = HERE.parents[1] / "build" / "src"


@pytest.fixture(scope="session")
def programs():
    """Copies that find each other."""
    with tempfile.TemporaryDirectory(prefix="af-container-programs-") as place:
        os.chmod(place, 0o755)
        for name, room in (("SUPERVISOR", "supervisor"), ("INIT", "init"), ("CONTAINER", "container")):
            shutil.copy(os.environ.get(f"AGENTFENSE_{name}", BUILD / room / f"agentfense-{room}"), place)
        yield pathlib.Path(place)


@pytest.fixture
def dock():
    """The engine, in which no container of ours is left."""
    yield ENGINE
    eventually(lambda: not ENGINE.containers(), message=lambda: str(ENGINE.containers()))


@pytest.fixture
def make(programs, dock):
    """Makes sandboxes that are not started yet."""
    boxes = []

    def make_box(image="box", **options):
        options.setdefault("engine", dock.socket)
        name = dock.image(image) if image in engine.images.MAKERS else image
        boxes.append(Box(programs / "agentfense-supervisor", runtime="docker", image=name, **options))
        dock.adopt(boxes[-1].top)
        return boxes[-1]

    yield make_box
    for box in boxes:
        box.remove()


@pytest.fixture
def box(make):
    """One that runs."""
    return make(files={"hello.txt": "hello\n"}).start()
