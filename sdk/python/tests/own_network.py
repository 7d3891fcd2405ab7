"""A network namespace of one's own, in which every port is free: for root, and for an ordinary user in a user namespace where the host allows one."""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
PR_SET_DUMPABLE = 4
CAPABILITY_VERSION_3 = 0x20080522


def give_up_capabilities(libc):
    """Those of the new user namespace. A server, which has none, may look into our process only when we have none either."""
    header, data = struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)
    if libc.capset(header, data) != 0 or libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be given up")


def enter():
    """Before any thread is there: namespaces belong to threads, and a process with threads gets no user namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET if uid == 0 else CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")
    if uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            pathlib.Path("/proc/self", name).write_text(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    if uid != 0:
        give_up_capabilities(libc)
