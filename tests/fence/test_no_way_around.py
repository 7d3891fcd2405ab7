"""No way around: each test is one thing an attacker behind the fence tries.

The bytes that must stay behind are recognisable, so besides the errno each attempt is checked for them; and after each test the
base must be untouched byte for byte and the fence alive.
"""

import contextlib
import os
import stat
import subprocess
import threading
import time

import pytest
from harness import (
    LONG,
    PYTHON,
    Refused,
    Tree,
    background,
    fingerprint,
    is_mountpoint,
    run,
    sandbox_ids,
    tools_dir,
    umount,
    wait_until,
)

SECRET = b"XYZZY-THE-SECRET"
VIEWED = b"XYZZY-ONLY-SEEN"
FIXED = b"read me, change me not"

RULES = [
    "/**=write",
    "/secret/**=none",
    "/hidden.txt=none",
    "**/*.key=none",
    "/look/**=view",
    "/read/**=read",
    "/box/**/private/**=none",
    "/deep/a/b/inner.txt=none",
    "/deep/exception/**=none",
    "/deep/exception/ok.txt=read",
]


def build(root):
    t = Tree(root)
    t.file("secret/plan.txt", SECRET).file("secret/sub/more.txt", SECRET).file("hidden.txt", SECRET).file(
        "open/server.key", SECRET
    )
    t.file("look/file.txt", VIEWED).file("look/tool", b"#!/bin/sh\necho " + VIEWED + b"\n", 0o755).link("file.txt", "look/link")
    t.file("look/dir/inner", VIEWED)
    t.file("read/file.txt", FIXED).file("read/tool", "#!/bin/sh\necho ran\n", 0o755).file("read/dir/inner", FIXED)
    t.file("open/file.txt", "open\n").file("open/dir/a", "a\n").file("open/dir/b", "b\n").dir("open/empty")
    t.file("deep/a/b/inner.txt", SECRET).file("deep/a/b/outer.txt", "outer\n").file("deep/exception/ok.txt", "ok\n")
    t.file("deep/exception/no.txt", SECRET)
    t.dir("box").file("plain/x/y/z", "z\n").fifo("open/fifo")
    t.file("look/attr.txt", VIEWED)
    os.setxattr(t.at("look/attr.txt"), "user.note", VIEWED)
    t.settle()
    return t


@pytest.fixture
def attack(work, fence):
    build(work / "base")
    before = fingerprint(work / "base")
    made = []

    def start(rules=RULES, **kw):
        f = fence(rules, **kw)
        made.append(f)
        return f

    yield start
    for f in made:
        assert f.process is None or f.alive(), "the fence died: " + f.log()
        f.stop()
    assert fingerprint(work / "base") == before, "the base was changed"


def answers(f, code, *args, **kw):
    """What the Python code prints behind the fence, as a list of lines; none of them may hold a secret."""
    ran = f.python(code, *args, **kw)
    assert ran.code == 0, ran.err
    assert SECRET not in ran.stdout + ran.stderr and VIEWED not in ran.stdout + ran.stderr, ran.out
    return ran.out.splitlines()


# Opening and naming


def test_opening_a_hidden_file_in_every_way(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt", "secret", "secret/plan.txt", "secret/sub", "open/server.key", "deep/a/b/inner.txt", "deep/exception/no.txt"):
    for flags in (0, 1, 2, os.O_PATH, os.O_PATH|os.O_NOFOLLOW, os.O_DIRECTORY, os.O_WRONLY|os.O_TRUNC, os.O_RDWR|os.O_APPEND, os.O_NOFOLLOW):
        say(opened(path, flags), exists(path), attempt(os.stat, path), attempt(os.access, path, os.F_OK), attempt(os.readlink, path))
""",
    )
    assert set(got) == {"ENOENT ENOENT ENOENT False ENOENT"}


def test_making_a_hidden_name_says_nothing_of_its_existence(attack):
    got = answers(
        attack(),
        """
os.mkdir("d"); put("f")
for path in ("hidden.txt", "open/server.key", "secret", "secret/plan.txt", "secret/none", "open/none.key", "deep/a/b/inner.txt", "box/x.key"):
    print(path, opened(path, os.O_CREAT|os.O_WRONLY), opened(path, os.O_CREAT|os.O_EXCL|os.O_RDWR), attempt(os.mkdir, path),
        attempt(os.symlink, "x", path), attempt(os.mkfifo, path), attempt(os.mknod, path), attempt(os.link, "f", path),
        attempt(os.rename, "f", path), attempt(os.rename, "d", path), attempt(renameat2, "f", path, RENAME_NOREPLACE))
""",
    )
    by_path = {line.split()[0]: line.split()[1:] for line in got}
    for path, errnos in by_path.items():
        want = "ENOENT" if path.startswith("secret/") else "EACCES"  # a hidden directory itself does not exist
        assert set(errnos) == {want}, (path, errnos)


def test_trailing_slashes_and_detours(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt/", "secret/", "secret//plan.txt", "./secret/../secret/plan.txt", "read/../secret/plan.txt", "open/./server.key",
             "secret/.", "secret/..", "open/dir/../../hidden.txt", "//secret", "open/../secret/", "deep/exception/../exception/no.txt"):
    p = path if not path.startswith("//") else os.getcwd() + path
    say(path, exists(p), opened(p), opened(p, os.O_PATH), attempt(os.listdir, p), attempt(os.rmdir, p), attempt(os.unlink, p))
""",
    )
    for line in got:
        assert set(line.split()[1:]) == {"ENOENT"}, line


