"""Properties of sandboxes and sessions that need no call, shared by the classes with and without an event loop."""

from __future__ import annotations

from ._lifecycle import Life
from .types import Codebase, RuntimeType, SandboxInfo, SandboxStatus, Session, SessionStatus


class KnownSandbox:
    _life: Life

    @property
    def id(self) -> str:
        return self._life.info.id

    @property
    def codebase_id(self) -> str:
        return self._life.info.codebase_id

    @property
    def status(self) -> SandboxStatus:
        """The status when the server was last asked; `refresh()` asks again."""
        return self._life.info.status

    @property
    def runtime(self) -> RuntimeType:
        return self._life.info.runtime

    @property
    def info(self) -> SandboxInfo:
        return self._life.info

    @property
    def name(self) -> str:
        return self._life.info.name

    @property
    def directory(self) -> str:
        """The directory that the sandbox is over; "" if it is over a codebase."""
        return self._life.info.directory

    @property
    def decision(self) -> str:
        """`open`, `approved` or `rejected`, when the server was last asked."""
        return self._life.info.decision

    @property
    def codebase(self) -> Codebase:
        """The codebase that the sandbox is over. Raises a SandboxError if it is over a directory."""
        return self._life.codebase

    def __repr__(self) -> str:
        return self._life.describe(type(self).__name__)


class KnownSession:
    _session: Session

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def sandbox_id(self) -> str:
        return self._session.sandbox_id

    @property
    def status(self) -> SessionStatus:
        return self._session.status

    @property
    def shell(self) -> str:
        return self._session.shell

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, sandbox_id={self.sandbox_id!r}, status={self.status.value!r})"
