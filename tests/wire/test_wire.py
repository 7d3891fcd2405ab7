"""What every client must be able to do with the server, as it comes."""

import base64
import io
import os
import tarfile

import health_pb2
import pytest
import reflection_pb2
import rpc_status_pb2
from google.protobuf.duration_pb2 import Duration
from sandbox.v1 import codebase_pb2 as cb
from sandbox.v1 import sandbox_pb2 as sb
from server import METHODS, eventually, rules

MIB = 1 << 20
SILENT = 3 if os.environ.get("AGENTFENSE_LONG") == "1" else 1  # seconds, in which five pings come
CANCELLED, INVALID, DEADLINE, NOT_FOUND, EXHAUSTED, UNIMPLEMENTED, UNAVAILABLE = 1, 3, 4, 5, 8, 12, 14


class Api:
    """The methods, spoken by a client."""

    def __init__(self, speaker, channel):
        self.speaker, self.channel = speaker, channel

    def begin(self, name, *requests, **options):
        method = METHODS[name]
        return self.speaker.start(self.channel, method.path, method.kind, [r.SerializeToString() for r in requests], **options)

    def end(self, name, *requests, **options):
        return self.begin(name, *requests, **options).wait()

    def __call__(self, name, *requests, **options):
        """The answer, or the list of answers."""
        ended = self.end(name, *requests, **options)
        assert ended.code == 0, (name, ended)
        messages = [METHODS[name].answer.FromString(data) for data in ended.answers]
        return messages if METHODS[name].kind.endswith("_stream") else messages[0]

    def codebase(self):
        return self("CreateCodebase", cb.CreateCodebaseRequest(name="wire", owner_id="tester")).id

    def box(self, codebase):
        made = self("CreateSandbox", sb.CreateSandboxRequest(codebase_id=codebase, permissions=rules([("**/*", "write")])))
        return self("StartSandbox", sb.StartSandboxRequest(sandbox_id=made.id)).id

    def run(self, box, command, **fields):
        return self("Exec", sb.ExecRequest(sandbox_id=box, command=command, **fields))

    def names(self, codebase):
        return [file.path for file in self("ListFiles", cb.ListFilesRequest(codebase_id=codebase, recursive=True)).files]

    def get(self, codebase, path):
        return b"".join(chunk.data for chunk in self("DownloadFile", cb.DownloadFileRequest(codebase_id=codebase, file_path=path)))


def head(codebase, path, **fields):
    return cb.UploadChunk(metadata=cb.UploadChunk.Metadata(codebase_id=codebase, file_path=path, **fields))


@pytest.fixture
def api(speaker, shared, request):
    speaker.open(request.node.name, shared.grpc_address)
    return Api(speaker, request.node.name)


@pytest.fixture(scope="module")
def place(speaker, shared):
    """A codebase and a sandbox of it that runs."""
    speaker.open("place", shared.grpc_address)
    api = Api(speaker, "place")
    codebase = api.codebase()
    return codebase, api.box(codebase)


