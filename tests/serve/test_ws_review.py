"""The review of workspaces over HTTP: what the agent changed, and what becomes of it."""

import http.client
import json
import shutil
import subprocess

import pytest
from review import FILES, Review, git, make_repository
from server import WAIT
from workspace import make_project, refused


@pytest.mark.databases
def test_the_whole_way(shared):
    box = Review(shared, FILES)
    try:
        make_repository(box.project)
        box.sh("echo new > new.txt; echo four >> src/a.txt; rm doc/y.md")
        diff = box.diff()
        assert [(file["filePath"], file["changeType"]) for file in diff["files"]] == [
            ("doc/y.md", "deleted"), ("new.txt", "added"), ("src/a.txt", "modified")]
        assert (diff["totalAdded"], diff["totalModified"], diff["totalDeleted"]) == (1, 1, 1)
        answer = box.approve({"files": ["new.txt"]})
        assert (answer["applied"], answer["remaining"], answer["isPartial"], answer["status"]) == (1, 2, True, "active")
        assert box.read("new.txt") == b"new\n" and box.read("src/a.txt") == b"one\ntwo\nthree\n"
        assert box.sh("cat new.txt; echo more >> new.txt; echo five >> src/a.txt")["stdout"] == "new\n"
        assert box.paths() == ["doc/y.md", "new.txt", "src/a.txt"]
        answer = box.approve({"createCommit": True, "commitMsg": "done\n"})
        assert (answer["applied"], answer["isPartial"], answer["status"]) == (3, False, "approved"), answer
        assert box.read("new.txt") == b"new\nmore\n" and box.read("src/a.txt") == b"one\ntwo\nthree\nfour\nfive\n"
        assert not (box.project / "doc/y.md").exists()
        assert git(box.project, "log", "-1", "--format=%H %s").split() == [answer["commitHash"], "done"]
        assert git(box.project, "status", "--porcelain") == ""
        assert box.state() == "approved" and box.diff()["files"] == []
        assert [event for event in box.events() if "approved" in event] == ["approved", "partial_approved"]
        again = box.approve()
        assert again["applied"] == 0 and again["success"]
    finally:
        box.remove()


# ---- as the guide of the API has it ----


