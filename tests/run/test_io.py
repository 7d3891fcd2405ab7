"""What goes in and what comes out: bytes, exit codes, signals."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time

import pytest

from conftest import TIMEOUT, hash_tree

pytestmark = pytest.mark.docker


def test_output_and_exit_code_are_passed_on_exactly(host):
    host.write("bytes", bytes(range(256)))
    result = host.run("-q", command="cat bytes; echo err >&2; printf 'no newline'; exit 7")
    assert result.code == 7
    assert result.out == bytes(range(256)) + b"no newline"
    assert result.err == "err\n"


@pytest.mark.parametrize("code", [0, 1, 2, 125, 255])
def test_every_exit_code_is_the_commands(one, code):
    assert one.run("-q", command=f"exit {code}").code == code


def test_much_output_arrives_whole_and_in_order(one):
    result = one.run("-q", command="seq 1 400000; seq 1 1000 >&2")
    assert result.out == b"".join(b"%d\n" % n for n in range(1, 400001))
    assert result.err == "".join(f"{n}\n" for n in range(1, 1001))


def test_arguments_arrive_as_they_are(one):
    words = ["printf", "<%s>", "", "a b", "'", '"', "$HOME", "*", "\n", "ä", "-x", "--"]
    assert one.run("-q", command=words).out == b"<><a b><'><\"><$HOME><*><\n><\xc3\xa4><-x><-->"


@pytest.mark.parametrize("given", [b"", b"x", bytes(range(256)) * 4096], ids=["nothing", "a byte", "a mebibyte"])
def test_standard_input_from_a_pipe(one, given):
    assert one.run("-q", command=["cat"], input=given).out == given


def test_standard_input_from_a_file(one, tmp_path):
    (tmp_path / "in").write_bytes(b"from a file\n")
    with open(tmp_path / "in", "rb") as stdin:
        assert one.run("-q", command=["cat"], stdin=stdin).out == b"from a file\n"


def test_a_file_of_the_host_never_enters_as_standard_input(one, tmp_path):
    (tmp_path / "in").write_bytes(b"secret\n")
    with open(tmp_path / "in", "rb") as stdin:
        result = one.run("-q", command="readlink /proc/self/fd/0", stdin=stdin)
    assert result.out.startswith(b"pipe:"), result


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_do_no_harm(one, closed):
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *one.words(one.program), "run", str(one.base), "--", "sh", "-c",
                           "cat; exit 5"], stdin=subprocess.DEVNULL, env=one.env(), timeout=TIMEOUT, check=False)
    assert done.returncode == 5


def test_input_that_never_ends_is_not_waited_for(one):
    with one.start("-q", command=["true"]) as run:
        assert run.wait(TIMEOUT) == 0


def test_no_stdin_is_empty_at_once(one):
    with one.start("-q", "-n", command=["cat"]) as run:
        assert run.wait(TIMEOUT) == 0


def test_a_reader_that_leaves_ends_the_command(one):
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$@" | head -1', "sh", *one.words(one.program), "run", "-q", one.base, "--",
                           "yes"], capture_output=True, env=one.env(), timeout=TIMEOUT, check=False)
    assert (done.stdout, done.stderr) == (b"y\n", b"")
    assert done.returncode == 128 + signal.SIGPIPE


TRAPS = "trap 'echo int; exit 3' INT; trap 'echo term; exit 4' TERM; trap 'echo hup; exit 5' HUP; trap 'echo quit; exit 6' QUIT;"


@pytest.mark.parametrize("number, word, code", [(signal.SIGINT, b"int\n", 3), (signal.SIGTERM, b"term\n", 4),
                                                (signal.SIGHUP, b"hup\n", 5), (signal.SIGQUIT, b"quit\n", 6)])
def test_signals_go_to_the_command(one, number, word, code):
    with one.start("-q", command=f"{TRAPS} echo ready; while :; do sleep 0.05; done") as run:
        assert run.stdout.readline() == b"ready\n"
        one.signal(run, number)
        assert run.stdout.read() == word
        assert run.wait(TIMEOUT) == code


def test_a_command_that_a_signal_ends_gives_128_and_its_number(host):
    with host.start("-q", command="echo ready; exec sleep 60") as run:
        assert run.stdout.readline() == b"ready\n"
        host.signal(run, signal.SIGTERM)
        assert run.wait(TIMEOUT) == 128 + signal.SIGTERM
    assert host.run("-q", command="kill -USR1 $$").code == 128 + signal.SIGUSR1


def test_a_second_signal_is_passed_on_too(one):
    script = "n=0; trap 'n=$((n+1)); echo got $n; [ $n -lt 2 ] || exit 9' INT; echo ready; while :; do sleep 0.05; done"
    with one.start("-q", command=script) as run:
        assert run.stdout.readline() == b"ready\n"
        for number in (1, 2):
            one.signal(run, signal.SIGINT)
            assert run.stdout.readline() == b"got %d\n" % number
        assert run.wait(TIMEOUT) == 9


def test_who_insists_is_obeyed(one):
    with one.start("-q", command="trap '' INT TERM; echo ready; while :; do sleep 0.05; done") as run:
        assert run.stdout.readline() == b"ready\n"
        until = time.monotonic() + TIMEOUT
        while run.poll() is None and time.monotonic() < until:  # two that come close together may count as one
            one.signal(run, signal.SIGINT)
            time.sleep(0.2)
        assert run.wait(TIMEOUT) == 128 + signal.SIGKILL


def bytes_in(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_signals_are_heard_while_nobody_reads_the_output(one):
    with one.start("-q", command="echo ready >&2; exec yes") as run:
        assert run.stderr.readline() == b"ready\n"
        before = 0
        while not before or bytes_in(run.stdout) != before:  # until the pipe is full
            before = bytes_in(run.stdout)
            time.sleep(0.3)
        one.signal(run, signal.SIGTERM)
        time.sleep(0.5)
        assert run.stdout.read().startswith(b"y\ny\n")
        assert run.wait(TIMEOUT) == 128 + signal.SIGTERM


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_an_early_signal_ends_it_and_leaves_nothing(one, delay):
    with one.start("-q", command=["sleep", "60"]) as run:
        time.sleep(delay)
        one.signal(run, signal.SIGINT)
        # Before our first step the signal ends us as it ends any program.
        assert run.wait(TIMEOUT) in (128 + signal.SIGINT, -signal.SIGINT)
    assert one.names() == []


def test_a_signal_that_was_ignored_stays_ignored(one):
    done = subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *one.words(one.program), "run", "-q", str(one.base), "--",
                             "sh", "-c", "echo ready; sleep 1; echo done"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            env=one.env())
    with done as run:
        assert run.stdout.readline() == b"ready\n"
        one.signal(run, signal.SIGINT)
        assert run.stdout.read() == b"done\n"
        assert run.wait(TIMEOUT) == 0


def test_a_timeout_kills_the_whole_tree_and_keeps_what_was_written(host):
    begin = time.monotonic()
    result = host.run("-t", "500ms", command="echo kept > kept; (trap '' TERM INT HUP; sleep 60) & sleep 60")
    assert result.code == 124
    assert time.monotonic() - begin < 50
    assert result.err.startswith("agentfense: it was killed after 0.500 seconds (--timeout)\n")
    assert host.run("--in", host.name(), "-q", command="cat kept").out == b"kept\n"


def test_what_a_command_leaves_running_ends_with_it(one):
    begin = time.monotonic()
    result = one.run("-q", command="setsid sleep 300 >/dev/null 2>&1 & sleep 300 & echo done")
    assert (result.code, result.out) == (0, b"done\n")
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("what, code", [("nosuchprogram", 127), ("./none", 127), ("/etc/passwd", 126), ("/usr", 126)])
def test_what_cannot_be_run_is_126_or_127(one, what, code):
    result = one.run(command=[what])
    assert result.code == code
    assert result.err.splitlines()[0].startswith(f"agentfense: cannot run '{what}': ")


def test_a_script_of_the_project_runs(one):
    one.write("hi", "#!/bin/sh\necho hi from $0\n", mode=0o755)
    assert one.run("-q", command=["./hi"]).out == b"hi from ./hi\n"


def test_the_project_is_never_touched(host):
    host.write("sub/a", "a")
    host.write("sub/b", "b")
    os.symlink("sub/a", host.base / "link")
    before = hash_tree(host.base)
    result = host.run("-q", command="echo new > new; echo more >> hello.txt; rm sub/a; rm -r sub; mkdir sub; touch link; chmod 700 "
                                    "hello.txt; ln -s x y; mv hello.txt bye.txt")
    assert result.code == 0, result
    assert hash_tree(host.base) == before
    assert host.names() != []
