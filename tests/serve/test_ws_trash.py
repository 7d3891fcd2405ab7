"""Workspaces that come back: from the trash, after a rejection, after an approval that was undone."""

import contextlib
import fcntl
import time

import pytest
from review import Review
from server import WAIT, eventually, sandbox_id

FILES = {"a": "one\n", "b": "two\n"}


@pytest.fixture
def box(shared):
    box = Review(shared, FILES)
    box.sh("echo agent > a; echo new > c")
    yield box
    box.remove()


def changed(box):
    return [(file["filePath"], file["changeType"]) for file in box.diff()["files"]]


CHANGES = [("a", "modified"), ("c", "added")]


def state_of(server, box):
    return server.state / "sandboxes" / sandbox_id(box.id)


@pytest.mark.databases
def test_a_deleted_one_comes_back_with_its_changes(box):
    assert box.http("DELETE", "")[0] == 204
    gone = box.ok("GET", "")
    assert gone["status"] == "deleted" and gone["restorableUntil"] > gone["deletedAt"]
    assert box.http("GET", "/diff")[0] == 409
    back = box.ok("POST", "/restore", {"actor": "ann"})
    assert back["status"] == "stopped" and "deletedAt" not in back and "restorableUntil" not in back
    assert changed(box) == CHANGES
    assert box.ok("POST", "/restore")["version"] == back["version"]
    assert box.ok("POST", "/start")["status"] == "active" and box.sh("cat a c")["stdout"] == "agent\nnew\n"
    assert {"started", "restored", "deleted"} <= set(box.events())
    box.diff()
    assert box.approve()["status"] == "approved" and box.read("a") == b"agent\n"


def test_a_rejected_one_comes_back(box):
    box.ok("POST", "/reject")
    assert box.ok("POST", "/restore")["status"] == "stopped" and changed(box) == CHANGES


def test_what_others_have_reserved_meanwhile_is_in_the_way(box):
    box.http("DELETE", "")
    status, other = box.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(box.project)})
    assert status == 201, other
    status, answer = box.http("POST", "/restore")
    assert status == 409 and answer["details"]["conflicts"][0]["sandboxId"] == other["id"], answer
    assert box.state() == "deleted" and "restorableUntil" in box.ok("GET", "")
    box.server.http("DELETE", f"/api/v1/sandboxes/{other['id']}")
    assert box.ok("POST", "/restore")["status"] == "stopped"


@pytest.mark.databases
def test_a_purge_is_for_good(box):
    assert box.http("DELETE", "?purge=maybe")[0] == 400 and box.state() == "active"
    assert state_of(box.server, box).is_dir()
    assert box.http("DELETE", "?purge=true")[0] == 204
    assert not state_of(box.server, box).exists() and "restorableUntil" not in box.ok("GET", "")
    assert box.http("POST", "/restore")[0] == 409 and box.state() == "deleted"


