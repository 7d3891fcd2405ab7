"""Syncing, and what descriptors share."""

from checking import *


@check
def fsync_everything():
    fd = fd_of("a")
    os.write(fd, b"x")
    d = os.open(".", os.O_RDONLY)
    say(
        attempt(os.fsync, fd),
        attempt(os.fdatasync, fd),
        attempt(os.fsync, d),
        attempt(os.sync),
        libc.syncfs(fd),
        libc.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 7),
    )
    r = os.open("a", os.O_RDONLY)
    say(attempt(os.fsync, r))


@check
def synchronous_descriptors():
    for flag in (os.O_SYNC, os.O_DSYNC):
        fd = os.open("a", os.O_CREAT | os.O_RDWR | flag, 0o644)
        say(os.write(fd, b"abc"), content("a"), bool(fcntl.fcntl(fd, fcntl.F_GETFL) & flag))


@check
def direct_io():
    put("a", b"d" * 16384)
    fd = os.open("a", os.O_RDWR | os.O_DIRECT)
    buf = mmap.mmap(-1, 8192)
    say(os.preadv(fd, [buf], 4096), buf[:4])
    buf[:] = b"W" * 8192
    say(os.pwritev(fd, [buf], 0), content("a")[8190:8194])


@check
def advice_and_readahead():
    put("a", b"x" * 100000)
    fd = os.open("a", os.O_RDONLY)
    say(
        [attempt(os.posix_fadvise, fd, 0, 0, a) for a in range(6)],
        libc.readahead(fd, ctypes.c_long(0), 4096),
        os.pread(fd, 1, 99999),
    )


@check
def dup_shares_the_offset():
    put("a", b"0123456789")
    fd = os.open("a", os.O_RDONLY)
    other = os.dup(fd)
    os.read(fd, 4)
    say(os.read(other, 2), os.lseek(fd, 0, os.SEEK_CUR))


@check
def descriptors_across_fork():
    fd = fd_of("a")

    def f():
        os.write(fd, b"child")

    say(child(f), os.write(fd, b"parent"), content("a"))


@check
def append_flag_set_later():
    put("a", b"0123")
    fd = os.open("a", os.O_WRONLY)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, b"x")
    say(content("a"))


@check
def poll_and_select():
    import select

    put("a", b"x")
    fd = os.open("a", os.O_RDWR)
    p = select.poll()
    p.register(fd)
    say(p.poll(0)[0][1] & (select.POLLIN | select.POLLOUT), [len(x) for x in select.select([fd], [fd], [fd], 0)][:2])


@check
def ioctls_that_mean_nothing():
    put("a")
    fd = os.open("a", os.O_RDWR)
    say(attempt(fcntl.ioctl, fd, 0x5413, b"12345678"), attempt(os.isatty, fd), attempt(os.ttyname, fd))


@check
def fionread():
    put("a", b"12345")
    fd = os.open("a", os.O_RDONLY)
    os.read(fd, 2)
    say(struct.unpack("i", fcntl.ioctl(fd, 0x541B, b"\0\0\0\0"))[0])


@check
def inotify_tells():
    w = libc.inotify_init1(os.O_NONBLOCK)
    say(libc.inotify_add_watch(w, b".", 0xFFF) > 0)
    put("a")
    os.rename("a", "b")
    os.chmod("b", 0o600)
    os.unlink("b")
    os.mkdir("d")
    data = os.read(w, 65536)
    at, out = 0, []
    while at < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        out.append((mask, data[at + 16 : at + 16 + length].rstrip(b"\0")))
        at += 16 + length
    say([o for o in out if o[0] & 0x3C6])


@check
def inode_numbers_stay():
    put("a", b"x")
    os.mkdir("d")
    first = os.stat("a").st_ino, os.stat("d").st_ino
    put("a", b"other")
    os.chmod("a", 0o600)
    os.truncate("a", 0)
    put("d/x")
    say(first == (os.stat("a").st_ino, os.stat("d").st_ino))
