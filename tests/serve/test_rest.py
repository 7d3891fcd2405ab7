"""The same server by REST: every route, both styles of names, status codes and bodies."""

import base64
import json
import re
import subprocess
import threading
import time

import pytest
from server import Server, eventually


@pytest.fixture
def http(shared):
    return shared.http


def make(http, **files):
    status, codebase = http("POST", "/v1/codebases", {"name": "x", "ownerId": "me"})
    assert status == 200
    for name, content in files.items():
        assert http("PUT", f"/v1/codebases/{codebase['id']}/files/{name}", content)[0] == 200
    return codebase["id"]


def start(http, codebase, **fields):
    body = {"codebase_id": codebase, "permissions": [{"pattern": "**/*", "permission": "PERMISSION_WRITE"}], **fields}
    status, box = http("POST", "/v1/sandboxes", body)
    assert status == 200, box
    assert http("POST", f"/v1/sandboxes/{box['id']}/start")[0] == 200
    return box["id"]


def failed(answer, status, code, message):
    assert answer[0] == status and answer[1]["code"] == code, answer
    assert answer[1]["message"] == message if isinstance(message, str) else message.search(answer[1]["message"]), answer
    assert isinstance(answer[1]["details"], list)


def test_health_metrics_and_the_description(shared, http):
    status, health = http("GET", "/health")
    assert status == 200 and health["status"] == "healthy"
    _, same = shared.http("GET", "/api/v1/health")
    assert health["readiness"] is True and health["driver"] == same["driver"] and health["version"] == same["version"]
    assert health["dependencies"]["database"]["connected"] is True and health.keys() == same.keys()
    status, metrics = shared.http("GET", "/metrics?format=json")
    assert status == 200 and metrics.keys() == shared.http("GET", "/api/v1/metrics?format=json")[1].keys()
    answer, text = shared.http("GET", "/metrics", raw=True)
    assert answer.getheader("Content-Type").startswith("text/plain") and b"agentfense_sandboxes{state=\"running\"}" in text
    for line in text.decode().splitlines():
        assert re.fullmatch(r"#.*|[a-z_]+(\{[^}]*\})? [0-9.e+-]+", line), line
    status, openapi = http("GET", "/openapi.json")
    assert openapi["openapi"].startswith("3.1") and "/v1/sandboxes/{sandbox_id}/exec" in openapi["paths"]
    for route, verb in [("/v1/codebases/{codebase_id}/files/{file_path}", "put"), ("/v1/events", "get")]:
        assert verb in openapi["paths"][route], sorted(openapi["paths"])


def test_every_field_is_there_in_the_contract_s_form(http):
    codebase = make(http)
    status, box = http("POST", "/v1/sandboxes", {"codebaseId": codebase, "labels": {"a": "b"}, "expiresIn": "90s",
                                                 "permissions": [{"pattern": "/a", "type": "PATTERN_TYPE_FILE", "permission": 3}]})
    assert status == 200 and re.fullmatch("sb_[0-9a-f]{16}", box["id"])
    assert list(box)[:12] == ["id", "codebaseId", "permissions", "status", "labels", "createdAt", "startedAt", "stoppedAt", "expiresAt",
                              "runtime", "image", "resources"]
    assert box["permissions"] == [{"pattern": "/a", "type": "PATTERN_TYPE_FILE", "permission": "PERMISSION_READ", "priority": 0}]
    assert (box["status"], box["labels"], box["startedAt"], box["resources"], box["runtime"]) == (
        "SANDBOX_STATUS_PENDING", {"a": "b"}, None, None, "RUNTIME_TYPE_DOCKER" if Server.engine else "RUNTIME_TYPE_BWRAP")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6}|\.\d{9})?Z", box["expiresAt"])
    status, entry = http("GET", f"/v1/codebases/{codebase}")
    assert (entry["size"], entry["fileCount"]) == ("0", 0)
    assert http("DELETE", f"/v1/sandboxes/{box['id']}") == (200, {})


