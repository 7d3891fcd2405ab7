"""Reviewers' comments on files and hunks, by gRPC and /v1."""

import os
import signal

import pytest
from api import CODE, NOBODY, failed, id_of, refused, token_of
from disk import fill
from review import FILES, Review
from workspace import own_name

LONG = "sed -i 's/^line 2$/two/; s/^line 30$/thirty/' src/long.txt"


@pytest.fixture
def client(shared):
    return shared.client()


@pytest.fixture
def review(box):
    box.sh(f"echo new > new; {LONG}; rm README")
    box.name = id_of(box.id)
    return box


def hunks(client, box, path="src/long.txt"):
    (file,) = client.get_diff(sandbox_id=box.name, path=path).files
    return [hunk.id for hunk in file.hunks]


def comments(client, box, **more):
    return client.list_review_comments(sandbox_id=box.name, **more)


def test_a_comment_on_a_file_a_hunk_and_a_line(client, shared, review):
    first, second = hunks(client, review)
    whole = client.add_review_comment(sandbox_id=review.name, path="new", text="why?", actor="ann")
    assert whole.id.startswith("cm_") and (whole.sandbox_id, whole.path, whole.scope_path) == (review.name, "new", "new")
    assert (whole.author, whole.actor, whole.hunk_id, whole.line, whole.resolved, whole.outdated) == (own_name(), "ann", "", 0, False, False)
    file_id = next(file.id for file in client.get_diff(sandbox_id=review.name).files if file.path == "src/long.txt")
    status, one = shared.http("POST", f"/v1/sandboxes/{review.name}/comments",
                              {"fileId": file_id, "hunkId": second, "line": 30, "oldLine": True, "text": "ünd\nthis"})
    assert status == 200 and (one["path"], one["hunkId"], one["line"], one["oldLine"], one["text"]) == ("src/long.txt", second, 30, True, "ünd\nthis")
    listed = comments(client, review)
    assert [one.id for one in listed.comments] == [whole.id, one["id"]] and (listed.total, listed.unresolved) == (2, 2)
    assert listed.comments[0] == whole and not listed.comments[1].outdated
    status, answer = shared.http("GET", f"/v1/sandboxes/{review.id}/comments?path=src")
    assert status == 200 and [one["path"] for one in answer["comments"]] == ["src/long.txt"]
    assert not comments(client, review, path="/sr").total and comments(client, review, path="/new").total == 1
    assert first != second


def test_it_is_outdated_when_its_hunk_or_file_changes(client, review):
    first, second = hunks(client, review)
    for fields in ({"path": "new"}, {"path": "src/long.txt"}, {"path": "src/long.txt", "hunk_id": first},
                   {"path": "src/long.txt", "hunk_id": second}, {"path": "README"}):
        client.add_review_comment(sandbox_id=review.name, text="x", **fields)
    assert [one.outdated for one in comments(client, review).comments] == [False] * 5
    review.sh("sed -i 's/^thirty$/30/' src/long.txt")
    assert [one.outdated for one in comments(client, review).comments] == [False, True, False, True, False]
    review.sh("sed -i 's/^30$/thirty/' src/long.txt; echo more >> new; echo back > README")
    assert [one.outdated for one in comments(client, review).comments] == [True, False, False, False, True]
    review.approve({"force": True})
    assert all(one.outdated for one in comments(client, review).comments), "what is applied is no change any more"


