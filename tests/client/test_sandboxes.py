"""The life of a sandbox, its rules, sessions and events, without a server and with one."""

import json
import os
import signal

import pytest

from place import eventually


def test_a_sandbox_lives_and_ends(cli, codebase):
    memory = ["-m", "256M"] if os.geteuid() == 0 else []  # an ordinary user may have no cgroup for it
    made = cli.say("create", "--name", "alive", "--label", "team=blue", *memory, "--pids", "50", "--expires", "2h", "--no-sync",
                   "-e", "COLOUR=red", codebase)
    told = cli.json("inspect", made)
    assert (told["status"], told["labels"]) == ("SANDBOX_STATUS_PENDING", {"team": "blue"}) and told["name"] == "alive"
    assert (told["resources"].get("memoryBytes", "0"), told["resources"]["pidsLimit"]) == ("268435456" if memory else "0", "50")
    assert told["syncOnCompletion"] == "SYNC_MODE_OFF" and told["expiresAt"]
    assert cli.say("start", "alive") == made
    assert cli.say("exec", "alive", "--", "echo $COLOUR; echo x > new") == "red"
    assert cli.json("stop", made)["status"] == "SANDBOX_STATUS_STOPPED"
    for words in (["exec", "alive", "--", "true"], ["exec", "-i", "alive", "--", "true"], ["shell", "alive"], ["session", "open", "alive"]):
        assert "sandbox 'alive' is not running; 'agentfense start alive' starts it\n" in cli.run(*words, code=125).err
    assert "'alive'" in cli.run("create", "--name", "alive", codebase, code=125).err
    cli.run("start", made)
    assert cli.say("exec", made, "--", "cat", "new") == "x"
    assert "new" not in cli.say("codebase", "files", "-q", codebase).split()
    assert "is running" in cli.run("rm", made, code=125).err, "its changes were not reviewed"
    assert cli.say("rm", "-f", made) == made
    assert made not in cli.say("ps", "-q").split()


def test_a_sandbox_whose_changes_have_no_room_goes_by_force_only(make):
    place = make().serve("--codebase-quota=100K")
    codebase = place.say("codebase", "create", "small")
    box = place.say("create", "--preset", "full-access", "--start", codebase)
    place.run("exec", box, "--", "head -c 200000 /dev/zero > work")
    assert "do not fit" in place.run("rm", box, code=125).err
    assert place.say("exec", box, "--", "wc -c < work") == "200000"
    assert place.say("rm", "--force", box) == box
    assert place.say("ps", "-q") == ""
    assert place.run("rm", "--no-such", box, code=2)


def test_processors_are_counted_to_the_last_hundredth(cli, codebase):
    made = cli.say("create", "--cpus", "0.29", codebase)
    assert cli.json("inspect", made)["resources"]["cpuQuota"] == "29000"
    cli.run("rm", made)


def test_the_limits_that_hold_are_told(cli, codebase):
    """Those that nobody asked for, too. One of these that this host cannot enforce is told as such; asked for, it is refused."""
    made = cli.say("create", "--disk", "1G", "--files", "5000", "--pids", "77", codebase)
    try:
        assert cli.json("inspect", made)["resources"]["diskBytes"] == str(1 << 30)
        assert not cli.json("inspect", made).get("limits"), "nothing holds of one that does not run"
        cli.run("start", made)
        held = {limit["name"]: limit for limit in cli.json("inspect", made)["limits"]}
        assert {name: (int(limit["value"]), limit.get("isDefault", False)) for name, limit in held.items() if name != "memory"} == \
            {"disk": (1 << 30, False), "files": (5000, False), "pids": (77, False)}
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        assert held["memory"]["isDefault"] is True and total // 2 < int(held["memory"]["value"]) < total
        assert not any(held[name].get("notEnforced") for name in ("disk", "files", "pids"))
        told = cli.say("inspect", made)
        assert "\nlimit of disk: 1.0 GB\n" in told and "\nlimit of files: 5000\n" in told + "\n" and "\nlimits:" not in told
        other = cli.say("create", "-m", "256M", codebase)
        process = cli.start("start", other)
        process.communicate(timeout=60)
        can_hold = process.returncode == 0
        cli.run("rm", other)
        assert bool(held["memory"].get("notEnforced")) != can_hold
        line = next(line for line in told.splitlines() if line.startswith("limit of memory: "))
        assert line.endswith(" (default)") if can_hold else " (default; not enforced: " in line
        cli.run("stop", made)
        assert not cli.json("inspect", made).get("limits")
    finally:
        cli.run("rm", made)


