"""Commands, processes and logs of workspaces over HTTP."""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import tempfile

import pytest
from server import OTHER_USER, WAIT, eventually
from workspace import Terminal, Workspace, refused

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def workspace(shared):
    made = Workspace(shared, {"README": "read me\n", "src/a.txt": "a\n"})
    yield made
    made.remove()


@pytest.fixture
def own(server):
    """One with a server of its own."""
    made = Workspace(server)
    yield made
    made.remove()


@pytest.fixture(scope="module", autouse=True)
def long_command(shared):
    """A command that takes longer than half a minute, in a workspace of its own, while the other tests go on. Returns its answer."""
    made = Workspace(shared)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(made.sh, "sleep 31; echo done")
        yield answer
        if not answer.done():
            made.http("POST", "/stop")  # which ends it: nobody asked for the answer
    made.remove()


# ---- exec ----


def test_a_command_has_arguments_and_no_shell(workspace):
    answer = workspace.exec("/bin/echo", "$HOME", "*", "a  b", ";ls")
    assert answer["stdout"] == "$HOME * a  b ;ls\n" and answer["stderr"] == "" and answer["exitCode"] == 0
    assert answer["pid"] > 1 and "timedOut" not in answer and "stdoutTruncated" not in answer
    assert workspace.exec("echo", "found by PATH")["stdout"] == "found by PATH\n"


def test_output_exit_codes_and_signals(workspace):
    answer = workspace.sh("echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exitCode"]) == ("out\n", "err\n", 3)
    answer = workspace.sh("kill -9 $$")
    assert (answer["exitCode"], answer["signal"]) == (137, 9)
    answer = workspace.exec("/no/such/program")
    assert answer["exitCode"] == 127 and "No such file" in answer["stderr"]
    assert workspace.exec("/workspace/README")["exitCode"] == 126


def test_bytes_that_are_no_text_are_replaced(workspace):
    assert workspace.exec("printf", "a\\377b")["stdout"] == "a\ufffdb"


def test_the_working_directory(workspace):
    assert workspace.exec("pwd")["stdout"] == "/workspace\n"
    assert workspace.exec("pwd", workingDir="src")["stdout"] == "/workspace/src\n"
    assert workspace.exec("pwd", workingDir="/tmp")["stdout"] == "/tmp\n"
    assert workspace.exec("pwd", workingDir="/nowhere")["exitCode"] == 125


def test_standard_input(workspace):
    assert workspace.exec("cat", stdin="hello\nöäü")["stdout"] == "hello\nöäü"
    assert workspace.exec("wc", "-c", stdin="AP8A", stdinEncoding="base64")["stdout"].strip() == "3"
    assert workspace.exec("cat")["stdout"] == ""


def test_a_command_that_takes_too_long_is_124(workspace):
    answer = workspace.sh("echo begun; sleep 1000 & sleep 1000", timeoutSec=1)
    assert (answer["exitCode"], answer["timedOut"], answer["stdout"]) == (124, True, "begun\n")
    assert workspace.sh("ps ax | grep -c '[s]leep 1000'")["stdout"] == "0\n"


def test_output_is_bounded(workspace):
    answer = workspace.sh("head -c 20000000 /dev/zero | tr '\\0' x; echo err >&2")
    assert len(answer["stdout"]) == 16 << 20 and answer["stdoutTruncated"] is True
    assert answer["stderr"] == "err\n" and "stderrTruncated" not in answer and answer["exitCode"] == 0


def test_the_environment(workspace):
    env = dict(line.split("=", 1) for line in workspace.exec("env", env={"MINE": "1", "PATH": "/evil", "HOME": "/evil"})["stdout"].splitlines())
    assert env["MINE"] == "1" and env["PROJECT_PATH"] == "/workspace"
    assert env["HOME"] == "/home/agent" and "/usr/bin" in env["PATH"] and "/evil" not in env["PATH"], "the profile wins"


