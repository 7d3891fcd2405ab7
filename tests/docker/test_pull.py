"""Images that are not here yet: fetched from a registry, with what is told meanwhile; and what can go wrong with that."""

import re
import subprocess
import threading

import grpc
import pytest
from registry import Registry, make_layers, no_registry
from sandbox.v1 import sandbox_pb2
from server import eventually

CODE = grpc.StatusCode
PENDING, RUNNING, ERROR = (getattr(sandbox_pb2, f"SANDBOX_STATUS_{name}") for name in ("PENDING", "RUNNING", "ERROR"))
STEP = r"fetching '{}': (\d+) of 2 layers, (\d+) of (\d+) MB"


@pytest.fixture
def registry(dock, tmp_path):
    made = Registry(dock, make_layers(tmp_path))
    yield made
    for line in dock.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split():
        if line.startswith(f"{made.host}/"):  # while the port is ours: another registry may get it then
            dock.docker("rmi", "-f", line)
    made.stop()


@pytest.fixture
def client(make):
    return make(**{"runtime-docker-pull": "true"}).start().client()


def refused(client, sandbox):
    with pytest.raises(grpc.RpcError) as caught:
        client.start_sandbox(sandbox_id=sandbox)
    now = client.get_sandbox(sandbox_id=sandbox)
    assert caught.value.code() == CODE.FAILED_PRECONDITION and now.status == ERROR, caught.value
    assert now.status_reason and now.status_reason in caught.value.details()
    return caught.value.details()


def test_run_fetches_an_image_and_tells_how_far_it_is(shop, dock, registry):
    image = registry.name("tiny")
    registry.slow = 1
    command = [str(shop.program), "run", "--image", image.rpartition(":")[0], str(shop.base), "--", "cat", "hello.txt"]  # without the tag
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=shop.environment()) as process:
        try:
            told = []
            for line in process.stderr:  # lines come while it goes on: the registry waits for us to have seen one
                told.append(line)
                step = re.match("agentfense: " + STEP.format(re.escape(image.rpartition(":")[0])), line)
                if step and int(step[2]) >= 1:
                    registry.go_on.set()
            output = process.stdout.read()
        finally:
            registry.go_on.set()
            process.wait(120)
    assert registry.go_on.is_set() and (process.returncode, output) == (0, "hello\n"), told
    assert told[0] == f"agentfense: fetching '{image.rpartition(':')[0]}'\n"
    assert dock.docker("images", "-q", image)
    registry.asked.clear()
    again = shop.call("run", "--image", image, shop.base, "--", "cat", "hello.txt")
    assert (again.returncode, again.stdout) == (0, "hello\n") and "fetching" not in again.stderr and not registry.asked


@pytest.mark.parametrize("verb", ["start", "create"])
def test_the_command_line_tells_it_while_a_sandbox_starts(shop, registry, verb):
    image = registry.name("cli/" + verb)
    registry.slow = 1
    codebase = shop.call("codebase", "create", "-q", "c").stdout.strip()
    command = [shop.program, "create", "--image", image, "--start", codebase]
    if verb == "start":
        command = [shop.program, "start", shop.call("create", "-q", "--image", image, codebase).stdout.strip()]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=shop.environment()) as process:
        try:
            told = []
            for line in process.stderr:
                told.append(line)
                if re.match(f"agentfense {verb}: " + STEP.format(re.escape(image)), line):
                    registry.go_on.set()
            output = process.stdout.read().strip()
        finally:
            registry.go_on.set()
            process.wait(120)
    assert process.returncode == 0 and output.startswith("sb_") and told and all("fetching" in line for line in told), (told, output)
    again = shop.call("rm", "-f", output)
    assert again.returncode == 0, again


