"""What cannot be had is refused in one line that says why and what to do, and nothing is left behind."""

import os
import subprocess

import pytest

from conftest import IS_ROOT, TIMEOUT, hash_tree

needs_root = pytest.mark.skipif(not IS_ROOT, reason="takes things away from a mount namespace: needs root")


def refused(result, *words, code=125):
    assert result.code == code, result
    assert result.out == b""
    assert result.err.count("\n") == 1 and result.err.startswith("agentfense run: "), result
    for word in words:
        assert word in result.err, result


def without(host, setup, *options):
    """In a mount namespace where something is missing; the current user stays."""
    done = subprocess.run(["unshare", "-m", "sh", "-c", f'set -e; {setup}; exec "$@"', "sh", *host.words(host.program, "run", *options,
                           host.base, "--", "true")], capture_output=True, env=host.env(), stdin=subprocess.DEVNULL, timeout=TIMEOUT,
                          check=False)
    return type("Result", (), {"code": done.returncode, "out": done.stdout, "err": done.stderr.decode(),
                               "__repr__": lambda self: repr(done)})()


def test_a_directory_that_is_not_there(host):
    refused(host.call("run", host.dir / "none", "--", "true"), f"'{host.dir}/none'", "No such file or directory")


def test_a_file_is_no_directory(host):
    refused(host.call("run", host.base / "hello.txt", "--", "true"), "is not a directory")


def test_a_directory_that_cannot_be_read(user):
    user.base.chmod(0)
    try:
        refused(user.run(command=["true"]), "cannot be read", "Permission denied")
    finally:
        user.base.chmod(0o755)


@pytest.mark.parametrize("args, word", [
    ([], "no command"), (["{base}"], "no command"), (["{base}", "--"], "no command"), (["{base}", "true"], "after '--'"),
    (["{base}", "x", "--", "true"], "one word too many"), (["--in", "x", "{base}", "--", "true"], "--in"),
    (["--in", "x", "--driver", "copy", "--", "true"], "--in"), (["--in", "x", "--rm", "--", "true"], "agentfense rm"),
])
def test_bad_usage_is_2(one, args, word):
    refused(one.call("run", *[arg.format(base=one.base) for arg in args]), word, code=2)
    assert one.names() == []


def test_an_unknown_option_is_2(one):
    result = one.call("run", "--bogus", "--", "true")
    assert result.code == 2 and "--bogus" in result.err and "--help" in result.err


def test_a_sandbox_that_is_not_there(one):
    refused(one.call("run", "--in", "none", "--", "true"), "no sandbox 'none'", "agentfense ls")


def test_a_name_that_is_taken(one):
    one.run("-q", "--name", "box", command="echo x > x")
    refused(one.run("--name", "box", command="true"), "'box' already")
    assert one.run("--in", "box", "-q", command="cat x").out == b"x\n"


def test_a_name_that_could_mean_two(one):
    for name in ("box-a", "box-b"):
        one.run("-q", "--name", name, command="echo x > x")
    refused(one.call("run", "--in", "box", "--", "true"), "box-a, box-b")


@pytest.mark.parametrize("count", [40_000, 1])
def test_arguments_too_long(one, count):
    """Either more words than may be, or one that is too long for the kernel's execve()."""
    words = ["x" * 30] * count if count > 1 else ["x" * 130_000]
    result = one.run("-q", command=["true", *words])
    if count > 1:
        assert result.code in (0, 125, 126), result
    else:
        assert result.code in (0, 126), result
    assert result.err.count("\n") <= 1


def test_the_state_directory_in_the_project(host):
    state = host.base / "deep" / "state"
    before = hash_tree(host.base)
    result = host.run(command=["true"], env={"AGENTFENSE_STATE_DIR": str(state)})
    refused(result, "state directory", "AGENTFENSE_STATE_DIR")
    assert hash_tree(host.base) == before


def test_the_state_directory_behind_a_symlink_in_the_project(one):
    os.symlink(one.base, one.dir / "way")
    refused(one.run(command=["true"], env={"AGENTFENSE_STATE_DIR": f"{one.dir}/way/state"}), "state directory", "AGENTFENSE_STATE_DIR")
    assert not (one.base / "state").exists()


def test_the_whole_host_is_no_project(one):
    refused(one.call("run", "/", "--", "true"), "state directory")


def test_a_project_in_the_state_directory(one):
    one.run("-q", "--name", "box", command="echo x > x")
    result = one.call("run", "-q", one.place("box") / "delta", "--", "true")
    assert result.code in (0, 125)  # of no use, but no harm


@pytest.mark.parametrize("state, word", [("relative", "absolute"), ("/proc/nothing", "state directory")])
def test_a_state_directory_that_cannot_be(one, state, word):
    refused(one.run(command=["true"], env={"AGENTFENSE_STATE_DIR": state}), word)


def test_a_state_directory_that_others_can_write(one):
    one.state.chmod(0o777)
    refused(one.run(command=["true"]), "can be written by others", "chmod")


