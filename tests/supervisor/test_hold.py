"""Holding a running sandbox's files still, and taking changes out of its delta, by the control socket."""

import os
import signal
import subprocess
import time

import pytest

from ctl import ERROR, FAILED_PRECONDITION, INVALID_ARGUMENT, NOT_FOUND, OK, SET_RULES, UNAVAILABLE, eventually, rules_file

FILES = {"README": "read me\n", "src/main.c": "int main;\n", "src/util.c": "util\n", "docs/a.txt": "a\n", "docs/deep/b.txt": "b\n"}


@pytest.fixture(params=[False, True], ids=["fixed", "live"])
def box(make, request):
    return make(files=FILES, is_live=request.param).start()


def out(box, command):
    run = box.run(command)
    assert run.code == 0, run
    return run.out.decode()


def delta_of(box):
    return sorted(str(p.relative_to(box.delta(""))) for p in box.delta("").rglob("*"))


def drop(box, *paths):
    client = box.client()
    assert client.hold().kind == OK
    assert client.drop(*paths).kind == OK
    reply = client.release()
    assert reply.kind == OK, reply
    client.close()


def test_what_is_dropped_is_the_bases_again_at_once(box):
    client = box.client()
    # One process that has everything cached, stands in a directory and has files open, through all of it.
    shell = client.start("cd docs; exec 3>>../README; echo agent >&3; echo more > new; rm a.txt; echo x >> deep/b.txt; "
                         "cat ../README deep/b.txt new; test ! -e a.txt; stat -c %i ../README; echo ready; read go; "
                         "cat ../README deep/b.txt a.txt; test ! -e new; stat -c %i ../README; pwd; ls | tr '\\n' ' '; "
                         "echo later >&3; cat ../README; echo end",
                         stdin=(pipe := os.pipe())[0])
    os.close(pipe[0])
    shell.wait_output(b"ready\n")
    drop(box, "/README", "/docs")
    assert delta_of(box) == []
    os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    shell.wait()
    before, after = shell.out.decode().split("ready\n")
    lines = before.split("\n")
    ino = lines[-2]
    assert before == f"read me\nagent\nb\nx\nmore\n{ino}\n"
    assert after == f"read me\nb\na\n{ino}\n/workspace/docs\na.txt deep read me\nlater\nend\n"
    # What the open descriptor wrote then is a change of its own.
    assert delta_of(box) == ["README"]
    assert (box.base / "README").read_text() == "read me\n"


def test_an_approved_file_goes_on_being_written_by_who_has_it_open(box):
    """The holder writes the project while it holds, as an approval does, and what comes later is not lost."""
    client = box.client()
    writer = client.start("exec 3>>README; echo one >&3; echo ready; read go; sleep 0.3; echo two >&3; cat README",
                          stdin=(pipe := os.pipe())[0])
    os.close(pipe[0])
    writer.wait_output(b"ready\n")
    holder = box.client()
    assert holder.hold().kind == OK
    content = box.delta("README").read_bytes()
    assert content == b"read me\none\n"
    (box.base / "README.new").write_bytes(content)
    os.rename(box.base / "README.new", box.base / "README")
    holder.drop("/README")
    assert holder.release().kind == OK
    os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    writer.wait()
    assert writer.out == b"ready\nread me\none\ntwo\n"
    assert (box.base / "README").read_bytes() == content
    assert box.delta("README").read_bytes() == content + b"two\n"


def test_nothing_changes_while_it_is_held(box):
    """Writers hammer: what the holder reads is one instant, in which all of them are whole."""
    client = box.client()
    # Two files that always have the same number, but for the moment between the two writes.
    hammer = client.start("i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > one; echo $i > two; echo $i > src/n$((i % 50)); done; "
                          "echo $i")
    eventually(lambda: box.delta("two").exists())
    holder = box.client()
    for _ in range(10):
        assert holder.hold().kind == OK
        first = {p: p.read_bytes() for p in box.delta("").rglob("*") if p.is_file()}
        time.sleep(0.02)
        again = {p: p.read_bytes() for p in box.delta("").rglob("*") if p.is_file()}
        assert first == again
        assert holder.release().kind == OK
    count = box.delta("one").read_text()
    eventually(lambda: box.delta("one").read_text() not in ("", count))
    box.run("touch stop")
    assert hammer.wait().code == 0
    assert int(hammer.out) > 10


