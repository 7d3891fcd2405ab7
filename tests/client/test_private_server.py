"""The server that verbs start for themselves: who starts it, who shares it, when it ends, and what is said when it cannot serve."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from place import Place, eventually

LINGER = 5  # see LINGER_NS in src/server/private.c
OTHER = {"AGENTFENSE_CODEBASE_VERSIONS": "3"}  # a setting that differs from the default


@pytest.fixture
def place(make):
    return make()


def servers(place):
    """The process numbers of all private servers that have this state."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == b"private-server\0" and str(place.state).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def holding(place, sandbox):
    """A command that runs in the sandbox, and so a verb that keeps the private server."""
    holder = place.start("exec", "-t", "10m", sandbox, "--", "echo begun; sleep 1000")
    try:
        assert holder.stdout.readline() == b"begun\n"
        yield holder
    finally:
        if holder.poll() is None:
            holder.send_signal(signal.SIGINT)
        holder.communicate(timeout=60)


@pytest.fixture
def sandbox(place, tree):
    place.run("codebase", "create", "test", tree)
    return place.say("create", "--preset", "full-access", "--start", "test")


def test_verbs_share_one_that_ends_by_itself(place):
    place.run("ps")
    first = place.private_pid()
    assert servers(place) == [first]
    place.run("codebase", "ls")
    assert place.private_pid() == first
    began = time.monotonic()
    eventually(lambda: not servers(place))
    assert LINGER / 2 < time.monotonic() - began < 10 * LINGER
    assert sorted(os.listdir(place.state / "private")) == ["log"]
    assert not place.supervisors()


def test_it_is_in_nobodys_terminal_and_in_nobodys_way(place, sandbox):
    """A Ctrl-C at the terminal reaches every process of the foreground group: the verb ends, and the server does not."""
    pid = place.private_pid()
    assert os.getsid(pid) == pid != os.getsid(0)
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert {os.readlink(f"/proc/{pid}/fd/{n}") for n in (0, 1)} == {"/dev/null"}
    assert os.readlink(f"/proc/{pid}/fd/2") == str(place.state / "private" / "log")
    with holding(place, sandbox) as holder:
        os.kill(holder.pid, signal.SIGINT)
        holder.communicate(timeout=60)
        assert holder.returncode == 128 + signal.SIGINT
    assert place.private_pid() == pid


def test_many_that_start_at_once_share_one(place):
    verbs = [place.start("codebase", "create", f"c{n}") for n in range(12)]
    for verb in verbs:
        assert verb.communicate(timeout=120)[1] == b"" and verb.returncode == 0
    assert len(servers(place)) == 1
    assert len(place.json("codebase", "ls")["codebases"]) == 12


def test_verbs_run_beside_a_long_one(place, sandbox):
    with holding(place, sandbox):
        assert place.json("ps")["sandboxes"][0]["id"] == sandbox
        time.sleep(LINGER + 1)
        assert len(servers(place)) == 1


def test_only_its_owner_reaches_it(place):
    place.run("ps")
    private = place.state / "private"
    assert private.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in private.iterdir()} == {0o600}
    place.end_private()
    private.chmod(0o755)
    assert "mode 0755" in place.run("ps", code=125).err
    private.chmod(0o700)
    place.run("ps")


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of other processes: needs root")
def test_a_process_in_another_pid_namespace_is_not_served(place):
    place.run("ps")
    asked = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "curl", "-s", "--unix-socket", place.state / "private/http",
                            "http://localhost/v1/sandboxes"], capture_output=True, timeout=60)
    assert b"token is needed" in asked.stdout, asked
    refused = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", place.program, "ps"], capture_output=True, timeout=60,
                             env=place.environment())
    assert refused.returncode in (0, 125), refused  # it may start one of its own; it never joins ours
    assert b"" == refused.stdout or refused.returncode == 0


