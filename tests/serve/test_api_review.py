"""Reviewing by the one API: gRPC and /v1, the same methods. What the engine decides is tested with /api/v1; here it is what the methods say of it."""

import json

import grpc
import pytest
from api import CODE, NOBODY, events, failed, failure, id_of, refused, token_of
from review import FILES, Review, git, make_repository
from sandbox.v1 import process_pb2, review_pb2, sandbox_pb2  # noqa: F401
from workspace import Workspace

pb = review_pb2
OPEN, APPROVED, REJECTED = (getattr(sandbox_pb2, f"SANDBOX_DECISION_{name}") for name in ("OPEN", "APPROVED", "REJECTED"))
RUNNING, STOPPED, DELETED = (getattr(sandbox_pb2, f"SANDBOX_STATUS_{name}") for name in ("RUNNING", "STOPPED", "DELETED"))
ALL = {"all": True}


@pytest.fixture
def http(shared, box):
    return lambda verb, path, body=None, **options: shared.http(verb, f"/v1/sandboxes/{box.id}{path}", body, **options)


def diff(client, box, **fields):
    return client.get_diff(sandbox_id=box.id, **fields)


def hashes(answer):
    return {file.path: file.hash for file in answer.files}


def seen(client, box):
    """As somebody does who shows the diff."""
    answer = diff(client, box)
    assert client.mark_diff_shown(sandbox_id=box.id, hashes=hashes(answer)).shown == len(answer.files)
    return answer


def approve(client, box, **fields):
    return client.approve(**{"sandbox_id": box.id, "selection": ALL, **fields})


# ---- looking ----

def test_what_changed(client, box, http):
    box.sh("echo four >> src/a.txt; echo new > new.sh; chmod +x new.sh; rm doc/x.md; mv doc/y.md doc/z.md; mkdir empty; ln -s README link")
    answer = diff(client, box)
    files = {file.path: file for file in answer.files}
    assert sorted(files) == ["doc/x.md", "doc/z.md", "link", "new.sh", "src/a.txt"] == [file.path for file in answer.files]
    assert {path: file.kind for path, file in files.items()} == {
        "src/a.txt": pb.CHANGE_KIND_MODIFIED, "new.sh": pb.CHANGE_KIND_ADDED, "link": pb.CHANGE_KIND_ADDED, "doc/x.md": pb.CHANGE_KIND_DELETED,
        "doc/z.md": pb.CHANGE_KIND_RENAMED}
    changed = files["src/a.txt"]
    (hunk,) = changed.hunks
    assert list(hunk.lines) == [" one", " two", " three", "+four"] and (hunk.old_start, hunk.new_lines, hunk.lines_added) == (1, 4, 1)
    assert (changed.lines_added, changed.lines_removed, changed.binary, changed.measured) == (1, 0, False, True) and len(hunk.id) == 16
    assert (changed.merge_state, changed.acceptance) == (pb.MERGE_STATE_CLEAN, pb.ACCEPTANCE_STATUS_ACCEPTED) and len(changed.hash) >= 64
    assert (files["new.sh"].old_mode, files["new.sh"].new_mode) == (0, 0o100755) and files["link"].new_symlink_target == "README"
    assert (files["doc/z.md"].old_path, files["doc/z.md"].similarity) == ("doc/y.md", 100)
    assert (answer.stats.files, answer.stats.added, answer.stats.modified, answer.stats.deleted, answer.stats.renamed) == (5, 2, 1, 1, 1)
    assert [(one.path, one.kind) for one in answer.directories] == [("empty", pb.CHANGE_KIND_ADDED)] and answer.directory == str(box.project)
    assert answer.total == 5 and not answer.next_page_token
    same = box.diff()
    assert answer.diff_hash == same["diffHash"] and changed.id == next(file["id"] for file in same["files"] if file["filePath"] == "src/a.txt")
    status, body = http("GET", "/diff")
    assert status == 200 and body["diffHash"] == answer.diff_hash and body["files"][4]["hunks"][0]["lines"][3] == "+four"
    assert [file["hash"] for file in body["files"]] == [file.hash for file in answer.files]


def test_only_a_part_of_it(client, box):
    box.sh("echo x >> src/a.txt; echo x >> src/long.txt; echo x >> README")
    assert [file.path for file in diff(client, box, path="src").files] == ["src/a.txt", "src/long.txt"]
    assert [file.path for file in diff(client, box, path="/src/a.txt").files] == ["src/a.txt"]
    assert diff(client, box, path="absent").total == 0
    listed = diff(client, box, view=pb.DIFF_VIEW_FILES)
    assert all(not file.hunks and not file.hash for file in listed.files) and listed.total == 3


