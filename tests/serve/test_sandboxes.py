"""Sandboxes by gRPC: their life, what is refused and with which words."""

import contextlib
import os
import re
import signal

import grpc
import pytest
import rpc_status_pb2
from google.protobuf.duration_pb2 import Duration
from sandbox.v1 import sandbox_pb2
from server import Server, eventually, rules


def refused(code, text, call, *args, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        answer = call(*args, **fields)
        list(answer) if hasattr(answer, "__iter__") and not hasattr(answer, "DESCRIPTOR") else None
    assert (caught.value.code(), caught.value.details()) == (code, text) if isinstance(text, str) else (
        caught.value.code() == code and text.search(caught.value.details())), caught.value
    return caught.value


CODE = grpc.StatusCode


def test_a_rule_without_a_type_is_told_back_as_a_glob(client, shared):
    """Which it is; a client that knows no other word than these three must not meet a fourth."""
    codebase = client.codebase({"a.txt": "hello"})
    made = client.create_sandbox(codebase_id=codebase, permissions=rules([("**/*", "write"), ("/a.txt", "read")]))
    assert [rule.type for rule in made.permissions] == [1, 1]
    assert [rule.type for rule in client.get_sandbox(sandbox_id=made.id).permissions] == [1, 1]
    assert [rule.type for rule in client.list_sandboxes(codebase_id=codebase).sandboxes[0].permissions] == [1, 1]
    _, told = shared.http("GET", f"/v1/sandboxes/{made.id}/permissions/explain?path=/a.txt")
    assert told["rule"]["type"] == "PATTERN_TYPE_GLOB", told
    changed = client.update_permissions(sandbox_id=made.id, permissions=rules([("/a.txt", "read")]))
    assert [rule.type for rule in changed.permissions] == [1]
    client.destroy_sandbox(sandbox_id=made.id)


def test_a_life(client):
    codebase = client.codebase({"a.txt": "hello"})
    made = client.create_sandbox(codebase_id=codebase, permissions=rules([("**/*", "write")]), labels={"team": "red"})
    assert re.fullmatch("sb_[0-9a-f]{16}", made.id)
    assert (made.status, made.codebase_id, dict(made.labels)) == (1, codebase, {"team": "red"})
    assert made.permissions[0].pattern == "**/*" and made.permissions[0].type == 1 and made.permissions[0].permission == 4
    assert made.created_at.seconds > 0 and not made.HasField("started_at") and made.expires_at.seconds > made.created_at.seconds
    assert made.runtime == (2 if Server.engine else 1)
    started = client.start_sandbox(sandbox_id=made.id)
    assert started.status == 2 and started.started_at.seconds >= made.created_at.seconds
    assert client.run(made.id, "cat a.txt").stdout == "hello"
    refused(CODE.FAILED_PRECONDITION, "sandbox is already running", client.start_sandbox, sandbox_id=made.id)
    stopped = client.stop_sandbox(sandbox_id=made.id)
    assert stopped.status == 3 and stopped.stopped_at.seconds > 0
    refused(CODE.FAILED_PRECONDITION, "sandbox is not running", client.stop_sandbox, sandbox_id=made.id)
    refused(CODE.FAILED_PRECONDITION, "sandbox is not running", client.run, made.id, "true")
    refused(CODE.FAILED_PRECONDITION, "sandbox is not running", client.create_session, sandbox_id=made.id)
    assert client.start_sandbox(sandbox_id=made.id).status == 2
    client.destroy_sandbox(sandbox_id=made.id)
    refused(CODE.NOT_FOUND, "sandbox not found", client.get_sandbox, sandbox_id=made.id)


@pytest.mark.parametrize("method", ["get_sandbox", "start_sandbox", "stop_sandbox", "destroy_sandbox", "exec", "create_session",
                                    "exec_stream", "update_permissions"])
def test_ids_are_required_and_must_be_there(client, method):
    call = getattr(client, method)
    extra = {"command": "true"} if method.startswith("exec") else {}
    refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", call, **extra)
    for strange in ("sb_0123456789abcdef", "x", "../../etc", "sb_0123456789abcdef/..", "\x7f"):
        refused(CODE.NOT_FOUND, "sandbox not found", call, sandbox_id=strange, **extra)


def test_a_command_is_required_after_the_id(client):
    refused(CODE.INVALID_ARGUMENT, "command is required", client.exec, sandbox_id="sb_0123456789abcdef")
    refused(CODE.INVALID_ARGUMENT, "command is required", client.session_exec, session_id="sess_0123456789abcdef")


def test_create_needs_a_codebase(client):
    refused(CODE.INVALID_ARGUMENT, "codebase_id is required", client.create_sandbox)
    error = refused(CODE.NOT_FOUND, "codebase not found", client.create_sandbox, codebase_id="cb_0123456789abcdef")
    detail = dict(error.trailing_metadata())["grpc-status-details-bin"]
    status = rpc_status_pb2.Status.FromString(detail)
    assert status.code == 5 and b"CODEBASE_NOT_FOUND" in detail


def test_bad_rules_are_refused_by_number(client):
    codebase = client.codebase()
    refused(CODE.INVALID_ARGUMENT, re.compile(r"rule 2.*\.\."), client.create_sandbox, codebase_id=codebase,
            permissions=rules([("**/*", "read"), ("../x", "write")]))
    refused(CODE.INVALID_ARGUMENT, re.compile("preset"), client.create_sandbox, codebase_id=codebase, preset="no-such")
    assert not client.list_sandboxes(codebase_id=codebase).sandboxes


def test_without_rules_the_workspace_is_empty(client):
    sandbox = client.sandbox(client.codebase({"a": "1"}), permissions=())
    assert client.run(sandbox, "ls -A; pwd").stdout == "/workspace\n"
    session = client.create_session(sandbox_id=sandbox)
    assert client.session_exec(session_id=session.id, command="echo hi").stdout == "hi\n"


def test_a_preset_hides_secrets(client):
    codebase = client.codebase({".env": "KEY=1", "app.py": "print(1)", "secrets/a": "x", "README.md": "r"})
    sandbox = client.create_sandbox(codebase_id=codebase, preset="agent-safe", permissions=rules([("/out/**", "write", 10)]))
    client.start_sandbox(sandbox_id=sandbox.id)
    listing = client.run(sandbox.id, "ls -A; cat .env; cat app.py; echo x > out/y; echo z > app.py")
    assert ".env" not in listing.stdout.split() and "secrets" not in listing.stdout.split() and "app.py" in listing.stdout.split()
    assert "print(1)" in listing.stdout and ".env: No such file" in listing.stderr and "Permission denied" in listing.stderr
    assert client.get(codebase, "out/y") == b"x\n"


def test_rules_of_a_running_sandbox_change(client):
    codebase = client.codebase({"a": "1", "b": "2"})
    sandbox = client.sandbox(codebase)
    assert client.run(sandbox, "cat a b").stdout == "12"
    updated = client.update_permissions(sandbox_id=sandbox, permissions=rules([("**/*", "read"), ("/b", "none")]))
    assert [rule.pattern for rule in updated.permissions] == ["**/*", "/b"]
    result = client.run(sandbox, "cat a; cat b; echo x > a")
    assert result.stdout == "1" and "b: No such file" in result.stderr and "Permission denied" in result.stderr
    client.stop_sandbox(sandbox_id=sandbox)
    client.start_sandbox(sandbox_id=sandbox)
    assert client.run(sandbox, "ls").stdout == "a\n"
    assert [rule.pattern for rule in client.get_sandbox(sandbox_id=sandbox).permissions] == ["**/*", "/b"]
    refused(CODE.INVALID_ARGUMENT, re.compile("rule 1"), client.update_permissions, sandbox_id=sandbox,
            permissions=rules([("[", "read")]))
    assert client.run(sandbox, "ls").stdout == "a\n"


def test_explain(client):
    sandbox = client.sandbox(client.codebase(), permissions=[("**/*", "read"), ("**/.env*", "none", 100)], start=False)
    hidden = client.explain_permission(sandbox_id=sandbox, path="/x/.env")
    assert hidden.permission == 1 and hidden.rule.pattern == "**/.env*" and any("**/*" in reason for reason in hidden.reasons)
    assert client.explain_permission(sandbox_id=sandbox, path="x/y").permission == 3
    refused(CODE.INVALID_ARGUMENT, "path is required", client.explain_permission, sandbox_id=sandbox)


def test_lists_have_pages(client):
    codebase = client.codebase()
    made = [client.sandbox(codebase, start=False) for _ in range(7)]
    seen, token = [], ""
    for expected in (3, 3, 1):
        page = client.list_sandboxes(codebase_id=codebase, page_size=3, page_token=token)
        assert len(page.sandboxes) == expected
        seen += [sandbox.id for sandbox in page.sandboxes]
        token = page.next_page_token
    assert token == "" and sorted(seen) == sorted(made)
    assert not client.list_sandboxes(codebase_id="cb_0123456789abcdef").sandboxes
    assert len(client.list_sandboxes(codebase_id=codebase, page_size=-1).sandboxes) == 7
    assert refused(CODE.INVALID_ARGUMENT, re.compile("token"), client.list_sandboxes, page_token="nonsense")
    client.start_sandbox(sandbox_id=made[2])
    running = client.list_sandboxes(codebase_id=codebase, status=sandbox_pb2.SANDBOX_STATUS_RUNNING)
    assert [sandbox.id for sandbox in running.sandboxes] == [made[2]]


def test_docker_is_accepted_and_told_when_it_starts(make, tmp_path):
    nowhere = tmp_path / "docker.sock"
    client = make(**{"runtime-docker-host": nowhere}).start().client()
    made = client.create_sandbox(codebase_id=client.codebase(), runtime=sandbox_pb2.RUNTIME_TYPE_DOCKER, image="x:1")
    assert (made.runtime, made.image, made.status) == (2, "x:1", 1)
    reason = str(nowhere) if os.geteuid() == 0 else "needs a mount that the Docker engine can see, which only root can make"
    refused(CODE.FAILED_PRECONDITION, re.compile(re.escape(reason)), client.start_sandbox, sandbox_id=made.id)
    now = client.get_sandbox(sandbox_id=made.id)
    assert now.status == 4 and reason in now.status_reason


@pytest.mark.parametrize("number", [3, 100, -1])
def test_only_a_runtime_of_the_api_can_be_asked_for(client, number):
    refused(CODE.INVALID_ARGUMENT, f"runtime {number} is not known", client.create_sandbox, codebase_id=client.codebase(),
            runtime=number)


def test_limits_are_echoed_and_hold(client):
    limits = sandbox_pb2.ResourceLimits(disk_bytes=1 << 20)
    sandbox = client.sandbox(client.codebase(), resources=limits)
    assert client.get_sandbox(sandbox_id=sandbox).resources.disk_bytes == 1 << 20
    result = client.run(sandbox, "head -c 3000000 /dev/zero > big")
    assert result.exit_code != 0 and "No space left" in result.stderr
    refused(CODE.INVALID_ARGUMENT, "resources must not be negative", client.create_sandbox, codebase_id=client.codebase(),
            resources=sandbox_pb2.ResourceLimits(memory_bytes=-1))


@pytest.mark.bwrap("tests/docker/test_network.py")
def test_the_host_network_must_be_allowed(client, make):
    codebase = client.codebase()
    refused(CODE.PERMISSION_DENIED, re.compile("allow_host_network"), client.create_sandbox, codebase_id=codebase, network="host")
    refused(CODE.INVALID_ARGUMENT, re.compile("'moon' is no network"), client.create_sandbox, codebase_id=codebase, network="moon")
    other = make(**{"sandbox-allow-host-network": "true"}).start().client()
    sandbox = other.sandbox(other.codebase(), network="host")
    assert len(other.run(sandbox, "cat /proc/net/dev").stdout.splitlines()) > 2
    alone = client.sandbox(codebase)
    assert [line.split(":")[0].strip() for line in client.run(alone, "cat /proc/net/dev").stdout.splitlines()[2:]] == ["lo"]


def test_an_idempotency_key_makes_one(client):
    codebase = client.codebase()
    first = client.create_sandbox(codebase_id=codebase, idempotency_key="k1", labels={"a": "1"})
    again = client.create_sandbox(codebase_id=codebase, idempotency_key="k1", labels={"a": "1"})
    assert again.id == first.id
    refused(CODE.ALREADY_EXISTS, re.compile("."), client.create_sandbox, codebase_id=codebase, idempotency_key="k1", labels={"a": "2"})
    assert len(client.list_sandboxes(codebase_id=codebase).sandboxes) == 1
    one = client.create_codebase(name="x", owner_id="o", idempotency_key="k2")
    assert client.create_codebase(name="x", owner_id="o", idempotency_key="k2").id == one.id


def test_max_per_user(make):
    client = make(**{"sandbox-max-per-user": "2"}).start().client()
    codebase = client.codebase()
    made = [client.sandbox(codebase, start=False) for _ in range(2)]
    refused(CODE.RESOURCE_EXHAUSTED, re.compile("."), client.create_sandbox, codebase_id=codebase)
    client.create_sandbox(codebase_id=client.codebase(owner="somebody else"))
    client.destroy_sandbox(sandbox_id=made[0])
    client.create_sandbox(codebase_id=codebase)


def work_then_expire(client, codebase):
    """Two sandboxes that expire soon; one has changes. A machine that is too slow for that gives them more time."""
    for seconds in (1, 5, 25, 125):
        kept, empty = (client.create_sandbox(codebase_id=codebase, permissions=rules([("**/*", "write")]), expires_in=Duration(seconds=seconds)).id
                       for _ in range(2))
        with contextlib.suppress(grpc.RpcError):
            client.start_sandbox(sandbox_id=kept)
            client.run(kept, "echo work > w")
            client.start_sandbox(sandbox_id=empty)
            return kept, empty
    raise AssertionError("they expired before anything could be done in them")


def test_what_expires_is_stopped_and_kept_while_it_has_changes(make):
    server = make(**{"sandbox-sync-on-completion": "false", "sandbox-cleanup-interval": "100ms"}).start()
    client = server.client()
    codebase = client.codebase()
    kept, empty = work_then_expire(client, codebase)

    def is_gone(box):
        return box not in [sandbox.id for sandbox in client.list_sandboxes().sandboxes]

    eventually(lambda: is_gone(empty))
    eventually(lambda: client.get_sandbox(sandbox_id=kept).status == 3)
    eventually(lambda: not server.supervisors())
    # Nor does the next round take it away: it has been when one that expires now is gone.
    late = client.sandbox(codebase, start=False, expires_in=Duration(nanos=1000000))
    eventually(lambda: is_gone(late))

    def work():
        with contextlib.suppress(grpc.RpcError):  # a round may stop it again before the command has run: it has expired
            client.start_sandbox(sandbox_id=kept)
            return client.run(kept, "cat w").stdout

    assert eventually(work) == "work\n"


def test_a_sandbox_whose_supervisor_dies_is_in_error_and_can_be_started_again(server):
    client = server.client()
    codebase = client.codebase()
    sandbox = client.sandbox(codebase)
    client.run(sandbox, "echo 1 > kept")
    os.kill(server.supervisors()[sandbox], signal.SIGKILL)
    eventually(lambda: client.get_sandbox(sandbox_id=sandbox).status == 4)
    assert client.get_sandbox(sandbox_id=sandbox).status_reason
    assert any(event.type == "sandbox_failed" for event in client.events(sandbox_id=sandbox))
    client.start_sandbox(sandbox_id=sandbox)
    assert client.run(sandbox, "cat kept").stdout == "1\n"
