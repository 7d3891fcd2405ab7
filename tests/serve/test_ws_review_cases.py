"""What a review must get right whatever holds the changes back: each case with every driver that this host has."""

import os
import pathlib
import shutil
import subprocess

import pytest
from review import Review, git, make_repository
from server import OTHER_USER, eventually
from workspace import may_lack

DRIVERS = ("fence", "overlayfs", "copy")
FILES = {"README": "read me\n", "src/a.txt": "one\ntwo\nthree\n", "src/long.txt": "".join(f"line {n}\n" for n in range(40)), "doc/x.md": "x\n",
         "doc/deep/y.md": "y\n", "run.sh": "#!/bin/sh\n", "old.bin": "a\0b\n"}


def tree(place):
    """Names, kinds, modes and contents, without git's."""
    found = {}
    for path in sorted(pathlib.Path(place).rglob("*")):
        name = os.fsencode(path.relative_to(place))
        if name.split(b"/")[0] == b".git":
            continue
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("dir",)
        else:
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes())
    return found


@pytest.fixture(params=DRIVERS)
def make_box(request, shared):
    boxes = []

    def make(files=None, **more):
        try:
            boxes.append(Review(shared, files or FILES, driver=request.param, **more))
        except AssertionError as refused:
            if may_lack(request.param):
                pytest.skip(str(refused))
            raise
        boxes[-1].driver = request.param
        return boxes[-1]

    yield make
    for box in boxes:
        box.remove()


@pytest.fixture
def box(make_box):
    return make_box()


def check(box, script, **approval):
    """The script in the sandbox, approved, is the script in the project."""
    place = pathlib.Path(str(box.project) + "-expected")
    shutil.copytree(box.project, place, symlinks=True)
    try:
        subprocess.run(["/bin/sh", "-ec", script], cwd=place, check=True)
        done = box.sh("set -e; " + script)
        assert done["exitCode"] == 0, done
        box.diff()
        answer = box.approve(approval)
        assert answer["status"] == "approved", answer
        assert tree(box.project) == tree(place)
    finally:
        shutil.rmtree(place)
    return answer


CASES = {
    "binary_files": "printf 'a\\0b' > bin; printf 'c\\0' >> run.sh",
    "binary_deleted": "rm old.bin",
    "chmod_only": "chmod 755 run.sh; chmod 600 README",
    "links": "ln -s README link; ln -s nowhere dangling; ln -sfn ../src doc/src",
    "rm_rf_dir": "rm -rf doc",
    "dir_replaced": "rm -rf doc; mkdir doc; echo new > doc/a.md; echo new > doc/z.md",
    "dir_becomes_file": "rm -rf doc; echo file > doc",
    "file_becomes_dir": "rm README; mkdir README; echo x > README/x",
    "rename": "mv src/long.txt moved.txt",
    "odd_names": "echo 1 > 'with space'; echo 2 > \"quo'te\\\"s\"; printf 3 > \"$(printf 'new\\nline')\"; printf 4 > \"$(printf 'caf\\351')\"",
    "new_file_in_new_dir": "mkdir -p n/e/w; echo x > n/e/w/file",
    "empty_file_and_dir": "touch empty; mkdir void",
    "deleted": "rm README src/a.txt",
    "no_newline_at_the_end": "printf 'one\\ntwo' > src/a.txt",
    "underscore_names": "mkdir a_b axb; echo 1 > a_b/f; echo 2 > axb/f",
}


@pytest.mark.parametrize("name", CASES)
def test_approved_is_what_the_agent_made(box, name):
    check(box, CASES[name], acknowledge=True)


