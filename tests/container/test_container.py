"""One sandbox in a container: what runs in it, what it cannot do, how it fails, and what is left of it."""

import contextlib
import os
import pathlib
import signal
import socket
import time

import images
import pytest
from ctl import FAILED_PRECONDITION, NOT_FOUND, eventually
from engine import OWN_LABEL


def container_program(box):
    """The pid of agentfense-container."""
    children = pathlib.Path(f"/proc/{box.process.pid}/task/{box.process.pid}/children").read_text().split()
    (found,) = [int(pid) for pid in children if "agentfense-con" in pathlib.Path(f"/proc/{pid}/comm").read_text()]
    return found


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def inside(box, words):
    """What it prints, all went well."""
    done = box.run(words)
    assert (done.code, done.err) == (0, b""), done
    return done.out.decode()


def failure(box):
    """Why it did not start."""
    box.launch()
    box.owner.until(lambda: "failed" in box.owner.states)
    box.wait()
    return box.owner.state


# ---- commands ----

def test_a_command_runs_and_its_changes_are_held(box):
    done = box.run("cat hello.txt; echo no >&2; echo changed >hello.txt; echo new >new; exit 7")
    assert done.result == (7, b"hello\n", b"no\n")
    assert (box.base / "hello.txt").read_text() == "hello\n"
    assert box.delta("hello.txt").read_text() == "changed\n" and box.delta("new").read_text() == "new\n"


def test_rules_hold(make):
    box = make(rules=[("/**", "read"), ("/.env", "none"), ("/out/**", "write")], files={".env": "secret", "a": "a"}).start()
    assert inside(box, "cat a; ls -A | tr '\\n' ' '") == "aa out "
    assert box.run("cat .env").code == 1
    assert b"denied" in box.run("echo x >a").err
    assert inside(box, "echo x >out/x && cat out/x") == "x\n"


def test_a_session_remembers(box):
    client = box.client()
    session = client.open_session("/bin/sh")
    assert client.say(session, "cd /tmp; x=kept; f() { echo $x; }").wait().code == 0
    assert client.say(session, "f; pwd").wait().out == b"kept\n/tmp\n"
    client.close()


def test_an_image_without_a_shell_is_enough(make):
    box = make("bare", files={"a": "alpha"}).start()
    assert box.run(["/opt/cat", "a"]).result == (0, b"alpha", b"")


def test_the_surroundings_are_those_of_every_sandbox(box):
    assert inside(box, "id -un; echo $HOME; pwd; umask") == "agent\n/home/agent\n/workspace\n0022\n"
    assert inside(box, "env | cut -d= -f1 | sort | tr '\\n' ' '") == "HOME LANG LOGNAME PATH PWD SHELL SHLVL TMPDIR USER "
    assert inside(box, "echo x >~/x && echo x >/tmp/x && cp /bin/busybox /tmp/echo && /tmp/echo ran") == "ran\n"
    assert int(inside(box, "stat -c %u hello.txt")) == int(inside(box, "id -u")) not in (0, os.getuid())


def test_nothing_of_the_image_is_started_or_set(make, dock, tmp_path):
    image = f"{dock.name}/settings-{os.getpid()}:1"
    dock.docker("import", "--change", 'ENTRYPOINT ["/bin/false"]', "--change", 'CMD ["x"]', "--change", "ENV OF_IMAGE=1",
                "--change", "HEALTHCHECK --interval=1s CMD touch /tmp/health", "--change", "USER 0", "--change", "WORKDIR /root",
                images.make_box(tmp_path / "settings.tar"), image)
    try:
        box = make(image).start()
        assert inside(box, "echo ${OF_IMAGE-none}; id -u | grep -cx 0 || :; pwd; sleep 2; ls /tmp") == "none\n0\n/workspace\n"
        box.stop()
    finally:
        dock.docker("rmi", "-f", image)


# ---- confinement ----

def test_it_has_no_privilege(box):
    status = dict(line.split(":\t", 1) for line in inside(box, "cat /proc/self/status").splitlines() if ":\t" in line)
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert b"Operation not permitted" in box.run("unshare -U true").err
    assert b"permission denied" in box.run("mount -t tmpfs x /tmp").err
    assert box.run("mknod /tmp/n c 1 3").code != 0
    assert box.run("ls /dev/fuse").code != 0