def test_a_file_treated_as_a_directory(attack):
    got = answers(
        attack(),
        """
say(exists("open/file.txt/"), exists("look/file.txt/x"), opened("open/file.txt/"), attempt(os.mkdir, "open/file.txt/"), opened("open/new/", os.O_CREAT|os.O_WRONLY))
""",
    )
    assert got == ["ENOTDIR ENOTDIR ENOTDIR EEXIST EISDIR"] or got == ["ENOTDIR ENOTDIR ENOTDIR ENOTDIR EISDIR"]


def test_odd_names_do_not_slip_past_a_rule(work, fence):
    t = Tree(work / "base")
    names = [
        b"new\nline.sec",
        b"\xff\xfe\x80.sec",
        b"s" * 251 + b".sec",
        b" .sec",
        b"\x01\x7f.sec",
        "ünï.sec".encode(),
        b"[a].sec",
        b"*.sec",
        b"back\\slash.sec",
        b".sec",
        b"a.sec",
    ]
    for n in names:
        t.file(b"d/" + n, SECRET)
        t.file(b"e/" + n[:250] + b"x", b"fine")
    f = fence(["/**=write", "**/*.sec=none"])
    ran = f.run(["find", ".", "-print0"])
    shown = ran.stdout.split(b"\0")
    assert not [s for s in shown if s.endswith(b".sec")]
    assert len([s for s in shown if s.startswith(b"./e/")]) == len(names)
    for n in names:
        assert f.run([b"cat", b"d/" + n]).stdout == b""
        assert b"fine" == f.run([b"cat", b"e/" + n[:250] + b"x"]).stdout
    got = f.python(
        "for n in (b'x\\n.sec', b'\\xff.sec', b'q' * 251 + b'.sec'): say(put(b'd/' + n), attempt(os.mkdir, b'd/' + n), attempt(os.rename, b'e/a.secx', b'd/' + n))"
    )
    assert set(got.ok().out.split()) == {"EACCES"}


def test_exact_names_with_special_bytes_are_hidden_by_file_rules(work, fence):
    t = Tree(work / "base")
    t.file(b"d/line\nbreak", SECRET).file(b"d/sta*r", SECRET).file(b"d/star", b"fine").file(b"d/sp ace", SECRET)
    f = fence(["/**=write", "/d/line\nbreak=none", "/d/sta\\*r=none", "/d/sp ace=none"])
    assert f.run(["ls", "d"]).out.split() == ["star"]
    assert f.sh("cat d/star").stdout == b"fine"


def test_names_longer_than_a_name_can_be(attack):
    got = answers(
        attack(),
        """
n = "n" * 255; m = "m" * 256
say(put("open/" + n), content("open/" + n), put("open/" + m), exists("open/" + m), attempt(os.mkdir, m), attempt(os.rename, "open/" + n, m))
say(attempt(os.unlink, "open/" + n), exists("open/" + n), put("open/" + n, b"again"), content("open/" + n), n in os.listdir("open"))
""",
    )
    assert got == ["ok b'x' ENAMETOOLONG ENAMETOOLONG ENAMETOOLONG ENAMETOOLONG", "ok ENOENT ok b'again' True"]


# Reading what may only be seen


def test_reading_a_view_file_in_every_way(attack):
    got = answers(
        attack(),
        """
for flags in (0, 2, os.O_RDONLY|os.O_NOATIME, os.O_RDONLY|os.O_DIRECT, os.O_RDONLY|os.O_NONBLOCK, os.O_WRONLY, os.O_WRONLY|os.O_TRUNC, os.O_RDWR|os.O_APPEND):
    say(opened("look/file.txt", flags))
say(attempt(os.readlink, "look/link"), attempt(os.getxattr, "look/attr.txt", "user.note"), attempt(os.listxattr, "look/attr.txt"))
say(attempt(os.execv, "look/tool", ["tool"]))
say(attempt(os.truncate, "look/file.txt", 0), attempt(os.chmod, "look/file.txt", 0o777), attempt(os.utime, "look/file.txt"))
say(os.stat("look/file.txt").st_size, sorted(os.listdir("look")))
""",
    )
    assert got[0] == "EACCES" and got[1] == "EACCES"
    assert set(got[:8]) <= {"EACCES", "EPERM"}
    assert got[8].split()[:2] == ["EACCES", "EACCES"]
    assert got[9] == "EACCES"
    assert got[10] == "EACCES EACCES EACCES"
    assert got[11] == f"{len(VIEWED)} ['attr.txt', 'dir', 'file.txt', 'link', 'tool']"


def test_a_path_descriptor_reopened_through_proc(attack):
    got = answers(
        attack(),
        """
for path in ("look/file.txt", "look/tool", "read/file.txt"):
    fd = os.open(path, os.O_PATH)
    me = f"/proc/self/fd/{fd}"
    say(path, opened(me), opened(me, os.O_WRONLY), opened(me, os.O_RDWR), attempt(os.read, fd, 10), attempt(os.execve, me, ["x"], {}) if path != "read/tool" else "",
        attempt(os.truncate, me, 0), attempt(os.chmod, me, 0o777))
    say(attempt(mmap.mmap, fd, 4, mmap.MAP_SHARED, mmap.PROT_READ))
""",
    )
    assert got[0].split() == ["look/file.txt"] + ["EACCES"] * 3 + ["EBADF"] + ["EACCES"] * 3
    assert got[2].split() == ["look/tool"] + ["EACCES"] * 3 + ["EBADF"] + ["EACCES"] * 3
    assert got[4].split() == ["read/file.txt", "ok", "EACCES", "EACCES", "EBADF", "EACCES", "EACCES", "EACCES"]


