"""Types of arguments and results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Dict, List, Mapping, Optional, Union

from .exceptions import CommandDeniedError, CommandExecutionError


class Permission(str, Enum):
    """What a sandbox may do with a path."""

    NONE = "none"
    VIEW = "view"
    READ = "read"
    WRITE = "write"


class PatternType(str, Enum):
    """What a rule's pattern names. With GLOB the pattern's form decides: a trailing slash makes it a directory."""

    GLOB = "glob"
    DIRECTORY = "directory"
    FILE = "file"


class SandboxStatus(str, Enum):
    """Whether a sandbox runs."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPED = "stopped"
    ERROR = "error"
    DELETED = "deleted"


class SessionStatus(str, Enum):
    """Whether a session takes commands."""

    UNKNOWN = "unknown"
    ACTIVE = "active"
    CLOSED = "closed"


class RuntimeType(str, Enum):
    """What confines a sandbox."""

    BWRAP = "bwrap"
    DOCKER = "docker"


@dataclass
class PermissionRule:
    """One rule.

    >>> PermissionRule("/output/**", Permission.WRITE).to_dict()
    {'pattern': '/output/**', 'permission': 'write', 'type': 'glob', 'priority': 0}
    """

    pattern: str
    permission: Permission = Permission.READ
    type: PatternType = PatternType.GLOB
    priority: int = 0

    def to_dict(self) -> Dict[str, Any]:
        """The rule as a dict, as permissions may be given too."""
        return {
            "pattern": self.pattern,
            "permission": Permission(self.permission).value,
            "type": PatternType(self.type).value,
            "priority": self.priority,
        }

    @classmethod
    def from_dict(cls, rule: Mapping[str, Any]) -> PermissionRule:
        """A rule of a dict with `pattern`, and if you like `permission`, `type` and `priority`.

        >>> PermissionRule.from_dict({"pattern": "**/*.key", "permission": "none", "priority": "100"}).priority
        100
        """
        unknown = set(rule) - {"pattern", "permission", "type", "priority"}
        if "pattern" not in rule or unknown:
            wrong = f"unknown key {sorted(unknown)[0]!r}" if unknown else "no pattern"
            raise ValueError(f"A rule has {wrong}: {dict(rule)!r}")
        return cls(
            pattern=rule["pattern"],
            permission=Permission(rule.get("permission", "read")),
            type=PatternType(rule.get("type", "glob")),
            priority=int(rule.get("priority", 0)),
        )


RuleLike = Union[PermissionRule, Mapping[str, Any]]


@dataclass
class ResourceLimits:
    """Limits of one sandbox. None is the server's default. One that the host cannot enforce makes the start fail.

    `cpu_quota` is in microseconds of each 100 ms: 50000 is half a processor.

    >>> ResourceLimits(memory_bytes=512 * 1024 * 1024, pids_limit=100).to_dict()
    {'memory_bytes': 536870912, 'pids_limit': 100}
    """

    memory_bytes: Optional[int] = None
    cpu_quota: Optional[int] = None
    cpu_shares: Optional[int] = None
    pids_limit: Optional[int] = None
    disk_bytes: Optional[int] = None
    disk_inodes: Optional[int] = None

    def to_dict(self) -> Dict[str, int]:
        """Only the limits that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, limits: Mapping[str, Any]) -> ResourceLimits:
        """The reverse of `to_dict`."""
        return cls(**{name: limits[name] for name in cls.__dataclass_fields__ if limits.get(name) is not None})


@dataclass
class SandboxInfo:
    """The state of a sandbox."""

    id: str
    codebase_id: str
    status: SandboxStatus
    permissions: List[PermissionRule] = field(default_factory=list)
    labels: Dict[str, str] = field(default_factory=dict)
    created_at: Optional[datetime] = None
    started_at: Optional[datetime] = None
    stopped_at: Optional[datetime] = None
    expires_at: Optional[datetime] = None
    runtime: RuntimeType = RuntimeType.BWRAP
    image: Optional[str] = None
    resources: Optional[ResourceLimits] = None
    status_reason: str = ""
    owner_id: str = ""
    warnings: List[str] = field(default_factory=list)
    name: str = ""
    directory: str = ""
    project_root: str = ""
    decision: str = "open"
    driver: str = ""
    network: str = ""
    preset: str = ""
    profile: str = ""
    creator: str = ""
    tags: List[str] = field(default_factory=list)
    metadata: Dict[str, Any] = field(default_factory=dict)
    version: int = 0
    changed_files: int = 0
    changed_bytes: int = 0
    restorable_until: Optional[datetime] = None

    @property
    def state(self) -> str:
        """Its life and its decision in one word: active, stopped, approved, rejected, deleted, or error if it never ran."""
        if self.status == SandboxStatus.DELETED:
            return "deleted"
        if self.decision in ("approved", "rejected"):
            return self.decision
        if self.status == SandboxStatus.RUNNING:
            return "active"
        return "error" if self.status == SandboxStatus.ERROR and self.started_at is None else "stopped"


@dataclass
class Output:
    """A piece of a command's output; ``stream`` is "stdout" or "stderr"."""

    stream: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


