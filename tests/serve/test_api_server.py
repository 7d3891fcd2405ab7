"""What belongs to the server and not to one sandbox, by gRPC and /v1: retention, disk use, reservations, status, drivers, profiles, limits."""

import os
import pathlib

import pytest
from api import CODE, NOBODY, failed, id_of, refused, token_of
from sandbox.v1 import retention_pb2, sandbox_pb2, server_pb2
from workspace import Workspace, make_project

STOPPED, ERROR, APPROVED, REJECTED = (getattr(retention_pb2, f"COLLECTABLE_STATE_{name}") for name in ("STOPPED", "ERROR", "APPROVED", "REJECTED"))
DELETED = sandbox_pb2.SANDBOX_STATUS_DELETED


def span(seconds):
    return {"seconds": seconds}


@pytest.fixture
def box(shared):
    made = Workspace(shared)
    made.sandbox_id = id_of(made.id)
    yield made
    made.remove()


@pytest.fixture
def own(make):
    """A server whose sandboxes are this test's alone."""
    server = make().start()
    yield server, server.client()


def other(shared, name="mallory"):
    return shared.client(token_of(shared, name))


# ---- retention ----

def test_what_would_be_collected_is_collected(own):
    server, client = own
    stopped, rejected, running = (Workspace(server) for _ in range(3))
    stopped.sh("echo new > file")
    stopped.ok("POST", "/stop")
    rejected.ok("POST", "/reject", {})
    for policy in ({"max_age": span(3600)}, {}, {"idle_timeout": span(0), "states": [APPROVED, ERROR]}):
        assert not client.collect(policy=policy).sandboxes, policy
    dry = client.collect(policy={"max_age": span(0)}, dry_run=True)
    assert dry.dry_run and (dry.collected, dry.failed, dry.collected_bytes) == (2, 0, 4)
    assert [(one.sandbox_id, one.state, one.directory) for one in dry.sandboxes] == [
        (id_of(stopped.id), STOPPED, str(stopped.project)), (id_of(rejected.id), REJECTED, str(rejected.project))]
    assert dry.sandboxes[0].reason == "older than the maximum age" and dry.sandboxes[0].changed_bytes == 4
    assert stopped.ok("GET", "")["status"] == "stopped", "a dry run changes nothing"
    assert client.collect(policy={"max_age": span(0)}, dry_run=True, max_sandboxes=1).collected == 1
    assert [one.sandbox_id for one in client.collect(policy={"decided_delay": span(0)}).sandboxes] == [id_of(rejected.id)]
    status, answer = server.http("POST", "/v1/collect", {"policy": {"maxAge": "0s", "states": ["COLLECTABLE_STATE_STOPPED"]}})
    assert status == 200 and [one["sandboxId"] for one in answer["sandboxes"]] == [id_of(stopped.id)] and answer["trashKept"] == "1"
    assert running.ok("GET", "")["status"] == "active", "never one that runs"
    assert stopped.ok("GET", "")["status"] == "deleted" and client.collect(policy={}).trash_kept == 2
    assert client.collect(policy={"trash_delay": span(0)}).trash_purged == 2
    assert not (server.state / "sandboxes" / id_of(stopped.id)).exists()
    events = [event.type for event in client.events(sandbox_id=id_of(stopped.id))]
    assert "sandbox_gc_collected" in events


def test_collecting_is_the_caller_s_own(shared, client, box):
    box.ok("POST", "/stop")
    assert other(shared).collect(policy={"max_age": span(0)}).collected == 0
    assert box.ok("GET", "")["status"] == "stopped"


