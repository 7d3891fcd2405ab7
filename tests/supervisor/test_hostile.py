"""Clients that are broken or mean no good, and ones that ask for much. Whatever they do, the others notice nothing."""

import os
import random
import resource
import struct
import time

import pytest

from ctl import (ATTACH, EXEC, HEADER, KILL, PAYLOAD_MAX, RESIZE, Run, SESSION_CLOSE, SESSION_EXEC, SESSION_OPEN, SET_RULES, STATUS,
                 STDIN, STOP, STRINGS_FD, SYNC, TTY, WATCH, eventually, frame, run_payload, sealed)

CLIENTS_MAX = 256


def exec_packet(tag=1, fd_count=0, **options):
    fixed, strings = run_payload(options.pop("argv", ["/bin/true"]), **options)
    return frame(EXEC, tag, fixed + strings, fd_count)


def run_with(flags=0, argc=1, envc=0, length=None, strings=b"\0\0\0/bin/true\0"):
    return frame(EXEC, 1, struct.pack("<IIQHHIII", flags, 0, 0, 0, 0, argc, envc, len(strings) if length is None else length) + strings)


BAD = {
    "one byte": b"x",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "half a header": frame(STATUS, 1)[:10],
    "no magic": b"XXX" + frame(STATUS, 1)[3:],
    "another version": frame(STATUS, 1, version=2),
    "a length too large": HEADER.pack(b"AFW", 1, STATUS, 0, 1, 5),
    "a length too small": HEADER.pack(b"AFW", 1, STATUS, 0, 1, 0) + b"xxxxx",
    "the largest length": HEADER.pack(b"AFW", 1, STATUS, 0, 1, 2**32 - 1),
    "an unknown type": frame(99, 1),
    "a reply": frame(66, 1, b"\0"),
    "type 0": frame(0, 1),
    "no tag": frame(STATUS, 0),
    "bytes left over": frame(STATUS, 1, b"x"),
    "bytes missing": frame(WATCH, 1, b"1234"),
    "half an EXEC": exec_packet()[:-1],
    "an EXEC without strings": run_with(strings=b""),
    "more arguments than strings": run_with(argc=7),
    "as many arguments as there are numbers": run_with(argc=2**32 - 1, envc=2**32 - 1),
    "strings longer than they are": run_with(length=2**31),
    "strings without their end": run_with(strings=b"\0\0\0/bin/true"),
    "no arguments": run_with(argc=0, strings=b"\0\0\0"),
    "unknown flags": run_with(flags=1 << 30),
    "a name that is too long": run_with(strings=b"x" * 64 + b"\0\0\0/bin/true\0"),
    "a session in an EXEC": run_with(strings=b"\0session\0\0/bin/true\0"),
    "descriptors announced": exec_packet(fd_count=1),
    "standard input announced and not sent": run_with(flags=STDIN),
    "strings announced and not sent": run_with(flags=STRINGS_FD, strings=b"", length=14),
    "a terminal for a session": frame(SESSION_OPEN, 1, b"".join(run_payload([], flags=TTY))),
    "a session's command without a session": frame(SESSION_EXEC, 1, b"".join(run_payload(["x"]))),
    "two shells": frame(SESSION_OPEN, 1, b"".join(run_payload(["a", "b"]))),
    "signal 0": frame(KILL, 1, b"\0\0"),
    "signal 65": frame(KILL, 1, b"\x41\0"),
    "an unknown scope": frame(KILL, 1, b"\x09\x02"),
    "an empty name": frame(ATTACH, 1, b"\0"),
    "a name without end": frame(ATTACH, 1, b"abc"),
    "a long name": frame(SESSION_CLOSE, 1, b"x" * 100 + b"\0"),
    "rules without a descriptor": frame(SET_RULES, 1),
}


def hear_end(client):
    """It is cut off."""
    client.sock.settimeout(60)
    client.drain()


@pytest.mark.parametrize("what", list(BAD))
def test_who_sends_what_is_no_request_is_cut_off(shared, what):
    other = shared.client()
    run = other.start("sleep 0.1; echo other")
    bad = shared.client()
    bad.send(BAD[what])
    hear_end(bad)
    assert run.wait().out == b"other\n"
    other.close()
    eventually(lambda: shared.owner.status().clients == 1)


def test_an_empty_packet_is_an_end(shared):
    bad = shared.client()
    bad.sock.send(b"")
    hear_end(bad)
    bad.close()


def test_packets_that_are_too_large(shared):
    for size in (PAYLOAD_MAX + 1, 100_000, 150_000):
        bad = shared.client()
        bad.send(frame(STATUS, 1, b"x" * size))
        hear_end(bad)
        bad.close()
    assert shared.run("echo on").out == b"on\n"


@pytest.mark.parametrize("count", [1, 2, 8, 9, 100])
@pytest.mark.parametrize("kind", [STATUS, KILL, SET_RULES, EXEC])
def test_descriptors_that_do_not_belong_there_are_closed(shared, kind, count):
    """Each would otherwise be a descriptor less for us, and stay open for ever."""
    before = shared.fds()
    read_fd, write_fd = os.pipe()
    bad = shared.client()
    if kind == EXEC:
        fixed, strings = run_payload(["/bin/true"])
        payload = fixed + strings
    else:
        payload = b"\x09\x01" if kind == KILL else b""
    try:
        bad.send(frame(kind, 1, payload, count), [write_fd] * count)
    except OSError:
        pytest.skip("the kernel does not send so many")
    os.close(write_fd)
    if not (kind == SET_RULES and count == 1):
        hear_end(bad)
    bad.close()
    eventually(lambda: set(shared.fds()) <= set(before))
    os.set_blocking(read_fd, False)
    eventually(lambda: os.read(read_fd, 1) == b"")
    os.close(read_fd)


