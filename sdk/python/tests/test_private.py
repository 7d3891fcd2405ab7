"""Without any set-up: a server of one's own, that is gone when its process is, however that ends."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap

import pytest
from conftest import DEFAULT_ENDPOINT, HAS_OWN_NETWORK, HERE, PROGRAMS, WAIT, eventually, processes

# A network where nobody answers at the default endpoint; who may not have one has another default.
DEFAULT = DEFAULT_ENDPOINT if HAS_OWN_NETWORK else "localhost:1"
ALONE = f"""
if {HAS_OWN_NETWORK}:
    import own_network
    own_network.enter()
else:
    import agentfense._private, agentfense._rpc
    agentfense._private.DEFAULT_ENDPOINT = agentfense._rpc.DEFAULT_ENDPOINT = {DEFAULT!r}
"""


def program(text, tmp_path, **environment):
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{HERE.parent}:{HERE}", "TMPDIR": str(tmp_path), "HOME": str(tmp_path), **environment}
    return subprocess.Popen(
        [sys.executable, "-B", "-u", "-c", ALONE + textwrap.dedent(text)],
        cwd=tmp_path, env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def place():
    """A directory for everything, short enough for sockets; afterwards there is nothing but the project in it."""
    with tempfile.TemporaryDirectory(prefix="af-sdk-") as name:
        top = pathlib.Path(name)
        (top / "project").mkdir()
        (top / "project" / "a.txt").write_text("a")
        yield top
        eventually(lambda: os.listdir(top) == ["project"])
        eventually(lambda: not processes(name))


def outcome(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_from_local_just_works(place):
    process = program(
        """
        from agentfense import Sandbox, SandboxClient
        with Sandbox.from_local("project") as sandbox:
            print(sandbox.run("cat a.txt").stdout, sandbox.endpoint.startswith("unix:"))
            print(len(SandboxClient().list_sandboxes()))
        with Sandbox.from_local("project") as again:
            print(again.endpoint == sandbox.endpoint)
        """,
        place,
    )
    assert outcome(process) == "a True\n1\nTrue\n"
    assert os.listdir(place) == ["project"]  # at once: an ordinary end waits for it


def test_the_event_loop_may_begin_it_too(place):
    process = program(
        """
        import asyncio
        from agentfense import AsyncSandbox
        async def one():
            async with await AsyncSandbox.from_local("project") as sandbox:
                return sandbox.endpoint, (await sandbox.run("cat a.txt")).stdout
        async def main():
            ends = await asyncio.gather(*(one() for _ in range(5)))
            print(len({end[0] for end in ends}), [end[1] for end in ends])
        asyncio.run(main())
        """,
        place,
    )
    assert outcome(process) == "1 ['a', 'a', 'a', 'a', 'a']\n"


def test_sandboxes_that_were_forgotten_go_too(place):
    process = program(
        """
        from agentfense import Sandbox
        sandbox = Sandbox.from_local("project")
        sandbox.exec_stream("sleep 1000")
        print(sandbox.run("echo runs").stdout)
        """,
        place,
    )
    assert outcome(process) == "runs\n\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_goes_when_its_process_is_killed(place, number):
    process = program(
        """
        from agentfense import Sandbox
        sandbox = Sandbox.from_local("project")
        print("here")
        input()
        """,
        place,
    )
    assert process.stdout.readline() == "here\n"
    assert processes("agentfense-supervisor", str(place)) and processes("serve", str(place))
    process.send_signal(number)
    process.communicate(timeout=120)


def test_a_forked_child_leaves_it_to_its_parent(place):
    process = program(
        """
        import os, sys
        from agentfense import Sandbox
        sandbox = Sandbox.from_local("project")
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
        print(sandbox.run("cat a.txt").stdout)
        """,
        place,
    )
    assert outcome(process) == "a\n"


def test_it_can_be_switched_off(place):
    text = """
        import agentfense
        try:
            agentfense.Sandbox.from_local("project")
        except agentfense.ConnectionError as error:
            print(error.endpoint)
        """
    assert outcome(program(text, place, AGENTFENSE_AUTOSTART="0")) == f"{DEFAULT}\n"
    assert outcome(program(text, place, PATH="/usr/bin:/bin")) == f"{DEFAULT}\n"
    for make in ('Sandbox.from_local("project")', 'Workspace.from_scope("project")'):
        said = text.replace('Sandbox.from_local("project")', make).replace("print(error.endpoint)", "print(error)")
        assert "AGENTFENSE_AUTOSTART says so" in outcome(program(said, place, AGENTFENSE_AUTOSTART="0"))
        assert "no program 'agentfense' was found in PATH" in outcome(program(said, place, PATH="/usr/bin:/bin"))
        assert "'/no/such' of AGENTFENSE_BINARY" in outcome(program(said, place, AGENTFENSE_BINARY="/no/such"))
    assert outcome(program(text, place, AGENTFENSE_ENDPOINT="localhost:2")) == "localhost:2\n"


def test_the_program_may_be_named(place):
    text = """
        from agentfense import Sandbox
        with Sandbox.from_local("project") as sandbox:
            print(sandbox.run("cat a.txt").stdout)
        """
    assert outcome(program(text, place, PATH="/usr/bin:/bin", AGENTFENSE_BINARY=str(PROGRAMS / "agentfense"))) == "a\n"


def test_what_else_listens_there_is_no_server_of_ours(make_server, monkeypatch):
    from agentfense import _private
    from agentfense._private import _answers

    monkeypatch.setattr(_private, "PROBE_SECONDS", 0.5)
    with socket.socket() as other:
        other.bind(("localhost", 0))
        assert not _answers(f"localhost:{other.getsockname()[1]}")
        other.listen()
        assert not _answers(f"localhost:{other.getsockname()[1]}")
    monkeypatch.setattr(_private, "PROBE_SECONDS", WAIT)
    assert not _answers(make_server("--server-require-token=true").endpoint)
    assert _answers(make_server().endpoint)


def test_commands_ignore_no_signals(place):
    process = program(
        """
        from agentfense import Sandbox
        with Sandbox.from_local("project") as sandbox:
            print(sandbox.run("grep SigIgn /proc/self/status").stdout.split()[1])
        """,
        place,
    )
    assert int(outcome(process), 16) == 0


def test_why_it_did_not_start_is_told(place):
    fake = pathlib.Path(place, "project", "agentfense")
    fake.write_text("#!/bin/sh\necho no room for me >&2\nexit 1\n")
    fake.chmod(0o755)
    process = program(
        """
        import agentfense
        try:
            agentfense.Sandbox.from_local("project")
        except agentfense.ConnectionError as error:
            print(error.details)
        """,
        place,
        AGENTFENSE_BINARY=str(fake),
    )
    assert outcome(process) == "no room for me\n"
