"""The test server with clients beside it. Every server ends with its test, without a word on its standard error."""

import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("REST_SERVER", str(ROOT / "build/tests/rest/rest-server"))
PATIENCE = int(os.environ.get("REST_PATIENCE", "120"))  # seconds, for what takes far less


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """(HTTP status, code, message) of a refusal, which has nothing else in it."""
        body = self.json
        assert set(body) == {"code", "message", "details"}, body
        return self.status, body["code"], body["message"]


class Server:
    def __init__(self, *options, listen=("127.0.0.1:0",), listen_tls=(), **popen):
        args = [PROGRAM]
        for address in listen:
            args += ["--listen", address]
        for address in listen_tls:
            args += ["--listen-tls", address]
        self.process = subprocess.Popen(args + [str(o) for o in options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, **popen)
        self.addresses = []
        for _ in (*listen, *listen_tls):
            line = self.process.stdout.readline()
            assert line.startswith("listening "), (line, self.process.stderr.read())
            self.addresses.append(line.split()[1])
        if self.addresses[0].startswith("127."):
            self.port = int(self.addresses[0].rpartition(":")[2])

    @property
    def origin(self):
        return f"127.0.0.1:{self.port}"

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(self, verb, path, body=None, headers=None, connection=None):
        own = connection is None
        connection = connection or self.connection()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(verb, path, body=body, headers=headers or {})
        response = connection.getresponse()
        answer = Answer(response, response.read())
        if own:
            connection.close()
        return answer

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def raw(self, data):
        """Sends bytes as they are; everything that comes back until the server closes, which it must do."""
        with self.connect() as sock:
            sock.sendall(data)
            got = b""
            try:
                while piece := sock.recv(65536):
                    got += piece
            except TimeoutError:
                got += b"<open>"
            except ConnectionResetError:
                got += b"<reset>"
            return got

    def notes(self):
        return self.get("/notes").body.decode().splitlines()

    def wait_note(self, start):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in self.notes():
                if line.startswith(start):
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no note '{start}' among {self.notes()}")

    def memory_kb(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(next(line.split()[1] for line in file if line.startswith("VmRSS")))

    def stop(self):
        try:
            out, errors = self.process.communicate("", timeout=PATIENCE * 2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode, out, errors


@pytest.fixture
def make(request):
    """Starts servers. All of them are stopped, whatever becomes of one."""
    def make_server(*options, **more):
        server = Server(*options, **more)
        request.addfinalizer(lambda: check_end(server))
        return server

    return make_server


def check_end(server):
    returncode, out, errors = server.stop()
    assert (returncode, out, errors) == (0, "ended\n", "")


@pytest.fixture(scope="module")
def server():
    """One for all tests of a file that leave it as it was."""
    server = Server()
    yield server
    check_end(server)
