"""Processes in the background: logs and records that outlive whoever asked, terminals to come back to, limits."""

import os
import signal
import struct
import time

from ctl import (END, EXITED, INPUT, LOGGED, LOST, NOT_FOUND, NOT_STARTED, OK, RESIZE, SIGNALED, TIMED_OUT, TTY, as_bytes, eventually,
                 frame)

MIB = 1 << 20


class Record:
    """wire/process_record.h"""

    def __init__(self, content):
        magic, version, flags, self.pid, self.started, self.stopped, self.end, self.status, *rest = struct.unpack(
            "<4sBBIQQBiQQQQ", content[:63])
        assert (magic, version) == (b"AFPR", 1)
        self.is_tty, self.has_exited, self.lost = bool(flags & 1), bool(flags & 2), rest[3]
        self.name, self.command, self.note, empty = content[63:].split(b"\0")
        assert empty == b""


def place(box):
    return os.path.join(box.dir, "processes")


def record(box, name):
    with open(os.path.join(place(box), name + ".record"), "rb") as file:
        return Record(file.read())


def log_files(box, name):
    found = [f for f in os.listdir(place(box)) if f.startswith(name + ".") and f.endswith(".log")]
    return sorted(found, key=lambda f: int(f.split(".")[1]))


def log(box, name):
    content = b""
    for file in log_files(box, name):
        with open(os.path.join(place(box), file), "rb") as f:
            content += f.read()
    return content


def background(client, argv, **options):
    run = client.start(argv, flags=LOGGED | options.pop("flags", 0), **options).wait_started()
    return run.started.name


def end(client, name, grace_ms=60_000):
    return client.ask(END, as_bytes(name) + b"\0" + struct.pack("<I", grace_ms))


def wait_stopped(box, name):
    eventually(lambda: record(box, name).stopped)
    return record(box, name)


def test_it_goes_on_without_its_client_and_everything_is_on_disk(box):
    client = box.client()
    name = background(client, "echo one; echo two >&2; while ! test -e go; do sleep 0.02; done; echo three; exit 7", session="note")
    client.close()
    eventually(lambda: log(box, name) == b"one\ntwo\n")
    now = record(box, name)
    assert (now.stopped, now.has_exited, now.is_tty, now.note) == (0, False, False, b"note")
    assert now.command.startswith(b"/bin/sh -c echo one") and now.pid > 1 and now.started <= time.time_ns()
    box.run("touch go")
    now = wait_stopped(box, name)
    assert (now.end, now.status, now.lost) == (EXITED, 7, 0) and now.stopped >= now.started
    assert log(box, name) == b"one\ntwo\nthree\n"


def test_it_has_ended_when_its_whole_tree_has(box):
    client = box.client()
    name = background(client, "(setsid sh -c 'while ! test -e go; do sleep 0.02; done; echo last') & exit 3")
    eventually(lambda: record(box, name).has_exited)
    assert record(box, name).stopped == 0
    box.run("touch go")
    now = wait_stopped(box, name)
    assert (now.end, now.status) == (EXITED, 3) and log(box, name) == b"last\n"


def test_ending_one_is_gentle_first(box):
    client = box.client()
    polite = background(client, "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done")
    deaf = background(client, "trap '' TERM; (trap '' TERM; while :; do sleep 0.02; done) & echo ready; wait; wait")
    eventually(lambda: log(box, polite) == b"ready\n" and log(box, deaf) == b"ready\n")
    assert end(client, polite).kind == OK
    now = record(box, polite)
    assert (now.end, now.status) == (EXITED, 5) and now.stopped and log(box, polite).endswith(b"bye\n")
    assert end(client, deaf, 50).kind == OK
    now = record(box, deaf)
    assert (now.end, now.status) == (SIGNALED, signal.SIGKILL) and now.stopped
    assert end(client, deaf).code == NOT_FOUND
    assert end(client, "pr_0123456789abcdef").code == NOT_FOUND