def test_resolved_opened_again_and_deleted(client, shared, review):
    ids = [client.add_review_comment(sandbox_id=review.name, path="new", text=f"{n}").id for n in range(3)]
    done = client.resolve_review_comment(sandbox_id=review.name, comment_id=ids[1], actor="bob")
    assert done.resolved and done.resolved_by == own_name() and done.resolved_at.seconds and done.id == ids[1]
    assert client.resolve_review_comment(sandbox_id=review.name, comment_id=ids[1]) == done, "it is so already"
    left = comments(client, review, open=True)
    assert [one.id for one in left.comments] == [ids[0], ids[2]] and (left.total, left.unresolved) == (2, 2)
    everything = comments(client, review)
    assert (everything.total, everything.unresolved) == (3, 2)
    status, again = shared.http("POST", f"/v1/sandboxes/{review.name}/comments/{ids[1]}/resolve", {"reopen": True})
    assert status == 200 and again["resolved"] is False and again["resolvedBy"] == ""
    assert shared.http("DELETE", f"/v1/sandboxes/{review.name}/comments/{ids[0]}") == (200, {})
    assert [one.id for one in comments(client, review).comments] == ids[1:]
    found = [event.type for event in client.list_events(sandbox_id=review.name, page_size=1000).events]
    assert [one for one in found if "comment" in one] == ["sandbox_commented"] * 3 + \
        ["sandbox_comment_resolved", "sandbox_comment_reopened", "sandbox_comment_deleted"]
    event = next(event for event in review.ok("GET", "/audit")["events"] if event["eventType"] == "comment_resolved")
    assert (event["claimedActor"], event["details"]["commentId"], event["details"]["path"]) == ("bob", ids[1], "new")


def test_pages(client, review):
    ids = [client.add_review_comment(sandbox_id=review.name, path="new", text=f"{n}").id for n in range(5)]
    seen, token = [], ""
    while True:
        page = comments(client, review, page_size=2, page_token=token)
        seen += [one.id for one in page.comments]
        token = page.next_page_token
        assert page.total == 5
        if not token:
            break
    assert seen == ids
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_review_comments, sandbox_id=review.name, page_token="cm_0123456789abcdef")


def test_what_is_refused(client, shared, review):
    def add(code, part, **fields):
        return refused(code, part, client.add_review_comment, sandbox_id=review.name, **fields).reason

    add(CODE.INVALID_ARGUMENT, "path or file_id", text="x")
    add(CODE.INVALID_ARGUMENT, "text is required", path="new")
    add(CODE.INVALID_ARGUMENT, "8192", path="new", text="x" * 8193)
    add(CODE.INVALID_ARGUMENT, "actor", path="new", text="x", actor="x" * 257)
    add(CODE.INVALID_ARGUMENT, "line", path="new", text="x", line=-1)
    add(CODE.INVALID_ARGUMENT, "", path="../x", text="x")
    assert add(CODE.NOT_FOUND, "src/a.txt", path="src/a.txt", text="x") == "FILE_UNKNOWN"
    assert add(CODE.NOT_FOUND, "", file_id=NOBODY, text="x") == "FILE_UNKNOWN"
    assert add(CODE.NOT_FOUND, "0123456789abcdef", path="new", hunk_id="0123456789abcdef", text="x") == "HUNK_UNKNOWN"
    assert refused(CODE.NOT_FOUND, "cm_", client.resolve_review_comment, sandbox_id=review.name, comment_id="cm_x").reason == "COMMENT_UNKNOWN"
    refused(CODE.INVALID_ARGUMENT, "comment_id is required", client.delete_review_comment, sandbox_id=review.name)
    failed(shared.http("POST", f"/v1/sandboxes/{review.name}/comments", {"path": "new", "text": "x", "lien": 3}), 400, 3, "lien")
    failed(shared.http("DELETE", f"/v1/sandboxes/{review.name}/comments/cm_x"), 404, 5, "cm_x", "COMMENT_UNKNOWN")
    assert not comments(client, review).total
    mine = client.add_review_comment(sandbox_id=review.name, path="new", text="x").id
    mallory = shared.client(token_of(shared, "mallory"))
    for name, fields in (("add_review_comment", {"path": "new", "text": "x"}), ("list_review_comments", {}),
                         ("resolve_review_comment", {"comment_id": mine}), ("delete_review_comment", {"comment_id": mine})):
        for sandbox in (review.name, NOBODY):
            who = mallory if sandbox == review.name else client
            assert refused(CODE.NOT_FOUND, "", getattr(who, name), sandbox_id=sandbox, **fields).reason == "SANDBOX_NOT_FOUND"
    assert comments(client, review).unresolved == 1