@pytest.mark.parametrize("name", CASES)
def test_approved_at_rest_it_goes_on_from_there(box, name):
    """Stopped, approved, started again: the sandbox has what the project has, and nothing of it is a change any more."""
    assert box.sh("set -e; mkdir stay; echo more > stay/unapproved; " + CASES[name])["exitCode"] == 0
    wanted = [f["id"] for f in box.diff()["files"] if f["filePath"] != "stay/unapproved"]
    box.ok("POST", "/stop", {})
    assert box.approve({"mode": "files", "fileIds": wanted, "acknowledge": True})["applied"] >= len(wanted)
    box.ok("POST", "/start", {})
    assert box.paths() == ["stay/unapproved"]
    seen = box.sh("find . -path ./.git -prune -o -type f -exec sha256sum {} + | LC_ALL=C sort; cat stay/unapproved")["stdout"]
    shutil.copytree(box.project, str(box.project) + "-beside", symlinks=True)
    place = pathlib.Path(str(box.project) + "-beside")
    try:
        (place / "stay").mkdir()
        (place / "stay/unapproved").write_text("more\n")
        there = subprocess.run(["/bin/sh", "-c", "find . -path ./.git -prune -o -type f -exec sha256sum {} + | LC_ALL=C sort"], cwd=place,
                               check=True, capture_output=True, text=True, errors="replace").stdout
    finally:
        shutil.rmtree(place)
    assert seen == there + "more\n"


@pytest.mark.parametrize("how", ["by_its_name", "file_by_file"])
@pytest.mark.parametrize("name", ["rm_rf_dir", "dir_replaced", "dir_becomes_file"])
def test_a_directory_that_is_given_up_shows_again(box, name, how):
    before = tree(box.project / "doc")
    assert box.sh("set -e; echo more > unrelated; " + CASES[name])["exitCode"] == 0
    ids = [f["id"] for f in box.diff()["files"] if f["filePath"] != "unrelated"]
    box.ok("POST", "/discard", {**({"filePaths": ["doc"]} if how == "by_its_name" else {"fileIds": ids}), "stop": True})
    assert box.paths() == ["unrelated"]
    if box.ok("GET", "")["status"] == "stopped":
        box.ok("POST", "/start", {})
    assert box.paths() == ["unrelated"]
    assert box.sh("cat doc/x.md doc/deep/y.md; find doc | LC_ALL=C sort")["stdout"] == "x\ny\ndoc\ndoc/deep\ndoc/deep/y.md\ndoc/x.md\n"
    assert tree(box.project / "doc") == before


def test_a_directory_that_both_made_is_the_owners_when_it_is_given_up(box):
    box.sh("mkdir -p both/in; echo agent > both/a; echo agent > both/in/a; mkdir both/empty; echo agent > both/kind; echo more > unrelated")
    for path, text in (("own", "owner\n"), ("in/own", "owner\n"), ("deep/x", "x\n"), ("kind/x", "x\n")):
        (box.project / "both" / path).parent.mkdir(parents=True, exist_ok=True)
        (box.project / "both" / path).write_text(text)
    box.diff()
    box.ok("POST", "/discard", {"filePaths": ["both"], "stop": True})
    if box.ok("GET", "")["status"] == "stopped":
        box.ok("POST", "/start", {})
    assert box.paths() == ["unrelated"]
    shown = set(box.sh("find both -type f")["stdout"].split())
    owners = {"both/own", "both/in/own", "both/deep/x", "both/kind/x"}
    # A copy has what was there when it was made, and what came in the place of something that was given up.
    assert shown == owners if box.driver != "copy" else "both/kind/x" in shown and shown < owners


def test_what_went_with_a_directory_comes_back_with_it(box):
    """Not one file of it alone, where that is all that the changes say; nothing is given up that was not named."""
    box.sh(CASES["dir_replaced"])
    ids = [f["id"] for f in box.diff()["files"] if f["filePath"] == "doc/x.md"]
    status, answer = box.http("POST", "/discard", {"fileIds": ids, "stop": True})
    if status == 200:
        assert box.paths() == ["doc/a.md", "doc/deep/y.md", "doc/z.md"]
    else:
        assert status == 409 and "'doc/x.md' went with its directory 'doc'" in answer["error"], answer
        assert box.paths() == ["doc/a.md", "doc/deep/y.md", "doc/x.md", "doc/z.md"]


def test_approved_below_the_root_of_a_repository(make_box):
    box = make_box()
    git(box.project.parent, "--version")
    make_repository(box.project)
    inner = box.project / "src"
    status, made = box.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(inner), "driver": box.ok("GET", "")["driver"],
                                                                 "noLock": True})
    assert status == 201, made
    box.id, outer = made["id"], box.id
    box.sh("echo new > new.txt; sed -i s/two/TWO/ a.txt")
    box.diff()
    answer = box.approve({"createCommit": True})
    assert answer["status"] == "approved" and (inner / "new.txt").read_text() == "new\n"
    assert git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split() == ["src/a.txt", "src/new.txt"]
    box.server.http("DELETE", box.path)
    box.id = outer