def test_in_pages(client, box, http):
    box.sh("mkdir many; for i in $(seq 25); do echo $i > many/$i; done")
    whole, token, paths, pages = diff(client, box), "", [], 0
    while True:
        page = diff(client, box, page_size=10, page_token=token)
        assert page.diff_hash == whole.diff_hash and page.total == 25 and (page.directories if not token else not page.directories)
        paths, token, pages = paths + [file.path for file in page.files], page.next_page_token, pages + 1
        if not token:
            break
    assert paths == [file.path for file in whole.files] and pages == 3
    assert len(http("GET", "/diff?pageSize=7")[1]["files"]) == 7
    refused(CODE.INVALID_ARGUMENT, "page_token", client.get_diff, sandbox_id=box.id, page_token="x")


def test_what_fits_on_no_page_has_no_hash(client, box):
    box.sh("yes 'a line of text' | head -n 300000 > big.txt; echo small > a-small; echo small > z-small")
    first = diff(client, box)
    assert [file.path for file in first.files] == ["a-small"] and first.next_page_token
    second = diff(client, box, page_token=first.next_page_token)
    big = second.files[0]
    assert (big.path, big.hunks_truncated, big.hash) == ("big.txt", True, "") and 1000 < len(big.hunks[0].lines) < 300000
    assert diff(client, box, path="z-small").files[0].hash


def stream(client, box, **fields):
    """What a stream says: the diff, and files put together again."""
    whole, files = None, []
    for chunk in client.stream_diff(sandbox_id=box.id, **fields):
        assert len(chunk.SerializeToString()) < 1 << 20
        kind = chunk.WhichOneof("content")
        if kind == "diff":
            whole = chunk.diff
        elif kind == "file":
            files.append((chunk.file, [(hunk.id, list(hunk.lines)) for hunk in chunk.file.hunks], chunk.file.hash))
            goes_on = chunk.file.hunks and chunk.file.hunks[-1].continues
        else:
            file, hunks, _ = files[-1]
            assert chunk.more.id == file.id
            for hunk in chunk.more.hunks:
                lines = list(hunk.lines)
                if hunks and hunks[-1][0] == hunk.id:
                    if goes_on and lines:
                        hunks[-1][1][-1] += lines.pop(0)
                    hunks[-1][1].extend(lines)
                else:
                    hunks.append((hunk.id, lines))
                goes_on = hunk.continues
            files[-1] = (file, hunks, chunk.more.hash)
    return whole, files


def test_as_a_stream(client, box, shared):
    box.sh("echo four >> src/a.txt; yes 'a line of text' | head -n 100000 > big.txt; head -c 3000000 /dev/zero | tr '\\0' x > long-line; rm README")
    whole, files = stream(client, box)
    assert whole.diff_hash == diff(client, box).diff_hash and whole.total == 4 and not whole.files
    assert [file.path for file, _, _ in files] == ["README", "big.txt", "long-line", "src/a.txt"]
    contents = {file.path: hunks for file, hunks, _ in files}
    assert contents["src/a.txt"][0][1] == [" one", " two", " three", "+four"]
    assert contents["big.txt"][0][1] == ["+a line of text"] * 100000
    assert contents["long-line"][0][1][0] == "+" + "x" * 3000000 and contents["long-line"][0][1][1].startswith("\\ No newline")
    assert client.mark_diff_shown(sandbox_id=box.id, hashes={file.id: hash for file, _, hash in files}).shown == 4
    assert approve(client, box, dry_run=True).applied == 4
    assert [file.path for file, _, _ in stream(client, box, path="src")[1]] == ["src/a.txt"]
    connection = shared.connect()
    connection.request("GET", f"/v1/sandboxes/{box.id}/diff/stream?path=src")
    said = [json.loads(data) for event, data in events(connection.getresponse()) if event == "message"]
    connection.close()
    assert said[0]["diff"]["diffHash"] == whole.diff_hash and said[1]["file"]["path"] == "src/a.txt" and len(said) == 2