def test_a_purge_that_failed_says_so_and_can_be_repeated(box):
    box.ok("POST", "/stop")
    place = state_of(box.server, box)
    with open(place / "delta/meta/lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for _ in range(2):
            status, answer = box.http("DELETE", "?purge=true")
            assert status == 409 and "files" in answer["error"], answer
            assert box.state() == "deleted" and place.is_dir()
    assert box.http("DELETE", "?purge=true")[0] == 204 and not place.exists()
    assert "purged" in box.events()


def test_one_in_the_trash_can_be_purged(box):
    box.http("DELETE", "")
    assert box.http("DELETE", "?purge=true")[0] == 204 and not state_of(box.server, box).exists()
    assert box.events()[0] == "purged"


@pytest.mark.databases
def test_the_trash_is_told_and_emptied_by_a_collection(make):
    server = make().start()
    box = Review(server, FILES)
    box.sh("head -c 300000 /dev/urandom > big")
    assert server.http("POST", "/api/v1/gc/preview", {})[1]["trash"]["kept"] == 0
    box.http("DELETE", "")
    trash = server.http("POST", "/api/v1/gc/preview", {})[1]["trash"]
    assert trash["kept"] == 1 and trash["keptBytes"] > 300000 and trash["purged"] == 0
    trash = server.http("POST", "/api/v1/gc/preview", {"policy": {"trashDelay": "0s"}})[1]["trash"]
    assert trash["purged"] == 1 and trash["purgedBytes"] > 300000 and state_of(server, box).is_dir()
    assert server.http("POST", "/api/v1/gc", {"policy": {"trashDelay": "1h"}})[1]["trash"]["kept"] == 1
    assert server.http("POST", "/api/v1/gc", {"policy": {"trashDelay": "0s"}})[1]["trash"]["purged"] == 1
    assert not state_of(server, box).exists()
    box.remove()


def test_the_trash_goes_first_when_there_is_not_enough_room(make):
    server = make().start()
    box, other = Review(server, FILES), Review(server, FILES)
    for one in (box, other):
        one.sh("head -c 300000 /dev/urandom > big")
    other.ok("POST", "/stop")
    box.http("DELETE", "")
    answer = server.http("POST", "/api/v1/gc", {"policy": {"maxTotalSizeBytes": 500000}})[1]
    assert answer["trash"]["purged"] == 1 and answer["totalCollected"] == 0 and other.state() == "stopped"
    answer = server.http("POST", "/api/v1/gc", {"policy": {"maxTotalSizeBytes": 1000}})[1]
    assert answer["totalCollected"] == 1 and not state_of(server, other).exists()  # it would free nothing there
    box.remove()
    other.remove()


def test_by_itself_the_trash_is_emptied_after_its_time(make):
    server = make(**{"workspace-trash": "300ms", "sandbox-cleanup-interval": "100ms"}).start()
    box = Review(server, FILES)
    box.http("DELETE", "")
    eventually(lambda: not state_of(server, box).exists())
    assert box.http("POST", "/restore")[0] == 409
    box.remove()


def kill_at(server, point, call):
    """The server dies in the call, and another is there afterwards."""
    environment = server.environment
    server.stop()
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    server.start()
    with contextlib.suppress(OSError, ValueError):
        call()
    server.process.wait(WAIT)
    server.environment = environment
    server.start()


def test_a_kill_while_it_is_deleted_or_purged_loses_nothing_that_was_promised(make):
    server = make().start()
    box = Review(server, FILES)
    box.sh("echo agent > a; echo new > c")
    kill_at(server, "sandbox_deleted", lambda: box.http("DELETE", ""))
    assert box.state() == "deleted"
    assert box.ok("POST", "/restore")["status"] == "stopped" and changed(box) == CHANGES
    box.http("DELETE", "")
    kill_at(server, "sandbox_purged", lambda: server.http("POST", "/api/v1/gc", {"policy": {"trashDelay": 0}}))
    assert box.state() == "deleted" and box.http("POST", "/restore")[0] == 409
    assert not state_of(server, box).exists()
    box.remove()


# Undo.

@pytest.mark.databases
def test_an_undo_of_all_reopens_it(box):
    box.diff()
    assert box.approve()["status"] == "approved" and box.diff()["files"] == []
    answer = box.ok("POST", "/undo", {})
    assert answer["status"] == "stopped" and box.state() == "stopped"
    assert box.read("a") == b"one\n" and not (box.project / "c").exists()
    assert changed(box) == CHANGES
    assert "approvedAt" not in box.ok("GET", "")
    box.ok("POST", "/start")
    assert box.sh("cat a c; echo more > b")["stdout"] == "agent\nnew\n"
    box.diff()
    assert box.approve()["applied"] == 3 and box.state() == "approved" and box.read("b") == b"more\n"


def test_an_undo_beside_another_leaves_it_approved(box):
    box.diff()
    box.approve()
    status, other = box.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(box.project)})
    assert status == 201
    answer = box.ok("POST", "/undo", {})
    assert answer["status"] == "approved" and "reserved" in answer["note"] and box.read("a") == b"one\n"
    box.server.http("DELETE", f"/api/v1/sandboxes/{other['id']}")
    assert box.ok("POST", "/restore")["status"] == "stopped" and changed(box) == CHANGES


@pytest.mark.parametrize("point", ["landing-staged", "landing-intent", "landing-landed", "landing-follow-up", "review_noted", "review_ended"])
def test_a_kill_while_it_is_undone_leaves_one_or_the_other(make, point):
    server = make().start()
    box = Review(server, FILES)
    box.sh("echo agent > a; echo new > c")
    box.diff()
    box.approve()
    kill_at(server, point, lambda: box.http("POST", "/undo", {}))
    if box.state() == "approved":
        assert box.read("a") == b"agent\n" and box.diff()["files"] == []
        assert box.ok("POST", "/undo", {})["status"] == "stopped"
    assert box.state() == "stopped" and box.read("a") == b"one\n" and changed(box) == CHANGES
    box.remove()


# A profile.

