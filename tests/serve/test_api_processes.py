"""Processes in the background by the one API: gRPC and /v1, the same methods."""

import base64
import json
import time

import pytest
from api import CODE, NOBODY, events, failed, id_of, refused, token_of
from sandbox.v1 import process_pb2
from server import eventually
from workspace import Workspace

RUNNING, EXITED, SIGNALED, LOST = (getattr(process_pb2, f"PROCESS_STATUS_{name}") for name in ("RUNNING", "EXITED", "SIGNALED", "LOST"))


@pytest.fixture(scope="module")
def project(shared):
    made = Workspace(shared)
    yield made
    made.remove()


@pytest.fixture
def sandbox(project, shared):
    yield project.id
    shared.client().kill_all_processes(sandbox_id=project.id, grace_period={})


@pytest.fixture
def http(shared, sandbox):
    return lambda verb, path, body=None, **options: shared.http(verb, f"/v1/sandboxes/{sandbox}{path}", body, **options)


def start(client, sandbox, command, **spec):
    return client.start_process(sandbox_id=sandbox, spec={"command": command, **spec})


def ended(client, process):
    def look():
        found = client.get_process(sandbox_id=process.sandbox_id, process_id=process.id)
        return found if found.status != RUNNING else None
    return eventually(look)


def log(client, process, **fields):
    return client.read_process_log(sandbox_id=process.sandbox_id, process_id=process.id, **fields)


def test_its_life(client, sandbox, http):
    process = start(client, sandbox, "echo $GREETING from $PWD; sleep 0.1; echo err >&2; exit 3", env={"GREETING": "hello"}, name="greeter", tag="run-7")
    assert process.id.startswith("pr_") and process.sandbox_id == id_of(sandbox) and process.pid > 0 and process.status == RUNNING
    assert (process.name, process.tag, process.terminal) == ("greeter", "run-7", False) and "hello" not in process.command
    done = ended(client, process)
    assert (done.status, done.exit_code, done.signal) == (EXITED, 3, 0) and done.ended_at.seconds >= done.started_at.seconds > 0
    assert done.HasField("user_time") and done.max_rss_bytes > 0
    answer = log(client, process)
    assert answer.data.decode().endswith("\nerr\n") and answer.data.startswith(b"hello from ") and not answer.running
    assert (answer.offset, answer.next_offset, answer.end_offset) == (0, len(answer.data), len(answer.data))
    status, same = http("GET", f"/processes/{process.id}")
    assert status == 200 and (same["status"], same["exitCode"], same["name"]) == ("PROCESS_STATUS_EXITED", 3, "greeter")
    assert base64.b64decode(http("GET", f"/processes/{process.id}/log")[1]["data"]) == answer.data


def test_without_a_shell(client, sandbox):
    process = client.start_process(sandbox_id=sandbox, spec={"argv": ["printf", "%s|", "a b", "$HOME", "*"], "workdir": "/tmp"})
    ended(client, process)
    assert log(client, process).data == b"a b|$HOME|*|"


def test_over_http(http, client, sandbox):
    status, process = http("POST", "/processes", {"spec": {"command": "echo up; sleep 600", "tag": "http"}})
    assert status == 200 and process["status"] == "PROCESS_STATUS_RUNNING" and process["terminal"] is False
    assert [one["id"] for one in http("GET", "/processes?tag=http&running=true")[1]["processes"]] == [process["id"]]
    status, killed = http("DELETE", f"/processes/{process['id']}?gracePeriod=0s")
    assert (status, killed["status"], killed["signal"], killed["exitCode"]) == (200, "PROCESS_STATUS_SIGNALED", 9, 137)
    assert http("GET", "/processes?tag=http&running=true")[1]["processes"] == []
    assert http("DELETE", f"/processes/{process['id']}")[1]["status"] == "PROCESS_STATUS_SIGNALED", "it is no error that it has ended"


def test_a_list_in_pages(client, sandbox):
    made = [start(client, sandbox, "true", tag="page").id for _ in range(7)]
    listed, token = [], ""
    while True:
        page = client.list_processes(sandbox_id=sandbox, tag="page", page_size=3, page_token=token)
        listed, token = listed + [process.id for process in page.processes], page.next_page_token
        assert len(page.processes) <= 3
        if not token:
            break
    assert listed == made
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_processes, sandbox_id=sandbox, page_token="pr_0123456789abcdef")


