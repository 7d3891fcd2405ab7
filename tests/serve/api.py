"""What tests of the one API have in common, by gRPC and by /v1: how refusals look, and callers with tokens."""

import grpc
import pytest
import rpc_status_pb2

CODE = grpc.StatusCode
NOBODY = "00000000-0000-4000-8000-000000000000"


class Refusal:
    """An error as a program sees it."""

    def __init__(self, error):
        self.code, self.text, self.reason, self.metadata = error.code(), error.details(), "", {}
        status = dict(error.trailing_metadata()).get("grpc-status-details-bin")
        self.details = list(rpc_status_pb2.Status.FromString(status).details) if status else []
        for detail in self.details:
            info = rpc_status_pb2.ErrorInfo()
            if detail.type_url.endswith("google.rpc.ErrorInfo") and info.MergeFromString(detail.value):
                self.reason, self.metadata = info.reason, dict(info.metadata)


def refused(code, part, call, *args, **fields):
    with pytest.raises(grpc.RpcError) as raised:
        answer = call(*args, **fields)
        if hasattr(answer, "__next__"):
            list(answer)
    refusal = Refusal(raised.value)
    assert refusal.code == code and part in refusal.text, (refusal.code, refusal.text)
    return refusal


def failed(answer, status, code, part, reason=None):
    """The one shape of errors of /v1."""
    got, body = answer
    assert (got, body["code"]) == (status, code) and part in body["message"], answer
    assert set(body) == {"code", "message", "details"}
    infos = [detail for detail in body["details"] if detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"]
    assert reason is None or [info["reason"] for info in infos] == [reason], answer
    assert all(set(info) == {"@type", "reason", "domain", "metadata"} and info["domain"] == "agentfense" for info in infos)
    return infos[0]["metadata"] if infos else {}


def token_of(server, owner, *options):
    return server.token("create", "--owner", owner, *options)


def events(stream):
    """(event, data) of server-sent events."""
    event, data = "message", []
    for line in stream:
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
        elif not field and data:
            yield event, "\n".join(data)
            event, data = "message", []


def failure(refusal, kind):
    """The message that a refusal carries beside its reason."""
    (detail,) = [one for one in refusal.details if one.type_url == f"type.googleapis.com/{kind.DESCRIPTOR.full_name}"]
    return kind.FromString(detail.value)


def id_of(uuid):
    """How the API spells what /api/v1 calls by a UUID."""
    digits = uuid.replace("-", "")
    return f"sb_{digits[:12]}{digits[13:16]}{digits[17]}"
