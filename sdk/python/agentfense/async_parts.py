"""As parts.py, for programs with an event loop. Made from it by tools/make-async-sdk."""

from __future__ import annotations

from typing import Iterable, List, Optional, Union

from . import _calls as calls
from . import _lifecycle, _review, _work
from ._calls import Command, Env, Input, OnOutput
from ._convert import Seconds
from ._lifecycle import Life
from ._rpc import AsyncOutputStream, AsyncStream, AsyncTransport
from .async_client import AsyncSessionWrapper
from .review import Comment, FileChange, Hunk
from .types import (
    ExecResult,
    Explanation,
    FileStat,
    LintFinding,
    PermissionRule,
    ProcessInfo,
    RuleLike,
    RulesPreview,
    SearchResult,
    Session,
)


class AsyncPart:
    """The base of these classes."""

    def __init__(self, transport: AsyncTransport, life: Life) -> None:
        self._transport = transport
        self._life = life

    @property
    def _id(self) -> str:
        return self._life.info.id


class AsyncCommands(AsyncPart):
    """Running commands. A line of text goes to /bin/sh; a list is a program and its arguments."""

    async def run(
        self,
        command: Command,
        timeout: Seconds = calls.DEFAULT_RUN_TIMEOUT,
        env: Env = None,
        cwd: Optional[str] = None,
        stdin: Input = None,
        on_stdout: OnOutput = None,
        on_stderr: OnOutput = None,
        raise_on_error: bool = False,
    ) -> ExecResult:
        """Runs a command and waits for its end. `stdin` is text, bytes, or an open file.

        `on_stdout` and `on_stderr` are called with text as it comes. If one of them raises, the command is killed.
        """
        plan = self._life.run(command, timeout, env, cwd, raise_on_error, stdin, on_stdout, on_stderr)
        return await self._transport.run(plan)

    def stream(
        self,
        command: Command,
        timeout: Seconds = None,
        env: Env = None,
        cwd: Optional[str] = None,
        stdin: Input = None,
    ) -> AsyncOutputStream:
        """Runs a command and returns an iterator over its output. At its end the stream has the `exit_code`; closing the stream before that kills
        the command."""
        return self._transport.outputs(calls.exec_call("ExecStream", self._id, command, stdin, env, cwd, timeout))

    async def start(
        self,
        command: Command,
        env: Env = None,
        cwd: Optional[str] = None,
        name: Optional[str] = None,
        tag: Optional[str] = None,
    ) -> ProcessInfo:
        """Starts a command in the background. `processes` manages it from then on."""
        return await self._transport.run(_work.start_process(self._id, command, env, cwd, name, tag))


class AsyncFiles(AsyncPart):
    """The files of a running sandbox as its commands see them: the rules hold here, too. Paths count from /workspace."""

    async def read(self, path: str) -> str:
        """Reads a file as text."""
        return (await self.read_bytes(path)).decode()

    async def read_bytes(self, path: str, offset: int = 0, length: int = 0) -> bytes:
        """Reads a file, or `length` bytes of it from `offset`."""
        return await self._transport.run(_work.read_file(self._id, _lifecycle.codebase_path(path), offset, length))

    async def write(
        self, path: str, content: Union[str, bytes], mode: int = 0, exclusive: bool = False, etag: str = ""
    ) -> FileStat:
        """Writes a file whole, or not at all. With `exclusive` it must not exist; with an `etag` it must still have that."""
        plan = _work.write_file(self._id, _lifecycle.codebase_path(path), content, mode, exclusive, etag)
        return await self._transport.run(plan)

    async def list(self, path: str = "") -> List[FileStat]:
        """Lists a directory."""
        return await self._transport.run(_work.list_directory(self._id, _lifecycle.codebase_path(path)))

    async def stat(self, path: str) -> FileStat:
        return await self._transport.run(_work.stat_file(self._id, _lifecycle.codebase_path(path)))

    async def exists(self, path: str) -> bool:
        return await self._transport.run(_work.file_exists(self._id, _lifecycle.codebase_path(path)))

    async def make_dir(self, path: str) -> FileStat:
        """Makes a directory and those above it. One that exists is no error."""
        return await self._transport.run(_work.make_directory(self._id, _lifecycle.codebase_path(path)))

    async def remove(self, path: str, recursive: bool = False) -> None:
        await self._transport.run(_work.remove_file(self._id, _lifecycle.codebase_path(path), recursive))

    async def rename(self, path: str, new_path: str, replace: bool = False) -> FileStat:
        old, new = _lifecycle.codebase_path(path), _lifecycle.codebase_path(new_path)
        return await self._transport.run(_work.rename_file(self._id, old, new, replace))

    async def search(
        self,
        text: str = "",
        glob: str = "",
        path: str = "",
        ignore_case: bool = False,
        context: int = 0,
        max_results: int = 0,
    ) -> SearchResult:
        """Finds lines that contain `text` in files that match `glob`; without `text` it finds the files themselves."""
        where = _lifecycle.codebase_path(path)
        return await self._transport.run(_work.search_files(self._id, text, glob, where, ignore_case, context, max_results))


