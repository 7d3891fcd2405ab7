"""As client.py, for programs with an event loop. Made from it by tools/make-async-sdk."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Union

from . import _calls as calls
from . import _private
from ._archive import Progress
from ._calls import Command, Env, Input, Limits, Runtime
from ._convert import Seconds
from ._known import KnownSession
from ._rpc import AsyncCommandStream, AsyncTransport, make_options
from .types import (
    Codebase,
    Event,
    ExecResult,
    Explanation,
    FileInfo,
    RuleLike,
    SandboxInfo,
    Session,
    SessionStatus,
    UploadResult,
    Version,
)
from .utils import PathLike


class AsyncSessionWrapper(KnownSession):
    """A session, as `SessionWrapper`; its methods are coroutines."""

    def __init__(self, transport: AsyncTransport, session: Session) -> None:
        self._transport = transport
        self._session = session

    async def exec(self, command: str, timeout: Seconds = None) -> ExecResult:
        """Runs a command in the session. After the timeout the command is interrupted; the session stays open."""
        return await self._transport.run(calls.session_exec(self.id, command, timeout))

    def exec_stream(self, command: str, timeout: Seconds = None) -> AsyncCommandStream:
        """Runs a command in the session and returns an iterator over its output."""
        return self._transport.stream(calls.session_call("SessionExecStream", self.id, command, timeout))

    async def close(self) -> None:
        """Ends the shell and the commands that run in it."""
        await self._transport.run(calls.destroy_session(self.id))
        self._session.status = SessionStatus.CLOSED

    async def __aenter__(self) -> AsyncSessionWrapper:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self.status != SessionStatus.CLOSED:
            await self._transport.run(calls.close_quietly(self._session))


class AsyncSandboxClient:
    """A connection to a server, as `SandboxClient`; its methods are coroutines.

    >>> import asyncio
    >>> async def main():
    ...     async with AsyncSandboxClient() as client:
    ...         codebase = await client.create_codebase("example", owner_id="me")
    ...         await client.delete_codebase(codebase.id)
    ...         return codebase.name
    >>> asyncio.run(main())
    'example'
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        secure: bool = False,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        client_cert: Union[str, bytes, None] = None,
        client_key: Union[str, bytes, None] = None,
    ) -> None:
        options = make_options(endpoint, secure, token, ca_cert, client_cert, client_key)
        self._transport = AsyncTransport(_private.prefer(options, endpoint))

    @property
    def endpoint(self) -> str:
        return self._transport.options.endpoint

    async def close(self) -> None:
        """Closes the connection. Sandboxes keep running."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncSandboxClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def exec_stream(
        self,
        sandbox_id: str,
        command: Command,
        stdin: Input = None,
        env: Env = None,
        workdir: Optional[str] = None,
        timeout: Seconds = None,
    ) -> AsyncCommandStream:
        """Runs a command and returns an iterator over its output. At its end the stream has the `exit_code`."""
        return self._transport.stream(calls.exec_call("ExecStream", sandbox_id, command, stdin, env, workdir, timeout))

    async def create_session(self, sandbox_id: str, shell: Optional[str] = None, env: Env = None) -> AsyncSessionWrapper:
        """Opens a session. Without `shell` it is /bin/bash, or /bin/sh where there is none."""
        return AsyncSessionWrapper(self._transport, await self._transport.run(calls.create_session(sandbox_id, shell, env)))

    async def session(self, sandbox_id: str, shell: Optional[str] = None, env: Env = None) -> AsyncSessionWrapper:
        """The same as `create_session`."""
        return await self.create_session(sandbox_id, shell, env)

    async def create_sandbox(
        self,
        codebase_id: str = "",
        permissions: Optional[Iterable[RuleLike]] = None,
        labels: Optional[Mapping[str, str]] = None,
        expires_in: Seconds = None,
        runtime: Runtime = None,
        image: Optional[str] = None,
        resources: Limits = None,
        preset: Optional[str] = None,
        network: Optional[str] = None,
        env: Env = None,
        sync_on_completion: Optional[bool] = None,
        directory: Optional[PathLike] = None,
        **options: Any,
    ) -> SandboxInfo:
        """Makes a sandbox over a codebase, or over a `directory`; `start_sandbox` starts it. The rules are those of `preset`, followed by `permissions`.

        `options` are project_root, reserve (paths), lock, name, driver, profile, host_mount, restarts, tags, metadata, behavior, creator,
        creator_type and idempotency_key, with the meaning that docs/server.md gives them.
        """
        plan = calls.create_sandbox(
            codebase_id,
            permissions,
            labels,
            expires_in,
            runtime,
            image,
            resources,
            preset,
            network,
            env,
            sync_on_completion,
            directory,
            **options,
        )
        return await self._transport.run(plan)

    async def get_sandbox(self, sandbox_id: str, include_deleted: bool = False) -> SandboxInfo:
        """Returns the current state of a sandbox."""
        return await self._transport.run(calls.get_sandbox(sandbox_id, include_deleted))

    async def list_sandboxes(self, codebase_id: Optional[str] = None, **filters: Any) -> List[SandboxInfo]:
        """Lists all sandboxes but deleted ones, or those over one codebase.

        `filters` are status, base ("codebase", "directory"), decision ("open", "approved", "rejected"), name, directory, creator, tags, labels
        and, for administrators, owner_id.
        """
        return await self._transport.run(calls.list_sandboxes(codebase_id, **filters))

    async def start_sandbox(self, sandbox_id: str, timeout: Seconds = None) -> SandboxInfo:
        """Starts a sandbox; with a timeout, raises SandboxStartTimeoutError when it takes longer."""
        return await self._transport.run(calls.start_sandbox(sandbox_id, timeout))

    async def stop_sandbox(self, sandbox_id: str) -> SandboxInfo:
        """Stops a sandbox: its processes and sessions end, its changes stay."""
        return await self._transport.run(calls.stop_sandbox(sandbox_id))

    async def destroy_sandbox(self, sandbox_id: str, purge: bool = False) -> None:
        """Deletes a sandbox in any state. Changes that were not approved are kept for a while, unless `purge` is true."""
        await self._transport.run(calls.destroy_sandbox(sandbox_id, purge))

    async def update_permissions(
        self,
        sandbox_id: str,
        permissions: Optional[Iterable[RuleLike]] = None,
        preset: Optional[str] = None,
    ) -> SandboxInfo:
        """Replaces all rules of a sandbox. The new ones hold at once, also for files that are open.

        Nothing of a preset stays unless it is named again. To add rules, send ``get_sandbox(id).permissions`` with them.
        """
        return await self._transport.run(calls.update_permissions(sandbox_id, permissions, preset))

    async def explain_permission(self, sandbox_id: str, path: str) -> Explanation:
        """Explains which level a path has in the sandbox, and which rule decides that."""
        return await self._transport.run(calls.explain_permission(sandbox_id, path))

    async def list_events(
        self,
        sandbox_id: Optional[str] = None,
        codebase_id: Optional[str] = None,
        type: Optional[str] = None,
    ) -> List[Event]:
        """Lists what happened: commands, refusals, limits that were reached."""
        return await self._transport.run(calls.list_events(sandbox_id, codebase_id, type))

    async def exec(
        self,
        sandbox_id: str,
        command: Command,
        stdin: Input = None,
        env: Env = None,
        workdir: Optional[str] = None,
        timeout: Seconds = None,
    ) -> ExecResult:
        """Runs a command with /bin/sh in a running sandbox."""
        return await self._transport.run(calls.exec_command(sandbox_id, command, stdin, env, workdir, timeout))

    async def get_session(self, session_id: str) -> Session:
        """Returns the current state of a session."""
        return await self._transport.run(calls.get_session(session_id))

    async def list_sessions(self, sandbox_id: str) -> List[Session]:
        """Lists the sessions of a sandbox."""
        return await self._transport.run(calls.list_sessions(sandbox_id))

    async def destroy_session(self, session_id: str) -> None:
        """Ends a session and the commands that run in it."""
        await self._transport.run(calls.destroy_session(session_id))

    async def close_session(self, session_id: str) -> None:
        """The same as `destroy_session`."""
        await self._transport.run(calls.destroy_session(session_id))

    async def session_exec(self, session_id: str, command: str, timeout: Seconds = None) -> ExecResult:
        """Runs a command in a session. If it takes too long it is interrupted; the session lives on."""
        return await self._transport.run(calls.session_exec(session_id, command, timeout))

    async def create_codebase(self, name: str, owner_id: str) -> Codebase:
        """Makes an empty codebase."""
        return await self._transport.run(calls.create_codebase(name, owner_id))

    async def get_codebase(self, codebase_id: str) -> Codebase:
        """Returns the current state of a codebase."""
        return await self._transport.run(calls.get_codebase(codebase_id))

    async def list_codebases(self, owner_id: Optional[str] = None) -> List[Codebase]:
        """Lists all codebases, or those of one owner."""
        return await self._transport.run(calls.list_codebases(owner_id))

    async def delete_codebase(self, codebase_id: str, force: bool = False) -> None:
        """Deletes a codebase. With `force` running sandboxes over it are stopped first."""
        await self._transport.run(calls.delete_codebase(codebase_id, force))

    async def upload_file(
        self,
        codebase_id: str,
        file_path: str,
        content: Union[bytes, str],
        chunk_size: int = 65536,
        mode: int = 0,
    ) -> UploadResult:
        """Writes one file. `mode` decides only whether it is executable."""
        return await self._transport.run(calls.upload_file(codebase_id, file_path, content, chunk_size, mode))

    async def upload_directory(
        self,
        codebase_id: str,
        path: PathLike,
        ignore_patterns: Optional[Iterable[str]] = None,
        include_default_ignores: bool = True,
        progress: Union[Progress, bool, None] = None,
        compress: bool = False,
        replace: bool = False,
    ) -> UploadResult:
        """Sends a directory as one archive: modes and symbolic links survive, what ignore files name stays here. With
        `replace`, what is not in it goes from the codebase.
        """
        plan = calls.upload_directory(
            codebase_id, path, ignore_patterns, include_default_ignores, progress, compress, replace
        )
        return await self._transport.run(plan)

    async def download_file(self, codebase_id: str, file_path: str, version: int = 0) -> bytes:
        """Returns the content of a file, now or at a version."""
        return await self._transport.run(calls.download_file(codebase_id, file_path, version))

    async def download_archive(self, codebase_id: str, path: str = "") -> bytes:
        """Returns a tar archive of the codebase, or of a part of it, byte for byte.

        An agent may have written to its ``.git`` too: ``agentfense codebase get`` leaves out what git would run there.
        """
        return await self._transport.run(calls.download_archive(codebase_id, path))

    async def list_files(self, codebase_id: str, path: str = "", recursive: bool = False) -> List[FileInfo]:
        """Lists the files of a directory of the codebase."""
        return await self._transport.run(calls.list_files(codebase_id, path, recursive))

    async def delete_file(self, codebase_id: str, file_path: str) -> Codebase:
        """Deletes a file, or a directory with its content."""
        return await self._transport.run(calls.delete_file(codebase_id, file_path))

    async def list_versions(self, codebase_id: str) -> List[Version]:
        """Lists the versions of a codebase that are kept, the newest first."""
        return await self._transport.run(calls.list_versions(codebase_id))

    async def restore_version(self, codebase_id: str, version: int, path: str = "") -> Version:
        """Restores the codebase, or one path of it, to a version."""
        return await self._transport.run(calls.restore_version(codebase_id, version, path))
