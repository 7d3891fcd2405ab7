"""Messages as JSON agree with protobuf's own implementation, for whatever messages there are."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = os.environ.get("REST_JSON_LINES", str(ROOT / "build/tests/rest/rest-json-lines"))
HERE = pathlib.Path(__file__).resolve().parent


def interpreter():
    """Debian's Python has Debian's protobuf; another that is found first may not."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import google.protobuf"], capture_output=True).returncode == 0:
            return python
    pytest.skip("no Python with protobuf")


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory):
    path = tmp_path_factory.mktemp("descriptors") / "echo"
    subprocess.run(["protoc", f"--proto_path={HERE}", "--include_imports", f"--descriptor_set_out={path}", "echo.proto"], check=True)
    return path


def reference(*args, **options):
    return subprocess.run([interpreter(), HERE / "reference.py", *map(str, args)], capture_output=True, timeout=600, **options)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_messages_come_back_the_same(descriptors, tmp_path, seed):
    made = reference("make", descriptors, seed, 500)
    assert made.returncode == 0, made.stderr
    originals = tmp_path / "originals"
    originals.write_bytes(made.stdout)
    ours = subprocess.run([LINES], input=made.stdout, capture_output=True, timeout=600, check=True)
    assert ours.stdout.count(b"\n") == 500
    compared = reference("compare", descriptors, originals, input=ours.stdout)
    assert compared.returncode == 0, (compared.stdout[:2000], compared.stderr[-2000:])
