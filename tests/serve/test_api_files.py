"""Files of sandboxes by the one API: gRPC and /v1, the same methods."""

import os
import threading
import time
import urllib.parse

import grpc
import pytest
from api import CODE, NOBODY, failed, refused, token_of
from sandbox.v1 import file_pb2
from workspace import Workspace

RULES = [{"pattern": "**", "permission": "write"}, {"pattern": "/secret/**", "permission": "none"}, {"pattern": "/locked.txt", "permission": "read"},
         {"pattern": "/names/**", "permission": "view"}]


@pytest.fixture(scope="module")
def project(shared, tmp_path_factory):
    made = Workspace(shared, {"README": "read me\n", "src/a.txt": "a\n", "src/deep/b.py": "import os\nprint('Hello')\nexit()\n",
                              "secret/key": "hidden hello\n", "locked.txt": "read only\n", "names/only": "hello\n", ".git/config": "hello\n"}, rules=RULES)
    outside = tmp_path_factory.mktemp("outside")
    (outside / "host.txt").write_text("hello of the host\n")
    os.symlink(outside / "host.txt", made.project / "leak")
    os.symlink(outside, made.project / "leakdir")
    made.outside = outside
    yield made
    made.remove()


@pytest.fixture
def sandbox(project):
    return project.id


@pytest.fixture
def http(shared, sandbox):
    return lambda verb, path, body=None, **options: shared.http(verb, f"/v1/sandboxes/{sandbox}{path}", body, **options)


def read(client, sandbox, path, **fields):
    chunks = list(client.read_file(sandbox_id=sandbox, path=path, **fields))
    assert chunks[0].HasField("file") and not chunks[0].data and not any(chunk.HasField("file") for chunk in chunks[1:])
    return chunks[0].file, b"".join(chunk.data for chunk in chunks)


def write(client, sandbox, path, content, chunk=65536, **metadata):
    head = file_pb2.WriteFileChunk(metadata=file_pb2.WriteFileChunk.Metadata(sandbox_id=sandbox, path=path, **metadata))
    return client.write_file([head, *(file_pb2.WriteFileChunk(data=content[at:at + chunk]) for at in range(0, len(content), chunk))])


def q(path, **more):
    return "?" + urllib.parse.urlencode({"path": path, **more})


def test_what_a_path_is(client, sandbox, http, project):
    stat = client.stat_file(sandbox_id=sandbox, path="README")
    assert (stat.path, stat.name, stat.type, stat.size, stat.mode) == ("/README", "README", file_pb2.FILE_TYPE_REGULAR, 8, 0o644)
    assert abs(stat.modified_at.seconds - (project.project / "README").stat().st_mtime) <= 1 and stat.etag
    link = client.stat_file(sandbox_id=sandbox, path="/leak")
    assert (link.type, link.symlink_target) == (file_pb2.FILE_TYPE_SYMLINK, str(project.outside / "host.txt"))
    assert client.stat_file(sandbox_id=sandbox).type == file_pb2.FILE_TYPE_DIRECTORY
    status, same = http("GET", "/stat" + q("/README"))
    assert status == 200 and same == {"path": "/README", "name": "README", "type": "FILE_TYPE_REGULAR", "size": "8", "mode": 0o644,
                                      "modifiedAt": same["modifiedAt"], "symlinkTarget": "", "etag": stat.etag}
    assert client.stat_file(sandbox_id=sandbox.upper(), path="README") == stat, "an id in another spelling"