def test_partial_hunks_keep_the_rest(box):
    box.sh("sed -i '1s/.*/first/; 40s/.*/last/' src/long.txt; echo new > new")
    hunks = box.file("src/long.txt")["hunks"]
    answer = box.approve({"hunks": [{"path": "src/long.txt", "hunkIds": [hunks[1]["id"]]}]})
    assert answer["isPartial"] and answer["status"] == "active"
    assert box.read("src/long.txt").decode().splitlines()[0::39] == ["line 0", "last"]
    assert [hunk["id"] for hunk in box.file("src/long.txt")["hunks"]] == [hunks[0]["id"]]
    assert box.sh("sed -n '1p;40p' src/long.txt; cat new")["stdout"] == "first\nlast\nnew\n"
    assert box.approve()["status"] == "approved"
    assert box.read("src/long.txt").decode().splitlines()[0::39] == ["first", "last"] and box.read("new") == b"new\n"


@pytest.mark.databases
def test_files_one_by_one_and_the_agent_goes_on(box):
    box.sh("echo 1 > one; echo 2 > two; rm doc/x.md")
    box.diff()
    assert box.approve({"files": ["one"]})["remaining"] == 2
    assert box.sh("cat one two; echo more >> one; ls doc")["stdout"] == "1\n2\ndeep\n"
    assert box.paths() == ["doc/x.md", "one", "two"]
    assert box.approve({"files": ["one", "doc/x.md"]})["remaining"] == 1
    assert box.read("one") == b"1\nmore\n" and not (box.project / "doc/x.md").exists()
    assert box.paths() == ["two"]
    assert box.approve()["status"] == "approved"


# One descriptor, as a logger has. The pauses leave even a slow machine time to look and to approve what it saw.
TICKS = "n=0; while sleep 0.4; do for i in 1 2 3 4 5 6; do n=$((n+1)); echo $n; sleep 0.02; done; done >> log.txt"


def is_whole(text):
    numbers = [int(line) for line in text.split()]
    return numbers == list(range(1, len(numbers) + 1)) and numbers


def test_who_is_approved_in_part_goes_on(box):
    """Processes live, also through what they have open, and nothing that they write before, meanwhile or after is lost."""
    process = box.start_process(TICKS)
    box.sh("until test -s log.txt; do sleep 0.01; done; echo a > one; echo b > two; rm doc/x.md; echo more >> README")
    for chosen in (["one"], ["doc/x.md", "README"]):
        box.diff()
        answer = box.approve({"files": chosen})
        assert answer["isPartial"] and answer["status"] == "active"
    def approve_log():
        box.diff()
        return box.http("POST", "/approve", {"files": ["log.txt"]})[0] == 200  # it may have ticked since the diff
    for _ in range(2):
        eventually(approve_log)
        assert is_whole(box.read("log.txt").decode())
    taken = box.read("log.txt").decode()
    eventually(lambda: "log.txt" in box.paths())
    assert box.process(process["pid"])["running"], box.log(process["pid"])
    box.ok("DELETE", f"/processes/{process['pid']}", status=204)
    assert box.paths() == ["log.txt", "two"]
    written = box.sh("cat log.txt")["stdout"]
    assert written.startswith(taken) and len(written) > len(taken) and is_whole(written)
    box.diff()
    assert box.approve()["status"] == "approved"
    assert box.read("log.txt").decode() == written and box.read("two") == b"b\n" and box.read("README") == b"read me\nmore\n"


def test_what_the_owner_does_after_an_approval_is_not_the_agents(box):
    box.sh("echo a > one; rm README; echo mine >> src/a.txt; echo rest > rest")
    box.diff()
    box.approve({"files": ["one", "README", "src/a.txt"]})
    (box.project / "one").write_text("owner\n")
    (box.project / "README").write_text("a new one\n")
    (box.project / "src/a.txt").write_text("zero\none\ntwo\nthree\nmine\n")
    assert box.paths() == ["rest"]
    assert box.approve()["status"] == "approved"
    assert (box.read("one"), box.read("README")) == (b"owner\n", b"a new one\n")
    assert box.read("src/a.txt") == b"zero\none\ntwo\nthree\nmine\n"


