"""Out of the sandbox: what a command tries against init, the host, the terminal and its neighbours. The confinement itself, call by call, is
tried in tests/runtime; here it is what people start, with all that belongs to it."""

import ctypes
import hashlib
import os
import pathlib
import pty
import select
import socket
import subprocess

import pytest
from server import eventually

PRELUDE = """
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r if r >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(what, *args):
    try:
        return what(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, e)
def others():
    "Init, and those of ours that keep commands: whoever is not above or below us in a way that we made."
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
"""


def inside(host, script, *options, **more):
    return host.run("-q", "--rm", *options, command=["/usr/bin/python3", "-c", PRELUDE + script], **more)


# ---- mounts ----

def test_the_way_to_a_mount_becomes_a_link(host):
    """Sources are looked up with the rights of who asked for them. Whoever owns a directory on the way leads that nowhere else."""
    if os.geteuid() != 0:
        pytest.skip("a directory that is closed to the user, and to the sandbox with it, needs root")
    way, closed = host.dir / "way", host.dir / "closed"
    for top, text in ((way, "mine"), (closed, "closed")):
        (top / "data").mkdir(parents=True)
        (top / "data" / "f").write_text(text)
    closed.chmod(0o700)
    name = f"way-{host.kind}"
    mounted = ("--mount", f"{way}/data:/mnt/data:ro")
    assert host.run("-q", "--name", name, *mounted, command="cat /mnt/data/f; touch kept").out == b"mine"
    way.rename(host.dir / "moved")
    way.symlink_to(closed)
    result = host.run("-q", "--in", name, command="cat /mnt/data/f")
    assert b"closed" not in result.out and result.code != 0, result
    way.unlink()
    (host.dir / "moved").rename(way)
    (way / "data").rename(way / "moved")
    (way / "data").symlink_to(closed / "data")
    result = host.run("-q", "--in", name, command="cat /mnt/data/f")
    assert b"closed" not in result.out and result.code != 0, result
    host.call("rm", "--purge", name)


def test_writing_to_the_sandboxs_own_root_through_a_mount_that_holds_it(host):
    """What is mounted may hold the place where the supervisor makes the root."""
    source, roots = ("/run", "/mnt/all/agentfense/mnt") if host.kind == "root" else (host.state, "/mnt/all/sandboxes/*/mnt")
    result = host.run("-q", "--rm", "--mount", f"{source}:/mnt/all", command=f"""
        for root in {roots}; do echo at $root; for name in etc/added run/agentfense/init run/agentfense/bin/added usr/added; do
            (echo x > $root/$name) 2>/dev/null && echo WROTE $root/$name; done; done; ls /etc/added""")
    assert b"at /mnt/all" in result.out and b"*" not in result.out, result
    assert b"WROTE" not in result.out and result.code != 0 and "No such file" in result.err, result


# ---- init ----

def test_looking_into_init_and_those_that_keep_commands(host):
    """Its socket is the way to the supervisor: neither listed, nor opened, nor fetched, nor read out of its memory."""
    result = inside(host, """
for pid in others():
    for what in ("fd", "map_files", "fdinfo"):
        names = attempt(os.listdir, f"/proc/{pid}/{what}")
        if not isinstance(names, str): print("LISTED", pid, what, names)
    for what in ("mem", "environ", "auxv", "pagemap", "maps", "stack", "syscall"):
        got = attempt(lambda: open(f"/proc/{pid}/{what}", "rb").read(1))
        if isinstance(got, bytes) and got: print("READ", pid, what)
    for fd in range(64):
        got = attempt(os.open, f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK)
        if isinstance(got, int): print("OPENED", pid, fd)
    pidfd = call(434, pid, 0)
    if isinstance(pidfd, int):
        for fd in range(64):
            if isinstance(call(438, pidfd, fd, 0), int): print("FETCHED", pid, fd)
    for request in (16, 0x4206):
        if isinstance(call(101, request, pid, 0, 0), int): print("TRACED", pid)
print("looked at", len(others()))
""")
    assert result.code == 0 and result.out.startswith(b"looked at "), result
    assert int(result.out.split()[-1]) >= 1, "there was nobody to look at"


