"""Clients that mean harm, or no good: pages of other origins, smuggled requests, those that never finish, and those that come in crowds."""

import contextlib
import http.client
import json
import re
import resource
import socket
import threading
import time

import pytest
from conftest import PATIENCE

ATTACK = {"Host": "evil.example"}


def test_the_name_in_host_must_be_ours(make):
    server = make("--host", "box.example")
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8080", "localhost.", "box.example:99", "Box.Example"):
        assert server.get("/health", headers={"Host": host}).status == 200, host
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "", ":80", "localhost:x", "[::1",
                 "box.example.evil", "a@localhost", "localhost, localhost"):
        assert server.get("/health", headers={"Host": host}).error[:2] == (403, 7), host


def test_pages_of_other_origins_are_refused(server):
    for origin in ("http://evil.example", "null", "https://" + server.origin, f"http://127.0.0.1:{server.port + 1}", "", "http://localhost.evil"):
        for verb, path in (("POST", "/v1/things/t1/echo"), ("GET", "/v1/things/t1"), ("OPTIONS", "/v1/things/t1"), ("GET", "/health")):
            assert server.request(verb, path, headers={"Origin": origin}).error[:2] == (403, 7), (origin, verb)
    answer = server.post("/v1/things/t1/echo", {}, headers={"Origin": f"http://{server.origin}"})
    assert answer.status == 200 and not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_browsers_tell_where_a_request_without_origin_comes_from(server):
    for site in ("cross-site", "same-site"):
        assert server.get("/v1/things", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}).error[:2] == (403, 7)
        assert server.post("/v1/things/t/start", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).error[:2] == (403, 7)
        assert server.get("/ui/x", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status == 200
    assert server.get("/v1/things", headers={"Sec-Fetch-Site": "same-origin"}).status == 200


def test_an_origin_that_is_configured_may(make):
    server = make("--origin", "https://ui.example")
    ours = {"Origin": "https://ui.example"}
    answer = server.post("/v1/things/t1/echo", {}, headers=ours)
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"], answer.headers["Vary"]) == (200, "https://ui.example", "Origin")
    answer = server.request("OPTIONS", "/v1/things/t1/echo", headers={**ours, "Access-Control-Request-Method": "POST"})
    assert (answer.status, answer.headers["Access-Control-Allow-Methods"]) == (204, "POST")
    assert server.get("/health", headers={"Origin": "https://ui.example.evil"}).status == 403


SMUGGLED = b"GET /v1/things/smuggled/hold HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/things/t1/echo HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("head", [
    POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    POST + b"Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
    POST + b"Content-Length: 0, 5\r\n\r\n",
    POST + b"Content-Length: +0\r\n\r\n",
    POST + b"Content-Length: -1\r\n\r\n",
    POST + b"Content-Length: 0x0\r\n\r\n",
    POST + b"Content-Length: \r\n\r\n",
    POST + b"Content-Length: 99999999999999999999\r\n\r\n",
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: identity\r\n\r\n",
    POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    POST + b"Host: localhost\r\nContent-Length: 0\r\n\r\n",
    b"POST /v1/things/t1/echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/things/t1/echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
], ids=lambda head: head[len(POST):].split(b"\r\n\r\n")[0].decode())
def test_what_could_end_in_two_places_is_no_request(server, head):
    """What follows must not be taken for a request of its own, and nothing of it must be served."""
    got = server.raw(head + SMUGGLED)
    assert not got.endswith(b"<open>"), got
    # libmicrohttpd 0.9.75 sends the head of a refusal of its own twice.
    assert set(re.findall(rb"HTTP/1\.1 (\d+) ", got)) <= {b"400", b"413"} and b'"code":0' not in got, got
    assert not [note for note in server.notes() if "smuggled" in note]