def test_a_directory_in_pages(client, sandbox, http, project):
    assert project.sh("mkdir many && cd many && seq 100 350 | xargs touch")["exitCode"] == 0
    names, token, pages = [], "", 0
    while True:
        page = client.list_directory(sandbox_id=sandbox, path="many", page_size=60, page_token=token)
        names, token, pages = names + [file.name for file in page.files], page.next_page_token, pages + 1
        if not token:
            break
    assert names == [str(number) for number in range(100, 351)] and pages == 5
    assert page.files[0].path == f"/many/{page.files[0].name}" and page.files[0].type == file_pb2.FILE_TYPE_REGULAR
    status, listed = http("GET", "/files" + q("/", pageSize=3))
    assert status == 200 and len(listed["files"]) == 3 and listed["nextPageToken"]
    listed = http("GET", "/files")[1]
    names = [file["name"] for file in listed["files"]]
    assert "secret" not in names and {"README", "src", "locked.txt", "leak"} <= set(names) and listed["nextPageToken"] == ""
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_directory, sandbox_id=sandbox, page_token="zz")
    refused(CODE.INVALID_ARGUMENT, "page_token", client.list_directory, sandbox_id=sandbox, page_token="00")
    refused(CODE.INVALID_ARGUMENT, "README", client.list_directory, sandbox_id=sandbox, path="README")


def test_content_comes_and_goes(client, sandbox, shared, http, project):
    content = os.urandom(3_000_001)
    result = write(client, sandbox, "new/deep/big", content, total_size=len(content), mode=0o750)
    assert result.created and (result.file.path, result.file.size, result.file.mode) == ("/new/deep/big", len(content), 0o750)
    stat, got = read(client, sandbox, "/new/deep/big")
    assert got == content and stat == result.file
    assert read(client, sandbox, "new/deep/big", offset=1_000_000, length=70_000)[1] == content[1_000_000:1_070_000]
    assert read(client, sandbox, "new/deep/big", offset=9_000_000)[1] == b""
    answer, got = http("GET", "/files/new/deep/big", raw=True)
    assert answer.status == 200 and got == content and answer.getheader("Content-Type") == "application/octet-stream"
    assert http("GET", "/files/new/deep/big?offset=5&length=7", raw=True)[1] == content[5:12]
    status, result = http("PUT", "/files/new/deep/big?mode=0", b"short")
    assert (status, result["created"], result["file"]["size"], result["file"]["mode"]) == (200, False, "5", 0o750), result
    assert http("PUT", "/files/empty", b"")[1]["created"] is True and read(client, sandbox, "empty")[1] == b""
    assert project.exec("cat", "new/deep/big")["stdout"] == "short" and not (project.project / "new").exists()


def test_what_is_not_sent_whole_is_not_written(client, sandbox):
    refused(CODE.INVALID_ARGUMENT, "total_size is 9", write, client, sandbox, "half", b"12345", total_size=9)
    refused(CODE.NOT_FOUND, "half", client.stat_file, sandbox_id=sandbox, path="half")
    refused(CODE.INVALID_ARGUMENT, "no metadata received", client.write_file, [])
    refused(CODE.INVALID_ARGUMENT, "metadata must be sent first", client.write_file, [file_pb2.WriteFileChunk(data=b"x")])
    head = file_pb2.WriteFileChunk(metadata=file_pb2.WriteFileChunk.Metadata(sandbox_id=sandbox, path="twice"))
    refused(CODE.INVALID_ARGUMENT, "metadata already received", client.write_file, [head, head])


def test_conditions(client, sandbox, http):
    tag = write(client, sandbox, "tagged", b"1").file.etag
    refused(CODE.ALREADY_EXISTS, "tagged", write, client, sandbox, "tagged", b"2", exclusive=True)
    assert read(client, sandbox, "tagged")[1] == b"1"
    assert write(client, sandbox, "fresh", b"2", exclusive=True).created
    newer = write(client, sandbox, "tagged", b"22", etag=tag).file.etag
    assert newer != tag
    assert refused(CODE.ABORTED, "etag", write, client, sandbox, "tagged", b"3", etag=tag).reason == "ETAG_MISMATCH"
    refused(CODE.NOT_FOUND, "absent", write, client, sandbox, "absent", b"3", etag=tag)
    refused(CODE.INVALID_ARGUMENT, "contradict", write, client, sandbox, "tagged", b"3", etag=tag, exclusive=True)
    failed(http("DELETE", f"/files/tagged?etag={tag}"), 409, 10, "etag", "ETAG_MISMATCH")
    assert read(client, sandbox, "tagged")[1] == b"22"
    assert http("DELETE", f"/files/tagged?etag={newer}") == (200, {})


