"""What every driver owes to those who review, case by case. Each line is tested with fence, overlayfs and copy, here or where it says.

case                                            test
approve under a repository's sub-directory      test_ws_review_cases: test_approved_below_the_root_of_a_repository
binary files added, modified, deleted           test_ws_review_cases: test_approved_is_what_the_agent_made[binary_files, binary_deleted]
chmod only                                      test_ws_review_cases: ...[chmod_only]
links, also dangling                            test_ws_review_cases: ...[links]
rm -rf of a directory, one replaced             test_ws_review_cases: ...[rm_rf_dir, dir_replaced, dir_becomes_file, file_becomes_dir]
rename                                          test_ws_review_cases: ...[rename]
names with spaces, quotes, newline, bytes       test_ws_review_cases: ...[odd_names]
`_` in paths                                    test_ws_review_cases: ...[underscore_names], and test_names_that_only_look_alike
new file in a new directory, also committed     test_ws_review_cases: ...[new_file_in_new_dir], and test_a_new_file_in_a_new_directory_is_committed
partial hunks keep the rest                     test_ws_review_cases: test_partial_hunks_keep_the_rest
a scoped sandbox, with hunks and commit         test_a_scoped_sandbox_with_hunks_and_a_commit
what others staged is not committed             test_ws_review_cases: test_a_foreign_staged_file_is_not_committed
an edit in the project: 409, and a real merge   test_ws_review_cases: test_a_foreign_edit_is_a_conflict_and_stays, and test_edits_that_go_together_are_merged
malformed bodies are 400                        test_malformed_bodies_are_400_and_do_nothing; every kind of them in test_ws_review
dry collection, spans as text                   test_a_dry_collection_with_spans_as_text
parallel creations: one 201                     test_of_many_at_once_one_gets_the_path
A stopped, B made, A started: 409               test_a_stopped_one_keeps_its_path
killed while it is made, while it applies       test_ws_life: test_a_kill_while_one_is_made_leaves_nothing (before any driver), test_ws_review_bad_times: test_killed_...
a command of more than half a minute            test_ws_run: test_longer_than_half_a_minute; with the others AGENTFENSE_LONG=1: test_a_long_command
timeout is 124 with timedOut                    test_a_command_that_takes_too_long_is_124
limits of memory and processes                  test_limits_hold
the server's environment is secret              test_nothing_of_the_servers_environment_is_seen
processes end when it is stopped                test_processes_end_with_a_stop
events of several lines, and their end          test_a_log_is_followed_to_its_end
terminal: resize, exit 0                        test_a_terminal_is_resized_and_exits
WebSocket of another origin is refused          test_a_terminal_for_another_origin_is_refused
no link leads the file API out                  test_the_file_api_follows_no_link
a restart keeps active ones usable              test_a_review_goes_on_over_a_restart, on both databases
a command resets the idle time                  test_a_command_resets_the_idle_time
how many there may be, how large                test_ws_life: test_no_more_than_are_allowed; test_no_more_than_are_allowed here
"""

import concurrent.futures
import datetime
import os
import time
import urllib.parse

import pytest
from review import Review, git, make_repository
from server import WAIT, eventually, sandbox_id
from workspace import Refused, Terminal, make_project, may_lack

BASE = "/api/v1/sandboxes"
FILES = {"README": "read me\n", "src/a.txt": "one\ntwo\nthree\n", "src/long.txt": "".join(f"line {n}\n" for n in range(40)), "doc/x.md": "x\n"}


@pytest.fixture(params=["fence", "overlayfs", "copy"])
def driver(request, shared):
    options = shared.http("GET", "/api/v1/driver/options")[1]["options"]
    if not next(option for option in options if option["id"] == request.param)["available"]:
        assert may_lack(request.param), options
        pytest.skip(f"this host has no {request.param}")
    return request.param


@pytest.fixture
def make_box(shared, driver):
    boxes = []

    def make_one(server=shared, files=None, **more):
        boxes.append(Review(server, files or FILES, driver=driver, **more))
        return boxes[-1]

    yield make_one
    for box in boxes:
        box.remove()


@pytest.fixture
def box(make_box):
    return make_box()


@pytest.fixture
def project():
    return make_project()


