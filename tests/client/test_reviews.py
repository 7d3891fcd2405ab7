"""Workspaces reviewed from the command line: shown, approved as a whole, by file and by hunk, discarded and undone, without a server and with one."""

import json
import os
import subprocess

import pytest
from on_terminal import on_terminal
from place import CHANGE, NUMBERS, WAIT


def test_the_diff_in_all_its_forms(cli, changed, project, tmp_path):
    text = cli.run("diff", changed[:8]).out
    assert text.startswith("diff --git a/n.txt b/n.txt\n") and "\033" not in text
    assert "-2\n+two\n" in text and "deleted file mode 100644" in text and "+++ b/src/new.py" in text
    assert cli.run("diff", changed, "src").out.count("diff --git") == 1
    assert cli.run("diff", changed, "--name-only").out == "n.txt\nold.txt\nsrc/new.py\n"
    assert cli.run("diff", changed, "--stat").out.endswith(" 3 files changed, 3 insertions(+), 3 deletions(-)\n")
    told = cli.json("diff", changed)
    assert [file["path"] for file in told["files"]] == ["n.txt", "old.txt", "src/new.py"]
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
    assert "n.txt" in done.err and f"agentfense diff {changed}" in done.err
    assert cli.json("approve", changed, code=1)["refusal"]["reason"] == "DIFF_NOT_SERVED"
    assert (project / "n.txt").read_text() == NUMBERS
    cli.run("diff", changed)
    assert "would apply 3 files\n" in cli.run("approve", "-n", changed).out
    assert (project / "old.txt").exists()
    cli.run("approve", changed)
    assert not (project / "old.txt").exists() and (project / "src" / "new.py").read_text() == "new\n"
    assert cli.json("inspect", changed)["decision"] == "SANDBOX_DECISION_APPROVED"


def test_what_is_only_counted_was_not_shown(cli, changed, project):
    for words in (["--stat"], ["--name-only"], ["-q"]):
        cli.run("diff", changed, *words)
        assert cli.json("approve", changed, code=1)["refusal"]["reason"] == "DIFF_NOT_SERVED"
    assert "would apply 3 files" in cli.run("approve", "-n", "--all", changed).out
    for last in ("q\n", "\x04"):
        text, _ = on_terminal(cli, ["approve", "-p", changed], [last])
        assert "(1/4) Approve this hunk" in text
        assert cli.json("approve", changed, code=1)["refusal"]["reason"] == "DIFF_NOT_SERVED"
    for form in ("--stat", "--name-only"):
        assert [file["path"] for file in cli.json("diff", changed, form)["files"]] == ["n.txt", "old.txt", "src/new.py"]
        cli.run("approve", changed, code=1)


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
        f"  applied: src/new.py\napplied 1 file; 2 files stay in the sandbox\nto take it back: agentfense undo {changed}\n"
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
    assert cli.run("discard", changed, "n.txt", "src").out == "discarded the changes of 2 files; 1 stays\n"
    assert cli.run("diff", changed, "--name-only").out == "old.txt\n"
    assert cli.run("exec", changed, "--", "sed -n 2p n.txt; ls src").out == "2\napp.py\n"
    assert cli.say("reject", changed) == changed
    assert cli.json("inspect", changed)["decision"] == "SANDBOX_DECISION_REJECTED" and (project / "old.txt").exists()
    assert cli.run("approve", changed, "--all", code=1)


def test_discard_of_nothing_in_particular_asks_what_is_meant(cli, changed, project):
    told = cli.run("discard", changed, code=2).err
    assert "paths" in told and "--all" in told and "agentfense rm" in told
    assert "--all is all" in cli.run("discard", changed, "--all", "n.txt", code=2).err
    assert cli.run("diff", changed, "--name-only").out == "n.txt\nold.txt\nsrc/new.py\n"
    done = cli.run("discard", changed, "n.txt", "nothing/here")
    assert "'nothing/here' has no changes" in done.err and done.out == "discarded the changes of 1 file; 2 stay\n"
    assert cli.run("discard", changed, "--all").out == "discarded the changes of 2 files; 0 stay\n"
    assert cli.run("diff", changed).out == "" and cli.run("exec", changed, "--", "cat old.txt").out == "old\n"


def test_a_path_that_is_no_utf8_can_be_named(cli, made, project):
    name = b"caf\xe9"
    cli.run("exec", made, "--", "printf 'caf\\351' | xargs -0 touch; echo 1 > other")
    cli.run("diff", made)
    assert cli.run("discard", made, "other").out.endswith("1 stays\n")
    subprocess.run([cli.program, "approve", made, name], env=cli.environment(), check=True, capture_output=True, timeout=WAIT)
    assert os.listdir(os.fsencode(project)).count(name) == 1


def test_apply_takes_all_and_removes_what_is_empty(cli, project):
    first, second = (cli.say("create", "--scope", project, "--preset", "full-access", "--no-lock") for _ in range(2))
    cli.run("exec", first, "--", "echo 1 > one; echo 2 > two")
    assert "removed" not in cli.run("apply", first, "one").out and (project / "one").exists() and not (project / "two").exists()
    assert cli.run("apply", "-n", first).out.startswith("  would apply: two\n")
    assert cli.run("apply", first).out.endswith(f"removed sandbox {first}\n")
    assert (project / "two").read_text() == "2\n" and first not in cli.say("ps", "-wq")
    cli.run("exec", second, "--", "echo 3 > three")
    assert "removed" not in cli.run("apply", "--keep", second).out and (project / "three").exists()
    assert "--keep" in cli.run("approve", "--keep", second, code=2).err
    cli.run("restore", second), cli.run("start", second)
    cli.run("exec", second, "--", "echo 4 > four")
    cli.run("approve", "--rm", second, code=1)
    cli.run("diff", second)
    assert "removed sandbox" in cli.run("approve", "--rm", second).out and (project / "four").exists()


