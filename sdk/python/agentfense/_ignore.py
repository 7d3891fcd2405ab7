"""Ignore files as git reads them: negation, directories, anchors, `**`, files in subdirectories.

Patterns work on bytes, as git's do. In each directory `.gitignore` comes first, then `.sandboxignore`, then
`.agentfenseignore`; the last pattern that matches decides, those of deeper directories after those above. What is in an
ignored directory cannot be brought back.
"""

from __future__ import annotations

import os
import re
from typing import Iterable, List, NamedTuple, Optional, Pattern, Sequence, Tuple

IGNORE_FILES = (".gitignore", ".sandboxignore", ".agentfenseignore")
IGNORE_FILE_MAX = 1 << 20

DEFAULT_IGNORES = (
    ".git",
    "__pycache__",
    "*.pyc",
    "*.pyo",
    ".DS_Store",
    "Thumbs.db",
    "node_modules",
    ".venv",
    "venv",
    ".env",
    "*.egg-info",
    ".tox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
)

_CLASSES = {
    b"alpha": rb"a-zA-Z",
    b"digit": rb"0-9",
    b"alnum": rb"a-zA-Z0-9",
    b"upper": rb"A-Z",
    b"lower": rb"a-z",
    b"space": rb" \t\n\r\f\v",
    b"blank": rb" \t",
    b"punct": rb"!-/:-@\[-`{-~",
    b"xdigit": rb"0-9a-fA-F",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"print": rb"\x20-\x7e",
    b"graph": rb"\x21-\x7e",
}


class IgnoreRule(NamedTuple):
    """One line of an ignore file."""

    base: bytes  # the directory of the file it is from, with a slash at its end; empty at the top
    regex: Pattern[bytes]
    is_negated: bool
    only_directories: bool
    by_name: bool  # matches the last component, at any depth

    def matches(self, path: bytes, is_dir: bool) -> bool:
        if self.only_directories and not is_dir:
            return False
        if not path.startswith(self.base):
            return False
        subject = path.rpartition(b"/")[2] if self.by_name else path[len(self.base) :]
        return self.regex.fullmatch(subject) is not None


def _bracket(pattern: bytes, at: int) -> Optional[Tuple[bytes, int]]:
    """The class that begins at `[`, as a regular expression, and where it ends; None if it does not end."""
    i = at + 1
    negated = pattern[i : i + 1] in (b"!", b"^")
    i += negated
    parts: List[bytes] = []
    first = True
    while True:
        c = pattern[i : i + 1]
        if not c:
            return None
        if c == b"]" and not first:
            break
        first = False
        if pattern[i : i + 2] == b"[:":
            end = pattern.find(b":]", i + 2)
            if end >= 0 and pattern[i + 2 : end] in _CLASSES:
                parts.append(_CLASSES[pattern[i + 2 : end]])
                i = end + 2
                continue
            if end >= 0:
                return None
        if c == b"\\":
            i += 1
            c = pattern[i : i + 1]
            if not c:
                return None
        i += 1
        low = high = c
        if pattern[i : i + 1] == b"-" and pattern[i + 1 : i + 2] not in (b"", b"]"):
            i += 1
            high = pattern[i : i + 1]
            if high == b"\\":
                i += 1
                high = pattern[i : i + 1]
                if not high:
                    return None
            i += 1
        if low <= high:
            parts.append(b"\\x%02x-\\x%02x" % (low[0], high[0]))
    body = b"".join(parts)
    if negated:
        return b"[^/" + body + b"]", i + 1
    return (b"(?!/)[" + body + b"]" if body else b"(?!)"), i + 1


def _translate(pattern: bytes) -> Optional[bytes]:
    """A glob as a regular expression for whole paths; None if it can match nothing."""
    out: List[bytes] = []
    i = 0
    while i < len(pattern):
        c = pattern[i : i + 1]
        if c == b"*":
            start = i
            while pattern[i : i + 1] == b"*":
                i += 1
            stands_alone = (start == 0 or pattern[start - 1 : start] == b"/") and pattern[i : i + 1] in (b"", b"/")
            if i - start < 2 or not stands_alone:
                out.append(b"[^/]*")
            elif i == len(pattern):
                out.append(b".*")
            else:
                out.append(b"(?:.*/)?")
                i += 1
        elif c == b"?":
            out.append(b"[^/]")
            i += 1
        elif c == b"[":
            found = _bracket(pattern, i)
            if found is None:
                return None
            out.append(found[0])
            i = found[1]
        else:
            if c == b"\\":
                i += 1
                c = pattern[i : i + 1]
                if not c:
                    return None
            out.append(re.escape(c))
            i += 1
    return b"".join(out)


def _strip_spaces(line: bytes) -> bytes:
    """Without the spaces at the end, except one that a backslash keeps."""
    end = i = 0
    while i < len(line):
        i += 2 if line[i : i + 1] == b"\\" else 1
        if line[i - 1 : i] != b" " or line[i - 2 : i - 1] == b"\\" and i >= 2:
            end = i
    return line[: max(end, 0)]


def parse_line(line: bytes, base: bytes = b"") -> Optional[IgnoreRule]:
    """One line, or None if it says nothing."""
    line = _strip_spaces(line)
    if not line or line.startswith(b"#"):
        return None
    negated = line.startswith(b"!")
    if negated:
        line = line[1:]
    only_directories = line.endswith(b"/")
    if only_directories:
        line = line[:-1]
    by_name = b"/" not in line
    if line.startswith(b"/"):
        line = line[1:]
    if not line:
        return None
    regex = _translate(line)
    if regex is None:
        return None
    return IgnoreRule(base, re.compile(regex, re.DOTALL), negated, only_directories, by_name)


def parse_lines(text: bytes, base: bytes = b"") -> List[IgnoreRule]:
    """All rules of an ignore file."""
    if text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    lines = (line[:-1] if line.endswith(b"\r") else line for line in text.split(b"\n"))
    return [rule for rule in (parse_line(line, base) for line in lines) if rule]


class IgnoreRules:
    """The rules that hold in one directory of a tree. Immutable; `enter()` makes those of a subdirectory."""

    def __init__(self, before: Sequence[IgnoreRule] = (), after: Sequence[IgnoreRule] = ()) -> None:
        self.before = tuple(before)
        self.after = tuple(after)

    @classmethod
    def of(cls, patterns: Optional[Iterable[str]] = None, include_defaults: bool = True) -> IgnoreRules:
        """The defaults, which ignore files may undo, and patterns of the caller, which they may not."""
        defaults = parse_lines(os.fsencode("\n".join(DEFAULT_IGNORES))) if include_defaults else ()
        return cls(defaults, parse_lines(os.fsencode("\n".join(patterns or ()))))

    def enter(self, directory: bytes, base: bytes) -> IgnoreRules:
        """With what the ignore files of a directory say; `base` is its path in the tree, with a slash at its end."""
        found: List[IgnoreRule] = []
        for name in IGNORE_FILES:
            try:
                # A link could lead out of the tree, and git does not follow it either.
                fd = os.open(os.path.join(directory, os.fsencode(name)), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except OSError:
                continue
            with open(fd, "rb") as file:
                try:
                    found += parse_lines(file.read(IGNORE_FILE_MAX), base)
                except OSError:
                    continue
        return IgnoreRules((*self.before, *found), self.after) if found else self

    def ignores(self, path: bytes, is_dir: bool) -> bool:
        """Whether the last rule that matches says so."""
        for rules in (self.after, self.before):
            for rule in reversed(rules):
                if rule.matches(path, is_dir):
                    return not rule.is_negated
        return False
