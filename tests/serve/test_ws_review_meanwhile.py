"""The review of workspaces while others change the project: merges, conflicts, rebases."""

import http.client
import shutil
import subprocess

import pytest
from review import FILES, Review, git, make_repository
from server import WAIT
from workspace import make_project, refused


def test_edits_of_others_are_merged_or_a_conflict(box):
    box.sh("sed -i '40s/.*/agent/' src/long.txt; sed -i 's/two/agent/' src/a.txt")
    box.diff()
    text = (box.project / "src/long.txt").read_text().replace("line 0\n", "owner\n")
    (box.project / "src/long.txt").write_text(text)
    (box.project / "src/a.txt").write_text("one\nowner\nthree\n")
    report = box.ok("GET", "/conflicts")
    assert report["hasConflict"] and report["conflictingFiles"] == ["src/a.txt"]
    assert report["repoChangedFiles"] == ["src/a.txt", "src/long.txt"]
    assert report["files"][0]["hunks"][0] == {"line": report["files"][0]["hunks"][0]["line"], "project": "owner\n", "base": "two\n",
                                              "agent": "agent\n"}
    body = refused(box.http("POST", "/approve", {}), 409)
    assert body["details"]["reason"] == "CONFLICTS" and [f["filePath"] for f in body["details"]["files"]] == ["src/a.txt"]
    assert box.state() == "active" and box.read("src/a.txt") == b"one\nowner\nthree\n"
    answer = box.approve({"files": ["src/long.txt"]})
    assert answer["files"][0]["merged"]
    lines = box.read("src/long.txt").decode().splitlines()
    assert lines[0] == "owner" and lines[39] == "agent"
    assert box.approve({"force": True})["status"] == "approved" and box.read("src/a.txt") == b"one\nagent\nthree\n"


SIXTY = [f"line {n}" for n in range(1, 61)]


def text_of(lines):
    return "".join(line + "\n" for line in lines)


@pytest.fixture
def sixty(shared):
    box = Review(shared, {"f.txt": text_of(SIXTY), "g.txt": text_of(SIXTY)})
    box.sh("sed -i '12s/.*/AGENT 12/; 30s/.*/AGENT 30/' f.txt")
    yield box
    box.remove()


def owner_writes(box, changes, top=0):
    lines = [f"user on top {n}" for n in range(top)] + SIXTY
    for n, line in changes.items():
        lines[top + n - 1] = line
    (box.project / "f.txt").write_text(text_of(lines))
    return lines


def test_a_range_means_the_hunk_that_was_shown_there(sixty):
    lines = owner_writes(sixty, {}, top=18)
    diff = sixty.diff()
    file = diff["files"][0]
    assert file["merged"] and "conflict" not in file and (file["linesAdded"], file["linesRemoved"]) == (2, 2)
    assert [hunk["header"] for hunk in file["hunks"]] == ["@@ -27,7 +27,7 @@", "@@ -45,7 +45,7 @@"]
    assert "user" not in diff["unifiedDiff"]
    hunk = file["hunks"][1]
    assert "+AGENT 30" in hunk["lines"]
    body = {"hunkRanges": [{"fileId": file["id"], "startLine": hunk["newStart"], "endLine": hunk["newStart"] + hunk["newLines"] - 1}],
            "diffHash": diff["diffHash"]}
    assert sixty.approve(body)["files"][0]["hunksApplied"] == 1
    lines[47] = "AGENT 30"
    assert sixty.read("f.txt").decode() == text_of(lines)
    left = sixty.file("f.txt")["hunks"]
    assert [hunk["id"] for hunk in left] == [file["hunks"][0]["id"]]
    # Once more is another approval, of another diff.
    assert refused(sixty.http("POST", "/approve", body), 409)["details"]["reason"] == "DIFF_STALE"


