"""An agent that uses things up, or makes trees that whoever comes after cannot handle: depth, names, memory, what the kernel counts for its
owner."""

import json
import os
import pathlib
import subprocess

import pytest
import run_host
from run_host import IS_LONG
from server import eventually

ALL = ["--rule", "/**=write"]
DRIVERS = ["fence", *(pytest.param(name, marks=pytest.mark.bwrap("refused in containers")) for name in ("overlayfs", "copy"))]

NEST = """
import os, sys
name, depth = "d" * int(sys.argv[1]), int(sys.argv[2])
for _ in range(depth):
    try:
        os.mkdir(name)
    except OSError as e:
        sys.exit(e.strerror)
    os.chdir(name)
with open("leaf", "w") as f:
    f.write("leaf\\n")
"""


@pytest.fixture(params=DRIVERS)
def driver(request, one):
    if request.param == "overlayfs":
        result = one.run("-q", "--rm", "--driver", "overlayfs", *ALL, command=["true"])
        if result.code == 125:
            pytest.skip(result.err.strip())
    return request.param


def nest(host, name, driver, width, depth):
    result = host.run("-q", "--name", name, "--driver", driver, *ALL, command=["python3", "-c", NEST, str(width), str(depth)])
    assert result.code in (0, 1), result
    return result


def bottom(path, name):
    """How deep the directories go, and what is in the last."""
    depth, at = 0, os.open(path, os.O_RDONLY)
    while True:
        try:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        except OSError:
            names = os.listdir(at)
            os.close(at)
            return depth, names
        os.close(at)
        depth, at = depth + 1, inner


# More than 200 directories and 4096 bytes; and more than a hundred kilobytes.
@pytest.mark.parametrize("width, depth", [(20, 220)] + [(250, 420)] * IS_LONG)
def test_paths_longer_than_the_kernel_takes(one, driver, width, depth):
    name, part = f"deep-{driver}-{width}", "d" * width
    leaf = "/".join([part] * depth + ["leaf"])
    assert nest(one, name, driver, width, depth).code == 0
    result = one.call("diff", "--json", name)
    assert result.code == 0, result
    assert [(f["kind"], f["path"], f["linesAdded"]) for f in json.loads(result.out)["files"]] == [("CHANGE_KIND_ADDED", leaf, 1)]
    try:
        result = one.call("approve", "--all", "-q", name)
        assert result.code == 0, result
        assert bottom(one.base, part) == (depth, ["leaf"])
        result = one.call("undo", name)
        assert result.code == 0, result
        assert not (one.base / part).exists()
    finally:
        os.system(f"rm -rf '{one.base}/{part}'")
    result = one.call("rm", "--purge", name)
    assert result.code == 0, result
    assert one.names() == []


def test_trees_too_deep_to_be_reviewed(one, driver):
    """The fence does not let them be made; without one they are named, nothing in them is approved, and they can be removed."""
    name, depth = f"abyss-{driver}", 30000 if IS_LONG else 1100
    result = nest(one, name, driver, 1, depth)
    assert (result.code, "File name too long" in result.err) == ((1, True) if driver == "fence" else (0, False)), result
    result = one.call("diff", name)
    assert result.code == 0, result
    assert ("1 directory is nested too deep" in result.err) == (driver != "fence"), result
    try:
        if IS_LONG:
            result = one.call("approve", "--all", "-q", name)
            assert result.code == 0, result
            assert bottom(one.base, "d") == (1000, [])
    finally:
        os.system(f"rm -rf '{one.base}/d'")
    result = one.call("rm", "--purge", name)
    assert result.code == 0, result
    assert one.names() == []


# What the kernel counts for the user on the host: a sandbox of an ordinary user has its owner's uid there.

TAKE_INOTIFY = """
import ctypes, errno, os
libc, held = ctypes.CDLL(None, use_errno=True), []
while len(held) < 5000:
    fd = libc.inotify_init1(0)
    if fd < 0:
        break
    held.append(fd)
print(len(held), errno.errorcode[ctypes.get_errno()], flush=True)
input()
"""


def limit_of(name):
    with open(f"/proc/sys/fs/inotify/max_user_{name}", encoding="ascii") as f:
        return int(f.read())


def test_taking_all_inotify_instances_of_the_owner(host):
    """While the agent holds all that it gets, its owner gets some too."""
    process = host.start("-q", *ALL, command=["python3", "-c", TAKE_INOTIFY])
    try:
        got, error = process.stdout.readline().split()
        assert error == b"EMFILE"
        code = "import ctypes; l = ctypes.CDLL(None); print(sum(l.inotify_init1(0) >= 0 for _ in range(32)))"

        def can_have_some():
            done = subprocess.run(host.words("/usr/bin/python3", "-c", code), capture_output=True, check=True, timeout=60)
            return int(done.stdout) > 0

        eventually(can_have_some)  # other programs of root's may have all of root's for a moment
        if host.uid != 0:
            assert int(got) <= limit_of("instances") // 4
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()
        for name in host.names():
            host.call("rm", "--purge", name)


