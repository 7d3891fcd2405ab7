"""Copy-up: things of the lower layer, when there is one; on a plain filesystem they were simply there before."""

from checking import *

LOWER = "../../lower"


def lower_once(name):
    """A fresh file or directory of the base that no other check uses."""
    return f"{LOWER}/{name}"


@check
def lower_file_appended():
    p = lower_once("append")
    ino = os.stat(p).st_ino
    say(content(p), put(p, b" more", os.O_WRONLY | os.O_APPEND), content(p), os.stat(p).st_ino == ino, st(p))


@check
def lower_file_open_across_a_write():
    p = lower_once("open-across")
    fd = os.open(p, os.O_RDONLY)
    m = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    before = m[:5], os.pread(fd, 5, 0)
    put(p, b"OTHER", os.O_WRONLY)
    say(before, os.pread(fd, 5, 0), m[:5], content(p)[:5], os.fstat(fd).st_ino == os.stat(p).st_ino)


@check
def lower_file_keeps_its_attributes():
    p = lower_once("attributes")
    say(st(p), os.stat(p).st_mtime_ns, os.getxattr(p, "user.note"))
    os.chmod(p, 0o640)
    say(st(p), os.stat(p).st_mtime_ns, os.getxattr(p, "user.note"), content(p))


@check
def lower_file_touched():
    p = lower_once("touch")
    os.utime(p, ns=(1111, 2222))
    say(os.stat(p).st_mtime_ns, content(p))


@check
def lower_directory_has_another_ctime_after_chmod():
    p = lower_once("ctimes")
    before = os.stat(p)
    time.sleep(0.02)
    os.chmod(p, 0o700)
    after = os.stat(p)
    say(after.st_ctime_ns > before.st_ctime_ns, after.st_mtime_ns == before.st_mtime_ns)
    os.rename(p, p + "-moved")
    say(os.stat(p + "-moved").st_ctime_ns > before.st_ctime_ns, os.stat(p + "-moved").st_mtime_ns == before.st_mtime_ns)


