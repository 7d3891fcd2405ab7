"""From within the sandbox at its supervisor: an init that was taken over. In its place runs a script that says whatever it likes over init's socket
to a real supervisor, which goes on, or ends the sandbox cleanly; it never hangs, grows, or leaves anything behind."""

import os
import shutil
import time

import pytest
from conftest import PROGRAMS
from ctl import ERROR, STATUS, eventually

ROUNDS = 300 if os.environ.get("AGENTFENSE_LONG") == "1" else 6

INIT = """#!/usr/bin/python3
import array, os, random, signal, socket, struct, sys, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sock = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
HEADER = struct.Struct("<3sBHHQI")
def frame(kind, ident, payload=b"", fd_count=0, version=1): return HEADER.pack(b"AFW", version, kind, fd_count, ident, len(payload)) + payload
def send(packet, fds=()):
    try: sock.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
    except OSError: pass
HELLO = frame(1, 0, struct.pack("<III", 2, os.getpid(), 3))
def spawned(ident): return frame(2, ident, struct.pack("<I", 7))
def failed(ident): return frame(3, ident, struct.pack("<IB", 2, 10))
def exited(ident, status=0): return frame(5, ident, struct.pack("<IQQQ", status, 1, 1, 1))
def gone(ident): return frame(6, ident)
def requests():
    while True:
        try: data, anc, _, _ = sock.recvmsg(70000, socket.CMSG_SPACE(64))
        except OSError: return
        if not data: return
        fds = array.array("i")
        for _, _, c in anc: fds.frombytes(c[:len(c) - len(c) % 4])
        kind, count, ident = HEADER.unpack(data[:20])[2:5]
        yield kind, ident, list(fds)
"""

LIVES = {
    "it says nothing that is a frame": "send(b'x' * 1000); time.sleep(1000)",
    "its hello is of another time": "send(frame(1, 0, struct.pack('<III', 99, 1, 3))); time.sleep(1000)",
    "it greets twice": "send(HELLO); send(HELLO); time.sleep(1000)",
    "it ends at once": "sys.exit(0)",
    "it greets and hangs up": "send(HELLO); sock.close(); time.sleep(1000)",
    "it greets and stops reading": "send(HELLO); time.sleep(1000)",
    "it reports what nobody asked for": "send(HELLO)\nfor n in range(20000): send(random.choice([spawned, failed, exited, gone])(random.randrange(1 << 63)))\ntime.sleep(1000)",
    "it reports in every order but the right one": """
send(HELLO)
for kind, ident, fds in requests():
    if kind == 16:
        for report in (gone, exited, spawned, spawned, failed, gone, exited, exited, gone): send(report(ident))
""",
    "it sends descriptors with everything": """
fds = [os.open("/dev/null", 0) for _ in range(100)]
send(HELLO)
for n in range(300): send(frame(2, n, struct.pack("<I", 1), 50), fds[:50])
for kind, ident, _ in requests():
    if kind == 16: send(frame(2, ident, struct.pack("<I", 1), 100), fds)
""",
    "it gives a terminal that is none": """
send(HELLO)
for kind, ident, fds in requests():
    if kind == 16:
        send(spawned(ident))
        for what in ("/dev/null", "/proc/self/mem", "/"): send(frame(4, ident, b"", 1), [os.open(what, 0)])
        send(exited(ident)); send(gone(ident))
""",
    "it claims the largest numbers": """
send(HELLO)
for kind, ident, fds in requests():
    if kind == 16:
        send(frame(2, ident, b"\\xff" * 4)); send(frame(5, ident, b"\\xff" * 28)); send(frame(5, ident, struct.pack("<IQQQ", 0x7f, 2**64 - 1, 2**64 - 1, 2**64 - 1)))
        send(frame(3, ident, b"\\xff" * 5)); send(exited(ident, 9)); send(gone(ident))
""",
    "it keeps what it was given and writes without end": """
send(HELLO); kept = []
for kind, ident, fds in requests():
    if kind == 16:
        send(spawned(ident)); kept += fds
        for fd in fds[1:]:
            try: os.set_blocking(fd, False); os.write(fd, b"y" * 1000000)
            except OSError: pass
""",
    "it is what it should be, with bytes changed": """
dice = random.Random(SEED)
def bent(packet):
    packet = bytearray(packet)
    for _ in range(dice.choice((0, 0, 1, 1, 2, 5))):
        at = dice.randrange(len(packet) + 1)
        packet[at:at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
    return bytes(packet)
send(HELLO)
for kind, ident, fds in requests():
    for report in (spawned, exited, gone):
        send(bent(report(ident)), [fds[0]] * dice.choice((0, 0, 0, 1, 3)) if fds else ())
        if dice.random() < 0.2: send(dice.randbytes(dice.randrange(200)))
    for fd in fds: os.close(fd)
""",
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """Programs of ours, of which init is not."""
    place = tmp_path_factory.mktemp("programs")
    for above in (place, *place.parents):
        if above.stat().st_uid == os.geteuid() and above.name.startswith(("programs", "pytest-")):
            above.chmod(0o755)
    shutil.copy(PROGRAMS / "agentfense-supervisor", place)
    return place


def take_over(stage, life, seed=0):
    init = stage / "agentfense-init"
    init.write_text(INIT + f"SEED = {seed}\n" + LIVES[life])
    init.chmod(0o755)
    return stage / "agentfense-supervisor"


def ask_for_much(box):
    """What a server does with a sandbox, as far as it is let: each answer is an answer, or the end."""
    client = box.owner
    try:
        client.until(lambda: client.hello and (client.hello.state == "running" or client.states))
        if (client.states or [client.hello.state])[-1] != "running":
            return "failed"
        runs = [client.start(["/bin/true"], timeout_ms=500) for _ in range(3)]
        for run in runs:
            run.kill()
        assert client.ask(STATUS).kind != ERROR
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline and not all(run.is_over for run in runs):
            if client.receive(60) is None:
                return "ended"
        return "running"
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return "ended"


def check(make_box, stage, life, seed=0):
    box = make_box(program=take_over(stage, life, seed))
    box.launch()
    outcome = ask_for_much(box)
    if box.process.poll() is None and outcome == "running":
        assert len(box.fds()) < 80 and box.rss_kib() < 64 * 1024
    code = box.stop()
    assert code in (0, 1), (life, seed, code, box.log())
    eventually(lambda: not [p for p in os.listdir("/proc") if p.isdigit() and is_of(p, box)])
    assert not box.mounts()
    return outcome


def is_of(pid, box):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return str(box.top).encode() in file.read()
    except OSError:
        return False


# Those that are waited for, for as long as an init may take to end what runs.
PATIENT = ("it keeps what it was given and writes without end", "it reports what nobody asked for", "it greets twice")


@pytest.mark.parametrize("life", [life for life in LIVES if "bytes changed" not in life and (ROUNDS > 100 or life not in PATIENT)])
def test_an_init_that_was_taken_over(make_box, stage, life):
    outcome = check(make_box, stage, life)
    if life in ("it says nothing that is a frame", "its hello is of another time", "it ends at once"):
        assert outcome != "running"
    if life in ("it greets and stops reading", "it reports in every order but the right one"):
        assert outcome == "running"


def test_an_init_whose_words_are_bent(make_box, stage):
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    outcomes = {check(make_box, stage, "it is what it should be, with bytes changed", seed + n) for n in range(ROUNDS)}
    assert outcomes <= {"running", "ended", "failed"}
