"""Workspaces: made over live directories, stopped, started, deleted, collected, found again after a kill."""

import concurrent.futures
import os
import pathlib
import re
import signal
import uuid

import pytest
from server import eventually, sandbox_id
from workspace import own_name

BASE = "/api/v1/sandboxes"
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$")


@pytest.fixture
def project(tmp_path_factory):
    """A directory that others may read, outside of any server's state."""
    place = tmp_path_factory.mktemp("project")
    for above in (place, *place.parents):
        if str(above).startswith("/tmp/") and above.stat().st_uid == os.geteuid():
            above.chmod(0o755)
    (place / "a.txt").write_text("one\n")
    for name in ("src", "src_x", "srcyx", "docs"):
        (place / name).mkdir()
    return place.resolve()


def create(server, project, status=201, headers=None, **fields):
    got, body = server.http("POST", BASE, {"projectRoot": str(project), **fields}, headers)
    assert got == status, body
    return body


def get(server, box):
    status, body = server.http("GET", f"{BASE}/{box['id']}")
    assert status == 200, body
    return body


def post(server, box, verb, body=None, headers=None):
    return server.http("POST", f"{BASE}/{box['id']}/{verb}", body, headers)


def delete(server, box, query=""):
    assert server.http("DELETE", f"{BASE}/{box['id']}{query}") == (204, None)


@pytest.fixture
def box(shared, project):
    made = create(shared, project)
    yield made
    delete(shared, made)


# What is made.

def test_a_workspace_is_active_with_all_that_was_asked_for(shared, project):
    behavior = {"lifecycle": {"ttl": "24h", "idleTimeout": 90 * 10**9, "deleteOn": ["approved"]},
                "acceptance": {"allow": {"pathGlobs": [" src/** ", "src/**"], "extensions": ["PY", ".c"]}, "deny": {}}}
    made = create(shared, project, scopePath="src", owner="agent-7", ownerType="agent", tags=["x"], metadata={"k": [1]}, behavior=behavior)
    try:
        assert uuid.UUID(made["id"]) and made["status"] == "active" and made["driver"] == "fence"
        assert made["scopePath"] == str(project / "src") and made["projectRoot"] == str(project)
        assert made["reservedPath"] == str(project / "src") and made["reservedPaths"] == [str(project / "src")]
        assert (made["owner"], made["ownerType"], made["tags"], made["metadata"]) == ("agent-7", "agent", ["x"], {"k": [1]})
        assert made["behavior"]["lifecycle"] == {"ttl": 86400 * 10**9, "idleTimeout": 90 * 10**9, "deleteOn": ["approved"]}
        assert made["behavior"]["acceptance"] == {"mode": "allowlist", "allow": {"pathGlobs": ["src/**"], "extensions": [".py", ".c"]},
                                                  "deny": {}}
        assert made["activePids"] == [] and made["sizeBytes"] == 0 and made["mountHealth"] == {"healthy": True, "verified": True}
        assert all(TIME.match(made[key]) for key in ("createdAt", "lastUsedAt", "updatedAt"))
        assert "stoppedAt" not in made and "errorMessage" not in made
        assert get(shared, made)["version"] == made["version"]
    finally:
        delete(shared, made)


