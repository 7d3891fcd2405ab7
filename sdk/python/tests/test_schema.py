"""The messages that the package reads from .proto files are those that protoc makes of them."""

import os
import subprocess

from agentfense._schema import METHODS, messages, read_files
from conftest import ROOT
from google.protobuf import descriptor_pb2

FILES = ["google/rpc/status.proto", *sorted(str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto/sandbox/v1").glob("*.proto"))]


def without_json_names(message):
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        without_json_names(nested)


def test_they_are_those_of_protoc(tmp_path):
    out = tmp_path / "set"
    protoc = os.environ.get("PROTOC", "protoc")
    subprocess.run([protoc, f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out}", *FILES], check=True)
    wanted = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file}
    for file in read_files():
        for message in wanted[file.name].message_type:
            without_json_names(message)
        for service in [*wanted[file.name].service, *file.service]:
            for method in service.method:  # false and absent are the same
                method.client_streaming, method.server_streaming = method.client_streaming, method.server_streaming
        assert file == wanted[file.name]
    described = [method.name for file in wanted.values() for service in file.service for method in service.method]
    assert sorted(METHODS) == sorted(described), "of every file, each name once"


def test_messages_go_over_the_wire_and_back():
    request = messages.CreateSandboxRequest(codebase_id="cb", labels={"a": "b"}, permissions=[{"pattern": "/x", "permission": 2}])
    again = messages.CreateSandboxRequest.FromString(request.SerializeToString())
    assert again == request and again.permissions[0].pattern == "/x" and dict(again.labels) == {"a": "b"}


def test_a_module_of_protoc_with_the_same_names_does_no_harm(tmp_path, monkeypatch):
    protoc = os.environ.get("PROTOC", "protoc")
    subprocess.run([protoc, f"--proto_path={ROOT / 'proto'}", f"--python_out={tmp_path}", *FILES[1:]], check=True)
    monkeypatch.syspath_prepend(tmp_path)
    from sandbox.v1 import sandbox_pb2

    assert sandbox_pb2.Sandbox(id="x").SerializeToString() == messages.Sandbox(id="x").SerializeToString()