def test_a_directory_descriptor_used_to_reach_inside(attack):
    got = answers(
        attack(),
        """
fd = os.open("look", os.O_PATH|os.O_DIRECTORY)
say(attempt(os.open, "file.txt", os.O_RDONLY, dir_fd=fd), attempt(os.open, "../secret/plan.txt", os.O_RDONLY, dir_fd=fd), attempt(os.open, "../hidden.txt", os.O_PATH, dir_fd=fd))
fd = os.open("deep/exception", os.O_RDONLY|os.O_DIRECTORY)
say(attempt(os.open, "no.txt", os.O_RDONLY, dir_fd=fd), os.listdir(fd), attempt(os.stat, "no.txt", dir_fd=fd))
os.fchdir(fd)
say(attempt(os.open, "no.txt", os.O_RDONLY), os.getcwd().endswith("deep/exception"))
""",
    )
    assert got == ["EACCES ENOENT ENOENT", "ENOENT ['ok.txt'] ENOENT", "ENOENT True"]


def test_splice_sendfile_and_copy_file_range_out_of_closed_files(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine")
out = os.open("mine", os.O_RDWR)
r, w = os.pipe()
for path in ("look/file.txt", "hidden.txt"):
    fd = -1
    try: fd = os.open(path, os.O_RDONLY)
    except OSError as e: say(name_of(e.errno))
    try: fd = os.open(path, os.O_PATH)
    except OSError as e: say(name_of(e.errno)); continue
    say(attempt(os.splice, fd, w, 10), attempt(os.sendfile, out, fd, 0, 10), attempt(os.copy_file_range, fd, out, 10), attempt(fcntl.ioctl, out, FICLONE, fd))
say(content("mine"))
""",
    )
    assert got[0] == "EACCES" and set(got[1].split()) == {"EBADF"} and got[2:4] == ["ENOENT", "ENOENT"] and got[4] == "b'mine'"


def test_copying_into_a_read_only_file(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine")
src = os.open("mine", os.O_RDONLY)
dst = os.open("read/file.txt", os.O_RDONLY)
r, w = os.pipe(); os.write(w, b"data")
say(attempt(os.copy_file_range, src, dst, 4), attempt(os.sendfile, dst, src, 0, 4), attempt(os.splice, r, dst, 4), attempt(os.write, dst, b"x"), attempt(os.ftruncate, dst, 0),
    attempt(fallocate, dst, 0, 0, 100), attempt(fcntl.ioctl, dst, FICLONE, src), attempt(os.fchmod, dst, 0o666), attempt(os.utime, dst))
try: mmap.mmap(dst, 4, mmap.MAP_SHARED, mmap.PROT_WRITE); say("mapped")
except OSError as e: say(name_of(e.errno))
m = mmap.mmap(dst, 4, mmap.MAP_SHARED, mmap.PROT_READ)
say(libc.mprotect(ctypes.c_void_p(0), 0, 0) == 0, content("read/file.txt"))
""",
    )
    assert "ok" not in got[0].split() and not any(w.isdigit() for w in got[0].split()), got
    assert got[1] == "EACCES" and got[2] == f"True {FIXED!r}"


def test_changing_a_read_only_file_in_every_way(attack):
    got = answers(
        attack(),
        """
p = "read/file.txt"
for flags in (1, 2, os.O_WRONLY|os.O_TRUNC, os.O_RDONLY|os.O_TRUNC, os.O_WRONLY|os.O_APPEND, os.O_RDWR|os.O_CREAT, os.O_WRONLY|os.O_CREAT|os.O_TRUNC):
    say(opened(p, flags))
say(attempt(os.truncate, p, 0), attempt(os.unlink, p), attempt(os.rename, p, "mine"), attempt(os.link, p, "mine"), attempt(os.chmod, p, 0o777), attempt(os.utime, p),
    attempt(os.setxattr, p, "user.x", b"y"), attempt(os.removexattr, p, "user.x"), attempt(os.rename, "open/file.txt", p), attempt(os.link, "open/file.txt", "read/new"),
    attempt(os.mkdir, "read/new"), attempt(os.symlink, "x", "read/new"), opened("read/new", os.O_CREAT|os.O_WRONLY), attempt(os.mkfifo, "read/new"), attempt(os.rmdir, "read/dir"),
    attempt(os.rename, "read/dir", "dir"), attempt(os.rename, "open/empty", "read/dir"), attempt(os.rename, "open/empty", "read/new"))
say(opened(p, os.O_RDONLY|os.O_CREAT), opened(p, os.O_RDONLY|os.O_CREAT|os.O_EXCL), content(p))
""",
    )
    assert set(got[:7]) == {"EACCES"}, got
    assert set(got[7].split()) == {"EACCES"}, got[7]
    assert got[8] == f"ok EEXIST {FIXED!r}"


# Moving things to where other rules apply


def test_renaming_a_closed_file_to_an_open_name(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt", "look/file.txt", "read/file.txt", "open/server.key", "look/link", "look/dir", "read/dir", "secret"):
    say(path, attempt(os.rename, path, "taken"), attempt(renameat2, path, "taken", RENAME_NOREPLACE), exists("taken"))
""",
    )
    for line in got:
        path, *errnos = line.split()
        want = "EACCES" if path.startswith(("look", "read")) else "ENOENT"
        assert errnos == [want, want, "ENOENT"], line


def test_renaming_onto_a_closed_name(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt", "open/server.key", "look/file.txt", "look/new", "read/file.txt", "read/new", "open/new.key"):
    put("mine", b"mine")
    say(path, attempt(os.rename, "mine", path), attempt(renameat2, "mine", path, RENAME_NOREPLACE), attempt(exchange, "mine", path), content("mine"))
""",
    )
    for line in got:
        path, plain, noreplace, both, mine = line.split()
        exists_visibly = path in ("look/file.txt", "read/file.txt")
        assert plain == "EACCES" and noreplace in ({"EACCES", "EEXIST"} if exists_visibly else {"EACCES"}), line
        assert both == ("EACCES" if exists_visibly else "ENOENT" if path in ("look/new", "read/new") else both)
        assert both in ("EACCES", "ENOENT") and mine == "b'mine'", line