def test_the_filter_answers_as_bubblewraps(make):
    """errno and all: it is made of the same table."""
    box = make("tools").start()
    script = ("import ctypes, socket\nlibc = ctypes.CDLL(None, use_errno=True)\n"
              "def call(n, *a):\n libc.syscall(n, *a)\n return ctypes.get_errno()\n"
              "print(call(435), call(425), call(428), call(310))\n"
              "for family in (17, 38, 40):\n"
              " try: socket.socket(family, socket.SOCK_DGRAM)\n except OSError as e: print(e.errno)\n")
    assert inside(box, ["python3", "-c", script]) == "38 38 38 1\n97\n97\n97\n"


def test_there_is_no_network_unless_it_is_asked_for(box):
    assert inside(box, "ls /sys/class/net; grep -c : /proc/net/dev") == "lo\n1\n"


def test_the_hosts_network_if_it_is_asked_for(make, dock):
    box = make(net=1).start()
    daemon = pathlib.Path(f"/proc/{dock.network_pid}/ns/net") if dock.network_pid else pathlib.Path("/proc/self/ns/net")
    assert os.stat(f"/proc/{box.init_pid}/ns/net").st_ino == daemon.stat().st_ino


def test_a_root_that_is_read_only(make):
    box = make(read_only_root=True).start()
    assert inside(box, "echo x >x; echo x >/tmp/x; echo x >~/x; ls x") == "x\n"
    assert b" / overlay ro," in box.run("grep ' / ' /proc/mounts").out


def test_mounts(make, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "f").write_text("shown\n")
    box = make(mounts=[(tmp_path, "/data", True)]).start()
    assert inside(box, "cat /data/f") == "shown\n"
    assert b"Read-only" in box.run("echo x >/data/f").err


# ---- limits ----

def test_a_memory_limit_ends_the_hog_and_is_told(make):
    box = make("tools", memory=64 << 20).start()
    client = box.client().watch()
    done = client.run(["python3", "-c", "x = bytearray(300 << 20); print(len(x))"])
    assert done.code == 128 + signal.SIGKILL and done.out == b""
    event = client.wait_event(lambda e: e.event == "limit")
    assert event.subject == "memory" and event.numbers[:2] == [1, 64 << 20]
    assert client.run("echo on").out == b"on\n"


def test_a_pids_limit_refuses_forks_and_is_told(make):
    box = make(pids=12).start()
    client = box.client().watch()
    done = client.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 600 & done; echo no")
    assert b"fork" in done.err
    event = client.wait_event(lambda e: e.event == "limit")
    assert event.subject == "pids" and event.numbers[0] > 0 and event.numbers[1] == 12


def test_a_share_of_the_processor(make):
    box = make(cpu_quota=50000).start()
    assert inside(box, "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null || :").split()[0] == "50000"


def test_a_limit_below_the_engines_least_is_refused(make):
    state = failure(make(memory=5 << 20))
    assert "memory" in state.text.lower(), state


# ---- failures ----

def test_an_image_that_is_not_there(make):
    state = failure(make("af-test-nowhere/none:1"))
    assert state.code == NOT_FOUND
    assert state.text.startswith("there is no image 'af-test-nowhere/none:1' here, and fetching images is switched off: ")


def test_an_image_that_cannot_be_fetched(make):
    box = make("127.0.0.1:1/none:1", no_pull=False)
    state = failure(box)
    assert box.owner.states == ["booting", "failed"]  # it was told what it is at
    assert "there is no image '127.0.0.1:1/none:1' here, and it cannot be fetched: " in state.text, state
    assert "refused" in state.text


def test_an_engine_that_is_not_there(make, tmp_path):
    state = failure(make("x", engine=tmp_path / "sock"))
    assert state.code == FAILED_PRECONDITION and f"no Docker engine answers at '{tmp_path}/sock'" in state.text


def test_an_engine_that_does_not_answer_keeps_nobody_from_stopping(make, tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "sock"))
        silent.listen(8)
        box = make("x", engine=tmp_path / "sock").launch()
        box.owner.greet()
        with silent.accept()[0] as asked:  # hanging up would be an answer
            asked.recv(1)
            box.process.terminate()
            assert box.wait() == 0
    assert not box.mounts()


