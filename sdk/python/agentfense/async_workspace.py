"""As workspace.py, for programs with an event loop. Made from it by tools/make-async-sdk."""

from __future__ import annotations

import asyncio
from typing import Any, Iterable, Optional, Type, TypeVar, Union

from . import _lifecycle, _private
from ._calls import Command, Env, Input, OnOutput
from ._convert import Seconds
from ._lifecycle import AtEnd
from ._rpc import make_options
from .review import WorkspaceInfo
from .async_sandbox import AsyncSandbox
from .types import ExecResult, RuleLike
from .utils import PathLike

W = TypeVar("W", bound="AsyncWorkspace")


class AsyncWorkspace(AsyncSandbox):
    """A sandbox over a live directory, as `Sandbox.over` makes it; `status` has its life and its decision in one word.

    At the end of the `with` block it is stopped, and its changes wait; one without changes, or that was approved or rejected, is deleted.
    """

    @classmethod
    async def from_scope(
        cls: Type[W],
        path: PathLike,
        project: Optional[PathLike] = None,
        preset: Optional[str] = None,
        permissions: Optional[Iterable[RuleLike]] = None,
        reserve: Optional[Iterable[str]] = None,
        lock: bool = True,
        owner: Optional[str] = None,
        driver: Optional[str] = None,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        **options: Any,
    ) -> W:
        """Does the same as `Sandbox.over`; `url` is its `endpoint`."""
        return await cls.over(
            path, project, preset, permissions, reserve, lock, None, owner, driver, None, None, None, url, False, token, ca_cert, **options
        )

    @classmethod
    async def connect(  # type: ignore[override]
        cls: Type[W],
        workspace_id: str,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
    ) -> W:
        """Connects to an existing sandbox, also to a deleted one."""
        where = await asyncio.get_running_loop().run_in_executor(None, _private.ensure, make_options(url, False, token, ca_cert), url)
        return await cls._open(_lifecycle.connect(workspace_id, True, AtEnd.SETTLE), where)

    @property
    def status(self) -> str:  # type: ignore[override]
        """active, stopped, approved, rejected, deleted or error, when the server was last asked."""
        return self._life.info.state

    @property
    def info(self) -> WorkspaceInfo:  # type: ignore[override]
        """The state of the sandbox when the server was last asked; `refresh()` asks again."""
        known = self._life.info
        return WorkspaceInfo(
            id=known.id,
            status=known.state,
            scope=known.directory,
            project=known.project_root,
            owner=known.creator,
            driver=known.driver,
            file_count=known.changed_files,
            size_bytes=known.changed_bytes,
            version=known.version,
        )

    async def refresh(self) -> WorkspaceInfo:  # type: ignore[override]
        await super().refresh()
        return self.info

    async def run(  # type: ignore[override]
        self,
        command: Command,
        timeout: Seconds = None,
        env: Env = None,
        workdir: Optional[str] = None,
        stdin: Input = None,
        raise_on_error: bool = False,
        cwd: Optional[str] = None,
        on_stdout: OnOutput = None,
        on_stderr: OnOutput = None,
    ) -> ExecResult:
        """Runs a command as `Sandbox.run` does, with the server's timeout by default."""
        return await super().run(command, timeout, env, workdir, raise_on_error, stdin, cwd, on_stdout, on_stderr)
