"""At the person who reads: names and contents that move a terminal, forge what is printed, or make a patch apply elsewhere."""

import json
import os
import pty
import re
import select
import subprocess
import unicodedata
import urllib.parse

import pytest
from review import Review

# Each is a name that an agent may give a file; contents are the same bytes.
NAMES = {
    "escapes": b"\x1b[2J\x1b[1;1H\x1b]0;owned\x07x",
    "a title that asks back": b"\x1b[21t\x1b]52;c;ZXZpbA==\x07x",
    "eight-bit escapes": b"\xc2\x9b2Jx",
    "carriage returns": b"good.txt\rbad ",
    "backspaces": b"evil\x08\x08\x08\x08good",
    "a new line": b"x\n+++ y",
    "right to left": "\u202egpj.exe".encode(),
    "isolates": "\u2066x\u2069 \u2067y\u2069".encode(),
    "invisible": "a\u200b\u200d\ufeffb".encode(),
    "tags": "a\U000e0041\U000e0042".encode(),
    "bytes that are no text": b"caf\xe9\xff",
    "a delete": b"a\x7fb",
    "a tab": b"a\tb",
    "line separators": "a\u2028b\u2029c\x85d".encode(),
}
MOVES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def is_calm(text):
    """No character that a terminal acts on, beside the line's end; colours are asked about elsewhere."""
    found = MOVES.search(text)
    assert not found, (found[0].encode("unicode_escape"), text[max(0, found.start() - 60):found.start() + 60])
    for c in text:
        assert c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp"), (hex(ord(c)), text[:200])


def calm_json(text):
    """JSON leaves DEL as it is, and terminals pass over it."""
    return text.replace("\x7f", "")


def agent_script():
    """Makes all of them, as files, directories, links and contents."""
    return f"""
import os
names = {list(NAMES.values())!r}
for n, name in enumerate(names):
    open(name, "wb").write(name + b"\\n" + b"\\n".join(names))
    os.mkdir(b"d" + name); open(b"d" + name + b"/" + name, "wb").write(b"x")
    os.symlink(name, b"l" + name)
    os.rename(b"old%d" % n, b"r" + name)
open("hunks", "wb").write(b"one\\n--- a/etc/passwd\\n+++ b/etc/passwd\\n@@ -1 +1 @@\\n-root\\n+evil\\ndiff --git a/x b/../../x\\nrename from ../../etc/x\\n-- \\n2.0\\n")
open("edited", "wb").write(b"1\\n2\\n" + b"\\n".join(names) + b"\\n3\\n")
"""


@pytest.fixture(scope="module")
def printed(one):
    """What every verb prints about a sandbox whose agent had such names in mind."""
    one.write("edited", "1\n2\n3\n")
    for n in range(len(NAMES)):
        one.write(f"old{n}", f"a file that is renamed {n}\n" * 40)
    done = one.run("-q", "--name", "loud", "--rule", "/**=write", command=["/usr/bin/python3", "-c", agent_script()])
    assert done.code == 0, done
    yield one
    one.call("rm", "--purge", "loud")
    for n in range(len(NAMES)):
        (one.base / f"old{n}").unlink()
    (one.base / "edited").unlink()


def on_a_terminal(host, *words):
    main, end = pty.openpty()
    child = subprocess.Popen(host.words(host.program, *words), stdin=end, stdout=end, stderr=end, env=host.env(TERM="xterm-256color", LC_ALL="C.UTF-8"), cwd=host.dir,
                             start_new_session=True)
    os.close(end)
    seen = b""
    while select.select([main], [], [], 60)[0]:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    child.wait(60)
    return seen.decode(errors="surrogateescape").replace("\r\n", "\n")


@pytest.mark.parametrize("words", [["diff", "loud"], ["diff", "loud", "--stat"], ["diff", "loud", "--name-only"], ["diff", "loud", "--json"], ["ls"], ["ls", "--json"],
                                   ["delta", "list", "DELTA"]], ids=" ".join)
def test_names_that_move_the_terminal_of_whoever_looks(printed, words):
    words = [str(printed.place("loud") / "delta") if word == "DELTA" else word for word in words]
    for text in (printed.call(*words).out.decode(errors="surrogateescape"), re.sub(r"\x1b\[[0-9;]*m", "", on_a_terminal(printed, *words))):
        assert text
        is_calm(calm_json(text) if "--json" in words else text)


def test_lines_that_look_like_the_beginning_of_another_file(printed):
    """As many files are shown as there are, and no line of a file's content stands where a header would."""
    files = json.loads(printed.call("diff", "loud", "--json").out)["files"]
    text = printed.call("diff", "loud").out.decode()
    assert not re.search(r"^(--- a/etc|\+\+\+ b/etc|rename from \.\.|diff --git a/(x|y) )", text, re.M), text
    names = printed.call("diff", "loud", "--name-only").out.decode().splitlines()
    assert len(names) == len(set(names)) == len(files) >= 3 * len(NAMES)


