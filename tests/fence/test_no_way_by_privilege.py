"""No way around by special files, modes and attributes, nor for those who may ignore mode bits: see test_no_way_around."""

import os
import stat

import pytest
from attacker import FIXED, RULES, SECRET, VIEWED, WAYS_OUT, answers
from harness import PYTHON, Refused, Tree, background, run, sandbox_ids, tools_dir, wait_until


# Special files, modes and attributes


def test_device_nodes_cannot_be_made(attack):
    code = """
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    say(attempt(os.mknod, "dev", kind | 0o666, os.makedev(1, 3)), exists("dev"))
"""
    f = attack()
    for caps in ("none", "keep"):
        assert answers(f, code, caps=caps) == ["EPERM ENOENT"] * 2


def test_device_nodes_of_the_base_cannot_be_opened(work, fence):
    if sandbox_ids()[0] == 0:
        pytest.skip("only root can make a device node to try")
    t = Tree(work / "base").file("x", "x")
    os.mknod(t.at("zero"), stat.S_IFCHR | 0o666, os.makedev(1, 5))
    f = fence()
    for caps in ("none", "keep"):
        got = (
            f.python(
                "say(attempt(lambda: os.read(os.open('zero', os.O_RDONLY), 4)), attempt(lambda: os.write(os.open('zero', os.O_WRONLY), b'x')))",
                caps=caps,
            )
            .ok()
            .out.split()
        )
        assert got[0].startswith("E") and got[1].startswith("E"), got


def test_suid_sgid_and_capabilities_do_not_survive(work, fence):
    t = Tree(work / "base").file("suid", "#!/bin/sh\nid -u\n", 0o6755).file("caps", "x", 0o755)
    os.chmod(t.at("suid"), 0o6755)
    with_caps = False
    try:
        os.setxattr(t.at("caps"), "security.capability", bytes.fromhex("0100000202000000000000000000000000000000"))
        with_caps = True
    except OSError:
        pass
    f = fence()
    got = f.python("""
say(oct(os.stat("suid").st_mode & 0o7777))
put("suid", b"#!/bin/sh\\n", os.O_WRONLY|os.O_APPEND); put("caps", b"y", os.O_WRONLY|os.O_APPEND)
say(oct(os.stat("suid").st_mode & 0o6000))
put("mine"); attempt(os.chmod, "mine", 0o6777); say(oct(os.stat("mine").st_mode & 0o6000))
fd = os.open("made", os.O_CREAT|os.O_WRONLY, 0o6777); say(oct(os.stat("made").st_mode & 0o6000))
attempt(os.mkdir, "sg", 0o2777); attempt(os.chmod, "sg", 0o2777)
say(attempt(os.setxattr, "mine", "security.capability", bytes.fromhex("0100000202000000000000000000000000000000")), attempt(os.getxattr, "caps", "security.capability"))
say(attempt(os.setxattr, "mine", "trusted.x", b"y"), attempt(os.setxattr, "mine", "system.posix_acl_access", b"y"), attempt(os.setxattr, "mine", "user.x", b"y"), os.listxattr("mine"))
say(attempt(os.chmod, "caps", 0o755))
""").ok().out.splitlines()
    assert got[0] in ("0o755", "0o6755") and got[1:4] == ["0o0"] * 3, got
    assert got[4].split()[0] in ("EPERM", "EOPNOTSUPP", "EACCES") and got[4].split()[1] in ("ENODATA", "EOPNOTSUPP"), got
    assert got[5].split()[2:] == ["ok", "['user.x']"] and "ok" not in got[5].split()[:2]
    for top, dirs, files in os.walk(work / "delta"):
        for name in files + dirs:
            st = os.lstat(os.path.join(top, name))
            # On a directory set-group-ID gives nobody a right.
            assert stat.S_ISLNK(st.st_mode) or not st.st_mode & (0o4000 if stat.S_ISDIR(st.st_mode) else 0o6000), name
            if with_caps:
                with pytest.raises(OSError):
                    os.getxattr(os.path.join(top, name), "security.capability", follow_symlinks=False)


def test_suid_programs_of_the_base_gain_nothing(work, fence):
    t = Tree(work / "base")
    with open("/usr/bin/id", "rb") as f:
        t.file("id", f.read(), 0o4755)
    os.chmod(t.at("id"), 0o4755)
    f = fence()
    ran = run(["./id", "-u"], cwd=f.mnt, caps="-all")  # not even no_new_privs to hold it
    assert ran.out.strip() == str(sandbox_ids()[0]), ran.err


