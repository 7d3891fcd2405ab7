"""Validation hooks: what is to be approved is tried in a sandbox of its own before it lands."""

import contextlib
import json
import os
import threading
import time

import pytest
from review import Review
from server import WAIT, eventually, sandbox_id
from workspace import may_lack

FILES = {"a": "one\n", "b": "two\n", "src/x": "x\n", "gone": "goes\n"}


def hook(script, name="check", **more):
    return {"name": name, "command": "/bin/sh", "args": ["-c", script], **more}


def make_box(server, *hooks, files=None, **more):
    return Review(server, files or FILES, behavior={"hooks": list(hooks)}, **more)


@pytest.fixture(params=["fence", "overlayfs", "copy"])
def made(request, shared):
    """make_box() by each driver."""
    def make(*hooks, **more):
        try:
            return make_box(shared, *hooks, driver=request.param, **more)
        except AssertionError as refused:
            if may_lack(request.param):
                pytest.skip(str(refused))
            raise

    return make


def boxes_of(server):
    return [place.name for place in (server.state / "sandboxes").iterdir() if place.name.startswith("hook_")]


def refused(box, body=None, status=422, reason="HOOK_FAILED"):
    answer = box.approve(body or {}, status=status)
    assert answer["details"]["reason"] == reason and answer["hint"] and answer["success"] is False, answer
    return answer


SEES = """
for f in a b src/x new/n gone; do printf '%s=' $f; cat $f 2>/dev/null || echo none; done; readlink link; stat -c %a src/x
"""


def test_a_hook_sees_the_project_as_it_would_be_and_nothing_else(made):
    box = made(hook(SEES))
    box.sh("echo agent > a; echo agent > b; mkdir new; echo n > new/n; rm gone; ln -s a link; chmod 700 src/x; echo t > unapproved")
    box.diff()
    out = box.approve({"files": ["a", "new", "gone", "link", "src/x"], "dryRun": True, "runHooks": True})["hooks"][0]
    assert out["status"] == "passed" and out["source"] == "workspace" and out["required"] is True
    assert out["output"].split() == ["a=agent", "b=two", "src/x=x", "new/n=n", "gone=none", "a", "700"]
    assert "hooks" not in box.approve({"files": ["a"], "dryRun": True})
    assert box.read("a") == b"one\n"
    box.remove()


def test_what_the_project_changed_meanwhile_is_merged_in_what_is_tried(shared):
    lines = "".join(f"{n}\n" for n in range(12))
    box = make_box(shared, hook("head -1 t; tail -1 t; grep -c . t"), files={"t": lines})
    box.sh("sed -i 's/^11$/agent/' t")
    (box.project / "t").write_text(lines.replace("0\n", "mine\n", 1))
    box.diff()
    answer = box.approve()
    assert answer["hooks"][0]["output"] == "mine\nagent\n12\n" and answer["status"] == "approved"
    assert box.read("t").endswith(b"agent\n")
    box.remove()


def test_only_the_chosen_hunks_are_tried(made):
    lines = "".join(f"{n}\n" for n in range(40))
    box = made(hook("cat t"), files={"t": lines})
    box.sh("sed -i 's/^1$/first/; s/^38$/last/' t")
    hunks = box.file("t")["hunks"]
    assert len(hunks) == 2
    answer = box.approve({"hunks": [{"path": "t", "hunkIds": [hunks[0]["id"]]}]})
    assert answer["hooks"][0]["output"] == lines.replace("1\n", "first\n", 1) == box.read("t").decode()
    box.remove()


def test_a_hook_that_fails_keeps_everything_out(made):
    box = made(hook("echo fine; true", "good"), hook("echo it is $(cat a); echo wrong >&2; exit 3", "tests"),
                   hook("true", "after"))
    box.sh("echo agent > a")
    box.diff()
    answer = refused(box)
    assert "'tests'" in answer["error"]
    good, tests, after = answer["details"]["hooks"]
    assert (good["status"], tests["status"], after["status"]) == ("passed", "failed", "not_run")
    assert tests["exitCode"] == 3 and sorted(tests["output"].split("\n")) == ["", "it is agent", "wrong"]
    assert box.read("a") == b"one\n" and box.state() == "active" and boxes_of(box.server) == []
    assert "hook_failed" in box.events()
    # Nothing overrides it, and it was looked at as before.
    refused(box, {"force": True})
    box.sh("echo mended > a")
    box.diff()
    refused(box)
    box.remove()


