"""What a client of the API sees: routes, fields, errors, headers."""

import json
import select
import subprocess

import pytest
from conftest import PATIENCE

THING = {"text": "hi", "count": 3}


def test_a_message_goes_in_and_out_as_json(server):
    answer = server.post("/v1/things/t1/echo", {"id": "other", "text": "é", "size": "9007199254740993", "timeout": 30, "tags": ["a"]})
    assert answer.status == 200
    assert answer.json["question"] == {"id": "t1", "text": "é", "count": 0, "size": "9007199254740993", "recursive": False,
                                       "colour": "COLOUR_UNSPECIFIED", "timeout": "30s", "since": None, "tags": ["a"], "labels": {}, "raw": ""}
    assert list(answer.json) == ["text", "count", "question"]


def test_the_headers_of_an_answer(server):
    answer = server.get("/v1/things/t1")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Grpc-Metadata-Content-Type"] == "application/grpc"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_an_empty_body_is_an_empty_message(server):
    for body in (None, "", "  \n", "{}"):
        assert server.post("/v1/things/t1/echo", body).json["question"]["id"] == "t1"


def test_the_content_type_of_json_does_not_matter(server):
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"):
        answer = server.post("/v1/things/t1/echo", json.dumps(THING), headers={"Content-Type": kind})
        assert answer.json["question"]["text"] == "hi"


def test_a_method_without_a_body_does_not_mind_one(server):
    assert server.post("/v1/things/t1/start", "{not json").json["question"]["id"] == "t1"


def test_the_query_fills_fields(server):
    question = server.get("/v1/things?text=a%20b+c&count=5&recursive=t&pageSize=1&tags=x&tags=y&since=2026-01-02T03:04:05Z").json["question"]
    assert (question["text"], question["count"], question["recursive"], question["tags"]) == ("a b c", 5, True, ["x", "y"])
    assert question["since"] == "2026-01-02T03:04:05Z"


def test_a_query_beside_a_json_body_is_not_looked_at(server):
    assert server.post("/v1/things/t1/echo?text=query&count=x", THING).json["question"]["text"] == "hi"


@pytest.mark.parametrize("query", ["count=x", "recursive=maybe", "count=1&count=2", "text=%zz", "text=%00", "text=%ff", "count=99999999999"])
def test_a_bad_query_is_refused(server, query):
    status, code, message = server.get(f"/v1/things?{query}").error
    assert (status, code) == (400, 3) and message


@pytest.mark.parametrize("body, message", [
    ("{", "not JSON at byte 1: the text ends too early"),
    ('{"count": "x"}', "field 'count': must be a whole number"),
    ('{"timeout": "soon"}', "field 'timeout': must be a duration like \"30s\" or a number of seconds"),
    ('{"text": "a", "text": "b"}', "field 'text': given twice"),
    ("[1]", "the body must be a JSON object, not a list"),
    (b'{"text": "\xff"}', "not JSON at byte 11: a string that is not UTF-8"),
])
def test_a_bad_body_is_refused_with_the_field(server, body, message):
    assert server.post("/v1/things/t1/echo", body).error == (400, 3, message)


def test_everything_there_is_goes_through(server):
    body = {"text": "x", "raw": "AQI=", "anInt64": "-9223372036854775808", "aUint64": "18446744073709551615", "aDouble": 0.1,
            "labels": {"a": "b"}, "byNumber": {"1": {"x": 1, "y": 0, "next": None}}, "choiceNumber": "5", "waits": ["1.500s"]}
    answer = server.post("/v1/everything", body).json
    assert {name: answer[name] for name in body} == body
    assert "choiceText" not in answer and answer["point"] is None and answer["numbers"] == []


def test_unknown_paths(server):
    for path in ("/", "/v1", "/v1/nothing", "/v1/things/t1/nothing", "//v1/things", "/v1/things/t1/files", "/../health"):
        assert server.request("DELETE" if path.endswith("files") else "GET", path).error[:2] in ((404, 5), (501, 12))
    assert server.get("/v1/nothing").error == (404, 5, "Not Found")