def test_as_a_patch(client, box, http):
    box.sh("echo four >> src/a.txt; printf '\\0\\1' > bin; printf 'red \\033[31m\\n' > colour")
    patch = b"".join(chunk.data for chunk in client.download_patch(sandbox_id=box.id))
    assert patch == box.http("GET", "/diff?format=patch", raw=True)[1] and b"GIT binary patch" in patch and b"\033[31m" in patch
    text = http("GET", "/diff/patch?format=PATCH_FORMAT_TEXT", raw=True)[1]
    assert b"+four" in text and b"Binary files" in text and b"\033" not in text
    assert http("GET", "/diff/patch?path=src", raw=True)[1].count(b"diff --git") == 1
    failed(http("GET", "/diff/patch?format=7"), 400, 3, "format")


# ---- approving ----

def test_only_what_was_shown(client, box, http):
    box.sh("echo new > new; rm README")
    never = refused(CODE.ABORTED, "", approve, client, box)
    assert never.reason == "DIFF_NOT_SERVED" and {file.path: file.verdict for file in failure(never, pb.ReviewFailure).files} == {
        "new": pb.VERDICT_UNSHOWN, "README": pb.VERDICT_UNSHOWN} and failure(never, pb.ReviewFailure).total == 2
    diff(client, box)
    assert refused(CODE.ABORTED, "", approve, client, box).reason == "DIFF_NOT_SERVED", "reading is not showing"
    seen(client, box)
    box.sh("echo newer > new")
    stale = refused(CODE.ABORTED, "", approve, client, box)
    assert stale.reason == "DIFF_STALE" and [file.path for file in failure(stale, pb.ReviewFailure).files] == ["new"]
    status, body = http("POST", "/approve", {"selection": ALL})
    failed((status, body), 409, 10, "changed since", "DIFF_STALE")
    detail = next(one for one in body["details"] if one["@type"].endswith("sandbox.v1.ReviewFailure"))
    assert [(file["path"], file["verdict"]) for file in detail["files"]] == [("new", "VERDICT_STALE")] and detail["total"] == 1
    assert box.read("README") == b"read me\n" and not (box.project / "new").exists()
    answer = approve(client, box, diff_hash=diff(client, box).diff_hash)
    assert (answer.applied, answer.remaining) == (2, 0) and box.read("new") == b"newer\n" and not (box.project / "README").exists()
    assert (answer.sandbox.decision, answer.sandbox.status, answer.sandbox.id) == (APPROVED, STOPPED, id_of(box.id)) and answer.approval_id
    again = approve(client, box)
    assert again.applied == 0 and again.sandbox.decision == APPROVED


def test_by_the_hashes_of_files(client, box):
    box.sh("echo a > a; echo b > b")
    wrong = {path: hash[::-1] for path, hash in hashes(diff(client, box)).items()}
    assert refused(CODE.ABORTED, "", approve, client, box, file_hashes=wrong).reason == "DIFF_STALE"
    assert approve(client, box, selection={"paths": ["a"]}, file_hashes={"a": hashes(diff(client, box))["a"]}).applied == 1
    refused(CODE.INVALID_ARGUMENT, "both given", approve, client, box, file_hashes={"b": "x"}, diff_hash="y")


def test_nothing_is_not_everything(client, box, http):
    box.sh("echo a > a")
    seen(client, box)
    for selection in (None, {}, {"all": False}, {"paths": []}):
        fields = {} if selection is None else {"selection": selection}
        refused(CODE.INVALID_ARGUMENT, "nothing is selected", client.approve, sandbox_id=box.id, **fields)
        refused(CODE.INVALID_ARGUMENT, "nothing is selected", client.discard, sandbox_id=box.id, **fields)
    refused(CODE.INVALID_ARGUMENT, "names some", approve, client, box, selection={"all": True, "paths": ["a"]})
    failed(http("POST", "/approve"), 400, 3, "nothing is selected")
    failed(http("POST", "/approve", {"selection": {"all": True}, "dryrun": True}), 400, 3, "'dryrun' is not known")
    failed(http("POST", "/approve", {"selection": {"all": True, "path": "x"}}), 400, 3, "'path' is not known")
    failed(http("POST", "/discard", {"files": ["a"]}), 400, 3, "'files' is not known")
    assert not (box.project / "a").exists()


def test_a_field_of_a_later_release_is_refused(client, box):
    box.sh("echo a > a")
    seen(client, box)
    known = pb.ApproveRequest(sandbox_id=box.id, selection=ALL).SerializeToString()
    call = client.channel.unary_unary("/sandbox.v1.ReviewService/Approve")
    with pytest.raises(grpc.RpcError) as raised:
        call(known + b"\xc0\x3e\x01", timeout=60)  # field 1000
    assert raised.value.code() == CODE.INVALID_ARGUMENT and "field 1000 of ApproveRequest" in raised.value.details()
    assert pb.ApproveResponse.FromString(call(known, timeout=60)).applied == 1


