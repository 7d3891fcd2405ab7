"""Files of a running sandbox by the control socket: as the sandbox sees them, under its rules, and nothing else."""

import hashlib
import os
import threading
import time

import pytest

from ctl import (ABORTED, ALREADY_EXISTS, ERROR, EXCLUSIVE, FAILED_PRECONDITION, FILE, FILE_REPLY, INVALID_ARGUMENT, LIST, LISTING, MKDIR,
                 NOBODY, NOT_FOUND, OK, PARENTS, PERMISSION_DENIED, READ, RECURSIVE, REMOVE, RENAME, RESOURCE_EXHAUSTED, STAT, WRITE, eventually, frame)

RULES = (("/**", "write"), ("/view/**", "view"), ("/read/**", "read"), ("**/secret*", "none"))
FILES = {"f": "file\n", "view/v": "v\n", "read/r": "r\n", "secret.txt": "hidden\n", "dir/secret/x": "x", "dir/y": "y"}
ATTEMPTS = 100_000 if os.environ.get("AGENTFENSE_LONG") == "1" else 2_000


@pytest.fixture(params=[None, NOBODY], ids=["root", "user"])
def box(make, request):
    if request.param is not None and os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    return make(files=FILES, rules=RULES, user=request.param).start()


@pytest.fixture
def client(box):
    return box.client()


def code(reply):
    assert getattr(reply, "kind", None) == ERROR, reply
    return reply.code


def test_what_is_there_is_told(box, client):
    assert box.run("ln -s /etc/passwd link; mkfifo fifo; printf 12345 > five; chmod 750 five; touch -d @1000000000.5 five").code == 0
    five = client.file(STAT, "five").file
    assert (five.kind, five.mode, five.size, five.mtime_ns, five.text) == ("file", 0o750, 5, 1_000_000_000_500_000_000, "")
    link = client.file(STAT, "link").file
    assert (link.kind, link.text) == ("link", "/etc/passwd")
    assert client.file(STAT, "fifo").file.kind == "other"
    assert client.file(STAT, ".").file.kind == "dir"
    assert client.file(STAT, "dir/y").file.size == 1
    assert code(client.file(STAT, "nothing")) == NOT_FOUND
    assert [f.text for f in client.list_files()] == ["dir", "f", "fifo", "five", "link", "read", "view"]
    assert [f.kind for f in client.list_files()] == ["dir", "file", "other", "file", "link", "dir", "dir"]
    assert code(client.list_files("f")) == INVALID_ARGUMENT


def test_content_comes_and_goes_whole(box, client):
    big = os.urandom(3_000_001)
    assert client.write_file("new/deep/big", big, PARENTS).kind == OK
    assert client.read_file("new/deep/big") == big
    assert client.read_file("new/deep/big", offset=1_000_000, size=70_000) == big[1_000_000:1_070_000]
    assert client.read_file("new/deep/big", offset=5_000_000) == b""
    assert box.run("sha256sum < new/deep/big; stat -c %a new/deep/big").out.decode().split()[0] == hashlib.sha256(big).hexdigest()
    assert client.write_file("new/deep/big", b"").kind == OK
    assert client.read_file("new/deep/big") == b""
    assert code(client.write_file("f", b"x", EXCLUSIVE)) == ALREADY_EXISTS
    assert client.read_file("f") == b"file\n"
    assert code(client.write_file("no/such/dir", b"x")) == NOT_FOUND
    fd = os.memfd_create("content")
    os.write(fd, b"from memory")
    assert client.file(WRITE, "m", size=11, mode=0o600, fds=[fd]).kind == OK
    assert client.read_file("m") == b"from memory"
    assert code(client.file(WRITE, "m", size=12, mode=0o600, fds=[fd])) == ABORTED
    os.close(fd)
    # Nothing of this is the base's.
    assert not (box.base / "m").exists() and (box.base / "f").read_text() == "file\n"
    changes = (box.dir / "delta/meta/changes").read_text()
    assert '"path":"m","exec":"@file"' in changes


