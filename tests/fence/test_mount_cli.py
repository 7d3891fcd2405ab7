"""The mount verb as people and scripts meet it: what it refuses, how it ends, its control socket, quota, events, live bases, and the
delta verb."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness import (
    HERE,
    IS_ROOT,
    LONG,
    MS_BIND,
    PYTHON,
    SANDBOX_GID,
    SANDBOX_UID,
    Fence,
    Refused,
    Tree,
    background,
    fingerprint,
    is_mountpoint,
    mount,
    run,
    sandbox_ids,
    tools_dir,
    view_of,
    wait_until,
    write_policy,
)


def agentfense(*args, timeout=20, **kw):
    return subprocess.run(
        [os.environ["AGENTFENSE"], *[os.fspath(a) for a in args]], capture_output=True, text=True, timeout=timeout, **kw
    )


@pytest.fixture
def dirs(work):
    Tree(work / "base").file("a", "a\n").file("d/b", "b\n")
    (work / "mnt").mkdir()
    return work


def refuses(work, *args, base=None, delta=None, mnt=None, rule="**=write"):
    """The mount must end by itself with a failure code and a message, and leave nothing mounted. Returns the message."""
    mnt = mnt or work / "mnt"
    argv = [
        "mount",
        "--base",
        base or work / "base",
        "--delta",
        delta or work / "delta",
        *(["--rule", rule] if rule else []),
        *args,
        mnt,
    ]
    before = fingerprint(work / "base") if (work / "base").is_dir() else None
    ran = agentfense(*argv)
    assert ran.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT), ran
    assert ran.returncode > 0 and ran.stderr.strip(), ran
    assert not is_mountpoint(mnt)
    assert before is None or fingerprint(work / "base") == before
    return ran.stderr


# ---- refusals ----


def test_a_missing_mount_point_is_refused(dirs):
    assert "nowhere" in refuses(dirs, mnt=dirs / "nowhere")


def test_a_mount_point_that_is_a_file_is_refused(dirs):
    (dirs / "f").write_text("")
    refuses(dirs, mnt=dirs / "f")


def test_a_missing_base_is_refused(dirs):
    assert "absent" in refuses(dirs, base=dirs / "absent")


def test_a_base_that_is_a_file_is_refused(dirs):
    refuses(dirs, base=dirs / "base/a")


@pytest.mark.parametrize(
    "which",
    [
        "delta in base",
        "base in delta",
        "mount point in base",
        "base in mount point",
        "mount point in delta",
        "delta in mount point",
        "base is delta",
        "base is mount point",
        "delta is mount point",
    ],
)
def test_nested_directories_are_refused(dirs, which):
    inner, outer = {
        "delta in base": ("delta", "base"),
        "base in delta": ("base", "delta"),
        "mount point in base": ("mnt", "base"),
        "base in mount point": ("base", "mnt"),
        "mount point in delta": ("mnt", "delta"),
        "delta in mount point": ("delta", "mnt"),
    }.get(which, (None, None))
    if inner:
        top = dirs / "outer"
        (top / "in/side").mkdir(parents=True)
        places = {"base": dirs / "base", "delta": dirs / "delta", "mnt": dirs / "mnt", outer: top, inner: top / "in/side"}
    else:
        same = dirs / "same"
        same.mkdir()
        names = [{"base": "base", "delta": "delta", "mount point": "mnt"}[n] for n in which.split(" is ")]
        places = {"base": dirs / "base", "delta": dirs / "delta", "mnt": dirs / "mnt", **{n: same for n in names}}
    refuses(dirs, base=places["base"], delta=places["delta"], mnt=places["mnt"])


def test_nesting_through_a_symlink_is_refused(dirs):
    os.symlink(dirs / "base", dirs / "alias")
    refuses(dirs, delta=dirs / "alias/d")


def test_an_unreadable_base_is_refused(dirs):
    """As somebody who may not read it."""
    if not IS_ROOT:
        pytest.skip("root only can become somebody else")
    os.chmod(dirs / "base", 0o700)
    home = dirs / "theirs"
    for d in (home, home / "delta", home / "mnt"):
        d.mkdir()
        os.chown(d, SANDBOX_UID, SANDBOX_GID)
    program = tools_dir() / "agentfense"
    if not program.exists():
        shutil.copy(os.environ["AGENTFENSE"], program)
        program.chmod(0o755)
    ran = run(
        [program, "mount", "--base", dirs / "base", "--delta", home / "delta", "--rule", "**=read", home / "mnt"],
        cwd="/",
        timeout=20,
    )
    assert ran.code > 0 and "base" in ran.err, ran.err
    assert not is_mountpoint(home / "mnt")


def test_an_unfamiliar_delta_is_refused_and_left_alone(dirs):
    (dirs / "delta").mkdir()
    (dirs / "delta/holiday.jpg").write_text("precious")
    message = refuses(dirs)
    assert "delta" in message
    assert os.listdir(dirs / "delta") == ["holiday.jpg"]


def test_the_delta_of_another_base_is_refused(dirs):
    Tree(dirs / "base2").file("other", "o")
    with Fence(dirs):
        pass
    refuses(dirs, base=dirs / "base2")


def test_a_delta_in_use_is_refused(dirs):
    (dirs / "mnt2").mkdir()
    with Fence(dirs) as f:
        refuses(dirs, mnt=dirs / "mnt2")
        assert f.sh("echo still > works && cat works").ok().out == "still\n"


@pytest.mark.parametrize(
    "args",
    [
        ["--quota", "much"],
        ["--quota", "-1"],
        ["--quota", "1X"],
        ["--quota", ""],
        ["--quota-inodes", "few"],
        ["--quota-inodes", "-5"],
        ["--uid", "me"],
        ["--gid", "-3"],
        ["--threads", "none"],
        ["--threads", "-1"],
        ["--data-path", "fast"],
        ["--no-such-option"],
        ["--ready-fd", "999"],
        ["--ready-fd", "x"],
    ],
    ids=lambda a: " ".join(a),
)
def test_bad_options_are_refused(dirs, args):
    refuses(dirs, *args)


@pytest.mark.parametrize(
    "rule",
    ["/a", "=read", "/a=readonly", "/a=", "../x=read", "/a/../../b=read", "/a[=read", "/a=read@x", "/a=read@99999999999"],
)
def test_bad_rules_are_refused_by_name(dirs, rule):
    message = refuses(dirs, rule=rule)
    assert rule.split("=")[0] in message or "rule" in message


def test_a_missing_or_broken_policy_file_is_refused(dirs):
    refuses(dirs, "--policy", dirs / "none.yaml", rule=None)
    (dirs / "bad.yaml").write_text("rules: [{pattern: /a}]\n")
    refuses(dirs, "--policy", dirs / "bad.yaml", rule=None)
    (dirs / "bad.json").write_text("{")
    refuses(dirs, "--policy", dirs / "bad.json", rule=None)
    refuses(dirs, "--preset", "no-such", rule=None)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["--base", "b"],
        ["--base", "b", "--delta", "d"],
        ["--delta", "d", "m"],
        ["--base", "b", "--delta", "d", "m", "extra"],
    ],
)
def test_incomplete_command_lines_are_refused(work, args):
    ran = agentfense("mount", *args, cwd=work)
    assert ran.returncode > 0 and ran.stderr


def test_help_is_given(work):
    ran = agentfense("mount", "--help")
    assert ran.returncode == 0 and "--base" in ran.stdout + ran.stderr


# ---- beginning and end ----


def test_it_says_when_it_is_ready(dirs):
    f = Fence(dirs)
    with f:
        assert is_mountpoint(f.mnt) and f.log().strip(), "a line on stderr"
        assert os.listdir(f.mnt)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_unmount(dirs, number):
    f = Fence(dirs).start()
    f.sh("echo x > new").ok()
    assert f.stop(number) == 0
    assert not f.left_mounted
    assert os.listdir(f.mnt) == [] and not f.control_path.exists()


def test_signals_unmount_while_in_use(dirs):
    """A program that sits in the mount does not keep it from ending; the changes are safe."""
    f = Fence(dirs).start()
    with background(["/bin/sh", "-c", "exec 3> held; echo x >&3; cd d; sleep 100"], f.mnt):
        assert wait_until(lambda: f.sh("cat held").out == "x\n")
        f.stop(timeout=10)
        assert not f.left_mounted
    with f:
        assert f.sh("cat held").out == "x\n"


def test_an_unmount_from_outside_ends_it(dirs):
    f = Fence(dirs).start()
    subprocess.run(["umount", f.mnt], check=True)
    assert f.process.wait(10) == 0
    f.process = None


def test_changes_are_there_after_a_remount(dirs):
    f = Fence(dirs).start()
    f.sh("echo changed > a; rm d/b; mkdir e; echo n > e/n; ln -s a l; mv e g; chmod 600 a; touch -d @1234567890 g/n").ok()
    before = f.sh("find . -printf '%p %m %y %l %s\\n' | sort; cat a g/n; stat -c %Y g/n").out
    f.remount()
    assert f.sh("find . -printf '%p %m %y %l %s\\n' | sort; cat a g/n; stat -c %Y g/n").out == before
    f.stop()


def test_nothing_of_the_delta_is_left_when_nothing_was_changed(dirs):
    with Fence(dirs) as f:
        f.sh("find . | xargs cat; ls -laR; stat a")
    ran = agentfense("delta", "list", dirs / "delta")
    assert ran.returncode == 0 and ran.stdout == "", ran


def test_the_mount_is_nosuid_and_nodev(dirs):
    with Fence(dirs) as f:
        options = next(line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == str(f.mnt)).split(",")
        assert "nosuid" in options and "nodev" in options


# ---- rules ----


def test_the_control_socket_swaps_rules(dirs):
    with Fence(dirs) as f:
        assert f.sh("cat a").out == "a\n"
        f.set_rules(["/**=read", "/a=none"])
        assert f.sh("cat a; ls; echo x > new; cat d/b").out == "d\nb\n"
        f.set_rules(["**=write"])
        assert f.sh("cat a").out == "a\n"


def test_bad_rules_on_the_control_socket_change_nothing(dirs):
    with Fence(dirs, rules=["**=read", "/a=none"]) as f:
        (dirs / "bad.json").write_text('{"version": 1, "rules": [{"pattern": "/../x", "permission": "read"}]}')
        for line in (f"rules {dirs}/bad.json", f"rules {dirs}/absent.json", "rules", "rules ", "nonsense", "", "x" * 5000):
            answer = f.control(line)
            assert isinstance(answer, dict) and answer.get("error"), (line, answer)
            assert f.sh("ls").out == "d\n"
        assert f.alive()


def test_stats_and_sync_on_the_control_socket(dirs):
    with Fence(dirs) as f:
        f.sh("cat a; echo x > new")
        answer = f.control("stats")
        assert isinstance(answer, dict) and answer and not answer.get("error"), answer
        assert re.search(r'"[a-z_]*lookup', json.dumps(answer)), "counters per operation"
        assert not f.control("sync").get("error")


def test_many_talk_to_the_control_socket(dirs):
    with Fence(dirs) as f:
        idle = [socket.socket(socket.AF_UNIX) for _ in range(20)]
        for s in idle:
            s.connect(str(f.control_path))
        assert not f.control("stats", timeout=3).get("error"), "somebody who says nothing keeps others waiting"
        for s in idle:
            s.close()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(str(f.control_path))
            s.sendall(b"stats\nstats\n")
            got = b""
            while got.count(b"\n") < 2:
                got += s.recv(65536)
        assert f.alive()


def test_the_control_socket_is_private(dirs):
    with Fence(dirs) as f:
        assert stat.S_IMODE(os.stat(f.control_path).st_mode) & 0o077 == 0


def test_a_hangup_reads_policy_files_again(dirs):
    policy = dirs / "policy.json"
    write_policy(policy, ["**=read", "/a=none"])
    with Fence(dirs, rules=(), policy=policy) as f:
        assert f.sh("ls").out == "d\n"
        write_policy(policy, ["**=write"])
        f.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: f.sh("ls").out == "a\nd\n", 3)
        policy.write_text("not a policy {")
        f.process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert f.alive() and f.sh("ls").out == "a\nd\n", "bad rules must change nothing"


def test_policy_files_in_yaml_and_presets_together(dirs):
    (dirs / "policy.yaml").write_text(
        "version: 1\nextends: read-only\nrules:\n  - pattern: /d/\n    permission: write\n    type: directory\n"
    )
    with Fence(dirs, rules=(), policy=dirs / "policy.yaml") as f:
        got = f.python("say(content('a'), put('a'), put('d/b'), put('d/new'))").ok().out
        assert got == "b'a\\n' EACCES ok ok\n"


# ---- quota ----


def test_bytes_run_out_at_write_time(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
fd = os.open("big", os.O_CREAT|os.O_WRONLY); total = 0
try:
    while total < 4 << 20: total += os.write(fd, b"x" * 65536)
except OSError as e: say(name_of(e.errno), 512 << 10 < total <= 1 << 20)
else: say("all of it")
say(attempt(fallocate, fd, 0, 0, 8 << 20), content("a"))
os.close(fd); os.unlink("big")
say(put("again", b"y" * 100000), os.path.getsize("again"))
""").ok().out.splitlines()
        assert got == ["ENOSPC True", "ENOSPC b'a\\n'", "ok 100000"]


