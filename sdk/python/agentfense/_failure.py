"""Errors of gRPC as our exceptions: by the server's reason where it names one, else by the code."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import grpc

from ._schema import messages
from .exceptions import (
    AuthenticationError,
    CodebaseInUseError,
    CodebaseNotFoundError,
    CommandTimeoutError,
    ConnectionError,
    FileNotFoundError,
    InvalidConfigurationError,
    PermissionDeniedError,
    ResourceLimitExceededError,
    SandboxError,
    SandboxNotFoundError,
    SandboxNotRunningError,
    SandboxStartError,
    SandboxStartTimeoutError,
    SessionClosedError,
    SessionNotFoundError,
    UploadError,
)

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


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


def _reason(error: Any) -> Tuple[Optional[str], Dict[str, str]]:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                for detail in messages.Status.FromString(value).details:
                    if detail.type_url == _ERROR_INFO:
                        info = messages.ErrorInfo.FromString(detail.value)
                        return info.reason, dict(info.metadata)
            except Exception:  # a proxy's, perhaps: then the code has to do
                return None, {}
    return None, {}


def _seconds(subject: Subject) -> float:
    """The timeout that held: the one asked for, or as long as it took when the server's did."""
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
    "TOO_MANY_SANDBOXES": lambda s, text: ResourceLimitExceededError("sandboxes", "max_per_user", text),
    "TOKEN_NOT_VALID": lambda s, text: AuthenticationError(s.what.lower(), None, text),
}


def _by_code(code: Any, subject: Subject, text: str) -> SandboxError:
    Code = grpc.StatusCode
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
    """The exception for a call that failed."""
    code = error.code()
    text = f"{subject.what}. {error.details() or ''}".rstrip()
    reason, _ = _reason(error)
    made = _BY_REASON[reason](subject, text) if reason in _BY_REASON else _by_code(code, subject, text)
    made.reason = reason
    made.grpc_code = made.grpc_code or code.value
    return made
