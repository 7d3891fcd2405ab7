"""Every method of a sandbox over each of the three bases, with threads and in an event loop: the tests are written once, and `Waiting` waits
for the coroutines."""

import asyncio
import contextlib
import hashlib
import inspect
import io
import subprocess

import agentfense
import pytest
from agentfense import (
    AsyncSandbox,
    ConflictError,
    InvalidConfigurationError,
    NotAcknowledgedError,
    Permission,
    ReviewError,
    Sandbox,
    SandboxClient,
    SandboxError,
    SandboxNotFoundError,
    SandboxStatus,
    StaleDiffError,
)
from conftest import eventually

pytestmark = pytest.mark.usefixtures("server")

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))
FILES = {"n.txt": NUMBERS, "src/app.py": "print(1)\n", "old.txt": "old\n"}


class Waiting:
    """A sandbox, a part of one or a session with an event loop, used without."""

    def __init__(self, loop, target):
        self._loop, self._target = loop, target

    def __getattr__(self, name):
        value = getattr(self._target, name)
        if type(value).__module__ == "agentfense.async_parts":
            return Waiting(self._loop, value)
        if not callable(value):
            return value

        def call(*args, **named):
            result = value(*args, **named)
            if inspect.isawaitable(result):
                result = self._loop.run_until_complete(result)
            is_one_of_ours = type(result).__name__.startswith("Async")
            return Waiting(self._loop, result) if is_one_of_ours else result

        return call

    def __iter__(self):
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._loop.run_until_complete(self._target.__anext__())

    def __enter__(self):
        self._loop.run_until_complete(self._target.__aenter__())
        return self

    def __exit__(self, *exc):
        self._loop.run_until_complete(self._target.__aexit__(*exc))


@pytest.fixture(params=["threads", "loop"])
def manner(request):
    """How a sandbox is made: manner("over", path, ...) is Sandbox.over(path, ...)."""
    if request.param == "threads":
        yield lambda method, *args, **options: getattr(Sandbox, method)(*args, **options)
        return
    loop = asyncio.new_event_loop()
    yield lambda method, *args, **options: Waiting(loop, loop.run_until_complete(getattr(AsyncSandbox, method)(*args, **options)))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def project(tree):
    return tree(FILES)


@pytest.fixture(params=["copy", "codebase", "over"])
def make(request, manner, project):
    """Makes sandboxes over the same files in one of three ways. Nothing reaches the files before it is approved."""
    with contextlib.ExitStack() as stack:
        codebase = None
        if request.param == "codebase":
            client = stack.enter_context(SandboxClient())
            codebase = client.create_codebase("made", "me")
            stack.callback(client.delete_codebase, codebase.id, True)
            client.upload_directory(codebase.id, project)

        def one(**options):
            if "permissions" not in options:
                options.setdefault("preset", "full-access")
            if request.param == "over":
                made = manner("over", project, **options)
                made.base = lambda path: (project / path).read_text()
            else:
                way = ("from_local", project) if request.param == "copy" else ("from_codebase", codebase.id)
                made = manner(*way, sync_on_completion=False, **options)
                made.base = made.read_file
            made.is_over = request.param == "over"
            stack.callback(end, made)
            return made

        yield one


def end(made):
    """Removes it, whatever the test did with it."""
    with contextlib.suppress(SandboxError):
        made.delete(purge=True)
    made.close()


@pytest.fixture
def box(make):
    return make()


def change(box):
    box.run("sed -i '2s/.*/two/; 30s/.*/thirty/' n.txt; rm old.txt; echo new > src/new.py", raise_on_error=True)


# ---- what it is


def test_what_is_known_of_it(make, project):
    box = make(name="known", tags=["one", "two"], metadata={"ticket": 7}, labels={"team": "red"}, env={"MARK": "set"})
    assert (box.name, box.info.tags, box.info.metadata, box.info.labels) == ("known", ["one", "two"], {"ticket": 7}, {"team": "red"})
    assert (box.status, box.decision, box.info.state) == (SandboxStatus.RUNNING, "open", "active")
    assert box.run("echo $MARK").stdout == "set\n"
    if box.is_over:
        assert box.directory == str(project) == box.info.project_root and box.codebase_id == ""
        with pytest.raises(SandboxError, match="has no codebase"):
            box.codebase  # noqa: B018
    else:
        assert box.directory == "" and box.codebase.id == box.codebase_id
    with SandboxClient() as client:
        assert [one.id for one in client.list_sandboxes(name="known", base="directory" if box.is_over else "codebase")] == [box.id]
        assert [one.id for one in client.list_sandboxes(tags=["two"], labels={"team": "red"}, status="running")] == [box.id]
        with pytest.raises(InvalidConfigurationError, match="'maybe' is no SandboxDecision"):
            client.list_sandboxes(decision="maybe")