def test_the_bytes_of_a_removed_file_are_free_when_it_is_gone(dirs):
    """Others ask meanwhile: the kernel then tells late that it forgot the file."""
    Tree(dirs / "base").file("large", b"x" * (800 << 10))
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
def others(parent, i=0):
    while os.getppid() == parent: exists(f"absent{i}"); i += 1
    os._exit(0)
children = []
here = os.getpid()
for _ in range(3):
    pid = os.fork()
    if pid == 0: others(here)
    children.append(pid)
seen = {}
def note(what, result): seen[what, str(result)] = seen.get((what, str(result)), 0) + 1
other = os.open("other", os.O_CREAT|os.O_WRONLY)
reserved = os.open("reserved", os.O_CREAT|os.O_WRONLY)
def filled():
    fd = os.open("big", os.O_CREAT|os.O_WRONLY)
    note("first", attempt(os.write, fd, b"x" * (800 << 10)))
    return fd
for i in range(100):
    fd = filled()
    os.unlink("big")
    note("while it is open", attempt(os.pwrite, other, b"y" * (400 << 10), 0))
    os.close(fd)
    note("after close", attempt(os.pwrite, other, b"y" * (800 << 10), 0))
    os.ftruncate(other, 0)
    os.close(filled()); os.unlink("big")
    note("after unlink", attempt(os.pwrite, other, b"y" * (800 << 10), 0))
    os.ftruncate(other, 0)
    os.close(filled()); put("small", b"s"); os.rename("small", "big")
    note("fallocate after rename", attempt(fallocate, reserved, 0, 0, 800 << 10))
    os.ftruncate(reserved, 0); os.unlink("big")