def test_hidden_and_absent_names_answer_an_exchange_alike(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine")
for pair in (("hidden.txt", "absent.key"), ("open/server.key", "open/absent.key"), ("secret/plan.txt", "secret/none")):
    say(attempt(exchange, "mine", pair[0]), attempt(exchange, "mine", pair[1]), attempt(exchange, pair[0], "mine"), attempt(exchange, pair[1], "mine"))
""",
    )
    for line in got:
        a, c, b, d = line.split()
        assert a == c and b == d


def test_exchanging_an_open_file_with_a_closed_one(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine"); os.mkdir("dir")
for path in ("look/file.txt", "read/file.txt", "look/dir", "read/dir"):
    say(attempt(exchange, "mine", path), attempt(exchange, path, "mine"), attempt(exchange, "dir", path), attempt(exchange, path, "dir"))
say(content("mine"), content("read/file.txt"))
""",
    )
    assert got[:4] == ["EACCES EACCES EACCES EACCES"] * 4 and got[4] == f"b'mine' {FIXED!r}"


def test_a_rename_may_not_leave_a_whiteout(attack):
    got = answers(
        attack(), "put('mine'); say(attempt(renameat2, 'mine', 'other', RENAME_WHITEOUT), exists('mine'), exists('other'))"
    )
    assert got[0].split()[0] in ("EINVAL", "EPERM", "EOPNOTSUPP", "ENOSYS") and got[0].endswith("ok ENOENT")


def test_renaming_an_ancestor_to_get_at_a_hidden_child(attack):
    f = attack()
    got = answers(
        f,
        """
say(attempt(os.rename, "deep/a/b", "deep/a/c"), attempt(os.rename, "deep/a", "freed"), attempt(os.rename, "deep", "freed"), attempt(os.rename, "open", "freed"))
say(attempt(renameat2, "deep/a", "open/dir", RENAME_EXCHANGE))
""",
    )
    assert got[0] == "EXDEV EXDEV EXDEV EXDEV" and got[1] in ("EXDEV", "EACCES")
    moved = f.sh("mv deep/a freed && find freed deep; cat freed/b/* freed/b/inner.txt; ls -a deep")
    assert SECRET not in moved.stdout and b"outer" in moved.stdout and b"inner" not in moved.stdout
    # once gone it must not come back with what was hidden in it
    again = f.sh("mkdir -p deep/a/b; ls -aR deep/a; cat deep/a/b/inner.txt")
    assert SECRET not in again.stdout


def test_a_directory_of_ones_own_renamed_to_where_rules_would_hide_part_of_it(attack):
    got = answers(
        attack(),
        """
os.makedirs("mine/private/x"); put("mine/private/note", b"n"); put("mine/other", b"o")
say(attempt(os.rename, "mine", "box/mine"))
say(exists("mine/private/note"), exists("box/mine"), exists("box/mine/private"))
os.makedirs("pure/sub"); put("pure/sub/f")
say(attempt(os.rename, "pure", "box/pure"), content("box/pure/sub/f"))
""",
    )
    assert got[0] in ("EXDEV", "EACCES") and got[1] == "ok ENOENT ENOENT" and got[2] == "ok b'x'"


def test_a_base_directory_that_rules_leave_alone_can_be_renamed(attack):
    """Where write is permitted throughout at both ends a rename is a rename, no EXDEV."""
    f = attack(["/plain/**=write@5", "/target/**=write@5", "/look/**=view"])
    got = answers(
        f,
        "say(attempt(os.mkdir, 'target')); say(attempt(os.rename, 'plain/x', 'target/x'), content('target/x/y/z'), exists('plain/x'), listing('plain'))",
    )
    assert got[-1] == "ok b'z\\n' ENOENT []"


def test_renaming_a_read_only_directory_away(attack):
    got = answers(
        attack(),
        """
say(attempt(os.rename, "read", "mine"), attempt(os.rename, "read/dir", "mine"), attempt(os.rename, "look", "mine"), attempt(os.rename, "secret", "mine"), attempt(os.rename, "deep/exception", "mine"))
""",
    )
    first = got[0].split()
    assert first[:3] == ["EACCES"] * 3 and first[3] == "ENOENT" and first[4] == "EACCES"


# Links


def test_hard_links_between_levels(attack):
    got = answers(
        attack(),
        """
for old in ("hidden.txt", "open/server.key", "look/file.txt", "read/file.txt"):
    say(attempt(os.link, old, "taken"), exists("taken"))
    try:
        fd = os.open(old, os.O_PATH); say(attempt(linkat, AT_FDCWD, f"/proc/self/fd/{fd}", "taken", AT_SYMLINK_FOLLOW), attempt(linkat, fd, "", "taken", AT_EMPTY_PATH) in ("ENOENT", "EACCES", "EPERM"))
    except OSError as e: say(name_of(e.errno))
for new in ("hidden2.key", "look/new", "read/new", "secret/new", ".wh.new"):
    say(attempt(os.link, "open/file.txt", new))
""",
    )
    assert got[:8] == ["ENOENT ENOENT", "ENOENT"] * 2 + ["EACCES ENOENT", "EACCES True"] * 2
    assert got[8:] == ["EACCES", "EACCES", "EACCES", "ENOENT", "EPERM"]


