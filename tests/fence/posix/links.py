"""Hard and symbolic links."""

from checking import *


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
