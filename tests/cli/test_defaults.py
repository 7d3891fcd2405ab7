"""One table of defaults: what the code has, what docs/defaults.md says, what a server goes by and what the Python package documents."""

import ast
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("AGENTFENSE", ROOT / "build" / "src" / "cli" / "agentfense")).resolve()
SDK = ROOT / "sdk" / "python" / "agentfense"


def say(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False).stdout


@pytest.fixture(scope="module")
def table():
    rows = json.loads(say("doctor", "--json"))["defaults"]
    assert len(rows) > 20
    return {row["name"]: row for row in rows}


def test_the_page_is_the_table(table):
    lines = (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")][1:]
    told = [dict(zip(("name", "run", "server", "sdk", "setting"), (*row[:4], row[4].strip("`-")))) for row in cells]
    assert told == list(table.values())


def test_where_the_sides_differ_the_page_says_why(table):
    lines = (ROOT / "docs" / "defaults.md").read_text(encoding="utf-8").splitlines()
    for row in table.values():
        line = next(line for line in lines if line.startswith(f"| {row['name']} |"))
        applies = {row["run"], row["server"], row["sdk"]} - {"-"}
        assert len(applies) == 1 or len(line.strip("| ").split("|")[5]) > 10, line


def test_a_server_goes_by_it(table):
    """A setting of 0 stands for a default that depends on the host; its help has the number."""
    text = say("serve", "--help")
    for row in table.values():
        if not row["setting"]:
            continue
        line = next((line for line in text.splitlines() if line.split()[:1] == [row["setting"]]), None)
        assert line, row["setting"]
        value = re.search(r"\[([^]]*)\]", line).group(1)
        wanted = {"synced": "true"}.get(row["server"], row["server"])
        assert value == wanted or (value == "0" and (wanted in line or wanted.rstrip("G") in line or wanted in ("3/4 of the host", "all"))), line


def constant(path, name):
    tree = ast.parse((SDK / path).read_text(encoding="utf-8"))
    return next(ast.unparse(node.value) for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name)


def test_the_python_package_documents_the_same(table):
    assert ast.literal_eval(constant("presets.py", "DEFAULT_PRESET")) == table["preset"]["sdk"]
    assert constant("_calls.py", "DEFAULT_RUN_TIMEOUT") == f"timedelta(seconds={table['time limit of a command']['sdk'].rstrip('s')})"


@pytest.mark.parametrize("verb, names", [("run", ("preset", "processes", "files among the changes")), ("create", ("preset",)),
                                         ("exec", ("time limit of a command",))])
def test_the_help_of_the_verbs_has_the_same_values(table, verb, names):
    text = say(verb, "--help")
    for name in names:
        assert table[name]["run" if verb == "run" else "server"] in text, name
