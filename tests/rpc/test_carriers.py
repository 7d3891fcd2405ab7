"""What carries calls: unix sockets, both families, TLS; and the services that every server has."""

import os
import socket
import ssl
import struct
import subprocess
import threading

import grpc
import pytest
from conftest import TIMEOUT, Client
from hand import ACK, DATA, END_STREAM, GOAWAY, HEADERS, PING, Raw, message

Code = grpc.StatusCode


# ---- sockets ----


def test_a_unix_socket_is_served_and_tells_who_asks(start, tmp_path):
    server = start(listen=(f"unix:{tmp_path}/rpc.sock",))
    assert server.client().facts().uid == os.geteuid()


def test_both_families_and_several_listeners_are_served(start, pb, tmp_path):
    server = start(listen=(":0", f"unix:{tmp_path}/rpc.sock"))
    port = server.port
    for address in (f"127.0.0.1:{port}", f"[::1]:{port}", f"localhost:{port}", server.addresses[1]):
        client = server.client(address)
        assert client.unary(pb.echo.Request(text=address), timeout=TIMEOUT).text == address
        assert client.facts().uid == os.geteuid()


# ---- TLS ----


def openssl(directory, *args):
    subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="session")
def identities(tmp_path_factory):
    """An authority and what it signed: a server, a client; and a client that signed itself."""
    out = tmp_path_factory.mktemp("tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(out, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2")
    for name, usage in (("server", "serverAuth"), ("other", "serverAuth"), ("alice", "clientAuth")):
        (out / "ext").write_text(f"subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage={usage}\n")
        openssl(out, "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(out, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", "ext", "-out", f"{name}.crt")
    openssl(out, "req", "-x509", *key, "-keyout", "mallory.key", "-out", "mallory.crt", "-subj", "/CN=alice", "-days", "2")
    return out


def credentials(identities, name=None):
    read = lambda file: (identities / file).read_bytes()
    if name:
        return grpc.ssl_channel_credentials(read("ca.crt"), read(f"{name}.key"), read(f"{name}.crt"))
    return grpc.ssl_channel_credentials(read("ca.crt"))


def test_calls_of_every_kind_pass_tls(start, identities, pb):
    server = start("--tls", identities / "server.crt", identities / "server.key")
    client = server.client(credentials=credentials(identities))
    assert client.unary(pb.echo.Request(text="x", data=b"y" * 3000000), timeout=TIMEOUT).size == 3000000
    assert client.collect((pb.echo.Request(data=b"x" * 60000) for _ in range(300)), timeout=TIMEOUT).size == 18000000
    assert len(list(client.stream(pb.echo.Request(count=500, size=20000), timeout=TIMEOUT))) == 500
    futures = [client.unary.future(pb.echo.Request(text=str(i)), timeout=TIMEOUT) for i in range(100)]
    assert [f.result().text for f in futures] == [str(i) for i in range(100)]
    assert client.facts().subject == ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the old versions
def test_plain_clients_and_old_versions_get_nowhere(start, identities, pb):
    server = start("--tls", identities / "server.crt", identities / "server.key")
    with pytest.raises(grpc.RpcError) as caught:
        server.client().unary(pb.echo.Request(), timeout=TIMEOUT)
    assert caught.value.code() == Code.UNAVAILABLE
    for change in ("old", "protocol"):
        context = ssl.create_default_context(cafile=identities / "ca.crt")
        if change == "old":
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.set_alpn_protocols(["h2"])
        else:
            context.set_alpn_protocols(["http/1.1"])
        with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                secure.recv(1)
                raise ConnectionError("it let us in and hung up")
    assert server.client(credentials=credentials(identities)).facts().connections >= 1


def test_clients_show_a_certificate_where_one_is_asked_for(start, identities, pb):
    server = start("--tls", identities / "server.crt", identities / "server.key", identities / "ca.crt")
    assert server.client(credentials=credentials(identities, "alice")).facts().subject == "CN=alice"
    for name in (None, "mallory", "server"):
        with pytest.raises(grpc.RpcError) as caught:
            server.client(credentials=credentials(identities, name)).unary(pb.echo.Request(), timeout=TIMEOUT)
        assert caught.value.code() == Code.UNAVAILABLE


