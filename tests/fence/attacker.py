"""What an attacker behind the fence finds: files whose bytes can be recognised, at every level."""

import os

from harness import Tree


SECRET = b"XYZZY-THE-SECRET"
VIEWED = b"XYZZY-ONLY-SEEN"
FIXED = b"read me, change me not"

RULES = [
    "/**=write",
    "/secret/**=none",
    "/hidden.txt=none",
    "**/*.key=none",
    "/look/**=view",
    "/read/**=read",
    "/box/**/private/**=none",
    "/deep/a/b/inner.txt=none",
    "/deep/exception/**=none",
    "/deep/exception/ok.txt=read",
]


# Python for those who have a file open that is closed to them: every way to its bytes that is no plain read, into a file behind the
# fence, one outside (the first argument) and a pipe; and what has come out of it.
WAYS_OUT = """
from inside import *
put("mine", b"mine")
mine, outside = os.open("mine", os.O_RDWR), os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
r, w = os.pipe()
os.set_blocking(r, False)
def ways_out(fd):
    return [attempt(os.splice, fd, w, 10, offset_src=0), attempt(os.sendfile, mine, fd, 0, 10), attempt(os.sendfile, outside, fd, 0, 10),
        attempt(os.copy_file_range, fd, mine, 10, 0), attempt(os.lseek, fd, 0, os.SEEK_DATA), attempt(os.lseek, fd, 0, os.SEEK_HOLE),
        attempt(os.pread, fd, 10, 0), attempt(fcntl.ioctl, mine, FICLONE, fd)]
def come_out():
    return [content("mine"), content(sys.argv[1]), attempt(os.read, r, 10)]
"""


def build(root):
    t = Tree(root)
    t.file("secret/plan.txt", SECRET).file("secret/sub/more.txt", SECRET).file("hidden.txt", SECRET).file(
        "open/server.key", SECRET
    )
    t.file("look/file.txt", VIEWED).file("look/tool", b"#!/bin/sh\necho " + VIEWED + b"\n", 0o755).link("file.txt", "look/link")
    t.file("look/dir/inner", VIEWED)
    t.file("read/file.txt", FIXED).file("read/tool", "#!/bin/sh\necho ran\n", 0o755).file("read/dir/inner", FIXED)
    t.file("open/file.txt", "open\n").file("open/dir/a", "a\n").file("open/dir/b", "b\n").dir("open/empty")
    t.file("deep/a/b/inner.txt", SECRET).file("deep/a/b/outer.txt", "outer\n").file("deep/exception/ok.txt", "ok\n")
    t.file("deep/exception/no.txt", SECRET)
    t.dir("box").file("plain/x/y/z", "z\n").fifo("open/fifo")
    t.file("look/attr.txt", VIEWED)
    os.setxattr(t.at("look/attr.txt"), "user.note", VIEWED)
    t.settle()
    return t


def answers(f, code, *args, **kw):
    """What the Python code prints behind the fence, as a list of lines; none of them may hold a secret."""
    ran = f.python(code, *args, **kw)
    assert ran.code == 0, ran.err
    assert SECRET not in ran.stdout + ran.stderr and VIEWED not in ran.stdout + ran.stderr, ran.out
    return ran.out.splitlines()
