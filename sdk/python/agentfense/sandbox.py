"""A sandbox on a project, in one line."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Union

from . import _calls as calls
from . import _lifecycle, _private
from ._archive import Progress
from ._calls import Env, Input, Limits, Runtime
from ._convert import Seconds
from ._known import KnownSandbox
from ._lifecycle import Life
from ._rpc import CommandStream, Options, Plan, Transport, make_options
from .client import SessionWrapper
from .types import Event, ExecResult, Explanation, RuleLike
from .utils import PathLike, check_directory
from .workspace import Workspace


class Sandbox(KnownSandbox):
    """A sandbox, from its making to its end.

    >>> import os, tempfile
    >>> project = tempfile.TemporaryDirectory()
    >>> for name, text in (("app.py", "print('hello')"), ("server.key", "secret")):
    ...     _ = open(os.path.join(project.name, name), "w").write(text)
    >>> with Sandbox.from_local(project.name) as sandbox:
    ...     print(sandbox.run("python3 app.py; ls").stdout, end="")
    ...     print(sandbox.run("cat server.key").stderr, end="")
    ...     print(sandbox.run("echo x > app.py").success)
    hello
    app.py
    output
    tmp
    cat: server.key: No such file or directory
    False
    >>> project.cleanup()
    """

    def __init__(self, transport: Transport, life: Life) -> None:
        self._transport = transport
        self._life = life

    @staticmethod
    def _open(plan: Plan[Life], options: Options) -> Sandbox:
        transport = Transport(options)
        try:
            return Sandbox(transport, transport.run(plan))
        except BaseException:
            transport.close()
            raise

    @classmethod
    def from_local(
        cls,
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
    ) -> Sandbox:
        """A sandbox over a copy of a directory. At the end of the `with` block both are gone.

        The rules are those of `preset` and after them `permissions`; with neither, `agent-safe`. What `.gitignore`,
        `.sandboxignore` and `.agentfenseignore` name is not sent, nor what `DEFAULT_IGNORES` does. `progress` is called with an
        UploadProgress; True shows a bar. `runtime` is "bwrap" or "docker", an `image` means the latter; with neither it is the
        server's choice. `options` are those of `create_sandbox`: network, env, expires_in, sync_on_completion.

        If no `endpoint` is given, none is in AGENTFENSE_ENDPOINT, and none answers at localhost:9000, a private server is started
        for the life of this process, unless AGENTFENSE_AUTOSTART is 0.
        """
        check_directory(path)
        _lifecycle.check_preset(preset)
        options.update(runtime=runtime, image=image, resources=resources, labels=labels)
        where = _private.ensure(make_options(endpoint, secure, token, ca_cert), endpoint)
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
        return cls._open(plan, where)

    @classmethod
    def from_codebase(
        cls,
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
    ) -> Sandbox:
        """A sandbox over a codebase that is there. At the end of the `with` block the sandbox is gone, the codebase stays."""
        where = _private.prefer(make_options(endpoint, secure, token, ca_cert), endpoint)
        options.update(runtime=runtime, image=image, resources=resources, labels=labels)
        plan = _lifecycle.from_codebase(codebase_id, preset, permissions, auto_start, start_timeout, **options)
        return cls._open(plan, where)

    @staticmethod
    def from_scope(path: PathLike, **options: Any) -> Workspace:
        """A sandbox over the directory itself, whose changes are reviewed: `Workspace.from_scope`, with the same options."""
        return Workspace.from_scope(path, **options)

    @classmethod
    def connect(
        cls,
        sandbox_id: str,
        endpoint: Optional[str] = None,
        secure: bool = False,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
    ) -> Sandbox:
        """A sandbox that somebody made. The end of the `with` block leaves it alone; `destroy()` does not."""
        where = _private.prefer(make_options(endpoint, secure, token, ca_cert), endpoint)
        return cls._open(_lifecycle.connect(sandbox_id), where)

    @property
    def endpoint(self) -> str:
        """Where the server is."""
        return self._transport.options.endpoint

    def start(self) -> Sandbox:
        """Starts it, if it does not run."""
        self._transport.run(self._life.start())
        return self

    def stop(self) -> Sandbox:
        """Ends its processes, if it runs. What it changed stays; it can be started again."""
        self._transport.run(self._life.stop())
        return self

    def refresh(self) -> Sandbox:
        """Looks what the server says of it now."""
        self._transport.run(self._life.refresh())
        return self

    def destroy(self, delete_codebase: Optional[bool] = None) -> None:
        """Removes it; the codebase too if `from_local` made that, or as `delete_codebase` says. A second time does nothing."""
        if not self._life.is_destroyed:
            try:
                self._transport.run(self._life.destroy(delete_codebase))
            finally:
                self._transport.close()

    def close(self) -> None:
        """What the end of a `with` block does: destroys what was made here, leaves alone what was only connected to."""
        if self._life.owns_sandbox:
            self.destroy()
        else:
            self._transport.close()

    def run(
        self,
        command: str,
        timeout: Seconds = calls.DEFAULT_RUN_TIMEOUT,
        env: Env = None,
        workdir: Optional[str] = None,
        raise_on_error: bool = False,
    ) -> ExecResult:
        """Runs a command with /bin/sh, in /workspace or `workdir`, for at most 60 seconds unless said otherwise.

        An exit code other than 0 is an error only with `raise_on_error`: a CommandExecutionError, which is a
        PermissionDeniedError or a ResourceLimitExceededError as well where that was the cause.
        """
        return self._transport.run(self._life.run(command, timeout, env, workdir, raise_on_error))

    def exec(
        self, command: str, stdin: Input = None, env: Env = None, workdir: Optional[str] = None, timeout: Seconds = None
    ) -> ExecResult:
        """As `run`, with input, and with the server's timeout unless said otherwise."""
        return self._transport.run(calls.exec_command(self.id, command, stdin, env, workdir, timeout))

    def exec_stream(
        self, command: str, stdin: Input = None, env: Env = None, workdir: Optional[str] = None, timeout: Seconds = None
    ) -> CommandStream:
        """The output of a command as it comes, as bytes; afterwards `exit_code` of the stream tells how it ended."""
        return self._transport.stream(calls.exec_call("ExecStream", self.id, command, stdin, env, workdir, timeout))

    def session(self, shell: Optional[str] = None, env: Env = None) -> SessionWrapper:
        """Opens a shell that remembers: /bin/bash where there is one, unless another is named."""
        return SessionWrapper(self._transport, self._transport.run(calls.create_session(self.id, shell, env)))

    def read_file(self, path: str) -> str:
        """A file of the codebase, as text. This and the next act on the codebase: rules are for what runs in the sandbox."""
        return self.read_file_bytes(path).decode()

    def read_file_bytes(self, path: str) -> bytes:
        """A file of the codebase."""
        return self._transport.run(self._life.read_file(path))

    def write_file(self, path: str, content: Union[str, bytes]) -> None:
        """Writes a file of the codebase; the sandbox sees it at once."""
        self._transport.run(self._life.write_file(path, content))

    def list_files(self, path: str = "", recursive: bool = False) -> List[str]:
        """Paths in the codebase."""
        return self._transport.run(self._life.list_files(path, recursive))

    def explain(self, path: str) -> Explanation:
        """Which level a path has here, by which rule, and why."""
        return self._transport.run(calls.explain_permission(self.id, _lifecycle.codebase_path(path)))

    def events(self, type: Optional[str] = None) -> List[Event]:
        """What happened here: commands, refusals, limits that were reached."""
        return self._transport.run(calls.list_events(sandbox_id=self.id, type=type))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
