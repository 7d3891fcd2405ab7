"""Terminals and pipes in sandboxes, over WebSockets."""

import contextlib
import hashlib
import threading

import pytest
from server import WAIT, eventually
from workspace import Refused, Terminal, Workspace

NOBODY = "00000000-0000-4000-8000-000000000000"
SHELL = {"command": "/bin/sh", "args": ["-i"], "env": {"PS1": "$ "}}


@pytest.fixture(scope="module")
def workspace(shared):
    made = Workspace(shared)
    yield made
    made.remove()


def test_a_conversation(workspace):
    with workspace.terminal() as socket:
        terminal = Terminal(socket, {**SHELL, "cols": 101, "rows": 33})
        assert terminal.started["type"] == "started" and terminal.started["id"].startswith("pr_") and terminal.started["pid"] > 1
        terminal.type("stty size; tty; echo $TERM; echo $((40+2))\n")
        terminal.read_until(b"42\r\n")
        assert b"33 101\r\n" in terminal.seen and b"/dev/pts/" in terminal.seen and b"xterm-256color" in terminal.seen
        socket.send({"type": "resize", "cols": 55, "rows": 44})
        terminal.type("stty size\n")
        terminal.read_until(b"44 55\r\n")
        socket.send({"type": "ping"})
        while {"type": "pong"} not in terminal.others:
            terminal.next()
        terminal.type("exit\n")
        assert terminal.wait() == 0 and socket.closed == 1000


def test_the_exit_code(workspace):
    for script, code in (("exit 7", 7), ("kill -9 $$", 137)):
        with workspace.terminal() as socket:
            assert Terminal(socket, {"command": "/bin/sh", "args": ["-c", script]}).wait() == code


def test_bytes_pass_unchanged_as_binary(workspace):
    content = bytes(range(256)) * 40
    with workspace.terminal("?binary=true") as socket:
        terminal = Terminal(socket, {"command": "/bin/sh", "args": ["-c", f"stty raw -echo; printf ready; head -c {len(content)}"]})
        terminal.read_until(b"ready")
        terminal.type(content)
        assert terminal.wait() == 0
        assert bytes(terminal.seen) == b"ready" + content


def test_characters_are_not_torn(workspace):
    with workspace.terminal() as socket:
        script = "printf '\\342\\202'; sleep 0.2; printf '\\254'; printf '\\377'"
        terminal = Terminal(socket, {"command": "/bin/sh", "args": ["-c", script]})
        assert terminal.wait() == 0 and terminal.seen.decode() == "\N{EURO SIGN}\ufffd"


def test_leaving_and_coming_back(workspace):
    with workspace.terminal() as socket:
        terminal = Terminal(socket, {**SHELL, "keepAlive": True})
        identity = terminal.started["id"]
        terminal.type("X=kept; echo be''fore\n")
        terminal.read_until(b"before")
        with pytest.raises(Refused) as busy:
            workspace.terminal(f"?attach={identity}")
        assert busy.value.status == 409
    assert workspace.process(identity)["running"] and workspace.process(identity)["tty"]

    def come_back():
        try:
            return workspace.terminal(f"?attach={identity}")
        except Refused:
            return None

    with eventually(come_back) as socket:
        terminal = Terminal(socket)
        assert terminal.started["id"] == identity
        terminal.read_until(b"before")
        terminal.type("echo $X-af''ter\n")
        terminal.read_until(b"kept-after")
        socket.send({"type": "detach"})
        terminal.wait()
        assert socket.closed == 1000 and terminal.code is None
    with eventually(come_back) as socket:
        terminal = Terminal(socket)
        terminal.type("exit 4\n")
        assert terminal.wait() == 4
    assert workspace.wait_stopped(identity)["exitCode"] == 4
    with pytest.raises(Refused) as ended:
        workspace.terminal(f"?attach={identity}")
    assert ended.value.status == 409


def test_by_a_frame_too(workspace):
    with workspace.terminal() as socket:
        terminal = Terminal(socket, SHELL)
        identity = terminal.started["id"]
        socket.send({"type": "detach"})
        terminal.wait()
    with workspace.terminal() as socket:
        terminal = Terminal(socket, {"attach": identity})
        assert terminal.started["id"] == identity
        terminal.type("exit\n")
        assert terminal.wait() == 0