def test_a_life(shared, http):
    codebase = make(http, **{"src/a.txt": "hello"})
    box = start(http, codebase)
    status, result = http("POST", f"/v1/sandboxes/{box}/exec", {"command": "cat src/a.txt; echo new > b; exit 3", "timeout": "5s"})
    assert status == 200 and (result["stdout"], result["exitCode"]) == ("hello", 3)
    assert re.fullmatch(r"0\.\d{3,9}s", result["duration"])
    assert http("POST", f"/v1/sandboxes/{box}/exec", {"command": "true", "timeout": 5})[0] == 200
    answer, content = shared.http("GET", f"/v1/codebases/{codebase}/files/b", raw=True)
    assert content == b"new\n" and answer.getheader("Content-Type") == "application/octet-stream"
    status, listed = http("GET", f"/v1/codebases/{codebase}/files?recursive=true")
    assert [file["path"] for file in listed["files"]] == ["b", "src", "src/a.txt"]
    status, session = http("POST", f"/v1/sandboxes/{box}/sessions", {"shell": "/bin/sh"})
    assert status == 200 and session["status"] == "SESSION_STATUS_ACTIVE"
    assert http("POST", f"/v1/sessions/{session['id']}/exec", {"command": "X=1; echo $X"})[1]["stdout"] == "1\n"
    assert http("GET", f"/v1/sessions/{session['id']}")[1]["sandboxId"] == box
    assert [one["id"] for one in http("GET", f"/v1/sandboxes/{box}/sessions")[1]["sessions"]] == [session["id"]]
    assert http("DELETE", f"/v1/sessions/{session['id']}") == (200, {})
    assert http("GET", f"/v1/sandboxes?codebase_id={codebase}&page_size=5")[1]["sandboxes"][0]["id"] == box
    status, updated = http("PUT", f"/v1/sandboxes/{box}/permissions", {"preset": "read-only"})
    assert status == 200 and updated["permissions"]
    why = http("GET", f"/v1/sandboxes/{box}/permissions/explain?path=/src/a.txt")[1]
    assert why["permission"] == "PERMISSION_READ"
    assert {event["type"] for event in http("GET", f"/v1/sandboxes/{box}/events")[1]["events"]} >= {"sandbox_created", "command_executed"}
    assert http("POST", f"/v1/sandboxes/{box}/stop", "ignored body")[1]["status"] == "SANDBOX_STATUS_STOPPED"
    assert http("GET", f"/v1/sandboxes/{box}")[1]["status"] == "SANDBOX_STATUS_STOPPED"
    assert http("DELETE", f"/v1/sandboxes/{box}") == (200, {})
    versions = http("GET", f"/v1/codebases/{codebase}/versions")[1]["versions"]
    assert http("POST", f"/v1/codebases/{codebase}/versions/{versions[-1]['number']}/restore")[0] == 200
    assert http("DELETE", f"/v1/codebases/{codebase}/files/src")[1]["fileCount"] == 0
    assert http("DELETE", f"/v1/codebases/{codebase}") == (200, {})


def test_archives_and_forms(shared, http, tmp_path):
    codebase = make(http)
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("2")
    subprocess.run(["tar", "czf", tmp_path / "t.tgz", "-C", tmp_path, "one", "two"], check=True)
    curl = ["curl", "-s", "--fail-with-body"]
    out = subprocess.run([*curl, "-T", tmp_path / "t.tgz", shared.url(f"/v1/codebases/{codebase}/archive")], capture_output=True, check=True)
    assert json.loads(out.stdout)["fileCount"] == "2"
    out = subprocess.run([*curl, "-F", "path=deep/three", "-F", f"file=@{tmp_path / 'one'}", shared.url(f"/v1/codebases/{codebase}/files")],
                         capture_output=True, check=False)
    assert out.returncode == 0, out.stdout
    back = subprocess.run([*curl, shared.url(f"/v1/codebases/{codebase}/archive")], capture_output=True, check=True).stdout
    names = subprocess.run(["tar", "tf", "-"], input=back, capture_output=True, check=True).stdout.decode().split()
    assert {name.lstrip("./") for name in names} >= {"one", "two", "deep/three"}


def events_of(stream):
    event = {}
    for line in stream:
        line = line.decode().rstrip("\n")
        if not line and event:
            yield event
            event = {}
        elif ": " in line and not line.startswith(":"):
            key, value = line.split(": ", 1)
            event[key] = value