def test_one_name_of_an_inode_does_not_give_more_than_another(attack):
    """An inode with several names has the lowest of their levels."""
    f = attack()
    answers(f, "put('one', b'first'); os.link('one', 'two'); assert os.stat('one').st_nlink == 2")
    f.set_rules([*RULES, "/two=read"])
    got = answers(f, "say(put('two'), put('one'), opened('one', os.O_RDWR), content('one'), attempt(os.truncate, 'one', 0))")
    assert got == ["EACCES EACCES EACCES b'first' EACCES"]
    f.set_rules([*RULES, "/two=view"])
    got = answers(f, "say(content('two'), content('one'))")
    assert got == ["EACCES EACCES"]


def test_symlink_chains_into_hidden_paths(attack):
    got = answers(
        attack(),
        """
os.symlink("hidden.txt", "l1"); os.symlink("l1", "l2"); os.symlink("l2", "l3"); os.symlink("secret", "s1"); os.symlink("s1", "s2")
os.symlink(os.path.abspath("secret/plan.txt"), "abs"); os.symlink("open/../look/../secret/sub", "winding"); os.symlink("look/file.txt", "v"); os.symlink("look/link", "vv")
for p in ("l1", "l2", "l3", "s1/plan.txt", "s2/plan.txt", "s2", "abs", "winding/more.txt"):
    say(content(p), opened(p, os.O_RDONLY|os.O_CREAT), attempt(os.stat, p), attempt(os.chmod, p, 0o777), attempt(os.truncate, p, 0))
say(content("v"), content("vv"), opened("v", os.O_WRONLY), attempt(os.truncate, "v", 0))
say(opened("l3", os.O_CREAT|os.O_EXCL|os.O_WRONLY), attempt(os.link, "l3", "hard"), os.readlink("l3"), os.readlink("hard"))
""",
    )
    for line in got[:8]:
        read, create, *rest = line.split()
        assert read == "ENOENT" and create in ("EACCES", "ENOENT", "EISDIR") and set(rest) == {"ENOENT"}, line
    assert got[8] == "EACCES EACCES EACCES EACCES"
    assert got[9] == "EEXIST ok l2 l2"


def test_creating_through_a_dangling_link_to_a_hidden_name(attack):
    got = answers(
        attack(),
        """
os.symlink("open/absent.key", "l"); os.symlink("hidden.txt", "m")
say(opened("l", os.O_CREAT|os.O_WRONLY), opened("m", os.O_CREAT|os.O_WRONLY))
""",
    )
    assert got == ["EACCES EACCES"]


def test_a_symlink_in_the_base_is_never_followed_by_the_fence(work, fence):
    """The host swaps a directory of the base for a symlink that leads outside; what lies there is not served."""
    outside = Tree(work / "outside").file("file.txt", SECRET).file("sub/file.txt", SECRET)
    t = Tree(work / "base").file("d/file.txt", "inside\n").file("d/sub/file.txt", "inside\n").file("e/file.txt", "inside\n")
    f = fence(options=["--live"])
    keep = f.sh("cat d/file.txt d/sub/file.txt; ls -R")
    assert keep.out.count("inside") == 2
    os.rename(t.at("d"), t.at("moved"))
    os.symlink(outside.root, t.at("d"))
    os.rename(t.at("e/file.txt"), t.at("e/old"))
    os.symlink(outside.root / "file.txt", t.at("e/file.txt"))
    for _ in range(30):
        # as a file of the fence; the kernel itself may follow the new symlink as it would any, so it is not given the chance
        got = f.python(
            "say(content('d/sub/file.txt')) if not os.path.islink('d') else None; say(attempt(os.open, 'e/file.txt', os.O_RDONLY|os.O_NOFOLLOW)); say(put('d/new') if not os.path.islink('d') else '')"
        )
        assert SECRET not in got.stdout
        time.sleep(0.05)
    assert sorted(os.listdir(work / "outside")) == ["file.txt", "sub"], "written outside the base"


# Markers of the delta


def test_whiteout_names_cannot_be_made_or_seen(work, attack):
    Tree(work / "base").file("open/.wh.theirs", "x")
    f = attack()
    got = answers(
        f,
        """
put("f"); os.mkdir("d")
for n in (".wh.hidden.txt", ".wh.read", "open/.wh.file.txt", "open/.wh..wh..opq", ".wh.", "open/.wh.theirs", ".wh." + "x" * 251):
    say(opened(n, os.O_CREAT|os.O_WRONLY), attempt(os.mkdir, n), attempt(os.symlink, "x", n), attempt(os.link, "f", n), attempt(os.rename, "f", n), attempt(os.rename, "d", n),
        attempt(os.mkfifo, n), attempt(os.mknod, n), attempt(renameat2, "f", n, RENAME_NOREPLACE))
    s = socket.socket(socket.AF_UNIX); say(attempt(s.bind, n) if len(n) < 100 else "EPERM")
    say(exists(n), opened(n), opened(n, os.O_PATH))
say([n for t, d, f in os.walk(".") for n in d + f if n.startswith(".wh.")], exists("read/file.txt"), exists("open/file.txt"))
""",
    )
    for i in range(7):
        assert set(got[3 * i].split()) == {"EPERM"}, got[3 * i]
        assert got[3 * i + 1] in ("EPERM", "EADDRINUSE"), got
        assert set(got[3 * i + 2].split()) == {"ENOENT"}, got
    assert got[-1] == "[] ok ok"
    os.unlink(work / "base/open/.wh.theirs")
    os.utime(work / "base/open", ns=(1_600_000_000_000_000_000,) * 2)


