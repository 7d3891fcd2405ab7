"""Terminals on a server: by TLS, a socket, a token; a server that dies; and one that is not what it says it is."""

import base64
import hashlib
import json
import socket
import struct
import subprocess
import threading

import pytest
from on_terminal import OnTerminal

ANY = "sb_0000000000000000"
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def certify(where):
    key, cert = where / "server.key", where / "server.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return key, cert


def work(place, top, *words, env=None):
    """All that goes by a conversation, in a workspace of its own."""
    made = place.say("create", "--scope", top, "--preset", "full-access", *words, env=env)
    content = bytes(range(256)) * 8000
    assert place.run("exec", "-i", *words, made, "--", "cat", input=content, env=env).stdout == content
    with OnTerminal(place, "exec", "-it", *words, made, "--", "stty size; head -c 1000000 /dev/zero | tr '\\0' x; exit 9", env=env) as terminal:
        terminal.read_until(b"33 101\r\n" + b"x" * 1000000)
        assert terminal.wait() == 9
    place.run("rm", "-f", *words, made, env=env)


@pytest.fixture
def project(tmp_path):
    top = tmp_path / "project"
    top.mkdir()
    return top


def test_by_tls(make, tmp_path, project):
    key, cert = certify(tmp_path)
    place = make().serve(f"--server-tls-cert={cert}", f"--server-tls-key={key}")
    place.url = f"https://{place.address}"
    work(place, project, "--ca", cert)
    assert place.url in place.run("shell", ANY, code=125).err


def test_by_a_socket_and_with_a_token(make, tmp_path, project):
    place = make().serve(f"--server-http-addr=unix:{tmp_path}/http.sock")
    place.url = f"unix:{tmp_path}/http.sock"
    work(place, project)
    alice, bob = (place.token("--owner", name, "--root", project) for name in ("alice", "bob"))
    made = place.say("create", "--scope", project, "--preset", "full-access", env={"AGENTFENSE_TOKEN": alice})
    assert place.say("exec", "-i", made, "--", "cat", input=b"hers", env={"AGENTFENSE_TOKEN": alice}) == "hers"
    for token in (bob, "aft_" + "0" * 48):
        for words in (["exec", "-i", made, "--", "cat"], ["shell", made], ["attach", made, "1"]):
            place.run(*words, env={"AGENTFENSE_TOKEN": token}, code=125)
    place.run("rm", "-f", made)


def test_a_server_that_dies(make, project):
    place = make().serve()
    made = place.say("create", "--scope", project, "--preset", "full-access")
    with OnTerminal(place, "shell", "--shell", "sh", "-e", "PS1=ready> ", made) as terminal:
        terminal.read_until(b"ready> ")
        place.server.kill()
        assert terminal.wait() == 125 and b"the connection was lost" in terminal.seen
    place.server.wait()
    place.url = None
    # The shell did not die with it: somebody comes back, without a server now.
    with OnTerminal(place, "attach", made) as terminal:
        terminal.type("exit 3\r")
        assert terminal.wait() == 3
    place.run("rm", "-f", made)


# ---- one that is not what it says ----


def frame(opcode, payload=b"", fin=True, mask=None, length=None, rsv=0):
    length = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if length < 126:
        head += bytes([bit | length])
    elif length < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", length)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", length)
    return head + (mask or b"") + payload


def say(**message):
    return frame(TEXT, json.dumps(message).encode())


def switch(key, **more):
    accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Accept": accept, **more}
    return ("HTTP/1.1 101 Switching\r\n" + "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items() if v) + "\r\n").encode()


def page(status, body, **headers):
    head = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    return f"HTTP/1.1 {status} No\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


class Pretender:
    """Answers one request with whatever it likes, and then hangs up, or waits for who asked to do so."""

    def __init__(self, answer, hangs_up):
        self.answer, self.hangs_up, self.listener = answer, hangs_up, socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.serve)
        self.request = b""
        self.thread.start()

    def serve(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(60)
            while b"\r\n\r\n" not in self.request:
                self.request += connection.recv(4096)
            key = self.request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
            try:
                connection.sendall(self.answer(key))
                while not self.hangs_up and connection.recv(4096):
                    pass
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)


