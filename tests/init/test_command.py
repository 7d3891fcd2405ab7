"""What a command gets, and how its end is reported."""

import errno
import os
import resource
import signal
import stat

import pytest

from supervisor import EXITED, GONE, NO_LIMIT, SESSION, SPAWNED, SPAWN_FAILED


def failure(result):
    assert not isinstance(result, tuple), result
    return result.errno, result.step


def test_hello_says_where_init_is(every):
    as_pid1 = every.way in ("pidns", "userns", "bwrap")
    assert every.hello.flags == (3 if as_pid1 else 2)
    assert (every.hello.pid == 1) == as_pid1


def test_output_and_exit_code(every):
    assert every.shell("echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")


def test_reports_come_in_order(sup):
    run = sup.spawn(["/bin/true"], b"")
    sup.finish(run)
    assert [r.kind for r in run.reports] == [SPAWNED, EXITED, GONE]


def test_arguments_are_exact(every):
    argv = ["/usr/bin/printf", "[%s]", "", "a b", "\n", "ü", "*", "-n", "'\"\\"]
    assert every.run(argv)[1] == b"[][a b][\n][\xc3\xbc][*][-n]['\"\\]"


def test_arguments_need_not_be_text(sup):
    every_byte = bytes(range(1, 256))
    assert sup.run(["/usr/bin/printf", "%s", every_byte])[1] == every_byte


def test_the_environment_is_exact(every):
    assert every.run(["/usr/bin/env"], env={"A": "1", "B": "two words", "C": ""})[1] == b"A=1\nB=two words\nC=\n"
    assert every.run(["/usr/bin/env"], env={})[1] == b""


def test_the_directory_is_as_asked(every):
    assert every.run(["/bin/pwd"], cwd="/usr/bin")[1] == b"/usr/bin\n"


def test_binary_output_arrives_unchanged(sup):
    data = os.urandom(1 << 20)
    run = sup.spawn(["/bin/cat"])
    child = os.fork()
    if child == 0:
        os.close(run.stdout)
        with os.fdopen(run.stdin, "wb") as pipe:
            pipe.write(data)
        os._exit(0)
    os.close(run.stdin)
    run.stdin = None
    out, err = sup.finish(run)
    os.waitpid(child, 0)
    assert (out == data, err, run.code) == (True, b"", 0)


@pytest.mark.parametrize("code", [0, 1, 42, 126, 127, 128, 255])
def test_exit_codes(sup, code):
    assert sup.shell(f"exit {code}")[0] == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGRTMAX])
def test_death_by_signal(every, number):
    assert every.shell(f"kill -{int(number)} $$")[0] == -number


def test_what_was_used_is_told(sup):
    run = sup.spawn(["/bin/sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"], b"")
    sup.finish(run)
    used = run.report(EXITED)
    assert 10_000 < used.user_us + used.system_us < 20_000_000
    assert 500 < used.max_rss_kib < 100_000


@pytest.mark.parametrize("argv, cwd, error, step", [
    (["/does/not/exist"], "/", errno.ENOENT, "exec"),
    (["no-such-program"], "/", errno.ENOENT, "exec"),
    ([""], "/", errno.ENOENT, "exec"),
    (["/etc/passwd"], "/", errno.EACCES, "exec"),
    (["/usr"], "/", errno.EACCES, "exec"),
    (["/etc/passwd/x"], "/", errno.ENOTDIR, "exec"),
    (["/" + "x" * 300], "/", errno.ENAMETOOLONG, "exec"),
    (["/bin/true"], "/does/not/exist", errno.ENOENT, "cwd"),
    (["/bin/true"], "/etc/passwd", errno.ENOTDIR, "cwd"),
    (["/bin/true"], "", errno.ENOENT, "cwd"),
])
def test_failures_are_exact(every, argv, cwd, error, step):
    run = every.spawn(argv, b"", cwd=cwd)
    every.finish(run)
    assert [r.kind for r in run.reports] == [SPAWN_FAILED]
    assert (run.reports[0].errno, run.reports[0].step) == (error, step)
    assert every.shell("exit 7")[0] == 7


def test_a_file_that_is_no_program(sup, tmp_path):
    program = tmp_path / "odd"
    program.write_text("neither elf nor script")
    program.chmod(0o755)
    assert failure(sup.run([str(program)])) == (errno.ENOEXEC, "exec")
    program.write_text("#!/no/such/interpreter\n")
    assert failure(sup.run([str(program)])) == (errno.ENOENT, "exec")


