"""ls, diff, apply, discard, stop and rm, as people call them, on sandboxes whose changes a mounted fence recorded."""

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest

from conftest import PROGRAM

MAKE = os.environ.get("AGENTFENSE_MAKE_SANDBOX", str(pathlib.Path(PROGRAM).parents[2] / "tests" / "make-sandbox"))

# In a mount namespace of its own, so that nothing can be left mounted.
WORK = """
"$1" mount --base "$2" --delta "$3" --rule '**=write' --rule '*.key=none@9' $6 "$4" 2>/dev/null & pid=$!
until mountpoint -q "$4"; do kill -0 $pid || exit 77; sleep 0.02; done
(cd "$4" && exec sh -ec "$5"); code=$?
kill $pid; wait $pid; exit $code
"""


class Sandboxes:
    """A state directory, a project, and what people and agents do with them."""

    def __init__(self, tmp):
        self.state = tmp / "state"
        self.base = tmp / "shop"
        self.env = dict(os.environ, AGENTFENSE_STATE_DIR=str(self.state), LC_ALL="C.UTF-8")
        self.env.pop("AGENTFENSE_FAULT", None)
        self.base.mkdir()
        (self.base / "a.txt").write_text("one\ntwo\nthree\n")
        (self.base / "src").mkdir()
        (self.base / "src/cart.py").write_text("def total():\n    return 0\n")
        (self.base / "src/old.py").write_text("old\n")

    def make(self, name, script=None, live=False):
        made = subprocess.run([MAKE, name, self.base], env=self.env, capture_output=True, text=True, timeout=60)
        assert made.returncode == 0, made.stderr
        path = pathlib.Path(made.stdout.strip())
        if script:
            self.work(name, script, live)
        return path

    def path(self, name):
        return self.state / "sandboxes" / (self.state / "names/-" / name).read_text()

    def work(self, name, script, live=False):
        """Runs a script behind the fence, as the agent."""
        path = self.path(name)
        (path / "mnt").mkdir(mode=0o700, exist_ok=True)
        own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
        ran = subprocess.run(
            [*own, "sh", "-c", WORK, "sh", PROGRAM, self.base, path / "delta", path / "mnt", script, "--live" if live else ""],
            env=self.env, capture_output=True, text=True, timeout=60)
        if ran.returncode == 77:
            pytest.skip("no fence can be mounted here")
        assert ran.returncode == 0, ran.stderr

    def __call__(self, *args, env=None, check=None):
        ran = subprocess.run([PROGRAM, *map(str, args)], env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=60)
        assert check is None or ran.returncode == check, (ran.returncode, ran.stdout, ran.stderr)
        assert "\033" not in ran.stdout + ran.stderr
        return ran

    def shown(self, name):
        """Whoever approves has looked."""
        self("diff", name, check=0)

    def json(self, *args, check=0):
        return json.loads(self(*args, "--json", check=check).stdout)

    def names(self):
        return sorted(one["name"] for one in self.json("ls")["sandboxes"])

    def tree(self):
        return {str(p.relative_to(self.base)): p.read_text() if p.is_file() else None for p in self.base.rglob("*")}


@pytest.fixture
def boxes(tmp_path):
    return Sandboxes(tmp_path)


BUSY = """
printf 'one\\n2\\nthree\\n' > a.txt
rm src/old.py
mkdir -p docs/new; echo hello > docs/new/page.md
chmod +x src/cart.py
"""

APPLIED = {
    "a.txt": "one\n2\nthree\n",
    "src": None,
    "src/cart.py": "def total():\n    return 0\n",
    "docs": None,
    "docs/new": None,
    "docs/new/page.md": "hello\n",
}


# ---- ls ----


def test_ls_without_any_says_so(boxes):
    ran = boxes("ls", check=0)
    assert ran.stdout.split() == ["ID", "NAME", "STATUS", "DECISION", "CHANGES", "AGE", "BASE", "REASON"]
    assert boxes.json("ls")["sandboxes"] == []
    assert boxes.names() == []


