"""What a curious program behind the fence has in its pockets: system calls that Python does not offer, and short ways to say
what came of a call. Runs behind the fence, so it imports nothing of ours."""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_FOLLOW = 0x400
AT_SYMLINK_NOFOLLOW = 0x100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_COLLAPSE, FALLOC_ZERO = 1, 2, 8, 16
FICLONE = 0x40049409
SYS = {
    "renameat2": 316,
    "copy_file_range": 326,
    "statx": 332,
    "faccessat2": 439,
    "openat2": 437,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "fallocate": 285,
}
if os.uname().machine == "aarch64":
    SYS = {
        "renameat2": 276,
        "copy_file_range": 285,
        "statx": 291,
        "faccessat2": 439,
        "openat2": 437,
        "name_to_handle_at": 264,
        "open_by_handle_at": 265,
        "fallocate": 47,
    }


def check(result):
    if result < 0:
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e))
    return result


def b(path):
    return os.fsencode(path)


def syscall(name, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    libc.syscall.restype = ctypes.c_long
    return check(libc.syscall(ctypes.c_long(SYS[name]), *args))


def renameat2(old, new, flags):
    return syscall("renameat2", AT_FDCWD, ctypes.c_char_p(b(old)), AT_FDCWD, ctypes.c_char_p(b(new)), flags)


def exchange(old, new):
    return renameat2(old, new, RENAME_EXCHANGE)


def faccessat2(path, mode, flags=0):
    return syscall("faccessat2", AT_FDCWD, ctypes.c_char_p(b(path)), mode, flags)


def fallocate(fd, mode, offset, length):
    return syscall("fallocate", fd, mode, offset, length)


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]


def name_to_handle(path, flags=0):
    h = Handle(bytes=128)
    mount_id = ctypes.c_int()
    syscall("name_to_handle_at", AT_FDCWD, ctypes.c_char_p(b(path)), ctypes.byref(h), ctypes.byref(mount_id), flags)
    return h


def open_by_handle(mount_fd, handle, flags=os.O_RDONLY):
    return syscall("open_by_handle_at", mount_fd, ctypes.byref(handle), flags)


def linkat(old_fd, old, new, flags=0):
    return check(libc.linkat(old_fd, ctypes.c_char_p(b(old)), AT_FDCWD, ctypes.c_char_p(b(new)), flags))


def name_of(error):
    if error == errno.EOPNOTSUPP:
        return "EOPNOTSUPP"  # it has two names, and Python prefers the other
    return errno.errorcode.get(error, str(error))


def attempt(call, *args, **kw):
    """The errno's name when the call fails, "ok" when it returns nothing of interest, otherwise what it returned."""
    try:
        got = call(*args, **kw)
    except OSError as e:
        return name_of(e.errno)
    return "ok" if got is None else got


def opened(path, flags=os.O_RDONLY, mode=0o666):
    """ "ok" or the errno of an open; the descriptor is closed."""
    try:
        os.close(os.open(path, flags, mode))
    except OSError as e:
        return name_of(e.errno)
    return "ok"


def content(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        return name_of(e.errno)
    try:
        out = b""
        while part := os.read(fd, 1 << 20):
            out += part
        return out
    except OSError as e:
        return name_of(e.errno)
    finally:
        os.close(fd)


def put(path, data=b"x", flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o666):
    try:
        fd = os.open(path, flags, mode)
    except OSError as e:
        return name_of(e.errno)
    try:
        os.write(fd, data)
    except OSError as e:
        return name_of(e.errno)
    finally:
        os.close(fd)
    return "ok"


def exists(path):
    try:
        os.lstat(path)
    except OSError as e:
        return name_of(e.errno)
    return "ok"


def listing(path="."):
    return sorted(os.listdir(path))


def say(*what):
    print(*what, flush=True)
