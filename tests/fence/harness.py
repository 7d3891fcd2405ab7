"""Starting a fence, running programs behind it, and looking at what it left on disk.

Everything here talks to `agentfense mount` the way a person would: by its command line, its control socket and its
signals. Programs behind the fence run as real commands do: an unprivileged user, no capabilities, no_new_privs.
"""

import atexit
import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
IS_ROOT = os.geteuid() == 0
LONG = os.environ.get("AGENTFENSE_LONG") == "1"
TIMEOUT = 120  # seconds, of what takes one on an idle machine: only against waiting for ever
PYTHON = "/usr/bin/python3"  # a venv or a home directory may be closed to the sandbox's user
INSIDE_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# In a user namespace with a single uid there is nobody else to become: commands then stay who they are, without capabilities.
SANDBOX_UID = 61234
SANDBOX_GID = 61235

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_REC, MS_PRIVATE, MS_BIND, MS_NOATIME, MNT_DETACH = 0x4000, 1 << 18, 0x1000, 1024, 2

libc = ctypes.CDLL(None, use_errno=True)


def check_libc(result, what):
    if result != 0:
        err = ctypes.get_errno()
        raise OSError(err, f"{what}: {os.strerror(err)}")


def mount(source, target, fstype=None, flags=0, data=None):
    args = [os.fsencode(x) if x is not None else None for x in (source, target, fstype)]
    check_libc(
        libc.mount(args[0], args[1], args[2], ctypes.c_ulong(flags), os.fsencode(data) if data else None), f"mount {target}"
    )


def umount(target, lazy=True):
    return libc.umount2(os.fsencode(target), MNT_DETACH if lazy else 0) == 0


def enter_private_namespace():
    """All mounts of this process and its children vanish with the last of them, whatever is killed. Returns the reason when
    that is impossible."""
    global IS_ROOT
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS if uid == 0 else CLONE_NEWNS | CLONE_NEWUSER
    try:
        check_libc(libc.unshare(flags), "unshare")
        if uid != 0:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
            IS_ROOT = False
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as e:
        return f"needs root or user namespaces, and /dev/fuse: {e}"
    return None


