import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("AGENTFENSE", str(ROOT / "build" / "src" / "cli" / "agentfense"))


@pytest.fixture
def run():
    """Runs the program: bytes out, bytes err and the exit code."""

    def call(*args, **kwargs):
        return subprocess.run([PROGRAM, *args], capture_output=True, timeout=60, check=False, **kwargs)

    return call


@pytest.fixture
def shop():
    return str(ROOT / "examples" / "shop")
