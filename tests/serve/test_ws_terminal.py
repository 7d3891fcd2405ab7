"""Terminals in workspaces, over WebSockets."""

import pytest
from server import eventually
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
