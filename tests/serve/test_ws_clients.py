"""What clients send and read that were written for another server of the workspace API."""

import os
import signal
import uuid

import pytest
from review import FILES, Review
from server import eventually
from workspace import may_lack, refused

LONG = "src/long.txt"


@pytest.fixture
def box(shared):
    made = Review(shared, FILES)
    yield made
    made.remove()


# Requests.

def test_a_lock_that_the_behavior_does_without(shared, box):
    """The same as `noLock` beside it; what contradicts itself is refused."""
    same = {"projectRoot": str(box.project)}
    assert shared.http("POST", "/api/v1/sandboxes", same)[0] == 409
    for fields in ({"behavior": {"noLock": True}}, {"noLock": True, "behavior": {"noLock": True}}):
        status, other = shared.http("POST", "/api/v1/sandboxes", {**same, **fields})
        assert status == 201 and other["noLock"] is True and other["reservedPath"] == "", other
        assert "noLock" not in other["behavior"]
        assert shared.http("DELETE", f"/api/v1/sandboxes/{other['id']}")[0] == 204
    for fields in ({"behavior": {"noLock": False}}, {"noLock": False, "behavior": {"noLock": None}}):
        assert shared.http("POST", "/api/v1/sandboxes", {**same, **fields})[0] == 409
    for fields in ({"behavior": {"noLock": "yes"}}, {"noLock": False, "behavior": {"noLock": True}},
                   {"noLock": True, "behavior": {"noLock": False}}):
        refused(shared.http("POST", "/api/v1/sandboxes", {**same, **fields}), 400)


@pytest.mark.parametrize("verb, body", [("approve", {"files": ["README"]}), ("partial-approve", {"files": ["README"]}),
                                        ("discard", {"filePaths": ["README"]}), ("rebase", {}), ("reject", {})])
def test_the_sandbox_of_the_path_may_be_in_the_body_too(box, verb, body):
    box.sh("echo changed > README")
    box.diff()
    for other in (str(uuid.uuid4()), "x", "", 1):
        refused(box.http("POST", f"/{verb}", {**body, "sandboxId": other}), 400)
    assert box.state() == "active" and box.paths() == ["README"] and box.read("README") == b"read me\n"
    box.ok("POST", f"/{verb}", {**body, "sandboxId": box.id.upper() if verb == "reject" else box.id})


def test_ids_of_files_beside_ranges_of_their_hunks(box):
    """Only the hunks are taken; a file that has none named is not, where hunks are the mode."""
    box.sh(f"sed -i -e '2s/.*/first/' -e '35s/.*/second/' {LONG}; echo changed > README")
    ids = {file["filePath"]: file["id"] for file in box.diff()["files"]}
    ranges = [{"fileId": ids[LONG], "startLine": 30, "endLine": 40}]
    answer = box.approve({"mode": "hunks", "fileIds": [ids[LONG], ids["README"]], "hunkRanges": ranges})
    assert answer["applied"] == 1 and answer["isPartial"] is True
    text = box.read(LONG).decode().splitlines()
    assert text[34] == "second" and text[1] == "line 1" and box.read("README") == b"read me\n"
    assert sorted(box.paths()) == ["README", LONG]


def test_without_a_mode_other_files_that_are_named_are_taken_whole(box):
    box.sh(f"sed -i -e '2s/.*/first/' -e '35s/.*/second/' {LONG}; echo changed > README; echo more > doc/x.md")
    ids = {file["filePath"]: file["id"] for file in box.diff()["files"]}
    box.approve({"fileIds": [ids["README"], ids[LONG]], "hunkRanges": [{"fileId": ids[LONG], "startLine": 1, "endLine": 5}]})
    text = box.read(LONG).decode().splitlines()
    assert text[1] == "first" and text[34] == "line 34" and box.read("README") == b"changed\n" and box.read("doc/x.md") == b"x\n"
    refused(box.http("POST", "/approve", {"files": [LONG], "hunkRanges": [{"path": LONG, "startLine": 1, "endLine": 99}]}), 400)
    refused(box.http("POST", "/approve", {"mode": "hunks", "fileIds": [ids[LONG]]}), 400)


