"""The processes of an exec are followed, and all of them are killed."""

import os
import resource
import select
import signal
import textwrap
import time

import pytest

from conftest import NOBODY
from supervisor import BELOW, EXITED, GONE, MAIN, SPAWNED, TREE, WAIT, ticks_now

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"

# A daemon by the book: two forks, a session of its own, nothing inherited.
DAEMON = textwrap.dedent("""
    import os, sys, time
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    for fd in (0, 1, 2):
        os.close(fd)
    time.sleep(1000)
""")

PYTHON = "/usr/bin/python3"


def python(code):
    return [PYTHON, "-c", code]


def test_the_end_of_the_main_process_is_told_before_that_of_the_tree(every):
    run = every.spawn(["/bin/sh", "-c", "exec 3<&0; cat <&3 & exit 9"])  # cat lives until we close its input
    every.until(run, EXITED)
    assert run.code == 9
    assert every.shell("sleep 0.2")[0] == 0 and run.report(GONE) is None
    os.close(run.stdin)
    run.stdin = None
    every.finish(run)


def test_a_daemon_is_still_of_the_tree(every):
    run = every.spawn(python(DAEMON), b"")
    every.until(run, EXITED)
    assert run.code == 0
    # Nobody holds its output open any more, the keeper neither.
    assert select.select([run.stdout], [], [], WAIT)[0] and os.read(run.stdout, 1) == b""
    assert every.shell("true")[0] == 0 and run.report(GONE) is None
    every.kill(run)
    every.finish(run)


def test_main_only(every):
    run = every.running(["/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo up; wait"])
    assert os.read(run.stdout, 100) == b"up\n"
    every.kill(run, signal.SIGTERM, MAIN)
    every.until(run, EXITED)
    assert run.code == -signal.SIGTERM
    assert every.shell("true")[0] == 0 and run.report(GONE) is None
    every.kill(run)
    every.finish(run)


def test_a_signal_to_the_tree_goes_once_to_each(every):
    run = every.running(["/bin/sh", "-c", "trap 'echo main' TERM; sh -c 'trap \"echo below; exit\" TERM; echo up; "
                         "while :; do sleep 0.05; done' & wait; wait; echo end"])
    assert os.read(run.stdout, 100) == b"up\n"
    every.kill(run, signal.SIGTERM, TREE)
    out, _ = every.finish(run)
    assert sorted(out.split()) == [b"below", b"end", b"main"]


def test_all_below_the_main_process(every):
    run = every.running(["/bin/sh", "-c", "setsid sh -c 'echo up; sleep 1000; true' & wait $!; echo $?; exit 4"])
    assert os.read(run.stdout, 100) == b"up\n"
    every.kill(run, signal.SIGINT, BELOW)
    # A background process of a shell ignores SIGINT; SIGKILL nobody does.
    every.kill(run, signal.SIGKILL, BELOW)
    out, _ = every.finish(run)
    assert (out, run.code) == (b"137\n", 4)


# When it says "up", all its processes are there; a signal that goes once meets them all. Whichever of them dies first, it ends with the signal.
SLEEPER = "sh -c 'sh -c \"echo up; exec sleep 1000\"; exit $?'"

# A shell as a session has it: what it reads, it runs. The first background process is there before the mark; its name is made
# to mislead whoever looks for the end of it in /proc.
OLD = textwrap.dedent("""
    import ctypes, os, signal, time
    ctypes.CDLL(None).prctl(15, b"a) R 1 (b) 2 3", 0, 0, 0)
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(6))
    print("ready", flush=True)
    while True:
        time.sleep(1)
""")


@pytest.mark.parametrize("number,scope", [(signal.SIGKILL, BELOW), (signal.SIGTERM, BELOW), (signal.SIGTERM, TREE)])
def test_what_started_before_the_mark_is_left_alone(every, number, scope):
    run = every.running(["/bin/sh"])
    os.write(run.stdin, f"{PYTHON} -c '{OLD}' & old=$!\n".encode())
    assert os.read(run.stdout, 100) == b"ready\n"
    time.sleep(0.05)
    mark = ticks_now()
    time.sleep(0.05)
    os.write(run.stdin, f"setsid {SLEEPER} & {SLEEPER}; echo interrupted $?\n".encode())
    assert os.read(run.stdout, 3) + os.read(run.stdout, 3) == b"up\nup\n"
    every.kill(run, number, scope, mark)
    assert os.read(run.stdout, 100) == b"interrupted %d\n" % (128 + number)
    os.write(run.stdin, b"wait $!; echo $?; kill -USR1 $old; wait $old; echo $?; exit 5\n")
    out, _ = every.finish(run)
    assert (out, run.code) == (b"%d\n6\n" % (128 + number), 5)


