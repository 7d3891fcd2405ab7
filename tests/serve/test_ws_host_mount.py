"""Where a client of the host finds a workspace's files: at a mount that it asked for, or nowhere."""

import fcntl
import os
import pathlib
import shutil
import signal
import threading

import pytest
from conftest import PROGRAMS
from server import OTHER_USER, eventually
from workspace import Workspace

FORBIDS_B = [{"pattern": "/**", "permission": "write"}, {"pattern": "/b.txt", "permission": "read"}, {"pattern": "/.env", "permission": "none"}]
FILES = {"a.txt": "a\n", "b.txt": "b\n", ".env": "KEY=1\n"}
LATE_SUPERVISOR = """#!/bin/sh
for dir; do :; done
touch {place}/is-waiting
flock "$dir/lock" true
exec {real} "$@"
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes mounts on the host")


def directory(server, box):
    """That of the sandbox, in the server's state."""
    upper = pathlib.Path(box.ok("GET", "")["upperDir"])
    assert upper.is_relative_to(server.top), upper
    return upper.parent.parent


def mounted(server):
    return [path for path in server.mounts() if path.endswith("/mnt")]


def start_ordinary(make):
    """That of an ordinary user, which root calls with a token."""
    server = make(user=OTHER_USER).start()
    server.own_token = server.token("create", "--owner", "tester", "--admin")
    return server


@pytest.fixture(params=["root", "ordinary"])
def either(make, request):
    if request.param == "ordinary" and os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    return start_ordinary(make) if request.param == "ordinary" else make().start()


def test_no_path_of_the_host_is_given_where_none_leads_to_the_files(either):
    box = Workspace(either)
    found = box.ok("GET", "")
    assert found["mountHealth"]["healthy"] is True and "mergedDir" not in found and "hostMount" not in found
    _, listed = either.http("GET", "/api/v1/sandboxes")
    assert ["mergedDir" in one for one in listed["sandboxes"]] == [False]
    status, answer = box.http("GET", "/workspace")
    assert status == 409 and "hostMount" in answer["hint"] and "/exec" in answer["hint"] and "path" not in answer, answer
    box.remove()


def test_nothing_can_be_written_where_the_mount_is_not(either):
    """A file there would be in no diff, and in no sandbox."""
    box = Workspace(either)
    place = directory(either, box) / "mnt"
    for _ in range(2):
        if either.user is None:
            assert not place.exists()
        else:
            assert place.stat().st_mode & 0o7777 == 0o500 and list(place.iterdir()) == []
        box.ok("POST", "/stop")
        place.mkdir(0o700, exist_ok=True)  # as those have it that were made before there was this rule
        place.chmod(0o700)
        os.chown(place, *[either.user or os.geteuid()] * 2)
        box.ok("POST", "/start")
    box.remove()


def test_the_copy_driver_has_a_directory_of_the_host(either):
    box = Workspace(either, driver="copy")
    merged = pathlib.Path(box.ok("GET", "")["mergedDir"])
    assert box.ok("GET", "/workspace")["path"] == str(merged)
    (merged / "new").write_text("written on the host\n")
    if either.user is not None:
        os.chown(merged / "new", either.user, either.user)
    assert box.sh("cat new")["stdout"] == "written on the host\n"
    assert [file["filePath"] for file in box.ok("GET", "/diff")["files"]] == ["new"]
    box.remove()


@needs_root
def test_work_in_a_mount_that_was_asked_for_is_in_the_diff(make):
    server = make().start()
    box = Workspace(server, files=FILES, rules=FORBIDS_B, hostMount=True)
    found = box.ok("GET", "")
    merged = pathlib.Path(found["mergedDir"])
    assert found["hostMount"] is True and found["mountHealth"]["healthy"] is True
    assert mounted(server) == [str(merged)] and box.ok("GET", "/workspace")["path"] == str(merged)
    (merged / "new").write_text("written on the host\n")
    assert box.sh("cat new; echo inside >> new")["stdout"] == "written on the host\n"
    assert (merged / "new").read_text() == "written on the host\ninside\n"
    assert [file["filePath"] for file in box.ok("GET", "/diff")["files"]] == ["new"]
    assert not (box.project / "new").exists()
    box.remove()


@needs_root
def test_rules_hold_for_the_hosts_root_too(make):
    server = make().start()
    box = Workspace(server, files=FILES, rules=FORBIDS_B, hostMount=True)
    merged = pathlib.Path(box.ok("GET", "")["mergedDir"])
    assert sorted(os.listdir(merged)) == ["a.txt", "b.txt"] and not (merged / ".env").exists()
    with pytest.raises(PermissionError):
        (merged / "b.txt").write_text("x")
    flags = next(line.split()[5] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] == str(merged))
    assert {"nosuid", "nodev"} <= set(flags.split(","))
    box.remove()


@needs_root
def test_the_mount_goes_and_comes_with_the_sandbox(make):
    server = make().start()
    box = Workspace(server, hostMount=True)
    merged = pathlib.Path(box.ok("GET", "")["mergedDir"])
    (merged / "new").write_text("1")
    stopped = box.ok("POST", "/stop")
    assert not mounted(server) and not merged.exists() and "mergedDir" not in stopped and stopped["hostMount"] is True
    assert box.ok("POST", "/start")["mergedDir"] == str(merged)
    assert mounted(server) == [str(merged)] and (merged / "new").read_text() == "1"
    assert box.http("DELETE", "?purge=true")[0] == 204
    assert not mounted(server) and not merged.parent.exists()


