"""Commands and sessions by gRPC."""

import json
import re
import threading
import time

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from sandbox.v1 import sandbox_pb2
from server import eventually
from test_sandboxes import CODE, refused

pytestmark = pytest.mark.docker
FITS = (4 << 20) - (64 << 10)  # of both streams; the rest of an answer has its place, too


@pytest.fixture(scope="module")
def box(shared):
    client = shared.client()
    return client.sandbox(client.codebase({"hello.txt": "hello\n", "sub/x": "x"}), env={"FROM_SANDBOX": "yes"})


def test_streams_are_separate_and_exact(client, box):
    result = client.run(box, "printf out; printf err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out", "err", 3)
    assert result.duration.nanos > 0 and result.exec_id.startswith("ex_")
    assert client.run(box, "kill -9 $$").exit_code == 137
    assert client.run(box, "no-such-program").exit_code == 127


def test_input_environment_and_directory(client, box):
    result = client.run(box, "cat; echo $A $FROM_SANDBOX; pwd", stdin="in\n", env={"A": "b c"}, workdir="sub")
    assert result.stdout == "in\nb c yes\n/workspace/sub\n"
    assert client.run(box, "pwd", workdir="/tmp").stdout == "/tmp\n"
    big = bytes(range(256)) * 12000
    assert client.run(box, "wc -c; ", stdin_data=big).stdout == f"{len(big)}\n"
    assert client.run(box, "cat >/dev/null & exec true", stdin_data=big).exit_code == 0
    nowhere = client.run(box, "pwd", workdir="/nowhere")
    assert nowhere.exit_code != 0 and re.search("/nowhere.*No such file", nowhere.stderr), nowhere
    refused(CODE.INVALID_ARGUMENT, re.compile("no name of a variable"), client.run, box, "true", env={"A=B": "c"})


def test_what_is_no_text_is_replaced_in_text_and_exact_in_streams(client, box):
    assert client.run(box, r"printf 'a\377b\000c'").stdout == "a\ufffdb\ufffdc"
    chunks = list(client.exec_stream(sandbox_id=box, command=r"printf 'a\377b\000c'; printf e >&2"))
    assert b"".join(chunk.data for chunk in chunks if chunk.type == 1) == b"a\xffb\0c"
    assert b"".join(chunk.data for chunk in chunks if chunk.type == 2) == b"e"