def test_ls_shows_every_sandbox(cli, codebase, sandbox, made, project):
    lines = [line.split() for line in cli.say("ps").splitlines()]
    assert lines[0] == ["ID", "NAME", "STATUS", "DECISION", "CHANGES", "AGE", "BASE", "REASON"]
    assert [[*line[1:5], line[6]] for line in lines if line[0] in (sandbox, made)] == \
        [["-", "running", "open", "0", codebase], ["-", "running", "open", "0", str(project)]]
    assert cli.say("ps", "-q", "--codebase", codebase, "--status", "running") == sandbox
    assert cli.say("ps", "-q", "--directory", project) == cli.say("ps", "-q", "--owner", "me") == made
    assert cli.say("ps", "-q", "--decision", "rejected") == ""
    assert "is none of open, approved" in cli.run("ps", "--decision", "maybe", code=2).err
    assert cli.say("ps", "-q", "--status", "error") == ""
    assert [one["id"] for one in cli.json("ps", "--codebase", "test")["sandboxes"]] == [sandbox]


def test_beginnings_of_ids_do(cli, sandbox):
    assert cli.say("inspect", "-q", sandbox[:12]) == sandbox
    assert cli.say("inspect", "-q", sandbox[3:12]) == sandbox
    told = cli.say("inspect", sandbox)
    assert f"id: {sandbox}\n" in told and "status: SANDBOX_STATUS_RUNNING\n" in told


def test_last_is_what_was_made_last(cli, sandbox, codebase, project):
    newer = cli.say("create", "--preset", "full-access", "--start", codebase)
    assert cli.json("inspect", "--last")["id"] == newer
    assert cli.run("exec", "--last", "--", "sh", "-c", "echo $0").out == "sh\n" and cli.run("exec", "--last", "echo", "-n", "x").out == "x"
    assert cli.run("rules", "show", "--last", "-q").out == cli.run("rules", "show", "-q", newer).out
    newest = cli.say("create", project, "--no-lock", "--start")
    assert cli.json("inspect", "--last")["id"] == newest
    session = cli.say("session", "open", "--last")
    assert cli.json("inspect", session)["sandboxId"] == newest
    assert cli.say("stop", "--last") == newest
    assert cli.say("rm", "--purge", "--last") == newest
    assert cli.say("rm", "-q", "--last") == newer and cli.json("inspect", "--last")["id"] == sandbox
    assert "this verb takes none" in cli.run("codebase", "ls", "--last", code=2).err


def test_several_are_taken_and_one_that_is_not_there_is_told(cli, codebase):
    made = [cli.say("create", codebase) for _ in range(2)]
    done = cli.run("rm", made[0], "sb_0000000000000000", made[1], code=125)
    assert done.out.split() == made
    assert done.err == "agentfense rm: there is no sandbox 'sb_0000000000000000'; 'agentfense ls' lists them\n"


