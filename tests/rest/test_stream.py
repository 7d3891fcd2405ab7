"""Streams: events, uploads, downloads, and what happens when one side stops."""

import http.client
import json
import re
import socket
import subprocess

import pytest
from conftest import PATIENCE


def events_of(body):
    events = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            events.append((fields["event"], json.loads(fields["data"])))
    return events


def test_events_and_their_end(server):
    answer = server.post("/v1/things/t1/stream", {"count": 3})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
    events = events_of(answer.body)
    assert [name for name, _ in events] == ["message"] * 3 + ["end"]
    assert [data["count"] for _, data in events[:3]] == ["0", "1", "2"]
    assert events[3][1] == {"trailers": {"agentfense-exit-code": "3"}}


def test_an_error_behind_events_is_one(server):
    events = events_of(server.get("/v1/things/t1/stream?count=1&text=fail").body)
    assert events[1] == ("error", {"code": 10, "message": "it broke", "details": []})


def test_an_error_before_any_event_is_a_status(server):
    assert server.post("/v1/things/t1/stream", {"text": "refuse"}).error == (404, 5, "no such thing")
    assert server.post("/v1/things/t1/stream", "{").error[:2] == (400, 3)


def test_a_silent_stream_shows_itself_and_beats(make):
    server = make("--heartbeat-ms", 50)
    connection = server.connection()
    connection.request("POST", "/v1/things/t1/stream", json.dumps({"text": "wait"}))
    response = connection.getresponse()
    assert response.status == 200
    assert response.read(9) == b":\n\n:\n\n:\n\n"
    connection.close()
    server.wait_note("cancelled t1")


def test_a_deadline_ends_a_stream_with_an_error(server):
    answer = server.post("/v1/things/t1/stream", {"count": 1, "text": "wait"}, headers={"Grpc-Timeout": "1S"})
    assert events_of(answer.body)[1] == ("error", {"code": 4, "message": "the deadline has passed", "details": []})


def test_whoever_leaves_a_stream_cancels_it(server):
    connection = server.connection()
    connection.request("POST", "/v1/things/leaver/stream", json.dumps({"count": 1, "text": "wait"}))
    assert connection.getresponse().read(14) == b"event: message"
    connection.sock.close() if connection.sock else connection.close()
    connection.close()
    server.wait_note("cancelled leaver")


def test_a_reader_that_does_not_read_costs_little(make):
    server = make()
    with server.connect() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET /v1/things/slow/stream?count=100000&size=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.wait_note("sent slow 0")
        seen = -1
        while (now := len([n for n in server.notes() if n.startswith("sent slow")])) != seen:
            seen = now
            socket.create_connection(("127.0.0.1", server.port)).close()
            subprocess.run(["sleep", "0.2"])
        # A gigabyte is on offer; what is on its way are buffers of the kernel and ours.
        assert seen < 20
        assert server.memory_kb() < 200 * 1024
    server.wait_note("stopped slow")


