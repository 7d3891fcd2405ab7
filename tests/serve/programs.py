"""What is under test, and the messages it speaks, for all suites that start a real server."""

import atexit
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "docker"))

import engine  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def place_programs():
    """Copies where every user can reach them, whatever the build directory allows; they find each other there."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-serve-programs-"))
    atexit.register(shutil.rmtree, place)
    place.chmod(0o755)
    for variable, built in (("AGENTFENSE", "cli/agentfense"), ("AGENTFENSE_CLIENT", "cli/agentfense-client"), ("AGENTFENSE_SERVER", "server/agentfense-server"),
                            ("AGENTFENSE_SUPERVISOR", "supervisor/agentfense-supervisor"), ("AGENTFENSE_INIT", "init/agentfense-init")):
        program = os.environ.get(variable, str(ROOT / "build/src" / built))
        if not os.access(program, os.X_OK):
            sys.exit(f"'{program}' is to be tested and is not there")
        shutil.copy(program, place / os.path.basename(built))
    engine.place_container_program(place)
    return place


def make_stubs():
    """Messages as Python's protobuf knows them, made from the files that the server is made from."""
    place = tempfile.mkdtemp(prefix="af-serve-stubs-")
    atexit.register(shutil.rmtree, place)
    protos = [*sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto/sandbox/v1").glob("*.proto")), "google/rpc/status.proto", "grpc/health/v1/health.proto",
              "grpc/reflection/v1alpha/reflection.proto"]
    subprocess.run([os.environ.get("PROTOC", "protoc"), f"--proto_path={ROOT / 'proto'}", f"--python_out={place}", *protos],
                   check=True)
    # Out of the way of packages that are called google and grpc too.
    for path, name in (("google/rpc/status_pb2.py", "rpc_status_pb2.py"), ("grpc/health/v1/health_pb2.py", "health_pb2.py"),
                       ("grpc/reflection/v1alpha/reflection_pb2.py", "reflection_pb2.py")):
        os.rename(f"{place}/{path}", f"{place}/{name}")
    sys.path.insert(0, place)