def test_the_examples_word_for_word(make):
    """The four calls of the guide, with curl; only address and ids are ours."""
    top = make_project()
    (top / "scenarios/my-app").mkdir(parents=True)
    (top / "scenarios/my-app/main.go").write_text("package main\n")
    server = make(**{"workspace-project-root": str(top)}).start()

    def curl(text):
        text = text.replace("http://localhost:15427", f"http://{server.http_address}").replace("/home/user/project", str(top))
        done = subprocess.run(["/bin/sh", "-c", text.replace("curl ", "curl -s ")], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    made = curl('''curl -X POST http://localhost:15427/api/v1/sandboxes \\
  -H "Content-Type: application/json" \\
  -d '{"scopePath": "/home/user/project/scenarios/my-app"}'
''')
    assert made["status"] == "active" and made["scopePath"] == str(top / "scenarios/my-app")
    here = made["id"]
    done = curl('''curl -X POST http://localhost:15427/api/v1/sandboxes/9ba9b981-.../exec \\
  -H "Content-Type: application/json" \\
  -d '{"command": "touch", "args": ["new-file.txt"]}'
'''.replace("9ba9b981-...", here))
    assert (done["exitCode"], done["stdout"], done["stderr"]) == (0, "", "")
    diff = curl("curl http://localhost:15427/api/v1/sandboxes/9ba9b981-.../diff".replace("9ba9b981-...", here))
    assert [(file["filePath"], file["changeType"]) for file in diff["files"]] == [("new-file.txt", "added")]
    assert diff["files"][0]["projectPath"] == "scenarios/my-app/new-file.txt"
    answer = curl('''curl -X POST http://localhost:15427/api/v1/sandboxes/9ba9b981-.../approve \\
  -H "Content-Type: application/json" \\
  -d '{"files": ["new-file.txt"]}'
'''.replace("9ba9b981-...", here))
    assert answer["success"] and answer["applied"] == 1 and answer["remaining"] == 0
    assert (top / "scenarios/my-app/new-file.txt").exists()
    # "After Approval": in the project, out of the sandbox, not mounted.
    assert curl(f"curl http://localhost:15427/api/v1/sandboxes/{here}")["status"] == "approved"
    assert curl(f"curl http://localhost:15427/api/v1/sandboxes/{here}/diff")["files"] == []
    driver = curl("curl http://localhost:15427/api/v1/health")["driver"]
    assert driver in ("fence", "overlayfs", "copy")
    collected = curl('''curl -X POST http://localhost:15427/api/v1/gc \\
  -H "Content-Type: application/json" \\
  -d '{"olderThan": "24h"}'
''')
    assert collected["totalCollected"] == 0
    subprocess.run(["rm", "-rf", str(top)], check=True)


def test_a_whole_path_is_a_project_where_none_is_configured(make):
    """The first call of the guide, word for word, on a server that was told nothing."""
    top = make_project()
    server = make().start()
    status, made = server.http("POST", "/api/v1/sandboxes", {"scopePath": str(top)})
    assert status == 201 and made["projectRoot"] == made["scopePath"] == str(top), made
    assert server.http("DELETE", f"/api/v1/sandboxes/{made['id']}")[0] == 204
    refused(server.http("POST", "/api/v1/sandboxes", {"scopePath": "relative"}), 400)
    refused(server.http("POST", "/api/v1/sandboxes", {"scopePath": str(top / "none")}), 400)
    refused(server.http("POST", "/api/v1/sandboxes", {}), 400)
    subprocess.run(["rm", "-rf", str(top)], check=True)


# ---- diff ----


def test_a_diff_has_both_paths_hunks_and_totals(shared):
    box = Review(shared, FILES, scopePath="src")
    try:
        box.sh("sed -i 's/two/TWO/' a.txt; sed -i '1s/.*/first/; 40s/.*/last/' long.txt; printf 'a\\0b' > bin; ln -s /etc/passwd link")
        diff = box.diff()
        files = {file["filePath"]: file for file in diff["files"]}
        assert list(files) == ["a.txt", "bin", "link", "long.txt"] and diff["scopePrefix"] == "src"
        one = files["a.txt"]
        assert one["projectPath"] == "src/a.txt" and (one["linesAdded"], one["linesRemoved"]) == (1, 1)
        assert one["hunks"][0]["lines"] == [" one", "-two", "+TWO", " three"] and len(one["hunks"][0]["id"]) == 16
        assert len(files["long.txt"]["hunks"]) == 2
        assert files["bin"]["binary"] and files["bin"]["fileSize"] == 3
        assert files["link"]["symlinkTarget"] == "/etc/passwd" and files["link"]["acknowledge"]["reason"] == "link"
        assert "root:" not in diff["unifiedDiff"]
        assert "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n" in diff["unifiedDiff"]
        stats = diff["stats"]
        assert (stats["filesChanged"], stats["filesAdded"], stats["filesModified"]) == (4, 2, 2) and stats["complete"]
        assert box.diff()["diffHash"] == diff["diffHash"] and len(diff["diffHash"]) == 64
        assert [file["filePath"] for file in box.diff("?path=src/a.txt")["files"]] == ["a.txt"]
        page = box.diff("?limit=1&offset=2")
        assert [file["filePath"] for file in page["files"]] == ["link"] and page["nextOffset"] == 3 and page["total"] == 4
        status, body = box.http("GET", "/diff", headers={"If-None-Match": f'"{diff["diffHash"]}"'})
        assert status == 304 and not body
        refused(box.http("GET", "/diff?format=yaml"), 400)
        assert "limit must be a whole number, not 'x'" in refused(box.http("GET", "/diff?limit=x"), 400)["error"]
    finally:
        box.remove()


def raw(box, query):
    """A diff that is no JSON."""
    host, port = box.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT)
    connection.request("GET", f"{box.path}/diff{query}")
    answer = connection.getresponse()
    return answer, answer.read()


