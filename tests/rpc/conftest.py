"""A server of the room `rpc` in a process of its own for each test, and clients of it."""

import os
import pathlib
import re
import subprocess
import sys
import time

import grpc
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("ECHO_SERVER", ROOT / "build" / "tests" / "rpc" / "echo-server")).resolve()
PROTOC = os.environ.get("PROTOC", "protoc")
SANITIZED = os.environ.get("AGENTFENSE_SANITIZED", "")
TIMEOUT = int(os.environ.get("ECHO_TIMEOUT", "120"))  # of what takes milliseconds on an idle machine
MIB = 1 << 20


@pytest.fixture(scope="session")
def pb(tmp_path_factory):
    """The messages of the tests and of the services that every server has."""
    out = tmp_path_factory.mktemp("pb")
    subprocess.run([PROTOC, f"--proto_path={ROOT}/tests/rpc", f"--proto_path={ROOT}/proto", f"--python_out={out}", "echo.proto",
                    "google/rpc/status.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto"], check=True)
    # Under names of their own: "google" and "grpc" are packages of others.
    for path, name in [("google/rpc/status_pb2.py", "rpc_status_pb2.py"), ("grpc/health/v1/health_pb2.py", "health_pb2.py"),
                       ("grpc/reflection/v1/reflection_pb2.py", "reflection_pb2.py")]:
        (out / name).write_text((out / path).read_text())
    sys.path.insert(0, str(out))
    import echo_pb2
    import health_pb2
    import reflection_pb2
    import rpc_status_pb2

    class Messages:
        echo, health, reflection, status = echo_pb2, health_pb2, reflection_pb2, rpc_status_pb2

    return Messages


class Client:
    """A channel, and the methods of the test service on it."""

    def __init__(self, pb, channel):
        self.pb = pb
        self.channel = channel
        echo = pb.echo
        request, response = echo.Request.SerializeToString, echo.Response.FromString
        self.unary = channel.unary_unary("/test.v1.Echo/Unary", request, response)
        self.collect = channel.stream_unary("/test.v1.Echo/Collect", request, response)
        self.stream = channel.unary_stream("/test.v1.Echo/Stream", request, response)
        self.chat = channel.stream_stream("/test.v1.Echo/Chat", request, response)
        self.silent = channel.unary_unary("/test.v1.Echo/Silent", echo.Nothing.SerializeToString, echo.Nothing.FromString)
        self.facts_call = channel.unary_unary("/test.v1.Echo/Facts", echo.Nothing.SerializeToString, echo.Facts.FromString)

    def facts(self):
        return self.facts_call(self.pb.echo.Nothing(), timeout=TIMEOUT)

    def until(self, condition):
        """The facts, as soon as they are so."""
        end = time.monotonic() + TIMEOUT
        while not condition(facts := self.facts()):
            assert time.monotonic() < end, facts
            time.sleep(0.01)
        return facts


class Server:
    def __init__(self, pb, *args, listen=("127.0.0.1:0",)):
        self.pb = pb
        self.channels = []
        command = [str(PROGRAM), *[word for address in listen for word in ("--listen", address)], *map(str, args)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addresses = []
        while line := self.process.stdout.readline().strip():
            self.addresses.append(line)
        assert self.addresses, "the server did not start"

    @property
    def port(self):
        return int(self.addresses[0].rpartition(":")[2])

    def channel(self, address=None, credentials=None, options=()):
        address = address or self.addresses[0]
        options = [("grpc.enable_retries", 0), *options]
        channel = (grpc.secure_channel(address, credentials, options) if credentials
                   else grpc.insecure_channel(address, options))
        self.channels.append(channel)
        return channel

    def client(self, *args, **kwargs):
        return Client(self.pb, self.channel(*args, **kwargs))

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.tell(line)
        return self.process.stdout.readline().strip()

    def rss_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def peak_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status).group(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Ends it, and what the sanitizers have to say counts."""
        for channel in self.channels:
            channel.close()
        try:
            self.process.stdin.close()
            assert self.process.wait(TIMEOUT) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@pytest.fixture
def start(pb, request):
    """Starts servers with these arguments. All of them are stopped at the end, whatever becomes of one."""
    def start(*args, **kwargs):
        server = Server(pb, *args, **kwargs)
        request.addfinalizer(server.stop)
        return server

    return start


@pytest.fixture
def server(start):
    return start()


@pytest.fixture
def client(server):
    return server.client()
