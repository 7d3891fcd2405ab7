"""The agent read one version, the owner saved the next, the agent wrote from the first: never does the owner's work go without a word, however
either of them saves, and whatever was forgotten in between."""

import os

import pytest
from review import Review
from server import eventually
from workspace import may_lack

DRIVERS = ("fence", "overlayfs", "copy")
MANY = 5000 if os.environ.get("AGENTFENSE_LONG") == "1" else 1500
LINES = [f"line {n}\n" for n in range(30)]
V1, V2, AGENTS = "".join(LINES), "".join([*LINES[:3], "the owner's\n", *LINES[4:]]), "".join([*LINES[:25], "the agent's\n", *LINES[26:]])

OWNER = {
    "writes": lambda path: path.write_text(V2),
    "renames": lambda path: (path.with_name(".new").write_text(V2), os.rename(path.with_name(".new"), path)),
    "makes it anew": lambda path: (path.unlink(), path.write_text(V2)),
}
AGENT = {
    "writes": "printf %s \"$text\" > src/f.txt",
    "renames": "printf %s \"$text\" > src/.t && mv src/.t src/f.txt",
    "makes it anew": "rm src/f.txt && printf %s \"$text\" > src/f.txt",
}
BETWEEN = {
    "much else is read": lambda box: box.sh("find many -type f | xargs cat > /dev/null"),
    "it is stopped": lambda box: (box.ok("POST", "/stop"), box.ok("POST", "/start")),
}


def make(shared, driver, many=0):
    files = {"src/f.txt": V1, "src/witness": "", "other": "o\n", **{f"many/{n // 100}/{n}": "x" for n in range(many)}}
    try:
        return Review(shared, files, driver=driver)
    except AssertionError as refused:
        if may_lack(driver):
            pytest.skip(str(refused))
        raise


def read(box):
    box.sh("cat src/f.txt; stat src/witness")


def wait_heard(box):
    """Until the fence has heard of all that the owner did. The kernel knows the size of the witness since read(), and keeps to it until
    the fence has heard that it changed; of what was done before that in the same directory the fence has heard earlier."""
    (box.project / "src/witness").write_text("changed\n")
    eventually(lambda: box.sh("stat -c %s src/witness")["stdout"] == "8\n")


def rewrite(box, how):
    done = box.ok("POST", "/exec", {"command": "/bin/sh", "args": ["-c", AGENT[how]], "env": {"text": AGENTS}})
    assert done["exitCode"] == 0, done


def check_owner_lost_nothing(box):
    """A conflict, or a merge that has both; nothing is taken by force."""
    box.diff()
    status, answer = box.http("POST", "/approve", {})
    text = box.read("src/f.txt").decode()
    assert "the owner's\n" in text, (status, answer)
    assert status == 409 or "the agent's\n" in text, (status, answer)
    return status


@pytest.mark.parametrize("agent", AGENT)
@pytest.mark.parametrize("owner", OWNER)
@pytest.mark.parametrize("driver", DRIVERS)
def test_what_the_agent_had_not_seen_is_not_overwritten(shared, driver, owner, agent):
    """Both before the fence has heard of what the owner did, and afterwards."""
    for is_heard in (False, True) if driver == "fence" else (False,):
        box = make(shared, driver)
        try:
            read(box)
            OWNER[owner](box.project / "src/f.txt")
            if is_heard:
                wait_heard(box)
            rewrite(box, agent)
            status = check_owner_lost_nothing(box)
            assert not is_heard or status == 409, "there is no ground to merge on"
        finally:
            box.remove()


@pytest.mark.parametrize("owner", ["writes", "renames"])
@pytest.mark.parametrize("driver,between", [("fence", name) for name in BETWEEN] + [("overlayfs", "it is stopped"), ("copy", "it is stopped")])
def test_what_was_read_is_known_whatever_comes_between(shared, driver, owner, between):
    box = make(shared, driver, many=MANY if between == "much else is read" else 0)
    try:
        read(box)
        BETWEEN[between](box)
        OWNER[owner](box.project / "src/f.txt")
        if between != "it is stopped":  # a fence that has just started watches nothing, and hears of nothing
            wait_heard(box)
        rewrite(box, "writes")
        check_owner_lost_nothing(box)
    finally:
        box.remove()


@pytest.mark.parametrize("driver", ["fence"])
def test_what_was_seen_is_no_conflict(shared, driver):
    """Who reads again knows; so does who wrote it, when that was approved; and who never read it had nothing before its eyes."""
    box = make(shared, driver)
    try:
        read(box)
        box.sh("echo for later > kept")
        OWNER["renames"](box.project / "src/f.txt")
        wait_heard(box)
        box.sh("cat src/f.txt")
        rewrite(box, "writes")
        box.diff()
        assert box.approve({"files": ["src/f.txt"]})["applied"]
        assert box.read("src/f.txt").decode() == AGENTS
        box.sh("echo more >> src/f.txt; printf new > other")
        box.diff()
        assert box.approve({"files": ["src/f.txt", "other"]})["applied"]
        assert box.read("src/f.txt").decode() == AGENTS + "more\n" and box.read("other") == b"new"
        rewrite(box, "writes")
        box.diff()
        assert box.approve({"files": ["src/f.txt"]})["applied"]
        assert box.read("src/f.txt").decode() == AGENTS
    finally:
        box.remove()
