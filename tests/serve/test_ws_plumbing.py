"""The ground of the workspace routes: errors, verbs, origins, bodies; nothing of it under /v1."""

import json
import subprocess


def error_of(answer):
    status, body = answer
    assert set(body) <= {"error", "code", "success", "hint", "retryable", "details"}, body
    assert body["code"] == status and body["success"] is False and body["error"]
    return status, body


def test_the_service_describes_itself(shared):
    for path in ("/", "/api"):
        status, body = shared.http("GET", path)
        assert status == 200 and body["apiVersion"] == "v1" and body["basePath"] == "/api/v1"
        assert set(body["endpoints"]) == {"health", "sandboxes", "driver", "stats", "metrics"}


def test_what_is_not_there_is_told_as_json(shared):
    status, body = error_of(shared.http("GET", "/api/v1/nothing"))
    assert status == 404 and body["hint"]
    status, body = shared.http("GET", "/v1/nothing")
    assert status == 404 and set(body) == {"code", "message", "details"}


def test_a_wrong_verb_is_told_what_is_right(shared):
    answer, content = shared.http("PATCH", "/api", raw=True)
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"
    assert json.loads(content)["code"] == 405


def test_options_and_head_are_served(shared):
    answer, content = shared.http("OPTIONS", "/api", raw=True)
    assert (answer.status, content) == (204, b"") and "GET" in answer.headers["Allow"]
    answer, content = shared.http("HEAD", "/api", raw=True)
    assert (answer.status, content) == (200, b"") and int(answer.headers["Content-Length"]) > 100


def test_pages_of_other_origins_are_refused(shared):
    status, _ = error_of(shared.http("GET", "/api/v1/nothing", headers={"Origin": "http://evil.example"}))
    assert status == 403


def test_a_configured_origin_may_ask(make):
    server = make(**{"server-allowed-origins": "http://ui.example"}).start()
    answer, _ = server.http("OPTIONS", "/api", headers={"Origin": "http://ui.example", "Access-Control-Request-Method": "GET"}, raw=True)
    assert answer.status == 204 and answer.headers["Access-Control-Allow-Origin"] == "http://ui.example"
    assert "GET" in answer.headers["Access-Control-Allow-Methods"]


def test_a_malformed_query_is_400(shared):
    status, _ = error_of(shared.http("GET", "/api?x=%zz"))
    assert status == 400


def test_the_routes_are_in_the_openapi_page(shared):
    status, page = shared.http("GET", "/openapi.json")
    assert status == 200 and "get" in page["paths"]["/api"] and "WorkspaceError" in page["components"]["schemas"]


def show_config(server, **environment):
    return subprocess.run([server.program, "serve", "--check-config"], env={**server.environment(), **environment}, capture_output=True,
                          text=True, check=False)


def test_variables_of_the_other_server_are_taken(make):
    server = make()
    shown = show_config(server, API_PORT="8123", PROJECT_ROOT="/p", WORKSPACE_SANDBOX_MAX_SIZE_MB="7", WORKSPACE_SANDBOX_IDLE_TTL="5h",
                        WORKSPACE_SANDBOX_MAX_SANDBOXES="3", AGENTFENSE_WORKSPACE_MAX="9")
    assert shown.returncode == 0, shown.stderr
    values = dict(line.split(": ", 1) for line in shown.stdout.splitlines() if ": " in line)
    assert values["server.http_addr"] == '"localhost:8123"' and values["workspace.project_root"] == '"/p"'
    assert values["workspace.idle_ttl"] == show_config(server, AGENTFENSE_WORKSPACE_IDLE_TTL="5h").stdout.split("idle_ttl: ")[1].split("\n")[0]
    assert values["workspace.max_size"] == show_config(server, AGENTFENSE_WORKSPACE_MAX_SIZE="7M").stdout.split("max_size: ")[1].split("\n")[0]
    assert values["workspace.max"] == "9"
    assert show_config(server, WORKSPACE_SANDBOX_IDLE_TTL="soon").returncode != 0
