"""exec: output, input, exit codes, interruptions; without a server and with one."""

import array
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios

from place import eventually


def test_output_is_exact_and_apart(cli, sandbox):
    done = cli.run("exec", sandbox, "--", "printf 'a\\000\\377b'; printf 'err\\n' >&2")
    assert (done.stdout, done.stderr) == (b"a\0\xffb", b"err\n")


def test_the_exit_code_is_the_commands(cli, sandbox):
    cli.run("exec", sandbox, "--", "exit 42", code=42)
    cli.run("exec", sandbox, "--", "kill -TERM $$", code=128 + signal.SIGTERM)
    assert cli.json("exec", sandbox, "--", "echo out; exit 9", code=9)["exitCode"] == 9


def test_words_arrive_as_they_are_typed(cli, sandbox):
    words = ["a b", "", "it's", "$HOME", "*", "back\\slash", "new\nline", '"']
    assert cli.run("exec", sandbox, "--", "printf", "<%s>", *words).out == "".join(f"<{word}>" for word in words)


def test_a_command_needs_no_dashes_before_it(cli, sandbox):
    assert cli.say("exec", sandbox, "sh", "-c", "echo $0 $1", "-e", "--json") == "-e --json"
    assert cli.say("exec", "-w", "src", sandbox, "pwd") == "/workspace/src"
    assert cli.json("exec", "--json", sandbox, "sh", "-c", "exit 9", code=9)["exitCode"] == 9


def test_a_single_word_is_a_line_for_the_shell(cli, sandbox):
    assert cli.say("exec", sandbox, "--", "echo one | tr a-z A-Z") == "ONE"


def test_variables_and_directory_are_given(cli, sandbox, tmp_path):
    (tmp_path / "env").write_text("# nothing\nFROM_FILE=f=1\n\nTWO=2\n")
    assert cli.say("exec", "-e", "A=1", "-e", "OURS", "--env-file", tmp_path / "env", "-w", "src", sandbox, "--",
                   'echo "$A $OURS $FROM_FILE $TWO $PWD"', env={"OURS": "ours"}) == "1 ours f=1 2 /workspace/src"
    assert "not the name of a variable" in cli.run("exec", "-e", "1A=2", sandbox, "--", "true", code=2).err


def test_standard_input_is_passed_on_when_asked_for(cli, sandbox):
    data = bytes(range(256)) * 1000
    assert cli.run("exec", "-i", sandbox, "--", "cat", input=data).stdout == data
    assert cli.run("exec", sandbox, "--", "cat", input=data).stdout == b""
    assert cli.run("exec", "-n", sandbox, "--", "cat", input=data).stdout == b""
    assert "larger than 2 MB" in cli.run("exec", "-i", "--json", sandbox, "--", "cat", input=b"x" * (2 << 20) + b"x", code=125).err


def test_a_pipe_that_never_ends_is_not_waited_for(cli, sandbox):
    reader, writer = os.pipe()
    try:
        done = subprocess.run([cli.program, "exec", sandbox, "--", "cat; echo done"], stdin=reader, capture_output=True,
                              env=cli.environment(), timeout=60)
        assert (done.returncode, done.stdout) == (0, b"done\n")
    finally:
        os.close(reader)
        os.close(writer)


def test_a_loop_over_lines_keeps_its_lines(cli, sandbox):
    script = 'while read -r line; do "$AF" exec "$BOX" -- echo "$line"; done'
    done = subprocess.run(["/bin/sh", "-c", script], input=b"one\ntwo\n", capture_output=True, timeout=60,
                          env=cli.environment(AF=cli.program, BOX=sandbox))
    assert done.stdout == b"one\ntwo\n"


def test_a_timeout_is_124(cli, sandbox):
    for seconds in (0.3, 3, 30):  # on a busy machine the command may need longer to begin
        done = cli.run("exec", "-t", f"{seconds}s", sandbox, "--", "echo begun; sleep 300", code=124)
        assert done.err == f"agentfense exec: command timed out after {seconds:.3f} seconds (--timeout)\n"
        if done.out:
            break
    assert done.out == "begun\n"
    assert cli.json("exec", "-t", "300ms", sandbox, "--", "sleep 30", code=124) == {"exitCode": 124, "timedOut": True}


def test_much_output_streams_whole(cli, sandbox):
    assert len(cli.run("exec", sandbox, "--", "head -c 20000000 /dev/zero").stdout) == 20000000


def test_changes_go_into_the_codebase(cli, codebase, sandbox):
    cli.run("exec", sandbox, "--", "echo made > here")
    assert cli.say("cp", f"{codebase}:here", "-") == "made"


def test_an_interruption_kills_the_command(cli, sandbox):
    command = cli.start("exec", "-t", "10m", sandbox, "--", "echo begun; sleep 1000")
    try:
        assert command.stdout.readline() == b"begun\n"
        command.send_signal(signal.SIGINT)
        rest, errors = command.communicate(timeout=60)
        assert (command.returncode, rest, errors) == (128 + signal.SIGINT, b"", b"")
    finally:
        if command.poll() is None:
            command.kill()
        command.communicate()
    eventually(lambda: cli.run("exec", sandbox, "--", "pgrep sleep || ps ax | grep '[s]leep 1000' || echo none").out == "none\n")


def end(process):
    """By SIGTERM, which it hears by itself and is not killed by."""
    try:
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        process.wait()


def test_it_ends_while_nobody_reads(cli, sandbox):
    command = cli.start("exec", sandbox, "--", "yes")

    def is_full():
        held = array.array("i", [0])
        fcntl.ioctl(command.stdout.fileno(), termios.FIONREAD, held)
        return held[0] > 60000

    eventually(is_full)
    end(command)


def test_it_ends_while_nobody_writes(cli, sandbox):
    command = subprocess.Popen([cli.program, "exec", "-i", sandbox, "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=cli.environment())

    def holds_signals():
        blocked = re.search(r"SigBlk:\s*(\w+)", open(f"/proc/{command.pid}/status").read()).group(1)
        return int(blocked, 16) >> (signal.SIGTERM - 1) & 1

    eventually(holds_signals)
    end(command)


def test_a_reader_that_leaves_ends_it(cli, sandbox):
    command = cli.start("exec", sandbox, "--", "yes")
    command.stdout.read(1000)
    command.stdout.close()
    assert command.wait(60) == 141
    command.stderr.close()


def test_colours_are_for_terminals(cli, sandbox):
    def on_a_terminal(**env):
        script = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
        return subprocess.run([sys.executable, "-c", script, cli.program, "ps"], stdin=subprocess.DEVNULL, capture_output=True,
                              env=cli.environment(**env), timeout=60).stdout

    assert b"\033[32mrunning\033[0m" in on_a_terminal()
    assert b"\033" not in on_a_terminal(NO_COLOR="1")
    assert b"\033" not in cli.run("ps").stdout