def test_tmpfile_is_not_supported(attack):
    got = answers(
        attack(),
        """
for d in (".", "open", "read", "look"):
    say(opened(d, os.O_TMPFILE|os.O_RDWR), opened(d, os.O_TMPFILE|os.O_WRONLY|os.O_EXCL))
say(opened("secret", os.O_TMPFILE|os.O_RDWR))
""",
    )
    assert got[:2] == ["EOPNOTSUPP EOPNOTSUPP"] * 2
    assert all(w in ("EOPNOTSUPP", "EACCES") for line in got[2:4] for w in line.split()) and got[4] == "ENOENT"


def test_fifos_are_never_opened_by_the_fence(attack):
    f = attack()
    got = answers(
        f,
        """
say(oct(stat.S_IFMT(os.stat("open/fifo").st_mode)), attempt(os.chmod, "open/fifo", 0o600), attempt(os.rename, "open/fifo", "open/fifo2"), exists("open/fifo"), attempt(os.link, "open/fifo2", "open/fifo3"))
fd = os.open("open/fifo2", os.O_RDWR|os.O_NONBLOCK); os.write(fd, b"through"); say(os.read(fd, 7))
os.mkfifo("own"); t = threading.Thread(target=lambda: put("own", b"hello", os.O_WRONLY)); t.start(); say(content("own")); t.join()
say(attempt(os.unlink, "open/fifo2"), attempt(os.unlink, "own"))
""",
    )
    assert got == ["0o10000 ok ok ENOENT ok", "b'through'", "b'hello'", "ok ok"]


# Those who may ignore mode bits

DAC_CODE = """
fd = -1
def grab(path, flags):
    try: fd = os.open(path, flags)
    except OSError as e: return name_of(e.errno)
    out = []
    for what in (lambda: os.read(fd, 100), lambda: os.pread(fd, 100, 0), lambda: os.sendfile(1, fd, 0, 100), lambda: mapped(fd)):
        try: out.append(what())
        except OSError as e: out.append(name_of(e.errno))
    return out
def mapped(fd):
    pid = os.fork()
    if pid == 0:
        m = mmap.mmap(fd, 0 if os.fstat(fd).st_size else 4096, mmap.MAP_SHARED, mmap.PROT_READ)
        os.write(1, m[:100]); os._exit(0)
    return os.waitpid(pid, 0)[1]
def spoil(path):
    try: fd = os.open(path, os.O_RDWR)
    except OSError as e: return name_of(e.errno)
    out = []
    def smear():
        pid = os.fork()
        if pid == 0:
            m = mmap.mmap(fd, 4, mmap.MAP_SHARED, mmap.PROT_READ|mmap.PROT_WRITE)
            m[:4] = b"MMAP"; m.flush(); os._exit(0)
        return os.waitpid(pid, 0)[1]
    for what in (lambda: os.write(fd, b"SPOILED"), lambda: os.pwrite(fd, b"SPOILED", 3), lambda: os.fsync(fd), lambda: os.ftruncate(fd, 1), lambda: fallocate(fd, 0, 0, 5000),
                 lambda: os.fchmod(fd, 0o777), smear, lambda: os.copy_file_range(os.open("open/file.txt", 0), fd, 3)):
        try: out.append(what())
        except OSError as e: out.append(name_of(e.errno))
    os.close(fd)
    return out
say("caps", [l for l in open("/proc/self/status") if l.startswith("CapEff")])
for p in ("look/file.txt", "look/tool", "secret/plan.txt", "hidden.txt", "open/server.key"):
    say(p, grab(p, os.O_RDONLY), grab(p, os.O_RDWR), attempt(os.execv, p, [p]) if "look" in p else "")
for p in ("look/file.txt", "read/file.txt"):
    say(p, spoil(p), put(p), attempt(os.truncate, p, 1), attempt(os.unlink, p), attempt(os.rename, p, "taken"), attempt(os.link, p, "taken"), attempt(os.chmod, p, 0o777), attempt(os.setxattr, p, "user.x", b"y"))
say(attempt(os.readlink, "look/link"), attempt(os.getxattr, "look/attr.txt", "user.note"))
for p in ("read/new", "look/new", "hidden.key"):
    say(p, put(p), attempt(os.mkdir, p), attempt(os.symlink, "x", p), attempt(os.rename, "open/dir", p), exists(p))
say(os.stat("look/file.txt").st_size, os.stat("read/file.txt").st_size, content("read/file.txt"))
"""


