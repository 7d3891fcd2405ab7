"""No way around: each test is one thing an attacker behind the fence tries.

The bytes that must stay behind are recognisable, so besides the errno each attempt is checked for them; and after each test the
base must be untouched byte for byte and the fence alive.
"""

import os
import subprocess
import time

import pytest
from attacker import FIXED, RULES, SECRET, VIEWED, WAYS_OUT, answers
from harness import PYTHON, Fence, Tree, background, folding, umount, wait_until


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


ALIASES = ("SECRET.TXT", "secret.txt", "sECRET.txt", "OPEN.TXT", "open.txt", "link", "LINK", "deep", "DEEP", "deep/Secret.txt", "DEEP/SECRET.TXT")


def check_that_only_sub_folds(f, base):
    """What lies in base/sub answers to its own names alone; beside it nothing is any different."""
    assert (base / "sub/SECRET.TXT").read_bytes() == SECRET, "base/sub does not fold case"
    assert not (base / "TOP.txt").exists(), "this base folds case itself"
    got = answers(
        f,
        f"""
say(content("top.txt"), exists("TOP.txt"), exists("SUB"), listing("."), listing("sub"), content("sub/Open.txt"), exists("sub/Secret.txt"))
for alias in {ALIASES!r}:
    p = "sub/" + alias
    say(exists(p), opened(p), opened(p, os.O_RDWR), attempt(os.readlink, p), attempt(os.unlink, p), attempt(os.rename, p, "taken"), attempt(os.link, p, "taken"))
say(os.readlink("sub/Link"), content("sub/Link"), content("sub/Deep/Open.txt"), exists("sub/Deep/OPEN.TXT"), exists("sub/Deep/SECRET.TXT"))
""",
    )
    assert got[0] == "b'top' ENOENT ENOENT ['sub', 'top.txt'] ['Deep', 'Link', 'Open.txt'] b'open' ENOENT"
    assert set(" ".join(got[1:-1]).split()) == {"ENOENT"}, got
    assert got[-1] == "Open.txt b'open' b'deep' ENOENT ENOENT"


def check_making_aliases(f):
    """A name that would be another spelling of a hidden one, or of a visible one, is a new name like any other."""
    got = answers(
        f,
        """
say(put("sub/SECRET.TXT", b"mine"), content("sub/SECRET.TXT"), exists("sub/Secret.txt"), exists("sub/secret.txt"), attempt(os.mkdir, "sub/deep"), listing("sub/deep"))
say(put("sub/OPEN.TXT", b"other"), content("sub/Open.txt"), content("sub/OPEN.TXT"), attempt(os.unlink, "sub/Open.txt"), exists("sub/Open.txt"), exists("sub/open.txt"), content("sub/OPEN.TXT"))
say(put("sub/Secret.txt", b"x"), opened("sub/Secret.txt", os.O_CREAT | os.O_EXCL | os.O_WRONLY), attempt(os.unlink, "sub/SECRET.TXT"), exists("sub/SECRET.TXT"), listing("sub"))
""",
    )
    assert got == [
        "ok b'mine' ENOENT ENOENT ok []",
        "ok b'open' b'other' ok ENOENT ENOENT b'other'",
        "EACCES EACCES ok ENOENT ['Deep', 'Link', 'OPEN.TXT', 'deep']",
    ]


HIDING = ["/**=write", "/sub/Secret.txt=none", "/sub/Deep/Secret.txt=none"]


def fill_sub(tree, sub):
    tree.file(f"{sub}Secret.txt", SECRET).file(f"{sub}Open.txt", "open").file(f"{sub}Deep/Secret.txt", SECRET).file(f"{sub}Deep/Open.txt", "deep")
    tree.link("Open.txt", f"{sub}Link")


@pytest.mark.parametrize("options", [[], ["--live"]])
def test_a_directory_of_the_base_folds_case_and_the_base_does_not(work, fence, options):
    fill_sub(Tree(work / "folded"), "")
    Tree(work / "base").file("top.txt", "top")
    with folding(work / "folded", work / "base/sub"):
        f = fence(HIDING, options=options)
        check_that_only_sub_folds(f, work / "base")
        check_making_aliases(f)
        f.stop()


@pytest.mark.parametrize("options", [[], ["--live"]])
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_directory_with_the_flag_folds_case_and_the_base_does_not(work, fence, kind, options):
    base = work / "base"
    base.mkdir()
    if kind == "tmpfs":
        mounting = ["mount", "-t", "tmpfs", "-o", "casefold", "tmpfs", base]
    else:
        image = work / "image"
        with open(image, "wb") as made:
            made.truncate(64 << 20)
        if subprocess.run(["mkfs.ext4", "-q", "-O", "casefold", image], capture_output=True).returncode != 0:
            pytest.skip("no mkfs.ext4 that knows casefold")
        mounting = ["mount", "-o", "loop", image, base]  # the loop device goes with the mount
    mounted = subprocess.run(mounting, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"this kernel mounts no {kind} that folds case: {mounted.stderr.strip()}")
    try:
        (base / "sub").mkdir()
        subprocess.run(["chattr", "+F", base / "sub"], check=True)
        fill_sub(Tree(base).file("top.txt", "top"), "sub/")
        if kind == "ext4":
            (base / "lost+found").rmdir()
        f = fence(HIDING, options=options)
        check_that_only_sub_folds(f, base)
        check_making_aliases(f)
        f.stop()
    finally:
        umount(base)


