"""What is known of a sandbox, a session, a workspace, without asking: the same for programs with an event loop and for those without."""

from __future__ import annotations

from ._lifecycle import Life
from .review import WorkspaceInfo
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
        """As last seen; `refresh()` looks again."""
        return self._life.info.status

    @property
    def runtime(self) -> RuntimeType:
        return self._life.info.runtime

    @property
    def info(self) -> SandboxInfo:
        return self._life.info

    @property
    def codebase(self) -> Codebase:
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


class KnownWorkspace:
    _info: WorkspaceInfo

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def info(self) -> WorkspaceInfo:
        """What was known of it last; `refresh()` asks again."""
        return self._info

    @property
    def status(self) -> str:
        """active, stopped, approved, rejected, deleted or error, as far as is known."""
        return self._info.status

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, status={self.status!r}, scope={self._info.scope!r})"
