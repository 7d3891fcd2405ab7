"""What a review is about: changes, hunks, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional


@dataclass
class WorkspaceInfo:
    """A sandbox over a live directory, as the server tells about it."""

    id: str
    status: str
    scope: str
    project: str
    owner: str = ""
    driver: str = ""
    file_count: int = 0
    size_bytes: int = 0
    version: int = 0

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> WorkspaceInfo:
        return cls(
            id=told["id"],
            status=told["status"],
            scope=told.get("scopePath", ""),
            project=told.get("projectRoot", ""),
            owner=told.get("owner", ""),
            driver=told.get("driver", ""),
            file_count=int(told.get("fileCount", 0)),
            size_bytes=int(told.get("sizeBytes", 0)),
            version=int(told.get("version", 0)),
        )


@dataclass
class Hunk:
    """Changed lines that can be approved by themselves. Its id tells what it does, and not where."""

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
    """A file that is changed. ``path`` counts from the project, ``scope_path`` from the sandbox's directory.

    If the project's file has changed since the agent took it, ``hunks`` lead to both merged (``is_merged``), or ``conflict`` says why that
    cannot be, and they are what the agent did to the file it had.
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

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> FileChange:
        path = told.get("projectPath", told["filePath"])
        return cls(
            id=told["id"],
            path=path,
            scope_path=told["filePath"],
            change=told["changeType"],
            added=int(told.get("linesAdded", 0)),
            removed=int(told.get("linesRemoved", 0)),
            is_binary=bool(told.get("binary")),
            old_path=told.get("oldProjectPath"),
            old_mode=told.get("oldMode"),
            new_mode=told.get("newMode"),
            symlink_target=told.get("symlinkTarget"),
            acknowledge=(told.get("acknowledge") or {}).get("text"),
            hash=told.get("hash"),
            is_merged=bool(told.get("merged")),
            conflict=told.get("conflict"),
            hunks=[Hunk(hunk["id"], hunk["header"], list(hunk["lines"]), told["id"], path) for hunk in told.get("hunks", [])],
        )


@dataclass
class Diff:
    """All that a workspace changes; ``text`` is a unified diff in which nothing misleads a terminal, ``hash`` stands for all of it."""

    files: List[FileChange]
    text: str
    hash: str

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Diff:
        return cls([FileChange.from_json(file) for file in told["files"]], told["unifiedDiff"], told["diffHash"])

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
    """What an approval wrote. ``files`` maps each path to what became of it."""

    id: str
    applied: int
    remaining: int
    files: Dict[str, str]
    commit: Optional[str] = None
    commit_error: Optional[str] = None
    is_dry: bool = False

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Approval:
        return cls(
            id=told.get("approvalId", ""),
            applied=int(told["applied"]),
            remaining=int(told["remaining"]),
            files={file["projectPath"]: file["status"] for file in told.get("files", [])},
            commit=told.get("commitHash"),
            commit_error=told.get("commitError"),
            is_dry=bool(told.get("dryRun")),
        )


@dataclass
class Undo:
    """What was taken back: how many paths, of which approval."""

    approval_id: str
    undone: int
    is_dry: bool = False

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Undo:
        return cls(told["approvalId"], int(told["undone"]), bool(told.get("dryRun")))


@dataclass
class Finish:
    """What was decided when the agent's run was over: `approved`, `rejected`, or `none`, and why."""

    decision: str
    status: str
    reason: str = ""
    approval_id: Optional[str] = None
    applied: int = 0

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Finish:
        return cls(
            told["decision"], told["status"], told.get("reason", ""), told.get("approvalId"), int(told.get("applied", 0))
        )


@dataclass
class Conflicts:
    """How the changes stand to the project as it is now; true if there are conflicts."""

    conflicting: List[str]
    moved: List[str]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Conflicts:
        return cls(list(told.get("conflictingFiles") or []), list(told.get("repoChangedFiles") or []))

    def __bool__(self) -> bool:
        return bool(self.conflicting)


@dataclass
class Rebase:
    """What bringing the changes onto the project of now came to."""

    success: bool
    conflicting: List[str]

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Rebase:
        return cls(bool(told["success"]), list(told.get("conflictingFiles") or []))