def test_the_owners_lines_are_not_shown_as_the_agents(sixty):
    """Also where they are near: each hunk of the agent's is approved by itself, and each line of the owner's stays."""
    lines = owner_writes(sixty, {45: "user 45", 14: "user 14"})
    diff = sixty.diff()
    changed = [line for hunk in diff["files"][0]["hunks"] for line in hunk["lines"] if line[0] != " "]
    assert changed == ["-line 12", "+AGENT 12", "-line 30", "+AGENT 30"]
    assert "+line 45" not in diff["unifiedDiff"] and "-user" not in diff["unifiedDiff"]
    for n, place in ((0, 12), (0, 30)):
        diff = sixty.diff()
        hunk = diff["files"][0]["hunks"][n]
        sixty.approve({"hunks": [{"path": "f.txt", "hunkIds": [hunk["id"]]}], "diffHash": diff["diffHash"]})
        lines[place - 1] = f"AGENT {place}"
        assert sixty.read("f.txt").decode() == text_of(lines)
    assert sixty.diff()["files"] == []


def patch_of(box):
    host, port = box.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT)
    connection.request("GET", f"{box.path}/diff?format=patch")
    return connection.getresponse().read()


def test_the_patch_of_a_merge_does_what_the_approval_does(sixty):
    owner_writes(sixty, {45: "user 45", 14: "user 14"}, top=3)
    sixty.sh("echo new > new.txt; sed -i '5s/.*/AGENT 5/' g.txt")
    patch = patch_of(sixty)
    assert b"user" not in patch.replace(b" user 14", b"")
    place = make_project()
    shutil.copytree(sixty.project, place, dirs_exist_ok=True)
    subprocess.run(["git", "apply"], cwd=place, input=patch, check=True)
    sixty.approve()
    subprocess.run(["diff", "-r", place, sixty.project], check=True)
    assert b"user 45\n" in sixty.read("f.txt")
    shutil.rmtree(place)


def test_hunks_named_with_the_hash_of_their_file_are_held_to_the_project_too(sixty):
    """Whole files are merged with what its owner saved meanwhile; hunks were chosen in another text."""
    def ask(n):
        file = sixty.ok("GET", "/diff?note=false")["files"][0]
        return file, {"hunks": [{"fileId": file["id"], "hunkIds": [file["hunks"][n]["id"]]}], "fileHashes": {file["id"]: file["hash"]}}

    first, hunk = ask(1)
    (sixty.project / "f.txt").write_text("owner\n" * 18 + (sixty.project / "f.txt").read_text())
    refused(sixty.http("POST", "/approve", hunk), 409)
    again, hunk = ask(1)
    assert again["hash"].partition("-")[0] == first["hash"].partition("-")[0] and again["hash"] != first["hash"]
    assert sixty.approve(hunk)["applied"] == 1
    text = sixty.read("f.txt").decode()
    assert "AGENT 30\n" in text and "AGENT 12\n" not in text and text.startswith("owner\n" * 18)
    file, _ = ask(0)
    assert sixty.approve({"fileHashes": {"f.txt": file["hash"].partition("-")[0]}})["applied"] == 1
    assert "AGENT 12\n" in sixty.read("f.txt").decode()


def test_hunks_are_held_to_the_project_as_it_was_shown(sixty):
    diff = sixty.diff()
    file = diff["files"][0]
    lines = owner_writes(sixty, {}, top=18)
    ranges = {"hunkRanges": [{"fileId": file["id"], "startLine": 27, "endLine": 33}]}
    by_id = {"hunks": [{"path": "f.txt", "hunkIds": [file["hunks"][1]["id"]]}]}
    for body in (ranges, by_id, ranges | {"diffHash": diff["diffHash"]}, by_id | {"diffHash": diff["diffHash"]}):
        told = refused(sixty.http("POST", "/approve", body), 409)
        assert told["details"]["reason"] == "DIFF_STALE" and told["retryable"]
        assert sixty.read("f.txt").decode() == text_of(lines)
    # Somebody else has looked since: that is no word about what this one saw.
    assert sixty.diff()["diffHash"] != diff["diffHash"]
    refused(sixty.http("POST", "/approve", ranges | {"diffHash": diff["diffHash"]}), 409)
    # The whole file is merged with what is there, as ever.
    assert sixty.approve({"files": ["f.txt"], "diffHash": diff["diffHash"], "dryRun": True})["files"][0]["merged"]
    sixty.approve(by_id | {"force": True})
    lines[47] = "AGENT 30"
    assert sixty.read("f.txt").decode() == text_of(lines)