LENGTH = str(len(SMUGGLED)).encode()
GET = b"GET /v1/things/t1 HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("head", [
    POST + b"Content-Length : " + LENGTH + b"\r\n\r\n",
    POST + b"Content-Length\t: " + LENGTH + b"\r\n\r\n",
    POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    GET + b"X-Any : x\r\n\r\n",
    GET + b"X\x0bAny: x\r\n\r\n",
    GET + b": x\r\n\r\n",
    GET + b"X(: x\r\n\r\n",
    GET + b"X: a\r\n b\r\n\r\n",
    GET + b"X: a\r\n\tContent-Length: 5\r\n\r\n",
    POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    b"GET /v1/things/t1 HTTP/1.1\r\n Host: localhost\r\n\r\n",
    GET + b"X: a\rContent-Length: " + LENGTH + b"\r\n\r\n",
    GET + b"X: a\nContent-Length: " + LENGTH + b"\r\n\r\n",
    GET + b"X: a\r\n\n",
    GET + b"\n",
    b"GET /v1/things/t1 HTTP/1.1\nHost: localhost\n\n",
    b"GET /v1/things/t1 HTTP/1.1\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1\0x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1\0/../x HTTP/1.1\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1?text=\0x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET\0X /v1/things/t1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET  /v1/things/t1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/things/t1 HTTP/1.1\0\r\nHost: localhost\r\n\r\n",
    GET + b"X: a\0b\r\n\r\n",
    GET + b"X: a\0\r\n\r\n",
    GET + b"X: a\0\0\nY: b\r\n\r\n",
    b"GET /v1/things/t1 HTTP/1.1\0\nHost: localhost\r\n\r\n",
    GET + b"X\0: a\r\n\r\n",
    POST + b"Content-Length: 0\0" + LENGTH + b"\r\n\r\n",
    GET + b"X: \x01\r\n\r\n",
    GET + b"X: \x7f\r\n\r\n",
], ids=repr)
def test_what_two_servers_could_read_differently_is_no_request(server, head):
    """Spaces before a colon, folded lines, line ends that are half of one, zero bytes: one refusal, and nothing behind it is looked at."""
    got = server.raw(head + SMUGGLED)
    assert not got.endswith(b"<open>"), got
    assert set(re.findall(rb"HTTP/1\.1 (\d+) ", got)) == {b"400"}, got
    assert not [note for note in server.notes() if "smuggled" in note]


def test_zero_bytes_in_disguise_are_refused(server):
    for target in (b"/v1/things/a%00b", b"/v1/things/t1?text=a%00b", b"/v1/things/%00"):
        got = server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 400 "), (target, got)


