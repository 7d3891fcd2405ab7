"""What all verbs have in common."""

import pytest


@pytest.mark.parametrize("verb", ["run", "ls", "diff", "approve", "apply", "discard", "undo", "mount", "delta", "doctor", "policy show"])
def test_whoever_refuses_an_option_is_named(run, verb):
    result = run(*verb.split(), "--frobnicate")
    assert result.returncode in (2, 125)
    assert result.stderr.startswith(f"agentfense {verb.split()[0]}: ".encode()) and b"--frobnicate" in result.stderr


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("verb", ["run", "ls", "diff", "approve", "apply", "discard", "undo", "mount", "delta", "doctor", "policy"])
def test_every_verb_explains_itself(run, verb, option):
    result = run(verb, option)
    assert result.returncode == 0 and not result.stderr
    assert f"agentfense {verb}".encode() in result.stdout and b"-h, --help" in result.stdout


def test_the_doctors_last_word_agrees_with_what_it_found_and_its_code(run):
    result = run("doctor")
    *findings, last = result.stdout.decode().rstrip("\n").splitlines()
    is_whole = not any(line.startswith(("degraded", "missing")) for line in findings)
    assert (last == "all is well") == (result.returncode == 0 and is_whole)
    assert last.endswith("is optional") == (result.returncode == 0 and not is_whole)