def test_its_life(box, manner):
    box.run("echo kept > new.txt")
    assert box.stop().status == SandboxStatus.STOPPED and box.start().status == SandboxStatus.RUNNING
    assert box.refresh().run("cat new.txt").stdout == "kept\n"
    box.stop()
    for ask in (lambda: box.run("true"), lambda: box.files.read("n.txt"), lambda: box.processes.start("true")):
        with pytest.raises(agentfense.SandboxNotRunningError):
            ask()
    box.start()
    other = manner("connect", box.id)
    assert other.run("cat new.txt").stdout == "kept\n"
    other.close()
    assert box.run("true").success, "the end of a connection is not the sandbox's"


def test_deleted_and_restored(box, manner):
    change(box)
    box.delete()
    assert box.status == SandboxStatus.DELETED
    with pytest.raises(SandboxNotFoundError):
        manner("connect", box.id)
    other = manner("connect", box.id, include_deleted=True)
    assert other.info.restorable_until is not None
    other.close()
    box.restore()
    assert box.status == SandboxStatus.STOPPED and len(box.diff()) == 3
    assert box.start().run("cat src/new.py").stdout == "new\n"
    box.delete(purge=True)
    with pytest.raises((ReviewError, SandboxNotFoundError)):
        box.restore()


# ---- commands


def test_commands_and_their_input(box, tmp_path):
    for run in (box.run, box.commands.run):
        result = run(["sh", "-c", "cat; echo \"$A\"; pwd; exit 3"], env={"A": "b c"}, cwd="src", stdin="in\n")
        assert (result.exit_code, result.stdout.split("\n")[:2]) == (3, ["in", "b c"]) and result.stdout.endswith("/src\n")
        assert run("wc -c", stdin=b"\0\xff\n").stdout.split() == ["3"]
        (tmp_path / "input").write_bytes(b"from a file\n")
        with open(tmp_path / "input", "rb") as file:
            assert run("cat", stdin=file).stdout == "from a file\n"
        assert run("cat", stdin=io.StringIO("text\n")).stdout == "text\n"
        assert run(["echo", "a  b", "$HOME"]).stdout == "a  b $HOME\n"
        with pytest.raises(agentfense.CommandTimeoutError):
            run("sleep 60", timeout=0.5)
        with pytest.raises(agentfense.CommandExecutionError):
            run("exit 3", raise_on_error=True)


def test_input_of_any_size(box, tmp_path):
    large = b"0123456789" * 600000
    (tmp_path / "large").write_bytes(large)
    assert box.run("sha256sum", stdin=large).stdout.split()[0] == hashlib.sha256(large).hexdigest()
    with open(tmp_path / "large", "rb") as file:
        assert box.run(["sh", "-c", "wc -c; echo $A >&2; pwd; exit 3"], stdin=file, env={"A": "b"}, cwd="src").exit_code == 3
    with open(tmp_path / "large") as file:
        result = box.commands.run("head -c 3; echo err >&2", stdin=file)
    assert (result.stdout, result.stderr) == ("012", "err\n"), "it need not read all"
    pieces = []
    assert box.run("cat", stdin=large, on_stdout=pieces.append).stdout == large.decode() == "".join(pieces)
    with pytest.raises(agentfense.CommandTimeoutError):
        box.run("sleep 60", stdin=large, timeout=0.5)
    box.run("cat > large.txt", stdin=large)
    assert box.diff()["large.txt"].change == "added"
    with pytest.raises(InvalidConfigurationError, match="to `run` only"):
        box.commands.stream("cat", stdin=large)


