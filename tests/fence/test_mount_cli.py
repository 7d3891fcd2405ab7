"""The mount verb as people and scripts meet it: what it refuses, how it ends, its control socket, events."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest
from harness import (
    IS_ROOT,
    SANDBOX_GID,
    SANDBOX_UID,
    TIMEOUT,
    Fence,
    Refused,
    Tree,
    background,
    fingerprint,
    is_mountpoint,
    run,
    tools_dir,
    wait_until,
    write_policy,
)
from mounting import agentfense


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


def test_a_delta_in_the_base_is_refused_before_it_is_made(dirs):
    for place in ("base/zz", "base/zz/", "base/d/../zz", "alias/zz"):
        if not (dirs / "alias").is_symlink():
            os.symlink("base", dirs / "alias")
        assert "lie in one another" in refuses(dirs, delta=f"{dirs}/{place}")
        assert sorted(os.listdir(dirs / "base")) == ["a", "d"]


def test_a_delta_is_made_by_any_name_for_its_place(dirs):
    for name in ("delta", "delta/", "./delta", "d2//", "mnt/../d3"):
        with Fence(dirs, delta=f"{dirs}/{name}") as f:
            shutil.rmtree(f.delta)
            f.remount(delta=name, prefix=["env", "-C", dirs])
            f.sh("echo x > new").ok()
        assert (dirs / name / "data/new").read_text() == "x\n"


@pytest.mark.parametrize("name", ["", "absent/delta", "dangling", "file/delta"])
def test_a_delta_that_has_no_place_is_refused(dirs, name):
    os.symlink("base/elsewhere", dirs / "dangling")
    (dirs / "file").write_text("")
    ran = agentfense("mount", "--base", "base", "--delta", name, "--rule", "**=write", "mnt", cwd=dirs)
    assert ran.returncode > 0 and "delta '" in ran.stderr and name in ran.stderr, ran
    assert sorted(os.listdir(dirs)) == ["base", "dangling", "file", "mnt"]


@pytest.mark.parametrize("how", ["missing", "a file", "in the base", "around the delta"])
def test_a_refused_mount_leaves_no_new_delta_behind(dirs, how):
    for d in ("around", "base/d/m"):
        (dirs / d).mkdir()
    delta = dirs / "around/delta"
    mnt = {"missing": "nowhere", "a file": "base/a", "in the base": "base/d/m", "around the delta": "around"}[how]
    refuses(dirs, delta=delta, mnt=dirs / mnt, rule="/x/y/=write")
    assert not delta.exists()


def test_who_may_not_mount_is_left_no_new_delta(dirs):
    if not IS_ROOT:
        pytest.skip("root only can become somebody else")
    home = dirs / "theirs"
    for d in (home, home / "mnt"):
        d.mkdir()
        os.chown(d, SANDBOX_UID, SANDBOX_GID)
    program = tools_dir() / "agentfense"
    if not program.exists():
        shutil.copy(os.environ["AGENTFENSE"], program)
        program.chmod(0o755)
    ran = run(
        [program, "mount", "--base", dirs / "base", "--delta", home / "delta", "--rule", "/x/y/=write", home / "mnt"], cwd="/"
    )
    assert ran.code > 0 and not is_mountpoint(home / "mnt"), ran.err
    assert os.listdir(home) == ["mnt"]


def test_a_refused_mount_leaves_a_delta_that_was_there(dirs):
    with Fence(dirs) as f:
        f.sh("echo x > new").ok()
    before = sorted(os.listdir(dirs / "delta"))
    refuses(dirs, mnt=dirs / "nowhere")
    assert sorted(os.listdir(dirs / "delta")) == before
    assert (dirs / "delta/data/new").read_text() == "x\n"
    (dirs / "empty").mkdir()
    refuses(dirs, delta=dirs / "empty", mnt=dirs / "nowhere")
    assert (dirs / "empty").is_dir(), "somebody else made it"


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
        timeout=TIMEOUT,
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
    message = refuses(dirs, base=dirs / "base2")
    assert f"{dirs}/base'" in message and f"{dirs}/base2'" in message and "--other-base" in message
    with Fence(dirs, base=dirs / "base2", options=["--other-base"]) as f:
        assert f.sh("cat other").out == "o"


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
        ["--threads", " 1"],
        ["--threads", "+1"],
        ["--threads", "1025"],
        ["--uid", "4294967295"],
        ["--quota", "12Q"],
        ["--quota", "8E"],
        ["--quota-inodes", "99999999999999999999"],
        ["--data-path", "fast"],
        ["--version-time", "yesterday"],
        ["--no-such-option"],
        ["--ready-fd", "999"],
        ["--ready-fd", "x"],
    ],
    ids=lambda a: " ".join(a),
)
def test_bad_options_are_refused_by_name_and_value(dirs, args):
    message = refuses(dirs, *args)
    assert args[0] in message and all(f"'{a}'" in message for a in args[1:]), message
    for option, allowed in (("--quota", "a size"), ("--uid", "from 0 to"), ("--threads", "from 0 to 1024"), ("--data-path", "auto, ")):
        assert args[0] != option or allowed in message, message


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


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_given(work, option):
    ran = agentfense("mount", option)
    assert ran.returncode == 0 and "--base" in ran.stdout and "-h, --help" in ran.stdout and not ran.stderr


# ---- the place of the control socket ----


def test_a_file_in_the_place_of_the_control_socket_is_left_alone(dirs):
    (dirs / "precious.txt").write_text("precious")
    os.symlink("precious.txt", dirs / "link")
    os.symlink("gone", dirs / "dangling")
    (dirs / "directory").mkdir()
    os.mkfifo(dirs / "fifo")
    before = fingerprint(dirs)
    for name in ("precious.txt", "link", "dangling", "directory", "fifo"):
        message = refuses(dirs, "--control", dirs / name)
        assert "--control" in message and f"{dirs}/{name}'" in message and "not a socket" in message, message
        assert fingerprint(dirs) == before


def test_a_control_socket_that_somebody_answers_is_left_alone(dirs):
    (dirs / "mnt2").mkdir()
    with Fence(dirs) as f:
        message = refuses(dirs, "--control", f.control_path, delta=dirs / "delta2", mnt=dirs / "mnt2")
        assert "--control" in message and "in use" in message, message
        assert not f.control("stats").get("error")
        assert not (dirs / "delta2").exists()


def test_a_control_socket_that_nobody_answers_any_more_is_replaced(dirs):
    f = Fence(dirs).start()
    f.process.kill()
    f.process.wait()
    f.process = None
    f.clear_mount()
    assert stat.S_ISSOCK(f.control_path.stat().st_mode)
    args = ["mount", "--base", f.base, "--delta", f.delta, "--rule", "**=write", "--control", f.control_path, f.mnt]
    child = subprocess.Popen([os.environ["AGENTFENSE"], *args], stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr.readline().startswith("mounted")
        assert not f.control("stats").get("error")
    finally:
        child.terminate()
        assert child.wait(20) == 0
        child.stderr.close()
    assert not f.control_path.exists()


def test_at_the_end_only_the_own_control_socket_is_removed(dirs):
    f = Fence(dirs).start()
    f.control_path.unlink()
    f.control_path.write_text("somebody's")
    assert f.stop() == 0
    assert f.control_path.read_text() == "somebody's"


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
        assert f.stop() == 0
        assert not f.left_mounted
    with f:
        assert f.sh("cat held").out == "x\n"


def test_an_unmount_from_outside_ends_it(dirs):
    f = Fence(dirs).start()
    subprocess.run(["umount", f.mnt], check=True)
    assert f.process.wait(TIMEOUT) == 0
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


def test_rules_of_a_mount_that_is_read_past_us_are_not_changed(dirs):
    """Descriptors and mappings would outlive them."""
    try:
        f = Fence(dirs, rules=["**=read"], options=["--data-path", "passthrough"]).start()
    except Refused as e:
        pytest.skip(f"no passthrough here: {e}")
    try:
        write_policy(dirs / "tighter.json", ["**=read", "/a=none"])
        answer = f.control(f"rules {dirs / 'tighter.json'}")
        assert not answer["ok"] and "--data-path passthrough" in answer["error"], answer
        assert f.sh("cat a").out == "a\n"  # the old rules hold, and are said to
        f.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "--data-path passthrough" in f.log())
    finally:
        f.stop()


def test_bad_rules_on_the_control_socket_change_nothing(dirs):
    with Fence(dirs, rules=["**=read", "/a=none"]) as f:
        (dirs / "bad.json").write_text('{"version": 1, "rules": [{"pattern": "/../x", "permission": "read"}]}')
        for line in (f"rules {dirs}/bad.json", f"rules {dirs}/absent.json", "rules", "rules ", "nonsense", "", "x" * 5000):
            answer = f.control(line)
            assert isinstance(answer, dict) and answer.get("error"), (line, answer)
            assert f.sh("ls").out == "d\n"
        assert f.alive()


def test_refusals_on_the_control_socket_name_the_value_and_what_is_allowed(dirs):
    with Fence(dirs) as f:
        for line in ("nonsense", "stats now", 'say "é\\"', "rules"):
            error = f.control(line)["error"]
            assert line.split()[0] in error and "rules FILE" in error and "changed [PATH]" in error and "sync" in error, error
        for path in ("a", "/a/../b", "/a//b", "/d/", "/./a", "é"):
            error = f.control(f"changed {path}")["error"]
            assert f"'{path}'" in error and "begins with '/'" in error and "'..'" in error, error
            assert "not absolute" not in error
        assert "absent.json" in f.control(f"rules {dirs}/absent.json")["error"]
        assert f.control("changed /a")["ok"] and f.control("changed")["ok"]


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
        assert not f.control("stats").get("error"), "somebody who says nothing keeps others waiting"
        for s in idle:
            s.close()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(TIMEOUT)
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
        assert wait_until(lambda: f.sh("ls").out == "a\nd\n")
        policy.write_text("not a policy {")
        f.process.send_signal(signal.SIGHUP)
        assert wait_until(lambda: "keeping the old rules" in f.log())
        assert f.alive() and f.sh("ls").out == "a\nd\n", "bad rules must change nothing"


def test_policy_files_in_yaml_and_presets_together(dirs):
    (dirs / "policy.yaml").write_text(
        "version: 1\nextends: read-only\nrules:\n  - pattern: /d/\n    permission: write\n    type: directory\n"
    )
    with Fence(dirs, rules=(), policy=dirs / "policy.yaml") as f:
        got = f.python("say(content('a'), put('a'), put('d/b'), put('d/new'))").ok().out
        assert got == "b'a\\n' EACCES ok ok\n"


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
            lambda: denials(f, "/view/v") and denials(f, "/read/r") and (denials(f, "/read/new") or denials(f, "/read"))
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
        f.stop()  # which writes those that were still to come
        assert 1 <= len(f.events()) <= 400, len(f.events())


def test_events_are_valid_json_for_any_name(dirs):
    Tree(dirs / "base").file(b"view/new\nline", b"v").file(b'view/\xff"\\\x01', b"v")
    with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
        f.python("for n in os.listdir(b'view'): opened(b'view/' + n)")
        assert wait_until(lambda: len(f.events()) >= 2)


def test_events_name_paths_as_they_are(dirs):
    """UTF-8 stays as it is; a byte that is none comes as Python's surrogateescape has it."""
    names = ["view/é", "view/日本", "view/😀", os.fsdecode(b"view/\xff\xc3"), 'view/"\\\x7f']
    t = Tree(dirs / "base")
    for name in names:
        t.file(os.fsencode(name), b"v")
    with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
        f.python("for n in os.listdir(b'view'): opened(b'view/' + n)")
        assert wait_until(lambda: len(f.events()) >= len(names))
        assert {e["path"] for e in f.events()} == {"/" + name for name in names}


def test_events_never_hold_up_the_fence(dirs):
    """An events file that nobody drains (a FIFO without a reader, then a full one) blocks nothing."""
    Tree(dirs / "base").file("view/v", "v")
    os.mkfifo(dirs / "events")
    reader = os.open(dirs / "events", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Fence(dirs, rules=["**=write", "/view/**=view"]) as f:
            got = (
                f.python("for i in range(20000): opened(f'view/x{i}') or opened('view/v')\nsay(content('a'))")
                .ok()
                .out
            )
            assert got == "b'a\\n'\n"
    finally:
        os.close(reader)


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
    ran = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=TIMEOUT)
    assert ran.stdout.splitlines() == ["a", "d", "view", "a", "new", "d", "view", "x", "0 0", "ended 0"], (
        ran.stdout + ran.stderr
    )
    assert fingerprint(home / "base") == before