def test_rules_are_set_shown_and_explained(cli, sandbox):
    assert cli.say("exec", sandbox, "--", "cat README") == "read me"
    assert cli.say("rules", "set", sandbox, "--rule", "**=read", "--rule", "/README=none@50") == sandbox
    assert cli.run("exec", sandbox, "--", "cat README", code=1).err == "cat: README: No such file or directory\n"
    rows = [line.split() for line in cli.say("rules", "show", sandbox).splitlines()]
    assert rows == [["LEVEL", "PRIORITY", "TYPE", "PATTERN"], ["read", "0", "glob", "**"], ["none", "50", "glob", "/README"]]
    assert cli.say("rules", "explain", "-q", sandbox, "README") == "none"
    told = cli.say("rules", "explain", sandbox, "README")
    assert told.startswith("/README: none\n  hidden by ") and "shown only because" not in told
    assert cli.json("rules", "explain", sandbox, "src/a.py")["permission"] == "PERMISSION_READ"
    assert cli.json("rules", "set", sandbox, "--preset", "read-only", "--show-hidden")["id"] == sandbox


@pytest.fixture
def guarded(cli, tmp_path):
    """A sandbox with its preset's rules, over a codebase that has secrets."""
    top = tmp_path / "guarded"
    (top / "keys").mkdir(parents=True)
    (top / "README").write_text("read me\n")
    (top / ".env").write_text("SECRET\n")
    (top / "keys" / "id_rsa").write_text("SECRET\n")
    codebase = cli.say("codebase", "create", f"guarded-{tmp_path.name}", top)
    made = cli.say("create", "--preset", "agent-safe", "--start", codebase)
    yield made
    cli.run("rm", made)
    cli.run("codebase", "rm", codebase)


def levels(cli, sandbox, *paths):
    return [cli.say("rules", "explain", "-q", sandbox, path) for path in paths]


def test_rules_that_would_show_what_was_hidden_are_refused(cli, guarded):
    before = cli.say("rules", "show", guarded)
    for words in (["set", guarded, "--rule", "**=write"], ["set", guarded, "--preset", "full-access"], ["add", guarded, "/.env=read@200"],
                  ["add", guarded, "**/*=read@200"], ["rm", guarded, "**/.env*", "**/*.env"]):
        done = cli.run("rules", *words, code=125)
        assert "would show" in done.err and "/.env" in done.err and "--show-hidden" in done.err, done.err
        assert cli.say("rules", "show", guarded) == before
    assert "/keys/id_rsa" in cli.run("rules", "set", guarded, "--rule", "**=write", code=125).err
    assert cli.run("exec", guarded, "--", "cat .env", code=1).out == ""
    # What is not there yet counts too: by the rule that would have hidden it.
    assert "**/.aws/**" in cli.run("rules", "rm", guarded, "**/.aws/**", code=125).err
    assert cli.say("rules", "set", guarded, "--rule", "**=write", "--show-hidden") == guarded
    assert cli.say("exec", guarded, "--", "cat .env") == "SECRET"


def test_rules_are_added_and_removed_one_by_one(cli, guarded):
    count = len(cli.say("rules", "show", guarded).splitlines())
    assert cli.say("rules", "add", guarded, "/docs/**=write", "/README=none@50") == guarded
    assert levels(cli, guarded, "docs/x", "README", ".env", "src/x") == ["write", "none", "none", "read"]
    assert len(cli.say("rules", "show", guarded).splitlines()) == count + 2
    assert "no rule '/nothing'" in cli.run("rules", "rm", guarded, "/docs/**", "/nothing", code=125).err
    assert cli.say("rules", "rm", guarded, "/docs/**") == guarded
    assert levels(cli, guarded, "docs/x", ".env") == ["read", "none"]
    assert "/README" in cli.run("rules", "rm", guarded, "/README", code=125).err
    assert cli.say("rules", "rm", "--show-hidden", guarded, "/README") == guarded
    assert len(cli.say("rules", "show", guarded).splitlines()) == count
    # A preset that hides more, or the same, needs no word; and what is hidden by other rules stays so.
    assert cli.say("rules", "set", guarded, "--preset", "agent-safe", "--rule", "/src/**=none") == guarded
    assert cli.say("rules", "set", guarded, "--preset", "agent-safe", "--rule", "/s*/**=none@1") == guarded
    for words in (["add", guarded], ["rm", guarded], ["add", guarded, "nonsense"]):
        cli.run("rules", *words, code=2)