def test_a_profile_is_chosen_when_it_is_made(make):
    server = make().start()
    profile = {"name": "tools", "networkAccess": "none", "environment": {"SHELF": "top"}, "hostname": "tools",
               "readOnlyBinds": {str(server.top): "/shelf"}}
    (server.top / "tool").write_text("a tool\n")
    status, answer = server.http("PUT", "/api/v1/config/profiles/tools", profile)
    assert status == 200, answer
    status, answer = server.http("POST", "/api/v1/sandboxes", {"projectRoot": "/tmp", "profile": "none-such"})
    assert status == 400, answer
    plain, box = Review(server, FILES), Review(server, FILES, profile="tools")
    assert plain.ok("GET", "")["profile"] == "full" and box.ok("GET", "")["profile"] == "tools"
    seen = "cat /shelf/tool; echo $SHELF; uname -n"
    assert box.sh(seen)["stdout"] == "a tool\ntop\ntools\n"
    assert box.sh("echo $SHELF", env={"SHELF": "mine"})["stdout"] == "top\n"
    assert "tool" not in plain.sh(seen)["stdout"]
    assert box.sh(seen, isolationLevel="tools")["exitCode"] == 0 and plain.http(
        "POST", "/exec", {"command": "true", "isolationLevel": "tools"})[0] == 409
    # It is what it was made with, whatever becomes of the profile.
    assert server.http("DELETE", "/api/v1/config/profiles/tools")[0] == 204
    box.ok("POST", "/stop")
    box.ok("POST", "/start")
    assert box.sh("cat /shelf/tool; uname -n")["stdout"] == "a tool\ntools\n"
    box.remove()
    plain.remove()


# What cannot be undone any more.

@pytest.mark.databases
def test_old_approvals_are_forgotten_when_the_time_for_undoing_is_over(make):
    server = make(**{"workspace-undo-window": "1h"}).start()
    box = Review(server, FILES)
    box.sh("echo rest > b")
    for n in range(3):
        box.sh(f"echo {n} > a; echo {n} > n{n}")
        box.diff()
        box.approve({"files": ["a", f"n{n}"]})
    records = state_of(server, box) / "delta" / "meta" / "approvals" / "done"
    assert len(list(records.iterdir())) == 3
    assert server.http("POST", "/api/v1/gc", {"policy": {"maxAge": "24h"}})[1]["pruned"] == {"approvals": 0, "preImages": 0, "bytes": 0}
    assert len(list(records.iterdir())) == 3
    server.stop()
    server.settings.update({"workspace-undo-window": "1ms", "sandbox-cleanup-interval": "1h"})
    server.start()
    eventually(lambda: list(records.iterdir()) == [])  # by itself
    assert box.http("POST", "/undo", {})[0] == 404
    # What was not decided about is as it was, while the agent goes on.
    assert box.sh("echo more >> b; cat a n2 b")["stdout"] == "2\n2\nrest\nmore\n" and box.paths() == ["b"]
    (box.project / "b").write_text("two\nmine\n")
    box.diff()
    assert box.http("POST", "/approve", {})[0] in (200, 409)
    box.remove()


def test_a_kill_while_they_are_forgotten_does_no_harm(make):
    server = make(**{"workspace-undo-window": "1h"}).start()
    box = Review(server, FILES)
    box.sh("echo rest > b")
    for n in range(2):
        box.sh(f"echo {n} > a")
        box.diff()
        box.approve({"files": ["a"]})
    environment = server.environment
    server.stop()
    server.settings["workspace-undo-window"] = "1ms"
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "prune-record"}
    server.start(wait=False)
    server.process.wait(WAIT)
    server.environment = environment
    server.settings["workspace-undo-window"] = "1h"
    server.start()
    assert box.paths() == ["b"] and box.read("a") == b"1\n"
    assert box.ok("POST", "/undo", {})["undone"] == 1 and box.read("a") == b"0\n"
    assert box.http("POST", "/undo", {})[0] == 404  # the first was being forgotten
    box.remove()


def test_what_is_decided_is_collected_after_its_delay(make):
    """By the server itself: approved and rejected ones when the delay has passed, and not before; others stay."""
    server = make(**{"workspace-terminal-delay": "1s", "sandbox-cleanup-interval": "100ms"}).start()
    approved, rejected, active = (Review(server, {"f": "f\n"}) for _ in range(3))
    approved.sh("echo x > x")
    approved.diff()
    approved.approve()
    decided = time.monotonic()
    rejected.ok("POST", "/reject", {})
    assert [box.state() for box in (approved, rejected)] == ["approved", "rejected"] or time.monotonic() - decided > 0.9
    eventually(lambda: [box.state() for box in (approved, rejected)] == ["deleted", "deleted"])
    assert time.monotonic() - decided >= 1 and active.state() == "active"
    for box in (approved, rejected):
        assert "gc_collected" in box.events() or "deleted" in box.events(), box.events()
    assert approved.read("x") == b"x\n"
    active.remove()
