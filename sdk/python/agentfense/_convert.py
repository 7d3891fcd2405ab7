"""Messages from and to the types that people see."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Dict, Iterable, List, Optional, Union

from ._schema import enum_word, messages
from .exceptions import InvalidConfigurationError
from .presets import to_rule
from .types import (
    Codebase,
    Event,
    ExecResult,
    Explanation,
    FileInfo,
    FileStat,
    LintFinding,
    Output,
    PatternType,
    Permission,
    PermissionChange,
    PermissionRule,
    ProcessInfo,
    ResourceLimits,
    RuleLike,
    RulesPreview,
    RuntimeType,
    SandboxInfo,
    SandboxStatus,
    SearchMatch,
    SearchResult,
    Session,
    SessionStatus,
    UploadResult,
    Version,
)

Seconds = Union[timedelta, float, int, None]

_PERMISSIONS = {Permission.NONE: 1, Permission.VIEW: 2, Permission.READ: 3, Permission.WRITE: 4}
_PATTERN_TYPES = {PatternType.GLOB: 1, PatternType.DIRECTORY: 2, PatternType.FILE: 3}
_RUNTIMES = {RuntimeType.BWRAP: 1, RuntimeType.DOCKER: 2}
_PERMISSION_OF = {number: value for value, number in _PERMISSIONS.items()}
_PATTERN_TYPE_OF = {number: value for value, number in _PATTERN_TYPES.items()}
_RUNTIME_OF = {number: value for value, number in _RUNTIMES.items()}
_SESSION_STATUS_OF = {1: SessionStatus.ACTIVE, 2: SessionStatus.CLOSED}
_LIMITS = ("memory_bytes", "cpu_quota", "cpu_shares", "pids_limit", "disk_bytes", "disk_inodes")


def seconds_of(value: Seconds) -> float:
    """Converts a timeout to seconds; None is 0."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value or 0)


def to_duration(value: Seconds) -> Any:
    """Makes a Duration; None for no timeout, which is not sent."""
    seconds = seconds_of(value)
    if seconds < 0:
        raise InvalidConfigurationError(f"a duration cannot be negative: {seconds:g} s")
    if not seconds:
        return None
    whole = int(seconds)
    return messages.Duration(seconds=whole, nanos=int(round((seconds - whole) * 1e9)) % 1_000_000_000)


def to_rules(rules: Optional[Iterable[RuleLike]]) -> List[Any]:
    made = []
    for given in rules or ():
        try:
            rule = to_rule(given)
        except ValueError as error:
            raise InvalidConfigurationError(str(error)) from error
        made.append(
            messages.PermissionRule(
                pattern=rule.pattern,
                type=_PATTERN_TYPES[PatternType(rule.type)],
                permission=_PERMISSIONS[Permission(rule.permission)],
                priority=rule.priority,
            )
        )
    return made


def to_runtime(runtime: Union[RuntimeType, str, None]) -> int:
    try:
        return 0 if runtime is None else _RUNTIMES[RuntimeType(runtime)]
    except ValueError:
        known = ", ".join(f"'{name.value}'" for name in RuntimeType)
        raise InvalidConfigurationError(f"'{runtime}' is no runtime; there are {known}") from None


def to_limits(limits: Union[ResourceLimits, Dict[str, Any], None]) -> Any:
    if limits is None:
        return None
    given = limits if isinstance(limits, ResourceLimits) else ResourceLimits.from_dict(limits)
    return messages.ResourceLimits(**given.to_dict())


def time_of(stamp: Any) -> Optional[datetime]:
    return datetime.fromtimestamp(stamp.seconds + stamp.nanos / 1e9) if stamp.seconds else None


def rule_of(message: Any) -> PermissionRule:
    return PermissionRule(
        message.pattern,
        _PERMISSION_OF.get(message.permission, Permission.NONE),
        _PATTERN_TYPE_OF.get(message.type, PatternType.GLOB),
        message.priority,
    )


def _limits_of(message: Any) -> Optional[ResourceLimits]:
    values = {name: getattr(message, name) or None for name in _LIMITS}
    return ResourceLimits(**values) if any(values.values()) else None


def _status(number: int) -> SandboxStatus:
    return SandboxStatus(enum_word("SandboxStatus", number) or "pending")


def sandbox_of(message: Any) -> SandboxInfo:
    return SandboxInfo(
        id=message.id,
        codebase_id=message.codebase_id,
        status=_status(message.status),
        permissions=[rule_of(rule) for rule in message.permissions],
        labels=dict(message.labels),
        created_at=time_of(message.created_at),
        started_at=time_of(message.started_at),
        stopped_at=time_of(message.stopped_at),
        expires_at=time_of(message.expires_at),
        runtime=_RUNTIME_OF.get(message.runtime, RuntimeType.BWRAP),
        image=message.image or None,
        resources=_limits_of(message.resources),
        status_reason=message.status_reason,
        owner_id=message.owner_id,
        warnings=list(message.warnings),
        name=message.name,
        directory=message.directory,
        project_root=message.project_root,
        decision=enum_word("SandboxDecision", message.decision) or "open",
        driver=message.driver,
        network=message.network,
        preset=message.preset,
        profile=message.profile,
        creator=message.creator,
        tags=list(message.tags),
        metadata=json.loads(message.metadata) if message.metadata else {},
        version=message.version,
        changed_files=message.changed_files,
        changed_bytes=message.changed_bytes,
        restorable_until=time_of(message.restorable_until),
    )


