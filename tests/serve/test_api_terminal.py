"""Terminals by the one API: a stream in both directions. Over a WebSocket they are tested in test_ws_terminal.py."""

import queue
import threading
import time

import grpc
import pytest
from api import CODE, NOBODY, Refusal, token_of
from sandbox.v1 import process_pb2, terminal_pb2
from server import METHODS, eventually
from workspace import Workspace

In = terminal_pb2.TerminalInput
RUNNING = process_pb2.PROCESS_STATUS_RUNNING


@pytest.fixture(scope="module")
def project(shared):
    made = Workspace(shared)
    yield made
    made.remove()


class Talk:
    """Both ends of a conversation; what comes is gathered as it comes."""

    def __init__(self, client, first=None, **fields):
        self.requests, self.out, self.err, self.exit, self.started = queue.Queue(), bytearray(), bytearray(), None, None
        if first is not None:
            self.say(**{first: fields})
        self.call = client.open_terminal(iter(self.requests.get, None))

    def say(self, **content):
        self.requests.put(In(**content))

    def end(self):
        self.requests.put(None)

    def next(self):
        try:
            message = next(self.call)
        except StopIteration:
            return None
        kind = message.WhichOneof("content")
        if kind == "output":
            self.out += message.output
        elif kind == "error_output":
            self.err += message.error_output
        elif kind == "started":
            self.started = message.started
        else:
            self.exit = message.exit
        return kind

    def until(self, text):
        at = 0
        while (found := self.out.find(text, at)) < 0:
            at = max(0, len(self.out) - len(text))
            assert self.next() is not None, (text, bytes(self.out[-1000:]))
        return found

    def wait(self):
        while self.next() is not None:
            pass
        return self.exit


@pytest.fixture
def talk(client, project):
    """Opens terminals, and ends those that a test left."""
    made = []

    def begin(command=None, sandbox_id=None, argv=None, **fields):
        spec = fields.pop("spec", {})
        spec.update({"argv": argv} if argv else {"command": command} if command is not None else {})
        made.append(Talk(client, "open", sandbox_id=sandbox_id or project.id, spec=spec, **fields))
        return made[-1]

    yield begin
    for one in made:
        one.end()
        one.call.cancel()
    client.kill_all_processes(sandbox_id=project.id, grace_period={})


def refused(talk, code, part):
    with pytest.raises(grpc.RpcError) as raised:
        talk.wait()
    refusal = Refusal(raised.value)
    assert refusal.code == code and part in refusal.text, (refusal.code, refusal.text)
    return refusal


def test_a_shell(talk, client, project):
    shell = talk(argv=["/bin/sh"], size={"rows": 31, "columns": 97}, spec={"env": {"PS1": "> "}, "name": "shell"})
    assert shell.next() == "started" and shell.started.id.startswith("pr_") and shell.started.terminal and shell.started.name == "shell"
    shell.until(b"> ")
    shell.say(data=b"stty size; echo $TERM\n")
    shell.until(b"31 97\r\nxterm-256color\r\n")
    shell.say(resize={"rows": 50, "columns": 120})
    shell.say(data=b"stty size\n")
    shell.until(b"50 120\r\n> ")  # the prompt would come between what follows
    shell.say(data=b"cat\n")
    shell.say(data=b"once\n")
    shell.until(b"once\r\nonce\r\n")  # the terminal's echo, and cat's: it runs, and is who gets the signal
    shell.say(data=b"typed\x03")
    shell.until(b"^C\r\n> ")  # before the prompt cat may still take a line, and die with it
    shell.say(data=b"exit 7\n")
    assert (shell.wait().exit_code, shell.exit.timed_out, shell.exit.lost) == (7, False, False) and not shell.err
    process = client.get_process(sandbox_id=project.id, process_id=shell.started.id)
    assert (process.exit_code, process.terminal) == (7, True)
    assert b"50 120" in client.read_process_log(sandbox_id=project.id, process_id=shell.started.id).data


def test_bytes_survive(talk):
    raw = talk("stty raw -echo; echo ready; head -c 256 | od -An -tx1 -v")
    raw.until(b"ready")
    raw.say(data=bytes(range(256)))
    raw.wait()
    assert bytes.fromhex(raw.out.partition(b"ready")[2].decode().replace(" ", "").replace("\r", "").replace("\n", "")) == bytes(range(256))