def test_a_policy_that_is_not_understood_collects_nothing(shared, client, box):
    box.ok("POST", "/stop")
    refused(CODE.INVALID_ARGUMENT, "max_sandboxes", client.collect, max_sandboxes=1001)
    refused(CODE.INVALID_ARGUMENT, "policy.max_age", client.collect, policy={"max_age": {"seconds": -1}})
    refused(CODE.INVALID_ARGUMENT, "max_total_bytes", client.collect, policy={"max_age": span(0), "max_total_bytes": -1})
    refused(CODE.INVALID_ARGUMENT, "policy.states[0]", client.collect, policy={"max_age": span(0), "states": [99]})
    failed(shared.http("POST", "/v1/collect", {"policy": {"maxAge": "0s", "olderThan": "1h"}}), 400, 3, "olderThan")
    failed(shared.http("POST", "/v1/collect", {"policy": {"maxAge": "0s"}, "dryrun": True}), 400, 3, "dryrun")
    collect = client.channel.unary_unary("/sandbox.v1.RetentionService/Collect", request_serializer=bytes)
    refused(CODE.INVALID_ARGUMENT, "99", collect, retention_pb2.CollectRequest(policy={"max_age": span(0)}).SerializeToString() + b"\x98\x06\x01")
    assert box.ok("GET", "")["status"] == "stopped"


def test_what_is_kept_how_long(make):
    server = make(**{"workspace-ttl": "2h", "workspace-idle-ttl": "30m", "workspace-terminal-delay": "10m"}).start()
    kept = server.client().get_retention()
    assert (kept.policy.max_age.seconds, kept.policy.idle_timeout.seconds, kept.policy.decided_delay.seconds) == (7200, 1800, 600)
    assert kept.undo_window.seconds > 0 and kept.trash_window.seconds > 0 and not kept.policy.states
    status, answer = server.http("GET", "/v1/retention")
    assert status == 200 and answer["policy"]["maxAge"] == "7200s"


# ---- disk use ----

def test_what_uses_the_disk(own):
    server, client = own
    small, large = Workspace(server), Workspace(server)
    small.sh("echo x > file")
    large.sh("head -c 300000 /dev/zero | tr '\\0' x > file; echo log")
    codebase = client.sandbox(client.codebase({"a": "1\n"}))
    for one in (small, large):
        one.ok("POST", "/stop")
    use = client.get_disk_use()
    assert [one.sandbox_id for one in use.sandboxes][0] == id_of(large.id) and (use.total, use.disk_bytes) == (3, 0)
    assert {one.sandbox_id for one in use.sandboxes} == {id_of(small.id), id_of(large.id), codebase}
    assert use.sandboxes[0].changed_bytes == 300000 and use.changed_bytes >= 300002
    measured = client.get_disk_use(measure=True, max_sandboxes=1)
    assert len(measured.sandboxes) == 1 and measured.total == 3
    assert 300000 <= measured.sandboxes[0].disk_bytes < 2_000_000 and measured.disk_bytes > measured.sandboxes[0].disk_bytes
    status, answer = server.http("GET", f"/v1/sandboxes/{small.id}/disk?measure=true")
    assert status == 200 and [one["sandboxId"] for one in answer["sandboxes"]] == [id_of(small.id)]
    assert 0 < int(answer["sandboxes"][0]["diskBytes"]) < 300000
    assert server.http("DELETE", small.path)[0] == 204
    gone = client.get_disk_use(sandbox_id=id_of(small.id), measure=True)
    assert gone.sandboxes[0].status == DELETED and (gone.trash, gone.trash_disk_bytes) == (1, gone.disk_bytes)


def test_a_project_that_is_mounted_in_is_not_counted(make):
    if os.geteuid() != 0:
        pytest.skip("only root mounts on the host")
    server = make().start()
    box = Workspace(server, {"large": "x" * 500_000}, hostMount=True)
    assert pathlib.Path(box.ok("GET", "/workspace")["path"], "large").stat().st_size == 500_000
    assert server.client().get_disk_use(measure=True).disk_bytes < 500_000


