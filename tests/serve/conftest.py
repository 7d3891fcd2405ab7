"""A real server, in a directory of its own, and clients for it. Every test leaves no process, mount or file."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from programs import make_stubs, place_programs  # noqa: E402

PROGRAMS = place_programs()
make_stubs()

from server import Server  # noqa: E402


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