def in_own_user_namespace(body):
    """Runs body in a child whose limits of inotify (/proc/sys/user) are its own: nobody else runs out of anything. Who is who stays
    the same."""
    ready, mapped, verdict = os.pipe(), os.pipe(), os.pipe()
    top = Path("/proc/self/uid_map").read_text().split()[2]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            check_libc(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
            os.close(mapped[1])
            os.write(ready[1], b"1")
            os.read(mapped[0], 1)
            mount(None, "/", None, MS_REC | MS_PRIVATE)
            body()
            assert not reports, "\n".join(reports)
            code = 0
        except BaseException:
            import traceback

            os.write(verdict[1], traceback.format_exc()[-60000:].encode())
        finally:
            os._exit(code)
    try:
        for fd in (ready[1], mapped[0], verdict[1]):
            os.close(fd)
        if os.read(ready[0], 1):
            for kind in ("uid_map", "gid_map"):
                Path(f"/proc/{pid}/{kind}").write_text(f"0 0 {top if IS_ROOT else 1}")
        os.close(mapped[1])
        said = b""
        while more := os.read(verdict[0], 65536):
            said += more
        _, status = os.waitpid(pid, 0)
        assert status == 0, said.decode("utf-8", "backslashreplace") or f"ended with {status}"
    finally:
        for fd in (ready[0], verdict[0]):
            os.close(fd)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def limit_inotify(what, most):
    """Of "instances" or "watches" there are no more than that, for a test that is marked own_limits."""
    Path(f"/proc/sys/user/max_inotify_{what}").write_text(str(most))


def sandbox_ids():
    return (SANDBOX_UID, SANDBOX_GID) if IS_ROOT else (0, 0)


def confined(argv, caps="none", uid=None, gid=None):
    """The command line that runs argv as a sandbox's command. caps: "none", "keep" (as a root that kept everything) or a
    setpriv list such as "+dac_override"."""
    uid = sandbox_ids()[0] if uid is None else uid
    gid = sandbox_ids()[1] if gid is None else gid
    if caps == "keep":
        return [*argv]
    out = ["setpriv"]
    if IS_ROOT:
        out += [f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]
    if caps == "none":
        out += ["--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"]
    else:
        out += [f"--inh-caps={caps}", f"--ambient-caps={caps}"]
    return [*out, "--", *argv]


class Ran:
    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.stdout, self.stderr = argv, code, out, err

    @property
    def out(self):
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def err(self):
        return self.stderr.decode("utf-8", "backslashreplace")

    def ok(self):
        assert self.code == 0, f"{self.argv!r} ended with {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"
        return self


def run(argv, cwd=None, env=None, input=None, timeout=TIMEOUT, caps="none", uid=None, gid=None, pass_fds=()):
    """Runs argv confined; on a timeout the whole session of it is killed."""
    full = {
        "PATH": INSIDE_PATH,
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    full.update(env or {})
    command = confined([os.fspath(a) if not isinstance(a, bytes) else a for a in argv], caps, uid, gid)
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=full,
        stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        out, err = child.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        raise AssertionError(f"{argv!r} did not end within {timeout} s\n{out!r}\n{err!r}") from None
    return Ran(argv, child.returncode, out, err)


@contextlib.contextmanager
def background(argv, cwd, stdout=None, text=False):
    """A confined program that runs meanwhile and is gone afterwards, with its whole session."""
    child = subprocess.Popen(
        confined([os.fspath(a) for a in argv]),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(tools_dir()), "PATH": INSIDE_PATH, "LC_ALL": "C.UTF-8"},
        text=text,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()


def write_policy(path, rules):
    """A policy file from ("pattern", "level"[, priority[, type]]) tuples or "pattern=level[@prio]" strings."""
    items = []
    for rule in rules:
        if isinstance(rule, str):
            pattern, _, level = rule.rpartition("=")
            level, _, prio = level.partition("@")
            rule = (pattern, level, int(prio or 0))
        item = {"pattern": rule[0], "permission": rule[1]}
        if len(rule) > 2 and rule[2]:
            item["priority"] = rule[2]
        if len(rule) > 3:
            item["type"] = rule[3]
        items.append(item)
    Path(path).write_text(json.dumps({"version": 1, "rules": items}))
    return path


reports = []  # of sanitizers, by fences that have ended; conftest.py looks at them after each test
SANITIZER = re.compile(r"(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error:")


class Refused(Exception):
    """The fence ended before it was ready."""

    def __init__(self, code, stderr):
        super().__init__(f"agentfense mount ended with {code}: {stderr}")
        self.code, self.stderr = code, stderr


class Fence:
    """One `agentfense mount`. As a context manager it is mounted inside the with-block and gone after it, also on failure."""

    def __init__(
        self,
        work,
        base=None,
        delta=None,
        rules=("**=write",),
        policy=None,
        preset=None,
        options=(),
        env=None,
        mountpoint=None,
        prefix=(),
        ids=True,
        ready_timeout=TIMEOUT,
    ):
        self.work = Path(work)
        self.base = Path(base) if base else self.work / "base"
        self.delta = Path(delta) if delta else self.work / "delta"
        self.mnt = Path(mountpoint) if mountpoint else self.work / "mnt"
        self.rules, self.policy, self.preset = list(rules), policy, preset
        self.options, self.env, self.prefix = list(options), dict(env or {}), list(prefix)
        self.ids = ids
        self.control_path = self.work / "control"
        self.events_path = self.work / "events"
        self.log_path = self.work / "fence.log"
        self.ready_timeout = ready_timeout
        self.process = None
        self.started_ns = self.ready_ns = 0
        for d in (self.base, self.delta, self.mnt):
            d.mkdir(parents=True, exist_ok=True)

    def argv(self):
        out = [*self.prefix, os.environ["AGENTFENSE"], "mount", "--base", str(self.base), "--delta", str(self.delta)]
        if self.preset:
            out += ["--preset", self.preset]
        if self.policy:
            out += ["--policy", str(self.policy)]
        for rule in self.rules:
            out += ["--rule", rule]
        if self.ids:
            out += ["--uid", str(sandbox_ids()[0]), "--gid", str(sandbox_ids()[1])]
        out += ["--control", str(self.control_path), "--events", str(self.events_path)]
        return [*out, *self.options]

    def start(self, env=None):
        assert self.process is None
        self.control_path.unlink(missing_ok=True)
        read_end, write_end = os.pipe()
        full = {**os.environ, **self.env, **(env or {})}
        self.started_ns = time.time_ns()
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen(
                [*self.argv(), "--ready-fd", str(write_end), str(self.mnt)],
                env=full,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(write_end,),
                start_new_session=True,
            )
        os.close(write_end)
        try:
            self.wait_ready(read_end)
        finally:
            os.close(read_end)
        self.ready_ns = time.time_ns()
        return self

    def wait_ready(self, read_end):
        import select

        ready, _, _ = select.select([read_end], [], [], self.ready_timeout)
        if ready and os.read(read_end, 1):
            return
        if not ready:
            self.kill()
            raise Refused(None, "not ready in time: " + self.log())
        code = self.process.wait(TIMEOUT)
        self.process = None
        self.note_end()
        self.clear_mount()
        raise Refused(code, self.log())

    def log(self):
        with open(self.log_path, "rb") as f:
            f.seek(self.log_start)
            return f.read().decode("utf-8", "backslashreplace")

    def note_end(self):
        """The process is gone: what a sanitizer had to say is in its log now."""
        log = self.log()
        if SANITIZER.search(log):
            reports.append(log)

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def clear_mount(self):
        while is_mountpoint(self.mnt) and umount(self.mnt):
            pass

    def stop(self, signal_number=signal.SIGTERM, timeout=TIMEOUT):
        """Ends it the polite way and returns its exit code."""
        if self.process is None:
            return None
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(signal_number)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = "did not end"
        self.note_end()
        self.left_mounted = is_mountpoint(self.mnt)
        self.clear_mount()
        return code

    def kill(self):
        """kill -9, and the dead mount cleared away."""
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            process.wait()
            self.note_end()
        self.clear_mount()

    def wait_death(self, timeout=TIMEOUT):
        """Waits for the fence to die by itself (a fault point), returns how."""
        process, self.process = self.process, None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process = process
            return None
        self.note_end()
        self.clear_mount()
        return code

    def remount(self, **changes):
        self.stop()
        for key, value in changes.items():
            setattr(self, key, value)
        return self.start()

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        self.stop()

    # What one can ask of it

    def control(self, line, timeout=TIMEOUT):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(timeout)
            s.connect(str(self.control_path))
            s.sendall(line.encode() + b"\n")
            answer = b""
            while not answer.endswith(b"\n"):
                more = s.recv(65536)
                if not more:
                    break
                answer += more
        return json.loads(answer)

    def set_rules(self, rules):
        path = self.work / "new-rules.json"
        write_policy(path, rules)
        answer = self.control(f"rules {path}")
        assert "error" not in answer or not answer["error"], answer
        return answer

    def events(self):
        if not self.events_path.exists():
            return []
        return [json.loads(line) for line in self.events_path.read_text(errors="replace").splitlines() if line.strip()]

    # Running things behind it

    def run(self, argv, cwd=".", **kw):
        return run(argv, cwd=os.path.join(os.fsencode(self.mnt), os.fsencode(cwd)), **kw)

    def sh(self, script, cwd=".", **kw):
        return self.run(["/bin/sh", "-c", script], cwd, **kw)

    def call(self, function, timeout=TIMEOUT):
        """What `function` returns, a text, when it is called behind the fence: in a fork of ours, which begins sooner than a program."""
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read_end)
                if IS_ROOT:
                    os.setgroups([])
                    os.setgid(sandbox_ids()[1])
                    os.setuid(sandbox_ids()[0])
                os.chdir(self.mnt)
                said, code = function(), 0
            except BaseException:
                import traceback

                said, code = traceback.format_exc(), 1
            try:
                with open(write_end, "w", errors="surrogateescape") as out:
                    out.write(said)
            finally:
                os._exit(code)
        os.close(write_end)
        killer = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
        killer.start()
        with open(read_end, errors="surrogateescape") as answer:
            said = answer.read()
        killer.cancel()
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"ended with {status}\n{said}"
        return said

    def python(self, code, *args, cwd=".", **kw):
        """Runs Python behind the fence with everything of inside.py in scope."""
        env = {"PYTHONPATH": str(tools_dir()), **kw.pop("env", {})}
        return self.run([PYTHON, "-c", "from inside import *\n" + code, *args], cwd, env=env, **kw)


def is_mountpoint(path):
    want = os.path.realpath(path)
    with open("/proc/self/mountinfo", "rb") as f:
        for line in f:
            point = re.sub(rb"\\(\d\d\d)", lambda m: bytes([int(m[1], 8)]), line.split()[4])
            if point == os.fsencode(want):
                return True
    return False


# Programs and scripts that commands behind the fence use: copied where the sandbox's user can reach them.

TOOLS = "agentfense-tools-"
_tools = None


def sweep_tools():
    """Those of runs that were killed outright: whose process their names tell is not there any more."""
    for left in Path(tempfile.gettempdir()).glob(f"{TOOLS}*"):
        pid = left.name[len(TOOLS):].split("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(left, ignore_errors=True)


def tools_dir():
    global _tools
    if _tools is None:
        sweep_tools()
        _tools = Path(tempfile.mkdtemp(prefix=f"{TOOLS}{os.getpid()}-"))
        atexit.register(shutil.rmtree, _tools, ignore_errors=True)
        _tools.chmod(0o755)
        (_tools / "posix").mkdir(mode=0o755)
        for source in (HERE / "inside.py", *HERE.glob("posix/*.py")):
            target = _tools / source.relative_to(HERE)
            shutil.copy(source, target)
            target.chmod(0o644)
        built = os.environ.get("AGENTFENSE_PROBES")
        for source in sorted(HERE.glob("probe*.c")):
            target = _tools / source.stem
            if built and (Path(built) / source.stem).exists():
                shutil.copy(Path(built) / source.stem, target)
            else:
                command = ["cc", "-O1", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o", target, source, "-pthread"]
                if "<fuse.h>" in source.read_text():
                    libraries = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
                    command += libraries.stdout.split()
                subprocess.run(command, check=True)
            target.chmod(0o755)
    return _tools


# Trees

OLD = 1_600_000_000_000_000_000  # ns; a time no run of the tests can produce


class Tree:
    """Builds a directory tree from short calls; all times are set to OLD by settle()."""

    def __init__(self, root):
        self.root = Path(root)
        self.root.mkdir(parents=True, exist_ok=True)

    def at(self, path):
        return os.path.join(os.fsencode(self.root), os.fsencode(path).lstrip(b"/"))

    def parent(self, path):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)

    def file(self, path, data="", mode=0o644):
        self.parent(path)
        full = self.at(path)
        with open(full, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        os.chmod(full, mode)
        return self

    def dir(self, path, mode=0o755):
        os.makedirs(self.at(path), exist_ok=True)
        os.chmod(self.at(path), mode)
        return self

    def link(self, target, path):
        self.parent(path)
        os.symlink(target, self.at(path))
        return self

    def hard(self, existing, path):
        self.parent(path)
        os.link(self.at(existing), self.at(path), follow_symlinks=False)
        return self

    def fifo(self, path, mode=0o644):
        self.parent(path)
        os.mkfifo(self.at(path), mode)
        return self

    def settle(self, when=OLD):
        for top, dirs, files in os.walk(os.fsencode(self.root), topdown=False):
            for name in files + dirs:
                os.utime(os.path.join(top, name), ns=(when, when), follow_symlinks=False)
        os.utime(self.root, ns=(when, when))
        return self


def fingerprint(root):
    """Every byte and every lasting attribute of a tree, as one text line per entry: to prove that it was left alone."""
    lines = []
    root = os.fsencode(root)

    def visit(path, shown):
        st = os.lstat(path)
        line = [
            shown.decode("utf-8", "backslashreplace"),
            stat.filemode(st.st_mode),
            str(st.st_uid),
            str(st.st_gid),
            str(st.st_nlink),
            str(st.st_size if not stat.S_ISDIR(st.st_mode) else "-"),
            str(st.st_mtime_ns),
        ]
        if stat.S_ISREG(st.st_mode):
            digest = hashlib.sha256()
            with open(path, "rb") as f:
                while chunk := f.read(1 << 20):
                    digest.update(chunk)
            line.append(digest.hexdigest())
        elif stat.S_ISLNK(st.st_mode):
            line.append(os.readlink(path).decode("utf-8", "backslashreplace"))
        with contextlib.suppress(OSError):
            for name in sorted(os.listxattr(path, follow_symlinks=False)):
                line.append(f"{name}={os.getxattr(path, name, follow_symlinks=False).hex()}")
        lines.append(" ".join(line))
        if stat.S_ISDIR(st.st_mode):
            for name in sorted(os.listdir(path)):
                visit(os.path.join(path, name), os.path.join(shown, name))

    visit(root, b".")
    return lines


def view_of(root, times=False):
    """What a tree holds, as a dict path -> (kind, mode, content): two trees with equal views are the same to a user."""
    out = {}
    root = os.fsencode(root)
    for top, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(top, name)
            rel = os.path.relpath(path, root)
            st = os.lstat(path)
            if stat.S_ISLNK(st.st_mode):
                entry = ("link", os.readlink(path))
            elif stat.S_ISDIR(st.st_mode):
                entry = ("dir", stat.S_IMODE(st.st_mode))
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    entry = ("file", stat.S_IMODE(st.st_mode), f.read())
            else:
                entry = ("other", st.st_mode)
            if times and not stat.S_ISDIR(st.st_mode):
                entry += (st.st_mtime_ns,)
            out[rel] = entry
    return out


@contextlib.contextmanager
def folding(source, mountpoint):
    """The tree `source` shown at `mountpoint` by a filesystem that ignores case and how an é is written."""
    mountpoint.mkdir(parents=True, exist_ok=True)
    child = subprocess.Popen([tools_dir() / "probe_fold", source, mountpoint])
    try:
        assert wait_until(lambda: is_mountpoint(mountpoint) or child.poll() is not None) and child.poll() is None
        yield
    finally:
        umount(mountpoint)
        try:
            child.wait(TIMEOUT)  # by itself: a sanitizer that is killed at its last look says so
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait_until(condition, timeout=TIMEOUT, step=0.01):
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(step)
