"""One kind of sandbox: those over directories by sandbox.v1, those over codebases by /api/v1, and what holds for both alike."""

import contextlib
import json
import os
import signal
import time

import grpc
import pytest
from api import failed, failure, refused, token_of
from review import Review
from sandbox.v1 import sandbox_pb2
from server import eventually, rules, sandbox_id
from workspace import make_project

RUNNING, STOPPED, ERROR, DELETED = 2, 3, 4, 5
OPEN, APPROVED, REJECTED = 1, 2, 3
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


def test_commands_here_keep_it_from_being_idle(shared):
    box = Review(shared, FILES, behavior={"lifecycle": {"idleTimeout": "3s"}})
    client, name, until = shared.client(), sandbox_id(box.id), time.monotonic() + 7
    while time.monotonic() < until:
        client.run(name, "true")
        time.sleep(0.3)
    assert client.get_sandbox(sandbox_id=name).status == RUNNING
    eventually(lambda: client.get_sandbox(sandbox_id=name).status == STOPPED)
    box.remove()


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
    place = server.state / "sandboxes" / box
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
        assert not (server.state / "sandboxes" / box).exists()


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
    assert (server.state / "sandboxes" / box / "spec").is_file()


# Over a directory, made by sandbox.v1.

@pytest.fixture
def project():
    place = make_project()
    (place / "src").mkdir()
    (place / "src/a").write_text("one\n")
    (place / "secret").write_text("hidden\n")
    return place


@pytest.fixture
def make_one(client):
    """A sandbox that is gone at the end."""
    made = []

    def make(**fields):
        made.append(client.create_sandbox(**fields))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(grpc.RpcError):
            client.destroy_sandbox(sandbox_id=one.id)


def ids(client, **filters):
    return {one.id for one in client.list_sandboxes(page_size=1000, **filters).sandboxes}


def test_a_directory_as_the_base(client, make_one, project):
    made = make_one(directory=str(project), project_root=str(project), start=True)
    assert (made.directory, made.project_root, made.codebase_id, made.status) == (str(project), str(project), "", RUNNING)
    assert list(made.reserved_paths) == [str(project)] and made.decision == OPEN and made.driver and made.network == "none"
    assert client.run(made.id, "cat src/a; echo two > src/a; cat src/a").stdout == "one\ntwo\n"
    assert (project / "src/a").read_text() == "one\n"
    assert [file.path for file in client.get_diff(sandbox_id=made.id).files] == ["src/a"]
    again = client.get_sandbox(sandbox_id=made.id)
    assert (again.directory, again.project_root, list(again.reserved_paths)) == (str(project), str(project), [str(project)])


def test_all_that_can_be_said_of_one(client, make_one, project, shared):
    behavior = {"acceptance": {"autoReject": False}, "lifecycle": {"ttl": "1h"}}
    made = make_one(
        directory=str(project / "src"), project_root=str(project), reserved_paths=["src/deep"], name="all-of-it", driver="fence",
        host_mount=sandbox_pb2.HOST_MOUNT_MODE_OFF, restarts=True, tags=["one", "two"], metadata='{"ticket": 7}', behavior=json.dumps(behavior),
        creator="agent-7", creator_type="agent", labels={"team": "red"}, env={"MARK": "set"}, preset="read-only", start=True,
        permissions=rules((("/b", "write"),)), resources={"disk_bytes": 1 << 20})
    assert (made.name, list(made.tags), json.loads(made.metadata), made.creator, made.creator_type) == (
        "all-of-it", ["one", "two"], {"ticket": 7}, "agent-7", "agent")
    assert json.loads(made.behavior)["lifecycle"] == {"ttl": 3600 * 10 ** 9} and list(made.reserved_paths) == [str(project / "src/deep")]
    assert dict(made.labels) == {"team": "red"} and made.preset == "read-only" and made.resources.disk_bytes == 1 << 20
    assert client.run(made.id, "echo $MARK; echo x > b && cat b; echo x > a || echo no").stdout == "set\nx\nno\n"
    same = shared.http("GET", f"/api/v1/sandboxes/{made.id}")[1]
    assert (same["owner"], same["ownerType"], same["tags"], same["metadata"]) == ("agent-7", "agent", ["one", "two"], {"ticket": 7})
    assert client.get_sandbox(sandbox_id="all-of-it").id == made.id