def test_output_that_fits_into_a_message_is_whole(client, box, shared):
    """Of either stream, or of both together, without asking for more than the default."""
    for out, err in ((FITS, 0), (0, FITS), (FITS - 1000, 1000), (FITS // 2, FITS // 2)):
        command = f"head -c {out} /dev/zero | tr '\\0' x; head -c {err} /dev/zero | tr '\\0' y >&2"
        result = client.run(box, command)
        assert (len(result.stdout), len(result.stderr)) == (out, err) and not result.stdout_truncated and not result.stderr_truncated
        assert len(result.SerializeToString()) <= 4 << 20
    status, answer = shared.http("POST", f"/v1/sandboxes/{box}/exec", {"command": command})
    assert status == 200 and (len(answer["stdout"]), len(answer["stderr"])) == (out, err) and not answer["stdoutTruncated"]
    result = client.run(box, "head -c 5000000 /dev/zero | tr '\\0' x | tee /dev/stderr")
    assert result.stdout_truncated and result.stderr_truncated and len(result.stdout) == len(result.stderr) == FITS // 2


def test_long_output_is_cut_with_a_flag(client, box):
    result = client.run(box, "head -c 5000000 /dev/zero | tr '\\0' x; echo e >&2")
    assert result.stdout_truncated and not result.stderr_truncated and len(result.stdout) == FITS - 2 and result.stderr == "e\n"
    # What is no text grows when it is made one, and must still fit into an answer.
    result = client.run(box, "head -c 3000000 /dev/zero | tr '\\0' '\\377' | tee /dev/stderr")
    assert result.stdout_truncated and result.stderr_truncated and set(result.stdout) == {"\ufffd"} == set(result.stderr)
    result = client.run(box, "echo 1234567890", max_output_bytes=4)
    assert result.stdout == "1234" and result.stdout_truncated


def test_a_stream_comes_as_it_is_printed_and_has_no_bound(client, box):
    call = client.exec_stream(sandbox_id=box, command="echo one; until [ -e /tmp/printed ]; do sleep 0.02; done; echo two; exit 5")
    first = next(call)
    assert first.data == b"one\n"
    assert client.run(box, "touch /tmp/printed").exit_code == 0
    assert b"".join(chunk.data for chunk in call) == b"two\n"
    assert dict(call.trailing_metadata())["agentfense-exit-code"] == "5"
    total = sum(len(chunk.data) for chunk in client.exec_stream(sandbox_id=box, command="head -c 20000000 /dev/zero"))
    assert total == 20000000


def test_a_timeout_kills_the_whole_tree_and_keeps_the_work(client, box):
    began = time.monotonic()
    error = refused(CODE.DEADLINE_EXCEEDED, "command timed out", client.run, box, "echo kept > kept; sleep 961 & sleep 962",
                    timeout=Duration(seconds=1, nanos=500_000_000))
    assert time.monotonic() - began < 300 and b"COMMAND_TIMED_OUT" in dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert client.run(box, "cat kept; ps ax | grep -c '[s]leep 96'").stdout == "kept\n0\n"
    refused(CODE.INVALID_ARGUMENT, "timeout must not be negative", client.run, box, "true", timeout=Duration(seconds=-1))


def test_the_longest_timeout_is_the_servers(make):
    client = make(**{"runtime-max-timeout": "400ms", "runtime-default-timeout": "200ms"}).start().client()
    box = client.sandbox(client.codebase())
    refused(CODE.DEADLINE_EXCEEDED, "command timed out", client.run, box, "sleep 961", timeout=Duration(seconds=900), call_timeout=300)
    refused(CODE.DEADLINE_EXCEEDED, "command timed out", client.run, box, "sleep 961", call_timeout=300)


def test_a_cancelled_call_kills_its_command(client, box):
    call = client.exec_stream(sandbox_id=box, command="echo up; sleep 963")
    assert next(call).data == b"up\n"
    call.cancel()
    eventually(lambda: client.run(box, "ps ax | grep -c '[s]leep 963'").stdout == "0\n")
    future = client.exec_call.future(sandbox_pb2.ExecRequest(sandbox_id=box, command="sleep 964"))
    eventually(lambda: client.run(box, "ps ax | grep -c '[s]leep 964'").stdout != "0\n")
    future.cancel()
    eventually(lambda: client.run(box, "ps ax | grep -c '[s]leep 964'").stdout == "0\n")


def test_a_deadline_of_the_client_kills_its_command(client, box):
    with pytest.raises(grpc.RpcError) as caught:
        client.exec(sandbox_id=box, command="sleep 965", call_timeout=0.5)
    assert caught.value.code() == CODE.DEADLINE_EXCEEDED
    eventually(lambda: client.run(box, "ps ax | grep -c '[s]leep 965'").stdout == "0\n")


def test_many_at_once_on_one_channel(client, box):
    results = {}

    def work(number):
        results[number] = client.run(box, f"sleep 0.2; echo {number}").stdout

    threads = [threading.Thread(target=work, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: f"{number}\n" for number in range(100)}


def refused_by(call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    return caught.value


# Sessions.

def test_a_session_remembers(client, box):
    session = client.create_session(sandbox_id=box, env={"A": "1"})
    assert re.fullmatch("sess_[0-9a-f]{16}", session.id) and session.status == 1 and session.shell == "/bin/bash"

    def say(command, **fields):
        return client.session_exec(session_id=session.id, command=command, **fields)

    assert say("cd sub; B=2; f() { echo f$1; }; echo $A").stdout == "1\n"
    result = say("pwd; echo $B; f 3; echo bad >&2; false")
    assert (result.stdout, result.stderr, result.exit_code) == ("/workspace/sub\n2\nf3\n", "bad\n", 1)
    assert say("printf abc").stdout == "abc"
    refused(CODE.DEADLINE_EXCEEDED, "command timed out", say, "sleep 966", timeout=Duration(nanos=300_000_000))
    assert say("echo $B").stdout == "2\n"
    assert b"".join(chunk.data for chunk in client.session_exec_stream(session_id=session.id, command="echo streamed")) == b"streamed\n"
    assert client.get_session(session_id=session.id).status == 1
    assert session.id in [one.id for one in client.list_sessions(sandbox_id=box).sessions]
    client.destroy_session(session_id=session.id)
    refused(CODE.NOT_FOUND, "session not found", say, "true")
    refused(CODE.NOT_FOUND, "session not found", client.get_session, session_id=session.id)
    refused(CODE.NOT_FOUND, "session not found", client.destroy_session, session_id=session.id)


def test_exit_closes_a_session(client, box):
    session = client.create_session(sandbox_id=box, shell="/bin/sh")
    assert client.session_exec(session_id=session.id, command="exit 4").exit_code == 4
    eventually(lambda: session.id not in [one.id for one in client.list_sessions(sandbox_id=box).sessions])
    refused(CODE.NOT_FOUND, "session not found", client.session_exec, session_id=session.id, command="true")


def test_sessions_that_are_not_there(client, box):
    for call in (client.get_session, client.destroy_session):
        refused(CODE.INVALID_ARGUMENT, "session_id is required", call)
        refused(CODE.NOT_FOUND, "session not found", call, session_id="sess_0123456789abcdef")
    refused(CODE.NOT_FOUND, "session not found", client.session_exec, session_id="x", command="true")
    assert not client.list_sessions(sandbox_id="sb_0123456789abcdef").sessions
    refused(CODE.NOT_FOUND, "sandbox not found", client.create_session, sandbox_id="sb_0123456789abcdef")
    error = refused_by(client.create_session, sandbox_id=box, shell="/bin/no-such-shell")
    assert error.details().startswith("failed to create session: ") and "no-such-shell" in error.details()


def test_sessions_end_with_their_sandbox(client):
    box = client.sandbox(client.codebase())
    session = client.create_session(sandbox_id=box)
    client.stop_sandbox(sandbox_id=box)
    refused(CODE.NOT_FOUND, "session not found", client.session_exec, session_id=session.id, command="true")


# Events.

def test_what_happens_is_told(client):
    codebase = client.codebase({".env": "x"})
    box = client.sandbox(codebase, permissions=[("**/*", "read"), ("**/.env", "none", 10)])
    client.run(box, "cat .env; echo x > y")
    session = client.create_session(sandbox_id=box)
    client.destroy_session(session_id=session.id)
    client.stop_sandbox(sandbox_id=box)

    def types():
        return {event.type: event for event in client.events(sandbox_id=box)}

    found = eventually(lambda: (seen := types()) and {"permission_denied", "command_executed", "session_closed", "sandbox_stopped"}
                       <= set(seen) and seen)
    assert json.loads(found["command_executed"].payload)["command"] == "cat .env; echo x > y"
    assert json.loads(found["session_closed"].payload)["duration_ms"] >= 0
    denied = [json.loads(event.payload) for event in client.events(sandbox_id=box, type="permission_denied")]
    assert {"path": "/workspace/.env", "permission": "none"}.items() <= denied[0].items()
    assert found["sandbox_created"].codebase_id == codebase and found["sandbox_created"].owner_id == "tester"
    sequences = [event.sequence for event in client.events(sandbox_id=box)]
    assert sequences == sorted(sequences)
    page = client.list_events(sandbox_id=box, page_size=2)
    assert len(page.events) == 2 and page.next_page_token
    rest = client.list_events(sandbox_id=box, page_size=1000, page_token=page.next_page_token)
    assert [event.sequence for event in rest.events] == sequences[2:]