class AsyncSessions(AsyncPart):
    """Shells that remember their directory, variables and functions."""

    async def create(self, shell: Optional[str] = None, env: Env = None) -> AsyncSessionWrapper:
        """Opens a session with `shell`, or /bin/bash, or /bin/sh."""
        return AsyncSessionWrapper(self._transport, await self._transport.run(calls.create_session(self._id, shell, env)))

    async def get(self, session_id: str) -> AsyncSessionWrapper:
        """Returns a session that is open already."""
        return AsyncSessionWrapper(self._transport, await self._transport.run(calls.get_session(session_id)))

    async def list(self) -> List[Session]:
        return await self._transport.run(calls.list_sessions(self._id))


class AsyncProcesses(AsyncPart):
    """Processes in the background. They go on when this program ends; their output is in a log."""

    async def start(
        self,
        command: Command,
        env: Env = None,
        cwd: Optional[str] = None,
        name: Optional[str] = None,
        tag: Optional[str] = None,
    ) -> ProcessInfo:
        """Starts a process. `name` is for people, `tag` is for finding it again."""
        return await self._transport.run(_work.start_process(self._id, command, env, cwd, name, tag))

    async def list(self, running: bool = False, tag: Optional[str] = None) -> List[ProcessInfo]:
        """Lists all processes, or those that run, or those with a tag; the oldest first."""
        return await self._transport.run(_work.list_processes(self._id, running, tag))

    async def get(self, process_id: str) -> ProcessInfo:
        """Returns a process by its id or its pid."""
        return await self._transport.run(_work.get_process(self._id, process_id))

    async def kill(self, process_id: str, grace: Seconds = None) -> ProcessInfo:
        """Kills a process and its children: SIGTERM, and SIGKILL after `grace` (2 seconds)."""
        return await self._transport.run(_work.kill_process(self._id, process_id, grace))

    async def kill_all(self, grace: Seconds = None) -> int:
        """Kills all processes and returns their number."""
        return await self._transport.run(_work.kill_all_processes(self._id, grace))

    async def log(self, process_id: str, tail: int = 0) -> str:
        """Returns what a process printed, or the last `tail` lines."""
        return (await self._transport.run(_work.read_log(self._id, process_id, tail))).decode(errors="replace")

    def follow(self, process_id: str, only_new: bool = False) -> AsyncStream[bytes]:
        """Returns an iterator over the output of a process, which ends when the process does."""
        return self._transport.stream(_work.follow_call(self._id, process_id, only_new))

    async def wait(self, process_id: str) -> ProcessInfo:
        """Waits until a process ends."""
        async with self.follow(process_id, only_new=True) as stream:
            async for _ in stream:
                pass
        return await self.get(process_id)


class AsyncRules(AsyncPart):
    """The rules of a sandbox. Changes hold at once, also while it runs."""

    async def list(self) -> List[PermissionRule]:
        """Returns the current rules."""
        await self._transport.run(self._life.refresh())
        return self._life.info.permissions

    async def set(self, permissions: Optional[Iterable[RuleLike]] = None, preset: Optional[str] = None) -> None:
        """Replaces all rules by those of `preset`, followed by `permissions`."""
        self._life.info = await self._transport.run(calls.update_permissions(self._id, permissions, preset))

    async def add(self, *rules: RuleLike) -> None:
        """Appends rules."""
        self._life.info = await self._transport.run(calls.add_rules(self._id, rules))

    async def remove(self, *patterns: str) -> None:
        """Removes the rules with these patterns."""
        self._life.info = await self._transport.run(calls.remove_rules(self._id, patterns))

    async def explain(self, path: str) -> Explanation:
        """Explains which level a path has, and which rule decides that."""
        return await self._transport.run(calls.explain_permission(self._id, _lifecycle.codebase_path(path)))

    async def preview(
        self,
        permissions: Optional[Iterable[RuleLike]] = None,
        preset: Optional[str] = None,
        add: Optional[Iterable[RuleLike]] = None,
        remove: Optional[Iterable[str]] = None,
        paths: Optional[Iterable[str]] = None,
    ) -> RulesPreview:
        """Returns what other rules would reveal and hide. Either `preset` and `permissions` instead of all rules, or `add` and `remove`."""
        return await self._transport.run(calls.preview_rules(self._id, permissions, preset, add, remove, paths))

    async def lint(self) -> List[LintFinding]:
        """Lists mistakes that the rules probably contain, errors first."""
        return await self._transport.run(calls.lint_rules(self._id))


class AsyncComments(AsyncPart):
    """Comments of reviewers on the changes."""

    async def add(
        self, text: str, about: Union[str, FileChange, Hunk], line: int = 0, actor: Optional[str] = None
    ) -> Comment:
        """Adds a comment about a file (a path, or a FileChange of a diff), a hunk, or a line of the new text."""
        return await self._transport.run(_review.add_comment(self._id, text, about, line, actor))

    async def list(self, path: Optional[str] = None, only_open: bool = False) -> List[Comment]:
        """Lists all comments, or those at and below `path`, or those that are not resolved; the oldest first."""
        return await self._transport.run(_review.comments(self._id, path, only_open))

    async def resolve(self, comment_id: str, reopen: bool = False, actor: Optional[str] = None) -> Comment:
        """Marks a comment as resolved, or with `reopen` as open again."""
        return await self._transport.run(_review.resolve_comment(self._id, comment_id, reopen, actor))

    async def delete(self, comment_id: str) -> None:
        await self._transport.run(_review.delete_comment(self._id, comment_id))
