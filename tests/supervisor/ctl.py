"""The client's end of the supervisor's protocol, and the file that describes a sandbox, both written a second time and
independently of src/wire, so that a mistake in one of the two shows. Numbers are little endian."""

import array
import contextlib
import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

HEADER = struct.Struct("<3sBHHQI")
PAYLOAD_MAX = 65536
OUTPUT_MAX = PAYLOAD_MAX - 64
WAIT = float(os.environ.get("AGENTFENSE_TEST_WAIT", "120"))  # longer than anything takes on a machine that is busy with other things

(EXEC, SESSION_OPEN, SESSION_EXEC, SESSION_CLOSE, ATTACH, KILL, RESIZE, SET_RULES, STATUS, SYNC, WATCH, STOP, BASE_CHANGED,
 QUIESCE, REVERT, RELEASE, FILE) = range(32, 49)
HELLO, STATE, OK, ERROR, STARTED, OUTPUT, FINISHED, STATUS_REPLY, EVENT, SYNCED, FILE_REPLY, LISTING = range(64, 76)
STAT, LIST, READ, WRITE, MKDIR, REMOVE, RENAME = range(1, 8)
PARENTS, RECURSIVE, EXCLUSIVE = 1, 2, 4
KINDS = {1: "file", 2: "dir", 3: "link", 4: "other"}
INPUT, END = 60, 61
TTY, DETACHED, STDIN, STRINGS_FD, LOGGED, LIMITS = 1, 2, 4, 8, 16, 32
MAIN, TREE = 0, 1
EXITED, SIGNALED, TIMED_OUT, NOT_STARTED, LOST, SESSION_END = range(1, 7)
OUT_CUT, ERR_CUT, OOM, SESSION_CLOSED = 1, 2, 4, 8
STATES = {1: "booting", 2: "running", 3: "stopping", 4: "stopped", 5: "failed"}
EVENTS = {1: "exec_started", 2: "exec_finished", 3: "denied", 4: "limit", 5: "session_opened", 6: "session_closed",
          7: "sync_conflict"}
INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, FAILED_PRECONDITION, ABORTED, UNAVAILABLE = 3, 5, 6, 7, 9, 10, 14
RESOURCE_EXHAUSTED = 8
NOBODY = 2000000000 + os.getpid()  # an ordinary user who has nothing to do with another test
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:")
LEVELS = {"none": 0, "view": 1, "read": 2, "write": 3}


def as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


def frame(kind, tag, payload=b"", fd_count=0, version=1):
    return HEADER.pack(b"AFW", version, kind, fd_count, tag, len(payload)) + payload


