"""Files mapped into memory."""

from checking import *


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