def test_what_is_applied_is_told_calmly(printed):
    """Approving tells what it did, with the same names."""
    result = printed.call("approve", "loud", "--dry-run", "--all")
    for text in (result.out.decode(errors="surrogateescape"), result.err):
        is_calm(text)
    result = printed.call("approve", "loud", "-p", input=b"q\n")
    for text in (result.out.decode(errors="surrogateescape"), result.err):
        is_calm(re.sub(r"\x1b\[[0-9;]*m", "", text))


def test_what_was_refused_is_told_calmly(one):
    script = f"import os\nfor name in {list(NAMES.values())!r}:\n try: open(b'ro/' + name, 'w')\n except OSError: pass\n try: os.listdir(b'hid/' + name)\n except OSError: pass"
    one.write("ro/x", "x")
    result = one.run("-v", "--rm", "--rule", "/**=read", "--rule", "/hid/**=none", command=["/usr/bin/python3", "-c", script])
    assert result.code == 0 and "refused" in result.err, result
    is_calm(result.err)
    (one.base / "ro/x").unlink()
    (one.base / "ro").rmdir()


def test_what_is_on_the_command_line_is_told_calmly(one):
    for name in NAMES.values():
        for words in (["run", b"/nonexistent/" + name, "--", "true"], ["diff", name], ["run", "--rule", name + b"=evil", str(one.base), "--", "true"],
                      ["run", "--name", name, str(one.base), "--", "true"], ["approve", name]):
            done = subprocess.run([os.fsencode(word) for word in one.words(one.program)] + [os.fsencode(w) for w in words], env=one.env(), cwd=one.dir,
                                  capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=60)
            assert done.returncode != 0
            is_calm((done.stdout + done.stderr).decode(errors="surrogateescape"))


# ---- over HTTP, in logs, and as patches ----

@pytest.fixture(scope="module")
def box(shared):
    made = Review(shared, {"edited": "1\n2\n3\n", **{f"old{n}": f"a file that is renamed {n}\n" * 40 for n in range(len(NAMES))}}, rules=[{"pattern": "/**", "permission": "write"}])
    done = made.exec("/usr/bin/python3", "-c", agent_script())
    assert done["exitCode"] == 0, done
    yield made
    made.remove()


def test_reviews_events_and_logs_hold_such_names_escaped(shared, box):
    diff = box.diff()
    assert len(diff["files"]) >= 3 * len(NAMES)
    for file in diff["files"]:
        for hunk in file.get("hunks", []):
            for line in hunk["lines"]:
                is_calm(line)
    is_calm(calm_json(box.http("GET", "/diff", raw=True)[1].decode()))  # as a person sees it who uses curl
    box.http("POST", "/approve", {"dryRun": True, "files": [os.fsdecode(name).encode(errors="replace").decode() for name in NAMES.values()]})
    for line in shared.log().splitlines():
        if line.startswith("{"):
            json.loads(line)
        is_calm(line)
    assert shared.log().count("\n") == len(shared.log().splitlines())


def test_a_patch_applies_where_it_says_and_nowhere_else(box, tmp_path):
    """`git apply` in a copy gives what the agent made; beside the copy nothing is touched."""
    answer, patch = box.http("GET", "/diff?format=patch", raw=True)
    assert answer.status == 200
    copy, beside = tmp_path / "deep/er/copy", tmp_path / "deep/er/x"
    subprocess.run(["cp", "-a", box.project, tmp_path / "project"], check=True)
    copy.parent.mkdir(parents=True)
    os.rename(tmp_path / "project", copy)
    before = sorted(os.listdir(tmp_path / "deep/er")), sorted(os.listdir(tmp_path))
    env = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null", GIT_CEILING_DIRECTORIES=str(tmp_path))
    done = subprocess.run(["git", "apply", "-"], input=patch, cwd=copy, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (sorted(os.listdir(tmp_path / "deep/er")), sorted(os.listdir(tmp_path))) == before and not beside.exists()
    for name in NAMES.values():
        assert open(os.path.join(os.fsencode(copy), name), "rb").read().startswith(name)
        assert os.readlink(os.path.join(os.fsencode(copy), b"l" + name)) == name
    assert (copy / "hunks").read_bytes().startswith(b"one\n--- a/etc/passwd\n")


def test_names_in_headers_of_an_answer(box):
    for name in ("a\r\nSet-Cookie: x=1", 'q"uote\\', "\u202egpj.exe", "new\nline", ";evil=1"):
        quoted = urllib.parse.quote(name, safe="")
        box.http("PUT", f"/files/content?path={quoted}", {"content": "x"})
        answer, _ = box.http("GET", f"/files/download?path={quoted}", raw=True)
        assert answer.getheader("Set-Cookie") is None
        for header, value in answer.getheaders():
            is_calm(value)
        assert answer.getheader("Content-Type") != "text/html"
        assert answer.status != 200 or (answer.getheader("X-Content-Type-Options") == "nosniff" and answer.getheader("Content-Disposition").startswith("attachment"))
