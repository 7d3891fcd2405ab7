"""Rules by the one API: added, removed, tried out and looked at, by gRPC and /v1."""

import threading

import pytest
from api import CODE, NOBODY, failed, refused, token_of
from sandbox.v1 import sandbox_pb2 as pb
from server import rules
from workspace import Workspace

FILES = {"src/a.py": "a\n", "src/b.py": "b\n", "secret/key": "hidden\n", "notes.txt": "n\n"}
RULES = (("**/*", "write"), ("/secret/**", "none"))
NONE, VIEW, READ, WRITE = (getattr(pb, f"PERMISSION_{name}") for name in ("NONE", "VIEW", "READ", "WRITE"))


@pytest.fixture
def sandbox(client):
    made = client.sandbox(client.codebase(FILES), permissions=RULES)
    yield made
    client.destroy_sandbox(sandbox_id=made)


@pytest.fixture
def http(shared, sandbox):
    return lambda verb, path, body=None, **options: shared.http(verb, f"/v1/sandboxes/{sandbox}/permissions{path}", body, **options)


@pytest.fixture
def directory(shared):
    made = Workspace(shared, FILES, rules=[{"pattern": "**", "permission": "write"}, {"pattern": "/secret/**", "permission": "none"}])
    yield made.id
    made.remove()


def patterns(sandbox):
    return [rule.pattern for rule in sandbox.permissions]


def test_adding_and_removing_while_it_runs(client, sandbox, http):
    assert client.run(sandbox, "cat secret/key").exit_code != 0 and client.run(sandbox, "echo x > src/a.py").exit_code == 0
    added = client.add_permission_rules(sandbox_id=sandbox, permissions=rules([("/src/**", "read"), ("/absent/**", "none")]))
    assert patterns(added) == ["**/*", "/secret/**", "/src/**", "/absent/**"]
    assert client.run(sandbox, "echo x > src/a.py").exit_code != 0 and client.run(sandbox, "echo x > notes.txt").exit_code == 0
    status, left = http("POST", "/remove", {"patterns": ["/src/**", "/absent/**"]})
    assert status == 200 and [rule["pattern"] for rule in left["permissions"]] == ["**/*", "/secret/**"]
    assert client.run(sandbox, "echo x > src/a.py").exit_code == 0
    status, again = http("POST", "/add", {"permissions": [{"pattern": "/notes.txt", "permission": "PERMISSION_VIEW", "priority": 5}]})
    assert (status, again["permissions"][-1]["priority"]) == (200, 5) and client.run(sandbox, "cat notes.txt").exit_code != 0
    assert patterns(client.get_sandbox(sandbox_id=sandbox)) == ["**/*", "/secret/**", "/notes.txt"]
    assert [event.type for event in client.events(sandbox_id=sandbox)].count("permissions_updated") == 3


def test_over_a_directory_as_well(client, shared, directory):
    box = Workspace(shared, FILES)
    try:
        client.add_permission_rules(sandbox_id=box.id, permissions=rules([("/notes.txt", "none", 500)]))
        assert box.exec("cat", "notes.txt")["exitCode"] != 0 and box.exec("cat", "src/a.py")["stdout"] == "a\n"
        client.remove_permission_rules(sandbox_id=box.id, patterns=["/notes.txt"])
        assert box.exec("cat", "notes.txt")["stdout"] == "n\n"
        box.ok("POST", "/stop")
        client.update_permissions(sandbox_id=box.id, preset="read-only")
        box.ok("POST", "/start")
        assert box.sh("echo x > new")["exitCode"] != 0
    finally:
        box.remove()


def test_a_driver_that_checks_none_takes_none(client, shared):
    box = Workspace(shared, FILES, driver="copy", preset="full-access")
    try:
        refusal = refused(CODE.FAILED_PRECONDITION, "'copy'", client.add_permission_rules, sandbox_id=box.id, permissions=rules([("/x", "none")]))
        assert refusal.reason == "DRIVER_CANNOT"
    finally:
        box.remove()