def test_nothing_of_the_servers_environment_is_seen(make):
    os.environ["PATH"], before = os.environ["PATH"] + ":/secret-in-the-path", os.environ["PATH"]
    try:
        server = make().start()
    finally:
        os.environ["PATH"] = before
    workspace = Workspace(server)
    try:
        for text in (workspace.exec("env")["stdout"], workspace.sh("cat /proc/*/environ 2>/dev/null")["stdout"]):
            assert "AGENTFENSE" not in text and "secret" not in text
    finally:
        workspace.remove()


def test_limits(workspace):
    answer = workspace.sh("ulimit -v; ulimit -t; ulimit -n", memoryLimitMB=512, cpuTimeSec=7, maxOpenFiles=40)
    assert answer["stdout"].split() == ["524288", "7", "40"]
    answer = workspace.exec("python3", "-c", "x = bytearray(600 << 20)", memoryLimitMB=512)
    assert answer["exitCode"] == 1 and "MemoryError" in answer["stderr"]
    answer = workspace.sh("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; wait", maxProcesses=4)
    assert "fork" in answer["stderr"].lower() or "Resource" in answer["stderr"]
    answer = workspace.sh("while :; do :; done", cpuTimeSec=1)
    assert answer["exitCode"] in (128 + signal.SIGXCPU, 137)


def test_limits_are_no_more_than_configured(own):
    config = {"defaultResourceLimits": {"maxOpenFiles": 20}, "maxResourceLimits": {"maxOpenFiles": 30, "timeoutSec": 1}}
    status, answer = own.server.http("PUT", "/api/v1/config/execution", config)
    assert status == 200 and answer["maxResourceLimits"]["timeoutSec"] == 1 and answer["defaultIsolationProfile"] == "full"
    assert own.sh("ulimit -n")["stdout"] == "20\n"
    assert own.sh("ulimit -n", maxOpenFiles=1000)["stdout"] == "30\n"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(own.sh, "sleep 961", timeoutSec=900), pool.submit(own.sh, "sleep 961")]
    assert both[0].result()["exitCode"] == 124 and both[1].result()["timedOut"] is True
    own.server.kill()
    own.server.start()
    assert own.server.http("GET", "/api/v1/config/execution")[1] == answer, "it lasts"


@pytest.mark.parametrize("body", [
    {}, {"command": ""}, {"command": 3}, {"command": "x", "args": "y"}, {"command": "x", "args": [1]}, {"command": "x", "env": {"A": 1}},
    {"command": "x", "env": {"A=B": "1"}}, {"command": "x", "timeoutSec": -1}, {"command": "x", "timeoutSec": "1"}, {"command": "x", "timeoutSec": 1.5},
    {"command": "x", "isolationLevel": "nothing-known"}, {"command": "x", "allowNetwork": "yes"}, {"command": "x", "allowNetwork": True},
    {"command": "x", "stdin": "!", "stdinEncoding": "base64"}, {"command": "x", "stdin": "!", "stdinEncoding": "rot13"}, "{", "[]", "",
])
def test_what_is_no_command(workspace, body):
    refused(workspace.http("POST", "/exec", body), 400)


def test_a_sandbox_that_is_not_there(shared):
    for verb, path, body in (("POST", "exec", {"command": "x"}), ("POST", "processes", {"command": "x"}), ("GET", "processes", None),
                             ("GET", "processes/1/logs", None), ("GET", "logs", None), ("POST", "processes/kill-all", None)):
        refused(shared.http(verb, f"/api/v1/sandboxes/{NOBODY}/{path}", body), 404)
        refused(shared.http(verb, f"/api/v1/sandboxes/nonsense/{path}", body), 400)


