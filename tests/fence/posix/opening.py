"""Creating and opening."""

from checking import *


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
