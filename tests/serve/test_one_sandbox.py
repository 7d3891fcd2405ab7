"""One kind of sandbox: those over directories by sandbox.v1, those over codebases by /api/v1, and what holds for both alike."""

import json
import os
import signal

import grpc
import pytest
from review import Review
from server import eventually, rules, sandbox_id

RUNNING, STOPPED, ERROR = 2, 3, 4
FILES = {"a": "one\n", "secret/key": "hidden\n"}


@pytest.fixture
def box(shared):
    made = Review(shared, FILES)
    made.name = sandbox_id(made.id)
    made.client = shared.client()
    yield made
    made.remove()


def code_of(call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    return caught.value.code()


# Over a directory.

def test_it_is_listed_and_shown_beside_the_others(box):
    other = box.client.create_sandbox(codebase_id=box.client.codebase()).id
    ids = [one.id for one in box.client.list_sandboxes(page_size=1000).sandboxes]
    assert box.name in ids and other in ids
    shown = box.client.get_sandbox(sandbox_id=box.name)
    assert (shown.id, shown.codebase_id, shown.status, shown.network) == (box.name, "", RUNNING, "none")
    assert box.name not in [one.id for one in box.client.list_sandboxes(status=STOPPED, page_size=1000).sandboxes]
    box.client.destroy_sandbox(sandbox_id=other)


def test_it_is_found_by_every_spelling(box):
    digits = box.name[len("sb_"):]
    for spelled in (box.name, box.id, box.id.upper(), "{" + box.id + "}", digits, digits[:10], "sb_" + digits[:10], box.id[:12]):
        assert box.client.get_sandbox(sandbox_id=spelled).id == box.name, spelled
        assert box.client.run(spelled, "cat a").stdout == "one\n"
        assert box.server.http("GET", f"/api/v1/sandboxes/{spelled}".replace("{", "%7B").replace("}", "%7D"))[1]["id"] == box.id
    assert code_of(box.client.get_sandbox, sandbox_id="sb_") == grpc.StatusCode.NOT_FOUND


def test_it_is_stopped_and_started(box):
    box.client.run(box.name, "echo two > b")
    assert box.client.stop_sandbox(sandbox_id=box.name).status == STOPPED and box.state() == "stopped"
    assert code_of(box.client.stop_sandbox, sandbox_id=box.name) == grpc.StatusCode.FAILED_PRECONDITION
    assert box.client.start_sandbox(sandbox_id=box.name).status == RUNNING and box.state() == "active"
    assert box.client.run(box.name, "cat b").stdout == "two\n" and not (box.project / "b").exists()


def test_it_has_sessions_and_its_rules_change(box):
    session = box.client.create_session(sandbox_id=box.name)
    box.client.session_exec(session_id=session.id, command="X=kept; cd secret")
    assert box.client.session_exec(session_id=session.id, command="cat key; echo $X").stdout == "hidden\nkept\n"
    now = box.client.update_permissions(sandbox_id=box.name, permissions=rules((("**/*", "read"), ("/secret/**", "none"))))
    assert now.id == box.name
    assert box.client.run(box.name, "ls; cat secret/key").stdout == "a\n"
    assert box.client.run(box.name, "echo x > a").exit_code != 0
    assert [one.id for one in box.client.list_sessions(sandbox_id=box.name).sessions] == [session.id]
    box.ok("POST", "/stop")
    assert code_of(box.client.get_session, session_id=session.id) == grpc.StatusCode.NOT_FOUND
    box.ok("POST", "/start")
    assert box.client.run(box.name, "ls").stdout == "a\n"  # they are kept
    assert "permissions_updated" in box.events()


def test_what_was_decided_is_opened_by_who_starts_it_here(box):
    box.sh("echo agent > a")
    box.ok("POST", "/reject", {})
    assert box.state() == "rejected" and box.http("POST", "/start")[0] == 409
    assert box.client.get_sandbox(sandbox_id=box.name).status == STOPPED
    # It gave its paths up, and needs them again.
    status, other = box.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(box.project)})
    assert status == 201
    assert code_of(box.client.start_sandbox, sandbox_id=box.name) == grpc.StatusCode.FAILED_PRECONDITION
    assert box.state() == "rejected"
    assert box.server.http("DELETE", f"/api/v1/sandboxes/{other['id']}")[0] == 204
    assert box.client.start_sandbox(sandbox_id=box.name).status == RUNNING
    assert box.state() == "active" and box.sh("cat a")["stdout"] == "agent\n"