def test_writing_over_init_through_the_link_to_its_program(host):
    """As CVE-2019-5736 did: the program that the host runs next time is the one that runs now."""
    programs = {path: hashlib.sha256(path.read_bytes()).digest() for path in host.program.parent.iterdir()}
    result = inside(host, """
tried = 0
places = [f"/proc/{pid}/exe" for pid in [*others(), "self"]]
for top, _, names in os.walk("/run/agentfense"):
    places += [os.path.join(top, name) for name in [".", *names]]
for place in places:
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        tried += 1
        if isinstance(attempt(os.open, place, flags), int): print("OPENED", place)
    for what in (lambda: os.unlink(place), lambda: os.rename(place, "/run/agentfense/x"), lambda: os.chmod(place, 0o777)):
        if attempt(what) is None: print("CHANGED", place)
print("tried", tried)
""")
    assert result.code == 0 and result.out.startswith(b"tried "), result
    assert {path: hashlib.sha256(path.read_bytes()).digest() for path in programs} == programs


def test_every_signal_at_init(host):
    result = inside(host, """
for number in [n for n in range(1, 65) if n not in (32, 33)]:
    attempt(os.kill, 1, number)
os.kill(1, 0)
print("init lives")
sys.exit(7)
""")
    assert (result.code, result.out) == (7, b"init lives\n"), result


@pytest.mark.parametrize("victim", ["everybody", "those of ours", "init's limits", "init's turn"])
def test_taking_down_what_keeps_the_command(host, victim):
    """Only the sandbox is its own to ruin: the call comes to its end, and nothing is left."""
    script = {
        "everybody": "os.kill(-1, signal.SIGKILL)",
        "those of ours": "[attempt(os.kill, pid, n) for pid in others() for n in (signal.SIGSTOP, signal.SIGKILL)]",
        "init's limits": """
import resource
for pid in [1, *others()]:
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS, resource.RLIMIT_CPU):
        attempt(lambda: resource.prlimit(pid, limit, (0, 0)))
""",
        "init's turn": """
for pid in [1, *others()]:
    attempt(os.setpriority, os.PRIO_PROCESS, pid, 19)
    attempt(os.sched_setscheduler, pid, os.SCHED_IDLE, os.sched_param(0))
    attempt(os.kill, pid, signal.SIGSTOP)
""",
    }[victim]
    result = inside(host, script + "\nprint('done'); sys.stdout.flush(); sys.exit(3)", "-t", "2s")
    assert result.code in (3, 124, 125, 128 + 9), result
    assert host.settle() == []
    assert host.run("-q", "--rm", command=["echo", "next"]).out == b"next\n"


def test_commands_have_three_pipes_and_nothing_else(host):
    """Whatever whoever starts it has open: a file as its standard input, and more that nobody meant to hand on."""
    script = "print([(f, attempt(os.readlink, f'/proc/self/fd/{f}').split(':')[0]) for f in range(1024) if attempt(os.fstat, f) != 'EBADF'])"
    with open("/etc/passwd", "rb") as file, open("/etc/hostname", "rb") as leaked:
        os.set_inheritable(leaked.fileno(), True)
        result = inside(host, script, stdin=file, close_fds=False)
    assert result.out.decode().strip() == str([(0, "pipe"), (1, "pipe"), (2, "pipe")]), result


def test_a_program_that_only_memory_has_gains_nothing(host):
    result = inside(host, """
fd = os.memfd_create("evil", 0)
os.write(fd, open("/bin/cat", "rb").read())
attempt(os.fchmod, fd, 0o6755)
os.execve(fd, ["cat", "/proc/self/status"], {})
""")
    fields = dict(line.split(":\t", 1) for line in result.out.decode().splitlines() if ":\t" in line)
    assert (fields["Seccomp"], fields["NoNewPrivs"], fields["CapEff"], fields["CapBnd"]) == ("2", "1", "0" * 16, "0" * 16), result
    assert len(set(fields["Uid"].split())) == len(set(fields["Gid"].split())) == 1 and "0" not in fields["Uid"].split()


# ---- the host ----