def test_pipes_larger_than_they_come(host):
    code = """
import fcntl, os
r, w = os.pipe()
size = fcntl.fcntl(w, fcntl.F_GETPIPE_SZ)
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 4096)
fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, size)
for more in (size + 1, 1 << 20):
    try:
        fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, more)
        print("made", more)
    except PermissionError:
        print("refused")
"""
    result = host.run("-q", "--rm", *ALL, command=["python3", "-c", code])
    assert (result.code, result.out) == (0, b"refused\nrefused\n"), result


# What no limit of bytes shows: empty files, and the memory that the supervisor needs for each.

MAKE_FILES = """
import os, sys
made = 0
try:
    for made in range(int(sys.argv[1])):
        os.mknod(f"empty{made}")
except OSError as e:
    print(made, e.errno == 28)
print(os.statvfs(".").f_files, os.statvfs(".").f_blocks * os.statvfs(".").f_frsize)
"""


def make_files(host, count, *options):
    result = host.run("-q", "--rm", *options, *ALL, command=["python3", "-c", MAKE_FILES, str(count)])
    assert result.code == 0, result
    return result.out.decode().split()


def test_empty_files_without_end(host):
    """A disk limit is one of files, too; so is one of memory, for the supervisor remembers each. Without any there is a default."""
    assert make_files(host, 1000, "--files", "300") == ["300", "True", "300", str(make_files(host, 0)[1])]
    assert make_files(host, 0, "--disk", "100M") == ["16384", str(100 << 20)]
    assert make_files(host, 0, "--disk", "1G")[0] == "131072"
    files, disk = map(int, make_files(host, 0))
    assert files == 1000000 and 0 < disk <= 64 << 30
    if IS_LONG:
        assert make_files(host, 120000, "--disk", "100M")[:2] == ["16384", "True"]


def test_the_limits_that_hold_are_told(host):
    """Of a sandbox that runs, with the defaults; and which of these does not hold here."""
    process = host.start("-q", "--name", "told", "--files", "300", *ALL, command="echo started; read _")
    try:
        assert process.stdout.readline() == b"started\n"
        row = json.loads(host.call("inspect", "told", "--json").out)
        held = {limit["name"]: limit for limit in row["limits"]}
        assert held["files"] == {"name": "files", "value": "300", "isDefault": False, "notEnforced": ""}
        assert held["pids"] == {"name": "pids", "value": "1024", "isDefault": True, "notEnforced": ""}
        assert 0 < int(held["disk"]["value"]) <= 64 << 30 and held["disk"]["isDefault"] and not held["disk"]["notEnforced"]
        is_held = any((pathlib.Path(group) / name).exists() for group in host.cgroups_of("told")
                      for name in ("memory.max", "memory.limit_in_bytes"))
        assert held["memory"]["isDefault"] and bool(held["memory"]["notEnforced"]) != is_held, held
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()
        assert "isDefault" not in host.call("inspect", "told", "--json").out.decode()
        for name in host.names():
            host.call("rm", "--purge", name)


@pytest.mark.bwrap("refused in containers")
def test_a_default_that_nothing_holds_is_told_as_such(host):
    process = host.start("-q", "--name", "told", "--driver", "copy", *ALL, command="echo started; read _")
    try:
        assert process.stdout.readline() == b"started\n"
        row = json.loads(host.call("inspect", "told", "--json").out)
        held = {limit["name"]: limit for limit in row["limits"]}
        assert all(held[name]["isDefault"] and held[name]["notEnforced"] for name in ("disk", "files")), held
        assert not held["pids"]["notEnforced"]
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()
        for name in host.names():
            host.call("rm", "--purge", name)
    refused = host.run("-q", "--rm", "--driver", "copy", "--files", "300", *ALL, command=["true"])
    assert refused.code == 125, refused


def test_memory_has_a_default_limit(host):
    """Where a cgroup can hold it; otherwise doctor says that it does not hold, and nothing is refused."""
    if host.run("-q", "--rm", "-m", "256M", *ALL, command=["true"]).code != 0:
        assert host.run("-q", "--rm", *ALL, command=["true"]).code == 0
        assert "the default limit of memory does not hold" in host.call("doctor").out.decode()
        return
    process = host.start("-q", "--name", "defaults", *ALL, command="echo started; read _")
    try:
        assert process.stdout.readline() == b"started\n"
        limits = [int(path.read_text()) for group in host.cgroups_of("defaults")
                  for path in (pathlib.Path(group) / name for name in ("memory.max", "memory.limit_in_bytes")) if path.exists()]
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
        assert limits and all(total // 2 < limit < total for limit in limits), limits
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()
        for name in host.names():
            host.call("rm", "--purge", name)
