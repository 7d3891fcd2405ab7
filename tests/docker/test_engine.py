"""An engine that is not there, that goes, and that comes back; a server that is killed meanwhile."""

import os
import re
import signal

import grpc
import pytest
from sandbox.v1 import sandbox_pb2
from server import eventually

CODE = grpc.StatusCode
ERROR, RUNNING = sandbox_pb2.SANDBOX_STATUS_ERROR, sandbox_pb2.SANDBOX_STATUS_RUNNING
OFF = sandbox_pb2.SYNC_MODE_OFF


def status(client, sandbox):
    return client.get_sandbox(sandbox_id=sandbox).status


def test_without_an_engine_a_sandbox_is_made_and_its_start_says_what_is_missing(make, dock, tmp_path):
    nowhere = tmp_path / "no.sock"
    server = make(**{"runtime-docker-host": f"unix://{nowhere}"}).start()
    client = server.client()
    made = client.create_sandbox(codebase_id=client.codebase({"a": "a"}), image="x:1")
    assert (made.runtime, made.image, made.status) == (sandbox_pb2.RUNTIME_TYPE_DOCKER, "x:1", sandbox_pb2.SANDBOX_STATUS_PENDING)
    with pytest.raises(grpc.RpcError) as caught:
        client.start_sandbox(sandbox_id=made.id)
    assert caught.value.code() == CODE.FAILED_PRECONDITION
    assert str(nowhere) in caught.value.details() and re.search("start|install|DOCKER_HOST|runtime.docker.host", caught.value.details())
    now = client.get_sandbox(sandbox_id=made.id)
    assert now.status == ERROR and str(nowhere) in now.status_reason
    other = client.sandbox(client.codebase(), runtime=sandbox_pb2.RUNTIME_TYPE_BWRAP)
    assert client.run(other, "echo on").stdout == "on\n"


def test_without_an_engine_run_says_what_is_missing(shop, tmp_path):
    done = shop.run("--", "true", DOCKER_HOST=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 125 and f"no Docker engine answers at '{tmp_path}/no.sock'" in done.stderr and "start it" in done.stderr, done


def test_the_engine_is_where_the_configuration_says_now(make, dock, tmp_path):
    server = make(**{"runtime-docker-host": f"{tmp_path}/no.sock"}).start()
    client = server.client()
    made = client.sandbox(client.codebase({"a": "a"}), image=dock.image("box"), start=False)
    with pytest.raises(grpc.RpcError):
        client.start_sandbox(sandbox_id=made)
    server.stop()
    server.settings["runtime-docker-host"] = dock.host
    client = server.start().client()
    assert client.start_sandbox(sandbox_id=made).status == RUNNING
    assert client.run(made, "cat a").stdout == "a"


def test_a_killed_server_finds_its_containers_again(server, dock):
    client = server.client()
    codebase = client.codebase({"a": "a"})
    sandbox = client.sandbox(codebase, image=dock.image("box"))
    session = client.create_session(sandbox_id=sandbox, shell="/bin/sh").id
    client.session_exec(session_id=session, command="x=kept; (sleep 1000 &) ")
    before = dock.containers()
    server.kill()
    client = server.start().client()
    assert status(client, sandbox) == RUNNING and dock.containers() == before
    assert client.session_exec(session_id=session, command="echo $x").stdout.strip() == "kept"
    assert "sleep 1000" in client.run(sandbox, "ps").stdout
    client.stop_sandbox(sandbox_id=sandbox)
    assert not dock.containers()


def test_a_killed_supervisor_leaves_nothing_and_the_changes(server, dock):
    client = server.client()
    sandbox = client.sandbox(client.codebase({"a": "a"}), image=dock.image("box"), sync_on_completion=OFF)
    client.run(sandbox, "echo changed > a; sleep 1000 &")
    os.kill(server.supervisors()[sandbox], signal.SIGKILL)
    eventually(lambda: status(client, sandbox) == ERROR)
    client.start_sandbox(sandbox_id=sandbox)
    assert client.run(sandbox, "cat a").stdout == "changed\n"
    assert len(dock.containers()) == 1
    client.destroy_sandbox(sandbox_id=sandbox)
    eventually(lambda: not dock.containers() and not server.mounts())


@pytest.mark.restarts
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_an_engine_that_restarts_ends_sandboxes_but_loses_nothing(make, dock, number):
    # A server's round of upkeep may see an end before its reason was written, and then notes one of its own: here none comes.
    server = make(**{"sandbox-cleanup-interval": "10m"}).start()
    client = server.client()
    kept = client.sandbox(client.codebase({"a": "a"}), image=dock.image("box"), sync_on_completion=OFF)
    client.run(kept, "echo changed > a; echo new > b; rm -f none")
    dock.restart(number)
    # An engine answers when it has settled what its containers are: those that it did not end before it ends now, unless it keeps them.
    if not dock.containers("status=running"):
        eventually(lambda: status(client, kept) == ERROR)
        reason = client.get_sandbox(sandbox_id=kept).status_reason
        assert "engine was stopped" in reason and "start it again" in reason, reason
        assert client.start_sandbox(sandbox_id=kept).status == RUNNING
    assert client.run(kept, "cat a b").stdout == "changed\nnew\n"
    client.destroy_sandbox(sandbox_id=kept)
    eventually(lambda: not dock.containers() and not server.mounts())


@pytest.mark.restarts
def test_while_the_engine_is_away_nothing_hangs_and_nothing_is_forgotten(server, dock):
    client = server.client()
    sandbox = client.sandbox(client.codebase({"a": "a"}), image=dock.image("box"), sync_on_completion=OFF)
    client.run(sandbox, "echo changed > a")
    dock.end()
    eventually(lambda: status(client, sandbox) == ERROR)
    with pytest.raises(grpc.RpcError) as caught:
        client.start_sandbox(sandbox_id=sandbox)
    assert caught.value.code() == CODE.FAILED_PRECONDITION and dock.socket in caught.value.details()
    dock.restart()
    client.start_sandbox(sandbox_id=sandbox)
    assert client.run(sandbox, "cat a").stdout == "changed\n"


def test_both_runtimes_work_on_one_codebase(server, dock):
    client = server.client()
    codebase = client.codebase({"a": "one\n"})
    container = client.sandbox(codebase, image=dock.image("box"))
    plain = client.sandbox(codebase, runtime=sandbox_pb2.RUNTIME_TYPE_BWRAP)
    listed = {made.id: made.runtime for made in client.list_sandboxes(codebase_id=codebase).sandboxes}
    assert listed == {container: sandbox_pb2.RUNTIME_TYPE_DOCKER, plain: sandbox_pb2.RUNTIME_TYPE_BWRAP}
    client.run(container, "echo two > a")
    assert client.run(plain, "cat a; echo three > a").stdout == "two\n"
    assert client.run(container, "cat a").stdout == "three\n"
    assert client.get(codebase, "a") == b"three\n"


def test_an_engine_that_does_not_see_the_fence_is_told_of(shop, dock):
    """As with a server in a unit that has mounts of its own."""
    command = [str(shop.program), "run", "-q", "--image", dock.image("box"), str(shop.base), "--", "true"]
    shop.program = "/usr/bin/unshare"
    done = shop.call("--mount", "--propagation", "private", *command)
    assert done.returncode == 125 and "mount namespace" in done.stderr, done