def test_a_preset_and_a_policy_file_come_together(cli, codebase, tmp_path):
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\nrules:\n  - pattern: /src/**\n    permission: none\n    priority: 500\n")
    made = cli.say("create", "--preset", "read-only", "--policy", policy, "--start", codebase)
    assert cli.run("exec", made, "--", "ls src", code=2).err
    assert cli.say("exec", made, "--", "cat README") == "read me"
    cli.run("rm", made)


def test_a_session_remembers(cli, sandbox):
    session = cli.say("session", "open", sandbox, "-e", "A=1", "-w", "src")
    assert session.startswith("sess_")
    cli.run("session", "exec", session, "--", "cd deep; B=2")
    assert cli.say("session", "exec", session[:11], "--", 'echo "$PWD $A $B"') == "/workspace/src/deep 1 2"
    assert cli.say("session", "exec", session, "--", "printf", "%s|", "a b", "c") == "a b|c|"
    cli.run("session", "exec", session, "--", "false", code=1)
    assert cli.json("session", "exec", session, "--", "echo $B")["stdout"] == "2\n"
    assert "timed out" in cli.run("session", "exec", "-t", "200ms", session, "--", "sleep 20", code=124).err
    assert cli.say("session", "ls", "-q", sandbox) == session
    assert [line.split()[:2] for line in cli.say("session", "ls", sandbox).splitlines()[1:]] == [[session, "active"]]
    assert cli.json("inspect", session)["sandboxId"] == sandbox
    assert cli.say("session", "close", session) == session
    assert "session not found" in cli.run("session", "exec", session, "--", "true", code=125).err


def test_events_are_told_the_oldest_first(cli, sandbox):
    cli.run("exec", sandbox, "--", "exit 3", code=3)
    events = eventually(lambda: [e for e in cli.json("events", sandbox)["events"]
                                 if e["type"] == "command_executed"] and cli.json("logs", sandbox)["events"])
    assert [event["type"] for event in events] == ["sandbox_created", "sandbox_started", "command_executed"]
    assert json.loads(events[2]["payload"])["exit_code"] == 3
    assert cli.say("events", "-q", "--type", "command_executed", sandbox) == events[2]["sequence"]
    assert cli.say("events", sandbox).splitlines()[0].split() == ["TIME", "TYPE", "OF", "PAYLOAD"]
    assert cli.say("events", "-q", sandbox, "--since", "2020-01-01T00:00:00Z").split() == [e["sequence"] for e in events]
    assert cli.say("events", "-q", sandbox, "--since", "2200-01-01T00:00:00Z") == ""


def test_events_are_followed_until_interrupted(make, tree):
    place = make().serve()
    codebase = place.say("codebase", "create", "followed", tree)
    follower = place.start("events", "--follow", "--json")
    try:
        assert json.loads(follower.stdout.readline())["type"] == "codebase_created"
        assert json.loads(follower.stdout.readline())["type"] == "archive_uploaded"
        place.run("create", codebase)
        assert json.loads(follower.stdout.readline())["type"] == "sandbox_created"
        follower.send_signal(signal.SIGINT)
        rest, errors = follower.communicate(timeout=60)
        assert (follower.returncode, rest, errors) == (128 + signal.SIGINT, b"", b"")
    finally:
        if follower.poll() is None:
            follower.kill()
        follower.communicate()


def test_status_tells_what_there_is(cli, sandbox):
    told = cli.json("status")
    assert (told["health"]["status"], told["remote"], told["sandboxes"]["running"]) == ("healthy", cli.is_remote, 1)
    assert told["codebases"] >= 1
    lines = cli.say("status").splitlines()
    assert lines[0] == (f"server: {cli.url}" if cli.is_remote else "server: the private server (it ends a few seconds after the last command)")
    assert "sandboxes: 0 pending, 1 running, 0 stopped, 0 error" in lines
    assert cli.say("status", "-q") == ""