def test_an_advisory_hook_only_tells(shared):
    box = make_box(shared, hook("echo no; false", "style", required=False))
    box.sh("echo agent > a")
    box.diff()
    answer = box.approve()
    assert answer["status"] == "approved" and box.read("a") == b"agent\n"
    assert answer["hooks"][0]["status"] == "failed" and answer["hooks"][0]["required"] is False
    details = box.ok("GET", "/audit")["events"][0]["details"]
    assert details["hooks"][0]["name"] == "style" and details["hooks"][0]["status"] == "failed"
    box.remove()


def test_each_begins_with_what_would_land(shared):
    box = make_box(shared, hook("echo worse > a; rm b; echo more > c; (sleep 60 &) ; sleep 0", "first"),
                   hook("cat a b; ls c; ls /proc | grep -c '^[0-9]'", "second", required=False))
    box.sh("echo agent > a")
    box.diff()
    answer = box.approve()
    assert answer["hooks"][1]["output"].startswith("agent\ntwo\n") and "No such file" in answer["hooks"][1]["output"]
    assert box.read("a") == b"agent\n" and box.read("b") == b"two\n" and not (box.project / "c").exists()
    box.remove()


CONFINED = """
test "$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ')" = lo && test "$(id -u)" != 12345 && ! touch /usr/x 2>/dev/null && ! cat secret 2>/dev/null && ! ls {top} 2>/dev/null
"""


def test_it_is_confined_as_the_agent_is(shared):
    """Rules hold, there is no network, and nothing of the host can be reached."""
    box = make_box(shared, hook(CONFINED.format(top=shared.top)), files={**FILES, "secret": "hush\n"},
                   rules=[{"pattern": "/**", "permission": "write"}, {"pattern": "/secret", "permission": "none"}])
    box.sh("echo agent > a")
    box.diff()
    assert box.approve()["hooks"][0]["status"] == "passed"
    box.remove()


def test_a_profile_gives_it_tools_but_nothing_to_write_and_no_network(make):
    server = make(**{"sandbox-allow-host-network": "true"}).start()
    shelf = server.top / "shelf"
    shelf.mkdir(mode=0o777)
    shelf.chmod(0o777)
    status, answer = server.http("PUT", "/api/v1/config/profiles/open", {
        "name": "open", "networkAccess": "full", "readWriteBinds": {str(shelf): "/shelf"}, "environment": {"TOOL": "here"}})
    assert status == 200, answer
    box = make_box(server, hook("echo $TOOL; ! touch /shelf/hook 2>/dev/null && test \"$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ')\" = lo"), profile="open")
    box.sh("touch /shelf/agent; echo agent > a")
    box.diff()
    answer = box.approve()
    assert answer["hooks"][0]["output"] == "here\n" and os.listdir(shelf) == ["agent"]
    box.remove()


def test_what_it_is_told(shared):
    box = make_box(shared, hook("echo $SANDBOX_CHANGE_COUNT; echo \"$SANDBOX_CHANGED_FILES\"; pwd; tr '\\0' '\\n'"))
    box.sh("echo agent > a; echo x > 'with, comma'; echo t > other")
    box.diff()
    out = box.approve({"files": ["a", "with, comma"]})["hooks"][0]["output"]
    assert out == "2\na\n/workspace\na\nwith, comma\n"
    box.remove()


