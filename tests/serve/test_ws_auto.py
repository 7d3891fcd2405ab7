"""What is decided without a person when the work is over: autoApprove, autoReject, and what the lifecycle says of it."""

import threading

import pytest
from review import Review
from server import eventually

FILES = {"a.txt": "one\n", "b.txt": "two\n", "src/x.c": "x\n"}


def make_box(server, lifecycle=None, hooks=None, files=None, **acceptance):
    behavior = {"acceptance": acceptance, **({"lifecycle": lifecycle} if lifecycle else {}), **({"hooks": hooks} if hooks else {})}
    return Review(server, files or FILES, behavior=behavior)


def finish(box, outcome=None):
    return box.ok("POST", "/finish", {"outcome": outcome} if outcome else {})


def last(box, kind):
    return next(event for event in box.ok("GET", "/audit")["events"] if event["eventType"] == kind)


@pytest.mark.databases
def test_what_is_accepted_is_approved_when_the_run_is_completed(shared):
    box = make_box(shared, autoApprove=True, allow={"extensions": ["txt"]})
    box.sh("echo agent > a.txt; echo new > c.txt")
    assert box.read("a.txt") == b"one\n"
    answer = finish(box)
    assert (answer["decision"], answer["status"], answer["applied"]) == ("approved", "approved", 2) and answer["approvalId"]
    assert box.read("a.txt") == b"agent\n" and box.read("c.txt") == b"new\n"
    event = last(box, "approved")
    assert event["actor"] == "auto-approve" and event["actorType"] == "system" and event["details"]["automatic"] is True
    changes = shared.http("GET", f"/api/v1/provenance?path={box.project}/a.txt")[1]["changes"]
    assert changes[0]["approvedBy" if "approvedBy" in changes[0] else "actor"] == "auto-approve"
    assert finish(box)["decision"] == "none"
    # It is an approval as any other.
    assert box.ok("POST", "/undo", {})["status"] == "stopped" and box.read("a.txt") == b"one\n"
    box.remove()


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_nothing_is_approved_when_it_was_not(shared, outcome):
    box = make_box(shared, autoApprove=True)
    box.sh("echo agent > a.txt")
    assert finish(box, outcome)["decision"] == "none" and box.state() == "active" and box.read("a.txt") == b"one\n"
    box.remove()


@pytest.mark.parametrize("script, acceptance, why", [
    ("true", {}, "nothing was changed"),
    ("echo agent > a.txt; echo y > src/x.c", {"allow": {"extensions": ["txt"]}}, "not every change"),
    ("echo agent > a.txt; mv src/x.c x.txt", {"allow": {"extensions": ["txt"]}}, "not every change"),
    ("echo agent > a.txt; mkdir .vscode; echo x > .vscode/tasks.json", {}, "word of its own"),
    ("for n in 1 2 3 4 5 6 7 8 9 10 11; do echo > f$n; done", {}, "more files"),
    ("seq 501 > a.txt", {}, "more lines"),
    ("head -c 9000000 /dev/zero | tr '\\0' x > a.txt", {}, "more lines"),
])
def test_what_is_not_clear_is_left_to_a_person(shared, script, acceptance, why):
    box = make_box(shared, autoApprove=True, **acceptance)
    box.sh(script)
    answer = finish(box)
    assert answer["decision"] == "none" and why in answer["reason"], answer
    assert box.state() == "active" and box.read("a.txt") == b"one\n"
    box.remove()


def test_conflicts_and_hooks_are_in_the_way(shared):
    box = make_box(shared, autoApprove=True, autoReject=True, deny={"pathGlobs": ["src/**"]},
                   hooks=[{"name": "check", "command": "/bin/sh", "args": ["-c", "grep -q good b.txt"]}])
    box.sh("echo agent > a.txt; echo agent > b.txt")
    (box.project / "a.txt").write_text("mine\n")
    answer = finish(box)
    assert answer["decision"] == "none" and "cannot be applied" in answer["reason"] and box.state() == "active", answer
    (box.project / "a.txt").write_text("one\n")
    answer = finish(box)
    assert answer["decision"] == "none" and "'check' failed" in answer["reason"] and box.read("a.txt") == b"one\n"
    box.sh("echo good > b.txt")
    assert finish(box)["decision"] == "approved" and box.read("b.txt") == b"good\n"
    box.remove()


