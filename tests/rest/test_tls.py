"""HTTPS, and clients that show a certificate."""

import http.client
import json
import socket
import ssl
import subprocess

import pytest
from conftest import PATIENCE


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An authority, a server's and a client's certificate of it, and a stranger's."""
    place = tmp_path_factory.mktemp("tls")

    def run(*args):
        subprocess.run(["openssl", *args], cwd=place, check=True, capture_output=True, timeout=PATIENCE)

    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "stranger"):
        run("req", "-x509", *ec, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2")
    for name in ("localhost", "alice"):
        run("req", *ec, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-addext", "subjectAltName=DNS:localhost")
        run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.pem", "-days", "2",
            "-copy_extensions", "copy")
    return place


def connect(server, files, client=None):
    context = ssl.create_default_context(cafile=files / "ca.pem")
    if client:
        context.load_cert_chain(files / f"{client}.pem", files / f"{client}.key")
    port = int(server.addresses[-1].rpartition(":")[2])
    return http.client.HTTPSConnection("localhost", port, context=context, timeout=PATIENCE)


def serve(make, files, *more):
    return make("--cert", files / "localhost.pem", "--key", files / "localhost.key", *more, listen_tls=("127.0.0.1:0",))


def test_https_serves_all_of_it(make, files):
    server = serve(make, files)
    connection = connect(server, files)
    assert server.post("/v1/things/t1/echo", {"text": "x" * 100000}, connection=connection).json["question"]["text"] == "x" * 100000
    assert len(server.get("/v1/things/t1/files/x?total_size=3000000", connection=connection).body) == 3000000
    assert server.request("PUT", "/v1/things/t1/files/x", b"y" * 3000000, connection=connection).json["count"] == "3000000"
    assert b"event: end" in server.get("/v1/things/t1/stream?count=200&size=5000", connection=connection).body
    connection.close()


def test_whoever_hangs_up_on_https_cancels_the_call(make, files):
    server = serve(make, files)
    connection = connect(server, files)
    connection.request("POST", "/v1/things/s/wait")
    server.wait_note("waiting s")
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    server.wait_note("cancelled s")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_not_spoken(make, files):
    server = serve(make, files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", int(server.addresses[-1].rpartition(":")[2])), timeout=PATIENCE) as sock:
        with pytest.raises(OSError):
            context.wrap_socket(sock)


def test_clients_show_a_certificate_when_asked(make, files):
    server = serve(make, files, "--client-ca", files / "ca.pem")
    connection = connect(server, files, "alice")
    for _ in range(2):
        assert server.get("/v1/things/t1", connection=connection).status == 200
    connection.close()
    for client in (None, "stranger"):
        connection = connect(server, files, client)
        try:
            for _ in range(2):
                assert server.get("/v1/things/t1", connection=connection).error[:2] == (401, 16)
        except (OSError, http.client.HTTPException):
            pass  # refused in the handshake, which is as good
        connection.close()


def test_plain_http_on_the_port_of_https_does_no_harm(make, files):
    server = serve(make, files)
    with socket.create_connection(("127.0.0.1", int(server.addresses[-1].rpartition(":")[2])), timeout=PATIENCE) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" not in sock.recv(1000)
    connection = connect(server, files)
    assert json.loads(server.get("/health", connection=connection).body) == {"status": "ok"}
    connection.close()
