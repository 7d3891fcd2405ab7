"""Who gets in, and what they see: local users, tokens, sandboxes that share the host's network."""

import json
import os
import re
import subprocess
import sys

import grpc
import pytest
from server import Client, rules
from test_sandboxes import CODE, refused

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")

PROBE = """
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
call = channel.unary_unary("/sandbox.v1.CodebaseService/ListCodebases")
try:
    call(b"", timeout=60)
    print("OK")
except grpc.RpcError as error:
    print(error.code().name, error.details())
"""


def probe(address, user=None):
    args = [sys.executable, "-c", PROBE, address]
    if user is not None:
        args = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *args]
    return subprocess.run(args, capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def test_the_server_s_own_user_needs_no_token(server):
    assert probe(server.grpc_address) == "OK"
    assert probe(server.unix_address) == "OK"
    assert server.http("GET", "/v1/codebases")[0] == 200


@needs_root
def test_another_local_user_does(server):
    assert probe(server.grpc_address, NOBODY).startswith(f"UNAUTHENTICATED user {NOBODY} may not call")
    assert probe(server.unix_address, NOBODY).startswith("UNAVAILABLE")
    curl = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "curl", "-s", "-w", "%{http_code}",
                           server.url("/v1/codebases")], capture_output=True, text=True, check=True).stdout
    assert curl.endswith("401") and json.loads(curl[:-3])["code"] == 16


@needs_root
def test_unless_the_configuration_names_them(make):
    server = make(**{"server-allowed-uids": str(NOBODY)}).start()
    assert probe(server.grpc_address, NOBODY) == "OK"
    assert probe(server.grpc_address, NOBODY - 1).startswith("UNAUTHENTICATED")


@pytest.mark.bwrap("the engine of the tests has a network of its own")
@needs_root
def test_a_sandbox_on_the_host_s_network_does_not_get_in(make):
    server = make(**{"sandbox-allow-host-network": "true"}).start()
    client = server.client()
    box = client.sandbox(client.codebase(), network="host")
    script = f"python3 -c \"import urllib.request as u; print(u.urlopen('http://{server.http_address}/health').status)\"; " \
             f"curl -s -o /dev/null -w '%{{http_code}}' http://{server.http_address}/v1/codebases"
    result = client.run(box, script)
    assert result.stdout.split() == ["200", "401"], result


def test_everybody_needs_one_when_told_so(make):
    server = make(**{"server-require-token": "true"}).start()
    assert probe(server.grpc_address).startswith("UNAUTHENTICATED a token is needed")
    assert server.http("GET", "/v1/codebases")[0] == 401
    assert server.http("GET", "/health")[0] == 200
    token = server.token("create", "--owner", "alice")
    assert server.client(token).list_codebases().codebases is not None
    assert server.http("GET", "/v1/codebases", headers={"Authorization": f"Bearer {token}"})[0] == 200


def test_tokens_are_made_listed_and_revoked(server):
    token = server.token("create", "--owner", "alice", "--name", "laptop")
    assert re.fullmatch("aft_[0-9a-f]{48}", token)
    client = server.client(token)
    client.list_codebases()
    row = json.loads(server.token("list", "--json"))[0]
    assert (row["owner"], row["name"], row["admin"]) == ("alice", "laptop", False) and "lastUsed" in row and token not in json.dumps(row)
    assert row["id"] in server.token("list") and token.encode() not in b"".join(
        path.read_bytes() for path in server.state.glob("metadata.db*"))
    server.token("revoke", row["id"])
    refused(CODE.UNAUTHENTICATED, "the token is not valid", client.list_codebases)
    for strange in ("x", "aft_" + "0" * 48, "aft_" + "f" * 4000):
        refused(CODE.UNAUTHENTICATED, "the token is not valid", server.client(strange).list_codebases)
    short = server.client(server.token("create", "--owner", "a", "--expires", "1ms"))
    refused(CODE.UNAUTHENTICATED, "the token is not valid", short.list_codebases)
    for words, part in ((["create"], "needs --owner"), (["revoke"], "the id of one"), (["moon"], "create, list or revoke")):
        done = subprocess.run([server.program, "token", *words], env=server.environment(), capture_output=True, text=True)
        assert done.returncode == 2 and part in done.stderr
    done = subprocess.run([server.program, "token", "revoke", "tok_0123456789abcdef"], env=server.environment(), capture_output=True,
                          text=True)
    assert done.returncode == 125 and "tok_0123456789abcdef" in done.stderr


