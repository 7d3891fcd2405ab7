"""Attacks on the whole product, by the programs as people start them: `agentfense run` and `agentfense serve`, both with what the suites of
each have: their servers, hosts, workspaces and clients. Every test leaves no process, mount or file. Root runs each file a second time as an
ordinary user (as_user.py), without what the first run tries as an ordinary user already, and with a share of the cases whose outcome does not depend
on who runs the server: mark them `few_as_user(every)`. AGENTFENSE_LONG=1 runs all of these twice."""

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

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
IS_SECOND_RUN = os.environ.get("AGENTFENSE_AS_USER") == "1"  # as an ordinary user, after root's run of the same file
BOTH_WAYS = {"host", "own"}  # fixtures that are root's and an ordinary user's in root's run


def pytest_configure(config):
    engine.pytest_configure(config)
    config.addinivalue_line("markers", "few_as_user(every): the second run, as an ordinary user, has every so many of the cases")


def is_for_second_run(item, case):
    """`case` numbers the parameters of a test."""
    mark = item.get_closest_marker("few_as_user")
    return not BOTH_WAYS & set(item.fixturenames) and (IS_LONG or not mark or case % mark.kwargs["every"] == 0)


def pytest_collection_modifyitems(config, items):
    engine.pytest_collection_modifyitems(items)
    if not IS_SECOND_RUN:
        return
    counts, kept, left = {}, [], []
    for item in items:
        case = counts[item.function] = counts.get(item.function, -1) + 1
        (kept if is_for_second_run(item, case) else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


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
