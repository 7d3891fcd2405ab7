"""The same things done to a plain filesystem and to the fence. Run in an empty directory; prints what came of each check.

    posix_script.py [CHECK...]

A check is a function in a directory of its own. What it prints must depend on POSIX alone: no inode numbers, no sizes of
directories, no link counts of directories, no absolute times.
"""

import subprocess

from inside import *

CHECKS = {}


def check(f):
    CHECKS[f.__name__] = f
    return f


def st(path):
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    size = "-" if stat.S_ISDIR(kind) else s.st_size
    links = "-" if stat.S_ISDIR(kind) else s.st_nlink
    return f"{s.st_mode:o} {links} {size} {s.st_uid == os.getuid()} {s.st_gid == os.getgid()}"


def fd_of(path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
    return os.open(path, flags, mode)


def same(a, b):
    a, b = os.lstat(a), os.lstat(b)
    return (a.st_ino, a.st_dev) == (b.st_ino, b.st_dev)


def child(f):
    """Runs f in a child and gives its exit status, or -signal."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            code = f() or 0
        except OSError as e:
            code = e.errno
        os._exit(code)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


# ---- creating and opening ----


@check
def create_and_read():
    say(put("a", b"hello"), content("a"), st("a"), listing())


@check
def create_exclusive():
    say(opened("a", os.O_CREAT | os.O_EXCL | os.O_WRONLY), opened("a", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.symlink("nowhere", "l")
    say(opened("l", os.O_CREAT | os.O_EXCL | os.O_WRONLY), exists("nowhere"))


@check
def create_through_a_dangling_link():
    os.symlink("target", "l")
    say(put("l", b"x"), content("target"), st("l"))


@check
def create_with_modes():
    for mode in (0o777, 0o600, 0o444, 0o000, 0o1777):
        fd = os.open(f"m{mode:o}", os.O_CREAT | os.O_RDWR, mode)
        say(st(f"m{mode:o}"), os.write(fd, b"even so"))
        os.close(fd)


@check
def create_under_umasks():
    for mask in (0, 0o022, 0o077, 0o777):
        os.umask(mask)
        put(f"u{mask:o}")
        os.mkdir(f"d{mask:o}")
        os.mkfifo(f"p{mask:o}")
        say(st(f"u{mask:o}"), st(f"d{mask:o}"), st(f"p{mask:o}"))
    os.umask(0o022)


@check
def open_missing():
    say(opened("a"), opened("a", os.O_WRONLY), opened("d/a"), opened("d/a", os.O_CREAT | os.O_RDWR))


@check
def open_a_directory():
    os.mkdir("d")
    say(
        opened("d"),
        opened("d", os.O_WRONLY),
        opened("d", os.O_RDWR),
        opened("d", os.O_CREAT | os.O_RDONLY),
        opened("d", os.O_DIRECTORY),
    )
    say(attempt(lambda: os.read(os.open("d", os.O_RDONLY), 10)))


@check
def open_a_file_as_directory():
    put("a")
    say(
        opened("a", os.O_DIRECTORY),
        exists("a/"),
        exists("a/b"),
        opened("a/b", os.O_CREAT | os.O_WRONLY),
        attempt(os.chdir, "a"),
        attempt(os.listdir, "a"),
    )


@check
def open_nofollow():
    put("a")
    os.symlink("a", "l")
    say(opened("l", os.O_NOFOLLOW), opened("a", os.O_NOFOLLOW), opened("l", os.O_PATH | os.O_NOFOLLOW))


@check
def open_without_permission():
    put("a", b"x")
    for mode in (0, 0o200, 0o400, 0o100):
        os.chmod("a", mode)
        say(
            opened("a"),
            opened("a", os.O_WRONLY),
            opened("a", os.O_RDWR),
            os.access("a", os.R_OK),
            os.access("a", os.W_OK),
            os.access("a", os.X_OK),
        )


@check
def directories_without_permission():
    os.mkdir("d")
    put("d/a", b"x")
    for mode in (0, 0o100, 0o400, 0o200, 0o300, 0o500):
        os.chmod("d", mode)
        say(
            attempt(os.listdir, "d"),
            content("d/a"),
            opened("d/b", os.O_CREAT | os.O_WRONLY),
            attempt(os.mkdir, "d/c"),
            attempt(os.unlink, "d/b"),
            attempt(os.rmdir, "d/c"),
        )
    os.chmod("d", 0o700)


@check
def open_truncate():
    put("a", b"hello")
    say(opened("a", os.O_RDONLY | os.O_TRUNC), os.stat("a").st_size)
    put("a", b"hello")
    say(opened("a", os.O_WRONLY | os.O_TRUNC), os.stat("a").st_size)
    fd = fd_of("a")
    os.write(fd, b"12345")
    opened("a", os.O_WRONLY | os.O_TRUNC)
    say(os.fstat(fd).st_size, os.read(fd, 5), os.pread(fd, 5, 0))


@check
def openat_relative_to_descriptors():
    os.makedirs("d/e")
    fd = os.open("d", os.O_RDONLY)
    os.close(os.open("e/f", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
    os.rename("d", "moved")
    say(
        attempt(os.stat, "e/f", dir_fd=fd) != "ENOENT",
        attempt(os.unlink, "e/f", dir_fd=fd),
        attempt(os.open, "..", os.O_RDONLY, dir_fd=fd) != "ENOENT",
    )


@check
def many_descriptors_of_one_file():
    fds = [fd_of("a") for _ in range(200)]
    for i, fd in enumerate(fds):
        os.pwrite(fd, b"%03d" % i, 3 * i)
    say(content("a")[:30], os.fstat(fds[0]).st_size)
    for fd in fds:
        os.close(fd)


@check
def path_descriptors():
    put("a", b"x")
    fd = os.open("a", os.O_PATH)
    say(
        attempt(os.read, fd, 1),
        attempt(os.write, fd, b"x"),
        attempt(os.fchmod, fd, 0o600),
        os.fstat(fd).st_size,
        content(f"/proc/self/fd/{fd}"),
    )


# ---- writing ----


@check
def append():
    put("a", b"one")
    fd = os.open("a", os.O_WRONLY | os.O_APPEND)
    say(
        os.write(fd, b"two"),
        os.lseek(fd, 0, os.SEEK_SET),
        os.write(fd, b"three"),
        content("a"),
        os.pwrite(fd, b"four", 0),
        content("a"),
    )


@check
def append_from_many_processes():
    put("a", b"")

    def writer(n):
        fd = os.open("a", os.O_WRONLY | os.O_APPEND)
        for i in range(200):
            os.write(fd, b"%d-%05d\n" % (n, i))

    pids = []
    for n in range(4):
        pid = os.fork()
        if pid == 0:
            writer(n)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    lines = content("a").split(b"\n")[:-1]
    say(len(lines), len(set(lines)), all(len(line) == 7 for line in lines))
    say(all([x for x in lines if x[:1] == b"%d" % n] == sorted(x for x in lines if x[:1] == b"%d" % n) for n in range(4)))


@check
def write_beyond_the_end():
    fd = fd_of("a")
    say(os.pwrite(fd, b"end", 10000), os.fstat(fd).st_size, os.pread(fd, 4, 0), os.pread(fd, 10, 9998))


@check
def overwrite_in_the_middle():
    put("a", b"0123456789")
    fd = fd_of("a")
    os.lseek(fd, 4, os.SEEK_SET)
    say(os.write(fd, b"XX"), os.lseek(fd, 0, os.SEEK_CUR), content("a"), os.lseek(fd, -3, os.SEEK_END), os.read(fd, 10))


@check
def writev_and_preadv():
    fd = fd_of("a")
    say(
        os.writev(fd, [b"ab", b"cde", b"f" * 5000]),
        os.preadv(fd, [bytearray(2), bytearray(3)], 0),
        os.pwritev(fd, [b"Z", b"Y"], 1),
        os.pread(fd, 5, 0),
    )


@check
def zero_length_writes():
    fd = fd_of("a")
    say(os.write(fd, b""), os.pwrite(fd, b"", 100), os.fstat(fd).st_size)


@check
def large_writes():
    fd = fd_of("a")
    block = bytes(range(256)) * 4096
    for i in range(12):
        os.write(fd, block)
    import hashlib

    say(os.fstat(fd).st_size, hashlib.sha256(content("a")).hexdigest())


@check
def unaligned_writes_and_reads():
    fd = fd_of("a")
    for i in range(0, 50000, 777):
        os.pwrite(fd, b"%06d" % i, i)
    say(all(os.pread(fd, 6, i) == b"%06d" % i for i in range(0, 50000, 777)), os.fstat(fd).st_size, hash(content("a")) != 0)


@check
def write_to_a_read_descriptor():
    put("a", b"x")
    fd = os.open("a", os.O_RDONLY)
    say(attempt(os.write, fd, b"y"), attempt(os.ftruncate, fd, 0), attempt(fallocate, fd, 0, 0, 10))
    fd = os.open("a", os.O_WRONLY)
    say(attempt(os.read, fd, 1), attempt(mmap.mmap, fd, 1, mmap.MAP_SHARED, mmap.PROT_READ))


@check
def write_after_chmod_zero():
    fd = fd_of("a")
    os.chmod("a", 0)
    say(os.write(fd, b"still"), os.pread(fd, 5, 0), opened("a"))


@check
def reading_past_the_end():
    put("a", b"abc")
    fd = os.open("a", os.O_RDONLY)
    say(
        os.read(fd, 10),
        os.read(fd, 10),
        os.pread(fd, 10, 100),
        os.lseek(fd, 50, os.SEEK_SET),
        os.read(fd, 1),
        attempt(os.lseek, fd, -1, os.SEEK_SET),
    )


@check
def file_size_limit():
    def f():
        import resource, signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        fd = fd_of("a")
        first = os.write(fd, b"x" * 900), os.write(fd, b"y" * 900)
        try:
            os.write(fd, b"z")
        except OSError as e:
            say(first, name_of(e.errno))
        return 0

    say(child(f), os.stat("a").st_size)


@check
def offsets_beyond_four_gigabytes():
    fd = fd_of("a")
    say(os.pwrite(fd, b"far", 5 << 30), os.fstat(fd).st_size, os.pread(fd, 3, 5 << 30), os.pread(fd, 3, 3 << 30))
    os.ftruncate(fd, 0)


# ---- truncating, holes, allocation ----


@check
def truncate_shorter_and_longer():
    put("a", b"0123456789")
    os.truncate("a", 4)
    say(content("a"))
    os.truncate("a", 8)
    say(content("a"), attempt(os.truncate, "a", -1), attempt(os.truncate, "none", 1))
    os.mkdir("d")
    say(attempt(os.truncate, "d", 0))


@check
def truncate_clears_the_tail_of_a_page():
    put("a", b"x" * 6000)
    os.truncate("a", 100)
    os.truncate("a", 6000)
    data = content("a")
    say(len(data), data[:100] == b"x" * 100, data[100:] == b"\0" * 5900)


@check
def truncate_while_open():
    fd = fd_of("a")
    os.write(fd, b"0123456789")
    os.truncate("a", 3)
    say(os.fstat(fd).st_size, os.write(fd, b"AB"), content("a"))


@check
def truncate_while_mapped():
    put("a", b"x" * 8192)
    fd = fd_of("a")
    m = mmap.mmap(fd, 8192)
    os.ftruncate(fd, 4096)

    def f():
        return m[0] - m[5000]

    say(child(f), m[:3])


@check
def sparse_files():
    fd = fd_of("a")
    os.ftruncate(fd, 1 << 20)
    os.pwrite(fd, b"x" * 65536, 512 << 10)
    say(os.fstat(fd).st_size, os.fstat(fd).st_blocks * 512 < 1 << 19)
    say(
        os.lseek(fd, 0, os.SEEK_DATA),
        os.lseek(fd, 0, os.SEEK_HOLE),
        os.lseek(fd, 512 << 10, os.SEEK_HOLE),
        attempt(os.lseek, fd, 600 << 10, os.SEEK_DATA),
        os.lseek(fd, 600 << 10, os.SEEK_HOLE),
    )


@check
def seek_data_in_an_empty_file():
    fd = fd_of("a")
    say(attempt(os.lseek, fd, 0, os.SEEK_DATA), attempt(os.lseek, fd, 0, os.SEEK_HOLE), attempt(os.lseek, fd, 10, os.SEEK_HOLE))


@check
def fallocate_extends():
    fd = fd_of("a")
    say(attempt(fallocate, fd, 0, 0, 10000), os.fstat(fd).st_size, os.fstat(fd).st_blocks >= 16, content("a") == b"\0" * 10000)


@check
def fallocate_keeps_the_size():
    fd = fd_of("a")
    os.write(fd, b"abc")
    say(attempt(fallocate, fd, FALLOC_KEEP_SIZE, 0, 100000), os.fstat(fd).st_size, os.fstat(fd).st_blocks >= 100, content("a"))


@check
def fallocate_punches_holes():
    fd = fd_of("a")
    os.write(fd, b"x" * 65536)
    say(attempt(fallocate, fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 8192, 16384), os.fstat(fd).st_size)
    data = content("a")
    say(
        data[:8192] == b"x" * 8192,
        data[8192:24576] == b"\0" * 16384,
        data[24576:] == b"x" * (65536 - 24576),
        os.lseek(fd, 0, os.SEEK_HOLE),
        os.lseek(fd, 8192, os.SEEK_DATA),
    )
    say(attempt(fallocate, fd, FALLOC_KEEP_SIZE | FALLOC_PUNCH_HOLE, 100, 50), content("a")[95:155])
    say(attempt(fallocate, fd, FALLOC_PUNCH_HOLE, 0, 10), attempt(fallocate, fd, 0, 0, 0), attempt(fallocate, fd, 0, -1, 5))


@check
def posix_fallocate_does_not_shrink():
    put("a", b"0123456789")
    fd = fd_of("a")
    os.posix_fallocate(fd, 0, 5)
    say(content("a"))
    os.posix_fallocate(fd, 8, 8)
    say(content("a"))


@check
def fallocate_on_a_directory():
    os.mkdir("d")
    say(attempt(fallocate, os.open("d", os.O_RDONLY), 0, 0, 10))


@check
def copy_file_range_copies():
    put("a", b"0123456789" * 1000)
    put("b", b"")
    src, dst = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR)
    say(
        os.copy_file_range(src, dst, 5000, 10, 0),
        os.fstat(dst).st_size,
        content("b")[:12],
        os.copy_file_range(src, dst, 99999),
        os.copy_file_range(src, dst, 10),
    )
    say(attempt(os.copy_file_range, src, src, 10, 0, 0))


@check
def sendfile_and_splice():
    put("a", b"0123456789")
    src = os.open("a", os.O_RDONLY)
    dst = fd_of("b")
    say(os.sendfile(dst, src, 2, 5), content("b"))
    r, w = os.pipe()
    say(os.splice(src, w, 4), os.read(r, 10))
    os.write(w, b"piped")
    say(os.splice(r, dst, 5), content("b"))


# ---- mapping ----


@check
def mmap_shared_writes():
    put("a", b"." * 10000)
    fd = fd_of("a")
    m = mmap.mmap(fd, 10000)
    m[5000:5005] = b"HELLO"
    say(os.pread(fd, 7, 4999))
    os.pwrite(fd, b"there", 0)
    say(m[:6])
    m.flush()
    m.close()
    os.close(fd)
    say(content("a")[4998:5007])


@check
def mmap_private_writes():
    put("a", b"." * 100)
    fd = fd_of("a")
    m = mmap.mmap(fd, 100, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    m[:5] = b"HELLO"
    say(m[:6], content("a")[:6])


@check
def mmap_between_processes():
    put("a", b"." * 4096)
    fd = fd_of("a")
    m = mmap.mmap(fd, 4096)

    def f():
        other = mmap.mmap(os.open("a", os.O_RDWR), 4096)
        other[10:15] = b"CHILD"

    say(child(f), m[8:17])


@check
def mmap_survives_close_and_unlink():
    put("a", b"kept")
    fd = fd_of("a")
    m = mmap.mmap(fd, 4)
    os.close(fd)
    os.unlink("a")
    m[0:1] = b"K"
    say(m[:], exists("a"))


@check
def mmap_without_write_permission():
    put("a", b"x" * 10)
    fd = os.open("a", os.O_RDONLY)
    say(attempt(mmap.mmap, fd, 10, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))


@check
def mmap_past_the_end():
    put("a", b"x")
    fd = fd_of("a")
    libc.mmap.restype = ctypes.c_void_p

    def f():
        p = libc.mmap(None, ctypes.c_size_t(16384), 1, 1, fd, ctypes.c_long(0))
        return ctypes.string_at(p + 8192, 1)[0]

    say(child(f))


@check
def mmap_sees_later_writes_and_extension():
    put("a", b"x" * 4096)
    fd = fd_of("a")
    os.ftruncate(fd, 8192)
    m = mmap.mmap(fd, 8192)
    os.pwrite(fd, b"second", 4096)
    say(m[4096:4102], m[4102])


@check
def mmap_exec():
    import shutil

    shutil.copy("/bin/true", "true")
    os.chmod("true", 0o755)
    fd = os.open("true", os.O_RDONLY)
    m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    say(m[:4])


@check
def msync_then_read_by_others():
    put("a", b"." * 100)
    fd = fd_of("a")
    m = mmap.mmap(fd, 100)
    m[0:3] = b"abc"
    m.flush()
    say(subprocess.run(["head", "-c", "4", "a"], stdout=subprocess.PIPE).stdout)


# ---- attributes ----


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


# ---- names ----


@check
def mkdir_and_rmdir():
    say(
        attempt(os.mkdir, "d"),
        attempt(os.mkdir, "d"),
        attempt(os.mkdir, "x/y"),
        attempt(os.rmdir, "d"),
        attempt(os.rmdir, "d"),
        attempt(os.mkdir, "d/"),
        attempt(os.rmdir, "d/"),
    )
    put("f")
    say(
        attempt(os.rmdir, "f"), attempt(os.mkdir, "f"), attempt(os.unlink, "."), attempt(os.rmdir, "."), attempt(os.rmdir, "..")
    )


@check
def rmdir_of_a_full_directory():
    os.makedirs("d/e")
    say(
        attempt(os.rmdir, "d"),
        attempt(os.unlink, "d"),
        attempt(os.rmdir, "d/e/."),
        attempt(os.rmdir, "d/e"),
        attempt(os.rmdir, "d"),
    )


@check
def unlink_errors():
    os.mkdir("d")
    put("f")
    say(
        attempt(os.unlink, "none"),
        attempt(os.unlink, "d"),
        attempt(os.unlink, "f/"),
        attempt(os.unlink, "f/x"),
        attempt(os.unlink, "f"),
        attempt(os.unlink, "f"),
    )


@check
def removed_and_made_again():
    for i in range(5):
        os.mkdir("d")
        put("d/f", b"%d" % i)
        say(content("d/f"), listing("d"))
        os.unlink("d/f")
        os.rmdir("d")
        put("d", b"file now")
        say(content("d"))
        os.unlink("d")


@check
def deep_trees():
    path = "/".join("d%d" % i for i in range(100))
    os.makedirs(path)
    put(path + "/f", b"deep")
    say(content(path + "/f"))
    import shutil

    shutil.rmtree("d0")
    say(listing())


@check
def names_of_255_bytes():
    n = "n" * 255
    say(
        put(n, b"x"),
        content(n),
        opened("n" * 256, os.O_CREAT | os.O_WRONLY),
        listing() == [n],
        attempt(os.rename, n, "m" * 255),
        attempt(os.mkdir, n),
        attempt(os.rename, "m" * 255, "x" * 256),
    )
    say(attempt(os.rmdir, n), attempt(os.unlink, "m" * 255), listing())


@check
def names_of_252_to_255_bytes_removed_and_made_again():
    for length in (251, 252, 253, 254, 255):
        n = "k" * length
        for i in range(3):
            put(n, b"%d" % i)
            say(length, content(n), attempt(os.unlink, n), exists(n))


@check
def names_that_are_not_utf8():
    for n in (
        b"\xff\xfe",
        b"\x80",
        b"a\nb",
        b" ",
        b"\t",
        b"-rf",
        b"\\",
        b"*?[x]",
        b"\x7f\x01",
        "é".encode(),
        "e\u0301".encode(),
    ):
        say(put(n, n), content(n), attempt(os.rename, n, n + b"2"), exists(n), content(n + b"2"))
    say(sorted(os.listdir(b".")))


@check
def names_differ_by_case():
    put("a", b"lower")
    put("A", b"upper")
    say(content("a"), content("A"), listing())


@check
def dots_in_names():
    for n in ("...", ".hidden", "..x", "x..", "x."):
        say(put(n), exists(n))
    say(listing(), exists("."), exists(".."), opened("", os.O_RDONLY))


@check
def long_paths():
    os.mkdir("d")
    say(exists("d/" * 2000 + "x"), exists("x" * 5000), content("./" * 1000 + "none"))


@check
def slashes():
    os.mkdir("d")
    put("d/f")
    say(
        exists("d//f"),
        exists("d/./f"),
        exists("d/../d/f"),
        exists("d/f/"),
        exists("d/f/."),
        exists("d/f/.."),
        exists("d/none/.."),
    )


# ---- rename ----


@check
def rename_files():
    put("a", b"a")
    put("b", b"b")
    say(
        attempt(os.rename, "a", "c"),
        attempt(os.rename, "c", "b"),
        content("b"),
        listing(),
        attempt(os.rename, "none", "x"),
        attempt(os.rename, "b", "x/y"),
    )


@check
def rename_to_itself_and_to_a_hard_link():
    put("a", b"a")
    os.link("a", "b")
    say(attempt(os.rename, "a", "a"), attempt(os.rename, "a", "b"), listing(), os.stat("a").st_nlink)


@check
def rename_directories():
    os.makedirs("d/e")
    put("d/e/f", b"f")
    os.mkdir("empty")
    os.mkdir("full")
    put("full/x")
    say(
        attempt(os.rename, "d", "g"),
        content("g/e/f"),
        attempt(os.rename, "g", "full"),
        attempt(os.rename, "g", "empty"),
        content("empty/e/f"),
        listing(),
    )
    say(
        attempt(os.rename, "empty", "empty/e/sub"), attempt(os.rename, "empty", "empty"), attempt(os.rename, "empty/e", "empty")
    )


@check
def rename_between_kinds():
    put("f")
    os.mkdir("d")
    os.symlink("f", "l")
    say(
        attempt(os.rename, "f", "d"),
        attempt(os.rename, "d", "f"),
        attempt(os.rename, "d", "l"),
        attempt(os.rename, "l", "d"),
        attempt(os.rename, "l", "f"),
        os.readlink("f"),
    )


@check
def rename_keeps_the_inode():
    put("a", b"x")
    ino = os.stat("a").st_ino
    os.rename("a", "b")
    os.mkdir("d")
    os.rename("b", "d/c")
    say(os.stat("d/c").st_ino == ino)
    dino = os.stat("d").st_ino
    os.rename("d", "e")
    say(os.stat("e").st_ino == dino, os.stat("e/c").st_ino == ino)


@check
def rename_over_an_open_file():
    put("a", b"old")
    fd = os.open("a", os.O_RDWR)
    put("b", b"new")
    os.rename("b", "a")
    say(os.read(fd, 10), content("a"), os.fstat(fd).st_nlink, os.write(fd, b"!"), os.pread(fd, 10, 0), content("a"))


@check
def rename_noreplace():
    put("a", b"a")
    put("b", b"b")
    os.mkdir("d")
    say(
        attempt(renameat2, "a", "b", 1),
        attempt(renameat2, "a", "d", 1),
        attempt(renameat2, "a", "a", 1),
        attempt(renameat2, "a", "c", 1),
        listing(),
        attempt(renameat2, "d", "e", 1),
        listing(),
    )


@check
def rename_exchange():
    put("a", b"a")
    put("b", b"b")
    os.mkdir("d")
    put("d/x", b"x")
    os.symlink("a", "l")
    say(
        attempt(exchange, "a", "b"),
        content("a"),
        content("b"),
        attempt(exchange, "a", "none"),
        attempt(exchange, "none", "a"),
        attempt(exchange, "a", "a"),
    )
    say(
        attempt(exchange, "a", "d"),
        content("a/x"),
        content("d"),
        attempt(exchange, "a", "a/x"),
        attempt(exchange, "l", "b"),
        os.readlink("b"),
        attempt(renameat2, "a", "b", 3),
    )


@check
def rename_exchange_of_directories():
    os.makedirs("p/one")
    os.makedirs("q/two")
    put("p/one/f", b"1")
    put("q/two/f", b"2")
    say(
        attempt(exchange, "p/one", "q/two"),
        content("p/one/f"),
        content("q/two/f"),
        attempt(exchange, "p", "q"),
        listing("p"),
        listing("q"),
    )


@check
def rename_with_unknown_flags():
    put("a")
    say(attempt(renameat2, "a", "b", 0x80), exists("a"))


@check
def rename_with_trailing_slashes():
    put("f")
    os.mkdir("d")
    say(
        attempt(os.rename, "f/", "g"),
        attempt(os.rename, "f", "g/"),
        attempt(os.rename, "d/", "e/"),
        listing(),
        attempt(os.rename, "e/.", "x"),
        attempt(os.rename, "e", "x/.."),
    )


@check
def rename_in_a_sticky_directory():
    os.mkdir("t", 0o777)
    os.chmod("t", 0o1777)
    put("t/a")
    say(attempt(os.rename, "t/a", "t/b"), attempt(os.unlink, "t/b"), st("t"))


@check
def rename_many_times():
    put("f0", b"x")
    for i in range(300):
        os.rename(f"f{i}", f"f{i + 1}")
    say(listing(), content("f300"))


@check
def rename_updates_dotdot():
    os.makedirs("a/d")
    os.mkdir("b")
    os.rename("a/d", "b/d")
    say(same("b/d/..", "b"), same("b/d/../..", "."))


@check
def rename_of_the_working_directory():
    os.makedirs("d/e")
    os.chdir("d/e")
    os.rename("../../d", "../../moved")
    say(os.getcwd().endswith("/moved/e"), put("f"), exists("../../moved/e/f"))


# ---- links ----


@check
def hard_links():
    put("a", b"x")
    say(
        attempt(os.link, "a", "b"),
        os.stat("a").st_nlink,
        same("a", "b"),
        attempt(os.link, "a", "b"),
        attempt(os.link, "none", "c"),
        attempt(os.unlink, "a"),
        os.stat("b").st_nlink,
        content("b"),
    )
    os.mkdir("d")
    say(
        attempt(os.link, "d", "e"),
        attempt(os.link, "b", "d/b"),
        os.stat("b").st_nlink,
        attempt(os.link, "b", "none/b"),
        attempt(os.link, "b", "d"),
    )


@check
def hard_links_share_everything():
    put("a", b"one")
    os.link("a", "b")
    put("b", b"two")
    os.chmod("b", 0o600)
    os.setxattr("b", "user.x", b"1")
    os.utime("b", ns=(5000, 6000))
    say(content("a"), st("a"), os.getxattr("a", "user.x"), os.stat("a").st_mtime_ns)
    fd = os.open("a", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"three")
    say(content("b"))


@check
def hard_links_to_links():
    os.symlink("nowhere", "l")
    say(
        attempt(os.link, "l", "m", follow_symlinks=False),
        os.readlink("m"),
        os.lstat("l").st_nlink,
        attempt(os.link, "l", "n", follow_symlinks=True),
    )


@check
def hard_links_by_descriptor():
    fd = fd_of("a")
    os.write(fd, b"x")
    say(attempt(linkat, -100, f"/proc/self/fd/{fd}", "b", AT_SYMLINK_FOLLOW), content("b"), os.fstat(fd).st_nlink)


@check
def link_of_an_unlinked_file():
    fd = fd_of("a")
    os.unlink("a")
    say(attempt(linkat, -100, f"/proc/self/fd/{fd}", "b", AT_SYMLINK_FOLLOW), os.fstat(fd).st_nlink)


@check
def many_hard_links():
    put("a", b"x")
    for i in range(500):
        os.link("a", f"l{i}")
    say(os.stat("a").st_nlink, len({os.stat(n).st_ino for n in os.listdir(".")}))
    for i in range(500):
        os.unlink(f"l{i}")
    say(os.stat("a").st_nlink)


@check
def rename_over_one_of_two_links():
    put("a", b"a")
    os.link("a", "b")
    put("c", b"c")
    os.rename("c", "b")
    say(os.stat("a").st_nlink, content("a"), content("b"))


@check
def symlinks():
    put("a", b"x")
    for target in ("a", "none", "./a", "../" + os.path.basename(os.getcwd()) + "/a", os.path.abspath("a"), "l", "a/"):
        say(
            attempt(os.symlink, target, "l"),
            os.readlink("l") == target,
            os.lstat("l").st_size == len(target),
            content("l"),
            attempt(os.symlink, "x", "l"),
        )
        os.unlink("l")
    say(attempt(os.symlink, "", "e"), attempt(os.readlink, "a"), attempt(os.readlink, "none"))


@check
def symlinks_with_long_targets():
    for length in (255, 1000, 4095):
        os.symlink("t" * length, "l")
        say(len(os.readlink("l")), os.lstat("l").st_size)
        os.unlink("l")
    say(attempt(os.symlink, "t" * 4096, "l"))


@check
def symlink_loops():
    os.symlink("b", "a")
    os.symlink("a", "b")
    say(opened("a"), attempt(os.stat, "a"), exists("a"), attempt(os.chmod, "a", 0o600))
    os.symlink("none", "l0")
    for i in range(45):
        os.symlink(f"l{i}", f"l{i + 1}")
    say(opened("l30"), opened("l45"))


@check
def symlinks_to_directories():
    os.makedirs("d/e")
    os.symlink("d", "l")
    say(
        listing("l"),
        put("l/f"),
        listing("d"),
        attempt(os.rmdir, "l"),
        attempt(os.mkdir, "l"),
        attempt(os.rmdir, "l/e"),
        attempt(os.unlink, "l"),
        listing(),
    )


@check
def symlinks_in_the_middle():
    os.makedirs("a/b")
    os.makedirs("c")
    os.symlink("../a", "c/l")
    put("a/b/f", b"x")
    say(content("c/l/b/f"), content("c/l/../a/b/f"), os.path.realpath("c/l/b").endswith("/a/b"))


# ---- open but unlinked ----


@check
def unlinked_but_open():
    fd = fd_of("a")
    os.write(fd, b"still here")
    os.unlink("a")
    say(
        os.fstat(fd).st_nlink,
        os.pread(fd, 20, 0),
        os.write(fd, b" and more"),
        os.pread(fd, 30, 0),
        os.fstat(fd).st_size,
        exists("a"),
    )
    os.ftruncate(fd, 3)
    os.fchmod(fd, 0o600)
    os.utime(fd, ns=(1, 2))
    os.setxattr(fd, "user.x", b"1")
    say(os.pread(fd, 20, 0), os.fstat(fd).st_mtime_ns, os.getxattr(fd, "user.x"), attempt(os.fsync, fd))


@check
def unlinked_and_made_again():
    fd = fd_of("a")
    os.write(fd, b"old")
    os.unlink("a")
    put("a", b"new")
    say(os.pread(fd, 5, 0), content("a"), os.fstat(fd).st_ino != os.stat("a").st_ino)
    os.write(fd, b"er")
    say(os.pread(fd, 9, 0), content("a"))


@check
def unlinked_and_reopened_through_proc():
    fd = fd_of("a")
    os.write(fd, b"ghost")
    os.unlink("a")
    say(content(f"/proc/self/fd/{fd}"), put(f"/proc/self/fd/{fd}", b"G", os.O_WRONLY), os.pread(fd, 5, 0))


@check
def unlinked_under_many_readers():
    put("a", b"data" * 10000)
    fds = [os.open("a", os.O_RDONLY) for _ in range(50)]
    os.unlink("a")
    say(all(os.pread(fd, 4, 30000) == b"data" for fd in fds), len(listing()))


@check
def removed_directory_still_open():
    os.mkdir("d")
    fd = os.open("d", os.O_RDONLY)
    os.rmdir("d")
    say(
        os.listdir(fd),
        attempt(os.open, "x", os.O_CREAT | os.O_WRONLY, dir_fd=fd),
        attempt(os.mkdir, "x", dir_fd=fd),
        attempt(os.stat, ".", dir_fd=fd) != "ENOENT",
    )


@check
def working_directory_removed():
    os.mkdir("d")
    os.chdir("d")
    os.rmdir("../d")
    say(attempt(os.getcwd), attempt(os.listdir, "."), put("f"), attempt(os.mkdir, "x"), exists("."), exists("f"))


@check
def temporary_files_like_editors_do():
    import tempfile

    with tempfile.NamedTemporaryFile(dir=".") as t:
        t.write(b"x")
        t.flush()
        say(content(t.name))
    say(listing())


# ---- directories ----


@check
def listing_has_dots():
    class Dirent(ctypes.Structure):
        _fields_ = [
            ("ino", ctypes.c_ulong),
            ("off", ctypes.c_long),
            ("reclen", ctypes.c_ushort),
            ("type", ctypes.c_ubyte),
            ("name", ctypes.c_char * 256),
        ]

    put("f")
    os.mkdir("d")
    os.symlink("x", "l")
    os.mkfifo("p")
    libc.opendir.restype = ctypes.c_void_p
    libc.readdir.restype = ctypes.POINTER(Dirent)
    libc.readdir.argtypes = [ctypes.c_void_p]
    handle = libc.opendir(b".")
    out = []
    while e := libc.readdir(handle):
        out.append((e.contents.name, e.contents.type, e.contents.ino == os.lstat(e.contents.name).st_ino))
    say(sorted(out))


@check
def listing_in_large_directories():
    for i in range(3000):
        os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY))
    names = os.listdir(".")
    say(len(names), len(set(names)), set(names) == {f"f{i}" for i in range(3000)})
    for i in range(0, 3000, 2):
        os.unlink(f"f{i}")
    say(len(os.listdir(".")))


class Dir:
    """A directory stream with telldir and seekdir."""

    class Entry(ctypes.Structure):
        _fields_ = [
            ("ino", ctypes.c_ulong),
            ("off", ctypes.c_long),
            ("reclen", ctypes.c_ushort),
            ("type", ctypes.c_ubyte),
            ("name", ctypes.c_char * 256),
        ]

    def __init__(self, path):
        libc.opendir.restype = ctypes.c_void_p
        libc.readdir.restype = ctypes.POINTER(Dir.Entry)
        for f in (libc.readdir, libc.telldir, libc.rewinddir):
            f.argtypes = [ctypes.c_void_p]
        libc.telldir.restype = ctypes.c_long
        libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self.handle = libc.opendir(os.fsencode(path))

    def next(self):
        e = libc.readdir(self.handle)
        return e.contents.name.decode() if e else None

    def rest(self):
        out = []
        while (n := self.next()) is not None:
            out.append(n)
        return out

    def tell(self):
        return libc.telldir(self.handle)

    def seek(self, where):
        libc.seekdir(self.handle, where)

    def rewind(self):
        libc.rewinddir(self.handle)


@check
def telldir_and_seekdir():
    for i in range(500):
        put(f"f{i}")
    d = Dir(".")
    places = []
    names = []
    while True:
        where = d.tell()
        n = d.next()
        if n is None:
            break
        places.append(where)
        names.append(n)
    say(len(names), len(set(names)))
    good = True
    for i in range(0, len(names), 37):
        d.seek(places[i])
        good = good and d.next() == names[i]
    d.seek(places[250])
    say(good, d.rest() == names[250:])


@check
def rewinddir_sees_changes():
    put("a")
    d = Dir(".")
    first = sorted(d.rest())
    put("b")
    os.unlink("a")
    d.rewind()
    say(first, sorted(d.rest()))


@check
def readdir_during_removal():
    for i in range(2000):
        os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY))
    d = Dir(".")
    removed = 0
    while (n := d.next()) is not None:
        if n not in (".", ".."):
            os.unlink(n)
            removed += 1
    say(removed, listing())


@check
def readdir_during_creation():
    for i in range(500):
        put(f"f{i}")
    d = Dir(".")
    seen = []
    k = 0
    while (n := d.next()) is not None and k < 5000:
        seen.append(n)
        if k < 500:
            put(f"new{k}")
        k += 1
    old = [n for n in seen if n.startswith("f")]
    say(len(old), len(set(old)), len(set(seen)) == len(seen))


@check
def readdir_during_renames():
    for i in range(300):
        put(f"keep{i}")
        put(f"r{i}")
    d = Dir(".")
    seen = []
    k = 0
    while (n := d.next()) is not None:
        seen.append(n)
        if k < 300:
            os.rename(f"r{k}", f"s{k}")
            k += 1
    keep = [n for n in seen if n.startswith("keep")]
    say(len(keep), len(set(keep)))


@check
def two_streams_of_one_directory():
    for i in range(100):
        put(f"f{i}")
    a, b2 = Dir("."), Dir(".")
    one = [a.next() for _ in range(50)]
    two = b2.rest()
    say(len(two), sorted(one + a.rest()) == sorted(two))


@check
def inode_numbers_agree():
    put("f")
    os.mkdir("d")
    os.symlink("f", "l")
    for e in os.scandir("."):
        assert e.inode() == os.lstat(e.name).st_ino, e.name
    fd = os.open("f", os.O_RDONLY)
    say(
        os.fstat(fd).st_ino == os.stat("f").st_ino,
        os.stat("l").st_ino == os.stat("f").st_ino,
        os.stat("d/..").st_ino == os.stat(".").st_ino,
        len({os.lstat(n).st_ino for n in "fdl"}),
    )


@check
def setgid_directories_and_sticky_bits():
    os.mkdir("t")
    os.chmod("t", 0o1755)
    say(st("t"))
    put("f")
    os.chmod("f", 0o1644)
    say(st("f"))


# ---- locks ----


@check
def flock_between_processes():
    fd = fd_of("a")
    fcntl.flock(fd, fcntl.LOCK_EX)

    def other(how):
        def f():
            try:
                fcntl.flock(os.open("a", os.O_RDWR), how | fcntl.LOCK_NB)
            except OSError as e:
                return e.errno
            return 0

        return f

    say(child(other(fcntl.LOCK_EX)), child(other(fcntl.LOCK_SH)))
    fcntl.flock(fd, fcntl.LOCK_SH)
    say(child(other(fcntl.LOCK_EX)), child(other(fcntl.LOCK_SH)))
    fcntl.flock(fd, fcntl.LOCK_UN)
    say(child(other(fcntl.LOCK_EX)))


@check
def flock_goes_with_the_last_descriptor():
    fd = fd_of("a")
    fcntl.flock(fd, fcntl.LOCK_EX)
    dup = os.dup(fd)
    os.close(fd)

    def f():
        fcntl.flock(os.open("a", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)

    say(child(f))
    os.close(dup)
    say(child(f))


@check
def flock_on_directories():
    os.mkdir("d")
    fd = os.open("d", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def f():
        fcntl.flock(os.open("d", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)

    say(child(f))


@check
def fcntl_locks_between_processes():
    fd = fd_of("a")
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)

    def other(start, length, how=fcntl.LOCK_EX):
        def f():
            fcntl.lockf(os.open("a", os.O_RDWR), how | fcntl.LOCK_NB, length, start)

        return f

    say(child(other(0, 5)), child(other(9, 5)), child(other(10, 5)), child(other(0, 0, fcntl.LOCK_SH)))
    fcntl.lockf(fd, fcntl.LOCK_UN, 5, 0)
    say(child(other(0, 5)), child(other(5, 1)))


@check
def fcntl_locks_go_with_any_close():
    fd = fd_of("a")
    fcntl.lockf(fd, fcntl.LOCK_EX)
    os.close(os.open("a", os.O_RDONLY))

    def f():
        fcntl.lockf(os.open("a", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)

    say(child(f))


@check
def fcntl_getlk_names_the_holder():
    fd = fd_of("a")
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 5)
    me = os.getpid()

    def f():
        got = fcntl.fcntl(os.open("a", os.O_RDWR), fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        kind, _, start, length, pid = struct.unpack("hhqqi4x", got)
        say(kind == fcntl.F_WRLCK, start, length, pid == me)

    child(f)


@check
def fcntl_lock_waits():
    fd = fd_of("a")
    fcntl.lockf(fd, fcntl.LOCK_EX)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        mine = os.open("a", os.O_RDWR)
        os.write(w, b"1")
        fcntl.lockf(mine, fcntl.LOCK_EX)
        os.write(w, b"2")
        os._exit(0)
    os.read(r, 1)
    time.sleep(0.1)
    os.set_blocking(r, False)
    say(attempt(os.read, r, 1))
    os.set_blocking(r, True)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    say(os.read(r, 1), os.waitpid(pid, 0)[1])


@check
def open_file_description_locks():
    fd = fd_of("a")
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    fcntl.fcntl(fd, 37, lock)
    other = os.open("a", os.O_RDWR)
    say(attempt(fcntl.fcntl, other, 37, lock))
    os.close(fd)
    say(attempt(lambda: fcntl.fcntl(other, 37, lock)) != "EAGAIN")


@check
def locks_need_the_right_mode():
    put("a")
    fd = os.open("a", os.O_RDONLY)
    say(
        attempt(fcntl.lockf, fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
        attempt(fcntl.lockf, fd, fcntl.LOCK_SH | fcntl.LOCK_NB),
        attempt(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    )


@check
def leases_and_signals():
    fd = fd_of("a")
    say(attempt(fcntl.fcntl, fd, fcntl.F_GETLEASE), fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE)


# ---- running ----


@check
def exec_of_scripts():
    put("s", b"#!/bin/sh\necho ran $0 $1\nexit 3\n")
    say(child(lambda: os.execv("./s", ["s"])))
    os.chmod("s", 0o755)
    r = subprocess.run(["./s", "arg"], stdout=subprocess.PIPE)
    say(r.stdout, r.returncode)
    put("n", b"#!/no/such/interpreter\n")
    os.chmod("n", 0o755)
    say(child(lambda: os.execv("./n", ["n"])))
    put("g", b"garbage")
    os.chmod("g", 0o755)
    say(child(lambda: os.execv("./g", ["g"])))


@check
def exec_of_binaries():
    import shutil

    shutil.copy("/bin/true", "t")
    say(subprocess.run(["./t"]).returncode)
    os.chmod("t", 0o644)
    say(child(lambda: os.execv("./t", ["t"])))


@check
def exec_only_permission():
    import shutil

    shutil.copy("/bin/true", "t")
    os.chmod("t", 0o111)
    say(child(lambda: os.execv("./t", ["t"])), opened("t"))


@check
def fexecve_and_memory():
    import shutil

    shutil.copy("/bin/true", "t")
    fd = os.open("t", os.O_RDONLY)
    say(child(lambda: os.execve(fd, ["t"], {})))


@check
def text_file_busy():
    import shutil

    shutil.copy("/bin/sleep", "s")
    os.chmod("s", 0o755)
    p = subprocess.Popen(["./s", "5"])
    try:
        for _ in range(200):
            if os.readlink(f"/proc/{p.pid}/exe").endswith("/s"):
                break
            time.sleep(0.01)
        say(opened("s", os.O_WRONLY), attempt(os.truncate, "s", 0), attempt(os.unlink, "s"), p.poll())
    finally:
        p.kill()
        p.wait()
    shutil.copy("/bin/true", "t")
    fd = os.open("t", os.O_RDWR)
    say(child(lambda: os.execv("./t", ["t"])))


@check
def exec_after_writing():
    for i in range(10):
        put("s", b"#!/bin/sh\nexit %d\n" % i)
        os.chmod("s", 0o755)
        say(subprocess.run(["./s"]).returncode)


@check
def shared_libraries():
    put("l.c", b"int answer(void) { return 42; }\n")
    r = subprocess.run(["cc", "-shared", "-fPIC", "-o", "l.so", "l.c"], stderr=subprocess.DEVNULL)
    say(r.returncode, ctypes.CDLL("./l.so").answer() if r.returncode == 0 else None)


@check
def running_program_replaced():
    put("s", b"#!/bin/sh\nsleep 0.2\necho old\n")
    os.chmod("s", 0o755)
    p = subprocess.Popen(["./s"], stdout=subprocess.PIPE)
    put("n", b"#!/bin/sh\necho new\n")
    os.chmod("n", 0o755)
    os.rename("n", "s")
    say(p.communicate()[0] in (b"old\n", b"new\n"), subprocess.run(["./s"], stdout=subprocess.PIPE).stdout)


# ---- special files ----


@check
def fifos():
    os.mkfifo("p")
    t = threading.Thread(target=lambda: put("p", b"through", os.O_WRONLY))
    t.start()
    say(content("p"))
    t.join()
    say(opened("p", os.O_WRONLY | os.O_NONBLOCK), st("p"), attempt(os.mkfifo, "p"), attempt(os.rename, "p", "q"), st("q"))


@check
def unix_sockets():
    s = socket.socket(socket.AF_UNIX)
    say(attempt(s.bind, "s"), st("s"), attempt(socket.socket(socket.AF_UNIX).bind, "s"))
    s.listen()
    c = socket.socket(socket.AF_UNIX)
    c.connect("s")
    peer = s.accept()[0]
    peer.send(b"hello")
    say(c.recv(10), opened("s"))
    os.rename("s", "t")
    d = socket.socket(socket.AF_UNIX)
    say(attempt(d.connect, "t"), attempt(socket.socket(socket.AF_UNIX).connect, "s"))
    os.unlink("t")
    say(attempt(socket.socket(socket.AF_UNIX).connect, "t"))


@check
def device_nodes_are_refused():
    say(
        attempt(os.mknod, "c", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
        attempt(os.mknod, "b", stat.S_IFBLK | 0o666, os.makedev(7, 0)),
        listing(),
    )


@check
def mknod_of_a_regular_file():
    say(
        attempt(os.mknod, "f", stat.S_IFREG | 0o640),
        st("f"),
        attempt(os.mknod, "f"),
        attempt(os.mknod, "s", stat.S_IFSOCK | 0o600),
        st("s"),
    )


# ---- durability and descriptors ----


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


@check
def replace_atomically():
    put("a", b"0" * 1000)
    stop = []
    bad = []

    def reader():
        while not stop:
            data = content("a")
            if len(set(data)) != 1 or len(data) != 1000:
                bad.append(data[:20])

    t = threading.Thread(target=reader)
    t.start()
    for i in range(200):
        put("new", b"%d" % (i % 10) * 1000)
        os.rename("new", "a")
    stop.append(1)
    t.join()
    say(bad)


@check
def create_and_unlink_in_parallel():
    wins = []

    def racer():
        for i in range(100):
            try:
                os.close(os.open(f"f{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                wins.append(i)
            except FileExistsError:
                pass

    threads = [threading.Thread(target=racer) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(sorted(wins) == list(range(100)), len(listing()))
    gone = []

    def remover():
        for i in range(100):
            try:
                os.unlink(f"f{i}")
                gone.append(i)
            except FileNotFoundError:
                pass

    threads = [threading.Thread(target=remover) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(sorted(gone) == list(range(100)), listing())


@check
def mkdir_and_rename_in_parallel():
    wins = []

    def racer(n):
        for i in range(50):
            try:
                os.mkdir(f"d{i}")
                wins.append(i)
            except FileExistsError:
                pass
            try:
                os.rename(f"d{i}", f"e{i}")
            except OSError:
                pass

    threads = [threading.Thread(target=racer, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    names = listing()
    say(len(wins) >= 50, all(f"e{i}" in names or f"d{i}" in names for i in range(50)))


@check
def writes_in_parallel_do_not_mix():
    put("a", b"\0" * 80000)

    def writer(n):
        fd = os.open("a", os.O_RDWR)
        for i in range(100):
            os.pwrite(fd, b"%d" % n * 100, n * 10000 + i * 100)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(content("a") == b"".join(b"%d" % n * 10000 for n in range(8)))


@check
def o_excl_lock_files():
    r, w = os.pipe()
    pids = []
    for n in range(5):
        pid = os.fork()
        if pid == 0:
            for _ in range(20):
                while True:
                    try:
                        os.close(os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                        break
                    except FileExistsError:
                        time.sleep(0.0005)
                value = int(open("count").read()) if os.path.exists("count") else 0
                put("count", b"%d" % (value + 1))
                os.unlink("lock")
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    say(content("count"))


@check
def swap_directories_under_readers():
    os.mkdir("cur")
    put("cur/v", b"0")
    for i in range(1, 60):
        os.mkdir("next")
        put("next/v", b"%d" % i)
        exchange("cur", "next")
        assert content("cur/v") == b"%d" % i
        os.unlink("next/v")
        os.rmdir("next")
    say(content("cur/v"))


# ---- copy-up: things of the lower layer, when there is one; on a plain filesystem they were simply there before ----

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
    for name in ("dir-rename", "dir-remove", "dir-change", "dir-attr", "dir-exchange"):
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


def main(names):
    home = os.getcwd()
    os.umask(0o022)
    os.mkdir("checks")
    for name in names or CHECKS:
        where = os.path.join(home, "checks", name)
        os.mkdir(where)
        os.chdir(where)
        say("==", name)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                CHECKS[name]()
            except BaseException as e:
                say("raised", type(e).__name__, name_of(e.errno) if isinstance(e, OSError) and e.errno else e)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        os.chdir(home)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-lower"]:
        make_lower(sys.argv[2])
    else:
        main(sys.argv[1:])
