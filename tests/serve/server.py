"""A server under test, by the programs as people start them, and what clients use: grpcio and plain HTTP."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import typing
import urllib.parse

import grpc
from google.protobuf import descriptor_pb2
from sandbox.v1 import codebase_pb2, file_pb2, process_pb2, reservation_pb2, retention_pb2, review_pb2, sandbox_pb2, server_pb2, terminal_pb2

WAIT = 120  # seconds, for what takes far less; only a server that hangs needs them
OTHER_USER = 2_000_000_000 + os.getpid()  # an ordinary one that nobody else on this machine is
LEVELS = {"none": 1, "view": 2, "read": 3, "write": 4}
WRITE_ALL = (("**/*", "write"),)


class Method(typing.NamedTuple):
    path: str  # "/sandbox.v1.SandboxService/Exec"
    kind: str  # "unary_stream"
    request: type
    answer: type


def read_methods(*modules):
    """Every method of the API by its name, as the .proto files have it."""
    found = {}
    for module in modules:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for service in file.service:
            described = module.DESCRIPTOR.services_by_name[service.name].methods_by_name
            for one in service.method:
                assert one.name not in found, "clients find methods by their names alone"
                kind = f"{'stream' if one.client_streaming else 'unary'}_{'stream' if one.server_streaming else 'unary'}"
                found[one.name] = Method(f"/{file.package}.{service.name}/{one.name}", kind, described[one.name].input_type._concrete_class,
                                         described[one.name].output_type._concrete_class)
    return found


METHODS = read_methods(sandbox_pb2, codebase_pb2, file_pb2, process_pb2, reservation_pb2, retention_pb2, review_pb2, server_pb2, terminal_pb2)


def sandbox_id(uuid):
    """The id of a sandbox, which is its directory's name, by its UUID: see src/base/sandbox_id.h."""
    digits = uuid.replace("-", "")
    if digits[12] == "4" and digits[16] == "8" and set(digits[18:]) == {"0"}:
        return "sb_" + digits[:12] + digits[13:16] + digits[17]
    return "ws_" + digits


def eventually(condition, timeout=WAIT):
    """Waits for something that another process does in its own time. Looks often at first, and less often at what takes longer."""
    until, pause = time.monotonic() + timeout, 0.005
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)
    return value


def rules(pairs):
    return [sandbox_pb2.PermissionRule(pattern=pattern, permission=LEVELS[level], priority=rest[0] if rest else 0)
            for pattern, level, *rest in pairs]


class Client:
    """Every method of the API by its name in Python's spelling: client.create_sandbox(codebase_id=...)."""

    def __init__(self, channel, metadata=()):
        self.channel, self.metadata = channel, metadata
        for name, method in METHODS.items():
            self.add(name, method)

    def add(self, name, method):
        call = getattr(self.channel, method.kind)(method.path, request_serializer=method.request.SerializeToString,
                                                  response_deserializer=method.answer.FromString)
        snake = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

        def invoke(*stream, call_timeout=WAIT, **fields):
            value = iter(stream[0]) if stream else method.request(**fields)
            return call(value, timeout=call_timeout, metadata=self.metadata)

        setattr(self, snake, invoke)
        setattr(self, snake + "_call", call)

    # What tests need again and again.

    def codebase(self, files=None, owner="tester"):
        made = self.create_codebase(name="test", owner_id=owner)
        for path, content in (files or {}).items():
            self.put(made.id, path, content)
        return made.id

    def put(self, codebase_id, path, content, chunk=65536, **metadata):
        content = content.encode() if isinstance(content, str) else content
        head = codebase_pb2.UploadChunk(metadata=codebase_pb2.UploadChunk.Metadata(codebase_id=codebase_id, file_path=path, **metadata))
        pieces = [codebase_pb2.UploadChunk(data=content[at:at + chunk]) for at in range(0, len(content), chunk)]
        return self.upload_files([head, *pieces])

    def get(self, codebase_id, path, **fields):
        return b"".join(chunk.data for chunk in self.download_file(codebase_id=codebase_id, file_path=path, **fields))

    def names(self, codebase_id, path=""):
        return [file.path for file in self.list_files(codebase_id=codebase_id, path=path, recursive=True).files]

    def sandbox(self, codebase_id, permissions=WRITE_ALL, start=True, **fields):
        made = self.create_sandbox(codebase_id=codebase_id, permissions=rules(permissions), **fields)
        if start:
            self.start_sandbox(sandbox_id=made.id)
        return made.id

    def run(self, sandbox_id, command, **fields):
        return self.exec(sandbox_id=sandbox_id, command=command, **fields)

    def events(self, **fields):
        return list(self.list_events(page_size=1000, **fields).events)