def test_below_the_main_process_the_mark_decides(every):
    """The main process is passed over, what it starts later is not."""
    run = every.running(["/bin/sh", "-c", f"read x; {SLEEPER}; echo $?; read x"])
    time.sleep(0.05)
    mark = ticks_now()
    time.sleep(0.05)
    os.write(run.stdin, b"now\n")
    assert os.read(run.stdout, 3) == b"up\n"
    every.kill(run, signal.SIGTERM, TREE, mark)
    assert os.read(run.stdout, 100) == b"143\n"
    os.write(run.stdin, b"end\n")
    out, _ = every.finish(run)
    assert (out, run.code) == (b"", 0)


def test_what_an_older_process_starts_is_left_out_with_it(every):
    """A server in the background goes on serving."""
    run = every.running(["/bin/sh", "-c", "(echo up; read x; sh -c 'echo up; exec sleep 0.7'; echo $?) <&0 & wait; echo done"])
    assert os.read(run.stdout, 3) == b"up\n"
    time.sleep(0.05)
    mark = ticks_now()
    time.sleep(0.05)
    os.write(run.stdin, b"now\n")
    assert os.read(run.stdout, 3) == b"up\n"
    every.kill(run, signal.SIGTERM, TREE, mark)
    out, _ = every.finish(run)
    assert (out, run.code) == (b"0\ndone\n", 0)


def test_a_hunt_knows_no_mark(every):
    run = every.running(["/bin/sleep", "1000"])
    time.sleep(0.05)
    every.kill(run, signal.SIGKILL, TREE, ticks_now() + 1000)
    every.finish(run)
    assert run.code == -signal.SIGKILL


def test_other_execs_are_left_alone(every):
    victim = every.running(["/bin/sh", "-c", "sleep 1000 & sleep 1000"])
    other = every.running(["/bin/sh", "-c", "sleep 1000 & read x; kill $!; echo $x"])
    every.kill(victim)
    every.finish(victim)
    os.write(other.stdin, b"alive\n")
    out, _ = every.finish(other)
    assert (out, other.code) == (b"alive\n", 0)


def test_one_kill_ends_a_thicket(every):
    """Sessions, groups, stopped processes, threads that fork, processes that ignore what can be ignored."""
    code = textwrap.dedent("""
        import os, signal, threading, time
        for s in range(1, 65):
            try: signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError): pass
        def grow(depth):
            if os.fork() == 0:
                if depth % 2: os.setsid()
                else: os.setpgid(0, 0)
                if depth == 3: os.kill(os.getpid(), signal.SIGSTOP)
                if depth < 6: grow(depth + 1); grow(depth + 1)
                while True: time.sleep(1)
        threads = [threading.Thread(target=grow, args=(3,)) for _ in range(2)]
        for t in threads: t.start()
        grow(2)
        print("grown", flush=True)
        while True: time.sleep(1)
    """)
    run = every.running(python(code))
    assert os.read(run.stdout, 100) == b"grown\n"
    time.sleep(0.3)
    every.kill(run)
    every.finish(run)
    assert run.code == -signal.SIGKILL


# Each of its processes writes a letter when it cannot fork for the first time.
BOMB = "import os\nsaid = False\nwhile True:\n try: os.fork()\n except OSError:\n  said = said or os.write(1, b'f')\n"


def test_a_fork_bomb_is_ended_by_one_kill(every):
    if every.way in ("userns", "bwrap", "bwrap-pid2"):
        options = {}
    elif os.getuid() == 0:
        options = {"user": (NOBODY, NOBODY)}
    else:
        pytest.skip("a limit on processes of our own user would hit the test itself")
    count = 1000 if IS_LONG else 250
    bomb = every.spawn(python(BOMB), b"", rlimits=[(resource.RLIMIT_NPROC, count, count)], **options)
    every.until(bomb, SPAWNED)
    assert os.read(bomb.stdout, 1) == b"f"
    time.sleep(0.2)
    every.kill(bomb)
    every.finish(bomb)
    assert bomb.code == -signal.SIGKILL
    assert every.shell("exit 6")[0] == 6


def test_a_bomb_that_wakes_what_was_stopped(sup):
    if os.getuid() != 0:
        pytest.skip("a limit on processes of our own user would hit the test itself")
    code = BOMB.replace("try: os.fork()", "try: os.fork(); os.kill(-1, 18)")
    bomb = sup.spawn(python(code), b"", rlimits=[(resource.RLIMIT_NPROC, 100, 100)], user=(NOBODY, NOBODY))
    sup.until(bomb, SPAWNED)
    assert os.read(bomb.stdout, 1) == b"f"
    time.sleep(0.2)
    sup.kill(bomb)
    sup.finish(bomb)


