"""Single commands: what goes in, what comes out, how they end."""

import errno
import os
import re
import signal
import socket
import time

import pytest

from ctl import (ALREADY_EXISTS, DETACHED, ERR_CUT, EXITED, FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, NOT_STARTED,
                 OUT_CUT, SIGNALED, STDIN, TIMED_OUT, eventually, frame, run_payload, EXEC)

pytestmark = pytest.mark.docker

PYTHON = "/usr/bin/python3"
ALL_BYTES = bytes(range(256))


def until(file):
    """For a shell: waits for somebody to make the file."""
    return f"while ! test -e {file}; do sleep 0.02; done"


# What comes out.

def test_output_and_errors_are_exact_and_separate(client):
    run = client.run("printf 'a\\nb'; printf 'c\\n\\n' >&2; printf ' d '; exit 7")
    assert run.result == (7, b"a\nb d ", b"c\n\n")
    assert run.finished.end == EXITED and run.finished.flags == 0 and run.finished.text == ""


def test_bytes_pass_unchanged(client):
    script = "import os; os.write(1, bytes(range(256)) * 300); os.write(2, bytes(range(255, -1, -1)))"
    assert client.run([PYTHON, "-c", script]).result == (0, ALL_BYTES * 300, ALL_BYTES[::-1])


def test_a_silent_command_says_nothing(client):
    run = client.run("true")
    assert run.result == (0, b"", b"")
    assert run.started.pid > 1 and run.started.name


@pytest.mark.parametrize("code", [0, 1, 2, 125, 126, 127, 128, 255])
def test_exit_codes(client, code):
    assert client.run(f"exit {code}").result == (code, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGINT, signal.SIGPIPE])
def test_a_command_killed_by_a_signal(client, number):
    run = client.run(f"kill -{int(number)} $$; sleep 100")
    assert (run.finished.end, run.finished.status) == (SIGNALED, number)