def sealed(content):
    fd = os.memfd_create("strings", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    return fd


def run_payload(argv, env=(), cwd="", name="", session="", flags=0, timeout_ms=0, limit=0, size=(24, 80),
                limits=None):
    """The fixed part and the strings of EXEC, SESSION_OPEN and SESSION_EXEC."""
    env = [as_bytes(k) + b"=" + as_bytes(v) for k, v in env.items()] if isinstance(env, dict) else list(env)
    strings = b"".join(as_bytes(s) + b"\0" for s in [name, session, cwd, *argv, *env])
    fixed = struct.pack("<IIQHHIII", flags, timeout_ms, limit, *size, len(argv), len(env), len(strings))
    return fixed + (struct.pack("<QQQQ", *limits) if limits else b""), strings


# The file of a sandbox.

def checksum(body):
    value = 0xCBF29CE484222325
    for byte in body:
        value = (value ^ byte) * 0x100000001B3 & (2**64 - 1)
    return value


def as_file(kind, body, version=1):
    return b"AFSB" + struct.pack("<BBIQ", version, kind, len(body), checksum(body)) + body


def rules_body(rules):
    """Rules are (pattern, level) or (pattern, level, priority)."""
    out = struct.pack("<I", len(rules))
    for pattern, level, *priority in rules:
        out += as_bytes(pattern) + b"\0" + struct.pack("<BBi", 0, LEVELS.get(level, level), *(priority or [0]))
    return out


def rules_file(rules):
    return as_file(2, rules_body(rules))


CONTAINER = None  # image and engine's socket of sandboxes that say nothing else; bubblewrap without


def spec_file(name, base, rules, env=(), runtime=None, memory=0, pids=0, quota=0, own_cgroup=False, mounts=(),
              codebase=None, keep_versions=0, net=0, image=None, engine=None, no_pull=True, read_only_root=False, cpu_quota=0,
              is_live=False):
    """In the earliest format that can say it."""
    runtime = runtime or ("docker" if CONTAINER else "bwrap")
    version = 3 if runtime == "docker" else 1 if codebase is None else 2
    body = b"".join(as_bytes(s) + b"\0" for s in [name, base, runtime, ""])
    body += struct.pack("<BBBQQQQIIIQ", is_live, own_cgroup, net, time.time_ns(), quota, 0, memory, cpu_quota, 0, pids, 0)
    if version >= 2:
        body += as_bytes(codebase or "") + b"\0" + struct.pack("<QQQ", 0, keep_versions, 0)
    if version >= 3:
        body += as_bytes(image or CONTAINER[0]) + b"\0" + as_bytes(engine or CONTAINER[1]) + b"\0\0"
        body += struct.pack("<BB", read_only_root, no_pull)
    body += rules_body(rules)
    body += struct.pack("<I", len(mounts))
    for src, dst, read_only in mounts:
        body += as_bytes(src) + b"\0" + as_bytes(dst) + b"\0" + struct.pack("<B", read_only)
    body += struct.pack("<I", len(env)) + b"".join(as_bytes(e) + b"\0" for e in env)
    return as_file(1, body, version)


def take_paths(payload):
    count, length = struct.unpack("<II", payload[:8])
    paths = payload[8 : 8 + length].split(b"\0")
    assert len(paths) == count + 1 and paths[-1] == b"" and b"" not in paths[:-1]
    return [p.decode(errors="surrogateescape") for p in paths[:-1]], payload[8 + length :]


class File:
    def __init__(self, kind, mode, size, mtime_ns, text):
        self.kind, self.mode, self.size, self.mtime_ns, self.text = KINDS[kind], mode, size, mtime_ns, text

    def __repr__(self):
        return f"<{self.kind} {self.mode:o} {self.size} {self.text!r}>"


def take_file(payload):
    fixed = struct.unpack("<BIQq", payload[:21])
    end = payload.index(b"\0", 21)
    return File(*fixed, payload[21:end].decode(errors="surrogateescape")), payload[end + 1 :]


def text_of(payload):
    assert payload.endswith(b"\0") and payload.count(b"\0") == 1, payload
    return payload[:-1].decode()


class Reply:
    """One frame of the supervisor, every byte of it accounted for."""

    def __init__(self, kind, tag, payload, fds):
        self.kind, self.tag, self.fds = kind, tag, fds
        assert (tag == 0) == (kind in (HELLO, STATE))
        assert len(fds) <= (1 if kind in (STARTED, FILE_REPLY) else 0)
        if kind == HELLO:
            self.version, state = struct.unpack("<IB", payload[:5])
            self.state, self.name = STATES[state], text_of(payload[5:])
        elif kind == STATE:
            state, self.code = payload[:2]
            self.state, self.text = STATES[state], text_of(payload[2:])
        elif kind == OK:
            self.name = text_of(payload)
        elif kind == ERROR:
            self.code, self.text = payload[0], text_of(payload[1:])
        elif kind == STARTED:
            (self.pid,), self.name = struct.unpack("<I", payload[:4]), text_of(payload[4:])
        elif kind == OUTPUT:
            self.stream, self.lost, length = struct.unpack("<BQI", payload[:13])
            self.data = payload[13:]
            assert length == len(self.data) > 0 and self.stream in (1, 2)
        elif kind == FINISHED:
            fields = struct.unpack("<BiIIQQQQ", payload[:45])
            self.end, self.status, self.errno, self.flags, self.wall_us, self.user_us, self.system_us, self.rss = fields
            self.text = text_of(payload[45:])
        elif kind == STATUS_REPLY:
            fields = struct.unpack("<BQQqIIIQQQQQQ", payload)
            (state, self.pid, self.init_pid, self.started_ns, self.execs, self.sessions, self.clients, self.used_bytes,
             self.used_inodes, self.requests, self.denials, self.denials_dropped, self.last_event) = fields
            self.state = STATES[state]
        elif kind == EVENT:
            self.number, self.wall_ns, event, *self.numbers = struct.unpack("<QqBqqq", payload[:41])
            self.event = EVENTS[event]
            strings = payload[41:].split(b"\0")
            assert len(strings) == 4 and strings[3] == b""
            self.exec, self.subject, self.detail = (s.decode(errors="surrogateescape") for s in strings[:3])
        elif kind == SYNCED:
            self.version, self.change_count, self.conflict_count, self.left = struct.unpack("<QQQQ", payload[:32])
            self.changes, rest = take_paths(payload[32:])
            self.conflicts, rest = take_paths(rest)
            assert not rest
        elif kind == FILE_REPLY:
            self.file, rest = take_file(payload)
            assert not rest
        elif kind == LISTING:
            self.has_more, count, length = struct.unpack("<BII", payload[:9])
            rest, self.files = payload[9:], []
            assert length == len(rest)
            while rest:
                file, rest = take_file(rest)
                self.files.append(file)
            assert len(self.files) == count
        else:
            raise AssertionError(f"unknown reply {kind}")

    def __repr__(self):
        return str({k: v if not isinstance(v, bytes) else v[:200] for k, v in self.__dict__.items()})


class Run:
    """One command as its client sees it."""

    def __init__(self, client, tag):
        self.client, self.tag = client, tag
        self.out = self.err = b""
        self.lost = [0, 0]
        self.typed = 0
        self.started = self.finished = self.error = self.master = None
        self.chunks = {1: [], 2: []}

    def take(self, reply):
        assert self.finished is None and self.error is None, f"{reply} after the end"
        if reply.kind == STARTED:
            assert self.started is None
            self.started = reply
            self.master = reply.fds[0] if reply.fds else None
        elif reply.kind == OUTPUT:
            assert self.started is not None, "output before the start"
            self.chunks[reply.stream].append(reply.data)
            self.lost[reply.stream - 1] += reply.lost
        elif reply.kind == FINISHED:
            self.finished = reply
            self.out, self.err = b"".join(self.chunks[1]), b"".join(self.chunks[2])
        elif reply.kind == ERROR:
            self.error = reply
        elif reply.kind == OK and self.started:
            self.typed += 1
        else:
            raise AssertionError(f"{reply} is no news of a command")

    @property
    def is_over(self):
        return self.finished is not None or self.error is not None

    def so_far(self, stream=1):
        return b"".join(self.chunks[stream])

    def wait(self, timeout=WAIT):
        self.client.until(lambda: self.is_over, timeout)
        return self

    def wait_started(self, timeout=WAIT):
        self.client.until(lambda: self.started or self.is_over, timeout)
        assert self.started, self.error or self.finished
        return self

    def wait_output(self, text, stream=1, timeout=WAIT):
        self.client.until(lambda: text in self.so_far(stream) or self.is_over, timeout)
        assert text in self.so_far(stream), (self, self.finished)
        return self

    def kill(self, number=signal.SIGKILL, scope=TREE):
        self.client.send(frame(KILL, self.tag, struct.pack("<BB", number, scope)))

    @property
    def code(self):
        """As a shell would say it."""
        assert self.finished, self.error
        assert self.finished.end in (EXITED, SIGNALED), self.finished
        return self.finished.status + (128 if self.finished.end == SIGNALED else 0)

    @property
    def result(self):
        return self.code, self.out, self.err

    def __repr__(self):
        return f"<run {self.tag} {self.started} {self.finished} {self.error} out {self.so_far()[:300]} err {self.so_far(2)[:300]}>"


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.runs, self.replies, self.events, self.states = {}, {}, [], []
        self.next_tag, self.watch_tag, self.hello, self.is_over = 1, None, None, False

    def send(self, packet, fds=()):
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([packet], control)

    def receive(self, timeout=WAIT):
        """One reply, given to whom it is for; None when the supervisor has hung up."""
        poll = select.poll()  # not select(): there may be more than 1024 descriptors
        poll.register(self.sock, select.POLLIN)
        assert poll.poll(timeout * 1000), f"nothing comes; {list(self.runs.values())}"
        try:
            data, ancillary, flags, _ = self.sock.recvmsg(PAYLOAD_MAX + HEADER.size, socket.CMSG_SPACE(32),
                                                          socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            data = b""
        if not data:
            self.is_over = True
            return None
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        fds = array.array("i")
        for _, _, content in ancillary:
            fds.frombytes(content)
        magic, version, kind, fd_count, tag, length = HEADER.unpack(data[: HEADER.size])
        assert (magic, version, fd_count, length) == (b"AFW", 1, len(fds), len(data) - HEADER.size)
        reply = Reply(kind, tag, data[HEADER.size :], list(fds))
        self.deliver(reply)
        return reply

    def deliver(self, reply):
        if reply.kind == HELLO:
            assert self.hello is None and not self.states
            self.hello = reply
        elif reply.kind == STATE:
            self.states.append(reply.state)
            self.state = reply
        elif reply.kind == EVENT:
            assert reply.tag == self.watch_tag
            self.events.append(reply)
        elif reply.tag in self.runs:
            self.runs[reply.tag].take(reply)
        else:
            self.replies.setdefault(reply.tag, []).append(reply)

    def until(self, condition, timeout=WAIT):
        deadline = time.monotonic() + timeout
        while not condition():
            if self.receive(max(0.01, deadline - time.monotonic())) is None:
                raise EOFError("the supervisor hung up")

    def tag(self):
        self.next_tag += 1
        return self.next_tag - 1

    def greet(self):
        self.until(lambda: self.hello)
        return self

    def ask(self, kind, payload=b"", fds=(), tag=None):
        """A request with one answer."""
        tag = tag or self.tag()
        self.send(frame(kind, tag, payload, len(fds)), fds)
        self.until(lambda: tag in self.replies)
        (reply,) = self.replies.pop(tag)
        return reply

    def hold(self, wait_ms=60000, limit_ms=60000):
        return self.ask(QUIESCE, struct.pack("<II", wait_ms, limit_ms))

    def drop(self, *paths, fd=None):
        block = b"".join(os.fsencode(p) + b"\0" for p in paths)
        return self.ask(REVERT, struct.pack("<III", fd is not None, len(paths), len(block)) + block, [fd] if fd is not None else [])

    def release(self):
        return self.ask(RELEASE)

    def file(self, op, path, flags=0, mode=0, offset=0, size=0, after="", fds=(), tag=None):
        payload = struct.pack("<BIIQQ", op, flags, mode, offset, size) + os.fsencode(path) + b"\0" + os.fsencode(after) + b"\0"
        return self.ask(FILE, payload, fds, tag)

    def read_file(self, path, **options):
        """The bytes, or the error."""
        tag = self.tag()
        reply = self.file(READ, path, tag=tag, **options)
        if reply.kind == ERROR:
            return reply
        with os.fdopen(reply.fds[0], "rb") as pipe:
            content = pipe.read()
        self.until(lambda: tag in self.replies)
        (end,) = self.replies.pop(tag)
        return content if end.kind == OK else end

    def write_file(self, path, content, flags=0, mode=0o644, size=None):
        size = len(content) if size is None else size
        read_fd, write_fd = os.pipe()

        def pour():
            with contextlib.suppress(BrokenPipeError), os.fdopen(write_fd, "wb") as pipe:
                pipe.write(content)

        thread = threading.Thread(target=pour)
        thread.start()
        tag = self.tag()
        payload = struct.pack("<BIIQQ", WRITE, flags, mode, 0, size) + os.fsencode(path) + b"\0\0"
        self.send(frame(FILE, tag, payload, 1), [read_fd])
        os.close(read_fd)
        self.until(lambda: tag in self.replies)
        thread.join()
        (reply,) = self.replies.pop(tag)
        return reply

    def list_files(self, path="."):
        found, after = [], ""
        while True:
            reply = self.file(LIST, path, after=after)
            if reply.kind == ERROR:
                return reply
            found += reply.files
            if not reply.has_more:
                return found
            after = found[-1].text

    def start(self, argv, kind=EXEC, stdin=None, flags=0, tag=None, **options):
        """Sends a command; a string is for the shell. `stdin` is a descriptor."""
        if isinstance(argv, (str, bytes)) and kind == EXEC:
            argv = ["/bin/sh", "-c", argv]
        flags |= STDIN if stdin is not None else 0
        flags |= LIMITS if options.get("limits") else 0
        fixed, strings = run_payload(argv, flags=flags, **options)
        fds = [stdin] if stdin is not None else []
        memfd = None
        if len(fixed) + len(strings) > PAYLOAD_MAX:
            fixed, strings = run_payload(argv, flags=flags | STRINGS_FD, **options)
            memfd = sealed(strings)
            fds.append(memfd)
            strings = b""
        tag = tag or self.tag()
        run = Run(self, tag)
        self.runs[tag] = run
        self.send(frame(kind, tag, fixed + strings, len(fds)), fds)
        if memfd is not None:
            os.close(memfd)
        return run

    def run(self, argv, input=None, **options):
        """Runs it to its end."""
        if input is None:
            return self.start(argv, **options).wait(WAIT)
        read_fd, write_fd = os.pipe()
        run = self.start(argv, stdin=read_fd, **options)
        os.close(read_fd)
        with os.fdopen(write_fd, "wb") as pipe:
            pipe.write(input)
        return run.wait(WAIT)

    def attach(self, name, tag=None):
        tag = tag or self.tag()
        run = self.runs[tag] = Run(self, tag)
        self.send(frame(ATTACH, tag, as_bytes(name) + b"\0"))
        return run

    def open_session(self, shell=None, name="", cwd="", env=(), idle_ms=0):
        """Its name, or the refusal."""
        fixed, strings = run_payload([shell] if shell else [], name=name, cwd=cwd, env=env, timeout_ms=idle_ms)
        reply = self.ask(SESSION_OPEN, fixed + strings)
        return reply.name if reply.kind == OK else reply

    def close_session(self, name):
        return self.ask(SESSION_CLOSE, as_bytes(name) + b"\0")

    def say(self, session, command, **options):
        return self.start([command], kind=SESSION_EXEC, session=session, **options)

    def status(self):
        return self.ask(STATUS)

    def watch(self, after=0):
        self.watch_tag = self.tag()
        assert self.ask(WATCH, struct.pack("<Q", after), tag=self.watch_tag).kind == OK
        return self

    def wait_event(self, condition, timeout=WAIT):
        self.until(lambda: any(condition(e) for e in self.events), timeout)
        return next(e for e in self.events if condition(e))

    def set_rules(self, content):
        fd = os.memfd_create("rules")
        try:
            os.write(fd, content if isinstance(content, bytes) else rules_file(content))
            return self.ask(SET_RULES, fds=[fd])
        finally:
            os.close(fd)

    def sync(self, by=""):
        return self.ask(SYNC, as_bytes(by) + b"\0")

    def base_changed(self, *paths):
        joined = b"".join(as_bytes(p) + b"\0" for p in paths)
        return self.ask(BASE_CHANGED, struct.pack("<II", len(paths), len(joined)) + joined)

    def stop(self, grace_ms=0):
        self.send(frame(STOP, self.tag(), struct.pack("<I", grace_ms)))

    def drain(self):
        """All that still comes until the supervisor hangs up."""
        while self.receive() is not None:
            pass
        return self

    def close(self):
        for run in self.runs.values():
            if run.master is not None:
                with contextlib.suppress(OSError):
                    os.close(run.master)
                run.master = None
        self.sock.close()


class Codebase:
    """One with the given files, which were put there by somebody else."""

    def __init__(self, driver, files=None, user=None):
        self.driver, self.user, self.id = str(driver), user, "cb_" + os.urandom(8).hex()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="af-sup-cb-"))
        self.root.chmod(0o755)
        self.path, self.files = self.root / self.id, self.root / self.id / "files"
        if user is not None:
            os.chown(self.root, user, user)
        try:
            self.act("create")
            for path, content in (files or {}).items():
                self.put(path, content)
        except BaseException:
            self.remove()
            raise

    def act(self, *args, input=b""):
        who = {"user": self.user, "group": self.user, "extra_groups": []} if self.user is not None else {}
        done = subprocess.run([self.driver, str(self.root), self.id, *map(str, args)], input=input, capture_output=True, **who)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(errors="surrogateescape")

    def put(self, path, content):
        self.act("put", path, input=as_bytes(content))

    def delete(self, path):
        self.act("delete", path)

    def read(self, path):
        return (self.files / path).read_bytes().decode()

    def tree(self):
        """All that is in it: what files hold, where links lead, None for directories."""
        found = {}
        for path in sorted(self.files.rglob("*")):
            name = str(path.relative_to(self.files))
            found[name] = f"-> {os.readlink(path)}" if path.is_symlink() else path.read_bytes() if path.is_file() else None
        return found

    def versions(self):
        """Newest first: number, by, put, removed, conflicts."""
        rows = [line.split() for line in self.act("versions").splitlines()]
        return [(int(n), by, int(put), int(removed), int(conflicts)) for n, by, put, removed, conflicts in rows]

    def is_consistent(self):
        return self.act("check").split()[-1] == "consistent"

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Box:
    """A sandbox's directory with a base to work on, and its supervisor while it runs."""

    count = 0
    one_at_a_time = threading.Lock()

    def __init__(self, program, rules=(("/**", "write"),), files=None, user=None, codebase=None, **spec):
        Box.count += 1
        self.program, self.user = str(program), user
        self.name = f"sbsup-{os.getpid()}-{Box.count}"
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-sup-"))
        self.top.chmod(0o755)
        self.dir, self.base = self.top / self.name, self.top / "base"
        self.dir.mkdir(mode=0o700)
        (self.dir / "mnt").mkdir(mode=0o700)
        if codebase is not None:
            self.base = codebase.files
            spec["codebase"] = codebase.path
        else:
            self.base.mkdir(mode=0o755)
        for path, content in (files or {}).items():
            full = self.base / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(as_bytes(content))
        (self.dir / "spec").write_bytes(spec_file(self.name, self.base, rules, **spec))
        if user is not None:
            for path in [self.top, *self.top.rglob("*")]:
                os.chown(path, user, user)
        self.process = self.owner = None
        self.clients = []
        self.namespace = self.namespace_fd = None
        self.is_sanitized = b"__asan_init" in (content := pathlib.Path(self.program).read_bytes()) or b"__tsan_init" in content

    def launch(self, own=True, kind="--owner-fd", **options):
        """Starts the supervisor, and does not wait for anything."""
        args = [self.program]
        ours = theirs = None
        if own:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            args += [kind, str(theirs.fileno())]
            options["pass_fds"] = [theirs.fileno()]
        if self.user is not None and os.geteuid() == 0:
            args = self.as_user(args)
        self.process = subprocess.Popen([*args, str(self.dir)], cwd="/", start_new_session=True, stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, **options)
        if own:
            theirs.close()
            self.owner = Client(ours)
        return self

    def as_user(self, args):
        """The command for another user, who may open /dev/fuse, as it is for everybody on most machines."""
        node = self.top / "fuse"
        if not node.exists():
            device = os.stat("/dev/fuse")
            os.mknod(node, stat.S_IFCHR | 0o666, device.st_rdev)
            node.chmod(0o666)
        script = 'mount --bind "$1" /dev/fuse && shift && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh", str(node), "setpriv", "--reuid",
                str(self.user), "--regid", str(self.user), "--clear-groups", *args]

    def start(self, own=True, **options):
        """Starts it and waits until it runs."""
        self.launch(own, **options)
        client = self.owner if own else self.connect(wait=True)
        client.greet()
        try:
            if client.hello.state != "running":
                client.until(lambda: client.states)
            assert (client.states or [client.hello.state])[-1] == "running", client.state
        except (AssertionError, EOFError) as error:
            raise AssertionError(f"{error}\n{self.log()}") from error
        self.init_pid = client.status().init_pid
        self.note_namespace(self.init_pid)
        return self

    def note_namespace(self, pid):
        """Of the processes that are the sandbox's. It is held open, or the next sandbox of another test gets its number when this one ends."""
        if self.namespace_fd is not None:
            os.close(self.namespace_fd)
        self.namespace_fd = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY)
        self.namespace = os.fstat(self.namespace_fd).st_ino

    def log(self):
        with contextlib.suppress(OSError):
            return (self.dir / "log").read_text()
        return ""

    def connect(self, wait=False):
        deadline = time.monotonic() + WAIT
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with self.identity():
                    sock.connect(str(self.dir / "ctl"))
                break
            except OSError:
                sock.close()
                if not wait or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        client = Client(sock)
        self.clients.append(client)
        return client

    @contextlib.contextmanager
    def identity(self):
        """As the user of the supervisor, who is let in. Threads of a process have one identity."""
        if self.user is None or os.getuid() != 0:
            yield
            return
        with Box.one_at_a_time:
            os.seteuid(self.user)
            try:
                yield
            finally:
                os.seteuid(0)

    def client(self):
        return self.connect().greet()

    def run(self, argv, **options):
        """One command on a connection of its own."""
        client = self.client()
        try:
            return client.run(argv, **options)
        finally:
            client.close()

    # What the host sees of it.

    @property
    def pid(self):
        return self.process.pid

    def processes(self):
        """Of the sandbox, as the host numbers them; zombies do not count."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}/ns/pid").st_ino == self.namespace and " Z " not in pathlib.Path(f"/proc/{name}/stat").read_text():
                    found.append(int(name))
        return found

    def commands(self):
        """Command lines of what runs inside, without our own init and its keepers."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(OSError):
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if line and not line.startswith(b"/run/agentfense/init"):
                    found.append(line.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace"))
        return found

    def runs(self, text):
        return any(text in line for line in self.commands())

    def fds(self):
        return sorted(int(n) for n in os.listdir(f"/proc/{self.pid}/fd"))

    def looks_around(self):
        """Whether it reads of the machine's processes and mounts: after a start it looks for what others have left."""
        for fd in self.fds():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f"/proc/{self.pid}/fd/{fd}").startswith("/proc"):
                    return True
        return False

    def settled_fds(self):
        """When what it does on its own, after a start for instance, is done."""
        since, seen = time.monotonic(), self.fds()
        while time.monotonic() < since + 0.4:
            time.sleep(0.02)
            if self.fds() != seen or self.looks_around():
                since, seen = time.monotonic(), self.fds()
        return seen

    def rss_kib(self):
        """0 for a program with a sanitizer in it, which keeps what was freed."""
        if self.is_sanitized:
            return 0
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def state_file(self):
        return dict(line.split(" ", 1) for line in (self.dir / "state").read_text().splitlines())

    def delta(self, path):
        """A file as the delta has it."""
        return self.dir / "delta" / "data" / path

    def mounts(self):
        return [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                if str(self.top) in line or "/run/agentfense" in line]

    def lock_is_free(self):
        with open(self.dir / "lock", "rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False

    def wait(self, timeout=WAIT):
        return self.process.wait(timeout)

    def assert_nothing_runs(self):
        eventually(lambda: not self.processes(), message=lambda: self.commands())
        if CONTAINER:  # the host sees the mount; after a kill somebody else has to take it away
            eventually(lambda: not self.mounts(), message=lambda: self.mounts())
        assert not self.mounts()
        eventually(self.lock_is_free)

    def hang_up(self):
        """All our connections."""
        for client in [*self.clients, *([self.owner] if self.owner else [])]:
            client.close()
        self.clients, self.owner = [], None

    def stop(self):
        """Ends it and checks that nothing is left."""
        self.hang_up()
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
            raise AssertionError(f"the supervisor does not end\n{self.log()}") from None
        self.stderr = self.process.stderr.read().decode(errors="replace")
        self.process.stderr.close()
        self.process = None
        if self.namespace:
            self.assert_nothing_runs()
        return code

    def remove(self):
        try:
            code = self.stop()
            assert code in (None, 0, 1, -signal.SIGKILL), f"the supervisor ended with {code}\n{self.stderr}\n{self.log()}"
            assert not SANITIZER.search(self.log()), self.log()
        finally:
            if self.namespace_fd is not None:
                os.close(self.namespace_fd)
                self.namespace_fd = None
            shutil.rmtree(self.top, ignore_errors=True)


def eventually(condition, timeout=WAIT, message=lambda: "it does not happen"):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.02)
