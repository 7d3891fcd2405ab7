"""What a check is, and what checks have in common.

A check is a function that runs in a directory of its own. What it prints must depend on POSIX alone: no inode numbers, no sizes
of directories, no link counts of directories, no absolute times.
"""

import subprocess

from inside import *

CHECKS = {}


def check(f):
    CHECKS[f.__name__] = f
    return f


def st(path):
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    size = "-" if stat.S_ISDIR(kind) else s.st_size
    links = "-" if stat.S_ISDIR(kind) else s.st_nlink
    return f"{s.st_mode:o} {links} {size} {s.st_uid == os.getuid()} {s.st_gid == os.getgid()}"


def fd_of(path, flags=os.O_RDWR | os.O_CREAT, mode=0o644):
    return os.open(path, flags, mode)


def same(a, b):
    a, b = os.lstat(a), os.lstat(b)
    return (a.st_ino, a.st_dev) == (b.st_ino, b.st_dev)


def child(f):
    """Runs f in a child and gives its exit status, or -signal."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            code = f() or 0
        except OSError as e:
            code = e.errno
        os._exit(code)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