def test_a_client_that_goes_while_it_waits_for_an_end(box):
    client, other = box.client(), box.client()
    name = background(other, "trap '' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: log(box, name) == b"ready\n")
    client.send(frame(END, 7, as_bytes(name) + b"\0" + struct.pack("<I", 300)))
    client.close()
    assert wait_stopped(box, name).end == SIGNALED
    assert other.run("echo fine").out == b"fine\n"


def test_stopping_the_sandbox_ends_them_and_says_so(make):
    for grace_ms in (500, 5000, 50_000):  # until the polite one was told in time
        box = make().start()
        client = box.client()
        polite = background(client, "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.02; done")
        deaf = background(client, "trap '' TERM; echo ready; while :; do sleep 0.02; done")
        eventually(lambda: log(box, polite) == b"ready\n" and log(box, deaf) == b"ready\n")
        client.stop(grace_ms)
        box.wait()
        box.assert_nothing_runs()
        now = record(box, polite)
        if now.end == EXITED:
            break
    assert (now.end, now.status) == (EXITED, 4) and now.stopped and log(box, polite).endswith(b"bye\n")
    assert record(box, deaf).stopped


def test_a_killed_supervisor_leaves_a_record_that_the_next_one_ends(make):
    box = make().start()
    name = background(box.client(), "echo ready; sleep 1000")
    eventually(lambda: log(box, name) == b"ready\n")
    os.kill(box.pid, signal.SIGKILL)
    box.wait()
    assert record(box, name).stopped == 0
    box.start()
    now = record(box, name)
    assert now.stopped and now.end == LOST and log(box, name) == b"ready\n"
    again = background(box.client(), "echo again")
    wait_stopped(box, again)
    assert log(box, again) == b"again\n"


def test_what_cannot_be_started_leaves_nothing(box):
    client = box.client()
    run = client.start(["/no/such/program"], flags=LOGGED).wait()
    assert (run.finished.end, run.finished.status) == (NOT_STARTED, 127)
    eventually(lambda: os.listdir(place(box)) == [])
    refused = client.start("true", flags=LOGGED, name="../../etc").wait()
    assert refused.error and os.listdir(place(box)) == []


def test_a_name_is_used_once_and_the_first_keeps_its_log(box):
    client = box.client()
    name = background(client, "echo first", name="pr_00000000000000aa")
    wait_stopped(box, name)
    again = client.start("echo second", flags=LOGGED, name=name).wait()
    assert again.error and log(box, name) == b"first\n" and record(box, name).end == EXITED


def test_one_that_is_out_of_time_ends_as_any_command(box):
    client = box.client()
    name = background(client, "sleep 1000 & sleep 1000", timeout_ms=200)
    assert wait_stopped(box, name).end == TIMED_OUT


def test_a_log_is_bounded_and_its_bytes_keep_their_numbers(box):
    client = box.client()
    name = background(client, ["/usr/bin/python3", "-c", "import sys\nfor i in range(60 * 1024): "
                               "sys.stdout.write('%08d' % i + '.' * 1015 + '\\n')"])
    wait_stopped(box, name)
    files = log_files(box, name)
    assert [f.split(".")[1] for f in files] == [str(25 * MIB), str(50 * MIB)]
    with open(os.path.join(place(box), files[0]), "rb") as file:
        assert file.read(8) == b"%08d" % (25 * 1024)
    content = log(box, name)
    assert len(content) == 35 * MIB and content[-1024:].startswith(b"%08d" % (60 * 1024 - 1))
    assert box.rss_kib() < 40 * 1024


def test_only_so_many_that_ended_are_kept(box):
    client = box.client()
    names = []
    for i in range(70):
        names.append(background(client, "echo x"))
        wait_stopped(box, names[-1])
    kept = {f.split(".")[0] for f in os.listdir(place(box))}
    assert names[-1] in kept and names[0] not in kept and len(kept) <= 66


def test_a_terminal_to_type_into_and_to_come_back_to(box):
    client = box.client()
    run = client.start(["/bin/sh", "-i"], flags=LOGGED | TTY, size=(30, 100), env={"PS1": "$ "}).wait_started()
    assert run.started.fds == []

    def type_in(who, run, text):
        who.send(frame(INPUT, run.tag, struct.pack("<I", len(text)) + text))

    type_in(client, run, b"stty size; echo $((40+2))\n")
    run.wait_output(b"30 100\r\n42\r\n")
    client.send(frame(RESIZE, run.tag, struct.pack("<HH", 44, 55)))
    client.until(lambda: run.typed == 1)
    type_in(client, run, b"stty size\n")
    run.wait_output(b"44 55\r\n")
    name = run.started.name
    busy = box.client()
    assert busy.attach(name).wait().error
    before = busy.status().clients
    client.close()
    eventually(lambda: busy.status().clients < before)
    again = busy.attach(name)
    again.wait_output(b"44 55\r\n")
    assert b"42\r\n" in again.so_far(), "what was there before is shown"
    type_in(busy, again, b"exit 3\n")
    again.wait()
    assert again.finished.end == EXITED and again.finished.status == 3
    assert record(box, name).is_tty


def type_until_it_waits(client, run):
    """How many messages were typed; the last is not taken yet. An answer would come before that of a later request."""
    for count in range(1, 100):
        client.send(frame(INPUT, run.tag, struct.pack("<I", 8000) + b"x" * 8000))
        client.status()
        if run.typed < count:
            return count
    raise AssertionError("a terminal takes anything")


def test_who_types_faster_than_it_is_read_waits(box):
    client = box.client()
    run = client.start("stty raw -echo; echo ready; while ! test -e go; do sleep 0.02; done; head -c $(cat go) | wc -c",
                       flags=LOGGED | TTY).wait_started()
    run.wait_output(b"ready")
    count = type_until_it_waits(client, run)
    box.run(f"echo {count * 8000} > new; mv new go")
    run.wait_output(b"%d" % (count * 8000))
    assert run.typed == count
    run.wait()


def test_who_does_not_wait_is_cut_off_and_the_terminal_lives(box):
    client = box.client()
    run = client.start("stty raw -echo; echo ready; sleep 1000", flags=LOGGED | TTY).wait_started()
    run.wait_output(b"ready")
    type_until_it_waits(client, run)
    client.send(frame(INPUT, run.tag, struct.pack("<I", 1) + b"x"))
    while client.receive() is not None:
        pass
    assert record(box, run.started.name).stopped == 0
    other = box.client()
    other.attach(run.started.name).wait_output(b"ready")
    assert end(other, run.started.name, 10).kind == OK


def test_a_terminal_without_a_listener_does_not_stop(box):
    client = box.client()
    run = client.start("i=0; while test $i -lt 3000; do echo $i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done; echo done",
                       flags=LOGGED | TTY).wait_started()
    client.close()
    assert wait_stopped(box, run.started.name).end == EXITED
    assert log(box, run.started.name).endswith(b"done\r\n")


def test_limits_of_one_command(box):
    client = box.client()
    out = client.run("ulimit -v; ulimit -t; ulimit -n; ulimit -u 2>/dev/null || true", limits=(256 * MIB, 5, 0, 33)).out.split()
    assert out[:3] == [b"262144", b"5", b"33"]
    run = client.run(["/usr/bin/python3", "-c", "x = bytearray(300 << 20)"], limits=(256 * MIB, 0, 0, 0))
    assert run.code != 0 and b"MemoryError" in run.err
    run = client.run("while :; do :; done", limits=(0, 1, 0, 0))
    assert run.finished.end == SIGNALED
