"""shell, attach, exec -it and exec -i: the same in a workspace and in a sandbox over a codebase, without a server and with one."""

import os
import signal
import subprocess

import pytest
from on_terminal import OnTerminal
from place import eventually

PROMPT = ["-e", "PS1=ready> ", "-e", "PROMPT_COMMAND="]
LEAVE = b"\x10\x11"  # Ctrl-P Ctrl-Q


@pytest.fixture(scope="module", params=["workspace", "codebase"])
def target(request, cli, tmp_path_factory):
    top = tmp_path_factory.mktemp("project")
    (top / "a.txt").write_text("a\n")
    if request.param == "workspace":
        made = cli.say("create", "--scope", top, "--preset", "full-access")
        yield made
        cli.run("rm", "-f", made)
    else:
        codebase = cli.say("codebase", "create", "terminals", top)
        made = cli.say("create", "--preset", "full-access", "--start", codebase)
        yield made
        cli.run("rm", "-f", made)
        cli.run("codebase", "rm", "-f", codebase)


# What is tried in both kinds of sandbox without a server and with one; the rest in one kind each, unless there is time.
EVERYWHERE = {"test_a_shell_on_a_terminal", "test_leaving_and_coming_back", "test_output_comes_while_the_command_runs"}


@pytest.fixture(autouse=True)
def thrift(request):
    if "target" not in request.fixturenames or os.environ.get("AGENTFENSE_LONG"):
        return
    kinds = {"remote": "workspace", "private": "codebase"}
    names = request.node.callspec.id.split("-")
    if request.node.originalname not in EVERYWHERE and kinds[names[0]] not in names:
        pytest.skip("with AGENTFENSE_LONG=1")


def shell(cli, target, *more):
    terminal = OnTerminal(cli, "shell", "--shell", "sh", *PROMPT, *more, target)
    terminal.read_until(b"ready> ")
    return terminal


def test_a_shell_on_a_terminal(cli, target):
    with shell(cli, target) as terminal:
        assert terminal.is_raw()
        terminal.type("stty size; tty; echo $TERM; pwd; cat a.txt\r")
        terminal.read_until(b"33 101\r\n/dev/pts/")
        terminal.read_until(b"xterm\r\n/workspace\r\na\r\n")
        terminal.resize(44, 55)
        terminal.type("stty size\r")
        terminal.read_until(b"44 55\r\n")
        # Ctrl-C is the command's: the shell goes on, and so do we. What has the terminal says so itself.
        terminal.type("sh -c 'echo be\"\"gun; exec sleep 1000'\r")
        terminal.read_until(b"begun\r\n")
        terminal.type(b"\x03")
        terminal.read_until(b"ready> ")
        terminal.type("echo $?; exit 42\r")
        terminal.read_until(b"130\r\n")
        assert terminal.wait() == 42


def test_the_best_shell_there_is(cli, target):
    with OnTerminal(cli, "shell", target) as terminal:
        terminal.type("echo shell is ${BASH_VERSION:+bash}; exit\r")
        terminal.read_until(b"shell is bash\r\n")
        assert terminal.wait() == 0
    assert cli.say("shell", target, input=b"echo $((40 + 2)); test -t 0 || exit 5", code=5) == "42"


def test_a_command_with_a_terminal(cli, target):
    for words in (["-it"], ["-ti"], ["--tty"]):
        with OnTerminal(cli, "exec", *words, "-e", "TERM=dumb", "-w", "/tmp", target, "--", 'test -t 1; echo "$? $TERM $PWD"; exit 7') as terminal:
            terminal.read_until(b"0 dumb /tmp\r\n")
            assert terminal.wait() == 7
    with OnTerminal(cli, "exec", "-it", target, "--", "sh", "-c", "kill -TERM $$") as terminal:
        assert terminal.wait() == 128 + signal.SIGTERM
    with OnTerminal(cli, "exec", "-it", target, "--", "/no/such", "command") as terminal:
        assert terminal.wait() == 127 and b"cannot be started" in terminal.seen