def test_time_and_output_have_an_end(shared):
    box = make_box(shared, hook("echo begins; sleep 300", "slow", timeout="300ms", required=False),
                   hook("yes | head -c 100000; printf 'the \\033[31mend\\007 \\342\\200\\256'", "loud", required=False),
                   hook("yes", "endless", required=False), {"name": "none", "command": "/no/such", "required": False})
    box.sh("echo agent > a")
    box.diff()
    slow, loud, endless, none = box.approve()["hooks"]
    assert slow["status"] == "timed_out" and slow["exitCode"] == 124 and slow["output"].startswith("begins\n")
    assert loud["status"] == "passed" and loud["outputTruncated"] is True and len(loud["output"]) < 9000
    assert loud["output"].endswith("the \\x1b[31mend\\a \\u202e") or "\\u202e" in loud["output"] and "\x1b" not in loud["output"], loud["output"][-60:]
    assert endless["status"] == "failed" and "more than anybody reads" in endless["output"]
    assert none["status"] == "failed" and none["exitCode"] == 127
    assert boxes_of(box.server) == []
    box.remove()


def test_what_changes_while_they_run_is_not_applied(shared):
    """Not what the agent changes, not what somebody else approves, not what is saved in the project."""
    box = make_box(shared, hook("while ! test -e /workspace/go; do sleep 0.02; done"))
    for change in (lambda: box.sh("echo later > a"), lambda: (box.project / "a").write_text("mine\n")):
        box.sh("echo agent > a")
        box.diff()
        (box.project / "go").unlink(missing_ok=True)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(box.http("POST", "/approve", {"files": ["a"], "force": True})))
        thread.start()
        eventually(lambda: boxes_of(shared))
        change()
        (box.project / "go").write_text("")
        thread.join()
        status, answer = answers[0]
        if status == 409:
            assert answer["details"]["reason"] == "DIFF_STALE" and "while the hooks ran" in answer["error"]
        else:
            # Forced: the project's own save is overridden, as it was shown to be. What was tried is what landed.
            assert status == 200 and box.read("a") == b"agent\n"
        assert box.read("a") != b"later\n"
    # Others are not kept waiting.
    box.remove()


def test_the_sandbox_is_free_while_they_run(shared):
    box = make_box(shared, hook("while ! test -e /workspace/go; do sleep 0.02; done"))
    box.sh("echo agent > a")
    box.diff()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(box.http("POST", "/approve", {"files": ["a"]})))
    thread.start()
    eventually(lambda: boxes_of(shared))
    assert box.sh("echo other > b; cat a")["stdout"] == "agent\n"
    (box.project / "go").write_text("")
    thread.join()
    assert answers[0][0] == 200 and answers[0][1]["applied"] == 1 and box.read("a") == b"agent\n" and box.read("b") == b"two\n"
    assert answers[0][1]["status"] == "active" and box.paths() == ["b"]
    box.remove()


def test_hooks_of_the_project_are_the_projects_own(shared):
    path = ".agentfense/hooks.json"
    box = make_box(shared, files={**FILES, path: json.dumps([hook("exit 1", "project")])})
    box.sh(f"echo agent > a; echo '[]' > {path}")
    box.diff()
    refused(box, {"files": ["a"]})
    # Its own change of them needs a word, and does not count yet.
    refused(box, {"files": [path]}, reason="UNACKNOWLEDGED")
    answer = refused(box, {"files": [path], "acknowledge": True})
    assert answer["details"]["hooks"][0]["source"] == "project"
    (box.project / path).write_text("[{]")
    refused(box, {"files": ["a"]}, reason="HOOKS_UNREADABLE")
    (box.project / path).unlink()
    (box.project / path).symlink_to("/etc/passwd")
    refused(box, {"files": ["a"]}, reason="HOOKS_UNREADABLE")
    (box.project / path).unlink()
    assert box.approve({"files": ["a"]})["applied"] == 1
    box.remove()


