"""tools/run-tests with a stand-in for meson: what it counts, what it calls failed, and its closing lines."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

RUN_TESTS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "run-tests"

TESTS = """
import pytest

def test_good(): pass

def test_bad(): assert 1 == 2

@pytest.mark.skip(reason="no moon tonight")
def test_skipped(): pass

@pytest.fixture
def leaky():
    yield
    raise RuntimeError("left something behind")

def test_whose_cleaning_up_fails(leaky): pass
"""

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] first
[       OK ] first
[ RUN      ] second
[  ERROR   ] --- 1 != 2
[  FAILED  ] second
[ RUN      ] third
[  SKIPPED ] third
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] second
"""

# Lists no test, so that no service is started for it; otherwise writes the log that it was told to write.
MESON = """#!/bin/sh
case " $* " in *" --list "*) exit 0 ;; esac
while [ "$1" != --logbase ]; do shift; done
cp "{log}" "{logs}/$2.json"
{command}
exit {status}
"""


class Run:
    """A build directory and a `meson` that pretends to have run `programs` in it."""

    def __init__(self, directory):
        self.build = directory / "build"
        self.bin = directory / "bin"
        (self.build / "meson-logs").mkdir(parents=True)
        self.bin.mkdir()

    def call(self, *programs, command="true", status=0):
        log = self.build / "log"
        log.write_text("".join(json.dumps(program) + "\n" for program in programs))
        meson = self.bin / "meson"
        meson.write_text(MESON.format(log=log, logs=self.build / "meson-logs", command=command, status=status))
        meson.chmod(0o755)
        env = os.environ | {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        return subprocess.run([sys.executable, RUN_TESTS, self.build], env=env, capture_output=True, text=True, timeout=60, check=False)


def program(name, result="OK", stdout="", command=("x",), duration=0.5):
    return {"name": name, "result": result, "stdout": stdout, "stderr": "", "command": list(command), "duration": duration}


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def closing(done):
    return done.stdout.splitlines()[-1]


def test_tests_of_pytest_are_counted_one_by_one(run, tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    pytest_call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_some.py")]
    told = program("some", "FAIL", "\nFAILED test_some.py::test_bad\n", command=pytest_call)
    done = run.call(told, command=" ".join(pytest_call), status=1)
    assert closing(done) == "1 passed, 2 failed, 1 skipped"
    assert done.returncode == 1
    assert "  no moon tonight" in done.stdout


def test_tests_of_cmocka_are_counted_once_each(run):
    done = run.call(program("base/some", "FAIL", CMOCKA), status=1)
    assert closing(done) == "1 passed, 1 failed, 1 skipped"
    assert "base/some: FAIL" in done.stdout


@pytest.mark.parametrize("result", ["TIMEOUT", "FAIL", "ERROR", "INTERRUPT"])
def test_a_program_that_ends_without_a_failed_test_is_a_failure(run, result):
    done = run.call(program("base/good", stdout="[       OK ] first\n"), program("crashed", result), status=0)
    assert closing(done) == "1 passed, 1 failed, 0 skipped"
    assert done.returncode == 1


def test_when_all_is_well_it_says_so_and_names_the_slowest_first(run):
    done = run.call(program("quick", duration=0.1), program("slow", duration=9.0), program("not here", "SKIP"))
    assert closing(done) == "2 passed, 0 failed, 1 skipped"
    assert done.returncode == 0
    assert done.stdout.index("9.0 s  slow") < done.stdout.index("0.1 s  quick")


def test_that_meson_failed_is_a_failure_whatever_was_counted(run):
    assert run.call(program("quick"), status=3).returncode == 3


def test_two_runs_in_one_build_directory_count_their_own(run, tmp_path):
    """The first waits in its `meson` until the second is over."""
    first_has_begun, second_is_over = tmp_path / "begun", tmp_path / "over"
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(run.call, program("first"), command=f"touch {first_has_begun}; while [ ! -e {second_is_over} ]; do sleep 0.01; done")
        while not first_has_begun.exists():
            time.sleep(0.01)
        try:
            second = run.call(program("a"), program("b"), command="true")
        finally:
            second_is_over.touch()
        assert closing(second) == "2 passed, 0 failed, 0 skipped"
        assert closing(first.result()) == "1 passed, 0 failed, 0 skipped"
    assert sorted(os.listdir(run.build / "meson-logs")) == ["lock", "testlog.json"]


def test_failures_that_cmocka_prints_to_standard_error_are_counted(run):
    mixed = program("mixed", "FAIL", "[       OK ] first\n") | {"stderr": "[  FAILED  ] second\n[  PASSED  ] 1 test(s).\n[  FAILED  ] second\n"}
    assert closing(run.call(mixed, status=1)) == "1 passed, 1 failed, 0 skipped"