def test_owners_do_not_see_each_other(server):
    alice, bob = (server.client(server.token("create", "--owner", name)) for name in ("alice", "bob"))
    boss = server.client(server.token("create", "--owner", "boss", "--admin"))
    codebase = alice.create_codebase(name="hers").id
    assert alice.get_codebase(codebase_id=codebase).owner_id == "alice"
    alice.put(codebase, "a", "1")
    box = alice.sandbox(codebase)
    session = alice.create_session(sandbox_id=box).id
    not_theirs = [
        ("codebase not found", bob.get_codebase, {"codebase_id": codebase}),
        ("codebase not found", bob.delete_codebase, {"codebase_id": codebase}),
        ("codebase not found", bob.list_files, {"codebase_id": codebase}),
        ("codebase not found", bob.list_versions, {"codebase_id": codebase}),
        ("codebase not found", bob.restore_version, {"codebase_id": codebase, "version": 1}),
        ("codebase not found", bob.delete_file, {"codebase_id": codebase, "file_path": "a"}),
        ("codebase not found", bob.create_sandbox, {"codebase_id": codebase}),
        ("sandbox not found", bob.get_sandbox, {"sandbox_id": box}),
        ("sandbox not found", bob.start_sandbox, {"sandbox_id": box}),
        ("sandbox not found", bob.stop_sandbox, {"sandbox_id": box}),
        ("sandbox not found", bob.destroy_sandbox, {"sandbox_id": box}),
        ("sandbox not found", bob.exec, {"sandbox_id": box, "command": "id"}),
        ("sandbox not found", bob.create_session, {"sandbox_id": box}),
        ("sandbox not found", bob.update_permissions, {"sandbox_id": box, "permissions": rules([("**", "write")])}),
        ("sandbox not found", bob.explain_permission, {"sandbox_id": box, "path": "a"}),
        ("session not found", bob.get_session, {"session_id": session}),
        ("session not found", bob.destroy_session, {"session_id": session}),
        ("session not found", bob.session_exec, {"session_id": session, "command": "id"}),
    ]
    for text, call, fields in not_theirs:
        refused(CODE.NOT_FOUND, text, call, **fields)
    with pytest.raises(grpc.RpcError) as caught:
        bob.get(codebase, "a")
    assert caught.value.code() == CODE.NOT_FOUND
    with pytest.raises(grpc.RpcError) as caught:
        bob.put(codebase, "a", "evil")
    assert caught.value.code() == CODE.NOT_FOUND
    assert not bob.list_codebases().codebases and not bob.list_codebases(owner_id="alice").codebases
    assert not bob.list_sandboxes().sandboxes and not bob.list_sessions(sandbox_id=box).sessions
    assert not [event for event in bob.events() if event.owner_id == "alice"]
    refused(CODE.PERMISSION_DENIED, re.compile("not of another owner"), bob.create_codebase, name="x", owner_id="alice")
    assert boss.get_sandbox(sandbox_id=box).owner_id == "alice" and boss.get(codebase, "a") == b"1"
    assert alice.run(box, "cat a").stdout == "1"


def test_host_and_origin_are_checked(server):
    assert server.http("GET", "/v1/codebases", headers={"Host": "evil.example"})[0] in (400, 403, 421)
    assert server.http("GET", "/v1/codebases", headers={"Origin": "http://evil.example"})[0] == 403
    assert server.http("GET", "/v1/codebases", headers={"Host": "localhost:1"})[0] == 200


def test_tls(make, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                    tmp_path / "key.pem", "-out", tmp_path / "cert.pem", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"], check=True, capture_output=True)
    server = make(**{"server-tls-cert": tmp_path / "cert.pem", "server-tls-key": tmp_path / "key.pem"}).start()
    credentials = grpc.ssl_channel_credentials((tmp_path / "cert.pem").read_bytes())
    with grpc.secure_channel(server.grpc_address, credentials) as channel:
        assert Client(channel).create_codebase(name="x", owner_id="y").name == "x"
    assert probe(server.grpc_address).startswith("UNAVAILABLE")
    assert probe(server.unix_address) == "OK"
    out = subprocess.run(["curl", "-s", "--cacert", tmp_path / "cert.pem", f"https://{server.http_address}/health"],
                         capture_output=True, text=True, check=True).stdout
    assert json.loads(out)["status"] == "healthy"
