"""Secrets in the arguments of commands: neither in the database nor in the log nor in an answer about what happened."""

import json

import pytest
from server import WAIT, eventually
from workspace import Workspace

SECRET = "swordfish-4711"
COMMANDS = [f"true --token {SECRET}", f"DB_PASSWORD='{SECRET}' true", f"true -H 'Authorization: Bearer {SECRET}'", f"true https://me:{SECRET}@host/"]


def kept(server):
    """Every byte that the server keeps, but for what the sandboxes wrote themselves."""
    files = [path for path in server.state.rglob("*") if path.is_file() and "delta" not in path.parts]
    assert server.db or any(path.name == "metadata.db" for path in files)
    return b"".join(path.read_bytes() for path in files) + server.log().encode()


def run_all(server, commands):
    """By all ways that there are to run a command; returns the events of them."""
    client = server.client()
    box = client.sandbox(client.codebase({"a": "a"}))
    workspace = Workspace(server)
    session = client.create_session(sandbox_id=box)
    for command in commands:
        client.run(box, command)
        client.session_exec(session_id=session.id, command=command)
        list(client.exec_stream(sandbox_id=box, command=command))
        workspace.sh(command)
    workspace.exec("/bin/true", "--password", SECRET)
    client.destroy_session(session_id=session.id)
    count = len(commands)
    ran = eventually(lambda: len(found := [e for e in client.events(sandbox_id=box) if e.type == "command_executed"]) >= 3 * count and found)
    told = eventually(lambda: len(found := [e for e in workspace.ok("GET", "/audit")["events"] if e["eventType"] == "command_executed"]) > count
                      and found)
    workspace.remove()
    server.stop()
    return "".join(map(str, ran)) + json.dumps(told)


def test_secrets_in_commands_are_kept_nowhere(make):
    server = make().start()
    told = run_all(server, COMMANDS)
    assert SECRET not in told and told.count("[redacted]") >= 4 * len(COMMANDS) and "true --token" in told
    assert SECRET.encode() not in kept(server) and b"[redacted]" in server.log().encode()


def test_names_and_patterns_of_ones_own(make, tmp_path):
    patterns = tmp_path / "patterns"
    patterns.write_text("# tickets\nticket ([^ ]+)\n")
    server = make(**{"audit-redact-names": "db-pw,X-Internal", "audit-redact-patterns": str(patterns)}).start()
    told = run_all(server, [f"true --db-pw {SECRET}", f"true 'X-Internal: {SECRET}'", f"echo ticket {SECRET}"])
    assert SECRET not in told and SECRET.encode() not in kept(server)


def test_who_wants_all_has_it(make):
    """And by this the others are known to look in the right places."""
    server = make(**{"audit-redact": "false"}).start()
    assert SECRET in run_all(server, COMMANDS[:1]) and SECRET in server.log()
    if not server.db:
        assert SECRET.encode() in kept(server).replace(server.log().encode(), b"")


@pytest.mark.parametrize("content", [None, "fine\n(\n"])
def test_a_server_does_not_start_without_its_patterns(make, tmp_path, content):
    patterns = tmp_path / "patterns"
    if content:
        patterns.write_text(content)
    server = make(**{"audit-redact-patterns": str(patterns)})
    server.start(wait=False)
    assert server.process.wait(WAIT) != 0 and str(patterns) in server.log()
