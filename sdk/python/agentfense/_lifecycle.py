"""Making, running and ending a sandbox, as plans for `Sandbox` and `AsyncSandbox`."""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import Any, Iterable, List, Mapping, Optional, Union

from . import _calls as calls
from . import _review as review
from . import _work as work
from ._archive import Progress
from ._calls import Command, Env, Input, OnOutput
from ._convert import Seconds
from ._rpc import Plan
from .exceptions import CommandLimitError, PermissionDeniedError, SandboxError, SandboxNotFoundError
from .presets import choose_rules, get_preset
from .review import Finish
from .types import Codebase, ExecResult, FileInfo, RuleLike, SandboxInfo, SandboxStatus
from .utils import PathLike, check_directory, generate_codebase_name, generate_owner_id

WORKSPACE = "/workspace"
KILLED = 137
OVER_PRESET = "development"


def codebase_path(path: str) -> str:
    """Converts a path of the sandbox to a path of the codebase: `/workspace/x`, `/x` and `x` are the same.

    >>> [codebase_path(path) for path in ("/workspace", "/workspace/x", "/x", "x")]
    ['', 'x', 'x', 'x']
    """
    if path == WORKSPACE or path.startswith(WORKSPACE + "/"):
        path = path[len(WORKSPACE) :]
    return path.lstrip("/")


class AtEnd(Enum):
    """What the end of a `with` block does."""

    DESTROY = "destroy"
    SETTLE = "settle"  # it stops, and its changes wait; with none, or when they were decided about, it is deleted
    LEAVE = "leave"


class Life:
    """The last known state of a sandbox, and what the end of its `with` block does."""

    def __init__(self, info: SandboxInfo, codebase: Optional[Codebase], at_end: AtEnd, owns_codebase: bool = False) -> None:
        self.info = info
        self.known_codebase = codebase  # None: over a directory
        self.at_end = at_end
        self.owns_codebase = owns_codebase
        self.is_destroyed = False
        self.start_timeout: Seconds = None

    @property
    def codebase(self) -> Codebase:
        if self.known_codebase is None:
            raise SandboxError(f"Sandbox '{self.info.id}' is over the directory '{self.info.directory}' and has no codebase.")
        return self.known_codebase

    def start(self) -> Plan[None]:
        if self.info.status != SandboxStatus.RUNNING:
            self.info = yield from calls.start_sandbox(self.info.id, self.start_timeout)

    def stop(self) -> Plan[None]:
        if self.info.status == SandboxStatus.RUNNING:
            self.info = yield from calls.stop_sandbox(self.info.id)

    def refresh(self) -> Plan[None]:
        self.info = yield from calls.get_sandbox(self.info.id, include_deleted=True)

    def delete(self, purge: bool = False) -> Plan[None]:
        """Deletes the sandbox. It is no error if it does not exist any more."""
        with contextlib.suppress(SandboxNotFoundError):
            yield from calls.destroy_sandbox(self.info.id, purge)
        self.info.status = SandboxStatus.DELETED

    def destroy(self, delete_codebase: Optional[bool] = None) -> Plan[None]:
        if self.is_destroyed:
            return
        yield from self.delete()
        self.is_destroyed = True
        if self.owns_codebase if delete_codebase is None else delete_codebase:
            yield from calls.delete_codebase(self.codebase.id)

    def settle(self) -> Plan[None]:
        """Keeps the sandbox, and the paths that it reserves, only if changes wait in it."""
        try:
            yield from self.refresh()
            if self.info.state == "deleted":
                return
            if self.info.state in ("approved", "rejected", "error") or not (yield from review.has_changes(self.info.id)):
                yield from self.delete()
            elif self.info.state == "active":
                yield from self.stop()
        except SandboxNotFoundError:
            return

    def run(
        self,
        command: Command,
        timeout: Seconds = calls.DEFAULT_RUN_TIMEOUT,
        env: Env = None,
        workdir: Optional[str] = None,
        raise_on_error: bool = False,
        stdin: Input = None,
        on_stdout: OnOutput = None,
        on_stderr: OnOutput = None,
    ) -> Plan[ExecResult]:
        result = yield from calls.exec_command(self.info.id, command, stdin, env, workdir, timeout, on_stdout, on_stderr)
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

    # Over a codebase these methods use the codebase. Over a directory they use the files that the sandbox sees.

    def read_file(self, path: str) -> Plan[bytes]:
        where = codebase_path(path)
        if self.known_codebase is None:
            return (yield from work.read_file(self.info.id, where))
        return (yield from calls.download_file(self.known_codebase.id, where))

    def write_file(self, path: str, content: Union[str, bytes]) -> Plan[None]:
        where = codebase_path(path)
        if self.known_codebase is None:
            yield from work.write_file(self.info.id, where, content)
        else:
            yield from calls.upload_file(self.known_codebase.id, where, content)

    def list_files(self, path: str = "", recursive: bool = False) -> Plan[List[str]]:
        where = codebase_path(path)
        if self.known_codebase is not None:
            files: List[FileInfo] = yield from calls.list_files(self.known_codebase.id, where, recursive)
            return [file.path for file in files]
        found, todo = [], [where]
        while todo:
            for one in (yield from work.list_directory(self.info.id, todo.pop(0))):
                found.append(one.path.lstrip("/"))
                if recursive and one.is_dir:
                    todo.append(one.path)
        return found

    def reject(self, actor: Optional[str]) -> Plan[None]:
        self.info = yield from review.reject(self.info.id, actor)

    def restore(self) -> Plan[None]:
        self.info = yield from review.restore(self.info.id)
        self.is_destroyed = False

    def finish(self, outcome: str) -> Plan[Finish]:
        done, self.info = yield from review.finish(self.info.id, outcome)
        return done

    def describe(self, name: str) -> str:
        return f"{name}(id={self.info.id!r}, status={self.info.status.value!r}, runtime={self.info.runtime.value!r})"