def test_files_and_hunks(client, box):
    box.sh("sed -i 's/^line 1$/LINE 1/; s/^line 35$/LINE 35/' src/long.txt; echo x > x; echo y > y")
    answer = seen(client, box)
    first, second = next(file for file in answer.files if file.path == "src/long.txt").hunks
    part = approve(client, box, selection={"paths": ["x"], "hunks": [{"path": "src/long.txt", "hunk_ids": [second.id]}]})
    assert (part.applied, part.remaining, part.sandbox.decision) == (2, 2, OPEN) and {file.path: file.verdict for file in part.files} == {
        "src/long.txt": pb.VERDICT_PARTLY, "x": pb.VERDICT_APPLIED}
    assert [(file.hunks_applied, file.hunks_total) for file in part.files if file.path == "src/long.txt"] == [(1, 2)]
    assert b"LINE 35" in box.read("src/long.txt") and b"LINE 1\n" not in box.read("src/long.txt")
    rest = seen(client, box)
    assert [hunk.id for file in rest.files for hunk in file.hunks if file.path == "src/long.txt"] == [first.id], "its id stays"
    long_id = next(file.id for file in rest.files if file.path == "src/long.txt")
    assert approve(client, box, selection={"hunks": [{"file_id": long_id, "ranges": [{"first": 1, "last": 5}]}]}).applied == 1
    assert b"LINE 1\n" in box.read("src/long.txt")
    unknown = refused(CODE.NOT_FOUND, "absent", approve, client, box, selection={"paths": ["absent"]})
    assert unknown.reason == "FILE_UNKNOWN"
    lost = refused(CODE.ABORTED, "", approve, client, box, selection={"hunks": [{"path": "y", "hunk_ids": ["0" * 16]}]})
    assert lost.reason == "HUNK_UNKNOWN"
    for hunks, part in (({"path": "y"}, "hunk_ids or ranges"), ({"hunk_ids": ["x"]}, "path or a file_id"),
                        ({"path": "y", "ranges": [{"first": 5, "last": 1}]}, "range")):
        refused(CODE.INVALID_ARGUMENT, part, approve, client, box, selection={"hunks": [hunks]})


def test_a_dry_run_says_all(client, box):
    box.sh("echo a > a; mkdir .vscode; echo {} > .vscode/tasks.json")
    seen(client, box)
    answer = approve(client, box, dry_run=True)
    assert answer.refusal.reason == "UNACKNOWLEDGED" and answer.refusal.message and answer.approval_id == "" and answer.applied == 0
    assert {file.path: (file.verdict, file.acknowledge) for file in answer.files}[".vscode/tasks.json"] == (
        pb.VERDICT_UNACKNOWLEDGED, pb.ACKNOWLEDGE_REASON_EDITOR)
    answer = approve(client, box, dry_run=True, acknowledge_all=True)
    assert not answer.HasField("refusal") and answer.applied == 2 and answer.sandbox.decision == OPEN and not (box.project / "a").exists()
    refused(CODE.INVALID_ARGUMENT, "run_hooks", approve, client, box, run_hooks=True)


def test_what_executes_later_needs_a_word(client, box):
    box.sh("mkdir -p .vscode .github/workflows; echo {} > .vscode/tasks.json; echo y > .github/workflows/ci.yml")
    answer = seen(client, box)
    file = next(file for file in answer.files if file.path == ".vscode/tasks.json")
    assert file.acknowledge == pb.ACKNOWLEDGE_REASON_EDITOR and file.acknowledge_text and answer.stats.to_acknowledge == 2
    needed = refused(CODE.FAILED_PRECONDITION, "", approve, client, box)
    assert needed.reason == "UNACKNOWLEDGED" and failure(needed, pb.ReviewFailure).total == 2
    assert refused(CODE.FAILED_PRECONDITION, "", approve, client, box, acknowledge_files=[".vscode/tasks.json"]).reason == "UNACKNOWLEDGED"
    refused(CODE.INVALID_ARGUMENT, "acknowledge_reasons", approve, client, box, acknowledge_reasons=[99])
    assert approve(client, box, acknowledge_files=[".vscode/tasks.json"], acknowledge_reasons=[pb.ACKNOWLEDGE_REASON_CI]).applied == 2