FAKE = """
import fcntl, os, socket, sys
os.chdir(sys.argv[1])
held = open("server-lock")
fcntl.flock(held, fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind("private/lifeline")
listener.listen()
print("listening", flush=True)
while True:
    client = listener.accept()[0]
    client.recv(1000)
    client.sendall(b"ready\\n")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of other processes: needs root")
@pytest.mark.parametrize("is_other_user", [False, True], ids=["another-namespace", "another-user"])
def test_a_server_that_is_not_ours_is_told_nothing(place, is_other_user):
    """Whatever got into the directory: what listens there must be a process of this user, in these namespaces."""
    place.run("ps")
    place.end_private()
    # The kernel names the user who called listen(2).
    script = FAKE.replace("listener.listen()", "os.setresuid(1, 1, 1)\nlistener.listen()") if is_other_user else FAKE
    wrapper = [] if is_other_user else ["unshare", "--pid", "--fork"]
    fake = subprocess.Popen([*wrapper, sys.executable, "-c", script, place.state], stdout=subprocess.PIPE)
    try:
        assert fake.stdout.readline() == b"listening\n"
        error = place.run("ps", code=125).err
        assert ("belongs to another user" if is_other_user else "our namespaces") in error
    finally:
        for pid in {fake.pid, *children(fake.pid)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        fake.communicate()
        (place.state / "private" / "lifeline").unlink()


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_other_settings_get_another_server(place, sandbox):
    place.run("ps")
    first = place.private_pid()
    place.run("ps", env=OTHER)
    assert place.private_pid() != first
    eventually(lambda: len(servers(place)) == 1)
    with holding(place, sandbox):
        refusal = place.run("ps", env=OTHER, code=125).err
        assert "with other settings" in refusal and "agentfense serve" in refusal


def test_another_environment_is_shared_only_while_it_must_be(place, sandbox):
    place.run("ps")
    first = place.private_pid()
    place.run("ps", env={"PWD": "/elsewhere"})
    assert place.private_pid() == first
    place.run("ps", env={"SOME_KEY": "1"})
    second = place.private_pid()
    assert second != first
    place.run("ps", env={"SOME_KEY": "1"}, umask=0o077)
    assert place.private_pid() != second
    with holding(place, sandbox):
        third = place.private_pid()
        place.run("ps", env={"SOME_KEY": "2"})
        assert place.private_pid() == third


def test_a_token_for_other_servers_does_not_matter(place):
    assert place.json("ps", env={"AGENTFENSE_TOKEN": "for-another"})["sandboxes"] == []


@pytest.mark.parametrize("level", ["debug", "info", "error"])
def test_it_serves_however_little_it_logs(place, level):
    place.run("ps", env={"AGENTFENSE_LOGGING_LEVEL": level})
    log = (place.state / "private" / "log").read_text()
    assert ("listening" in log) == (level == "debug"), log


def test_a_server_takes_over_when_nobody_uses_it(place):
    place.run("codebase", "create", "kept")
    began = time.monotonic()
    place.serve()
    assert not servers(place)
    assert [one["name"] for one in place.json("codebase", "ls")["codebases"]] == ["kept"]
    assert time.monotonic() - began < WAIT_FOR_SERVER
    # What is not told of the server finds it: it holds the state.
    url, place.url = place.url, None
    assert place.json("status", env={"AGENTFENSE_SERVER_HTTP_ADDR": place.address})["server"] == url


WAIT_FOR_SERVER = 60


def test_a_server_says_so_when_commands_use_it(place, sandbox):
    with holding(place, sandbox):
        refused = place.run("serve", "--server-http-addr=127.0.0.1:0", "--server-grpc-addr=", code=125)
        assert "commands that run now use the sandboxes" in refused.err and "end them" in refused.err


def test_what_was_acknowledged_survives_kill_9(place, sandbox):
    place.run("exec", sandbox, "--", "echo kept > kept.txt")
    with holding(place, sandbox) as holder:
        os.kill(place.private_pid(), signal.SIGKILL)
        errors = holder.communicate(timeout=60)[1].decode()
        assert holder.returncode == 125 and "the private server ended" in errors and "private/log" in errors, errors
    # The sockets of the dead one are still there.
    assert (place.state / "private" / "lifeline").exists()
    assert place.say("exec", sandbox, "--", "cat kept.txt") == "kept"
    assert place.json("ps")["sandboxes"][0]["status"] == "SANDBOX_STATUS_RUNNING"


def test_one_that_is_told_to_end_is_replaced(place):
    for _ in range(5):
        place.run("ps")
        os.kill(place.private_pid(), signal.SIGTERM)
    assert place.json("ps")["sandboxes"] == []


def test_something_else_in_the_place_of_its_socket(place):
    place.run("ps")
    place.end_private()
    private = place.state / "private"
    (private / "lifeline").write_text("not a socket")
    assert "is no socket" in place.run("ps", code=125).err
    (private / "lifeline").unlink()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(private / "lifeline"))
    place.run("ps")


def test_a_start_that_fails_says_why(place, tmp_path):
    missing = tmp_path / "missing"
    error = place.run("ps", env={"AGENTFENSE_WORKSPACE_HOOKS": str(missing)}, code=125).err
    assert str(missing) in error and "No such file" in error
    place.run("ps")


def test_one_that_dies_while_it_starts_is_quoted(place, agentfense, tmp_path):
    """A program that is not whole: the error has what it printed."""
    build = agentfense.parents[2]
    copy = tmp_path / "bin"
    copy.mkdir()
    for found in ("src/cli/agentfense", "src/cli/agentfense-client"):
        if not (build / found).exists():
            pytest.skip("not in a build tree")
        shutil.copy(build / found, copy)
    (copy / "agentfense-server").write_text("#!/bin/sh\necho cannot load libsomething >&2\nexit 127\n")
    (copy / "agentfense-server").chmod(0o755)
    broken = Place(copy / "agentfense", False)
    try:
        error = broken.run("ps", code=125).err
        assert "cannot load libsomething" in error and str(broken.state / "private" / "log") in error
    finally:
        broken.remove()


def test_a_state_directory_with_a_long_name(place):
    place.state = place.top / ("long" * 30) / "state"
    place.run("codebase", "create", "far")
    assert place.private_pid()
    assert [one["name"] for one in place.json("codebase", "ls")["codebases"]] == ["far"]


def test_an_interrupted_start_leaves_nothing_running(place):
    verb = place.start("ps")
    verb.send_signal(signal.SIGINT)
    verb.communicate(timeout=60)
    place.run("ps")
    eventually(lambda: not servers(place))