def test_strings_that_can_still_change_are_refused(shared):
    fixed, strings = run_payload(["/bin/echo", "x"], flags=STRINGS_FD)
    for make in ("unsealed", "pipe", "file", "short", "long"):
        bad = shared.client()
        if make == "pipe":
            fd, other = os.pipe()
            os.close(other)
        elif make == "file":
            fd = os.open("/etc/passwd", os.O_RDONLY)
        elif make == "unsealed":
            fd = os.memfd_create("x")
            os.write(fd, strings)
        else:
            fd = sealed(strings[:-1] if make == "short" else strings + b"\0")
        bad.send(frame(EXEC, 1, fixed, 1), [fd])
        os.close(fd)
        hear_end(bad)
    good = shared.client()
    run = good.runs[1] = Run(good, 1)
    fd = sealed(strings)
    good.send(frame(EXEC, 1, fixed, 1), [fd])
    os.close(fd)
    assert run.wait().out == b"x\n"
    good.close()


def test_random_packets(shared):
    """From whole requests with a few bytes changed to noise."""
    dice = random.Random(7)
    seeds = [*BAD.values(), exec_packet(), frame(STATUS, 1), frame(WATCH, 1, b"\0" * 8), frame(SYNC, 3, b"\0"),
             frame(RESIZE, 1, b"\0" * 4), frame(KILL, 1, b"\x09\x01"), frame(ATTACH, 1, b"x\0")]
    for _ in range(300):
        packet = bytearray(dice.choice(seeds))
        for _ in range(dice.randrange(4)):
            packet[dice.randrange(len(packet))] = dice.randrange(256)
        if len(packet) >= 6 and struct.unpack_from("<H", packet, 4)[0] == STOP:
            continue
        client = shared.connect()
        try:
            client.send(bytes(packet))
        except OSError:
            pass
        client.close()
    good = shared.client()
    assert good.run("echo on").out == b"on\n"
    good.close()
    eventually(lambda: shared.owner.status().clients == 1)


def test_more_connections_than_there_may_be(box):
    clients = []
    for _ in range(300):
        clients.append(box.connect())
    greeted = 0
    for client in clients:
        if client.receive() is not None:
            greeted += 1
    assert greeted == CLIENTS_MAX - 1  # the owner is one
    assert box.owner.status().clients == CLIENTS_MAX
    assert clients[0].run("echo on").out == b"on\n"
    for client in clients:
        client.close()
    eventually(lambda: box.owner.status().clients == 1)
    assert box.run("echo again").out == b"again\n"


def test_a_client_that_asks_and_never_reads(box):
    """It is cut off before its answers fill our memory, and nobody else waits."""
    before = box.rss_kib()
    bad = box.connect()
    bad.sock.setblocking(False)
    sent = 0
    deadline = time.monotonic() + 60
    while sent < 100_000 and time.monotonic() < deadline:
        try:
            bad.send(frame(STATUS, 1))
            sent += 1
        except BlockingIOError:
            time.sleep(0.001)
        except OSError:
            break
    assert sent < 100_000
    assert box.run("echo on").out == b"on\n"
    assert box.rss_kib() < before + 8192
    eventually(lambda: box.owner.status().clients == 1)


def test_a_client_that_never_reads_while_its_commands_print(box):
    bad = box.client()
    for _ in range(20):
        bad.start("yes")
    before = box.rss_kib()
    for i in range(10):
        assert box.run(f"head -c 1000000 /dev/zero; echo {i}").out[-2:] == b"%d\n" % i
    assert box.rss_kib() < before + 16384
    bad.close()
    eventually(lambda: not box.runs("yes"))


def test_few_descriptors(make):
    """A supervisor that has none left says so, and recovers."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    box = make().start(preexec_fn=limit)
    client = box.client()
    runs = [client.start("sleep 2; echo x") for _ in range(60)]
    for run in runs:
        run.wait()
    assert any(run.error for run in runs), "there was no lack at all"
    assert all(run.error or run.out == b"x\n" for run in runs)
    clients = [box.connect() for _ in range(80)]
    for connection in clients:
        connection.close()
    eventually(lambda: client.run("echo on").out == b"on\n")
    eventually(lambda: len(box.fds()) < 40)
    assert box.run("echo on").out == b"on\n"


def test_nothing_is_left_open_or_allocated_after_much_use(box):
    client = box.client()

    def much():
        runs = [client.start(f"echo {i}; echo {i} >&2") for i in range(40)]
        runs += [client.start(["/no/such"]) for _ in range(5)]
        runs += [client.start("sleep 10", timeout_ms=20) for _ in range(5)]
        for run in runs:
            run.wait()
        gone = box.client()
        gone.start("sleep 100")
        gone.close()
        client.runs.clear()

    much()
    eventually(lambda: (client.status().execs, client.status().clients) == (0, 2))
    fds, rss = box.settled_fds(), box.rss_kib()
    for _ in range(10):
        much()
    eventually(lambda: (client.status().execs, client.status().clients) == (0, 2))
    eventually(lambda: box.fds() == fds)
    assert box.rss_kib() < rss + 2048
