"""Approvals that find the disk full, at whichever step: the project is old or new, what was answered is so, and there is a next time."""

import os
import shutil

import pytest
from disk import fill
from review import Review
from server import eventually

COUNT = 12
OLD = {**{f"f{n}": f"old {n}\n" for n in range(COUNT)}, "gone": "goes\n"}
NEW = {**{f"f{n}": f"new {n}\n" * 300 for n in range(COUNT)}, "new/x": "x\n"}
EDIT = f"for n in $(seq 0 {COUNT - 1}); do for i in $(seq 300); do echo new $n; done > f$n; done; rm gone; mkdir new; echo x > new/x"
PAGE = 4096
IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
STEP = 1 if IS_LONG else 7
NEEDED = 5 if IS_LONG else 3  # times in a row that it fits, to believe that it does from here on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root")


def contents(place):
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file() and path.name != "filler"}


def with_little_room(box, place, pages, verb, body, before, after):
    """The answer. It says what has become of the project, and whatever could not be noted is later."""
    filler = fill(place, but=pages * PAGE)
    status, answer = box.http("POST", verb, body)
    found = contents(box.project)
    filler.unlink()
    assert status in (200, 429), (pages, status, answer)
    assert found == (after if status == 200 else before), (pages, status, answer, sorted(found))
    return status == 200


def pending(box):
    return box.server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]["totalFiles"]


def try_approval(server, place, pages):
    """Whether it was done. Whatever it was, afterwards it is."""
    box = Review(server, OLD)
    box.sh(EDIT)
    box.diff()
    is_done = with_little_room(box, place, pages, "/approve", {}, OLD, NEW)
    if not is_done:
        assert box.state() in ("active", "stopped") and len(box.paths()) == COUNT + 2, (pages, box.state())
        box.approve()
    eventually(lambda: box.state() == "approved")
    assert contents(box.project) == NEW and pending(box) == COUNT + 2, pages
    finish(box, NEW)
    return is_done


def try_undo(server, place, pages):
    box = Review(server, OLD)
    box.sh(EDIT)
    box.diff()
    box.approve()
    is_done = with_little_room(box, place, pages, "/undo", {}, NEW, OLD)
    if not is_done:
        assert box.state() == "approved" and pending(box) == COUNT + 2, (pages, box.state())
        box.ok("POST", "/undo", {})
    eventually(lambda: box.state() == "stopped")
    assert contents(box.project) == OLD and pending(box) == 0 and len(box.paths()) == COUNT + 2, pages
    finish(box, OLD)
    return is_done


def finish(box, wanted):
    assert box.http("DELETE", "?purge=true")[0] == 204
    assert contents(box.project) == wanted
    shutil.rmtree(box.project)


def climb(attempt, server, place):
    """Some pages more each time, until it fits for good. The first must not. How many it took."""
    done = []
    while done[-NEEDED:] != [True] * NEEDED:
        done.append(attempt(server, place, len(done) * STEP))
        assert len(done) < 500
    assert not done[0]
    return len(done) * STEP


@pytest.mark.parametrize("attempt", (try_approval, try_undo))
def test_where_the_server_keeps_its_state(make, disk, attempt):
    server = make()
    place = disk(server.state, "64m")
    server.start()
    print("pages", climb(attempt, server, place))
    server.stop()


@pytest.mark.parametrize("attempt", (try_approval, try_undo))
def test_where_the_project_is(make, disk, tmp_path, monkeypatch, attempt):
    server = make().start()
    place = disk(tmp_path / "disk", "8m")
    monkeypatch.setattr("tempfile.tempdir", str(place))
    print("pages", climb(attempt, server, place))
