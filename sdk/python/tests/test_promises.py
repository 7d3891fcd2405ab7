"""What the documents promise, in real sandboxes."""

import os
from datetime import timedelta

import agentfense
import pytest
from agentfense import ResourceLimits, Sandbox, SandboxStatus
from conftest import eventually

pytestmark = pytest.mark.usefixtures("server")

PROBES = [
    "cat {}", "ls {}", "stat {}", "test -e {}", "test -f {}", "find . -name '{name}' | grep .", "grep -r tell-nobody . ", "head -c1 {}",
    "ls -A $(dirname {}) | grep -x '{name}'", "cp {} output/stolen", "ln {} output/link", "mv {} output/moved", ": >> {}", "rm {}",
    "python3 -c 'open(\"{}\")'", "python3 -c 'import os; os.stat(\"{}\")'", "cat $(dirname {})/../{}", "tar cf - {} 2>/dev/null | grep tell",
]  # fmt: skip


@pytest.fixture(params=["agent-safe", "development"])
def guarded(request, project):
    (project / "deploy").mkdir()
    (project / "deploy/tls.pem").write_text("tell-nobody")
    with Sandbox.from_local(project, preset=request.param) as sandbox:
        yield sandbox


@pytest.mark.parametrize("path", ["secrets/private.key", ".env.local", "deploy/tls.pem"])
def test_a_secret_does_not_exist_however_one_looks(guarded, path):
    for probe in PROBES:
        command = probe.replace("{name}", os.path.basename(path)).replace("{}", path)
        result = guarded.run(f"mkdir -p output; {command}")
        assert not result.success, command
        assert "tell-nobody" not in result.output, command
    assert "tell-nobody" in guarded.read_file(path)  # the codebase still has it


def test_a_secret_is_told_from_nothing_by_nothing(project):
    with Sandbox.from_local(project) as sandbox:
        there = sandbox.run("cat secrets/private.key; stat secrets; ls secrets; rm -f secrets/private.key; mkdir secrets")
        absent = sandbox.run("cat sekrets/private.key; stat sekrets; ls sekrets; rm -f sekrets/private.key; mkdir secrets")
        assert there.stderr.replace("secrets", "sekrets") == absent.stderr.replace("secrets", "sekrets")


def test_output_is_writable_and_source_is_not(project):
    with Sandbox.from_local(project) as sandbox:
        assert sandbox.run("echo result > /workspace/output/r.txt").success
        assert sandbox.read_file("/workspace/output/r.txt") == "result\n"
        for command in ("echo x > app.py", "echo x >> src/main.py", "rm app.py", "mv app.py output/", "touch new", "chmod +x app.py"):
            result = sandbox.run(command)
            assert not result.success and "denied" in result.stderr, command
        assert sandbox.run("cat app.py").stdout == "print('hello')  # TODO: more\n"


def test_view_lists_names_and_sizes(project):
    with Sandbox.from_local(project, preset="view-only") as sandbox:
        assert sandbox.run("ls -l metadata").stdout.count("\n") == 3
        assert sandbox.run("stat -c %s app.py").stdout == f"{len((project / 'app.py').read_text())}\n"
        assert "Permission denied" in sandbox.run("cat app.py").stderr


def test_two_sandboxes_share_a_codebase(project):
    with Sandbox.from_local(project, preset="full-access") as first:
        with Sandbox.from_codebase(first.codebase_id, preset="agent-safe") as second:
            first.run("echo changed > app.py")
            assert second.run("cat app.py").stdout == "changed\n"
            assert not second.run("echo mine > app.py").success
            assert second.run("echo mine > output/mine").success
            assert first.run("cat output/mine").stdout == "mine\n"
        assert first.run("true").success  # the end of one is not the other's
        first.refresh()
        assert first.status == SandboxStatus.RUNNING


