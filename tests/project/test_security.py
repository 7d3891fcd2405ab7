"""SECURITY.md maps promises to tests: what it names is there, and every file of attacks is named."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w./*-]+)(?:::(\w+))?`")
ROW = re.compile(r"^\| (?!-|promise |who )(.+?) \| (.+?) \|$", re.M)


def test_every_test_that_is_named_is_there():
    named = NAMED.findall(TEXT)
    assert len(named) > 30
    for path, function in named:
        found = sorted(ROOT.glob(path))
        assert found, f"SECURITY.md names '{path}', which is not there"
        assert not function or any(re.search(rf"\b{function}\b *\(", file.read_text(encoding="utf-8")) for file in found), f"{path} has no {function}"


def test_every_file_of_attacks_is_named():
    for path in (ROOT / "tests/attack").glob("test_*.py"):
        assert f"`tests/attack/{path.name}" in TEXT, f"SECURITY.md does not say what {path.name} proves"


def test_every_promise_names_what_proves_it():
    promises = TEXT[TEXT.index("## What is promised"):TEXT.index("## What is not promised")]
    rows = ROW.findall(promises)
    assert len(rows) > 20
    for promise, proof in rows:
        assert NAMED.search(proof), f"nothing proves '{promise}'"