def test_what_cannot_be_changed(client, sandbox, http):
    assert refused(CODE.NOT_FOUND, "'/nothing' has no rule", client.remove_permission_rules, sandbox_id=sandbox,
                   patterns=["/secret/**", "/nothing"]).reason == "RULE_UNKNOWN"
    failed(http("POST", "/remove", {"patterns": ["/nothing"]}), 404, 5, "/nothing", "RULE_UNKNOWN")
    refused(CODE.INVALID_ARGUMENT, "patterns", client.remove_permission_rules, sandbox_id=sandbox)
    refused(CODE.INVALID_ARGUMENT, "permissions is required", client.add_permission_rules, sandbox_id=sandbox)
    refused(CODE.INVALID_ARGUMENT, "rule 1", client.add_permission_rules, sandbox_id=sandbox, permissions=rules([("../x", "read")]))
    assert patterns(client.get_sandbox(sandbox_id=sandbox)) == ["**/*", "/secret/**"]


def test_a_preset_s_rules_are_nobody_s_own(client):
    box = client.sandbox(client.codebase(FILES), permissions=(), preset="agent-safe", start=False)
    assert not client.add_permission_rules(sandbox_id=box, permissions=rules([("/src/**", "write")])).warnings
    odd = client.add_permission_rules(sandbox_id=box, permissions=rules([("/src/**", "none")]))
    assert odd.warnings, "of one's own rules one is warned"
    client.destroy_sandbox(sandbox_id=box)


def test_many_at_once_lose_nothing(client, sandbox):
    def add(number):
        client.add_permission_rules(sandbox_id=sandbox, permissions=rules([(f"/n{number}", "read")]))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(patterns(client.get_sandbox(sandbox_id=sandbox))) == {"**/*", "/secret/**", *(f"/n{number}" for number in range(12))}


@pytest.mark.parametrize("over", ["codebase", "directory"])
def test_trying_out(client, sandbox, directory, over):
    which = sandbox if over == "codebase" else directory
    answer = client.preview_permissions(sandbox_id=which, remove_patterns=["/secret/**"], add=rules([("/src/a.py", "read"), ("/notes.txt", "none")]))
    assert [(change.path, change.before, change.after) for change in answer.changes] == [
        ("/secret", NONE, WRITE), ("/secret/key", NONE, WRITE), ("/notes.txt", WRITE, NONE), ("/src/a.py", WRITE, READ)], "what is revealed first"
    assert (answer.revealed, answer.hidden, answer.changed, answer.paths, answer.incomplete) == (2, 1, 4, 6, False)
    assert list(answer.revealed_patterns) == ["/secret/**"] and len(answer.permissions) == 3
    one = client.preview_permissions(sandbox_id=which, permissions=rules([("**", "read")]), max_changes=1)
    assert (len(one.changes), one.changes[0].path, one.changed) == (1, "/secret", 6)
    named = client.preview_permissions(sandbox_id=which, add=rules([("/later/**", "read")]), paths=["/later/x", "src/b.py"])
    assert [(change.path, change.after) for change in named.changes] == [("/later/x", READ)] and named.paths == 2
    assert not client.preview_permissions(sandbox_id=which, preset="view-only", permissions=rules([("/secret/**", "none")])).revealed
    assert [finding.code for finding in client.preview_permissions(sandbox_id=which, add=rules([("/absent.txt", "read")])).findings] == ["matches-nothing"]
    if over == "codebase":
        assert patterns(client.get_sandbox(sandbox_id=which)) == ["**/*", "/secret/**"], "nothing was changed"


def test_a_preview_has_to_say_what_of(client, sandbox, http):
    refused(CODE.INVALID_ARGUMENT, "is required", client.preview_permissions, sandbox_id=sandbox)
    refused(CODE.INVALID_ARGUMENT, "go without", client.preview_permissions, sandbox_id=sandbox, preset="read-only", remove_patterns=["x"])
    refused(CODE.NOT_FOUND, "no rule", client.preview_permissions, sandbox_id=sandbox, remove_patterns=["x"])
    refused(CODE.INVALID_ARGUMENT, "max_changes", client.preview_permissions, sandbox_id=sandbox, preset="read-only", max_changes=5000)
    refused(CODE.INVALID_ARGUMENT, "preset", client.preview_permissions, sandbox_id=sandbox, preset="nonsense")
    failed(http("POST", "/preview", {"add": [{"pattern": ""}]}), 400, 3, "rule 1")
    status, body = http("POST", "/preview", {"add": [{"pattern": "/notes.txt", "permission": "PERMISSION_NONE"}]})
    assert status == 200 and body["changes"] == [{"path": "/notes.txt", "before": "PERMISSION_WRITE", "after": "PERMISSION_NONE"}] and body["hidden"] == "1"


