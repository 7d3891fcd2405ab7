"""Workspaces from the command line: made, worked in and collected, without a server and with one; also by the other name of the program."""

import json
import re
import socket
import subprocess

import pytest
from place import WAIT


def uuid_of(sandbox):
    """The spelling of its id that /api/v1 uses."""
    digits = sandbox.removeprefix("sb_")
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15]}00-000000000000"


def test_it_is_found_by_its_id_in_any_spelling(cli, made, project):
    for word in (made, made[:11], made[3:11], uuid_of(made)):
        assert cli.say("inspect", "-q", word) == made
    short = made[:11]
    assert f"directory: {project}\n" in cli.run("inspect", short).out
    assert cli.say("stop", short) == made and cli.json("inspect", made)["status"] == "SANDBOX_STATUS_STOPPED"
    assert cli.json("start", short)["status"] == "SANDBOX_STATUS_RUNNING"
    assert "there is no sandbox 'sb_00000000'" in cli.run("inspect", "sb_00000000", code=125).err


def test_the_limits_that_hold_are_told(cli, made):
    held = {limit["name"]: limit for limit in cli.json("inspect", made)["limits"]}
    assert {name for name, limit in held.items() if limit.get("isDefault")} == {"memory", "pids", "files"}, "the server's settings say the disk"
    assert int(held["disk"]["value"]) > 0 and int(held["memory"]["value"]) > 0 and held["files"]["value"] == "1000000" and \
        held["pids"]["value"] == "1024"
    assert not held["disk"].get("notEnforced") and not held["pids"].get("notEnforced")
    assert "\nlimit of files: 1000000 (default)\n" in cli.run("inspect", made).out
    cli.run("stop", made)
    assert not cli.json("inspect", made).get("limits") and "limit of" not in cli.run("inspect", made).out


def test_it_is_found_by_its_name(cli, project):
    made = cli.say("create", str(project), "--no-lock", "--name", "fix-login", "--tag", "one", "--tag", "two", "--start")
    told = cli.json("inspect", "fix-login")
    assert told["id"] == made and told["name"] == "fix-login" and told["tags"] == ["one", "two"]
    row = next(line for line in cli.run("ps").out.splitlines() if made in line)
    assert row.split()[1] == "fix-login"
    cli.run("exec", "fix-login", "--", "echo new > by-name")
    assert "+new" in cli.run("diff", "fix-login").out
    assert "neither a sandbox nor a codebase 'fix-log'" in cli.run("inspect", "fix-log", code=125).err
    assert "fix-login" in cli.run("create", str(project), "--no-lock", "--name", "fix-login", code=125).err
    for wrong in ("", "sb_0123456789abcdef", "a/b"):
        assert "name" in cli.run("create", str(project), "--no-lock", "--name", wrong, code=2).err
    assert "--tag" in cli.run("create", str(project), "--no-lock", "--tag", "", code=2).err
    cli.run("approve", "-a", made)
    assert (project / "by-name").read_text() == "new\n"
    cli.run("rm", "-f", made)


def test_one_that_runs_is_removed_by_force_only(cli, project):
    made = cli.say("create", project, "--start")
    told = cli.run("rm", made, code=125).err
    assert f"sandbox '{made}' is running: stop it with 'agentfense stop {made}', or remove it with 'agentfense rm -f {made}'\n" in told
    assert cli.say("exec", made, "--", "echo alive") == "alive"
    cli.run("stop", made)
    assert cli.say("rm", made) == made
    assert cli.say("ps", "-q", "--status", "deleted", "--directory", project) == made
    assert cli.say("rm", "--purge", made) == made
    assert "not there any more" in cli.run("restore", made, code=1).err


def test_a_base_is_one(cli, codebase, project):
    for words in ([project, "--codebase", codebase], ["--codebase", codebase, "--no-lock"], [project, "--sync"], []):
        cli.run("create", *words, code=2)
    assert "neither a directory here nor a codebase" in cli.run("create", "no-such", code=125).err
    made = cli.say("create", "--codebase", codebase)
    assert cli.json("inspect", made)["codebaseId"] == codebase
    cli.run("rm", made)


