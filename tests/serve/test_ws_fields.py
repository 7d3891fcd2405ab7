"""Every answer of /api/v1, field by field: what clients of other such systems read, with its type, and its value where there is only one."""

import datetime
import os
import re
import subprocess
import uuid

import pytest
from review import Review, make_repository
from workspace import Terminal

FILES = {"src/a.txt": "one\ntwo\nthree\n", "src/b.txt": "b\n", "src/c.txt": "c\n", "top": "top\n"}
NUMBER = (int, float)


class Maybe:
    """A field that may be absent, and is right when it is there."""

    def __init__(self, spec):
        self.spec = spec


def is_time(value):
    """RFC 3339 with nanoseconds and a zone."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)", value), value
    age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(value[:26] + "+00:00")
    assert abs(age.total_seconds()) < 3600


def is_uuid(value):
    assert str(uuid.UUID(value)) == value


def is_path(value):
    assert value.startswith("/"), value


def is_hash(value):
    assert re.fullmatch("[0-9a-f]{40}", value), value


def is_text(value):
    assert isinstance(value, str) and value


def is_count(value):
    assert type(value) is int and value >= 0, value


def check(value, spec, where):
    """A spec is a type, a function that asserts, [the spec of each of at least one item], {field: spec}, or the value itself."""
    if isinstance(spec, dict):
        assert isinstance(value, dict), (where, value)
        for key, inner in spec.items():
            if isinstance(inner, Maybe):
                if key in value:
                    check(value[key], inner.spec, f"{where}.{key}")
                continue
            assert key in value, (f"{where} has no {key}", value)
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(spec, list) and len(spec) == 1 and (callable(spec[0]) or isinstance(spec[0], (dict, type))):
        assert isinstance(value, list) and value, (where, value)
        for i, item in enumerate(value):
            check(item, spec[0], f"{where}[{i}]")
    elif spec is bool or spec is str:
        assert type(value) is spec, (where, value)
    elif spec is NUMBER:
        assert isinstance(value, NUMBER) and not isinstance(value, bool), (where, value)
    elif callable(spec):
        try:
            spec(value)
        except (AssertionError, ValueError, TypeError, AttributeError) as wrong:
            raise AssertionError(f"{where}: {value!r} fails {spec.__name__}") from wrong
    else:
        assert value == spec and type(value) is type(spec), (where, value, spec)


def version():
    return subprocess.run([os.environ["AGENTFENSE"], "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


VERSION = version()


IS_ROOT = os.geteuid() == 0


class Scene:
    """A sandbox to which something of every kind has happened: created, run in, changed, approved in part, and another rejected."""

    def __init__(self, server):
        self.server = server
        self.box = box = Review(server, FILES, scopePath="src", owner="agent-7", ownerType="agent", tags=["t"], metadata={"k": {"n": 1}},
                                idempotencyKey=str(uuid.uuid4()), behavior={"lifecycle": {"ttl": "24h"}}, hostMount=IS_ROOT)
        make_repository(box.project)
        self.process = box.start_process("echo hello; sleep 1000", name="worker", sessionId="s-1")
        box.wait_log(self.process["id"], "hello")
        box.sh("echo first > applied.txt; echo new > new.txt; sed -i 2s/.*/zwei/ a.txt; rm b.txt")
        box.diff()
        box.approve({"files": ["src/applied.txt"], "actor": "ann"})
        self.other = Review(server, {"x": "x\n"})
        self.other.ok("POST", "/reject", {})
        self.values = {"box": f"/api/v1/sandboxes/{box.id}", "project": str(box.project), "pid": self.process["id"], "id": box.id}

    def remove(self):
        self.box.remove()
        self.other.remove()


@pytest.fixture(scope="module")
def scene(shared):
    made = Scene(shared)
    yield made
    made.remove()


# ---- what an answer has ----

LIMITS = dict.fromkeys(("memoryLimitMB", "cpuTimeSec", "maxProcesses", "maxOpenFiles", "timeoutSec"), is_count)
PROFILE = {"id": is_text, "name": is_text, "description": str, "builtin": bool, "networkAccess": is_text, "readOnlyBinds": {},
           "readWriteBinds": {}, "environment": {}, "hostname": str}
HEALTH = {"status": "healthy", "service": is_text, "timestamp": is_time, "readiness": True, "version": VERSION, "uptime_seconds": is_count,
          "dependencies": {"database": {"connected": True, "latency_ms": NUMBER}},
          "metrics": dict.fromkeys(("heap_mb", "uptime_seconds", "active_sandboxes", "total_sandboxes", "total_disk_usage_bytes"), NUMBER), "driver": is_text, "config": {"projectRoot": str}}
ABOUT = {"service": is_text, "version": VERSION, "description": is_text, "apiVersion": "v1", "basePath": "/api/v1",
         "endpoints": dict.fromkeys(("health", "sandboxes", "driver", "stats", "metrics"), is_path), "documentation": is_text}
CRITERIA = {"pathGlobs": Maybe([str]), "extensions": Maybe([str])}
BEHAVIOR = {"lifecycle": {}, "acceptance": {"mode": "allowlist", "allow": CRITERIA, "deny": CRITERIA}}
SANDBOX = {"id": is_uuid, "scopePath": is_path, "reservedPath": str, "projectRoot": is_path, "ownerType": is_text, "status": is_text,
           "createdAt": is_time, "lastUsedAt": is_time, "updatedAt": is_time, "stoppedAt": Maybe(is_time), "approvedAt": Maybe(is_time),
           "deletedAt": Maybe(is_time), "driver": is_text, "driverVersion": VERSION, "lowerDir": Maybe(is_path), "upperDir": Maybe(is_path),
           "workDir": Maybe(is_path), "mergedDir": Maybe(is_path), "hostMount": Maybe(bool), "sizeBytes": is_count, "fileCount": is_count, "activePids": list,
           "sessionCount": is_count, "behavior": BEHAVIOR, "version": is_count}
MOUNTED = {"mergedDir": is_path, "hostMount": True} if IS_ROOT else {}
PROCESS = {"pid": is_count, "pgid": is_count, "sandboxId": is_uuid, "command": "worker", "name": "worker", "startedAt": is_time,
           "sessionId": "s-1", "running": True}
LOG = {"pid": is_count, "sandboxId": is_uuid, "path": is_path, "startedAt": is_time, "sizeBytes": 6, "isActive": True}
CHANGE = {"id": is_uuid, "sandboxId": is_uuid, "filePath": is_text, "changeType": is_text, "fileSize": is_count, "fileMode": is_count,
          "detectedAt": is_time, "approvalStatus": "pending", "acceptance": {"status": "accepted"}, "linesAdded": is_count,
          "linesRemoved": is_count}
EVENT = {"id": is_text, "sandboxId": is_uuid, "eventType": is_text, "eventTime": is_time, "actorType": is_text}
GC = {"collected": list, "totalCollected": is_count, "totalBytesReclaimed": is_count, "startedAt": is_time, "completedAt": is_time}
APPLIED = {"id": is_text, "sandboxId": is_uuid, "sandboxOwner": "agent-7", "sandboxOwnerType": "agent", "filePath": is_path,
           "projectRoot": is_path, "changeType": "added", "fileSize": 6, "appliedAt": is_time}
STATS = ("totalCount", "activeCount", "stoppedCount", "errorCount", "approvedCount", "rejectedCount", "deletedCount", "totalSizeBytes")
COUNTERS = ("sandbox_created_total", "sandbox_stopped_total", "sandbox_approved_total", "sandbox_rejected_total", "sandbox_deleted_total",
            "sandbox_errors_total", "gc_runs_total", "gc_sandboxes_deleted_total", "diff_generations_total", "patch_applications_total",
            "active_sandboxes", "total_disk_usage_bytes", "process_count")
OPTION = {"id": is_text, "name": is_text, "description": is_text, "directAccess": bool, "available": bool, "recommended": bool,
          "capabilities": dict.fromkeys(("filesystemIsolation", "processIsolation", "networkIsolation", "directAccess"), bool),
          "requirements": [{"name": is_text, "met": bool, "howToFix": Maybe(is_text), "current": Maybe(is_text)}]}

# verb, path, body, status, the answer. What is in braces is the scene's.
ROWS = [
    ("GET", "/", None, 200, ABOUT),
    ("GET", "/api", None, 200, ABOUT),
    ("GET", "/health", None, 200, HEALTH),
    ("GET", "/api/v1/health", None, 200, HEALTH),
    ("GET", "/metrics?format=json", None, 200, dict.fromkeys(COUNTERS, NUMBER)),
    ("GET", "/api/v1/metrics?format=json", None, 200, dict.fromkeys(COUNTERS, NUMBER)),
    ("GET", "/api/v1/stats", None, 200, {"stats": {**dict.fromkeys(STATS, is_count), "avgSizeBytes": NUMBER}, "timestamp": is_time}),
    ("GET", "/api/v1/stats/processes", None, 200,
     {"totalTracked": 1, "totalRunning": 1, "sandboxesWithProcesses": 1, "sandboxCounts": dict}),
    ("GET", "/api/v1/driver/info", None, 200,
     {"driver": {"Type": is_text, "Version": VERSION, "Description": is_text, "Available": True, "type": is_text, "version": VERSION,
                 "description": is_text, "available": True}, "available": True}),
    ("GET", "/api/v1/driver/options", None, 200,
     {"os": "linux", "kernel": os.uname().release, "currentDriver": is_text, "inUserNamespace": bool, "options": [OPTION]}),
    ("GET", "/api/v1/driver/preference", None, 200, {"preference": str, "currentDriver": is_text, "isActive": True}),
    ("GET", "/api/v1/driver/bwrap", None, 200,
     {"available": True, "version": is_text, "path": "/usr/bin/bwrap", "userNamespaceEnabled": bool, "overlayfsInUserNS": bool}),
    ("POST", "/api/v1/driver/select", {"driverId": "auto"}, 200,
     {"success": True, "selectedDriver": is_text, "requiresRestart": False, "message": is_text}),
    ("GET", "/api/v1/validate-path?path={project}/src&projectRoot={project}", None, 200,
     {"path": is_path, "projectRoot": is_path, "valid": True, "exists": True, "isDirectory": True, "withinProjectRoot": True}),
    ("GET", "/api/v1/validate-path?path=/etc&projectRoot={project}", None, 200,
     {"path": "/etc", "valid": False, "exists": bool, "isDirectory": bool, "withinProjectRoot": False, "error": is_text}),
    ("GET", "/api/v1/config/execution", None, 200,
     {"defaultResourceLimits": LIMITS, "maxResourceLimits": LIMITS, "defaultIsolationProfile": is_text}),
    ("GET", "/api/v1/config/profiles", None, 200, [PROFILE]),
    ("GET", "/api/v1/config/profiles/full", None, 200, {**PROFILE, "id": "full", "builtin": True, "networkAccess": "none"}),
    ("PUT", "/api/v1/config/profiles/own", {"name": "Own", "networkAccess": "full", "environment": {"A": "b"}}, 200,
     {**PROFILE, "id": "own", "name": "Own", "builtin": False, "networkAccess": "full", "environment": {"A": "b"}}),
    ("DELETE", "/api/v1/config/profiles/own", None, 204, None),

    ("GET", "{box}", None, 200,
     {**SANDBOX, "status": "active", "reservedPaths": [is_path], "owner": "agent-7", "ownerType": "agent", "tags": ["t"],
      "metadata": {"k": {"n": 1}}, "idempotencyKey": is_uuid, "behavior": {**BEHAVIOR, "lifecycle": {"ttl": 24 * 3600 * 10**9}},
      "lowerDir": is_path, "upperDir": is_path, "workDir": is_path, **MOUNTED, "activePids": [is_count],
      "mountHealth": {"healthy": True, "verified": True}}),
    ("GET", "/api/v1/sandboxes", None, 200, {"sandboxes": [SANDBOX], "totalCount": 2, "limit": 100, "offset": 0}),
    ("GET", "{box}/workspace", None, 200, {"path": is_path, "pathInside": "/workspace"}) if MOUNTED else ("GET", "{box}/workspace", None, 409, {"error": is_text, "hint": is_text}),
    ("GET", "{box}/audit", None, 200,
     {"events": [EVENT], "total": is_count, "limit": 100, "offset": 0, "hasMore": False, "sandboxId": is_uuid, "timestamp": is_time}),
    ("GET", "/api/v1/audit?limit=1", None, 200,
     {"events": [EVENT], "total": is_count, "limit": 1, "offset": 0, "hasMore": True, "sandboxId": "", "timestamp": is_time}),
    ("POST", "/api/v1/gc/preview", {"policy": {"includeTerminal": True, "terminalDelay": 0}}, 200,
     {**GC, "dryRun": True, "totalCollected": 1, "reasons": dict,
      "collected": [{"id": is_uuid, "scopePath": is_path, "status": "rejected", "sizeBytes": is_count, "createdAt": is_time,
                     "reason": is_text}]}),
    ("POST", "/api/v1/gc", {"policy": {"maxAge": "1h"}}, 200, {**GC, "dryRun": False, "totalCollected": 0, "totalBytesReclaimed": 0}),

    ("POST", "{box}/exec", {"command": "/bin/sh", "args": ["-c", "echo out; echo err >&2; exit 3"]}, 200,
     {"exitCode": 3, "stdout": "out\n", "stderr": "err\n", "pid": is_count}),
    ("GET", "{box}/processes", None, 200, {"processes": [PROCESS], "total": 1, "running": 1}),
    ("GET", "{box}/processes/{pid}/logs", None, 200, {**LOG, "content": "hello\n"}),
    ("GET", "{box}/logs", None, 200, {"logs": [LOG], "total": 1, "sandboxId": is_uuid}),

    ("GET", "{box}/files?path=/", None, 200,
     {"path": "/", "total": is_count, "entries": [{"name": is_text, "path": is_path, "isDir": False, "size": is_count, "mode": "-rw-r--r--",
                                                   "modTime": is_time}]}),
    ("GET", "{box}/files/content?path=/c.txt", None, 200,
     {"path": "/c.txt", "content": "c\n", "encoding": "utf8", "size": 2, "isBinary": False}),
    ("PUT", "{box}/files/content?path=/put.txt", {"content": "put"}, 201, {"path": "/put.txt", "size": 3, "created": True}),
    ("PUT", "{box}/files/content?path=/put.txt", {"content": "again"}, 200, {"path": "/put.txt", "size": 5, "created": False}),
    ("DELETE", "{box}/files/content?path=/put.txt", None, 200, {"path": "/put.txt", "deleted": True}),
    ("DELETE", "{box}/files/content?path=/put.txt", None, 200, {"path": "/put.txt", "deleted": False}),
    ("POST", "{box}/files/mkdir", {"path": "/d/e"}, 201, {"path": "/d/e", "created": True}),

    ("GET", "{box}/diff", None, 200,
     {"sandboxId": is_uuid, "files": [CHANGE], "unifiedDiff": is_text, "generated": is_time, "totalAdded": 1, "totalDeleted": 1,
      "totalModified": 1,
      "stats": {"filesChanged": 3, "filesAdded": 1, "filesModified": 1, "filesDeleted": 1, "linesAdded": 2, "linesRemoved": 2,
                "totalLines": 4, "totalBytes": is_count}}),
    ("GET", "{box}/conflicts", None, 200, {"hasConflict": bool, "checkedAt": is_time}),
    ("POST", "{box}/rebase", {}, 200, {"success": True, "strategy": is_text, "rebasedAt": is_time}),
    ("GET", "/api/v1/pending?projectRoot={project}", None, 200,
     {"summaries": [{"sandboxId": is_uuid, "sandboxOwner": "agent-7", "fileCount": 1, "latestApplied": is_time}], "totalFiles": 1}),
    ("GET", "/api/v1/provenance?path={project}/src/applied.txt", None, 200, {"filePath": is_path, "changes": [APPLIED]}),
    *((verb, path, body, 200,
       {"files": [{"filePath": is_path, "relativePath": "src/applied.txt", "changeType": "added", "sandboxId": is_uuid,
                   "sandboxOwner": "agent-7", "appliedAt": is_time, "status": "pending"}],
        "committableFiles": 1, "alreadyCommittedFiles": 0, "suggestedMessage": is_text,
        "groupedBySandbox": [{"sandboxId": is_uuid, "sandboxOwner": "agent-7", "fileCount": 1, "added": 1, "modified": 0, "deleted": 0}]})
      for verb, path, body in (("GET", "/api/v1/commit-preview?projectRoot={project}", None),
                               ("POST", "/api/v1/commit-preview", {"projectRoot": "{project}"}))),
    ("POST", "/api/v1/commit-pending", {"projectRoot": "{project}", "commitMessage": "applied"}, 200,
     {"success": True, "filesCommitted": 1, "commitHash": is_hash}),
    ("GET", "/api/v1/provenance?path={project}/src/applied.txt", None, 200,
     {"changes": [{**APPLIED, "committedAt": is_time, "commitHash": is_hash, "commitMessage": "applied"}]}),

    ("POST", "{box}/processes/kill-all", None, 200, {"killed": 1}),
    ("GET", "{box}/processes?running=true", None, 200, {"processes": [], "total": 0, "running": 0}),
    ("POST", "{box}/discard", {"filePaths": ["src/b.txt"]}, 200, {"success": True, "discarded": 1, "remaining": 2}),
    ("POST", "{box}/stop", None, 200, {**SANDBOX, "status": "stopped", "stoppedAt": is_time, "activePids": []}),
    ("POST", "{box}/start", None, 200, {**SANDBOX, "status": "active", **MOUNTED}),
    ("POST", "{box}/approve", {"createCommit": True}, 200,
     {"success": True, "applied": 2, "failed": 0, "remaining": 0, "isPartial": False, "commitHash": is_hash, "appliedAt": is_time}),
    ("POST", "{box}/approve", None, 200, {"success": True, "applied": 0, "remaining": 0}),
    ("GET", "{box}", None, 200, {**SANDBOX, "status": "approved", "approvedAt": is_time, "baseCommitHash": Maybe(is_hash)}),
    ("DELETE", "{box}", None, 204, None),
    ("DELETE", "{box}", None, 204, None),
    ("GET", "{box}", None, 200, {**SANDBOX, "status": "deleted", "deletedAt": is_time}),
    ("GET", "/api/v1/sandboxes/00000000-0000-4000-8000-000000000000", None, 404,
     {"error": is_text, "code": 404, "success": False, "hint": is_text}),
    ("GET", "/api/v1/sandboxes/nonsense", None, 400, {"error": is_text, "code": 400, "success": False, "hint": is_text}),
]


def fill(text, values):
    return re.sub(r"\{(\w+)\}", lambda match: values[match[1]], text)


@pytest.mark.databases
def test_every_answer_has_its_fields(scene):
    """In the order of the table: a sandbox lives, is approved, and is deleted. All that is wrong is told at once."""
    wrong = []
    for verb, path, body, status, spec in ROWS:
        body = {key: fill(value, scene.values) if isinstance(value, str) else value for key, value in body.items()} if body else body
        got, answer = scene.server.http(verb, fill(path, scene.values), body)
        try:
            assert got == status, (got, answer)
            if spec is None:
                assert answer is None
            else:
                check(answer, spec, "")
        except AssertionError as error:
            wrong.append(f"{verb} {path}: {error}")
    assert not wrong, "\n".join(wrong)


# ---- what a request may have ----

# Each is refused for its last key alone: without it the request is right.
UNKNOWN = [
    ("POST", "/api/v1/sandboxes", {"projectRoot": "{project}", "typo": 1}),
    ("POST", "/api/v1/sandboxes", {"projectRoot": "{project}", "rules": [{"pattern": "a", "permission": "none", "typo": 1}]}),
    ("POST", "/api/v1/sandboxes", {"projectRoot": "{project}", "behavior": {"lifecycle": {"typo": 1}}}),
    ("POST", "/api/v1/sandboxes", {"projectRoot": "{project}", "behavior": {"hooks": [{"name": "a", "command": "/bin/true", "typo": 1}]}}),
    ("POST", "{box}/stop", {"typo": 1}),
    ("POST", "{box}/start", {"typo": 1}),
    ("DELETE", "{box}", {"typo": 1}),
    ("POST", "{box}/restore", {"typo": 1}),
    ("POST", "{box}/exec", {"command": "true", "typo": 1}),
    ("POST", "{box}/processes", {"command": "true", "typo": 1}),
    ("POST", "{box}/start-process", {"command": "true", "typo": 1}),
    ("POST", "{box}/processes/kill-all", {"typo": 1}),
    ("PUT", "{box}/files/content?path=/f", {"content": "x", "typo": 1}),
    ("POST", "{box}/files/mkdir", {"path": "/f", "typo": 1}),
    ("POST", "{box}/approve", {"typo": 1}),
    ("POST", "{box}/approve", {"hunks": [{"path": "x", "hunkIds": ["a"], "typo": 1}]}),
    ("POST", "{box}/approve", {"hunkRanges": [{"path": "x", "startLine": 1, "endLine": 2, "typo": 1}]}),
    ("POST", "{box}/diff/shown", {"fileHashes": {}, "typo": 1}),
    ("POST", "{box}/partial-approve", {"files": ["x"], "typo": 1}),
    ("POST", "{box}/reject", {"typo": 1}),
    ("POST", "{box}/finish", {"typo": 1}),
    ("POST", "{box}/discard", {"filePaths": ["x"], "typo": 1}),
    ("POST", "{box}/rebase", {"typo": 1}),
    ("POST", "{box}/undo", {"typo": 1}),
    ("POST", "/api/v1/driver/select", {"driverId": "auto", "typo": 1}),
    ("PUT", "/api/v1/config/execution", {"typo": 1}),
    ("PUT", "/api/v1/config/execution", {"defaultResourceLimits": {"typo": 1}}),
    ("PUT", "/api/v1/config/profiles/own", {"name": "Own", "networkAccess": "none", "typo": 1}),
    ("POST", "/api/v1/gc", {"typo": 1}),
    ("POST", "/api/v1/gc/preview", {"policy": {"typo": 1}}),
    ("POST", "/api/v1/commit-preview", {"projectRoot": "{project}", "typo": 1}),
    ("POST", "/api/v1/commit-pending", {"projectRoot": "{project}", "typo": 1}),
]


def test_a_key_that_nobody_knows_is_refused_everywhere(shared):
    box = Review(shared, {"x": "x\n"})
    box.sh("echo y > x")
    box.diff()
    values = {"box": f"/api/v1/sandboxes/{box.id}", "project": str(box.project)}
    tested = set()
    for verb, path, body in UNKNOWN:
        body = {key: fill(value, values) if isinstance(value, str) else value for key, value in body.items()}
        status, answer = shared.http(verb, fill(path, values), body)
        assert status == 400 and re.match(r".*'typo' is no key of .*(; there are|, which has none)", answer["error"]), (verb, path, answer)
        tested.add((verb.lower(), path.split("?")[0].replace("{box}", "/api/v1/sandboxes/{id}").replace("/own", "/{profile}")))
    assert box.state() == "active" and box.paths() == ["x"] and box.read("x") == b"x\n"
    with box.terminal() as socket:
        terminal = Terminal(socket, {"command": "/bin/true", "typo": 1})
        assert "'typo' is no key of the first message; there are" in terminal.others[0]["data"]
    box.remove()
    page = shared.http("GET", "/openapi.json")[1]
    takes = {(verb, path) for path, verbs in page["paths"].items() for verb, what in verbs.items()
             if path.startswith("/api/v1/") and "requestBody" in what}
    assert takes and takes <= tested, takes - tested