def test_over_a_codebase_they_hold_too(client, make_one):
    made = make_one(codebase_id=client.codebase({"a": "1\n"}), name="over-code", tags=["t"], metadata="{}", creator="me", start=True,
                    preset="read-only")
    assert (made.status, made.name, list(made.tags), made.creator, made.directory) == (RUNNING, "over-code", ["t"], "me", "")
    assert client.run("over-code", "cat a").stdout == "1\n"


def test_by_v1_as_well(shared, project):
    body = {"directory": str(project), "projectRoot": str(project), "noLock": True, "start": True, "tags": ["by-http"], "creatorType": "task"}
    status, made = shared.http("POST", "/v1/sandboxes", body)
    assert status == 200 and (made["directory"], made["noLock"], made["status"], made["creatorType"]) == (
        str(project), True, "SANDBOX_STATUS_RUNNING", "task")
    status, found = shared.http("GET", "/v1/sandboxes?tags=by-http&baseKind=SANDBOX_BASE_DIRECTORY")
    assert status == 200 and [one["id"] for one in found["sandboxes"]] == [made["id"]]
    assert shared.http("DELETE", f"/v1/sandboxes/{made['id']}")[0] == 200


@pytest.mark.parametrize("fields, part", [
    ({}, "codebase_id is required"),
    ({"codebase_id": "CODEBASE", "directory": "PROJECT"}, "cannot both be given"),
    ({"codebase_id": "CODEBASE", "project_root": "PROJECT"}, "over a codebase or over a directory"),
    ({"codebase_id": "CODEBASE", "reserved_paths": ["src"]}, "over a codebase or over a directory"),
    ({"codebase_id": "CODEBASE", "driver": "copy"}, "use fence"),
    ({"directory": "src"}, "directory 'src' is no absolute path"),
    ({"directory": "PROJECT/UP/etc", "project_root": "PROJECT"}, "not inside the project root"),
    ({"directory": "PROJECT/absent", "project_root": "PROJECT"}, "no directory that can be read"),
    ({"directory": "PROJECT/secret", "project_root": "PROJECT"}, "no directory that can be read"),
    ({"directory": "/etc", "project_root": "/etc"}, "system directory"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "reserved_paths": ["/elsewhere"]}, "reserved path"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "driver": "magic"}, "'magic' is no driver"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "profile": "magic"}, "magic"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "profile": "full", "network": "none"}, "leave out the profile or the network"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "metadata": "[1]"}, "metadata must be a JSON object"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "metadata": "{"}, "metadata must be a JSON object"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "metadata": json.dumps({"x": "y" * 70000})}, "metadata is larger"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "tags": ["t"] * 101}, "101 tags are too many"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "behavior": '{"colour": 1}'}, "colour"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "behavior": '{"noLock": true}'}, "noLock"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "creator_type": "cat"}, "cat"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "name": "no name"}, "no name of a sandbox"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "sync_on_completion": 1}, "over a codebase are synced"),
    ({"directory": "PROJECT", "project_root": "PROJECT", "host_mount": 9}, "host_mount 9"),
])
def test_what_cannot_be_made_changes_nothing(client, shared, project, fields, part):
    def fill(value):
        up = "/".join([".."] * (len(project.parts) - 1))  # to the root
        return value.replace("PROJECT", str(project)).replace("UP", up) if isinstance(value, str) else value

    codebase = client.codebase()
    before = (ids(client), ids(client, status=DELETED), ids(client, status=ERROR))
    given = {key: codebase if value == "CODEBASE" else fill(value) for key, value in fields.items()}
    refused(grpc.StatusCode.INVALID_ARGUMENT, part, client.create_sandbox, start=True, idempotency_key=str(project), **given)
    names = {key: key.split("_")[0] + "".join(word.capitalize() for word in key.split("_")[1:]) for key in given}
    failed(shared.http("POST", "/v1/sandboxes", {"start": True, **{names[key]: value for key, value in given.items()}}), 400, 3, part)
    assert (ids(client), ids(client, status=DELETED), ids(client, status=ERROR)) == before
    made = client.create_sandbox(codebase_id=codebase, idempotency_key=str(project))  # nor does it hold the key
    client.destroy_sandbox(sandbox_id=made.id)


def test_a_reservation_in_the_way_is_told(client, make_one, project):
    first = make_one(directory=str(project), project_root=str(project))
    refusal = refused(grpc.StatusCode.FAILED_PRECONDITION, "", client.create_sandbox, directory=str(project / "src"), project_root=str(project))
    assert refusal.reason == "SCOPE_CONFLICT"
    [conflict] = failure(refusal, sandbox_pb2.ReservationFailure).conflicts
    assert (conflict.sandbox_id, conflict.path, conflict.overlap) == (first.id, str(project), sandbox_pb2.RESERVATION_OVERLAP_ABOVE)
    make_one(directory=str(project / "src"), project_root=str(project), no_lock=True)


