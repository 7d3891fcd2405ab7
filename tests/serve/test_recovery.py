"""Servers that are killed, started twice, told to end; nothing that was acknowledged is lost, and nothing is left behind."""

import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import threading
import time

import grpc
import pytest
from review import Review
from server import WAIT, eventually, sandbox_id
from test_sandboxes import CODE

pytestmark = pytest.mark.docker

ROUNDS = 200 if os.environ.get("AGENTFENSE_LONG") == "1" else 6


def test_commands_and_sessions_go_on_when_the_server_is_killed(server):
    client = server.client()
    codebase = client.codebase()
    box = client.sandbox(codebase)
    session = client.create_session(sandbox_id=box)
    client.session_exec(session_id=session.id, command="X=before; cd /tmp")
    call = client.exec_stream(sandbox_id=box, command="echo up; until [ -e go ]; do sleep 0.05; done; echo survived > survived")
    assert next(call).data == b"up\n"
    server.kill()
    with pytest.raises(grpc.RpcError):
        list(call)
    assert box in server.supervisors()
    server.start()
    client = server.client()
    assert client.get_sandbox(sandbox_id=box).status == 2
    assert client.session_exec(session_id=session.id, command="echo $X; pwd").stdout == "before\n/tmp\n"
    client.put(codebase, "go", "")  # not by another command, which would hand over what this one writes
    eventually(lambda: "survived" in client.names(codebase))
    assert client.get(codebase, "survived") == b"survived\n"
    eventually(lambda: [e for e in client.events(sandbox_id=box, type="command_executed") if "survived" in e.payload])
    numbers = [json.loads(e.payload)["event"] for e in client.events(sandbox_id=box) if "\"event\"" in e.payload]
    assert len(numbers) == len(set(numbers)), "an event is there twice"


def test_a_server_that_is_told_to_end_leaves_sandboxes_running(server):
    client = server.client()
    box = client.sandbox(client.codebase({"a": "1"}))
    server.stop()
    assert box in server.supervisors()
    server.start()
    assert server.client().run(box, "cat a").stdout == "1"


def test_what_ended_while_no_server_was_there(server):
    client = server.client()
    codebase = client.codebase()
    box = client.sandbox(codebase)
    client.run(box, "echo 1 > kept")
    server.kill()
    os.kill(server.supervisors()[box], signal.SIGKILL)
    eventually(lambda: not server.supervisors())
    server.start()
    client = server.client()
    now = client.get_sandbox(sandbox_id=box)
    assert now.status == 4 and "while no server was there" in now.status_reason
    client.start_sandbox(sandbox_id=box)
    assert client.run(box, "cat kept").stdout == "1\n"


def test_a_supervisor_that_is_slow_to_answer_is_adopted_when_it_does(server):
    client = server.client()
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    session = client.create_session(sandbox_id=box)
    client.session_exec(session_id=session.id, command="X=kept")
    pid = server.supervisors()[box]
    os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(2):  # also by a server that finds it in ERROR
            server.kill()
            client = server.start().client()
            now = client.get_sandbox(sandbox_id=box)
            assert now.status == 4 and "does not answer" in now.status_reason
            with pytest.raises(grpc.RpcError) as caught:
                client.run(box, "true")
            assert caught.value.code() == CODE.FAILED_PRECONDITION
            assert client.list_codebases() is not None
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: client.get_sandbox(sandbox_id=box).status == 2)
    assert client.run(box, "cat a").stdout == "1"
    assert client.session_exec(session_id=session.id, command="echo $X").stdout == "kept\n"
    assert [s.id for s in client.list_sessions(sandbox_id=box).sessions] == [session.id]
    assert len(client.events(sandbox_id=box, type="sandbox_recovered")) == 1
    assert server.supervisors() == {box: pid}
    client.destroy_sandbox(sandbox_id=box)
    eventually(lambda: not server.supervisors())


def test_one_server_for_one_directory(server):
    second = subprocess.run([server.program, "serve", "--grpc-addr=127.0.0.1:0", "--http-addr="], env=server.environment(),
                            capture_output=True, text=True, timeout=WAIT)
    assert second.returncode == 125 and "another server serves the sandboxes in" in second.stderr
    assert server.client().list_codebases() is not None


def test_bad_calls_of_the_program(server):
    def serve(*args):
        return subprocess.run([server.program, "serve", *args], env=server.environment(), capture_output=True, text=True, timeout=WAIT)

    assert serve("--version").stdout.startswith("agentfense ")
    assert "settings:" in serve("--help").stdout
    assert "server.grpc_addr: \"1.2.3.4:5\"" in serve("--check-config", "--grpc-addr", "1.2.3.4:5").stdout
    bad = serve("--runtime", "moon")
    assert bad.returncode == 2 and "'moon' is not one of: bwrap docker mock" in bad.stderr
    assert serve("--config", "/no/such.yaml").returncode == 2
    busy = subprocess.run([server.program, "serve", f"--grpc-addr={server.grpc_address}", "--http-addr="],
                          env={**server.environment(), "AGENTFENSE_STATE_DIR": str(server.top / "other")}, capture_output=True, text=True,
                          timeout=WAIT)
    assert busy.returncode == 125 and server.grpc_address in busy.stderr