def test_a_terminal_that_is_closed_ends_its_program(workspace):
    with workspace.terminal() as socket:
        identity = Terminal(socket, {"command": "sleep", "args": ["1000"]}).started["id"]
    assert workspace.wait_stopped(identity)["running"] is False


def test_a_terminal_outlives_the_server(server):
    workspace = Workspace(server)
    try:
        socket = workspace.terminal()
        terminal = Terminal(socket, SHELL)
        identity = terminal.started["id"]
        terminal.type("X=kept\n")
        terminal.read_until(b"X=kept")
        server.kill()
        socket.close()
        server.start()
        with workspace.terminal(f"?attach={identity}") as socket:
            terminal = Terminal(socket)
            terminal.type("echo $X-after; exit 6\n")
            assert terminal.wait() == 6 and b"kept-after" in terminal.seen
    finally:
        workspace.remove()


def test_much_output_and_a_slow_reader(workspace):
    with workspace.terminal("?binary=true") as socket:
        terminal = Terminal(socket, {"command": "/bin/sh", "args": ["-c", "stty raw; head -c 8000000 /dev/zero; echo done"]})
        assert workspace.exec("echo", "fine")["stdout"] == "fine\n"
        assert terminal.wait() == 0
        assert len(terminal.seen) == 8000005


@pytest.mark.parametrize("first", [{}, {"command": 3}, {"command": "sh", "rows": 0}, {"command": "sh", "cols": 70000}, {"command": "/no/such"},
                                   {"attach": "pr_0123456789abcdef"}, {"command": "sh", "isolationLevel": "nope"}])
def test_what_is_no_beginning(workspace, first):
    with workspace.terminal() as socket:
        socket.send(first)
        assert socket.receive_json()["type"] == "error" and socket.receive() is None
        assert socket.closed in (1008, 1011)


@pytest.mark.parametrize("first", ["{", "[]", "null", b"bytes"])
def test_what_is_no_message(workspace, first):
    with workspace.terminal() as socket:
        socket.send(first)
        assert socket.receive_json()["type"] == "error" and socket.receive() is None and socket.closed == 1008


def test_an_odd_message_is_told_and_passed_over(workspace):
    with workspace.terminal() as socket:
        terminal = Terminal(socket, SHELL)
        for odd in ({"type": "dance"}, {"type": "resize", "rows": -1}, {"type": "stdin", "data": 3}, {}):
            socket.send(odd)
        while len([other for other in terminal.others if other["type"] == "error"]) < 4:
            terminal.next()
        terminal.type("exit\n")
        assert terminal.wait() == 0


def test_who_is_refused(workspace, shared):
    for headers, status in (({"Origin": "http://evil.example"}, 403), ({"host": "evil.example"}, 403), ({"Upgrade": None}, 426),
                            ({"Sec_WebSocket_Key": "x"}, 400)):
        with pytest.raises(Refused) as refused:
            workspace.terminal(**headers)
        assert refused.value.status == status
    other = Workspace.__new__(Workspace)
    other.server = shared
    for identity, status in ((NOBODY, 404), ("nonsense", 400)):
        other.id = identity
        with pytest.raises(Refused) as refused:
            other.terminal()
        assert refused.value.status == status


class Codebase:
    """A sandbox over a codebase, with the same words."""

    def __init__(self, server, token=None, owner="tester"):
        self.server, self.token, self.client = server, token, server.client(token)
        self.codebase = self.client.codebase({"a.txt": b"a\n"}, owner)
        self.id = self.client.sandbox(self.codebase)

    def headers(self, token=None):
        token = token or self.token
        return {"Authorization": f"Bearer {token}"} if token else {}

    def terminal(self, query="", identity=None, token=None):
        other = Workspace.__new__(Workspace)
        other.server, other.id = self.server, identity or self.id
        return other.terminal(query, **self.headers(token))

    def http(self, verb, path):
        return self.server.http(verb, f"/api/v1/sandboxes/{self.id}{path}", headers=self.headers())

    def remove(self):
        self.client.destroy_sandbox(sandbox_id=self.id)


@pytest.fixture
def over_codebase(shared):
    made = Codebase(shared)
    yield made
    made.remove()


