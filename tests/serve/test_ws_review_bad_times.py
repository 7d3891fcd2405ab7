"""Reviews when things go wrong: the server killed while it applies, agents that change what is being looked at."""

import contextlib
import fcntl
import itertools
import json
import os
import random
import resource
import shutil
import threading
import time

import pytest
from review import Review
from server import eventually, sandbox_id
from workspace import may_lack

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
ROUNDS = {"fence": 300 if IS_LONG else 8, "overlayfs": 100 if IS_LONG else 3, "copy": 100 if IS_LONG else 3}
FAULTS = ("approve-grounds-kept", "landing-intent", "landing-landed", "landing-noted", "landing-follow-up", "review_noted", "review_ended")
COUNT = 12


def contents(box):
    return [(box.project / f"f{n}").read_text() for n in range(COUNT)] + [(box.project / "gone").exists(), (box.project / "new/x").exists()]


OLD = [f"old {n}\n" for n in range(COUNT)] + [True, False]
NEW = [f"new {n}\n" for n in range(COUNT)] + [False, True]


def make_changed(server, **more):
    box = Review(server, {**{f"f{n}": f"old {n}\n" for n in range(COUNT)}, "gone": "goes\n", "kept": "k\n"}, **more)
    box.sh(f"for n in $(seq 0 {COUNT - 1}); do echo new $n > f$n; done; rm gone; mkdir new; echo x > new/x")
    box.diff()
    return box


def settle(server, box):
    """After a kill: all of it or nothing, and what is not there yet can be had."""
    server.start()
    state = contents(box)
    assert state in (OLD, NEW), state
    status = box.state()
    if state == NEW:
        # Applied, so also known.
        pending = server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]
        assert pending["totalFiles"] == COUNT + 2, (status, pending)
    box.diff()
    answer = box.approve()
    assert contents(box) == NEW and answer["status"] == "approved", answer
    pending = server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]
    assert pending["totalFiles"] == COUNT + 2
    assert leftovers(box) == []
    box.remove()
    return state == NEW


@pytest.mark.parametrize("driver", ROUNDS)
def test_killed_while_it_applies_it_is_old_or_new(make, driver):
    server = make().start()
    if not next(option["available"] for option in server.http("GET", "/api/v1/driver/options")[1]["options"] if option["id"] == driver):
        assert may_lack(driver)
        pytest.skip(f"this host has no {driver}")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    seen = set()
    latest = 0.08  # seconds until the kill; follows how long an approval takes on this machine just now
    for _ in range(ROUNDS[driver]):
        box = make_changed(server, driver=driver)
        partly = dice.random() < 0.5
        body = {"files": [f"f{n}" for n in range(COUNT)] + ["gone", "new"]} if partly else {}
        if partly:
            box.sh("echo other > kept")

        def approve(box=box, body=body):
            try:
                box.http("POST", "/approve", body)
            except (OSError, json.JSONDecodeError):
                pass

        thread = threading.Thread(target=approve)
        thread.start()
        time.sleep(dice.random() * latest)
        server.kill()
        thread.join()
        if partly:
            # The rest is there, too, whatever became of the part.
            server.start()
            assert "kept" in box.paths()
            assert (box.project / "kept").read_text() == "k\n"
            assert box.sh("cat kept")["stdout"] == "other\n"
            box.ok("POST", "/discard", {"filePaths": ["kept"], "stop": True})
            server.kill()
        was_applied = settle(server, box)
        seen.add(was_applied)
        latest *= 0.8 if was_applied else 1.25
    assert seen == {True, False} or not IS_LONG, "of so many kills some came too late, and some early enough"


def test_killed_while_a_copy_is_compared_it_can_be_compared_again(make):
    server = make()
    environment = server.environment
    server.start()
    box = make_changed(server, driver="copy")
    before = box.paths()
    server.stop()
    for nth in (1, 2):
        server.environment = lambda nth=nth: {**environment(), "AGENTFENSE_FAULT": f"copy-delta-emptied:{nth}"}
        server.start()
        with pytest.raises((OSError, json.JSONDecodeError)):
            box.diff()
        server.process.wait()
    server.environment = environment
    server.start()
    assert box.paths() == before != []
    assert box.approve()["status"] == "approved" and contents(box) == NEW
    box.remove()


def leftovers(box):
    return [name for name in os.listdir(box.project) if name.startswith(".af-tmp")]


