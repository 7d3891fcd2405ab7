"""A real server, in a directory of its own, and clients for it. Every test leaves no process, mount or file."""

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))

ROOT = pathlib.Path(__file__).resolve().parents[2]


def place_programs():
    """Copies where every user can reach them, whatever the build directory allows; they find each other there."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-serve-programs-"))
    atexit.register(shutil.rmtree, place)
    place.chmod(0o755)
    for variable, built in (("AGENTFENSE", "cli/agentfense"), ("AGENTFENSE_SERVER", "server/agentfense-server"),
                            ("AGENTFENSE_SUPERVISOR", "supervisor/agentfense-supervisor"), ("AGENTFENSE_INIT", "init/agentfense-init")):
        program = os.environ.get(variable, str(ROOT / "build/src" / built))
        if not os.access(program, os.X_OK):
            sys.exit(f"'{program}' is to be tested and is not there")
        shutil.copy(program, place / os.path.basename(built))
    return place


def make_stubs():
    """Messages as Python's protobuf knows them, made from the files that the server is made from."""
    place = tempfile.mkdtemp(prefix="af-serve-stubs-")
    atexit.register(shutil.rmtree, place)
    protos = ["sandbox/v1/sandbox.proto", "sandbox/v1/codebase.proto", "google/rpc/status.proto", "grpc/health/v1/health.proto",
              "grpc/reflection/v1alpha/reflection.proto"]
    subprocess.run([os.environ.get("PROTOC", "protoc"), f"--proto_path={ROOT / 'proto'}", f"--python_out={place}", *protos],
                   check=True)
    sys.path.insert(0, place)


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