def test_a_terminal_without_one_of_ours(cli, target):
    assert cli.run("exec", "-it", target, "--", "test -t 0 && cat; echo end").out.endswith("end\r\n")
    assert "one\r\n" in cli.run("exec", "-it", target, "--", "read x; echo $x", input=b"one\n").out


def test_leaving_and_coming_back(cli, target):
    with shell(cli, target) as terminal:
        terminal.type("X=kept; echo be''fore\r")
        terminal.read_until(b"before\r\n")
        # Half of the keys is no leaving, and reaches the shell when it is known to be.
        terminal.type(b"\x10")
        terminal.type("\x15echo go''es on\r")
        terminal.read_until(b"goes on\r\n")
        terminal.type(LEAVE)
        terminal.read_until(b"detached; 'agentfense attach ")
        left = terminal.seen
        assert terminal.wait() == 0
        process = (left + terminal.seen).split()[1].strip(b"'").decode()
        assert process.startswith("pr_")
    with OnTerminal(cli, "attach", target, rows=20, cols=60) as terminal:
        terminal.read_until(b"before\r\n")
        terminal.type("echo $X; stty size\r")
        terminal.read_until(b"kept\r\n20 60\r\n")
        # Others are not kept waiting: without a server, the state is theirs meanwhile.
        assert "another client listens" in cli.run("attach", target, process, code=125).err
        assert process in cli.run("process", "list", target).out and cli.say("exec", target, "--", "echo beside") == "beside"
        terminal.type(LEAVE)
        assert terminal.wait() == 0
    with OnTerminal(cli, "attach", "--detach-keys", "", target, process) as terminal:
        terminal.read_until(b"before\r\n")
        terminal.type("exit 4\r")
        assert terminal.wait() == 4
    assert "no terminal runs" in cli.run("attach", target, code=125).err
    assert "has ended" in cli.run("attach", target, process, code=125).err
    assert "is no process" in cli.run("attach", target, "pr_0123456789abcdef", code=125).err


def test_what_a_shell_left_in_the_background_is_no_terminal(cli, target):
    with shell(cli, target) as terminal:
        terminal.type("sleep 300 >/dev/null 2>&1 & exit\r")
        assert terminal.wait() == 0
    assert "no terminal runs in" in cli.run("attach", target, code=125).err
    cli.run("process", "kill", target, "--all")


def test_other_keys_leave_it_too(cli, target):
    with shell(cli, target, "--detach-keys", "ctrl-a,x") as terminal:
        terminal.type(b"\x10\x11\x15echo st''ays\r")
        terminal.read_until(b"stays\r\n")
        terminal.type(b"\x01x")
        terminal.read_until(b"detached; ")
        assert terminal.wait() == 0
    with OnTerminal(cli, "attach", target) as terminal:
        terminal.type("exit\r")
        assert terminal.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_us_gets_the_terminal_back(cli, target, number):
    with OnTerminal(cli, "exec", "-it", target, "--", "trap 'exit 1' HUP TERM; echo begun; while :; do sleep 0.1; done") as terminal:
        terminal.read_until(b"begun\r\n")
        terminal.child.send_signal(number)
        assert terminal.wait() == 128 + number
    eventually(lambda: cli.json("process", "list", "--running", target)["processes"] == [])


def test_input_is_passed_on_as_it_is(cli, target):
    content = bytes(range(256)) * 5000  # with all keys that mean something to a terminal
    done = cli.run("exec", "-i", target, "--", "cat; echo end >&2", input=content)
    assert done.stdout == content and done.err == "end\n"
    # A command that does not want it does not get it.
    assert cli.run("exec", "-i", target, "--", "head -c 3", input=content).stdout == content[:3]
    assert cli.run("exec", "-i", target, "--", "exit 9", input=content, code=9).stdout == b""