def test_known_paths_with_other_verbs(server):
    answer = server.request("DELETE", "/v1/things/t1/stream")
    assert answer.error == (501, 12, "Method Not Allowed")
    assert answer.headers["Allow"] == "POST, GET, HEAD"
    for verb in ("TRACE", "PATCH", "OPTIONS", "CONNECT-US", "get"):
        assert server.request(verb, "/health").error == (501, 12, "Method Not Allowed")


def test_a_path_may_end_in_a_slash(server):
    assert server.get("/v1/things/t1/").json["question"]["id"] == "t1"


def test_variables_of_the_path_are_decoded(server):
    assert server.get("/v1/things/a%2Fb%20c").json["question"]["id"] == "a/b c"
    for wrong in ("%", "%2", "%zz", "%00", "%ff"):
        assert server.get(f"/v1/things/{wrong}").error[:2] == (400, 3)


def test_head_is_get_without_the_body(server):
    answer = server.request("HEAD", "/v1/things/t1", headers={"X-Request-Id": "req_0123456789abcdef"})
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) == len(server.get("/v1/things/t1").body)
    answer = server.request("HEAD", "/v1/things/t1/files/x?total_size=1000000000")
    assert (answer.status, answer.body) == (200, b"")
    assert server.request("HEAD", "/v1/things/t1/files/x?mode=1").status == 404


def test_a_form_to_a_path_that_only_has_get_is_that_get(server):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    question = server.post("/v1/things?count=4", "text=a+b&recursive=1", headers=form).json["question"]
    assert (question["text"], question["recursive"], question["count"]) == ("a b", True, 4)
    assert server.post("/v1/things", "{}").error == (501, 12, "Method Not Allowed")


STATUSES = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500,
            16: 401}


@pytest.mark.parametrize("code", STATUSES)
def test_errors_of_methods_have_their_status(server, code):
    answer = server.post("/v1/fail", {"count": code, "text": 'no "such" thing\n'})
    assert answer.error == (STATUSES[code], code, 'no "such" thing\n')
    assert answer.json["details"] == []
    assert (answer.headers["WWW-Authenticate"] == "Bearer") == (code == 16)


def test_an_error_tells_programs_its_reason(server):
    answer = server.post("/v1/fail", {"id": "reason", "count": 5, "text": "sb_1"})
    assert answer.json["details"] == [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "THING_NOT_FOUND",
                                       "domain": "agentfense", "metadata": {"thing_id": "sb_1"}}]


def test_a_method_that_does_not_answer_is_our_error(server):
    assert server.post("/v1/fail", {"id": "nothing"}).error[:2] == (500, 13)


def test_trailers_of_a_single_answer_are_headers(server):
    answer = server.post("/v1/things/t1/echo", {"text": "trailer"})
    assert answer.headers["Grpc-Trailer-agentfense-exit-code"] == "7"


def test_request_ids_come_back_or_are_made(server):
    assert server.get("/health", headers={"X-Request-Id": "my-id.7"}).headers["X-Request-Id"] == "my-id.7"
    for wrong in ("a b", "x" * 129, 'a"b', ""):
        assert server.get("/health", headers={"X-Request-Id": wrong}).headers["X-Request-Id"].startswith("req_")


def test_methods_see_headers_by_lower_case_name(server):
    assert server.post("/v1/things/t1/echo", {}, headers={"X-ECHO": "seen"}).json["text"] == "seen"


def test_who_somebody_is_is_said_once(server):
    got = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("header, value", [("Grpc-Timeout", "50m"), ("X-Request-Timeout", "0.05"), ("X-Request-Timeout", "0.05s")])
def test_a_deadline_ends_a_call(server, header, value):
    assert server.post("/v1/things/late/wait", headers={header: value}).error == (504, 4, "the deadline has passed")


@pytest.mark.parametrize("header, value", [("Grpc-Timeout", "5"), ("Grpc-Timeout", "123456789S"), ("X-Request-Timeout", "-1"),
                                           ("X-Request-Timeout", "soon")])
def test_a_malformed_deadline_is_refused(server, header, value):
    assert server.get("/v1/things/t1", headers={header: value}).error[:2] == (400, 3)