def test_whose_disk_use(shared, client, box):
    assert other(shared).get_disk_use().total == 0
    refused(CODE.NOT_FOUND, "", other(shared).get_disk_use, sandbox_id=box.sandbox_id)
    assert refused(CODE.NOT_FOUND, "", client.get_disk_use, sandbox_id=NOBODY).reason == "SANDBOX_NOT_FOUND"
    failed(shared.http("GET", "/v1/disk?maxSandboxes=-1"), 400, 3, "max_sandboxes")


# ---- reservations ----

def test_who_has_reserved_what(shared, client):
    project = make_project()
    for name in ("a", "b"):
        (project / name).mkdir()
    if shared.user is not None:
        os.chown(project, shared.user, shared.user)
    made = []
    for name in ("b", "a"):
        status, one = shared.http("POST", "/api/v1/sandboxes", {"projectRoot": str(project), "reservedPaths": [str(project / name)], "owner": "bot"})
        assert status == 201, one
        made.append(one["id"])
    try:
        found = client.list_reservations(path=str(project)).reservations
        assert [(one.path, one.sandbox_id, one.creator, one.directory) for one in found] == [
            (str(project / "a"), id_of(made[1]), "bot", str(project)), (str(project / "b"), id_of(made[0]), "bot", str(project))]
        assert [one.path for one in client.list_reservations(path=f"{project}/a/deep/er").reservations] == [str(project / "a")]
        assert not client.list_reservations(path=f"{project}/c").reservations
        first = client.list_reservations(path=str(project), page_size=1)
        rest = client.list_reservations(path=str(project), page_size=1, page_token=first.next_page_token)
        assert [one.path for one in (*first.reservations, *rest.reservations)] == [str(project / "a"), str(project / "b")]
        assert not rest.next_page_token and not other(shared).list_reservations(path=str(project)).reservations
        assert shared.http("POST", f"/api/v1/sandboxes/{made[0]}/reject", {})[0] == 200
        status, answer = shared.http("GET", f"/v1/reservations?path={project}")
        assert status == 200 and [one["path"] for one in answer["reservations"]] == [str(project / "a")], "what was decided holds nothing"
    finally:
        for one in made:
            shared.http("DELETE", f"/api/v1/sandboxes/{one}?purge=true")
    failed(shared.http("GET", "/v1/reservations?path=relative"), 400, 3, "relative")
    failed(shared.http("GET", "/v1/reservations?pageToken=zz"), 400, 3, "page_token")


def test_whether_a_sandbox_could_be_there(shared, client, box):
    free = make_project()
    (free / "sub").mkdir()
    (free / "link").symlink_to(free / "sub")
    if shared.user is not None:
        os.chown(free, shared.user, shared.user)
    could = client.check_reservation(directory=str(free / "link"), project_root=str(free))
    assert could.available and not could.error and (could.directory, could.project_root) == (str(free / "sub"), str(free))
    assert list(could.reserved_paths) == [str(free / "sub")]
    taken = client.check_reservation(directory=str(box.project))
    assert (taken.available, taken.reason, taken.total_conflicts) == (False, "SCOPE_CONFLICT", 1) and "reserved by another" in taken.error
    assert (taken.conflicts[0].sandbox_id, taken.conflicts[0].path) == (box.sandbox_id, str(box.project))
    assert client.check_reservation(directory=str(box.project), no_lock=True).available
    strange = shared.client(token_of(shared, "eve", "--root", str(box.project))).check_reservation(directory=str(box.project))
    assert not strange.available and strange.conflicts[0].sandbox_id == "" and box.sandbox_id not in strange.error
    for directory, why in (("/usr", "system directory"), (str(free / "absent"), "absent"), (str(shared.state), "own state")):
        no = client.check_reservation(directory=directory)
        assert not no.available and why in no.error, no
    status, answer = shared.http("GET", f"/v1/reservations/check?directory={free}")
    assert status == 200 and answer["available"] is True
    status, answer = shared.http("POST", "/v1/reservations/check", {"directory": str(free), "reservedPaths": ["sub", str(free / "../x")]})
    assert status == 200 and answer["available"] is False and "not inside" in answer["error"]
    failed(shared.http("POST", "/v1/reservations/check", {}), 400, 3, "directory is required")
    assert shared.http("POST", "/api/v1/sandboxes", {"scopePath": str(free), "projectRoot": str(free)})[0] == 201, "looking took nothing"


