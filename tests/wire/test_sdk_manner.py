"""The way the Python SDK of the project whose interface this is talks: a plain channel to a name, no deadline, no metadata, no options."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from sandbox.v1 import codebase_pb2 as cb
from sandbox.v1 import sandbox_pb2 as sb
from server import METHODS, Server

GLOB, BWRAP, DOCKER = 1, 1, 2


class Stub:
    def __init__(self, channel):
        for name, method in METHODS.items():
            make = getattr(channel, method.kind)
            setattr(self, name, make(method.path, method.request.SerializeToString, method.answer.FromString))


@pytest.fixture(scope="module")
def stub():
    from conftest import PROGRAMS

    server = Server(PROGRAMS, **{"server-grpc-addr": "localhost:0"})
    try:
        server.start()
        with grpc.insecure_channel(f"localhost:{server.grpc_address.rsplit(':', 1)[1]}") as channel:
            yield Stub(channel)
    finally:
        server.remove()


def upload(stub, codebase, path, content):
    def chunks():
        yield cb.UploadChunk(metadata=cb.UploadChunk.Metadata(codebase_id=codebase, file_path=path, total_size=len(content)))
        for at in range(0, len(content), 65536):
            yield cb.UploadChunk(data=content[at:at + 65536])

    return stub.UploadFiles(chunks())


def rule(pattern, permission, priority=0):
    return sb.PermissionRule(pattern=pattern, type=GLOB, permission=permission, priority=priority)


AGENT_SAFE = [rule("**/*", 3), rule("/output/**", 4, 10), rule("/tmp/**", 4, 10), rule("**/.env*", 1, 100), rule("**/secrets/**", 1, 100)]


def test_from_local(stub):
    codebase = stub.CreateCodebase(cb.CreateCodebaseRequest(name="project", owner_id="user_01234567")).id
    for path, content in {"main.py": b"print('hi')\n", "secrets/key": b"k", "docs/a.md": b"x" * 200000, "empty": b""}.items():
        assert upload(stub, codebase, path, content).size == len(content)
    made = stub.CreateSandbox(sb.CreateSandboxRequest(codebase_id=codebase, permissions=AGENT_SAFE, labels={}, runtime=BWRAP))
    assert made.status == 1 and [one.type for one in made.permissions] == [GLOB] * 5
    assert stub.StartSandbox(sb.StartSandboxRequest(sandbox_id=made.id)).status == 2
    command = "python3 main.py; ls; cat secrets/key; echo o > output/o"
    result = stub.Exec(sb.ExecRequest(sandbox_id=made.id, command=command, timeout=Duration(seconds=60)))
    assert result.stdout.splitlines()[0] == "hi" and "secrets" not in result.stdout
    assert b"".join(one.data for one in stub.ExecStream(sb.ExecRequest(sandbox_id=made.id, command="echo s"))) == b"s\n"
    session = stub.CreateSession(sb.CreateSessionRequest(sandbox_id=made.id, shell="/bin/sh"))
    assert stub.SessionExec(sb.SessionExecRequest(session_id=session.id, command="cd docs && pwd")).stdout.strip() == "/workspace/docs"
    stub.DestroySession(sb.DestroySessionRequest(session_id=session.id))
    with pytest.raises(grpc.RpcError) as caught:
        stub.DestroySession(sb.DestroySessionRequest(session_id=session.id))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    assert b"".join(one.data for one in stub.DownloadFile(cb.DownloadFileRequest(codebase_id=codebase, file_path="output/o"))) == b"o\n"
    stub.DestroySandbox(sb.DestroySandboxRequest(sandbox_id=made.id))
    stub.DeleteCodebase(cb.DeleteCodebaseRequest(codebase_id=codebase))


def test_without_rules_and_with_another_runtime(stub):
    codebase = stub.CreateCodebase(cb.CreateCodebaseRequest(name="p", owner_id="u")).id
    upload(stub, codebase, "a", b"1")
    bare = stub.CreateSandbox(sb.CreateSandboxRequest(codebase_id=codebase))
    stub.StartSandbox(sb.StartSandboxRequest(sandbox_id=bare.id))
    assert stub.Exec(sb.ExecRequest(sandbox_id=bare.id, command="ls -A")).stdout == ""
    assert stub.CreateSandbox(sb.CreateSandboxRequest(codebase_id=codebase, runtime=DOCKER)).id


def test_lists_without_pages(stub):
    for number in range(3):
        stub.CreateCodebase(cb.CreateCodebaseRequest(name=f"l{number}", owner_id="lister"))
    assert len(stub.ListCodebases(cb.ListCodebasesRequest(owner_id="lister")).codebases) == 3
    assert not stub.ListSandboxes(sb.ListSandboxesRequest(codebase_id="cb_0123456789abcdef")).sandboxes
    assert not stub.ListSessions(sb.ListSessionsRequest(sandbox_id="sb_0123456789abcdef")).sessions