STARTED = say(type="started", id="pr_1")
BAD_ANSWERS = [
    # No WebSocket at all.
    ("", "hung up before it had answered"),
    ("nonsense", "does not speak HTTP"),
    ("HTTP/1.1 1x1 \r\n\r\n", "does not speak HTTP"),
    ("HTTP/1.1 101 Switching\r\nUpgr", "hung up before it had answered"),
    ("HTTP/1.1 101 Switching\r\n" + "X: y\r\n" * 5000, "does not come to an end"),
    ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", "not an agentfense server (HTTP status 200)"),
    (page(302, "", Location="http://evil.example/"), "not an agentfense server (HTTP status 302)"),
    (page(404, '{"error": "gone \\u001b[2J away", "code": 404}'), "gone \\x1b[2J away"),
    (page(500, "<html>"), "not an agentfense server (HTTP status 500)"),
    # Another's, or with something added.
    (lambda key: switch(b"dGhlIHNhbXBsZSBub25jZQ=="), "does not answer to the key"),
    (lambda key: switch(key, Sec_WebSocket_Accept=None), "does not answer to the key"),
    (lambda key: switch(key).replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Accept: x\r\n\r\n"), "does not answer to the key"),
    (lambda key: switch(key, Upgrade="h2c"), "something else than a WebSocket"),
    (lambda key: switch(key, Connection="close"), "something else than a WebSocket"),
    (lambda key: switch(key, Sec_WebSocket_Extensions="permessage-deflate"), "was not asked for"),
    (lambda key: switch(key, Sec_WebSocket_Protocol="chat"), "was not asked for"),
    # Frames that are none.
    (lambda key: switch(key), "the connection was lost"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\1abc", length=4000), "the connection was lost"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\1", length=1 << 40), "a message that is too long"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\1" * 200000, fin=False) + frame(0, b"x" * 200000), "a message that is too long"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\1x", rsv=4), "no WebSocket frame"),
    (lambda key: switch(key) + STARTED + frame(7, b"x"), "no WebSocket frame"),
    (lambda key: switch(key) + STARTED + frame(PING, b"x" * 126), "no WebSocket frame"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\1x", mask=b"abcd"), "no WebSocket frame"),
    (lambda key: switch(key) + frame(TEXT, b"\xff\xfe"), "not UTF-8"),
    # Frames that mean nothing.
    (lambda key: switch(key) + frame(TEXT, b"hello"), "a text that is not a message"),
    (lambda key: switch(key) + frame(TEXT, b"[]"), "a text that is not a message"),
    (lambda key: switch(key) + frame(TEXT, b"[" * 60000), "a text that is not a message"),
    (lambda key: switch(key) + frame(BINARY, b"\1early"), "a command that does not run"),
    (lambda key: switch(key) + STARTED + STARTED, "a second beginning"),
    (lambda key: switch(key) + STARTED + say(type="stdout", data="text"), "text where bytes were requested"),
    (lambda key: switch(key) + STARTED + frame(BINARY, b"\3x"), "output of neither stream"),
    (lambda key: switch(key) + STARTED + frame(BINARY), "output of neither stream"),
    (lambda key: switch(key) + say(type="exit", code=0), "an end that is none"),
    (lambda key: switch(key) + STARTED + say(type="exit"), "an end that is none"),
    (lambda key: switch(key) + STARTED + say(type="exit", code=99999999), "an end that is none"),
    (lambda key: switch(key) + STARTED + say(type="exit", code="0"), "an end that is none"),
    (lambda key: switch(key) + say(type="error", data="no \033[2J"), "no \\x1b[2J"),
    (lambda key: switch(key) + frame(CLOSE, struct.pack(">H", 1011) + b"busy \033[2J"), "hung up: busy \\x1b[2J (status 1011)"),
]


@pytest.mark.parametrize("answer, said", BAD_ANSWERS, ids=range(len(BAD_ANSWERS)))
def test_what_is_no_answer(make, answer, said):
    place = make()
    give = answer if callable(answer) else lambda key: answer if isinstance(answer, bytes) else answer.encode()
    with Pretender(give, hangs_up=not callable(answer) or "lost" in said) as server:
        place.url = server.url
        done = place.run("exec", "-i", ANY, "--", "true", code=125)
        assert said in done.err and done.err.startswith("agentfense exec: ") and b"\033" not in done.stderr, done.err


def test_the_terminal_is_given_back_whatever_comes(make):
    place = make()
    for answer in (b"\1", say(type="stdout", data="x")):
        with Pretender(lambda key, answer=answer: switch(key) + STARTED + frame(BINARY, b"hello") + answer, hangs_up=False) as server:
            place.url = server.url
            with OnTerminal(place, "shell", ANY) as terminal:
                if answer == b"\1":
                    terminal.read_until(b"hello")
                    terminal.child.terminate()
                assert terminal.wait() == (143 if answer == b"\1" else 125)


def test_what_a_later_server_may_say_is_passed_over(make):
    place = make()
    talk = say(type="news", data=1) + STARTED + frame(BINARY, b"\1o") + frame(BINARY, b"\2e") + say(type="exit", code=5) + frame(CLOSE)
    with Pretender(lambda key: switch(key) + frame(PING, b"x") + talk, hangs_up=False) as server:
        place.url = server.url
        done = place.run("exec", "-i", ANY, "--", "true", code=5, env={"AGENTFENSE_TOKEN": "aft_secret"})
        assert (done.out, done.err) == ("o", "e")
    assert b"Authorization: Bearer aft_secret\r\n" in server.request and b"Host: 127.0.0.1:" in server.request
    assert server.request.startswith(b"GET /api/v1/sandboxes/" + ANY.encode() + b"/exec-interactive HTTP/1.1\r\n")
