"""`agentfense run` as people use it: as root, with a user of the sandbox's own, and as an ordinary user. Every test has a state
directory and a project of its own, and leaves no process, mount, cgroup or file."""

import hashlib
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), os.pardir, "docker"))

import engine  # noqa: E402

# Whoever runs the tests in the background has had these ignored, and what ignores a signal is told nothing of it.
for ignored in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.default_int_handler)  # a test that takes too long is torn down, not cut off

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("AGENTFENSE", ROOT / "build" / "src" / "cli" / "agentfense")).resolve()
SHOP = ROOT / "examples" / "shop"
IS_ROOT = os.geteuid() == 0
IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"
USER = 2000000000 + os.getpid()  # nobody's, and apart from that of every other run
TIMEOUT = 120  # of what takes a second on an idle machine
ENGINE = engine.engine_or_skip() if engine.is_wanted() else None
RUNTIME = ["--runtime", "docker", "--image", ENGINE.image("tools")] if ENGINE else []

pytest_configure, pytest_collection_modifyitems = engine.pytest_configure, engine.pytest_collection_modifyitems

# In a mount namespace of its own, where everybody may open FUSE, as another user.
AS_USER = """
set -eu
node=$1 uid=$2
shift 2
mount --bind "$node" /dev/fuse
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
"""


def mark_of(directory):
    """By which the cgroups of the sandboxes in this directory begin: src/supervisor/cgroup_name.c."""
    st = os.stat(directory)
    mark = 14695981039346656037
    for byte in os.fsencode(directory) + st.st_dev.to_bytes(8, sys.byteorder) + st.st_ino.to_bytes(8, sys.byteorder):
        mark = (mark ^ byte) * 1099511628211 % (1 << 64)
    return f"{(mark ^ mark >> 32) % (1 << 32):08x}"


def cgroups_of(name=None, directory=None):
    """Of sandboxes whose directories have this name, in whatever directory they are unless one is given; without a name, of all there. Cgroups of
    others come and go while one looks, which a walk does not mind."""
    mark = mark_of(directory) if directory else None
    return [f"{place}/{one}" for place, names, _ in os.walk("/sys/fs/cgroup") if place.endswith("/agentfense")
            for one in names if name in (None, one.partition("-")[2]) and mark in (None, one.partition("-")[0])]


def names_in(state):
    """Which directory of the state directory's sandboxes has which name."""
    claims = state / "names/-"
    return {claim.read_text(): claim.name for claim in claims.iterdir()} if claims.exists() else {}


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr.decode(errors="replace")

    def __repr__(self):
        return f"<code {self.code}\nout: {self.out[:2000]!r}\nerr: {self.err[:4000]}>"


def hash_tree(path):
    """All that can be seen of a directory without changing it."""
    digest = hashlib.sha256()
    for parent, dirs, files in os.walk(path):
        dirs.sort()
        for name in sorted(dirs + files):
            full = os.path.join(parent, name)
            st = os.lstat(full)
            digest.update(f"{os.path.relpath(full, path)}\0{st.st_mode:o} {st.st_uid} {st.st_mtime_ns} {st.st_ctime_ns}".encode())
            if stat.S_ISLNK(st.st_mode):
                digest.update(os.readlink(full).encode())
            elif stat.S_ISREG(st.st_mode):
                digest.update(pathlib.Path(full).read_bytes())
    return digest.hexdigest()


