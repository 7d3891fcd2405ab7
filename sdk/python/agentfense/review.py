"""What a review is about: changes, hunks, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Dict, Iterator, List, Optional


@dataclass
class WorkspaceInfo:
    """What `Workspace.info` tells of a sandbox over a directory. ``status`` joins its life and its decision in one word."""

    id: str
    status: str
    scope: str
    project: str
    owner: str = ""
    driver: str = ""
    file_count: int = 0
    size_bytes: int = 0
    version: int = 0


def _shown(path: str) -> str:
    """A path as a terminal may show it.

    >>> _shown("a\\x1b[2Jb"), _shown("ünï code")
    ('a\\\\x1b[2Jb', 'ünï code')
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in path)


@dataclass
class Hunk:
    """Changed lines that can be approved by themselves. The id depends on the change, not on where it is in the file."""

    id: str
    header: str
    lines: List[str]
    file_id: str
    path: str

    @property
    def text(self) -> str:
        return "\n".join([self.header, *self.lines])


@dataclass
class FileChange:
    """A changed file. ``path`` counts from the project, ``scope_path`` from the sandbox's directory.

    If the project's file has changed since the agent read it, either ``is_merged`` is true and the hunks show both changes merged, or
    ``conflict`` says why they cannot be merged.
    """

    id: str
    path: str
    scope_path: str
    change: str
    added: int = 0
    removed: int = 0
    is_binary: bool = False
    old_path: Optional[str] = None
    old_mode: Optional[str] = None
    new_mode: Optional[str] = None
    symlink_target: Optional[str] = None
    acknowledge: Optional[str] = None
    hash: Optional[str] = None
    is_merged: bool = False
    conflict: Optional[str] = None
    hunks: List[Hunk] = field(default_factory=list)
    acceptance: str = ""
    error: Optional[str] = None

    @property
    def text(self) -> str:
        """Its part of a unified diff. Control characters are escaped, so that nothing misleads a terminal."""
        old, new = _shown(self.old_path or self.path), _shown(self.path)
        lines = [f"diff --git a/{old} b/{new}"]
        if self.change == "added":
            lines.append(f"new file mode {self.new_mode}")
        elif self.change == "deleted":
            lines.append(f"deleted file mode {self.old_mode}")
        elif self.old_mode != self.new_mode:
            lines += [f"old mode {self.old_mode}", f"new mode {self.new_mode}"]
        if self.change == "renamed":
            lines += [f"rename from {old}", f"rename to {new}"]
        before = "/dev/null" if self.change == "added" else f"a/{old}"
        after = "/dev/null" if self.change == "deleted" else f"b/{new}"
        if self.hunks:
            lines += [f"--- {before}", f"+++ {after}", *(hunk.text for hunk in self.hunks)]
        elif self.symlink_target is not None:
            lines += [f"--- {before}", f"+++ {after}", f"symbolic link to {_shown(self.symlink_target)}"]
        elif self.error:
            lines.append(f"{after} could not be read: {self.error}")
        elif self.is_binary:
            lines.append(f"Binary files {before} and {after} differ")
        return "\n".join(lines) + "\n"


@dataclass
class Diff:
    """What a sandbox changes; ``hash`` stands for all of it. It prints as a unified diff."""

    files: List[FileChange]
    hash: str
    is_whole: bool = True

    @property
    def text(self) -> str:
        return "".join(file.text for file in self.files)

    @property
    def paths(self) -> List[str]:
        return [file.path for file in self.files]

    @property
    def hunks(self) -> List[Hunk]:
        return [hunk for file in self.files for hunk in file.hunks]

    def __getitem__(self, path: str) -> FileChange:
        for file in self.files:
            if path in (file.path, file.scope_path):
                return file
        raise KeyError(path)

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __str__(self) -> str:
        return self.text


@dataclass
class Approval:
    """What an approval wrote. ``files`` maps each path to what became of it. A dry run that would be refused has the ``refusal``."""

    id: str
    applied: int
    remaining: int
    files: Dict[str, str]
    commit: Optional[str] = None
    commit_error: Optional[str] = None
    is_dry: bool = False
    refusal: Optional[str] = None
    note: Optional[str] = None


@dataclass
class ApprovalRecord:
    """An approval of the past, or an undo of one (``undoes``)."""

    id: str
    time: Optional[datetime]
    paths: int
    undoes: Optional[str] = None
    is_undone: bool = False


@dataclass
class Undo:
    """How many paths of which approval were given back."""

    approval_id: str
    undone: int
    is_dry: bool = False


@dataclass
class Finish:
    """What was decided when the agent's run was over: `approved`, `rejected`, or `none`, and why."""

    decision: str
    status: str
    reason: str = ""
    approval_id: Optional[str] = None
    applied: int = 0


@dataclass
class Conflicts:
    """How the changes stand to the project as it is now; true if there are conflicts."""

    conflicting: List[str]
    moved: List[str]

    def __bool__(self) -> bool:
        return bool(self.conflicting)


@dataclass
class Rebase:
    """What bringing the changes onto the project of now came to."""

    success: bool
    conflicting: List[str]


@dataclass
class PendingFile:
    """A file that an approval wrote into the project's repository: `pending`, `committed`, or `blocked` and why."""

    path: str
    change: str
    status: str
    reason: str = ""


@dataclass
class Pending:
    """What approvals of a sandbox wrote and nobody has committed; true if there is any. ``message`` is a suggestion."""

    files: List[PendingFile]
    message: str

    @property
    def paths(self) -> List[str]:
        return [file.path for file in self.files if file.status == "pending"]

    def __len__(self) -> int:
        return len(self.paths)


@dataclass
class Commit:
    """A commit in the project's repository. Without a hash there was nothing to commit."""

    hash: Optional[str]
    files: int


@dataclass
class Comment:
    """What a reviewer says about a changed file, a hunk (``hunk_id``) or a line of it. ``is_outdated``: what it is about has changed."""

    id: str
    path: str
    text: str
    author: str
    file_id: str = ""
    hunk_id: Optional[str] = None
    line: int = 0
    is_resolved: bool = False
    is_outdated: bool = False
    created_at: Optional[datetime] = None
