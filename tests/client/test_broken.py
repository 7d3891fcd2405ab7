"""One sandbox whose files are damaged is shown as broken, and one whose directory is gone is gone. Neither is in anybody's way: not when others
are listed, counted and collected, nor when the server starts."""

import contextlib
import os
import shutil
import signal
import sqlite3

import pytest
from place import eventually


def lose_directory(path):
    shutil.rmtree(path)


def make_it_a_link(path):
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


def make_it_a_file(path):
    shutil.rmtree(path)
    path.touch()


def break_spec(path):
    (path / "spec").write_text("nonsense")


def lose_spec(path):
    (path / "spec").unlink()


HARMS = [(make_it_a_link, "is a link, or something else"), (make_it_a_file, "is a link, or something else"),
         (break_spec, "this is not a sandbox's spec"), (lose_spec, "No such file or directory")]


class Pair:
    """A sandbox, which was not started yet, and a workspace that is stopped."""

    def __init__(self, place, codebase, project):
        project.mkdir()
        (project / "a").write_text("1\n")
        self.place = place
        self.box = place.say("create", "--preset", "full-access", codebase)
        self.workspace = place.say("create", "--scope", project)
        place.run("stop", self.workspace)

    def directories(self):
        top = self.place.state / "sandboxes"
        return [top / self.box, top / self.workspace]

    def remove(self):
        self.place.run("rm", "-f", self.box, self.workspace)


@pytest.mark.parametrize("is_remote", [False, True], ids=["private", "remote"])
def test_what_is_broken_is_shown_so_beside_the_others(make, tmp_path, is_remote):
    place = make()
    if is_remote:
        place.serve()
    codebase = place.say("codebase", "create", "test")
    well = Pair(place, codebase, tmp_path / "well")
    pairs = [(Pair(place, codebase, tmp_path / harm.__name__), reason, harm) for harm, reason in HARMS]
    gone = Pair(place, codebase, tmp_path / "gone")
    for hurt, harm in [(hurt, harm) for hurt, _, harm in pairs] + [(gone, lose_directory)]:
        for directory in hurt.directories():
            harm(directory)
    boxes = {one["id"]: one for one in place.json("ps")["sandboxes"]}
    table = place.say("ps").splitlines()
    assert boxes[well.box]["status"] == "SANDBOX_STATUS_PENDING" and not boxes[well.workspace].get("statusReason")
    assert gone.box not in boxes and gone.workspace not in boxes
    for hurt, reason, _ in pairs:
        assert boxes[hurt.box]["status"] == "SANDBOX_STATUS_ERROR" and reason in boxes[hurt.box]["statusReason"]
        assert reason in boxes[hurt.workspace]["statusReason"]
        assert any(hurt.workspace in line and reason in line for line in table), table
    assert HARMS[0][1] in place.json("inspect", pairs[0][0].box)["statusReason"]
    assert HARMS[0][1] in place.json("inspect", pairs[0][0].workspace)["statusReason"]
    for words in (["gc"], ["status"], ["ls"], ["start", well.box], ["start", well.workspace]):
        place.run(*words)
    for pair, _, _ in pairs:
        pair.remove()
    well.remove()
    assert place.json("ps")["sandboxes"] == []


def test_a_server_starts_beside_sandboxes_that_broke_while_it_was_away(make, tmp_path):
    place = make().serve()
    codebase = place.say("codebase", "create", "test")
    hurt, well = (Pair(place, codebase, tmp_path / name) for name in ("hurt", "well"))
    for pair in (hurt, well):
        place.run("start", pair.box, pair.workspace)
    place.server.kill()
    place.server.wait()
    for pid in place.supervisors():
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not place.supervisors())
    for directory in hurt.directories():
        shutil.rmtree(directory)
    place.serve()
    workspaces = {one["id"]: one["status"] for one in place.json("ps", "-w")["sandboxes"]}
    assert workspaces == {well.workspace: "SANDBOX_STATUS_RUNNING"}
    place.run("start", well.box)
    well.remove()


def test_rules_that_a_database_lost_come_from_the_directory(make):
    place = make()
    codebase = place.say("codebase", "create", "test")
    hurt, well = (place.say("create", codebase) for _ in range(2))
    with contextlib.closing(sqlite3.connect(place.state / "metadata.db")) as db, db:
        assert db.execute("update sandboxes set rules = x'6e6f6e73656e7365' where id = ?", [hurt]).rowcount == 1
    listed = {one["id"]: one for one in place.json("ps")["sandboxes"]}
    assert {listed[one]["status"] for one in (well, hurt)} == {"SANDBOX_STATUS_PENDING"}
    assert listed[hurt]["permissions"] == listed[well]["permissions"] != []
    place.run("rm", hurt, well)