def test_every_method(api):
    called = set()

    def call(name, *requests):
        called.add(name)
        return api(name, *requests)

    codebase = call("CreateCodebase", cb.CreateCodebaseRequest(name="all", owner_id="tester")).id
    assert call("GetCodebase", cb.GetCodebaseRequest(codebase_id=codebase)).name == "all"
    assert codebase in [one.id for one in call("ListCodebases", cb.ListCodebasesRequest(owner_id="tester", page_size=1000)).codebases]
    result = call("UploadFiles", head(codebase, "a.txt"), cb.UploadChunk(data=b"one"), cb.UploadChunk(data=b"two"))
    assert (result.size, result.checksum) == (6, "5b9164ad6f496d9dee12ec7634ce253f")
    assert b"".join(chunk.data for chunk in call("DownloadFile", cb.DownloadFileRequest(codebase_id=codebase, file_path="a.txt"))) == b"onetwo"
    assert [file.path for file in call("ListFiles", cb.ListFilesRequest(codebase_id=codebase)).files] == ["a.txt"]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("b/empty"))
    chunk = cb.ArchiveChunk(data=out.getvalue())
    assert call("UploadArchive", cb.ArchiveChunk(metadata=cb.ArchiveChunk.Metadata(codebase_id=codebase)), chunk).file_count >= 1
    packed = b"".join(chunk.data for chunk in call("DownloadArchive", cb.DownloadArchiveRequest(codebase_id=codebase)))
    assert {"a.txt", "b/empty"} <= {name.removeprefix("./") for name in tarfile.open(fileobj=io.BytesIO(packed)).getnames()}
    call("DeleteFile", cb.DeleteFileRequest(codebase_id=codebase, file_path="b"))
    versions = call("ListVersions", cb.ListVersionsRequest(codebase_id=codebase)).versions
    assert [version.reason for version in versions][:2] == ["delete", "archive"]
    call("RestoreVersion", cb.RestoreVersionRequest(codebase_id=codebase, version=versions[1].number))

    box = call("CreateSandbox", sb.CreateSandboxRequest(codebase_id=codebase, permissions=rules([("**/*", "write")]))).id
    assert call("StartSandbox", sb.StartSandboxRequest(sandbox_id=box)).status == 2
    assert call("GetSandbox", sb.GetSandboxRequest(sandbox_id=box)).codebase_id == codebase
    assert [one.id for one in call("ListSandboxes", sb.ListSandboxesRequest(codebase_id=codebase)).sandboxes] == [box]
    assert call("Exec", sb.ExecRequest(sandbox_id=box, command="cat a.txt; exit 3")).exit_code == 3
    assert b"".join(part.data for part in call("ExecStream", sb.ExecRequest(sandbox_id=box, command="cat a.txt"))) == b"onetwo"
    session = call("CreateSession", sb.CreateSessionRequest(sandbox_id=box, shell="/bin/sh")).id
    assert call("GetSession", sb.GetSessionRequest(session_id=session)).status == 1
    assert [one.id for one in call("ListSessions", sb.ListSessionsRequest(sandbox_id=box)).sessions] == [session]
    assert call("SessionExec", sb.SessionExecRequest(session_id=session, command="X=1; echo $X")).stdout == "1\n"
    parts = call("SessionExecStream", sb.SessionExecRequest(session_id=session, command="echo $X"))
    assert b"".join(part.data for part in parts) == b"1\n"
    call("DestroySession", sb.DestroySessionRequest(session_id=session))
    call("UpdatePermissions", sb.UpdatePermissionsRequest(sandbox_id=box, permissions=rules([("/a.txt", "view")])))
    assert len(call("AddPermissionRules", sb.AddPermissionRulesRequest(sandbox_id=box, permissions=rules([("/b", "read")]))).permissions) == 2
    assert len(call("RemovePermissionRules", sb.RemovePermissionRulesRequest(sandbox_id=box, patterns=["/b"])).permissions) == 1
    assert call("PreviewPermissions", sb.PreviewPermissionsRequest(sandbox_id=box, preset="read-only")).changed >= 1
    assert call("LintPermissions", sb.LintPermissionsRequest(sandbox_id=box)).paths >= 1
    assert call("ExplainPermission", sb.ExplainPermissionRequest(sandbox_id=box, path="/a.txt")).permission == 2
    assert "sandbox_started" in {event.type for event in call("ListEvents", sb.ListEventsRequest(sandbox_id=box)).events}
    assert call("StopSandbox", sb.StopSandboxRequest(sandbox_id=box)).status == 3
    call("DestroySandbox", sb.DestroySandboxRequest(sandbox_id=box))
    call("DeleteCodebase", cb.DeleteCodebaseRequest(codebase_id=codebase))
    assert called == {name for name, method in METHODS.items() if "/sandbox.v1.SandboxService/" in method.path or "Codebase" in method.path}


@pytest.mark.parametrize(("name", "wanted", "code", "message", "reason"), [
    ("GetSandbox", sb.GetSandboxRequest(), INVALID, "sandbox_id is required", None),
    ("GetSandbox", sb.GetSandboxRequest(sandbox_id="sb_0123456789abcdef"), NOT_FOUND, "sandbox not found", "SANDBOX_NOT_FOUND"),
    ("DownloadFile", cb.DownloadFileRequest(codebase_id="cb_0123456789abcdef", file_path="x"), NOT_FOUND, "codebase not found",
     "CODEBASE_NOT_FOUND"),
    ("SessionExec", sb.SessionExecRequest(session_id="sess_0", command="true"), NOT_FOUND, "session not found", "SESSION_NOT_FOUND"),
])
def test_errors_have_code_text_and_reason(api, name, wanted, code, message, reason):
    ended = api.end(name, wanted)
    assert (ended.code, ended.message) == (code, message)
    if reason:
        details = rpc_status_pb2.Status.FromString(base64.b64decode(ended.trailing["grpc-status-details-bin"]))
        assert (details.code, details.message) == (code, message)
        assert details.details[0].type_url == "type.googleapis.com/google.rpc.ErrorInfo" and reason.encode() in details.details[0].value


def test_an_unknown_method(api):
    ended = api.speaker.start(api.channel, "/sandbox.v1.SandboxService/Fly", "unary_unary", [b""]).wait()
    assert ended.code == UNIMPLEMENTED


def test_a_message_that_is_none(api):
    ended = api.speaker.start(api.channel, "/sandbox.v1.SandboxService/GetSandbox", "unary_unary", [b"\xff\xff\xff"]).wait()
    assert ended.code in (INVALID, 13)


