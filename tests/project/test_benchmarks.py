"""The page of measured figures is what the tool makes of the newest run, tells what was missed, and names nothing of the machine but
what it is meant to."""

import importlib.util
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
LOCAL = re.compile(r"(?<![\w.])/(tmp|root|home|work|var|run|mnt|usr/local)/")


def rendered(*words):
    return subprocess.run([sys.executable, ROOT / "tools" / "render-benchmarks", *map(str, words)], capture_output=True, text=True,
                          timeout=60)


@pytest.fixture
def small(tmp_path):
    """A run of one part, and where it is rendered to."""
    rows = [{"what": "a thing / another", "value": 1.5, "unit": "x", "target": 2.0, "verdict": "pass"},
            {"what": "a slow thing", "value": 31.25, "unit": "ms", "target": 20, "verdict": "MISS"},
            {"what": "a told thing", "value": 0, "unit": "", "target": None, "verdict": ""}]
    curve = {"name": "rules", "what": "rules of a policy", "points": [0, 10], "rounds": 3, "seconds": 1, "notes": ["a note"], "series": [
        {"what": "a flat <thing>", "unit": "us", "values": [None, 3.25], "ratios": [None, 1.0], "worst": 1.0, "target": 1.3, "verdict": "pass"},
        {"what": "a rising one", "unit": "us", "values": [2, 3], "ratios": [1.0, 1.5], "worst": 1.5, "target": 1.3, "verdict": "MISS"}]}
    diff = {"rows": rows, "contestants": {"many: show": {"seconds": 0.5, "peak_mb": 9}}}
    common = {"seconds": 7, "load_before": [0.1, 0.2, 0.3]}
    run = {"when": "2026-01-02T03:04:05+00:00", "commit": "abc", "quick": False,
           "machine": {"cpu": "a CPU", "cpus": 2, "kernel": "6.1", "memory_gb": 8.0},
           "parts": {"diff": {"command": "make bench-diff", "ran": "tools/bench-diff", "figures": {"diff": diff}, **common},
                     "scale": {"command": "make bench-scale", "ran": "tools/bench-scale", "figures": {"bench-scale": {"curves": [curve]}},
                               **common}}}
    (tmp_path / "results").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "results" / "2026-01-02.json").write_text(json.dumps(run))
    return tmp_path


def render(place, *words):
    return rendered("--results", place / "results", "--docs", place / "docs", *words)


def test_the_page_is_what_the_newest_figures_render_to():
    done = rendered("--check")
    assert done.returncode == 0, done.stderr


def test_figures_name_neither_the_host_nor_its_directories():
    for path in RESULTS.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not LOCAL.search(text), path.name
        assert f'"{socket.gethostname()}' not in text and f" {socket.gethostname()} " not in text, path.name


def test_a_missed_target_is_told_and_so_is_a_part_that_was_not_measured(small):
    assert render(small).returncode == 0
    page = (small / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "2 of 4 targets are met." in page
    assert "| a slow thing | 31.2 ms | ≤ 20.0 ms | **missed** |" in page
    assert "| a thing / another | 1.50 | ≤ 2.00 | met |" in page
    assert "| Files |  | not measured in this run |" in page
    assert "| rules of a policy, 0 to 10: a rising one | 1.50 | ≤ 1.30 | `make bench-scale` |" in page
    assert "| a flat <thing> | – | 3.25 us | ≤ 1.30 | met |" in page


def test_pictures_are_sound_and_those_of_parts_that_are_gone_are_removed(small):
    (small / "docs" / "benchmarks").mkdir()
    (small / "docs" / "benchmarks" / "old.svg").write_text("")
    assert render(small).returncode == 0
    (picture,) = (small / "docs" / "benchmarks").iterdir()
    assert picture.name == "scale-rules.svg"
    texts = [item.text for item in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert "a flat <thing>" in texts and "10" in texts


def test_a_page_edited_by_hand_is_found_and_the_newest_run_counts(small):
    render(small)
    assert render(small, "--check").returncode == 0
    page = small / "docs" / "benchmarks.md"
    page.write_text(page.read_text(encoding="utf-8").replace("31.2", "11.2"))
    done = render(small, "--check")
    assert done.returncode == 1 and "benchmarks.md" in done.stderr
    render(small)
    old = small / "results" / "2026-01-02.json"
    newer = json.loads(old.read_text())
    newer["when"], newer["commit"] = "2026-01-02T09:00:00+00:00", "def"
    (small / "results" / "2026-01-02-2.json").write_text(json.dumps(newer))
    assert render(small, "--check").returncode == 1
    render(small)
    assert "| commit | def |" in page.read_text(encoding="utf-8")


def test_what_is_kept_of_a_run_names_no_directory_and_no_noise():
    spec = importlib.util.spec_from_file_location("bench_all", ROOT / "bench" / "all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    was = {"skipped": {"docker": f"/tmp/af-x/bin/thing on {socket.gethostname()}: no"}, "what": "exec / fork+exec", "rows": [1.23456789, 3]}
    assert module.clean(was) == {"skipped": {"docker": "thing on here: no"}, "what": "exec / fork+exec", "rows": [1.2346, 3]}
    every = {part.target for part in module.PARTS}
    targets = set(re.findall(r"^(bench-[a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert every == targets and all(shutil.which(ROOT / "tools" / target) for target in every)