# ---- reviews ----


def test_a_scoped_sandbox_with_hunks_and_a_commit(make_box):
    box = make_box(scopePath="src")
    make_repository(box.project)
    box.sh("sed -i '1s/.*/first/; 40s/.*/last/' long.txt; echo new > new")
    hunks = box.file("long.txt")["hunks"]
    answer = box.approve({"hunks": [{"path": "src/long.txt", "hunkIds": [hunks[0]["id"]]}], "createCommit": True})
    assert answer["isPartial"] and git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split() == ["src/long.txt"]
    assert box.read("src/long.txt").decode().splitlines()[0::39] == ["first", "line 39"]
    box.diff()
    answer = box.approve({"createCommit": True})
    assert sorted(git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split()) == ["src/long.txt", "src/new"]
    assert git(box.project, "status", "--porcelain") == "" and box.read("src/long.txt").decode().splitlines()[0::39] == ["first", "last"]


def test_a_new_file_in_a_new_directory_is_committed(box):
    make_repository(box.project)
    box.sh("mkdir -p n/e/w; echo x > n/e/w/file")
    box.diff()
    answer = box.approve({"createCommit": True})
    assert git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split() == ["n/e/w/file"]


def test_edits_that_go_together_are_merged(box, driver):
    box.sh("sed -i '40s/.*/agent/' src/long.txt")
    box.diff()
    (box.project / "src/long.txt").write_text(box.read("src/long.txt").decode().replace("line 0\n", "owner\n"))
    status, answer = box.http("POST", "/approve", {})
    if driver == "overlayfs":  # nobody saw what the agent worked from
        assert status == 409 and answer["details"]["reason"] == "CONFLICTS"
        assert box.read("src/long.txt").decode().splitlines()[0::39] == ["owner", "line 39"]
    else:
        assert status == 200 and box.read("src/long.txt").decode().splitlines()[0::39] == ["owner", "agent"]


def test_malformed_bodies_are_400_and_do_nothing(box):
    box.sh("echo a > a")
    box.diff()
    for verb, body in (("approve", '{"files": ["a"'), ("approve", "[]"), ("approve", {"files": []}), ("approve", {"stop": "yes"}),
                       ("approve", {"whatever": 1}), ("discard", {}), ("discard", {"filePaths": ["a"], "stop": 1}), ("reject", {"x": 1}),
                       ("rebase", {"strategy": "best"}), ("undo", {"approvalId": 1}), ("partial-approve", {"force": True})):
        status, answer = box.http("POST", f"/{verb}", body)
        assert status == 400 and answer["hint"], (verb, body, answer)
    assert box.state() == "active" and not (box.project / "a").exists() and box.paths() == ["a"]


# ---- who has what ----


@pytest.mark.databases
def test_of_many_at_once_one_gets_the_path(shared, driver, project):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: shared.http("POST", BASE, {"projectRoot": str(project), "driver": driver}), range(4)))
    made = [body for status, body in answers if status == 201]
    assert len(made) == 1 and [status for status, _ in answers].count(409) == 3
    shared.http("DELETE", f"{BASE}/{made[0]['id']}")


def test_a_stopped_one_keeps_its_path(box, driver):
    again = {"projectRoot": str(box.project), "driver": driver}
    box.ok("POST", "/stop")
    assert box.server.http("POST", BASE, again)[0] == 409
    box.ok("DELETE", "", status=204)
    other = box.server.http("POST", BASE, again)
    assert other[0] == 201 and box.http("POST", "/start")[0] == 409
    box.server.http("DELETE", f"{BASE}/{other[1]['id']}")


def test_names_that_only_look_alike(make_box, shared, driver):
    box = make_box(files={"a_b/f": "1\n", "axb/f": "2\n"}, reservedPath="a_b")
    status, other = shared.http("POST", BASE, {"projectRoot": str(box.project), "reservedPath": "axb", "driver": driver})
    assert status == 201
    assert shared.http("POST", BASE, {"projectRoot": str(box.project), "reservedPath": "a_b/f", "driver": driver})[0] == 409
    shared.http("DELETE", f"{BASE}/{other['id']}")