os.close(filled()); os.unlink("big")
note("copy-up", attempt(os.utime, "large"))
for pid in children: os.kill(pid, 9); os.waitpid(pid, 0)
for (what, result), count in sorted(seen.items()): say(what, result, count)
""").ok().out.splitlines()
        assert got == [
            f"after close {800 << 10} 100",
            f"after unlink {800 << 10} 100",
            "copy-up ok 1",
            "fallocate after rename 0 100",
            f"first {800 << 10} 301",
            "while it is open ENOSPC 100",
        ]


def test_a_full_quota_answers_soon_while_a_removed_file_is_open(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
fd = os.open("big", os.O_CREAT|os.O_WRONLY); os.write(fd, b"x" * (1000 << 10)); os.unlink("big")
threads = [threading.Thread(target=lambda i=i: [say(put(f"f{i}", b"y" * 65536)) for _ in range(5)]) for i in range(20)]
begin = time.monotonic()
for t in threads: t.start()
for t in threads: t.join()
say(time.monotonic() - begin < 10)
""").ok().out.splitlines()
        assert got == ["ENOSPC"] * 100 + ["True"]


def test_mapped_writes_and_sparse_files_cannot_evade_the_quota(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        f.python("""
fd = os.open("m", os.O_CREAT|os.O_RDWR); attempt(os.ftruncate, fd, 16 << 20)
pid = os.fork()
if pid == 0:
    m = mmap.mmap(fd, 16 << 20)
    for i in range(0, 16 << 20, 4096): m[i:i+4096] = b"z" * 4096
    m.flush(); os._exit(0)
os.waitpid(pid, 0)
""")
        f.control("sync")
        f.stop()
    used = sum(os.lstat(os.path.join(t, n)).st_blocks * 512 for t, _, ns in os.walk(dirs / "delta") for n in ns)
    assert used < 3 << 20, f"{used} bytes in a delta of 1M"


def test_copying_up_a_large_file_is_charged(dirs):
    Tree(dirs / "base").file("large", b"x" * (3 << 20))
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("say(put('large', b'y', os.O_WRONLY), content('large')[:2], attempt(os.chmod, 'a', 0o600))").ok().out
        assert got == "ENOSPC b'xx' ok\n"


def test_statfs_tells_the_quota(dirs):
    with Fence(dirs, options=["--quota", "100M", "--quota-inodes", "1000"]) as f:
        code = "v = os.statvfs('.'); say(v.f_blocks * v.f_frsize, v.f_bavail * v.f_frsize, v.f_files, v.f_ffree)"
        total, free, files, ffree = map(int, f.python(code).ok().out.split())
        assert total == 100 << 20 and free <= total and files == 1000
        f.sh("head -c 10M /dev/zero > ten; sync ten; touch n1 n2 n3")
        total2, free2, files2, ffree2 = map(int, f.python(code).ok().out.split())
        assert total2 == total and (9 << 20) <= free - free2 <= (12 << 20) and 3 <= ffree - ffree2 <= 6


def test_inodes_run_out(dirs):
    with Fence(dirs, options=["--quota-inodes", "50"]) as f:
        got = f.python("""
made = 0
try:
    for i in range(100): put_ = os.close(os.open(f"f{i}", os.O_CREAT|os.O_WRONLY)); made += 1
except OSError as e: say(name_of(e.errno), 30 <= made <= 50)
say(attempt(os.mkdir, "d1"), attempt(os.symlink, "x", "l1"), attempt(os.mkfifo, "p1"))
for i in range(10): os.unlink(f"f{i}")
say(attempt(os.mkdir, "d1"), attempt(os.symlink, "x", "l1"))
""").ok().out.splitlines()
        assert got == ["ENOSPC True", "ENOSPC ENOSPC ENOSPC", "ok ok"]


def test_the_quota_is_known_after_a_kill(dirs):
    f = Fence(dirs, options=["--quota", "1M"])
    try:
        f.start()
        f.sh("head -c 900000 /dev/zero > most").ok()
        f.kill()
        f.start()
        assert f.sh("head -c 900000 /dev/zero > more").code != 0
        assert f.sh("rm most && head -c 900000 /dev/zero > more").ok()
    finally:
        f.kill()


# ---- events ----


def denials(f, path=None):
    return [e for e in f.events() if path is None or e.get("path") == path]


def test_refusals_become_events(dirs):
    Tree(dirs / "base").file("secret/s", "s").file("view/v", "v").file("read/r", "r")
    with Fence(dirs, rules=["**=write", "/secret/**=none", "/view/**=view", "/read/**=read"]) as f:
        got = (
            f.python(
                "say(os.getpid(), opened('secret/s'), opened('view/v'), opened('read/r', os.O_WRONLY), opened('read/r'), put('read/new'), opened('a'))"
            )
            .ok()
            .out.split()
        )
        pid = int(got[0])
        assert got[1:] == ["ENOENT", "EACCES", "EACCES", "ok", "EACCES", "ok"]
        assert wait_until(
            lambda: denials(f, "/view/v") and denials(f, "/read/r") and (denials(f, "/read/new") or denials(f, "/read")), 3
        ), f.events()
        hidden = [e for e in f.events() if e.get("path", "").startswith("/secret")]
        assert hidden and hidden[0]["level"] == "none", f.events()
        view, read = denials(f, "/view/v")[0], denials(f, "/read/r")[0]
        assert view["level"] == "view" and read["level"] == "read"
        assert view["pid"] == pid and read["pid"] == pid and hidden[0]["pid"] == pid
        assert not denials(f, "/a"), "what was allowed is no event"


def test_events_are_rate_limited(dirs):
    Tree(dirs / "base").file("view/v", "v")
    with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
        f.python("for i in range(3000): opened('view/v')\nfor i in range(2000): opened(f'view/x{i}')")
        time.sleep(0.3)
        assert 1 <= len(f.events()) <= 400, len(f.events())


def test_events_are_valid_json_for_any_name(dirs):
    Tree(dirs / "base").file(b"view/new\nline", b"v").file(b'view/\xff"\\\x01', b"v")
    with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
        f.python("for n in os.listdir(b'view'): opened(b'view/' + n)")
        assert wait_until(lambda: len(f.events()) >= 2, 3)


def test_events_never_hold_up_the_fence(dirs):
    """An events file that nobody drains (a FIFO without a reader, then a full one) blocks nothing."""
    Tree(dirs / "base").file("view/v", "v")
    os.mkfifo(dirs / "events")
    reader = os.open(dirs / "events", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
            got = (
                f.python("for i in range(20000): opened(f'view/x{i}') or opened('view/v')\nsay(content('a'))", timeout=60)
                .ok()
                .out
            )
            assert got == "b'a\\n'\n"
    finally:
        os.close(reader)


# ---- live bases ----


def test_changes_of_a_live_base_are_seen_within_a_second(dirs):
    t = Tree(dirs / "base").file("d/old", "old").file("gone", "g").file("to-move", "m").link("a", "l")
    with Fence(dirs, options=["--live"]) as f:
        f.sh("find . -type f | xargs cat; ls -laR; cat absent d/absent; readlink l")  # everything cached, negative answers too
        (dirs / "base/a").write_text("longer than before\n")
        t.file("d/new", "new").file("absent", "now here")
        os.unlink(t.at("gone"))
        os.rename(t.at("to-move"), t.at("d/moved"))
        os.makedirs(t.at("n/e/w"))
        t.file("n/e/w/f", "deep")
        os.unlink(t.at("l"))
        os.symlink("d", t.at("l"))
        os.chmod(t.at("d/b"), 0o755)
        changed = time.monotonic()
        want = "longer than before\n|new|now here|m|deep|d\n|755\n"
        show = "cat a; printf '|'; cat d/new; printf '|'; cat absent; printf '|'; cat d/moved; printf '|'; cat n/e/w/f; printf '|'; readlink l; printf '|'; stat -c %a d/b; ls gone to-move 2>/dev/null"
        assert wait_until(lambda: f.sh(show).out == want, 3), f.sh(show).out
        assert time.monotonic() - changed < 1.5
        assert f.sh("ls").out.split() == ["a", "absent", "d", "l", "n"]


def test_what_happens_in_a_removed_directory_of_a_live_base_touches_nothing_else(dirs):
    """Hidden files come and go where the sandbox removed the directory: no name it knows may be asked for again on that account."""
    Tree(dirs / "base").file("half/.env", "hidden")
    rules = ["/**=write", ".env=none"]
    with Fence(dirs, rules=rules, options=["--live"]) as f:
        f.sh("ls -laR; cat a; rmdir half").ok()
        f.sh("stat a d d/b").ok()
        quiet = f.control("stats")["requests"]
        f.sh("stat a d d/b; " * 20).ok()
        quiet = f.control("stats")["requests"] - quiet
        noisy = f.control("stats")["requests"]
        for i in range(20):
            (dirs / "base/half/.env").unlink()
            (dirs / "base/half/.env").write_text(str(i))
            time.sleep(0.02)
            f.sh("stat a d d/b").ok()
        noisy = f.control("stats")["requests"] - noisy
        assert noisy <= quiet + 20, (quiet, noisy)


HIDDEN_CRYPT = ["/**=write", "**/.env=none", "/crypt/**=none", "/crypt/**/ok.txt=read"]


class Flicker:
    """Something comes and goes in the base as fast as it can."""

    def __init__(self, come, go):
        self.come, self.go = come, go
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.stop.is_set():
            self.come()
            self.go()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()


def test_a_live_base_under_change_can_be_entered_at_once(dirs):
    """The first answer about the root is the one that must not get lost among invalidations."""
    code = "import os\nwhile os.getppid() != 1: os.mknod('flicker'); os.unlink('flicker')"
    flicker = subprocess.Popen([PYTHON, "-c", code], cwd=dirs / "base")
    try:
        for _ in range(30):
            with Fence(dirs, options=["--live"]) as f:
                f.run(["/bin/cat", "a"]).ok()
    finally:
        flicker.kill()
        flicker.wait()


def test_hidden_things_that_come_and_go_cause_no_request(dirs):
    base = dirs / "base"
    crypt = base / "crypt"

    def come():
        (crypt / "deep" / "er").mkdir(parents=True)
        (crypt / "deep" / "bones").write_text("x")
        (base / ".env").write_text("x")

    def go():
        shutil.rmtree(crypt)
        (base / ".env").unlink()

    with Fence(dirs, rules=HIDDEN_CRYPT, options=["--live"]) as f:

        def look():
            before = f.control("stats")["requests"]
            seen = {f.sh("ls -laR; stat . d a").ok().out for _ in range(20)}
            return seen, f.control("stats")["requests"] - before

        look()
        quiet, quiet_requests = look()
        with Flicker(come, go):
            busy, busy_requests = look()
        assert quiet == busy and len(quiet) == 1
        assert busy_requests <= quiet_requests + 10, "what is cached must stay so"


def test_a_hidden_directory_of_a_live_base_shows_when_something_visible_is_in_it(dirs):
    base = dirs / "base"
    (base / "crypt" / "deep").mkdir(parents=True)

    def inside(expected, what="ls . crypt crypt/deep 2>/dev/null"):
        assert wait_until(lambda: f.sh(what).out == expected, 2.5), (f.sh(what).out, expected)

    nothing = ".:\na\nd\n"
    with Fence(dirs, rules=HIDDEN_CRYPT, options=["--live"]) as f:
        inside(nothing)
        (base / "crypt" / "deep" / "ok.txt").write_text("x")
        inside(".:\na\ncrypt\nd\n\ncrypt:\ndeep\n\ncrypt/deep:\nok.txt\n")
        (base / "crypt" / "late").mkdir()
        (base / "crypt" / "late" / "token").write_text("x")
        inside("deep\n", "ls crypt")
        (base / "crypt" / "late" / "ok.txt").write_text("x")
        inside("deep\nlate\n", "ls crypt")
        shutil.rmtree(base / "crypt")
        inside(nothing)
        (base / "crypt").mkdir()
        (base / "crypt" / "token").write_text("x")
        time.sleep(1.2)
        inside(nothing)
        (base / "crypt" / "ok.txt").write_text("x")
        inside(".:\na\ncrypt\nd\n\ncrypt:\nok.txt\n")


def test_rewrites_of_a_live_file_are_never_torn(dirs):
    """Size and content belong together: a reader sees an old or a new version, no old size over new bytes."""
    with Fence(dirs, options=["--live"]) as f:
        target = dirs / "base/a"
        for i in range(20):
            body = (f"{i:03}" * (100 + 50 * (i % 7))).encode()
            (dirs / "base/.tmp").write_bytes(body)
            os.rename(dirs / "base/.tmp", target)
            assert wait_until(lambda: f.sh("cat a").stdout == body, 2), i
            assert int(f.sh("stat -c %s a").out) == len(body)


def test_what_the_sandbox_changed_hides_later_changes_of_the_base(dirs):
    with Fence(dirs, options=["--live"]) as f:
        f.sh("echo mine > a; rm d/b").ok()
        (dirs / "base/a").write_text("theirs\n")
        (dirs / "base/d/b").write_text("theirs\n")
        (dirs / "base/d/c").write_text("c\n")
        assert wait_until(lambda: f.sh("cat d/c").out == "c\n", 3)
        assert f.sh("cat a; ls d").out == "mine\nc\n"


def test_a_removed_base_directory_does_not_break_the_fence(dirs):
    with Fence(dirs, options=["--live"]) as f:
        with background(["/bin/sh", "-c", "cd d && sleep 20"], f.mnt):
            f.sh("ls d")
            shutil.rmtree(dirs / "base/d")
            assert wait_until(lambda: f.sh("ls").out == "a\n", 3)
            f.sh("ls d; cat d/b; mkdir d; echo x > d/y")
            assert f.alive()


# ---- unprivileged ----

UNPRIVILEGED = """
set -e
cd {work}
exec {program} mount --base base --delta delta --rule '**=write' --rule '/hidden=none' --rule '/view=view' --control u-control --ready-fd 9 mnt
"""


def test_mounting_without_privilege_in_a_user_namespace(work):
    """Nobody in particular, with a user and mount namespace of their own."""
    if not IS_ROOT:
        pytest.skip("the whole suite already runs so")
    # /dev/fuse may be closed to others on this machine: open it in our private mount namespace only
    node = work / "fuse-node"
    os.mknod(node, stat.S_IFCHR | 0o666, os.stat("/dev/fuse").st_rdev)
    os.chmod(node, 0o666)
    home = work / "home"
    Tree(home / "base").file("a", "a\n").file("hidden", "h").file("view", "v").dir("d")
    for d in ("delta", "mnt"):
        (home / d).mkdir()
    subprocess.run(["chown", "-R", f"{SANDBOX_UID}:{SANDBOX_GID}", home], check=True)
    before = fingerprint(home / "base")
    program = tools_dir() / "agentfense"
    if not program.exists():
        shutil.copy(os.environ["AGENTFENSE"], program)
        program.chmod(0o755)
    script = f"""
mount --bind {node} /dev/fuse
exec setpriv --reuid={SANDBOX_UID} --regid={SANDBOX_GID} --clear-groups --bounding-set=-all --inh-caps=-all unshare -Urm /bin/sh -c '
cd {home}
mkfifo ready; {program} mount --base base --delta delta --rule "**=write" --rule "/hidden=none" --rule "/view=view" --ready-fd 9 mnt 9>ready 2>log &
fence=$!
head -c 1 ready >/dev/null || {{ cat log; exit 9; }}
cd mnt
ls; cat a; cat hidden; cat view; echo new > n; cat n; mkdir x; mv n x/n; rm a; ls; stat -c "%u %g" x
cd ..; kill $fence; wait $fence; echo ended $?; ls mnt
'"""
    ran = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert ran.stdout.splitlines() == ["a", "d", "view", "a", "new", "d", "view", "x", "0 0", "ended 0"], (
        ran.stdout + ran.stderr
    )
    assert fingerprint(home / "base") == before


# ---- the delta verb ----


def changed(dirs):
    with Fence(dirs) as f:
        f.sh("echo changed > a; rm d/b; mkdir -p n/e; echo new > n/e/w; ln -s a l; chmod 755 a").ok()


def test_delta_list_names_the_changes(dirs):
    changed(dirs)
    ran = agentfense("delta", "list", dirs / "delta")
    assert ran.returncode == 0, ran
    for what, path in (("modified", "/a"), ("deleted", "/d/b"), ("added", "/n/"), ("added", "/n/e/w"), ("added", "/l")):
        assert re.search(rf"^{what}\s+{re.escape(path)}$", ran.stdout, re.M), (path, ran.stdout)
    assert len(ran.stdout.splitlines()) == 6
    assert ".wh." not in ran.stdout


def test_delta_list_in_json(dirs):
    changed(dirs)
    ran = agentfense("delta", "list", "--json", dirs / "delta")
    assert ran.returncode == 0, ran
    changes = {c["path"]: c["change"] for c in json.loads(ran.stdout)["changes"]}
    assert changes == {"/a": "modified", "/d/b": "deleted", "/n": "added", "/n/e": "added", "/n/e/w": "added", "/l": "added"}


def test_delta_export_gives_the_changed_tree(dirs):
    changed(dirs)
    ran = agentfense("delta", "export", "--to", dirs / "out", dirs / "delta")
    assert ran.returncode == 0, ran
    found = {p.decode(): entry[0] for p, entry in view_of(dirs / "out").items()}
    plain = {p: kind for p, kind in found.items() if not os.path.basename(p).startswith(".wh.")}
    assert plain.items() >= {"a": "file", "n": "dir", "n/e": "dir", "n/e/w": "file", "l": "link"}.items(), found
    assert set(plain) <= {"a", "d", "n", "n/e", "n/e/w", "l"}, "nothing but the changes"
    assert (dirs / "out.deleted").read_bytes() == b"d/b\0"
    assert (dirs / "out/a").read_text() == "changed\n" and stat.S_IMODE(os.stat(dirs / "out/a").st_mode) == 0o755


def test_delta_export_refuses_to_overwrite(dirs):
    changed(dirs)
    (dirs / "out").mkdir()
    (dirs / "out/a").write_text("precious")
    ran = agentfense("delta", "export", "--to", dirs / "out", dirs / "delta")
    assert ran.returncode > 0 and (dirs / "out/a").read_text() == "precious", ran


def test_delta_discard_takes_all_changes_back(dirs):
    changed(dirs)
    before = fingerprint(dirs / "base")
    ran = agentfense("delta", "discard", dirs / "delta")
    assert ran.returncode == 0, ran
    with Fence(dirs) as f:
        assert f.sh("cat a d/b; ls").out == "a\nb\na\nd\n"
    assert fingerprint(dirs / "base") == before


def test_delta_verbs_refuse_what_is_no_delta(dirs):
    (dirs / "photos").mkdir()
    (dirs / "photos/p.jpg").write_text("precious")
    for verb in ("list", "discard"):
        for path in (dirs / "photos", dirs / "absent", dirs / "base", dirs / "base/a"):
            ran = agentfense("delta", verb, path)
            assert ran.returncode > 0 and ran.stderr, (verb, path, ran)
    assert (dirs / "photos/p.jpg").read_text() == "precious" and (dirs / "base/a").read_text() == "a\n"
    assert agentfense("delta").returncode > 0 and agentfense("delta", "frobnicate", dirs / "photos").returncode > 0


def test_discarding_a_delta_in_use_is_refused(dirs):
    with Fence(dirs) as f:
        f.sh("echo x > x").ok()
        ran = agentfense("delta", "discard", f.delta)
        assert ran.returncode > 0, ran
        assert f.sh("cat x").out == "x\n"


# ---- cost ----


def private_kib(pid):
    """What this process alone costs: pages of the program file are in the page cache once for all, even if only one maps them."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Private_Dirty:\s+(\d+)", text, re.M))


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.fixture
def plain_malloc(monkeypatch):
    """Meson has malloc fill what it gives with a pattern, which touches pages that nobody would; a sanitizer has a malloc of
    its own, whose cost is not ours."""
    if "AGENTFENSE_SANITIZED" in os.environ:
        pytest.skip(f"memory says nothing under {os.environ['AGENTFENSE_SANITIZED']}")
    monkeypatch.delenv("MALLOC_PERTURB_", raising=False)


def test_an_idle_mount_costs_nothing(dirs, plain_malloc):
    """Under 1 MB of private memory and no CPU."""
    with Fence(dirs) as f:
        f.sh("ls -la; cat a")
        time.sleep(1)
        before = cpu_ticks(f.process.pid)
        time.sleep(2)
        assert cpu_ticks(f.process.pid) == before
        assert private_kib(f.process.pid) < 1024


def test_memory_per_remembered_inode(dirs, plain_malloc):
    """About 200 bytes for each inode the kernel remembers, besides names; no more than 400 here with the names."""
    count = 20_000
    for i in range(count):
        if i % 500 == 0:
            (dirs / f"base/m{i // 500}").mkdir()
        os.close(os.open(dirs / f"base/m{i // 500}/f{i}", os.O_CREAT | os.O_WRONLY))
    with Fence(dirs) as f:
        f.sh("ls")
        before = private_kib(f.process.pid)
        f.sh("find . -printf '%s' >/dev/null; ls -lR >/dev/null")
        grown = (private_kib(f.process.pid) - before) * 1024 / count
        assert grown < 400, f"{grown:.0f} bytes per inode"


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_many_mounts_at_once(work, count, plain_malloc):
    """Each usable, each within its memory; unmounting leaves nothing behind."""
    Tree(work / "base").file("a", "a\n").file("d/b", "b\n")
    fences = []
    try:
        for i in range(count):
            f = Fence(work / f"m{i}", base=work / "base")
            f.start()
            fences.append(f)
        for i, f in enumerate(fences):
            (f.mnt / "own").write_text(str(i))
        assert all((f.mnt / "own").read_text() == str(i) and (f.mnt / "a").read_text() == "a\n" for i, f in enumerate(fences))
        memory = sorted(private_kib(f.process.pid) for f in fences)
        assert memory[-1] < 1024, memory[-5:]
    finally:
        for f in fences:
            if f.process:
                f.process.terminate()
        for f in fences:
            f.stop()
    assert not any(f.left_mounted for f in fences)
    assert sorted(os.listdir(work / "base")) == ["a", "d"]
