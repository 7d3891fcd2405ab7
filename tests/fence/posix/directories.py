"""Listing directories, also while they change."""

from checking import *


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
    os.chmod("t", 0o2775)
    os.mkdir("t/in", 0o750)
    os.mkdir("t/again")
    os.rmdir("t/again")
    os.mkdir("t/again", 0o755)
    put("t/file")
    say(st("t"), st("t/in"), st("t/again"), st("t/file"))
    os.rename("t/in", "out")
    os.chmod("t", 0o755)
    os.mkdir("t/later")
    say(st("out"), st("t"), st("t/later"))


@check
def tools_that_want_setgid_directories():
    script = "umask 022; mkdir -m 2775 a; install -d -m 2770 b; chmod g+s . && mkdir c; chmod 2777 c; chmod 755 c; chmod g-s ."
    say(subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.STDOUT, stdout=subprocess.PIPE))
    say(st("a"), st("b"), st("c"), st("."))
