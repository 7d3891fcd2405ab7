"""Commands with a terminal."""

import fcntl
import os
import select
import signal
import struct
import termios
import time

import pytest

from ctl import NOT_STARTED, RESIZE, SIGNALED, TIMED_OUT, TTY, WAIT, eventually, frame

pytestmark = pytest.mark.docker


class Terminal:
    def __init__(self, client, argv, size=(24, 80), **options):
        self.run = client.start(argv, flags=TTY, size=size, **options).wait_started()
        self.master, self.seen = self.run.master, b""
        assert self.master is not None, "no master came along"

    def read_until(self, text, timeout=WAIT):
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.01, deadline - time.monotonic()))
            assert ready, f"'{text}' does not come: {self.seen}"
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                piece = b""
            assert piece, f"'{text}' did not come: {self.seen}"
            self.seen += piece

    def write(self, data):
        os.write(self.master, data)


def test_it_is_a_terminal_of_the_size_asked_for(client):
    terminal = Terminal(client, "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all", size=(33, 101))
    terminal.read_until(b"all\r\n")
    name, size, _ = terminal.seen.split(b"\r\n")[:3]
    assert name.startswith(b"/dev/pts/") and size == b"33 101"
    run = terminal.run.wait()
    assert run.code == 0 and run.out == run.err == b"", "nothing of a terminal comes as output"


def test_a_new_size_is_seen(client):
    terminal = Terminal(client, "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done")
    terminal.read_until(b"ready")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 55, 0, 0))
    client.send(frame(RESIZE, terminal.run.tag, struct.pack("<HH", 44, 55)))
    terminal.read_until(b"44 55")
    terminal.run.kill()
    assert terminal.run.wait().finished.end == SIGNALED


def test_control_c_interrupts(client):
    terminal = Terminal(client, "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done")
    terminal.read_until(b"ready")
    terminal.write(b"\x03")
    terminal.read_until(b"caught")
    assert terminal.run.wait().code == 9
    terminal = Terminal(client, ["/bin/cat"])
    terminal.write(b"\x03")
    assert terminal.run.wait().code == 128 + signal.SIGINT


def test_input_and_end_of_it(client):
    terminal = Terminal(client, "read a; echo \"<$a>\"; cat; exit 6")
    terminal.write(b"typed\n")
    terminal.read_until(b"<typed>")
    terminal.write(b"\x04")
    assert terminal.run.wait().code == 6


def test_an_interactive_shell_with_job_control(client):
    terminal = Terminal(client, ["/bin/bash", "--norc", "-i"], env={"PS1": "$ ", "TERM": "dumb"})
    terminal.write(b"echo a$((1+1))b\n")
    terminal.read_until(b"a2b")
    terminal.write(b"sleep 100\n")
    time.sleep(0.3)
    terminal.write(b"\x1a")  # Ctrl-Z
    terminal.read_until(b"Stopped")
    terminal.write(b"kill -9 %1; sleep 0.5; exit 12\n")
    assert terminal.run.wait().code == 12
    assert b"no job control" not in terminal.seen


def test_much_output(client):
    terminal = Terminal(client, "stty raw; head -c 3000000 /dev/zero; echo end")
    terminal.read_until(b"end")
    assert len(terminal.seen) >= 3000003
    assert terminal.run.wait().code == 0


def test_hanging_up_and_timeouts_end_it(box):
    client = box.client()
    Terminal(client, "trap '' HUP; echo ready; sleep 951").read_until(b"ready")
    client.close()
    eventually(lambda: not box.runs("sleep 951"))
    terminal = Terminal(box.client(), "setsid sleep 952 & sleep 953", timeout_ms=800)
    assert terminal.run.wait().finished.end == TIMED_OUT
    assert not box.runs("sleep 95")


def test_a_program_that_is_not_there(client):
    run = client.run(["/no/such/program"], flags=TTY)
    assert (run.finished.end, run.finished.status) == (NOT_STARTED, 127) and run.started is None


def test_nothing_of_it_stays_open_with_us(box):
    client = box.client()
    client.run("true")
    fds = box.settled_fds()
    for _ in range(10):
        terminal = Terminal(client, "echo x")
        terminal.read_until(b"x")
        terminal.run.wait()
        os.close(terminal.master)
        terminal.run.master = None
    eventually(lambda: box.fds() == fds)