def test_hunks_beside_the_owners_edits_keep_both(box):
    """Some of the agent's hunks land on a file that the owner has changed elsewhere; the rest lands later. Nobody's lines go."""
    if box.driver == "overlayfs":
        pytest.skip("it knows no ground to merge on")
    box.sh("sed -i '1s/.*/first/; 40s/.*/last/' src/long.txt; echo rest > rest")
    text = box.read("src/long.txt").decode().splitlines()
    text[19] = "owner"
    (box.project / "src/long.txt").write_text("\n".join(text) + "\n")
    shown = box.file("src/long.txt")["hunks"]
    assert [line for hunk in shown for line in hunk["lines"] if line[0] != " "] == ["-line 0", "+first", "-line 39", "+last"]
    hunks = [hunk["id"] for hunk in shown if "+last" in hunk["lines"]]
    box.approve({"hunks": [{"path": "src/long.txt", "hunkIds": hunks}]})
    lines = box.read("src/long.txt").decode().splitlines()
    assert (lines[0], lines[19], lines[39]) == ("line 0", "owner", "last")
    box.diff()
    assert box.approve()["status"] == "approved"
    lines = box.read("src/long.txt").decode().splitlines()
    assert (lines[0], lines[19], lines[39]) == ("first", "owner", "last") and len(lines) == 40


def test_a_discard_while_it_runs(box):
    """What processes have open stays what they write to; where that cannot be, nothing happens unless it may be stopped."""
    process = box.start_process("cd doc; exec 3>>../src/a.txt; echo opened; while sleep 0.02; do echo tick; done >&3")
    box.wait_log(process["pid"], "opened")
    box.sh("echo new > new; echo x >> README; rm doc/x.md; echo z > doc/z.md")
    eventually(lambda: "src/a.txt" in box.paths())
    body = {"filePaths": ["src/a.txt", "new", "README", "doc"]}
    if box.driver == "overlayfs":
        status, answer = box.http("POST", "/discard", body)
        assert status == 409 and answer["details"]["reason"] == "WOULD_STOP" and "stop" in answer["hint"], answer
        assert box.process(process["pid"])["running"] and "new" in box.paths()
        body["stop"] = True
    assert box.ok("POST", "/discard", body)["discarded"] == 5
    assert box.sh("cat README doc/x.md; test ! -e new -a ! -e doc/z.md")["stdout"] == "read me\nx\n"
    assert box.state() == "active"
    if box.driver == "overlayfs":
        assert not box.process(process["pid"])["running"]
        return
    assert box.process(process["pid"])["running"], box.log(process["pid"])
    eventually(lambda: box.paths() == ["src/a.txt"])
    # Over FUSE who appends does so where the kernel knew the end to be: there may be a hole before it.
    text = box.sh("tr -d '\\000' < src/a.txt")["stdout"]
    assert text.startswith("one\ntwo\nthree\n") and set(text.split()[3:]) == {"tick"}, text


def test_an_approval_undone_while_it_runs(box):
    process = box.start_process("sleep 1000")
    box.sh("echo new > new; echo other > other")
    box.diff()
    box.approve({"files": ["new"]})
    box.ok("POST", "/undo", {})
    assert not (box.project / "new").exists() and box.process(process["pid"])["running"]
    assert "other" in box.paths() and box.approve({"files": ["other"]})["applied"] == 1


def test_discarded_is_as_the_project_has_it(box):
    box.sh("echo x > src/a.txt; rm README; echo new > new; rm -r doc")
    box.diff()
    body = {"filePaths": ["src/a.txt", "README", "new", "doc"], "stop": box.driver == "overlayfs"}
    assert box.ok("POST", "/discard", body)["remaining"] == 0
    assert box.sh("cat src/a.txt README doc/x.md; test -e new")["stdout"] == "one\ntwo\nthree\nread me\nx\n"
    assert box.paths() == [] and box.state() == "active"