def test_output_as_it_comes(box):
    said = {"out": [], "err": []}
    result = box.run("echo one; echo two >&2; printf 'ü'; exit 4", on_stdout=said["out"].append, on_stderr=said["err"].append)
    assert ("".join(said["out"]), "".join(said["err"])) == ("one\nü", "two\n") == (result.stdout, result.stderr)
    assert result.exit_code == 4 and result.duration.total_seconds() > 0

    def give_up(text):
        raise KeyError(text)

    with pytest.raises(KeyError):
        box.run("echo one; sleep 1000; echo two > late", on_stdout=give_up)
    eventually(lambda: "sleep 1000" not in box.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout)
    stream = box.commands.stream("echo one; echo two >&2; exit 5")
    pieces = list(stream)
    assert {(piece.stream, piece.text) for piece in pieces} == {("stdout", "one\n"), ("stderr", "two\n")} and stream.exit_code == 5
    assert b"".join(box.exec_stream(["echo", "x"])) == b"x\n"


# ---- by subject


def test_files(make):
    box = make(permissions=[{"pattern": "**/*", "permission": "read"}, {"pattern": "/out/**", "permission": "write"},
                            {"pattern": "/old.txt", "permission": "none"}])
    files = box.files
    assert files.read("src/app.py") == "print(1)\n" == files.read("/workspace/src/app.py")
    assert files.read_bytes("n.txt", offset=2, length=4) == b"2\n3\n"
    assert not files.exists("old.txt") and files.exists("n.txt"), "the rules hold"
    with pytest.raises(FileNotFoundError):
        files.read("old.txt")
    with pytest.raises(PermissionError):
        files.write("n.txt", "mine")
    files.make_dir("out/deep")
    written = files.write("out/deep/a.bin", b"\0" * 700000, mode=0o755)
    assert (written.size, written.mode & 0o111, written.type) == (700000, 0o111, "regular") and files.stat("out/deep").is_dir
    with pytest.raises(SandboxError):
        files.write("out/deep/a.bin", b"", exclusive=True)
    with pytest.raises(SandboxError) as caught:
        files.write("out/deep/a.bin", b"", etag="another")
    assert caught.value.reason == "ETAG_MISMATCH"
    assert files.rename("out/deep/a.bin", "out/b.bin").path == "/out/b.bin"
    assert [one.name for one in files.list("out")] == ["b.bin", "deep"]
    files.remove("out/deep", recursive=True)
    assert [(one.path, one.line, one.text) for one in files.search("print", glob="*.py").matches] == [("/src/app.py", 1, "print(1)")]
    assert [one.path for one in files.search(glob="*.bin").matches] == ["/out/b.bin"]


def test_sessions(box):
    with box.sessions.create(env={"A": "b"}) as session:
        session.exec("cd src; X=$A")
        assert session.exec("pwd; echo $X").stdout.endswith("/src\nb\n")
        assert [one.id for one in box.sessions.list()] == [session.id]
        assert box.sessions.get(session.id).exec("echo $X").stdout == "b\n"
    assert all(one.status != "active" for one in box.sessions.list())


def test_processes(box):
    started = box.processes.start("echo begun; sleep 1000", name="server", tag="mine")
    assert started.is_running and started.name == "server"
    eventually(lambda: box.processes.log(started.id) == "begun\n")
    assert [one.id for one in box.processes.list(running=True, tag="mine")] == [started.id]
    assert box.processes.kill(str(started.pid), grace=0.1).status == "signaled"
    ended = box.commands.start(["sh", "-c", "printf 'one\\ntwo\\n'; exit 3"], env={"A": "b"}, cwd="src")
    done = box.processes.wait(ended.id)
    assert (done.status, done.exit_code, done.is_running) == ("exited", 3, False)
    assert b"".join(box.processes.follow(ended.id)) == b"one\ntwo\n" and box.processes.log(ended.id, tail=1) == "two\n"
    box.processes.start("sleep 1000")
    assert box.processes.kill_all(grace=0.1) == 1 and not box.processes.list(running=True)