def test_only_what_was_shown_counts_as_shown(box):
    box.sh("echo new > new.txt; echo four >> src/a.txt")
    for query in ("?note=false", "?content=false", "?content=false&note=true", "?format=text&note=false", "?format=patch&note=0"):
        raw(box, query)
        assert refused(box.http("POST", "/approve", {}), 409)["details"]["reason"] == "DIFF_NOT_SERVED"
    counted = box.diff("?content=false")
    assert "unifiedDiff" not in counted and not any("hunks" in file for file in counted["files"])
    assert [file["linesAdded"] for file in counted["files"]] == [1, 1] and counted["stats"]["complete"]
    assert counted["diffHash"] == box.diff("?note=false")["diffHash"]
    refused(box.http("GET", "/diff?note=maybe"), 400)
    answer, text = raw(box, "?format=text")
    assert answer.status == 200 and text.decode() == box.diff("?note=false")["unifiedDiff"]
    assert box.approve({})["applied"] == 2


def test_hashes_of_files_say_what_was_seen(box):
    box.sh("echo new > new.txt; echo four >> src/a.txt")
    seen = {file["filePath"]: file for file in box.diff("?note=false")["files"]}
    assert seen["src/a.txt"]["oldSize"] == 14 and "oldSize" not in seen["new.txt"]
    hashes = {seen["new.txt"]["id"]: seen["new.txt"]["hash"], "src/a.txt": seen["src/a.txt"]["hash"]}
    box.sh("echo five >> src/a.txt; echo x > other.txt")
    told = refused(box.http("POST", "/approve", {"files": ["new.txt", "src/a.txt"], "fileHashes": hashes}), 409)
    assert told["details"]["reason"] == "DIFF_STALE" and "1 change is not what was seen" in told["error"]
    assert [(file["filePath"], file["status"]) for file in told["details"]["files"]] == [("src/a.txt", "stale")]
    told = refused(box.http("POST", "/approve", {"fileHashes": hashes}), 409)
    assert ("other.txt", "not_shown") in [(file["filePath"], file["status"]) for file in told["details"]["files"]]
    assert box.approve({"files": ["new.txt"], "fileHashes": hashes})["applied"] == 1 and box.read("new.txt") == b"new\n"
    refused(box.http("POST", "/approve", {"fileHashes": {"a": 1}}), 400)


def test_the_parts_of_a_rename_are_refused_by_its_path(box):
    box.sh("mv src/long.txt src/moved.txt; sed -i '1s/.*/first/; 40s/.*/last/' src/moved.txt")
    file = box.diff()["files"][0]
    assert file["changeType"] == "renamed"
    told = refused(box.http("POST", "/approve", {"hunks": [{"fileId": file["id"], "hunkIds": [file["hunks"][0]["id"]]}]}), 400)
    assert "'src/moved.txt' is taken whole" in told["error"]


def test_the_patch_is_one_that_git_applies(box):
    box.sh("sed -i 's/two/TWO/' src/a.txt; printf 'a\\0b' > bin; chmod 755 README; mv doc/x.md doc/z.md; rm doc/y.md")
    answer, patch = raw(box, "?format=patch")
    assert answer.status == 200 and answer.headers["ETag"] == f'"{box.diff()["diffHash"]}"'
    place = make_project()
    shutil.copytree(box.project, place, dirs_exist_ok=True)
    subprocess.run(["git", "apply"], cwd=place, input=patch, check=True)
    box.approve()
    subprocess.run(["diff", "-r", place, box.project], check=True)
    shutil.rmtree(place)


def test_one_line_of_a_large_text_is_shown(box):
    text = "".join(f"this is line {n}\n" for n in range(1, 600001))
    (box.project / "big.txt").write_text(text)
    (box.project / "all.txt").write_text(text)
    box.sh("sed -i '300000s/this/THIS/' big.txt; sed -i '1s/this/THIS/; 600000s/this/THIS/' all.txt")
    diff = box.diff()
    files = {file["filePath"]: file for file in diff["files"]}
    one = files["big.txt"]
    assert [hunk["header"] for hunk in one["hunks"]] == ["@@ -299997,7 +299997,7 @@"] and one["linesAdded"] == 1
    assert one["wholeOnly"] and "tooLarge" not in one and not one["binary"]
    assert files["all.txt"]["tooLarge"] and files["all.txt"]["hunks"] == [] and not files["all.txt"]["binary"]
    assert "+THIS is line 300000\n" in diff["unifiedDiff"] and "Binary" not in diff["unifiedDiff"]
    assert f"Files a/all.txt and b/all.txt are too large to show: {len(text)} and {len(text)} bytes" in diff["unifiedDiff"]
    body = refused(box.http("POST", "/approve", {"hunks": [{"path": "big.txt", "hunkIds": [one["hunks"][0]["id"]]}]}), 400)
    assert "take it whole" in body["error"]
    assert box.approve({"diffHash": diff["diffHash"]})["applied"] == 2
    assert box.read("big.txt").decode() == text.replace("this is line 300000\n", "THIS is line 300000\n")