def test_a_directory_removed_and_made_again_is_empty(attack):
    f = attack()
    got = f.sh(
        "rm -rf open/dir && mkdir open/dir && ls -A open/dir; rm -rf open; mkdir open && ls -A open && touch open/file.txt && cat open/file.txt"
    )
    assert got.ok().out == ""
    f.remount()
    assert f.sh("ls -A open open/dir 2>/dev/null").out.split() == ["open:", "file.txt"]


# Rules and files to come


def test_files_created_later_meet_the_rules(attack):
    f = attack()
    got = answers(
        f,
        """
os.makedirs("later/and/deeper")
say(put("later/and/deeper/id.key"), attempt(os.mkdir, "later/x.key"), attempt(os.rename, "open/file.txt", "later/file.key"), attempt(os.link, "open/file.txt", "later/l.key"))
os.makedirs("box/q/w"); say(attempt(os.mkdir, "box/q/w/private"), attempt(os.mkdir, "box/private"), put("box/q/private"))
say(listing("later/and/deeper"), listing("box/q/w"))
""",
    )
    assert got == ["EACCES EACCES EACCES EACCES", "EACCES EACCES EACCES", "[] []"]


def test_hidden_files_that_the_host_creates_later(work, fence):
    t = Tree(work / "base").file("open/file.txt", "x")
    f = fence(RULES, options=["--live"])
    f.sh("ls -R; cat open/late.key secret/late hidden.txt")
    t.file("open/late.key", SECRET).file("secret/late", SECRET).file("hidden.txt", SECRET).file("fresh/sub/a.key", SECRET).file(
        "fresh/sub/a.txt", "seen"
    )
    assert wait_until(lambda: "a.txt" in f.sh("ls fresh/sub").out, 3)
    for _ in range(5):
        got = f.sh("ls -aR; cat open/late.key secret/late hidden.txt fresh/sub/a.key")
        assert SECRET not in got.stdout and "late" not in got.out and "a.key" not in got.out
        time.sleep(0.1)


def test_removing_a_directory_over_hidden_children(attack, work):
    f = attack()
    got = answers(
        f,
        """
say(attempt(os.rmdir, "deep/a/b"), attempt(os.unlink, "deep/a/b/outer.txt"), attempt(os.rmdir, "deep/a/b"), exists("deep/a/b"), listing("deep/a"))
say(attempt(os.mkdir, "deep/a/b"), listing("deep/a/b"), exists("deep/a/b/inner.txt"))
""",
    )
    assert got == ["ENOTEMPTY ok ok ENOENT []", "ok [] ENOENT"]
    assert (work / "base/deep/a/b/inner.txt").read_bytes() == SECRET


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
            assert stat.S_ISLNK(st.st_mode) or not st.st_mode & 0o6000, name
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
        timeout=30,
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
    caps = {"userns": "none", "root": "keep", "dac_override": "+dac_override,+dac_read_search,+fowner"}[who]
    ran = f.run(argv, env={"PYTHONPATH": str(tools_dir())}, caps=caps)
    assert ran.code == 0, ran.err
    assert VIEWED not in ran.stdout and SECRET not in ran.stdout, ran.out
    lines = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert "0000000000000000" not in lines["caps"], "the attacker lacks the capability this test is about: " + lines["caps"]
    assert "SPOILED" not in ran.out and ran.out.splitlines()[-1].startswith(f"{len(VIEWED)} {len(FIXED)} "), ran.out
    # What it did to its own mapping may be in the page cache until the refused write-back has thrown it out, no longer.
    assert wait_until(lambda: f.sh("cat read/file.txt").stdout == FIXED, 1), f.sh("cat read/file.txt").out
    assert f.sh("cat look/file.txt").stdout == b""
    assert f.sh("ls taken read/new look/new hidden.key").out == ""
    f.remount()
    assert f.sh("cat read/file.txt").stdout == FIXED


def test_file_handles_opened_by_root(attack):
    """With CAP_DAC_READ_SEARCH one can open by handle, so numbers are guessed: none of them leads to a hidden or viewed byte."""
    if sandbox_ids()[0] == 0:
        pytest.skip("not root")
    f = attack()
    f.sh("find . >/dev/null; cat read/file.txt hidden.txt")
    ran = f.python(
        """
root = os.open(".", os.O_RDONLY|os.O_DIRECTORY)
h = name_to_handle("look/file.txt")
say("type", h.type, h.bytes, attempt(lambda: os.read(open_by_handle(root, h), 100)))
found = []
for guess in range(0, 3000):
    g = Handle(bytes=h.bytes, type=h.type)
    ctypes.memmove(g.data, h.data, 128)
    struct.pack_into("<Q", g.data, 0, guess) if h.bytes >= 8 else None
    for order in ("<Q", ">I"):
        struct.pack_into(order, g.data, 0, guess)
        try:
            fd = open_by_handle(root, g)
            if stat.S_ISREG(os.fstat(fd).st_mode): found.append(os.read(fd, 100))
            elif stat.S_ISDIR(os.fstat(fd).st_mode): found.append(repr(os.listdir(fd)).encode())
            os.close(fd)
        except OSError: pass
say(found)
""",
        caps="keep",
    )
    assert ran.code == 0, ran.err
    assert SECRET not in ran.stdout and VIEWED not in ran.stdout, ran.out
    assert "plan.txt" not in ran.out and "server.key" not in ran.out


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


# Caches after the rules were tightened