def test_rules(make):
    box = make(permissions=[{"pattern": "**/*", "permission": "read"}])
    rules = box.rules
    assert rules.explain("n.txt").permission == Permission.READ == box.explain("/workspace/n.txt").permission
    preview = rules.preview(add=[{"pattern": "/src/**", "permission": "none"}])
    assert preview.hidden >= 1 and preview.is_complete and ("/src/app.py", Permission.NONE) in [(one.path, one.after) for one in preview.changes]
    assert box.run("cat src/app.py").success, "a preview changes nothing"
    rules.add({"pattern": "/src/**", "permission": "none"})
    assert not box.run("cat src/app.py").success
    assert "/src/**" in [rule.pattern for rule in rules.list()]
    rules.remove("/src/**")
    assert box.run("cat src/app.py").success
    with pytest.raises(SandboxError) as caught:
        rules.remove("/src/**")
    assert caught.value.reason == "RULE_UNKNOWN"
    rules.add({"pattern": "/nowhere/x", "permission": "none"})
    assert "matches-nothing" in [finding.code for finding in rules.lint()]
    rules.set(preset="view-only")
    assert not box.run("cat n.txt").success and box.run("ls n.txt").success


def test_files_by_the_old_names(box):
    box.write_file("written.txt", "text\n")
    assert box.read_file("written.txt") == "text\n" and box.read_file_bytes("/workspace/n.txt") == NUMBERS.encode()
    assert {"n.txt", "written.txt", "src/app.py"} <= set(box.list_files(recursive=True)) and "src/app.py" not in box.list_files()
    assert box.run("cat written.txt").stdout == "text\n"


# ---- the review


def test_all_of_it_is_approved(box):
    change(box)
    assert box.base("n.txt") == NUMBERS
    diff = box.diff()
    assert {file.path: file.change for file in diff} == {"n.txt": "modified", "old.txt": "deleted", "src/new.py": "added"}
    assert len(diff["n.txt"].hunks) == 2 and (diff["n.txt"].added, diff["n.txt"].removed) == (2, 2)
    assert "--- a/n.txt\n+++ b/n.txt\n@@ " in str(diff) and "\n+thirty\n" in str(diff) and "new file mode 100644" in diff["src/new.py"].text
    assert b"+thirty" in box.patch() and b"+new" not in box.patch("n.txt")
    dry = box.approve(diff=diff, dry_run=True)
    assert dry.is_dry and dry.applied == 3 and box.base("n.txt") == NUMBERS
    done = box.approve(diff=diff)
    assert (done.applied, done.remaining, done.refusal) == (3, 0, None) and set(done.files.values()) == {"applied"}
    assert box.base("src/new.py") == "new\n" and "thirty" in box.base("n.txt")
    assert box.refresh().decision == "approved"
    assert [one.id for one in box.approvals()] == [done.id]


def test_files_are_approved_undone_and_discarded(box):
    change(box)
    diff = box.diff()
    approval = box.approve(files=["src", diff["old.txt"]])
    assert box.base("src/new.py") == "new\n" and box.base("n.txt") == NUMBERS and approval.remaining == 1
    assert box.undo(dry_run=True).is_dry and box.base("src/new.py") == "new\n"
    assert box.undo(approval.id).undone == 2 and box.base("old.txt") == "old\n"
    assert [one.is_undone for one in box.approvals() if one.id == approval.id] == [True]
    assert box.discard("n.txt") == 1 and "n.txt" not in box.diff().paths
    box.run("echo x > one; echo x > two")
    assert box.discard() == 2 and len(box.diff()) == 0


@pytest.mark.parametrize("named", [True, False], ids=["by path", "as objects"])
def test_hunks_are_approved(box, named):
    change(box)
    first, second = box.diff("n.txt").hunks
    done = box.approve(hunks={"n.txt": [second.id]} if named else [second])
    assert done.files == {"n.txt": "partly"} and box.base("n.txt") == NUMBERS.replace("30\n", "thirty\n", 1)
    assert [hunk.id for hunk in box.diff("n.txt").hunks] == [first.id]


def test_only_what_was_shown_is_approved(box):
    change(box)
    with pytest.raises(StaleDiffError) as caught:
        box.approve()
    assert caught.value.reason == "DIFF_NOT_SERVED" and "n.txt" in caught.value.files
    box.diff(shown=False)
    with pytest.raises(StaleDiffError):
        box.approve()
    part, whole = box.diff("n.txt"), box.diff()
    box.run("echo more >> src/new.py")
    with pytest.raises(StaleDiffError):
        box.approve(diff=whole)
    with pytest.raises(StaleDiffError):
        box.approve(diff=part)  # a part of the diff approves no more than that part
    assert box.approve(["n.txt"], diff=part).applied == 1 and box.base("src/app.py") == "print(1)\n"