def test_a_certificate_is_renewed_while_calls_go_on(start, identities, tmp_path, pb):
    for end in ("crt", "key"):
        (tmp_path / f"server.{end}").write_bytes((identities / f"server.{end}").read_bytes())
    server = start("--tls", tmp_path / "server.crt", tmp_path / "server.key")
    client = server.client(credentials=credentials(identities))
    client.facts()
    for end in ("crt", "key"):
        (tmp_path / f"server.{end}").write_bytes((identities / f"other.{end}").read_bytes())
    assert server.ask("reload").startswith("0")
    assert client.facts().connections >= 1
    other = server.client(credentials=credentials(identities), options=[("grpc.use_local_subchannel_pool", 1)])
    assert other.unary(pb.echo.Request(text="x"), timeout=TIMEOUT).text == "x"
    context = ssl.create_default_context(cafile=identities / "ca.crt")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            assert (("commonName", "other"),) in secure.getpeercert()["subject"]
    (tmp_path / "server.key").write_text("rubbish")
    assert "server.key" in server.ask("reload")
    assert client.facts().connections >= 1


def test_a_handshake_that_does_not_end_is_hung_up_on(start, identities):
    server = start("--limit", "handshake", 300, "--tls", identities / "server.crt", identities / "server.key")
    with Raw(server, greet=False) as raw:
        raw.send(b"\x16\x03\x01\x02\x00\x01")
        assert list(raw.frames()) == []


# ---- health ----


def health(pb, channel):
    request, response = pb.health.HealthCheckRequest.SerializeToString, pb.health.HealthCheckResponse.FromString
    return (channel.unary_unary("/grpc.health.v1.Health/Check", request, response),
            channel.unary_stream("/grpc.health.v1.Health/Watch", request, response))


def test_health_is_told(server, pb):
    check, watch = health(pb, server.channel())
    ask = pb.health.HealthCheckRequest
    for service in ("", "test.v1.Echo", "grpc.health.v1.Health"):
        assert check(ask(service=service), timeout=TIMEOUT).status == 1
    with pytest.raises(grpc.RpcError) as caught:
        check(ask(service="nope"), timeout=TIMEOUT)
    assert caught.value.code() == Code.NOT_FOUND
    seen = watch(ask(service="test.v1.Echo"), timeout=TIMEOUT)
    unknown = watch(ask(service="nope"), timeout=TIMEOUT)
    assert next(unknown).status == 3
    assert next(seen).status == 1
    server.ask("down")
    assert next(seen).status == 2
    assert check(ask(), timeout=TIMEOUT).status == 2
    server.ask("up")
    assert next(seen).status == 1
    seen.cancel()
    server.client().until(lambda facts: facts.running == 0)


def test_only_so_many_may_watch(server, pb):
    _, watch = health(pb, server.channel())
    calls = [watch(pb.health.HealthCheckRequest(), timeout=TIMEOUT) for _ in range(16)]
    assert all(next(call).status == 1 for call in calls)
    with pytest.raises(grpc.RpcError) as caught:
        next(watch(pb.health.HealthCheckRequest(), timeout=TIMEOUT))
    assert caught.value.code() == Code.RESOURCE_EXHAUSTED


def test_streams_that_nobody_ends_leave_threads_for_others(start, pb):
    server = start("--threads", 24)
    client = server.client()
    go, calls = threading.Event(), []

    def talk():
        yield pb.echo.Request(text="x")
        go.wait()

    for _ in range(4):
        channel = server.channel(options=[("grpc.use_local_subchannel_pool", 1)])
        chat = Client(pb, channel).chat
        calls += [chat(talk()) for _ in range(10)]
        calls += [health(pb, channel)[1](pb.health.HealthCheckRequest()) for _ in range(10)]
    try:
        check, _ = health(pb, server.channel())
        client.until(lambda facts: facts.running + 16 >= 21)
        for _ in range(50):
            assert check(pb.health.HealthCheckRequest(), timeout=TIMEOUT).status == 1
            assert client.unary(pb.echo.Request(text="x"), timeout=TIMEOUT).text == "x"
    finally:
        go.set()
        for call in calls:
            call.cancel()


# ---- reflection ----


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_tells_what_is_served(server, pb, version):
    from google.protobuf import descriptor_pb2, descriptor_pool

    r = pb.reflection
    call = server.channel().stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                          r.ServerReflectionRequest.SerializeToString, r.ServerReflectionResponse.FromString)
    questions = [r.ServerReflectionRequest(list_services=""), r.ServerReflectionRequest(file_containing_symbol="test.v1.Echo.Unary"),
                 r.ServerReflectionRequest(file_containing_symbol="test.v1.Request.LabelsEntry"),
                 r.ServerReflectionRequest(file_by_filename="google/protobuf/duration.proto"),
                 r.ServerReflectionRequest(file_containing_symbol="test.v1.Nope"), r.ServerReflectionRequest(),
                 r.ServerReflectionRequest(all_extension_numbers_of_type="test.v1.Request")]
    services, symbol, nested, file, absent, empty, extension = call(iter(questions), timeout=TIMEOUT)
    assert {s.name for s in services.list_services_response.service} == {
        "test.v1.Echo", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
    assert symbol.original_request == questions[1]
    files = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in symbol.file_descriptor_response.file_descriptor_proto]
    assert [f.name for f in files] == ["echo.proto", "google/protobuf/duration.proto"]
    assert nested.file_descriptor_response == symbol.file_descriptor_response
    pool = descriptor_pool.DescriptorPool()
    for f in reversed(files):
        pool.Add(f)
    service = pool.FindServiceByName("test.v1.Echo")
    assert [m.name for m in service.methods] == ["Unary", "Collect", "Stream", "Chat", "Facts", "Silent"]
    assert len(file.file_descriptor_response.file_descriptor_proto) == 1
    assert [absent.error_response.error_code, empty.error_response.error_code, extension.error_response.error_code] == [5, 3, 5]