@check
def lower_sparse_file():
    p = lower_once("sparse")
    put(p, b"x", os.O_WRONLY)
    s = os.stat(p)
    say(s.st_size, s.st_blocks * 512 < s.st_size // 2)


@check
def lower_file_renamed_and_back():
    p = lower_once("rename")
    ino = os.stat(p).st_ino
    os.rename(p, p + "2")
    say(exists(p), content(p + "2"), os.stat(p + "2").st_ino == ino)
    os.rename(p + "2", p)
    say(content(p), exists(p + "2"), os.stat(p).st_ino == ino)


@check
def lower_file_removed_and_made_again():
    p = lower_once("remove")
    os.unlink(p)
    say(
        exists(p),
        "remove" in os.listdir(LOWER),
        put(p, b"new"),
        content(p),
        attempt(os.unlink, p),
        exists(p),
        attempt(os.mkdir, p),
        listing(p),
        attempt(os.rmdir, p),
    )


@check
def lower_file_linked():
    p = lower_once("link")
    ino = os.stat(p).st_ino
    os.link(p, p + "2")
    say(
        os.stat(p).st_nlink,
        os.stat(p).st_ino == os.stat(p + "2").st_ino == ino,
        put(p + "2", b"both"),
        content(p),
        attempt(os.unlink, p),
        content(p + "2"),
        os.stat(p + "2").st_nlink,
    )


@check
def lower_file_truncated_by_open():
    p = lower_once("truncate")
    say(opened(p, os.O_WRONLY | os.O_TRUNC), os.stat(p).st_size, put(p, b"n"), content(p))


@check
def lower_file_mapped_and_written():
    p = lower_once("map")
    fd = os.open(p, os.O_RDWR)
    m = mmap.mmap(fd, 0)
    m[:3] = b"MAP"
    say(content(p)[:5], os.pread(fd, 5, 0))
    m.close()
    os.close(fd)
    say(content(p)[:5])


@check
def lower_file_unlinked_while_open():
    p = lower_once("unlink-open")
    fd = os.open(p, os.O_RDONLY)
    os.unlink(p)
    say(os.pread(fd, 5, 0), exists(p), os.fstat(fd).st_nlink)


@check
def lower_file_replaced_by_rename():
    p = lower_once("replace")
    put("n", b"new")
    fd = os.open(p, os.O_RDONLY)
    os.rename("n", p)
    say(content(p), os.read(fd, 5))


@check
def lower_file_exchanged():
    p = lower_once("exchange")
    put("n", b"new")
    say(attempt(exchange, "n", p), content(p), content("n"), attempt(exchange, "n", p), content(p), content("n"))


@check
def lower_directory_renamed():
    p = lower_once("dir-rename")
    ino = os.stat(p).st_ino
    say(attempt(os.rename, p, p + "2"), exists(p), content(p + "2/sub/f"), listing(p + "2"), os.stat(p + "2").st_ino == ino)
    put(p + "2/sub/f", b"changed")
    os.mkdir(p)
    say(listing(p), attempt(os.rename, p + "2", p), content(p + "/sub/f"), listing(p))


@check
def lower_directory_emptied_and_removed():
    p = lower_once("dir-remove")
    say(attempt(os.rmdir, p), sorted(os.listdir(p)))
    import shutil

    shutil.rmtree(p)
    say(exists(p), attempt(os.mkdir, p), listing(p), attempt(os.rmdir, p))


@check
def lower_directory_partly_changed():
    p = lower_once("dir-change")
    os.unlink(p + "/a")
    put(p + "/new", b"n")
    put(p + "/b", b"changed")
    os.rename(p + "/c", p + "/d")
    say(listing(p), content(p + "/b"), content(p + "/d"), content(p + "/sub/f"))


@check
def lower_directory_attributes():
    p = lower_once("dir-attr")
    os.chmod(p, 0o750)
    os.utime(p, ns=(5555, 6666))
    os.setxattr(p, "user.d", b"1")
    say(st(p), os.stat(p).st_mtime_ns, os.getxattr(p, "user.d"), listing(p))


@check
def lower_symlink():
    p = lower_once("symlink")
    say(
        os.readlink(p),
        content(p),
        attempt(os.rename, p, p + "2"),
        os.readlink(p + "2"),
        attempt(os.unlink, p + "2"),
        exists(p + "2"),
        attempt(os.symlink, "other", p),
        os.readlink(p),
    )


@check
def lower_program_run_and_replaced():
    p = lower_once("program")
    say(subprocess.run([p], stdout=subprocess.PIPE).stdout)
    put(p, b"#!/bin/sh\necho changed\n", os.O_WRONLY | os.O_TRUNC)
    say(subprocess.run([p], stdout=subprocess.PIPE).stdout, st(p))


@check
def lower_directory_exchanged():
    p = lower_once("dir-exchange")
    os.mkdir("mine")
    put("mine/m", b"m")
    say(attempt(exchange, "mine", p), listing(p), listing("mine"), content("mine/sub/f"))


@check
def lower_large_directory():
    p = lower_once("large")
    names = os.listdir(p)
    for i in range(0, 1000, 3):
        os.unlink(f"{p}/f{i}")
    for i in range(100):
        put(f"{p}/n{i}")
    say(len(names), len(os.listdir(p)), len(set(os.listdir(p))), "f0" in os.listdir(p), "f1" in os.listdir(p))


@check
def lower_file_locked_across_a_write():
    p = lower_once("lock")
    fd = os.open(p, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    put(p, b"written", os.O_WRONLY)

    def f():
        fcntl.flock(os.open(p, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)

    say(child(f))


def make_lower(root):
    """The directory `lower` that the checks above expect, with fixed times."""
    os.makedirs(root)

    def at(name):
        return os.path.join(root, name)

    for name in (
        "append",
        "open-across",
        "attributes",
        "touch",
        "rename",
        "remove",
        "link",
        "pair-a",
        "truncate",
        "map",
        "unlink-open",
        "replace",
        "exchange",
        "lock",
    ):
        put(at(name), b"lower " + name.encode() + b"\n")
    os.setxattr(at("attributes"), "user.note", b"kept")
    os.chmod(at("attributes"), 0o664)
    os.link(at("pair-a"), at("pair-b"))
    fd = os.open(at("sparse"), os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(fd, 1 << 20)
    os.pwrite(fd, b"end", (1 << 20) - 3)
    os.close(fd)
    for name in ("dir-rename", "dir-remove", "dir-change", "dir-attr", "dir-exchange", "ctimes"):
        os.makedirs(at(name + "/sub"))
        for f in ("a", "b", "c", "sub/f"):
            put(at(f"{name}/{f}"), f.encode())
    os.symlink("touch", at("symlink"))
    put(at("program"), b"#!/bin/sh\necho original\n")
    os.chmod(at("program"), 0o755)
    os.mkdir(at("large"))
    for i in range(1000):
        put(at(f"large/f{i}"))
    for top, dirs, files in os.walk(root, topdown=False):
        for name in dirs + files:
            os.utime(os.path.join(top, name), ns=(1_500_000_000_123_456_789,) * 2, follow_symlinks=False)