def processes(word):
    """Those that live and have this word in their command line, environment or directory."""
    found = []
    for proc in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if proc.name != str(os.getpid()) and word.encode() in (proc / "cmdline").read_bytes():
                found.append(f"{proc.name} {(proc / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


class Host:
    """Who runs sandboxes, with what program, where they are kept, and over what project."""

    def __init__(self, kind):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="af-run-"))
        self.dir.chmod(0o755)
        self.kind = kind
        self.as_user = kind == "user" and IS_ROOT
        self.uid = USER if self.as_user else os.geteuid()
        self.state = self.dir / "state"
        self.sandboxes = self.state / "sandboxes"
        self.state.mkdir(mode=0o700)
        self.program = self.install()
        self.base = self.dir / "project"
        self.base.mkdir()
        self.write("hello.txt", "hello\n")
        self.give(self.state)
        if self.as_user:
            os.mknod(self.dir / "fuse", 0o666 | stat.S_IFCHR, os.makedev(10, 229))
            (self.dir / "fuse").chmod(0o666)

    def install(self):
        """Where any user can run them."""
        bin_dir = self.dir / "bin"
        bin_dir.mkdir(mode=0o755)
        for name in ("agentfense", "agentfense-client", "agentfense-server", "agentfense-supervisor", "agentfense-init"):
            source = next(p for p in (PROGRAM.parent / name, PROGRAM.parent.parent / name.partition("-")[2] / name,
                                      PROGRAM.parent.parent / "libexec" / "agentfense" / name) if p.exists())
            shutil.copy(source, bin_dir / name)
            (bin_dir / name).chmod(0o755)
        engine.place_container_program(bin_dir)
        return bin_dir / "agentfense"

    def give(self, path):
        if self.as_user:
            os.chown(path, self.uid, self.uid)

    def write(self, name, text, mode=0o644):
        path = self.base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        for part in (path, *path.parents):
            self.give(part)
            if part == self.base:
                break
        return path

    def words(self, *words):
        if not self.as_user:
            return list(map(str, words))
        return ["unshare", "-m", "sh", "-c", AS_USER, "sh", str(self.dir / "fuse"), str(self.uid), *map(str, words)]

    def env(self, **more):
        env = {key: value for key, value in os.environ.items() if not key.startswith("AGENTFENSE") and key != "MALLOC_PERTURB_"}
        container = {"DOCKER_HOST": ENGINE.host} if ENGINE else {}
        return {**env, "AGENTFENSE_STATE_DIR": str(self.state), "HOME": "/nonexistent", **container, **more}

    def shape(self, options):
        """What a call says of the sandbox beside its options: the directory, and which runtime."""
        if "--in" in options or "--last" in options:
            return []
        return [*([] if "--runtime" in options else RUNTIME), self.base]

    def call(self, *args, env=None, **options):
        options.setdefault("timeout", TIMEOUT)
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.dir)
        return Result(subprocess.run(self.words(self.program, *args), capture_output=True, check=False,
                                     env=self.env(**(env or {})), **options))

    def run(self, *options, command, **kwargs):
        """`command` is a script, or a list of words."""
        words = ["sh", "-c", command] if isinstance(command, str) else command
        return self.call("run", *options, *self.shape(options), "--", *words, **kwargs)

    def start(self, *options, command, **kwargs):
        words = ["sh", "-c", command] if isinstance(command, str) else command
        for stream in ("stdin", "stdout", "stderr"):
            kwargs.setdefault(stream, subprocess.PIPE)
        return subprocess.Popen(self.words(self.program, "run", *options, *self.shape(options), "--", *words), env=self.env(),
                                cwd=self.dir, **kwargs)

    def cgroups_of(self, name):
        return cgroups_of(self.place(name).name, self.sandboxes) if self.sandboxes.exists() else []

    def cgroups(self):
        return cgroups_of(None, self.sandboxes) if self.sandboxes.exists() else []

    def place(self, name):
        """The directory of the sandbox that has this name, or of none."""
        return self.sandboxes / next((id for id, one in names_in(self.state).items() if one == name and (self.sandboxes / id).exists()), name)

    def names(self):
        """The sandboxes that are kept; those under temporary names too, and not those in the trash."""
        names = names_in(self.state)
        return sorted(names.get(id, id) for id in os.listdir(self.sandboxes) if not self.is_deleted(id)) if self.sandboxes.exists() else []

    def is_deleted(self, id):
        decision = self.sandboxes / id / "decision"
        return decision.exists() and decision.read_text().split()[1:] == ["deleted"]

    def name(self):
        (only,) = self.names()
        return only

    def signal(self, popen, number):
        """To agentfense itself: unshare and setpriv have become it."""
        os.kill(popen.pid, number)

    def changes(self, name):
        result = self.call("delta", "list", self.place(name) / "delta")
        assert result.code == 0, result
        return result.out.decode()

    def leftovers(self):
        left = processes(str(self.dir))
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            left += [line for line in mounts if str(self.dir) in line or "/run/agentfense" in line]
        left += self.cgroups()
        if ENGINE:
            left += [f"container {name}" for name in ENGINE.containers_of(self.dir)]
        return left

    def settle(self):
        """What was killed a moment ago may take a moment to go."""
        until = time.monotonic() + TIMEOUT
        while (left := self.leftovers()) and time.monotonic() < until:
            time.sleep(0.05)
        return left


def why_not(host):
    """Why sandboxes cannot be run here, or None."""
    result = host.run("-q", command=["true"])
    return None if result.code == 0 else f"no sandbox here as {host.kind}: {result.err.strip()}"


REASONS = {}


def make_host(kind):
    if kind == "root" and not IS_ROOT:
        pytest.skip("sandboxes with a user of their own need root")
    if kind == "user" and ENGINE:
        pytest.skip("an ordinary user's sandbox is no container")
    host = Host(kind)
    if kind not in REASONS:
        REASONS[kind] = why_not(host)
    if REASONS[kind]:
        shutil.rmtree(host.dir)
        pytest.skip(REASONS[kind])
    return host


def end_host(host, checks=True):
    left = host.settle()
    for line in left:
        pid = line.split()[0]
        if pid.isdigit():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        if line.startswith("container "):
            subprocess.run(["docker", "-H", ENGINE.host, "rm", "-f", line.split()[1]], capture_output=True, check=False)
        if len(line.split()) > 4 and line.split()[4].startswith(f"{host.dir}/"):
            subprocess.run(["umount", "-l", line.split()[4]], check=False)
    shutil.rmtree(host.dir)
    if checks:
        assert left == []


@pytest.fixture(params=["root", "user"])
def host(request):
    """Both ways of being somebody."""
    made = make_host(request.param)
    yield made
    end_host(made)


@pytest.fixture
def one():
    """One way, for what does not depend on who one is."""
    made = make_host("root" if IS_ROOT else "user")
    yield made
    end_host(made)


@pytest.fixture
def user():
    made = make_host("user")
    yield made
    end_host(made)


@pytest.fixture
def limited():
    """Where limits can be had."""
    made = make_host("root" if IS_ROOT else "user")
    result = made.run("-q", "-m", "64M", command=["true"])
    if result.code != 0:
        end_host(made)
        pytest.skip(f"no limits here: {result.err.strip()}")
    yield made
    end_host(made)