def test_a_foreign_edit_is_a_conflict_and_stays(box):
    box.sh("sed -i s/two/agent/ src/a.txt; echo new > new")
    box.diff()
    (box.project / "src/a.txt").write_text("one\nowner\nthree\n")
    status, body = box.http("POST", "/approve", {})
    assert status == 409 and body["details"]["reason"] == "CONFLICTS", body
    assert box.read("src/a.txt") == b"one\nowner\nthree\n" and not (box.project / "new").exists()
    assert box.approve({"files": ["new"]})["isPartial"]


def test_what_is_refused_or_dry_leaves_processes_alone(box):
    process = box.start_process("sleep 1000")
    box.sh("echo a > a; echo b > b")
    assert box.http("POST", "/approve", {"files": ["a"]})[0] == 409  # nobody has looked
    box.diff()
    assert box.approve({"dryRun": True})["applied"] == 2
    assert box.http("POST", "/approve", {"files": ["nothing"]})[0] == 404
    assert box.process(process["pid"])["running"] and box.state() == "active"


def test_stopped_and_started_again_the_work_is_there(box):
    box.sh("echo x > new; rm README; mkdir d; echo y > d/f")
    shown = box.diff()["diffHash"]
    box.ok("POST", "/stop")
    assert box.diff()["diffHash"] == shown
    box.ok("POST", "/start")
    assert box.sh("cat new d/f; ls README")["stdout"] == "x\ny\n"
    assert box.approve({"diffHash": shown})["status"] == "approved"


def test_dot_files_are_files(box):
    box.sh("echo a > .clang-format; mkdir .github; echo b > .github/x")
    assert box.paths() == [".clang-format", ".github/x"]


def test_an_approval_is_undone(box):
    before = tree(box.project)
    box.sh("echo new > new; rm -r doc; chmod 755 README")
    box.diff()
    box.approve()
    assert tree(box.project) != before
    box.ok("POST", "/undo", {})
    assert tree(box.project) == before


def test_a_foreign_staged_file_is_not_committed(box):
    make_repository(box.project)
    (box.project / "staged").write_text("x\n")
    git(box.project, "add", "staged")
    box.sh("echo new > new")
    box.diff()
    answer = box.approve({"createCommit": True, "files": ["new"]})
    assert git(box.project, "show", "--format=", "--name-only", answer["commitHash"]).split() == ["new"]
    assert git(box.project, "diff", "--cached", "--name-only").split() == ["staged"]


# ---- drivers ----


def test_a_driver_belongs_to_its_sandbox(shared):
    status, body = shared.http("POST", "/api/v1/sandboxes", {"projectRoot": "/tmp", "driver": "none"})
    assert status == 400 and body["hint"]
    options = shared.http("GET", "/api/v1/driver/options")[1]
    assert [option["id"] for option in options["options"]] == list(DRIVERS) and options["currentDriver"] == "fence"
    box = Review(shared, FILES, driver="auto")
    try:
        assert box.ok("GET", "")["driver"] in DRIVERS
        assert shared.http("POST", "/api/v1/driver/select", {"driverId": "copy"})[1]["selectedDriver"] == "copy"
        assert shared.http("GET", "/api/v1/health")[1]["driver"] == "copy"
        assert shared.http("GET", "/api/v1/driver/info")[1]["driver"]["type"] == "copy"
        other = Review(shared, FILES)
        assert other.ok("GET", "")["driver"] == "copy" and box.ok("GET", "")["driver"] != "copy"
        other.remove()
    finally:
        shared.http("POST", "/api/v1/driver/select", {"driverId": "fence"})
        box.remove()


