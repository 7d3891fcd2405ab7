"""Making, connecting, destroying; files that are sent; errors with the server's reasons."""

import os
import pathlib
import tarfile
import warnings

import agentfense
import pytest
from agentfense import RuntimeType, Sandbox, SandboxStatus
from agentfense._archive import archive, scan
from agentfense._ignore import IgnoreRules
from conftest import IS_LONG

pytestmark = pytest.mark.usefixtures("server")


def test_the_life_of_a_sandbox(project, client):
    sandbox = Sandbox.from_local(project, auto_start=False, runtime="bwrap", codebase_name="mine", owner_id="somebody")
    assert (sandbox.status, sandbox.runtime, sandbox.codebase.name) == (SandboxStatus.PENDING, RuntimeType.BWRAP, "mine")
    assert sandbox.codebase.owner_id == "somebody" and sandbox.codebase.file_count == 10
    with pytest.raises(agentfense.SandboxNotRunningError) as caught:
        sandbox.run("true")
    assert caught.value.sandbox_id == sandbox.id
    sandbox.start().start()
    assert sandbox.status == SandboxStatus.RUNNING and sandbox.run("true").success
    assert repr(sandbox) == f"Sandbox(id='{sandbox.id}', status='running', runtime='bwrap')"
    sandbox.run("echo x > output/x")
    sandbox.stop().stop()
    sandbox.start()
    assert sandbox.run("cat output/x").stdout == "x\n"
    sandbox.destroy()
    sandbox.destroy()
    with pytest.raises(agentfense.SandboxError, match="destroyed"):
        sandbox.run("true")
    with pytest.raises(agentfense.CodebaseNotFoundError):
        client.get_codebase(sandbox.codebase_id)


def test_connecting_leaves_it_alone(project, client):
    with Sandbox.from_local(project) as sandbox:
        with Sandbox.connect(sandbox.id) as other:
            assert other.run("echo hi").stdout == "hi\n" and other.codebase == sandbox.codebase
        assert sandbox.run("true").success
        again = Sandbox.connect(sandbox.id)
        again.destroy()
        with pytest.raises(agentfense.SandboxNotFoundError):
            client.get_sandbox(sandbox.id)
        client.get_codebase(sandbox.codebase_id)
    with pytest.raises(agentfense.CodebaseNotFoundError):  # the maker still removes what it made
        client.get_codebase(sandbox.codebase_id)


def test_the_codebase_stays_where_it_was_there_before(project, client):
    codebase = client.create_codebase("x", "me")
    with Sandbox.from_codebase(codebase.id):
        with pytest.raises(agentfense.CodebaseInUseError):
            client.delete_codebase(codebase.id)
    client.get_codebase(codebase.id)
    client.delete_codebase(codebase.id)


def test_a_failure_leaves_nothing(project, client):
    before = client.list_codebases(), client.list_sandboxes()
    for wrong in ({"permissions": [{"pattern": "../x", "permission": "read"}]}, {"runtime": "vmware"}, {"network": "wide"},
                  {"permissions": [{"pattern": "/x", "permission": "execute"}]}):  # fmt: skip
        with pytest.raises((agentfense.InvalidConfigurationError, ValueError)):
            Sandbox.from_local(project, **wrong)
    with pytest.raises(agentfense.PermissionDeniedError) as caught:
        Sandbox.from_local(project, network="host")
    assert caught.value.reason == "NETWORK_NOT_ALLOWED"
    with pytest.raises(agentfense.SandboxStartTimeoutError) as late:
        Sandbox.from_local(project, start_timeout=0.0001)
    assert late.value.timeout_seconds == 0.0001
    assert (client.list_codebases(), client.list_sandboxes()) == before


def test_an_interrupted_upload_leaves_nothing(project, client):
    before = client.list_codebases()

    for error in (KeyError("x"), RuntimeError("y")):

        def fail(progress, error=error):
            raise error

        with pytest.raises(type(error)):
            Sandbox.from_local(project, progress=fail)
    assert client.list_codebases() == before