def test_the_commit_of_the_project_is_kept(shared, project):
    head = "0123456789abcdef0123456789abcdef01234567"
    (project / ".git/refs/heads").mkdir(parents=True)
    (project / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (project / ".git/refs/heads/main").write_text(head + "\n")
    made = create(shared, project, scopePath="src")
    assert made["baseCommitHash"] == head and get(shared, made)["baseCommitHash"] == head
    delete(shared, made)


@pytest.mark.parametrize("body", ["{", "[]", "7", '{"projectRoot": 7}', '{"projectRoot": "/x", "projectRoot": "/y"}', "", '"x"',
                                  '{"tags": "x"}', '{"noLock": 1}', '{"behavior": []}', '{"metadata": []}', '{"reservedPaths": [1]}',
                                  '{"rules": [{"pattern": "x"}]}', '{"rules": {}}', '{"ownerType": "robot"}', '{"driver": "none"}',
                                  '{"behavior": {"lifecycle": {"ttl": -1}}}', '{"behavior": {"lifecycle": {"ttl": "soon"}}}',
                                  '{"behavior": {"lifecycle": {"stopOn": ["nothing"]}}}',
                                  '{"behavior": {"acceptance": {"mode": "denylist"}}}',
                                  '{"behavior": {"acceptance": {"allow": {"pathGlobs": ["/etc/*"]}}}}', '{"preset": "nothing"}'])
def test_malformed_requests_are_400_and_make_nothing(shared, project, body):
    before = shared.http("GET", BASE)[1]["totalCount"]
    text = body.replace("{", '{"projectRoot": "%s", ' % project, 1) if body.startswith('{"') and "projectRoot" not in body else body
    status, answer = shared.http("POST", BASE, text)
    assert status == 400 and answer["hint"] and answer["success"] is False, answer
    assert shared.http("GET", BASE)[1]["totalCount"] == before


def test_where_a_workspace_may_not_be(shared, project):
    (project / "out").symlink_to("/usr/share")
    (project / "in").symlink_to("src")
    for fields in ({"scopePath": "/etc"}, {"scopePath": "../"}, {"scopePath": "nothing"}, {"scopePath": "a.txt"}, {"scopePath": "out"},
                   {"reservedPath": "/usr"}, {"scopePath": "src", "reservedPaths": ["docs"]}):
        status, answer = shared.http("POST", BASE, {"projectRoot": str(project), **fields})
        assert status == 400, (fields, answer)
    for root in ("/", "/usr", "/proc/self", "relative", str(shared.state), str(shared.top)):
        status, answer = shared.http("POST", BASE, {"projectRoot": root})
        assert status == 400, (root, answer)
    made = create(shared, project, scopePath="in")
    assert made["scopePath"] == str(project / "src")
    delete(shared, made)


def test_a_path_can_be_checked_before(shared, project):
    def check(path):
        return shared.http("GET", f"/api/v1/validate-path?path={path}&projectRoot={project}")[1]

    assert check(project / "src") == {"path": str(project / "src"), "projectRoot": str(project), "valid": True, "exists": True,
                                      "isDirectory": True, "withinProjectRoot": True}
    assert not check("/etc")["valid"] and not check(project / "a.txt")["isDirectory"] and not check(project / "x")["exists"]
    assert shared.http("GET", "/api/v1/validate-path")[0] == 400


# Who has what.

def test_of_many_at_once_one_gets_the_path(shared, project):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shared.http("POST", BASE, {"projectRoot": str(project)}), range(8)))
    made = [body for status, body in answers if status == 201]
    assert len(made) == 1 and [status for status, _ in answers].count(409) == 7
    refused = next(body for status, body in answers if status == 409)
    assert refused["details"]["conflicts"][0]["sandboxId"] == made[0]["id"] and refused["hint"]
    delete(shared, made[0])


def test_overlaps_in_every_direction_and_names_that_only_look_alike(shared, project):
    made = create(shared, project, reservedPath="src_x")
    assert made["scopePath"] == str(project)
    for path, kind in (("src_x", "exact"), ("src_x/deep", "existing_contains_new"), (".", "new_contains_existing")):
        conflict = create(shared, project, 409, reservedPath=path)["details"]["conflicts"]
        assert [(c["sandboxId"], c["scope"], c["conflictType"]) for c in conflict] == [(made["id"], str(project / "src_x"), kind)]
    others = [create(shared, project, reservedPath="srcyx"), create(shared, project, reservedPath="src"), create(shared, project, noLock=True)]
    assert others[2]["reservedPath"] == "" and others[2]["noLock"] is True and "reservedPaths" not in others[2]
    for one in (made, *others):
        delete(shared, one)


def test_roots_that_are_spelled_otherwise_are_the_same(shared, project):
    alias = project.parent / (project.name + "-alias")
    alias.symlink_to(project)
    made = create(shared, project, scopePath="src")
    create(shared, alias, 409, scopePath="src")
    create(shared, str(project / "src") + "/", 409)
    delete(shared, made)
    alias.unlink()


def test_a_stopped_one_keeps_its_path(shared, project):
    first = create(shared, project)
    assert post(shared, first, "stop")[0] == 200
    create(shared, project, 409)
    assert post(shared, first, "start")[0] == 200
    delete(shared, first)
    second = create(shared, project)
    assert post(shared, first, "start")[0] == 409
    delete(shared, second)