def test_auto_is_what_a_trial_says(shared):
    """Each driver says what was tried; who asks for `auto` gets the first that works, and why is told with the sandbox's events."""
    options = shared.http("GET", "/api/v1/driver/options")[1]["options"]
    assert all(option["trial"] for option in options)
    info = shared.http("GET", "/api/v1/driver/info")[1]["driver"]
    assert info["trial"] == options[0]["trial"] and info["reason"] == "preferred by this server"
    box = Review(shared, FILES, driver="auto")
    try:
        first = next(option for option in options if option["available"])
        assert box.ok("GET", "")["driver"] == first["id"]
        created = next(event for event in box.ok("GET", "/audit")["events"] if event["eventType"] == "created")
        assert created["details"]["driver"] == first["id"] and created["details"]["driverReason"].startswith("auto: " + first["trial"])
        assert os.listdir(shared.state) and not [name for name in os.listdir(shared.state) if name.startswith("trial")]
    finally:
        box.remove()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_without_fuse_and_without_a_cgroup(make):
    """An ordinary user whom /dev/fuse is closed to: `auto` passes the fence over, and what cannot be frozen is stopped only with consent."""
    server = make(user=OTHER_USER)
    server.as_user = lambda args: ["setpriv", "--reuid", str(OTHER_USER), "--regid", str(OTHER_USER), "--clear-groups", *args]
    server.start()
    server.own_token = server.token("create", "--owner", "tester", "--admin")
    if server.http("GET", "/api/v1/driver/options")[1]["options"][0]["available"]:
        pytest.skip("/dev/fuse is open to all here")
    auto = Review(server, FILES, driver="auto")
    row = auto.ok("GET", "")
    assert row["driver"] in ("overlayfs", "copy"), row
    created = next(event for event in auto.ok("GET", "/audit")["events"] if event["eventType"] == "created")
    assert "not fence: /dev/fuse does not open: Permission denied" in created["details"]["driverReason"]
    assert auto.sh("cat README")["stdout"] == "read me\n"
    for driver in {row["driver"], "copy"}:
        box = Review(server, FILES, driver=driver, noLock=True)
        process = box.start_process("sleep 1000")
        box.sh("echo a > one; echo b > two")
        box.diff()
        status, answer = box.http("POST", "/approve", {"files": ["one"]})
        if status == 200:
            pytest.skip("cgroups are delegated to this user")
        assert status == 409 and answer["details"]["reason"] == "WOULD_STOP" and "cgroup" in answer["error"], answer
        assert box.process(process["pid"])["running"] and not (box.project / "one").exists()
        assert box.approve({"files": ["one"], "stop": True})["status"] == "active"
        assert not box.process(process["pid"])["running"] and box.read("one") == b"a\n" and box.paths() == ["two"]
        assert box.sh("cat one two")["stdout"] == "a\nb\n"
        assert box.approve()["status"] == "approved"  # nothing is left: it ends in any case
        box.remove()
    auto.remove()


def test_rules_that_forbid_something_need_the_fence(shared):
    box = Review(shared, FILES)
    try:
        for driver in ("overlayfs", "copy"):
            status, body = shared.http("POST", "/api/v1/sandboxes", {
                "projectRoot": str(box.project), "noLock": True, "driver": driver, "rules": [{"pattern": "/secret", "permission": "none"}]})
            assert status == 400 and "fence" in body["error"]
    finally:
        box.remove()


@pytest.mark.parametrize("strategy, agent", [("ours", "owner"), ("theirs", "agent")])
def test_a_rebase_settles_what_both_changed(make_box, strategy, agent):
    """Of lines that both changed, the one side or the other; the project is not touched by it, and the rest can be approved."""
    box = make_box()
    box.sh("sed -i 's/two/agent/' src/a.txt; echo new > new.txt")
    (box.project / "src/a.txt").write_text("one\nowner\nthree\n")
    assert box.ok("GET", "/conflicts")["conflictingFiles"] == ["src/a.txt"]
    status, answer = box.http("POST", "/rebase", {"strategy": strategy, "stop": True})
    if box.ok("GET", "")["driver"] == "copy":  # it is no layer over the project, which could be put under it anew
        assert status == 409 and answer["details"]["reason"] == "DRIVER_CANNOT" and "approve what merges" in answer["error"]
        assert box.sh("sed -n 2p src/a.txt; cat new.txt")["stdout"] == "agent\nnew\n" and "rebased" not in box.events()
        return
    assert status == 200 and answer["success"] is True and answer["strategy"] == strategy and "rebased" in box.events(), answer
    assert box.ok("GET", "/conflicts")["conflictingFiles"] == []
    assert box.sh("sed -n 2p src/a.txt; cat new.txt")["stdout"] == f"{agent}\nnew\n" and box.read("src/a.txt") == b"one\nowner\nthree\n"
    box.diff()
    assert box.approve({"stop": True})["status"] == "approved"
    assert box.read("src/a.txt").decode() == f"one\n{agent}\nthree\n" and box.read("new.txt") == b"new\n"
