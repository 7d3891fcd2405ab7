"""What is useful beside sandboxes: walking a directory as uploads do, names, sizes."""

from __future__ import annotations

import getpass
import hashlib
import os
import re
from typing import Iterable, Iterator, List, Optional, Tuple, Union

from ._archive import scan
from ._ignore import IgnoreRules

MAX_FILE_SIZE = 50 * 1024 * 1024
PathLike = Union[str, "os.PathLike[str]"]


def check_directory(path: PathLike) -> str:
    """The path as a string, if it is a directory."""
    full = os.path.abspath(os.fspath(path))
    if not os.path.exists(full):
        raise ValueError(f"Path does not exist: {path}")
    if not os.path.isdir(full):
        raise ValueError(f"Path is not a directory: {path}")
    return full


def walk_directory(
    path: PathLike,
    ignore_patterns: Optional[Iterable[str]] = None,
    include_default_ignores: bool = True,
    max_file_size: int = MAX_FILE_SIZE,
) -> Iterator[Tuple[str, bytes]]:
    """Paths and contents of the files beneath a directory that no ignore file names.

    A symbolic link to a file has that file's content. Files that are larger or cannot be read are left out.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as top:
    ...     for name in (".gitignore", "a.py", "a.log"):
    ...         _ = open(os.path.join(top, name), "w").write("*.log")
    ...     [name for name, content in walk_directory(top)]
    ['.gitignore', 'a.py']
    """
    for entry in scan(check_directory(path), IgnoreRules.of(ignore_patterns, include_default_ignores)):
        if os.path.isfile(entry.full):
            try:
                if os.path.getsize(entry.full) > max_file_size:
                    continue
                with open(entry.full, "rb") as file:
                    content = file.read(max_file_size + 1)
            except OSError:
                continue
            yield entry.path, content


def parse_ignore_file(path: PathLike) -> List[str]:
    """The patterns of an ignore file, without comments and empty lines; none if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.rstrip("\r\n") for line in file]
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def count_files(path: PathLike, ignore_patterns: Optional[Iterable[str]] = None) -> int:
    """How many files an upload of the directory has."""
    return sum(entry.is_file for entry in scan(check_directory(path), IgnoreRules.of(ignore_patterns)))


def human_readable_size(size: float) -> str:
    """A number of bytes for people.

    >>> human_readable_size(1536)
    '1.5 KB'
    """
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if abs(size) < 1024 or unit == "TB":
            break
        size /= 1024
    return f"{size:.1f} {unit}"


def generate_codebase_name(path: PathLike) -> str:
    """A name for the codebase of a directory.

    >>> generate_codebase_name("/home/me/My Project (2)")
    'My-Project-2'
    """
    name = os.path.basename(os.path.abspath(os.fspath(path)))
    return re.sub(r"-+", "-", re.sub(r"[^a-zA-Z0-9\-_]", "-", name)).strip("-") or "unnamed-project"


def generate_owner_id() -> str:
    """Who owns what this user makes, where nothing else is said."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return "user_" + hashlib.sha256(f"sandbox-sdk-{user}".encode()).hexdigest()[:8]