def test_a_command_has_its_output_and_its_exit_code(cli, made):
    done = cli.run("exec", "-i", "-e", "A=b", "-w", "src", made, "--", "sh", "-c", "cat; echo $A; echo e >&2; exit 7", code=7, input=b"in\n")
    assert (done.out, done.err) == ("in\nb\n", "e\n")
    assert cli.json("exec", made, "--", "exit 3", code=3)["exitCode"] == 3
    assert cli.run("exec", "-t", "1s", made, "--", "sleep 60", code=124)


@pytest.mark.parametrize("over", ["made", "sandbox"])
def test_processes_in_the_background_have_logs(cli, over, request):
    made = request.getfixturevalue(over)
    process = cli.say("exec", "-d", "--name", "x", made, "--", "echo one; exec sleep 600")
    assert process.startswith("pr_")
    assert process in cli.say("process", "list", "-q", made)
    shown = next(line for line in cli.run("processes", made).out.splitlines() if line.startswith(process))
    assert shown.split()[1] == "x" and shown.endswith("  echo one; exec sleep 600")  # as it was typed
    other = cli.say("process", "start", "--max-files", "100", made, "--", "sh", "-c", "echo one; echo two; ulimit -n; exit 4")
    assert cli.run("logs", "-f", "--pid", other, made).out == cli.run("process", "logs", made, other).out == "one\ntwo\n100\n"
    assert cli.run("process", "logs", made, other, "--tail", "1").out == "100\n"
    assert "exit 4" in cli.run("process", "list", made).out
    assert [one["id"] for one in cli.json("process", "list", "--running", made)["processes"]] == [process]
    assert f"'agentfense process list {made}' lists them" in cli.run("kill", made, "pr_0123456789abcdef", code=125).err
    cli.run("process", "kill", made, code=2)
    assert cli.json("process", "kill", made, "--all")["killed"] == 1
    assert "neither a --timeout nor" in cli.run("exec", "-d", "-t", "5s", made, "--", "true", code=2).err


def test_a_command_has_limits_and_conditions(cli, made):
    assert cli.say("exec", "--max-files", "77", made, "--", "ulimit -n") == "77"
    assert "--json" in cli.run("exec", "--json", "--max-files", "77", made, "--", "true", code=2).err
    assert "has no network" in cli.run("exec", "--network", made, "--", "true", code=125).err
    assert "has not the profile 'agent'" in cli.run("exec", "--profile", "agent", made, "--", "true", code=125).err


def test_prune_removes_what_is_over(cli, project):
    workspace = cli.say("create", "--scope", project)
    cli.run("reject", workspace)
    assert cli.run("prune", "--older-than", "24h").out.startswith("removed 0 sandboxes with ")
    assert workspace in cli.say("prune", "-q", "-n", "--older-than", "0s")
    told = cli.json("gc", "--older-than", "0s")
    assert [item["sandboxId"] for item in told["sandboxes"]].count(workspace) == 1 and not told.get("dryRun")
    assert workspace not in cli.say("ps", "-wq") and workspace in cli.say("ps", "-wq", "--status", "deleted")
    assert "'agentfense prune --trash 0s' frees them" in cli.run("prune", "-n", "--older-than", "24h").out
    assert cli.json("restore", workspace)["status"] == "SANDBOX_STATUS_STOPPED" and workspace in cli.say("ps", "-wq")
    cli.run("rm", "--purge", workspace)
    assert "not there any more" in cli.run("restore", workspace, code=1).err


def test_reserved_paths_are_kept_apart(cli, made, project):
    done = cli.run("create", "--scope", project, code=125)
    assert made in done.err or "reserve" in done.err
    other = cli.say("create", "--scope", project, "--no-lock", "--rule", "/src=read", "--preset", "read-only")
    assert "Permission denied" in cli.run("exec", other, "--", "echo x > n.txt", code=2).err
    cli.run("rm", "-f", other)


# ---- what is wrong, and what to do ----


def test_what_is_not_active_is_told_how_to_be(cli, made):
    cli.run("stop", made)
    assert f"'agentfense start {made}' starts it" in cli.run("exec", made, "--", "true", code=125).err
    cli.run("reject", made)
    assert f"'agentfense restore {made}'" in cli.run("approve", made, "--all", code=1).err