def test_a_sandbox_over_a_codebase_has_terminals_too(over_codebase):
    with over_codebase.terminal() as socket:
        terminal = Terminal(socket, {**SHELL, "cols": 90, "rows": 30})
        identity = terminal.started["id"]
        assert identity.startswith("pr_") and terminal.started["pid"] > 1
        terminal.type("stty size; pwd\n")
        terminal.read_until(b"30 90\r\n/workspace\r\n")
        listed = over_codebase.http("GET", "/processes")[1]["processes"]
        assert [(one["id"], one["running"], one["tty"]) for one in listed] == [(identity, True, True)]
        terminal.type("echo made > here; exit 3\n")
        assert terminal.wait() == 3
    # Who has heard of the end finds the changes in the codebase.
    assert over_codebase.client.get(over_codebase.codebase, "here") == b"made\n"


def test_what_is_detached_from_over_a_codebase_is_found_again(over_codebase):
    with over_codebase.terminal() as socket:
        terminal = Terminal(socket, SHELL)
        identity = terminal.started["id"]
        socket.send({"type": "detach"})
        terminal.wait()
    with over_codebase.terminal(f"?attach={identity}") as socket:
        terminal = Terminal(socket)
        terminal.type("echo late > later; exit 4\n")
        assert terminal.wait() == 4
    assert over_codebase.client.get(over_codebase.codebase, "later") == b"late\n"
    assert over_codebase.http("DELETE", f"/processes/{identity}")[0] == 204


def test_what_a_sandbox_over_a_codebase_has(over_codebase):
    for path, status in (("", 200), ("/files", 200), ("/workspace", 409)):
        assert over_codebase.http("GET", path)[0] == status
    with over_codebase.terminal() as socket:
        socket.send({"command": "sh", "isolationLevel": "full"})
        assert "confined as it was made" in socket.receive_json()["data"]
    for identity, status in (("sb_0123456789abcdef", 404), ("sb_nonsense", 400)):
        with pytest.raises(Refused) as refused:
            over_codebase.terminal(identity=identity)
        assert refused.value.status == status
    over_codebase.client.stop_sandbox(sandbox_id=over_codebase.id)
    with pytest.raises(Refused) as refused:
        over_codebase.terminal()
    assert refused.value.status == 409


def test_other_peoples_sandboxes_are_not_there(server):
    alice, bob = (server.token("create", "--owner", name) for name in ("alice", "bob"))
    made = Codebase(server, alice, "alice")
    try:
        with made.terminal() as socket:
            terminal = Terminal(socket, SHELL)
            with pytest.raises(Refused) as refused:
                made.terminal(token=bob)
            assert refused.value.status == 404
            with pytest.raises(Refused) as refused:
                made.terminal(f"?attach={terminal.started['id']}", token=bob)
            assert refused.value.status == 404
            with pytest.raises(Refused) as refused:
                made.terminal(token="aft_" + "0" * 48)
            assert refused.value.status == 401
            terminal.type("exit\n")
            assert terminal.wait() == 0
    finally:
        made.remove()


@pytest.fixture(params=["workspace", "codebase"])
def place(request):
    return request.getfixturevalue("workspace" if request.param == "workspace" else "over_codebase")


class Pipes:
    """A command with pipes instead of a terminal."""

    def __init__(self, socket, script, **first):
        self.socket, self.streams, self.others = socket, {1: b"", 2: b""}, []
        socket.send({"command": "/bin/sh", "args": ["-c", script], "tty": False, "binary": True, **first})
        self.started = socket.receive_json()

    def next(self):
        message = self.socket.receive_json()
        if isinstance(message, bytes):
            self.streams[message[0]] += message[1:]
        elif message:
            self.others.append(message)
        return message

    def wait(self):
        while self.next() is not None:
            pass
        assert [other["type"] for other in self.others] == ["exit"], self.others
        return self.others[0]


def test_pipes_keep_the_streams_apart(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, r"printf 'o\000\377'; printf 'e\n' >&2; test -t 0 || exit 5")
        assert pipes.started["id"].startswith("ex_")
        assert pipes.wait()["code"] == 5 and pipes.streams == {1: b"o\0\xff", 2: b"e\n"} and socket.closed == 1000


