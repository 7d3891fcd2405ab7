"""tools/suite, which runs other projects' tests on a fence: with small trees that are built as theirs are."""

import os
import subprocess
from pathlib import Path

import pytest
from harness import HERE, IS_ROOT

SUITE = HERE.parents[1] / "tools/suite"
pytestmark = pytest.mark.skipif(not IS_ROOT, reason="needs root")


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def suite(*arguments):
    ran = subprocess.run([SUITE, *arguments], capture_output=True, text=True, timeout=600)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


def mounts():
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "agentfense-suite" in line]


@pytest.fixture
def pjdfstest(work):
    tree = work / "pjdfstest"
    write(tree / "pjdfstest", "exit 0\n")
    write(tree / "tests/mkdir/00.t", 'echo 1..2; mkdir d && echo "ok 1"; df -T . | grep -q fuse.agentfense && echo "ok 2" || echo "not ok 2"\n')
    write(tree / "tests/chown/00.t", "echo 1..3; : > f; chown 65534 f 2>/dev/null && echo ok 1 || "
          "echo \"not ok 1 - tried 'chown f 65534 65534', expected 0, got EPERM\"\n"
          "echo \"not ok 2 - tried '-u 65534 unlink f', expected 0, got EACCES\"\nrm f && echo ok 3\n")
    write(tree / "tests/mknod/00.t", "mknod n b 1 2 2>/dev/null && echo ok 1 || echo \"not ok 1 - tried 'mknod n b 0644 1 2', expected 0, got EPERM\"\n")
    write(tree / "tests/rename/24.t", "mkdir -p a/b; test $(stat -c %h a) = 3 && echo ok 1 || echo \"not ok 1 - tried 'lstat a nlink', expected 3, got $(stat -c %h a)\"\n")
    return tree


def test_what_differs_by_design_is_told_and_does_not_count(pjdfstest):
    code, out, err = suite("pjdfstest", pjdfstest)
    assert code == 0, (out, err)
    assert out == [
        "chown/00: by design, 1: everything belongs to one user",
        "chown/00: by design, 1: after that",
        "mknod/00: by design, 1: device nodes are refused",
        "rename/24: by design, 1: the link count of a directory is 1: it might tell of hidden ones",
        "pjdfstest: 4 files, 1 as on any file system, 0 failed",
    ]
    assert mounts() == []


@pytest.mark.parametrize("failure", ["not ok 1 - tried 'stat f size', expected 5, got 0", "not ok 7", "",
                                     "not ok 1 - tried 'chown f 0 0', expected 0, got EROFS"])
def test_any_other_failure_counts(pjdfstest, failure):
    write(pjdfstest / "tests/open/00.t", f'echo "{failure}"\n')
    code, out, err = suite("pjdfstest", pjdfstest, "open/00", "mkdir/00")
    assert code == 1 and out[-1] == "pjdfstest: 2 files, 1 as on any file system, 1 failed", (out, err)
    assert out[0].startswith("open/00: not ok")


XFSTESTS_CHECK = """
. "$HOST_OPTIONS"
echo "FSTYP -- $FSTYP$FUSE_SUBTYP, $*"
mount -t "$FSTYP$FUSE_SUBTYP" "$TEST_DEV" "$TEST_DIR" || exit 1
grep -q "^$TEST_DEV $TEST_DIR $FSTYP$FUSE_SUBTYP " /proc/mounts && echo kept > "$TEST_DIR/file"
umount "$TEST_DIR" && test ! -e "$TEST_DIR/file" || exit 1
mount -t "$FSTYP$FUSE_SUBTYP" "$TEST_DEV" "$TEST_DIR" && cat "$TEST_DIR/file"
echo "Ran: generic/001 generic/002"
"""


@pytest.mark.parametrize("failures, code", [("", 0), ("Failures: generic/002", 1)])
def test_xfstests_mount_and_unmount_by_themselves(work, failures, code):
    write(work / "xfstests/check", XFSTESTS_CHECK + f'[ -z "{failures}" ] || {{ echo "{failures}"; exit 1; }}\n')
    got, out, err = suite("xfstests", work / "xfstests")
    assert got == code, (out, err)
    assert out[0] == "FSTYP -- fuse.agentfense, -g generic/quick" and "kept" in out
    assert out[-1] == ("xfstests: 2 ran, 0 otherwise by design, 1 failed generic/002" if code else
                       "xfstests: 2 ran, 0 otherwise by design, 0 failed")
    assert mounts() == [] and not os.path.exists("/sbin/mount.fuse.agentfense")


def test_without_sources_the_reason_is_told(work):
    for arguments in (["pjdfstest"], ["xfstests"], ["pjdfstest", work], ["xfstests", work]):
        code, out, _ = suite(*arguments)
        assert code == 0 and "skipped: " in out[0], out