def test_a_dry_collection_with_spans_as_text(box):
    box.sh("echo work > work")
    box.ok("POST", "/stop")
    status, answer = box.server.http("POST", "/api/v1/gc", {"dryRun": True, "policy": {"maxAge": "0s"}})
    assert status == 200 and box.id in [one["id"] for one in answer["collected"]]
    box.ok("POST", "/start")
    assert box.sh("cat work")["stdout"] == "work\n"


def test_no_more_than_are_allowed(make, driver, project):
    server = make(**{"workspace-max": "1"}).start()
    (project / "a").mkdir()
    (project / "b").mkdir()
    wanted = {"projectRoot": str(project), "driver": driver}
    assert server.http("POST", BASE, {**wanted, "scopePath": "a"})[0] == 201
    assert server.http("POST", BASE, {**wanted, "scopePath": "b"})[0] == 429


# ---- what runs ----


def test_a_command_that_takes_too_long_is_124(box):
    answer = box.sh("echo begun; sleep 1000 & sleep 1000", timeoutSec=1)
    assert (answer["exitCode"], answer["timedOut"], answer["stdout"]) == (124, True, "begun\n")
    assert box.sh("ps ax | grep -c '[s]leep 1000'")["stdout"] == "0\n"


@pytest.mark.skipif(os.environ.get("AGENTFENSE_LONG") != "1", reason="AGENTFENSE_LONG=1 runs it")
def test_a_long_command(box):
    assert box.sh("sleep 31; echo done")["stdout"] == "done\n"


def test_limits_hold(box):
    answer = box.exec("python3", "-c", "x = bytearray(600 << 20)", memoryLimitMB=512)
    assert answer["exitCode"] == 1 and "MemoryError" in answer["stderr"]
    answer = box.sh("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 5 & done; wait", maxProcesses=4)
    assert "fork" in answer["stderr"].lower() or "Resource" in answer["stderr"]


def test_nothing_of_the_servers_environment_is_seen(box):
    for text in (box.exec("env")["stdout"], box.sh("cat /proc/*/environ 2>/dev/null")["stdout"]):
        assert "AGENTFENSE" not in text and str(box.server.top) not in text


def test_processes_end_with_a_stop(box):
    process = box.start_process("echo ready; sleep 1000 & sleep 1000")
    box.wait_log(process["id"], "ready")
    mark = sandbox_id(box.id)
    assert mark in box.server.supervisors()
    box.ok("POST", "/stop")
    assert not box.process(process["id"])["running"]
    eventually(lambda: mark not in box.server.supervisors())  # it has said its last word, and ends
    box.ok("POST", "/start")
    assert box.sh("ps ax | grep -c '[s]leep 1000'")["stdout"] == "0\n"


def test_a_log_is_followed_to_its_end(box):
    process = box.start_process("printf 'one\\ntwo\\n\\nthree\\n'; exit 3")
    with box.follow(process["id"], "?offset=0") as events:
        seen = list(events)
    assert "".join(data for event, _, data in seen if event == "message") == "one\ntwo\n\nthree\n"
    assert seen[-1][0] == "end" and seen[-1][2] == '{"exitCode":3}'


def test_a_terminal_is_resized_and_exits(box):
    with box.terminal() as socket:
        terminal = Terminal(socket, {"command": "/bin/sh", "cols": 101, "rows": 33})
        terminal.type("stty size\n")
        terminal.read_until(b"33 101\r\n")
        socket.send({"type": "resize", "cols": 55, "rows": 44})
        terminal.type("stty size\n")
        terminal.read_until(b"44 55\r\n")
        terminal.type("exit\n")
        assert terminal.wait() == 0


def test_a_terminal_for_another_origin_is_refused(box):
    with pytest.raises(Refused) as refused:
        box.terminal(Origin="http://evil.example")
    assert refused.value.status == 403


# ---- files ----