def test_destroyed_here_it_is_in_the_trash_there(box):
    box.sh("echo agent > a")
    box.client.destroy_sandbox(sandbox_id=box.name)
    assert code_of(box.client.get_sandbox, sandbox_id=box.name) == grpc.StatusCode.NOT_FOUND
    assert code_of(box.client.destroy_sandbox, sandbox_id=box.name) == grpc.StatusCode.NOT_FOUND
    assert code_of(box.client.start_sandbox, sandbox_id=box.name) == grpc.StatusCode.NOT_FOUND
    assert box.name not in [one.id for one in box.client.list_sandboxes(page_size=1000).sandboxes]
    assert box.state() == "deleted"
    assert box.ok("POST", "/restore")["status"] == "stopped"
    assert box.client.start_sandbox(sandbox_id=box.name).status == RUNNING and box.sh("cat a")["stdout"] == "agent\n"


def test_an_end_that_nobody_asked_for_is_told_by_both(box):
    os.kill(box.server.supervisors()[box.name], signal.SIGKILL)
    now = eventually(lambda: (one := box.client.get_sandbox(sandbox_id=box.name)).status == ERROR and one)
    assert now.status_reason == box.ok("GET", "")["errorMessage"] and box.state() == "stopped"
    status, refused = box.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(box.project)})
    assert status == 409 and refused["details"]["conflicts"][0]["sandboxId"] == box.id  # it keeps its paths
    assert box.client.start_sandbox(sandbox_id=box.name).status == RUNNING


def test_events_tell_who_it_was(box):
    box.ok("POST", "/stop")
    [event] = box.client.events(sandbox_id=box.name, type="sandbox_stopped")
    payload = json.loads(event.payload)
    assert payload["actorType"] == "user" and payload["sandboxState"] == "stopped"
    assert box.events()[0] == "stopped"


# Over a codebase.

def test_changes_that_were_not_synced_go_to_the_trash(make):
    server = make().start()
    client = server.client()
    codebase = client.codebase({"a": "1\n"})
    box = client.sandbox(codebase, sync_on_completion=2)
    client.run(box, "echo 2 > a")
    place = server.state / "mounts" / "sandboxes" / box
    client.destroy_sandbox(sandbox_id=box)
    assert code_of(client.get_sandbox, sandbox_id=box) == grpc.StatusCode.NOT_FOUND and place.is_dir()
    assert client.restore_sandbox(sandbox_id=box).status == STOPPED
    assert [file.path for file in client.get_diff(sandbox_id=box).files] == ["a"]
    client.destroy_sandbox(sandbox_id=box)
    assert server.http("POST", "/api/v1/gc", {"policy": {"trashDelay": 0}})[0] == 200
    assert not place.exists()
    # Without changes, or by force, it is gone at once.
    for command, fields in (("true", {}), ("echo 2 > a", {"force": True})):
        box = client.sandbox(codebase, sync_on_completion=2)
        client.run(box, command)
        client.destroy_sandbox(sandbox_id=box, **fields)
        assert not (server.state / "mounts" / "sandboxes" / box).exists()


@pytest.mark.parametrize("point", ["sandbox_inserted", "sandbox_dir_made"])
def test_a_kill_while_one_is_made_leaves_nothing(make, point):
    server = make()
    environment = server.environment
    server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    client = server.start().client()
    codebase = client.codebase()
    code_of(client.create_sandbox, codebase_id=codebase, idempotency_key="k")
    server.process.wait()
    server.environment = environment
    client = server.start().client()
    assert not client.list_sandboxes().sandboxes
    assert not list(server.state.rglob("sb_*"))
    assert client.create_sandbox(codebase_id=codebase, idempotency_key="k").status == 1


def test_a_directory_without_a_row_is_left_alone(server):
    client = server.client()
    box = client.create_sandbox(codebase_id=client.codebase()).id
    server.stop()
    server.sql(f"DELETE FROM sandboxes WHERE id = '{box}'")
    server.start()
    assert (server.state / "mounts" / "sandboxes" / box / "spec").is_file()