@pytest.mark.parametrize("over", ["codebase", "directory"])
def test_explaining(client, shared, sandbox, directory, over):
    which = sandbox if over == "codebase" else directory
    why = client.explain_permission(sandbox_id=which, path="/secret/key")
    assert (why.permission, why.rule.pattern) == (NONE, "/secret/**") and why.reasons
    assert shared.http("GET", f"/v1/sandboxes/{which}/permissions/explain?path=/src/a.py")[1]["permission"] == "PERMISSION_WRITE"


def test_what_is_odd(client, shared, sandbox, directory):
    for which in (sandbox, directory):
        assert list(client.lint_permissions(sandbox_id=which).findings) == []
        found = client.lint_permissions(sandbox_id=which, permissions=rules([("/secret/**", "none"), ("**/*", "read", 10), ("/absent/**", "read")]))
        codes = {finding.code: finding for finding in found.findings}
        assert codes["none-beaten"].severity == pb.LINT_SEVERITY_ERROR == found.findings[0].severity, "errors first"
        assert (codes["none-beaten"].rule, codes["none-beaten"].other) == (1, 2) and codes["matches-nothing"].rule == 3 and found.paths == 6
    codebase = client.codebase(FILES)
    found = client.lint_permissions(codebase_id=codebase, permissions=rules([("/absent/**", "read")]))
    assert [finding.code for finding in found.findings] == ["matches-nothing"]
    assert shared.http("GET", f"/v1/sandboxes/{sandbox}/permissions/lint")[1]["findings"] == []
    body = {"codebaseId": codebase, "permissions": [{"pattern": "/absent", "permission": "PERMISSION_READ"}]}
    status, answer = shared.http("POST", "/v1/permissions/lint", body)
    assert status == 200 and answer["findings"][0]["severity"] == "LINT_SEVERITY_WARNING" and answer["findings"][0]["text"]
    refused(CODE.INVALID_ARGUMENT, "both given", client.lint_permissions, sandbox_id=sandbox, codebase_id=codebase)
    refused(CODE.INVALID_ARGUMENT, "required", client.lint_permissions, codebase_id=codebase)
    assert refused(CODE.NOT_FOUND, "", client.lint_permissions, codebase_id="cb_0123456789abcdef", preset="read-only").reason == "CODEBASE_NOT_FOUND"


def test_which_sandbox_and_whose(client, shared, sandbox, directory):
    mallory = shared.client(token_of(shared, "mallory"))
    calls = [("add_permission_rules", {"permissions": rules([("/x", "read")])}), ("remove_permission_rules", {"patterns": ["/x"]}),
             ("preview_permissions", {"preset": "read-only"}), ("lint_permissions", {}), ("explain_permission", {"path": "/x"})]
    for name, fields in calls:
        refused(CODE.INVALID_ARGUMENT, "sandbox_id is required", getattr(client, name), **fields)
        for strange in (NOBODY, "sb_0123456789abcdef", "../x"):
            assert refused(CODE.NOT_FOUND, "", getattr(client, name), sandbox_id=strange, **fields).reason == "SANDBOX_NOT_FOUND", name
        for which in (sandbox, directory):
            assert refused(CODE.NOT_FOUND, "", getattr(mallory, name), sandbox_id=which, **fields).reason == "SANDBOX_NOT_FOUND", name
    assert refused(CODE.NOT_FOUND, "", mallory.lint_permissions, codebase_id=client.get_sandbox(sandbox_id=sandbox).codebase_id, preset="read-only")
    status, body = shared.http("POST", f"/v1/sandboxes/{sandbox}/permissions/add", {"permissions": [{"pattern": "/x"}]},
                               headers={"Authorization": "Bearer nonsense"})
    assert (status, body["code"]) == (401, 16)