def test_the_file_api_follows_no_link(box):
    outside = make_project()
    (outside / "host.txt").write_text("of the host\n")
    box.sh(f"ln -s {outside}/host.txt leak; ln -s {outside} dir; echo inside > inner")

    def q(path):
        return "?path=" + urllib.parse.quote(path)

    assert box.ok("GET", "/files/content" + q("/inner"))["content"] == "inside\n"
    for path in ("/leak", "/dir/host.txt", "/../etc/passwd"):
        status, body = box.http("GET", "/files/content" + q(path))
        assert status >= 400 and "of the host" not in str(body)
        box.http("PUT", "/files/content" + q(path), {"content": "overwritten"})
        box.http("DELETE", "/files/content" + q(path))
    box.http("POST", "/files/mkdir", {"path": "/dir/made"})
    assert os.listdir(outside) == ["host.txt"] and (outside / "host.txt").read_text() == "of the host\n"
    box.ok("PUT", "/files/content" + q("/made/by/hand.txt"), {"content": "text\n"}, status=None)
    assert box.sh("cat made/by/hand.txt; stat -c %U made/by/hand.txt")["stdout"] == "text\nagent\n"
    assert "made/by/hand.txt" in box.paths()


# ---- time passes, servers go ----


def seconds_of(box, field):
    """A moment, by the server's clock."""
    return datetime.datetime.fromisoformat(box.ok("GET", "")[field][:26] + "+00:00").timestamp()


def use_late(server, drivers, idle):
    """Workspaces that were used when two thirds of the time that they may be idle had passed, and when that was. None: they were stopped
    before, by a machine that is too slow for so short a time."""
    boxes = [Review(server, FILES, driver=driver, behavior={"lifecycle": {"idleTimeout": f"{int(idle * 1000)}ms"}}) for driver in drivers]
    time.sleep(idle * 2 / 3)
    used = [box.http("POST", "/exec", {"command": "/bin/true"})[0] == 200 and (box, seconds_of(box, "lastUsedAt")) for box in boxes]
    if all(used):
        return used
    for box in boxes:
        box.remove()
    return None


def test_a_command_resets_the_idle_time(make):
    server = make(**{"sandbox-cleanup-interval": "100ms"}).start()
    options = server.http("GET", "/api/v1/driver/options")[1]["options"]
    drivers = [option["id"] for option in options if option["available"]]
    idle, used = next((idle, used) for idle in (1.5, 6, 24, 96) if (used := use_late(server, drivers, idle)))
    eventually(lambda: all(box.state() == "stopped" for box, _ in used), timeout=2 * idle + WAIT)
    for box, at in used:
        assert at >= seconds_of(box, "createdAt") + idle / 2
        assert seconds_of(box, "stoppedAt") >= at + idle - 0.01, "from its last use, not from its first"
        box.remove()


@pytest.mark.databases
def test_a_review_goes_on_over_a_restart(make, make_box):
    """The server is killed after each step, and its metadata is all that the next one has: what runs, what was shown, what was taken."""
    server = make().start()
    box = make_box(server, owner="agent-7")

    def restart():
        server.kill()
        server.start()

    process = box.start_process("while sleep 0.05; do date +%s%N >> log.txt; done")
    box.sh("until test -s log.txt; do sleep 0.01; done; echo 1 > one; echo 2 > two; rm doc/x.md")
    box.diff()
    restart()
    answer = box.approve({"files": ["one"], "actor": "ann"})
    assert answer["isPartial"] and answer["status"] == "active", answer
    restart()
    assert box.process(process["pid"])["running"]
    assert box.sh("cat one two; ls doc")["stdout"] == "1\n2\n"
    assert set(box.paths()) >= {"doc/x.md", "two"} and "one" not in box.paths()
    pending = server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]
    assert pending["totalFiles"] == 1 and pending["summaries"][0]["sandboxOwner"] == "agent-7"
    restart()
    undone = box.ok("POST", "/undo", {})
    assert undone["approvalId"] == answer["approvalId"] and not (box.project / "one").exists()
    restart()
    assert server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]["totalFiles"] == 0
    assert box.process(process["pid"])["running"] and box.ok("GET", "")["mountHealth"]["healthy"] is True
    box.ok("DELETE", f"/processes/{process['pid']}", status=204)
    box.diff()
    restart()
    assert box.approve()["status"] == "approved" and box.read("two") == b"2\n" and not (box.project / "doc/x.md").exists()
    restart()
    assert box.state() == "approved" and [e for e in box.events() if "approved" in e] == ["approved", "partial_approved"]
