"""Renaming."""

from checking import *


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
