"""One list of cases, and every client that there is."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "serve")]

from programs import make_stubs, place_programs  # noqa: E402

PROGRAMS = place_programs()
make_stubs()

from server import Server, reserved_port  # noqa: E402
from speakers import SPEAKERS, Fetching, Missing, Speaker  # noqa: E402

@pytest.fixture(scope="session")
def fetching(request):
    wanted = [item.callspec.params.get("speaker") for item in request.session.items if hasattr(item, "callspec")]
    made = Fetching([name for name in SPEAKERS if name in wanted])
    yield made
    made.close()

@pytest.fixture(scope="session", params=SPEAKERS)
def speaker(request, fetching):
    try:
        args = fetching.get(request.param)
    except Missing as missing:
        pytest.skip(f"{request.param}: {missing}")
    speaker = Speaker(args)
    speaker.name = request.param
    yield speaker
    speaker.close()

@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    place = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    place / "key.pem", "-out", place / "cert.pem", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"], check=True, capture_output=True)
    return place

@pytest.fixture(scope="session")
def shared():
    server = Server(PROGRAMS, **{"runtime-max-output": "8M"})
    try:
        yield server.start()
    finally:
        server.remove()

@pytest.fixture(scope="session")
def secure(certificate):
    server = Server(PROGRAMS, **{"server-tls-cert": certificate / "cert.pem", "server-tls-key": certificate / "key.pem"})
    try:
        yield server.start()
    finally:
        server.remove()

@pytest.fixture
def fixed():
    """A server that comes again at the same address."""
    with reserved_port() as port:
        server = Server(PROGRAMS, **{"server-grpc-addr": f"127.0.0.1:{port}"})
        try:
            yield server.start()
        finally:
            server.remove()