def test_ls_tells_name_status_changes_age_and_directory(boxes):
    idle = boxes.make("idle")
    path = boxes.make("shop-one", BUSY)
    lines = boxes("ls", check=0).stdout.splitlines()
    assert re.fullmatch(rf"{idle.name} +idle +stopped +open +0 +\d+s +{boxes.base} +-", lines[1]), lines
    assert re.fullmatch(rf"{path.name} +shop-one +stopped +open +[1-9] +\d+s +{boxes.base} +-", lines[2]), lines
    first = boxes.json("ls")["sandboxes"][0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", first["createdAt"])
    assert (first["name"], first["id"], first["status"], first["directory"], first.get("changedFiles", "0")) == (
        "idle", idle.name, "SANDBOX_STATUS_STOPPED", str(boxes.base), "0")
    assert boxes("ls", "-q", check=0).stdout.split() == [idle.name, path.name]


def break_spec(boxes, path):
    (path / "spec").write_text("nonsense")


def lose_spec(boxes, path):
    (path / "spec").unlink()


def make_it_a_file(boxes, path):
    shutil.rmtree(path)
    path.touch()


def make_it_a_link(boxes, path):
    path.rename(boxes.state / "elsewhere")
    path.symlink_to(boxes.state / "elsewhere")


def open_it_to_others(boxes, path):
    path.chmod(0o770)
    (path / "spec").unlink()


@pytest.fixture
def broken(boxes):
    def make(harm):
        boxes.make("sound", "echo 1 > one")
        path = boxes.make("hurt", "echo 1 > one")
        harm(boxes, path)
        return path

    return make


@pytest.mark.parametrize("harm, reason", [(break_spec, "this is not a sandbox's spec"), (lose_spec, "No such file or directory")])
@pytest.mark.parametrize("is_known", [False, True], ids=["new", "listed before"])
def test_ls_shows_a_broken_one_with_the_reason_beside_the_others(boxes, broken, harm, reason, is_known):
    path = broken(lambda _, hurt: (is_known and boxes.names(), harm(boxes, hurt)))
    lines = boxes("ls", check=0).stdout.splitlines()[1:]
    assert any(re.fullmatch(rf"{path.name} +hurt +error .*{reason}", line) for line in lines), lines
    assert any(re.fullmatch(rf"sb_\w+ +sound +stopped +open +1 +\d+s +{boxes.base} +-", line) for line in lines), lines
    rows = {one["name"]: one for one in boxes.json("ls")["sandboxes"]}
    assert rows["hurt"]["status"] == "SANDBOX_STATUS_ERROR" and reason in rows["hurt"]["statusReason"]
    assert rows["sound"]["status"] == "SANDBOX_STATUS_STOPPED" and not rows["sound"].get("statusReason")
    # It can be removed, and nothing else is done with it.
    before = boxes.tree()
    for words in (["start", "hurt"], ["exec", "hurt", "true"], *([] if is_known else [["approve", "hurt", "--all"]])):
        ran = boxes(*words)
        assert ran.returncode != 0 and (words[0] == "exec" or reason in ran.stderr), ran
    assert boxes.tree() == before
    boxes("rm", "-f", "hurt", check=0)
    assert boxes.names() == ["sound"] and not path.exists()


def test_a_broken_one_that_is_mended_is_as_before(boxes, broken):
    specs = []
    path = broken(lambda _, hurt: (specs.append((hurt / "spec").read_bytes()), break_spec(boxes, hurt)))
    assert boxes.names() == ["hurt", "sound"]
    (path / "new").write_bytes(specs[0])
    (path / "new").chmod(0o600)
    (path / "new").rename(path / "spec")
    (row,) = [one for one in boxes.json("ls")["sandboxes"] if one["name"] == "hurt"]
    assert row["status"] == "SANDBOX_STATUS_STOPPED" and row["directory"] == str(boxes.base)
    assert boxes("approve", "hurt", "--all", check=0) and (boxes.base / "one").exists()


@pytest.mark.parametrize("harm", [make_it_a_file, make_it_a_link, open_it_to_others])
def test_what_is_no_directory_of_ours_alone_is_not_listed(boxes, broken, harm):
    path = broken(harm)
    assert boxes.names() == ["sound"]
    for verb in ("rm", "stop", "diff"):
        assert "there is no sandbox" in boxes(verb, "hurt", check=125).stderr
    boxes("rm", "-f", path.name, check=125)
    assert os.path.lexists(path) and (harm is not make_it_a_link or (boxes.state / "elsewhere/delta").exists())


def test_a_verb_that_does_not_apply_names_the_one_that_does(boxes):
    path = boxes.make("r1")
    assert "'agentfense start r1' starts it" in boxes("exec", "r1", "ls", check=125).stderr
    with open(path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = boxes("rm", "r1", check=125)
        assert "is in use" in ran.stderr and f"'agentfense stop {path.name}'" in ran.stderr, ran
    boxes("rm", path.name, check=0)
    assert boxes.names() == []


def test_a_removed_one_keeps_its_name_until_it_is_restored_or_purged(boxes):
    boxes.make("web", "echo 2 > a.txt")
    boxes("rm", "web", check=0)
    assert boxes.names() == []
    again = subprocess.run([MAKE, "web", boxes.base], env=boxes.env, capture_output=True, text=True, timeout=60)
    assert again.returncode != 0 and "'agentfense rm --purge web'" in again.stderr and "'agentfense restore web'" in again.stderr
    boxes("restore", "web", check=0)
    assert boxes.names() == ["web"]
    boxes("rm", "web", check=0)
    assert "there is no sandbox 'web'" in boxes("rm", "web", check=125).stderr
    boxes("rm", "--purge", "web", check=0)
    boxes.make("web")


def test_rm_and_stop_take_whole_names(boxes):
    """The beginning of a name is not enough to end something."""
    boxes.make("web-one")
    for verb in ("rm", "stop"):
        ran = boxes(verb, "web", check=125)
        assert "there is no sandbox 'web'; 'agentfense ls' lists them" in ran.stderr, ran
    assert boxes.names() == ["web-one"]


def test_sandboxes_are_listed_without_the_directory_of_user_ids(boxes):
    """It is for whoever starts one, and is made again then."""
    boxes.make("one", "echo 1 > one")
    (boxes.state / "uids").rmdir()
    assert boxes.names() == ["one"]
    assert "+1" in boxes("diff", "one", check=0).stdout
    boxes("discard", "one", "--all", check=0)


def test_a_state_directory_open_to_others_is_refused(boxes):
    boxes.make("one")
    boxes.state.chmod(0o777)
    for args in (["ls"], ["diff", "one"], ["apply", "one"], ["discard", "one", "--all"]):
        ran = boxes(*args, check=125)
        assert "chmod go-w" in ran.stderr and ran.stderr.count("\n") == 1
    boxes.state.chmod(0o700)
    assert boxes.names() == ["one"]


# ---- diff ----


def test_diff_shows_every_change(boxes):
    boxes.make("one", BUSY)
    ran = boxes("diff", "one", check=0)
    assert ran.stderr == ""
    assert ran.stdout == (
        "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        "diff --git a/docs/new/page.md b/docs/new/page.md\nnew file mode 100644\n--- /dev/null\n+++ b/docs/new/page.md\n"
        "@@ -0,0 +1 @@\n+hello\n"
        "diff --git a/src/cart.py b/src/cart.py\nold mode 100644\nnew mode 100755\n"
        "diff --git a/src/old.py b/src/old.py\ndeleted file mode 100644\n--- a/src/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    )
    assert boxes("diff", "one", "--name-only", check=0).stdout.split() == [
        "a.txt", "docs/new/page.md", "src/cart.py", "src/old.py"]
    assert boxes("diff", "one", "src", "--name-only", check=0).stdout.split() == ["src/cart.py", "src/old.py"]
    assert boxes("diff", "one", "nothing-here", check=2).stderr == "agentfense diff: 'nothing-here' has no changes\n"
    assert boxes("diff", "one", "--stat", check=0).stdout == (
        " a.txt            | 2 +-\n docs/new/page.md | 1 +\n src/cart.py      | 0\n src/old.py       | 1 -\n"
        " 4 files changed, 2 insertions(+), 2 deletions(-)\n")


def test_diff_as_json(boxes):
    boxes.make("one", BUSY)
    got = boxes.json("diff", "one")
    assert (got["directory"], got["stats"]["linesAdded"], got["stats"]["linesRemoved"]) == (str(boxes.base), "2", "2")
    changed = {f["path"]: f for f in got["files"]}
    assert list(changed) == ["a.txt", "docs/new/page.md", "src/cart.py", "src/old.py"]
    assert changed["a.txt"]["hunks"][0]["lines"] == [" one", "-two", "+2", " three"] and changed["a.txt"]["hash"]
    assert changed["docs/new/page.md"]["kind"] == "CHANGE_KIND_ADDED" and changed["docs/new/page.md"]["oldMode"] == 0
    assert changed["src/cart.py"]["kind"] == "CHANGE_KIND_MODIFIED" and changed["src/cart.py"]["newMode"] == 0o100755
    brief = boxes.json("diff", "one", "--stat")["files"][0]
    assert brief["hunks"] == [] and brief["hash"] == "" and (brief["measured"], brief["linesAdded"]) == (True, 1)
    assert boxes.json("diff", "one", "--name-only")["files"][0]["measured"] is False


def test_a_patch_is_what_git_applies(boxes, tmp_path):
    boxes.make("one", BUSY + r"""
printf 'crlf\r\n\033 esc \377\n' > odd; printf x > 'sp ace'; : > empty; echo q > 'q"uote'; printf 'no newline' > src/cart.py
ln -s a.txt link
""")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", boxes.base, copy], check=True)
    patch = subprocess.run([PROGRAM, "diff", "one", "--patch"], env=boxes.env, capture_output=True, check=True).stdout
    env = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", GIT_CEILING_DIRECTORIES=str(tmp_path))
    ran = subprocess.run(["git", "apply", "-"], input=patch, cwd=copy, env=env, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    boxes("apply", "one", check=0)
    assert subprocess.run(["diff", "-r", "--no-dereference", copy, boxes.base]).returncode == 0


def test_what_could_mislead_a_terminal_is_written_out(boxes):
    boxes.make("one", r"""printf '\033[2J\n\342\200\256x\n' > "$(printf 'n\033\342\200\256')" """)
    for args in (["diff", "one"], ["diff", "one", "--stat"], ["diff", "one", "--name-only"], ["diff", "one", "--json"]):
        out = boxes(*args, check=0).stdout
        assert "\033" not in out and "\u202e" not in out
    out = boxes("apply", "one", check=0)
    assert "\u202e" not in out.stdout + out.stderr


def test_git_is_never_shown_nor_applied(boxes):
    (boxes.base / ".git").mkdir()
    (boxes.base / ".git/config").write_text("mine\n")
    boxes.make("one", "echo evil > .git/config; mkdir -p sub/.git; echo evil > sub/.git/hook; echo x > sub/f")
    assert boxes("diff", "one", "--name-only", check=0).stdout == "sub/f\n"
    stats = boxes.json("diff", "one")["stats"]
    assert stats["gitLeftOut"] != "0"
    boxes("apply", "one", check=0)
    assert (boxes.base / ".git/config").read_text() == "mine\n" and not (boxes.base / "sub/.git").exists()
    assert boxes.names() == []


def on_a_terminal(argv, env):
    main, end = pty.openpty()
    child = subprocess.Popen(argv, stdout=end, stderr=end, env=env)
    os.close(end)
    out = b""
    try:
        while True:
            out += os.read(main, 65536)
    except OSError:
        pass
    os.close(main)
    return child.wait(20), out


def test_colours_only_on_a_terminal(boxes):
    boxes.make("one", BUSY)
    env = {k: v for k, v in boxes.env.items() if k != "NO_COLOR"}
    code, out = on_a_terminal([PROGRAM, "diff", "one"], env)
    assert code == 0 and b"\033[32m+2\033[0m" in out and b"\033[31m-two\033[0m" in out and b"\033[32m+++" not in out
    assert b"\033" not in on_a_terminal([PROGRAM, "diff", "one"], {**env, "NO_COLOR": "1"})[1]
    assert on_a_terminal([PROGRAM, "diff", "one", "--patch"], env)[0] == 2


def test_diff_works_while_the_sandbox_runs(boxes):
    path = boxes.make("one", BUSY)
    with open(path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert boxes("diff", "one", "--name-only", check=0).stdout


# ---- apply ----


def test_apply_writes_all_and_removes_the_sandbox(boxes):
    boxes.make("one", BUSY)
    ran = boxes("apply", "one", check=0)
    assert ran.stdout == ("  applied: a.txt\n  applied: docs/new/page.md\n  applied: src/cart.py\n  applied: src/old.py\napplied 4 files\n"
                          "removed sandbox one\n")
    assert boxes.tree() == APPLIED and os.access(boxes.base / "src/cart.py", os.X_OK)
    assert boxes.names() == []


def test_apply_keeps_when_told(boxes):
    boxes.make("one", BUSY)
    assert boxes("apply", "one", "--keep", check=0).stdout.endswith("agentfense undo one\n")
    assert boxes.tree() == APPLIED and boxes.names() == ["one"]


def test_a_sandbox_goes_on_after_a_part_of_it_was_approved(boxes):
    boxes.make("one", BUSY)
    boxes("apply", "one", "--keep", "docs", check=0)
    boxes.work("one", "echo more >> a.txt")
    boxes("apply", "one", check=0)
    assert (boxes.base / "a.txt").read_text() == "one\n2\nthree\nmore\n" and boxes.names() == []


def test_apply_of_some_paths_keeps_the_rest(boxes):
    boxes.make("one", BUSY)
    got = boxes.json("apply", "one", "a.txt", "docs")
    assert [a["path"] for a in got["files"] if a["verdict"] == "VERDICT_APPLIED"] == ["a.txt", "docs/new/page.md"]
    assert (got["applied"], got["remaining"]) == (2, 2)
    assert (boxes.base / "src/old.py").exists() and (boxes.base / "docs/new/page.md").exists()
    ran = boxes("apply", "one", "nowhere", check=125)
    assert "'nowhere'" in ran.stderr
    assert "; 1 file stays in the sandbox\n" in boxes("apply", "one", "src/old.py", check=0).stdout
    assert boxes("apply", "one", "/src", check=0).stdout.endswith("removed sandbox one\n")
    assert boxes.tree() == APPLIED


@pytest.mark.parametrize("live", [False, True], ids=["still", "live"])
def test_a_conflict_stops_everything(boxes, live):
    boxes.make("one", BUSY + "echo x > t; mv t src/cart.py", live=live)
    (boxes.base / "a.txt").write_text("mine\n")
    (boxes.base / "src/old.py").write_text("mine\n")
    (boxes.base / "src/cart.py").write_text("mine\n")
    before = boxes.tree()
    ran = boxes("apply", "one", check=1)
    lines = ran.stderr.splitlines()
    assert ran.stdout == "" and "3 changes cannot be applied" in lines[0] and "agentfense conflicts one" in lines[0]
    assert [line.split(":")[:2] for line in lines[1:]] == [["  conflict", f" {path}"] for path in ("a.txt", "src/cart.py", "src/old.py")]
    got = boxes.json("apply", "one", check=1)
    assert got["refusal"]["reason"] == "CONFLICTS" and len(got["files"]) == 3
    assert boxes.tree() == before and boxes.names() == ["one"]
    boxes("apply", "one", "--force", check=0)
    assert boxes.tree() == {**APPLIED, "src/cart.py": "x\n"}


def test_hidden_files_stay(boxes):
    (boxes.base / "src/secret.key").write_text("s")
    boxes.make("one", "rm -r src")
    assert "src/secret.key" not in boxes("diff", "one", check=0).stdout
    boxes("apply", "one", check=0)
    assert boxes.names() == []
    assert boxes.tree() == {"a.txt": "one\ntwo\nthree\n", "src": None, "src/secret.key": "s"}


def test_a_sandbox_that_somebody_works_with_is_left_alone(boxes):
    path = boxes.make("one", BUSY)
    before = boxes.tree()
    with open(path / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["apply", "one"], ["apply", "one", "--force"], ["discard", "one", "--all"], ["undo", "one"]):
            ran = boxes(*words, check=1)
            assert "is in use" in ran.stderr and ran.stdout == ""
    assert boxes.tree() == before and boxes.names() == ["one"]


@pytest.mark.parametrize("point", ["landing-staging:2", "landing-staged", "landing-intent", "landing-step:2", "landing-step:4", "landing-landed"])
def test_killed_in_between_it_is_finished_by_the_next(boxes, point):
    boxes.make("one", BUSY)
    ran = boxes("apply", "one", env={"AGENTFENSE_FAULT": point})
    if ran.returncode == 0:
        pytest.skip("a release has no fault points")
    assert ran.returncode == 125 and boxes.names() == ["one"]
    assert (boxes.base / "a.txt").read_text() in ("one\ntwo\nthree\n", "one\n2\nthree\n")
    boxes("apply", "one", check=0)
    assert boxes.tree() == APPLIED and boxes.names() == []


@pytest.mark.parametrize("point", ["landing-staged", "landing-intent", "landing-step:2", "landing-landed"])
def test_who_looks_after_a_kill_sees_all_of_it_or_nothing_and_that_stays(boxes, point):
    boxes.make("one", BUSY)
    before = boxes.tree()
    if boxes("approve", "one", "--all", env={"AGENTFENSE_FAULT": point}).returncode == 0:
        pytest.skip("a release has no fault points")
    boxes("diff", "one", check=0)
    seen = boxes.tree()
    assert seen in (before, APPLIED)
    boxes("rm", "one", check=0)
    assert boxes.tree() == seen


def test_discarding_cleans_up_after_a_killed_apply(boxes):
    boxes.make("one", BUSY)
    before = boxes.tree()
    if boxes("apply", "one", env={"AGENTFENSE_FAULT": "landing-staged"}).returncode == 0:
        pytest.skip("a release has no fault points")
    assert boxes.tree() != before
    boxes("rm", "one", check=0)
    assert boxes.tree() == before


def test_who_cannot_clean_up_after_a_killed_apply_discards_nothing(boxes):
    boxes.make("one", BUSY)
    before = boxes.tree()
    if boxes("apply", "one", env={"AGENTFENSE_FAULT": "landing-staged"}).returncode == 0:
        pytest.skip("a release has no fault points")
    base = os.open(boxes.base, os.O_RDONLY)
    fcntl.flock(base, fcntl.LOCK_EX)  # as somebody who applies changes of another sandbox
    assert "has left something in the project" in boxes("rm", "one", check=125).stderr
    assert boxes.names() == ["one"] and boxes.tree() != before
    os.close(base)
    boxes("rm", "one", check=0)
    assert boxes.tree() == before and boxes.names() == []


def test_a_base_that_is_gone_is_told(boxes, tmp_path):
    boxes.make("one", BUSY)
    boxes.base.rename(tmp_path / "elsewhere")
    for verb in ("diff", "apply"):
        assert str(boxes.base) in boxes(verb, "one").stderr
    boxes("rm", "one", check=0)


# ---- discard and names ----


def test_discard_gives_up_changes_and_leaves_sandbox_and_base(boxes):
    before = boxes.tree()
    boxes.make("one", BUSY)
    assert boxes("discard", "one", "src", check=0).stdout == "discarded the changes of 2 files; 2 stay\n"
    assert boxes("diff", "one", "--name-only", check=0).stdout.split() == ["a.txt", "docs/new/page.md"]
    assert boxes("discard", "one", "--all", check=0).stdout == "discarded the changes of 2 files; 0 stay\n"
    assert boxes.tree() == before and boxes.names() == ["one"] and boxes("diff", "one", check=0).stdout == ""
    assert "there is no sandbox 'gone'" in boxes("discard", "gone", "--all", check=125).stderr


def test_what_rejects_and_commits_takes_sandboxes_of_run(boxes):
    """One sandbox, whoever made it."""
    subprocess.run(["git", "init", "-q", boxes.base], check=True)
    for pair in (("user.name", "n"), ("user.email", "m@x")):
        subprocess.run(["git", "-C", boxes.base, "config", *pair], check=True)
    boxes.make("one", BUSY)
    (boxes.base / "a.txt").write_text("mine\n")
    assert "  conflict: a.txt" in boxes("conflicts", "one", check=1).stdout
    assert boxes.json("rebase", "one", "--strategy", "ours")["conflicts"] == 0
    boxes("comments", "one", "docs/new/page.md", "--add", "well", check=0)
    boxes("diff", "one", check=0)
    boxes("approve", "one", "docs", "--commit", "-m", "from the agent", check=0)
    log = subprocess.run(["git", "-C", boxes.base, "log", "-1", "--format=%s", "--name-only"], capture_output=True, text=True, check=True).stdout
    assert log.split("\n\n") == ["from the agent", "docs/new/page.md\n"]
    assert "CHANGE" in boxes("provenance", boxes.base / "docs/new/page.md", check=0).stdout
    boxes("reject", "one", check=0)
    assert (boxes.base / "src/old.py").exists()
    boxes("restore", "one", check=0)


@pytest.mark.parametrize("args", [
    ["diff"], ["apply"], ["discard"], ["ls", "x"], ["ls", "--bogus"], ["diff", "one", "--stat", "--name-only"],
    ["diff", "one", "--patch", "--json"], ["apply", "one", "--bogus"], ["apply", ""], ["discard", "a/b"],
    ["diff", "one", "../../etc/passwd"],
], ids=" ".join)
def test_wrong_words_are_refused(boxes, args):
    boxes.make("one", BUSY)
    before = boxes.tree()
    ran = boxes(*args, check=2)
    assert ran.stdout == "" and f"agentfense {args[0]}: " in ran.stderr
    assert boxes.tree() == before


@pytest.mark.parametrize("verb", ["ls", "diff", "apply", "discard"])
def test_help_is_given(boxes, verb):
    ran = boxes(verb, "--help", check=0)
    assert ran.stdout.startswith(f"usage: agentfense {verb}") and ran.stderr == ""