def codebase_of(message: Any) -> Codebase:
    return Codebase(
        id=message.id,
        name=message.name,
        owner_id=message.owner_id,
        size=message.size,
        file_count=message.file_count,
        created_at=time_of(message.created_at),
        updated_at=time_of(message.updated_at),
        version=message.version,
    )


def file_of(message: Any) -> FileInfo:
    return FileInfo(
        path=message.path,
        name=message.name,
        is_dir=message.is_dir,
        size=message.size,
        modified_at=time_of(message.modified_at),
        is_symlink=message.is_symlink,
        is_executable=message.is_executable,
    )


def session_of(message: Any) -> Session:
    return Session(
        id=message.id,
        sandbox_id=message.sandbox_id,
        status=_SESSION_STATUS_OF.get(message.status, SessionStatus.UNKNOWN),
        shell=message.shell or "/bin/bash",
        created_at=time_of(message.created_at),
        closed_at=time_of(message.closed_at),
    )


def result_of(message: Any, command: str) -> ExecResult:
    return ExecResult(
        stdout=message.stdout,
        stderr=message.stderr,
        exit_code=message.exit_code,
        duration=timedelta(seconds=message.duration.seconds, microseconds=message.duration.nanos / 1000),
        command=command,
        stdout_truncated=message.stdout_truncated,
        stderr_truncated=message.stderr_truncated,
        exec_id=message.exec_id,
        codebase_version=message.codebase_version,
        sync_conflicts=list(message.sync_conflicts),
    )


def upload_of(message: Any) -> UploadResult:
    return UploadResult(
        codebase_id=message.codebase_id,
        file_path=message.file_path,
        size=message.size,
        checksum=message.checksum,
        sha256=message.sha256,
        version=message.version,
    )


def archive_of(message: Any) -> UploadResult:
    return UploadResult(
        codebase_id=message.codebase_id, file_path="", size=message.size, version=message.version, file_count=message.file_count
    )


def event_of(message: Any) -> Event:
    return Event(
        sequence=message.sequence,
        time=time_of(message.time),
        type=message.type,
        sandbox_id=message.sandbox_id,
        codebase_id=message.codebase_id,
        owner_id=message.owner_id,
        payload=json.loads(message.payload) if message.payload else {},
    )


def explanation_of(message: Any) -> Explanation:
    return Explanation(
        path=message.path,
        permission=_PERMISSION_OF.get(message.permission, Permission.NONE),
        passage=message.passage,
        rule=rule_of(message.rule) if message.HasField("rule") else None,
        reasons=list(message.reasons),
    )


def version_of(message: Any) -> Version:
    return Version(
        number=message.number,
        created_at=time_of(message.created_at),
        author=message.author,
        reason=message.reason,
        files_changed=message.files_changed,
        conflicts=list(message.conflicts),
    )


def output_of(message: Any) -> Output:
    return Output("stderr" if message.type == 2 else "stdout", message.data)


def stat_of(message: Any) -> FileStat:
    return FileStat(
        path=message.path,
        name=message.name,
        type=enum_word("FileType", message.type) or "other",
        size=message.size,
        mode=message.mode,
        modified_at=time_of(message.modified_at),
        symlink_target=message.symlink_target or None,
        etag=message.etag,
    )


def search_of(message: Any) -> SearchResult:
    matches = [SearchMatch(one.path, one.line, one.text, list(one.before), list(one.after)) for one in message.matches]
    limit = ("", "results", "bytes", "time")[message.limit]
    return SearchResult(matches, limit, message.files_searched, message.files_skipped)


def process_of(message: Any) -> ProcessInfo:
    return ProcessInfo(
        id=message.id,
        sandbox_id=message.sandbox_id,
        pid=message.pid,
        status=enum_word("ProcessStatus", message.status) or "lost",
        command=message.command,
        name=message.name,
        tag=message.tag,
        started_at=time_of(message.started_at),
        ended_at=time_of(message.ended_at),
        exit_code=message.exit_code,
        signal=message.signal,
    )


def finding_of(message: Any) -> LintFinding:
    return LintFinding(enum_word("LintSeverity", message.severity), message.code, message.rule, message.text)


def preview_of(message: Any) -> RulesPreview:
    level = _PERMISSION_OF.get
    return RulesPreview(
        rules=[rule_of(rule) for rule in message.permissions],
        changes=[
            PermissionChange(one.path, level(one.before, Permission.NONE), level(one.after, Permission.NONE))
            for one in message.changes
        ],
        revealed=message.revealed,
        hidden=message.hidden,
        changed=message.changed,
        is_complete=not message.incomplete,
        findings=[finding_of(one) for one in message.findings],
    )