def test_pipes(talk):
    pipes = talk("cat; echo over >&2; exit 3", pipes=True)
    assert pipes.next() == "started" and not pipes.started.terminal
    content = bytes(range(256)) * 8000
    for at in range(0, len(content), 100_000):
        pipes.say(data=content[at:at + 100_000])
    pipes.say(end_input=True)
    assert pipes.wait().exit_code == 3 and bytes(pipes.out) == content and bytes(pipes.err) == b"over\n"


def test_the_end_of_the_requests_ends_the_input_of_pipes(talk):
    pipes = talk("wc -c", pipes=True)
    pipes.say(data=b"12345")
    pipes.end()
    assert pipes.wait().exit_code == 0 and pipes.out.strip() == b"5"
    shell = talk("sleep 0.3; echo still here")
    shell.end()
    assert shell.wait().exit_code == 0 and b"still here" in shell.out, "a terminal goes on"


def test_detaching_and_attaching(talk, client, project):
    shell = talk("echo first; read line; echo got $line; exit 4")
    shell.until(b"first")
    shell.say(detach={})
    assert shell.wait() is None
    name = shell.started.id
    assert client.get_process(sandbox_id=project.id, process_id=name).status == RUNNING
    again = Talk(client, "attach", sandbox_id=project.id, process_id=name, size={"rows": 20, "columns": 60})
    assert again.next() == "started" and again.started.id == name
    again.until(b"first")
    third = Talk(client, "attach", sandbox_id=project.id, process_id=name)
    refused(third, CODE.FAILED_PRECONDITION, "")
    third.end()
    again.say(data=b"hello\n")
    assert again.wait().exit_code == 4 and b"got hello" in again.out
    again.end()
    over = Talk(client, "attach", sandbox_id=project.id, process_id=name)
    refused(over, CODE.FAILED_PRECONDITION, "")
    over.end()


def test_who_goes_ends_it(talk, client, project):
    def status(one):
        return client.get_process(sandbox_id=project.id, process_id=one.started.id).status

    left, kept = talk("echo up; sleep 600"), talk("echo up; sleep 600", keep=True)
    piped = talk("echo up; echo $$ > pid; sleep 600", pipes=True)
    for one in (left, kept, piped):
        one.until(b"up")
        one.call.cancel()
    eventually(lambda: status(left) != RUNNING and project.sh("kill -0 $(cat pid)")["exitCode"] != 0)
    assert status(kept) == RUNNING
    attached = Talk(client, "attach", sandbox_id=project.id, process_id=kept.started.id)
    attached.until(b"up")
    attached.call.cancel()
    attached.end()
    time.sleep(0.3)
    assert status(kept) == RUNNING, "who came back may go again"


def test_much_output_and_a_slow_reader(talk, client, project):
    """It waits for its reader, and what is typed meanwhile arrives."""
    flood = talk("yes 0123456789 | head -c 20000000; echo; echo END; read line; echo line: $line")
    flood.say(data=b"early\n")
    flood.next()
    time.sleep(0.5)
    flood.until(b"END")
    assert flood.wait().exit_code == 0 and b"line: early" in flood.out and len(flood.out) > 20_000_000


def test_more_input_than_anybody_takes_waits(talk):
    """The client is not read meanwhile, and the output still comes."""
    lazy = talk("echo up; sleep 1; echo later; sleep 0.2; cat | wc -c", pipes=True)
    for _ in range(200):
        lazy.say(data=b"x" * 65536)
    lazy.end()
    lazy.until(b"later")
    assert lazy.wait().exit_code == 0 and str(200 * 65536).encode() in lazy.out


def test_a_large_message(talk):
    pipes = talk("wc -c", pipes=True)
    pipes.say(data=b"x" * 3_000_000)
    pipes.end()
    assert pipes.wait().exit_code == 0 and pipes.out.strip() == b"3000000"


def test_time_is_up(talk):
    slow = talk("sleep 600", pipes=True, timeout={"nanos": 300_000_000})
    assert slow.wait().timed_out and slow.exit.exit_code == 124