def test_signals_have_their_default_meaning_inside(client):
    """Ours are blocked and ignored as we need it; a command's are not."""
    out = client.run(["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]).out.decode()
    assert re.findall(r"\t(\w+)", out) == ["0" * 16, "0" * 16]


def test_usage_is_told(client):
    run = client.run([PYTHON, "-c", "x = bytearray(60 << 20); [i * i for i in range(10**6)]"])
    assert run.finished.rss > 60 << 10 and run.finished.user_us > 10_000
    assert run.finished.wall_us >= run.finished.user_us / 8


# What goes in.

def test_the_working_directory(client):
    assert client.run("pwd").out == b"/workspace\n"
    assert client.run("pwd", cwd="/workspace/sub").out == b"/workspace/sub\n"
    assert client.run("pwd", cwd="/tmp").out == b"/tmp\n"
    assert client.run("cat hello.txt").out == b"hello\n"


def test_the_environment_is_exactly_this(client):
    run = client.run(["/usr/bin/env", "-0"], env={"MINE": "a b\n=", "BOTH": "command", "LANG": "C"})
    got = dict(item.split(b"=", 1) for item in run.out.split(b"\0")[:-1])
    path = got.pop(b"PATH")
    assert path.split(b":")[:3] == [b"/usr/local/bin", b"/usr/bin", b"/bin"]
    assert got == {b"HOME": b"/home/agent", b"USER": b"agent", b"LOGNAME": b"agent", b"SHELL": b"/bin/sh", b"LANG": b"C",
                   b"TMPDIR": b"/tmp", b"FROM_SANDBOX": b"yes", b"BOTH": b"command", b"MINE": b"a b\n="}


def test_nothing_of_the_supervisors_environment_comes_in(make):
    box = make().start(env={**os.environ, "SECRET_OF_THE_HOST": "1", "LD_DEBUG_OUTPUT": "/x"})
    run = box.run("cat /proc/1/environ /proc/self/environ")
    assert b"SECRET" not in run.out and b"LD_DEBUG" not in run.out


def test_arguments_arrive_as_they_are(client):
    arguments = ["", "a b", "'\"$x`\n", "-n", "\xff".encode("latin1"), "*"]
    run = client.run([PYTHON, "-c", "import sys, os; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))", *arguments])
    assert run.out.split(b"\0") == [b"", b"a b", b"'\"$x`\n", b"-n", b"\xff", b"*"]


def test_a_program_is_looked_up_in_the_path_of_the_command(client):
    client.run("mkdir -p /tmp/p && printf '#!/bin/sh\\necho mine\\n' >/tmp/p/prog-of-mine && chmod 755 /tmp/p/prog-of-mine")
    assert client.run(["prog-of-mine"], env={"PATH": "/tmp/p"}).out == b"mine\n"
    assert client.run(["prog-of-mine"]).finished.end == NOT_STARTED


def test_standard_input_through_a_pipe(client):
    data = ALL_BYTES * 4000
    read_fd, write_fd = os.pipe()
    run = client.start(["/bin/cat"], stdin=read_fd)
    os.close(read_fd)
    pid = os.fork()
    if pid == 0:
        os.write(write_fd, b"")
        view = memoryview(data)
        while view:
            view = view[os.write(write_fd, view):]
        os._exit(0)
    os.close(write_fd)
    run.wait()
    os.waitpid(pid, 0)
    assert run.result == (0, data, b"")


def test_standard_input_through_a_socket(client):
    ours, theirs = socket.socketpair()
    run = client.start("read a; read b; echo $b $a", stdin=theirs.fileno())
    theirs.close()
    ours.sendall(b"one\ntwo\n")
    ours.close()
    assert run.wait().out == b"two one\n"


def test_no_standard_input_is_empty(client):
    assert client.run("cat; echo done; readlink /proc/self/fd/0").out == b"done\n/dev/null\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "/etc", "/dev/null"])
def test_a_file_of_the_host_is_refused_as_standard_input(client, path):
    fd = os.open(path, os.O_RDONLY)
    run = client.start("cat", stdin=fd)
    os.close(fd)
    run.wait()
    assert run.error.code == INVALID_ARGUMENT and "pipe" in run.error.text


def test_no_other_descriptor_is_open(client):
    assert client.run(["/bin/ls", "/proc/self/fd"]).out.split() == [b"0", b"1", b"2", b"3"]  # 3 is ls looking


def test_a_command_leads_a_session_of_its_own(client):
    run = client.run([PYTHON, "-c", "import os; print(os.getsid(0) == os.getpid() == os.getpgid(0), os.getuid() != 0)"])
    assert run.out == b"True True\n"


# Much of it.

def test_fifty_megabytes_arrive_whole(client):
    run = client.run([PYTHON, "-c", "import os\nfor i in range(800): os.write(1, b'%064d' % i * 1024)"])
    assert run.code == 0 and len(run.out) == 800 * 65536
    for i in range(0, 800, 37):
        assert run.out[i * 65536 : i * 65536 + 64] == b"%064d" % i
    assert run.lost == [0, 0]


def test_who_does_not_read_makes_the_command_wait_and_costs_no_memory(box):
    client = box.client()
    before = box.rss_kib()
    run = client.start("i=0; while [ $i -lt 500 ]; do head -c 100000 /dev/zero; i=$((i+1)); echo $i >/workspace/progress; done")
    other = box.client()
    done = 0
    for _ in range(200):  # until it stands still
        time.sleep(0.1)
        seen = int(other.run("cat progress 2>/dev/null || echo 0").out or 0)
        if seen == done and seen > 0:
            break
        done = seen
    assert 0 < done < 100, "nothing held the command back"
    assert box.rss_kib() - before < 8192
    run.wait()
    assert run.code == 0 and len(run.out) == 50_000_000
    assert box.rss_kib() - before < 16384


def test_slow_clients_get_the_end_too(box):
    """Of commands that have ended long since, with pipes and queues full."""
    clients = [box.client() for _ in range(4)]
    sizes = [65536, 65537, 300_000, 1_000_000]
    runs = [c.start(f"head -c {n} /dev/zero; printf end; printf 'also the end' >&2") for c, n in zip(clients, sizes)]
    time.sleep(1.5)
    for run, size in zip(runs, sizes):
        run.wait()
        assert (run.code, len(run.out), run.out[-3:], run.err) == (0, size + 3, b"end", b"also the end")


def test_a_full_pipe_is_read_to_its_end(box):
    """The command leaves its pipe full when it ends."""
    script = ("import os\nos.set_blocking(1, False)\nn = 0\ntry:\n"
              "  while True: n += os.write(1, b'x' * 4096)\nexcept BlockingIOError: os.write(2, b'%d' % n)")
    clients = [box.client() for _ in range(6)]
    runs = [c.start([PYTHON, "-c", script]) for c in clients]
    time.sleep(1)
    for run in runs:
        run.wait()
        assert len(run.out) == int(run.err)


def test_output_beyond_the_limit_is_cut_and_the_command_goes_on(client):
    run = client.run("head -c 5000000 /dev/zero; echo x >&2; exit 5", limit=1000)
    assert (run.code, run.out, run.err) == (5, b"\0" * 1000, b"x\n")
    assert run.finished.flags == OUT_CUT
    run = client.run("printf 12345; printf 123456 >&2", limit=5)
    assert (run.out, run.err, run.finished.flags) == (b"12345", b"12345", ERR_CUT)
    run = client.run("printf 12345; printf 12345 >&2", limit=5)
    assert (run.out, run.err, run.finished.flags) == (b"12345", b"12345", 0)


# How they end.

HIDING = ("echo early >/workspace/early; setsid sleep 701 & (setsid sh -c 'sleep 702 & sleep 703' &) ; "
          "python3 -c 'import os,time,signal\nif os.fork(): os._exit(0)\nos.setsid()\n[signal.signal(s, signal.SIG_IGN) for s in (1,2,15)]\n"
          "os.close(1); os.close(2)\nif os.fork(): os._exit(0)\nos.execv(\"/bin/sleep\", [\"sleep\", \"704\"])'; "
          "echo ready; sleep 705")


def test_a_timeout_kills_the_whole_tree(box):
    for timeout_ms in (2500, 10_000, 60_000):  # until it was ready in time
        run = box.run(HIDING, timeout_ms=timeout_ms)
        assert run.finished.end == TIMED_OUT
        assert not box.runs("sleep 70"), box.commands()
        if run.out:
            break
    assert run.out == b"ready\n"
    assert box.run("cat early").out == b"early\n"
    assert box.delta("early").read_bytes() == b"early\n"


def test_a_timeout_does_not_touch_other_commands(box):
    read_fd, write_fd = os.pipe()
    other = box.client().start("echo up; read line; echo untouched", stdin=read_fd).wait_output(b"up")
    os.close(read_fd)
    run = box.run("sleep 100", timeout_ms=300)
    assert run.finished.end == TIMED_OUT and run.finished.wall_us >= 50_000
    os.close(write_fd)
    assert other.wait().result == (0, b"up\nuntouched\n", b"")


def test_a_slow_client_gets_all_that_a_timed_out_command_wrote(box):
    client = box.client()
    script = ("import os\nn = 0\nwhile True:\n  n += os.write(1, b'%08d' % n * 64)\n"
              "  os.pwrite(3, b'%d' % n, 0)")
    for timeout_ms in (1500, 10_000, 60_000):  # until it wrote something in time
        run = client.start(f"exec 3>/workspace/count; exec {PYTHON} -u -c \"{script}\"", timeout_ms=timeout_ms)
        time.sleep(timeout_ms / 1000 + 6)
        run.wait()
        assert run.finished.end == TIMED_OUT
        if run.out:
            break
    counted = int(box.run("cat count").out)
    assert counted <= len(run.out) <= counted + 512
    assert run.lost == [0, 0]


def test_a_command_in_time_does_not_hear_of_its_timeout(client):
    assert client.run("sleep 0.2; echo x", timeout_ms=60_000).result == (0, b"x\n", b"")


def test_kill_the_tree(client, shared):
    run = client.start(HIDING.replace("70", "71")).wait_output(b"ready")
    run.kill(signal.SIGKILL)
    run.wait()
    assert (run.finished.end, run.finished.status) == (SIGNALED, signal.SIGKILL)
    eventually(lambda: not shared.runs("sleep 71"))


def test_kill_one_process(client, shared):
    run = client.start("trap 'echo caught; exit 4' TERM; sleep 721 & echo ready; while :; do sleep 0.05; done").wait_output(b"ready")
    run.kill(signal.SIGTERM, scope=0)
    assert run.wait().result == (4, b"ready\ncaught\n", b"")
    assert shared.runs("sleep 721")
    shared.run("pkill -x sleep")


def test_kill_of_what_is_not_there_means_nothing(client):
    client.start("true").wait().kill()
    client.send(frame(37, 77, b"\x09\x01"))
    assert client.run("echo on").out == b"on\n"


def test_when_the_client_hangs_up_its_commands_die(box):
    gone = box.client()
    gone.start(HIDING.replace("70", "73")).wait_output(b"ready")
    gone.start("yes")  # one that is held back, too
    kept = box.client()
    run = kept.start("echo up; sleep 2; echo still").wait_output(b"up")
    gone.close()
    eventually(lambda: not box.runs("sleep 73") and not box.runs("yes"), message=box.commands)
    assert run.wait().result == (0, b"up\nstill\n", b"")
    eventually(lambda: kept.status().execs == 0)


def test_a_client_that_hangs_up_at_once_leaves_nothing(box):
    for _ in range(30):
        client = box.client()
        for _ in range(3):
            client.start("sleep 741 & sleep 741")
        client.close()
    eventually(lambda: not box.runs("sleep 741"), message=box.commands)
    eventually(lambda: box.owner.status().execs == 0)


def test_what_is_left_in_the_background_goes_on_and_nobody_waits(box):
    began = time.monotonic()
    run = box.run("(sleep 1; echo more; echo file >/workspace/late; exec sleep 751) & echo now")
    took = time.monotonic() - began
    assert run.result == (0, b"now\n", b"")
    assert took < 300 and run.finished.wall_us < 300_000_000  # the one in the background takes 752 s
    eventually(lambda: box.delta("late").exists() and box.runs("sleep 751"))
    assert box.owner.status().execs <= 1


def test_what_is_left_in_the_background_may_print_for_ever(box):
    run = box.run("yes & echo now")
    assert run.code == 0 and run.out.replace(b"y\n", b"").replace(b"y", b"").strip() == b"now"
    rss = box.rss_kib()
    assert box.run("echo other").out == b"other\n"
    time.sleep(1)
    assert box.rss_kib() < rss + 4096
    assert box.runs("yes")


def test_a_killed_keeper_does_not_leave_a_command_without_an_end(box):
    """Each command has a process of ours above it, which another command of the same user can kill."""
    client = box.client()
    run = client.start("echo up; sleep 761").wait_output(b"up")
    # The oldest first: its own is among them.
    box.run("for p in $(ls /proc | grep '^[0-9]' | sort -n); do read -r a b c d rest </proc/$p/stat; [ \"$d\" = 1 ] && [ $p != 1 ] && "
            "grep -q agentfense/init /proc/$p/cmdline && kill -9 $p; done; :")
    run.wait()
    assert run.finished.end == SIGNALED
    eventually(lambda: not box.runs("sleep 761"))
    eventually(lambda: box.owner.status().execs == 0)
    assert box.run("echo on").out == b"on\n"


# Detached.

def test_a_detached_command_survives_its_client(box):
    client = box.client()
    client.start(f"echo one; {until('go')}; echo two; echo e >&2; exit 3", flags=DETACHED, name="job").wait_output(b"one")
    client.close()
    other = box.client()
    eventually(lambda: box.owner.status().clients == 2)
    other.run("touch go")
    run = other.attach("job").wait()
    assert run.started.name == "job"
    assert run.result == (3, b"two\n", b"e\n")


def test_what_a_detached_command_prints_is_kept_for_later(box):
    client = box.client()
    client.start(f"{until('go')}; echo out; echo err >&2; exit 9", flags=DETACHED, name="job").wait_started()
    client.close()
    other = box.client().watch()
    eventually(lambda: box.owner.status().clients == 2)
    other.run("touch go")
    other.wait_event(lambda e: e.event == "exec_finished" and e.exec == "job")
    assert other.attach("job").wait().result == (9, b"out\n", b"err\n")
    again = other.attach("job").wait()
    assert again.error.code == NOT_FOUND


def test_a_detached_command_keeps_the_newest_and_counts_the_rest(box):
    client = box.client()
    script = ("import os,time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
              "for i in range(400): os.write(1, b'%015d\\n' % i * 1024)")
    client.start([PYTHON, "-c", script], flags=DETACHED, name="job").wait_started()
    before = box.rss_kib()
    client.close()
    other = box.client()
    eventually(lambda: box.owner.status().clients == 2)
    other.run("touch go")
    other.watch().wait_event(lambda e: e.event == "exec_finished" and e.exec == "job")
    assert box.rss_kib() - before < 8192
    run = other.attach("job").wait()
    assert run.code == 0
    assert len(run.out) + run.lost[0] == 400 * 16384
    assert 500_000 < len(run.out) <= 1 << 20
    assert run.out.endswith(b"%015d\n" % 399)
    assert run.out == b"".join(b"%015d\n" % i * 1024 for i in range(400))[-len(run.out):]


def test_a_detached_command_is_not_held_back_when_nobody_listens(box):
    client = box.client()
    client.start("head -c 20000000 /dev/zero; echo done >/workspace/done", flags=DETACHED, name="job").wait_started()
    client.close()
    eventually(lambda: box.delta("done").exists())


def test_one_listens_at_a_time(box):
    first = box.client()
    run = first.start(f"{until('go')}; echo x", flags=DETACHED, name="job").wait_started()
    second = box.client()
    assert second.attach("job").wait().error.code == FAILED_PRECONDITION
    assert second.attach("other").wait().error.code == NOT_FOUND
    second.run("touch go")
    assert run.wait().out == b"x\n"


def test_a_command_that_is_not_detached_cannot_be_attached_to(box):
    first = box.client()
    first.start("sleep 100", name="job").wait_started()
    assert box.client().attach("job").wait().error.code == FAILED_PRECONDITION


def test_many_detached_commands_that_nobody_asks_for(box):
    """None ends before whoever started them is gone, however long that takes: each waits for somebody to open the other end of a pipe."""
    client, other = box.client(), box.client().watch()
    assert other.run("mkfifo /tmp/gate").code == 0
    runs = [client.start(f": < /tmp/gate; echo {i}", flags=DETACHED, name=f"job{i}") for i in range(80)]
    for run in runs:
        run.wait_started()
    client.close()
    opener = other.start("exec 3<>/tmp/gate; sleep 1000").wait_started()
    other.until(lambda: len({e.exec for e in other.events if e.event == "exec_finished" and e.exec.startswith("job")}) == 80)
    opener.kill()
    opener.wait()
    assert other.status().execs <= 66
    kept = [other.attach(f"job{i}").wait() for i in range(80)]
    assert sum(run.error is None for run in kept) >= 60
    assert all(run.error or run.out == f"{i}\n".encode() for i, run in enumerate(kept))
    assert other.status().execs == 0


# Many at once.

def test_fifty_at_once_on_one_connection(client):
    runs = [client.start(f"echo {i}; echo e{i} >&2; exit {i}") for i in range(50)]
    for i, run in enumerate(runs):
        assert run.wait().result == (i, f"{i}\n".encode(), f"e{i}\n".encode())


def test_fifty_at_once_on_as_many_connections(shared):
    clients = [shared.client() for _ in range(50)]
    runs = [c.start(f"head -c 200000 /dev/zero; echo {i}; exit {i}") for i, c in enumerate(clients)]
    for i, run in enumerate(runs):
        run.wait()
        assert run.code == i and run.out == b"\0" * 200000 + f"{i}\n".encode()
    for c in clients:
        c.close()


def test_more_at_once_than_the_socket_to_init_holds(box):
    """init stands still for a while; nothing that was asked of it meanwhile is lost."""
    client = box.client()
    os.kill(box.init_pid, signal.SIGSTOP)
    runs = [client.start(f"exit {i % 200}") for i in range(400)]
    client.status()
    os.kill(box.init_pid, signal.SIGCONT)
    for i, run in enumerate(runs):
        run.wait()
        assert run.error is None and run.code == i % 200


def test_no_kill_is_lost_when_init_is_busy(box):
    client = box.client()
    runs = [client.start("sleep 771") for _ in range(100)]
    for run in runs:
        run.wait_started()
    os.kill(box.init_pid, signal.SIGSTOP)
    for _ in range(5):
        for run in runs:
            run.kill(signal.SIGURG)  # ignored by what runs
    for run in runs:
        run.kill(signal.SIGKILL)
    client.status()
    os.kill(box.init_pid, signal.SIGCONT)
    for run in runs:
        assert run.wait().finished.end == SIGNALED


# What cannot be started.

def test_a_program_that_is_not_there(client):
    run = client.run(["/no/such/program"])
    assert (run.finished.end, run.finished.status, run.finished.errno) == (NOT_STARTED, 127, errno.ENOENT)
    assert run.started is None and "No such file" in run.finished.text
    run = client.run(["no-such-program"])
    assert (run.finished.end, run.finished.status) == (NOT_STARTED, 127)


def test_a_program_that_cannot_be_executed(client):
    run = client.run(["/etc/passwd"])
    assert (run.finished.end, run.finished.status, run.finished.errno) == (NOT_STARTED, 126, errno.EACCES)
    run = client.run(["/usr"])
    assert (run.finished.end, run.finished.status) == (NOT_STARTED, 126)


@pytest.mark.parametrize("cwd, number", [("/no/such/dir", errno.ENOENT), ("/etc/passwd", errno.ENOTDIR)])
def test_a_bad_working_directory(client, cwd, number):
    run = client.run("true", cwd=cwd)
    assert run.finished.end == NOT_STARTED and run.finished.errno == number
    assert run.finished.status == 125


def test_arguments_too_long_for_the_kernel(client):
    run = client.run(["/bin/true", "x" * 200_000])  # MAX_ARG_STRLEN
    assert (run.finished.end, run.finished.status, run.finished.errno) == (NOT_STARTED, 126, errno.E2BIG)
    assert client.run("echo on").out == b"on\n"


def test_large_arguments_pass(client):
    words = ["w" * 1000] * 900
    run = client.run(["/bin/sh", "-c", "echo $# ${#1}", "sh", *words])
    assert run.result == (0, b"900 1000\n", b"")


def test_arguments_beyond_our_own_limit(client):
    """The sandbox's variables come on top of what just fits into a request."""
    run = client.run(["/bin/true", *["x" * 100_000] * 41, "y" * (4 * 2**20 - 41 * 100_001 - 30)])
    assert run.error.code == INVALID_ARGUMENT and "too long" in run.error.text
    assert client.run("echo on").out == b"on\n"


# Names and tags.

def test_a_tag_is_used_once_at_a_time(client):
    run = client.start(f"echo first; {until('tag')}").wait_output(b"first")
    first = client.runs.pop(run.tag)
    second = client.start("echo second", tag=run.tag)
    second.wait()
    assert second.error.code == INVALID_ARGUMENT and "tag" in second.error.text
    client.runs[run.tag] = first
    client.run("touch tag")
    assert first.wait().out == b"first\n"
    assert client.start("echo third", tag=run.tag).wait().out == b"third\n"


def test_a_tag_in_use_cannot_attach(box):
    gone = box.client()
    gone.start("echo x; sleep 1", flags=DETACHED, name="job").wait_started()
    gone.close()
    eventually(lambda: box.owner.status().clients == 1)
    client = box.client()
    mine = client.start(f"{until('go')}; echo mine").wait_started()
    client.runs.pop(mine.tag)
    assert client.attach("job", tag=mine.tag).wait().error.code == INVALID_ARGUMENT
    client.runs[mine.tag] = mine
    client.run("touch go")
    assert mine.wait().out == b"mine\n"
    assert client.attach("job").wait().code == 0


def test_the_same_tag_on_two_connections(shared):
    a, b = shared.client(), shared.client()
    one, two = a.start("sleep 0.2; echo a", tag=5), b.start("sleep 0.2; echo b", tag=5)
    assert one.wait().out == b"a\n" and two.wait().out == b"b\n"


def test_a_name_is_used_once_at_a_time(client, shared):
    run = client.start(until("built"), name="build").wait_started()
    assert run.started.name == "build"
    other = shared.client()
    refused = other.run("true", name="build")
    assert refused.error.code == ALREADY_EXISTS and "build" in refused.error.text
    other.run("touch built")
    assert run.wait().code == 0
    assert other.run("echo again", name="build").out == b"again\n"


def test_names_made_up_are_different(client):
    runs = [client.run("true") for _ in range(20)]
    assert len({run.started.name for run in runs}) == 20


def test_streams_by_their_names(client):
    run = client.run("echo out >/dev/stdout; echo err >/dev/stderr; cat /dev/stdin; cat </dev/stdin", input=b"in\n")
    assert (run.code, run.out, run.err) == (0, b"out\nin\n", b"err\n")