def test_what_could_mislead_is_escaped(box):
    box.sh("printf 'x\\342\\200\\256y\\033[2J\\n' > odd.txt")
    diff = box.diff()
    assert "\u202e" not in diff["unifiedDiff"] and "\x1b" not in diff["unifiedDiff"]
    assert "\u202e" not in "".join(diff["files"][0]["hunks"][0]["lines"])


def test_git_is_not_part_of_a_review(shared):
    box = Review(shared, FILES)
    try:
        make_repository(box.project)
        box.sh("echo x > .git/hooks/post-commit; echo 1 > new")
        assert box.paths() == ["new"]
        box.approve()
        assert not (box.project / ".git/hooks/post-commit").exists()
    finally:
        box.remove()


# ---- what was reviewed is what is applied ----


def test_nothing_is_approved_that_nobody_has_looked_at(box):
    box.sh("echo new > new.txt")
    body = refused(box.http("POST", "/approve", {}), 409)
    assert body["retryable"] and body["details"]["reason"] == "DIFF_NOT_SERVED"
    assert [file["status"] for file in body["details"]["files"]] == ["not_shown"]
    assert not (box.project / "new.txt").exists() and box.state() == "active"
    box.diff()
    box.sh("echo other > new.txt; echo y > late.txt")
    body = refused(box.http("POST", "/approve", {}), 409)
    assert body["details"]["reason"] == "DIFF_STALE"
    assert {file["filePath"]: file["status"] for file in body["details"]["files"]} == {"late.txt": "not_shown", "new.txt": "stale"}
    assert not (box.project / "new.txt").exists()
    answer = box.approve({"force": True})
    assert answer["applied"] == 2 and box.read("new.txt") == b"other\n"
    event = next(event for event in box.ok("GET", "/audit")["events"] if event["eventType"] == "approved")
    assert event["details"]["force"] is True


def test_the_hash_of_a_diff_must_be_that_of_now(box):
    box.sh("echo new > new.txt")
    seen = box.diff()["diffHash"]
    box.sh("echo other > other.txt")
    body = refused(box.http("POST", "/approve", {"diffHash": seen}), 409)
    assert body["details"]["diffHash"] == box.diff()["diffHash"] != seen
    assert box.approve({"diffHash": body["details"]["diffHash"]})["applied"] == 2


def test_one_file_that_is_unchanged_can_be_approved_beside_one_that_is_not(box):
    box.sh("echo a > a; echo b > b")
    box.diff()
    box.sh("echo c > b")
    assert box.approve({"files": ["a"]})["applied"] == 1
    refused(box.http("POST", "/approve", {"files": ["b"]}), 409)
    assert box.read("a") == b"a\n" and not (box.project / "b").exists()


@pytest.mark.databases
def test_what_was_shown_is_remembered_over_a_restart(make):
    server = make().start()
    box = Review(server, FILES)
    box.sh("echo a > a")
    box.diff()
    server.kill()
    server.start()
    assert box.approve()["applied"] == 1
    box.remove()


# ---- choosing ----


def test_hunks_are_approved_and_the_rest_is_kept(box):
    box.sh("sed -i '1s/.*/first/; 20s/.*/middle/; 40s/.*/last/' src/long.txt")
    hunks = box.file("src/long.txt")["hunks"]
    assert len(hunks) == 3
    answer = box.approve({"hunks": [{"path": "src/long.txt", "hunkIds": [hunks[1]["id"]]}]})
    assert answer["isPartial"] and answer["files"][0]["status"] == "partly" and answer["files"][0]["hunksApplied"] == 1
    lines = box.read("src/long.txt").decode().splitlines()
    assert (lines[0], lines[19], lines[39]) == ("line 0", "middle", "line 39")
    left = box.file("src/long.txt")["hunks"]
    assert [hunk["id"] for hunk in left] == [hunks[0]["id"], hunks[2]["id"]]
    body = refused(box.http("POST", "/approve", {"hunks": [{"path": "src/long.txt", "hunkIds": [hunks[1]["id"]]}]}), 409)
    assert body["details"]["reason"] == "HUNK_UNKNOWN"
    answer = box.approve({"hunkRanges": [{"fileId": box.file("src/long.txt")["id"], "startLine": 30, "endLine": 40}]})
    assert box.read("src/long.txt").decode().splitlines()[39] == "last"
    assert box.approve()["status"] == "approved"
    assert box.read("src/long.txt").decode().splitlines()[0] == "first"