def test_pages_beside_the_api(server):
    assert server.get("/health").json == {"status": "ok"}
    answer = server.get("/ui/a%20b/c?x=1", headers={"User-Agent": "me"})
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"<p>a b/c|x=1|me", "text/html")
    assert answer.headers.get_all("Cache-Control") == ["max-age=60"]
    assert server.get("/ui/missing").status == 404
    assert server.get("/ui/%zz").error[:2] == (400, 3)


def test_a_connection_is_kept_over_requests_and_refusals(server):
    connection = server.connection()
    connection.connect()
    sock = connection.sock
    for _ in range(3):
        assert server.get("/health", connection=connection).status == 200
        assert server.get("/nowhere", connection=connection).status == 404
        assert server.post("/nowhere", "some body", connection=connection).status == 404
        assert server.post("/v1/things/t/echo", "{", connection=connection).status == 400
        assert connection.sock is sock
    connection.close()


def test_requests_may_be_sent_ahead(server):
    one = b"GET /v1/things/%d HTTP/1.1\r\nHost: localhost\r\n%s\r\n"
    got = server.raw(one % (1, b"") + one % (2, b"") + one % (3, b"Connection: close\r\n"))
    ids = [json.loads(part.partition(b"\r\n\r\n")[2].split(b"HTTP/1.1")[0])["question"]["id"]
           for part in got.split(b"HTTP/1.1 200 OK")[1:]]
    assert ids == ["1", "2", "3"]


def test_http_1_0_is_served(server):
    got = server.raw(b"GET /health HTTP/1.0\r\n\r\n")
    assert got.endswith(b'{"status":"ok"}') and b" 200 OK" in got.split(b"\r\n")[0]


def test_chunked_bodies_are_taken(server):
    got = server.raw(b"POST /v1/things/t1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                     b'9\r\n{"text":"\r\n4\r\nab"}\r\n0\r\n\r\n')
    assert b'"text":"ab"' in got


def test_a_body_waits_for_being_asked_for(server):
    with server.connect() as sock:
        sock.sendall(b"POST /v1/things/t1/echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        sock.sendall(b'{"text":"ab"}')
        assert b'"text":"ab"' in sock.recv(65536)
    with server.connect() as sock:
        sock.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 13\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 404 ")


def test_bodies_have_a_size(server):
    just = '{"text": "' + "x" * (4 * 1024 * 1024 - 12) + '"}'
    assert server.post("/v1/things/t1/echo", just).status == 200
    assert server.post("/v1/things/t1/echo", just + " ").error == (413, 8, "the body is too large")
    chunks = iter([b"x" * 65536] * 65 + [b""])
    assert server.request("POST", "/v1/things/t1/echo", chunks).error == (413, 8, "the body is too large")


def test_a_unix_socket_is_served(make, tmp_path):
    server = make(listen=(f"unix:{tmp_path}/s",))
    got = subprocess.run(["curl", "-sS", "--unix-socket", f"{tmp_path}/s", "http://localhost/v1/things/t1"], capture_output=True, timeout=PATIENCE)
    assert json.loads(got.stdout)["question"]["id"] == "t1", got
    assert server.addresses == [f"unix:{tmp_path}/s"]


def test_ends_of_calls_are_told(make):
    server = make()
    server.get("/v1/things/t1")
    server.post("/v1/fail", {"count": 9})
    server.post("/v1/things/t1/echo", "{")
    assert [line for line in server.notes() if line.startswith("end ")] == ["end Get 0", "end Fail 9", "end Ask 3"]


def test_when_all_threads_are_taken_calls_are_refused(make):
    server = make("--threads", 2)
    connections = [server.connection() for _ in range(6)]
    for number, connection in enumerate(connections):
        connection.request("POST", f"/v1/things/{number}/wait")
    # Two run and one stands in line, at most: the others hear so at once.
    ready, _, _ = select.select([connection.sock for connection in connections], [], [], PATIENCE)
    refused = next(connection for connection in connections if connection.sock in ready)
    answer = json.loads(refused.getresponse().read())
    assert (answer["code"], answer["message"]) == (8, "too many calls at once")
    for connection in connections:
        connection.close()
    while server.get("/health").status == 429:
        pass
