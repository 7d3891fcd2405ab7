"""init itself: what it keeps to itself, how it ends, what it leaves behind."""

import os
import random
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

from conftest import INIT, NOBODY, start
from supervisor import (GONE, HEADER, KILL, SHUTDOWN, SOCKET_FRAME, SPAWN, SPAWNED, SPAWN_FAILED, WAIT, Supervisor, eventually,
                        frame, kill_payload, spawn_payload)

IS_LONG = os.environ.get("AGENTFENSE_LONG") == "1"

USAGE, SETUP, PEER, PROTOCOL = 2, 1, 3, 4


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return f.read().rsplit(b") ", 1)[1][:1] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def memory_kib(pid):
    sizes = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            name, size = line.split()[:2]
            sizes[name.rstrip(":")] = int(size)
    return sizes


def held_by(pid):
    """Memory and descriptors; None for one that is ending: it has no memory any more a moment before it is a zombie. Of the memory what is its
    own: pages of the program come and go with what else the machine has to keep."""
    try:
        return memory_kib(pid)["Anonymous"], len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_the_program_is_static_and_small():
    assert os.path.getsize(INIT) < 150_000
    with open(INIT, "rb") as f:
        content = f.read()
    assert b"ld-linux" not in content and b"ld-musl" not in content


def test_commands_cannot_look_into_init(every):
    """Neither into init nor into the keeper, which is the parent of a command, though they are of the same user."""
    if every.way == "userns":
        pytest.skip("there commands are root of the namespace, with every capability: nothing can be kept from them")
    if os.getuid() == 0 and every.way in ("plain", "pidns"):
        # Root may look into everything, so init runs as a user here.
        every = start([INIT], NOBODY).greet()
    try:
        for who in (str(every.hello.pid), "$PPID"):
            for what in ("environ", "maps", "mem", "auxv"):
                assert every.shell(f"exec cat /proc/{who}/{what} >/dev/null")[0] != 0, what
            assert every.shell(f"ls /proc/{who}/fd/ /proc/{who}/map_files/ | grep .")[0] != 0
            assert every.shell(f"readlink /proc/{who}/exe /proc/{who}/root /proc/{who}/cwd")[1] == b""
        assert every.shell("cat /proc/self/environ")[0] == 0
    finally:
        every.close()


def test_the_socket_is_inherited_by_nobody(every):
    _, out, _ = every.shell("ls -l /proc/self/fd")
    assert b"socket:" not in out


def test_descriptors_left_open_by_the_starter_are_closed():
    r, w = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen([INIT, "--fd", str(theirs.fileno())], pass_fds=[theirs.fileno(), w])
    theirs.close()
    os.close(w)
    sup = Supervisor(ours, process).greet()
    assert select.select([r], [], [], WAIT)[0] and os.read(r, 1) == b""
    os.close(r)
    sup.close()


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(1)
    return listener


def test_it_is_given_its_socket_at_a_path(tmp_path):
    path = str(tmp_path / "s")
    listener = listen(path)
    process = subprocess.Popen([INIT, "--socket", path])
    door = listener.accept()[0]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    socket.send_fds(door, [frame(SOCKET_FRAME, 0, fd_count=1)], [theirs.fileno()])
    theirs.close()
    sup = Supervisor(ours, process).greet()
    listener.close()
    assert door.recv(1) == b""  # it keeps nothing but what it was given
    assert sup.shell("exit 8")[0] == 8
    assert sup.shutdown() == 0
    sup.close()
    door.close()


@pytest.mark.parametrize("answer", ["nothing", "no descriptor", "no frame", "another frame", "no socket", "a stream"])
def test_whoever_gives_it_something_else_ends_it(tmp_path, answer):
    path = str(tmp_path / "s")
    listener = listen(path)
    process = subprocess.Popen([INIT, "--socket", path], stderr=subprocess.DEVNULL)
    door = listener.accept()[0]
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    seqpacket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if answer == "no descriptor":
        door.send(frame(SOCKET_FRAME, 0))
    elif answer == "no frame":
        socket.send_fds(door, [b"x"], [seqpacket[0].fileno()])
    elif answer == "another frame":
        socket.send_fds(door, [frame(SOCKET_FRAME + 1, 0, fd_count=1)], [seqpacket[0].fileno()])
    elif answer != "nothing":
        socket.send_fds(door, [frame(SOCKET_FRAME, 0, fd_count=1)], [0 if answer == "no socket" else pair[0].fileno()])
    door.close()
    assert process.wait(WAIT) == SETUP
    listener.close()
    for sock in (*pair, *seqpacket):
        sock.close()