def test_directories_names_and_removing(client, sandbox, http):
    made = client.make_directory(sandbox_id=sandbox, path="x/y/z")
    assert (made.path, made.type) == ("/x/y/z", file_pb2.FILE_TYPE_DIRECTORY) and client.make_directory(sandbox_id=sandbox, path="x/y/z") == made
    write(client, sandbox, "x/y/z/f", b"f")
    write(client, sandbox, "g", b"g")
    assert refused(CODE.ALREADY_EXISTS, "g", client.rename_file, sandbox_id=sandbox, path="g", new_path="/x/y/z/f")
    assert client.rename_file(sandbox_id=sandbox, path="g", new_path="x/y/z/f", replace=True).path == "/x/y/z/f"
    assert read(client, sandbox, "x/y/z/f")[1] == b"g"
    status, moved = http("POST", "/rename", {"path": "x", "newPath": "made/on/the/way"})
    assert (status, moved["path"], moved["type"]) == (200, "/made/on/the/way", "FILE_TYPE_DIRECTORY")
    failed(http("POST", "/rename", {"path": "x", "newPath": "other"}), 404, 5, "'x'")
    failed(http("POST", "/rename", {"path": "/", "newPath": "other"}), 400, 3, "root")
    failed(http("POST", "/rename", {"path": "made"}), 400, 3, "new_path is required")
    refused(CODE.FAILED_PRECONDITION, "made", client.remove_file, sandbox_id=sandbox, path="made")
    assert http("DELETE", "/files/made?recursive=true") == (200, {})
    failed(http("DELETE", "/files/made?recursive=true"), 404, 5, "")
    assert http("POST", "/mkdir", {"path": "again"})[1]["name"] == "again"
    refused(CODE.INVALID_ARGUMENT, "path is required", client.make_directory, sandbox_id=sandbox)


def test_the_rules_hold(client, sandbox):
    refused(CODE.NOT_FOUND, "", client.stat_file, sandbox_id=sandbox, path="secret/key")
    refused(CODE.NOT_FOUND, "", read, client, sandbox, "secret/key")
    refused(CODE.PERMISSION_DENIED, "", write, client, sandbox, "locked.txt", b"x")
    refused(CODE.PERMISSION_DENIED, "", client.rename_file, sandbox_id=sandbox, path="locked.txt", new_path="open.txt")
    refused(CODE.PERMISSION_DENIED, "", client.remove_file, sandbox_id=sandbox, path="locked.txt")
    refused(CODE.PERMISSION_DENIED, "", read, client, sandbox, "names/only")
    refused(CODE.NOT_FOUND, "", client.rename_file, sandbox_id=sandbox, path="secret/key", new_path="seen")


@pytest.mark.parametrize("path", ["../x", "/../etc/passwd", "src/../../etc/passwd", "src/.."])
def test_no_path_leaves_the_sandbox(client, sandbox, path):
    for call in (client.stat_file, client.list_directory, client.make_directory, client.remove_file):
        refused(CODE.INVALID_ARGUMENT, "leaves", call, sandbox_id=sandbox, path=path)
    refused(CODE.INVALID_ARGUMENT, "leaves", read, client, sandbox, path)
    refused(CODE.INVALID_ARGUMENT, "leaves", write, client, sandbox, path, b"x")
    refused(CODE.INVALID_ARGUMENT, "leaves", client.rename_file, sandbox_id=sandbox, path="README", new_path=path)
    refused(CODE.INVALID_ARGUMENT, "leaves", client.search_files, sandbox_id=sandbox, path=path, text="x")


