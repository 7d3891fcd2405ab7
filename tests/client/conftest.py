import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from place import CHANGE, NUMBERS, Place  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANDBOX_ID = re.compile(r"sb_[0-9a-f]{16}")


@pytest.fixture(scope="session")
def agentfense():
    path = pathlib.Path(os.environ.get("AGENTFENSE", ROOT / "build" / "src" / "cli" / "agentfense"))
    if not path.exists():
        pytest.fail(f"{path} is not built; the variable AGENTFENSE names the program under test")
    return path.resolve()


@pytest.fixture(scope="module", params=["private", "remote"])
def cli(request, agentfense):
    """The same verbs, once with the private server that they start and once with another: what they do and say is the same."""
    place = Place(agentfense, request.param == "remote")
    try:
        if place.is_remote:
            place.serve()
        yield place
    finally:
        place.remove()


@pytest.fixture
def make(agentfense):
    """Places of a test's own."""
    places = []

    def make_place():
        places.append(Place(agentfense, False))
        return places[-1]

    yield make_place
    for place in places:
        place.remove()


@pytest.fixture
def tree(tmp_path):
    """A directory with all that a codebase keeps."""
    top = tmp_path / "tree"
    (top / "src" / "deep").mkdir(parents=True)
    (top / "README").write_text("read me\n")
    (top / "src" / "a.py").write_text("print('a')\n")
    (top / "src" / "deep" / "b b.txt").write_text("blank\n")
    (top / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("src/a.py")
    (top / "empty").mkdir()
    return top


@pytest.fixture
def codebase(cli, tree):
    made = cli.say("codebase", "create", "test", tree)
    yield made
    cli.run("codebase", "rm", "-f", made)


@pytest.fixture
def sandbox(cli, codebase):
    made = cli.say("create", "--preset", "full-access", "--start", codebase)
    yield made
    cli.run("rm", "-f", made)


@pytest.fixture
def project(tmp_path):
    """A directory to make sandboxes over."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "n.txt").write_text(NUMBERS)
    (top / "old.txt").write_text("old\n")
    (top / "src" / "app.py").write_text("print(1)\n")
    return top


@pytest.fixture
def made(cli, project):
    workspace = cli.say("create", "--scope", project, "--preset", "full-access", "--owner", "me")
    assert SANDBOX_ID.fullmatch(workspace)
    yield workspace
    cli.run("rm", "-f", workspace)


@pytest.fixture
def changed(cli, made):
    cli.run("exec", made, "--", CHANGE)
    return made