def test_acceptance(client, shared):
    box = Review(shared, FILES, behavior={"acceptance": {"mode": "allowlist", "allow": {"pathGlobs": ["src/**"]}}})
    try:
        box.sh("echo x >> src/a.txt; echo y >> README")
        files = {file.path: file for file in seen(client, box).files}
        assert files["README"].acceptance == pb.ACCEPTANCE_STATUS_IGNORED and files["src/a.txt"].acceptance_rule == "src/**"
        assert refused(CODE.INVALID_ARGUMENT, "", approve, client, box, selection={"paths": ["README"]}).reason == "NOT_ACCEPTED"
        answer = approve(client, box)
        assert {file.path: file.verdict for file in answer.files} == {"README": pb.VERDICT_SKIPPED, "src/a.txt": pb.VERDICT_APPLIED}
        assert approve(client, box, override_acceptance=True).applied == 1
    finally:
        box.remove()


def test_conflicts(client, box, http):
    box.sh("sed -i s/two/TWO/ src/a.txt; echo more >> src/long.txt")
    (box.project / "src/a.txt").write_text("one\nzwei\nthree\n")
    (box.project / "src/long.txt").write_text("before\n" + FILES["src/long.txt"])
    files = {file.path: file for file in seen(client, box).files}
    assert files["src/a.txt"].merge_state == pb.MERGE_STATE_CONFLICT and files["src/a.txt"].conflict
    assert files["src/long.txt"].merge_state == pb.MERGE_STATE_MERGES
    in_the_way = refused(CODE.FAILED_PRECONDITION, "", approve, client, box)
    (stopped,) = failure(in_the_way, pb.ReviewFailure).files
    assert in_the_way.reason == "CONFLICTS" and (stopped.path, stopped.verdict) == ("src/a.txt", pb.VERDICT_CONFLICT) and stopped.reason
    tried = approve(client, box, dry_run=True)
    (hunk,) = next(file for file in tried.files if file.path == "src/a.txt").conflicts
    assert tried.refusal.reason == "CONFLICTS" and (hunk.project, hunk.merge_base, hunk.agent) == ("zwei\n", "two\n", "TWO\n")
    report = client.get_conflicts(sandbox_id=box.id)
    assert [(file.path, file.state) for file in report.files] == [("src/a.txt", pb.MERGE_STATE_CONFLICT), ("src/long.txt", pb.MERGE_STATE_MERGES)]
    assert (report.changed, report.moved, report.conflicts) == (2, 2, 1) and report.files[0].conflicts[0].agent == "TWO\n"
    assert http("GET", "/conflicts")[1]["files"][0]["conflicts"][0]["mergeBase"] == "two\n"
    merged = client.rebase(sandbox_id=box.id, strategy=pb.REBASE_STRATEGY_MERGE)
    assert {file.path: file.outcome for file in merged.files} == {
        "src/a.txt": pb.REBASE_OUTCOME_CONFLICT, "src/long.txt": pb.REBASE_OUTCOME_MERGED} and merged.conflicts == 1
    assert http("POST", "/rebase", {"strategy": "REBASE_STRATEGY_THEIRS"})[1]["conflicts"] == 0
    seen(client, box)
    assert approve(client, box).applied == 2
    assert box.read("src/a.txt") == b"one\nTWO\nthree\n" and box.read("src/long.txt").startswith(b"before\n")
    refused(CODE.INVALID_ARGUMENT, "strategy", client.rebase, sandbox_id=box.id, strategy=9)


def test_forcing(client, box):
    box.sh("sed -i s/two/TWO/ src/a.txt")
    (box.project / "src/a.txt").write_text("one\nzwei\nthree\n")
    assert approve(client, box, force=True).applied == 1 and box.read("src/a.txt") == b"one\nTWO\nthree\n"


def test_hooks(client, shared):
    hooks = [{"name": "tests", "command": "/bin/sh", "args": ["-c", "echo trying; grep -q good new"]}]
    box = Review(shared, FILES, behavior={"hooks": hooks})
    try:
        box.sh("echo bad > new")
        seen(client, box)
        broken = refused(CODE.FAILED_PRECONDITION, "", approve, client, box)
        (hook,) = failure(broken, pb.ReviewFailure).hooks
        assert broken.reason == "HOOK_FAILED" and (hook.name, hook.status, hook.exit_code) == ("tests", pb.HOOK_STATUS_FAILED, 1)
        assert hook.output == "trying\n" and not hook.output_truncated
        tried = approve(client, box, dry_run=True, run_hooks=True)
        assert tried.refusal.reason == "HOOK_FAILED" and "trying" in tried.hooks[0].output
        box.sh("echo good > new")
        seen(client, box)
        assert approve(client, box).hooks[0].status == pb.HOOK_STATUS_PASSED and box.read("new") == b"good\n"
    finally:
        box.remove()