def test_kill_before_the_command_runs(every):
    for _ in range(50):
        run = every.spawn(["/bin/sleep", "1000"], b"")
        every.kill(run)
        every.finish(run)
        assert run.code == -signal.SIGKILL


def test_kill_of_what_is_gone_is_no_error(every):
    run = every.spawn(["/bin/true"], b"")
    every.finish(run)
    for scope in (MAIN, TREE, BELOW):
        every.kill(run, signal.SIGKILL, scope)
    assert every.shell("exit 3")[0] == 3


def test_an_agent_may_kill_the_keeper_of_its_exec(every):
    """It hurts itself only: what it started is killed, and the end is reported."""
    run = every.running(["/bin/sh", "-c", "setsid sleep 1000 & read x; kill -9 $PPID; sleep 1000"])
    other = every.running(["/bin/cat"])
    os.write(run.stdin, b"now\n")
    every.finish(run)
    assert run.code == -signal.SIGKILL
    os.write(other.stdin, b"alive")
    os.close(other.stdin)
    other.stdin = None
    assert every.finish(other)[0] == b"alive" and other.code == 0


def test_an_agent_may_stop_the_keeper_of_its_exec(every):
    run = every.running(["/bin/sh", "-c", "read x; kill -STOP $PPID; echo up; sleep 1000"])
    os.write(run.stdin, b"now\n")
    assert os.read(run.stdout, 100) == b"up\n"
    every.kill(run)
    every.finish(run)
    assert run.code == -signal.SIGKILL


def test_a_keeper_that_is_stopped_again_and_again_is_given_up(every):
    """Another exec's process does it, so it outlives the hunt."""
    run = every.running(["/bin/sh", "-c", "echo $PPID; exec sleep 1000"])
    keeper = os.read(run.stdout, 100).decode().strip()
    stopper = every.running(["/bin/sh", "-c", f"kill -STOP {keeper}; echo up; while kill -STOP {keeper}; do :; done; echo over"])
    assert os.read(stopper.stdout, 100) == b"up\n"
    every.kill(run)
    every.finish(run)
    assert run.code == -signal.SIGKILL
    out, _ = every.finish(stopper)
    assert out == b"over\n"


def test_many_at_once(sup):
    runs = [sup.spawn(["/bin/sh", "-c", f"read x; echo {i} $x"]) for i in range(100)]
    for run in runs:
        os.write(run.stdin, b"go\n")
    for i, run in enumerate(runs):
        assert sup.finish(run)[0] == b"%d go\n" % i


def test_output_ends_though_nobody_reads_what_init_says(sup):
    """Those who keep a command wait until they can report it; they hold nothing of it meanwhile."""
    runs = [sup.spawn(["/bin/echo", str(i)]) for i in range(200)]
    for i, run in enumerate(runs):
        output = b""
        while True:
            assert select.select([run.stdout], [], [], WAIT)[0], f"of {i} there is {output!r} and no end"
            piece = os.read(run.stdout, 100)
            if not piece:
                break
            output += piece
        assert output == b"%d\n" % i
    for run in runs:
        sup.finish(run)
        assert run.code == 0


def test_the_hunt_of_many_is_quick(sup):
    runs = [sup.running(["/bin/sh", "-c", "sleep 1000 & sleep 1000"]) for _ in range(50)]
    began = time.monotonic()
    for run in runs:
        sup.kill(run)
    for run in runs:
        sup.finish(run)
    assert time.monotonic() - began < 60  # a tenth of a second on an idle machine


def test_idle_costs_nothing(every):
    run = every.running(["/bin/sleep", "1000"])

    def tree(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [pid] + [below for child in f.read().split() for below in tree(child)]

    def ticks():
        total = count = 0
        for pid in tree(every.process.pid):
            with open(f"/proc/{pid}/stat", "rb") as f:
                name, fields = f.read().split(b"(", 1)[1].rsplit(b") ", 1)
            if name.startswith(b"agentfense-init"):
                count += 1
                total += int(fields.split()[11]) + int(fields.split()[12])
        assert count == 2  # init, and the keeper of the command
        return total

    before = ticks()
    time.sleep(1)
    assert ticks() - before <= 1
    every.kill(run)
    every.finish(run)


@pytest.mark.parametrize("scope", [TREE, MAIN])
def test_a_signal_to_a_command_that_is_still_being_started_is_not_lost(every, scope):
    for number in [signal.SIGINT, signal.SIGTERM] * 5:
        run = every.spawn(["/bin/sleep", "600"], stdin=b"")
        every.kill(run, number, scope)
        every.finish(run)
        assert run.code == -number