def userns_caps():
    """What making a user namespace takes: nothing, but a namespace's 0 is mapped in another one only with CAP_SETFCAP."""
    return "+setfcap" if sandbox_ids()[0] == 0 else "none"


@pytest.mark.parametrize("data_path", ["auto", "cached", "passthrough"])
@pytest.mark.parametrize("who", ["userns", "root", "dac_override"])
def test_a_process_that_may_ignore_mode_bits(attack, who, data_path):
    """CAP_DAC_OVERRIDE in a user namespace of one's own, the host's root, and the bare capability: mode bits are the fast answer, the
    daemon is the wall."""
    if who != "userns" and sandbox_ids()[0] == 0:
        pytest.skip("not root")
    try:
        f = attack(options=["--data-path", data_path])
    except Refused as e:
        if data_path == "passthrough":
            pytest.skip(f"no passthrough here: {e}")
        raise
    f.sh("cat read/file.txt; ls -lR >/dev/null")  # warm caches for the attacker to find
    argv = [PYTHON, "-c", "from inside import *\n" + DAC_CODE]
    if who == "userns":
        argv = ["unshare", "-Ur", "--", *argv]
    caps = {"userns": userns_caps(), "root": "keep", "dac_override": "+dac_override,+dac_read_search,+fowner"}[who]
    ran = f.run(argv, env={"PYTHONPATH": str(tools_dir())}, caps=caps)
    assert ran.code == 0, ran.err
    assert VIEWED not in ran.stdout and SECRET not in ran.stdout, ran.out
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert "0000000000000000" not in lines["caps"], "the attacker lacks the capability this test is about: " + lines["caps"]
    assert "SPOILED" not in ran.out and ran.out.splitlines()[-1].startswith(f"{len(VIEWED)} {len(FIXED)} "), ran.out
    # What it did to its own mapping may be in the page cache until the refused write-back has thrown it out, no longer.
    assert wait_until(lambda: f.sh("cat read/file.txt").stdout == FIXED), f.sh("cat read/file.txt").out
    assert f.sh("cat look/file.txt").stdout == b""
    assert f.sh("ls taken read/new look/new hidden.key").out == ""
    f.remount()
    assert f.sh("cat read/file.txt").stdout == FIXED


@pytest.mark.parametrize("who", ["userns", "root", "dac_override"])
def test_copies_out_of_a_file_opened_by_ignoring_its_mode(attack, scratch, who):
    """A file that may only be looked at, open: no byte of it comes out by splice, sendfile or a copy, nor where its holes are."""
    if who != "userns" and sandbox_ids()[0] == 0:
        pytest.skip("not root")
    f = attack()
    code = 'say(*ways_out(os.open("look/file.txt", os.O_RDONLY))); say(*come_out())'
    argv = [PYTHON, "-c", WAYS_OUT + code, str(scratch / "out")]
    caps = {"userns": userns_caps(), "root": "keep", "dac_override": "+dac_override"}[who]
    ran = f.run(
        ["unshare", "-Ur", "--", *argv] if who == "userns" else argv, env={"PYTHONPATH": str(tools_dir())}, caps=caps
    )
    assert ran.code == 0, "it could not even be opened: " + ran.err
    assert VIEWED[:10] not in ran.stdout, ran.out
    got = ran.out.splitlines()
    assert got[0].split()[:7] == ["EACCES"] * 7 and got[0].split()[7].startswith("E"), ran.out
    assert got[1] == "b'mine' b'' EAGAIN", ran.out


def taken_handles(f, paths):
    """The handle of each path, as "type:hex", taken where the paths can be seen."""
    code = """
for path in sys.argv[1:]:
    h = name_to_handle(path)
    say(f"{h.type}:{bytes(h.data[:h.bytes]).hex()}")
"""
    return f.python(code, *paths, caps="keep").ok().out.split()