@pytest.mark.parametrize("arguments, code", [
    ([], USAGE), (["--fd"], USAGE), (["--fd", "x"], USAGE), (["--fd", "-1"], USAGE), (["--fd", ""], USAGE),
    (["--fd", "99999999999"], USAGE), (["--socket"], USAGE), (["--help"], USAGE), (["--fd", "3", "4"], USAGE),
    (["--fd", "77"], SETUP), (["--fd", "0"], SETUP), (["--socket", "/does/not/exist"], SETUP),
    (["--socket", "/" + "x" * 200], SETUP),
])
def test_bad_command_lines(arguments, code):
    done = subprocess.run([INIT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, check=False)
    assert done.returncode == code
    assert done.stdout == b"" and done.stderr.startswith(b"agentfense-init: ") and done.stderr.count(b"\n") == 1


def test_a_stream_is_no_channel():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    done = subprocess.run([INIT, "--fd", str(theirs.fileno())], pass_fds=[theirs.fileno()], capture_output=True, timeout=WAIT,
                          check=False)
    assert done.returncode == SETUP
    ours.close()
    theirs.close()


@pytest.mark.parametrize("ending", ["shutdown", "hang up"])
def test_everything_ends_with_the_supervisor(every, ending):
    detached = "setsid sh -c 'trap \"\" HUP TERM INT; echo; sleep 1000; sleep 1000' &"
    runs = [every.running(["/bin/sh", "-c", f"{detached} sleep 1000"]) for _ in range(5)]
    for run in runs:
        assert os.read(run.stdout, 1) == b"\n"
    if ending == "shutdown":
        assert every.shutdown() == 0
    else:
        every.sock.close()
        assert every.wait() in (PEER, 128 + 9, -9)
    for run in runs:
        # Whoever lives would hold the other end of the pipe.
        assert select.select([run.stdout], [], [], WAIT)[0] and os.read(run.stdout, 1) == b""


def test_a_killed_init_takes_keepers_with_it(sup):
    runs = [sup.running(["/bin/sleep", "1000"]) for _ in range(3)]
    keepers = children_of(sup.hello.pid)
    assert len(keepers) == 3
    sup.process.kill()
    try:
        eventually(lambda: not any(alive(p) for p in keepers))
    finally:
        for run in runs:
            os.kill(run.report(SPAWNED).pid, signal.SIGKILL)


def test_a_thousand_execs_leave_nothing(every):
    def shape():
        pid = every.process.pid
        inits = [pid] + children_of(pid) + [p for c in children_of(pid) for p in children_of(c)]
        inside = int(every.shell("ls /proc | grep -c '^[0-9]'")[1]) if every.way != "plain" else 0
        held = [held for p in inits if alive(p) and (held := held_by(p))]
        return len(held), sum(memory for memory, _ in held), sum(fds for _, fds in held), inside

    if os.getuid() != 0:
        pytest.skip("only root sees into a process that is not dumpable")
    for _ in range(50):
        every.run(["/bin/true"])
    before = shape()
    for i in range(1000 if IS_LONG else 200):
        result = every.run(["/bin/true"] if i % 10 else ["/does/not/exist"])
        assert result[0] == 0 if i % 10 else result.errno == 2
    # Not equal: the process of the last one may have been there still when we looked the first time.
    eventually(lambda: all(now <= then for now, then in zip(shape(), before)))


def test_the_number_of_execs_is_bounded(pid1):
    null = os.open("/dev/null", os.O_RDWR)
    runs, refusals = [], []
    for _ in range(1030):
        run = pid1.request_spawn(["/bin/sleep", "1000"], fds=[null] * 3)
        report = pid1.until(run, SPAWNED, SPAWN_FAILED)
        (runs if report.kind == SPAWNED else refusals).append(run)
    os.close(null)
    reasons = {(r.reports[0].errno, r.reports[0].step) for r in refusals}
    for run in runs:
        pid1.kill(run)
    for run in runs:
        pid1.until(run, GONE)
    assert pid1.shell("exit 2")[0] == 2
    if (11, "fork") in reasons:
        pytest.skip("this machine has no room for 2048 processes")
    assert (len(runs), reasons) == (1024, {(11, "request")})


def test_init_goes_on_while_nobody_reads(sup):
    """Reports that find no room, init's own among them, make nobody wait but their senders."""
    doomed = sup.running(["/bin/sh", "-c", "echo $$; sleep 1000"])
    os.read(doomed.stdout, 100)
    null = os.open("/dev/null", os.O_RDWR)
    sup.sock.setblocking(False)
    pending, packet = [], frame(SPAWN, doomed.id, GOOD, 3)
    is_full = False
    while len(pending) < 3000 and not is_full:
        try:
            sup.send(packet, [null] * 3)
            pending.append(1)
        except BlockingIOError:  # init reads on, until its reports find no room either
            is_full = not select.select([], [sup.sock], [], 1 if len(pending) > 200 else WAIT)[1]
    sup.sock.setblocking(True)
    assert len(pending) > 200, "the kernel takes fewer packets than this test needs"
    os.close(null)
    sup.execs[doomed.id].reports.clear()
    for _ in pending:
        report = sup.receive()
        assert (report.kind, report.id, report.errno) == (SPAWN_FAILED, doomed.id, 17)
    sup.kill(doomed)
    sup.until(doomed, GONE)
    assert doomed.code == -signal.SIGKILL


def test_an_id_in_use_is_refused(sup):
    run = sup.running(["/bin/cat"])
    null = os.open("/dev/null", os.O_RDWR)
    sup.request_spawn(["/bin/true"], fds=[null] * 3, ident=run.id)
    os.close(null)
    report = sup.receive()
    assert (report.kind, report.errno, report.step) == (SPAWN_FAILED, 17, "request")
    os.close(run.stdin)
    run.stdin = None
    sup.until(run, GONE)
    assert run.code == 0


GOOD = spawn_payload(["/bin/true"], [], "/", 0, None, (0, 0), (), False)[0]

VIOLATIONS = {
    "empty": b"",
    "short": b"AFW",
    "magic": b"XYZ" + frame(SHUTDOWN, 0)[3:],
    "version": frame(SHUTDOWN, 0, version=2),
    "unknown type": frame(99, 1),
    "a report": frame(GONE, 1),
    "length too large": HEADER.pack(b"AFW", 1, KILL, 0, 1, 11) + kill_payload(9, 1),
    "length too small": HEADER.pack(b"AFW", 1, KILL, 0, 1, 9) + kill_payload(9, 1),
    "trailing bytes": frame(KILL, 1, kill_payload(9, 1) + b"\0"),
    "missing bytes": frame(KILL, 1, kill_payload(9, 1)[:2]),
    "signal 0": frame(KILL, 1, kill_payload(0, 1)),
    "signal 65": frame(KILL, 1, kill_payload(65, 1)),
    "scope": frame(KILL, 1, kill_payload(9, 3)),
    "descriptors missing": frame(SPAWN, 1, GOOD, 0),
    "descriptors announced": frame(SPAWN, 1, GOOD, 3),
    "id 0": frame(SPAWN, 0, GOOD),
    "shutdown of something": frame(SHUTDOWN, 1),
    "too large": b"AFW" + bytes(70000),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_ends_init_clearly(sup, name):
    run = sup.running(["/bin/sleep", "1000"])
    sup.send(VIOLATIONS[name])
    assert sup.wait() == (PEER if name == "empty" else PROTOCOL)
    assert os.read(run.stdout, 1) == b""


def test_requests_that_mean_nothing_do_no_harm(sup):
    for number in range(1, 65):
        sup.send(frame(KILL, 12345, kill_payload(number, number % 3, number)))
    assert sup.shell("exit 4")[0] == 4


def mutated(chance):
    packet = bytearray(chance.choice([
        frame(SPAWN, chance.randrange(5), GOOD, 3), frame(KILL, 1, kill_payload(9, 1)), frame(SHUTDOWN, 0), os.urandom(40)]))
    for _ in range(chance.randrange(1, 4)):
        packet[chance.randrange(len(packet))] = chance.randrange(256)
    return bytes(packet[: chance.randrange(len(packet) + 1)] if chance.random() < 0.2 else packet)


def test_random_frames_do_no_harm_beyond_a_clean_end():
    seed = int(os.environ.get("AGENTFENSE_SEED", str(random.randrange(1 << 32))))
    print("AGENTFENSE_SEED =", seed)
    chance = random.Random(seed)
    null = os.open("/dev/null", os.O_RDWR)
    for _ in range(150):
        sup = start([INIT]).greet()
        try:
            for _ in range(20):
                sup.send(mutated(chance), [null] * chance.choice([0, 0, 1, 3, 3, 4, 8]))
        except (BrokenPipeError, ConnectionResetError):
            pass
        sup.sock.close()
        assert sup.wait() in (0, PEER, PROTOCOL)
    os.close(null)


def test_descriptors_of_refused_requests_are_closed(sup):
    r, w = os.pipe()
    null = os.open("/dev/null", os.O_RDWR)
    run = sup.request_spawn(["/does/not/exist"], fds=[null, w, w])
    sup.until(run, SPAWN_FAILED)
    os.close(w)
    assert select.select([r], [], [], WAIT)[0] and os.read(r, 1) == b""
    os.close(r)
    os.close(null)


def test_a_supervisor_that_does_not_read_loses_nothing(sup):
    null = os.open("/dev/null", os.O_RDWR)
    runs = [sup.request_spawn(["/bin/sh", "-c", f"exit {i % 200}"], fds=[null] * 3) for i in range(400)]
    time.sleep(1)
    for i, run in enumerate(runs):
        sup.until(run, GONE)
        assert run.code == i % 200
    os.close(null)


def test_memory_is_tiny(sup, capsys):
    if os.getuid() != 0:
        pytest.skip("only root sees into a process that is not dumpable")
    runs = [sup.running(["/bin/sleep", "1000"]) for _ in range(10)]
    pids = [sup.hello.pid, *children_of(sup.hello.pid)]
    assert len(pids) == 11
    sizes = [memory_kib(p) for p in pids]
    private = [s["Private_Dirty"] + s["Private_Clean"] for s in sizes]
    with capsys.disabled():
        print(f"\ninit: rss {sizes[0]['Rss']} pss {sizes[0]['Pss']} private {private[0]} KiB; "
              f"a keeper: rss {sizes[1]['Rss']} pss {sizes[1]['Pss']} private {private[1]} KiB")
    assert private[0] < 200 and max(private[1:]) < 100
    for run in runs:
        sup.kill(run)
    for run in runs:
        sup.until(run, GONE)