def test_remedies_are_in_the_words_of_the_verbs(cli, made, project):
    told = cli.run("create", "--scope", project, code=125).err
    assert "--no-lock" in told and "noLock" not in told
    assert "there are full" in cli.run("create", "--scope", project, "--no-lock", "--profile", "zzz", code=2).err
    told = cli.run("create", "--scope", project, "--no-lock", "--driver", "zzz", code=2).err
    assert "'zzz'" in told and "/api/" not in told
    told = cli.run("logs", "--pid", "pr_zzz", made, code=125).err
    assert "agentfense process list" in told and "'pr_zzz'" in told
    gone = "00000000-0000-4000-8000-000000000000"
    assert "agentfense ls" in cli.run("diff", gone, code=125).err
    cli.run("exec", made, "--", "echo x > new.txt")
    told = cli.run("undo", made, "ap_zzz", code=125).err
    assert "'ap_zzz' is no approval" in told and f"'agentfense undo {made} --list'" in told


def test_words_that_are_off_are_named(cli, made, project):
    assert "--scope is empty" in cli.run("create", "--scope", "", code=2).err
    assert "--project '/nosuch'" in cli.run("pending", "--project", "/nosuch", code=125).err
    assert "--project '/nosuch'" in cli.run("commit", "--project", "/nosuch", code=125).err
    told = cli.run("prune", "-n", "--older-than", "soon", code=2).err
    assert "--older-than" in told and "soon" in told and "maxAge" not in told
    assert "one word too many: 'surplus'" in cli.run("conflicts", made, "surplus", code=2).err


def test_the_status_counts_every_sandbox_and_its_disk(cli, made):
    cli.run("exec", made, "--", "head -c 100000 /dev/zero > big")
    told = cli.json("status", "--disk")
    assert told["sandboxes"]["running"] >= 1 and any(one["sandboxId"] == made and int(one["diskBytes"]) >= 100000
                                                     for one in told["disk"]["sandboxes"])
    shown = cli.run("status", "--disk").out
    assert re.search(r"^sandboxes: \d+ pending, [1-9]\d* running, ", shown, re.M) and made in shown
    assert "when they were last measured" in cli.run("status").out


# ---- by the other name ----


@pytest.fixture
def tool(cli):
    link = cli.top / "workspace-sandbox"
    if not link.exists():
        link.symlink_to(cli.program)

    def run(*words, code=0, env=None):
        environment = cli.environment(**(env or {}))
        done = subprocess.run([link, *map(str, words)], capture_output=True, text=True, env=environment, timeout=WAIT,
                              stdin=subprocess.DEVNULL, cwd=cli.top)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def test_short_options_of_the_other_name_with_an_equals_sign(cli, tool, project):
    made = tool("create", f"-s={project / 'src'}", f"-p={project}", "-o=bob=x", "-r=src/deep").stdout.strip()
    found = json.loads(tool("inspect", made, "--json").stdout)
    assert found["directory"] == str(project / "src") and found["projectRoot"] == str(project) and found["creator"] == "bob=x"
    assert found["reservedPaths"] == [str(project / "src" / "deep")]
    assert tool("exec", made, "--", "echo", "-s=x").stdout == "-s=x\n"
    assert "--scope is empty" in tool("create", "-s=", f"-p={project}", code=2).stderr
    tool("exec", made, "--", "echo changed > new.txt")
    tool("diff", made)
    subprocess.run(["git", "init", "-q", project], check=True)
    tool("approve", made, "--commit", "-m=one two")
    log = subprocess.run(["git", "-C", project, "log", "-1", "--format=%s"], capture_output=True, text=True, check=True)
    assert log.stdout == "one two\n"
    tool("delete", "-f", made)