def count(api, box, text):
    return api.run(box, f"ps ax | grep -c '[s]leep {text}'; true").stdout.strip()


def test_a_deadline_ends_call_and_command(api, place, request):
    seconds = f"9{abs(hash(request.node.name)) % 100000}"
    ended = api.end("Exec", sb.ExecRequest(sandbox_id=place[1], command=f"sleep {seconds}"), deadline_ms=700)
    assert ended.code == DEADLINE
    eventually(lambda: count(api, place[1], seconds) == "0")


def test_a_timeout_of_the_server_is_the_same_code(api, place):
    ended = api.end("Exec", sb.ExecRequest(sandbox_id=place[1], command="sleep 977", timeout=Duration(nanos=300_000_000)))
    assert (ended.code, ended.message) == (DEADLINE, "command timed out")


def test_cancelling_kills_the_command(api, place, request):
    seconds = f"8{abs(hash(request.node.name)) % 100000}"
    ended = api.end("ExecStream", sb.ExecRequest(sandbox_id=place[1], command=f"echo up; sleep {seconds}"), cancel_after=1)
    assert ended.code == CANCELLED
    eventually(lambda: count(api, place[1], seconds) == "0")


def test_the_exit_code_is_in_the_trailer(api, place):
    ended = api.end("ExecStream", sb.ExecRequest(sandbox_id=place[1], command="echo out; exit 7"))
    assert ended.code == 0 and ended.trailing["agentfense-exit-code"] == "7"
    silent = api.end("ExecStream", sb.ExecRequest(sandbox_id=place[1], command="exit 8"))
    assert silent.code == 0 and silent.answers == [] and silent.trailing["agentfense-exit-code"] == "8"


def test_messages_of_nearly_4_mib_pass_both_ways(api, place):
    size = 4 * MIB - 1000
    result = api.run(place[1], "wc -c; head -c 2000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y >&2",
                     stdin_data=b"x" * size, max_output_bytes=8 * MIB)
    assert result.stdout == f"{size}\n" + "x" * 2000000 and result.stderr == "y" * 2000000
    chunk = cb.UploadChunk(data=b"y" * size)
    assert api("UploadFiles", head(place[0], "large"), chunk).size == size
    assert api.get(place[0], "large") == b"y" * size


def test_more_than_4_mib_is_told(api, place):
    request = sb.ExecRequest(sandbox_id=place[1], command="true", stdin_data=b"x" * (4 * MIB + 1))
    assert api.end("Exec", request).code == EXHAUSTED
    assert api.end("UploadFiles", head(place[0], "larger"), cb.UploadChunk(data=b"y" * (4 * MIB + 1))).code == EXHAUSTED
    assert "larger" not in api.names(place[0])
    result = api.run(place[1], "head -c 4194305 /dev/zero | tr '\\0' z", max_output_bytes=8 * MIB)
    assert result.stdout_truncated and 2000000 < len(result.stdout) < 4 * MIB  # an answer is cut so that it fits
    assert api.run(place[1], "echo on").stdout == "on\n"


def test_a_hundred_streams_on_one_channel(api, place):
    calls = [api.begin("ExecStream", sb.ExecRequest(sandbox_id=place[1], command=f"echo {n}; sleep 0.2; echo {n}; exit {n}")) for n in range(100)]
    for n, call in enumerate(calls):
        ended = call.wait()
        assert ended.code == 0 and ended.trailing["agentfense-exit-code"] == str(n), ended
        assert b"".join(sb.ExecOutput.FromString(data).data for data in ended.answers) == f"{n}\n{n}\n".encode()


def test_an_upload_given_up_leaves_nothing(api, place, shared):
    before = api.names(place[0])
    # With its size: node's HTTP/2 ends a stream before it resets it, and nothing else then tells the server that this was not all.
    first = head(place[0], "partial", total_size=2 * MIB)
    ended = api.end("UploadFiles", first, cb.UploadChunk(data=b"z" * 100000), abandon=True, repeat=10)
    assert ended.code == CANCELLED
    assert api.names(place[0]) == before
    top = shared.state / "codebases" / place[0]
    eventually(lambda: not list((top / "stage").iterdir()))


def test_an_archive_given_up_changes_nothing(api, place):
    before = api.names(place[0])
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("x1", "x2"):
            tar.addfile(tarfile.TarInfo(name))
    data = out.getvalue()
    first = cb.ArchiveChunk(metadata=cb.ArchiveChunk.Metadata(codebase_id=place[0], total_size=len(data)))
    assert api.end("UploadArchive", first, cb.ArchiveChunk(data=data[:512]), abandon=True).code == CANCELLED
    assert api.end("UploadArchive", first, cb.ArchiveChunk(data=data[:512])).code == INVALID
    assert api.names(place[0]) == before
    assert api("UploadArchive", first, cb.ArchiveChunk(data=data)).file_count == 2