def test_too_long_arguments(sup):
    assert failure(sup.run(["/bin/true", "x" * 200_000])) == (errno.E2BIG, "exec")


def test_names_are_looked_up_in_the_path_of_the_command(sup, tmp_path):
    for name, text in (("a", "first"), ("b", "second")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {text}\n")
        (tmp_path / name / "tool").chmod(0o755)
    a, b = tmp_path / "a", tmp_path / "b"
    path = {"PATH": f"relative::/nowhere:{a}:{b}"}
    assert sup.run(["tool"], env=path)[1] == b"first\n"
    (a / "tool").chmod(0o644)
    assert sup.run(["tool"], env=path)[1] == b"second\n"
    (b / "tool").chmod(0o644)
    assert failure(sup.run(["tool"], env=path)) == (errno.EACCES, "exec")
    assert failure(sup.run(["tool"], env={"PATH": ""}, cwd=str(a))) == (errno.ENOENT, "exec")
    assert sup.run(["true"], env={})[0] == 0


@pytest.mark.parametrize("in_memfd", [False, True])
def test_many_and_long_strings(sup, in_memfd):
    count, length = (200, 100) if not in_memfd else (1000, 1000)
    argv = ["/bin/sh", "-c", "echo $#; printf %s \"$1\"", "sh"] + ["x" * length] * count
    code, out, _ = sup.run(argv, env={"BIG": "y" * length}, in_memfd=in_memfd)
    assert (code, out) == (0, b"%d\n" % count + b"x" * length)


@pytest.mark.parametrize("fault", ["unsealed", "writable", "wrong size", "no end", "no memfd"])
def test_strings_that_could_change_are_refused(sup, fault, tmp_path):
    import fcntl
    import struct
    from supervisor import SPAWN, STRINGS_FD, frame, sealed

    strings = b"/\0/bin/true\0" + (b"x" if fault == "no end" else b"\0")
    seals = {"unsealed": 0, "writable": fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW}.get(fault)
    if fault == "no memfd":
        (tmp_path / "strings").write_bytes(strings)
        fd = os.open(tmp_path / "strings", os.O_RDONLY)
    else:
        fd = sealed(strings, seals)
    length = len(strings) + (1 if fault == "wrong size" else 0)
    payload = struct.pack("<IIIHHIIII", STRINGS_FD, 0, 0, 0, 0, 0, 1, 1, length)
    null = os.open("/dev/null", os.O_RDWR)
    sup.send(frame(SPAWN, 77, payload, 4), [null, null, null, fd])
    os.close(fd)
    os.close(null)
    report = sup.receive()
    assert (report.kind, report.id, report.errno, report.step) == (SPAWN_FAILED, 77, errno.EINVAL, "request")
    assert sup.shell("exit 5")[0] == 5


def test_a_command_has_its_descriptors_and_no_others(every):
    code, out, _ = every.shell("ls /proc/self/fd")
    # The fourth is the directory that ls itself reads.
    assert (code, out.split()) == (0, [b"0", b"1", b"2", b"3"])


def test_extra_descriptors_follow_the_standard_ones(every):
    r, w = os.pipe()
    r2, w2 = os.pipe()
    run = every.spawn(["/bin/sh", "-c", "echo three >&3; echo four >&4; exec ls /proc/self/fd"], b"", extra_fds=[w, w2])
    os.close(w)
    os.close(w2)
    out, _ = every.finish(run)
    assert out.split() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert (os.read(r, 100), os.read(r2, 100)) == (b"three\n", b"four\n")
    os.close(r)
    os.close(r2)


def test_descriptors_may_be_one_and_the_same(sup):
    r, w = os.pipe()
    null = os.open("/dev/null", os.O_RDONLY)
    run = sup.request_spawn(["/bin/sh", "-c", "echo a; echo b >&2"], fds=[null, w, w])
    os.close(w)
    os.close(null)
    sup.until(run, GONE)
    assert os.read(r, 100) == b"a\nb\n"
    os.close(r)


def test_signals_are_as_new(every):
    masks = dict(line.split(":\t") for line in every.run(["/bin/cat", "/proc/self/status"])[1].decode().splitlines()
                 if line.startswith("Sig") and ":\t" in line)
    assert int(masks["SigBlk"], 16) == int(masks["SigIgn"], 16) == int(masks["SigCgt"], 16) == 0


def test_no_new_privileges(every):
    assert b"NoNewPrivs:\t1" in every.run(["/bin/cat", "/proc/self/status"])[1]


@pytest.mark.parametrize("flags", [0, SESSION])
def test_session_and_group(sup, flags):
    fields = sup.shell("exec cat /proc/self/stat", flags=flags)[1].rsplit(b") ", 1)
    pid, (_, _, group, session) = int(fields[0].split()[0]), fields[1].split()[:4]
    assert int(group) == pid
    assert (int(session) == pid) == bool(flags & SESSION)


def test_limits_hold(every):
    code, out, _ = every.shell("ulimit -n; ulimit -Hn; ulimit -c", rlimits=[
        (resource.RLIMIT_NOFILE, 20, 30), (resource.RLIMIT_CORE, 0, 0)])
    assert (code, out) == (0, b"20\n30\n0\n")


def test_a_limit_that_cannot_be_set_is_reported(every):
    if every.way in ("plain", "pidns") and os.getuid() == 0:
        pytest.skip("root may raise every limit")
    hard = every.shell("ulimit -Hn")[1].strip()
    if hard == b"unlimited":
        pytest.skip("there is no limit to raise")
    result = every.shell("true", rlimits=[(resource.RLIMIT_NOFILE, 10, int(hard) + 1)])
    assert failure(result) == (errno.EPERM, "limits")


def test_another_user(sup):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    code, out, _ = sup.shell("id -u; id -g; id -G; grep Cap /proc/self/status", user=(12345, 54321))
    lines = out.decode().splitlines()
    assert lines[:3] == ["12345", "54321", "54321"]
    assert all(int(l.split()[1], 16) == 0 for l in lines[3:] if "CapBnd" not in l)
    assert failure(sup.run(["/bin/true"], cwd="/root", user=(12345, 54321))) == (errno.EACCES, "cwd")


def test_one_cannot_become_another_user_without_privilege(every):
    if every.way not in ("userns", "bwrap", "bwrap-pid2"):
        pytest.skip("root can")
    assert failure(every.shell("true", user=(12345, 54321)))[1] == "user"


def test_a_command_in_a_place_without_anything(tmp_path):
    """An empty root with two static programs: no /proc, no /dev, no shell, no library."""
    import shutil
    from conftest import INIT, NOBODY, start

    busybox = shutil.which("busybox")
    if busybox is None or os.getuid() != 0:
        pytest.skip("needs a static busybox, and root for chroot")
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(busybox, root / "busybox")
    shutil.copy(INIT, root / "init")
    sup = start(["unshare", "--pid", "--fork", "--kill-child", "chroot", str(root), "/init"]).greet()
    try:
        assert sup.hello.flags == 1
        assert sup.run(["/busybox", "true"])[0] == 0
        assert sup.run(["/busybox", "pwd"], user=(NOBODY, NOBODY))[1] == b"/\n"
        assert sup.run(["/busybox", "ls", "/"])[1] == b"busybox\ninit\n"
        assert failure(sup.run(["/bin/sh"])) == (errno.ENOENT, "exec")
        assert failure(sup.run(["/busybox", "true"], cwd="/proc")) == (errno.ENOENT, "cwd")
        sleeper = sup.running(["/busybox", "sh", "-c", "/busybox sleep 1000 & /busybox sleep 1000"])
        sup.kill(sleeper)
        sup.finish(sleeper)
        assert sleeper.code == -signal.SIGKILL
        assert sup.shutdown() == 0
    finally:
        sup.close()


def test_inherited_umask_is_plain(sup):
    assert sup.shell("umask")[1].strip() in (b"0022", b"022")


def test_the_default_path_is_used_without_one(sup):
    assert sup.run(["ls", "/"], env={"HOME": "/"})[0] == 0


def test_limits_may_be_infinite(sup):
    limits = [(resource.RLIMIT_CPU, NO_LIMIT, NO_LIMIT)]
    assert sup.shell("ulimit -t", rlimits=limits)[1] == b"unlimited\n"


def test_standard_descriptors_are_those_given(sup, tmp_path):
    target = tmp_path / "out"
    out = os.open(target, os.O_WRONLY | os.O_CREAT)
    null = os.open("/dev/null", os.O_RDONLY)
    run = sup.request_spawn(["/usr/bin/stat", "-L", "-c", "%d:%i", "/dev/stdout"], fds=[null, out, out])
    sup.until(run, GONE)
    os.close(out)
    os.close(null)
    info = os.stat(target)
    assert stat.S_ISREG(info.st_mode) and target.read_text() == f"{info.st_dev}:{info.st_ino}\n"
