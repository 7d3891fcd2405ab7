"""Images of every kind: whole, small, without a shell, not there."""

import os
import re

import grpc
import pytest
from sandbox.v1 import sandbox_pb2

CODE = grpc.StatusCode


def refused(code, text, call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    assert caught.value.code() == code and re.search(text, caught.value.details()), caught.value
    return caught.value.details()


def test_commands_see_the_images_files_and_the_workspace(client, dock):
    sandbox = client.sandbox(client.codebase({"a.txt": "a"}), image=dock.image("box"))
    made = client.get_sandbox(sandbox_id=sandbox)
    assert (made.runtime, made.image) == (sandbox_pb2.RUNTIME_TYPE_DOCKER, dock.image("box"))
    assert client.run(sandbox, "ls /sh; cat a.txt; pwd").stdout == "busybox\na/workspace\n"
    assert client.run(sandbox, "python3 --version").exit_code == 127
    client.destroy_sandbox(sandbox_id=sandbox)


def test_two_sandboxes_of_one_image_do_not_meet(client, dock):
    codebase = client.codebase()
    first, second = (client.sandbox(codebase, image=dock.image("box")) for _ in range(2))
    client.run(first, "echo x > /tmp/mark; echo y > /home/agent/mark")
    assert client.run(second, "ls /tmp /home/agent").stdout.count("mark") == 0
    for sandbox in (first, second):
        client.destroy_sandbox(sandbox_id=sandbox)


def test_an_image_without_a_shell_runs_programs(shop):
    done = shop.run("--", "/opt/cat", "hello.txt", image="bare")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done


def test_an_image_without_a_shell_says_so(client, dock):
    sandbox = client.sandbox(client.codebase(), image=dock.image("bare"))
    done = client.run(sandbox, "echo x")
    assert done.exit_code == 127 and "/bin/sh" in done.stderr, done
    assert client.get_sandbox(sandbox_id=sandbox).status == sandbox_pb2.SANDBOX_STATUS_RUNNING
    with pytest.raises(grpc.RpcError):
        client.create_session(sandbox_id=sandbox, shell="/bin/sh")
    client.destroy_sandbox(sandbox_id=sandbox)


def test_an_image_that_is_not_there_is_named_and_can_come_later(client, dock):
    name = f"{dock.name}/later-{os.getpid()}:1"
    made = client.create_sandbox(codebase_id=client.codebase({"a": "a"}), image=name)
    assert made.status == sandbox_pb2.SANDBOX_STATUS_PENDING
    refused(CODE.FAILED_PRECONDITION, name, client.start_sandbox, sandbox_id=made.id)
    now = client.get_sandbox(sandbox_id=made.id)
    assert now.status == sandbox_pb2.SANDBOX_STATUS_ERROR and name in now.status_reason
    dock.docker("tag", dock.image("box"), name)
    assert client.start_sandbox(sandbox_id=made.id).status == sandbox_pb2.SANDBOX_STATUS_RUNNING
    client.destroy_sandbox(sandbox_id=made.id)
    dock.docker("rmi", name)


def test_what_is_no_name_of_an_image_is_refused_at_once(client):
    codebase = client.codebase()
    for name in ("--privileged", "a b", "../x", "x\ny", "a" * 300):
        refused(CODE.INVALID_ARGUMENT, "image", client.create_sandbox, codebase_id=codebase, image=name)


def test_the_command_line_says_what_is_wrong(shop):
    assert "not the name of an image" in shop.call("run", "--image", "-x", shop.base, "--", "true").stderr
    assert "--runtime docker" in shop.call("run", "--runtime", "bwrap", "--image", "x", shop.base, "--", "true").stderr
    assert "--runtime docker" in shop.call("run", "--net", "bridge", shop.base, "--", "true").stderr
    missing = shop.call("run", "-q", "--image", "localhost:1/none/such", shop.base, "--", "true")
    assert missing.returncode == 125 and "localhost:1/none/such" in missing.stderr, missing
    assert "fetching" not in missing.stderr
    missing = shop.call("run", "--image", "localhost:1/none/such", shop.base, "--", "true")
    assert missing.returncode == 125 and "agentfense: fetching 'localhost:1/none/such'\n" in missing.stderr, missing


def test_only_the_fence_goes_with_containers(shop):
    for driver in ("overlayfs", "copy"):
        done = shop.run("--driver", driver, "--rule", "/**=write", "--", "true")
        assert done.returncode == 125 and "does not go with containers; use fence" in done.stderr, done


def test_run_changes_are_reviewed_as_ever(shop):
    done = shop.run("--name", "mine", "--", "sh", "-c", "echo new > made.txt; echo hi >> hello.txt; cat hello.txt")
    assert (done.returncode, done.stdout) == (0, "hello\nhi\n"), done
    assert (shop.base / "hello.txt").read_text() == "hello\n"
    assert "+hi" in shop.call("diff", "mine").stdout
    assert shop.call("run", "-q", "--in", "mine", "--", "cat", "made.txt").stdout == "new\n"
    assert shop.call("apply", "mine").returncode == 0
    assert (shop.base / "hello.txt").read_text() == "hello\nhi\n"


def test_create_makes_containers_too(shop, dock):
    assert shop.call("codebase", "create", "shop", shop.base).returncode == 0
    assert "--runtime docker" in shop.call("create", "--runtime", "bwrap", "--image", "x", "shop").stderr
    made = shop.call("create", "--image", dock.image("box"), "--name", "web", "--start", "shop")
    assert made.returncode == 0, made
    try:
        assert "runtime: RUNTIME_TYPE_DOCKER" in shop.call("inspect", "web").stdout
        assert shop.call("exec", "web", "--", "cat", "hello.txt").stdout == "hello\n"
    finally:
        assert shop.call("rm", "--purge", "web").returncode == 0
