"""What all verbs have in common."""

import pytest


@pytest.mark.parametrize("verb", ["run", "ls", "diff", "approve", "apply", "discard", "undo", "mount", "delta", "doctor", "policy show"])
def test_whoever_refuses_an_option_is_named(run, verb):
    result = run(*verb.split(), "--frobnicate")
    assert result.returncode in (2, 125)
    assert result.stderr.startswith(f"agentfense {verb.split()[0]}: ".encode()) and b"--frobnicate" in result.stderr