def test_what_has_no_room_changes_nothing(make):
    box = make(files=FILES, rules=RULES, quota=1 << 20).start()
    client = box.client()
    assert client.write_file("mine", b"precious").kind == OK
    for path in ("mine", "f", "new"):
        assert code(client.write_file(path, os.urandom(2 << 20))) == RESOURCE_EXHAUSTED
    assert (client.read_file("mine"), client.read_file("f")) == (b"precious", b"file\n")
    assert code(client.file(STAT, "new")) == NOT_FOUND
    assert client.write_file("mine", b"short").kind == OK and client.read_file("mine") == b"short"


def test_content_that_does_not_come_to_its_end_is_not_seen(box, client):
    assert code(client.write_file("f", b"short", size=10)) == ABORTED
    assert code(client.write_file("f", b"much longer", size=3)) == ABORTED
    assert client.read_file("f") == b"file\n"


def test_the_rules_hold(box, client):
    for path in ("secret.txt", "dir/secret", "dir/secret/x"):
        assert code(client.file(STAT, path)) == NOT_FOUND
        assert code(client.read_file(path)) == NOT_FOUND
        assert code(client.file(REMOVE, path, RECURSIVE)) == NOT_FOUND
        assert code(client.write_file(path, b"x")) in (NOT_FOUND, PERMISSION_DENIED)
    assert client.file(STAT, "view/v").file.mode == 0
    assert code(client.read_file("view/v")) == PERMISSION_DENIED
    assert client.read_file("read/r") == b"r\n"
    for path in ("view/v", "read/r", "read/new", "view/new"):
        assert code(client.write_file(path, b"x")) == PERMISSION_DENIED
        assert code(client.file(MKDIR, path + "d", mode=0o755)) == PERMISSION_DENIED
    for path in ("view/v", "read/r", "read", "view"):
        assert code(client.file(REMOVE, path, RECURSIVE)) == PERMISSION_DENIED
    assert [f.text for f in client.list_files("dir")] == ["y"]
    assert (box.base / "secret.txt").read_text() == "hidden\n"
    assert client.file(REMOVE, "dir", RECURSIVE).kind == OK
    assert (box.base / "dir/secret/x").exists()


def test_directories(box, client):
    assert client.file(MKDIR, "a/b/c", PARENTS, mode=0o700).kind == OK
    assert client.file(MKDIR, "a/b/c", PARENTS, mode=0o700).kind == OK
    assert code(client.file(MKDIR, "a/b/c", mode=0o700)) == ALREADY_EXISTS
    assert code(client.file(MKDIR, "x/y", mode=0o700)) == NOT_FOUND
    assert code(client.file(MKDIR, "f/y", PARENTS, mode=0o700)) in (INVALID_ARGUMENT, ALREADY_EXISTS)
    assert box.run("stat -c %a a/b/c; touch a/b/c/file; ln -s / a/b/root; id -u > /dev/null").out == b"700\n"
    assert code(client.file(REMOVE, "a")) == FAILED_PRECONDITION
    assert client.file(REMOVE, "a", RECURSIVE).kind == OK
    assert code(client.file(STAT, "a")) == NOT_FOUND
    for path in (".", "..", "a/..", "/", "../x", "/etc/passwd", "f/"):
        assert client.file(REMOVE, path, RECURSIVE).kind == ERROR, path
    assert client.file(STAT, "f").kind == FILE_REPLY