def test_approvals_are_listed_the_newest_first(cli, changed, project):
    assert cli.json("undo", "--list", changed)["approvals"] == []
    for path in ("src", "n.txt"):
        cli.run("diff", changed, path)
        cli.run("approve", changed, path)
    cli.run("undo", changed)
    undo, second, first = cli.json("undo", "--list", changed)["approvals"]
    assert undo["undoes"] == second["id"] and second["undone"] and not first["undone"] and first["paths"] == 1
    rows = cli.run("undo", "-l", changed).out.splitlines()
    assert rows[0].split() == ["APPROVAL", "TIME", "PATHS", "NOTE"] and f"undoes {second['id']}" in rows[1]
    assert f"would take back approval {first['id']}" in cli.run("undo", "-n", changed, first["id"]).out
    (project / "src" / "new.py").write_text("mine\n")
    assert "  stale: src/new.py\n" in cli.run("undo", changed, first["id"], code=1).err
    assert cli.json("undo", changed, first["id"], code=1)["refusal"]["reason"] == "PROJECT_MOVED"


def test_a_large_file_comes_whole_as_json(cli, made):
    """In several messages: many lines, one of them longer than a message is."""
    cli.run("exec", made, "--", "{ seq 200000; head -c 600000 /dev/zero | tr '\\0' x; echo; seq 3; } > large")
    hunk, = cli.json("diff", made)["files"][0]["hunks"]
    assert hunk["linesAdded"] == len(hunk["lines"]) == 200004
    assert hunk["lines"][0] == "+1" and hunk["lines"][200000] == "+" + "x" * 600000 and hunk["lines"][-1] == "+3"
    cli.run("approve", made)


def test_what_stops_an_approval_is_told_of_every_file(cli, made):
    cli.run("exec", made, "--", "for n in $(seq 300); do echo $n > a-file-with-a-name-that-is-rather-long-$n; done")
    told = cli.json("approve", made, code=1)
    assert len(told["files"]) == told["total"] == 300 and told["files"][0]["verdict"] == "VERDICT_UNSHOWN"
    assert cli.run("approve", made, code=1).err.count("  unshown: ") == 300


def test_comments_are_made_listed_and_resolved(cli, changed):
    first = cli.say("comments", changed, "n.txt", "--line", "2", "--add", "why\033[31m not\n2?", "--actor", "me")
    second = cli.say("comments", changed, "old.txt", "--add", "keep it")
    out = cli.run("comments", changed).out
    assert out.startswith(f"n.txt:2  {first}  ") and "  me\n  why\\x1b[31m not\n  2?\n" in out and f"old.txt  {second}" in out, out
    assert cli.run("comments", changed, "old.txt", "-q").out == f"{second}\n"
    assert cli.say("comments", changed, "--resolve", first) == first
    assert [item["id"] for item in cli.json("comments", changed, "--open")["comments"]] == [second]
    assert "  resolved\n" in cli.run("comments", changed, "n.txt").out
    cli.run("comments", changed, "--reopen", first)
    cli.run("comments", changed, "--delete", second)
    cli.run("exec", changed, "--", "sed -i '2s/.*/zwei/' n.txt")
    assert cli.json("comments", changed)["comments"][0]["outdated"] and "  outdated\n" in cli.run("comments", changed).out
    for words in (["--add", "x"], ["n.txt", "--resolve", first], ["n.txt", "--line", "0", "--add", "x"], ["--line", "1"], ["--open", "--delete", first],
                  ["n.txt", "--line", "1", "--old-line", "1", "--add", "x"], ["--resolve", first, "--delete", first]):
        cli.run("comments", changed, *words, code=2)
    assert cli.run("comments", changed, "src/app.py", "--add", "x", code=125).err
    assert cli.run("comments", changed, "--resolve", "rc_none", code=125).err
    assert "no sandbox 'nothing'" in cli.run("comments", "nothing", code=125).err


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
    cli.run("rm", "-f", workspace)


def test_conflicts_rebase_and_warnings(cli, made, project):
    cli.run("exec", made, "--", "sed -i '2s/.*/two/' n.txt; echo x > .envrc")
    (project / "n.txt").write_text(NUMBERS.replace("2\n", "TWO\n", 1).replace("40\n", "40\n41\n"))
    assert "  conflict: n.txt" in cli.run("conflicts", made, code=1).out
    cli.run("diff", made)
    done = cli.run("approve", made, "n.txt", code=1)
    assert "conflict: n.txt" in done.err
    assert "--acknowledge" in cli.run("approve", made, ".envrc", code=1).err
    assert cli.json("rebase", made, "--strategy", "ours")["conflicts"] == 0
    assert cli.json("conflicts", made)["conflicts"] == 0
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
    cli.run("rm", "-f", workspace)


# ---- what was not read was not shown ----

MANY = "for n in 1 2 3 4 5 6 7 8; do seq 20000 > many$n; done"  # more than pipes hold


def piped(cli, words, reader):
    """The verb before another program; its own exit code, and what it says."""
    return subprocess.run(["bash", "-c", f'"$@" | {reader}; exit ${{PIPESTATUS[0]}}', "sh", cli.program, *words], cwd=cli.top, env=cli.environment(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT)


def is_shown(cli, made):
    done = piped(cli, ["approve", made, "-n"], "cat")
    assert done.returncode == 0 or (done.returncode == 1 and "shows them; or give --all" in done.stderr), done
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
