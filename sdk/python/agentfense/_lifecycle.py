"""The life of a sandbox as people use it, as plans: what `Sandbox` and `AsyncSandbox` have in common."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, List, Mapping, Optional, Union

from . import _calls as calls
from ._archive import Progress
from ._calls import Env
from ._convert import Seconds
from ._rpc import Plan
from .exceptions import CommandLimitError, PermissionDeniedError, SandboxError, SandboxNotFoundError
from .presets import choose_rules, get_preset
from .types import Codebase, ExecResult, FileInfo, RuleLike, SandboxInfo, SandboxStatus, UploadResult
from .utils import PathLike, check_directory, generate_codebase_name, generate_owner_id

WORKSPACE = "/workspace"
KILLED = 137


def codebase_path(path: str) -> str:
    """Where a path of the sandbox is in the codebase: `/workspace/x`, `/x` and `x` are the same.

    >>> [codebase_path(path) for path in ("/workspace", "/workspace/x", "/x", "x")]
    ['', 'x', 'x', 'x']
    """
    if path == WORKSPACE or path.startswith(WORKSPACE + "/"):
        path = path[len(WORKSPACE) :]
    return path.lstrip("/")


class Life:
    """What is known of one sandbox, and who removes it."""

    def __init__(self, info: SandboxInfo, codebase: Codebase, owns_sandbox: bool, owns_codebase: bool) -> None:
        self.info = info
        self.codebase = codebase
        self.owns_sandbox = owns_sandbox  # it goes at the end of the `with` block
        self.owns_codebase = owns_codebase
        self.is_destroyed = False
        self.start_timeout: Seconds = None

    def start(self) -> Plan[None]:
        if self.info.status != SandboxStatus.RUNNING:
            self.info = yield from calls.start_sandbox(self.info.id, self.start_timeout)

    def stop(self) -> Plan[None]:
        if self.info.status == SandboxStatus.RUNNING:
            self.info = yield from calls.stop_sandbox(self.info.id)

    def refresh(self) -> Plan[None]:
        self.info = yield from calls.get_sandbox(self.info.id)

    def destroy(self, delete_codebase: Optional[bool] = None) -> Plan[None]:
        """One that is gone already is as good as destroyed."""
        if self.is_destroyed:
            return
        with contextlib.suppress(SandboxNotFoundError):
            yield from calls.destroy_sandbox(self.info.id)
        self.is_destroyed = True
        if self.owns_codebase if delete_codebase is None else delete_codebase:
            yield from calls.delete_codebase(self.codebase.id)

    def run(
        self,
        command: str,
        timeout: Seconds = calls.DEFAULT_RUN_TIMEOUT,
        env: Env = None,
        workdir: Optional[str] = None,
        raise_on_error: bool = False,
    ) -> Plan[ExecResult]:
        result = yield from calls.exec_command(self.info.id, command, None, env, workdir, timeout)
        if raise_on_error and not result.success:
            yield from self._raise_if_limited(result)
            result.raise_on_error()
        return result

    def _raise_if_limited(self, result: ExecResult) -> Plan[None]:
        if result.exit_code != KILLED:
            return
        events = yield from calls.list_events(sandbox_id=self.info.id, type="resource_limit_exceeded")
        if events:
            payload = max(events, key=lambda event: event.sequence).payload
            resource, limit = str(payload.get("resource", "unknown")), str(payload.get("limit", "unknown"))
            raise CommandLimitError(result.command, result.exit_code, result.stdout, result.stderr, resource, limit)

    def read_file(self, path: str) -> Plan[bytes]:
        return (yield from calls.download_file(self.codebase.id, codebase_path(path)))

    def write_file(self, path: str, content: Union[str, bytes]) -> Plan[UploadResult]:
        return (yield from calls.upload_file(self.codebase.id, codebase_path(path), content))

    def list_files(self, path: str = "", recursive: bool = False) -> Plan[List[str]]:
        files: List[FileInfo] = yield from calls.list_files(self.codebase.id, codebase_path(path), recursive)
        return [file.path for file in files]

    def describe(self, name: str) -> str:
        return f"{name}(id={self.info.id!r}, status={self.info.status.value!r}, runtime={self.info.runtime.value!r})"


def check_preset(preset: Optional[str]) -> None:
    """An unknown preset is an error before anything is made."""
    if preset is not None:
        get_preset(preset)


def _undo(sandbox: Optional[SandboxInfo], codebase: Optional[Codebase]) -> Plan[None]:
    if sandbox is not None:
        with contextlib.suppress(SandboxError):
            yield from calls.destroy_sandbox(sandbox.id)
    if codebase is not None:
        with contextlib.suppress(SandboxError):
            yield from calls.delete_codebase(codebase.id, force=True)


def _create(
    codebase: Codebase,
    owns_codebase: bool,
    preset: Optional[str],
    permissions: Optional[Iterable[RuleLike]],
    auto_start: bool,
    start_timeout: Seconds,
    options: Mapping[str, Any],
) -> Plan[Life]:
    name, rules = choose_rules(preset, permissions)
    info = yield from calls.create_sandbox(codebase.id, rules, preset=name, **options)
    life = Life(info, codebase, owns_sandbox=True, owns_codebase=owns_codebase)
    life.start_timeout = start_timeout
    if auto_start:
        try:
            yield from life.start()
        except BaseException:
            yield from _undo(info, None)
            raise
    return life


def _make_codebase(name: str, owner_id: Optional[str]) -> Plan[Codebase]:
    """Of nobody in particular it is this user's; who comes with a token makes what is the token's owner's."""
    try:
        return (yield from calls.create_codebase(name, owner_id or generate_owner_id()))
    except PermissionDeniedError as error:
        if owner_id or error.reason != "OTHER_OWNER":
            raise
    return (yield from calls.create_codebase(name, ""))


def from_local(
    path: PathLike,
    preset: Optional[str] = None,
    permissions: Optional[Iterable[RuleLike]] = None,
    owner_id: Optional[str] = None,
    codebase_name: Optional[str] = None,
    ignore_patterns: Optional[Iterable[str]] = None,
    auto_start: bool = True,
    start_timeout: Seconds = None,
    progress: Union[Progress, bool, None] = None,
    compress: bool = False,
    **options: Any,
) -> Plan[Life]:
    root = check_directory(path)
    check_preset(preset)
    codebase = yield from _make_codebase(codebase_name or generate_codebase_name(root), owner_id)
    try:
        yield from calls.upload_directory(codebase.id, root, ignore_patterns, progress=progress, compress=compress)
        codebase = yield from calls.get_codebase(codebase.id)
        return (yield from _create(codebase, True, preset, permissions, auto_start, start_timeout, options))
    except BaseException:
        # Also when the caller is interrupted or cancelled: nothing is left behind.
        yield from _undo(None, codebase)
        raise


def from_codebase(
    codebase_id: str,
    preset: Optional[str] = None,
    permissions: Optional[Iterable[RuleLike]] = None,
    auto_start: bool = True,
    start_timeout: Seconds = None,
    **options: Any,
) -> Plan[Life]:
    check_preset(preset)
    codebase = yield from calls.get_codebase(codebase_id)
    return (yield from _create(codebase, False, preset, permissions, auto_start, start_timeout, options))


def connect(sandbox_id: str) -> Plan[Life]:
    info = yield from calls.get_sandbox(sandbox_id)
    codebase = yield from calls.get_codebase(info.codebase_id)
    return Life(info, codebase, owns_sandbox=False, owns_codebase=False)
