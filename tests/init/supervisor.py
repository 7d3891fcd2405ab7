"""The supervisor's end of the protocol of src/wire, written a second time and independently, so that a mistake in one of the
two shows. Numbers are little endian."""

import array
import fcntl
import os
import select
import signal
import socket
import struct
import time

HEADER = struct.Struct("<3sBHHQI")
HELLO, SPAWNED, SPAWN_FAILED, PTY, EXITED, GONE = range(1, 7)
SPAWN, KILL, SHUTDOWN = range(16, 19)
TTY, SESSION, USER, STRINGS_FD = 1, 2, 4, 8
MAIN, TREE, BELOW = range(3)
STEPS = {1: "request", 2: "fork", 3: "keeper", 4: "tty", 5: "descriptors", 6: "session", 7: "limits", 8: "user", 9: "cwd",
         10: "exec"}
PID1, PROC = 1, 2
SOCKET_FRAME = 32

PAYLOAD_MAX = 65536
NO_LIMIT = 2**64 - 1
WAIT = 120  # for what takes a moment on an idle machine
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def as_bytes(value):
    return value if isinstance(value, bytes) else value.encode()


def frame(kind, ident, payload=b"", fd_count=0, version=1):
    return HEADER.pack(b"AFW", version, kind, fd_count, ident, len(payload)) + payload


def spawn_payload(argv, env, cwd, flags, user, size, rlimits, in_memfd):
    strings = b"".join(as_bytes(s) + b"\0" for s in [cwd, *argv, *env])
    uid, gid = user or (0, 0)
    head = struct.pack("<IIIHH", flags | (USER if user else 0) | (STRINGS_FD if in_memfd else 0), uid, gid, *size)
    head += struct.pack("<I", len(rlimits)) + b"".join(struct.pack("<IQQ", *limit) for limit in rlimits)
    head += struct.pack("<III", len(argv), len(env), len(strings))
    return (head, strings) if in_memfd else (head + strings, b"")


def kill_payload(number, scope, since_ticks=0):
    return struct.pack("<BBQ", number, scope, since_ticks)