class Server:
    new_database = drop_database = None  # make the URL of a database, and take away what it names, where it is not to be a file
    engine = None  # of Docker, where sandboxes are to be containers unless they say otherwise

    def __init__(self, programs, user=None, db=None, **settings):
        self.programs, self.user = programs, user
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-serve-"))
        self.top.chmod(0o755)
        self.state = self.top / "state"
        self.log_path = self.top / "log"
        self.settings = {"server-grpc-addr": "127.0.0.1:0", "server-http-addr": "127.0.0.1:0", "logging-format": "json",
                         "sandbox-cleanup-interval": "1s", **self.container_settings(), **settings}
        self.has_own_db = db is None and Server.new_database is not None
        self.db = Server.new_database() if self.has_own_db else db
        if user is not None:
            os.chown(self.top, user, user)
        self.process = None
        self.channels = []
        self.own_token = None  # sent where a caller says nothing else

    def container_settings(self):
        if not Server.engine or self.user is not None:
            return {}
        return {"runtime-type": "docker", "runtime-docker-host": Server.engine.host, "runtime-docker-pull": "false",
                "runtime-docker-default-image": Server.engine.image("tools")}

    @property
    def program(self):
        return str(self.programs / "agentfense")

    def environment(self):
        place = {"AGENTFENSE_STORAGE_DB_PATH": self.db} if self.db else {}
        sanitizers = {name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ}
        return {"AGENTFENSE_STATE_DIR": str(self.state), "PATH": os.environ["PATH"], **place, **sanitizers}

    def as_user(self, args):
        """The command for another user, who may open /dev/fuse, as it is for everybody on most machines."""
        node = self.top / "fuse"
        if not node.exists():
            os.mknod(node, 0o666 | 0o020000, os.stat("/dev/fuse").st_rdev)
            node.chmod(0o666)
        script = 'mount --bind "$1" /dev/fuse && shift && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh", str(node), "setpriv", "--reuid",
                str(self.user), "--regid", str(self.user), "--clear-groups", *args]

    def start(self, wait=True, **options):
        args = [self.program, "serve", *[f"--{key}={value}" for key, value in self.settings.items()]]
        if self.user is not None:
            args = self.as_user(args)
        self.log_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd="/",
                                            **options)
        if wait:
            self.wait_listening()
        return self

    def wait_listening(self):
        def listening():
            assert self.process.poll() is None, self.log()
            found = {}
            for line in self.lines():
                if line.get("msg") == "listening":
                    found.setdefault(line["interface"], []).append(line["address"])
            return found if set(found) >= self.wanted() else None

        self.addresses = eventually(listening)
        tcp = [address for address in self.addresses.get("grpc", []) if not address.startswith("unix:")]
        self.grpc_address = tcp[0] if tcp else None
        self.unix_address = next((a for a in self.addresses.get("grpc", []) if a.startswith("unix:")), None)
        self.http_address = self.addresses["http"][0] if "http" in self.addresses else None

    def wanted(self):
        return {name for name in ("grpc", "http") if self.settings.get(f"server-{name}-addr", "x") != ""}

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_of_this_life(self):
        return self.log_path.read_bytes()[self.log_from:].decode(errors="replace")

    def lines(self):
        """What this life of the server logged."""
        result = []
        for line in self.log_of_this_life().splitlines():
            with contextlib.suppress(ValueError):
                result.append(json.loads(line))
        return result

    def sql(self, statement):
        """Changes the database, behind the back of a server that does not run."""
        if self.db:
            subprocess.run(["psql", "-X", "-q", "-d", self.db, "-c", f"SET search_path TO agentfense; {statement}"], check=True)
        else:
            with contextlib.closing(sqlite3.connect(self.state / "metadata.db")) as database, database:
                database.execute(statement)

    # Clients.

    def channel(self, address=None, **options):
        channel = grpc.insecure_channel(address or self.grpc_address, **options)
        self.channels.append(channel)
        return channel

    def client(self, token=None, address=None):
        return Client(self.channel(address), [("authorization", f"Bearer {token}")] if token else ())

    def http(self, verb, path, body=None, headers=None, raw=False):
        """A request by hand: (status, decoded body)."""
        connection = self.connect()
        try:
            connection.request(verb, path, json.dumps(body) if isinstance(body, (dict, list)) else body, {**self.own_headers(), **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
            if raw:
                return answer, content
            return answer.status, json.loads(content) if content else None
        finally:
            connection.close()

    def own_headers(self):
        return {"Authorization": f"Bearer {self.own_token}"} if self.own_token else {}

    def connect(self):
        host, port = self.http_address.rsplit(":", 1)
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=WAIT)

    def url(self, path):
        return f"http://{self.http_address}{urllib.parse.quote(path)}"

    def token(self, *args):
        words = [self.program, "token", *args]
        if self.user is not None:
            words = ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", *words]
        done = subprocess.run(words, env=self.environment(), cwd="/", capture_output=True, text=True, check=True)
        return done.stdout.strip()

    # Ends.

    def supervisors(self):
        """Pids of the supervisors of this server's sandboxes. What one of them forked to look for others' leftovers is none."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if words[0].endswith(b"/agentfense-supervisor") and any(str(self.top).encode() in word for word in words) \
                            and (entry / "comm").read_text() != "af-sweeper\n":
                        found[words[-2].decode().rstrip("/").rsplit("/", 1)[-1]] = int(entry.name)
        return found

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT)

    def stop(self, hang_up=True):
        """Tells it to end, and waits until it has. Clients hang up first: grpcio's do not notice that a server ends while they have no
        call, and the server then waits two seconds for their answer to its notice."""
        if hang_up:
            self.close_channels()
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(WAIT) == 0, self.log()

    def close_channels(self):
        for channel in self.channels:
            channel.close()
        self.channels.clear()

    def end(self):
        """At once. Where coverage is counted, in a way that leaves it time to write that down."""
        if os.environ.get("AGENTFENSE_COVERAGE"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.terminate()
                self.process.wait(1)
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(WAIT)
        self.process.kill()
        self.process.wait(WAIT)

    def remove(self):
        self.close_channels()
        try:
            if self.process and self.process.poll() is None:
                self.end()
            self.end_supervisors()
            if Server.engine and self.user is None:
                self.take_away_containers()
        finally:
            for pid in self.supervisors().values():  # they would go on for as long as the machine does
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.take_away_mounts()
            if os.geteuid() != 0:  # an agent may have closed a directory to its owner
                subprocess.run(["chmod", "-R", "u+rwX", str(self.top)], check=False)
            shutil.rmtree(self.top)
            if self.has_own_db:
                Server.drop_database(self.db)

    def end_supervisors(self):
        for pid in self.supervisors().values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        eventually(lambda: not self.supervisors())

    def take_away_mounts(self):
        """A server that was killed leaves what it mounted on the host to the next."""
        for path in self.mounts():
            subprocess.run(["umount", "-l", path], check=False)

    def take_away_containers(self):
        """They go by themselves; what does not, must not trouble the next test."""
        try:
            eventually(lambda: not self.mounts() and not self.containers())
        finally:
            for name in self.containers():
                Server.engine.docker("rm", "-f", name)
            self.take_away_mounts()

    def mounts(self):
        """Those of this server's sandboxes that the host sees."""
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            return [line.split()[4] for line in mounts if line.split()[4].startswith(f"{self.top}/")]

    def containers(self):
        """Those of this server's sandboxes."""
        return Server.engine.containers_of(self.top)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def reserved_port():
    """A port that nobody else is given while this lasts. A server may still listen at it, and one after the other: sockets that may
    share an address, as a server's may, keep each other from it only while both listen."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]
