"""WebSockets: the handshake, messages either way, and peers that do not keep to it."""

import os
import socket
import ssl
import struct
import threading

import pytest
from conftest import PATIENCE
from test_tls import files, serve  # noqa: F401
from websocket_client import BINARY, CLOSE, MORE, PING, PONG, TEXT, Refused, WebSocket, connect

PATH = "/api/socket"


@pytest.fixture
def echo(server):
    with connect(server.port, PATH) as client:
        yield client


def end_of(client):
    """How the server ends it: the status, and then the connection does end."""
    while client.receive() is not None:
        pass
    with pytest.raises((EOFError, ConnectionError)):
        client.receive_frame()
    return client.closed


def test_messages_come_back_as_they_were(echo):
    for message in ("hello", "", "äöü € \N{GRINNING FACE}", b"", b"\0\xff" * 1000, "x" * 65536, b"y" * 125, b"y" * 126):
        echo.send(message)
        assert echo.receive() == message


def test_a_message_in_fragments_with_a_ping_between(echo):
    echo.send_frame(TEXT, b"one ", fin=False)
    echo.send_frame(PING, b"there?")
    echo.send_frame(MORE, "tw\N{LATIN SMALL LETTER O WITH DIAERESIS} ".encode()[:3], fin=False)
    echo.send_frame(MORE, "tw\N{LATIN SMALL LETTER O WITH DIAERESIS} ".encode()[3:], fin=True)
    assert echo.receive_frame() == (PONG, b"there?")
    assert echo.receive() == "one twö "


def test_what_comes_with_the_request_is_not_lost(server):
    with connect(server.port, PATH, early=WebSocket.frame(TEXT, b"early") + WebSocket.frame(BINARY, b"bird")) as client:
        assert client.receive() == "early" and client.receive() == b"bird"


def test_a_good_bye_is_answered(echo):
    echo.send_frame(CLOSE, struct.pack(">H", 1000) + b"done")
    assert end_of(echo) == 1000


def test_the_server_says_good_bye(echo):
    echo.send("close")
    assert end_of(echo) == 1001


@pytest.mark.parametrize("headers, status", [
    ({"Upgrade": None}, 426),
    ({"Upgrade": "h2c"}, 426),
    ({"Connection": "keep-alive"}, 426),
    ({"Sec_WebSocket_Version": "8"}, 426),
    ({"Sec_WebSocket_Version": None}, 426),
    ({"Sec_WebSocket_Key": None}, 400),
    ({"Sec_WebSocket_Key": "short"}, 400),
    ({"Sec_WebSocket_Key": "!!!!!!!!!!!!!!!!!!!!!!=="}, 400),
    ({"Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZWFiY2Q="}, 400),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"host": "evil.example"}, 403),
    ({"Sec_Fetch_Site": "cross-site"}, 403),
])
def test_who_is_refused(server, headers, status):
    with pytest.raises(Refused) as refused:
        connect(server.port, PATH, **headers)
    assert refused.value.status == status and b'"success":false' in refused.value.body
    if status == 426:
        assert refused.value.headers["sec-websocket-version"] == "13"


def test_our_own_origin_is_welcome(server):
    with connect(server.port, PATH, host=server.origin, Origin=f"http://{server.origin}") as client:
        client.send("hi")
        assert client.receive() == "hi"


def test_other_routes_do_not_upgrade(server):
    with pytest.raises(Refused) as refused:
        connect(server.port, "/notes")
    assert refused.value.status == 200


@pytest.mark.parametrize("frames, status", [
    (WebSocket.frame(TEXT, b"x", masked=False), 1002),
    (WebSocket.frame(TEXT, b"x", rsv=4), 1002),
    (WebSocket.frame(3, b"x"), 1002),
    (WebSocket.frame(11, b"x"), 1002),
    (WebSocket.frame(PING, b"x" * 126), 1005),
    (WebSocket.frame(PING, b"x", fin=False), 1005),
    (WebSocket.frame(MORE, b"x"), 1002),
    (WebSocket.frame(TEXT, b"x", fin=False) + WebSocket.frame(TEXT, b"x"), 1002),
    (WebSocket.frame(CLOSE, b"x"), 1005),
    (WebSocket.frame(CLOSE, struct.pack(">H", 1005)), 1002),
    (WebSocket.frame(TEXT, b"\xff\xfe"), 1007),
    (WebSocket.frame(TEXT, b"\xed\xa0\x80"), 1007),
    (WebSocket.frame(TEXT, b"x" * 65537), 1009),
    (WebSocket.frame(BINARY, b"x", length=1 << 62)[:20], 1009),
    (WebSocket.frame(BINARY, b"x" * 40000, fin=False) + WebSocket.frame(MORE, b"x" * 40000), 1009),
])
def test_what_is_no_message_ends_it(echo, frames, status):
    echo.sock.sendall(frames)
    assert end_of(echo) == status