# ---- other decisions ----

def test_rejecting_and_coming_back(client, box, http):
    box.sh("echo a > a")
    version = client.reject(sandbox_id=box.id, actor="me").version
    seen(client, box)
    wrong = refused(CODE.FAILED_PRECONDITION, "", approve, client, box)
    assert wrong.reason == "INVALID_STATE" and not (box.project / "a").exists()
    assert http("POST", "/reject")[1]["decision"] == "SANDBOX_DECISION_REJECTED", "once more is no error"
    for call in (client.rebase, client.finish_sandbox):
        with pytest.raises(grpc.RpcError):
            call(sandbox_id=box.id, expected_version=version + 50)
    assert refused(CODE.ABORTED, "", client.restore_sandbox, sandbox_id=box.id, expected_version=version + 50).reason == "VERSION_MISMATCH"
    back = client.restore_sandbox(sandbox_id=box.id)
    assert (back.decision, back.status, back.directory) == (OPEN, STOPPED, str(box.project))
    assert approve(client, box).applied == 1


def test_what_is_reserved_meanwhile_is_said(client, shared):
    box = Review(shared, FILES)
    box.sh("echo a > a")
    client.reject(sandbox_id=box.id)
    status, other = shared.http("POST", "/api/v1/sandboxes", {"scopePath": str(box.project), "projectRoot": str(box.project), "owner": "other"})
    assert status == 201
    try:
        taken = refused(CODE.FAILED_PRECONDITION, "", client.restore_sandbox, sandbox_id=box.id)
        (one,) = failure(taken, sandbox_pb2.ReservationFailure).conflicts
        assert taken.reason == "SCOPE_CONFLICT" and (one.sandbox_id, one.path, one.creator) == (id_of(other["id"]), str(box.project), "other")
        assert one.overlap == sandbox_pb2.RESERVATION_OVERLAP_EXACT
    finally:
        shared.http("DELETE", f"/api/v1/sandboxes/{other['id']}")
        box.remove()


def test_discarding(client, box, http):
    box.sh("echo a > a; echo b > b; echo c > src/c; echo d > src/d")
    answer = client.discard(sandbox_id=box.id, selection={"paths": ["a", "absent"]})
    assert (list(answer.scope_paths), list(answer.unknown), answer.discarded, answer.remaining) == (["a"], ["absent"], 1, 3)
    status, body = http("POST", "/discard", {"selection": {"paths": ["src"]}})
    assert status == 200 and (body["scopePaths"], body["remaining"]) == (["src/c", "src/d"], 1)
    hunks = {"hunks": [{"path": "b", "hunk_ids": ["x"]}]}
    refused(CODE.INVALID_ARGUMENT, "whole files", client.discard, sandbox_id=box.id, selection=hunks)
    assert client.discard(sandbox_id=box.id, selection=ALL).discarded == 1 and diff(client, box).total == 0
    assert box.exec("cat", "b")["exitCode"] != 0


def test_undoing(client, box, http):
    assert list(client.list_approvals(sandbox_id=box.id).approvals) == []
    nothing = refused(CODE.NOT_FOUND, "no approval", client.undo_approval, sandbox_id=box.id)
    assert nothing.reason == "NO_APPROVAL"
    box.sh("echo a > a; echo b > b")
    seen(client, box)
    first = approve(client, box, selection={"paths": ["a"]}).approval_id
    second = approve(client, box, selection={"paths": ["b"]}).approval_id
    listed = client.list_approvals(sandbox_id=box.id).approvals
    assert [one.id for one in listed] == [second, first] and not any(one.undone or one.undoes for one in listed) and listed[0].paths == 1
    assert client.undo_approval(sandbox_id=box.id, approval_id=first, dry_run=True).undone == 1 and box.read("a") == b"a\n"
    (box.project / "a").write_text("mine\n")
    moved = refused(CODE.FAILED_PRECONDITION, "changed since", client.undo_approval, sandbox_id=box.id, approval_id=first)
    assert moved.reason == "PROJECT_MOVED" and [file.path for file in failure(moved, pb.ReviewFailure).files] == ["a"]
    (box.project / "a").write_text("a\n")
    status, undone = http("POST", "/undo", {"approvalId": first})
    assert (status, undone["approvalId"], undone["undone"]) == (200, first, 1) and not (box.project / "a").exists()
    page = client.list_approvals(sandbox_id=box.id, page_size=2)
    assert page.approvals[0].undoes == first and page.next_page_token
    (last,) = client.list_approvals(sandbox_id=box.id, page_size=2, page_token=page.next_page_token).approvals
    assert (last.id, last.undone) == (first, True)
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_approvals, sandbox_id=box.id, page_token="zz")


