"""Every refusal of /v1 has one shape, whoever refuses: the carrier, the gate, a method, or the service behind it."""

import json
import re
import socket

import pytest
from api import NOBODY
from server import WAIT

# By docs/api.md.
STATUS = {1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401}
VALUES = {"sandbox_id": "sb_0123456789abcdef", "codebase_id": "cb_0123456789abcdef", "session_id": "se_0123456789abcdef", "process_id": "pr_0123456789abcdef",
          "comment_id": "cm_0123456789abcdef", "profile_id": "absent", "version": "1"}


@pytest.fixture(scope="module")
def routes(shared):
    return [(verb.upper(), path) for path, verbs in described(shared).items() for verb in verbs]


def described(server):
    return {path: verbs for path, verbs in server.http("GET", "/openapi.json")[1]["paths"].items() if path.startswith("/v1/")}


def filled(path, value=None):
    return re.sub(r"\{(\w+)(=\*\*)?\}", lambda name: value or VALUES.get(name[1], "x"), path)


def check(status, body, where):
    assert isinstance(body, dict) and set(body) == {"code", "message", "details"}, (where, status, body)
    assert isinstance(body["message"], str) and body["message"] and isinstance(body["details"], list), (where, body)
    assert STATUS[body["code"]] == status, (where, status, body)
    for detail in body["details"]:
        assert detail["@type"].startswith("type.googleapis.com/"), (where, detail)
    infos = [detail for detail in body["details"] if detail["@type"].endswith("google.rpc.ErrorInfo")]
    assert len(infos) <= 1 and all(re.fullmatch("[A-Z][A-Z_]+", info["reason"]) for info in infos), (where, body)


def test_there_are_routes(routes):
    assert len(routes) > 80 and ("POST", "/v1/collect") in routes and ("DELETE", "/v1/sandboxes/{sandbox_id}/comments/{comment_id}") in routes


def test_without_a_token(shared, routes):
    for verb, path in routes:
        status, body = shared.http(verb, filled(path), {} if verb in ("POST", "PUT") else None, headers={"Authorization": "Bearer wrong"})
        check(status, body, (verb, path))
        assert status == 401, (verb, path)


@pytest.mark.parametrize("body", ['{"a": 1', "[]", '"x"', '{"sandboxId": {}}', b"\xff\xfe", '{"x": ' * 100],
                         ids=["cut", "array", "text", "type", "bytes", "deep"])
def test_a_malformed_body(shared, body):
    takes_json = [(verb.upper(), path) for path, verbs in described(shared).items() for verb, about in verbs.items()
                  if "application/json" in about.get("requestBody", {}).get("content", {})]
    assert len(takes_json) > 30
    for verb, path in takes_json:
        if body != '{"sandboxId": {}}' or "{sandbox_id}" in path:
            status, answer = shared.http(verb, filled(path), body, headers={"Content-Type": "application/json"})
            check(status, answer, (verb, path))
            assert status == 400, (verb, path, answer)


def test_what_is_not_there(shared, routes):
    """Each route with the ids of nothing: most are refused, and none in another way."""
    refused = 0
    for verb, path in routes:
        answer, content = shared.http(verb, filled(path), {} if verb in ("POST", "PUT") else None, raw=True)
        if answer.status >= 400:
            check(answer.status, json.loads(content), (verb, path))
            assert answer.getheader("Content-Type") == "application/json", (verb, path)
            refused += 1
            assert "{sandbox_id}" not in path or answer.status in (400, 404), (verb, path, content)
    assert refused > 60


def test_a_malformed_query(shared, routes):
    for verb, path in routes:
        status, body = shared.http(verb, filled(path) + "?noSuchField=1&pageSize=x", {} if verb in ("POST", "PUT") else None)
        if status >= 400:
            check(status, body, (verb, path))


@pytest.mark.parametrize("verb, path, status", [
    ("GET", "/v1/nothing", 404), ("GET", "/v1/", 404), ("GET", "/v1", 404), ("POST", "/v1/sandboxes/x/y/z", 404), ("PATCH", "/v1/sandboxes", 501),
    ("DELETE", "/v1/sandboxes", 501), ("GET", "/v1/sandboxes/%zz", 400), ("GET", "/v1/sandboxes/%00", 400), ("GET", "/v1/sandboxes/%ff", 400),
    ("GET", "/v1/codebases/x/files/../y", 404), ("GET", "/v1/sandboxes?page_size=99999999999", 400), ("GET", "/v1/sandboxes/" + "x" * 5000, 404)])
def test_what_is_no_route_or_no_request(shared, verb, path, status):
    got, body = shared.http(verb, path)
    assert set(body) == {"code", "message", "details"}, body
    assert got == status and isinstance(body["code"], int), (got, body)


def test_a_body_that_is_too_large(shared):
    status, body = shared.http("POST", "/v1/sandboxes", '{"image": "' + "x" * (5 << 20) + '"}', headers={"Content-Type": "application/json"})
    assert set(body) == {"code", "message", "details"} and status in (400, 413, 429), (status, body)


def test_one_that_comes_in_the_middle_of_a_stream(shared):
    """Nothing can take back a status that was sent: the last event is the error, in the same shape."""
    status, body = shared.http("GET", f"/v1/sandboxes/{NOBODY}/diff/stream")
    check(status, body, "a stream that has not begun")
    client = shared.client()
    box = client.sandbox(client.codebase({"a": "1\n"}))
    with socket.create_connection(tuple(shared.http_address.rsplit(":", 1)), timeout=WAIT) as line:
        body = b'{"command": "echo begun; sleep 100", "timeout": "1s"}'
        line.sendall(b"POST /v1/sandboxes/%s/exec/stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" %
                     (box.encode(), len(body), body))
        text = b"".join(iter(lambda: line.recv(4096), b"")).decode()
    error = json.loads(re.search(r"event: error\ndata: (.*)\n", text)[1])
    assert " 200 " in text.split("\r\n")[0] and "begun" not in text.split("event: error")[1]
    assert set(error) == {"code", "message", "details"} and error["code"] == 4, error
