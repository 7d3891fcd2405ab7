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