def test_links_are_never_followed(client, sandbox, project):
    for call in (lambda: read(client, sandbox, "leak"), lambda: read(client, sandbox, "leakdir/host.txt"), lambda: write(client, sandbox, "leak", b"x"),
                 lambda: write(client, sandbox, "leakdir/new", b"x"), lambda: client.list_directory(sandbox_id=sandbox, path="leakdir"),
                 lambda: client.rename_file(sandbox_id=sandbox, path="README", new_path="leakdir/moved")):
        with pytest.raises(grpc.RpcError):
            call()
    assert sorted(os.listdir(project.outside)) == ["host.txt"] and (project.outside / "host.txt").read_text() == "hello of the host\n"


def found(answer):
    return [(match.path, match.line, match.text) for match in answer.matches]


def test_searching_text(client, sandbox, http):
    answer = client.search_files(sandbox_id=sandbox, text="hello", ignore_case=True)
    assert found(answer) == [("/src/deep/b.py", 2, "print('Hello')")], "nothing hidden, only to be seen, in .git or behind a link"
    assert answer.limit == file_pb2.SearchFilesResponse.LIMIT_UNSPECIFIED and answer.files_searched >= 4 and answer.files_skipped >= 1
    assert found(client.search_files(sandbox_id=sandbox, text="hello")) == []
    match = client.search_files(sandbox_id=sandbox, path="src", text="print", context_lines=10).matches[0]
    assert (list(match.before), list(match.after)) == (["import os"], ["exit()"])
    assert found(client.search_files(sandbox_id=sandbox, path="/src/deep/b.py", text="exit")) == [("/src/deep/b.py", 3, "exit()")]
    assert found(client.search_files(sandbox_id=sandbox, path=".git", text="hello")) == [("/.git/config", 1, "hello")]
    status, same = http("GET", "/search?text=print&glob=*.py")
    assert status == 200 and [match["path"] for match in same["matches"]] == ["/src/deep/b.py"] and same["limit"] == "LIMIT_UNSPECIFIED"
    assert http("POST", "/search", {"text": "print", "glob": "*.txt"})[1]["matches"] == []


def test_searching_names(client, sandbox):
    paths = [match.path for match in client.search_files(sandbox_id=sandbox, path="src", glob="*.txt").matches]
    assert paths == ["/src/a.txt"]
    assert [match.path for match in client.search_files(sandbox_id=sandbox, glob="/src/**/*.py").matches] == ["/src/deep/b.py"]
    assert [match.path for match in client.search_files(sandbox_id=sandbox, glob="key").matches] == []
    refused(CODE.INVALID_ARGUMENT, "text or glob", client.search_files, sandbox_id=sandbox)
    refused(CODE.INVALID_ARGUMENT, "pattern", client.search_files, sandbox_id=sandbox, glob="[z")
    refused(CODE.INVALID_ARGUMENT, "max_results", client.search_files, sandbox_id=sandbox, glob="*", max_results=5000)
    refused(CODE.INVALID_ARGUMENT, "one line", client.search_files, sandbox_id=sandbox, text="a\nb")
    refused(CODE.NOT_FOUND, "absent", client.search_files, sandbox_id=sandbox, path="absent", text="x")


def test_a_search_is_bounded(client, sandbox, project):
    project.sh("mkdir -p bulk && cd bulk && for i in $(seq 400); do printf 'needle in %s\\n' $i > f$i; done; yes 'needle again' | head -c 3000000 > long")
    answer = client.search_files(sandbox_id=sandbox, path="bulk", text="needle", max_results=7)
    assert len(answer.matches) == 7 and answer.limit == file_pb2.SearchFilesResponse.LIMIT_RESULTS
    answer = client.search_files(sandbox_id=sandbox, path="bulk", text="needle", max_results=1000, max_bytes=100)
    assert 1 <= len(answer.matches) <= 10 and answer.limit == file_pb2.SearchFilesResponse.LIMIT_BYTES
    answer = client.search_files(sandbox_id=sandbox, path="bulk", text="absent", timeout={"nanos": 1_000_000})
    assert answer.limit == file_pb2.SearchFilesResponse.LIMIT_TIME
    project.sh("cd bulk && head -c 9000000 /dev/zero | tr '\\0' x > large; head -c 100 /dev/zero > zeros; echo needle >> zeros")
    answer = client.search_files(sandbox_id=sandbox, path="bulk", glob="[lz][ae]*", text="needle")
    assert (answer.files_skipped, len(answer.matches)) == (2, 0), "too large, and binary"
    line = client.search_files(sandbox_id=sandbox, path="bulk/large", glob="large").matches
    assert [match.path for match in line] == ["/bulk/large"]


