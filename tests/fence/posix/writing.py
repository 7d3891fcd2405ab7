"""Writing and reading."""

from checking import *


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