def test_what_runs_by_itself_is_acknowledged(box):
    box.run("echo x > .envrc")
    assert box.diff()[".envrc"].acknowledge
    with pytest.raises(NotAcknowledgedError) as caught:
        box.approve()
    assert caught.value.files == [".envrc"]
    assert box.approve(dry_run=True).refusal and box.approve(acknowledge=["shell"], dry_run=True).refusal is None
    assert box.approve(acknowledge=".envrc").applied == 1


def test_comments(box):
    change(box)
    diff = box.diff()
    about_file = box.comments.add("why?", "old.txt", actor="ann")
    about_hunk = box.comments.add("not this", diff["n.txt"].hunks[1])
    about_line = box.comments.add("better: 2", diff["n.txt"], line=2)
    assert (about_file.author, about_hunk.hunk_id, about_line.line) == ("ann", diff["n.txt"].hunks[1].id, 2)
    assert [one.text for one in box.comments.list()] == ["why?", "not this", "better: 2"]
    assert box.comments.resolve(about_line.id).is_resolved
    assert [one.id for one in box.comments.list("n.txt", only_open=True)] == [about_hunk.id]
    box.run("sed -i '30s/.*/again/' n.txt")
    assert [one.is_outdated for one in box.comments.list("n.txt", only_open=True)] == [True]
    box.comments.delete(about_hunk.id)
    assert not box.comments.resolve(about_line.id, reopen=True).is_resolved
    assert [one.id for one in box.comments.list()] == [about_file.id, about_line.id]
    with pytest.raises(ReviewError):
        box.comments.delete(about_hunk.id)


def test_what_it_takes_on_disk(box):
    before = box.disk_use()
    box.run("head -c 3000000 /dev/urandom > large")
    assert box.disk_use() >= before + 3000000


def test_rejected_and_restored(box):
    change(box)
    box.reject()
    assert box.decision == "rejected" and box.base("n.txt") == NUMBERS
    box.restore()
    assert box.decision == "open" and len(box.diff()) == 3


def test_conflicts_and_rebase(box, project):
    box.run("sed -i '2s/.*/two/' n.txt; echo mine > src/app.py")
    theirs = NUMBERS.replace("35\n", "THIRTY-FIVE\n", 1)
    for path, text in (("n.txt", theirs), ("src/app.py", "theirs\n")):
        if box.is_over:
            (project / path).write_text(text)
        else:
            box.write_file(path, text)
    # Only over a directory does a sandbox keep what its changed files were made from, so that they can be merged.
    clash = ["src/app.py"] if box.is_over else ["n.txt", "src/app.py"]
    found = box.conflicts()
    assert found and found.conflicting == clash and sorted(found.moved) == ["n.txt", "src/app.py"]
    box.diff()
    with pytest.raises(ConflictError) as caught:
        box.approve()
    assert caught.value.files == clash
    looked = box.rebase("regenerate")
    assert not looked.success and looked.conflicting == clash
    assert box.rebase("theirs").success and not box.conflicts()
    assert box.run("sed -n '2p;35p' n.txt; cat src/app.py").stdout == f"two\n{'THIRTY-FIVE' if box.is_over else '35'}\nmine\n"
    with pytest.raises(InvalidConfigurationError, match="'magic' is no strategy"):
        box.rebase("magic")


def test_the_end_of_the_run_decides(make):
    box = make(behavior={"acceptance": {"allow": {"pathGlobs": ["src/**"]}, "autoApprove": True}})
    box.run("echo new > src/new.py; echo x > outside.txt")
    assert box.finish().decision == "none"
    box.run("rm outside.txt")
    done = box.finish("completed")
    assert (done.decision, done.applied, box.decision) == ("approved", 1, "approved") and box.base("src/new.py") == "new\n"
    with pytest.raises(InvalidConfigurationError, match="'maybe' is no outcome"):
        box.finish("maybe")


