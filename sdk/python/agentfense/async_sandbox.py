"""As sandbox.py, for programs with an event loop. Made from it by tools/make-async-sdk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Type, TypeVar, Union

from . import _calls as calls
from . import _lifecycle, _private, _review
from ._archive import Progress
from ._calls import Command, Env, Input, Limits, OnOutput, Runtime
from ._convert import Seconds
from ._known import KnownSandbox
from ._lifecycle import AtEnd, Life
from ._review import ChosenFiles, Hunks
from ._rpc import AsyncCommandStream, Options, Plan, AsyncTransport, is_local, make_options
from .async_client import AsyncSessionWrapper
from .async_parts import AsyncCommands, AsyncComments, AsyncFiles, AsyncProcesses, AsyncRules, AsyncSessions
from .review import Approval, ApprovalRecord, Commit, Conflicts, Diff, Finish, Pending, Rebase, Undo
from .types import Event, ExecResult, Explanation, RuleLike
from .utils import PathLike, check_directory

if TYPE_CHECKING:
    from .async_workspace import AsyncWorkspace

S = TypeVar("S", bound="AsyncSandbox")


class AsyncSandbox(KnownSandbox):
    """A sandbox, as `Sandbox`; its methods are coroutines.

    >>> import asyncio, tempfile
    >>> async def main():
    ...     with tempfile.TemporaryDirectory() as project:
    ...         async with await AsyncSandbox.from_local(project) as sandbox:
    ...             result = await sandbox.run("echo hello")
    ...             async with await sandbox.session() as session:
    ...                 await session.exec("cd /tmp")
    ...                 return result.stdout, (await session.exec("pwd")).stdout
    >>> asyncio.run(main())
    ('hello\\n', '/tmp\\n')
    """

    def __init__(self, transport: AsyncTransport, life: Life) -> None:
        self._transport = transport
        self._life = life
        self.commands = AsyncCommands(transport, life)
        self.files = AsyncFiles(transport, life)
        self.sessions = AsyncSessions(transport, life)
        self.processes = AsyncProcesses(transport, life)
        self.rules = AsyncRules(transport, life)
        self.comments = AsyncComments(transport, life)

    @classmethod
    async def _open(cls: Type[S], plan: Plan[Life], options: Options) -> S:
        transport = AsyncTransport(options)
        try:
            return cls(transport, await transport.run(plan))
        except BaseException:
            await transport.close()
            raise

    @classmethod
    async def from_local(
        cls: Type[S],
        path: PathLike,
        preset: Optional[str] = None,
        permissions: Optional[Iterable[RuleLike]] = None,
        runtime: Runtime = None,
        image: Optional[str] = None,
        resources: Limits = None,
        endpoint: Optional[str] = None,
        secure: bool = False,
        owner_id: Optional[str] = None,
        codebase_name: Optional[str] = None,
        ignore_patterns: Optional[Iterable[str]] = None,
        labels: Optional[Mapping[str, str]] = None,
        auto_start: bool = True,
        start_timeout: Seconds = None,
        progress: Union[Progress, bool, None] = None,
        compress: bool = False,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        **options: Any,
    ) -> S:
        """Makes a sandbox over a copy of a directory. The end of the `with` block destroys both.

        The rules are those of `preset` and after them `permissions`; with neither, `agent-safe`. What `.gitignore`,
        `.sandboxignore` and `.agentfenseignore` name is not sent, nor what `DEFAULT_IGNORES` does. `progress` is called with an
        UploadProgress; True shows a bar. `runtime` is "bwrap" or "docker", an `image` means the latter; with neither it is the
        server's choice. `options` are those of `SandboxClient.create_sandbox`: network, env, expires_in, sync_on_completion and others.
        With `sync_on_completion=False` the changes of commands wait for `approve()`, too.

        If no `endpoint` is given, none is in AGENTFENSE_ENDPOINT, and none answers at localhost:9000, a private server is started
        for the life of this process, unless AGENTFENSE_AUTOSTART is 0.
        """
        check_directory(path)
        _lifecycle.check_preset(preset)
        options.update(runtime=runtime, image=image, resources=resources, labels=labels)
        where = await asyncio.get_running_loop().run_in_executor(None, _private.ensure, make_options(endpoint, secure, token, ca_cert), endpoint)
        plan = _lifecycle.from_local(
            path,
            preset,
            permissions,
            owner_id,
            codebase_name,
            ignore_patterns,
            auto_start,
            start_timeout,
            progress,
            compress,
            **options,
        )
        return await cls._open(plan, where)

    @classmethod
    async def from_codebase(
        cls: Type[S],
        codebase_id: str,
        preset: Optional[str] = None,
        permissions: Optional[Iterable[RuleLike]] = None,
        runtime: Runtime = None,
        image: Optional[str] = None,
        resources: Limits = None,
        endpoint: Optional[str] = None,
        secure: bool = False,
        labels: Optional[Mapping[str, str]] = None,
        auto_start: bool = True,
        start_timeout: Seconds = None,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        **options: Any,
    ) -> S:
        """Makes a sandbox over an existing codebase. The end of the `with` block destroys the sandbox and keeps the codebase."""
        where = _private.prefer(make_options(endpoint, secure, token, ca_cert), endpoint)
        options.update(runtime=runtime, image=image, resources=resources, labels=labels)
        plan = _lifecycle.from_codebase(codebase_id, preset, permissions, auto_start, start_timeout, **options)
        return await cls._open(plan, where)

    @classmethod
    async def over(
        cls: Type[S],
        path: PathLike,
        project: Optional[PathLike] = None,
        preset: Optional[str] = None,
        permissions: Optional[Iterable[RuleLike]] = None,
        reserve: Optional[Iterable[str]] = None,
        lock: bool = True,
        name: Optional[str] = None,
        owner: Optional[str] = None,
        driver: Optional[str] = None,
        runtime: Runtime = None,
        image: Optional[str] = None,
        resources: Limits = None,
        endpoint: Optional[str] = None,
        secure: bool = False,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        auto_start: bool = True,
        start_timeout: Seconds = None,
        **options: Any,
    ) -> S:
        """Makes a sandbox over the directory itself: nothing is copied, and nothing in the directory changes until `approve()`.

        The directory is one of the server's host; `project` is the directory above it that paths are shown from (without: itself).
        The rules are those of `preset` and after them `permissions`; with neither, `development`. With `permissions` alone, files that they do
        not name can be seen and not read. No other sandbox may reserve the paths `reserve` meanwhile (without: the directory;
        `lock=False`: none). `owner` is who it is for, in your words. `options` are those of `SandboxClient.create_sandbox`: network, env,
        labels, tags, metadata, behavior, profile, expires_in and others. The server is found as by `from_local`.

        At the end of the `with` block the sandbox is stopped, and its changes wait: `connect` goes on with it. One without changes, or whose
        changes were approved or rejected, is deleted. A private server takes changes that were not approved with it.
        """
        reached = make_options(endpoint, secure, token, ca_cert)
        if is_local(reached.endpoint):
            check_directory(path)
        _lifecycle.check_preset(preset)
        options.update(reserve=reserve, lock=lock, name=name, creator=owner, driver=driver)
        options.update(runtime=runtime, image=image, resources=resources)
        where = await asyncio.get_running_loop().run_in_executor(None, _private.ensure, reached, endpoint)
        return await cls._open(_lifecycle.over(path, project, preset, permissions, auto_start, start_timeout, **options), where)

    @staticmethod
    async def from_scope(path: PathLike, **options: Any) -> AsyncWorkspace:
        """Does the same as `over`, with the arguments of `Workspace.from_scope`."""
        from .async_workspace import AsyncWorkspace

        return await AsyncWorkspace.from_scope(path, **options)

    @classmethod
    async def connect(
        cls: Type[S],
        sandbox_id: str,
        endpoint: Optional[str] = None,
        secure: bool = False,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
        include_deleted: bool = False,
    ) -> S:
        """Connects to an existing sandbox by its id or name. The end of the `with` block does not change it.

        With `include_deleted` it may also be a deleted one, for `restore()`.
        """
        where = _private.prefer(make_options(endpoint, secure, token, ca_cert), endpoint)
        return await cls._open(_lifecycle.connect(sandbox_id, include_deleted), where)

    @property
    def endpoint(self) -> str:
        """The address of the server."""
        return self._transport.options.endpoint

    async def disk_use(self) -> int:
        """Returns how many bytes the sandbox takes on the server's disk: changes, home, logs and approvals."""
        return await self._transport.run(calls.disk_use(self.id))

    async def start(self: S) -> S:
        """Starts the sandbox unless it runs. If it was approved or rejected, that decision is open again."""
        await self._transport.run(self._life.start())
        return self

    async def stop(self: S) -> S:
        """Stops the sandbox if it runs: its processes end, its changes stay, and it can be started again."""
        await self._transport.run(self._life.stop())
        return self

    async def refresh(self: S) -> S:
        """Asks the server for the current state of the sandbox."""
        await self._transport.run(self._life.refresh())
        return self

    async def destroy(self, delete_codebase: Optional[bool] = None) -> None:
        """Deletes the sandbox, and the codebase if `from_local` made it or `delete_codebase` is true. A second call does nothing."""
        if not self._life.is_destroyed:
            try:
                await self._transport.run(self._life.destroy(delete_codebase))
            finally:
                await self._transport.close()

    async def delete(self, purge: bool = False) -> None:
        """Deletes the sandbox with its changes. For a day `restore` brings both back, unless `purge` is true."""
        await self._transport.run(self._life.delete(purge))

    async def close(self) -> None:
        """Does what the end of a `with` block does: destroys a sandbox over a copy or a codebase, stops one over a directory, and only disconnects
        from one that `connect` returned."""
        if self._life.at_end == AtEnd.DESTROY:
            await self.destroy()
            return
        try:
            if self._life.at_end == AtEnd.SETTLE:
                await self._transport.run(self._life.settle())
        finally:
            await self._transport.close()

    async def run(
        self,
        command: Command,
        timeout: Seconds = calls.DEFAULT_RUN_TIMEOUT,
        env: Env = None,
        workdir: Optional[str] = None,
        raise_on_error: bool = False,
        stdin: Input = None,
        cwd: Optional[str] = None,
        on_stdout: OnOutput = None,
        on_stderr: OnOutput = None,
    ) -> ExecResult:
        """Runs a command in /workspace or `cwd`, for at most 60 seconds by default. A string is a line for /bin/sh, a list a program with its
        arguments.

        An exit code other than 0 raises an exception only with `raise_on_error`: a CommandExecutionError, which is also a
        PermissionDeniedError or a ResourceLimitExceededError if that was the cause. `stdin` is text, bytes, or an open file of any size.
        `on_stdout` and `on_stderr` are called with text while the command runs. `workdir` is the old name of `cwd`.
        """
        plan = self._life.run(command, timeout, env, cwd or workdir, raise_on_error, stdin, on_stdout, on_stderr)
        return await self._transport.run(plan)

    async def exec(
        self, command: Command, stdin: Input = None, env: Env = None, workdir: Optional[str] = None, timeout: Seconds = None
    ) -> ExecResult:
        """Runs a command as `run` does, with the server's timeout by default."""
        return await self._transport.run(calls.exec_command(self.id, command, stdin, env, workdir, timeout))

    def exec_stream(
        self, command: Command, stdin: Input = None, env: Env = None, workdir: Optional[str] = None, timeout: Seconds = None
    ) -> AsyncCommandStream:
        """Runs a command and returns an iterator over its output, in bytes. At its end the stream has the `exit_code`."""
        return self._transport.stream(calls.exec_call("ExecStream", self.id, command, stdin, env, workdir, timeout))

    async def session(self, shell: Optional[str] = None, env: Env = None) -> AsyncSessionWrapper:
        """Opens a shell that keeps its directory and variables: `shell`, or /bin/bash, or /bin/sh."""
        return AsyncSessionWrapper(self._transport, await self._transport.run(calls.create_session(self.id, shell, env)))

    async def read_file(self, path: str) -> str:
        """Reads a file of the codebase as text. This method and the next three bypass the rules, because they use the codebase and not the
        sandbox. Over a directory there is no codebase: there they do what those of `files` do."""
        return (await self.read_file_bytes(path)).decode()

    async def read_file_bytes(self, path: str) -> bytes:
        """Reads a file of the codebase."""
        return await self._transport.run(self._life.read_file(path))

    async def write_file(self, path: str, content: Union[str, bytes]) -> None:
        """Writes a file of the codebase. The sandbox sees it at once."""
        await self._transport.run(self._life.write_file(path, content))

    async def list_files(self, path: str = "", recursive: bool = False) -> List[str]:
        """Lists paths in the codebase."""
        return await self._transport.run(self._life.list_files(path, recursive))

    async def explain(self, path: str) -> Explanation:
        """Explains which level a path has in the sandbox, and which rule decides that."""
        return await self._transport.run(calls.explain_permission(self.id, _lifecycle.codebase_path(path)))

    async def events(self, type: Optional[str] = None) -> List[Event]:
        """Lists what happened in the sandbox: commands, refusals, limits that were reached."""
        return await self._transport.run(calls.list_events(sandbox_id=self.id, type=type))

    async def diff(self, path: Optional[str] = None, shown: bool = True) -> Diff:
        """Returns the changes of the sandbox, or those at and below `path`. Over a codebase these are the changes that were not synced.

        The server records that these changes were shown, because only changes that were shown can be approved. With `shown=False` it does
        not.
        """
        return await self._transport.run(_review.diff(self.id, path, shown))

    async def patch(self, path: Optional[str] = None) -> bytes:
        """Returns the changes as a patch for `git apply`. Its bytes are exact, so do not print them to a terminal."""
        return await self._transport.run(_review.patch(self.id, path))

    async def approve(
        self,
        files: Optional[ChosenFiles] = None,
        hunks: Hunks = None,
        message: Optional[str] = None,
        commit: bool = False,
        diff: Optional[Diff] = None,
        acknowledge: Union[bool, str, Iterable[str]] = False,
        force: bool = False,
        override_acceptance: bool = False,
        dry_run: bool = False,
        actor: Optional[str] = None,
        stop: bool = False,
        run_hooks: bool = False,
    ) -> Approval:
        """Writes changes into the directory, or into the codebase as a new version: all of them, `files`, or `hunks` ({path: [id, ...]}, or a
        selection of `Diff.hunks`).

        The changes must still be those that `diff` has, or that the last call of `diff()` by anybody returned; otherwise a StaleDiffError is
        raised. A ConflictError means that the project has changed, too, and that the changes cannot be merged. Files that would execute later
        on their own, such as hooks, raise a NotAcknowledgedError unless `acknowledge` is True or names them (paths, or kinds such as "hook").
        Some drivers raise a WouldStopError unless `stop` permits that the sandbox is stopped and started again. Whenever an exception is
        raised, nothing was written.

        `commit` also commits the files to the project's repository, with `message`. `dry_run` writes nothing; the answer's `refusal` says why an
        approval would fail.
        """
        plan = _review.approve(
            self.id, files, hunks, message, commit, diff, acknowledge, force, override_acceptance, dry_run, actor, stop, run_hooks
        )
        return await self._transport.run(plan)

    async def reject(self, actor: Optional[str] = None) -> None:
        """Rejects all changes and stops the sandbox. `restore` takes the decision back."""
        await self._transport.run(self._life.reject(actor))

    async def restore(self) -> None:
        """Brings a deleted, rejected or approved sandbox back. It is stopped then, and has its changes."""
        await self._transport.run(self._life.restore())

    async def finish(self, outcome: str = "completed") -> Finish:
        """Tells the server that the agent's run is over (completed, failed, cancelled). The server approves or rejects the changes if the sandbox's
        `behavior` permits that without a person."""
        return await self._transport.run(self._life.finish(outcome))

    async def discard(self, files: Optional[ChosenFiles] = None, stop: bool = False) -> int:
        """Discards the changes of `files`, or all changes, and returns the number of files. The agent sees the original files again. `stop` as in
        `approve`."""
        return await self._transport.run(_review.discard(self.id, files, stop))

    async def undo(self, approval_id: Optional[str] = None, dry_run: bool = False, stop: bool = False) -> Undo:
        """Undoes an approval: the one with this id, or the last one. `stop` as in `approve`."""
        return await self._transport.run(_review.undo(self.id, approval_id, dry_run, stop))

    async def approvals(self) -> List[ApprovalRecord]:
        """Lists the approvals and undos of the sandbox, the newest first."""
        return await self._transport.run(_review.approvals(self.id))

    async def conflicts(self) -> Conflicts:
        """Compares the changes with the current state of the project."""
        return await self._transport.run(_review.conflicts(self.id))

    async def rebase(self, strategy: str = "merge", stop: bool = False) -> Rebase:
        """Rebases the changes onto the current state of the project. The strategies are "regenerate" (only looks), "merge" (conflicts stay), "ours"
        (the project wins conflicts) and "theirs" (the sandbox wins them). `stop` as in `approve`."""
        return await self._transport.run(_review.rebase(self.id, strategy, stop))

    async def pending(self) -> Pending:
        """Returns the files that approvals wrote into the project's repository and that are in no commit yet."""
        return await self._transport.run(_review.pending(self._life.info))

    async def commit(self, message: Optional[str] = None, files: Optional[Iterable[str]] = None) -> Commit:
        """Commits those files, or some of them. The server writes a message if none is given."""
        return await self._transport.run(_review.commit(self._life.info, message, files))

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
