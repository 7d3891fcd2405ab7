"""Truncating, holes, allocation, copying ranges."""

from checking import *


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
