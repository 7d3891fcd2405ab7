"""Workspaces from Python, on a private server: diff, approve, reject, discard, undo, in threads and in an event loop."""

import asyncio
import os
import subprocess

import pytest
from agentfense import (
    AsyncSandbox,
    AsyncWorkspace,
    CommandTimeoutError,
    ConflictError,
    ConnectionError,
    HookFailedError,
    InvalidConfigurationError,
    NotAcknowledgedError,
    ReviewError,
    Sandbox,
    SandboxNotFoundError,
    StaleDiffError,
    Workspace,
    WouldStopError,
    _private,
    _rpc,
)
from conftest import HAS_OWN_NETWORK

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))


@pytest.fixture(scope="module", autouse=True)
def private():
    """No server is at localhost:9000 in the network of the tests. Without a network of our own, another default makes sure of that."""
    with pytest.MonkeyPatch.context() as patch:
        if not HAS_OWN_NETWORK:
            for module in (_private, _rpc):
                patch.setattr(module, "DEFAULT_ENDPOINT", "localhost:1")
        yield
        directory = _private._server.directory
        _private.stop()
        assert not os.path.exists(directory)


@pytest.fixture
def project(tree):
    return tree({"n.txt": NUMBERS, "src/app.py": "print(1)\n", "old.txt": "old\n"})


@pytest.fixture
def workspace(project):
    with Workspace.from_scope(project, preset="full-access") as workspace:
        yield workspace
        workspace.refresh()
        if workspace.status != "deleted":
            workspace.delete()


def change(workspace):
    workspace.run("sed -i '2s/.*/two/; 30s/.*/thirty/' n.txt; rm old.txt; echo new > src/new.py", raise_on_error=True)


def test_nothing_changes_until_it_is_approved(workspace, project):
    change(workspace)
    assert (project / "n.txt").read_text() == NUMBERS
    diff = workspace.diff()
    assert diff.paths == ["n.txt", "old.txt", "src/new.py"]
    assert {file.path: file.change for file in diff} == {"n.txt": "modified", "old.txt": "deleted", "src/new.py": "added"}
    assert "+thirty" in diff.text and len(diff["n.txt"].hunks) == 2
    done = workspace.approve(diff=diff)
    assert (done.applied, done.remaining) == (3, 0)
    assert (project / "src/new.py").read_text() == "new\n" and not (project / "old.txt").exists()
    assert workspace.refresh().status == "approved"


@pytest.mark.parametrize("named", [True, False], ids=["by path", "as objects"])
def test_hunks_leave_the_rest_where_it_is(workspace, project, named):
    change(workspace)
    diff = workspace.diff()
    second = diff["n.txt"].hunks[1]
    done = workspace.approve(hunks={"n.txt": [second.id]} if named else [second])
    assert done.files == {"n.txt": "partly"} and done.remaining == 3
    assert (project / "n.txt").read_text() == NUMBERS.replace("30\n", "thirty\n", 1)
    assert [hunk.id for hunk in workspace.diff("n.txt").hunks] == [diff["n.txt"].hunks[0].id]


def test_files_undo_discard(workspace, project):
    change(workspace)
    diff = workspace.diff()
    approval = workspace.approve(files=["src", diff["old.txt"]])
    assert not (project / "old.txt").exists() and (project / "src/new.py").exists()
    assert workspace.undo(dry_run=True).is_dry and not (project / "old.txt").exists()
    assert workspace.undo(approval.id).undone == 2
    assert (project / "old.txt").read_text() == "old\n" and not (project / "src/new.py").exists()
    assert workspace.discard("n.txt") == 1
    assert "n.txt" not in workspace.diff().paths
    assert workspace.run("sed -n 2p n.txt").stdout == "2\n"


def test_hooks_try_changes_before_they_land(project):
    hook = {"name": "no-todo", "command": "/bin/sh", "args": ["-c", "! grep -n TODO src/app.py"]}
    with Workspace.from_scope(project, preset="full-access", behavior={"hooks": [hook]}) as workspace:
        workspace.run("echo '# TODO' >> src/app.py")
        workspace.diff()
        with pytest.raises(HookFailedError) as caught:
            workspace.approve()
        assert [(ran["name"], ran["exitCode"]) for ran in caught.value.hooks] == [("no-todo", 1)]
        assert "2:# TODO" in caught.value.hooks[0]["output"] and (project / "src/app.py").read_text() == "print(1)\n"
        workspace.run("echo 'print(2)' > src/app.py")
        assert workspace.approve(diff=workspace.diff()).applied == 1
        assert (project / "src/app.py").read_text() == "print(2)\n"


def test_what_would_stop_it_wants_consent(project):
    """On overlayfs a file that a process has open cannot be given up beneath it."""
    try:
        workspace = Workspace.from_scope(project, preset="full-access", driver="overlayfs")
    except ReviewError as problem:
        pytest.skip(f"no overlayfs here: {problem}")
    with workspace:
        workspace.run("setsid sh -c 'exec 3>>old.txt; echo more >&3; sleep 100' >/dev/null 2>&1 & until grep -q more old.txt; do sleep 0.1; done")
        with pytest.raises(WouldStopError) as caught:
            workspace.discard("old.txt")
        assert caught.value.reason == "WOULD_STOP" and workspace.diff().paths == ["old.txt"]
        assert workspace.discard("old.txt", stop=True) == 1
        workspace.refresh()
        assert workspace.status == "active" and workspace.run("cat old.txt").stdout == "old\n"