def test_a_key_makes_one_and_no_other(shared, project):
    key = str(uuid.uuid4())
    made = create(shared, project, scopePath="src", idempotencyKey=key)
    assert create(shared, project, scopePath="src", idempotencyKey=key)["id"] == made["id"]
    assert "another request" in create(shared, project, 409, scopePath="docs", idempotencyKey=key)["error"]
    delete(shared, made)
    assert create(shared, project, scopePath="src", idempotencyKey=key)["status"] == "deleted"


# Its life.

def test_states_and_idempotent_verbs(shared, project):
    made = create(shared, project)
    status, stopped = post(shared, made, "stop")
    assert status == 200 and stopped["status"] == "stopped" and TIME.match(stopped["stoppedAt"]) and "mountHealth" not in stopped
    status, again = post(shared, made, "stop")
    assert status == 200 and again["version"] == stopped["version"]
    status, answer = shared.http("GET", f"{BASE}/{made['id']}/workspace")
    assert status == 409 and answer["hint"]
    status, started = post(shared, made, "start")
    assert status == 200 and started["status"] == "active" and "stoppedAt" not in started
    assert post(shared, made, "start")[1]["version"] == started["version"]
    delete(shared, made)
    delete(shared, made)
    gone = get(shared, made)
    assert gone["status"] == "deleted" and TIME.match(gone["deletedAt"]) and "upperDir" not in gone
    assert post(shared, made, "stop")[0] == 409
    assert pathlib.Path(made["upperDir"]).exists()  # in the trash
    assert shared.http("DELETE", f"{BASE}/{made['id']}?purge=true") == (204, None)
    assert not pathlib.Path(made["upperDir"]).exists()


def test_a_version_that_is_not_seen_any_more(shared, box):
    old, new = box["version"] + 7, box["version"]
    for verb, body, headers in (("stop", {"version": old}, None), ("stop", None, {"If-Match": f'"{old}"'}), ("start", {"version": old}, None)):
        status, answer = post(shared, box, verb, body, headers)
        assert status == 409 and answer["retryable"] is True, answer
    assert shared.http("DELETE", f"{BASE}/{box['id']}?version={old}")[0] == 409
    assert shared.http("DELETE", f"{BASE}/{box['id']}?version=x")[0] == 400
    assert get(shared, box)["status"] == "active"
    assert post(shared, box, "stop", None, {"If-Match": f'"{new}"'})[0] == 200


def test_ids_as_people_write_them(shared, box):
    plain = box["id"]
    for spelled in (plain.upper(), "%7B" + plain + "%7D", "urn:uuid:" + plain, plain.replace("-", "")):
        assert shared.http("GET", f"{BASE}/{spelled}")[1]["id"] == plain
    assert shared.http("GET", f"{BASE}/nothing")[0] == 400
    status, answer = shared.http("GET", f"{BASE}/{uuid.uuid4()}")
    assert status == 404 and answer["hint"]


def test_lists_are_filtered_and_paged(shared, project):
    made = [create(shared, project, scopePath=name, owner="lister") for name in ("src", "docs", "src_x")]
    post(shared, made[0], "stop")

    def ids(query):
        status, body = shared.http("GET", f"{BASE}?owner=lister&{query}")
        assert status == 200, body
        return [one["id"] for one in body["sandboxes"]]

    assert ids("") == [one["id"] for one in reversed(made)]
    assert ids("status=stopped") == [made[0]["id"]]
    assert set(ids("status=stopped&status=active")) == {one["id"] for one in made}
    assert ids(f"scopePath={project}/docs") == [made[1]["id"]]
    assert ids("limit=1&offset=1") == [made[1]["id"]]
    assert shared.http("GET", f"{BASE}?owner=lister&limit=1")[1]["totalCount"] == 3
    for bad in ("status=odd", "limit=x", "offset=-1"):
        assert shared.http("GET", f"{BASE}?{bad}")[0] == 400
    for one in made:
        delete(shared, one)


def test_what_happened_is_in_the_audit(shared, project):
    me = own_name()  # who calls, not whose sandbox it is
    made = create(shared, project, owner="auditor")
    post(shared, made, "stop")
    delete(shared, made)
    status, body = shared.http("GET", f"{BASE}/{made['id']}/audit")
    assert status == 200 and [e["eventType"] for e in body["events"]] == ["deleted", "stopped", "created"]
    assert all(e["sandboxId"] == made["id"] and e["actor"] == me and e["actorType"] == "user" and TIME.match(e["eventTime"]) for e in body["events"])
    status, body = shared.http("GET", f"/api/v1/audit?sandbox_id={made['id']}&limit=1&offset=1")
    assert [e["eventType"] for e in body["events"]] == ["stopped"] and body["total"] == 3 and body["hasMore"] is True
    assert shared.http("GET", "/api/v1/audit?limit=x")[0] == 400


