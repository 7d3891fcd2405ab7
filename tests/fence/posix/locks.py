"""Locks."""

from checking import *


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