def test_hooks_of_the_server_and_who_may_do_without(make):
    server = make()
    place = server.top / "hooks.json"
    place.write_text("[{]")
    server.settings["workspace-hooks"] = str(place)
    server.start(wait=False)
    assert server.process.wait(WAIT) != 0 and "hooks.json" in server.log()
    place.write_text(json.dumps([hook("echo no; exit 1", "policy")]))
    server.start()
    box = make_box(server, hook("true", "own"))
    box.sh("echo agent > a; echo agent > b")
    box.diff()
    answer = refused(box)
    assert [(one["name"], one["source"], one["status"]) for one in answer["details"]["hooks"]] == [
        ("policy", "server", "failed"), ("own", "workspace", "not_run")]
    token = server.token("create", "--owner", "ann", "--root", str(box.project))
    headers = {"Authorization": f"Bearer {token}"}
    status, made = server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(box.project), "noLock": True}, headers)
    assert status == 201, made
    path = f"/api/v1/sandboxes/{made['id']}"
    assert server.http("POST", path + "/exec", {"command": "/bin/sh", "args": ["-c", "echo ann > a"]}, headers)[0] == 200
    server.http("GET", path + "/diff", None, headers)
    status, answer = server.http("POST", path + "/approve", {"noVerify": True}, headers)
    assert status == 403 and answer["details"]["reason"] == "NO_VERIFY_REFUSED", answer
    assert box.read("a") == b"one\n"
    # Whoever runs the server could take them away as well.
    assert box.approve({"noVerify": True})["status"] == "approved"
    assert box.ok("GET", "/audit")["events"][0]["details"]["noVerify"] is True
    server.stop()
    server.settings["workspace-allow-no-verify"] = "true"
    server.start()
    (box.project / "a").write_text("one\n")
    assert server.http("POST", path + "/approve", {"noVerify": True, "force": True}, headers)[0] == 200
    box.remove()


@pytest.mark.parametrize("hooks", [{}, [1], [{"name": "x"}], [{"command": "x"}], [{"name": "", "command": "x"}],
                                   [{"name": "x\n", "command": "x"}], [{"name": "x", "command": "x", "args": "y"}],
                                   [{"name": "x", "command": "x", "timeout": "2h"}], [{"name": "x", "command": "x", "timeout": 0}],
                                   [{"name": "x", "command": "x", "required": 1}], [{"name": "x", "command": "x", "requierd": True}],
                                   [{"name": "x", "command": "y"}] * 17])
def test_hooks_that_are_none_are_refused_when_it_is_made(shared, hooks):
    status, answer = shared.http("POST", "/api/v1/sandboxes", {"projectRoot": str(shared.top / "x"), "behavior": {"hooks": hooks}})
    assert status == 400 and "hooks" in answer["error"], answer


@pytest.mark.databases
@pytest.mark.parametrize("point", ["hook_box_made", "hook_running"])
def test_a_kill_leaves_nothing_behind(make, point):
    server = make()
    environment = server.environment
    server.start()
    box = make_box(server, hook("test -e go || sleep 600"))
    box.sh("echo agent > a")
    box.diff()
    server.stop()
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    server.start()
    with contextlib.suppress(OSError, ValueError):
        box.http("POST", "/approve", {})
    server.process.wait(WAIT)
    assert boxes_of(server) != []
    server.environment = environment
    server.start()
    assert boxes_of(server) == [] and box.read("a") == b"one\n"
    eventually(lambda: set(server.supervisors()) == {sandbox_id(box.id)})
    (box.project / "go").write_text("")
    assert box.approve()["status"] == "approved" and box.read("a") == b"agent\n"
    box.remove()


def test_a_kill_while_one_runs_ends_it(make):
    server = make().start()
    box = make_box(server, hook("sleep 600"))
    box.sh("echo agent > a")
    box.diff()

    def approve():
        with contextlib.suppress(OSError, ValueError):
            box.http("POST", "/approve", {})

    thread = threading.Thread(target=approve)
    thread.start()
    eventually(lambda: len(server.supervisors()) == 2)
    time.sleep(0.2)
    server.kill()
    thread.join()
    eventually(lambda: len(server.supervisors()) == 1)
    server.start()
    assert boxes_of(server) == [] and box.read("a") == b"one\n" and box.state() == "active"
    box.remove()


@pytest.mark.databases
def test_who_hangs_up_ends_them(make):
    server = make().start()
    box = make_box(server, hook("sleep 600"))
    box.sh("echo agent > a")
    box.diff()
    connection = server.connect()
    connection.request("POST", box.path + "/approve", "{}")
    eventually(lambda: len(server.supervisors()) == 2)
    connection.close()
    eventually(lambda: len(server.supervisors()) == 1 and boxes_of(server) == [])
    assert box.read("a") == b"one\n" and box.state() == "active"
    box.remove()