def test_a_search_ends_with_its_caller(client, sandbox, project):
    project.sh("mkdir -p bulk2; cd bulk2; for d in $(seq 30); do mkdir $d; for i in $(seq 100); do echo x > $d/$i; done; done")
    call = client.search_files_call.future(METHOD_REQUEST(sandbox_id=sandbox, path="bulk2", text="absent", timeout={"seconds": 60}), timeout=60)
    time.sleep(0.05)
    call.cancel()
    began = time.monotonic()
    assert client.stat_file(sandbox_id=sandbox, path="bulk2").type == file_pb2.FILE_TYPE_DIRECTORY and time.monotonic() - began < 10


METHOD_REQUEST = file_pb2.SearchFilesRequest


def test_which_sandbox(client, shared, sandbox, http):
    refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", client.stat_file)
    for strange in (NOBODY, "sb_0123456789abcdef", "nonsense", "../../etc"):
        assert refused(CODE.NOT_FOUND, "", client.stat_file, sandbox_id=strange).reason == "SANDBOX_NOT_FOUND", strange
        refused(CODE.NOT_FOUND, "", client.search_files, sandbox_id=strange, text="x")
        refused(CODE.NOT_FOUND, "", write, client, strange, "f", b"x")
    failed(shared.http("GET", f"/v1/sandboxes/{NOBODY}/stat?path=x"), 404, 5, "", "SANDBOX_NOT_FOUND")


def test_one_that_is_stopped_has_no_files_to_ask_for(client, shared):
    box = Workspace(shared)
    try:
        box.ok("POST", "/stop")
        refused(CODE.FAILED_PRECONDITION, "", client.stat_file, sandbox_id=box.id, path="README")
        refused(CODE.FAILED_PRECONDITION, "", write, client, box.id, "f", b"x")
        failed(shared.http("GET", f"/v1/sandboxes/{box.id}/files/README"), 400, 9, "")
    finally:
        box.remove()


def test_over_a_codebase_too(client):
    codebase = client.codebase({"a": "1"})
    box = client.sandbox(codebase)
    assert read(client, box, "a")[1] == b"1" and write(client, box, "b", b"2").created
    assert found(client.search_files(sandbox_id=box, text="2")) == [("/b", 1, "2")]
    client.destroy_sandbox(sandbox_id=box)


def test_others_do_not_see_it(shared, sandbox):
    mallory = shared.client(token_of(shared, "mallory"))
    for call in (lambda: mallory.stat_file(sandbox_id=sandbox, path="README"), lambda: mallory.search_files(sandbox_id=sandbox, text="read"),
                 lambda: read(mallory, sandbox, "README"), lambda: write(mallory, sandbox, "README", b"x"),
                 lambda: mallory.remove_file(sandbox_id=sandbox, path="README"), lambda: mallory.list_directory(sandbox_id=sandbox),
                 lambda: mallory.rename_file(sandbox_id=sandbox, path="README", new_path="R"), lambda: mallory.make_directory(sandbox_id=sandbox, path="d")):
        assert refused(CODE.NOT_FOUND, "", call).reason == "SANDBOX_NOT_FOUND"
    status, body = shared.http("GET", f"/v1/sandboxes/{sandbox}/stat?path=README", headers={"Authorization": "Bearer nonsense"})
    assert (status, body["code"]) == (401, 16)


def test_many_at_once(client, sandbox):
    wrong = []

    def work(number):
        content = f"{number}\n".encode() * 1000
        write(client, sandbox, f"at-once/{number}", content)
        if read(client, sandbox, f"at-once/{number}")[1] != content:
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(client.list_directory(sandbox_id=sandbox, path="at-once").files) == 20