def test_input_and_output_are_passed_on_as_they_come(cli, target):
    command = subprocess.Popen([cli.program, "exec", "-i", target, "--", "while read line; do echo got $line; done; exit 3"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cli.environment())
    try:
        for word in (b"one", b"two"):
            command.stdin.write(word + b"\n")
            command.stdin.flush()
            assert command.stdout.readline() == b"got " + word + b"\n"
        rest = command.communicate(timeout=60)
        assert rest == (b"", b"") and command.returncode == 3
    finally:
        command.kill()
        command.communicate()


def test_output_comes_while_the_command_runs(cli, target):
    reader, writer = os.pipe()
    command = subprocess.Popen([cli.program, "exec", "-t", "5m", target, "--", "echo out; echo err >&2; while ! test -e stop; do sleep 0.1; done; exit 6"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, env=cli.environment())
    os.close(writer)
    try:
        assert command.stdout.readline() == b"out\n" and os.read(reader, 100) == b"err\n"
        assert command.poll() is None
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 130
    finally:
        command.kill()
        command.communicate()
        os.close(reader)


def test_streams_are_whole_and_apart(cli, target):
    done = cli.run("exec", target, "--", "head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2; printf '\\001\\377' >&2")
    assert done.stdout == bytes(1000000) and done.stderr == bytes(300000) + b"\1\xff"
    with subprocess.Popen([cli.program, "exec", target, "--", "yes"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=cli.environment()) as command:
        command.stdout.read(1000)
        command.stdout.close()
        assert command.wait(60) == 141


def test_a_slow_reader_loses_nothing(cli, target):
    with subprocess.Popen([cli.program, "exec", target, "--", "seq 100000"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          env=cli.environment()) as command:
        first = command.stdout.read(1)
        # The command has ended long since; its words wait for us.
        assert (first + command.stdout.read()).split() == [str(n).encode() for n in range(1, 100001)]
        assert command.wait(60) == 0


def test_how_commands_end(cli, target):
    cli.run("exec", target, "--", "exit 42", code=42)
    cli.run("exec", target, "--", "kill -KILL $$", code=137)
    for limit in ("300ms", "3s", "30s"):  # on a busy machine the command may need longer to begin
        done = cli.run("exec", "-i", "-t", limit, target, "--", "echo begun; sleep 300", code=124)
        assert done.err == "agentfense exec: command timed out\n"
        if done.out:
            break
    assert done.out == "begun\n"
    assert "cannot run '/no/such'" in cli.run("exec", "-i", target, "--", "/no/such", "command", code=127).err


@pytest.mark.parametrize("words, said", [
    (["exec", "-it", "-t", "5s", "X", "--", "sh"], "has no --timeout"),
    (["exec", "-it", "--json", "X", "--", "sh"], "neither --detach nor --json"),
    (["exec", "-it", "-d", "X", "--", "sh"], "neither --detach nor --json"),
    (["exec", "-it", "-n", "X", "--", "sh"], "-i and -n contradict"),
    (["exec", "-it", "X"], "'agentfense shell SANDBOX' has a shell"),
    (["exec", "-it", "--detach-keys", "ctrl-p,nonsense", "X", "--", "sh"], "'nonsense' is neither"),
    (["shell", "--json", "X"], "has no --json"),
    (["shell", "--detach-keys", "ctrl-1", "X"], "'ctrl-1' is neither"),
    (["attach", "X", "Y", "Z"], "one word too many"),
])
def test_what_is_no_call(make, words, said):
    assert said in make().run(*words, code=2).err


def test_who_is_not_there(cli):
    for words in (["shell", "nobody"], ["attach", "nobody"], ["exec", "-it", "nobody", "--", "sh"]):
        assert "nobody" in cli.run(*words, code=125).err
    for words in (["shell"], ["exec", "-i"]):
        assert "there is no sandbox" in cli.run(*words, "00000000-0000-4000-8000-000000000000", *(["--", "true"] if words[0] == "exec" else []), code=125).err