def test_changes_stay_apart_without_sync(project):
    with Sandbox.from_local(project, preset="full-access", sync_on_completion=False) as first:
        with Sandbox.from_codebase(first.codebase_id, preset="full-access", sync_on_completion=False) as second:
            first.run("echo A > output.txt")
            second.run("echo B > output.txt")
            assert (first.run("cat output.txt").stdout, second.run("cat output.txt").stdout) == ("A\n", "B\n")
        assert "output.txt" not in first.list_files()


def test_a_session_remembers(project):
    with Sandbox.from_local(project) as sandbox, sandbox.session(env={"GREETING": "hello"}) as session:
        session.exec("cd src; export X=1; f() { echo f$1; }; sleep 100 &")
        result = session.exec("pwd; echo $X $GREETING; f 2; jobs -p | wc -l")
        assert result.stdout == "/workspace/src\n1 hello\nf2\n1\n"
        assert session.exec("printf abc").stdout == "abc" and session.exec("false").exit_code == 1
        with pytest.raises(agentfense.CommandTimeoutError) as caught:
            session.exec("sleep 60", timeout=0.3)
        assert (caught.value.command, caught.value.timeout_seconds) == ("sleep 60", 0.3)
        assert session.exec("pwd").stdout == "/workspace/src\n"
        session.exec("exit 3")
        with pytest.raises(agentfense.SessionError):
            session.exec("true")


def test_no_network(project, server):
    with Sandbox.from_local(project) as sandbox:
        code = "import socket; socket.create_connection(('1.1.1.1', 53), 3)"
        assert not sandbox.run(f'python3 -c "{code}"').success
        code = f"import socket; socket.create_connection(('localhost', {server.port}), 3)"
        assert not sandbox.run(f'python3 -c "{code}"').success


def test_the_environment_is_not_the_server_s(project):
    with Sandbox.from_local(project, env={"ALL": "yes"}) as sandbox:
        result = sandbox.run("env", env={"ONE": "1"})
        assert "ONE=1\n" in result.stdout and "ALL=yes\n" in result.stdout and "AGENTFENSE_STATE_DIR" not in result.stdout


def test_input_directory_and_both_outputs(project):
    with Sandbox.from_local(project) as sandbox:
        result = sandbox.exec("cat; pwd; echo err >&2; exit 7", stdin="in\n", workdir="src")
        assert (result.stdout, result.stderr, result.exit_code) == ("in\n/workspace/src\n", "err\n", 7)
        assert result.output == "in\n/workspace/src\n\nerr\n" and not result.success and result.duration > timedelta(0)
        assert sandbox.exec("wc -c", stdin=b"\xff\x00\xfe").stdout == "3\n"
        assert sandbox.run("printf '\\377'").stdout == "\ufffd"


def test_output_comes_while_it_runs(project):
    with Sandbox.from_local(project) as sandbox:
        stream = sandbox.exec_stream("echo one; while ! test -e output/go; do sleep 0.05; done; echo two; exit 5")
        assert next(stream) == b"one\n"
        sandbox.run("touch output/go")
        assert b"".join(stream) == b"two\n" and stream.exit_code == 5
        stream = sandbox.exec_stream("printf '\\377'; echo err >&2; exit 5")
        assert sorted(b"".join(stream)) == sorted(b"\xfferr\n") and stream.exit_code == 5
        with pytest.raises(agentfense.CommandTimeoutError) as caught:
            list(sandbox.exec_stream("sleep 60", timeout=0.3))
        assert caught.value.command == "sleep 60"


def test_leaving_a_stream_kills_its_command(project):
    with Sandbox.from_local(project) as sandbox:

        def sleeps():
            return "sleep 1234 " in sandbox.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout

        with sandbox.exec_stream("echo begun; exec sleep 1234", timeout=500) as stream:
            next(stream)
            eventually(sleeps)
        eventually(lambda: not sleeps())


