"""Engines that map users, that have other OCI runtimes, and on a host with cgroup v2."""

import re

import grpc
import pytest
from aside import engine_aside
from sandbox.v1 import sandbox_pb2
from server import eventually

CODE = grpc.StatusCode
MAPPED = 300000
SUBIDS = 'for f in subuid subgid; do echo daemon:{}:65536 > "{}/$f"; mount --bind "{}/$f" "/etc/$f"; done; '
WRAPPER = """#!/bin/sh
echo "$@" >> {}
exec runc "$@"
"""


@pytest.fixture(scope="module")
def remapped(tmp_path_factory):
    """It maps the users of its containers, and has a runtime that notes what it is called for, and one that is not there."""
    place = tmp_path_factory.mktemp("aside")
    wrapper = place / "wrapper"
    wrapper.write_text(WRAPPER.format(place / "calls"))
    wrapper.chmod(0o755)
    options = ["--userns-remap", "daemon:daemon", "--add-runtime", f"noting={wrapper}", "--add-runtime", f"absent={place}/absent"]
    with engine_aside(SUBIDS.format(MAPPED, place, place), options) as engine:
        engine.calls = place / "calls"
        yield engine
        assert not engine.containers()


@pytest.fixture
def make_beside(make):
    """Servers for such an engine; what they made is gone from it afterwards."""
    def make_server(engine, **more):
        with engine.home():
            return make(**engine.settings(**more)).start()

    return make_server


def refused(client, sandbox):
    with pytest.raises(grpc.RpcError) as caught:
        client.start_sandbox(sandbox_id=sandbox)
    assert caught.value.code() == CODE.FAILED_PRECONDITION, caught.value
    assert client.get_sandbox(sandbox_id=sandbox).status_reason in caught.value.details()
    return caught.value.details()


def test_an_engine_that_maps_users_maps_none_of_ours(remapped, make_beside):
    """A fence answers the user that it was mounted for, and no other: so he must be the same on both sides."""
    assert "name=userns" in remapped.docker("info", "--format", "{{.SecurityOptions}}")
    mapped = remapped.docker("run", "--rm", "--network", "none", remapped.image("box"), "cat", "/proc/self/uid_map")
    assert mapped.split()[1] == str(MAPPED), "the engine was to map users"
    client = make_beside(remapped).client()
    sandbox = client.sandbox(client.codebase({"a": "a\n"}))
    (container,) = remapped.containers(f"label=agentfense.sandbox={sandbox}")
    uid = remapped.inspect(container)["Config"]["User"].split(":")[0]
    done = client.run(sandbox, "id -u; echo $(cat /proc/self/uid_map); cat a; echo b > b; stat -c %u b; (: > /bin/x) 2> /dev/null; echo $?")
    assert done.stdout.splitlines() == [uid, "0 0 4294967295", "a", uid, "1"], done
    assert client.run(sandbox, "grep -c '^Cap[A-Za-z]*:.0*$' /proc/self/status").stdout == "5\n"
    client.destroy_sandbox(sandbox_id=sandbox)
    eventually(lambda: not remapped.containers())


def test_the_oci_runtime_that_is_named_is_the_one_that_is_used(remapped, make_beside):
    remapped.calls.unlink(missing_ok=True)
    client = make_beside(remapped, oci_runtime="noting").client()
    sandbox = client.sandbox(client.codebase({"a": "a\n"}))
    (container,) = remapped.containers(f"label=agentfense.sandbox={sandbox}")
    calls = remapped.calls.read_text().splitlines()
    assert [verb for verb in ("create", "start") for call in calls if re.search(f" {verb} .*{container}", call)] == ["create", "start"], calls
    assert client.run(sandbox, "cat a").stdout == "a\n"
    client.destroy_sandbox(sandbox_id=sandbox)
    eventually(lambda: not remapped.containers())


def test_an_oci_runtime_that_the_engine_does_not_know_is_told_with_those_it_has(remapped, make_beside):
    client = make_beside(remapped, oci_runtime="runsc").client()
    reason = refused(client, client.sandbox(client.codebase(), start=False))
    assert "no OCI runtime 'runsc'" in reason and "runtime.docker.oci_runtime" in reason, reason
    assert {"runc", "noting", "absent"} <= set(reason.rpartition("it has: ")[2].split(", ")), reason
    assert not remapped.containers()


def test_an_oci_runtime_that_is_not_installed_is_told(remapped, make_beside):
    client = make_beside(remapped, oci_runtime="absent").client()
    reason = refused(client, client.sandbox(client.codebase(), start=False))
    assert "/absent" in reason and "no such file" in reason, reason
    assert not remapped.containers()


@pytest.fixture(scope="module")
def unified():
    """As on a host with nothing but cgroup v2; this one may have its controllers elsewhere."""
    with engine_aside("mount -t cgroup2 none /sys/fs/cgroup; ") as engine:
        assert engine.docker("info", "--format", "{{.CgroupVersion}}").strip() == "2"
        yield engine
        assert not engine.containers()


LIMITS = {"memory_bytes": (64 << 20, "memory", "MemoryLimit"), "cpu_quota": (20000, "cpu", "CPUCfsQuota"), "cpu_shares": (512, "cpu", "CPUShares"),
          "pids_limit": (24, "pids", "PidsLimit")}


@pytest.mark.parametrize("name", LIMITS)
def test_with_cgroup_v2_a_limit_holds_or_is_refused(unified, make_beside, name):
    value, word, ability = LIMITS[name]
    client = make_beside(unified).client()
    sandbox = client.sandbox(client.codebase({"a": "a\n"}), start=False, resources=sandbox_pb2.ResourceLimits(**{name: value}))
    if unified.docker("info", "--format", f"{{{{.{ability}}}}}").strip() != "true":
        assert f"a {word} limit cannot be enforced here" in refused(client, sandbox)
        assert not unified.containers()
        return
    client.start_sandbox(sandbox_id=sandbox)
    (container,) = unified.containers()
    config = unified.inspect(container)["HostConfig"]
    assert value in (config["Memory"], config["CpuQuota"], config["CpuShares"], config["PidsLimit"])
    client.destroy_sandbox(sandbox_id=sandbox)


def test_with_cgroup_v2_a_sandbox_runs(unified, make_beside):
    client = make_beside(unified).client()
    sandbox = client.sandbox(client.codebase({"a": "a\n"}))
    assert client.run(sandbox, "cat a; grep ^0:: /proc/self/cgroup").stdout == "a\n0::/\n"
    client.destroy_sandbox(sandbox_id=sandbox)
    eventually(lambda: not unified.containers())
