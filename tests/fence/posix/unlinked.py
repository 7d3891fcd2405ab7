"""What has no name any more and is still open."""

from checking import *


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