def test_the_other_name_has_the_words_of_the_tool(cli, tool, project):
    made = tool("create", f"--scope={project}", "--owner", "bob", "--reserved-paths=src,old.txt").stdout.strip()
    assert json.loads(tool("list", "--owner=bob", "--json").stdout)["sandboxes"][0]["id"] == made
    assert tool("exec", made[:11], "--timeout=30", "--env=A=b", "--", "echo $A; exit 5", code=5).stdout == "b\n"
    assert tool("exec", made, "--timeout", "1", "--", "sleep", "60", code=124)
    assert "--host-mount" in tool("workspace", made, code=125).stderr
    process = json.loads(tool("run", made, "--name=x", "--json", "--", "echo hello").stdout)
    assert tool("logs", made, f"--pid={process['id']}", "--follow").stdout == "hello\n"
    tool("kill", made, f"--pid={process['pid']}")
    tool("exec", made, "--", "echo changed > old.txt")
    assert "+changed" in tool("diff", made, "--raw").stdout
    assert tool("conflicts", made).returncode == 0
    tool("approve", made)
    assert (project / "old.txt").read_text() == "changed\n"
    assert json.loads(tool("gc-preview", "--max-age=0s", "--json").stdout)["dryRun"] is True
    assert tool("gc", "--older-than", "24h").stdout.startswith("removed 0 sandboxes")
    assert json.loads(tool("driver-info").stdout)
    tool("stop", made, code=125)
    tool("delete", "-f", made)
    assert tool("no-such", code=2).stderr == "workspace-sandbox: unknown command 'no-such'; 'workspace-sandbox help' lists them\n"
    assert "unknown command 'lst'; did you mean 'list'? 'workspace-sandbox help'" in tool("lst", code=2).stderr
    assert tool("version").stdout.startswith("workspace-sandbox ")


def test_the_other_name_has_terminals(cli, tool, project):
    made = tool("create", f"--scope={project}").stdout.strip()
    try:
        link = cli.top / "workspace-sandbox"
        done = subprocess.run([link, "shell", made], input="echo from $((40 + 2))\n", capture_output=True, text=True, env=cli.environment(), timeout=WAIT,
                              cwd=cli.top)
        assert done.returncode == 0 and "from 42" in done.stdout, done
        assert tool("attach", made, "pr_none", code=125).stderr.startswith("workspace-sandbox attach: ")
        assert "shell" in tool("help").stdout and "attach" in tool("help").stdout
    finally:
        tool("delete", "-f", made)


def test_the_other_name_is_coloured_when_told(cli, tool, project):
    made = tool("create", f"--scope={project}").stdout.strip()
    tool("exec", made, "--", "echo new > old.txt")
    assert "\033[32m+new" in tool("--color", "diff", made).stdout
    assert "\033" not in tool("--no-color", "diff", made).stdout and "\033" not in tool("diff", made).stdout
    tool("delete", "-f", made)


def test_the_other_name_is_what_errors_begin_with(cli, tool):
    assert tool("list", "--status", "nonsense", code=2).stderr.startswith("workspace-sandbox list: ")
    assert tool("delete", "no-such", code=125).stderr.startswith("workspace-sandbox delete: ")


def test_a_request_may_take_as_long_as_is_said(cli, tool):
    assert "AGENTFENSE_HTTP_TIMEOUT" in tool("list", code=2, env={"WORKSPACE_SANDBOX_HTTP_TIMEOUT": "soon"}).stderr
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for given in ("1", "500ms"):
            told = tool("--api-base", base, "list", code=125, env={"WORKSPACE_SANDBOX_HTTP_TIMEOUT": given}).stderr
            assert "timed out" in told, told


def test_the_other_name_has_its_own_settings(cli, tool):
    tool("configure", "api_base", "http://localhost:1/api/v1/")
    tool("configure", "token", "secret")
    config = cli.top / ".config" / "agentfense" / "workspace-sandbox.json"
    try:
        assert config.stat().st_mode & 0o777 == 0o600
        assert json.loads(tool("configure").stdout) == {"api_base": "http://localhost:1/api/v1/", "token": True}
        assert "http://localhost:1:" in tool("list", code=125).stderr
        assert "http://localhost:2:" in tool("list", code=125, env={"WORKSPACE_SANDBOX_API_BASE": "http://localhost:2/api/v1"}).stderr
        assert "http://localhost:3:" in tool("--api-base", "http://localhost:3", "list", code=125).stderr
    finally:
        config.unlink()
    if cli.is_remote:
        url = {"AGENTFENSE_URL": "", "WORKSPACE_SANDBOX_API_URL": cli.url + "/api/v1"}
        assert "sandboxes" in json.loads(tool("list", "--json", env=url).stdout)