def test_killing(client, sandbox, http):
    stubborn = start(client, sandbox, "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    eventually(lambda: b"ready" in log(client, stubborn).data)
    began = time.monotonic()
    killed = client.kill_process(sandbox_id=sandbox, process_id=stubborn.id, grace_period={"nanos": 300_000_000})
    assert (killed.status, killed.signal) == (SIGNALED, 9) and time.monotonic() - began > 0.3
    polite = start(client, sandbox, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    eventually(lambda: b"ready" in log(client, polite).data)
    killed = client.kill_process(sandbox_id=sandbox, process_id=str(polite.pid))
    assert (killed.id, killed.status, killed.exit_code) == (polite.id, EXITED, 5)
    first, second = start(client, sandbox, "sleep 600"), start(client, sandbox, "sleep 600 & wait")
    answer = client.kill_all_processes(sandbox_id=sandbox)
    assert (answer.killed, list(answer.failures)) == (2, [])
    assert {ended(client, first).status, ended(client, second).status} == {SIGNALED}
    assert http("DELETE", "/processes") == (200, {"killed": 0, "failures": []})
    refused(CODE.INVALID_ARGUMENT, "grace_period", client.kill_process, sandbox_id=sandbox, process_id=first.id, grace_period={"seconds": 61})
    refused(CODE.INVALID_ARGUMENT, "grace_period", client.kill_process, sandbox_id=sandbox, process_id=first.id, grace_period={"seconds": -1})


def test_reading_a_log_in_parts(client, sandbox):
    process = start(client, sandbox, "seq 1000")
    ended(client, process)
    whole = log(client, process).data
    assert whole == "".join(f"{number}\n" for number in range(1, 1001)).encode()
    part = log(client, process, offset=10, max_bytes=20)
    assert (part.data, part.offset, part.next_offset, part.end_offset) == (whole[10:30], 10, 30, len(whole))
    assert log(client, process, tail_lines=2).data == b"999\n1000\n"
    assert log(client, process, offset=len(whole)).data == b""
    refused(CODE.INVALID_ARGUMENT, "both given", log, client, process, offset=1, tail_lines=1)
    refused(CODE.INVALID_ARGUMENT, "negative", log, client, process, offset=-1)
    refused(CODE.INVALID_ARGUMENT, "max_bytes", log, client, process, max_bytes=1 << 30)


def follow(client, process, **fields):
    return client.follow_process_log(sandbox_id=process.sandbox_id, process_id=process.id, **fields)


def test_following_a_log(client, sandbox, project):
    process = start(client, sandbox, "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 4")
    stream = follow(client, process)
    first = next(stream)
    assert (first.data, first.offset, first.HasField("process")) == (b"one\n", 4, False)
    project.sh("touch go")
    rest = list(stream)
    assert b"".join(chunk.data for chunk in rest) == b"two\n"
    assert (rest[-1].data, rest[-1].offset, rest[-1].process.status, rest[-1].process.exit_code) == (b"", 8, EXITED, 4)
    assert [chunk.data for chunk in follow(client, process, offset=4)] == [b"two\n", b""]
    assert [chunk.data for chunk in follow(client, process, tail_lines=1)] == [b"two\n", b""]
    assert [chunk.data for chunk in follow(client, process, only_new=True)] == [b""]
    refused(CODE.INVALID_ARGUMENT, "only_new", follow, client, process, only_new=True, offset=1)


def test_following_over_http(shared, client, sandbox):
    process = start(client, sandbox, "echo one; sleep 0.3; echo two; exit 1")
    connection = shared.connect()
    connection.request("GET", f"/v1/sandboxes/{sandbox}/processes/{process.id}/log/stream")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("Content-Type").startswith("text/event-stream")
    got = list(events(answer))
    connection.close()
    chunks = [json.loads(data) for event, data in got if event == "message"]
    assert b"".join(base64.b64decode(chunk["data"]) for chunk in chunks) == b"one\ntwo\n"
    assert chunks[-1]["process"]["exitCode"] == 1 and got[-1][0] == "end"


def test_who_follows_may_go(client, sandbox):
    process = start(client, sandbox, "echo one; sleep 600")
    stream = follow(client, process)
    next(stream)
    stream.cancel()
    assert client.get_process(sandbox_id=sandbox, process_id=process.id).status == RUNNING


def test_what_cannot_be_started(client, sandbox, http):
    refused(CODE.INVALID_ARGUMENT, "spec is required", client.start_process, sandbox_id=sandbox)
    refused(CODE.INVALID_ARGUMENT, "command is required", client.start_process, sandbox_id=sandbox, spec={})
    refused(CODE.INVALID_ARGUMENT, "both given", client.start_process, sandbox_id=sandbox, spec={"command": "true", "argv": ["true"]})
    refused(CODE.INVALID_ARGUMENT, "at most 256", start, client, sandbox, "true", name="x" * 257)
    refused(CODE.INVALID_ARGUMENT, "negative", start, client, sandbox, "true", limits={"processes": -1})
    absent = refused(CODE.INVALID_ARGUMENT, "cannot be started", client.start_process, sandbox_id=sandbox, spec={"argv": ["no-such-program"]})
    assert absent.reason == "COMMAND_NOT_FOUND"
    failed(http("POST", "/processes", {"spec": {"argv": ["no-such-program"]}}), 400, 3, "cannot be started", "COMMAND_NOT_FOUND")


def test_limits_hold(client, sandbox):
    process = start(client, sandbox, "ulimit -n; ulimit -v; ulimit -t", limits={"open_files": 77, "memory_bytes": 300 << 20, "cpu_time": {"seconds": 9}})
    ended(client, process)
    assert log(client, process).data.split() == [b"77", str(300 << 10).encode(), b"9"]


def test_which_process_of_which_sandbox(client, sandbox, http):
    for call in (client.get_process, client.kill_process, client.read_process_log, client.follow_process_log):
        refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", call, process_id="pr_0123456789abcdef")
        refused(CODE.INVALID_ARGUMENT, "process_id is required", call, sandbox_id=sandbox)
        assert refused(CODE.NOT_FOUND, "no process", call, sandbox_id=sandbox, process_id="pr_0123456789abcdef").reason == "PROCESS_UNKNOWN"
        for strange in (NOBODY, "sb_0123456789abcdef", "../x"):
            assert refused(CODE.NOT_FOUND, "", call, sandbox_id=strange, process_id="pr_0123456789abcdef").reason == "SANDBOX_NOT_FOUND"
    failed(http("GET", "/processes/999999"), 404, 5, "999999", "PROCESS_UNKNOWN")


def test_after_a_stop_they_are_remembered(client, shared):
    box = Workspace(shared)
    try:
        process = start(client, box.id, "echo here; sleep 600")
        eventually(lambda: b"here" in log(client, process).data)
        box.ok("POST", "/stop")
        remembered = client.get_process(sandbox_id=box.id, process_id=process.id)
        assert remembered.status in (LOST, SIGNALED) and log(client, process).data == b"here\n"
        refused(CODE.FAILED_PRECONDITION, "", start, client, box.id, "true")
        assert client.kill_all_processes(sandbox_id=box.id).killed == 0
    finally:
        box.remove()


def test_over_a_codebase_too(client):
    box = client.sandbox(client.codebase({"a": "content"}))
    process = start(client, box, "cat a")
    assert ended(client, process).exit_code == 0 and log(client, process).data == b"content"
    client.destroy_sandbox(sandbox_id=box)


def test_others_do_not_see_them(shared, client, sandbox):
    process = start(client, sandbox, "sleep 600")
    mallory = shared.client(token_of(shared, "mallory"))
    for call in (mallory.get_process, mallory.kill_process, mallory.read_process_log, mallory.follow_process_log):
        assert refused(CODE.NOT_FOUND, "", call, sandbox_id=sandbox, process_id=process.id).reason == "SANDBOX_NOT_FOUND"
    for call in (mallory.list_processes, mallory.kill_all_processes):
        refused(CODE.NOT_FOUND, "", call, sandbox_id=sandbox)
    refused(CODE.NOT_FOUND, "", start, mallory, sandbox, "true")
    assert client.get_process(sandbox_id=sandbox, process_id=process.id).status == RUNNING
    status, body = shared.http("GET", f"/v1/sandboxes/{sandbox}/processes", headers={"Authorization": "Bearer nonsense"})
    assert (status, body["code"]) == (401, 16)