# ---- going down ----


def test_draining_lets_calls_finish(server, pb):
    client = server.client()
    go = threading.Event()

    def requests():
        yield pb.echo.Request(data=b"x")
        go.wait(TIMEOUT)
        yield pb.echo.Request(data=b"y")

    seen = health(pb, client.channel)[1](pb.health.HealthCheckRequest(), timeout=TIMEOUT)
    assert next(seen).status == 1
    futures = [client.collect.future(requests(), timeout=TIMEOUT) for _ in range(20)]
    client.until(lambda facts: facts.running == 20)
    server.tell(f"drain {TIMEOUT * 1000}")
    assert next(seen).status == 2  # it has begun
    go.set()
    assert all(future.result().size == 2 for future in futures)
    assert server.process.stdout.readline().startswith("0")
    with pytest.raises(grpc.RpcError) as caught:
        client.unary(pb.echo.Request(), timeout=1)
    assert caught.value.code() in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)


def test_draining_serves_what_is_on_its_way(server, pb):
    """Until the client has seen the notice it may open streams, and they are served."""
    with Raw(server) as raw:
        first, quick = pb.echo.Request(data=b"x"), pb.echo.Request(text="late")
        raw.send(raw.headers(1, "/test.v1.Echo/Collect") + raw.pack(DATA, 0, 1, message(first)))
        server.client().until(lambda facts: facts.running == 1)
        server.tell(f"drain {TIMEOUT * 1000}")
        ended, goaways = set(), []
        for kind, flags, stream, payload in raw.frames():
            if kind == GOAWAY:
                goaways.append(struct.unpack(">II", payload[:8]))
            if kind == GOAWAY and len(goaways) == 1:
                raw.send(raw.headers(3, "/test.v1.Echo/Unary") + raw.pack(DATA, END_STREAM, 3, message(quick)))
                raw.send(raw.pack(DATA, END_STREAM, 1))
            if kind == PING and not flags & ACK:
                raw.frame(PING, ACK, 0, payload)
            if kind == HEADERS and flags & END_STREAM:
                ended.add(stream)
    assert ended == {1, 3}
    assert goaways == [(0x7FFFFFFF, 0), (3, 0)]


def test_draining_ends_what_does_not_finish(server, pb):
    client = server.client()
    request = pb.echo.Request()
    request.wait.seconds = TIMEOUT * 10
    future = client.unary.future(request)
    client.until(lambda facts: facts.running == 1)
    assert int(server.ask("drain 300").split()[0]) < 0
    with pytest.raises(grpc.RpcError):
        future.result(timeout=TIMEOUT)


def test_draining_ends_watchers(server, pb):
    _, watch = health(pb, server.channel())
    seen = watch(pb.health.HealthCheckRequest(), timeout=TIMEOUT)
    assert next(seen).status == 1
    assert server.ask(f"drain {TIMEOUT * 1000}").startswith("0")
    assert next(seen).status == 2
    with pytest.raises(grpc.RpcError):
        next(seen)


def test_an_idle_client_is_told_to_go(server):
    with Raw(server) as raw:
        next(raw.frames())
        assert server.ask(f"drain {TIMEOUT * 1000}").startswith("0")
        assert raw.goaway() == 0


def test_a_connection_of_age_is_renewed_without_losing_a_call(start, pb):
    client = start("--limit", "age", 100).client()
    for i in range(200):
        assert client.unary(pb.echo.Request(text=str(i), wait={"nanos": 5_000_000}), timeout=TIMEOUT).text == str(i)


def test_going_down_at_once_ends_calls(start, pb):
    server = start()
    client = server.client()
    request = pb.echo.Request()
    request.wait.seconds = TIMEOUT * 10
    future = client.unary.future(request)
    client.until(lambda facts: facts.running == 1)
    server.process.stdin.close()
    assert server.process.wait(TIMEOUT) == 0
    assert future.exception(timeout=TIMEOUT) is not None
