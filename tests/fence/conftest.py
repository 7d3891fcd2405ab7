import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import attacker  # noqa: E402
import harness  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

_obstacle = None


def pytest_configure(config):
    global _obstacle
    config.addinivalue_line("markers", "long: only with AGENTFENSE_LONG=1")
    config.addinivalue_line("markers", "threads: many threads at once; also run under ThreadSanitizer")
    config.addinivalue_line("markers", "no_fence: needs no fence binary")
    config.addinivalue_line("markers", "own_limits: in a user namespace of its own, so that it may set limits of inotify")
    _obstacle = harness.enter_private_namespace()


def pytest_collection_modifyitems(items):
    binary = os.environ.get("AGENTFENSE")
    for item in items:
        if _obstacle:
            item.add_marker(pytest.mark.skip(reason=_obstacle))
        elif not binary and "no_fence" not in item.keywords:
            item.add_marker(pytest.mark.skip(reason="AGENTFENSE does not name the program"))
        elif "long" in item.keywords and not harness.LONG:
            item.add_marker(pytest.mark.skip(reason="long: set AGENTFENSE_LONG=1"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if "own_limits" not in pyfuncitem.keywords:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    harness.in_own_user_namespace(lambda: pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def pytest_report_header():
    where = "root" if harness.IS_ROOT else "a user namespace"
    return f"fence: {os.environ.get('AGENTFENSE', 'none')}, run from {where}, uid inside {harness.sandbox_ids()[0]}"


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """A fence that ended with a sanitizer's report fails the test that ended it, even if all that was asked for was right."""
    reports, harness.reports = harness.reports, []
    assert not reports, "\n".join(reports)


@pytest.fixture(scope="session")
def session_dir():
    path = Path(tempfile.mkdtemp(prefix="agentfense-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def work(session_dir):
    """A directory of the test's own that the sandbox's user may pass through; gone with all that is mounted in it."""
    path = Path(tempfile.mkdtemp(prefix="t", dir=session_dir))
    path.chmod(0o755)
    yield path
    clear(path)


@pytest.fixture(scope="module")
def module_work(session_dir):
    path = Path(tempfile.mkdtemp(prefix="m", dir=session_dir))
    path.chmod(0o755)
    yield path
    clear(path)


@pytest.fixture(scope="module")
def plain(module_work):
    """A tmpfs of the sandbox's user."""
    path = module_work / "plain"
    path.mkdir()
    harness.mount("tmpfs", path, "tmpfs", 0, "mode=755")
    os.chown(path, *harness.sandbox_ids())
    yield path
    harness.umount(path)


def clear(path):
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f]
    for point in sorted((p for p in points if p.startswith(str(path) + "/")), reverse=True):
        harness.umount(point)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def fence(work):
    """Makes fences that are all ended after the test, however it went."""
    made = []

    def make(rules=("**=write",), start=True, **kw):
        name = kw.pop("name", "")
        f = harness.Fence(work / name if name else work, rules=rules, **kw)
        made.append(f)
        return f.start() if start else f

    yield make
    for f in reversed(made):
        f.stop()


@pytest.fixture
def scratch(work):
    """A directory outside the fence that the sandbox's user may write."""
    path = work / "scratch"
    path.mkdir()
    os.chown(path, *harness.sandbox_ids())
    return path


@pytest.fixture
def dirs(work):
    harness.Tree(work / "base").file("a", "a\n").file("d/b", "b\n")
    (work / "mnt").mkdir()
    return work


@pytest.fixture
def attack(work, fence):
    attacker.build(work / "base")
    before = harness.fingerprint(work / "base")
    made = []

    def start(rules=attacker.RULES, **kw):
        f = fence(rules, **kw)
        made.append(f)
        return f

    yield start
    for f in made:
        assert f.process is None or f.alive(), "the fence died: " + f.log()
        f.stop()
    assert harness.fingerprint(work / "base") == before, "the base was changed"
