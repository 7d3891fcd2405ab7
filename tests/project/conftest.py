import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def agentfense():
    """The program under test, as the variable AGENTFENSE names it."""
    path = pathlib.Path(os.environ.get("AGENTFENSE", ROOT / "build" / "src" / "cli" / "agentfense"))
    if not path.exists():
        pytest.fail(f"{path} is not built; the variable AGENTFENSE names the program under test")
    return path.resolve()