def test_a_command_as_events(shared, http):
    box = start(http, make(http))
    connection = shared.connect()
    connection.request("POST", f"/v1/sandboxes/{box}/exec/stream", json.dumps({"command": "echo a; echo b >&2; exit 7"}))
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("Content-Type").startswith("text/event-stream")
    events = list(events_of(answer))
    connection.close()
    said = [json.loads(event["data"]) for event in events if event["event"] == "message"]
    assert [(one["type"], base64.b64decode(one["data"])) for one in said] == [("OUTPUT_TYPE_STDOUT", b"a\n"), ("OUTPUT_TYPE_STDERR", b"b\n")]
    assert json.loads(events[-1]["data"])["trailers"]["agentfense-exit-code"] == "7"


def test_who_hangs_up_kills_the_command(shared, http):
    box = start(http, make(http))
    connection = shared.connect()
    connection.request("POST", f"/v1/sandboxes/{box}/exec/stream", json.dumps({"command": "echo up; sleep 971"}))
    assert next(events_of(connection.getresponse()))["event"] == "message"
    connection.close()

    def count(number):
        return http("POST", f"/v1/sandboxes/{box}/exec", {"command": f"ps ax | grep -c '[s]leep {number}'"})[1]["stdout"]

    eventually(lambda: count(971) == "0\n")
    connection = shared.connect()
    connection.request("POST", f"/v1/sandboxes/{box}/exec", json.dumps({"command": "sleep 972"}))
    eventually(lambda: count(972) != "0\n")
    connection.sock.close()
    connection.close()
    eventually(lambda: count(972) == "0\n")


def test_refusals(http):
    codebase = make(http)
    failed(http("GET", "/v1/nothing"), 404, 5, "Not Found")
    failed(http("GET", "/nothing"), 404, 5, "Not Found")
    failed(http("PATCH", "/v1/sandboxes"), 501, 12, "Method Not Allowed")
    failed(http("POST", "/v1/codebases", {"ownerId": "x"}), 400, 3, "name is required")
    failed(http("POST", "/v1/codebases", ""), 400, 3, "name is required")
    failed(http("POST", "/v1/codebases", "{"), 400, 3, re.compile("."))
    failed(http("POST", "/v1/codebases", '{"name": 7}'), 400, 3, re.compile("name"))
    failed(http("GET", "/v1/sandboxes/sb_0123456789abcdef"), 404, 5, "sandbox not found")
    failed(http("GET", "/v1/sandboxes?page_size=many"), 400, 3, re.compile("page_size"))
    failed(http("GET", f"/v1/codebases/{codebase}/files?recursive=perhaps"), 400, 3, re.compile("recursive"))
    failed(http("GET", f"/v1/codebases/{codebase}/files/no/such"), 404, 5, re.compile("file not found"))
    failed(http("PUT", f"/v1/codebases/{codebase}/files/..%2f..%2fx", "evil"), 400, 3, re.compile("."))
    box = http("POST", "/v1/sandboxes", {"codebaseId": codebase})[1]["id"]
    failed(http("POST", f"/v1/sandboxes/{box}/exec", {"command": "true"}), 400, 9, "sandbox is not running")
    failed(http("POST", f"/v1/sandboxes/{box}/exec", {"command": "true", "timeout": "soon"}), 400, 3, re.compile("timeout"))
    status, answer = http("POST", f"/v1/sandboxes/{box}/stop")
    assert (status, answer["details"][0]["reason"]) == (400, "SANDBOX_NOT_RUNNING")
    http("POST", f"/v1/sandboxes/{box}/start")
    failed(http("POST", f"/v1/sandboxes/{box}/exec", {"command": "sleep 30", "timeout": 0.3}), 504, 4, "command timed out")
    failed(http("POST", "/v1/sandboxes", {"codebaseId": codebase, "permissions": [{"pattern": "../x"}]}), 400, 3, re.compile("rule 1"))


def test_a_form_s_content_type_is_no_matter(shared, http):
    codebase = make(http)
    out = subprocess.run(["curl", "-s", "-d", json.dumps({"codebaseId": codebase}), shared.url("/v1/sandboxes")], capture_output=True,
                         check=True).stdout
    assert json.loads(out)["codebaseId"] == codebase


def test_many_at_once(shared, http):
    box = start(http, make(http))
    answers = []

    def work(number):
        answers.append(shared.http("POST", f"/v1/sandboxes/{box}/exec", {"command": f"echo {number}"})[1]["stdout"])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
        time.sleep(0.002)
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(f"{number}\n" for number in range(60))