def test_files_are_named_by_id_path_or_directory(box):
    box.sh("echo 1 > doc/n1; echo 2 > doc/n2; echo 3 > top; echo 4 > src/n4")
    ids = {file["filePath"]: file["id"] for file in box.diff()["files"]}
    assert box.approve({"fileIds": [ids["top"].upper()]})["applied"] == 1
    assert box.ok("POST", "/partial-approve", {"files": ["doc"]})["applied"] == 2
    body = refused(box.http("POST", "/approve", {"files": ["no/such"]}), 404)
    assert body["details"]["reason"] == "FILE_UNKNOWN"
    refused(box.http("POST", "/approve", {"fileIds": ["00000000-0000-4000-8000-000000000000"]}), 404)
    assert box.paths() == ["src/n4"]


def test_files_of_a_scoped_sandbox_go_by_either_path(shared):
    box = Review(shared, FILES, scopePath="src")
    try:
        make_repository(box.project)
        box.sh("echo 1 > one; echo 2 > two; sed -i 's/two/TWO/' a.txt")
        hunk = box.file("a.txt")["hunks"][0]["id"]
        assert box.approve({"files": ["src/one"]})["applied"] == 1
        assert box.approve({"files": ["two"]})["applied"] == 1
        answer = box.approve({"hunks": [{"filePath": "src/a.txt", "hunkIds": [hunk]}], "createCommit": True})
        assert answer["status"] == "approved"
        assert box.read("src/one") == b"1\n" and box.read("src/a.txt") == b"one\nTWO\nthree\n"
        assert git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split() == ["src/a.txt"]
    finally:
        box.remove()


@pytest.mark.parametrize("body", ['{"files": "a"}', '{"files": [1]}', '{"fileIds": ["nonsense"]}', '{"mode": "some"}', '{"mode": "files"}',
                                  '{"mode": "hunks", "files": ["a"]}', '{"mode": "all", "files": ["a"]}', '{"files": []}', '{"fileIds": []}',
                                  '{"hunks": [{}]}', '{"hunks": [{"path": "a"}]}', '{"hunks": [{"path": "a", "hunkIds": [1]}]}',
                                  '{"hunkRanges": [{"path": "a", "startLine": 3, "endLine": 1}]}', '{"force": "yes"}', '{"whatever": 1}',
                                  '{"files": ["a"', "[]", "null", "nonsense", '{"diffHash": 1}', '{"acknowledge": "yes"}',
                                  '{"files": ["a"], "files": ["b"]}', '{"hunks": [{"path": "a", "hunkIds": ["x"], "more": 1}]}'])
