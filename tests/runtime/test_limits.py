"""Limits, each run into from inside; the sandbox lives on and the event is told."""

import pathlib
import re
import subprocess

import pytest

from conftest import PYTHON, cgroups

pytestmark = pytest.mark.bwrap("tests/docker has its own")


def test_a_memory_hog_is_ended_and_the_sandbox_lives(limited):
    result = limited.run(f"{PYTHON} -c 'x = bytearray(300 << 20); print(len(x))'; echo $?; echo alive", "--memory", 64 << 20)
    assert "314572800" not in result.out
    assert result.out.split()[-2:] == ["137", "alive"], result
    assert ("memory", "1", str(64 << 20)) in result.events


def test_scratch_files_count_as_memory(limited):
    result = limited.run("head -c 200M /dev/zero > /tmp/big; echo alive", "--memory", 64 << 20)
    assert "memory" in [kind for kind, _, _ in result.events], result


def test_a_fork_bomb_stops_at_the_pids_limit(limited):
    result = limited.run("i=0; while [ $i -lt 60 ]; do sleep 60 & i=$((i+1)); done; echo beyond", "--pids", 20)
    assert "beyond" not in result.out  # the shell itself gives up
    kinds = {kind: (int(count), int(limit)) for kind, count, limit in result.events}
    assert kinds["pids"][0] >= 1 and kinds["pids"][1] == 20, result


def test_a_real_fork_bomb_is_survived(limited):
    result = limited.run("sh -c 'b() { b | b & }; b' 2>/dev/null; sleep 1; echo alive", "--pids", 40, "--memory", 256 << 20)
    assert result.out.split()[-1:] == ["alive"] or "Cannot fork" in result.out, result
    assert "pids" in [kind for kind, _, _ in result.events]


def test_the_default_pids_limit_is_named_for_init_without_a_cgroup(host):
    result = host.run(":")
    assert re.search(r"nproc 1024$", result.err, re.M), result


def test_the_default_pids_limit_is_in_the_cgroup_when_there_is_one(limited):
    result = limited.run(":", "--memory", 64 << 20)
    assert re.search(r"nproc 0$", result.err, re.M), result


def test_nproc_counts_this_sandbox_only(host):
    """What init does when no cgroup holds the pids limit. The user's other processes do not count."""
    other = subprocess.Popen(host.command(script="i=0; while [ $i -lt 30 ]; do sleep 200 & i=$((i+1)); done; echo up; wait"),
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert other.stdout.readline() == b"up\n"
        result = host.run("ulimit -p 20; i=0; while [ $i -lt 10 ]; do sleep 60 & i=$((i+1)); done; echo ten; "
                          "while [ $i -lt 40 ]; do sleep 60 & i=$((i+1)); done; echo forty")
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert "ten" in result.out and "forty" not in result.out, result


def test_the_cpu_quota_holds(limited):
    script = (f"{PYTHON} -c 'import time\nend=time.time()+1.5\nwhile time.time()<end: pass\n"
              "print(time.process_time())'")
    result = limited.run(script, "--cpu", 20000)
    assert float(result.out) < 0.6, result


def test_cpu_shares_are_set(limited):
    limited.kills = True
    with limited.start("echo up; sleep 60; :", "--shares", "100") as (driver, bwrap, _):
        assert driver.stdout.readline() == "up\n"
        lines = pathlib.Path(f"/proc/{bwrap}/cgroup").read_text()
        found = [(d / name).read_text() for d in cgroups() for name in ("cpu.shares", "cpu.weight") if (d / name).exists()]
    assert "agentfense/sbtest_" in lines
    assert found in (["100\n"], ["4\n"])


def test_a_frozen_sandbox_stands_still(limited):
    result = limited.python("import time\nend=time.time()+60\nlast=time.time()\nworst=0\nprint('up', flush=True)\nwhile worst<0.7 and time.time()<end:\n"
                            "  time.sleep(0.01)\n  worst=max(worst,time.time()-last)\n  last=time.time()\nprint(worst)",
                            "--own-cgroup", "--freeze-ms", "800")  # it ends as soon as it has missed so much
    assert "frozen 0\n" in result.err and "thawed 0\n" in result.err
    assert float(result.out.removeprefix("up\n")) > 0.7, result


@pytest.mark.parametrize("option,word", [("--memory", "memory"), ("--cpu", "cpu"), ("--shares", "cpu")])
def test_a_limit_that_cannot_be_enforced_is_refused(user, option, word):
    result = user.run("echo ran", option, {"--memory": 64 << 20, "--cpu": 50000, "--shares": 100}[option])
    if result.code == 0:
        pytest.skip("this user has a cgroup of its own here")
    assert result.code == 125 and "ran" not in result.out
    assert result.err.startswith("error FAILED_PRECONDITION ")
    assert f"a {word} limit cannot be enforced here: " in result.err


def test_a_users_pids_limit_falls_to_init(user):
    result = user.run(":", "--pids", 50)
    assert result.code == 0 and re.search(r"nproc (50|0)$", result.err, re.M), result
