"""The console examples of the guide and of README print what they show, without a server and with one. After a change that is
meant, UPDATE_DOCS=1 in the environment writes the new output into them instead."""

import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "cli.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*)\n", re.M)


def settled(text):
    """Ids by the order in which they come, ages as none, times and commits as fixed ones."""
    seen = {}

    def number(match):
        kind = match.group(1)
        known = seen.setdefault(kind, {})
        return f"{kind}_{known.setdefault(match.group(0), len(known) + 1):016x}"

    def uuid(match):
        known = seen.setdefault("uuid", {})
        return f"00000000-0000-4000-8000-{known.setdefault(match.group(0), len(known) + 1):012x}"

    text = re.sub(r"\b(cb|sb|sess|cm)_[0-9a-f]{16}\b", number, text)
    text = re.sub(r"\b(ap)_[0-9a-f]{16}\b", number, text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", uuid, text)
    text = re.sub(r"\b[0-9a-f]{40}\b", "0" * 40, text)
    text = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-01T00:00:00Z", text)
    return re.sub(r"(?<=  )\d+[smh](?=  )", "0s", text)


def played(block, cli):
    script = "".join(f"printf '%s\\n' {shlex.quote('$ ' + c)}\n{c}\n" for c in COMMAND.findall(block))
    env = cli.environment()
    env["PATH"] = f"{pathlib.Path(cli.program).parent}:{env['PATH']}"
    done = subprocess.run(["sh", "-c", f"exec 2>&1 </dev/null\n{script}"], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=120)
    return settled(done.stdout)


@pytest.mark.parametrize("page", [GUIDE, ROOT / "docs" / "review.md", ROOT / "README.md"], ids=lambda page: page.name)
def test_examples_print_what_they_show(cli, page):
    text = page.read_text(encoding="utf-8")
    blocks = CONSOLE.findall(text)
    assert blocks
    for block in blocks:
        now = played(block, cli)
        if os.environ.get("UPDATE_DOCS"):
            text = text.replace(block, now)
        else:
            assert now == block, f"{page.name}: run the tests with UPDATE_DOCS=1 if this change is meant"
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(text, encoding="utf-8")


def test_the_guide_has_the_verbs_of_the_program_in_their_groups(cli):
    shown = re.findall(r"^(\S.*):$\n((?:  [a-z]+ +\S.*\n)+)", cli.run("help").out, re.M)
    verbs = [(group, re.findall(r"^  ([a-z]+) ", lines, re.M)) for group, lines in shown]
    assert verbs[0] == ("every day", "run ls diff approve discard undo exec shell stop rm logs policy".split())
    section = GUIDE.read_text(encoding="utf-8").partition("\n## Verbs\n")[2].partition("\n## ")[0]
    told = [(group, re.findall(r"^\| `([a-z]+)` \|", lines, re.M)) for group, lines in re.findall(r"^### (.*)\n((?:(?!###).*\n?)*)", section, re.M)]
    assert told == verbs


@pytest.mark.parametrize("alias", ["apply", "finish", "gc", "kill", "processes", "ps", "reject"])
def test_older_spellings_work_and_are_not_listed(cli, alias):
    assert cli.run(alias, "--help").out.startswith("usage: agentfense ")
    assert not re.search(rf"^  {alias} ", cli.run("help").out, re.M)


def test_the_manual_has_every_verb_and_option(cli, tmp_path):
    page = tmp_path / "agentfense.1"
    subprocess.run([ROOT / "tools" / "make-man", cli.program, "1.0", page], check=True, env=cli.environment(), timeout=60)
    text = page.read_text(encoding="utf-8").replace("\\-", "-")
    assert max(len(line) for block in re.findall(r"^\.nf\n(.*?)^\.fi", text, re.M | re.S) for line in block.splitlines()) <= 73
    for name in ("AGENTFENSE_CLIENT_CERT", "XDG_STATE_HOME", "DOCKER_HOST"):
        assert name in text
    for verb in re.findall(r"^  ([a-z]+) ", cli.run("help").out, re.M):
        assert f'.SH "{verb.upper()}"' in text
    for option in ("--exclude GLOB", "--no-sync", "--env-file FILE", "--follow", "--preset NAME", "--grpc-addr"):
        assert option in text
