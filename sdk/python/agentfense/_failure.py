"""Errors of gRPC as our exceptions: by the server's reason where it names one, else by the code."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import grpc

from ._schema import enum_word, messages
from .exceptions import (
    AuthenticationError,
    CodebaseInUseError,
    CodebaseNotFoundError,
    CommandTimeoutError,
    ConflictError,
    ConnectionError,
    FileNotFoundError,
    HookFailedError,
    InvalidConfigurationError,
    NotAcknowledgedError,
    PermissionDeniedError,
    ResourceLimitExceededError,
    ReviewError,
    SandboxError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxStartError,
    SandboxStartTimeoutError,
    SessionClosedError,
    SessionNotFoundError,
    StaleDiffError,
    UploadError,
    WouldStopError,
)


class Subject(NamedTuple):
    """What a call is about: exceptions name it."""

    what: str = "Call the server"
    endpoint: str = "unknown"
    sandbox_id: str = ""
    codebase_id: str = ""
    session_id: str = ""
    path: str = ""
    command: str = ""
    timeout: float = 0.0  # what was asked for; 0: nothing
    elapsed: float = 0.0
    is_review: bool = False


class Refusal(NamedTuple):
    """The machine-readable part of an error. The failures list the files or paths that caused the refusal."""

    reason: Optional[str] = None
    review: Any = None  # a ReviewFailure
    commit: Any = None  # a CommitFailure
    reservation: Any = None  # a ReservationFailure

    @property
    def paths(self) -> List[str]:
        failure = self.review or self.commit
        if self.reservation is not None:
            return [conflict.path for conflict in self.reservation.conflicts]
        return [file.path for file in failure.files] if failure is not None else []

    @property
    def hooks(self) -> List[Dict[str, Any]]:
        return [
            {
                "name": hook.name,
                "status": enum_word("HookStatus", hook.status),
                "exitCode": hook.exit_code,
                "required": hook.required,
                "output": hook.output,
            }
            for hook in (self.review.hooks if self.review is not None else ())
        ]


_DETAILS = {
    "google.rpc.ErrorInfo": ("reason", messages.ErrorInfo),
    "sandbox.v1.ReviewFailure": ("review", messages.ReviewFailure),
    "sandbox.v1.CommitFailure": ("commit", messages.CommitFailure),
    "sandbox.v1.ReservationFailure": ("reservation", messages.ReservationFailure),
}


def _refusal(error: Any) -> Refusal:
    found: Dict[str, Any] = {}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                for detail in messages.Status.FromString(value).details:
                    name = detail.type_url.rpartition("/")[2]
                    if name in _DETAILS:
                        field, kind = _DETAILS[name]
                        told = kind.FromString(detail.value)
                        found[field] = told.reason if field == "reason" else told
            except Exception:  # a proxy's, perhaps: then the code has to do
                return Refusal()
    return Refusal(**found)


def _seconds(subject: Subject) -> float:
    """Returns the timeout that ended the command: the requested one, or the elapsed time if it was the server's."""
    if subject.timeout and (not subject.elapsed or subject.elapsed > subject.timeout - 1):
        return subject.timeout
    return round(subject.elapsed, 3)


_BY_REASON: Dict[str, Callable[[Subject, str], SandboxError]] = {
    "SANDBOX_NOT_FOUND": lambda s, text: SandboxNotFoundError(s.sandbox_id, text),
    "SANDBOX_NOT_RUNNING": lambda s, text: SandboxNotRunningError(s.sandbox_id, None, text),
    "CODEBASE_NOT_FOUND": lambda s, text: CodebaseNotFoundError(s.codebase_id, text),
    "CODEBASE_IN_USE": lambda s, text: CodebaseInUseError(s.codebase_id, text),
    "FILE_NOT_FOUND": lambda s, text: FileNotFoundError(s.path, s.codebase_id or None, text),
    "SESSION_NOT_FOUND": lambda s, text: SessionNotFoundError(s.session_id, text),
    "SESSION_CLOSED": lambda s, text: SessionClosedError(s.session_id, text),
    "COMMAND_TIMED_OUT": lambda s, text: CommandTimeoutError(s.command, _seconds(s), text),
    "START_FAILED": lambda s, text: SandboxStartError(s.sandbox_id, text),
    "DRIVER_FAILED": lambda s, text: SandboxStartError(s.sandbox_id, text),
    "TOO_MANY_SANDBOXES": lambda s, text: ResourceLimitExceededError("sandboxes", "max_per_user", text),
    "TOKEN_NOT_VALID": lambda s, text: AuthenticationError(s.what.lower(), None, text),
}


