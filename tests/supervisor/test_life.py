"""The life of a sandbox: how it begins and ends, what outlives it, what is told about it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from ctl import (DETACHED, ERROR, EXITED, FAILED_PRECONDITION, INVALID_ARGUMENT, LOST, NOBODY, OK, OOM, SIGNALED, STATUS_REPLY,
                 SYNC, WAIT, eventually, rules_file, spec_file)

IS_ROOT = os.geteuid() == 0


def assert_stopped(box, code=0):
    assert box.wait() == code
    box.assert_nothing_runs()
    assert not (box.dir / "ctl").exists()
    assert box.state_file()["state"] == "stopped"


# Beginning and end.

def test_the_states_of_a_life(make):
    box = make().launch()
    owner = box.owner.greet()
    assert owner.hello.state == "booting" and owner.hello.version == 2 and owner.hello.name == box.name
    owner.until(lambda: owner.states)
    assert owner.states == ["running"]
    box.note_namespace(owner.status().init_pid)
    assert box.client().hello.state == "running"
    state = box.state_file()
    assert state["state"] == "running" and int(state["pid"]) == box.pid and int(state["init"]) == owner.status().init_pid
    owner.stop()
    owner.drain()
    assert owner.states == ["running", "stopping", "stopped"]
    assert_stopped(box)


def test_the_socket_is_for_its_user_only(box):
    assert (box.dir / "ctl").stat().st_mode & 0o777 == 0o600


def test_stop_gives_grace(box):
    client = box.client()
    polite = client.start("trap 'echo bye; echo bye >/workspace/bye; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    polite.wait_output(b"up")
    client.stop(60_000)
    client.drain()
    assert (polite.code, polite.out) == (3, b"up\nbye\n")
    assert_stopped(box)
    assert box.delta("bye").read_text() == "bye\n"


def test_stop_gives_grace_to_what_was_left_in_the_background(box):
    run = box.run("(trap 'sleep 0.3; echo bye >/workspace/bye; exit' TERM; touch /tmp/up; while :; do sleep 0.05; done) >/dev/null 2>&1 & "
                  "while ! test -e /tmp/up; do sleep 0.02; done")
    assert run.code == 0
    box.owner.stop(60_000)
    box.owner.drain()
    assert_stopped(box)
    assert box.delta("bye").read_text() == "bye\n"


def test_stop_without_grace(box):
    client = box.client()
    stubborn = client.start("trap 'echo never' TERM; echo up; while :; do sleep 0.05; done").wait_output(b"up")
    client.stop(0)
    client.drain()
    assert stubborn.finished.end == LOST and stubborn.so_far() == b"up\n"
    assert_stopped(box)


def test_grace_ends(box):
    client = box.client()
    stubborn = client.start("trap '' TERM; echo up; while :; do sleep 0.05; done").wait_output(b"up")
    client.stop(700)
    client.drain()
    assert stubborn.finished.end == LOST
    assert_stopped(box)


def test_while_it_stops_nothing_is_started(box):
    client = box.client()
    read_fd, write_fd = os.pipe()
    client.start("trap '' TERM; echo up; read line", stdin=read_fd).wait_output(b"up")
    os.close(read_fd)
    client.stop(60_000)
    refused = client.start("echo no").wait()
    assert refused.error.code == FAILED_PRECONDITION and "stopping" in refused.error.text
    assert client.open_session().code == FAILED_PRECONDITION
    assert client.set_rules([("/**", "read")]).code == FAILED_PRECONDITION
    os.close(write_fd)
    client.drain()


def test_sigterm_stops(make):
    box = make().start(own=False)
    client = box.client()
    run = client.start("trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done").wait_output(b"up")
    os.kill(box.pid, signal.SIGTERM)
    client.drain()
    assert run.code == 0 and client.states == ["stopping", "stopped"]
    assert_stopped(box)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGPIPE])
def test_other_signals_mean_nothing(box, number):
    os.kill(box.pid, number)
    assert box.run("echo on").out == b"on\n"


def test_the_end_of_the_owner_is_the_end(box):
    other = box.client()
    other.start("sleep 961").wait_started()
    box.owner.close()
    box.owner = None
    other.drain()
    assert other.states == ["stopping", "stopped"]
    assert_stopped(box)


def test_without_an_owner_it_lives_on(make):
    box = make().start(own=False)
    box.clients.pop().close()
    assert box.run("echo on").out == b"on\n"


def test_one_who_only_wanted_the_news_may_leave(make):
    box = make().start(kind="--report-fd")
    box.owner.close()
    box.owner = None
    assert box.run("echo on").out == b"on\n"


@pytest.mark.parametrize("when", range(6))
def test_an_owner_that_leaves_while_it_boots(make, when):
    box = make().launch()
    time.sleep(when * 0.02)
    box.owner.close()
    box.owner = None
    assert_stopped(box)


def test_a_stop_in_the_very_moment(make):
    """The news that init is there, and that nobody wants it, come in one turn."""
    box = make().launch()

    def children():
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text().split()
        return []

    eventually(children)
    os.kill(box.pid, signal.SIGSTOP)
    box.owner.stop()
    time.sleep(0.7)  # init says hello meanwhile
    os.kill(box.pid, signal.SIGCONT)
    box.owner.drain()
    assert box.owner.states[-2:] == ["stopping", "stopped"]
    assert_stopped(box)


def test_one_supervisor_for_one_sandbox(box):
    second = subprocess.run([box.program, str(box.dir)], capture_output=True, text=True, timeout=WAIT, check=False)
    assert second.returncode == 1 and "running already" in second.stderr
    assert box.run("echo on").out == b"on\n"
    assert (box.dir / "ctl").exists()


@pytest.mark.parametrize("arguments", [[], ["relative"], ["/a", "/b"], ["--owner-fd", "77", "/a"], ["--owner-fd", "x", "/a"],
                                       ["--unknown", "/a"]])
def test_a_bad_call(make, arguments):
    done = subprocess.run([make().program, *arguments], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 2 and "usage" in done.stderr


def test_a_directory_that_is_none_and_a_spec_that_is_none(make, tmp_path):
    box = make()
    done = subprocess.run([box.program, str(tmp_path / "nothing")], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 1 and "nothing" in done.stderr
    (box.dir / "spec").write_bytes(b"garbage")
    done = subprocess.run([box.program, str(box.dir)], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 1 and "spec" in done.stderr


@pytest.mark.parametrize("spec, word", [(dict(runtime="nonsense"), "runtime"), (dict(rules=[("/a/../../b", "read")]), ""),
                                        (dict(rules=[("/a", 9)]), "level")])
def test_what_cannot_boot_says_why(make, spec, word):
    box = make(**spec).launch()
    box.owner.drain()
    assert box.owner.states == ["failed"]
    assert box.owner.state.code != OK and word in box.owner.state.text and box.owner.state.text
    assert box.wait() == 1
    state = box.state_file()
    assert state["state"] == "failed" and state["error"] == box.owner.state.text
    assert not (box.dir / "ctl").exists()
    eventually(box.lock_is_free)


def test_a_base_that_is_not_there(make):
    box = make()
    box.base.rmdir()
    box.launch().owner.drain()
    assert box.owner.states == ["failed"] and "base" in box.owner.state.text


# Again, and after the worst.

def test_it_goes_on_from_where_it_was(make):
    box = make(files={"old": "base\n"}).start()
    assert box.run("echo new >new; echo changed >old; rm -f gone; mkdir d; echo x >d/x").code == 0
    box.owner.stop()
    box.owner.drain()
    assert_stopped(box)
    box.process = None
    box.start()
    assert box.run("cat new old d/x").out == b"new\nchanged\nx\n"
    assert (box.base / "old").read_text() == "base\n"


def kill_of(box, who):
    if who == "supervisor":
        return box.pid
    if who == "init":
        return box.init_pid
    return int(pathlib.Path(f"/proc/{box.init_pid}/status").read_text().split("PPid:")[1].split()[0])


@pytest.mark.docker
@pytest.mark.parametrize("who", ["supervisor", "init", "bwrap"])
def test_whatever_is_killed(box, who):
    """All of the sandbox ends, what was written is there, and it starts again."""
    client = box.client()
    run = client.start("echo before >/workspace/before; setsid sleep 971 & (setsid sleep 972 &) ; echo up; sleep 973").wait_output(b"up")
    session = client.open_session()
    client.say(session, "setsid sleep 974 & echo x").wait()
    victim = kill_of(box, who)
    assert victim > 1
    os.kill(victim, signal.SIGKILL)
    client.drain()
    if who == "supervisor":
        assert box.wait() == -signal.SIGKILL and run.finished is None
    else:
        assert box.wait() == 1
        assert client.states == ["failed"] and run.finished.end == LOST and run.finished.text
        assert box.state_file()["state"] == "failed"
    box.assert_nothing_runs()
    assert box.delta("before").read_text() == "before\n"
    box.hang_up()
    box.process = None
    box.start()
    assert box.run("cat before; echo after >after; cat after").out == b"before\nafter\n"


def test_a_killed_supervisor_leaves_a_state_file_that_lies_and_a_lock_that_does_not(box):
    os.kill(box.pid, signal.SIGKILL)
    box.wait()
    assert box.state_file()["state"] == "running"
    eventually(box.lock_is_free)


@pytest.mark.docker
def test_many_lives(make):
    box = make()
    for i in range(8):
        box.start()
        assert box.run(f"echo {i} >>log; wc -l <log").out == b"%d\n" % (i + 1)
        if i % 2:
            os.kill(box.pid, signal.SIGKILL)
        else:
            box.owner.stop()
        box.owner.drain()
        box.wait()
        box.hang_up()
        box.assert_nothing_runs()
        box.process = None


@pytest.mark.skipif(not IS_ROOT, reason="the other tests are an ordinary user's already")
def test_as_an_ordinary_user(make):
    box = make(user=NOBODY, files={"f": "base\n"}).start()
    assert box.run("cat f; echo x >f; cat f; id -un").out == b"base\nx\nagent\n"
    session = box.client()
    name = session.open_session()
    assert session.say(name, "cd /tmp; pwd").wait().out == b"/tmp\n"
    assert box.run("sleep 981 & sleep 982", timeout_ms=500).finished.end == 3
    box.owner.stop()
    box.owner.drain()
    assert_stopped(box)
    assert box.delta("f").read_text() == "x\n"


# Rules.

def test_new_rules_hold_at_once_and_after_a_restart(make):
    box = make(files={"secret": "s\n", "open": "o\n"}).start()
    client = box.client()
    assert client.run("cat secret open").out == b"s\no\n"
    watcher = client.start("while :; do cat secret >/dev/null 2>&1 || echo gone; sleep 0.02; done")
    assert client.set_rules([("/**", "read"), ("/secret", "none")]).kind == OK
    run = box.run("cat secret; ls; echo x >new")
    assert b"open" in run.out and b"secret" not in run.out and run.code != 0
    watcher.wait_output(b"gone")
    box.owner.stop()
    box.owner.drain()
    box.wait()
    box.hang_up()
    box.process = None
    box.start()
    assert box.run("ls; echo x >new").out == b"open\n"
    assert box.client().set_rules([("/**", "write")]).kind == OK
    assert box.run("cat secret; echo x >new; cat new").out == b"s\nx\n"


@pytest.mark.parametrize("content", [b"", b"garbage", rules_file([("/x", "none")])[:-1], rules_file([("../x", "none")]),
                                     rules_file([("/x", 7)]), rules_file([("/[", "none")]),
                                     spec_file("other", "/", [("/**", "none")])])
def test_bad_rules_change_nothing(make, content):
    box = make(files={"f": "x\n"}).start()
    before = (box.dir / "spec").read_bytes()
    reply = box.owner.set_rules(content)
    assert reply.kind == ERROR and reply.code == INVALID_ARGUMENT and reply.text
    assert (box.dir / "spec").read_bytes() == before
    assert box.run("cat f; echo y >f; cat f").out == b"x\ny\n"


def test_rules_through_a_pipe_are_refused(box):
    read_fd, write_fd = os.pipe()
    assert box.owner.ask(39, fds=[read_fd]).kind == ERROR
    os.close(read_fd)
    os.close(write_fd)
    assert box.run("echo on").out == b"on\n"


# What is told.

@pytest.mark.docker
def test_status(make):
    box = make(quota=1 << 30).start()  # bytes are counted where they are limited
    status = box.owner.status()
    assert status.state == "running" and status.pid == box.pid
    assert (status.execs, status.sessions, status.clients) == (0, 0, 1)
    assert os.readlink(f"/proc/{status.init_pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    assert abs(status.started_ns - time.time_ns()) < 3600 * 10**9
    client = box.client()
    client.start("sleep 100").wait_started()
    client.open_session()
    client.run("head -c 100000 /dev/zero >file; sync")
    eventually(lambda: client.status().execs == 1)  # it counts until its last process is gone, which is a moment after its end
    status = client.status()
    assert (status.execs, status.sessions, status.clients) == (1, 1, 2)
    assert status.used_bytes >= 100000 and status.used_inodes >= 1 and status.requests > 0
    assert status.last_event >= 4
    client.close()
    eventually(lambda: (box.owner.status().execs, box.owner.status().clients) == (0, 1))


def test_sync(box):
    assert box.run("echo x >f").code == 0
    assert box.owner.ask(SYNC, b"\0").kind == OK


def test_events_of_commands_and_sessions(box):
    watcher = box.client().watch()
    client = box.client()
    assert client.run("echo a; exit 5", name="one").code == 5
    client.run("kill -9 $$", name="two")
    client.run(["/no/such"], name="three")
    session = client.open_session(name="sess")
    client.say(session, "exit 2", name="four").wait()
    watcher.wait_event(lambda e: e.event == "exec_finished" and e.subject == "four")
    watcher.wait_event(lambda e: e.event == "session_closed")
    events = watcher.events
    assert [e.number for e in events] == list(range(1, len(events) + 1))
    started = {e.subject: e for e in events if e.event == "exec_started"}
    finished = {e.subject: e for e in events if e.event == "exec_finished"}
    assert set(started) == {"one", "two", "four"} and set(finished) == {"one", "two", "three", "four"}
    assert started["one"].detail == "/bin/sh -c echo a; exit 5" and started["four"].detail == "exit 2"
    assert finished["one"].numbers[:2] == [EXITED, 5] and finished["two"].numbers[:2] == [SIGNALED, 9]
    assert finished["three"].numbers[:2] == [4, 127] and finished["four"].numbers[:2] == [EXITED, 2]
    assert all(e.exec == e.subject for e in [*started.values(), *finished.values()])
    (opened,), (closed,) = ([e for e in events if e.event == f"session_{w}"] for w in ("opened", "closed"))
    assert opened.subject == closed.subject == "sess" and closed.detail and closed.numbers[0] > 0
    assert all(abs(e.wall_ns - time.time_ns()) < 3600 * 10**9 for e in events)


def test_events_after_a_number(box):
    client = box.client()
    for _ in range(5):
        client.run("true")
    first = box.client().watch()
    first.until(lambda: len(first.events) >= 10)
    second = box.client().watch(after=first.events[6].number)
    second.until(lambda: len(second.events) >= 3)
    assert [e.number for e in second.events] == [8, 9, 10]
    third = box.client().watch(after=10)
    client.run("true", name="new")
    third.until(lambda: len(third.events) >= 2)
    assert [e.subject for e in third.events] == ["new", "new"]
    far = box.client().watch(after=2**64 - 1)
    client.run("true")
    assert far.status().kind == STATUS_REPLY and not far.events


def test_old_events_are_forgotten_and_none_is_told_twice(box):
    client = box.client()
    for _ in range(12):
        for run in [client.start("true") for _ in range(50)]:
            run.wait()
    watcher = box.client().watch()
    last = watcher.status().last_event
    assert last == 1200
    watcher.until(lambda: watcher.events and watcher.events[-1].number == last)
    assert [e.number for e in watcher.events] == list(range(last - 1023, last + 1))


def test_a_watcher_that_does_not_read_loses_nothing_that_is_kept(box):
    watcher = box.client().watch()
    client = box.client()
    text = "x" * 400
    for _ in range(8):
        for run in [client.start(["/bin/true", text]) for _ in range(50)]:
            run.wait()
    assert watcher.status().last_event == 800
    watcher.until(lambda: watcher.events and watcher.events[-1].number == 800)
    assert [e.number for e in watcher.events] == list(range(1, 801))


def test_refusals_name_path_and_command(make):
    box = make(rules=[("/**", "read"), ("/hidden", "none"), ("/listed", "view")],
               files={"hidden": "h", "listed": "l", "open": "o"}).start()
    watcher = box.client().watch()
    client = box.client()
    assert client.run("cat hidden", name="peek").code != 0
    assert client.run("cat listed", name="look").code != 0
    assert client.run("echo x >open", name="scribble").code != 0
    peek = watcher.wait_event(lambda e: e.event == "denied" and e.subject == "/hidden")
    look = watcher.wait_event(lambda e: e.event == "denied" and e.subject == "/listed")
    scribble = watcher.wait_event(lambda e: e.event == "denied" and e.subject == "/open")
    assert [e.exec for e in (peek, look, scribble)] == ["peek", "look", "scribble"]
    assert "none" in peek.detail and "view" in look.detail and "read" in scribble.detail
    assert [e.numbers[0] for e in (peek, look, scribble)] == [2, 13, 13]
    assert client.status().denials >= 3


def test_refusals_of_commands_that_run_together(make):
    box = make(rules=[("/**", "read"), ("/a", "none"), ("/b", "none")], files={"a": "", "b": ""}).start()
    watcher, client = box.client().watch(), box.client()
    runs = [client.start("sleep 0.3; read line <a; sleep 1", name="first"), client.start("sleep 0.3; read line <b; sleep 1", name="second")]
    session = client.open_session()
    assert client.say(session, "sleep 0.5; cat c", name="third").wait().code == 1
    for run in runs:
        run.wait()
    for path, name in [("/a", "first"), ("/b", "second")]:
        assert watcher.wait_event(lambda e, path=path: e.event == "denied" and e.subject == path).exec == name


def test_refusals_of_processes_that_end_at_once(make):
    """Who asked is found out while it waits for its answer, so also a process that does nothing else is known by its command."""
    box = make(rules=[("/**", "read"), ("/left*", "none"), ("/right*", "none")]).start()
    watcher, client = box.client().watch(), box.client()
    script = "i=0; while [ $i -lt 40 ]; do cat %s$i 2>/dev/null; i=$((i+1)); done; true"
    runs = [client.start(script % side, name=side) for side in ("left", "right")]
    for run in runs:
        assert run.wait().code == 0
    watcher.until(lambda: sum(e.event == "denied" for e in watcher.events) == 80)
    wrong = [(e.subject, e.exec) for e in watcher.events if e.event == "denied" and not e.subject[1:].startswith(e.exec)]
    assert wrong == []


def test_refusals_are_limited_and_counted(make):
    box = make(rules=[("/**", "read"), ("/h*", "none")]).start()
    watcher = box.client().watch()
    assert box.run("i=0; while [ $i -lt 300 ]; do [ -e h$i ]; i=$((i+1)); done; sleep 0.5").finished.end == EXITED
    eventually(lambda: box.owner.status().denials_dropped > 0)
    assert watcher.status().kind == STATUS_REPLY
    assert sum(e.event == "denied" for e in watcher.events) <= 100


def changes(box):
    return [json.loads(line) for line in (box.dir / "delta/meta/changes").read_text().splitlines()]


def test_changes_name_the_command(box):
    client = box.client()
    client.run("echo x >alone", name="single")
    both = [client.start(f"sleep 0.3; echo x >from-{n}; sleep 0.7", name=n) for n in ("left", "right")]
    for run in both:
        run.wait()
    session = client.open_session()
    client.say(session, "echo x >from-session", name="line").wait()
    client.say(session, "(sleep 0.5; echo x >late) & echo x >early", name="leaves").wait()
    client.say(session, "while ! test -s late; do sleep 0.02; done", name="after").wait()
    client.say(session, "echo x >again", name="last").wait()
    assert client.ask(SYNC, b"\0").kind == OK
    by = {}
    for line in changes(box):
        by.setdefault(line["path"].lstrip("/"), set()).add(line["exec"])
    assert by["alone"] == {"single"}
    assert by["from-left"] == {"left"} and by["from-right"] == {"right"}
    assert by["from-session"] == {"line"} and by["early"] == {"leaves"} and by["again"] == {"last"}
    assert "late" in by


def test_strange_names_do_not_break_the_diary(box):
    client = box.client()
    name = 'a"\n,\\'
    assert client.run("echo x >f", name=name).code == 0
    assert {line["exec"] for line in changes(box)} == {name}


# Limits.

@pytest.mark.skipif(not IS_ROOT, reason="cgroups here are root's")
def test_the_memory_limit_is_told(make):
    box = make(memory=64 << 20).launch()
    box.owner.greet()
    box.owner.until(lambda: box.owner.states)
    if box.owner.states == ["failed"]:
        pytest.skip(f"no memory limit here: {box.owner.state.text}")
    box.note_namespace(box.owner.status().init_pid)
    watcher = box.client().watch()
    run = box.run(["/usr/bin/python3", "-c", "x = bytearray(200 << 20)"], name="greedy")
    assert run.code == 128 + signal.SIGKILL or run.code == 1
    event = watcher.wait_event(lambda e: e.event == "limit")
    assert event.subject == "memory" and event.numbers[0] >= 1
    assert run.finished.flags & OOM
    assert box.run("echo on").result == (0, b"on\n", b"")


@pytest.mark.skipif(not IS_ROOT, reason="cgroups here are root's")
def test_the_limit_of_processes_is_told(make):
    box = make(pids=24).launch()
    box.owner.greet()
    box.owner.until(lambda: box.owner.states)
    if box.owner.states == ["failed"]:
        pytest.skip(f"no limit of processes here: {box.owner.state.text}")
    box.note_namespace(box.owner.status().init_pid)
    watcher = box.client().watch()
    run = box.run("for i in $(seq 60); do sleep 3 & done; wait", timeout_ms=20_000)
    assert run.err
    event = watcher.wait_event(lambda e: e.event == "limit")
    assert event.subject == "pids"
    eventually(lambda: not box.commands())
    assert box.run("echo on").result == (0, b"on\n", b"")


def test_the_quota_of_bytes(make):
    box = make(quota=1 << 20).start()
    run = box.run("head -c 3000000 /dev/zero >big; ls -l big | wc -l; echo on")
    assert b"No space" in run.err and run.out == b"1\non\n"