def test_keys_of_whoever_starts_it(one):
    """The session's keyring is inherited by every child; names of keys alone say what is mounted and who is logged in where."""
    libc = ctypes.CDLL(None, use_errno=True)
    script = """
print(*[attempt(lambda: open(p).read()) for p in ('/proc/keys', '/proc/key-users') if os.path.exists(p)]); print(call(250, 10, -3, b'user'))
"""

    def join_and_add():
        libc.syscall(250, 1, None)  # KEYCTL_JOIN_SESSION_KEYRING: one of this call's own
        for ring in (-3, -4):
            libc.syscall(248, b"user", b"af-canary-key", b"secret of the host", 18, ring)

    seen = subprocess.run(["cat", "/proc/keys"], capture_output=True, check=False, preexec_fn=join_and_add)
    if b"af-canary" not in seen.stdout:
        pytest.skip("this kernel keeps no keys")
    result = inside(one, script, preexec_fn=join_and_add)
    assert result.code == 0 and b"af-canary" not in result.out and b"ENOSYS" in result.out, result


def test_files_of_the_kernel_that_tell_about_the_host(host):
    result = inside(host, """
for path in ("/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/1/root/proc/kcore", "/dev/mem", "/dev/kmsg",
             "/sys/kernel/debug", "/sys/fs/cgroup", "/sys/fs/fuse/connections", "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern"):
    for flags in (os.O_RDWR, os.O_WRONLY):
        if isinstance(attempt(os.open, path, flags | os.O_NONBLOCK), int): print("WRITABLE", path)
    if path.startswith("/proc/k"):
        got = attempt(lambda: os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 64))
        if isinstance(got, bytes) and got: print("READ", path, got[:16])
print(open("/proc/self/cgroup").read().strip())
print([l.split()[-1] for l in open("/proc/kallsyms") if int(l.split()[0], 16)][:1] if os.path.exists("/proc/kallsyms") else [])
""")
    assert result.out.decode().splitlines()[-1] == "[]" and b"WRITABLE" not in result.out and b"READ" not in result.out, result
    assert "agentfense" not in result.out.decode() and all(l.endswith(":/") for l in result.out.decode().splitlines()[:-1]), result


def test_sockets_of_the_host(one):
    """In the project, beside it, abstract, on loopback, and the one that gives orders to the sandbox itself."""
    place = one.dir / "beside.sock"
    with socket.socket(socket.AF_UNIX) as inner, socket.socket(socket.AF_UNIX) as beside, socket.socket(socket.AF_UNIX) as abstract, \
            socket.create_server(("127.0.0.1", 0)) as tcp:
        for sock, name in ((inner, str(one.base / "in.sock")), (beside, str(place)), (abstract, f"\0af-attack-{os.getpid()}")):
            sock.bind(name)
            sock.listen()
        os.chmod(one.base / "in.sock", 0o777)
        os.chmod(place, 0o777)
        script = f"""
for where in ("/workspace/in.sock", {str(place)!r}, {f"{chr(0)}af-attack-{os.getpid()}"!r}, ("127.0.0.1", {tcp.getsockname()[1]})):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        sock = socket.socket(socket.AF_INET if isinstance(where, tuple) else socket.AF_UNIX, kind if not isinstance(where, tuple) else 1)
        if attempt(sock.connect, where) is None: print("CONNECTED", where)
for top in ({str(one.state)!r}, "/var/lib/agentfense", "/run", "/tmp", "/workspace"):
    for where, _, names in os.walk(top):
        for name in names:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if attempt(sock.connect, os.path.join(where, name)) is None: print("CONNECTED", where, name)
print("tried")
"""
        try:
            for driver in ("fence", "overlayfs", "copy"):
                result = inside(one, script, "--driver", driver, "--rule", "/**=write")
                if driver == "overlayfs" and result.code == 125:
                    continue
                assert result.out == b"tried\n", (driver, result)
        finally:
            (one.base / "in.sock").unlink()


def enter_own_network():
    """In a child of root's, so that names that others bind on this host are not counted. An ordinary user has those of the host."""
    if os.geteuid() == 0 and ctypes.CDLL(None).unshare(0x40000000) != 0:
        raise OSError("no network namespace")


def test_on_the_host_s_network_nothing_of_ours_listens_without_asking_who_it_is(one):
    """Abstract names know no permissions: none is ours."""
    result = inside(one, "print(open('/proc/net/unix').read())", "--net", "host", preexec_fn=enter_own_network)
    assert result.code == 0 and not [line for line in result.out.decode(errors="replace").splitlines()
                                     if "@" in line and ("agentfense" in line or "/af-" in line)], result