def test_a_folding_base_without_a_letter_in_its_top_directory(work, fence):
    Tree(work / "folded").file("1/Secret.txt", SECRET).file("1/2", "two")
    with folding(work / "folded", work / "base"):
        f = fence(["/**=write", "/1/Secret.txt=none"])
        got = answers(f, "say(listing('.'), listing('1'), content('1/2'), exists('1/Secret.txt'), exists('1/SECRET.TXT'), opened('1/secret.txt'))")
        assert got == ["['1'] ['2'] b'two' ENOENT ENOENT ENOENT"]
        f.stop()


def test_a_base_that_normalises_names_serves_only_the_very_name(work, fence):
    one, two = "\u00e9", "e\u0301"
    Tree(work / "folded").file(f"{one}/1", SECRET).file(f"{one}{one}", "seen").file("2", "two")
    with folding(work / "folded", work / "base"):
        assert (work / "base" / two / "1").read_bytes() == SECRET, "this base does not normalise names"
        f = fence(["/**=write", f"/{one}=none"])
        got = answers(
            f,
            f"""
one, two = {one!r}, {two!r}
say(exists(one), exists(two), opened(one + "/1"), opened(two + "/1"), exists("\u00c9"), exists("E\u0301"))
say(content("2"), content(one + one), exists(one + two), exists(two + two), len(listing(".")))
say(attempt(os.mkdir, two), listing(two), exists(two + "/1"), exists(one))
""",
        )
        assert got == ["ENOENT ENOENT ENOENT ENOENT ENOENT ENOENT", "b'two' b'seen' ENOENT ENOENT 2", "ok [] ENOENT ENOENT"]
        f.stop()


def test_a_writable_directory_is_made_beside_a_hidden_one_of_another_spelling(work, fence):
    Tree(work / "folded").file("out/plan", SECRET).file("top", "top")
    with folding(work / "folded", work / "base"):
        f = fence(["/**=read", "/out=none", "/Out/**=write"])
        got = answers(f, "say(listing('.'), listing('Out'), exists('out'), exists('Out/plan'), put('Out/plan', b'mine'), content('Out/plan'), exists('OUT'))")
        assert got == ["['Out', 'top'] [] ENOENT ENOENT ok b'mine' ENOENT"]
        f.stop()


def test_what_becomes_an_alias_while_it_is_known(work, fence):
    """The file that was looked up goes, and a hidden one that differs in case comes: it is not served under the old name."""
    source = Tree(work / "folded").file("Open.txt", "open").file("other", "x")
    Tree(work / "base").file("top.txt", "top")
    with folding(work / "folded", work / "base/sub"):
        f = fence(["/**=write", "/sub/OPEN.TXT=none"], options=["--live"])
        assert answers(f, "say(exists('sub/Open.txt'), exists('sub/OPEN.TXT'))") == ["ok ENOENT"]
        (source.root / "Open.txt").unlink()
        source.file("OPEN.TXT", SECRET)
        assert wait_until(lambda: answers(f, "say(exists('sub/Open.txt'))") == ["ENOENT"])
        assert answers(f, "say(opened('sub/Open.txt'), exists('sub/OPEN.TXT'), listing('sub'))") == ["ENOENT ENOENT ['other']"]
        assert SECRET not in f.sh("cat sub/*; cat sub/Open.txt").stdout
        f.stop()


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


def test_splice_sendfile_and_copy_file_range_out_of_files_closed_since(attack, scratch):
    """The descriptors are from a time when the files could be read: nothing but the daemon is in the way."""
    f = attack(["/**=write"])
    code = """
files = [os.open(p, os.O_RDONLY) for p in ("look/file.txt", "hidden.txt")]
say("open"); sys.stdin.readline()
for fd in files: say(*ways_out(fd))
say(*come_out())
"""
    argv = [PYTHON, "-c", WAYS_OUT + code, str(scratch / "out")]
    with background(argv, f.mnt, text=True) as child:
        assert child.stdout.readline() == "open\n"
        f.set_rules(RULES)
        child.stdin.write("\n")
        child.stdin.close()
        got = child.stdout.read().splitlines()
    assert SECRET.decode() not in str(got) and VIEWED.decode() not in str(got), got
    assert len(got) == 3 and all(word.startswith("E") for line in got[:2] for word in line.split()), got
    assert got[0].split()[:7] == ["EACCES"] * 7 and got[1].split()[:7] == ["ENOENT"] * 7, got
    assert got[2] == "b'mine' b'' EAGAIN"


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
    assert wait_until(lambda: "a.txt" in f.sh("ls fresh/sub").out)
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