def test_rubbish_ends_it(echo):
    try:
        for _ in range(100):
            echo.sock.sendall(bytes(range(256)))
        while echo.receive_frame():
            pass
    except (EOFError, ConnectionError, AssertionError):
        pass


measures_memory = pytest.mark.skipif("AGENTFENSE_SANITIZED" in os.environ, reason="sanitizers keep what is freed")


@measures_memory
def test_who_sends_pings_and_reads_nothing_costs_no_memory(server):
    before = server.memory_kb()
    with connect(server.port, PATH) as client:
        client.sock.settimeout(1)
        ping = WebSocket.frame(PING, b"p" * 125) * 500
        sent = 0
        try:
            while sent < 64 << 20:
                sent += client.sock.send(ping)
        except TimeoutError:
            pass
        assert sent < 64 << 20, "it is stopped by its own network buffers"
        assert server.memory_kb() - before < 20 << 10


@measures_memory
def test_who_reads_nothing_makes_the_handler_wait(make):
    server = make("--write-ms", 60000)
    before = server.memory_kb()
    with connect(server.port, PATH) as client:
        client.send("flood")  # 64 MiB
        server.wait_note("flooding")
        assert server.memory_kb() - before < 20 << 10
        count = sum(len(client.receive()) for _ in range(1024))
        assert count == 64 << 20
    server.wait_note("socket-end")


def test_who_hangs_up_is_noticed(make):
    server = make()
    client = connect(server.port, PATH)
    client.send("hi")
    assert client.receive() == "hi"
    client.close()
    server.wait_note("socket-end")


def test_silence_is_asked_about_and_then_given_up(make):
    server = make()
    with connect(server.port, PATH + "?ping=50&silence=100000") as client:
        assert client.receive_frame() == (PING, b"")
        client.send_frame(PONG)
        assert client.receive_frame() == (PING, b"")
    with connect(server.port, PATH + "?ping=50&silence=300") as client:
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                client.receive_frame()


def test_a_server_that_stops_ends_it(make):
    server = make()
    client = connect(server.port, PATH)
    client.send("hi")
    assert client.receive() == "hi"
    stopping = threading.Thread(target=lambda: setattr(server, "result", server.stop()))
    stopping.start()
    with pytest.raises((EOFError, ConnectionError)):
        while client.receive_frame():
            pass
    stopping.join(PATIENCE)
    assert server.result[0] == 0
    server.stop = lambda: server.result


def test_many_at_once(server):
    clients = [connect(server.port, PATH) for _ in range(50)]
    for i, client in enumerate(clients):
        client.send(f"number {i}")
    for i, client in enumerate(clients):
        assert client.receive() == f"number {i}"
    for client in clients:
        client.close()


def test_over_tls(make, files):  # noqa: F811
    server = serve(make, files)
    context = ssl.create_default_context(cafile=files / "ca.pem")
    port = int(server.addresses[-1].rpartition(":")[2])

    def secure():
        return WebSocket(context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), server_hostname="localhost"),
                         PATH, host=f"localhost:{port}", Origin=f"https://localhost:{port}")

    with secure() as client:
        for message in ("hello", b"\0" * 65536, "again"):
            client.send(message)
            assert client.receive() == message
        client.send("close")
        while client.receive() is not None:
            pass
        assert client.closed == 1001
    with secure() as client:
        client.send("flood")
        assert sum(len(client.receive()) for _ in range(1024)) == 64 << 20
    server.wait_note("socket-end")
    # One that hangs up in the middle, and one that is refused: the connection ends, the server does not.
    client = secure()
    client.send("flood")
    client.sock.close()
    with pytest.raises(Refused) as refused:
        WebSocket(context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), server_hostname="localhost"), PATH,
                  host=f"localhost:{port}", Origin="https://evil.example")
    assert refused.value.status == 403