@dataclass
class FileStat:
    """A file or directory as the sandbox sees it; ``type`` is "regular", "directory", "symlink" or "other"."""

    path: str
    name: str
    type: str
    size: int
    mode: int
    modified_at: Optional[datetime] = None
    symlink_target: Optional[str] = None
    etag: str = ""

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"


@dataclass
class SearchMatch:
    """A line that contains the text, or a name that matches the pattern (then ``line`` is 0)."""

    path: str
    line: int
    text: str
    before: List[str] = field(default_factory=list)
    after: List[str] = field(default_factory=list)


@dataclass
class SearchResult:
    """What a search found. If it ended before everything was searched, ``limit`` says why: "results", "bytes" or "time"."""

    matches: List[SearchMatch]
    limit: str
    files_searched: int
    files_skipped: int


@dataclass
class ProcessInfo:
    """A process in the background; ``status`` is "running", "exited", "signaled" or "lost"."""

    id: str
    sandbox_id: str
    pid: int
    status: str
    command: str
    name: str = ""
    tag: str = ""
    started_at: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    exit_code: int = 0
    signal: int = 0

    @property
    def is_running(self) -> bool:
        return self.status == "running"


@dataclass
class PermissionChange:
    """A path whose permission other rules would change."""

    path: str
    before: Permission
    after: Permission


@dataclass
class LintFinding:
    """A probable mistake in rules; ``severity`` is "warning" or "error", ``rule`` the number of the rule from 1, or 0."""

    severity: str
    code: str
    rule: int
    text: str


@dataclass
class RulesPreview:
    """The effect of other rules: the paths that they would reveal (first in ``changes``), hide, or change."""

    rules: List[PermissionRule]
    changes: List[PermissionChange]
    revealed: int
    hidden: int
    changed: int
    is_complete: bool
    findings: List[LintFinding] = field(default_factory=list)


@dataclass
class Codebase:
    """A tree of files on the server."""

    id: str
    name: str
    owner_id: str
    size: int = 0
    file_count: int = 0
    created_at: Optional[datetime] = None
    updated_at: Optional[datetime] = None
    version: int = 0


@dataclass
class FileInfo:
    """A file of a codebase."""

    path: str
    name: str
    is_dir: bool
    size: int
    modified_at: Optional[datetime] = None
    is_symlink: bool = False
    is_executable: bool = False


@dataclass
class UploadResult:
    """The result of an upload. `checksum` is MD5. For a directory `file_path` is empty and `file_count` says how many files arrived."""

    codebase_id: str
    file_path: str
    size: int
    checksum: str = ""
    sha256: str = ""
    version: int = 0
    file_count: int = 1


@dataclass
class Session:
    """The state of a session."""

    id: str
    sandbox_id: str
    status: SessionStatus = SessionStatus.ACTIVE
    shell: str = "/bin/bash"
    created_at: Optional[datetime] = None
    closed_at: Optional[datetime] = None


@dataclass
class ExecResult:
    """How a command ended.

    >>> result = ExecResult(stdout="one", stderr="two", exit_code=1, command="x")
    >>> result.success, result.output
    (False, 'one\\ntwo')
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    duration: Optional[timedelta] = None
    command: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    exec_id: str = ""
    codebase_version: int = 0
    sync_conflicts: List[str] = field(default_factory=list)

    @property
    def success(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @property
    def output(self) -> str:
        """stdout, followed by stderr."""
        return "\n".join(part for part in (self.stdout, self.stderr) if part)

    def raise_on_error(self) -> ExecResult:
        """Raises CommandExecutionError unless the command succeeded; itself otherwise.

        If a tool said "Permission denied" it is a PermissionDeniedError as well.
        """
        if self.success:
            return self
        kind = CommandDeniedError if "Permission denied" in self.stderr else CommandExecutionError
        raise kind(self.command, self.exit_code, self.stdout, self.stderr)


@dataclass
class Event:
    """Something that happened; `payload` depends on its type."""

    sequence: int
    time: Optional[datetime]
    type: str
    sandbox_id: str = ""
    codebase_id: str = ""
    owner_id: str = ""
    payload: Dict[str, Any] = field(default_factory=dict)


@dataclass
class Explanation:
    """Which level a path has in a sandbox, and why."""

    path: str
    permission: Permission
    passage: bool
    rule: Optional[PermissionRule]
    reasons: List[str] = field(default_factory=list)


@dataclass
class Version:
    """One state of a codebase."""

    number: int
    created_at: Optional[datetime]
    author: str
    reason: str
    files_changed: int
    conflicts: List[str] = field(default_factory=list)


@dataclass
class UploadProgress:
    """How far an upload has come."""

    files: int
    total_files: int
    bytes: int
    total_bytes: int
    path: str = ""