# Hard links in the base: the one exception to two worlds. What a rule hides under one name is hidden under all.

LINK_RULES = ["**=write", ".env=none", "vault/=none", "look/=view"]
LOOK_FOR = """
for path in {names}:
    print(path, exists(path), opened(path), opened(path, os.O_PATH), attempt(os.stat, path), path.rpartition("/")[2] in os.listdir(os.path.dirname(path) or "."))
"""


def are_hidden(f, *names):
    """Of each name whether nothing of it is there, however one asks."""
    lines = f.python(LOOK_FOR.format(names=repr(names))).ok().out.splitlines()
    return [line.split()[1:] == ["ENOENT"] * 4 + ["False"] for line in lines]


def linked_tree(dirs):
    t = Tree(dirs / "base").file(".env", SECRET).file("vault/key", SECRET).file("src/main.c", "main\n").file("plain", "p\n")
    return t.hard(".env", "readme.txt").hard("vault/key", "src/deep.c").hard("vault/key", "look/at").hard("src/main.c", "src/same.c")


def test_a_hidden_file_of_the_base_is_hidden_under_all_its_names(dirs):
    linked_tree(dirs)
    with Fence(dirs, rules=LINK_RULES) as f:
        assert SECRET.decode() not in f.sh("cat readme.txt src/deep.c look/at").out
        # The kernel may have had a listing from before.
        assert wait_until(lambda: are_hidden(f, "readme.txt", "src/deep.c", "look/at", ".env") == [True] * 4)
        assert are_hidden(f, "src/main.c", "src/same.c", "plain") == [False] * 3
        assert SECRET.decode() not in f.sh("ls -laR; find . -type f -exec cat {} +; grep -r . .").out
        assert f.sh("ls -R src look; cat src/same.c").ok().out == "look:\n\nsrc:\nmain.c\nsame.c\nmain\n"
        assert f.sh("echo mine > readme.txt; cat readme.txt").ok().out == "mine\n"  # the name is free
    assert (dirs / "base" / "readme.txt").read_bytes() == SECRET == (dirs / "base" / ".env").read_bytes()


def test_a_listing_made_before_a_hidden_link_was_known_is_forgotten(dirs):
    linked_tree(dirs)
    with Fence(dirs, rules=LINK_RULES) as f:
        f.sh("ls -U . src").ok()
        f.sh("cat src/same.c").ok()  # one with several names
        want = sorted([".:", "a", "d", "look", "plain", "src", "src:", "main.c", "same.c"])
        assert wait_until(lambda: sorted(f.sh("ls -U . src").ok().out.split()) == want)


def test_new_rules_hide_the_other_names_of_what_they_hide(dirs):
    linked_tree(dirs).file("later", SECRET).hard("later", "shown")
    code = """
import os, sys
fd = os.open("shown", os.O_RDONLY)
print(len(os.read(fd, 9)), flush=True)
sys.stdin.readline()
try:
    print(len(os.pread(fd, 9, 0)), flush=True)
except OSError as e:
    print("refused", flush=True)
"""
    with Fence(dirs, rules=LINK_RULES) as f, background([PYTHON, "-c", code], f.mnt, text=True) as reader:
        assert reader.stdout.readline() == "9\n"
        assert are_hidden(f, "shown", "later") == [False, False]
        f.set_rules([*LINK_RULES, "later=none"])
        assert f.sh("cat shown later").out == ""
        assert wait_until(lambda: are_hidden(f, "shown", "later") == [True, True])
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "refused\n"
        f.set_rules(LINK_RULES)
        assert wait_until(lambda: are_hidden(f, "shown", "later", "readme.txt") == [False, False, True])


def test_links_to_hidden_files_that_come_later(dirs):
    """The file had one name when the base was walked."""
    base = linked_tree(dirs).file("single.key", SECRET).root
    with Fence(dirs, rules=[*LINK_RULES, "*.key=none"], options=["--live"]) as f:
        assert wait_until(lambda: are_hidden(f, "readme.txt", "plain") == [True, False])
        os.link(base / "single.key", base / "src" / "innocent")
        assert f.sh("cat src/innocent").out == ""
        assert wait_until(lambda: are_hidden(f, "src/innocent") == [True])
        os.link(base / "plain", base / "plainer")
        assert wait_until(lambda: are_hidden(f, "plain", "plainer") == [False, False])


def test_many_linked_files_cost_one_walk(dirs):
    t = Tree(dirs / "base").file(".env", SECRET).hard(".env", "other")
    for i in range(300):
        t.file(f"objects/{i}", str(i)).hard(f"objects/{i}", f"copies/{i}")
    with Fence(dirs, rules=LINK_RULES) as f:
        f.sh("cat objects/0").ok()
        f.sh("cat objects/* copies/*; stat objects/* copies/*").ok()
        assert f.control("stats")["link_walks"] == 1