def test_nothing_is_said_of_what_lies_outside_of_a_token_s_roots(shared, box):
    bounded = shared.client(token_of(shared, "bounded", "--root", str(box.project)))
    for outside in ("/etc", "/etc/absent"):
        no = bounded.check_reservation(directory=outside)
        assert (no.available, no.reason, no.directory) == (False, "ROOT_NOT_ALLOWED", ""), no


# ---- the server ----

def test_how_the_server_is(own):
    server, client = own
    box = Workspace(server)
    codebase = client.sandbox(client.codebase({"a": "1\n"}))
    box.start_process("sleep 1000")
    now = client.get_server_status()
    assert now.ready and now.version and now.driver == "fence" and (now.uptime.seconds or now.uptime.nanos)
    assert (now.sandboxes.active, now.sandboxes.total, now.sandboxes.stopped) == (2, 2, 0)
    assert (now.processes, now.running_processes) == (1, 1) and now.totals.created >= 1 and now.totals.create_time.nanos > 0
    client.destroy_sandbox(sandbox_id=codebase)
    box.ok("POST", "/stop")
    status, answer = server.http("GET", "/v1/server")
    assert status == 200 and answer["sandboxes"]["stopped"] == "1" and answer["sandboxes"]["total"] == "1"
    strange = other(server).get_server_status()
    assert strange.ready and strange.sandboxes.total == 0 and not strange.HasField("totals") and not strange.project_root


def test_drivers(own):
    server, client = own
    found = client.list_drivers()
    assert {one.name: one.checks_rules for one in found.drivers} == {"fence": True, "overlayfs": False, "copy": False}
    assert [one.name for one in found.drivers if one.selected] == ["fence"] and found.preference == "fence"
    refused(CODE.PERMISSION_DENIED, "administrators", other(server).select_driver, driver="copy")
    refused(CODE.INVALID_ARGUMENT, "nonsense", client.select_driver, driver="nonsense")
    refused(CODE.INVALID_ARGUMENT, "driver is required", client.select_driver)
    failed(server.http("PUT", "/v1/drivers/selected", {"driver": "copy", "force": True}), 400, 3, "force")
    assert client.list_drivers().preference == "fence"
    assert [one.name for one in client.select_driver(driver="copy").drivers if one.selected] == ["copy"]
    assert server.http("GET", "/api/v1/driver/preference")[1]["preference"] == "copy"
    status, answer = server.http("PUT", "/v1/drivers/selected", {"driver": "auto"})
    assert status == 200 and answer["preference"] == "auto" and server.http("GET", "/v1/drivers")[1]["preference"] == "auto"