@pytest.mark.parametrize("ask, kind, reason", [
    (lambda c: c.get_sandbox("sb_0123456789abcdef"), agentfense.SandboxNotFoundError, "SANDBOX_NOT_FOUND"),
    (lambda c: c.exec("sb_0123456789abcdef", "true"), agentfense.SandboxNotFoundError, "SANDBOX_NOT_FOUND"),
    (lambda c: c.get_codebase("cb_0123456789abcdef"), agentfense.CodebaseNotFoundError, "CODEBASE_NOT_FOUND"),
    (lambda c: c.upload_file("cb_0123456789abcdef", "x", b""), agentfense.CodebaseNotFoundError, "CODEBASE_NOT_FOUND"),
    (lambda c: c.create_sandbox("cb_0123456789abcdef"), agentfense.CodebaseNotFoundError, "CODEBASE_NOT_FOUND"),
    (lambda c: c.get_session("sess_0123456789abcdef"), agentfense.SessionNotFoundError, "SESSION_NOT_FOUND"),
    (lambda c: c.session_exec("sess_0123456789abcdef", "x"), agentfense.SessionNotFoundError, "SESSION_NOT_FOUND"),
    (lambda c: c.create_codebase("", "me"), agentfense.InvalidConfigurationError, None),
    (lambda c: list(c.exec_stream("sb_0123456789abcdef", "x")), agentfense.SandboxNotFoundError, "SANDBOX_NOT_FOUND"),
])  # fmt: skip
def test_errors_say_what_is_wrong(client, ask, kind, reason):
    with pytest.raises(kind) as caught:
        ask(client)
    assert caught.value.reason == reason and caught.value.grpc_code[0] in (3, 5)
    for name in ("sandbox_id", "codebase_id", "session_id"):
        assert getattr(caught.value, name, "x_0123456789abcdef").endswith("0123456789abcdef")


def test_files_are_listed_page_by_page(client, project, monkeypatch):
    from agentfense import _calls

    codebase = client.create_codebase("pages", "me")
    client.upload_directory(codebase.id, project)
    for recursive in (False, True):
        whole = client.list_files(codebase.id, recursive=recursive)
        with monkeypatch.context() as smaller:
            smaller.setattr(_calls, "FILES_PER_PAGE", 3)
            assert client.list_files(codebase.id, recursive=recursive) == whole and len(whole) > 3
    client.delete_codebase(codebase.id)


def test_lists_are_whole(client):
    count = 230 if IS_LONG else 110  # a page has a hundred
    made = {client.create_codebase(f"n{number}", "lister").id for number in range(count)}
    assert {codebase.id for codebase in client.list_codebases("lister")} == made
    for codebase_id in made:
        client.delete_codebase(codebase_id)


def test_a_file_that_is_not_there(client):
    codebase = client.create_codebase("x", "me")
    with pytest.raises(FileNotFoundError) as caught:
        client.download_file(codebase.id, "no/such")
    assert (caught.value.file_path, caught.value.codebase_id) == ("no/such", codebase.id)
    client.delete_codebase(codebase.id)


def odd_tree(tree):
    top = tree({"run.sh": "#!/bin/sh\necho ran\n", "sub/deep/a": "x" * 70000, "empty": None, "ümläut 中.txt": "u", "n" * 200 + "/" + "m" * 200: "long"})
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("sub/deep/a")
    (top / "nowhere").symlink_to("no/such/file")
    (top / "up").symlink_to("../../../etc/passwd")
    (top / os.fsdecode(b"raw-\xff")).write_text("bytes")
    os.mkfifo(top / "pipe")
    os.link(top / "run.sh", top / "hard.sh")
    return top


@pytest.mark.parametrize("compress", [False, True])
def test_trees_arrive_as_they_are(tree, compress):
    top = odd_tree(tree)
    with Sandbox.from_local(top, preset="read-only", compress=compress) as sandbox:
        assert sandbox.run("./run.sh && ./hard.sh").stdout == "ran\nran\n"
        assert sandbox.run("readlink link nowhere up").stdout == "sub/deep/a\nno/such/file\n../../../etc/passwd\n"
        assert sandbox.run("wc -c < link").stdout == "70000\n"
        assert sandbox.run("test -d empty && ! test -e pipe && cat üml*; cat n*/m*; cat raw-*").stdout == "ulongbytes"
        assert "\nagent:" in sandbox.run("cat up").stdout  # the sandbox's own file, not the host's


