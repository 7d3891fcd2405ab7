"""The ways to the server, each with the same verbs: grpcio, REST by hand, the SDK. And what an error means to who keeps accounts."""

import contextlib
import http.client
import io
import json
import os
import socket
import sys
import tarfile
import urllib.parse

import grpc

TIMEOUT = 45
SILENT = {"UNAVAILABLE", "CANCELLED", "UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED"}
STATUS = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED", 412: "FAILED_PRECONDITION",
          422: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL", 501: "UNIMPLEMENTED",
          503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 507: "RESOURCE_EXHAUSTED"}
NAMES = {each.value[0]: each.name for each in grpc.StatusCode}


class Lost(Exception):
    """No answer, or one that does not say whether it was done."""


class Refused(Exception):
    """It was not done, and the server says so."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


def fail(code, text):
    if code in SILENT:
        raise Lost(f"{code}: {text}")
    raise Refused(code, text)


class Result:
    def __init__(self, code, out, version=0):
        self.code, self.out, self.version = code, out, version


def pack(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpack(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


class Grpc:
    name = "grpc"

    def __init__(self, server):
        from sandbox.v1 import codebase_pb2
        from server import Client

        self.messages = codebase_pb2
        options = {"grpc.use_local_subchannel_pool": 1, "grpc.initial_reconnect_backoff_ms": 50, "grpc.max_reconnect_backoff_ms": 300}
        self.channel = grpc.insecure_channel(server.grpc_address, list(options.items()))
        self.client = Client(self.channel)

    def close(self):
        self.channel.close()

    @contextlib.contextmanager
    def calling(self):
        try:
            yield
        except grpc.RpcError as error:
            fail(error.code().name, error.details())

    def call(self, verb, *args, **fields):
        with self.calling():
            return getattr(self.client, verb)(*args, call_timeout=TIMEOUT, **fields)

    def create_codebase(self, key):
        return self.call("create_codebase", name="soak", owner_id="soak", idempotency_key=key).id

    def delete_codebase(self, codebase):
        self.call("delete_codebase", codebase_id=codebase)

    def put(self, codebase, path, content):
        with self.calling():
            return self.client.put(codebase, path, content, chunk=20000, total_size=len(content)).version

    def put_archive(self, codebase, files):
        data = pack(files)
        head = self.messages.ArchiveChunk(metadata=self.messages.ArchiveChunk.Metadata(codebase_id=codebase, total_size=len(data)))
        pieces = [self.messages.ArchiveChunk(data=data[at:at + 16384]) for at in range(0, len(data), 16384)]
        return self.call("upload_archive", [head, *pieces]).version

    def get(self, codebase, path, version=0):
        with self.calling():
            return self.client.get(codebase, path, version=version)

    def get_archive(self, codebase, path):
        with self.calling():
            return unpack(b"".join(chunk.data for chunk in self.client.download_archive(codebase_id=codebase, path=path)))

    def delete(self, codebase, path):
        return self.call("delete_file", codebase_id=codebase, file_path=path).version

    def restore(self, codebase, version, path):
        return self.call("restore_version", codebase_id=codebase, version=version, path=path).number

    def version(self, codebase):
        return self.call("get_codebase", codebase_id=codebase).version

    def create_sandbox(self, codebase, key, sync, rules, **more):
        from server import rules as make_rules

        return self.call("create_sandbox", codebase_id=codebase, idempotency_key=key, sync_on_completion=1 if sync else 2,
                         permissions=make_rules(rules), **more).id

    def start(self, box):
        self.call("start_sandbox", sandbox_id=box)

    def stop(self, box):
        self.call("stop_sandbox", sandbox_id=box)

    def destroy(self, box, force=False):
        self.call("destroy_sandbox", sandbox_id=box, force=force)

    def status(self, box):
        found = self.call("get_sandbox", sandbox_id=box)
        return found.status, found.status_reason

    def sandboxes(self, codebase):
        return {found.id for found in self.call("list_sandboxes", codebase_id=codebase, page_size=1000).sandboxes}

    def run(self, box, command):
        done = self.call("exec", sandbox_id=box, command=command)
        return Result(done.exit_code, done.stdout, done.codebase_version)

    def stream(self, box, command, pause=lambda: None):
        """Exit code and output, which comes piece by piece, for a reader that takes its time."""
        with self.calling():
            out = b""
            call = self.client.exec_stream(sandbox_id=box, command=command, call_timeout=TIMEOUT)
            for piece in call:
                out += piece.data
                pause()
            return int(dict(call.trailing_metadata())["agentfense-exit-code"]), out

    def open_session(self, box):
        return self.call("create_session", sandbox_id=box).id

    def session_run(self, session, command):
        done = self.call("session_exec", session_id=session, command=command)
        return Result(done.exit_code, done.stdout)

    def close_session(self, session):
        self.call("destroy_session", session_id=session)


class Rest(Grpc):
    """By hand, on a connection per request. What it lacks here goes by gRPC."""

    name = "rest"

    def __init__(self, server):
        super().__init__(server)
        self.address = server.http_address

    def request(self, verb, path, body=None, is_raw=False):
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)
        try:
            connection.request(verb, path, json.dumps(body) if isinstance(body, dict) else body)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 400:
                said = json.loads(content)
                fail(NAMES.get(said.get("code"), STATUS.get(answer.status, "UNKNOWN")), said.get("error") or said.get("message"))
            return content if is_raw else json.loads(content) if content else None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Lost(f"{type(problem).__name__}: {problem}") from None
        finally:
            connection.close()

    def file(self, codebase, path):
        return f"/v1/codebases/{codebase}/files/{urllib.parse.quote(path)}"

    def create_codebase(self, key):
        return self.request("POST", "/v1/codebases", {"name": "soak", "ownerId": "soak", "idempotencyKey": key})["id"]

    def put(self, codebase, path, content):
        return int(self.request("PUT", self.file(codebase, path), content)["version"])

    def put_archive(self, codebase, files):
        return int(self.request("PUT", f"/v1/codebases/{codebase}/archive", pack(files))["version"])

    def get(self, codebase, path, version=0):
        return self.request("GET", self.file(codebase, path) + (f"?version={version}" if version else ""), is_raw=True)

    def delete(self, codebase, path):
        return int(self.request("DELETE", self.file(codebase, path))["version"])

    def start(self, box):
        self.request("POST", f"/v1/sandboxes/{box}/start")

    def stop(self, box):
        self.request("POST", f"/v1/sandboxes/{box}/stop")

    def run(self, box, command):
        done = self.request("POST", f"/v1/sandboxes/{box}/exec", {"command": command})
        return Result(done.get("exitCode", 0), done.get("stdout", ""), int(done.get("codebaseVersion", 0)))

    def session_run(self, session, command):
        done = self.request("POST", f"/v1/sessions/{session}/exec", {"command": command})
        return Result(done.get("exitCode", 0), done.get("stdout", ""))


class Sdk(Grpc):
    """The Python package, as its users call it. What it lacks here goes by gRPC."""

    name = "sdk"

    def __init__(self, server):
        super().__init__(server)
        from agentfense import SandboxClient, SandboxError

        self.error = SandboxError
        self.sdk = SandboxClient(server.grpc_address)

    def close(self):
        super().close()
        self.sdk.close()

    @contextlib.contextmanager
    def calling(self):
        try:
            with super().calling():
                yield
        except self.error as error:
            code = error.grpc_code[0] if error.grpc_code else None
            # One that has a class of its own need not have kept its number.
            fail(NAMES.get(code, "UNKNOWN" if isinstance(error, (ConnectionError, TimeoutError)) else "FAILED_PRECONDITION"), str(error))

    def put(self, codebase, path, content):
        with self.calling():
            return self.sdk.upload_file(codebase, path, content).version

    def get(self, codebase, path, version=0):
        with self.calling():
            try:
                return self.sdk.download_file(codebase, path, version)
            except FileNotFoundError as error:
                raise Refused("NOT_FOUND", str(error)) from None

    def restore(self, codebase, version, path):
        with self.calling():
            return self.sdk.restore_version(codebase, version, path).number

    def stop(self, box):
        with self.calling():
            self.sdk.stop_sandbox(box)

    def run(self, box, command):
        with self.calling():
            done = self.sdk.exec(box, command)
            return Result(done.exit_code, done.stdout, done.codebase_version)


KINDS = (Grpc, Rest, Sdk)


def trickle(address, codebase, path, content, pause):
    """An upload whose sender takes its time, by REST. Returns the version."""
    host, port = address.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=TIMEOUT) as sock:
            sock.sendall(f"PUT /v1/codebases/{codebase}/files/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
                         "Connection: close\r\n\r\n".encode())
            for at in range(0, len(content), max(1, len(content) // 8)):
                sock.sendall(content[at:at + max(1, len(content) // 8)])
                pause()
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        if status >= 400:
            fail(NAMES.get(json.loads(body).get("code"), "UNKNOWN"), body.decode(errors="replace"))
        return int(json.loads(body)["version"])
    except (OSError, IndexError, ValueError) as problem:
        raise Lost(f"{type(problem).__name__}: {problem}") from None


def use_sdk(root):
    os.environ["AGENTFENSE_AUTOSTART"] = "0"
    sys.path.insert(0, str(root / "sdk" / "python"))