_REVIEW_BY_REASON: Dict[str, Callable[[str, List[str], str], ReviewError]] = {
    "DIFF_STALE": StaleDiffError,
    "DIFF_NOT_SERVED": StaleDiffError,
    "HUNK_UNKNOWN": StaleDiffError,
    "WOULD_STOP": WouldStopError,
    "UNACKNOWLEDGED": NotAcknowledgedError,
    "CONFLICTS": ConflictError,
}


def _of_review(code: Any, subject: Subject, text: str, refusal: Refusal) -> Optional[SandboxError]:
    """Makes the exception if the state of the sandbox or the project caused the refusal, and not the request itself."""
    Code = grpc.StatusCode
    if refusal.reason in ("HOOK_FAILED", "HOOKS_UNREADABLE"):
        return HookFailedError(subject.sandbox_id, refusal.paths, text, refusal.hooks)
    if refusal.reason in _REVIEW_BY_REASON:
        return _REVIEW_BY_REASON[refusal.reason](subject.sandbox_id, refusal.paths, text)
    if code in (Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.ABORTED, Code.ALREADY_EXISTS):
        return ReviewError(subject.sandbox_id, refusal.paths, text)
    return None


def _by_code(code: Any, subject: Subject, text: str) -> SandboxError:
    Code = grpc.StatusCode
    if code == Code.NOT_FOUND and subject.path:
        return FileNotFoundError(subject.path, subject.codebase_id or None, text)
    if code == Code.NOT_FOUND:
        return SandboxError("Resource not found", text, code.value)
    if code == Code.UNAUTHENTICATED:
        return AuthenticationError(subject.what.lower(), None, text)
    if code == Code.PERMISSION_DENIED:
        return PermissionDeniedError(subject.what.lower(), subject.path or None, text)
    if code == Code.DEADLINE_EXCEEDED and subject.what == "Start sandbox":
        return SandboxStartTimeoutError(subject.sandbox_id, subject.timeout)
    if code == Code.DEADLINE_EXCEEDED:
        return CommandTimeoutError(subject.command or subject.what.lower(), _seconds(subject), text)
    if code == Code.UNAVAILABLE:
        return ConnectionError(subject.endpoint, text, code.value)
    if code == Code.INVALID_ARGUMENT:
        return InvalidConfigurationError(text)
    if code == Code.RESOURCE_EXHAUSTED:
        return ResourceLimitExceededError("server", "see details", text)
    if subject.what.startswith("Upload"):
        return UploadError(subject.path, text)
    return SandboxError("Operation failed", text, code.value)


def from_grpc_error(error: Any, subject: Subject = Subject()) -> SandboxError:
    """Makes the exception for a call that failed."""
    code = error.code()
    text = f"{subject.what}. {error.details() or ''}".rstrip()
    refusal = _refusal(error)
    reason = refusal.reason
    made = _BY_REASON[reason](subject, text) if reason in _BY_REASON else None
    if made is None and subject.is_review:
        made = _of_review(code, subject, text, refusal)
    elif made is None and reason == "INVALID_STATE":
        made = SandboxNotRunningError(subject.sandbox_id, None, text)
    if made is None:
        made = _by_code(code, subject, text)
    made.reason = reason
    made.grpc_code = made.grpc_code or code.value
    return made