def test_health_stats_metrics_and_drivers(shared, box):
    status, health = shared.http("GET", "/api/v1/health")
    assert status == 200 and health["status"] == "healthy" and health["readiness"] is True and health["driver"] == "fence"
    assert health["dependencies"]["database"]["connected"] is True and "projectRoot" in health["config"]
    stats = shared.http("GET", "/api/v1/stats")[1]["stats"]
    assert stats["activeCount"] == 1 and stats["totalCount"] >= 1
    text = shared.http("GET", "/api/v1/metrics", raw=True)[1].decode()
    assert "\nworkspace_sandbox_active 1\n" in text and "# TYPE workspace_sandbox_created_total counter" in text
    metrics = shared.http("GET", "/api/v1/metrics?format=json")[1]
    assert metrics["active_sandboxes"] == 1 and metrics["sandbox_created_total"] >= 1
    assert shared.http("GET", "/api/v1/driver/info")[1]["driver"]["Type"] == "fence"
    assert shared.http("GET", "/api/v1/driver/options")[1]["options"][0]["available"] is True
    assert shared.http("POST", "/api/v1/driver/select", {"driverId": "fence"})[1]["success"] is True
    assert shared.http("POST", "/api/v1/driver/select", {"driverId": "none"})[0] == 400


def test_work_stays_apart_and_lasts(server, project):
    made = create(server, project)
    name = sandbox_id(made["id"])

    def run(command):
        status, body = server.http("POST", f"/v1/sandboxes/{name}/exec", {"command": command})
        assert status == 200, body
        return body["stdout"]

    assert run("cat a.txt; echo two > a.txt; mkdir new; echo three > new/b; cat a.txt") == "one\ntwo\n"
    (project / "late.txt").write_text("late\n")
    eventually(lambda: run("cat late.txt || true") == "late\n")
    now = get(server, made)
    assert now["fileCount"] == 2 and now["sizeBytes"] == len("two\nthree\n") and now["version"] == made["version"]
    assert (project / "a.txt").read_text() == "one\n" and not (project / "new").exists()
    post(server, made, "stop")
    post(server, made, "start")
    assert run("cat a.txt new/b") == "two\nthree\n"
    server.kill()
    os.kill(server.supervisors()[name], signal.SIGKILL)
    eventually(lambda: name not in server.supervisors())
    server.start()
    assert run("cat a.txt new/b") == "two\nthree\n"
    delete(server, made)
    assert (project / "a.txt").read_text() == "one\n"
    eventually(lambda: server.supervisors() == {})


# Collecting.

def test_a_dry_run_with_spans_as_text_deletes_nothing(shared, project):
    made = create(shared, project)
    post(shared, made, "stop")
    for path, body in (("/api/v1/gc", {"dryRun": True, "policy": {"maxAge": "0s"}}), ("/api/v1/gc/preview", {"olderThan": "0s"}),
                       ("/api/v1/gc/preview", {"policy": {"idleTimeout": 0}})):
        status, answer = shared.http("POST", path, body)
        assert status == 200 and answer["dryRun"] is True and made["id"] in [c["id"] for c in answer["collected"]]
    assert get(shared, made)["status"] == "stopped"
    for body in ("{", '{"dryrun": true}', '{"policy": {"maxage": 1}}', '{"policy": {"maxAge": "x"}}', '{"dryRun": "yes"}'):
        assert shared.http("POST", "/api/v1/gc", body)[0] == 400
    assert get(shared, made)["status"] == "stopped"
    assert shared.http("POST", "/api/v1/gc", {})[1]["totalCollected"] == 0
    status, answer = shared.http("POST", "/api/v1/gc", {"olderThan": "0s"})
    assert answer["dryRun"] is False and [c["id"] for c in answer["collected"]] == [made["id"]]
    assert get(shared, made)["status"] == "deleted"