def led_by(f, handles):
    """What each of the handles leads to in this mount, for root."""
    code = """
root = os.open(".", os.O_RDONLY|os.O_DIRECTORY)
os.stat("open/file.txt"), os.stat("look/file.txt")
def follow(h):
    fd = open_by_handle(root, h)
    try: return os.listdir(fd) if stat.S_ISDIR(os.fstat(fd).st_mode) else os.read(fd, 100)
    finally: os.close(fd)
for text in sys.argv[1:]:
    kind, data = text.split(":")
    h = Handle(bytes=len(data) // 2, type=int(kind))
    ctypes.memmove(h.data, bytes.fromhex(data), h.bytes)
    say(attempt(follow, h))
"""
    return f.python(code, *handles, caps="keep").ok().out.splitlines()


HIDDEN = ["hidden.txt", "secret/plan.txt", "open/server.key", "deep/a/b/inner.txt", "secret", "secret/sub"]


def test_file_handles_from_a_mount_where_everything_is_seen(attack, fence, work):
    """Node ids come from paths, so whoever sees the base elsewhere knows those of what is hidden here: they lead nowhere."""
    if sandbox_ids()[0] == 0:
        pytest.skip("not root")
    f = attack()
    seen = fence(["/**=read"], name="seen", base=work / "base")
    handles = taken_handles(seen, ["open/file.txt", "look/file.txt", *HIDDEN])
    f.sh("find . >/dev/null; cat hidden.txt secret/plan.txt open/server.key; ls secret")
    got = led_by(f, handles)
    assert got[:2] == ["b'open\\n'", "EACCES"], "the numbers are others here, and this proves nothing"
    assert got[2:] == ["ESTALE"] * len(HIDDEN)


def test_file_handles_of_what_was_hidden_while_in_use(attack):
    """The kernel still knows the inode then, and finds it by its handle: the daemon has to refuse."""
    if sandbox_ids()[0] == 0:
        pytest.skip("not root")
    f = attack(["/**=read"])
    code = "held = [os.open(p, os.O_RDONLY) for p in sys.argv[1:]]; say('open'); sys.stdin.readline()"
    argv = [PYTHON, "-c", "from inside import *\n" + code, *HIDDEN]
    with background(argv, f.mnt, text=True) as child:
        assert child.stdout.readline() == "open\n"
        handles = taken_handles(f, HIDDEN)
        assert led_by(f, handles)[:4] == [repr(SECRET)] * 4, "the handles lead nowhere even now, and this proves nothing"
        f.set_rules(RULES)
        got = led_by(f, handles)
        assert set(got) <= {"ENOENT", "ESTALE"} and len(got) == len(HIDDEN), got


def test_file_handles_without_privilege(attack):
    got = answers(
        attack(),
        """
root = os.open(".", os.O_RDONLY|os.O_DIRECTORY)
say(attempt(name_to_handle, "secret/plan.txt"), attempt(name_to_handle, "hidden.txt"))
try: h = name_to_handle("look/file.txt"); say(attempt(open_by_handle, root, h))
except OSError as e: say("EPERM")
""",
    )
    assert got == ["ENOENT ENOENT", "EPERM"]


def test_mounting_something_over_or_from_the_fence_in_a_namespace_of_ones_own(attack, scratch):
    f = attack()
    ran = f.run(
        [
            "unshare",
            "-Urm",
            "/bin/sh",
            "-c",
            f"""
cd {f.mnt}
mkdir -p {scratch}/m {scratch}/u {scratch}/w
mount --bind secret {scratch}/m && cat {scratch}/m/plan.txt
mount --bind look/file.txt {scratch}/m; cat {scratch}/m
mount -t overlay o -o lowerdir={f.mnt}/look,upperdir={scratch}/u,workdir={scratch}/w {scratch}/m && cat {scratch}/m/file.txt && umount {scratch}/m
mount -t overlay o -o lowerdir={f.mnt},upperdir={scratch}/u,workdir={scratch}/w {scratch}/m && cat {scratch}/m/look/file.txt {scratch}/m/secret/plan.txt {scratch}/m/hidden.txt
cp look/file.txt {scratch}/; tar cf - look | cat; dd if=look/file.txt
""",
        ]
    )
    assert SECRET not in ran.stdout + ran.stderr and VIEWED not in ran.stdout + ran.stderr, ran.out
    for top, _, files in os.walk(scratch):
        for name in files:
            with open(os.path.join(top, name), "rb") as g:
                assert VIEWED not in g.read()
