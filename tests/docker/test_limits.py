"""Limits, each run into from inside a container; it lives on, and the event is told."""

import json

from sandbox.v1 import sandbox_pb2
from server import eventually

FORKS = """
import os, time
made = 0
for _ in range(60):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    made += 1
print(made)
"""

# What share of one processor it got, for as long as three seconds of the wall last.
SHARE = """
import time
begin, used = time.monotonic(), time.process_time()
while time.monotonic() < begin + 3:
    pass
print((time.process_time() - used) / (time.monotonic() - begin))
"""


def limited(client, **limits):
    codebase = client.codebase({"forks.py": FORKS, "share.py": SHARE})
    return client.sandbox(codebase, resources=sandbox_pb2.ResourceLimits(**limits))


def limits_met(client, sandbox):
    return [json.loads(event.payload) for event in client.events(sandbox_id=sandbox, type="resource_limit_exceeded")]


def test_a_memory_hog_is_ended_and_the_container_lives(client):
    sandbox = limited(client, memory_bytes=64 << 20)
    done = client.run(sandbox, "python3 -c 'x = bytearray(300 << 20); print(len(x))'; echo $?")
    assert done.stdout == "137\n", done
    assert client.run(sandbox, "echo alive").stdout == "alive\n"
    met = eventually(lambda: limits_met(client, sandbox))
    assert ("memory", 64 << 20) in [(each["resource"], each["limit"]) for each in met], met
    client.destroy_sandbox(sandbox_id=sandbox)


def test_processes_are_counted(client):
    sandbox = limited(client, pids_limit=24)
    done = client.run(sandbox, "python3 forks.py", timeout={"seconds": 50})
    assert 0 < int(done.stdout) < 24, done
    assert client.run(sandbox, "echo alive").stdout == "alive\n"
    met = eventually(lambda: limits_met(client, sandbox))
    assert ("pids", 24) in [(each["resource"], each["limit"]) for each in met], met
    client.destroy_sandbox(sandbox_id=sandbox)


def test_the_share_of_the_processor_is_what_was_given(client):
    sandbox = limited(client, cpu_quota=20000)
    done = client.run(sandbox, "python3 share.py")
    assert 0 < float(done.stdout) < 0.27, done  # a fifth; other load can only make it less
    client.destroy_sandbox(sandbox_id=sandbox)


def test_the_engine_knows_the_limits_and_the_api_tells_them(client, dock):
    limits = {"memory_bytes": 96 << 20, "cpu_quota": 50000, "cpu_shares": 512, "pids_limit": 77}
    sandbox = limited(client, **limits)
    made = client.get_sandbox(sandbox_id=sandbox)
    assert (made.runtime, made.status) == (sandbox_pb2.RUNTIME_TYPE_DOCKER, sandbox_pb2.SANDBOX_STATUS_RUNNING)
    assert {name: getattr(made.resources, name) for name in limits} == limits
    (container,) = dock.containers(f"label=agentfense.sandbox={sandbox}")
    config = dock.inspect(container)["HostConfig"]
    assert (config["Memory"], config["CpuShares"]) == (96 << 20, 512)
    assert config["MemorySwap"] in (96 << 20, 0, -1)
    client.destroy_sandbox(sandbox_id=sandbox)


def test_changes_are_bounded_too(client):
    sandbox = limited(client, disk_bytes=1 << 20)
    done = client.run(sandbox, "head -c 3000000 /dev/zero > big; echo $?")
    assert "No space left on device" in done.stderr and done.stdout == "1\n", done
    client.destroy_sandbox(sandbox_id=sandbox)
