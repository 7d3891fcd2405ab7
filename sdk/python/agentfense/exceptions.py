"""The exceptions of the package.

All are :class:`SandboxError`. Where Python has an exception of its own for the same thing (``TimeoutError``,
``FileNotFoundError``, ``PermissionError``, ``ConnectionError``), ours are that as well, so either may be caught.

>>> import builtins
>>> issubclass(CommandTimeoutError, builtins.TimeoutError)
True
"""

from __future__ import annotations

import builtins
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple


class SandboxError(Exception):
    """Anything that AgentFense refuses or fails to do.

    ``message`` says what, ``details`` what the server said about it, ``reason`` is for programs (``"SANDBOX_NOT_FOUND"``),
    ``grpc_code`` is the pair of number and text that gRPC has for it.
    """

    def __init__(self, message: str, details: Optional[str] = None, grpc_code: Optional[Tuple[int, str]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.grpc_code = grpc_code
        self.reason: Optional[str] = None

    def __str__(self) -> str:
        return f"{self.message} Details: {self.details}" if self.details else self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        # Constructors differ from `args`, so Exception's own way of pickling would call them wrongly.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: Any, args: Tuple[Any, ...], state: Dict[str, Any]) -> SandboxError:
    error: SandboxError = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConnectionError(SandboxError, builtins.ConnectionError):
    """The server does not answer."""

    def __init__(self, endpoint: str, details: Optional[str] = None, grpc_code: Optional[Tuple[int, str]] = None) -> None:
        super().__init__(f"Cannot connect to the AgentFense server at '{endpoint}'.", details, grpc_code)
        self.endpoint = endpoint


class SandboxNotFoundError(SandboxError):
    """There is no such sandbox, or it is another owner's."""

    def __init__(self, sandbox_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Sandbox '{sandbox_id}' not found.", details)
        self.sandbox_id = sandbox_id


class SandboxNotRunningError(SandboxError):
    """The sandbox has to run for this, and does not."""

    def __init__(self, sandbox_id: str, current_status: Optional[str] = None, details: Optional[str] = None) -> None:
        known = f" It is {current_status}." if current_status else ""
        super().__init__(f"Sandbox '{sandbox_id}' is not running.{known}", details)
        self.sandbox_id = sandbox_id
        self.current_status = current_status


class SandboxStartError(SandboxError):
    """The sandbox could not be started; ``details`` tell why, for instance a limit that this host cannot enforce."""

    def __init__(self, sandbox_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Sandbox '{sandbox_id}' could not be started.", details)
        self.sandbox_id = sandbox_id


class SandboxStartTimeoutError(SandboxStartError, builtins.TimeoutError):
    """The sandbox did not start within ``start_timeout``."""

    def __init__(self, sandbox_id: str, timeout_seconds: float) -> None:
        super().__init__(sandbox_id, f"It took longer than {timeout_seconds:g} seconds.")
        self.timeout_seconds = timeout_seconds


class CommandTimeoutError(SandboxError, builtins.TimeoutError):
    """The command took too long and was killed, with all it had started. What it wrote is there."""

    def __init__(self, command: str, timeout_seconds: float, details: Optional[str] = None) -> None:
        super().__init__(f"Command timed out after {timeout_seconds:g} seconds: {command}", details)
        self.command = command
        self.timeout_seconds = timeout_seconds


class CommandExecutionError(SandboxError):
    """The command ended with an exit code other than 0, and `raise_on_error` was set."""

    def __init__(self, command: str, exit_code: int, stdout: str = "", stderr: str = "") -> None:
        # By name: in the classes below, what comes next has a constructor of another form.
        SandboxError.__init__(self, f"Command failed with exit code {exit_code}: {command}", stderr.strip() or None)
        self.command = command
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class PermissionDeniedError(SandboxError, builtins.PermissionError):
    """The server, or a rule, does not permit this."""

    def __init__(self, operation: str, path: Optional[str] = None, details: Optional[str] = None) -> None:
        super().__init__(f"Permission denied: {operation}" + (f" '{path}'" if path else ""), details)
        self.operation = operation
        self.path = path


class AuthenticationError(PermissionDeniedError):
    """The token is missing or not valid."""


class CommandDeniedError(CommandExecutionError, PermissionDeniedError):
    """The command failed because the rules do not permit what it did."""

    def __init__(self, command: str, exit_code: int, stdout: str = "", stderr: str = "", path: Optional[str] = None) -> None:
        CommandExecutionError.__init__(self, command, exit_code, stdout, stderr)
        self.operation = command
        self.path = path


class ResourceLimitExceededError(SandboxError):
    """A limit was reached: of the sandbox, of the owner, or of the server."""

    def __init__(self, resource_type: str, limit: str, details: Optional[str] = None) -> None:
        super().__init__(f"Resource limit exceeded: {resource_type} (limit: {limit})", details)
        self.resource_type = resource_type
        self.limit = limit


class CommandLimitError(CommandExecutionError, ResourceLimitExceededError):
    """The command failed because it reached a limit of its sandbox."""

    def __init__(self, command: str, exit_code: int, stdout: str, stderr: str, resource_type: str, limit: str) -> None:
        CommandExecutionError.__init__(self, command, exit_code, stdout, stderr)
        self.resource_type = resource_type
        self.limit = limit


class InvalidConfigurationError(SandboxError, ValueError):
    """Something given is not valid: a pattern, a name, a number."""

    def __init__(self, message: str, details: Optional[str] = None) -> None:
        super().__init__(message, details)


class CodebaseError(SandboxError):
    """Something about a codebase or a file in it."""


class CodebaseNotFoundError(CodebaseError):
    """There is no such codebase, or it is another owner's."""

    def __init__(self, codebase_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Codebase '{codebase_id}' not found.", details)
        self.codebase_id = codebase_id


class CodebaseInUseError(CodebaseError):
    """Sandboxes that run use the codebase."""

    def __init__(self, codebase_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Codebase '{codebase_id}' is in use.", details)
        self.codebase_id = codebase_id


class FileNotFoundError(CodebaseError, builtins.FileNotFoundError):
    """The codebase has no such file."""

    def __init__(self, file_path: str, codebase_id: Optional[str] = None, details: Optional[str] = None) -> None:
        super().__init__(f"File '{file_path}' not found" + (f" in codebase '{codebase_id}'." if codebase_id else "."), details)
        self.file_path = file_path
        self.codebase_id = codebase_id


class UploadError(CodebaseError):
    """A file or a directory could not be uploaded."""

    def __init__(self, file_path: str, details: Optional[str] = None) -> None:
        super().__init__(f"Failed to upload '{file_path}'.", details)
        self.file_path = file_path


class SessionError(SandboxError):
    """Something about a session."""


class SessionNotFoundError(SessionError):
    """There is no such session: it was closed, or its sandbox was stopped."""

    def __init__(self, session_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Session '{session_id}' not found.", details)
        self.session_id = session_id


class SessionClosedError(SessionError):
    """The session's shell has ended."""

    def __init__(self, session_id: str, details: Optional[str] = None) -> None:
        super().__init__(f"Session '{session_id}' is closed.", details)
        self.session_id = session_id


class ReviewError(SandboxError):
    """A step of a review was refused, and nothing was written. ``files`` are the files or paths that caused it."""

    _why = "The review of sandbox '{}' was refused."

    def __init__(self, sandbox_id: str, files: Iterable[str] = (), details: Optional[str] = None) -> None:
        super().__init__(self._why.format(sandbox_id), details)
        self.sandbox_id = sandbox_id
        self.files = list(files)


class StaleDiffError(ReviewError):
    """The changes are not those that were shown, or were never shown: get the diff again."""

    _why = "The changes of sandbox '{}' are not those that were shown."


class ConflictError(ReviewError):
    """The project has changed, too, and the changes cannot be merged."""

    _why = "Changes of sandbox '{}' are in conflict with the project."


class WouldStopError(ReviewError):
    """With the driver of this sandbox it could only be done by stopping it: with ``stop=True`` its processes end, and it is started
    again."""

    _why = "Sandbox '{}' would have to be stopped."


class HookFailedError(ReviewError):
    """A hook that tries changes before they land did not pass. ``hooks`` are all that ran, as the server tells of them: `name`,
    `status`, `exitCode`, `output` (its end)."""

    _why = "Changes of sandbox '{}' did not pass its hooks."

    def __init__(
        self,
        sandbox_id: str,
        files: Iterable[str] = (),
        details: Optional[str] = None,
        hooks: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(sandbox_id, files, details)
        self.hooks = list(hooks)


class NotAcknowledgedError(ReviewError):
    """Some of the files would execute later on their own, such as hooks. Approve them with ``acknowledge``."""

    _why = "Changes of sandbox '{}' must be acknowledged."
