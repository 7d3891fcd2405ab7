"""One version for all that is released together, and one text of what several parts carry."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIES = {
    "sdk/python/LICENSE": "LICENSE",
    "sdk/python/agentfense/_proto/status.proto": "proto/google/rpc/status.proto",
    **{f"sdk/python/agentfense/_proto/{path.name}": f"proto/sandbox/v1/{path.name}" for path in (ROOT / "proto/sandbox/v1").glob("*.proto")},
}


def version():
    return re.search(r"^  version: '([\d.]+)',$", (ROOT / "meson.build").read_text(), re.M)[1]


def test_the_package_for_python_has_the_version_of_the_programs(agentfense):
    source = (ROOT / "sdk/python/agentfense/__init__.py").read_text()
    assert re.search(r'^__version__ = "(.*)"$', source, re.M)[1] == version()
    assert "attr = \"agentfense.__version__\"" in (ROOT / "sdk/python/pyproject.toml").read_text()
    done = subprocess.run([agentfense, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"agentfense {version()}\n"


def test_what_the_package_carries_is_what_the_tree_has():
    """Files, not links, which a copy of the package would not have. UPDATE_DOCS=1 writes them anew."""
    for copy, original in COPIES.items() if os.environ.get("UPDATE_DOCS") else ():
        (ROOT / copy).write_bytes((ROOT / original).read_bytes())
    wrong = [copy for copy, original in COPIES.items()
             if (ROOT / copy).is_symlink() or (ROOT / copy).read_bytes() != (ROOT / original).read_bytes()]
    assert not wrong
    assert {path.name for path in (ROOT / "sdk/python/agentfense/_proto").glob("*.proto")} == \
        {pathlib.Path(copy).name for copy in COPIES if copy.endswith(".proto")}
