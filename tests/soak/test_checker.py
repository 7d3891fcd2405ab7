"""That the soak test tells a loss: a server that lies, and what the accounts make of it."""

import os
import random
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import leaks  # noqa: E402
from checker import Checker  # noqa: E402
from model import ABSENT, Attempt, Cell, Model  # noqa: E402
from report import Report  # noqa: E402


@pytest.fixture
def checker():
    return Checker()


def test_what_was_acknowledged_must_be_there(checker):
    cell = Cell(b"old")
    Attempt({cell: b"new"}).acknowledge()
    assert checker.compare("f", cell, b"new") and not checker.losses
    assert not checker.compare("f", cell, b"old")
    assert [loss["what"] for loss in checker.losses] == ["f"] and "new" in checker.losses[0]["expected"]
    assert checker.compare("f", cell, b"old") and len(checker.losses) == 1, "a loss is told once"


def test_what_is_gone_is_a_loss(checker):
    cell = Cell(b"old")
    assert not checker.compare("f", cell, ABSENT) and checker.losses


def test_what_was_refused_must_not_be_there(checker):
    cell = Cell(b"old")
    Attempt({cell: b"new"}).refuse()
    assert not checker.compare("f", cell, b"new")


@pytest.mark.parametrize("first", [b"old", b"new"])
def test_an_answer_that_was_lost_leaves_two_and_the_next_look_decides(checker, first):
    cell = Cell(b"old")
    Attempt({cell: b"new"})
    assert checker.compare("f", cell, first)
    assert not checker.compare("f", cell, b"new" if first == b"old" else b"old")


def test_what_was_never_written_is_a_loss_even_in_doubt(checker):
    cell = Cell(b"old")
    Attempt({cell: b"new"})
    assert not checker.compare("f", cell, b"")


def test_one_call_does_all_or_nothing(checker):
    one, two = Cell(b"1"), Cell(b"2")
    for found, is_right in (({one: b"1", two: b"2"}, True), ({one: b"x", two: b"y"}, True), ({one: b"x", two: b"2"}, False)):
        one.settle(b"1")
        two.settle(b"2")
        assert checker.compare_all("both", Attempt({one: b"x", two: b"y"}), found) is is_right
    assert len(checker.losses) == 1


class Liar:
    """A server of one file that now and then forgets what it said."""

    name = "liar"

    def __init__(self, forgets, loses):
        self.files, self.forgets, self.loses = {}, forgets, loses
        self.version = 0
        self.dice = random.Random(1)

    def put(self, _, path, content):
        from carrier import Lost

        if not self.dice.random() < self.forgets:
            self.files[path] = content
        if self.dice.random() < self.loses:
            raise Lost("UNAVAILABLE: as if it were killed")
        self.version += 1
        return self.version

    put_archive = None

    def get(self, _, path, version=0):
        from carrier import Refused

        if path not in self.files:
            raise Refused("NOT_FOUND", "no such file")
        return self.files[path]

    def close(self):
        pass


class Ground:
    """What an actor needs of a stage."""

    seed = 1

    def __init__(self):
        self.checker, self.model = Checker(), Model()
        self.lock = threading.Lock()

    def note_refusal(self, *_):
        pass


def work(liar, steps=300):
    pytest.importorskip("grpc")
    from carrier import Lost
    from codebase_load import CodebaseUser

    ground = Ground()
    user = CodebaseUser("user", ground, None)
    user.codebase, user.carrier = "cb", lambda *_: liar
    for _ in range(steps):
        try:
            user.dice.choice((user.upload, user.look))()
        except Lost:
            pass
    return ground.checker


def test_an_honest_server_loses_nothing_even_when_answers_are_lost():
    checker = work(Liar(forgets=0, loses=0.3))
    assert checker.count > 100 and not checker.losses


def test_a_server_that_forgets_is_found_out():
    assert work(Liar(forgets=0.05, loses=0)).losses


class Desk:
    """A server of one workspace. Some calls are cut off before they do anything, some after it; what it does it does as it should."""

    def __init__(self, project, loses):
        self.project, self.loses = project, loses
        self.delta, self.approvals = {}, []
        self.dice = random.Random(2)

    def ask(self, verb, path, body=None, **_):
        from carrier import Lost

        path = path.removeprefix("/ws")
        if verb == "GET":
            return {"files": [{"filePath": name} for name in sorted(self.delta)], "diffHash": "h", "status": "approved"}
        fate = self.dice.random() if verb == "POST" else 1
        if fate < self.loses / 2:
            raise Lost("as if it were killed before")
        getattr(self, verb.lower() + path.partition("?")[0].replace("/", "_"))(body)
        if fate < self.loses:
            raise Lost("as if it were killed behind")
        return None

    def post_approve(self, body):
        self.approvals.append({name: (self.project / name).read_bytes() for name in body["files"]})
        for name in body["files"]:
            (self.project / name).write_bytes(self.delta.pop(name))

    def post_undo(self, _):
        from carrier import Refused

        if not self.approvals:
            raise Refused("HTTP 404", "there is no approval to be undone")
        for name, content in self.approvals.pop().items():
            (self.project / name).write_bytes(content)

    def delete(self, _):
        self.delta, self.approvals = {}, []


def test_an_approval_that_did_nothing_is_not_undone(tmp_path):
    pytest.importorskip("grpc")
    from carrier import Refused
    from workspace_load import FILES, Reviewer

    ground = Ground()
    reviewer = Reviewer("reviewer", ground, tmp_path / "project")
    desk = Desk(reviewer.project.place, loses=0.6)
    reviewer.ask = desk.ask
    for _ in range(200):
        reviewer.id = "ws"
        for n in range(FILES):
            desk.delta[f"f{n}"] = reviewer.token().encode()
            reviewer.delta[f"f{n}"] = Cell(desk.delta[f"f{n}"])
        try:
            reviewer.approve_some()
        except Refused:
            pass
        reviewer.project.check(reviewer.name, ground.checker)
    assert ground.checker.count > 1000 and not ground.checker.losses, ground.checker.losses[:3]


def phase(**more):
    return {"phase": "p", "operations": {}, "answers": {}, "faults": {}, "checks": 1, "losses": [], "crashes": [], "broken": [],
            "refusals without a fault": [], "leaks": {}, **more}


@pytest.mark.parametrize("bad", [{"losses": [{}]}, {"crashes": ["x"]}, {"broken": ["x"]}, {"refusals without a fault": ["x"]},
                                 {"leaks": {"descriptors": ["socket"]}}])
def test_whatever_is_wrong_is_the_result(bad):
    report = Report(1, 1)
    assert not report.is_good, "nothing was tried"
    report.phases = [phase()]
    assert report.is_good
    report.phases = [phase(), phase(**bad)]
    assert not report.is_good


def test_a_start_that_nobody_has_any_more_is_seen():
    words = ["sh", "-c", "echo up; read line", "--info-fd", "5", "--", "/run/agentfense/init"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        assert [line for line in leaks.orphans() if line.startswith(f"{process.pid} ")]
        process.communicate(b"\n")