def test_one_call_however_many_files(tree, client):
    top = tree({f"d{i % 30}/f{i}.txt": str(i) for i in range(600)})
    seen = []
    codebase = client.create_codebase("many", "me")
    result = client.upload_directory(codebase.id, top, progress=lambda p: seen.append((p.files, p.bytes, p.path)))
    assert result.file_count >= 600 and result.version == 1
    assert seen[-1][0] == 630 and seen[-1][1] == sum(len(str(i)) for i in range(600)) and seen == sorted(seen, key=lambda s: s[:2])
    assert len(client.list_versions(codebase.id)) == 1
    (top / "d0/f0.txt").unlink()
    client.upload_directory(codebase.id, top, replace=True)
    with pytest.raises(agentfense.FileNotFoundError):
        client.download_file(codebase.id, "d0/f0.txt")
    assert client.download_file(codebase.id, "d0/f0.txt", version=1) == b"0"
    client.restore_version(codebase.id, 1)
    assert client.download_file(codebase.id, "d0/f0.txt") == b"0"
    client.delete_codebase(codebase.id)


def test_the_archive_is_one_for_tar(tree, tmp_path):
    top = odd_tree(tree)
    (tmp_path / "a.tar").write_bytes(b"".join(archive(list(scan(str(top), IgnoreRules.of())))))
    with tarfile.open(tmp_path / "a.tar") as tar:
        names = {name.rstrip("/") for name in tar.getnames()}
        assert names == {str(path.relative_to(top)) for path in top.rglob("*")} - {"pipe"}
        assert tar.getmember("run.sh").mode == 0o755 and tar.getmember("up").linkname == "../../../etc/passwd"


def test_a_file_that_changes_while_it_is_sent(tree, tmp_path):
    top = tree({"a": "x" * 1000, "b": "y"})
    entries = list(scan(str(top), IgnoreRules.of()))
    (top / "a").write_text("x" * 10)
    pieces = archive(entries)
    (tmp_path / "a.tar").write_bytes(b"".join(pieces))
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.extractfile("a").read() == b"x" * 10 and tar.extractfile("b").read() == b"y"
    (top / "a").write_bytes(b"x" * 3_000_000)
    pieces = archive(list(scan(str(top), IgnoreRules.of())))
    first = next(pieces)
    (top / "a").write_text("")
    (tmp_path / "a.tar").write_bytes(first + b"".join(pieces))
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert len(tar.extractfile("a").read()) == 3_000_000 and tar.extractfile("b").read() == b"y"


def test_what_cannot_be_read_is_named(tree, monkeypatch):
    top = tree({"a": "x", "b": "y"})
    plain = os.open

    def refuse(path, *args, **named):
        if os.fsdecode(path).endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return plain(path, *args, **named)

    monkeypatch.setattr(os, "open", refuse)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        list(archive(list(scan(str(top), IgnoreRules.of()))))
    assert [warning.category for warning in told] == [agentfense.UploadWarning] and "/a'" in str(told[0].message)


def test_a_bar_is_for_terminals(tree, monkeypatch, capsys):
    from agentfense import _progress

    assert not _progress.ProgressBar.is_wanted(10**6, 10**9)
    monkeypatch.setattr(_progress, "INTERVAL", 0)
    with Sandbox.from_local(tree({"a": "x" * 1000}), progress=True):
        pass
    shown = capsys.readouterr().err
    assert "uploading project [####" in shown and "100% 1/1 files" in shown and shown.endswith("\r")


def test_files_of_the_codebase(project):
    with Sandbox.from_local(project) as sandbox:
        sandbox.write_file("/workspace/new/a.txt", "text")
        sandbox.write_file("b.bin", b"\xff")
        assert sandbox.run("cat new/a.txt").stdout == "text"
        assert sandbox.read_file_bytes("/b.bin") == b"\xff" and sandbox.read_file("new/a.txt") == "text"
        assert sandbox.list_files("/workspace/new") == ["new/a.txt"]
        assert {"new/a.txt", "src/main.py"} <= set(sandbox.list_files(recursive=True))
        assert pathlib.PurePath("secrets/private.key").name in " ".join(sandbox.list_files("secrets"))


def test_large_answers_are_cut_and_streams_are_whole(project):
    with Sandbox.from_local(project) as sandbox:
        command = "head -c 6000000 /dev/zero | tr '\\0' x"
        result = sandbox.run(command)
        assert result.stdout_truncated and result.stdout == "x" * len(result.stdout) and result.stdout
        assert sum(map(len, sandbox.exec_stream(command))) == 6000000
        sandbox.write_file("big", b"y" * 9000000)
        assert sandbox.read_file_bytes("big") == b"y" * 9000000