def test_who_hangs_up_takes_the_command_along(workspace):
    host, port = workspace.server.http_address.rsplit(":", 1)
    body = b'{"command": "/bin/sh", "args": ["-c", "touch /tmp/running; sleep 4242"]}'
    with socket.create_connection((host, int(port)), timeout=WAIT) as sock:
        sock.sendall(f"POST {workspace.path}/exec HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: workspace.sh("pgrep -f '[s]leep 4242'")["stdout"])
    eventually(lambda: not workspace.sh("pgrep -f '[s]leep 4242'")["stdout"])


# ---- processes ----


def test_a_process_and_its_log(workspace):
    made = workspace.start_process("echo one; echo two >&2; while ! test -e go1; do sleep 0.02; done; echo three; exit 5", name="builder",
                                   sessionId="s-1", env={"A": "b"})
    assert made["sandboxId"] == workspace.id and made["command"] == made["name"] == "builder" and made["pid"] > 1 and made["startedAt"]
    assert made["logPath"].endswith(".log") and os.path.exists(made["logPath"])
    workspace.wait_log(made["pid"], "two\n")
    listed = workspace.process(made["id"])
    assert listed["running"] and listed["pgid"] == listed["pid"] and listed["sessionId"] == "s-1" and "stoppedAt" not in listed
    log = workspace.log(made["pid"])
    assert (log["content"], log["sizeBytes"], log["isActive"], log["pid"]) == ("one\ntwo\n", 8, True, made["pid"])
    workspace.sh("touch go1")
    listed = workspace.wait_stopped(made["id"])
    assert listed["exitCode"] == 5 and listed["stoppedAt"] >= listed["startedAt"] and listed["commandLine"].startswith("/bin/sh -c echo one")
    log = workspace.log(made["id"])
    assert log["content"] == "one\ntwo\nthree\n" and log["isActive"] is False
    assert workspace.log(made["id"], offset=8)["content"] == "three\n"
    assert workspace.log(made["id"], tail=1)["content"] == "three\n"
    assert workspace.log(made["id"], tail=2, offset=1)["content"] == "two\nthree\n", "tail wins"
    assert workspace.log(made["id"], tail=0)["content"] == "" and workspace.log(made["id"], tail=99)["content"] == log["content"]
    assert made["id"] in {entry["id"] for entry in workspace.ok("GET", "/logs")["logs"]}
    assert workspace.ok("GET", "/logs")["sandboxId"] == workspace.id


def test_a_tail_is_exact_however_long_the_lines(workspace):
    made = workspace.start_process("i=0; while test $i -lt 300; do printf '%d %01000d\\n' $i 0; i=$((i+1)); done; printf unfinished")
    workspace.wait_stopped(made["id"])
    lines = workspace.log(made["id"])["content"].split("\n")
    assert len(lines) == 301 and lines[-1] == "unfinished"
    for count in (1, 2, 100, 301, 302):
        assert workspace.log(made["id"], tail=count)["content"] == "\n".join(lines[-count:])


def test_processes_end_on_request(workspace):
    polite = workspace.start_process("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    deaf = workspace.ok("POST", "/start-process", {"command": "/bin/sh", "args": ["-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"]},
                        status=201)
    for made in (polite, deaf):
        workspace.wait_log(made["id"], "ready")
    answer, content = workspace.http("DELETE", f"/processes/{polite['pid']}", raw=True)
    assert (answer.status, content) == (204, b"")
    assert workspace.process(polite["id"])["exitCode"] == 0 and "bye" in workspace.log(polite["id"])["content"]
    workspace.ok("DELETE", f"/processes/{deaf['id']}?graceMs=50", status=204)
    listed = workspace.process(deaf["id"])
    assert (listed["exitCode"], listed["signal"], listed["running"]) == (137, 9, False)
    workspace.ok("DELETE", f"/processes/{deaf['id']}", status=204)
    refused(workspace.http("DELETE", "/processes/999999"), 404)
    refused(workspace.http("DELETE", "/processes/pr_0123456789abcdef"), 404)
    refused(workspace.http("DELETE", "/processes/..%2F..%2Fetc"), 404)


@pytest.mark.parametrize("verb, path", [("POST", "/processes/kill-all"), ("DELETE", "/processes")])
def test_all_end_at_once(workspace, verb, path):
    made = [workspace.start_process("echo ready; exec sleep 1000") for _ in range(3)]
    running = workspace.ok("GET", "/processes?running=true")
    assert {p["id"] for p in made} == {p["id"] for p in running["processes"]} and running["running"] == running["total"] == 3
    status, stats = workspace.server.http("GET", "/api/v1/stats/processes")
    assert status == 200 and stats["totalRunning"] == 3 and stats["sandboxCounts"][workspace.id] >= 3 and stats["sandboxesWithProcesses"] == 1
    assert workspace.ok(verb, path) == {"killed": 3}
    assert workspace.ok("GET", "/processes?running=true")["processes"] == []
    assert workspace.ok(verb, path) == {"killed": 0}


def test_what_cannot_be_started_is_told(workspace):
    body = refused(workspace.http("POST", "/processes", {"command": "/no/such/program"}), 400)
    assert "No such file" in body["error"]


def test_a_killed_server_loses_nothing_of_a_process(own):
    made = own.start_process("i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done")
    own.wait_log(made["id"], "5\n")
    before = own.log(made["id"])["sizeBytes"]
    own.server.kill()
    own.server.start()
    listed = own.process(made["id"])
    assert listed["running"] and listed["pid"] == made["pid"]
    eventually(lambda: own.log(made["id"])["sizeBytes"] > before + 20)
    numbers = [int(line) for line in own.log(made["id"])["content"].split("\n")[:-1]]
    assert numbers == list(range(len(numbers))), "no gap"
    own.ok("DELETE", f"/processes/{made['pid']}", status=204)
    assert own.process(made["id"])["running"] is False


def test_stopping_a_sandbox_ends_its_processes(own):
    made = own.start_process("echo ready; exec sleep 4711")
    own.wait_log(made["id"], "ready")
    own.ok("POST", "/stop")
    assert own.process(made["id"])["running"] is False and own.log(made["id"])["content"] == "ready\n"
    assert own.log(made["id"])["isActive"] is False
    refused(own.http("POST", "/exec", {"command": "true"}), 409)
    refused(own.http("POST", "/processes", {"command": "true"}), 409)
    own.ok("POST", "/start")
    assert own.process(made["id"])["running"] is False
    again = own.start_process("echo again")
    own.wait_stopped(again["id"])
    assert own.log(again["id"])["content"] == "again\n" and own.log(made["id"])["content"] == "ready\n"


# ---- following ----


def test_a_log_is_followed_to_its_end(workspace):
    made = workspace.start_process("echo one; printf 'two\\nhalf'; while ! test -e go2; do sleep 0.02; done; echo ' line'; echo; echo; exit 3")
    workspace.wait_log(made["id"], "half")
    with workspace.follow(made["id"], "?offset=0") as events:
        event, identity, data = next(events)
        assert (event, identity, data) == ("message", "12", "one\ntwo\nhalf")
        workspace.sh("touch go2")
        text, last = data, None
        for event, identity, data in events:
            if event == "end":
                last = identity, data
                break
            text += data
        assert text == "one\ntwo\nhalf line\n\n\n" and last == (str(len(text)), '{"exitCode":3}')
        assert next(events, None) is None, "and then it is over"


def test_a_follower_comes_back_where_it_was(workspace):
    made = workspace.start_process("echo 0123456789; echo abcdef; while ! test -e go3; do sleep 0.02; done; printf 'g\\303\\244h\\n'")
    workspace.wait_log(made["id"], "abcdef")
    with workspace.follow(made["id"], **{"Last-Event-ID": "11"}) as events:
        assert next(events) == ("message", "18", "abcdef\n")
    workspace.sh("touch go3")
    workspace.wait_stopped(made["id"])
    with workspace.follow(made["id"], **{"Last-Event-ID": "18"}) as events:
        assert list(events) == [("message", "23", "gäh\n"), ("end", "23", '{"exitCode":0}')]
    with workspace.follow(made["id"], "?tail=1") as events:
        assert list(events)[0] == ("message", "23", "gäh\n")
    with workspace.follow(made["id"]) as events:
        assert [event for event, _, _ in events] == ["end"], "from now on, unless told otherwise"
    refused(workspace.http("GET", f"/processes/{made['id']}/logs/stream", headers={"Last-Event-ID": "x"}), 400)
    refused(workspace.http("GET", "/processes/4242424/logs/stream"), 404)


# ---- profiles ----


def test_built_in_profiles(shared):
    status, profiles = shared.http("GET", "/api/v1/config/profiles")
    assert status == 200 and [p["id"] for p in profiles[:2]] == ["full", "aware"] and all(p["builtin"] for p in profiles[:2])
    assert set(profiles[0]) == {"id", "name", "description", "builtin", "networkAccess", "readOnlyBinds", "readWriteBinds", "environment",
                                "hostname"}
    assert profiles[0]["networkAccess"] == "none" and profiles[0]["readOnlyBinds"] == {}
    assert shared.http("GET", "/api/v1/config/profiles/full")[1] == profiles[0]
    for identity in ("full", "aware"):
        refused(shared.http("PUT", f"/api/v1/config/profiles/{identity}", {"networkAccess": "none"}), 400)
        refused(shared.http("DELETE", f"/api/v1/config/profiles/{identity}"), 400)
    refused(shared.http("GET", "/api/v1/config/profiles/other"), 404)


def test_custom_profiles_last(make):
    server = make().start()
    profile = {"name": "Mine", "networkAccess": "none", "environment": {"X": "1", "MINE": "yes"}, "id": "ignored", "builtin": True}
    status, made = server.http("PUT", "/api/v1/config/profiles/mine", profile)
    assert status == 200 and made["id"] == "mine" and made["builtin"] is False and made["environment"]["X"] == "1"
    server.kill()
    server.start()
    assert server.http("GET", "/api/v1/config/profiles/mine")[1] == made
    workspace = Workspace(server)
    try:
        answer = workspace.sh("echo $X-$MINE", env={"X": "2"}, isolationLevel="mine")
        assert answer["stdout"] == "1-yes\n", "the profile wins"
        bound = {"networkAccess": "none", "readOnlyBinds": {"/opt": "/opt/host"}}
        assert server.http("PUT", "/api/v1/config/profiles/bound", bound)[0] == 200
        refused(workspace.http("POST", "/exec", {"command": "true", "isolationLevel": "bound"}), 409)
    finally:
        workspace.remove()
    assert server.http("DELETE", "/api/v1/config/profiles/mine")[0] == 204
    refused(server.http("GET", "/api/v1/config/profiles/mine"), 404)
    refused(server.http("DELETE", "/api/v1/config/profiles/mine"), 400)


@pytest.fixture
def place():
    """A directory for what profiles bind."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="af-bind-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def test_a_bind_is_seen_where_it_says(make, place):
    server = make().start()
    for name in ("tools", "data"):
        (place / name).mkdir()
        (place / name).chmod(0o777)
        (place / name / "file").write_text(name + "\n")
    place.chmod(0o700)  # as a home is: the administrator who made the profile can reach it
    profile = {"networkAccess": "none", "hostname": "bench", "readOnlyBinds": {str(place / "tools"): "/opt/host/tools"},
               "readWriteBinds": {str(place / "data"): "/data"}}
    assert server.http("PUT", "/api/v1/config/profiles/bound", profile)[0] == 200
    assert server.http("PUT", "/api/v1/config/execution", {"defaultIsolationProfile": "bound"})[0] == 200
    refused(server.http("DELETE", "/api/v1/config/profiles/bound"), 409)
    workspace = Workspace(server)
    try:
        assert workspace.sh("cat /opt/host/tools/file /data/file; hostname", isolationLevel="bound")["stdout"] == "tools\ndata\nbench\n"
        assert workspace.sh("echo x > /opt/host/tools/new")["exitCode"] != 0
        assert workspace.sh("echo x > /data/new")["exitCode"] == 0 and (place / "data" / "new").exists()
        assert workspace.sh(f"test -e {place}")["exitCode"] != 0, "nowhere else"
        refused(workspace.http("POST", "/exec", {"command": "true", "isolationLevel": "full"}), 409)
        (place / "tools").rename(place / "moved")
        status, answer = server.http("POST", "/api/v1/sandboxes", {"scopePath": str(place / "moved"), "projectRoot": str(place / "moved")})
        assert status in (409, 500) and "which is not there" in answer["error"], "never passed over"
    finally:
        workspace.remove()


@pytest.mark.parametrize("body", [
    {}, {"networkAccess": ""}, {"networkAccess": "all"}, {"networkAccess": "localhost"}, {"networkAccess": "none", "readOnlyBinds": {"relative": "/x"}},
    {"networkAccess": "none", "readOnlyBinds": {"/a": "x"}}, {"networkAccess": "none", "readWriteBinds": {"/a": "/workspace/x"}},
    {"networkAccess": "none", "readWriteBinds": {"/a": "/x/../etc"}}, {"networkAccess": "none", "readWriteBinds": {"/a": "/"}},
    {"networkAccess": "none", "environment": {"A=B": "1"}}, {"networkAccess": "none", "hostname": "a b"},
])
def test_profiles_that_cannot_be(shared, body):
    refused(shared.http("PUT", "/api/v1/config/profiles/bad", body), 400)
    refused(shared.http("PUT", "/api/v1/config/profiles/..", {"networkAccess": "none"}), 400) if body == {} else None


@pytest.mark.parametrize("body", [
    {"defaultResourceLimits": {"timeoutSec": 10}, "maxResourceLimits": {"timeoutSec": 5}}, {"defaultIsolationProfile": "nope"},
    {"maxResourceLimits": {"timeoutSec": -1}}, {"maxResourceLimits": []},
])
def test_configurations_that_cannot_be(shared, body):
    refused(shared.http("PUT", "/api/v1/config/execution", body), 400)


def test_only_an_administrator_changes_confinement(make):
    server = make().start()
    token = server.token("create", "--owner", "someone")
    headers = {"Authorization": f"Bearer {token}"}
    assert server.http("GET", "/api/v1/config/profiles", headers=headers)[0] == 200
    refused(server.http("PUT", "/api/v1/config/profiles/mine", {"networkAccess": "none"}, headers=headers), 403)
    refused(server.http("PUT", "/api/v1/config/execution", {}, headers=headers), 403)
    refused(server.http("DELETE", "/api/v1/config/profiles/mine", headers=headers), 403)


# ---- without root ----


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_all_of_it_without_root(make):
    server = make(user=OTHER_USER).start()
    server.own_token = server.token("create", "--owner", "tester", "--admin")
    workspace = Workspace(server)
    try:
        assert workspace.exec("id", "-un")["stdout"] == "agent\n"
        assert workspace.sh("ulimit -n", maxOpenFiles=40)["stdout"] == "40\n"
        made = workspace.start_process("echo ready; exec sleep 1000")
        workspace.wait_log(made["id"], "ready")
        workspace.ok("DELETE", f"/processes/{made['pid']}", status=204)
        assert workspace.process(made["id"])["exitCode"] == 143
        with workspace.terminal() as socket:
            terminal = Terminal(socket, {"command": "/bin/sh", "args": ["-c", "tty; exit 3"]})
            assert terminal.wait() == 3 and b"/dev/pts" in terminal.seen
    finally:
        workspace.remove()


# ---- last, since it began with the first ----


def test_longer_than_half_a_minute(long_command):
    assert long_command.result()["stdout"] == "done\n"