def test_a_head_is_whole_however_it_comes(server):
    """What is refused above is told by where libmicrohttpd has put the parts, which must not depend on how they came."""
    lines = [b"X-%d:%s%s" % (i, b" " * (i % 3), bytes([97 + i % 26]) * (i * 7 % 90)) for i in range(150)]
    head = GET + b"\r\n".join([b"X: a\tb  c \xc3\xa9 ", b"Y:", b"Cookie: a=b; c=d", *lines]) + b"\r\n\r\n"
    for size in (1, 7, 1000, len(head), 3 * len(head)):
        with server.connect() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            whole = b"\r\n" + head + head + head.replace(b"Cookie: ", b"Connection: close\r\nCookie: ", 1)
            for at in range(0, len(whole), size):
                sock.sendall(whole[at:at + size])
            got = b""
            while data := sock.recv(65536):
                got += data
        assert re.findall(rb"HTTP/1\.1 (\d+) ", got) == [b"200"] * 3, (size, got[:300])
    assert server.raw(b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("request_bytes", [
    b"\r\n\r\n\r\nGARBAGE\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET /health\r\n\r\n",
    b"GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /hea\x00lth HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"\x00" * 5000,
])
def test_what_is_no_http_does_no_harm(server, request_bytes):
    with server.connect() as sock:
        sock.sendall(request_bytes)
        assert server.get("/health").status == 200
        with contextlib.suppress(OSError):  # the server may have hung up
            sock.shutdown(socket.SHUT_WR)
        read_to_end(sock)
    assert server.get("/health").status == 200


def test_headers_have_a_size(server):
    for head in (b"GET /" + b"x" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200000 + b"\r\n\r\n",
                 b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 30000 + b"\r\n"):
        got = server.raw(head)
        assert not got.endswith(b"<open>") and b" 200 OK" not in got, got[:200]
    assert server.get("/health", headers={"X": "y" * 16000}).status == 200


def read_to_end(sock):
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass


def test_who_never_ends_its_headers_is_cut_off(make):
    server = make("--header-ms", 600)
    silent = server.connect()
    with server.connect() as drip:
        drip.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises(OSError):
            for _ in range(400):
                drip.sendall(b"X: y\r\n")
                time.sleep(0.1)
    read_to_end(silent)
    silent.close()


def test_who_never_sends_another_request_is_cut_off(make):
    server = make("--header-ms", 1000)
    connection = server.connection()
    assert server.get("/health", connection=connection).status == 200
    assert connection.sock.recv(1) == b""
    connection.close()


def test_who_drips_a_body_is_cut_off(make):
    server = make("--body-ms", 600)
    for target in (b"POST /v1/things/t1/echo", b"PUT /v1/things/drip/files/x"):
        with server.connect() as drip:
            drip.sendall(target + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
            with pytest.raises(OSError):
                for _ in range(400):
                    drip.sendall(b"x")
                    time.sleep(0.05)
    server.wait_note("upload-failed drip")


@pytest.mark.parametrize("part", [b"GET /health HTTP/1.1\r\nHost: loc", b"POST /v1/things/t1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc",
                                  b"POST /v1/things/t1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"])
def test_who_goes_in_the_middle_of_a_request_is_not_waited_for(make, part):
    """However long it might have taken."""
    server = make("--header-ms", 600_000, "--body-ms", 600_000)
    for _ in range(20):
        with server.connect() as sock:
            sock.sendall(part)
    until = time.monotonic() + PATIENCE
    while server.get("/stats").json["connections"] > 1:
        assert time.monotonic() < until, "they are still there"
        time.sleep(0.05)


def test_a_call_may_take_longer_than_any_of_these_times(make):
    server = make("--header-ms", 700, "--body-ms", 700, "--write-ms", 700)
    connection = server.connection()
    connection.request("GET", "/v1/things/long/hold")
    server.wait_note("holding long")
    time.sleep(2)
    server.get("/release")
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_whoever_hangs_up_cancels_the_call(server, how):
    with server.connect() as sock:
        sock.sendall(f"POST /v1/things/{how}/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        server.wait_note(f"waiting {how}")
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        if how == "half":
            sock.shutdown(socket.SHUT_WR)
            server.wait_note("cancelled half")
    server.wait_note(f"cancelled {how}")


def test_whoever_hangs_up_on_a_unix_socket_cancels_too(make, tmp_path):
    server = make(listen=("127.0.0.1:0", f"unix:{tmp_path}/s"))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"{tmp_path}/s")
        sock.sendall(b"POST /v1/things/u/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        server.wait_note("waiting u")
    server.wait_note("cancelled u")


def test_a_hundred_connections_at_once(make):
    server = make()
    connections = [server.connection() for _ in range(100)]
    for number, connection in enumerate(connections):
        connection.request("GET", f"/v1/things/{number}/hold")
    for number in range(100):
        server.wait_note(f"holding {number} ")
    assert server.get("/stats").json["connections"] >= 100
    server.get("/release")
    assert [connection.getresponse().status for connection in connections] == [200] * 100
    for connection in connections:
        connection.close()


def test_many_threads_of_clients(make):
    server = make()
    wrong = []

    def work(number):
        connection = server.connection()
        try:
            for i in range(50):
                answer = server.post(f"/v1/things/{number}-{i}/echo", {"count": i}, connection=connection)
                if answer.json["question"]["id"] != f"{number}-{i}" or answer.json["question"]["count"] != i:
                    wrong.append(answer.body)
                if i % 10 == 0:
                    server.post("/v1/things/x/stream", {"count": 20}, connection=connection)
        except Exception as error:  # a thread's exception would otherwise be lost
            wrong.append(error)
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_beyond_the_limit_connections_wait(make):
    server = make("--connections", 5)
    held = [server.connect() for _ in range(5)]
    late = server.connection()
    late.request("GET", "/health")
    late.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        late.sock.recv(1)
    held.pop().close()
    late.sock.settimeout(PATIENCE)
    assert late.sock.recv(15) == b"HTTP/1.1 200 OK"
    for sock in held:
        sock.close()
    late.close()


def test_without_descriptors_the_others_are_still_served(make):
    server = make(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    kept = server.connection()
    assert server.get("/health", connection=kept).status == 200
    crowd = [server.connect() for _ in range(60)]
    for sock in crowd[-5:]:
        read_to_end(sock)
    assert server.get("/health", connection=kept).status == 200
    for sock in crowd:
        sock.close()
    until = time.monotonic() + PATIENCE
    while True:
        try:
            assert server.get("/stats").json["refused"] > 0
            break
        except (http.client.HTTPException, ConnectionError):
            assert time.monotonic() < until
            time.sleep(0.05)
    kept.close()
    server.process.stdin.close()
    server.process.wait(PATIENCE)
    assert "no descriptor left for connections" in server.process.stderr.read()
    server.stop = lambda: (0, "ended\n", "")


def test_stopping_cancels_what_runs_and_tells_those_who_wait(make):
    server = make()
    waiting = server.connection()
    waiting.request("POST", "/v1/things/w/wait")
    stream = server.connection()
    stream.request("GET", "/v1/things/s/stream?count=1&text=wait")
    server.wait_note("waiting w")
    server.wait_note("all-sent s")
    server.process.stdin.close()
    assert json.loads(waiting.getresponse().read())["code"] == 1
    assert stream.getresponse().read().endswith(b'event: error\ndata: {"code":1,"message":"the call was cancelled","details":[]}\n\n')
    assert server.process.wait(PATIENCE) == 0
    assert server.process.stderr.read() == ""
    server.stop = lambda: (0, "ended\n", "")
