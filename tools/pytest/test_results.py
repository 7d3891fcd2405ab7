"""A pytest plugin that appends one JSON line per finished test to a file of its own below $AGENTFENSE_TEST_RESULTS.

tools/run-tests loads it into every pytest of a run and sums these files up: meson sees only whole programs. Each line is written
as its test ends, so that a run that is killed still reports what it did.

It also gives each pytest a directory of its own for `tmp_path`: by default all of a user share one, and clean up after each other.
"""

import json
import os
import pathlib
import shutil
import tempfile

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"


def variant():
    """Suites that run twice say so: with the other database, with the other runtime, as an ordinary user."""
    words = [os.environ[name] for name in ("AGENTFENSE_TEST_DB", "AGENTFENSE_TEST_RUNTIME") if os.environ.get(name)]
    if os.environ.get("AGENTFENSE_AS_USER"):
        words.append("as user")
    return f" ({' '.join(words)})" if words else ""


class Recorder:
    def __init__(self, directory, root):
        # A long run meets the same pid twice, perhaps as another user: the file is a new one each time.
        fd, _ = tempfile.mkstemp(dir=directory, prefix=f"{os.getpid()}-", suffix=".jsonl")
        os.chmod(fd, 0o644)
        self.file = open(fd, "w", encoding="utf-8")
        self.root = root
        self.seconds = 0.0
        self.outcome = "passed"
        self.reason = ""

    def write(self, test):
        name = os.path.relpath(self.root / test, TESTS) + variant()
        line = {"test": name, "outcome": self.outcome, "seconds": round(self.seconds, 3), "reason": self.reason}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        self.seconds, self.outcome, self.reason = 0.0, "passed", ""

    def pytest_runtest_logreport(self, report):
        self.seconds += report.duration
        if report.failed:
            self.outcome = "failed"
            self.reason = f"{report.when}: {report.longreprtext.strip().splitlines()[-1][:300] if report.longreprtext else ''}"
        elif report.skipped and self.outcome == "passed":
            self.outcome = "skipped"
            self.reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else f"expected failure: {report.wasxfail}"
        if report.when == "teardown":
            self.write(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcome, self.reason = "failed", "could not be collected"
            self.write(report.nodeid)
        elif report.skipped:
            self.outcome, self.reason = "skipped", report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self.write(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    directory = os.environ.get("AGENTFENSE_TEST_RESULTS")
    if directory:
        config.pluginmanager.register(Recorder(directory, config.rootpath), "agentfense-results")


@pytest.hookimpl(tryfirst=True, specname="pytest_configure")
def choose_basetemp(config):
    if not config.option.basetemp:
        made = config.option.basetemp = tempfile.mkdtemp(prefix="af-pytest-")
        config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))
