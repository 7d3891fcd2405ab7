"""Tokens and TLS."""

import asyncio
import os
import subprocess

import agentfense
import pytest
from agentfense import AsyncSandboxClient, Sandbox, SandboxClient
from conftest import eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """An authority of our own, and a certificate of it for localhost."""
    top = tmp_path_factory.mktemp("tls")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=top, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=our authority", "-days", "2")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (top / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out", "server.pem", "-days", "2", "-extfile", "ext")
    return top


@pytest.fixture(scope="module")
def closed(make_server, authority):
    """A server that lets nobody in without a token, and speaks TLS."""
    return make_server(
        "--server-require-token=true", f"--server-tls-cert={authority}/server.pem", f"--server-tls-key={authority}/server.key"
    )


def test_a_certificate_for_servers_that_ask(make_server, authority, project, monkeypatch):
    endpoint = make_server(
        f"--server-tls-cert={authority}/server.pem",
        f"--server-tls-key={authority}/server.key",
        f"--server-tls-client-ca={authority}/ca.pem",
    ).endpoint
    ca, cert, key = (str(authority / name) for name in ("ca.pem", "server.pem", "server.key"))
    with SandboxClient(endpoint, ca_cert=ca, client_cert=cert, client_key=key) as client:
        assert client.list_codebases() == []
    with pytest.raises(agentfense.ConnectionError):
        SandboxClient(endpoint, ca_cert=ca).list_codebases()
    with pytest.raises(agentfense.InvalidConfigurationError):
        SandboxClient(endpoint, ca_cert=ca, client_key=key)
    monkeypatch.setenv("AGENTFENSE_CLIENT_CERT", cert)
    monkeypatch.setenv("AGENTFENSE_CLIENT_KEY", key)
    with Sandbox.from_local(project, endpoint=endpoint, ca_cert=ca) as sandbox:
        assert sandbox.run("true").success


def test_a_token_over_tls(closed, authority, project, monkeypatch):
    token, endpoint = closed.token("create", "--owner", "alice"), closed.endpoint
    ca = str(authority / "ca.pem")
    with Sandbox.from_local(project, endpoint=endpoint, token=token, ca_cert=ca, owner_id="alice") as sandbox:
        assert sandbox.run("cat app.py").success and sandbox.codebase.owner_id == "alice"
        with SandboxClient(endpoint, token=closed.token("create", "--owner", "bob"), ca_cert=ca) as bob:
            with pytest.raises(agentfense.SandboxNotFoundError):
                bob.get_sandbox(sandbox.id)
            with pytest.raises(agentfense.PermissionDeniedError) as caught:
                bob.create_codebase("x", "alice")
            assert caught.value.reason == "OTHER_OWNER"
    for wrong in (None, "wrong"):
        with pytest.raises(agentfense.AuthenticationError):
            SandboxClient(endpoint, token=wrong, ca_cert=ca).list_codebases()
    with pytest.raises(agentfense.ConnectionError):
        SandboxClient(endpoint, token=token, secure=True).list_codebases()

    monkeypatch.setenv("AGENTFENSE_ENDPOINT", endpoint)
    monkeypatch.setenv("AGENTFENSE_TOKEN", token)
    monkeypatch.setenv("AGENTFENSE_CA_CERT", ca)
    with Sandbox.from_local(project) as sandbox:
        assert sandbox.run("true").success and sandbox.codebase.owner_id == "alice"
    with pytest.raises(agentfense.PermissionDeniedError):
        Sandbox.from_local(project, owner_id="bob")

    async def ask():
        async with AsyncSandboxClient() as client:
            return await client.list_codebases()

    assert asyncio.run(ask()) == []


def test_the_pem_itself_will_do(closed, authority):
    token = closed.token("create", "--owner", "alice")
    assert SandboxClient(closed.endpoint, token=token, ca_cert=(authority / "ca.pem").read_bytes()).list_codebases() == []


def test_an_owner_s_share_is_a_limit(make_server, project):
    server = make_server("--sandbox-max-per-user=1")
    assert os.path.isdir(server.top)
    endpoint = server.endpoint
    with Sandbox.from_local(project, endpoint=endpoint) as sandbox:
        with pytest.raises(agentfense.ResourceLimitExceededError) as caught:
            Sandbox.from_codebase(sandbox.codebase_id, endpoint=endpoint)
        assert caught.value.reason == "TOO_MANY_SANDBOXES"


def test_a_server_that_comes_back_is_found_again(make_server, project):
    server = make_server()
    with Sandbox.from_local(project, endpoint=server.endpoint) as sandbox:
        server.process.kill()
        server.process.wait()
        with pytest.raises(agentfense.ConnectionError):
            sandbox.run("true")
        server.start()

        def answers():
            try:
                return sandbox.run("echo again").stdout == "again\n"
            except agentfense.ConnectionError:
                return False

        eventually(answers)
