"""A directory as one tar archive, made while it is sent."""

from __future__ import annotations

import os
import stat
import tarfile
import warnings
import zlib
from typing import Callable, Iterable, Iterator, List, NamedTuple, Optional

from ._ignore import IgnoreRules
from .types import UploadProgress

PIECE = 512 * 1024  # of each message; gRPC takes 4 MiB
READ = 256 * 1024
BLOCK = tarfile.BLOCKSIZE

Progress = Callable[[UploadProgress], None]


class Entry(NamedTuple):
    """Something of a tree that is sent."""

    path: str  # relative
    full: str
    stat: os.stat_result

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)


class UploadWarning(UserWarning):
    """A file was left out because it cannot be read."""


def scan(root: str, rules: IgnoreRules) -> Iterator[Entry]:
    """Directories, files and symbolic links beneath a directory that are not ignored, in order, parents first."""
    pending = [(root, "", rules.enter(os.fsencode(root), b""))]
    while pending:
        directory, base, held = pending.pop()
        try:
            with os.scandir(directory) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            warnings.warn(f"'{directory}' is left out: {error.strerror}", UploadWarning, stacklevel=2)
            continue
        below = []
        for entry in entries:
            path = base + entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            if held.ignores(os.fsencode(path), is_dir):
                continue
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if is_dir:
                below.append((entry.path, path + "/", held.enter(os.fsencode(entry.path), os.fsencode(path + "/"))))
            elif not (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                continue
            yield Entry(path, entry.path, info)
        pending.extend(reversed(below))


def _header(entry: Entry, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(entry.path)
    info.mode = stat.S_IMODE(entry.stat.st_mode) & 0o777
    info.mtime = int(entry.stat.st_mtime)
    if stat.S_ISDIR(entry.stat.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(entry.stat.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(entry.full)
    else:
        info.size = size
    return info


def _bytes_of(info: tarfile.TarInfo) -> bytes:
    # Names as they are, whatever their encoding: this format has no opinion about it.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _content(fd: int, size: int) -> Iterator[bytes]:
    """Exactly as many bytes as the header said, though somebody may change the file meanwhile."""
    left = size
    while left > 0:
        piece = os.read(fd, min(left, READ)) or bytes(min(left, READ))
        left -= len(piece)
        yield piece
    if size % BLOCK:
        yield bytes(BLOCK - size % BLOCK)


def _pieces(entries: Iterable[Entry], on_bytes: Callable[[Entry, int], None]) -> Iterator[bytes]:
    for entry in entries:
        if not entry.is_file:
            try:
                yield _bytes_of(_header(entry, 0))
            except OSError:
                continue
            on_bytes(entry, 0)
            continue
        try:
            fd = os.open(entry.full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            warnings.warn(f"'{entry.full}' is left out: {error.strerror}", UploadWarning, stacklevel=2)
            continue
        try:
            now = os.fstat(fd)
            if not stat.S_ISREG(now.st_mode):
                continue
            yield _bytes_of(_header(entry, now.st_size))
            on_bytes(entry, 0)
            for piece in _content(fd, now.st_size):
                yield piece
                on_bytes(entry, len(piece))
        finally:
            os.close(fd)
    yield bytes(2 * BLOCK)


def _joined(pieces: Iterable[bytes], size: int = PIECE) -> Iterator[bytes]:
    """The same bytes, in pieces of about one size."""
    held: List[bytes] = []
    length = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    for piece in pieces:
        made = deflate.compress(piece)
        if made:
            yield made
    yield deflate.flush()


def archive(entries: List[Entry], compress: bool = False, progress: Optional[Progress] = None) -> Iterator[bytes]:
    """The archive, piece by piece. Whoever reads it sets the pace; memory holds one piece."""
    state = UploadProgress(0, len(entries), 0, sum(entry.stat.st_size for entry in entries if entry.is_file))
    last: List[Optional[Entry]] = [None]

    def on_bytes(entry: Entry, count: int) -> None:
        if progress is None:
            return
        if entry is not last[0]:
            last[0] = entry
            state.files += 1
            state.path = entry.path
        state.bytes = min(state.bytes + count, state.total_bytes)
        progress(state)

    pieces = _pieces(entries, on_bytes)
    return _joined(_compressed(pieces) if compress else pieces)