def test_versions(client, box):
    box.sh("echo a > a")
    seen(client, box)
    assert refused(CODE.ABORTED, "", approve, client, box, expected_version=9999).reason == "VERSION_MISMATCH"
    assert refused(CODE.ABORTED, "", client.discard, sandbox_id=box.id, selection=ALL, expected_version=9999).reason == "VERSION_MISMATCH"
    refused(CODE.INVALID_ARGUMENT, "expected_version", approve, client, box, expected_version=-1)
    version = box.ok("GET", "")["version"]
    assert approve(client, box, expected_version=version).applied == 1


def test_finishing(client, shared):
    box = Review(shared, FILES, behavior={"acceptance": {"autoReject": True, "deny": {"pathGlobs": ["src/**"]}}})
    try:
        box.sh("echo x >> src/a.txt")
        done = client.finish_sandbox(sandbox_id=box.id, outcome=pb.RUN_OUTCOME_COMPLETED)
        assert (done.decision, done.sandbox.decision) == (REJECTED, REJECTED) and done.reason
        refused(CODE.INVALID_ARGUMENT, "outcome", client.finish_sandbox, sandbox_id=box.id, outcome=8)
    finally:
        box.remove()


# ---- what was applied ----

@pytest.fixture
def repository(shared):
    box = Review(shared, FILES, owner="agent-7")
    make_repository(box.project)
    yield box
    box.remove()


def test_from_pending_to_committed(client, shared, repository):
    box, root = repository, str(repository.project)
    box.sh("echo four >> src/a.txt; echo new > new; rm README")
    seen(client, box)
    assert approve(client, box, actor="reviewer").applied == 3
    (group,) = client.list_pending(project_root=root).sandboxes
    assert (group.sandbox_id, group.creator, group.files, group.changes, group.added, group.modified, group.deleted) == (
        id_of(box.id), "agent-7", 3, 3, 1, 1, 1)
    history = client.list_provenance(path="src/a.txt", project_root=root)
    (change,) = history.changes
    assert (change.sandbox_id, change.actor, change.kind, change.commit_hash) == (id_of(box.id), "reviewer", pb.CHANGE_KIND_MODIFIED, "")
    assert history.path == f"{root}/src/a.txt" and history.total == 1
    plan = client.preview_commit(project_root=root)
    assert (plan.pending, plan.committed, plan.blocked) == (3, 0, 0) and {file.status for file in plan.files} == {pb.COMMIT_STATUS_PENDING}
    assert plan.sandboxes[0].files == 3 and plan.suggested_message
    assert client.preview_commit(project_root=root, paths=["new"]).pending == 1
    status, done = shared.http("POST", "/v1/commit", {"projectRoot": root, "sandboxIds": [box.id], "message": "as reviewed"})
    assert status == 200 and done["files"] == "3" and git(box.project, "log", "-1", "--format=%H %s").split(" ", 1) == [done["commitHash"], "as reviewed\n"]
    assert list(client.list_pending(project_root=root).sandboxes) == []
    assert shared.http("GET", f"/v1/provenance?path={root}/new")[1]["changes"][0]["commitHash"] == done["commitHash"]
    assert client.commit_changes(project_root=root).files == 0
    failed(shared.http("POST", "/v1/commit", {"projectRoot": root, "msg": "x"}), 400, 3, "'msg' is not known")
    refused(CODE.INVALID_ARGUMENT, "path is required", client.list_provenance)