def test_renaming(box, client):
    assert client.file(RENAME, "f", PARENTS, after="new/place/g").kind == OK
    assert client.read_file("new/place/g") == b"file\n" and code(client.file(STAT, "f")) == NOT_FOUND
    assert client.write_file("h", b"h").kind == OK
    assert code(client.file(RENAME, "h", EXCLUSIVE, after="new/place/g")) == ALREADY_EXISTS
    assert client.read_file("new/place/g") == b"file\n"
    assert client.file(RENAME, "h", after="new/place/g").kind == OK and client.read_file("new/place/g") == b"h"
    assert client.file(RENAME, "new", after="moved").kind == OK and client.read_file("moved/place/g") == b"h"
    assert code(client.file(RENAME, "nothing", PARENTS, after="made/for/nothing")) == NOT_FOUND
    assert code(client.file(STAT, "made")) == NOT_FOUND
    for source, target in (("read/r", "r"), ("view/v", "v"), ("moved/place/g", "read/g")):
        assert code(client.file(RENAME, source, after=target)) == PERMISSION_DENIED, source
    assert code(client.file(RENAME, "secret.txt", after="seen")) == NOT_FOUND
    assert code(client.file(RENAME, "moved/place/g", after="no/such/place")) == NOT_FOUND
    reply = client.file(RENAME, "dir", after="other")  # with what is hidden in it
    assert code(reply) == FAILED_PRECONDITION and "copy" in reply.text
    for source, target in (("/etc", "x"), ("moved", "/tmp/x"), ("moved", "../x"), ("../x", "y"), (".", "x"), ("moved", ".")):
        assert getattr(client.file(RENAME, source, after=target), "kind", None) == ERROR, (source, target)


def test_many_names_come_in_pages(box, client):
    assert box.run("mkdir many; cd many; for i in $(seq 3000); do : > name-$i; done").code == 0
    names = [f.text for f in client.list_files("many")]
    assert names == sorted(f"name-{i}" for i in range(1, 3001))
    reply = client.file(LIST, "many", after="name-99")
    assert reply.kind == LISTING and reply.files[0].text == "name-990"


@pytest.mark.parametrize("path", ["../base/f", "/etc/passwd", "dir/../../base/f", "link/passwd", "link", "up/base/f", "proc/self/environ"])
def test_no_path_leads_out(box, client, path):
    assert box.run("ln -s /etc link; ln -s .. up; ln -s /proc proc").code == 0
    for reply in (client.read_file(path), client.write_file(path, b"x", PARENTS), client.file(MKDIR, path + "/d", PARENTS, mode=0o755),
                  client.list_files(path + "/.")):
        assert code(reply) in (INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS)


RACE = r"""
import os, sys
# Exchanges a directory and a file for links that lead out, as fast as it can, until it is told to stop.
os.makedirs("race/real", exist_ok=True); open("race/real/target", "w").write("inside")
os.symlink(sys.argv[1], "race/evil"); open("race/plain", "w").write("inside"); os.symlink(sys.argv[1] + "/target", "race/evil-file")
print("ready", flush=True)
import ctypes
libc = ctypes.CDLL(None)
def swap(a, b): libc.renameat2(-100, a, -100, b, 2)
while not os.path.exists("race/stop"):
    for _ in range(50):
        swap(b"race/real", b"race/evil"); swap(b"race/plain", b"race/evil-file")
"""


