"""A verb on a terminal of its own, and whoever sits before it."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

WAIT = 120  # of what takes a second on an idle machine


class OnTerminal:
    def __init__(self, place, *words, rows=33, cols=101, env=None):
        self.master, self.slave = pty.openpty()
        self.resize(rows, cols, tell=False)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.child = subprocess.Popen([place.program, *map(str, words)], stdin=self.slave, stdout=self.slave, stderr=self.slave, cwd=place.top,
                                      env=place.environment(TERM="xterm", **(env or {})), start_new_session=True,
                                      preexec_fn=self.begin)

    def begin(self):
        """In the child. Whoever ignores a signal, as under nohup, would pass that on."""
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def resize(self, rows, cols, tell=True):
        # The kernel tells the terminal's foreground, which is the verb, by itself.
        fcntl.ioctl(self.master if tell else self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read_until(self, text):
        until = time.monotonic() + WAIT
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0, until - time.monotonic()))
            assert ready, (text, self.seen)
            self.seen += os.read(self.master, 65536)
        self.seen = self.seen.partition(text)[2]

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def wait(self):
        """Its exit code; what it printed last is in `seen`. The terminal is as it was."""
        until = time.monotonic() + WAIT
        while self.child.poll() is None:
            assert time.monotonic() < until, self.seen
            if select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal was not restored"
        return self.child.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        os.close(self.master)
        os.close(self.slave)


def on_terminal(cli, words, answers, env=None):
    """A verb on a terminal of its own: what it prints, and its exit code. Each answer is given when it asks."""
    master, slave = pty.openpty()
    child = subprocess.Popen([cli.program, *map(str, words)], stdin=slave, stdout=slave, stderr=slave, cwd=cli.top,
                             env=cli.environment(TERM="xterm", **(env or {})), start_new_session=True,
                             preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    out, asked = b"", 0
    try:
        while True:
            ready, _, _ = select.select([master], [], [], WAIT)
            assert ready, out
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            out += piece
            while asked < len(answers) and out.count(b"]? ") > asked:
                os.write(master, answers[asked].encode())
                asked += 1
        return out.decode(), child.wait(WAIT)
    finally:
        os.close(master)
        if child.poll() is None:
            child.kill()
            child.wait()