def test_an_error_comes_while_the_client_still_sends(api):
    chunk = cb.UploadChunk(data=b"z" * 60000)
    ended = api.end("UploadFiles", head("cb_0123456789abcdef", "x"), chunk, repeat=3000)
    # A write that meets the end of the call is an error of its own for grpc.aio, which then does not look at the call's.
    if any("aio" in str(word) for word in api.speaker.process.args) and ended.message == "Internal error from Core":
        return
    assert (ended.code, ended.message) == (NOT_FOUND, "codebase not found")


def test_an_empty_file(api, place):
    result = api("UploadFiles", head(place[0], "empty"))
    assert (result.size, result.checksum) == (0, "d41d8cd98f00b204e9800998ecf8427e")
    ended = api.end("DownloadFile", cb.DownloadFileRequest(codebase_id=place[0], file_path="empty"))
    assert ended.code == 0 and ended.answers == []


def test_a_unix_socket(speaker, shared):
    speaker.open("unix", shared.unix_address)
    assert Api(speaker, "unix").codebase().startswith("cb_")


def test_tls(speaker, secure, certificate):
    port = secure.grpc_address.rsplit(":", 1)[1]
    speaker.open("tls", f"localhost:{port}", ca=str(certificate / "cert.pem"))
    api = Api(speaker, "tls")
    codebase = api.codebase()
    content = bytes(range(256)) * 4096
    chunks = [cb.UploadChunk(data=content[at:at + 65536]) for at in range(0, len(content), 65536)]
    assert api("UploadFiles", head(codebase, "f"), *chunks).size == MIB
    assert api.get(codebase, "f") == content


def test_compressed_requests(speaker, shared, place):
    speaker.open("gzip", shared.grpc_address, gzip=True)
    api = Api(speaker, "gzip")
    assert api.run(place[1], "wc -c", stdin_data=b"x" * MIB).stdout == f"{MIB}\n"
    assert api("UploadFiles", head(place[0], "packed"), cb.UploadChunk(data=b"x" * MIB), cb.UploadChunk(data=b"y" * MIB)).size == 2 * MIB


def test_health(api):
    ended = api.speaker.start(api.channel, "/grpc.health.v1.Health/Check", "unary_unary", [b""]).wait()
    assert ended.code == 0 and health_pb2.HealthCheckResponse.FromString(ended.answers[0]).status == 1
    ended = api.speaker.start(api.channel, "/grpc.health.v1.Health/Watch", "unary_stream", [b""], cancel_after=1).wait()
    assert ended.code == CANCELLED and health_pb2.HealthCheckResponse.FromString(ended.answers[0]).status == 1


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(api, version):
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    ended = api.speaker.start(api.channel, path, "stream_stream", [request.SerializeToString()]).wait()
    assert ended.code == 0
    listed = reflection_pb2.ServerReflectionResponse.FromString(ended.answers[0]).list_services_response.service
    assert {"sandbox.v1.SandboxService", "sandbox.v1.CodebaseService", "grpc.health.v1.Health"} <= {one.name for one in listed}


def test_pings_keep_a_silent_call_alive(speaker, shared, place):
    speaker.open("pings", shared.grpc_address, keepalive_ms=200)
    api = Api(speaker, "pings")
    ended = api.end("ExecStream", sb.ExecRequest(sandbox_id=place[1], command=f"sleep {SILENT}; echo late"))
    assert ended.code == 0, ended
    assert api.run(place[1], "echo again").stdout == "again\n"


def test_a_channel_outlives_its_server(speaker, fixed, request):
    speaker.open(request.node.name, fixed.grpc_address)
    api = Api(speaker, request.node.name)
    codebase = api.codebase()
    box = api.box(codebase)
    call = api.begin("ExecStream", sb.ExecRequest(sandbox_id=box, command="echo up; sleep 0.5; echo down"))
    assert call.began.wait(60)
    fixed.stop()
    ended = call.wait()
    assert ended.code == 0 and ended.trailing["agentfense-exit-code"] == "0", "a call at work is let come to its end"
    fixed.start()
    assert api("GetCodebase", cb.GetCodebaseRequest(codebase_id=codebase), deadline_ms=60000).id == codebase
    fixed.kill()
    fixed.start()
    ended = api.end("GetCodebase", cb.GetCodebaseRequest(codebase_id=codebase), deadline_ms=60000)
    if ended.code == UNAVAILABLE:  # it was sent on the old connection before its end was noticed
        ended = api.end("GetCodebase", cb.GetCodebaseRequest(codebase_id=codebase), deadline_ms=60000)
    assert ended.code == 0