def test_a_key_makes_one(client, make_one, project):
    fields = {"directory": str(project), "project_root": str(project), "idempotency_key": "twice"}
    first = make_one(**fields)
    assert client.create_sandbox(**fields).id == first.id
    for other in ({"start": True}, {"restarts": True}, {"tags": ["x"]}):
        refused(grpc.StatusCode.ALREADY_EXISTS, "", client.create_sandbox, **fields, **other)


def test_tokens_reach_their_roots_only(make, project):
    server = make().start()
    client = server.client(token_of(server, "ann", "--root", str(project / "src")))
    admin = server.client()
    for fields in ({"directory": str(project), "project_root": str(project)}, {"directory": str(project / "src"), "project_root": str(project)},
                   {"directory": "/etc", "project_root": "/etc"}):
        assert refused(grpc.StatusCode.PERMISSION_DENIED, "", client.create_sandbox, **fields).reason == "ROOT_NOT_ALLOWED"
    (project / "src/out").symlink_to(project)
    assert code_of(client.create_sandbox, directory=str(project / "src/out"), project_root=str(project / "src")) in (
        grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT)
    assert not ids(admin)
    made = client.create_sandbox(directory=str(project / "src"), project_root=str(project / "src"))
    assert made.owner_id == "ann" and ids(admin, owner_id="ann") == {made.id} and not ids(admin, owner_id="bob")
    other = server.client(token_of(server, "bob"))
    assert not ids(other) and not ids(other, owner_id="bob")
    refused(grpc.StatusCode.PERMISSION_DENIED, "only administrators", other.list_sandboxes, owner_id="ann")
    assert code_of(other.get_sandbox, sandbox_id=made.id) == grpc.StatusCode.NOT_FOUND


def test_lists_are_restricted(client, make_one, project):
    code = make_one(codebase_id=client.codebase(), labels={"team": "red", "n": "1"}, tags=["x", "y"], creator="c-1")
    live = make_one(directory=str(project), project_root=str(project), name="listed", labels={"team": "red"}, tags=["x"], start=True)
    own = lambda **filters: ids(client, **filters) & {code.id, live.id}  # noqa: E731
    assert own() == {code.id, live.id} == own(tags=["x"]) == own(labels={"team": "red"})
    assert own(base_kind=sandbox_pb2.SANDBOX_BASE_CODEBASE) == {code.id} == own(tags=["y", "x"]) == own(labels={"n": "1"}) == own(creator="c-1")
    assert own(base_kind=sandbox_pb2.SANDBOX_BASE_DIRECTORY) == {live.id} == own(name="listed") == own(directory=str(project))
    assert own(status=RUNNING) == {live.id} == own(project_root=str(project)) and own(status=1) == {code.id}
    assert own(name="liste") == own(tags=["z"]) == own(directory="/") == set()
    client.reject(sandbox_id=live.id)
    assert own(decision=REJECTED) == {live.id} and own(decision=OPEN) == {code.id} and own(decision=APPROVED) == set()
    client.destroy_sandbox(sandbox_id=live.id)
    assert own() == {code.id}
    for bad in ({"base_kind": 3}, {"decision": 4}, {"status": 6}, {"decision": -1}, {"tags": ["t"] * 9}):
        assert code_of(client.list_sandboxes, **bad) == grpc.StatusCode.INVALID_ARGUMENT, bad


def test_a_deleted_one_is_listed_when_asked_for(client, make_one, project):
    made = make_one(directory=str(project), project_root=str(project), start=True)
    client.run(made.id, "echo kept > src/b")
    client.destroy_sandbox(sandbox_id=made.id)
    assert made.id not in ids(client) and made.id in ids(client, status=DELETED)
    assert client.get_sandbox(sandbox_id=made.id, include_deleted=True).status == DELETED
    assert code_of(client.get_sandbox, sandbox_id=made.id) == grpc.StatusCode.NOT_FOUND
    assert client.restore_sandbox(sandbox_id=made.id).status == STOPPED and made.id in ids(client)
    client.destroy_sandbox(sandbox_id=made.id, purge=True)
    refused(grpc.StatusCode.FAILED_PRECONDITION, "", client.restore_sandbox, sandbox_id=made.id)