def test_links_exchanged_meanwhile_lead_nowhere(box, client):
    """A hostile process in the sandbox against every operation: nothing outside is read, written, made or removed."""
    outside = box.top / "outside"
    outside.mkdir()
    (outside / "target").write_text("outside")
    os.chmod(outside, 0o777)
    os.chmod(outside / "target", 0o666)
    before = os.stat(outside).st_mtime_ns
    racer = box.client()
    run = racer.start(["python3", "-c", RACE, str(outside)])
    run.wait_output(b"ready\n")
    counts = {}

    def attempt(n, index):
        own = box.client()
        paths = ["race/real/target", "race/plain", "race/evil/target", "race/evil-file"]
        for i in range(n):
            path = paths[(i + index) % 4]
            what = i % 5
            if what == 0:
                reply = own.read_file(path)
                assert not isinstance(reply, bytes) or b"outside" not in reply
            elif what == 1:
                reply = own.file(STAT, path)
                assert reply.kind == ERROR or reply.file.kind in ("file", "link", "dir")
            elif what == 2:
                reply = own.file(LIST, "race/evil")
                assert reply.kind == ERROR or all(f.text in ("target", "made") for f in reply.files)
            elif what == 3:
                fd = os.memfd_create("w")
                os.write(fd, b"written")
                reply = own.file(WRITE, path, size=7, mode=0o644, fds=[fd])
                os.close(fd)
            else:
                reply = own.file(MKDIR if i % 2 else REMOVE, "race/real/made" if i % 4 < 2 else "race/evil/made", mode=0o755 if i % 2 else 0)
            kind = (what, isinstance(reply, bytes) or reply.kind != ERROR)
            counts[kind] = counts.get(kind, 0) + 1
        own.close()

    failures = []

    def guard(n, index):
        try:
            attempt(n, index)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=guard, args=(ATTEMPTS // 2, k)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert not run.is_over
    box.run("touch race/stop")
    assert run.wait().code == 0
    assert (outside / "target").read_text() == "outside"
    assert os.listdir(outside) == ["target"]
    assert os.stat(outside).st_mtime_ns == before
    # Both outcomes were met, or nothing was tried.
    assert all(counts.get((what, ok), 0) > 0 for what in (0, 3) for ok in (True, False)), counts


def test_a_reader_that_does_not_read_holds_nobody_up(box, client):
    assert box.run("dd if=/dev/zero of=big bs=1M count=8 2>/dev/null").code == 0
    slow = [box.client() for _ in range(20)]
    replies = []
    for each in slow[:16]:
        replies.append(each.file(READ, "big"))
    assert client.status().state == "running"
    assert box.run("echo alive").out == b"alive\n"
    # All places are taken; when somebody goes there is one.
    tag = client.tag()
    client.send(frame(FILE, tag, b"\x01" + b"\0" * 24 + b"f\0\0"))
    time.sleep(0.2)
    assert client.status().state == "running" and tag not in client.replies
    slow[0].close()
    for reply in replies:
        os.close(reply.fds[0])
    client.until(lambda: tag in client.replies)
    assert client.replies.pop(tag)[0].kind == FILE_REPLY


def test_it_ends_while_somebody_reads(box, client):
    assert box.run("dd if=/dev/zero of=big bs=1M count=8 2>/dev/null").code == 0
    reply = client.file(READ, "big")
    read_fd, write_fd = os.pipe()
    payload = b"\x04" + b"\0" * 8 + b"\0" * 8 + (100).to_bytes(8, "little") + b"never\0\0"
    client.send(frame(FILE, 99, payload, 1), [read_fd])
    box.owner.close()
    box.owner = None
    box.wait()
    for fd in (reply.fds[0], read_fd, write_fd):
        os.close(fd)


def test_during_a_hold_they_wait(box, client):
    holder = box.client()
    assert holder.hold().kind == OK
    tag = client.tag()
    client.send(frame(FILE, tag, b"\x05" + b"\0" * 4 + (0o755).to_bytes(4, "little") + b"\0" * 16 + b"waits\0\0"))
    time.sleep(0.1)
    assert not box.delta("waits").exists()
    assert client.status().state == "running" and tag not in client.replies
    assert holder.release().kind == OK
    client.until(lambda: tag in client.replies)
    assert client.replies.pop(tag)[0].kind == OK
    assert box.delta("waits").is_dir()


def test_descriptors_and_threads_do_not_stay(box, client):
    client.list_files()
    before = box.settled_fds()
    for i in range(50):
        client.read_file("f")
        client.write_file("f", b"x")
        client.file(STAT, "nothing")
        client.list_files("dir")
    assert len(box.settled_fds()) <= len(before) + 4
    eventually(lambda: len(os.listdir(f"/proc/{box.pid}/task")) < 20)