def test_profiles(own):
    server, client = own
    assert [(one.id, one.builtin, one.network) for one in client.list_profiles().profiles] == [
        ("full", True, server_pb2.PROFILE_NETWORK_NONE), ("aware", True, client.get_profile(profile_id="aware").network)]
    mine = {"name": "Mine", "network": server_pb2.PROFILE_NETWORK_FULL, "read_only": {"/opt": "/opt"}, "environment": {"A": "b"}, "hostname": "box"}
    refused(CODE.PERMISSION_DENIED, "", other(server).put_profile, profile_id="mine", profile=mine)
    made = client.put_profile(profile_id="mine", profile=mine)
    assert (made.id, made.builtin, dict(made.read_only), dict(made.environment)) == ("mine", False, {"/opt": "/opt"}, {"A": "b"})
    assert client.get_profile(profile_id="mine") == made
    assert server.http("GET", "/api/v1/config/profiles/mine")[1]["networkAccess"] == "full"
    status, answer = server.http("PUT", "/v1/profiles/mine", {"profile": {"name": "Other", "readWrite": {"/srv": "/srv"}}})
    assert status == 200 and (answer["name"], answer["network"], answer["readOnly"]) == ("Other", "PROFILE_NETWORK_NONE", {})
    for profile_id, profile, why in (("full", {}, "built in"), ("mine", {"id": "x"}, "is not profile_id"), ("mine", {"network": 9}, "network"),
                                     ("mine", {"network": 2}, "localhost"), ("mine", {"read_only": {"relative": "/x"}}, "relative")):
        refused(CODE.INVALID_ARGUMENT, why, client.put_profile, profile_id=profile_id, profile=profile)
    refused(CODE.INVALID_ARGUMENT, "profile is required", client.put_profile, profile_id="mine")
    failed(server.http("PUT", "/v1/profiles/mine", {"profile": {"nmae": "x"}}), 400, 3, "nmae")
    assert client.get_profile(profile_id="mine").name == "Other"
    assert refused(CODE.NOT_FOUND, "absent", client.get_profile, profile_id="absent").reason == "PROFILE_UNKNOWN"
    refused(CODE.PERMISSION_DENIED, "", other(server).delete_profile, profile_id="mine")
    assert server.http("DELETE", "/v1/profiles/mine")[0] == 200
    assert [one.id for one in client.list_profiles().profiles] == ["full", "aware"]


def test_limits_of_commands(own):
    server, client = own
    config = {"defaults": {"memory_mb": 256, "timeout_seconds": 7}, "maxima": {"memory_mb": 512, "timeout_seconds": 60}}
    refused(CODE.PERMISSION_DENIED, "", other(server).set_execution_config, config=config)
    kept = client.set_execution_config(config=config)
    assert (kept.defaults.memory_mb, kept.maxima.timeout_seconds, kept.default_profile) == (256, 60, "full")
    assert client.get_execution_config() == kept
    assert server.http("GET", "/api/v1/config/execution")[1]["defaultResourceLimits"]["memoryLimitMB"] == 256
    refused(CODE.INVALID_ARGUMENT, "config is required", client.set_execution_config)
    refused(CODE.INVALID_ARGUMENT, "config.defaults", client.set_execution_config, config={"defaults": {"memory_mb": -1}})
    refused(CODE.INVALID_ARGUMENT, "exceeds", client.set_execution_config, config={"defaults": {"memory_mb": 2}, "maxima": {"memory_mb": 1}})
    refused(CODE.INVALID_ARGUMENT, "absent", client.set_execution_config, config={"default_profile": "absent"})
    failed(server.http("PUT", "/v1/execution", {"config": {"default": {}}}), 400, 3, "default")
    status, answer = server.http("GET", "/v1/execution")
    assert status == 200 and answer["defaults"]["memoryMb"] == "256"


# ---- events ----

def test_events_with_the_newest_first(shared, client, box):
    box.ok("POST", "/stop")
    oldest = client.list_events(sandbox_id=box.sandbox_id, page_size=1000).events
    newest = client.list_events(sandbox_id=box.sandbox_id, page_size=1, newest_first=True)
    assert newest.events[0] == oldest[-1]
    second = client.list_events(sandbox_id=box.sandbox_id, page_size=1, newest_first=True, page_token=newest.next_page_token)
    assert second.events[0] == oldest[-2]
    # By every spelling, as everywhere.
    for spelled in (box.id, box.sandbox_id[:12]):
        assert client.list_events(sandbox_id=spelled, page_size=1000).events == oldest
        assert len(shared.http("GET", f"/v1/sandboxes/{spelled}/events?pageSize=1000")[1]["events"]) == len(oldest)
    assert not client.list_events(sandbox_id=NOBODY).events, "events outlive sandboxes, and an id is not looked up"
    refused(CODE.NOT_FOUND, "", client.list_events, sandbox_id="no-such-name")