class Load(threading.Thread):
    """Does things and remembers what was acknowledged."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number = server, number
        self.random = random.Random(number)
        self.files, self.boxes, self.maybe = {}, set(), set()
        self.codebase = None
        self.count = 0
        self.is_over = False
        self.error = None

    def run(self):
        client = None
        while not self.is_over:
            try:
                client = client or self.server.client()
                self.step(client)
                self.count += 1
            except grpc.RpcError as error:
                if error.code() not in (CODE.UNAVAILABLE, CODE.CANCELLED, CODE.UNKNOWN, CODE.INTERNAL, CODE.FAILED_PRECONDITION):
                    self.error = error
                    return
                client = None
                time.sleep(0.05)

    def step(self, client):
        if not self.codebase:
            self.codebase = client.codebase(owner=f"load{self.number}")
        choice = self.random.randrange(6)
        name = f"f{self.random.randrange(8)}"
        if choice < 2:
            content = os.urandom(20).hex()
            self.maybe.add(name)
            client.put(self.codebase, name, content)
            self.files[name] = content
            self.maybe.discard(name)
        elif choice == 2 or not self.boxes:
            self.boxes.add(client.sandbox(self.codebase))
        elif choice == 3 and len(self.boxes) > 2:
            box = self.boxes.pop()
            client.destroy_sandbox(sandbox_id=box)
        else:
            box = self.random.choice(sorted(self.boxes))
            with contextlib.suppress(grpc.RpcError):
                client.start_sandbox(sandbox_id=box)
            name, content = f"e{self.random.randrange(8)}", os.urandom(10).hex()
            self.maybe.add(name)
            result = client.run(box, f"printf {content} > {name}")
            assert result.exit_code == 0
            if result.codebase_version:
                self.files[name] = content
                self.maybe.discard(name)


def test_killed_at_random_moments_under_load(server):
    loads = [Load(server, number) for number in range(3)]
    for load in loads:
        load.start()
    moments = random.Random(4)
    try:
        for _ in range(ROUNDS):
            time.sleep(moments.uniform(0.05, 0.6))
            server.kill()
            server.start()
        eventually(lambda: all(load.count > 0 or load.error for load in loads))  # on a slow machine nobody came through until now
    finally:
        for load in loads:
            load.is_over = True
        for load in loads:
            load.join(2 * WAIT)
    client = server.client()
    for load in loads:
        assert load.error is None and load.count > 0
        for name, content in load.files.items():
            if name not in load.maybe:
                assert client.get(load.codebase, name) == content.encode(), name
        there = {box.id for box in client.list_sandboxes(codebase_id=load.codebase, page_size=1000).sandboxes}
        assert load.boxes <= there
        for box in there:
            client.destroy_sandbox(sandbox_id=box)
        now = client.get_codebase(codebase_id=load.codebase)
        files = [file for file in client.list_files(codebase_id=load.codebase, recursive=True).files if not file.is_dir]
        assert (now.file_count, now.size) == (len(files), sum(file.size for file in files))
        # One whose creation was not acknowledged is there, too, or is not.
        for codebase in client.list_codebases(owner_id=f"load{load.number}", page_size=1000).codebases:
            client.delete_codebase(codebase_id=codebase.id)
    eventually(lambda: not server.supervisors())
    server.stop()
    left = sorted(str(path.relative_to(server.state)) for path in server.state.rglob("*") if "sb_" in path.name or "cb_" in path.name)
    assert left == []


def test_a_deletion_that_was_cut_short_is_finished_and_nothing_else_is(server):
    client = server.client()
    doomed, other = client.codebase({"a": "1"}), client.codebase({"b": "2"})
    server.stop()
    # As a server leaves it that is killed between the row and the files; and as a database looks that lost a row.
    server.sql(f"DELETE FROM codebases WHERE id IN ('{doomed}', '{other}')")
    (server.state / f"condemned-{doomed}").touch()
    server.start()
    assert not (server.state / "codebases" / doomed).exists()
    assert (server.state / "codebases" / other / "files" / "b").read_text() == "2"
    assert not list(server.state.glob("condemned-*"))


def test_a_stop_that_was_cut_short_is_finished_by_whoever_asks_next(make):
    """Its supervisor lets go of the sandbox only after the next server has started."""
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "sandbox_stopping"}
    server.start()
    box = Review(server, {"a": "old\n"})
    box.sh("echo new > a")
    box.diff()
    with pytest.raises((OSError, json.JSONDecodeError)):
        box.http("POST", "/stop", {})
    server.process.wait()
    server.environment = environment
    (pid,) = server.supervisors().values()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.supervisors())
    with open(server.state / "sandboxes" / sandbox_id(box.id) / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server.start()
        assert box.state() == "active"
        answers = []
        thread = threading.Thread(target=lambda: answers.append(box.http("POST", "/approve", {})))
        thread.start()
        fcntl.flock(lock, fcntl.LOCK_UN)
        thread.join()
    assert answers[0][0] == 200, answers
    assert box.read("a") == b"new\n" and box.state() == "approved"
    box.remove()
