"""Making and removing names, and which names there may be."""

from checking import *


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
