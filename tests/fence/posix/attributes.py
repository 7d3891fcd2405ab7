"""Modes, owners, times, extended attributes."""

from checking import *


@check
def chmod_all_bits():
    put("a")
    os.mkdir("d")
    for mode in (0, 0o777, 0o644, 0o600, 0o111, 0o1644):
        os.chmod("a", mode)
        os.chmod("d", mode)
        say(st("a"), st("d"))
    os.chmod("d", 0o755)


@check
def chmod_through_links_and_descriptors():
    put("a")
    os.symlink("a", "l")
    os.chmod("l", 0o600)
    say(st("a"), st("l"))
    fd = os.open("a", os.O_RDONLY)
    os.fchmod(fd, 0o640)
    say(st("a"), attempt(os.chmod, "none", 0o600))


@check
def chown_to_self_and_others():
    put("a")
    say(
        attempt(os.chown, "a", os.getuid(), os.getgid()),
        attempt(os.chown, "a", -1, -1),
        attempt(os.chown, "a", 0, -1),
        attempt(os.chown, "a", -1, 0),
        st("a"),
    )
    os.symlink("a", "l")
    say(attempt(os.lchown, "l", os.getuid(), -1), attempt(os.lchown, "l", 0, 0))


@check
def times_to_the_nanosecond():
    put("a")
    os.mkdir("d")
    os.symlink("a", "l")
    for p in ("a", "d"):
        os.utime(p, ns=(1234567890123456789, 987654321987654321))
        say(os.stat(p).st_atime_ns, os.stat(p).st_mtime_ns)
    os.utime("l", ns=(5, 7), follow_symlinks=False)
    say(os.lstat("l").st_mtime_ns, os.stat("a").st_mtime_ns)
    os.utime("a", ns=(0, 0))
    say(os.stat("a").st_mtime_ns, attempt(os.utime, "none"))


@check
def times_before_the_epoch_and_far_ahead():
    put("a")
    for t in (-1_000_000_000, 4_000_000_000_000_000_000, 1):
        os.utime("a", ns=(t, t))
        say(os.stat("a").st_mtime_ns)


@check
def times_with_omit_and_now():
    put("a")
    os.utime("a", ns=(1000, 2000))

    class Timespec(ctypes.Structure):
        _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]

    def set_times(*pairs):
        return libc.utimensat(-100, b"a", (Timespec * 2)(*[Timespec(*p) for p in pairs]), 0)

    omit, now = (0, (1 << 30) - 2), (0, (1 << 30) - 1)
    say(set_times(omit, (3, 4)), os.stat("a").st_atime_ns, os.stat("a").st_mtime_ns)
    say(set_times((9, 9), omit), os.stat("a").st_atime_ns, os.stat("a").st_mtime_ns)
    say(set_times(now, omit), os.stat("a").st_atime > 1e9, os.stat("a").st_mtime_ns, set_times(omit, omit))


@check
def mtime_moves_with_writes():
    put("a", b"x")
    os.utime("a", ns=(1000, 1000))
    fd = fd_of("a")
    say(os.stat("a").st_mtime_ns)
    os.write(fd, b"y")
    os.fsync(fd)
    say(os.stat("a").st_mtime_ns > 1000, abs(os.stat("a").st_mtime - time.time()) < 5)
    os.utime("a", ns=(1000, 1000))
    os.truncate("a", 0)
    say(os.stat("a").st_mtime_ns > 1000)
    os.utime("a", ns=(1000, 1000))
    opened("a", os.O_WRONLY | os.O_TRUNC)
    say(os.stat("a").st_mtime_ns > 1000)


@check
def times_set_after_a_write_stay():
    fd = fd_of("a")
    os.write(fd, b"data")
    os.utime(fd, ns=(7000, 8000))
    os.close(fd)
    say(os.stat("a").st_mtime_ns)
    os.sync()
    say(os.stat("a").st_mtime_ns)


@check
def ctime_moves_with_metadata():
    put("a")
    before = os.stat("a").st_ctime_ns
    time.sleep(0.02)
    os.chmod("a", 0o600)
    after = os.stat("a").st_ctime_ns
    time.sleep(0.02)
    os.link("a", "b")
    linked = os.stat("a").st_ctime_ns
    time.sleep(0.02)
    os.rename("a", "c")
    say(after > before, linked > after, os.stat("c").st_ctime_ns >= linked)


def ctime_after(path, change):
    """Whether the change gave it a later ctime, and left its mtime; and what it is called now."""
    before = os.stat(path)
    time.sleep(0.02)
    path = change() or path
    after = os.stat(path)
    return after.st_ctime_ns > before.st_ctime_ns, after.st_mtime_ns == before.st_mtime_ns, path


