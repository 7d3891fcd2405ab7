"""Only what was shown is approved, and shown is what was sent whole: not what a request merely asked for."""

import socket
import struct
import threading

import pytest
from review import FILES, Review
from server import WAIT, eventually

BIG = 5 << 20  # two of these are more than sockets hold


@pytest.fixture
def box(shared):
    made = Review(shared, FILES)
    yield made
    made.remove()


def reason(box):
    """Why nothing is approved now."""
    status, answer = box.http("POST", "/approve", {"dryRun": True})
    return answer.get("details", {}).get("reason") if status == 409 else status


def get(box, query, **options):
    answer, content = box.http("GET", "/diff" + query, raw=True, **options)
    return answer.status, content


def connect(box):
    host, port = box.server.http_address.rsplit(":", 1)
    line = socket.socket(socket.AF_INET6 if "[" in host else socket.AF_INET)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(WAIT)
    line.connect((host.strip("[]"), int(port)))
    return line


def ask(box, query, headers="", verb="GET"):
    line = connect(box)
    line.sendall(f"{verb} /api/v1/sandboxes/{box.id}/diff{query} HTTP/1.1\r\nHost: {box.server.http_address}\r\n{headers}\r\n".encode())
    return line


@pytest.mark.parametrize("query", ["", "?format=text", "?format=patch"])
def test_what_was_read_to_its_end_was_shown(box, query):
    box.sh("echo new > new; rm README")
    assert reason(box) == "DIFF_NOT_SERVED"
    assert get(box, query)[0] == 200
    assert box.approve()["applied"] == 2


@pytest.mark.parametrize("query", ["?limit=10", "?format=text", "?format=patch"])
def test_what_nobody_read_to_its_end_was_not(box, query):
    """The client goes after the first bytes; or it stays, and does not read on."""
    box.sh(f"for n in 1 2; do head -c {BIG} /dev/zero | tr '\\0' x | fold -w 100 > big$n; done")
    with ask(box, query) as line:
        assert line.recv(100).startswith(b"HTTP/1.1 200")
        assert reason(box) == "DIFF_NOT_SERVED"
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert reason(box) == "DIFF_NOT_SERVED"
    # It was not held up by that, and is shown to who reads all of it.
    assert get(box, query)[0] == 200
    assert reason(box) == 200


@pytest.mark.parametrize("query", ["", "?format=text", "?format=patch"])
def test_a_look_at_the_headers_shows_nothing(box, query):
    box.sh("echo new > new")
    with ask(box, query, "Connection: close\r\n", verb="HEAD") as line:
        head = b"".join(iter(lambda: line.recv(4096), b""))
    assert head.startswith(b"HTTP/1.1 200") and b"new" not in head
    assert reason(box) == "DIFF_NOT_SERVED"


@pytest.mark.parametrize("query", ["", "?format=text", "?format=patch"])
def test_neither_does_an_answer_without_a_body(box, query):
    box.sh("echo new > new")
    tag = box.diff("?content=false")["diffHash"]
    for known in ("*", f'"{tag}"'):
        assert get(box, query, headers={"If-None-Match": known})[0] == 304
        assert reason(box) == "DIFF_NOT_SERVED"


def test_pages_show_what_is_on_them(box):
    box.sh("echo a > a; echo b > b")
    box.diff("?limit=1")
    assert reason(box) == "DIFF_STALE"
    box.diff("?limit=1&offset=1")
    assert reason(box) == 200


def test_who_shows_it_elsewhere_says_what_was_shown(box):
    box.sh("echo a > a; echo b > b; mv doc/x.md doc/z.md")
    files = {file["filePath"]: file for file in box.diff("?note=false")["files"]}
    assert reason(box) == "DIFF_NOT_SERVED"
    hashes = {files["a"]["id"]: files["a"]["hash"], "b": files["b"]["hash"]}
    assert box.ok("POST", "/diff/shown", {"fileHashes": hashes}) == {"shown": 2}
    assert reason(box) == "DIFF_STALE"
    assert box.ok("POST", "/diff/shown", {"fileHashes": {files["doc/z.md"]["id"]: files["doc/z.md"]["hash"], "none": "0" * 64}}) == {"shown": 1}
    assert reason(box) == 200
    box.sh("echo other > a")
    assert reason(box) == "DIFF_STALE"
    for wrong in ({}, {"fileHashes": []}, {"fileHashes": {"a": 1}}, {"fileHashes": {"a": "x"}}, {"fileHashes": {}, "more": 1}):
        assert box.http("POST", "/diff/shown", wrong)[0] == 400, wrong


def parts(data):
    """The text, and the changes that ended in it."""
    text, ended, at = b"", {}, 0
    while at < len(data):
        line, _, _ = data[at:].partition(b"\n")
        at += len(line) + 1
        words = line.decode().split(" ")
        text += data[at:at + int(words[0])]
        at += int(words[0])
        if words[0] == "0":
            ended[words[1]] = words[2]
    return text, ended


@pytest.mark.parametrize("form", ["text", "patch"])
def test_receipts_name_what_has_passed(box, form):
    box.sh(f"echo new > new; rm README; chmod +x src/a.txt; printf 'a\\0b' > bin; head -c {9 << 20} /dev/urandom > large; mv doc/x.md doc/z.md")
    plain = get(box, f"?format={form}&note=false")[1]
    text, ended = parts(get(box, f"?format={form}&receipts=true")[1])
    assert text == plain and reason(box) == "DIFF_NOT_SERVED"
    assert ended == {file["id"]: file["hash"] for file in box.diff("?note=false")["files"]}
    assert box.ok("POST", "/diff/shown", {"fileHashes": ended}) == {"shown": len(ended)}
    assert reason(box) == 200


def test_two_readers_of_one_diff(box):
    """One who is slow keeps nobody waiting."""
    box.sh(f"for n in 1 2; do head -c {BIG} /dev/zero | tr '\\0' x | fold -w 100 > big$n; done")
    with ask(box, "?limit=10") as line:
        line.recv(100)
        done = threading.Thread(target=box.diff)
        done.start()
        done.join(WAIT)
        assert not done.is_alive() and eventually(lambda: reason(box) == 200)