def test_what_happened_is_told(box):
    change(box)
    box.diff()
    box.approve()
    assert {"sandbox_created", "sandbox_started", "sandbox_approved"} <= {event.type for event in box.events()}
    assert [event.type for event in box.events("sandbox_approved")] == ["sandbox_approved"]


# ---- over a directory alone


def git(place, *words):
    return subprocess.run(["git", "-C", place, *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(project):
    for words in (["init", "-q"], ["config", "user.name", "n"], ["config", "user.email", "m@x"], ["add", "-A"], ["commit", "-qm", "one"]):
        git(project, *words)
    return project


def test_what_was_approved_is_committed(manner, repository):
    with manner("over", repository, preset="full-access") as box:
        change(box)
        box.diff()
        box.approve()
        waiting = box.pending()
        assert sorted(waiting.paths) == ["n.txt", "old.txt", "src/new.py"] and len(waiting) == 3 and waiting.message
        done = box.commit("from the agent", ["n.txt"])
        assert done.hash and done.files == 1 and sorted(box.pending().paths) == ["old.txt", "src/new.py"]
        assert box.commit().files == 2 and box.commit().hash is None
    assert git(repository, "log", "--format=%s").splitlines()[1] == "from the agent" and git(repository, "status", "--short") == ""


def test_over_a_codebase_there_is_nothing_to_commit(manner, project):
    with manner("from_local", project, preset="full-access", sync_on_completion=False) as box:
        change(box)
        box.diff()
        box.approve()
        for ask in (box.pending, box.commit):
            with pytest.raises(ReviewError, match="no repository"):
                ask()


def test_its_paths_are_reserved(manner, project):
    box = manner("over", project)
    with pytest.raises(ReviewError) as caught:
        manner("over", project / "src", project=project)
    assert caught.value.reason == "SCOPE_CONFLICT" and caught.value.files == [str(project)]
    manner("over", project / "src", project=project, lock=False).destroy()
    box.destroy()


def test_the_end_of_the_block_keeps_what_waits(manner, project):
    with manner("over", project, preset="full-access") as box:
        change(box)
    with manner("connect", box.id) as again:
        assert again.status == SandboxStatus.STOPPED and len(again.diff()) == 3
        again.reject()
    with manner("connect", box.id) as again:
        again.destroy()
    with manner("over", project, preset="full-access") as box:
        box.reject()
    with pytest.raises(SandboxNotFoundError):
        manner("connect", box.id)
    assert (project / "n.txt").read_text() == NUMBERS


def test_without_changes_it_is_gone_at_the_end_of_the_block(manner, project):
    with manner("over", project, preset="full-access") as box:
        change(box)
        box.diff()
        box.approve("n.txt")
        box.discard()
    with manner("over", project) as again, pytest.raises(SandboxNotFoundError):
        manner("connect", box.id)
    assert again.id != box.id and "thirty" in (project / "n.txt").read_text() and (project / "old.txt").exists()


def test_what_cannot_be_over(manner, project):
    for path, part in ((project / "absent", "does not exist"), (project / "n.txt", "not a directory")):
        with pytest.raises(ValueError, match=part):
            manner("over", path)
    with pytest.raises(ValueError, match="Unknown preset"):
        manner("over", project, preset="magic")
    with pytest.raises(InvalidConfigurationError, match="magic"):
        manner("over", project, driver="magic")
    with pytest.raises(InvalidConfigurationError, match="ftp://x"):
        manner("over", project, endpoint="ftp://x")
    with SandboxClient() as client:
        assert not client.list_sandboxes(directory=project)


def test_the_directory_is_one_of_the_servers_host(manner):
    """Elsewhere it cannot be looked at."""
    with pytest.raises(agentfense.ConnectionError):
        manner("over", "/nowhere/on/this/host", endpoint="sandboxes.invalid:1")
    with pytest.raises(ValueError, match="does not exist"):
        manner("over", "/nowhere/on/this/host")


def test_a_path_misleads_no_terminal(manner, project):
    with manner("over", project, preset="full-access") as box:
        box.run("printf x > 'a\033[2Jb'; ln -s /etc/passwd link; printf '\\0\\1' > binary")
        text = box.diff().text
        assert "\033" not in text and "+++ b/a\\x1b[2Jb" in text and "symbolic link to /etc/passwd" in text
        assert "Binary files /dev/null and b/binary differ" in text