def cut_short(server):
    """An approval that failed, and that had no descriptors left to take its files away again, say: nobody but the delta knows them."""
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "landing-staged"}
    box = make_changed(server.start())
    with pytest.raises((OSError, json.JSONDecodeError)):
        box.http("POST", "/approve", {})
    server.process.wait()
    assert leftovers(box)
    server.environment = environment
    return box


def test_who_is_deleted_leaves_nothing_in_the_project(make):
    server = make()
    box = cut_short(server)
    with locked(box.project):
        server.start()
        assert leftovers(box)
    assert box.http("DELETE", "")[0] in (200, 204)
    assert not leftovers(box) and contents(box) == OLD


@contextlib.contextmanager
def locked(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@pytest.mark.parametrize("query", ("", "?purge=true"))
def test_who_cannot_be_tidied_up_after_is_not_deleted(make, query):
    server = make()
    box = cut_short(server)
    with locked(box.project):
        server.start()
        status, answer = box.http("DELETE", query)
        assert status == 409 and "project" in answer["error"], answer
        assert box.state() == "stopped"
    assert box.http("DELETE", query)[0] in (200, 204)
    assert not leftovers(box) and contents(box) == OLD


def test_who_has_nothing_to_tidy_up_is_deleted_whoever_writes_to_its_project(make):
    box = make_changed(make().start())
    with locked(box.project):
        assert box.http("DELETE", "?purge=true")[0] in (200, 204)


def test_who_has_lost_its_project_is_deleted(make):
    server = make()
    box = cut_short(server)
    shutil.rmtree(box.project)
    server.start()
    assert box.http("DELETE", "?purge=true")[0] in (200, 204)


@pytest.mark.databases
def test_two_decide_at_the_same_time_and_one_after_the_other(server):
    box = make_changed(server)
    answers = []

    def approve(n):
        answers.append(box.http("POST", "/approve", {"files": [f"f{n}"]}))

    threads = [threading.Thread(target=approve, args=(n,)) for n in range(COUNT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * COUNT, answers
    assert contents(box)[:COUNT] == NEW[:COUNT] and box.paths() == ["gone", "new/x"]
    box.remove()


HOSTILE = """
while :; do
  ln -sfn /etc/passwd victim; rm -f victim; echo fine > victim
  rm -rf dir; ln -s /etc dir; rm -f dir; mkdir dir; echo x > dir/passwd
  mv -T dir dir2 2>/dev/null; ln -sfn /root dir; rm -f dir; mv -T dir2 dir 2>/dev/null
done
"""


def test_an_agent_that_changes_what_is_looked_at_gains_nothing(server):
    box = Review(server, {"README": "r\n"})
    secret = server.top / "secret"
    secret.write_text("TOP SECRET\n")
    box.start_process(HOSTILE.replace("/etc/passwd", str(secret)))
    eventually(lambda: box.paths())
    until, looked, applied = time.monotonic() + (60 if IS_LONG else 2), 0, 0
    while time.monotonic() < until:
        diff = box.diff()
        assert "root:" not in json.dumps(diff) and "TOP SECRET" not in json.dumps(diff)
        looked += 1
        status, answer = box.http("POST", "/approve", {"files": ["victim"], "acknowledge": True})
        assert status in (200, 404, 409), (status, answer)
        applied += status == 200
        if status == 200 and answer["status"] != "active":
            box.ok("GET", "")
            break
        landed = box.project / "victim"
        if landed.is_symlink():
            assert os.readlink(landed) == str(secret)  # a link as it was shown, not what it leads to
        elif landed.exists():
            assert landed.read_text() in ("fine\n", "")
    assert secret.read_text() == "TOP SECRET\n" and looked > 0
    box.remove()


def test_an_approval_that_ends_it_leaves_nothing_behind(server):
    """The agent writes until it is dead: what it writes last is applied, or refuses the approval."""
    ended = 0
    for _ in range(6):
        box = Review(server, {"README": "r\n"})
        box.start_process("n=0; while sleep 0.03; do n=$((n+1)); echo $n > file$n; done")
        eventually(lambda box=box: box.paths())
        for _ in range(20):
            shown = box.paths()
            status, answer = box.http("POST", "/approve", {"files": shown} if shown else {})
            assert status in (200, 409), (status, answer)
            if box.state() != "active":
                break
        if box.state() == "approved":
            ended += 1
            assert box.diff()["files"] == []
        box.remove()
    print("approved", ended)


def test_an_approval_goes_on_in_the_next_server(make):
    """Killed right after it was written down, and after the landing: nothing is lost, nothing doubled."""
    reached = []
    for fault in FAULTS:
        server = make()
        environment = server.environment
        server.environment = lambda environment=environment, fault=fault: {**environment(), "AGENTFENSE_FAULT": fault}
        try:
            server.start()
        except AssertionError:
            pytest.skip("this build has no faults")
        box = make_changed(server)
        try:
            box.http("POST", "/approve", {})
        except (OSError, json.JSONDecodeError):
            reached.append(fault)
        server.environment = environment
        server.kill()
        settle(server, box)
    if not reached:
        pytest.skip("this build has no faults")
    assert reached == list(FAULTS)


def as_the_first_edition_had_it(server):
    """What was being done was in a file beside the delta, and the landing's journal had no follow-up."""
    (journal,) = server.state.rglob("meta/approvals/ap_*/journal")
    left = journal.read_bytes()
    kept = []

    def take(length):
        nonlocal left
        kept.append(left[:length])
        left = left[length:]
        return kept[-1]

    def take_text():
        return take(left.index(b"\0") + 1)[:-1]

    assert take_text() == b"agentfense-landing-2"
    kept[:] = [b"agentfense-landing-1\0"]
    for _ in ("state", "time", "undoes"):
        take_text()
    for _ in ("notes", "back", "drops"):
        take(int(take_text()))
    before = b"".join(kept)
    form, follow_up = take(int(take_text())).split(b"\0", 1)
    assert form == b"agentfense-follow-up-1"
    assert take_text() == b""  # of no codebase
    journal.write_bytes(before + left)
    (journal.parents[4] / "deciding").write_bytes(b"kind\0approve\0id\0" + journal.parent.name.encode() + b"\0" + follow_up)


@pytest.mark.parametrize("point", ["landing-intent", "landing-landed"])
def test_what_a_server_of_the_first_edition_left_is_finished(make, point):
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    box = make_changed(server.start())
    with pytest.raises((OSError, json.JSONDecodeError)):
        box.http("POST", "/approve", {})
    server.process.wait()
    server.environment = environment
    as_the_first_edition_had_it(server)
    server.start()
    assert contents(box) == NEW and box.state() == "approved"
    assert server.http("GET", f"/api/v1/pending?projectRoot={box.project}")[1]["totalFiles"] == COUNT + 2
    assert not list(server.state.rglob("deciding"))
    box.remove()


def test_what_a_server_of_the_first_edition_left_and_nobody_can_read_is_put_away(make):
    server = make().start()
    box = make_changed(server)
    server.kill()
    (delta,) = server.state.rglob("delta")
    (delta.parent / "deciding").write_bytes(b"kind\0appr")
    server.start()
    assert not list(server.state.rglob("deciding")) and contents(box) == OLD
    assert box.approve()["status"] == "approved" and contents(box) == NEW
    box.remove()


def test_without_descriptors_nobody_is_told_what_is_not_so(make, tmp_path):
    """Short of one at any step: a refusal for that reason, or the answer. Never that the request was wrong, or the changes gone."""
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "sandbox-held"}
    server.start()
    box = make_changed(server)
    box.ok("POST", "/stop")
    pid, place = server.process.pid, tmp_path / "other"
    place.mkdir()
    usual, seen = resource.prlimit(pid, resource.RLIMIT_NOFILE), set()
    connection = server.connect()

    def ask(verb, path, body=None):
        connection.request(verb, f"/api/v1/sandboxes{path}", json.dumps(body) if body else None)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None

    requests = [("GET", f"/{box.id}/diff", None), ("GET", f"/{box.id}/conflicts", None),
                ("POST", f"/{box.id}/approve", {"files": ["f1"], "dryRun": True}), ("POST", "", {"projectRoot": str(place)})]
    for more, request in itertools.product(range(40), requests):
        assert ask("GET", f"/{box.id}")[0] == 200
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + more, usual[1]))
        try:
            status, answer = ask(*request)
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        assert status in (200, 201, 429, 503), (more, request, status, answer)
        seen.add(status)
        if status == 201:
            assert ask("DELETE", f"/{answer['id']}?purge=true")[0] == 204
    connection.close()
    assert {200, 201, 429} <= seen, seen
    assert len(box.paths()) == COUNT + 2 and contents(box) == OLD
    # Nor is anything left of those that could not be made.
    sandboxes = server.state / "sandboxes"
    eventually(lambda: [path.name for path in sandboxes.glob("sb_*")] == [sandbox_id(box.id)])