def check_preset(preset: Optional[str]) -> None:
    """Raises ValueError for an unknown preset, before anything is made."""
    if preset is not None:
        get_preset(preset)


def _undo(sandbox: Optional[SandboxInfo], codebase: Optional[Codebase]) -> Plan[None]:
    if sandbox is not None:
        with contextlib.suppress(SandboxError):
            yield from calls.destroy_sandbox(sandbox.id)
    if codebase is not None:
        with contextlib.suppress(SandboxError):
            yield from calls.delete_codebase(codebase.id, force=True)


def _created(life: Life, auto_start: bool, start_timeout: Seconds) -> Plan[Life]:
    life.start_timeout = start_timeout
    if auto_start:
        try:
            yield from life.start()
        except BaseException:
            yield from _undo(life.info, None)
            raise
    return life


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
    return (yield from _created(Life(info, codebase, AtEnd.DESTROY, owns_codebase), auto_start, start_timeout))


def _make_codebase(name: str, owner_id: Optional[str]) -> Plan[Codebase]:
    """Makes a codebase for `owner_id`, or for this user. With a token of another owner it belongs to that owner."""
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
        # Remove everything, also if the caller is interrupted or cancelled.
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


def over(
    path: PathLike,
    project: Optional[PathLike] = None,
    preset: Optional[str] = None,
    permissions: Optional[Iterable[RuleLike]] = None,
    auto_start: bool = True,
    start_timeout: Seconds = None,
    **options: Any,
) -> Plan[Life]:
    name, rules = choose_rules(preset or (None if permissions else OVER_PRESET), permissions)
    info = yield from calls.create_sandbox(
        permissions=rules,
        preset=name or "view-only",
        directory=path,
        project_root=path if project is None else project,
        **options,
    )
    return (yield from _created(Life(info, None, AtEnd.SETTLE), auto_start, start_timeout))


def connect(sandbox_id: str, include_deleted: bool = False, at_end: AtEnd = AtEnd.LEAVE) -> Plan[Life]:
    info = yield from calls.get_sandbox(sandbox_id, include_deleted)
    codebase = (yield from calls.get_codebase(info.codebase_id)) if info.codebase_id else None
    return Life(info, codebase, at_end)