def test_a_reader_that_never_reads_is_given_up(make):
    server = make("--write-ms", 1000)
    with server.connect() as sock:
        sock.sendall(b"GET /v1/things/never/stream?count=100000&size=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.wait_note("stopped never")


def test_bytes_come_down_whole(server):
    answer = server.get("/v1/things/t1/files/a/b?total_size=3000000")
    assert (answer.status, answer.headers["Content-Type"], len(answer.body)) == (200, "application/octet-stream", 3000000)
    assert answer.headers["Transfer-Encoding"] == "chunked"
    assert server.get("/v1/things/t1/files/a?total_size=0").body == b""


def test_a_download_that_fails_first_is_a_status(server):
    assert server.get("/v1/things/t1/files/a/b?mode=1").error == (404, 5, "no file 'a/b'")


def test_a_download_that_fails_later_is_never_complete(server):
    with pytest.raises(http.client.IncompleteRead):
        server.get("/v1/things/t1/files/a?mode=2&total_size=100000")
    with pytest.raises(http.client.IncompleteRead):
        server.get("/v1/things/t1/files/a?mode=2&total_size=1")
    assert server.raw(b"GET /v1/things/t1/files/a?mode=2&total_size=100000 HTTP/1.0\r\n\r\n").endswith(b"<reset>")


def test_whoever_leaves_a_download_stops_it(server):
    with server.connect() as sock:
        sock.sendall(b"GET /v1/things/gone/files/a?total_size=100000000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK")
    server.wait_note("stopped gone")


def test_a_body_goes_up_whole(server):
    body = bytes(range(256)) * 12345
    total = 0
    for byte in body:
        total = (total * 31 + byte) % 2**64
    answer = server.request("PUT", "/v1/things/t1/files/dir/a%20b.txt?mode=493", body).json
    assert answer["count"] == str(len(body))
    assert int(answer["question"]["size"]) % 2**64 == total
    assert (answer["question"]["id"], answer["question"]["text"], answer["question"]["count"]) == ("t1", "dir/a b.txt", 493)
    assert f"upload t1 {len(body)}" in server.notes()


def test_an_upload_may_be_empty_or_chunked(server):
    assert server.request("PUT", "/v1/things/t1/files/x").json["count"] == "0"
    assert server.request("PUT", "/v1/things/t1/files/x", iter([b"ab", b"c" * 100000])).json["count"] == "100002"


def test_an_upload_by_post_takes_its_path_from_the_query(server):
    answer = server.post("/v1/things/t1/files?path=a/b", b"xyz").json
    assert (answer["text"], answer["question"]["text"]) == ("xyz", "a/b")


def form(*parts, end=b"--B--\r\n"):
    body = b""
    for name, filename, data in parts:
        body += b'--B\r\nContent-Disposition: form-data; name="' + name + b'"'
        body += b'; filename="' + filename + b'"\r\nContent-Type: application/octet-stream' if filename else b""
        body += b"\r\n\r\n" + data + b"\r\n"
    return body + end


FORM = {"Content-Type": "multipart/form-data; boundary=B"}


def test_a_form_with_a_file_is_an_upload(server):
    data = bytes(range(256)) * 2000 + b"\r\n--b\r\n--"
    answer = server.post("/v1/things/t1/files", form((b"path", None, b"dir/x"), (b"file", b"local.bin", data)), headers=FORM).json
    assert (answer["count"], answer["question"]["text"]) == (str(len(data)), "dir/x")
    answer = server.post("/v1/things/t1/files", form((b"file", b"local.bin", b"x")), headers=FORM).json
    assert (answer["count"], answer["question"]["text"]) == ("1", "local.bin")
    answer = server.post("/v1/things/t1/files", form((b"path", None, b"empty"), (b"mode", None, b"5"), (b"file", b"l", b"")), headers=FORM).json
    assert (answer["count"], answer["question"]["text"], answer["question"]["count"]) == ("0", "empty", 5)


def test_curl_sends_such_a_form(server, tmp_path):
    (tmp_path / "f").write_bytes(b"z" * 2000000)
    got = subprocess.run(["curl", "-sS", "-F", "path=a/b", "-F", f"file=@{tmp_path}/f", f"http://{server.origin}/v1/things/t1/files"],
                         capture_output=True, timeout=PATIENCE)
    assert json.loads(got.stdout)["count"] == "2000000", got


@pytest.mark.parametrize("body", [
    form((b"path", None, b"x")),
    form((b"file", b"a", b"1"), (b"file", b"b", b"2")),
    form((b"file", b"a", b"1"), (b"path", None, b"x")),
    form((b"mode", None, b"x"), (b"file", b"a", b"1")),
    form((b"path", None, b"a" * 5000), (b"file", b"a", b"1")),
    b"",
    b"nonsense",
])
def test_a_form_that_is_no_upload_is_refused(server, body):
    assert server.post("/v1/things/form/files", body, headers=FORM).error[:2] == (400, 3)


def test_a_form_that_ends_too_early_is_refused(server):
    body = form((b"path", None, b"x"), (b"file", b"a", b"12345"), end=b"")
    assert server.post("/v1/things/form/files", body[:-2], headers=FORM).error[:2] == (400, 3)


def test_an_upload_that_nobody_takes_waits(make):
    server = make()
    connection = server.connection()
    connection.putrequest("PUT", "/v1/things/slow/files/x")
    connection.putheader("Content-Length", str(50_000_000))
    connection.endheaders()
    server.wait_note("upload slow")
    connection.sock.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < 50_000_000:
            sent += connection.sock.send(b"x" * 100000)
    # The kernel's buffers and ours; not the whole.
    assert sent < 20_000_000 and server.memory_kb() < 200 * 1024
    server.get("/release")
    connection.sock.settimeout(PATIENCE)
    while sent < 50_000_000:
        sent += connection.sock.send(b"x" * min(100000, 50_000_000 - sent))
    assert json.loads(connection.getresponse().read())["count"] == "50000000"
    connection.close()


def test_an_upload_that_breaks_off_is_no_upload(server):
    with server.connect() as sock:
        sock.sendall(b"PUT /v1/things/broken/files/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nsome")
        server.wait_note("upload broken")
    assert server.wait_note("upload-failed broken") == "upload-failed broken 4"
    assert not [note for note in server.notes() if note.startswith("uploaded broken")]
    with server.connect() as sock:
        sock.sendall(b"PUT /v1/things/half/files/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n")
        server.wait_note("upload half")
        sock.shutdown(socket.SHUT_WR)
        server.wait_note("upload-failed half")


def test_an_upload_refused_early_is_answered_behind_the_body(server):
    assert server.request("PUT", "/v1/things/early/files/x", b"x" * 5_000_000).error == (404, 5, "no such thing")


def test_an_upload_is_asked_for(server):
    with server.connect() as sock:
        sock.sendall(b"PUT /v1/things/t1/files/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100 Continue")
        sock.sendall(b"abc")
        assert re.search(rb'"count":"3"', sock.recv(65536))
