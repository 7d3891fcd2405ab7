"""A disk of a test's own, and how full it is."""

import atexit
import contextlib
import ctypes
import os
import pathlib
import subprocess
import tempfile

CLONE_NEWNS = 0x00020000


def have_own_mounts():
    """From here on mounts are seen by this process and those it starts, and end with them. OSError: that cannot be had."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def keep_files_in_memory():
    """From here on temporary files of this process and those it starts are in a tmpfs that nobody else sees. Servers sync what they
    acknowledge, and tests make and remove many small trees: on a disk that others use as well, most of their time goes there."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-memory-"))
    try:
        have_own_mounts()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g,mode=1777", "tmpfs", str(place)], check=True)
    except (OSError, subprocess.CalledProcessError):
        place.rmdir()
        return
    atexit.register(leave_memory, place, tempfile.gettempdir())
    tempfile.tempdir = os.environ["TMPDIR"] = str(place)


def leave_memory(place, before):
    tempfile.tempdir = os.environ["TMPDIR"] = before
    subprocess.run(["umount", "-l", str(place)], check=False)
    place.rmdir()


def free_bytes(path):
    state = os.statvfs(path)
    return state.f_bavail * state.f_bsize


def fill(path, but=0):
    """Takes all that is left but so many bytes. Returns the file."""
    name = path / "filler"
    with open(name, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 65536)
    with open(name, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 512)
    if but:
        os.truncate(name, max(0, os.path.getsize(name) - but))
    return name