def test_pipes_take_input_that_ends(place):
    content = bytes(range(256)) * 4000
    with place.terminal() as socket:
        pipes = Pipes(socket, "sha256sum; cat")
        socket.sock.settimeout(WAIT)
        for at in range(0, len(content), 50000):
            socket.send(content[at:at + 50000])
        socket.send({"type": "eof"})
        assert pipes.wait()["code"] == 0
        assert pipes.streams[1] == hashlib.sha256(content).hexdigest().encode() + b"  -\n"
    with place.terminal() as socket:
        assert Pipes(socket, "cat", interactive=False).wait()["code"] == 0


def test_output_of_pipes_comes_as_it_is_made(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, "echo first; read x; echo $x")
        while pipes.streams[1] != b"first\n":
            pipes.next()
        socket.send(b"second\n")
        assert pipes.wait()["code"] == 0 and pipes.streams[1] == b"first\nsecond\n"


def test_pipes_as_text(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, r"printf 'o\377'; printf 'e' >&2", binary=False)
        while pipes.next():
            pass
        said = {}
        for other in pipes.others:
            said[other["type"]] = said.get(other["type"], "") + other.get("data", "")
        assert said == {"stdout": "o\ufffd", "stderr": "e", "exit": ""}


def test_how_a_command_with_pipes_ends(place):
    with place.terminal() as socket:
        end = Pipes(socket, "sleep 1000", timeout="300ms").wait()
        assert end["code"] == 124 and end["timedOut"] is True
    with place.terminal() as socket:
        assert Pipes(socket, "kill -9 $$").wait()["code"] == 137
    with place.terminal() as socket:
        socket.send({"command": "/no/such", "tty": False})
        said = [socket.receive_json() for _ in range(3)]
        assert said[1]["type"] == "stderr" and "cannot run '/no/such'" in said[1]["data"] and said[2]["code"] == 127


def test_who_leaves_a_command_with_pipes_ends_it(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, "sleep 4321; echo late")
        assert pipes.started["type"] == "started"
    with place.terminal() as socket:
        script = "while grep -qs 4321 /proc/[0-9]*/cmdline --exclude-dir=$$; do sleep 0.05; done; echo gone"
        pipes = Pipes(socket, script.replace("4321", "4[3]21"), timeout="50s")
        assert pipes.wait()["code"] == 0 and pipes.streams[1] == b"gone\n"


def test_pipes_have_no_size_and_nobody_comes_back(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, "read x")
        for odd in ({"type": "resize", "rows": 3, "cols": 3}, {"type": "detach"}):
            socket.send(odd)
            message = pipes.next()
            assert message["type"] == "error" and "'eof'" in message["data"]
        pipes.others.clear()
        socket.send({"type": "eof"})
        assert pipes.wait()["code"] == 1


def test_a_long_command_is_no_problem(place):
    with place.terminal() as socket:
        pipes = Pipes(socket, "printf %s ${#1}", args=["-c", 'printf %s "${#1}"', "sh", "x" * 100000])
        assert pipes.wait()["code"] == 0 and pipes.streams[1] == b"100000"


def test_a_missing_command_has_a_code(place):
    with place.terminal() as socket:
        socket.send({"command": "/no/such"})
        said = socket.receive_json()
        assert said["type"] == "error" and said["code"] == 127 and "cannot be started" in said["data"]


@pytest.mark.parametrize("script", ["sleep 1; wc -c", "sleep 1"])
def test_input_that_comes_faster_than_it_is_taken_waits(workspace, script):
    """All of it is sent before anything is taken, or although nothing ever is: more than a server should hold, or a thread could stand on."""
    size, piece = 48 << 20, 64 << 10
    frame = b"\x82\xff" + piece.to_bytes(8, "big") + bytes(4 + piece)  # masked with zeros

    def send(socket):
        with contextlib.suppress(OSError):  # of the command that takes nothing
            for _ in range(size // piece):
                socket.sock.sendall(frame)
            socket.send({"type": "eof"})

    with workspace.terminal() as socket:
        pipes = Pipes(socket, script)
        socket.sock.settimeout(WAIT)
        sender = threading.Thread(target=send, args=(socket,))
        sender.start()
        assert pipes.wait()["code"] == 0 and pipes.streams[1] == (f"{size}\n".encode() if "wc" in script else b"")
        sender.join()
    assert workspace.sh("echo still here")["stdout"] == "still here\n"
