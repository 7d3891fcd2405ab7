"""Attacks on the whole product, by the programs as people start them: `agentfense run` and `agentfense serve`, both with what the suites of
each have: their servers, hosts, workspaces and clients. Every test leaves no process, mount or file. Root runs each file a second time as an
ordinary user (as_user.py)."""

import importlib.util
import os
import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *[str(HERE.parent / suite) for suite in ("serve", "rest", "supervisor", "docker")]]

import engine  # noqa: E402
from programs import make_stubs, place_programs  # noqa: E402

PROGRAMS = place_programs()
make_stubs()

from ctl import Box  # noqa: E402
from server import Server  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

pytest_configure = engine.pytest_configure


def pytest_collection_modifyitems(config, items):
    """With as_user.py: what `host` tries as an ordinary user is left to the run that has it beside root's."""
    engine.pytest_collection_modifyitems(items)
    if os.environ.get("AGENTFENSE_AS_USER") == "1":
        left = [item for item in items if "host" in item.fixturenames]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


def load(name, path):
    """A module of another suite whose file has a name that is taken here."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


run_host = load("run_host", HERE.parent / "run" / "conftest.py")


@pytest.fixture(scope="module")
def shared():
    """One server for all tests of a file."""
    server = Server(PROGRAMS).start()
    yield server
    assert server.process.poll() is None, server.log()
    server.remove()


@pytest.fixture
def make():
    """Makes servers that are not started yet."""
    servers = []

    def make_server(**options):
        servers.append(Server(PROGRAMS, **options))
        return servers[-1]

    yield make_server
    for server in servers:
        server.remove()


@pytest.fixture(scope="module", params=["root", "user"])
def host(request):
    """`agentfense run`, as root and as an ordinary user."""
    made = run_host.make_host(request.param)
    yield made
    run_host.end_host(made)


@pytest.fixture(scope="module")
def one():
    """`agentfense run` one way, for what does not depend on who one is."""
    made = run_host.make_host("root" if os.geteuid() == 0 else "user")
    yield made
    run_host.end_host(made)


@pytest.fixture
def make_box():
    """Makes sandboxes with a supervisor of their own, to be started by the test."""
    boxes = []

    def make_one(program=PROGRAMS / "agentfense-supervisor", **options):
        boxes.append(Box(program, **options))
        return boxes[-1]

    yield make_one
    for box in boxes:
        box.remove()