def test_a_malformed_approval_is_400_and_applies_nothing(shared, body):
    box = Review(shared, FILES)
    try:
        box.sh("echo a > a")
        box.diff()
        host, port = shared.http_address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=WAIT)
        connection.request("POST", f"{box.path}/approve", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = json.loads(answer.read())
        assert answer.status == 400 and text["success"] is False and text["hint"]
        assert box.state() == "active" and not (box.project / "a").exists()
    finally:
        box.remove()


def test_malformed_bodies_elsewhere_are_400(box):
    for path, body in (("discard", {}), ("discard", {"fileIds": []}), ("discard", {"filePaths": "a"}), ("discard", {"x": 1}),
                       ("reject", {"x": 1}), ("reject", {"actor": 1}), ("rebase", {"strategy": "best"}), ("rebase", {"x": 1}),
                       ("undo", {"approvalId": 1}), ("undo", {"x": 1}), ("partial-approve", {"force": True})):
        refused(box.http("POST", f"/{path}", body), 400)
    assert box.state() == "active"


def test_a_dry_run_tells_and_does_nothing(box):
    box.sh("echo a > a; echo b > b")
    box.diff()
    answer = box.approve({"dryRun": True})
    assert answer["dryRun"] and answer["applied"] == 2 and "approvalId" not in answer
    assert box.state() == "active" and not (box.project / "a").exists() and box.paths() == ["a", "b"]


# ---- acceptance and words of their own ----


def test_acceptance_decides_what_all_means(shared):
    acceptance = {"allow": {"pathGlobs": ["src/**"]}, "deny": {"extensions": [".lock"]}, "ignoreBinary": True}
    box = Review(shared, FILES, behavior={"acceptance": acceptance})
    try:
        box.sh("echo a > src/ok; echo b > src/x.lock; echo c > other; printf 'a\\0' > src/bin")
        files = {file["filePath"]: file["acceptance"] for file in box.diff()["files"]}
        assert {path: got["status"] for path, got in files.items()} == {
            "other": "ignored", "src/bin": "binary_ignored", "src/ok": "accepted", "src/x.lock": "denied"}
        assert files["src/x.lock"]["rule"] == ".lock"
        answer = box.approve()
        assert (answer["applied"], answer["remaining"], answer["isPartial"], answer["status"]) == (1, 3, True, "active")
        body = refused(box.http("POST", "/approve", {"files": ["other"]}), 400)
        assert body["details"]["files"][0]["status"] == "not_accepted"
        box.diff()
        assert box.approve({"overrideAcceptance": True})["applied"] == 3 and box.state() == "approved"
    finally:
        box.remove()


def test_a_rename_is_accepted_by_both_its_paths(shared):
    box = Review(shared, {**FILES, "keep/k.txt": "one\ntwo\nthree\nfour\n"}, behavior={"acceptance": {"deny": {"pathGlobs": ["keep/**"]}}})
    try:
        box.sh("mv keep/k.txt src/k.txt; echo a > src/ok")
        (moved,) = [file for file in box.diff()["files"] if file["changeType"] == "renamed"]
        assert moved["acceptance"]["status"] == "denied", moved
        assert box.approve()["applied"] == 1 and (box.project / "keep/k.txt").exists() and not (box.project / "src/k.txt").exists()
        for body in ({"fileIds": [moved["id"]]}, {"files": ["src"]}):
            body = refused(box.http("POST", "/approve", body), 400)
            assert body["details"]["files"][0]["status"] == "not_accepted", body
        assert (box.project / "keep/k.txt").exists() and not (box.project / "src/k.txt").exists()
    finally:
        box.remove()


def test_what_would_run_by_itself_needs_a_word(box):
    box.sh("mkdir -p .github/workflows; echo on: push > .github/workflows/ci.yml; echo a > a; ln -s ../../etc out")
    box.diff()
    body = refused(box.http("POST", "/approve", {}), 422)
    assert {file["filePath"]: file["acknowledge"]["reason"] for file in body["details"]["files"]} == {
        ".github/workflows/ci.yml": "ci", "out": "link"}
    assert not (box.project / "a").exists()
    refused(box.http("POST", "/approve", {"acknowledge": ["ci"]}), 422)
    assert box.approve({"acknowledge": ["ci", "out"]})["applied"] == 3


# ---- undo, reject, discard ----


@pytest.mark.databases
def test_an_approval_is_undone(box):
    box.sh("echo new > new; sed -i 's/two/TWO/' src/a.txt; rm README")
    box.diff()
    answer = box.approve()
    assert box.ok("POST", "/undo", {"dryRun": True})["undone"] == 3 and box.read("new") == b"new\n"
    undone = box.ok("POST", "/undo", {})
    assert undone["approvalId"] == answer["approvalId"]
    assert not (box.project / "new").exists() and box.read("src/a.txt") == b"one\ntwo\nthree\n" and box.read("README") == b"read me\n"
    refused(box.http("POST", "/undo", {}), 404)
    assert box.ok("POST", "/undo", {"approvalId": undone["undoId"]})["undone"] == 3 and box.read("new") == b"new\n"


def test_an_undo_refuses_what_was_changed_since(box):
    box.sh("echo new > new")
    box.diff()
    box.approve({"files": ["new"]})
    (box.project / "new").write_text("mine\n")
    body = refused(box.http("POST", "/undo", {}), 409)
    assert body["details"]["changedSince"] == ["new"] and box.read("new") == b"mine\n"


def test_a_rejection_ends_it_and_touches_nothing(box):
    box.sh("echo new > new")
    pid = box.start_process("sleep 1000")
    assert pid
    answer = box.ok("POST", "/reject", {"actor": "me"})
    assert answer["status"] == "rejected" and not (box.project / "new").exists()
    assert box.ok("POST", "/reject")["version"] == answer["version"]
    refused(box.http("POST", "/exec", {"command": "true"}), 409)
    for verb in ("approve", "discard", "rebase", "undo"):
        refused(box.http("POST", f"/{verb}", {"filePaths": ["a"]} if verb == "discard" else {}), 409)
    assert box.paths() == ["new"]


def test_a_discard_shows_the_project_again_while_processes_live(box):
    process = box.start_process("sleep 1000")
    box.sh("echo new > new; echo x > src/a.txt; rm -r doc; echo y > README")
    ids = {file["filePath"]: file["id"] for file in box.diff()["files"]}
    answer = box.ok("POST", "/discard", {"filePaths": ["src/a.txt", "nothing"], "fileIds": [ids["new"]]})
    assert (answer["discarded"], answer["remaining"], answer["notFound"]) == (2, 3, ["nothing"])
    assert box.sh("cat src/a.txt; ls")["stdout"] == "one\ntwo\nthree\nREADME\nsrc\n"
    assert box.ok("POST", "/discard", {"filePaths": ["doc"]})["discarded"] == 2
    assert box.sh("cat doc/x.md")["stdout"] == "x\n" and box.paths() == ["README"]
    assert box.process(process["pid"])["running"]
    box.ok("POST", "/stop")
    assert box.ok("POST", "/discard", {"files": ["README"]})["remaining"] == 0
    assert box.paths() == [] and "discarded" in box.events()


def test_a_partial_approval_leaves_processes_and_follows_the_project(box):
    process = box.start_process("while sleep 0.05; do echo tick >> log.txt; done")
    box.sh("until test -e log.txt; do sleep 0.01; done; echo new > new; echo x >> README")
    box.diff()
    assert box.approve({"files": ["new", "README"]})["applied"] == 2
    assert box.process(process["pid"])["running"], box.log(process["pid"])
    (box.project / "new").write_text("by the owner\n")
    assert box.sh("cat new")["stdout"] == "by the owner\n"
    box.ok("DELETE", f"/processes/{process['pid']}", status=204)
    assert box.paths() == ["log.txt"]


def test_a_stopped_sandbox_is_approved_part_by_part(box):
    box.sh("echo a > a; echo b > b")
    box.ok("POST", "/stop")
    box.diff()
    assert box.approve({"files": ["a"]})["status"] == "stopped"
    assert box.paths() == ["b"]
    box.ok("POST", "/start")
    assert box.sh("cat a b")["stdout"] == "a\nb\n"
    assert box.approve()["status"] == "approved"


# ---- versions, behaviour, tokens ----


@pytest.mark.databases
def test_a_version_that_is_not_any_more_is_409(box):
    box.sh("echo a > a")
    box.diff()
    seen = box.ok("GET", "")["version"]
    box.ok("POST", "/stop")
    for verb, body in (("approve", {}), ("reject", {}), ("discard", {"filePaths": ["a"]}), ("rebase", {}), ("undo", {})):
        assert refused(box.http("POST", f"/{verb}", {**body, "version": seen}), 409)["retryable"]
    assert box.approve({"version": box.ok("GET", "")["version"]})["status"] == "approved"


@pytest.mark.parametrize("verb, event", [("approve", "approved"), ("reject", "rejected"), ("reject", "terminal")])
def test_what_is_decided_is_deleted_if_so_asked(shared, verb, event):
    box = Review(shared, FILES, behavior={"lifecycle": {"deleteOn": [event]}})
    try:
        box.sh("echo a > a")
        box.diff()
        box.ok("POST", f"/{verb}", {})
        assert box.state() == "deleted"
        refused(box.http("GET", "/diff"), 409)
    finally:
        box.remove()