def test_active_ones_are_never_collected(shared, box):
    status, answer = shared.http("POST", "/api/v1/gc", {"policy": {"maxAge": 0, "statuses": ["active"]}})
    assert status == 200 and answer["totalCollected"] == 0 and get(shared, box)["status"] == "active"


def test_idle_ones_are_stopped_and_old_ones_deleted(make, project):
    server = make(**{"sandbox-cleanup-interval": "100ms"}).start()
    idle = create(server, project, scopePath="src", behavior={"lifecycle": {"idleTimeout": "300ms"}})
    old = create(server, project, scopePath="docs", behavior={"lifecycle": {"ttl": "300ms"}})
    post(server, old, "stop")
    eventually(lambda: get(server, idle)["status"] == "stopped")
    eventually(lambda: get(server, old)["status"] == "deleted")


# Others.

def test_tokens_see_their_own_and_reach_their_roots(server, project):
    ann = {"Authorization": "Bearer " + server.token("create", "--owner", "ann", "--root", str(project / "src"))}
    ben = {"Authorization": "Bearer " + server.token("create", "--owner", "ben")}
    create(server, project, 403, ann, scopePath="docs")
    create(server, project / "docs", 403, ann)
    made = create(server, project / "src", 201, ann)
    assert made["owner"] == "ann"
    create(server, project / "src", 403, ben)
    assert server.http("GET", f"{BASE}/{made['id']}", headers=ben)[0] == 404
    assert server.http("GET", BASE, headers=ben)[1]["totalCount"] == 0
    assert server.http("DELETE", f"{BASE}/{made['id']}", headers=ben)[0] == 204
    assert get(server, made)["status"] == "active"
    assert server.http("GET", BASE, headers={"Authorization": "Bearer x"})[0] == 401


def test_no_more_than_are_allowed(make, project):
    server = make(**{"workspace-max": "1"}).start()
    create(server, project, scopePath="src")
    create(server, project, 429, scopePath="docs")


# Kills.

def test_a_restart_keeps_active_ones_usable(server, project):
    adopted, revived, stopped = (create(server, project, scopePath=name) for name in ("src", "docs", "src_x"))
    post(server, stopped, "stop")
    server.kill()
    name = sandbox_id(revived["id"])
    os.kill(server.supervisors()[name], signal.SIGKILL)
    eventually(lambda: name not in server.supervisors())
    server.start()
    for one in (adopted, revived):
        now = get(server, one)
        assert now["status"] == "active" and now["mountHealth"]["healthy"] is True, now
    assert get(server, stopped)["status"] == "stopped"
    create(server, project, 409, scopePath="src_x")
    assert post(server, stopped, "start")[1]["status"] == "active"


def test_an_end_that_nobody_asked_for_keeps_the_work(server, project):
    made = create(server, project)
    os.kill(server.supervisors()[sandbox_id(made["id"])], signal.SIGKILL)
    now = eventually(lambda: (body := get(server, made))["status"] == "stopped" and body)
    assert now["errorMessage"]
    now = post(server, made, "start")[1]
    assert now["status"] == "active" and "errorMessage" not in now


@pytest.mark.parametrize("point", ["sandbox_inserted", "sandbox_dir_made", "sandbox_booted"])
def test_a_kill_while_one_is_made_leaves_nothing(make, project, point):
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    server.start()
    with pytest.raises(Exception):
        server.http("POST", BASE, {"projectRoot": str(project), "idempotencyKey": "k"})
    server.process.wait()
    server.environment = environment
    server.start()
    left = server.http("GET", BASE)[1]["sandboxes"]
    assert [one["status"] for one in left] == ["deleted"]
    eventually(lambda: server.supervisors() == {})
    assert not list(server.state.rglob("sb_*"))
    assert create(server, project, idempotencyKey="k")["status"] == "active"


def test_a_key_of_one_that_could_not_be_made_is_free_again(make, project):
    """Who tries again wants a sandbox, not the record of why there is none."""
    server = make().start()
    program = server.programs / "agentfense-supervisor"
    program.rename(server.programs / "away")
    program.symlink_to("/bin/false")
    try:
        status, answer = server.http("POST", BASE, {"projectRoot": str(project), "idempotencyKey": "k"})
    finally:
        (server.programs / "away").replace(program)
    assert status == 503 and answer["retryable"], answer
    made = create(server, project, idempotencyKey="k")
    assert made["status"] == "active" and create(server, project, idempotencyKey="k")["id"] == made["id"]


