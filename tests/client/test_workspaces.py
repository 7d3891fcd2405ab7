"""Workspaces from the command line: made, worked in, reviewed and collected, without a server and with one."""

import fcntl
import json
import os
import pty
import re
import select
import socket
import subprocess
import termios

import pytest
from place import WAIT

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHANGE = "sed -i '2s/.*/two/; 30s/.*/thirty/' n.txt; rm old.txt; echo new > src/new.py"


@pytest.fixture
def project(tmp_path):
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "n.txt").write_text(NUMBERS)
    (top / "old.txt").write_text("old\n")
    (top / "src" / "app.py").write_text("print(1)\n")
    return top


@pytest.fixture
def made(cli, project):
    workspace = cli.say("create", "--scope", project, "--preset", "full-access", "--owner", "me")
    assert UUID.fullmatch(workspace)
    yield workspace
    cli.run("rm", workspace)


@pytest.fixture
def changed(cli, made):
    cli.run("exec", made, "--", CHANGE)
    return made


def on_terminal(cli, words, answers, env=None):
    """A verb on a terminal of its own: what it prints, and its exit code. Each answer is given when it asks."""
    master, slave = pty.openpty()
    child = subprocess.Popen([cli.program, *map(str, words)], stdin=slave, stdout=slave, stderr=slave, cwd=cli.top,
                             env=cli.environment(TERM="xterm", **(env or {})), start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    out, asked = b"", 0
    try:
        while True:
            ready, _, _ = select.select([master], [], [], WAIT)
            assert ready, out
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            out += piece
            while asked < len(answers) and out.count(b"]? ") > asked:
                os.write(master, answers[asked].encode())
                asked += 1
        return out.decode(), child.wait(WAIT)
    finally:
        os.close(master)
        if child.poll() is None:
            child.kill()
            child.wait()


def test_it_is_found_by_the_beginning_of_its_id(cli, made, project):
    short = made[:8]
    assert cli.say("ps", "-wq").splitlines().count(made) == 1
    row = next(line for line in cli.run("ps", "-w").out.splitlines() if made in line)
    assert row.split()[1:4] == ["-", "active", "me"] and str(project) in row
    assert f"scopePath: {project}\n" in cli.run("inspect", short).out
    assert cli.say("stop", short) == made and cli.json("inspect", made)["status"] == "stopped"
    assert cli.json("start", short)["status"] == "active"
    assert made not in cli.say("ps", "-q")
    assert "no workspace" in cli.run("diff", "00000000", code=125).err
    assert cli.run("diff", "no-such-thing", code=125).err == \
        "agentfense diff: there is no sandbox or workspace 'no-such-thing'; 'agentfense ls' and 'agentfense ps -w' list them\n"


def test_the_limits_that_hold_are_told(cli, made):
    held = {limit["name"]: limit for limit in cli.json("inspect", made)["limits"]}
    assert {name for name, limit in held.items() if limit["isDefault"]} == {"memory", "pids", "files"}, "the server's settings say the disk"
    assert held["disk"]["value"] > 0 and held["memory"]["value"] > 0 and held["files"]["value"] == 1000000 and \
        held["pids"]["value"] == 1024
    assert "notEnforced" not in held["disk"] and "notEnforced" not in held["pids"]
    assert "\nlimit of files: 1000000 (default)\n" in cli.run("inspect", made).out
    cli.run("stop", made)
    assert "limits" not in cli.json("inspect", made) and "limit of" not in cli.run("inspect", made).out


def test_it_is_found_by_its_name(cli, project):
    made = cli.say("create", "--scope", str(project), "--no-lock", "--name", "fix-login", "--tag", "one", "--tag", "two")
    told = cli.json("inspect", "fix-login")
    assert told["id"] == made and told["metadata"] == {"name": "fix-login"} and told["tags"] == ["one", "two"]
    row = next(line for line in cli.run("ps", "-w").out.splitlines() if made in line)
    assert row.split()[1] == "fix-login"
    cli.run("exec", "fix-login", "--", "echo new > by-name")
    assert "+new" in cli.run("diff", "fix-login").out
    assert "no sandbox" in cli.run("diff", "fix-log", code=125).err
    other = cli.say("create", "--scope", str(project), "--no-lock", "--name", "fix-login")
    told = cli.run("inspect", "fix-login", code=125).err
    assert "may be any of 2 workspaces" in told and made in told and other in told
    for wrong in ("", "00ff", "abc-def", "sb_x"):
        assert "--name" in cli.run("create", "--scope", str(project), "--no-lock", "--name", wrong, code=2).err
    assert "--tag" in cli.run("create", "--scope", str(project), "--no-lock", "--tag", "", code=2).err
    cli.run("approve", "-a", made)
    assert (project / "by-name").read_text() == "new\n"
    cli.run("rm", "-f", made, other)


def test_a_command_has_its_output_and_its_exit_code(cli, made):
    done = cli.run("exec", "-i", "-e", "A=b", "-w", "src", made, "--", "sh", "-c", "cat; echo $A; echo e >&2; exit 7", code=7, input=b"in\n")
    assert (done.out, done.err) == ("in\nb\n", "e\n")
    assert cli.json("exec", made, "--", "exit 3", code=3)["exitCode"] == 3
    assert cli.run("exec", "-t", "1s", made, "--", "sleep 60", code=124)


def test_processes_in_the_background_have_logs(cli, made):
    process = cli.say("exec", "-d", "--name", "x", made, "--", "echo one; read x; sleep 600")
    assert process.startswith("pr_")
    assert process in cli.say("processes", "-q", made)
    shown = next(line for line in cli.run("processes", made).out.splitlines() if line.startswith(process))
    assert shown.split()[1] == "x" and shown.endswith("  echo one; read x; sleep 600")  # as it was typed
    other = cli.say("exec", "-d", made, "--", "echo one; echo two; exit 4")
    assert cli.run("logs", "-f", "--pid", other, made).out == "one\ntwo\n"
    assert cli.run("logs", "--pid", other, "--tail", "1", made).out == "two\n"
    assert other in cli.run("logs", made).out
    assert "exit 4" in cli.run("processes", made).out
    cli.run("kill", made, other.replace("pr_", "x/"), code=2)
    assert cli.json("kill", made, "--all")["killed"] >= 1


def test_the_diff_in_all_its_forms(cli, changed, project, tmp_path):
    text = cli.run("diff", changed[:8]).out
    assert text.startswith("diff --git a/n.txt b/n.txt\n") and "\033" not in text
    assert "-2\n+two\n" in text and "deleted file mode 100644" in text and "+++ b/src/new.py" in text
    assert cli.run("diff", changed, "src").out.count("diff --git") == 1
    assert cli.run("diff", changed, "--name-only").out == "n.txt\nold.txt\nsrc/new.py\n"
    assert cli.run("diff", changed, "--stat").out.endswith(" 3 files changed, 3 insertions(+), 3 deletions(-)\n")
    told = cli.json("diff", changed)
    assert [file["projectPath"] for file in told["files"]] == ["n.txt", "old.txt", "src/new.py"]
    assert told["diffHash"] and len(told["files"][0]["hunks"]) == 2
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", project, copy], check=True)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=cli.run("diff", changed, "--patch").stdout, check=True)
    assert (copy / "n.txt").read_text() == NUMBERS.replace("2\n", "two\n", 1).replace("30\n", "thirty\n", 1)
    assert not (copy / "old.txt").exists()
    assert cli.run("diff", changed, "nothing/here", code=2).err.endswith("'nothing/here' has no changes\n")


def test_colours_are_for_terminals(cli, changed):
    text, code = on_terminal(cli, ["diff", changed], [])
    assert code == 0 and "\033[32m+two\033[0m" in text and "\033[31m-2\033[0m" in text
    plain, _ = on_terminal(cli, ["diff", changed], [], {"NO_COLOR": "1"})
    assert "\033" not in plain and "+two" in plain


def test_what_is_hostile_is_shown_escaped(cli, made):
    cli.run("exec", made, "--", r"""printf 'a\033[31mred\r\n\302\233 \342\200\256x\n' > bad.txt; touch "$(printf 'n\033]0;t\007\nm')" """)
    for words in (["diff", made], ["diff", made, "--stat"], ["diff", made, "--name-only"]):
        out = cli.run(*words).stdout
        assert b"\033" not in out and b"\007" not in out and b"\xc2\x9b" not in out and b"\xe2\x80\xae" not in out
        assert b"\\x1b" in out or b"\\033" in out
    cli.run("diff", made, "--json")
    text, code = on_terminal(cli, ["approve", "-p", made], ["n\n", "n\n"], {"NO_COLOR": "1"})
    assert code == 0 and "\033" not in text and "\x9b" not in text and "\u202e" not in text and "nothing was chosen" in text


def test_approving_what_was_not_shown_is_refused(cli, changed, project):
    done = cli.run("approve", changed, code=1)
    assert "n.txt" in done.err and f"agentfense diff {changed[:8]}" in done.err
    assert cli.json("approve", changed, code=1)["details"]["reason"] == "DIFF_NOT_SERVED"
    assert (project / "n.txt").read_text() == NUMBERS
    cli.run("diff", changed)
    assert "would apply 3 files\n" in cli.run("approve", "-n", changed).out
    assert (project / "old.txt").exists()
    cli.run("approve", changed)
    assert not (project / "old.txt").exists() and (project / "src" / "new.py").read_text() == "new\n"
    assert cli.json("inspect", changed)["status"] == "approved"


def test_what_is_only_counted_was_not_shown(cli, changed, project):
    for words in (["--stat"], ["--name-only"], ["-q"]):
        cli.run("diff", changed, *words)
        assert cli.json("approve", changed, code=1)["details"]["reason"] == "DIFF_NOT_SERVED"
    assert "would apply 3 files" in cli.run("approve", "-n", "--all", changed).out
    for last in ("q\n", "\x04"):
        text, _ = on_terminal(cli, ["approve", "-p", changed], [last])
        assert "(1/4) Approve this hunk" in text
        assert cli.json("approve", changed, code=1)["details"]["reason"] == "DIFF_NOT_SERVED"
    cli.run("diff", changed, "--stat", "--json")
    cli.run("approve", changed)


def test_a_dry_run_says_what_it_would_do(cli, changed):
    cli.run("diff", changed)
    told = cli.run("approve", "-n", changed, "src").out
    assert "  would apply: src/new.py\n" in told and "applied" not in told
    assert "is empty" in cli.run("diff", changed, "", code=2).err
    assert "is empty" in cli.run("approve", changed, "", code=2).err


def test_a_rename_is_asked_about_as_a_whole(cli, made, project):
    cli.run("exec", made, "--", "mv n.txt moved.txt; sed -i '2s/.*/two/; 30s/.*/thirty/' moved.txt")
    text, code = on_terminal(cli, ["approve", "-p", made], ["y\n"], {"NO_COLOR": "1"})
    assert code == 0 and "(1/1) Approve this change" in text and "renamed n.txt -> moved.txt" in text, text
    assert "+two" in text and "+thirty" in text
    assert not (project / "n.txt").exists() and "thirty\n" in (project / "moved.txt").read_text()


def test_what_changes_meanwhile_is_asked_about_again(make, project):
    cli = make()
    cli.serve()
    made = cli.say("create", "--scope", project, "--preset", "full-access")
    cli.run("exec", made, "--", CHANGE)

    class Meanwhile(list):
        """The agent goes on when the last of the first questions is answered."""

        def __getitem__(self, at):
            if at == 3:
                cli.run("exec", made, "--", "echo newer > src/new.py; echo other > unseen.txt")
            return super().__getitem__(at)

    text, code = on_terminal(cli, ["approve", "-p", made], Meanwhile(["y\n", "n\n", "y\n", "y\n", "y\n"]), {"NO_COLOR": "1"})
    assert code == 0 and "src/new.py has changed since you saw it" in text and "(1/1) Approve this hunk" in text, text
    assert (project / "src/new.py").read_text() == "newer\n" and not (project / "old.txt").exists()
    assert (project / "n.txt").read_text() == NUMBERS.replace("2\n", "two\n", 1)
    assert not (project / "unseen.txt").exists()
    assert "unseen.txt" in cli.run("approve", made, code=1).err


def test_sizes_before_and_after(cli, made, project):
    (project / "picture").write_bytes(b"\0" * 100)
    cli.run("exec", made, "--", "head -c 50 /dev/zero > picture")
    assert " picture | Bin 100 -> 50 bytes\n" in cli.run("diff", made, "--stat").out


def test_many_files_come_at_once(cli, made, project):
    cli.run("exec", made, "--", "mkdir many; for n in $(seq 2300); do echo $n > many/$n; done")
    assert cli.run("diff", made).out.count("diff --git") == 2300
    assert len(cli.run("diff", made, "--name-only").out.splitlines()) == 2300
    assert " 2300 files changed, 2300 insertions(+)\n" in cli.run("diff", made, "--stat").out
    assert cli.run("diff", made, "--patch").stdout.count(b"diff --git") == 2300
    assert "would apply 2300 files" in cli.run("approve", "-n", made).out


def test_all_is_what_there_is_now_and_files_leave_the_rest(cli, changed, project):
    cli.run("diff", changed)
    assert cli.run("approve", changed, "src").out == \
        f"  applied: src/new.py\napplied 1 file; 2 files stay in the workspace\nto take it back: agentfense undo {changed[:8]}\n"
    assert (project / "old.txt").exists()
    cli.run("exec", changed, "--", "echo more > more.txt")
    assert cli.json("approve", changed, "--all")["applied"] == 3
    assert (project / "more.txt").exists() and not (project / "old.txt").exists()


def test_hunks_are_chosen_on_a_terminal(cli, changed, project):
    text, code = on_terminal(cli, ["approve", "-p", changed[:8]], ["?\n", "n\n", "y\n", "k\n", "k\n", "j\n", "j\n", "n\n", "q\n"])
    assert code == 0, text
    assert "y - approve this" in text and "(was: yes)" in text and "(1/4) Approve this hunk" in text
    assert "1 of 2 hunks" in text
    assert (project / "n.txt").read_text() == NUMBERS.replace("30\n", "thirty\n", 1)
    assert (project / "old.txt").exists() and not (project / "src" / "new.py").exists()
    rest = cli.run("diff", changed).out
    assert "+two" in rest and "+thirty" not in rest and "new.py" in rest
    assert "took back 1 path" in cli.run("undo", changed).out
    assert (project / "n.txt").read_text() == NUMBERS


@pytest.mark.parametrize("last", ["\x04", "\x03"], ids=["end of input", "ctrl-c"])
def test_without_an_answer_nothing_is_written(cli, changed, project, last):
    text, code = on_terminal(cli, ["approve", "-p", changed], ["y\n", last])
    assert code != 0, text
    assert (project / "n.txt").read_text() == NUMBERS


def test_discard_and_reject(cli, changed, project):
    assert cli.run("discard", changed, "n.txt", "src").out == "discarded the changes of 2 files; 1 stay\n"
    assert cli.run("diff", changed, "--name-only").out == "old.txt\n"
    assert cli.run("exec", changed, "--", "sed -n 2p n.txt; ls src").out == "2\napp.py\n"
    assert cli.say("reject", changed) == changed
    assert cli.json("inspect", changed)["status"] == "rejected" and (project / "old.txt").exists()
    assert cli.run("approve", changed, "--all", code=1)


def test_what_would_stop_it_wants_consent(cli, project):
    """On overlayfs a file that a process has open cannot be given up beneath it."""
    if os.geteuid() != 0:
        pytest.skip("overlayfs needs root")
    workspace = cli.say("create", "--scope", project, "--preset", "full-access", "--driver", "overlayfs")
    process = cli.say("exec", "-d", workspace, "--", "exec 3>>old.txt; echo more >&3; sleep 600")
    cli.run("exec", workspace, "--", "until grep -q more old.txt; do sleep 0.1; done")
    done = cli.run("discard", workspace, "old.txt", code=1)
    assert "--stop" in done.err and "running" in cli.run("processes", workspace).out, done.err
    assert cli.run("discard", workspace, "old.txt", "--stop").out.startswith("discarded the changes of 1 file")
    assert cli.run("exec", workspace, "--", "cat old.txt").out == "old\n" and process in cli.say("processes", "-q", workspace)
    assert "running" not in cli.run("processes", workspace).out
    cli.run("rm", workspace)


def test_conflicts_rebase_and_warnings(cli, made, project):
    cli.run("exec", made, "--", "sed -i '2s/.*/two/' n.txt; echo x > .envrc")
    (project / "n.txt").write_text(NUMBERS.replace("2\n", "TWO\n", 1).replace("40\n", "40\n41\n"))
    assert "  conflict: n.txt" in cli.run("conflicts", made, code=1).out
    cli.run("diff", made)
    done = cli.run("approve", made, "n.txt", code=1)
    assert "conflict: n.txt" in done.err
    assert "--acknowledge" in cli.run("approve", made, ".envrc", code=1).err
    assert cli.json("rebase", made, "--strategy", "ours")["success"] is True
    assert cli.json("conflicts", made)["conflictingFiles"] == []
    assert cli.json("approve", made, "--all", "--acknowledge")["applied"] == 1
    assert (project / ".envrc").exists() and "TWO\n" in (project / "n.txt").read_text()


def test_commits_and_where_a_file_comes_from(cli, changed, project):
    def git(*words):
        return subprocess.run(["git", "-C", project, *words], check=True, capture_output=True, text=True).stdout

    git("init", "-q"), git("config", "user.name", "n"), git("config", "user.email", "m@x"), git("add", "-A"), git("commit", "-qm", "one")
    (project / "mine.txt").write_text("mine\n")
    git("add", "mine.txt")
    assert "-m is the message" in cli.run("approve", changed, "--all", "-m", "x", code=2).err
    cli.run("approve", changed, "--all")
    assert cli.say("pending", "-q", "--project", project) == changed
    assert "would commit 3 files\n" in cli.run("commit", "-n", changed).out
    assert cli.run("commit", changed, "-m", "from the agent").out.startswith("committed 3 files: ")
    assert git("log", "-1", "--format=%s").strip() == "from the agent" and "mine.txt" in git("diff", "--cached", "--name-only")
    assert cli.say("pending", "-q", "--project", project) == ""
    assert git("rev-parse", "HEAD").strip() in cli.run("provenance", project / "n.txt").out


def test_gc_takes_what_is_over(cli, project):
    workspace = cli.say("create", "--scope", project)
    cli.run("reject", workspace)
    assert cli.run("gc", "--older-than", "24h").out.startswith("removed 0 workspaces\n")
    assert workspace in cli.say("gc", "-q", "-n", "--older-than", "0s")
    told = cli.json("gc", "--older-than", "0s")
    assert [item["id"] for item in told["collected"]].count(workspace) == 1 and told["dryRun"] is False
    assert workspace not in cli.say("ps", "-wq") and workspace in cli.say("ps", "-wq", "--status", "deleted")
    assert " in the trash, " in cli.run("gc", "-n", "--older-than", "24h").out
    assert cli.json("restore", workspace)["status"] == "stopped" and workspace in cli.say("ps", "-wq")
    cli.run("rm", "--purge", workspace)
    assert "not there any more" in cli.run("restore", workspace, code=1).err


HOOKS = [{"name": "tests", "command": "/bin/sh", "args": ["-c", "cat old.txt; printf '\\033[2J'; grep -q good old.txt"]}]


def test_hooks_are_run_and_told(cli, project, tmp_path):
    behavior = tmp_path / "behavior.json"
    behavior.write_text(json.dumps({"hooks": HOOKS}))
    workspace = cli.say("create", "--scope", project, "--behavior", behavior, "--profile", "full")
    cli.run("exec", workspace, "--", "echo bad > old.txt")
    cli.run("diff", workspace)
    done = cli.run("approve", workspace, code=1)
    assert "hook tests: failed" in done.err and "  | bad\n" in done.err and "\x1b" not in done.err
    assert "hook tests: failed" in cli.run("approve", "-n", "--verify", workspace, code=1).err
    assert "would apply 1 file" in cli.run("approve", "-n", workspace).out
    assert "--dry-run" in cli.run("approve", "--verify", workspace, code=2).err
    cli.run("exec", workspace, "--", "echo good > old.txt")
    cli.run("diff", workspace)
    assert "hook tests: passed" in cli.run("approve", workspace).out
    cli.run("rm", workspace)


def test_reserved_paths_are_kept_apart(cli, made, project):
    done = cli.run("create", "--scope", project, code=125)
    assert made in done.err or "reserve" in done.err
    other = cli.say("create", "--scope", project, "--no-lock", "--rule", "/src=read", "--preset", "read-only")
    assert "Permission denied" in cli.run("exec", other, "--", "echo x > n.txt", code=2).err
    cli.run("rm", other)


# ---- what is wrong, and what to do ----


def test_what_is_not_active_is_told_how_to_be(cli, made):
    cli.run("stop", made)
    assert f"'agentfense start {made[:8]}' starts it" in cli.run("exec", made, "--", "true", code=125).err
    cli.run("reject", made)
    assert f"'agentfense restore {made[:8]}'" in cli.run("approve", made, "--all", code=1).err


def test_remedies_are_in_the_words_of_the_verbs(cli, made, project):
    told = cli.run("create", "--scope", project, code=125).err
    assert "--no-lock" in told and "noLock" not in told and "agentfense ps -w" in told
    assert "there are full" in cli.run("create", "--scope", project, "--no-lock", "--profile", "zzz", code=2).err
    told = cli.run("create", "--scope", project, "--no-lock", "--driver", "zzz", code=2).err
    assert "fence, overlayfs and copy" in told and "/api/" not in told
    told = cli.run("logs", "--pid", "pr_zzz", made, code=125).err
    assert "agentfense processes" in told and "'pr_zzz'" in told
    gone = "00000000-0000-4000-8000-000000000000"
    assert "agentfense ps -w" in cli.run("diff", gone, code=125).err
    cli.run("exec", made, "--", "echo x > new.txt")
    told = cli.run("undo", made, "ap_zzz", code=125).err
    assert "'ap_zzz' is no approval" in told and "agentfense events" in told


def test_words_that_are_off_are_named(cli, made, project):
    assert "--scope is empty" in cli.run("create", "--scope", "", code=2).err
    assert "--project '/nosuch'" in cli.run("pending", "--project", "/nosuch", code=125).err
    assert "--project '/nosuch'" in cli.run("commit", "--project", "/nosuch", code=125).err
    told = cli.run("gc", "-n", "--older-than", "soon", code=2).err
    assert "--older-than" in told and "soon" in told and "maxAge" not in told
    assert "one word too many: 'surplus'" in cli.run("conflicts", made, "surplus", code=2).err


def test_the_status_counts_workspaces(cli, made):
    assert cli.json("status")["workspaces"]["active"] >= 1
    assert re.search(r"^workspaces: [1-9]\d* active, ", cli.run("status").out, re.M)


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
    assert found["scopePath"] == str(project / "src") and found["projectRoot"] == str(project) and found["owner"] == "bob=x"
    assert found["reservedPaths"] == [str(project / "src" / "deep")]
    assert tool("exec", made, "--", "echo", "-s=x").stdout == "-s=x\n"
    assert "--scope is empty" in tool("create", "-s=", f"-p={project}", code=2).stderr
    tool("exec", made, "--", "echo changed > new.txt")
    tool("diff", made)
    subprocess.run(["git", "init", "-q", project], check=True)
    tool("approve", made, "--commit", "-m=one two")
    log = subprocess.run(["git", "-C", project, "log", "-1", "--format=%s"], capture_output=True, text=True, check=True)
    assert log.stdout == "one two\n"
    tool("delete", made)


def test_the_other_name_has_the_words_of_the_tool(cli, tool, project):
    made = tool("create", f"--scope={project}", "--owner", "bob", "--reserved-paths=src,old.txt").stdout.strip()
    assert json.loads(tool("list", "--owner=bob", "--json").stdout)["sandboxes"][0]["id"] == made
    assert tool("exec", made[:8], "--timeout=30", "--env=A=b", "--", "echo $A; exit 5", code=5).stdout == "b\n"
    assert tool("exec", made, "--timeout", "1", "--", "sleep", "60", code=124)
    assert "hostMount" in tool("workspace", made, code=125).stderr
    process = json.loads(tool("run", made, "--name=x", "--json", "--", "echo hello").stdout)
    assert tool("logs", made, f"--pid={process['id']}", "--follow").stdout == "hello\n"
    tool("kill", made, f"--pid={process['pid']}")
    tool("exec", made, "--", "echo changed > old.txt")
    assert "+changed" in tool("diff", made, "--raw").stdout
    assert tool("conflicts", made).returncode == 0
    tool("approve", made)
    assert (project / "old.txt").read_text() == "changed\n"
    assert json.loads(tool("gc-preview", "--max-age=0s", "--json").stdout)["dryRun"] is True
    assert tool("gc", "--older-than", "24h").stdout.startswith("removed 0 workspaces\n")
    assert json.loads(tool("driver-info").stdout)
    tool("stop", made, code=125)
    tool("delete", made)
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
        tool("delete", made)


def test_the_other_name_is_coloured_when_told(cli, tool, project):
    made = tool("create", f"--scope={project}").stdout.strip()
    tool("exec", made, "--", "echo new > old.txt")
    assert "\033[32m+new" in tool("--color", "diff", made).stdout
    assert "\033" not in tool("--no-color", "diff", made).stdout and "\033" not in tool("diff", made).stdout
    tool("delete", made)


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
        assert json.loads(tool("list", "--json", env=url).stdout)["totalCount"] >= 0


def test_a_workspace_where_a_sandbox_is_wanted_is_told_to_be_one(cli, project):
    made = cli.say("create", "--scope", str(project), "--no-lock", "--name", "not-a-sandbox")
    for words in (["session", "open"], ["session", "ls"], ["rules", "show"]):
        for word in ("not-a-sandbox", made):
            assert f"'{word}' is a workspace, " in cli.run(*words, word, code=2).err
    assert "'agentfense reject not-a-sandbox'" in cli.run("discard", "not-a-sandbox", code=125).err
    cli.run("rm", "--purge", made)


# ---- what was not read was not shown ----

MANY = "for n in 1 2 3 4 5 6 7 8; do seq 20000 > many$n; done"  # more than pipes hold


def piped(cli, words, reader):
    """The verb before another program; its own exit code, and what it says."""
    return subprocess.run(["bash", "-c", f'"$@" | {reader}; exit ${{PIPESTATUS[0]}}', "sh", cli.program, *words], cwd=cli.top, env=cli.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)


def is_shown(cli, made):
    done = piped(cli, ["approve", made, "-n"], "cat")
    assert done.returncode == 0 or (done.returncode == 1 and "look at them first" in done.stderr), done
    return done.returncode == 0


FORMS = pytest.mark.parametrize("form", [[], ["--patch"], ["--json"]], ids=["text", "patch", "json"])


@FORMS
def test_a_diff_whose_reader_leaves_shows_nothing(cli, made, form):
    cli.run("exec", made, "--", MANY)
    for paths in ([], ["many1", "many2"]):
        done = piped(cli, ["diff", made, *paths, *form], "head -1")
        assert (done.returncode, done.stderr) == (141, "") and done.stdout, done
        assert not is_shown(cli, made)
    assert piped(cli, ["diff", made, *form], "cat").returncode == 0
    assert is_shown(cli, made)


@FORMS
def test_a_diff_that_nobody_reads_shows_nothing(cli, changed, form):
    """Short enough to be written before anybody could have read it."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([cli.program, "diff", changed, *form], env=cli.environment(), stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
                          text=True, timeout=WAIT)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
    assert not is_shown(cli, changed)


@FORMS
def test_a_diff_that_could_not_be_written_shows_nothing(cli, changed, form):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([cli.program, "diff", changed, *form], env=cli.environment(), stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                              text=True, timeout=WAIT)
    assert done.returncode == 125 and "No space left on device" in done.stderr, done
    assert not is_shown(cli, changed)


def test_a_diff_that_is_killed_shows_nothing(cli, made):
    cli.run("exec", made, "--", MANY)
    command = cli.start("diff", made)
    assert command.stdout.read(100)
    command.kill()
    command.communicate()
    assert not is_shown(cli, made)


def test_what_was_named_was_shown_and_nothing_else(cli, changed):
    cli.run("diff", changed, "src", "old.txt")
    assert not is_shown(cli, changed)
    cli.run("approve", changed, "src", "old.txt")
    cli.run("approve", changed, code=1)
    cli.run("diff", changed, "n.txt", "--patch")
    cli.run("approve", changed)
