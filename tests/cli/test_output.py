"""Standard output that takes nothing: whoever reads has left, or the disk is full."""

import os
import signal
import subprocess

import pytest

from conftest import PROGRAM
from test_review_verbs import BUSY, Sandboxes

LONG = "\n".join(f"line {n} of a text that does not fit a buffer" for n in range(20000))

WORDS = [
    ["--help"],
    ["--version"],
    ["help", "run"],
    ["policy", "presets"],
    ["policy", "show", "--preset", "agent-safe"],
    ["policy", "show", "--preset", "agent-safe", "--json"],
    ["ls"],
    ["ls", "--json"],
    ["diff", "one"],
    ["diff", "one", "--json"],
    ["diff", "one", "--patch"],
    ["diff", "long"],
    ["diff", "long", "--json"],
    ["approve", "one", "--all", "-n"],
    ["doctor"],
    ["completion", "bash"],
    ["events", "--help"],
    ["token", "--help"],
    ["serve", "--help"],
    ["serve", "--version"],
]


@pytest.fixture(scope="module")
def boxes(tmp_path_factory):
    boxes = Sandboxes(tmp_path_factory.mktemp("output"))
    boxes.make("one", BUSY)
    (boxes.base / "long").write_text(LONG)
    boxes.make("long", "sed -i s/line/LINE/ long; echo x > new")
    return boxes


@pytest.fixture
def no_reader():
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_reader_that_has_left_is_no_news(boxes, no_reader, words):
    ran = subprocess.run([PROGRAM, *words], env=boxes.env, stdout=no_reader, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ran.stderr == "" and ran.returncode in (141, -signal.SIGPIPE), ran


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_disk_that_is_full_is_told(boxes, words):
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([PROGRAM, *words], env=boxes.env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ran.returncode in (1, 125) and "No space left on device" in ran.stderr and "Success" not in ran.stderr, ran


def test_one_line_of_many(boxes):
    ran = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | head -1', "sh", PROGRAM, "diff", "long"], env=boxes.env, capture_output=True, text=True,
                         timeout=60)
    assert ran.stdout == "diff --git a/long b/long\n" and (ran.returncode, ran.stderr) == (141, "")