def test_a_kill_while_one_is_deleted_leaves_nothing(make, project):
    server = make(**{"workspace-trash": "0"})
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "sandbox_deleted"}
    server.start()
    made = create(server, project)
    with pytest.raises(Exception):
        delete(server, made)
    server.process.wait()
    server.environment = environment
    server.start()
    assert get(server, made)["status"] == "deleted"
    assert not list(server.state.rglob("sb_*"))


@pytest.mark.parametrize("then", ["start", "delete", "nothing"])
def test_a_kill_while_one_is_started_leaves_one_that_runs(make, project, then):
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": "sandbox_started_unsaid"}
    server.start()
    made = create(server, project)
    post(server, made, "stop")
    with pytest.raises(Exception):
        post(server, made, "start")
    server.process.wait()
    assert len(server.supervisors()) == 1
    server.environment = environment
    server.start()
    # Somebody wanted it to run, and it does.
    assert get(server, made)["status"] == "active" and len(server.supervisors()) == 1
    if then == "start":
        assert post(server, made, "start")[1]["status"] == "active" and len(server.supervisors()) == 1
    elif then == "delete":
        delete(server, made, "?purge=true")
        assert not list(server.state.rglob("sb_*")) and not server.supervisors()


# What nobody knows.

@pytest.mark.parametrize("fields, key, known", [
    ({"behaviour": {}}, "behaviour", "behavior"),
    ({"behavior": {"livecycle": {}}}, "livecycle", "lifecycle, acceptance, hooks"),
    ({"behavior": {"lifecycle": {"ttlx": "1h"}}}, "ttlx", "stopOn, deleteOn, ttl, idleTimeout"),
    ({"behavior": {"acceptance": {"denny": {}}}}, "denny", "deny"),
    ({"behavior": {"acceptance": {"allow": {"pathGlob": ["*"]}}}}, "pathGlob", "pathGlobs, extensions"),
    ({"behavior": {"acceptance": {"deny": {"extension": [".c"]}}}}, "extension", "pathGlobs, extensions"),
    ({"behavior": {"hooks": [{"name": "a", "command": "true", "requird": True}]}}, "requird", "required"),
    ({"rules": [{"pattern": "/a", "permission": "read", "prority": 3}]}, "prority", "priority"),
])
def test_a_key_that_is_none_is_refused_with_those_there_are(shared, project, fields, key, known):
    body = create(shared, project, status=400, **fields)
    assert f"'{key}'" in body["error"] and known in body["error"] + body["hint"]


def test_every_key_of_a_creation_is_known(shared, project):
    every = {"scopePath": str(project), "reservedPath": "src", "reservedPaths": ["src"], "noLock": False, "owner": "o", "ownerType": "agent", "tags": ["t"],
             "metadata": {"any": {"thing": 1}}, "idempotencyKey": str(uuid.uuid4()), "driver": "fence", "preset": "full-access", "profile": "full",
             "rules": [{"pattern": "/docs", "type": "directory", "permission": "read", "priority": 1}],
             "behavior": {"lifecycle": {"stopOn": ["run_failed"], "deleteOn": ["approved"], "ttl": "24h", "idleTimeout": 10**12},
                          "acceptance": {"mode": "allowlist", "allow": {"pathGlobs": ["**"], "extensions": [".txt"]}, "deny": {"pathGlobs": [], "extensions": []},
                                         "ignoreBinary": True, "autoApprove": False, "autoReject": False},
                          "hooks": []}}
    delete(shared, create(shared, project, **every))


def test_a_key_of_a_command_that_is_none_is_refused(shared, project, box):
    for verb in ("exec", "processes", "start-process"):
        status, body = post(shared, box, verb, {"command": "true", "timeoutsec": 1})
        assert status == 400 and "'timeoutsec'" in body["error"] and "timeoutSec" in body["error"]
    every = {"command": "true", "args": [], "allowNetwork": False, "env": {}, "workingDir": "/workspace", "sessionId": "s", "isolationLevel": "",
             "memoryLimitMB": 0, "cpuTimeSec": 0, "timeoutSec": 30, "maxProcesses": 0, "maxOpenFiles": 0, "stdin": "", "stdinEncoding": "utf8"}
    assert post(shared, box, "exec", every)[1]["exitCode"] == 0
    assert post(shared, box, "processes", {**every, "name": "n"})[0] == 201
