"""A sandbox over a live directory, whose changes are reviewed."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Union

from . import _private, _review
from ._known import KnownWorkspace
from ._review import Hunks, Plan, Seconds, T
from ._web import Site, make_site
from .review import Approval, Conflicts, Diff, FileChange, Finish, Rebase, Undo, WorkspaceInfo
from .types import ExecResult, RuleLike
from .utils import PathLike


class Workspace(KnownWorkspace):
    """A sandbox over a live directory: nothing is copied, and nothing in it changes until `approve()`.

    >>> import pathlib, tempfile
    >>> place = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(place.name, "app.py")
    >>> _ = file.write_text("print('hello')\\n")
    >>> with Workspace.from_scope(place.name) as workspace:
    ...     _ = workspace.run("echo 'print(1)' >> app.py; echo x > junk")
    ...     diff = workspace.diff()
    ...     diff.paths, diff["app.py"].hunks[0].lines
    ...     workspace.approve(["app.py"]).remaining, file.read_text()
    ...     _ = workspace.undo()
    ...     file.read_text()
    (['app.py', 'junk'], [" print('hello')", '+print(1)'])
    (1, "print('hello')\\nprint(1)\\n")
    "print('hello')\\n"
    >>> place.cleanup()

    At the end of the `with` block it is stopped, and its changes wait; one that was approved or rejected is deleted.
    """

    def __init__(self, site: Site, info: WorkspaceInfo) -> None:
        self._site = site
        self._info = info

    def _run(self, plan: Plan[T]) -> T:
        return _review.run(self._site, plan)

    @classmethod
    def from_scope(
        cls,
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
    ) -> Workspace:
        """A new one over `path`, in the project `project` (without: `path` itself), started.

        The rules are those of `preset` and after them `permissions`; with neither, `development`. With `permissions` alone, what
        they do not name can be seen and not read. `reserve` are paths that no other workspace may reserve meanwhile (without: the
        scope; `lock=False`: none). `options` are further fields of the request, such as `behavior`.

        `url` is `http://host:port`, `https://...` or `unix:/path`; else AGENTFENSE_URL, else a server at localhost:8080, else a
        private one for the life of this process, with which the changes that were not approved go as well.
        """
        site = _private.ensure_web(make_site(url, token, ca_cert), url)
        plan = _review.create(path, project, preset, permissions, reserve, lock, owner, driver, **options)
        return cls(site, _review.run(site, plan))

    @classmethod
    def connect(
        cls,
        workspace_id: str,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca_cert: Union[str, bytes, None] = None,
    ) -> Workspace:
        """One that somebody made."""
        site = _private.ensure_web(make_site(url, token, ca_cert), url)
        return cls(site, _review.run(site, _review.get(workspace_id)))

    def refresh(self) -> WorkspaceInfo:
        self._info = self._run(_review.get(self.id))
        return self._info

    def start(self) -> None:
        self._info = self._run(_review.step(self.id, "start"))

    def stop(self) -> None:
        """Ends its processes and its mount; its changes stay."""
        self._info = self._run(_review.step(self.id, "stop"))

    def delete(self, purge: bool = False) -> None:
        """With its changes. For a day `restore` brings both back, unless `purge`."""
        self._run(_review.delete(self.id, purge))
        self._info.status = "deleted"

    def run(
        self,
        command: Union[str, Iterable[str]],
        timeout: Seconds = None,
        env: Optional[Mapping[str, str]] = None,
        workdir: Optional[str] = None,
        stdin: Optional[str] = None,
        raise_on_error: bool = False,
    ) -> ExecResult:
        """Runs a line of the shell, or a program with its arguments."""
        return self._run(_review.command(self.id, command, timeout, env, workdir, stdin, raise_on_error))

    def diff(self, path: Optional[str] = None) -> Diff:
        """What it changes: all, or what is at and below `path`."""
        return self._run(_review.diff(self.id, path))

    def approve(
        self,
        files: Optional[Iterable[Union[str, FileChange]]] = None,
        hunks: Hunks = None,
        message: Optional[str] = None,
        commit: bool = False,
        diff: Optional[Diff] = None,
        acknowledge: Union[bool, Iterable[str]] = False,
        force: bool = False,
        override_acceptance: bool = False,
        dry_run: bool = False,
        actor: Optional[str] = None,
        stop: bool = False,
    ) -> Approval:
        """Writes changes into the project: all, `files`, or `hunks` ({path: [id, ...]}, or some of `Diff.hunks`).

        What is approved must be what was shown: that of `diff`, or of the last diff that anybody got. Otherwise it is a
        StaleDiffError; conflicts with the project are a ConflictError, and what would do something by itself later, such as a
        hook, is a NotAcknowledgedError without `acknowledge`. Then nothing was written. A driver that cannot do it while the sandbox
        runs says so with a WouldStopError; with `stop` its processes end, and it is started again.
        """
        plan = _review.approve(
            self.id, files, hunks, message, commit, diff, acknowledge, force, override_acceptance, dry_run, actor, stop
        )
        return self._run(plan)

    def reject(self) -> None:
        """Ends it; nothing is written."""
        self._info = self._run(_review.step(self.id, "reject"))

    def restore(self) -> None:
        """One that was deleted or rejected is back, stopped, with its changes."""
        self._info = self._run(_review.step(self.id, "restore"))

    def finish(self, outcome: str = "completed") -> Finish:
        """The agent's run is over (completed, failed, cancelled): what its `behavior` lets be decided without a person is decided."""
        done = self._run(_review.finish(self.id, outcome))
        self._info.status = done.status
        return done

    def discard(self, files: Union[str, Iterable[Union[str, FileChange]]], stop: bool = False) -> int:
        """Gives changes up: the agent sees the project's files there again. How many files. `stop` as in `approve`."""
        return self._run(_review.discard(self.id, files, stop))

    def undo(self, approval_id: Optional[str] = None, dry_run: bool = False, stop: bool = False) -> Undo:
        """Takes an approval back, the last one unless it is named. `stop` as in `approve`."""
        return self._run(_review.undo(self.id, approval_id, dry_run, stop))

    def conflicts(self) -> Conflicts:
        """How its changes stand to the project as it is now."""
        return self._run(_review.conflicts(self.id))

    def rebase(self, strategy: str = "merge", stop: bool = False) -> Rebase:
        """Brings its changes onto the project as it is now: regenerate, merge, ours or theirs. `stop` as in `approve`."""
        return self._run(_review.rebase(self.id, strategy, stop))

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *exc: object) -> None:
        self._run(_review.leave(self.id))
