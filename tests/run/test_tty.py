"""A sandbox with a terminal, for people."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import TIMEOUT


class Terminal:
    """agentfense with a terminal of its own; what it prints is gathered."""

    def __init__(self, host, *args, rows=30, cols=100):
        self.master, slave = pty.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.text = ""
        # setsid --ctty: a person's shell would have given it the terminal as its controlling one.
        self.run = subprocess.Popen(["setsid", "--ctty", "--wait", *host.words(host.program, "run", *args)], stdin=slave, stdout=slave,
                                    stderr=slave, env=host.env(TERM="xterm-256color"), cwd=host.dir)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")

    def expect(self, pattern):
        until = time.monotonic() + TIMEOUT
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < until, f"no {pattern!r} in {self.text!r}"
            self.read(0.2)
        self.text = self.text[found.end():]
        return found

    def end(self):
        until = time.monotonic() + TIMEOUT
        while self.run.poll() is None:
            assert time.monotonic() < until, self.text
            self.read(0.1)
        self.read(0)
        return self.run.returncode

    def close(self):
        if self.run.poll() is None:
            self.run.kill()
            self.run.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal():
    made = []

    def make(*args, **options):
        made.append(Terminal(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


PROMPT = r"\[agentfense ([\w.-]+)\] /workspace\$ "


def test_a_shell_by_default_whose_prompt_says_where_one_is(host, terminal):
    t = terminal(host, "-it", "--name", "box", host.base)
    assert t.expect(PROMPT).group(1) == "box"
    t.type("ls; tty; echo $TERM; test -t 0 -a -t 1 -a -t 2 && echo three\r")
    t.expect(r"hello\.txt\r\n/dev/pts/\d+\r\nxterm-256color\r\nthree\r\n")
    t.expect(PROMPT)
    t.type("cd /tmp\r")
    t.expect(r"\[agentfense box\] /tmp\$ ")
    t.type("exit 7\r")
    assert t.end() == 7
    assert "no files changed" in t.text


def test_what_to_do_next_is_told_in_short_lines(one, terminal):
    t = terminal(one, "--name", "box", one.base, "--", "touch", "new")
    assert t.end() == 0
    assert "deleted)\r\n  see:  agentfense diff box\r\n  keep: agentfense approve box\r\n  drop: agentfense rm box\r\n" in t.text


def test_the_terminal_is_as_it_was_afterwards(one, terminal):
    t = terminal(one, "-it", one.base)
    t.expect(PROMPT)
    assert termios.tcgetattr(t.slave) != t.before
    t.type("exit\r")
    assert t.end() == 0
    assert termios.tcgetattr(t.slave) == t.before


def test_the_size_is_passed_on_and_follows(one, terminal):
    t = terminal(one, "-it", one.base, rows=33, cols=77)
    t.expect(PROMPT)
    t.type("stty size\r")
    t.expect(r"33 77\r\n")
    t.type("trap 'stty size' WINCH; echo re''ady\r")
    t.expect("ready")
    t.resize(44, 111)
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        t.type("\r")
        t.read(0.2)
        if "44 111" in t.text:
            break
    t.expect(r"44 111\r\n")
    t.type("exit\r")
    assert t.end() == 0


def test_control_c_goes_to_the_command_and_the_shell_lives(host, terminal):
    t = terminal(host, "-it", host.base)
    t.expect(PROMPT)
    t.type("echo st''art; sleep 60\r")
    t.expect("start\r\n")
    time.sleep(0.3)
    t.type("\x03")
    t.expect(PROMPT)
    t.type("echo $?\r")
    t.expect(r"130\r\n")
    t.type("exit 9\r")
    assert t.end() == 9


def test_a_command_with_a_terminal(one, terminal):
    t = terminal(one, "-it", one.base, "--", "sh", "-c", "stty -echo; echo ready; read x; echo got $x; exit 5")
    t.expect("ready\r\n")
    t.type("line\r")
    t.expect("got line\r\n")
    assert t.end() == 5


def wait_for_foreground(*command):
    """Waits until a process runs this command, and belongs to the foreground group of its terminal."""
    wanted = b"".join(word.encode() + b"\0" for word in command)
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        for proc in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (proc / "cmdline").read_bytes() != wanted:
                    continue
                group, _, _, foreground = (proc / "stat").read_text().rpartition(")")[2].split()[2:6]
                if group == foreground:
                    return
        time.sleep(0.02)
    raise AssertionError(f"{command} never was in the foreground of a terminal")


def test_jobs_can_be_stopped_and_continued(one, terminal):
    t = terminal(one, "-it", one.base)
    t.expect(PROMPT)
    t.type("sleep 6173\r")
    wait_for_foreground("sleep", "6173")
    # Once only: the terminal drops its unread output with every signal that a key causes, so a second one could drop "Stopped".
    t.type("\x1a")
    t.expect("Stopped")
    t.type("kill %1; exit 0\r")
    t.type("exit 0\r")
    assert t.end() == 0


def test_much_output_is_whole(one, terminal):
    t = terminal(one, "-it", one.base, "--", "seq", "1", "50000")
    t.expect("50000\r\n")
    assert t.end() == 0


def test_the_end_of_input_ends_a_shell(one):
    """Standard input that is no terminal, with a terminal for the command."""
    result = one.call("run", "-it", "-q", one.base, input=b"echo to''ld\n")
    assert result.code == 0
    assert b"told\r\n" in result.out


def test_a_terminal_that_goes_away_ends_the_command(one, terminal):
    t = terminal(one, "-it", one.base)
    t.expect(PROMPT)
    for pid in [int(line.split()[0]) for line in __import__("conftest").processes(f"{one.program}\0run")]:
        os.kill(pid, signal.SIGHUP)
    t.end()


def test_without_a_terminal_there_is_no_prompt_and_a_job_in_the_background_runs_on(one):
    """As `agentfense run ... &` in an interactive shell: it must not be stopped for a terminal that it only might read."""
    master, slave = pty.openpty()
    done = one.dir / "done"
    command = " ".join(f"'{word}'" for word in one.words(one.program, "run", "-q", one.base, "--", "sleep", "1"))
    script = f"set -m; {{ {command}; echo $? > {done}; }} & sleep 0.2; echo ready; wait; echo all"
    shell = subprocess.Popen(["setsid", "--ctty", "--wait", "bash", "-c", script], stdin=slave, stdout=slave, stderr=slave,
                             env=one.env())
    try:
        for _ in range(10):
            os.write(master, b"typed\n")
            time.sleep(0.1)
        assert shell.wait(TIMEOUT) == 0
        assert done.read_text() == "0\n"
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
        os.close(slave)


def test_a_terminal_without_input_is_bad_usage(one):
    assert one.call("run", "-it", "-n", one.base).code == 2