def test_foreign_lines_are_said(client, repository):
    box, root = repository, str(repository.project)
    (box.project / "src/a.txt").write_text("one\nmine\nthree\n")
    box.sh("sed -i 's/mine/agent/' src/a.txt; echo x > x")
    seen(client, box)
    tried = approve(client, box, dry_run=True, commit=True)
    assert tried.refusal.reason == "FOREIGN_CHANGES"
    assert approve(client, box).applied == 2
    foreign = refused(CODE.FAILED_PRECONDITION, "src/a.txt", client.commit_changes, project_root=root)
    (file,) = failure(foreign, pb.CommitFailure).files
    assert foreign.reason == "FOREIGN_CHANGES" and (file.relative_path, file.status) == ("src/a.txt", pb.COMMIT_STATUS_BLOCKED) and file.reason
    plan = client.preview_commit(project_root=root)
    assert (plan.pending, plan.blocked) == (1, 1)
    assert client.commit_changes(project_root=root, paths=["x"]).files == 1


def test_provenance_in_pages(client, repository):
    box, root = repository, str(repository.project)
    for number in range(3):
        box.sh(f"echo {number} >> new")
        seen(client, box)
        approve(client, box, selection={"paths": ["new"]})
        client.restore_sandbox(sandbox_id=box.id)
        box.ok("POST", "/start")
    first = client.list_provenance(path="new", project_root=root, page_size=2)
    rest = client.list_provenance(path="new", project_root=root, page_size=2, page_token=first.next_page_token)
    assert (len(first.changes), len(rest.changes), rest.next_page_token) == (2, 1, "")
    assert len({change.id for change in [*first.changes, *rest.changes]}) == 3
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_provenance, path="new", project_root=root, page_token="9999")


# ---- who and which ----

CALLS = ("get_diff", "stream_diff", "download_patch", "mark_diff_shown", "reject", "undo_approval", "list_approvals", "get_conflicts", "rebase",
         "finish_sandbox", "restore_sandbox")


def test_which_sandbox(client, box):
    for name in CALLS:
        call = getattr(client, name)
        refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", call)
        for strange in (NOBODY, "nonsense", "../x"):
            assert refused(CODE.NOT_FOUND, "", call, sandbox_id=strange).reason == "SANDBOX_NOT_FOUND", (name, strange)
    for name in ("approve", "discard"):
        refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", getattr(client, name), selection=ALL)
        refused(CODE.NOT_FOUND, "", getattr(client, name), sandbox_id=NOBODY, selection=ALL)


def test_one_that_is_deleted_has_no_changes_to_decide_about(client, shared):
    box = Workspace(shared)
    box.sh("echo a > a")
    box.ok("DELETE", "", status=204)
    for call in (client.get_diff, client.list_approvals, client.get_conflicts):
        assert refused(CODE.FAILED_PRECONDITION, "", call, sandbox_id=box.id).reason == "INVALID_STATE"
    assert client.restore_sandbox(sandbox_id=box.id).status == STOPPED and [file.path for file in diff(client, box).files] == ["a"]
    box.remove()


def test_others_do_not_see_it(shared, box):
    box.sh("echo secret-of-alice > a")
    mallory = shared.client(token_of(shared, "mallory"))
    for name in CALLS:
        assert refused(CODE.NOT_FOUND, "", getattr(mallory, name), sandbox_id=box.id).reason == "SANDBOX_NOT_FOUND", name
    for name in ("approve", "discard"):
        refused(CODE.NOT_FOUND, "", getattr(mallory, name), sandbox_id=box.id, selection=ALL)
    assert not (box.project / "a").exists() and box.paths() == ["a"]
    assert list(mallory.list_pending().sandboxes) == [] and mallory.list_provenance(path="/etc/passwd").total == 0
    status, body = shared.http("POST", f"/v1/sandboxes/{box.id}/approve", {"selection": ALL}, headers={"Authorization": "Bearer nonsense"})
    assert (status, body["code"]) == (401, 16)


def test_roots_of_a_token_hold(shared, repository, tmp_path_factory):
    """Who may have sandboxes over some directories only may not commit in others."""
    elsewhere = tmp_path_factory.mktemp("allowed")
    narrow = shared.client(token_of(shared, "narrow", "--root", str(elsewhere)))
    root = str(repository.project)
    for call in (narrow.list_pending, narrow.preview_commit, narrow.commit_changes):
        assert refused(CODE.PERMISSION_DENIED, "", call, project_root=root).reason == "ROOT_NOT_ALLOWED"
    assert refused(CODE.PERMISSION_DENIED, "", narrow.list_provenance, project_root=root, path="x").reason == "ROOT_NOT_ALLOWED"