def test_there_is_an_end_to_them(client, review):
    one = client.add_review_comment(sandbox_id=review.name, path="new", text="x").id
    place = review.server.state / "sandboxes" / review.name / "comments"
    head, record = place.read_bytes()[:22], place.read_bytes()[22:]
    assert record.startswith(one.encode() + b"\0")
    place.write_bytes(head + b"".join(record.replace(one.encode(), b"cm_%016x" % n) for n in range(1000)))
    assert comments(client, review).total == 1000
    refusal = refused(CODE.RESOURCE_EXHAUSTED, "1000", client.add_review_comment, sandbox_id=review.name, path="new", text="x")
    assert refusal.reason == "TOO_MANY_COMMENTS"
    client.delete_review_comment(sandbox_id=review.name, comment_id=f"cm_{5:016x}")
    client.add_review_comment(sandbox_id=review.name, path="new", text="x")


@pytest.mark.parametrize("damage", [b"", b"other", b"\0", b"cm_x\0new\0\0\0"])
def test_damage_is_told_and_nothing_written_over_it(client, review, damage):
    client.add_review_comment(sandbox_id=review.name, path="new", text="x")
    place = review.server.state / "sandboxes" / review.name / "comments"
    damaged = place.read_bytes() + damage if damage.endswith(b"\0") else damage
    place.write_bytes(damaged)
    for name, fields in (("list_review_comments", {}), ("add_review_comment", {"path": "new", "text": "y"})):
        refused(CODE.DATA_LOSS, "review", getattr(client, name), sandbox_id=review.name, **fields)
    assert place.read_bytes() == damaged


def test_over_a_codebase_as_well(client):
    box = client.sandbox(client.codebase({"a": "1\n"}), sync_on_completion=2)
    client.run(box, "echo 2 > a")
    assert client.add_review_comment(sandbox_id=box, path="a", text="x").path == "a"
    assert client.list_review_comments(sandbox_id=box).total == 1
    client.destroy_sandbox(sandbox_id=box, force=True)


@pytest.mark.parametrize("point, is_there", [("comments_before_save", False), ("comments_saved", True)])
def test_a_kill_leaves_all_of_it_or_nothing(make, point, is_there):
    server = make()
    environment = server.environment
    client = server.start().client()
    box = Review(server, FILES)
    box.name = id_of(box.id)
    box.sh("echo new > new")
    kept = client.add_review_comment(sandbox_id=box.name, path="new", text="kept").id
    server.stop()
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    client = server.start().client()
    refused(CODE.UNAVAILABLE, "", client.add_review_comment, sandbox_id=box.name, path="new", text="second")
    assert server.process.wait() == -signal.SIGKILL
    server.environment = environment
    client = server.start().client()
    assert [one.text for one in comments(client, box).comments] == ["kept"] + ["second"] * is_there
    client.delete_review_comment(sandbox_id=box.name, comment_id=kept)
    assert comments(client, box).total == is_there


@pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")
def test_a_full_disk_keeps_what_there_was(make, disk):
    server = make()
    place = disk(server.state, "64m")
    client = server.start().client()
    box = Review(server, FILES)
    box.name = id_of(box.id)
    box.sh("echo new > new")
    kept = client.add_review_comment(sandbox_id=box.name, path="new", text="kept" * 2000).id
    before = comments(client, box).comments
    filler = fill(place)
    refused(CODE.RESOURCE_EXHAUSTED, "", client.add_review_comment, sandbox_id=box.name, path="new", text="x" * 8000)
    refused(CODE.RESOURCE_EXHAUSTED, "", client.resolve_review_comment, sandbox_id=box.name, comment_id=kept)
    assert comments(client, box).comments == before
    filler.unlink()
    assert client.resolve_review_comment(sandbox_id=box.name, comment_id=kept).resolved
    assert not [name for name in os.listdir(server.state / "sandboxes" / box.name) if name.startswith(".af-tmp")]
