"""What the documents say about the tree is so: links lead somewhere, make targets exist, examples print what they show.

The output of examples is compared with what the program prints. After a change that is meant, UPDATE_DOCS=1 in the
environment writes the new output into the documents instead.
"""

import os
import pathlib
import re
import runpy
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PUBLIC_TARGETS = ["build", "run", "test", "san", "fmt", "lint", "fuzz", "bench", "install", "clean"]

FENCE = re.compile(r"^```.*?^```", re.M | re.S)
CODE_SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*(?:\n> .*)*)\n", re.M)
MODULE = re.compile(r"^\| `src/(\w+)` \| ([^|]*) \|", re.M)
SOURCE = re.compile(r"\bsrc/\w+/\w+\.[ch]\b|\b\w+\.c\b")
HEADING = re.compile(r"^#+\s+(.*)$", re.M)


def documents():
    return sorted(path for path in ROOT.rglob("*.md") if not path.relative_to(ROOT).parts[0].startswith(("build", ".")))


def anchors(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(text)}


def broken_links(path):
    text = CODE_SPAN.sub("", FENCE.sub("", path.read_text(encoding="utf-8")))
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


def make_words(path):
    """What stands after `make` in code, in the text and in blocks."""
    text = path.read_text(encoding="utf-8")
    code = FENCE.findall(text) + CODE_SPAN.findall(FENCE.sub("", text))
    return {word for piece in code for word in re.findall(r"(?:^|[\s`])make ([a-z]\w*)", piece)}


def played(block, agentfense, state):
    """A console block with the output that its commands print today; variables set by one command hold for the next. Sandboxes are kept in `state`."""
    commands = COMMAND.findall(block)
    script = "".join(f"printf '%s\\n' {shlex.quote('$ ' + c)}\n" + re.sub(r"\n> ", "\n", c) + "\n" for c in commands)
    env = dict(os.environ, PATH=f"{agentfense.parent}:{os.environ['PATH']}", LC_ALL="C.UTF-8", AGENTFENSE_STATE_DIR=str(state))
    shown = subprocess.run(["sh", "-c", f"exec 2>&1\n{script}"], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=120).stdout
    return re.sub(r"\bsb_[0-9a-f]{16}\b", "sb_0000000000000001", shown)


def make_targets():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", text, re.M))


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path):
    assert list(broken_links(path)) == []


def test_the_readme_names_the_two_commands():
    assert {"run", "test"} <= make_words(ROOT / "README.md")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_named_is_one(name):
    assert make_words(ROOT / name) - make_targets() == set()


def test_make_help_lists_every_public_target():
    result = subprocess.run(["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    listed = dict(re.findall(r"^\s*make (\S+)\s+(\S.*)$", result.stdout, re.M))
    assert [target for target in PUBLIC_TARGETS if target not in listed] == []


def test_every_decision_is_numbered_once():
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [name[:4] for name in names]
    assert numbers == [f"{i + 1:04d}" for i in range(len(names))]


def test_no_document_has_trailing_blanks_or_tabs():
    for path in documents():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            assert line == line.rstrip() and "\t" not in line, f"{path.relative_to(ROOT)}:{number}"


@pytest.mark.parametrize("name", ["README.md", "docs/policy.md"])
def test_examples_print_what_they_show(agentfense, tmp_path, name):
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    blocks = CONSOLE.findall(text)
    assert blocks
    for block in blocks:
        now = played(block, agentfense, tmp_path / "state")
        if os.environ.get("UPDATE_DOCS"):
            text = text.replace(block, now)
        else:
            assert now == block, f"{name}: run the tests with UPDATE_DOCS=1 if this change is meant"
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(text, encoding="utf-8")


def test_the_table_of_modules_is_that_of_check_modules():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = {module: set(may.split()) - {"–"} for module, may in MODULE.findall(text)}
    checked = runpy.run_path(str(ROOT / "tools" / "check-modules"))["MAY_INCLUDE"]
    assert table == {module: set(may) for module, may in checked.items()}
    assert set(table) == {path.parent.name for path in (ROOT / "src").glob("*/meson.build")}


def test_the_source_files_that_the_architecture_names_are_there():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.[ch]")}
    there |= {path.rpartition("/")[2] for path in there}
    assert [name for name in SOURCE.findall(text) if name not in there] == []



def test_every_method_and_route_is_in_the_document_of_the_api():
    """Each method of sandbox.v1, and for each route of /api/v1 which method it is."""
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    protos = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "proto/sandbox/v1").glob("*.proto"))
    methods = set(re.findall(r"^  rpc (\w+)\(", protos, re.M))
    before, table = text.split("## What /api/v1 is here")
    assert len(methods) > 80 and {name for name in methods if f"`{name}`" not in before} == set()
    routes = (ROOT / "src/api/compat_workspace_routes.c").read_text(encoding="utf-8")
    described = {f"{verb} {'/sandboxes/{id}' if of == 'ONE' else ''}{path}" for verb, of, path in re.findall(r'\{ "(\w+)", (V1|ONE)(?: "([^"]*)")?,', routes)}
    named = {span for row in table.splitlines() if row.startswith("| `") for span in re.findall(r"`((?:GET|POST|PUT|DELETE) [^`]+)`", row.split("|")[1])}
    assert len(described) > 50 and described == named
    used = {name for row in table.splitlines() if row.startswith("| `") for name in re.findall(r"`([A-Z][A-Za-z]+)`", row.split("|")[2])}
    assert used <= methods