def check_ctime_of_directory(d):
    os.mkdir(d + "-empty")
    say(
        ctime_after(d, lambda: os.chmod(d, 0o700))[:2],
        ctime_after(d, lambda: os.chmod(d, 0o700))[:2],
        ctime_after(d, lambda: os.setxattr(d, "user.x", b"1"))[:2],
        ctime_after(d, lambda: os.removexattr(d, "user.x"))[:2],
        ctime_after(d, lambda: os.utime(d, ns=(5, os.stat(d).st_mtime_ns)))[:2],
        ctime_after(d, lambda: os.rename(d, d + "2") or d + "2")[:2],
        ctime_after(d + "2", lambda: os.rename(d + "2", d + "-empty") or d + "-empty")[:2],
    )
    d += "-empty"
    fd = os.open(d, os.O_RDONLY)
    say(ctime_after(d, lambda: os.fchmod(fd, 0o755))[:2], ctime_after(d, lambda: os.chmod(d, 0o2755))[:2])
    put("swapped")
    say(ctime_after(d, lambda: (exchange(d, "swapped"), "swapped")[1])[:2])
    failed = [attempt(os.chmod, "none", 0), attempt(os.removexattr, "swapped", "user.absent"), attempt(os.rename, "swapped", "no/where")]
    say(failed, ctime_after("swapped", lambda: attempt(os.removexattr, "swapped", "user.absent") and None)[0])


@check
def ctime_of_a_directory_moves_with_metadata():
    os.mkdir("d")
    check_ctime_of_directory("d")


@check
def directory_mtime_moves_with_entries():
    os.mkdir("d")
    seen = []
    for act in (
        lambda: put("d/a"),
        lambda: os.rename("d/a", "d/b"),
        lambda: os.link("d/b", "d/c"),
        lambda: os.unlink("d/b"),
        lambda: os.mkdir("d/e"),
        lambda: os.rmdir("d/e"),
        lambda: os.symlink("x", "d/l"),
        lambda: os.rename("d/l", "l"),
    ):
        os.utime("d", ns=(1000, 1000))
        act()
        seen.append(os.stat("d").st_mtime_ns > 1000)
    os.utime("d", ns=(1000, 1000))
    put("d/c", b"more", os.O_WRONLY)
    os.chmod("d/c", 0o600)
    say(seen, os.stat("d").st_mtime_ns)


@check
def only_the_owner_may_set_times():
    put("a")
    os.chmod("a", 0o444)
    say(attempt(os.utime, "a"), attempt(os.utime, "a", ns=(1, 1)))


@check
def xattrs():
    put("a")
    os.mkdir("d")
    for p in ("a", "d"):
        say(
            os.listxattr(p),
            attempt(os.getxattr, p, "user.x"),
            attempt(os.setxattr, p, "user.x", b"1"),
            os.getxattr(p, "user.x"),
            os.listxattr(p),
        )
        say(
            attempt(os.setxattr, p, "user.x", b"2", os.XATTR_CREATE),
            attempt(os.setxattr, p, "user.y", b"2", os.XATTR_REPLACE),
            attempt(os.setxattr, p, "user.x", b"3", os.XATTR_REPLACE),
            os.getxattr(p, "user.x"),
        )
        say(attempt(os.removexattr, p, "user.x"), attempt(os.removexattr, p, "user.x"), os.listxattr(p))


@check
def xattrs_with_odd_values():
    put("a")
    os.setxattr("a", "user.empty", b"")
    os.setxattr("a", "user.zero", b"\0\1\2\0")
    os.setxattr("a", "user.long", b"v" * 2000)
    say(
        sorted(os.listxattr("a")),
        os.getxattr("a", "user.empty"),
        os.getxattr("a", "user.zero"),
        len(os.getxattr("a", "user.long")),
    )
    say(
        attempt(os.setxattr, "a", "nonsense", b""),
        attempt(os.setxattr, "a", "user.", b""),
        attempt(os.setxattr, "a", "user." + "n" * 251, b""),
    )


@check
def xattrs_through_descriptors_and_links():
    put("a")
    os.symlink("a", "l")
    fd = fd_of("a")
    os.setxattr(fd, "user.x", b"1")
    say(os.getxattr("l", "user.x"), attempt(os.setxattr, "l", "user.x", b"1", follow_symlinks=False), os.listxattr(fd))


@check
def xattrs_move_with_the_file():
    put("a")
    os.setxattr("a", "user.x", b"1")
    os.rename("a", "b")
    os.link("b", "c")
    say(os.getxattr("c", "user.x"), os.getxattr("b", "user.x"))


@check
def xattr_buffer_too_small():
    put("a")
    os.setxattr("a", "user.x", b"12345")
    buf = ctypes.create_string_buffer(2)
    say(
        libc.getxattr(b"a", b"user.x", buf, 2),
        name_of(ctypes.get_errno()),
        libc.getxattr(b"a", b"user.x", None, 0),
        libc.listxattr(b"a", buf, 2),
        libc.listxattr(b"a", None, 0),
    )


@check
def access_agrees_with_modes():
    put("a")
    for mode in range(0, 0o1000, 0o111):
        os.chmod("a", mode)
        say(f"{mode:o}", *[os.access("a", m) for m in range(8)], attempt(faccessat2, "a", os.R_OK, 0x200))


@check
def stat_of_all_kinds():
    put("f", b"abc")
    os.mkdir("d")
    os.symlink("f", "l")
    os.mkfifo("p")
    s = socket.socket(socket.AF_UNIX)
    s.bind("s")
    for p in "fdlps":
        say(p, st(p))


@check
def statvfs_is_sane():
    v = os.statvfs(".")
    say(v.f_namemax, v.f_bsize > 0, v.f_blocks >= v.f_bfree >= v.f_bavail, v.f_files >= v.f_ffree)
