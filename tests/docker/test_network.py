"""What a container reaches: nothing, unless it asks and the server allows it."""

import contextlib
import ctypes
import os
import re
import subprocess

import grpc
import pytest
from sandbox.v1 import sandbox_pb2

CODE = grpc.StatusCode
LISTEN = """
import socket
with socket.create_server(("0.0.0.0", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(b"reached\\n")
        connection.close()
"""
REACH = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
        print(connection.recv(100).decode().strip())
except OSError as error:
    print(error.__class__.__name__)
"""


def refused(code, text, call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    assert caught.value.code() == code and re.search(text, caught.value.details()), caught.value


@contextlib.contextmanager
def neighbour(dock):
    """The port of a server in the engine's own network."""
    if not dock.network_pid:
        pytest.skip("the network of another's engine is not ours to listen in")
    with subprocess.Popen(["nsenter", "-t", str(dock.network_pid), "-n", "/usr/bin/python3", "-c", LISTEN], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def sandbox_with(client, network):
    return client.sandbox(client.codebase({"reach.py": REACH}), network=network)


def test_none_has_nothing_but_loopback(client, dock):
    sandbox = sandbox_with(client, "")
    assert client.get_sandbox(sandbox_id=sandbox).network == "none"
    done = client.run(sandbox, "python3 -c 'import socket; print(sorted(name for _, name in socket.if_nameindex()))'")
    assert done.stdout == "['lo']\n", done
    with neighbour(dock) as port:
        assert client.run(sandbox, f"python3 reach.py 172.17.0.1 {port}").stdout == "OSError\n"
    client.destroy_sandbox(sandbox_id=sandbox)


def test_bridge_reaches_what_the_engine_bridges_to(client, dock):
    if not dock.has_bridge:
        pytest.skip("this engine has no bridge")
    sandbox = sandbox_with(client, "bridge")
    assert client.get_sandbox(sandbox_id=sandbox).network == "bridge"
    done = client.run(sandbox, "python3 -c 'import socket; print(sorted(name for _, name in socket.if_nameindex()))'")
    assert done.stdout == "['eth0', 'lo']\n", done
    with neighbour(dock) as port:
        assert client.run(sandbox, f"python3 reach.py 172.17.0.1 {port}").stdout == "reached\n"
    client.destroy_sandbox(sandbox_id=sandbox)


def test_host_is_the_engines_own(make, dock):
    server = make(**{"runtime-docker-enable-networking": "true", "sandbox-allow-host-network": "true"}).start()
    client = server.client()
    sandbox = sandbox_with(client, "host")
    with neighbour(dock) as port:
        assert client.run(sandbox, f"python3 reach.py 127.0.0.1 {port}").stdout == "reached\n"


ASK = """
import sys, urllib.error, urllib.request
for verb, path, body in (("GET", "/v1/codebases", None), ("POST", "/v1/codebases", b'{"name": "mine", "ownerId": "agent"}'),
                         ("PUT", "/api/v1/config/profiles/mine", b'{"name": "Mine", "networkAccess": "none"}'), ("GET", "/api/v1/sandboxes", None)):
    try:
        print(urllib.request.urlopen(urllib.request.Request(sys.argv[1] + path, body, method=verb), timeout=60).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


def test_the_server_s_own_loopback_is_no_way_in(make, dock):
    """A server in the network that the engine calls the host's: containers reach it there, and are nobody."""
    if not dock.network_pid:
        pytest.skip("the network of another's engine is not ours to listen in")
    network = os.open(f"/proc/{dock.network_pid}/ns/net", os.O_RDONLY)
    try:
        server = make(**{"runtime-docker-enable-networking": "true", "sandbox-allow-host-network": "true"})
        server.start(preexec_fn=lambda: ctypes.CDLL(None).setns(network, 0), pass_fds=[network])
    finally:
        os.close(network)
    client = server.client(address=server.unix_address)
    box = client.sandbox(client.codebase({"ask.py": ASK}), network="host")
    outside = subprocess.run(["nsenter", "-t", str(dock.network_pid), "-n", "/usr/bin/python3", "-c", ASK, f"http://{server.http_address}"],
                             capture_output=True, text=True, check=True)
    assert outside.stdout.split() == ["200", "200", "200", "200"], outside
    done = client.run(box, f"python3 ask.py http://{server.http_address}")
    assert done.stdout.split() == ["401", "401", "401", "401"], done
    # A container of somebody's own, root's inside and outside, has the server's uid.
    words = ["run", "--rm", "--network", "host", "--entrypoint", "/usr/bin/python3", dock.image("tools"), "-c", ASK, f"http://{server.http_address}"]
    assert dock.docker(*words).split() == ["401", "401", "401", "401"]


def test_what_was_not_allowed_is_refused(make, client):
    strict = make().start().client()
    codebase = strict.codebase()
    refused(CODE.PERMISSION_DENIED, "runtime.docker.enable_networking", strict.create_sandbox, codebase_id=codebase, network="bridge")
    refused(CODE.PERMISSION_DENIED, "sandbox.allow_host_network", strict.create_sandbox, codebase_id=codebase, network="host")
    refused(CODE.PERMISSION_DENIED, "sandbox.allow_host_network", client.create_sandbox, codebase_id=client.codebase(), network="host")
    refused(CODE.INVALID_ARGUMENT, "no container", client.create_sandbox, codebase_id=client.codebase(), network="bridge",
            runtime=sandbox_pb2.RUNTIME_TYPE_BWRAP)
    refused(CODE.INVALID_ARGUMENT, "no network", client.create_sandbox, codebase_id=client.codebase(), network="mars")


def test_a_server_may_give_all_containers_a_network(make, dock):
    if not dock.has_bridge:
        pytest.skip("this engine has no bridge")
    client = make(**{"runtime-docker-enable-networking": "true", "runtime-docker-network-mode": "bridge"}).start().client()
    made = client.create_sandbox(codebase_id=client.codebase())
    assert made.network == "bridge"
    other = client.create_sandbox(codebase_id=client.codebase(), runtime=sandbox_pb2.RUNTIME_TYPE_BWRAP)
    assert other.network == "none"
