"""A command with a terminal."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import termios

import pytest

from supervisor import EXITED, GONE, PTY, SPAWNED, SPAWN_FAILED, TTY, WAIT, eventually


def start(sup, argv, size=(33, 101), **options):
    run = sup.request_spawn(argv, flags=TTY, size=size, **options)
    if sup.until(run, PTY, SPAWN_FAILED).kind == SPAWN_FAILED:
        pytest.skip(f"no terminal here: errno {run.reports[0].errno}")
    assert [r.kind for r in run.reports][:2] == [SPAWNED, PTY]
    return run


def read_until(run, mark=None):
    """Everything up to `mark`, or up to the end."""
    seen = b""
    while mark is None or mark not in seen:
        assert select.select([run.master], [], [], WAIT)[0], seen
        try:
            piece = os.read(run.master, 4096)
        except OSError:
            piece = b""
        if not piece:
            break
        seen += piece
    return seen


def test_size_name_and_exit_code(every):
    run = start(every, ["/bin/sh", "-c", "stty size; tty; test -t 0 && test -t 1 && test -t 2; exit $?"])
    lines = read_until(run).decode().split("\r\n")
    every.until(run, GONE)
    assert lines[0] == "33 101"
    assert lines[1].startswith("/dev/pts/")
    assert run.code == 0


def test_it_is_the_controlling_terminal(every):
    run = start(every, ["/bin/cat", "/dev/tty"])
    os.write(run.master, b"hello\n")
    # Once as the terminal's echo, once from cat.
    assert read_until(run, b"hello\r\nhello\r\n") == b"hello\r\nhello\r\n"
    os.write(run.master, b"\x03")
    every.until(run, GONE)
    assert run.code == -signal.SIGINT


def test_a_new_size_reaches_the_command(every):
    run = start(every, ["/bin/bash", "-c", "trap 'stty size; exit 5' WINCH; echo ready; while :; do read -t 0.1 x; done"])
    read_until(run, b"ready")
    fcntl.ioctl(run.master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 132, 0, 0))
    assert b"50 132" in read_until(run, b"132")
    every.until(run, GONE)
    assert run.code == 5


def test_closing_the_master_hangs_up(every):
    run = start(every, ["/bin/sleep", "1000"])
    run.close()
    every.until(run, GONE)
    assert run.code == -signal.SIGHUP


def test_a_command_with_a_terminal_has_no_other_descriptors(every):
    run = start(every, ["/bin/ls", "/proc/self/fd"])
    assert read_until(run).split() == [b"0", b"1", b"2", b"3"]
    every.until(run, GONE)


def test_extra_descriptors_with_a_terminal(every):
    r, w = os.pipe()
    run = start(every, ["/bin/sh", "-c", "echo side >&3"], fds=[w])
    os.close(w)
    every.until(run, GONE)
    assert os.read(r, 100) == b"side\n"
    os.close(r)


def terminals_of(pids):
    """How many descriptors of terminals they hold. Only root sees into init; others count the terminals of the machine, which change meanwhile."""
    if os.getuid() != 0:
        return len(os.listdir("/dev/pts"))
    found = []
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return sum(name.startswith(("/dev/pts/", "/dev/ptmx")) for name in found)


def test_a_failure_leaves_no_terminal(sup):
    pids = (os.getpid(), sup.process.pid)  # the keeper of a command that failed has ended
    other = start(sup, ["/bin/sleep", "1000"])
    before = terminals_of(pids)
    assert before > 0
    run = sup.request_spawn(["/does/not/exist"], flags=TTY)
    assert sup.until(run, SPAWN_FAILED).step == "exec"
    assert sup.shell("true")[0] == 0
    eventually(lambda: terminals_of(pids) <= before)
    sup.kill(other)
    sup.until(other, GONE)


def test_the_terminal_belongs_to_the_user_of_the_command(sup):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    run = start(sup, ["/bin/sh", "-c", "stat -c %u $(tty); : <>$(tty) && echo mine"], user=(12345, 54321))
    assert read_until(run).split() == [b"12345", b"mine"]
    sup.until(run, EXITED)
    sup.until(run, GONE)
