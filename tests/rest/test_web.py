"""Routes that are no methods: what they are given, and what they answer with."""

import http.client
import time

import pytest
from conftest import PATIENCE


@pytest.fixture
def quick(make):
    return make("--heartbeat-ms", 50)


def test_a_handler_sees_path_query_and_body(server):
    answer = server.post("/api/echo/a%2Fb?x=1&y=%C3%A4&x=2&z", "body\x01")
    assert (answer.status, answer.headers["ETag"]) == (201, '"7"')
    assert answer.json == {"id": "a/b", "body": "body\x01", "query": [["x", "1"], ["y", "ä"], ["x", "2"], ["z", ""]]}


@pytest.mark.parametrize("path", ["/api/echo/%ff", "/api/echo/x?y=%0"])
def test_what_is_no_text_is_400(server, path):
    answer = server.post(path, "")
    assert answer.status == 400 and answer.json["success"] is False


def test_a_body_has_its_own_bound(server):
    assert server.post("/api/echo/x", "y" * 1000).status == 201
    answer = server.post("/api/echo/x", "y" * 1001)
    assert answer.status == 413 and answer.json["code"] == 413 and answer.json["hint"]


def test_an_event_has_a_line_of_data_for_each_line(server):
    answer = server.get("/api/events?text=a%0Ab%0D%0Ac%0Dd%0A")
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.body == b"id: 1\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\nevent: end\ndata: {}\n\n"


def test_a_refusal_before_the_first_event_has_a_status(server):
    answer = server.get("/api/events?text=refuse")
    assert answer.status == 409 and answer.json == {"error": "not now", "code": 409, "success": False, "hint": "later", "retryable": True}


def test_events_are_sent_at_once_and_kept_alive(quick):
    connection = quick.connection()
    connection.request("GET", "/api/events?text=x&wait=1")
    response = connection.getresponse()
    got = b""
    while got.count(b":\n\n") < 2:
        got += response.read1(100)
    assert got.startswith(b"id: 1\ndata: x\n\n:\n\n")
    response.close()
    connection.close()
    until = time.monotonic() + PATIENCE
    while quick.get("/stats").json["calls"] > 1:
        assert time.monotonic() < until, "the handler was not told that its client is gone"
        time.sleep(0.01)


def test_content_comes_in_pieces(server):
    answer = server.get("/api/bytes?count=3000000")
    assert answer.body == b"x" * 3000000 and answer.headers["Transfer-Encoding"] == "chunked"
    answer = server.get("/api/bytes?count=3000000&size=3000000")
    assert answer.body == b"x" * 3000000 and answer.headers["Content-Length"] == "3000000"
    answer = server.request("HEAD", "/api/bytes?count=3000000&size=3000000")
    assert answer.body == b"" and answer.headers["Content-Length"] == "3000000"


@pytest.mark.parametrize("query", ["count=100000&broken=1", "count=100000&size=200000"])
def test_content_that_ends_too_early_does_not_look_whole(server, query):
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        server.get(f"/api/bytes?{query}")