@needs_root
def test_no_mount_is_left_when_its_supervisor_is_killed(make):
    server = make().start()
    box = Workspace(server, hostMount=True)
    merged = box.ok("GET", "")["mergedDir"]
    os.kill(next(iter(server.supervisors().values())), signal.SIGKILL)
    eventually(lambda: not mounted(server) and box.ok("GET", "")["status"] == "stopped")
    assert not os.path.lexists(merged)
    box.ok("POST", "/start")
    assert mounted(server) == [merged]
    box.remove()


@needs_root
def test_a_server_that_was_killed_finds_the_mount_again(make):
    server = make().start()
    box = Workspace(server, hostMount=True)
    merged = box.ok("GET", "")["mergedDir"]
    server.kill()
    assert mounted(server) == [merged]
    server.start()
    found = box.ok("GET", "")
    assert found["mergedDir"] == merged and found["mountHealth"]["healthy"] is True and mounted(server) == [merged]
    box.remove()


@needs_root
def test_a_supervisor_that_dies_slowly_leaves_no_mount_to_its_successor(make, tmp_path):
    """Its lock is free only when the next supervisor wants it: too late for whoever looks for dead mounts before a start."""
    programs = tmp_path / "programs"
    shutil.copytree(PROGRAMS, programs)
    server = make()
    server.programs = programs
    server.start()
    box = Workspace(server, hostMount=True)
    merged = pathlib.Path(box.ok("GET", "")["mergedDir"])
    [pid] = server.supervisors().values()
    server.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.supervisors())
    (programs / "agentfense-supervisor").rename(programs / "real")
    (programs / "agentfense-supervisor").write_text(LATE_SUPERVISOR.format(place=tmp_path, real=PROGRAMS / "agentfense-supervisor"))
    (programs / "agentfense-supervisor").chmod(0o755)
    lock = os.open(merged.parent / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def die():
        eventually((tmp_path / "is-waiting").exists)
        os.close(lock)

    dying = threading.Thread(target=die)
    dying.start()
    server.start()
    dying.join()
    assert eventually(lambda: box.ok("GET", "").get("mergedDir")) == str(merged)
    assert mounted(server) == [str(merged)] and (merged / "README").read_text() == "read me\n"
    box.remove()


@needs_root
def test_mounts_of_those_that_ended_meanwhile_are_swept_at_the_start(make):
    """Both killed at once, and once stopped: what is mounted is what works."""
    server = make().start()
    running, stopped = Workspace(server, hostMount=True), Workspace(server, hostMount=True)
    stopped.ok("POST", "/stop")
    merged = running.ok("GET", "")["mergedDir"]
    pids = server.supervisors().values()
    server.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    server.start()
    found = eventually(lambda: running.ok("GET", "").get("mergedDir") and running.ok("GET", ""))
    assert found["mountHealth"]["healthy"] is True and mounted(server) == [merged]
    assert (pathlib.Path(merged) / "README").read_text() == "read me\n"
    running.remove()
    stopped.remove()
    assert not mounted(server)


@needs_root
def test_a_mount_that_somebody_took_away_is_not_called_healthy(make):
    server = make().start()
    box = Workspace(server, hostMount=True)
    merged = box.ok("GET", "")["mergedDir"]
    assert os.system(f"umount {merged}") == 0
    found = box.ok("GET", "")
    assert "mergedDir" not in found and found["mountHealth"]["healthy"] is False and "mount" in found["mountHealth"]["error"]
    assert box.http("GET", "/workspace")[0] == 409
    box.ok("POST", "/stop")
    assert box.ok("POST", "/start")["mergedDir"] == merged and box.ok("GET", "")["mountHealth"]["healthy"] is True
    box.remove()


@needs_root
def test_a_server_may_mount_all_on_the_host(make):
    server = make(**{"workspace-host-mount": "true"}).start()
    box, other, copy = Workspace(server), Workspace(server, hostMount=False), Workspace(server, driver="copy")
    assert box.ok("GET", "")["hostMount"] is True and mounted(server) == [box.ok("GET", "")["mergedDir"]]
    assert "mergedDir" not in other.ok("GET", "") and "mergedDir" in copy.ok("GET", "")
    for one in (box, other, copy):
        one.remove()


def test_who_cannot_have_a_mount_is_told(make):
    server = start_ordinary(make) if os.geteuid() == 0 else make().start()
    box = Workspace(server)
    body = {"projectRoot": str(box.project), "noLock": True}
    status, answer = server.http("POST", "/api/v1/sandboxes", {**body, "hostMount": True})
    assert status == 409 and "root" in answer["error"], answer
    assert server.http("POST", "/api/v1/sandboxes", {**body, "hostMount": "yes"})[0] == 400
    box.remove()


@needs_root
def test_only_administrators_mount_on_the_host(make):
    server = make().start()
    box = Workspace(server)
    token = server.token("create", "--owner", "somebody", "--root", str(box.project))
    body = {"projectRoot": str(box.project), "noLock": True}
    bearer = {"Authorization": f"Bearer {token}"}
    status, answer = server.http("POST", "/api/v1/sandboxes", {**body, "hostMount": True}, bearer)
    assert status == 403, answer
    assert server.http("POST", "/api/v1/sandboxes", body, bearer)[0] == 201
    for driver in ("overlayfs", "copy"):
        status, answer = server.http("POST", "/api/v1/sandboxes", {**body, "hostMount": True, "driver": driver})
        assert status == (409 if driver == "overlayfs" else 201), answer
    assert not mounted(server)
    box.remove()