def test_what_is_denied_rejects_all_of_it_and_can_be_had_again(shared):
    box = make_box(shared, autoApprove=True, autoReject=True, deny={"pathGlobs": ["src/**"]})
    box.sh("echo agent > a.txt; echo y > src/x.c")
    answer = finish(box, "failed")
    assert (answer["decision"], answer["status"]) == ("rejected", "rejected") and "src/x.c" in answer["reason"]
    event = last(box, "rejected")
    assert event["actor"] == "auto-reject" and event["actorType"] == "system" and event["details"]["automatic"] is True
    assert box.read("a.txt") == b"one\n"
    box.ok("POST", "/restore")
    assert box.paths() == ["a.txt", "src/x.c"]
    box.remove()


def test_what_is_only_ignored_rejects_nothing(shared):
    box = make_box(shared, autoReject=True, allow={"extensions": ["txt"]}, deny={"pathGlobs": ["etc/**"]})
    box.sh("echo y > src/x.c")
    assert finish(box)["decision"] == "none" and box.state() == "active"
    box.remove()


def test_an_agent_that_goes_on_writing_gets_nothing_in_unseen(shared):
    box = make_box(shared, autoApprove=True)
    box.start_process("n=0; while :; do n=$((n+1)); echo $n > a.txt; done")
    eventually(lambda: box.paths())
    for _ in range(10):
        answer = finish(box)
        if answer["decision"] == "approved":
            break
        assert "changed" in answer["reason"] or "not those" in answer["reason"], answer
        if box.state() == "stopped":
            box.diff()
            assert finish(box)["decision"] == "approved"
            break
    assert (box.state() == "approved") == (box.read("a.txt") != b"one\n")
    box.remove()


@pytest.mark.databases
def test_two_say_so_at_once_and_one_decides(shared):
    box = make_box(shared, autoApprove=True)
    box.sh("echo agent > a.txt")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(finish(box))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "approved" in [answer["decision"] for answer in answers] and box.read("a.txt") == b"agent\n"
    assert len([event for event in box.events() if event == "approved"]) == 1
    box.remove()


def test_the_lifecycle_hears_of_it(shared):
    for outcome, lifecycle, status in (("completed", {"stopOn": ["run_completed"]}, "stopped"),
                                       ("failed", {"stopOn": ["run_completed"], "deleteOn": ["run_failed"]}, "deleted"),
                                       ("cancelled", {"stopOn": ["run_completed"]}, "active")):
        box = make_box(shared, lifecycle=lifecycle)
        assert finish(box, outcome)["status"] == status, outcome
        box.remove()


def test_requests_that_are_off_are_refused(shared):
    box = make_box(shared)
    for body in ({"outcome": "done"}, {"outcome": 1}, {"x": 1}):
        assert box.http("POST", "/finish", body)[0] == 400
    assert box.http("POST", "/finish", {"version": 99})[0] == 409
    box.http("DELETE", "")
    assert box.http("POST", "/finish", {})[0] == 409
    box.remove()


def test_a_server_may_want_a_person(make):
    server = make(**{"workspace-require-human-approval": "true"}).start()
    status, answer = server.http("POST", "/api/v1/sandboxes", {"projectRoot": "/tmp/x", "behavior": {"acceptance": {"autoApprove": True}}})
    assert status == 400 and "autoApprove" in answer["error"]
    server.stop()
    server.settings["workspace-require-human-approval"] = "false"
    server.start()
    box = make_box(server, autoApprove=True)
    box.sh("echo agent > a.txt")
    server.stop()
    server.settings["workspace-require-human-approval"] = "true"
    server.start()
    answer = finish(box)
    assert answer["decision"] == "none" and "a person" in answer["reason"] and box.read("a.txt") == b"one\n"
    box.remove()
