"""What a server of the first edition left, under a server of today: first_edition/ has its state directory, rows and schemas (make.py wrote them)."""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sqlite3
import tempfile
import threading
import time

import pytest
from server import eventually, sandbox_id

HERE = pathlib.Path(__file__).resolve().parent / "first_edition"
TOP = "/tmp/af-first-edition-00000000"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the state is that of a server of root")


def checksum(body):
    value = 0xcbf29ce484222325
    for byte in body:
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return value.to_bytes(8, "little")


class First:
    """That state at another place. Paths are replaced by others of the same length."""

    def __init__(self, make):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-first-edition-", dir="/tmp"))
        self.top.chmod(0o755)
        state = json.loads((HERE / "state.json").read_text())
        self.made = state["made"]
        for name, entry in state["files"].items():
            self.put(self.top / name, entry)
        for delta in (self.top / "state/mounts/sandboxes").glob("*/delta/meta/base"):
            self.bind(delta)
        self.server = make()
        shutil.rmtree(self.server.state, ignore_errors=True)
        self.server.state = self.top / "state"
        self.fill_database()

    def here(self, content):
        return content.replace(TOP.encode(), str(self.top).encode())

    def put(self, path, entry):
        if "link" in entry:
            path.symlink_to(self.here(entry["link"].encode()).decode())
        elif "bytes" not in entry:
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(entry["mode"])
        else:
            content = self.here(base64.b64decode(entry["bytes"]))
            if content.startswith(b"AFSB"):
                content = content[:10] + checksum(content[18:]) + content[18:]
            path.write_bytes(content)
            path.chmod(entry["mode"])

    def bind(self, base):
        """The directory of that name is another one than it was."""
        numbers, path, *_ = base.read_text().split("\n")
        place = os.stat(path)
        numbers = numbers.split(" ")
        numbers[:2] = [str(place.st_dev), str(place.st_ino)]
        if len(numbers) > 3:
            numbers[3:] = ["0", "0"]
        base.write_text(" ".join(numbers) + f"\n{path}\n")

    def moment(self, tables):
        """How much later it is than when the rows were made: what is old is collected."""
        made = [value for table in tables.values() for row in table["rows"] for column, value in zip(table["columns"], row)
                if column.endswith("_ns") and column != "expires_ns"]
        return time.time_ns() - max(made)

    def value(self, column, value):
        if column.endswith("_ns") and value:
            return value + self.later_ns
        if isinstance(value, dict):
            content = bytes.fromhex(value["hex"])
            if content.startswith(b"AFSB"):
                content = content[:10] + checksum(content[18:]) + content[18:]
            return self.here(content)
        return self.here(value.encode()).decode() if isinstance(value, str) else value

    def fill_database(self):
        tables = json.loads((HERE / "rows.json").read_text())
        self.later_ns = self.moment(tables)
        if self.server.db:
            self.fill_postgres(tables)
            return
        with sqlite3.connect(self.server.state / "metadata.db") as database:
            database.executescript((HERE / "schema.sqlite.sql").read_text())
            for name, table in tables.items():
                places = ", ".join("?" for _ in table["columns"])
                database.executemany(f"INSERT INTO {name} ({', '.join(table['columns'])}) VALUES ({places})",
                                     [list(map(self.value, table["columns"], row)) for row in table["rows"]])
        database.close()

    def fill_postgres(self, tables):
        def literal(column, value):
            value = self.value(column, value)
            if value is None:
                return "NULL"
            if isinstance(value, bytes):
                return f"'\\x{value.hex()}'"
            return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"

        script = [(HERE / "schema.postgres.sql").read_text(), "SET search_path TO agentfense;"]
        for name, table in tables.items():
            script += [f"INSERT INTO {name} ({', '.join(table['columns'])}) OVERRIDING SYSTEM VALUE VALUES ({', '.join(map(literal, table['columns'], row))});"
                       for row in table["rows"]]
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.server.db], input="\n".join(script), text=True, check=True,
                       stdout=subprocess.DEVNULL)

    def http(self, verb, path, body=None):
        return self.server.http(verb, "/api/v1/sandboxes/" + path, body)

    def ok(self, verb, path, body=None):
        status, answer = self.http(verb, path, body)
        assert status in (200, 201, 204), (path, status, answer)
        return answer

    def supervisors(self):
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/agentfense-supervisor") and any(str(self.top).encode() in word for word in words):
                    found.append(int(entry.name))
        return found

    def remove(self):
        self.server.stop()
        for pid in self.supervisors():
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: not self.supervisors())
        shutil.rmtree(self.top, ignore_errors=True)


@pytest.fixture
def first(make):
    made = First(make)
    try:
        yield made
    finally:
        made.remove()


