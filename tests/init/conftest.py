"""Starts the real agentfense-init, named by AGENTFENSE_INIT, in the ways a sandbox may."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from supervisor import Supervisor  # noqa: E402

signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

# Of this process alone: limits on the processes of a user, and signals to all of them, reach no other test.
NOBODY = 2000000000 + os.getpid()


def place_init():
    """A copy where every user can reach it, whatever the build directory allows."""
    program = os.environ.get("AGENTFENSE_INIT", "")
    if not os.access(program, os.X_OK):
        sys.exit("AGENTFENSE_INIT must name the program to test")
    place = tempfile.mkdtemp(prefix="agentfense-init-")
    atexit.register(shutil.rmtree, place)
    os.chmod(place, 0o755)
    return shutil.copy(program, place)


INIT = place_init()


def bwrap(*more):
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
            "--tmpfs", "/tmp", *more, "--ro-bind", INIT, "/tmp/agentfense-init", "/tmp/agentfense-init"]


WAYS = {
    "plain": lambda: ([INIT], None),
    "pidns": lambda: (["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", INIT], None),
    "userns": lambda: (["unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", INIT], NOBODY),
    "bwrap": lambda: (bwrap("--as-pid-1"), NOBODY),
    "bwrap-pid2": lambda: (bwrap(), NOBODY),
}


def start(command, user=None, **options):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if user is not None and os.getuid() == 0:
        options.update(user=user, group=user, extra_groups=[])
    process = subprocess.Popen([*command, "--fd", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd="/", **options)
    theirs.close()
    return Supervisor(ours, process)


def start_or_skip(way):
    command, user = WAYS[way]()
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    sup = start(command, user, stderr=subprocess.PIPE)
    try:
        return sup.greet()
    except (AssertionError, AttributeError, ConnectionError):
        sup.close()
        pytest.skip(f"'{way}' does not work here: {sup.process.stderr.read().decode().strip()}")


@pytest.fixture
def sup():
    """Started as it is, a subreaper and not pid 1."""
    sup = start([INIT]).greet()
    yield sup
    sup.close()


@pytest.fixture(params=list(WAYS))
def every(request):
    """The same test for each way of starting."""
    sup = start_or_skip(request.param)
    sup.way = request.param
    yield sup
    sup.close()


@pytest.fixture
def pid1():
    """As pid 1 of a namespace of its own."""
    sup = start_or_skip("pidns" if os.getuid() == 0 else "userns")
    yield sup
    sup.close()
