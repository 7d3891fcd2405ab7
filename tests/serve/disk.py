"""A disk of a test's own, and how full it is."""

import contextlib
import os


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