def test_what_was_deleted_comes_back_with_its_changes(workspace):
    change(workspace)
    workspace.delete()
    workspace.restore()
    assert workspace.status == "stopped" and len(workspace.diff().paths) == 3
    workspace.delete(purge=True)
    with pytest.raises(ReviewError):
        workspace.restore()


def test_the_end_of_a_run_decides_what_needs_nobody(project):
    acceptance = {"allow": {"pathGlobs": ["src/**"]}, "autoApprove": True}
    with Workspace.from_scope(project, preset="full-access", behavior={"acceptance": acceptance}) as workspace:
        workspace.run("echo new > src/new.py; echo x > outside.txt")
        done = workspace.finish()
        assert done.decision == "none" and "not every change is accepted" in done.reason
        workspace.run("rm outside.txt")
        done = workspace.finish()
        assert (done.decision, done.applied, workspace.status) == ("approved", 1, "approved")
    assert (project / "src/new.py").read_text() == "new\n" and not (project / "outside.txt").exists()


def test_what_nobody_saw_is_not_approved(workspace, project):
    change(workspace)
    with pytest.raises(StaleDiffError) as caught:
        workspace.approve()
    assert caught.value.reason == "DIFF_NOT_SERVED" and "n.txt" in caught.value.files
    diff = workspace.diff()
    workspace.run("echo more >> n.txt")
    with pytest.raises(StaleDiffError):
        workspace.approve(diff=diff)
    assert (project / "n.txt").read_text() == NUMBERS


def test_conflicts_and_what_runs_by_itself_are_refused(workspace, project):
    workspace.run("sed -i '2s/.*/two/' n.txt; echo x > .envrc")
    (project / "n.txt").write_text(NUMBERS.replace("2\n", "TWO\n", 1))
    workspace.diff()
    assert workspace.conflicts().conflicting == ["n.txt"]
    with pytest.raises(ConflictError) as caught:
        workspace.approve(["n.txt"])
    assert caught.value.files == ["n.txt"] and isinstance(caught.value, ReviewError)
    with pytest.raises(NotAcknowledgedError):
        workspace.approve([".envrc"])
    assert workspace.approve([".envrc"], acknowledge=True, dry_run=True).is_dry
    assert not (project / ".envrc").exists()
    assert workspace.approve([".envrc"], acknowledge=[".envrc"]).applied == 1


def test_a_commit_has_what_was_approved(project):
    for words in (["init", "-q"], ["config", "user.name", "n"], ["config", "user.email", "m@x"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    with Workspace.from_scope(project, preset="full-access") as workspace:
        change(workspace)
        done = workspace.approve(diff=workspace.diff(), commit=True, message="from the agent")
        assert done.commit and not done.commit_error
    told = subprocess.run(["git", "-C", project, "log", "-1", "--format=%s"], capture_output=True, text=True, check=True)
    assert told.stdout == "from the agent\n"


def test_the_end_of_the_block_keeps_what_waits_and_removes_what_is_decided(project):
    with Workspace.from_scope(project, preset="full-access") as workspace:
        change(workspace)
    again = Workspace.connect(workspace.id)
    assert again.status == "stopped" and len(again.diff()) == 3
    with again:
        again.reject()
        assert again.status == "rejected"
    assert Workspace.connect(workspace.id).status == "deleted"
    assert (project / "n.txt").read_text() == NUMBERS


def test_commands(workspace):
    result = workspace.run(["sh", "-c", "cat; echo $A; pwd; exit 3"], env={"A": "b"}, workdir="src", stdin="in\n")
    assert (result.exit_code, result.stdout.split()[:2]) == (3, ["in", "b"])
    with pytest.raises(CommandTimeoutError):
        workspace.run("sleep 60", timeout=1)


def test_rules_hold(project):
    with Workspace.from_scope(project, permissions=[{"pattern": "/src/**", "permission": "read"}]) as workspace:
        assert workspace.run("cat src/app.py").stdout == "print(1)\n"
        assert not workspace.run("cat n.txt").success
        assert not workspace.run("echo x > src/app.py").success
        workspace.delete()


def test_refusals(project, tmp_path):
    with pytest.raises(SandboxNotFoundError):
        Workspace.connect("83300d2c-bd63-41e4-853b-58b605352f6b")
    with pytest.raises(InvalidConfigurationError):
        Workspace.from_scope(project, driver="none-such")
    with pytest.raises(InvalidConfigurationError):
        Workspace.from_scope(project, url="ftp://x")
    with pytest.raises(ConnectionError):
        Workspace.connect("83300d2c-bd63-41e4-853b-58b605352f6b", url=f"unix:{tmp_path}/none")


def test_in_an_event_loop(project):
    async def main():
        async with await AsyncSandbox.from_scope(project, preset="full-access") as workspace:
            assert isinstance(workspace, AsyncWorkspace)
            results = await asyncio.gather(*(workspace.run(f"echo {n} > f{n}") for n in range(4)))
            assert all(result.success for result in results)
            diff = await workspace.diff()
            assert len(diff) == 4
            done = await workspace.approve(["f1"])
            await workspace.undo(done.id)
            await workspace.reject()
            return (project / "f1").exists()

    assert asyncio.run(main()) is False


def test_the_short_way(project):
    with Sandbox.from_scope(project) as workspace:
        assert isinstance(workspace, Workspace) and workspace.status == "active"
        workspace.delete()
