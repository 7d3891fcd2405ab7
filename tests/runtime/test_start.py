"""Starting, ending, and what is said when it cannot start."""

import os
import re
import signal
import subprocess
import time

import pytest

from conftest import IS_LONG, IS_ROOT, WAIT, cgroups, left_behind, sweep

pytestmark = pytest.mark.bwrap("about how bwrap starts")


def wait_child(pid, name):
    """The first child of a process, once it runs this program; None when the process has ended before."""
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
                children = f.read().split()
            for child in children:
                with open(f"/proc/{child}/comm", encoding="utf-8") as f:
                    if f.read() == f"{name}\n":
                        return int(child)
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return None
        except OSError:
            return None
        time.sleep(0.001)
    raise AssertionError(f"{pid} starts no {name}")


def wait_gone(pid, seconds=WAIT):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_the_exit_code_comes_through(host):
    assert host.run("exit 7").code == 7
    assert host.run("kill -9 $$; sleep 0.1; exit 3").code == 3  # pid 1 is deaf to its own signals


def test_all_ends_with_pid_1(host):
    result = host.run("setsid sleep 300 & setsid setsid sleep 300 & echo done")
    assert result.out == "done\n"


@pytest.mark.parametrize("victim", ["driver", "bwrap", "init"])
def test_killing_any_part_ends_the_whole(host, victim):
    with host.start("echo up; sleep 300 & sleep 300; :") as (driver, bwrap, init):
        assert driver.stdout.readline() == "up\n"
        os.kill({"driver": driver.pid, "bwrap": bwrap, "init": init}[victim], signal.SIGKILL)
        assert wait_gone(init)
        assert wait_gone(bwrap)
        driver.wait(WAIT)


def test_killing_bwrap_at_any_moment_leaves_nothing(host):
    """In its first milliseconds bwrap has not tied init to itself; whoever started it ends init then."""
    for step in range(0, 24, 1 if IS_LONG else 3):
        with host.start("sleep 300; :") as (driver, bwrap, _):
            time.sleep(step * 0.0005)
            os.kill(bwrap, signal.SIGKILL)
            assert driver.wait(WAIT) == 137