def test_a_sandbox_that_starts_says_what_it_is_at(client, dock, registry):
    image = registry.name("team/tiny", "2")
    registry.slow = 1
    made = client.get_sandbox(sandbox_id=client.sandbox(client.codebase({"a": "a"}), image=image, start=False))
    assert (made.status, made.status_reason) == (PENDING, "")
    started = []
    starter = threading.Thread(target=lambda: started.append(client.start_sandbox(sandbox_id=made.id, call_timeout=120)))
    starter.start()
    try:
        def step():
            now = client.get_sandbox(sandbox_id=made.id)
            assert now.status == PENDING, now
            found = re.fullmatch(STEP.format(re.escape(image)), now.status_reason)
            return found and int(found[2]) >= 1 and now.status_reason

        seen = eventually(step)
        (listed,) = client.list_sandboxes().sandboxes
        assert re.fullmatch(STEP.format(re.escape(image)), listed.status_reason), (seen, listed)
    finally:
        registry.go_on.set()
        starter.join()
    assert (started[0].status, started[0].status_reason) == (RUNNING, "")
    now = client.get_sandbox(sandbox_id=made.id)
    assert (now.status, now.status_reason) == (RUNNING, "")
    assert client.run(made.id, "cat a; ls -l /noise | wc -l").stdout == "a1\n"


def test_whoever_gives_up_while_it_is_fetched_leaves_nothing(client, dock, registry):
    image = registry.name("slow")
    registry.slow = 1
    made = client.create_sandbox(codebase_id=client.codebase(), image=image)
    call = client.start_sandbox_call.future(sandbox_pb2.StartSandboxRequest(sandbox_id=made.id))
    eventually(lambda: "fetching" in client.get_sandbox(sandbox_id=made.id).status_reason)
    call.cancel()
    now = eventually(lambda: (now := client.get_sandbox(sandbox_id=made.id)).status == ERROR and now)
    assert "fetching" not in now.status_reason and not dock.containers()
    registry.go_on.set()
    assert client.start_sandbox(sandbox_id=made.id).status == RUNNING


@pytest.mark.long  # an engine waits for five seconds before it tries once more
def test_a_fetch_that_breaks_off_is_told_and_can_be_tried_again(client, dock, registry):
    if not dock.is_ours:
        pytest.skip("an engine that was not told otherwise tries for more than a minute")
    image = registry.name("broken")
    registry.cut = 1
    made = client.sandbox(client.codebase({"a": "a"}), image=image, start=False)
    reason = refused(client, made)
    assert f"'{image}'" in reason and "cannot be fetched" in reason and "EOF" in reason, reason
    assert not dock.containers()
    registry.cut = None
    assert client.start_sandbox(sandbox_id=made).status == RUNNING
    assert client.run(made, "cat a").stdout == "a"


def test_a_tag_that_there_is_not_is_named(client, shop, registry):
    image = registry.name("tiny").replace(":latest", ":never")
    reason = refused(client, client.create_sandbox(codebase_id=client.codebase(), image=image).id)
    assert f"there is no image '{image}' here, and it cannot be fetched: " in reason, reason
    assert re.search(r"manifest (for \S+ not found|unknown)", reason), reason
    done = shop.call("run", "--image", image, shop.base, "--", "true")
    assert done.returncode == 125 and f"'{image}'" in done.stderr and "manifest" in done.stderr, done


def test_a_registry_that_wants_a_password_is_told_of_with_what_to_do(client, shop, registry):
    image = registry.name("secret")
    registry.wants_password = True
    reason = refused(client, client.create_sandbox(codebase_id=client.codebase(), image=image).id)
    assert f"'{image}'" in reason and "docker login" in reason and "docker pull" in reason, reason
    done = shop.call("run", "--image", image, shop.base, "--", "true")
    assert done.returncode == 125 and "docker pull" in done.stderr, done


def test_a_registry_that_is_not_there_is_told_of(client, dock):
    with no_registry(dock) as host:
        image = f"{host}/gone:latest"
        reason = refused(client, client.create_sandbox(codebase_id=client.codebase(), image=image).id)
    assert f"'{image}'" in reason and "connection refused" in reason, reason


def test_a_server_that_may_not_fetch_does_not(make, dock, registry):
    client = make().start().client()
    image = registry.name("tiny")
    reason = refused(client, client.create_sandbox(codebase_id=client.codebase(), image=image).id)
    assert f"'{image}'" in reason and "runtime.docker.pull" in reason and f"docker pull {image}" in reason, reason
    assert not registry.asked