def test_a_timeout_names_the_command_and_keeps_what_was_written(project):
    with Sandbox.from_local(project) as sandbox:
        for seconds in (0.5, 5, 50):  # on a busy machine the command may need longer to write
            with pytest.raises(TimeoutError) as caught:
                sandbox.run("echo kept > output/kept; sleep 300", timeout=timedelta(seconds=seconds))
            error = caught.value
            assert (error.command, error.timeout_seconds, error.reason) == (
                "echo kept > output/kept; sleep 300", seconds, "COMMAND_TIMED_OUT"
            )  # fmt: skip
            if "output/kept" in sandbox.list_files("output"):
                break
        assert sandbox.read_file("output/kept") == "kept\n"


def limited(project, **limits):
    try:
        return Sandbox.from_local(project, resources=ResourceLimits(**limits))
    except agentfense.SandboxStartError as error:
        pytest.skip(f"this host has no such limit: {error.details}")


def test_memory_has_a_limit(project):
    with limited(project, memory_bytes=64 << 20) as sandbox:
        assert sandbox.info.resources.memory_bytes == 64 << 20
        with pytest.raises(agentfense.ResourceLimitExceededError) as caught:
            sandbox.run("exec python3 -c 'x = bytearray(512 << 20); print(len(x))'", raise_on_error=True)
        assert isinstance(caught.value, agentfense.CommandExecutionError) and "memory" in caught.value.resource_type
        assert sandbox.run("echo alive").stdout == "alive\n"


def test_processes_have_a_limit(project):
    with limited(project, pids_limit=20) as sandbox:
        result = sandbox.run("for i in $(seq 50); do sleep 5 & done")
        assert "fork" in result.stderr.lower() or "resource" in result.stderr.lower()


def test_disk_has_a_limit(project):
    with Sandbox.from_local(project, resources={"disk_bytes": 1 << 20}) as sandbox:
        result = sandbox.run("head -c 4000000 /dev/zero > output/big")
        assert not result.success and "No space left" in result.stderr


def test_errors_of_commands_are_raised_on_request(project):
    with Sandbox.from_local(project) as sandbox:
        assert sandbox.run("exit 3").exit_code == 3
        with pytest.raises(agentfense.CommandExecutionError) as caught:
            sandbox.run("echo out; echo err >&2; exit 3", raise_on_error=True)
        assert (caught.value.exit_code, caught.value.stdout, caught.value.stderr) == (3, "out\n", "err\n")
        with pytest.raises(agentfense.PermissionDeniedError):
            sandbox.run("echo x > app.py", raise_on_error=True)


def test_rules_can_change_while_it_runs(project, client):
    with Sandbox.from_local(project) as sandbox:
        assert not sandbox.run("echo x > app.py").success
        client.update_permissions(sandbox.id, [{"pattern": "/app.py", "permission": "write"}], preset="agent-safe")
        assert sandbox.run("echo x > app.py").success
        assert "app.py" in str(sandbox.explain("/workspace/app.py").rule)


def test_only_the_given_rules_hold(project):
    with Sandbox.from_local(project, permissions=[{"pattern": "**/*.md", "permission": "read"}]) as sandbox:
        assert sandbox.run("find . -type f | sort").stdout == "./README.md\n./docs/guide.md\n"
    with Sandbox.from_local(project, permissions=[]) as sandbox:
        assert sandbox.run("ls -A").stdout == ""
    with Sandbox.from_local(project, preset="read-only", permissions=[{"pattern": "/docs/**", "permission": "none"}]) as sandbox:
        assert "docs" not in sandbox.run("ls").stdout and sandbox.run("cat app.py").success


def test_refusals_are_told(project):
    with Sandbox.from_local(project) as sandbox:
        sandbox.run("cat secrets/private.key; echo x > app.py")

        def told(type, key):
            return {event.payload[key] for event in sandbox.events(type)}

        eventually(lambda: {"/workspace/secrets", "/workspace/app.py"} <= told("permission_denied", "path"))
        eventually(lambda: told("command_executed", "command") == {"cat secrets/private.key; echo x > app.py"})


def test_a_sandbox_expires(project, client):
    with Sandbox.from_local(project, expires_in=3600, labels={"team": "red"}) as sandbox:
        assert sandbox.info.expires_at and sandbox.info.labels == {"team": "red"}
