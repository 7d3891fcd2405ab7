"""The examples work: the shop passes its own tests, its policies are sound, and examples/run tells when something is wrong."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOP = ROOT / "examples" / "shop"
POLICIES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_the_shop_passes_its_own_tests():
    result = run(sys.executable, "-B", "-m", "unittest", cwd=SHOP)
    assert result.returncode == 0, result.stderr
    assert "OK" in result.stderr


def test_the_shop_has_something_to_hide_and_no_output_yet():
    for name in (".env", ".env.example", "secrets/private.key", "secrets/public.key", "config/production.yaml"):
        assert (SHOP / name).is_file(), name
    assert not (SHOP / "output").exists()


def test_no_file_of_the_examples_is_ignored_by_git():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    files = [str(path) for path in (ROOT / "examples").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    result = run("git", "check-ignore", "--no-index", *files, cwd=ROOT)
    if result.returncode == 128:
        pytest.skip(result.stderr)
    assert (result.returncode, result.stdout) == (1, "")


def test_the_report_goes_to_output(tmp_path):
    for part in ("src", "scripts"):
        for path in (SHOP / part).rglob("*.py"):
            target = tmp_path / path.relative_to(SHOP)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    result = run(sys.executable, "-B", str(tmp_path / "scripts" / "report.py"))
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "output" / "stock.csv").read_text().startswith("sku,name,stock,value\n")


@pytest.mark.parametrize("policy", POLICIES, ids=lambda path: path.stem)
def test_the_policy_is_sound(agentfense, policy):
    result = run(agentfense, "policy", "lint", "--policy", policy)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_main_job_shows_the_shop(agentfense):
    result = run(ROOT / "examples" / "run", agentfense)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    for word in ("agent-safe", "/src/shop/cart.py", "/secrets/public.key"):
        assert word in result.stdout
    inside = result.stdout.partition("== A command in a sandbox over the project\n")[2]
    if inside.startswith("skipped: "):
        assert "agentfense doctor" in inside
        return
    listing = inside.partition("$ agentfense run --preset agent-safe examples/shop -- cat")[0].splitlines()
    assert listing[1:] == [".env.example", "Makefile", "README.md", "config", "docs", "output", "scripts", "src", "tests", "tmp",
                           "agentfense: no files changed"]
    for line in ("cat: .env: No such file or directory", "cat: secrets/private.key: No such file or directory",
                 "agentfense: refused: write /README.md (read)", "cannot create README.md: Permission denied",
                 "wrote output/stock.csv", "agentfense: 1 file changed (1 added, 0 modified, 0 deleted)", "+++ b/output/stock.csv",
                 "+sku,name,stock,value"):
        assert line in inside, line
    assert re.search(r"\$ agentfense rm report\nsb_[0-9a-f]{16}\n$", inside), inside
    assert not (SHOP / "output").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes the device away from a mount namespace: needs root")
def test_the_main_job_says_when_the_host_cannot_mount(agentfense):
    result = run("unshare", "-m", "sh", "-c", 'mount --bind /dev/null /dev/fuse && exec "$@"', "sh", ROOT / "examples" / "run", agentfense)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped: agentfense run: /dev/fuse is not the FUSE device" in result.stdout


@pytest.mark.parametrize("verb", ["presets", "show", "explain", "lint"])
def test_the_main_job_fails_when_a_step_does(tmp_path, verb):
    fake = tmp_path / "agentfense"
    fake.write_text(f'#!/bin/sh\n[ "$2" != {verb} ]\n')
    fake.chmod(0o755)
    assert run(ROOT / "examples" / "run", fake).returncode == 1


def test_the_main_job_asks_for_the_program():
    assert run(ROOT / "examples" / "run").returncode == 2
