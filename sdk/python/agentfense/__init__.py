"""AgentFense: a real shell on a real codebase for an AI agent, with every file operation checked.

>>> from agentfense import Sandbox
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as project, Sandbox.from_local(project, preset="agent-safe") as sandbox:
...     sandbox.run("echo done > output/result.txt && cat output/result.txt").stdout
'done\\n'
"""

from ._archive import UploadWarning
from ._rpc import AsyncCommandStream, CommandStream
from .async_client import AsyncSandboxClient, AsyncSessionWrapper
from .async_sandbox import AsyncSandbox
from .async_workspace import AsyncWorkspace
from .client import SandboxClient, SessionWrapper
from .exceptions import (
    AuthenticationError,
    CodebaseError,
    CodebaseInUseError,
    CodebaseNotFoundError,
    CommandDeniedError,
    CommandExecutionError,
    CommandLimitError,
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
    SessionError,
    SessionNotFoundError,
    StaleDiffError,
    UploadError,
    WouldStopError,
)
from .presets import (
    PRESET_AGENT_SAFE,
    PRESET_DEVELOPMENT,
    PRESET_FULL_ACCESS,
    PRESET_READ_ONLY,
    PRESET_VIEW_ONLY,
    PRESETS,
    extend_preset,
    get_preset,
    get_preset_dicts,
    list_presets,
    register_preset,
)
from .review import Approval, Conflicts, Diff, FileChange, Finish, Hunk, Rebase, Undo, WorkspaceInfo
from .sandbox import Sandbox
from .types import (
    Codebase,
    Event,
    ExecResult,
    Explanation,
    FileInfo,
    PatternType,
    Permission,
    PermissionRule,
    ResourceLimits,
    RuntimeType,
    SandboxInfo,
    SandboxStatus,
    Session,
    SessionStatus,
    UploadProgress,
    UploadResult,
    Version,
)
from .utils import (
    count_files,
    generate_codebase_name,
    generate_owner_id,
    human_readable_size,
    parse_ignore_file,
    walk_directory,
)
from .workspace import Workspace

__version__ = "0.3.0"

__all__ = [
    # sandboxes
    "Sandbox",
    "AsyncSandbox",
    "SandboxClient",
    "AsyncSandboxClient",
    "SessionWrapper",
    "AsyncSessionWrapper",
    "CommandStream",
    "AsyncCommandStream",
    # workspaces
    "Workspace",
    "AsyncWorkspace",
    "WorkspaceInfo",
    "Diff",
    "FileChange",
    "Hunk",
    "Approval",
    "Undo",
    "Finish",
    "Conflicts",
    "Rebase",
    # types
    "Permission",
    "PatternType",
    "SandboxStatus",
    "SessionStatus",
    "RuntimeType",
    "PermissionRule",
    "ResourceLimits",
    "SandboxInfo",
    "Codebase",
    "FileInfo",
    "UploadResult",
    "Session",
    "ExecResult",
    "Event",
    "Explanation",
    "UploadProgress",
    "Version",
    # presets
    "PRESETS",
    "PRESET_AGENT_SAFE",
    "PRESET_READ_ONLY",
    "PRESET_FULL_ACCESS",
    "PRESET_DEVELOPMENT",
    "PRESET_VIEW_ONLY",
    "get_preset",
    "get_preset_dicts",
    "extend_preset",
    "list_presets",
    "register_preset",
    # exceptions
    "SandboxError",
    "ConnectionError",
    "SandboxNotFoundError",
    "SandboxNotRunningError",
    "SandboxStartError",
    "SandboxStartTimeoutError",
    "CommandTimeoutError",
    "CommandExecutionError",
    "CommandDeniedError",
    "CommandLimitError",
    "PermissionDeniedError",
    "AuthenticationError",
    "ResourceLimitExceededError",
    "InvalidConfigurationError",
    "CodebaseError",
    "CodebaseNotFoundError",
    "CodebaseInUseError",
    "FileNotFoundError",
    "UploadError",
    "UploadWarning",
    "SessionError",
    "SessionNotFoundError",
    "SessionClosedError",
    "ReviewError",
    "StaleDiffError",
    "ConflictError",
    "HookFailedError",
    "WouldStopError",
    "NotAcknowledgedError",
    # utilities
    "walk_directory",
    "parse_ignore_file",
    "human_readable_size",
    "generate_codebase_name",
    "generate_owner_id",
    "count_files",
]