def test_killing_the_starter_at_any_moment_leaves_nothing(host):
    """With a pid 1 that ends when its socket does, as init; and with the sweep that the next start makes."""
    for step in range(0, 60, 1 if IS_LONG else 4):
        with subprocess.Popen(host.command(script="cat <&1 >/dev/null"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as driver:
            time.sleep(step * 0.0003)
            driver.kill()
    host.sweep()
    until = time.monotonic() + WAIT
    while left_behind() and time.monotonic() < until:  # of those killed last, some are no orphans yet
        time.sleep(0.05)
        host.sweep()
        sweep()


def test_the_sweep_leaves_the_living_alone_and_ends_orphans(host):
    with host.start("echo up; sleep 60; :") as (driver, _, init):
        assert driver.stdout.readline() == "up\n"
        host.sweep()
        assert driver.poll() is None and not wait_gone(init, seconds=0.2)
    # The gap, held open: bwrap waits for a word on its standard input before it lets its child go, and is killed meanwhile.
    arguments = host.dir / "arguments"
    arguments.write_text("\0".join(["--userns-block-fd", "0", "--bind", "/", "/", ""]))
    words = host.command(script="")
    words = words[:words.index(str(host.driver))] + [
        "sh", "-c", f"exec 4<{arguments} 5>/dev/null; exec bwrap --unshare-user --unshare-pid --args 4 --info-fd 5 -- /run/agentfense/init"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as bwrap:
        child = wait_child(bwrap.pid, "bwrap")
        bwrap.kill()
        bwrap.wait()
        assert child
        host.sweep()  # a supervisor of another test may have been quicker, and then there was nothing to count
        assert wait_gone(child)


def test_a_start_of_which_bwrap_heard_nothing_leaves_nothing(host):
    """Its starter was killed before it had written the options, bwrap itself before it let its child go. The gap is held open by a pipe."""
    fifo, options, fake = host.dir / "fifo", host.dir / "options", host.dir / "bwrap"
    os.mkfifo(fifo, 0o666)
    fifo.chmod(0o666)
    options.write_text("\0".join(["--userns-block-fd", "9", ""]))
    fake.write_text("#!/bin/bash\ncase $1 in --version|--help) exec /usr/bin/bwrap $1;; esac\n"
                    f"exec 8<&4 4<{options} 9<>{fifo}\nexec -a bwrap /usr/bin/bwrap \"$@\"\n")
    fake.chmod(0o755)
    with subprocess.Popen(host.command("--bwrap", fake, script=":"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        child = None
        while not child:  # the driver asks for its version first
            bwrap = wait_child(driver.pid, "bwrap")
            child = wait_child(bwrap, "bwrap") if bwrap else None
            assert bwrap or driver.poll() is None
        driver.kill()
    os.kill(bwrap, signal.SIGKILL)
    assert wait_gone(bwrap)
    host.sweep()  # as above, others may have been quicker
    assert wait_gone(child)


def test_init_can_be_copied_from_where_its_user_cannot_reach(host):
    hidden = host.dir / "hidden"
    hidden.mkdir()
    subprocess.run(["cp", "/bin/dash", hidden / "sh"], check=True)
    if IS_ROOT:
        os.chown(hidden, host.uid if not host.as_root else 0, -1)
    hidden.chmod(0o700)
    result = host.run("echo copied; ls -l /run/agentfense/init; (echo x > /run/agentfense/init) 2>/dev/null && echo written",
                      "--copy", hidden / "sh")
    assert result.out.startswith("copied\n-r-xr-xr-x") and "written" not in result.out, result


def test_mounts_are_where_they_were_asked_for(host):
    for name in ("ro", "rw"):
        directory = host.dir / name
        directory.mkdir()
        (directory / "f").write_text(name)
        if IS_ROOT:
            os.chown(directory, host.uid, host.uid)
    result = host.run("cat /mnt/a/ro/f /data/f; (: > /mnt/a/ro/new) 2>/dev/null && echo bad; : > /data/new && echo good; "
                      "(: > /mnt/x) 2>/dev/null && echo bad; (: > /mnt/a/x) 2>/dev/null && echo bad",
                      "--mount", f"{host.dir}/ro:/mnt/a/ro:ro", "--mount", f"{host.dir}/rw:/data")
    assert result.out == "rorwgood\n", result


@pytest.mark.parametrize("dst", ["/workspace/x", "/tmp/x", "/home/agent/x", "/etc/x", "/usr/x", "relative", "/mnt/../etc", "/"])
def test_bad_destinations_are_refused(host, dst):
    result = host.run("echo ran", "--mount", f"/usr:{dst}")
    assert result.code == 125 and "ran" not in result.out
    assert result.err.startswith("error INVALID_ARGUMENT"), result


def test_a_symlink_in_the_workspace_leads_no_mount_astray(host):
    """The hole of 2026: a mount point made beneath a symlink of the agent's. There is none: no destination lies in its tree."""
    (host.workspace / "mnt").symlink_to(host.dir)
    result = host.run("ls /mnt/data/dash", "--mount", "/bin:/mnt/data:ro")
    assert result.out.strip() == "/mnt/data/dash"
    assert not (host.dir / "data").exists()


@pytest.mark.skipif(not IS_ROOT, reason="a user's own directories are open to its sandboxes")
def test_what_cannot_be_reached_is_one_clear_line(limited):
    closed = limited.dir / "closed"
    closed.mkdir(mode=0o700)
    (closed / "ws").mkdir()
    result = limited.run("echo ran", "--workspace", closed / "ws", workspace=False)
    assert result.code in (1, 125) and "ran" not in result.out
    assert "Permission denied" in result.err or "find source path" in result.err, result


def test_a_missing_bwrap_is_one_clear_line(host):
    result = host.run(":", "--bwrap", "/no/such/bwrap")
    assert result.code == 125
    assert re.fullmatch(r"error NOT_FOUND bubblewrap '/no/such/bwrap': No such file or directory\n", result.err), result


def test_a_bwrap_that_fails_is_quoted(host):
    fake = host.dir / "bwrap"
    fake.write_text("#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0;; --help) /usr/bin/bwrap --help;;\n"
                    "*) echo 'bwrap: No permissions to create new namespace, likely because' >&2; exit 1;; esac\n")
    fake.chmod(0o755)
    result = host.run(":", "--bwrap", fake)
    assert result.code == 125
    assert "No permissions to create new namespace" in result.err and "agentfense doctor" in result.err


@pytest.mark.skipif(not IS_ROOT, reason="cgroups here are root's")
def test_a_failed_start_leaves_no_cgroup(limited):
    fake = limited.dir / "bwrap"
    fake.write_text("#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0;; --help) /usr/bin/bwrap --help;; *) exit 1;; esac\n")
    fake.chmod(0o755)
    result = limited.run(":", "--bwrap", fake, "--memory", 64 << 20)
    assert result.code == 125 and cgroups() == []


@pytest.mark.skipif(not IS_ROOT, reason="needs root to make the namespace as another user")
def test_it_runs_inside_a_user_namespace(user):
    """As a supervisor of an ordinary user does, which has made one to mount the fence in."""
    command = user.command(script="id -u; cat /proc/self/uid_map")
    at = command.index(str(user.driver))
    result = subprocess.run([*command[:at], "unshare", "-Urm", "--", *command[at:]], capture_output=True, text=True, timeout=WAIT,
                            check=False)
    assert result.stdout.split()[0] == "1000", result


def test_many_start_at_once(host):
    running = [subprocess.Popen(host.command(script="echo $$; id -u"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
               for _ in range(16)]
    for one in running:
        out, _ = one.communicate(timeout=2 * WAIT)
        assert out == b"1\n1000\n"