@pytest.mark.parametrize("fault", ["", "slow-write"])
def test_what_was_stored_through_a_mapping_is_there_when_it_is_held(make, fault):
    """Diff, approve and all else that reads the delta of a running sandbox begin with a hold."""
    box = make(files=FILES, is_live=True).start(env={**os.environ, "AGENTFENSE_FAULT": fault})
    client, holder = box.client(), box.client()
    program = ("import mmap,sys\nf=open('README','r+b')\nm=mmap.mmap(f.fileno(),0)\n"
               "for i in range(1,4):\n m[0:1]=str(i).encode()\n print(i,flush=True)\n sys.stdin.readline()\n")
    run = client.start(["/usr/bin/python3", "-c", program], stdin=(pipe := os.pipe())[0])
    os.close(pipe[0])
    for i in range(1, 4):
        run.wait_output(f"{i}\n".encode())
        assert holder.hold().kind == OK
        assert box.delta("README").read_bytes() == f"{i}ead me\n".encode()
        assert holder.release().kind == OK
        os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    assert run.wait().code == 0, run


@pytest.mark.parametrize("fault", ["", "slow-write"])
def test_what_was_stored_through_a_mapping_is_there_after_a_stop(make, fault):
    """Its process is killed by that; the kernel writes its pages back before it is gone, and the fence serves them."""
    box = make(files=FILES, is_live=True).start(env={**os.environ, "AGENTFENSE_FAULT": fault})
    program = "import mmap,time\nf=open('README','r+b')\nm=mmap.mmap(f.fileno(),0)\nm[0:1]=b'R'\nprint('ready',flush=True)\ntime.sleep(600)\n"
    run = box.client().start(["/usr/bin/python3", "-c", program])
    run.wait_output(b"ready\n")
    box.stop()
    assert box.delta("README").read_bytes() == b"Read me\n"