def sealed(content, seals=None):
    fd = os.memfd_create("strings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    everything = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, everything if seals is None else seals)
    return fd


class Report:
    def __init__(self, kind, ident, payload, fds):
        self.kind, self.id, self.fds = kind, ident, fds
        if kind == HELLO:
            self.version, self.pid, self.flags = struct.unpack("<III", payload)
        elif kind == SPAWNED:
            (self.pid,) = struct.unpack("<I", payload)
        elif kind == SPAWN_FAILED:
            self.errno, step = struct.unpack("<IB", payload)
            self.step = STEPS[step]
        elif kind == EXITED:
            self.status, self.user_us, self.system_us, self.max_rss_kib = struct.unpack("<IQQQ", payload)
        else:
            assert payload == b"" and kind in (PTY, GONE)
        assert len(fds) == (1 if kind == PTY else 0)

    def __repr__(self):
        return str(self.__dict__)


class Exec:
    """One command: its reports and, when it has no terminal, what it writes."""

    def __init__(self, ident):
        self.id, self.reports, self.master = ident, [], None
        self.stdin = self.stdout = self.stderr = None

    def report(self, kind):
        return next((r for r in self.reports if r.kind == kind), None)

    @property
    def code(self):
        return os.waitstatus_to_exitcode(self.report(EXITED).status)

    def close(self):
        for fd in (self.stdin, self.stdout, self.stderr, self.master):
            if fd is not None:
                os.close(fd)
        self.stdin = self.stdout = self.stderr = self.master = None


class Supervisor:
    def __init__(self, sock, process):
        self.sock, self.process = sock, process
        self.execs, self.next_id, self.hello = {}, 1, None

    def receive(self, timeout=WAIT):
        ready, _, _ = select.select([self.sock], [], [], timeout)
        assert ready, "init says nothing"
        data, ancillary, flags, _ = self.sock.recvmsg(PAYLOAD_MAX + HEADER.size, socket.CMSG_SPACE(32))
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        fds = array.array("i")
        for _, _, content in ancillary:
            fds.frombytes(content)
        if not data:
            return None
        magic, version, kind, fd_count, ident, length = HEADER.unpack(data[: HEADER.size])
        assert (magic, version, fd_count, length) == (b"AFW", 1, len(fds), len(data) - HEADER.size)
        report = Report(kind, ident, data[HEADER.size :], list(fds))
        if ident in self.execs:
            self.execs[ident].reports.append(report)
            if kind == PTY:
                self.execs[ident].master = fds[0]
        return report

    def greet(self):
        self.hello = self.receive()
        assert self.hello.kind == HELLO and self.hello.version == 2
        return self

    def send(self, packet, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([packet], control)

    def request_spawn(self, argv, env=ENV, cwd="/", flags=SESSION, user=None, size=(24, 80), rlimits=(), fds=(),
                      in_memfd=None, ident=None, seals=None):
        env = [as_bytes(k) + b"=" + as_bytes(v) for k, v in env.items()] if isinstance(env, dict) else env
        if in_memfd is None:
            in_memfd = sum(len(as_bytes(s)) + 1 for s in [*argv, *env]) > 60000
        payload, strings = spawn_payload(argv, env, cwd, flags, user, size, rlimits, in_memfd)
        extra = [sealed(strings, seals)] if in_memfd else []
        run = Exec(ident or self.next_id)
        self.next_id += 1
        self.execs.setdefault(run.id, run)
        self.send(frame(SPAWN, run.id, payload, len(fds) + len(extra)), [*fds, *extra])
        for fd in extra:
            os.close(fd)
        return run

    def spawn(self, argv, stdin=None, extra_fds=(), **options):
        """Starts a command with pipes as its standard descriptors."""
        pipes = [os.pipe() for _ in range(3)]
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
        try:
            run = self.request_spawn(argv, fds=[in_r, out_w, err_w, *extra_fds], **options)
        finally:
            for fd in (in_r, out_w, err_w):
                os.close(fd)
        run.stdin, run.stdout, run.stderr = in_w, out_r, err_r
        if stdin is not None:
            os.write(run.stdin, stdin)
            os.close(run.stdin)
            run.stdin = None
        return run

    def until(self, run, *kinds):
        while not any(r.kind in kinds for r in run.reports):
            if self.receive() is None:
                raise EOFError("init is gone")
        return run.reports[-1]

    def running(self, argv, **options):
        run = self.spawn(argv, **options)
        assert self.until(run, SPAWNED, SPAWN_FAILED).kind == SPAWNED, run.reports
        return run

    def finish(self, run):
        """Waits for the end of the tree; what it wrote to stdout and stderr."""
        output = {run.stdout: b"", run.stderr: b""}
        open_fds = set(output)
        while open_fds:
            ready, _, _ = select.select(list(open_fds), [], [], WAIT)
            assert ready, "the command neither writes nor ends"
            for fd in ready:
                piece = os.read(fd, 65536)
                output[fd] += piece
                if not piece:
                    open_fds.discard(fd)
        self.until(run, GONE, SPAWN_FAILED)
        out, err = output[run.stdout], output[run.stderr]
        run.close()
        return out, err

    def run(self, argv, stdin=b"", **options):
        """(exit code, stdout, stderr), or the SPAWN_FAILED report."""
        run = self.spawn(argv, stdin, **options)
        out, err = self.finish(run)
        failed = run.report(SPAWN_FAILED)
        return failed if failed else (run.code, out, err)

    def shell(self, script, **options):
        return self.run(["/bin/sh", "-c", script], **options)

    def kill(self, run, number=signal.SIGKILL, scope=TREE, since_ticks=0):
        self.send(frame(KILL, run.id, kill_payload(number, scope, since_ticks)))

    def shutdown(self):
        self.send(frame(SHUTDOWN, 0))
        return self.wait()

    def wait(self, timeout=WAIT):
        return self.process.wait(timeout)

    def close(self):
        """Hangs up, which must end init whatever it does."""
        for run in self.execs.values():
            run.close()
        self.sock.close()
        try:
            self.process.wait(WAIT)
        finally:
            self.process.kill()
            self.process.wait()


def ticks_now():
    """The time as the kernel notes it for a process that starts now, for a KILL's since_ticks."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 10**9


def eventually(condition, timeout=WAIT):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)