@needs_root
def test_a_state_directory_of_somebody_else(user):
    other = user.dir / "other"
    other.mkdir(mode=0o755)
    refused(user.run(command=["true"], env={"AGENTFENSE_STATE_DIR": str(other)}), "belongs to uid 0", "AGENTFENSE_STATE_DIR")


@needs_root
def test_no_fuse_device(host):
    if host.as_user:
        pytest.skip("the user's host brings its own")
    refused(without(host, "mount --bind /dev/null /dev/fuse"), "/dev/fuse is not the FUSE device", "agentfense doctor")
    assert host.names() == []


@needs_root
def test_a_fuse_device_that_is_closed(user):
    (user.dir / "fuse").chmod(0o600)
    refused(user.run(command=["true"]), "/dev/fuse is closed to this user (mode 0600)", "chmod 0666 /dev/fuse")
    assert user.names() == []


@needs_root
def test_no_bubblewrap(host):
    refused(without(host, "mount --bind /dev/null /usr/bin/bwrap"), "bubblewrap is not installed")
    assert host.names() == []


@needs_root
def test_no_supervisor(one):
    (one.program.parent / "agentfense-supervisor").unlink()
    refused(one.run(command=["true"]), "agentfense-supervisor", "make install")
    assert one.names() == []


@needs_root
def test_no_init(one):
    (one.program.parent / "agentfense-init").unlink()
    refused(one.run(command=["true"]), "agentfense-init", "make install")
    assert one.names() == []


@needs_root
def test_where_mounting_is_forbidden(host):
    """As in a container without CAP_SYS_ADMIN."""
    words = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-all", host.program, "run", host.base, "--", "true"]
    if host.as_user:
        pytest.skip("a user has no such right to begin with")
    done = subprocess.run(words, capture_output=True, env=host.env(), stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    assert done.returncode == 125
    assert done.stderr.startswith(b"agentfense run: making a namespace for the mount") and done.stderr.count(b"\n") == 1
    assert b"agentfense doctor" in done.stderr
    assert host.names() == []


@needs_root
def test_root_of_a_user_namespace_that_has_no_other_users(one):
    done = subprocess.run(["unshare", "-Ur", one.program, "run", one.base, "--", "true"], capture_output=True, env=one.env(),
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    assert done.returncode == 125
    assert done.stderr.startswith(b"agentfense run: root here has no user") and done.stderr.count(b"\n") == 1
    assert one.names() == []


def test_root_of_a_users_own_namespace_is_an_ordinary_user(user):
    """As in a rootless container."""
    done = subprocess.run(user.words("unshare", "-Ur", user.program, "run", user.base, "--", "cat", "hello.txt"), capture_output=True,
                          env=user.env(), stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done


@needs_root
def test_where_user_namespaces_are_forbidden(user):
    limit = "/proc/sys/user/max_user_namespaces"
    # Only in a user namespace of our own can it be changed for nobody else.
    script = f'echo 0 > {limit} 2>/dev/null || exit 99; exec "$@"'
    done = subprocess.run(user.words("unshare", "-U", "-r", "sh", "-c", script, "sh", user.program, "run", user.base, "--", "true"),
                          capture_output=True, env=user.env(), stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    if done.returncode == 99:
        pytest.skip(f"{limit} cannot be written in a namespace here")
    assert done.returncode == 125
    assert done.stderr.startswith(b"agentfense run: ") and done.stderr.count(b"\n") == 1, done
    assert user.names() == []


# ---- one that runs ----


def test_one_that_runs_is_removed_when_it_is_said_how(host):
    """The refusal names the way, and the way works: also for a command that does not want to end."""
    running = host.start("--name", "busy", "--rule", "/**=write", command="echo x > new; trap '' TERM; echo ready; while :; do sleep 1; done")
    try:
        assert running.stdout.readline() == b"ready\n"
        assert "'agentfense stop busy', or remove it with 'agentfense rm -f busy'" in host.call("rm", "busy").err
        assert "busy" in host.names() and running.poll() is None
        id = host.place("busy").name
        done = host.call("rm", "-f", "busy")
        assert (done.code, done.out.decode()) == (0, f"{id}\n"), done
        assert running.wait(TIMEOUT) != 0 and "busy" not in host.names() and not (host.base / "new").exists()
    finally:
        running.kill()
        running.communicate()
    assert host.settle() == []
    # Stopped by one verb, it is as it was before the command was.
    running = host.start("--name", "busy", "--rule", "/**=write", command="echo x > new; echo ready; while :; do sleep 1; done")
    try:
        assert running.stdout.readline() == b"ready\n"
        id = host.place("busy").name
        done = host.call("stop", "busy")
        assert (done.code, done.out.decode()) == (0, f"{id}\n"), done
        assert running.wait(TIMEOUT) != 0
    finally:
        running.kill()
        running.communicate()
    assert "+x" in host.call("diff", "busy").out.decode()
    done = host.call("rm", "busy")
    assert (done.code, done.out.decode()) == (0, f"{id}\n") and host.names() == [], done
    # One that does not run is removed likewise.
    assert host.run("-q", "--name", "idle", "--rule", "/**=write", command="echo x > new").code == 0
    assert host.call("rm", "-f", "idle").code == 0 and "idle" not in host.names()
