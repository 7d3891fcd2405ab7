"""The life and the review of a workspace, as plans: what `Workspace` and `AsyncWorkspace` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from datetime import timedelta
from typing import Any, Callable, Dict, Generator, Iterable, List, Mapping, Optional, TypeVar, Union

from . import _plan
from ._web import Ask, Site, perform
from .exceptions import CommandTimeoutError, SandboxNotFoundError
from .presets import choose_rules
from .review import Approval, Conflicts, Diff, FileChange, Finish, Hunk, Rebase, Undo, WorkspaceInfo
from .types import ExecResult, RuleLike
from .utils import PathLike, check_directory

T = TypeVar("T")
Plan = Generator[Ask, Any, T]
Hunks = Union[Mapping[str, Iterable[str]], Iterable[Hunk], None]
Seconds = Union[float, timedelta, None]
TERMINAL = ("approved", "rejected", "deleted", "error")
GRACE = 30.0  # for the way there and back of a command that has a timeout itself


def run(site: Site, plan: Plan[T]) -> T:
    """Carries a plan out."""
    return _plan.run(plan, lambda ask: perform(site, ask))


async def run_async(site: Site, plan: Plan[T]) -> T:
    """Likewise in an event loop: each request waits in a thread."""
    return await _plan.run_async(plan, lambda ask: in_thread(perform, site, ask))


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def _seconds(value: Seconds) -> Optional[float]:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _given(**values: Any) -> Dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# ---- life ----


def create(
    path: PathLike,
    project: Optional[PathLike],
    preset: Optional[str],
    permissions: Optional[Iterable[RuleLike]],
    reserve: Optional[Iterable[str]],
    lock: bool,
    owner: Optional[str],
    driver: Optional[str],
    **more: Any,
) -> Plan[WorkspaceInfo]:
    check_directory(path)
    scope = os.path.abspath(os.fspath(path))
    name, rules = choose_rules(preset or (None if permissions else "development"), permissions)
    body = _given(
        scopePath=scope,
        projectRoot=os.path.abspath(os.fspath(project)) if project is not None else scope,
        reservedPaths=list(reserve) if reserve is not None else None,
        owner=owner,
        driver=driver,
        preset=name or "view-only",
        rules=[rule.to_dict() for rule in rules] or None,
        noLock=None if lock else True,
        **more,
    )
    return WorkspaceInfo.from_json((yield Ask("POST", "/sandboxes", body)))


def get(sandbox_id: str) -> Plan[WorkspaceInfo]:
    return WorkspaceInfo.from_json((yield Ask("GET", f"/sandboxes/{sandbox_id}", sandbox_id=sandbox_id)))


def step(sandbox_id: str, name: str) -> Plan[WorkspaceInfo]:
    """start, stop, reject, restore."""
    return WorkspaceInfo.from_json((yield Ask("POST", f"/sandboxes/{sandbox_id}/{name}", {}, sandbox_id=sandbox_id)))


def delete(sandbox_id: str, purge: bool = False) -> Plan[None]:
    with contextlib.suppress(SandboxNotFoundError):
        yield Ask("DELETE", f"/sandboxes/{sandbox_id}", query={"purge": "true"} if purge else {}, sandbox_id=sandbox_id)


def delete_all() -> Plan[None]:
    told = yield Ask("GET", "/sandboxes", query={"limit": 10000})
    for item in told["sandboxes"]:
        if item["status"] != "deleted":
            yield from delete(item["id"])


def leave(sandbox_id: str) -> Plan[None]:
    """The end of a `with` block: one that was decided about goes, another one stops and keeps its changes."""
    try:
        info = yield from get(sandbox_id)
        if info.status in TERMINAL:
            yield from delete(sandbox_id)
        elif info.status == "active":
            yield from step(sandbox_id, "stop")
    except SandboxNotFoundError:
        return


# ---- commands ----


def command(
    sandbox_id: str,
    line: Union[str, Iterable[str]],
    timeout: Seconds,
    env: Optional[Mapping[str, str]],
    workdir: Optional[str],
    stdin: Optional[str],
    raise_on_error: bool,
) -> Plan[ExecResult]:
    seconds = _seconds(timeout)
    words = ["/bin/sh", "-c", line] if isinstance(line, str) else list(line)
    shown = line if isinstance(line, str) else " ".join(words)
    body = _given(
        command=words[0],
        args=words[1:],
        timeoutSec=max(1, math.ceil(seconds)) if seconds is not None else None,
        env=dict(env) if env else None,
        workingDir=workdir,
        stdin=stdin,
    )
    waits = None if seconds is None else seconds + GRACE
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/exec", body, seconds=waits, sandbox_id=sandbox_id)
    if told.get("timedOut"):
        raise CommandTimeoutError(shown, seconds or 0.0)
    result = ExecResult(
        stdout=told.get("stdout", ""),
        stderr=told.get("stderr", ""),
        exit_code=int(told.get("exitCode", 0)),
        duration=timedelta(microseconds=int(told.get("durationNs", 0)) / 1000),
        command=shown,
        stdout_truncated=bool(told.get("stdoutTruncated")),
        stderr_truncated=bool(told.get("stderrTruncated")),
    )
    return result.raise_on_error() if raise_on_error else result


# ---- review ----


def diff(sandbox_id: str, path: Optional[str] = None) -> Plan[Diff]:
    """All pages as one."""
    whole: Optional[Diff] = None
    offset: Optional[int] = 0
    while offset is not None:
        query = {"path": path, "offset": offset or None}
        told = yield Ask("GET", f"/sandboxes/{sandbox_id}/diff", query=query, sandbox_id=sandbox_id)
        page = Diff.from_json(told)
        if whole is None:
            whole = page
        else:
            whole.files += page.files
            whole.text += page.text
            whole.hash = page.hash
        offset = told.get("nextOffset")
    assert whole is not None
    return whole


def _hunks(hunks: Hunks) -> Optional[List[Dict[str, Any]]]:
    if hunks is None:
        return None
    if isinstance(hunks, Mapping):
        return [{"path": path, "hunkIds": list(ids)} for path, ids in hunks.items()]
    by_file: Dict[str, List[str]] = {}
    for hunk in hunks:
        by_file.setdefault(hunk.file_id, []).append(hunk.id)
    return [{"fileId": file_id, "hunkIds": ids} for file_id, ids in by_file.items()]


def approve(
    sandbox_id: str,
    files: Optional[Iterable[Union[str, FileChange]]],
    hunks: Hunks,
    message: Optional[str],
    commit: bool,
    seen: Optional[Diff],
    acknowledge: Union[bool, Iterable[str]],
    force: bool,
    override_acceptance: bool,
    dry_run: bool,
    actor: Optional[str],
    stop: bool,
) -> Plan[Approval]:
    names = None if files is None else list(files)
    body = _given(
        files=[name for name in names if isinstance(name, str)] or None if names else names,
        fileIds=[name.id for name in names if isinstance(name, FileChange)] or None if names else None,
        hunks=_hunks(hunks),
        commitMessage=message,
        createCommit=True if commit else None,
        diffHash=seen.hash if seen is not None else None,
        acknowledge=acknowledge if isinstance(acknowledge, bool) else list(acknowledge),
        force=force or None,
        overrideAcceptance=override_acceptance or None,
        dryRun=dry_run or None,
        actor=actor,
        stop=stop or None,
    )
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/approve", body, seconds=None, sandbox_id=sandbox_id)
    return Approval.from_json(told)


def discard(sandbox_id: str, files: Union[str, Iterable[Union[str, FileChange]]], stop: bool) -> Plan[int]:
    names: List[Union[str, FileChange]] = [files] if isinstance(files, str) else list(files)
    body = _given(
        filePaths=[name for name in names if isinstance(name, str)],
        fileIds=[name.id for name in names if isinstance(name, FileChange)],
        stop=stop or None,
    )
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/discard", body, seconds=None, sandbox_id=sandbox_id)
    return int(told["discarded"])


def undo(sandbox_id: str, approval_id: Optional[str], dry_run: bool, stop: bool) -> Plan[Undo]:
    body = _given(approvalId=approval_id, dryRun=dry_run or None, stop=stop or None)
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/undo", body, seconds=None, sandbox_id=sandbox_id)
    return Undo.from_json(told)


def finish(sandbox_id: str, outcome: str) -> Plan[Finish]:
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/finish", {"outcome": outcome}, seconds=None, sandbox_id=sandbox_id)
    return Finish.from_json(told)


def conflicts(sandbox_id: str) -> Plan[Conflicts]:
    told = yield Ask("GET", f"/sandboxes/{sandbox_id}/conflicts", sandbox_id=sandbox_id)
    return Conflicts.from_json(told)


def rebase(sandbox_id: str, strategy: str, stop: bool) -> Plan[Rebase]:
    body = _given(strategy=strategy, stop=stop or None)
    told = yield Ask("POST", f"/sandboxes/{sandbox_id}/rebase", body, seconds=None, sandbox_id=sandbox_id)
    return Rebase.from_json(told)