def test_an_ordinary_user_has_no_containers(make):
    box = make(user=65534)
    state = failure(box)
    assert state.code == FAILED_PRECONDITION and "only root" in state.text


# ---- what is left ----

def test_it_is_labelled_and_gone_when_stopped(make, dock):
    box = make().start()
    (container,) = dock.containers(f"label=agentfense.sandbox={box.name}")
    labels = dock.inspect(container)["Config"]["Labels"]
    assert len(labels["agentfense.home"]) == 8
    assert len(box.mounts()) == 1
    assert box.stop() == 0
    assert not dock.containers() and not box.mounts() and not (box.dir / "container").exists()


def test_stopped_while_it_starts(make, dock):
    for _ in range(3):
        box = make().launch()
        box.owner.greet()
        box.process.terminate()
        assert box.wait() == 0
        assert not dock.containers() and not box.mounts()


def test_a_killed_supervisor_leaves_nothing(make, dock):
    box = make().start()
    box.run("echo kept >kept; sleep 600 >/dev/null 2>&1 &")
    kill(box.process.pid)
    box.wait()
    box.hang_up()
    eventually(lambda: not dock.containers() and not box.mounts() and not box.processes())
    box.start()
    assert inside(box, "cat kept") == "kept\n"


def test_a_killed_program_ends_the_sandbox(make, dock):
    box = make().start()
    kill(container_program(box))
    box.owner.until(lambda: "failed" in box.owner.states)
    assert box.wait() == 1
    eventually(lambda: not dock.containers() and not box.processes())
    assert not box.mounts()
    box.hang_up()
    box.start()
    assert inside(box, "echo on") == "on\n"


def test_both_killed_leave_a_mount_that_the_next_start_removes(make, dock):
    box = make().start()
    program, supervisor = container_program(box), box.process.pid
    os.kill(program, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGSTOP)  # so that it does not see the program's end and clean up
    kill(program)
    kill(supervisor)
    box.wait()
    box.hang_up()
    eventually(lambda: not dock.containers() and not box.processes())
    assert len(box.mounts()) == 1
    box.start()
    assert inside(box, "cat hello.txt 2>/dev/null; echo on") == "on\n"
    assert len(box.mounts()) == 1 and len(dock.containers()) == 1


@pytest.mark.parametrize("both", [False, True], ids=["supervisor", "both"])
def test_killed_at_any_moment_of_its_start_nothing_is_left_by_the_next(make, dock, both):
    """In steps that are finer where more happens."""
    box = make(files={"a": "alpha"})
    for delay in (0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6):
        box.launch()
        time.sleep(delay)
        victims = [box.process.pid]
        with contextlib.suppress(ValueError, OSError):
            victims[:0] = [container_program(box)] if both else []
        for pid in victims:
            kill(pid)
        box.wait()
        box.process.stderr.close()
        box.hang_up()
    box.start()
    assert inside(box, "cat a") == "alpha"
    eventually(lambda: len(dock.containers()) == 1 and len(box.mounts()) == 1)
    box.stop()
    assert not dock.containers()


def test_only_what_is_ours_and_unused_is_swept(make, dock):
    one, other = make().start(), make()
    (container,) = dock.containers()
    home = dock.inspect(container)["Config"]["Labels"]["agentfense.home"]
    image = dock.image("box")

    def create(sandbox, of):
        return dock.docker("create", "--label", OWN_LABEL, "--label", f"agentfense.sandbox={sandbox}", "--label", f"agentfense.home={of}", image,
                           "/bin/true").strip()

    stale, gone, foreign = create(one.name, home), create("was-here-once", home), create(one.name, "ffffffff")
    try:
        other.start()  # of another home: none of these is its affair
        assert {stale, gone, foreign, container} < set(dock.containers())
        one.stop()
        one.start()
        left = set(dock.containers())
        assert foreign in left and not left & {stale, gone, container}
        assert inside(other, "echo on") == "on\n"
    finally:
        dock.docker("rm", "-f", foreign)