def test_an_etag_is_of_what_is_shown(sixty):
    tag = f'"{sixty.diff()["diffHash"]}"'
    assert sixty.http("GET", "/diff", headers={"If-None-Match": tag})[0] == 304
    owner_writes(sixty, {45: "user 45"})
    status, body = sixty.http("GET", "/diff", headers={"If-None-Match": tag})
    assert status == 200 and body["files"][0]["merged"] and f'"{body["diffHash"]}"' != tag


def test_a_conflict_shows_what_the_agent_did_and_says_so(sixty):
    owner_writes(sixty, {12: "user 12", 45: "user 45"})
    diff = sixty.diff()
    file = diff["files"][0]
    assert "same lines" in file["conflict"] and "merged" not in file
    assert [line for hunk in file["hunks"] for line in hunk["lines"] if line[0] != " "] == ["-line 12", "+AGENT 12", "-line 30",
                                                                                            "+AGENT 30"]
    assert "(in conflict: it has changed in the project meanwhile, in the same lines)" in diff["unifiedDiff"]
    body = {"hunks": [{"path": "f.txt", "hunkIds": [file["hunks"][1]["id"]]}], "diffHash": diff["diffHash"]}
    for more in ({}, {"force": True}):
        assert refused(sixty.http("POST", "/approve", body | more), 409)["details"]["reason"] == "CONFLICTS"
    place = make_project()
    shutil.copytree(sixty.project, place, dirs_exist_ok=True)
    assert subprocess.run(["git", "apply"], cwd=place, input=patch_of(sixty), check=False, capture_output=True).returncode != 0
    shutil.rmtree(place)
    assert sixty.read("f.txt").count(b"user") == 2


@pytest.mark.parametrize("strategy, agent, conflicts", [("regenerate", "agent", 2), ("merge", "agent", 1), ("ours", "owner", 0),
                                                         ("theirs", "agent", 0)])
def test_a_rebase_brings_both_together(box, strategy, agent, conflicts):
    box.sh("sed -i '40s/.*/agent/' src/long.txt; sed -i 's/two/agent/' src/a.txt")
    text = (box.project / "src/long.txt").read_text().replace("line 0\n", "owner\n")
    (box.project / "src/long.txt").write_text(text)
    (box.project / "src/a.txt").write_text("one\nowner\nthree\n")
    answer = box.ok("POST", "/rebase", {"strategy": strategy})
    assert answer["strategy"] == strategy and answer["repoChangedFiles"]
    assert box.sh("sed -n 2p src/a.txt")["stdout"] == agent + "\n"
    if strategy != "regenerate":
        assert len(answer["conflictingFiles"]) == conflicts and answer["success"] == (conflicts == 0)
        assert box.sh("sed -n '1p;40p' src/long.txt")["stdout"] == "owner\nagent\n"
    if not conflicts:
        box.diff()
        assert box.approve()["status"] == "approved"
        assert box.read("src/long.txt").decode().splitlines()[0] == "owner"


def test_the_base_commit_is_known_and_moves(shared):
    box = Review(shared, FILES)
    make_repository(box.project)
    other = Review(shared, FILES)
    try:
        box.sh("echo a > a")
        answer = box.ok("POST", "/rebase", {})
        head = git(box.project, "rev-parse", "HEAD").strip()
        assert answer["newBaseHash"] == head and box.ok("GET", "/conflicts")["currentHash"] == head
        assert not box.ok("GET", "/conflicts")["headMoved"] and "rebased" in box.events()
    finally:
        box.remove()
        other.remove()