def test_the_terminal_of_whoever_looks_on(one):
    """Typing into it (TIOCSTI, TIOCLINUX), stealing it, or hanging it up: what the shell outside reads next is what a person typed."""
    main, end = pty.openpty()
    script = PRELUDE + """
import fcntl, termios
for fd in (0, 1, 2, attempt(os.open, "/dev/tty", os.O_RDWR)):
    if not isinstance(fd, int): continue
    for request, arg in ((termios.TIOCSTI, b"x"), (0x541C, b"\\x02"), (termios.TIOCSTI | 1 << 32, b"x"), (0x540E, 1), (0x5437, 0)):
        attempt(fcntl.ioctl, fd, request & 0xFFFFFFFF, arg)
        call(16, fd, request, ctypes.create_string_buffer(b"x"))
print("tried")
"""
    words = one.words(one.program, "run", "-it", "-q", "--rm", one.base, "--", "/usr/bin/python3", "-c", script)
    child = subprocess.Popen(words, stdin=end, stdout=end, stderr=end, env=one.env(), cwd=one.dir, start_new_session=True)
    seen = b""
    while b"tried" not in seen:
        assert select.select([main], [], [], 60)[0], seen
        seen += os.read(main, 4096)
    assert child.wait(60) == 0
    os.set_blocking(end, False)
    with pytest.raises(BlockingIOError):
        os.read(end, 100)
    os.close(main)
    os.close(end)


def test_neighbours_do_not_meet(one):
    """Two sandboxes over one project at the same time: no file, socket, segment or process of one is there for the other."""
    marks = """
open("/workspace/mark", "w").write("m"); open("/tmp/mark", "w").write("m"); open("/dev/shm/mark", "w").write("m")
open(os.path.expanduser("~/mark"), "w").write("m")
a = socket.socket(socket.AF_UNIX); a.bind("\\0mark"); a.listen()
t = socket.create_server(("127.0.0.1", 7777))
libc.shmget(4242, 4096, 0o1666)
print("up", flush=True); sys.stdin.read()
"""
    first = one.start("-q", "--rm", command=["/usr/bin/python3", "-c", PRELUDE + marks])
    try:
        assert first.stdout.readline() == b"up\n"
        result = inside(one, """
print([p for p in ("/workspace/mark", "/tmp/mark", "/dev/shm/mark", os.path.expanduser("~/mark")) if os.path.exists(p)],
      attempt(socket.socket(socket.AF_UNIX).connect, "\\0mark"), attempt(socket.create_connection, ("127.0.0.1", 7777)),
      libc.shmget(4242, 4096, 0o666), [open(f"/proc/{p}/cmdline").read().count("mark") for p in others()].count(1))
""")
        assert result.out.decode().split() == ["[]", "ECONNREFUSED", "ECONNREFUSED", "-1", "0"], result
    finally:
        first.stdin.close()
        first.wait(60)
        first.stdout.close()
        first.stderr.close()


# ---- the same by a server ----

def test_a_ruined_sandbox_stops_and_starts_again(shared):
    client = shared.client()
    codebase = client.codebase({"a": "1"})
    ruined, other = client.sandbox(codebase), client.sandbox(codebase)
    script = "import os,signal\nfor p in sorted(map(int, filter(str.isdigit, os.listdir('/proc'))), reverse=True):\n" \
             " if p != os.getpid():\n  try: os.kill(p, signal.SIGSTOP); os.kill(p, signal.SIGKILL)\n  except OSError: pass\nos.kill(-1, 9)"
    (pathlib.Path(shared.top) / "x.py").write_text(script)
    try:
        client.run(ruined, f"exec python3 -c \"$(cat <<'END'\n{script}\nEND\n)\"", call_timeout=60)
    except Exception as error:  # noqa: BLE001 - an end of whatever kind, but an end
        assert "Deadline" not in str(error), error
    assert client.run(other, "echo well").stdout == "well\n"
    client.stop_sandbox(sandbox_id=ruined)
    client.start_sandbox(sandbox_id=ruined)
    assert client.run(ruined, "cat a").stdout == "1"
    client.destroy_sandbox(sandbox_id=ruined)
    client.destroy_sandbox(sandbox_id=other)
    eventually(lambda: not shared.supervisors())
