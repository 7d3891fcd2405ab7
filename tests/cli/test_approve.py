"""approve and undo, on sandboxes whose changes a mounted fence recorded: all, files, and hunk by hunk on a terminal."""

import fcntl
import os
import pty
import select
import subprocess
import termios

import pytest

from conftest import PROGRAM
from test_review_verbs import BUSY, Sandboxes

LINES = "".join(f"{n}\n" for n in range(1, 41))
TWO = "sed -i '2s/.*/two/; 30s/.*/thirty/' n.txt; echo new > b.txt"


@pytest.fixture
def boxes(tmp_path):
    boxes = Sandboxes(tmp_path)
    (boxes.base / "n.txt").write_text(LINES)
    return boxes


def answered(boxes, words, answers):
    """The verb on a terminal that is its own; each answer is given when it asks."""
    master, slave = pty.openpty()
    child = subprocess.Popen([PROGRAM, *words], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                             env={**boxes.env, "NO_COLOR": "1"}, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    out, asked = b"", 0
    try:
        while select.select([master], [], [], 60)[0]:
            try:
                out += os.read(master, 65536)
            except OSError:
                break
            while asked < len(answers) and out.count(b"]? ") > asked:
                os.write(master, answers[asked].encode())
                asked += 1
        return out.decode(), child.wait(60)
    finally:
        os.close(master)
        if child.poll() is None:
            child.kill()
            child.wait()


def piped(boxes, words, answers):
    return subprocess.run([PROGRAM, *words], env=boxes.env, input=answers, capture_output=True, text=True, timeout=60)


def test_all_is_written_and_can_be_taken_back(boxes):
    before = boxes.tree()
    boxes.make("one", BUSY)
    assert boxes.json("approve", "one", "-n", check=1)["refusal"]["reason"] == "DIFF_NOT_SERVED"
    boxes.shown("one")
    assert boxes.json("approve", "one", "-n")["applied"] == 4 and boxes.tree() == before
    done = boxes("approve", "one", check=0)
    assert "applied 4 files" in done.stdout.splitlines()
    assert "agentfense undo one" in done.stdout
    after = boxes.tree()
    assert after["docs/new/page.md"] == "hello\n" and "src/old.py" not in after
    assert boxes.names() == ["one"]
    assert boxes("undo", "one", "-n", check=0).stdout.startswith("would take back") and boxes.tree() == after
    boxes("undo", "one", check=0)
    assert boxes.tree() == before
    assert len(boxes.json("undo", "one", "--list")["approvals"]) == 2
    assert "no approval to be undone" in boxes("undo", "one", check=125).stderr
    boxes.shown("one")
    boxes("approve", "one", check=0)
    assert boxes.tree() == after


def test_what_nobody_has_seen_is_not_approved(boxes):
    """The same rule as for every sandbox."""
    boxes.make("one", TWO)
    before = boxes.tree()
    done = boxes("approve", "one", check=1)
    assert "  unshown: b.txt\n" in done.stderr and "'agentfense diff one'" in done.stderr and boxes.tree() == before
    boxes("diff", "one", "--stat", check=0)
    boxes("approve", "one", check=1)
    boxes.shown("one")
    boxes.work("one", "echo newer > b.txt")
    assert "  stale: b.txt" in boxes("approve", "one", check=1).stderr and boxes.tree() == before
    boxes("approve", "one", "--force", check=0)
    assert (boxes.base / "b.txt").read_text() == "newer\n"


def test_undo_leaves_what_was_changed_since(boxes):
    boxes.make("one", TWO)
    boxes("approve", "one", "--all", check=0)
    (boxes.base / "b.txt").write_text("mine\n")
    done = boxes("undo", "one", check=1)
    assert "  stale: b.txt\n" in done.stderr and (boxes.base / "b.txt").read_text() == "mine\n"
    assert "thirty" in (boxes.base / "n.txt").read_text()


def test_files_leave_the_rest(boxes):
    boxes.make("one", BUSY)
    boxes.shown("one")
    told = boxes.json("approve", "one", "docs", "/a.txt")
    assert {file["path"] for file in told["files"]} == {"docs/new/page.md", "a.txt"} and told["remaining"] == 2
    assert (boxes.base / "src/old.py").exists()
    assert "'nothing'" in boxes("approve", "one", "nothing", check=125).stderr


def test_hunks_are_chosen_one_by_one(boxes):
    boxes.make("one", TWO)
    text, code = answered(boxes, ["approve", "-p", "one", "n.txt", "b.txt"], ["n\n", "y\n", "n\n"])
    assert code == 0 and "\x1b" not in text, text
    assert "  partly: n.txt (1 of 2 hunks)" in text
    assert (boxes.base / "n.txt").read_text() == LINES.replace("30\n", "thirty\n", 1)
    assert not (boxes.base / "b.txt").exists()
    assert "+two" in boxes("diff", "one", check=0).stdout and "+thirty" not in boxes("diff", "one", check=0).stdout
    assert piped(boxes, ["approve", "-p", "one"], "a\na\n").returncode == 0
    assert (boxes.base / "b.txt").exists() and "two\n" in (boxes.base / "n.txt").read_text()


@pytest.mark.parametrize("last", ["\x04", "\x03"], ids=["end", "ctrl-c"])
def test_no_answer_writes_nothing(boxes, last):
    boxes.make("one", TWO)
    before = boxes.tree()
    text, code = answered(boxes, ["approve", "-p", "one"], ["y\n", last])
    assert code != 0 and boxes.tree() == before and "nothing was approved" in text, text
    assert piped(boxes, ["approve", "-p", "one"], "y\n").returncode == 125 and boxes.tree() == before
    assert "nothing was chosen" in piped(boxes, ["approve", "-p", "one"], "q\n").stdout


def test_what_runs_by_itself_wants_a_word(boxes):
    boxes.make("one", "echo x > .envrc; ln -s /etc/passwd out; echo fine > fine.txt")
    boxes.shown("one")
    done = boxes("approve", "one", check=1)
    assert ".envrc: " in done.stderr and "out: " in done.stderr and not (boxes.base / "fine.txt").exists()
    boxes("approve", "one", "fine.txt", check=0)
    asked = piped(boxes, ["approve", "-p", "one", ".envrc"], "y\n")
    assert "mind: " in asked.stdout and (boxes.base / ".envrc").exists()
    boxes("approve", "one", "--acknowledge", check=0)
    assert (boxes.base / "out").is_symlink()


def test_what_is_hostile_is_shown_escaped(boxes):
    boxes.make("one", r"""printf 'x\033[2J\302\233\342\200\256\n' > "$(printf 'a\033]0;t\007\nb')" """)
    asked = subprocess.run([PROGRAM, "approve", "-p", "one"], env=boxes.env, input=b"n\n", capture_output=True, timeout=60)
    assert asked.returncode == 0
    for byte in (b"\033", b"\007", b"\xc2\x9b", b"\xe2\x80\xae"):
        assert byte not in asked.stdout
    assert b"a\\x1b]0;t\\x07\\nb" in asked.stdout


def test_conflicts_write_nothing(boxes):
    boxes.make("one", TWO, live=True)
    (boxes.base / "n.txt").write_text(LINES.replace("2\n", "TWO\n", 1))
    boxes.shown("one")
    done = boxes("approve", "one", check=1)
    assert "  conflict: n.txt: " in done.stderr and not (boxes.base / "b.txt").exists()
    told = boxes.json("approve", "one", check=1)
    assert [file["verdict"] for file in told["files"]] == ["VERDICT_CONFLICT"] and told["refusal"]["reason"] == "CONFLICTS"
    boxes("approve", "one", "--force", check=0)
    assert "two\n" in (boxes.base / "n.txt").read_text()


@pytest.mark.parametrize("words", [["one", "--all", "-p"], ["one", "-p", "--json"], ["one", "-m", "x"], [], ["one", "--all", "a"]])
def test_calls_that_are_off(boxes, words):
    boxes.make("one", TWO)
    before = boxes.tree()
    boxes("approve", *words, check=2)
    assert boxes.tree() == before


def test_what_is_applied_is_named_and_a_dry_run_counts_what_would_stay(boxes):
    boxes.make("one", TWO)
    boxes.shown("one")
    assert boxes("approve", "-n", "one", check=0).stdout == "  would apply: b.txt\n  would apply: n.txt\nwould apply 2 files\n"
    assert "; 1 file stays in the sandbox" in boxes("approve", "-n", "one", "b.txt", check=0).stdout
    assert boxes("approve", "one", check=0).stdout.startswith("  applied: b.txt\n  applied: n.txt\napplied 2 files\n")


def test_discard_of_what_may_be_a_workspace_says_what_to_do(boxes):
    assert "--all" in boxes("discard", "w2", check=2).stderr


def test_directories_go_with_the_files_that_were_chosen(boxes):
    boxes.make("one", "mkdir -p d/e; echo f > d/f; echo g > d/e/g; rm -r src; mkdir empty")
    before = boxes.tree()
    asked = piped(boxes, ["approve", "-p", "one", "d", "src"], "n\ny\ny\nn\n")
    assert asked.returncode == 0, asked
    assert "d/f" in boxes.tree() and "d/e" not in boxes.tree() and "src/old.py" in boxes.tree(), (asked.stdout, boxes.tree())
    assert {path for path in before if path not in boxes.tree()} == {"src/cart.py"}, asked.stdout
    boxes("approve", "one", "--all", check=0)
    assert {"d/e/g", "empty"} <= set(boxes.tree()) and "src" not in boxes.tree()


def test_questions_that_nobody_could_read_approve_nothing(boxes):
    boxes.make("one", TWO)
    before = boxes.tree()
    reader, writer = os.pipe()
    os.close(reader)
    gone = subprocess.run([PROGRAM, "approve", "-p", "one"], env=boxes.env, input="y\n" * 9, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (141, "") and boxes.tree() == before
    with open("/dev/full", "w", encoding="utf-8") as full:
        gone = subprocess.run([PROGRAM, "approve", "-p", "one"], env=boxes.env, input="y\n" * 9, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert gone.returncode == 125 and "No space left" in gone.stderr and boxes.tree() == before, gone