HOLD = """
import signal
fd = os.open("open/file.txt", os.O_RDWR); m = mmap.mmap(fd, 5, mmap.MAP_SHARED, mmap.PROT_READ|mmap.PROT_WRITE)
ro = os.open("open/dir/a", os.O_RDONLY); dfd = os.open("open/dir", os.O_RDONLY|os.O_DIRECTORY)
private = mmap.mmap(ro, 2, mmap.MAP_PRIVATE, mmap.PROT_READ)
say(m[:], os.read(ro, 10), private[:], os.listdir(dfd))
sys.stdin.readline()
def touch_map(what):
    pid = os.fork()
    if pid == 0:
        os.write(1, b"map " + what() + b"\\n"); os._exit(0)
    status = os.waitpid(pid, 0)[1]
    say("signal", status & 127)
say("read", attempt(os.pread, ro, 10, 0)); say("readrw", attempt(os.pread, fd, 10, 0)); say("write", attempt(os.pwrite, fd, b"LATE!", 0)); say("fsync", attempt(os.fsync, fd))
touch_map(lambda: m[:]); touch_map(lambda: private[:])
say("list", attempt(os.listdir, dfd)); say("open", opened("open/dir/a"), opened("open/file.txt"), opened("open/dir"), content("open/dir/b"))
say("proc", opened(f"/proc/self/fd/{ro}"), opened(f"/proc/self/fd/{fd}", os.O_RDWR)); say("truncate", attempt(os.ftruncate, fd, 0)); say("fstat", attempt(lambda: os.fstat(ro).st_size))
def smear(): m[:] = b"SMEAR"; m.flush(); return b"smeared"
touch_map(smear)
say("access", os.access("open/file.txt", os.R_OK), os.access("open/file.txt", os.W_OK))
"""


@contextlib.contextmanager
def holding(f, code=HOLD, first="b'open\\n' b'a\\n' b'a\\n' ['a', 'b']\n"):
    """A process that opened, mapped and cached while it could; calling what is given lets it go on and returns what it says."""
    with background([PYTHON, "-c", "from inside import *\n" + code], f.mnt, text=True) as child:
        assert child.stdout.readline() == first

        def go_on():
            out, _ = child.communicate("go\n", timeout=30)
            assert child.returncode == 0, out
            return out

        yield go_on


@pytest.mark.parametrize("level", ["none", "view"])
def test_page_cache_and_mappings_after_rules_were_tightened(attack, level):
    f = attack(options=["--data-path", "cached"])
    f.sh("cat open/file.txt open/dir/a open/dir/b; ls -lR open >/dev/null; grep -r . open/dir")
    with holding(f) as go_on:
        f.set_rules([*RULES, f"/open/**={level}@9"])
        out = go_on()
    lines = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    assert lines["read"].startswith("E") and lines["readrw"].startswith("E"), out
    assert "b'open" not in out and "b'a\\n" not in out and "map a" not in out and "map open" not in out, out
    assert out.count("signal 7") >= 2, out  # SIGBUS: the pages are gone
    assert lines["write"].startswith("E") or "E" in lines["fsync"], out
    assert lines["truncate"].startswith("E"), out
    want = "ENOENT" if level == "none" else "EACCES"
    opens = lines["open"].split()
    assert opens[0] == want and opens[1] == want and opens[3] == want, out
    assert lines["access"] == "False False", out
    assert all(w.startswith("E") for w in lines["proc"].split()), out
    f.set_rules(RULES)
    assert f.sh("cat open/file.txt").stdout == b"open\n", "a write after the tightening took effect"


def test_writing_after_write_was_taken_away(attack):
    f = attack(options=["--data-path", "cached"])
    with holding(f) as go_on:
        f.set_rules([*RULES, "/open/**=read@9"])
        out = go_on()
    lines = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    assert lines["write"].startswith("E") or lines["fsync"].startswith("E"), out
    assert lines["truncate"].startswith("E") and lines["access"] == "True False", out
    assert wait_until(lambda: f.sh("cat open/file.txt").stdout == b"open\n", 2), f.sh("cat open/file.txt").out
    f.remount()
    assert f.sh("cat open/file.txt").stdout == b"open\n"


def test_new_rules_hold_for_the_next_operation(attack):
    """Both ways, a hundred times, with everything cached in between: never a stale answer after the acknowledgement."""
    f = attack()
    code = "say(content('open/file.txt'), exists('open/dir/a'), 'open' in os.listdir('.'), content('look/file.txt') if len(sys.argv) > 1 else '')"
    for i in range(25):
        f.set_rules([*RULES, "/open/**=none@9"])
        assert answers(f, code) == ["ENOENT ENOENT False "], i
        f.set_rules([*RULES, "/open/**=view@9"])
        assert answers(f, code) == ["EACCES ok True "], i
        f.set_rules([*RULES, "/open/**=read@9"])
        assert answers(f, code) == ["b'open\\n' ok True "], i


def test_a_working_directory_that_becomes_hidden(attack):
    f = attack()
    code = "os.chdir('open/dir'); say(listing()); sys.stdin.readline(); say(attempt(listing), content('a'), put('new'), exists('b'))"
    with holding(f, code, "['a', 'b']\n") as go_on:
        f.set_rules([*RULES, "/open/**=none@9"])
        out = go_on()
    assert out.split()[-3:] == ["ENOENT", "ENOENT", "ENOENT"] or out.split()[-3:] == ["ENOENT", "EACCES", "ENOENT"], out
    assert "'a'" not in out


STALE = """
fd = os.open("open/file.txt", os.O_RDONLY)
stop = []
def churn(n):
    while not stop:
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(fd, 10, 0)
        except OSError: pass
        exists("open/file.txt"); content("open/file.txt"); attempt(os.listdir, "open"); attempt(os.listdir, "."); exists("open/dir/a"); content("open/dir/a")
threads = [threading.Thread(target=churn, args=(n,)) for n in range(6)]
[t.start() for t in threads]
say("ready")
for line in sys.stdin:
    say(attempt(os.pread, fd, 10, 0), content("open/file.txt"), exists("open/dir/a"), content("open/dir/a"), "open" in os.listdir("."))
    if line == "end\\n": break
stop.append(1)
[t.join() for t in threads]
"""