def test_what_is_wrong(talk, client, project):
    refused(talk("true", size={"rows": 0, "columns": 5}), CODE.INVALID_ARGUMENT, "rows and columns")
    refused(talk("true", pipes=True, keep=True), CODE.INVALID_ARGUMENT, "not kept")
    refused(talk("true", pipes=True, size={"rows": 5, "columns": 5}), CODE.INVALID_ARGUMENT, "no size")
    refused(talk(), CODE.INVALID_ARGUMENT, "command is required")
    refused(talk(argv=["no-such-program"]), CODE.INVALID_ARGUMENT, "cannot be started")
    refused(Talk(client, "resize", rows=1, columns=1), CODE.INVALID_ARGUMENT, "open or attach")
    nothing = Talk(client)
    nothing.end()
    refused(nothing, CODE.INVALID_ARGUMENT, "open or attach")
    for content, part in (({"resize": {"rows": 1, "columns": 1}}, "no size"), ({"detach": {}}, "attach to pipes"),
                          ({"open": {}}, "only the first"), ({"attach": {}}, "only the first")):
        pipes = talk("cat", pipes=True)
        pipes.say(**content)
        refused(pipes, CODE.INVALID_ARGUMENT, part)
    shell = talk("sleep 600")
    shell.say(end_input=True)
    refused(shell, CODE.INVALID_ARGUMENT, "no end")
    eventually(lambda: client.get_process(sandbox_id=project.id, process_id=shell.started.id).status != RUNNING)


def test_which_sandbox(client, project, shared, talk):
    refused(Talk(client, "open", spec={"command": "true"}), CODE.INVALID_ARGUMENT, "sandbox_id is required")
    refused(Talk(client, "attach", sandbox_id=project.id), CODE.INVALID_ARGUMENT, "process_id is required")
    for strange in (NOBODY, "nonsense"):
        assert refused(talk("true", sandbox_id=strange), CODE.NOT_FOUND, "").reason == "SANDBOX_NOT_FOUND"
    unknown = Talk(client, "attach", sandbox_id=project.id, process_id="pr_0123456789abcdef")
    assert refused(unknown, CODE.NOT_FOUND, "").reason == "PROCESS_UNKNOWN"
    stopped = Workspace(shared)
    stopped.ok("POST", "/stop")
    refused(talk("true", sandbox_id=stopped.id), CODE.FAILED_PRECONDITION, "")
    stopped.remove()


def test_a_sandbox_that_ends_takes_it_along(client, shared):
    box = Workspace(shared)
    one = Talk(client, "open", sandbox_id=box.id, spec={"command": "echo up; sleep 600"})
    one.until(b"up")
    threading.Thread(target=box.ok, args=("POST", "/stop")).start()
    try:
        end = one.wait()
        assert end.lost or end.exit_code >= 128
    except grpc.RpcError as error:
        assert error.code() in (CODE.UNAVAILABLE, CODE.FAILED_PRECONDITION, CODE.ABORTED), error
    one.end()
    eventually(lambda: box.ok("GET", "")["status"] == "stopped")
    box.remove()


def test_what_it_changed_is_in_the_codebase(client):
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    one = Talk(client, "open", sandbox_id=box, spec={"command": "echo 2 > b"})
    assert one.wait().exit_code == 0 and client.get(codebase, "b") == b"2\n"
    one.end()
    client.destroy_sandbox(sandbox_id=box)


def test_others_do_not_get_in(shared, client, project, talk):
    shell = talk("sleep 600", keep=True)
    shell.next()
    mallory = shared.client(token_of(shared, "mallory"))
    assert refused(Talk(mallory, "open", sandbox_id=project.id, spec={"command": "true"}), CODE.NOT_FOUND, "").reason == "SANDBOX_NOT_FOUND"
    refused(Talk(mallory, "attach", sandbox_id=project.id, process_id=shell.started.id), CODE.NOT_FOUND, "")
    refused(Talk(shared.client("nonsense"), "open", sandbox_id=project.id, spec={"command": "true"}), CODE.UNAUTHENTICATED, "token")


def test_it_is_no_method_of_http(shared):
    assert METHODS["OpenTerminal"].kind == "stream_stream"
    paths = shared.http("GET", "/openapi.json")[1]["paths"]
    assert not [path for path in paths if path.startswith("/v1/") and "terminal" in path]
