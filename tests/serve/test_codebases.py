"""Codebases by gRPC: files in and out, archives, versions, and the sandboxes that look at them."""

import hashlib
import io
import os
import re
import tarfile

import grpc
import pytest
from sandbox.v1 import codebase_pb2, sandbox_pb2
from server import eventually, rules
from test_sandboxes import CODE, refused

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
Chunk, Archive = codebase_pb2.UploadChunk, codebase_pb2.ArchiveChunk


def archive(entries, mode="w:"):
    """A tar archive of (name, content) pairs; content may be a TarInfo's attributes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, dict):
                for key, value in content.items():
                    setattr(info, key, value)
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def send_archive(client, codebase, data, replace=False):
    head = Archive(metadata=Archive.Metadata(codebase_id=codebase, replace=replace))
    return client.upload_archive([head, *[Archive(data=data[at:at + 65536]) for at in range(0, len(data), 65536)]])


def test_a_life(client):
    made = client.create_codebase(name="shop", owner_id="alice")
    assert re.fullmatch("cb_[0-9a-f]{16}", made.id) and (made.name, made.owner_id, made.size, made.file_count) == ("shop", "alice", 0, 0)
    content = os.urandom(3_000_000)
    result = client.put(made.id, "/src/a.bin", content)
    assert (result.codebase_id, result.file_path, result.size) == (made.id, "/src/a.bin", len(content))
    assert result.checksum == hashlib.md5(content).hexdigest() and result.sha256 == hashlib.sha256(content).hexdigest()
    assert client.get(made.id, "src/a.bin") == content
    assert all(len(chunk.data) <= 65536 for chunk in client.download_file(codebase_id=made.id, file_path="src/a.bin"))
    assert client.put(made.id, "empty", b"").size == 0 and client.get(made.id, "empty") == b""
    now = client.get_codebase(codebase_id=made.id)
    assert (now.size, now.file_count) == (len(content), 2) and now.updated_at.seconds >= made.created_at.seconds
    client.delete_codebase(codebase_id=made.id)
    refused(CODE.NOT_FOUND, "codebase not found", client.get_codebase, codebase_id=made.id)


def test_what_is_missing_is_told(client):
    refused(CODE.INVALID_ARGUMENT, "name is required", client.create_codebase, owner_id="x")
    refused(CODE.INVALID_ARGUMENT, "owner_id is required", client.create_codebase, name="x")
    for call in (client.get_codebase, client.delete_codebase, client.list_files, client.list_versions):
        refused(CODE.INVALID_ARGUMENT, "codebase_id is required", call)
        refused(CODE.NOT_FOUND, "codebase not found", call, codebase_id="cb_0123456789abcdef")
        refused(CODE.NOT_FOUND, "codebase not found", call, codebase_id="../x")
    codebase = client.codebase()
    refused(CODE.INVALID_ARGUMENT, "no metadata received", client.upload_files, [])
    refused(CODE.INVALID_ARGUMENT, "metadata must be sent first", client.upload_files, [Chunk(data=b"x")])
    head = Chunk(metadata=Chunk.Metadata(codebase_id=codebase, file_path="a"))
    refused(CODE.INVALID_ARGUMENT, "metadata already received", client.upload_files, [head, Chunk(data=b"x"), head])
    refused(CODE.INVALID_ARGUMENT, "codebase_id is required in metadata", client.upload_files,
            [Chunk(metadata=Chunk.Metadata(file_path="a"))])
    refused(CODE.INVALID_ARGUMENT, "file_path is required in metadata", client.upload_files,
            [Chunk(metadata=Chunk.Metadata(codebase_id=codebase))])
    refused(CODE.NOT_FOUND, "codebase not found", client.upload_files,
            [Chunk(metadata=Chunk.Metadata(codebase_id="cb_0123456789abcdef", file_path="a"))])
    refused(CODE.INVALID_ARGUMENT, "file_path is required", client.download_file, codebase_id=codebase)
    refused(CODE.NOT_FOUND, re.compile("file not found"), client.download_file, codebase_id=codebase, file_path="no/such")
    assert client.names(codebase) == []


@pytest.mark.parametrize("path", ["../x", "a/../../x", "..", "/", "./..", ".wh.x", "a/.wh..wh..opq", "x" * 300])
def test_paths_that_leave_or_lie_are_refused(client, path):
    codebase = client.codebase({"a": "1"})
    with pytest.raises(grpc.RpcError) as caught:
        client.put(codebase, path, "evil")
    assert caught.value.code() in (CODE.INVALID_ARGUMENT, CODE.FAILED_PRECONDITION), caught.value
    with pytest.raises(grpc.RpcError):
        client.get(codebase, path)
    assert client.names(codebase) == ["a"]


def test_legitimate_names(client):
    codebase = client.codebase()
    for name in ("..foo", ".hidden", "a b", "ü", "-x", "x..y", "n" * 255):
        client.put(codebase, name, name)
        assert client.get(codebase, name) == name.encode()
    assert client.get_codebase(codebase_id=codebase).file_count == 7


def test_an_upload_that_breaks_off_leaves_nothing(client):
    codebase = client.codebase({"a": "old"})

    def broken():
        yield Chunk(metadata=Chunk.Metadata(codebase_id=codebase, file_path="a"))
        yield Chunk(data=b"new" * 1000)
        raise RuntimeError

    with pytest.raises(grpc.RpcError):
        client.upload_files(broken())
    assert client.get(codebase, "a") == b"old" and client.names(codebase) == ["a"]


def test_an_upload_that_is_not_what_was_announced_is_refused(client):
    codebase = client.codebase({"f": "whole"})
    for size in (4, 6):
        refused(CODE.INVALID_ARGUMENT, f"total_size is {size}, and 5 bytes were sent", client.put, codebase, "f", "other", total_size=size)
    assert client.get(codebase, "f") == b"whole"
    assert client.put(codebase, "f", "other", total_size=5).size == 5


def test_lists(client):
    codebase = client.codebase({"b": "22", "a/x": "1", "a/y/z": "333"})
    flat = client.list_files(codebase_id=codebase).files
    assert [(file.path, file.name, file.is_dir) for file in flat] == [("a", "a", True), ("b", "b", False)]
    assert [file.path for file in client.list_files(codebase_id=codebase, path="/").files] == ["/a", "/b"]
    assert [file.path for file in client.list_files(codebase_id=codebase, path="a").files] == ["a/x", "a/y"]
    assert client.names(codebase) == ["a", "a/x", "a/y", "a/y/z", "b"]
    assert not client.list_files(codebase_id=codebase, path="none").files
    first = client.list_files(codebase_id=codebase, recursive=True, page_size=2)
    second = client.list_files(codebase_id=codebase, recursive=True, page_size=10, page_token=first.next_page_token)
    assert [file.path for file in [*first.files, *second.files]] == client.names(codebase) and not second.next_page_token
    with pytest.raises(grpc.RpcError):
        client.list_files(codebase_id=codebase, path="../..", recursive=True)


def test_codebases_are_listed_by_owner_in_pages(server):
    client = server.client()
    made = [client.create_codebase(name=str(number), owner_id="bob").id for number in range(5)]
    client.create_codebase(name="other", owner_id="carol")
    assert len(client.list_codebases().codebases) == 6
    first = client.list_codebases(owner_id="bob", page_size=3)
    second = client.list_codebases(owner_id="bob", page_size=3, page_token=first.next_page_token)
    assert sorted(one.id for one in [*first.codebases, *second.codebases]) == sorted(made) and not second.next_page_token


def test_removing_files(client):
    codebase = client.codebase({"a/b/c": "1", "a/d": "2", "e": "3"})
    assert client.delete_file(codebase_id=codebase, file_path="a").file_count == 1
    assert client.names(codebase) == ["e"]
    refused(CODE.NOT_FOUND, re.compile("file not found"), client.delete_file, codebase_id=codebase, file_path="a")


# Archives.

@pytest.mark.parametrize("mode", ["w:", "w:gz"])
def test_an_archive_is_one_version(client, mode):
    codebase = client.codebase({"old": "1"})
    before = client.get_codebase(codebase_id=codebase).version
    data = archive([("d", {"type": tarfile.DIRTYPE, "mode": 0o755}), ("d/run.sh", b"#!/bin/sh\n"),
                    ("link", {"type": tarfile.SYMTYPE, "linkname": "d/run.sh"}), ("empty", {"type": tarfile.DIRTYPE, "mode": 0o755})], mode)
    result = send_archive(client, codebase, data)
    assert result.version == before + 1
    assert client.names(codebase) == ["d", "d/run.sh", "empty", "link", "old"]
    listed = {file.path: file for file in client.list_files(codebase_id=codebase, recursive=True).files}
    assert listed["link"].is_symlink and listed["empty"].is_dir
    send_archive(client, codebase, archive([("only", b"x")]), replace=True)
    assert client.names(codebase) == ["only"]
    back = b"".join(chunk.data for chunk in client.download_archive(codebase_id=codebase))
    with tarfile.open(fileobj=io.BytesIO(back)) as tar:
        assert tar.extractfile("only").read() == b"x"


@pytest.mark.parametrize("entries", [
    [("../x", b"evil")], [("/abs/../../x", b"evil")], [("a/../../x", b"evil")],
    [("dev", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})], [("fifo", {"type": tarfile.FIFOTYPE})],
    [("l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}), ("l/x", b"evil")], [(".wh.old", b"")],
])
def test_hostile_archives_change_nothing(client, entries):
    codebase = client.codebase({"old": "1"})
    with pytest.raises(grpc.RpcError):
        send_archive(client, codebase, archive(entries))
    assert client.names(codebase) == ["old"] and client.get(codebase, "old") == b"1"


def test_what_is_no_archive_is_refused(client):
    codebase = client.codebase({"old": "1"})
    with pytest.raises(grpc.RpcError) as caught:
        send_archive(client, codebase, os.urandom(100_000))
    assert caught.value.code() == CODE.INVALID_ARGUMENT
    assert client.names(codebase) == ["old"]


def test_a_listing_that_is_too_long_for_one_answer_says_so(client):
    codebase = client.codebase()
    if IS_LONG:
        names, count, page_size = [f"d{number % 100}/" + "n" * 100 + str(number) for number in range(20000)], 20100, 5000
    else:  # long paths: four megabytes of them are soon made
        names, count, page_size = ["/".join(["n" * 240] * 8) + f"/{number}" for number in range(2500)], 2508, 1000
    send_archive(client, codebase, archive([(name, b"") for name in names], "w:gz"))
    refused(CODE.RESOURCE_EXHAUSTED, re.compile("too many for one answer; ask for pages"), client.list_files, codebase_id=codebase, recursive=True)
    seen, token = 0, ""
    while True:
        page = client.list_files(codebase_id=codebase, recursive=True, page_size=page_size, page_token=token)
        seen, token = seen + len(page.files), page.next_page_token
        if not token:
            break
    assert seen == count


# Versions.

def test_versions_are_listed_read_and_restored(client):
    codebase = client.codebase({"a": "one", "b": "x"})
    first = client.get_codebase(codebase_id=codebase).version
    client.put(codebase, "a", "two")
    client.delete_file(codebase_id=codebase, file_path="b")
    listed = client.list_versions(codebase_id=codebase).versions
    assert [version.number for version in listed[:3]] == [first + 2, first + 1, first]
    assert client.get(codebase, "a", version=first) == b"one"
    restored = client.restore_version(codebase_id=codebase, version=first)
    assert restored.number == first + 3 and restored.reason == "restore"
    assert client.get(codebase, "a") == b"one" and client.get(codebase, "b") == b"x"
    client.put(codebase, "a", "three")
    client.put(codebase, "b", "y")
    client.restore_version(codebase_id=codebase, version=first, path="a")
    assert (client.get(codebase, "a"), client.get(codebase, "b")) == (b"one", b"y")
    with pytest.raises(grpc.RpcError):
        client.restore_version(codebase_id=codebase, version=9999)


# Sandboxes on it.

def test_a_command_s_changes_are_in_the_codebase_when_it_is_answered(client):
    codebase = client.codebase({"keep": "1", "gone": "2", "d/x": "3"})
    box = client.sandbox(codebase)
    before = client.get_codebase(codebase_id=codebase).version
    result = client.run(box, "echo new > new; rm gone; mv d e; ln -s keep link; chmod +x keep; mkdir -p p/q")
    assert result.codebase_version == before + 1
    assert client.names(codebase) == ["e", "e/x", "keep", "link", "new", "p", "p/q"]
    listed = {file.path: file for file in client.list_files(codebase_id=codebase, recursive=True).files}
    assert listed["keep"].is_executable and listed["link"].is_symlink
    now = client.get_codebase(codebase_id=codebase)
    assert now.file_count == 4 and now.size == sum(file.size for file in listed.values() if not file.is_dir)
    assert client.run(box, "true").codebase_version == before + 1
    assert client.list_versions(codebase_id=codebase).versions[0].reason == f"sync of sandbox {box}"


def test_without_sync_they_stay_in_the_sandbox(client):
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase, sync_on_completion=2)
    assert client.run(box, "echo 2 > a; echo new > b").codebase_version == 0
    assert client.names(codebase) == ["a"] and client.get(codebase, "a") == b"1"
    assert client.run(box, "cat a b").stdout == "2\nnew\n"


def test_siblings_see_each_other_s_work_at_once(client):
    codebase = client.codebase({"shared": "1", "d/x": "1"})
    one, two = client.sandbox(codebase), client.sandbox(codebase)
    assert client.run(two, "cat shared; ls; ls d").stdout == "1d\nshared\nx\n"
    for number in range(20):
        client.run(one, f"echo {number} > shared; echo {number} > d/n{number}; rm -f d/n{number - 1}")
        assert client.run(two, "cat shared; ls d").stdout == f"{number}\nn{number}\nx\n"


def test_uploads_are_seen_at_once(client):
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    for number in range(20):
        assert client.run(box, "cat a").stdout == ("1" if number == 0 else str(number - 1))
        client.put(codebase, "a", str(number))
        client.put(codebase, f"new{number}", "x")
        assert client.run(box, f"cat a; ls new{number}").stdout == f"{number}new{number}\n"


def test_hidden_files_survive_and_stay_hidden(client):
    codebase = client.codebase({"d/visible": "1", "d/.env": "SECRET", "x": "1"})
    box = client.sandbox(codebase, permissions=[("**/*", "write"), ("**/.env", "none", 10)])
    assert client.run(box, "rm -rf d && ls -A").stdout == "x\n"
    assert client.names(codebase) == ["d", "d/.env", "x"] and client.get(codebase, "d/.env") == b"SECRET"
    assert client.run(box, "ls -A; cat d/.env").stdout == "x\n"


def test_the_newer_change_wins_and_the_other_is_kept(client):
    codebase = client.codebase({"f": "base"})
    box = client.sandbox(codebase, permissions=[("**/*", "write"), ("**/.probe", "none", 10)])
    session = client.create_session(sandbox_id=box)
    # The sandbox changes the file in the background, unseen by any sync, and says so by an attempt that is refused; then somebody
    # uploads a newer one.
    client.session_exec(session_id=session.id, command="(sleep 0.5; echo agent > f; cat .probe) >/dev/null 2>&1 &")
    eventually(lambda: client.events(sandbox_id=box, type="permission_denied"))
    client.put(codebase, "f", "human, later")
    result = client.run(box, "cat f")
    assert client.get(codebase, "f") == b"human, later"
    assert client.run(box, "cat f").stdout == "human, later"
    assert [path.lstrip("/") for path in result.sync_conflicts] == ["f"]
    assert any(event.type == "sync_conflict" for event in client.events(sandbox_id=box))


def test_a_writer_that_keeps_its_file_open_never_writes_into_the_codebase(client):
    codebase = client.codebase({"log": ""})
    box = client.sandbox(codebase)
    session = client.create_session(sandbox_id=box)
    client.session_exec(session_id=session.id, command="exec 9>>log; echo 1 >&9")
    assert client.get(codebase, "log") == b"1\n"
    version = client.get_codebase(codebase_id=codebase).version
    client.session_exec(session_id=session.id, command="echo 2 >&9")
    assert client.get(codebase, "log") == b"1\n2\n"
    assert client.get(codebase, "log", version=version) == b"1\n"


def test_a_codebase_in_use_is_deleted_only_by_force(client):
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    refused(CODE.FAILED_PRECONDITION, re.compile("used by running sandboxes"), client.delete_codebase, codebase_id=codebase)
    assert client.run(box, "cat a").stdout == "1"
    client.delete_codebase(codebase_id=codebase, force=True)
    refused(CODE.NOT_FOUND, "codebase not found", client.get_codebase, codebase_id=codebase)
    refused(CODE.FAILED_PRECONDITION, "sandbox is not running", client.run, box, "true")
    client.destroy_sandbox(sandbox_id=box)


@pytest.mark.bwrap("the tools of the host")
def test_real_tools(client):
    codebase = client.codebase({"main.c": "int main(void) { return 0; }\n"})
    box = client.sandbox(codebase)
    script = ("git init -q . && git config user.email a@b && git config user.name a && git add . && git commit -qm first && "
              "git status --short && sqlite3 db.sqlite 'create table t(x); insert into t values (1); select * from t;' && "
              "python3 -c 'print(6*7)' && make main >/dev/null && ./main && tar cf t.tar main.c && sed -i s/0/7/ main.c && cat main.c")
    result = client.run(box, script)
    assert (result.exit_code, result.stderr) == (0, ""), result
    assert result.stdout == "1\n42\nint main(void) { return 7; }\n"
    assert client.run(box, "git log --oneline | wc -l; sqlite3 db.sqlite 'select * from t'; ./main").stdout == "1\n1\n"
    assert client.get(codebase, "main.c") == b"int main(void) { return 7; }\n"


def test_quotas_hold_however_often_a_command_is_run(make):
    client = make(**{"codebase-quota": "4M"}).start().client()
    codebase = client.codebase()
    box = client.sandbox(codebase, resources=sandbox_pb2.ResourceLimits(disk_bytes=2 << 20))
    for number in range(30):
        result = client.run(box, f"head -c 500000 /dev/urandom > f{number}")
        if result.exit_code:
            break
    assert "No space left" in result.stderr, "the sandbox never ran out of room"
    now = client.get_codebase(codebase_id=codebase)
    assert now.size <= 4 << 20
    # There is room again once something goes, and what waited is synced.
    client.delete_codebase(codebase_id=codebase, force=True)


def test_memory_has_a_limit_and_it_is_told(client):
    codebase = client.codebase()
    made = client.create_sandbox(codebase_id=codebase, permissions=rules([("**/*", "write")]),
                                 resources=sandbox_pb2.ResourceLimits(memory_bytes=64 << 20))
    try:
        client.start_sandbox(sandbox_id=made.id)
    except grpc.RpcError as error:
        assert error.code() == CODE.FAILED_PRECONDITION, error
        pytest.skip(f"no limit of memory on this host: {error.details()}")
    result = client.run(made.id, "python3 -c \"x = bytearray(200 << 20)\"")
    assert result.exit_code == 137
    assert client.run(made.id, "echo alive").stdout == "alive\n"
    eventually(lambda: [event for event in client.events(sandbox_id=made.id, type="resource_limit_exceeded") if "memory" in event.payload])