def test_a_holder_that_dies_lets_go(box):
    """Its whole process is killed, in the middle of its work."""
    script = ("import sys; sys.path.insert(0, sys.argv[2]); import socket, time; from ctl import Client, OK; s = socket.socket(socket.AF_UNIX, "
              "socket.SOCK_SEQPACKET); s.connect(sys.argv[1]); c = Client(s).greet(); assert c.hold().kind == OK; c.drop('/README'); "
              "print('held', flush=True); time.sleep(100)")
    box.run("echo changed > README")
    with subprocess.Popen(["python3", "-c", script, str(box.dir / "ctl"), os.path.dirname(__file__)], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            client = box.client()
            waiting = client.start("echo more >> README; cat README")
            assert client.status().state == "running"  # the supervisor itself waits for nobody
            assert not waiting.is_over
        finally:
            holder.kill()
    # Long before its limit.
    eventually(lambda: client.hold().kind == OK)
    assert client.release().kind == OK
    assert waiting.wait().out == b"changed\nmore\n"


def test_a_hold_ends_with_its_limit(box):
    holder = box.client()
    box.run("echo changed > README")
    for limit_ms in (100, 3000, 30_000):  # until the second request came in time
        assert holder.hold(limit_ms=limit_ms).kind == OK
        dropped = holder.drop("/README")
        if dropped.kind == OK:
            break
        assert dropped.code == FAILED_PRECONDITION
    assert dropped.kind == OK, dropped
    assert out(box, "cat README") == "changed\n"  # comes when the limit is over
    reply = holder.release()
    assert (reply.kind, reply.code) == (ERROR, FAILED_PRECONDITION)
    assert holder.hold().kind == OK
    assert holder.release().kind == OK
    assert out(box, "cat README") == "changed\n"


def test_one_holds_at_a_time_and_only_he_releases(box):
    first, second = box.client(), box.client()
    for reply in (first.release(), first.drop("/x")):
        assert (reply.kind, reply.code) == (ERROR, FAILED_PRECONDITION)
    assert first.hold().kind == OK
    for reply in (second.hold(), second.release(), second.drop("/README"), first.hold()):
        assert (reply.kind, reply.code) == (ERROR, FAILED_PRECONDITION), reply
    memfd = os.memfd_create("rules")
    os.write(memfd, rules_file([("/**", "read")]))
    reply = second.ask(SET_RULES, fds=[memfd])
    assert (reply.kind, reply.code) == (ERROR, UNAVAILABLE)
    assert first.release().kind == OK
    assert second.ask(SET_RULES, fds=[memfd]).kind == OK
    os.close(memfd)


def test_bad_paths_change_nothing(box):
    box.run("echo changed > README; rm docs/a.txt")
    holder = box.client()
    for bad in ("README", "/../x", "//", "/docs/.wh.a.txt", "/a//b"):
        assert holder.hold().kind == OK
        holder.drop("/README", bad)
        reply = holder.release()
        assert (reply.kind, reply.code) == (ERROR, INVALID_ARGUMENT), (bad, reply)
        assert out(box, "cat README; test ! -e docs/a.txt") == "changed\n"


def test_content_is_replaced_for_a_rebase(box):
    client = box.client()
    reader = client.start("echo agent >> README; exec 3<README; echo ready; read go; cat <&3; cat README",
                          stdin=(pipe := os.pipe())[0])
    os.close(pipe[0])
    reader.wait_output(b"ready\n")
    fd = os.memfd_create("merged")
    os.write(fd, b"merged\nagent\n")
    holder = box.client()
    assert holder.hold().kind == OK
    assert holder.drop("/README", fd=fd).kind == OK
    read_end, write_end = os.pipe()
    reply = holder.drop("/README", fd=read_end)
    assert (reply.kind, reply.code) == (ERROR, INVALID_ARGUMENT)
    assert holder.release().kind == OK
    os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    assert reader.wait().out == b"ready\n" + b"merged\nagent\n" * 2
    assert holder.hold().kind == OK
    assert holder.drop("/src/main.c", fd=fd).kind == OK
    reply = holder.release()
    assert (reply.kind, reply.code) == (ERROR, NOT_FOUND)
    for each in (fd, read_end, write_end):
        os.close(each)


def test_a_sandbox_ends_while_it_is_held(box):
    holder = box.client()
    client = box.client()
    assert holder.hold().kind == OK
    waiting = client.start("echo x > README")
    time.sleep(0.1)
    assert not waiting.is_over
    box.owner.close()
    box.owner = None
    box.wait()


def test_many_paths_leave_at_once(box):
    count = 1500 if os.environ.get("AGENTFENSE_LONG") == "1" else 300
    assert box.run(f"mkdir many; for i in $(seq {count}); do echo $i > many/$i; done; echo stays > stays").code == 0
    holder = box.client()
    assert holder.hold().kind == OK
    paths = [f"/many/{i}" for i in range(1, count + 1)]
    for at in range(0, count, count // 3):
        assert holder.drop(*paths[at : at + count // 3]).kind == OK
    assert holder.release().kind == OK
    assert out(box, "ls many | wc -l; cat stays").split() == ["0", "stays"]
    assert delta_of(box) == ["many", "stays"]


def test_a_supervisor_killed_in_a_release_is_finished_by_the_next(make):
    box = make(files=FILES)
    for fault in ("drop-noted", "drop-moved", "drop-removed:2", "drop-done"):
        os.environ["AGENTFENSE_FAULT"] = fault
        try:
            box.start()
        finally:
            del os.environ["AGENTFENSE_FAULT"]
        assert box.run("echo changed > README; echo x > src/x; echo stays > stays; rm docs/a.txt").code == 0
        holder = box.client()
        assert holder.hold().kind == OK
        assert holder.drop("/src", "/README", "/docs").kind == OK
        with pytest.raises((EOFError, ConnectionError)):
            holder.release()
        assert box.wait() == -signal.SIGKILL
        box.stop()
        box.start()
        assert out(box, "cat README docs/a.txt stays; test ! -e src/x") == "read me\na\nstays\n"
        assert delta_of(box) == ["stays"]
        box.stop()