def test_answers_in_flight_when_the_rules_change_do_not_stay_in_caches(attack):
    """Lookups and reads that were under way may have been answered by the old rules; after the acknowledgement none of them may be
    found in a cache."""
    f = attack(options=["--data-path", "cached"])
    with background([PYTHON, "-c", "from inside import *\n" + STALE], f.mnt, text=True) as child:
        assert child.stdout.readline() == "ready\n"

        def ask(word="go"):
            child.stdin.write(word + "\n")
            child.stdin.flush()
            return child.stdout.readline()

        for i in range(100 if LONG else 30):
            f.set_rules([*RULES, "/open/**=none@9"])
            assert ask() == "ENOENT ENOENT ENOENT ENOENT False\n", i
            f.set_rules(RULES)
            assert ask() == "b'open\\n' b'open\\n' ok b'a\\n' True\n", i
        ask("end")


def test_a_directory_renamed_to_free_what_new_rules_hid_in_it(attack):
    f = attack()
    answers(f, "os.mkdir('mine'); put('mine/note', b'once mine'); put('mine/other', b'o')")
    f.set_rules([*RULES, "/mine/note=none"])
    ran = f.sh(
        "mv mine freed; cat freed/note mine/note; ls -a freed; cp -r mine copy; cat copy/note; tar cf - . 2>/dev/null | tar xOf - ./freed/note ./mine/note"
    )
    assert b"once mine" not in ran.stdout
    got = answers(
        f,
        "say(attempt(os.rename, 'freed' if exists('freed') == 'ok' else 'mine', 'again'), exists('again/note'), exists('freed/note'))",
    )
    assert got[0].split()[1:] == ["ENOENT", "ENOENT"]


def test_what_was_made_before_a_rule_is_hidden_by_it_after_a_remount(attack):
    f = attack()
    answers(f, "put('late.txt', b'mine'); os.makedirs('latedir/x'); put('latedir/x/y', b'mine')")
    f.remount(rules=[*RULES, "/late.txt=none", "/latedir/**=none"])
    got = answers(f, "say(content('late.txt'), exists('latedir'), put('late.txt'), listing())")
    assert got[0].startswith("ENOENT ENOENT EACCES") and "late" not in got[0]
    f.remount(rules=RULES)
    assert answers(f, "say(content('late.txt'), content('latedir/x/y'))") == ["b'mine' b'mine'"]


@contextlib.contextmanager
def folding(source, mountpoint):
    """The tree `source` shown at `mountpoint` by a filesystem that ignores case."""
    mountpoint.mkdir()
    child = subprocess.Popen([tools_dir() / "probe_fold", source, mountpoint])
    try:
        assert wait_until(lambda: is_mountpoint(mountpoint) or child.poll() is not None) and child.poll() is None
        yield
    finally:
        umount(mountpoint)
        child.kill()
        child.wait()


def test_a_base_that_folds_case_serves_only_the_very_name(work, fence):
    """The rule names Secret.txt; a base that ignores case would hand it out as SECRET.TXT."""
    Tree(work / "folded").file("d/Secret.txt", SECRET).file("d/Open.txt", "open\n").file("d/Deep/Secret.txt", SECRET)
    with folding(work / "folded", work / "base"):
        assert (work / "base/D/SECRET.TXT").read_bytes() == SECRET, "this base does not fold case"
        f = fence(["/**=write", "/d/Secret.txt=none", "/d/Deep/**=none"])
        ran = f.sh(
            """cat D/SECRET.TXT D/Open.txt; cd d; cat Secret.txt secret.txt SECRET.TXT sECRET.txt deep/Secret.txt DEEP/secret.txt Deep/Secret.txt
ls; cat Open.txt; cat OPEN.TXT; stat open.txt"""
        )
        assert SECRET not in ran.stdout + ran.stderr, ran.out
        assert ran.out == "Open.txt\nopen\n"
        got = answers(
            f,
            "say(put('d/secret.TXT', b'mine'), content('d/secret.TXT'), exists('d/SECRET.txt'), listing('d'), attempt(os.mkdir, 'd/deep'), listing('d/deep'))",
        )
        assert got == ["ok b'mine' ENOENT ['Open.txt', 'secret.TXT'] ok []"]
        f.stop()


# Races


@pytest.mark.threads
def test_hundreds_of_threads_racing_renames_against_opens(attack):
    """Directories, files and links are swapped under readers; not one of them may ever see a closed byte."""
    f = attack()
    seconds = "20" if LONG else "4"
    ran = f.run([tools_dir() / "probe_race", seconds, "200", SECRET, VIEWED], timeout=120)
    assert ran.code == 0, ran.out + ran.err
    assert "caught 0" in ran.out, ran.out


@pytest.mark.threads
def test_rules_swapped_while_hundreds_of_threads_run(attack):
    f = attack()
    seconds = 15 if LONG else 3
    end = time.monotonic() + seconds
    results = []
    racer = threading.Thread(
        target=lambda: results.append(f.run([tools_dir() / "probe_race", str(seconds), "100", SECRET, VIEWED], timeout=120))
    )
    racer.start()
    swaps = 0
    while time.monotonic() < end:
        f.set_rules([*RULES, ["/open/**=none@9", "/open/file.txt=read@9", "/race/**=view@3", "/plain/**=none"][swaps % 4]])
        swaps += 1
    racer.join()
    assert results[0].code == 0 and "caught 0" in results[0].out, results[0].out + results[0].err
    assert swaps > 20
    f.set_rules(RULES)
    assert f.sh("cat read/file.txt").stdout == FIXED