def test_a_profile_by_its_other_name(make):
    server = make(**{"sandbox-allow-host-network": "true"}).start()
    box = Review(server, FILES, profile="vrooli-aware")
    assert box.ok("GET", "")["profile"] == "aware"
    assert box.exec("/bin/echo", "hello", isolationLevel="vrooli-aware")["stdout"] == "hello\n"
    assert box.exec("/bin/echo", "hello", isolationLevel="aware")["stdout"] == "hello\n"
    assert server.http("GET", "/api/v1/config/profiles/vrooli-aware")[1]["id"] == "aware"
    assert "no profile" in refused(box.http("POST", "/exec", {"command": "true", "isolationLevel": "vrooli"}), 400)["error"]
    # One that somebody makes under that name is theirs.
    assert server.http("PUT", "/api/v1/config/profiles/vrooli-aware", {"name": "Own", "networkAccess": "none"})[0] == 200
    assert server.http("GET", "/api/v1/config/profiles/vrooli-aware")[1]["name"] == "Own"
    box.remove()


# Answers.

def test_ids_of_events_are_uuids_and_do_not_change(shared, box):
    box.ok("POST", "/stop")
    box.ok("POST", "/start")
    events = box.ok("GET", "/audit")["events"]
    ids = [event["id"] for event in events]
    assert [str(uuid.UUID(one)) for one in ids] == ids and len(set(ids)) == len(ids) >= 3
    assert [event["id"] for event in box.ok("GET", "/audit")["events"]] == ids
    _, both = shared.http("GET", f"/api/v1/audit?sandbox_id={box.id}")
    assert [event["id"] for event in both["events"]] == ids


def listed(server, box, status=""):
    _, answer = server.http("GET", f"/api/v1/sandboxes?projectRoot={box.project}&status={status}")
    return next(((one["fileCount"], one["sizeBytes"]) for one in answer["sandboxes"] if one["id"] == box.id), None)


@pytest.mark.parametrize("driver", ["fence", "overlayfs"])
def test_a_list_has_counts_and_sizes_that_nobody_asked_for_before(shared, driver):
    options = shared.http("GET", "/api/v1/driver/options")[1]["options"]
    if not next(option for option in options if option["id"] == driver)["available"]:
        assert may_lack(driver)
        pytest.skip(f"this host has no {driver}")
    box = Review(shared, FILES, driver=driver)
    version = box.ok("GET", "")["version"]
    assert listed(shared, box) == (0, 0)
    box.sh("printf 12345 > new; printf 123 > src/new")
    assert eventually(lambda: listed(shared, box) == (2, 8))
    box.sh("printf 6 >> new")
    assert eventually(lambda: listed(shared, box) == (2, 9))
    box.sh("rm new")
    assert eventually(lambda: listed(shared, box) == (1, 3))
    assert box.ok("GET", "")["version"] == version
    box.remove()


def test_a_list_after_a_decision_has_what_is_left(shared, box):
    box.sh("printf 12345 > new; printf 123 > src/new; printf 1 > third")
    box.diff()
    box.ok("POST", "/stop")
    assert listed(shared, box) == (3, 9)
    box.ok("POST", "/discard", {"filePaths": ["new"]})
    assert listed(shared, box) == (2, 4)
    box.approve({"files": ["third"]})
    assert listed(shared, box) == (1, 3)


def test_a_list_knows_what_one_had_whose_supervisor_was_killed(make):
    server = make().start()
    box = Review(server, FILES)
    box.sh("printf 12345 > new")
    os.kill(next(iter(server.supervisors().values())), signal.SIGKILL)
    assert eventually(lambda: listed(server, box, status="stopped") == (1, 5))
    box.remove()