def test_the_first_start_takes_everything_over(first):
    made, state = first.made, first.top / "state"
    before = {place.name for place in (state / "mounts/sandboxes").iterdir()}
    client = first.server.start().client()
    assert os.readlink(state / "mounts") == "." and {place.name for place in (state / "sandboxes").iterdir()} >= before
    assert (state / "host-id").is_file() and not list(state.glob("mounts.*"))
    states = {name: first.ok("GET", made[name])["status"] for name in ("running", "stopped", "approved", "rejected", "deleted")}
    assert states == {"running": "active", "stopped": "stopped", "approved": "approved", "rejected": "rejected", "deleted": "deleted"}
    listed = {one.id: one for one in client.list_sandboxes(page_size=1000).sandboxes}
    assert {made["held"], made["synced"], sandbox_id(made["stopped"])} <= set(listed)
    assert first.ok("GET", made["stopped"])["owner"] == "agent of stopped"
    assert [one.name for one in client.list_codebases().codebases] == ["tree"] or client.list_codebases().codebases
    # Reviewed, approved, restored, run.
    assert {file["filePath"] for file in first.ok("GET", f"{made['stopped']}/diff")["files"]} == {"a", "b", "c"}
    first.ok("POST", f"{made['stopped']}/approve", {})
    project = first.top / "projects/stopped"
    assert (project / "a").read_text() == "agent\n" and not (project / "b").exists()
    assert (first.top / "projects/running/a").read_text() == "one\n"
    assert first.ok("POST", f"{made['deleted']}/restore")["status"] == "stopped"
    assert {file["filePath"] for file in first.ok("GET", f"{made['deleted']}/diff")["files"]} == {"a", "b", "c"}
    assert client.run(sandbox_id(made["running"]), "cat a c").stdout == "agent\nnew\n"
    client.start_sandbox(sandbox_id=made["held"])
    assert client.run(made["held"], "cat x y").stdout == "2\nheld\n"
    assert client.get(made["codebase"], "z") == b"3\n"
    assert client.get_sandbox(sandbox_id="by-run").status == 3
    # The second start finds nothing to do, and without its database everything is there all the same.
    first.server.stop()
    assert not [line for line in first.server.start().lines() if "moved the sandboxes" in line.get("msg", "")]
    assert first.ok("GET", made["rejected"])["status"] == "rejected"


@pytest.mark.parametrize("point", ["take_in_moved"])
def test_a_kill_while_it_is_moved_is_made_good(first, point):
    environment = first.server.environment
    first.server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    first.server.start(wait=False)
    first.server.process.wait()
    first.server.environment = environment
    first.server.start()
    assert first.ok("GET", first.made["stopped"])["status"] == "stopped"
    assert {file["filePath"] for file in first.ok("GET", f"{first.made['stopped']}/diff")["files"]} == {"a", "b", "c"}


class Supervisor:
    """Has a sandbox, and says of itself what one of that edition said; whoever connects hears nothing else."""

    def __init__(self, directory, hello):
        self.lock = open(directory / "lock", "wb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            (directory / "ctl").unlink()
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.end.bind(str(directory / "ctl"))
        self.end.listen()
        self.hello, self.clients = hello, []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.end.accept()
                self.clients.append(client)
                client.send(self.hello)

    def close(self):
        self.end.shutdown(socket.SHUT_RDWR)
        for one in (*self.clients, self.end, self.lock):
            one.close()


def test_a_supervisor_of_the_first_edition_that_still_runs_is_adopted(first):
    name = "ws_" + first.made["running"].replace("-", "")
    supervisor = Supervisor(first.top / "state/mounts/sandboxes" / name, base64.b64decode(first.made["hello"]))
    try:
        client = first.server.start().client()
        assert client.get_sandbox(sandbox_id=name).status == 2 and first.ok("GET", first.made["running"])["status"] == "active"
        assert any("sandbox adopted" == line.get("msg") for line in first.server.lines())
    finally:
        first.server.kill()
        supervisor.close()


def test_one_that_speaks_another_version_is_refused_and_left_alone(first):
    hello = bytearray(base64.b64decode(first.made["hello"]))
    assert hello.count(2) == 2  # the version, and the state of one that runs
    hello[hello.index(2)] = 99
    name = "ws_" + first.made["running"].replace("-", "")
    supervisor = Supervisor(first.top / "state/mounts/sandboxes" / name, bytes(hello))
    try:
        client = first.server.start().client()
        shown = client.get_sandbox(sandbox_id=name)
        assert shown.status == 4 and "another release" in shown.status_reason and "stop" in shown.status_reason, shown
        assert first.ok("GET", first.made["stopped"])["status"] == "stopped"
    finally:
        first.server.kill()
        supervisor.close()


def test_beside_a_server_of_the_first_edition_none_starts(first):
    with open(first.top / "state/mounts/server-lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first.server.start(wait=False)
        assert first.server.process.wait(60) != 0
    assert "a server of an earlier release serves" in first.server.log() and "stop it first" in first.server.log()
    assert not (first.top / "state/mounts").is_symlink()
