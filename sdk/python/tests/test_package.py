"""The package as users get it: a wheel made without protoc, examples in its documents, types."""

import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile

import agentfense
import pytest
from conftest import HERE, ROOT

SDK = HERE.parent
MODULES = sorted(module.name for module in pkgutil.iter_modules(agentfense.__path__) if module.name != "_keeper")


@pytest.mark.parametrize("name", ["", *MODULES])
def test_the_examples_in_the_source_run(server, name):
    module = importlib.import_module(f"agentfense.{name}".rstrip("."))
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("path", [SDK / "README.md", ROOT / "README.md"], ids=["sdk", "top"])
def test_the_examples_in_the_readme_run(server, path, tree, tmp_path, monkeypatch):
    tree({"app.py": "print('hello')\n", "tests/test_app.py": "", "server.key": "x"}, "my-project")
    monkeypatch.chdir(tmp_path)
    found = blocks(path)
    assert found
    for block in found:
        exec(compile(block, str(path), "exec"), {"__name__": "example"})


def copy_of_source(tmp_path):
    """Building leaves files beside the source, so it is done elsewhere: in a copy as `cp -r` makes it, without the tree above it."""
    place = tmp_path / "source"
    shutil.copytree(SDK, place, symlinks=True, ignore=shutil.ignore_patterns("tests", "*.egg-info", "build", "__pycache__"))
    return place


def pack_and_unpack(source, tmp_path):
    """The source as an sdist has it."""
    code = f"import setuptools.build_meta as backend; backend.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True, timeout=300)
    (archive,) = tmp_path.glob("agentfense-*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (place,) = (tmp_path / "unpacked").iterdir()
    return place


def test_a_copy_imports_as_it_is(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", "-c", "import agentfense, sandbox_sdk; print(agentfense.__file__)"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(copy_of_source(tmp_path))}, cwd="/", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and str(tmp_path) in done.stdout, done.stderr


@pytest.mark.parametrize("of", ["copy", "sdist"])
def test_a_wheel_needs_no_protoc_and_no_network(tmp_path, server, of):
    source = copy_of_source(tmp_path)
    source = source if of == "copy" else pack_and_unpack(source, tmp_path)
    where = {name: value for name, value in os.environ.items() if name == "AGENTFENSE_ENDPOINT"}
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **where}
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "--no-index", "-w", str(tmp_path), str(source)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("agentfense-*.whl")
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        assert {"agentfense/py.typed", "agentfense/_proto/sandbox.proto", "agentfense/_proto/codebase.proto", "sandbox_sdk/__init__.py"} <= names
        assert not any(name.startswith("tests") or name.endswith("_pb2.py") for name in names)
        files.extractall(tmp_path / "installed")
    code = "import agentfense; print(agentfense.__file__, len(agentfense.SandboxClient().list_codebases()) >= 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(tmp_path / "installed")}, cwd="/",
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path / 'installed/agentfense/__init__.py'} True\n", done.stderr


def test_the_modules_for_event_loops_are_made_of_the_others():
    done = subprocess.run([ROOT / "tools/make-async-sdk", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_types_are_sound(tmp_path):
    if not shutil.which("mypy"):
        pytest.skip("no mypy")
    done = subprocess.run(["mypy", f"--cache-dir={tmp_path}"], cwd=SDK, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_example_agent_shows_the_four_levels(server):
    done = subprocess.run(
        [sys.executable, "-B", str(ROOT / "examples/agent/agent.py")],
        env={**os.environ, "PYTHONPATH": str(SDK)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in (
        "no such thing", "listed, not readable", "readable, not writable", "written",
        "cat: secrets/private.key: No such file or directory", "config/production.yaml: Permission denied", "stock.csv",
    ):  # fmt: skip
        assert line in done.stdout, line
    assert not pathlib.Path(ROOT / "examples/shop/output").exists()
