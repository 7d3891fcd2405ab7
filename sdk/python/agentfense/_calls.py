"""Every operation of the API as a plan: what is asked, and what is made of the answer."""

from __future__ import annotations

import codecs
import json
import os
import shlex
import time
from datetime import timedelta
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, TypeVar, Union

from . import _convert as convert
from ._archive import Progress, archive, scan
from ._convert import Seconds
from ._failure import Subject
from ._ignore import IgnoreRules
from ._progress import ProgressBar
from ._rpc import Blocking, Call, Plan, Streaming
from ._schema import enum_number, enum_words, messages
from .exceptions import (
    CommandTimeoutError,
    InvalidConfigurationError,
    SandboxError,
    SessionClosedError,
    SessionNotFoundError,
)
from .types import (
    Codebase,
    Event,
    ExecResult,
    Explanation,
    FileInfo,
    LintFinding,
    ResourceLimits,
    RuleLike,
    RulesPreview,
    RuntimeType,
    SandboxInfo,
    SandboxStatus,
    Session,
    SessionStatus,
    UploadResult,
    Version,
)
from .utils import PathLike, check_directory

T = TypeVar("T")

Limits = Union[ResourceLimits, Dict[str, Any], None]
Runtime = Union[RuntimeType, str, None]
Env = Optional[Mapping[str, str]]
Input = Union[str, bytes, bytearray, memoryview, IO[str], IO[bytes], None]
Command = Union[str, Sequence[str]]
OnOutput = Optional[Callable[[str], Any]]

INPUT_MAX = 3 << 20  # of a command: a message has at most 4 MiB
PIECE = 64 << 10
FILES_PER_PAGE = 5000  # of half a million files no answer is larger than others can take


def pages(method: str, request: Any, subject: Subject, field: str, convert_one: Callable[[Any], T]) -> Plan[List[T]]:
    """Fetches all pages of a list and converts the items, which are in `field` of each answer."""
    found: List[T] = []
    while True:
        answer = yield Call(method, request, subject)
        found += map(convert_one, getattr(answer, field))
        if not answer.next_page_token:
            return found
        request.page_token = answer.next_page_token


# ---- sandboxes


def _switch(value: Optional[bool]) -> int:
    """Spells None (the server's default), True and False as the API does."""
    return 0 if value is None else 1 if value else 2


def _json(value: Union[Mapping[str, Any], str, None]) -> str:
    return value if isinstance(value, str) else json.dumps(dict(value)) if value is not None else ""


def create_sandbox(
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
    project_root: Optional[PathLike] = None,
    reserve: Optional[Iterable[str]] = None,
    lock: bool = True,
    name: Optional[str] = None,
    driver: Optional[str] = None,
    profile: Optional[str] = None,
    host_mount: Optional[bool] = None,
    restarts: bool = False,
    tags: Optional[Iterable[str]] = None,
    metadata: Optional[Mapping[str, Any]] = None,
    behavior: Optional[Mapping[str, Any]] = None,
    creator: Optional[str] = None,
    creator_type: Optional[str] = None,
    idempotency_key: Optional[str] = None,
) -> Plan[SandboxInfo]:
    request = messages.CreateSandboxRequest(
        codebase_id=codebase_id,
        permissions=convert.to_rules(permissions),
        labels=dict(labels or {}),
        expires_in=convert.to_duration(expires_in),
        runtime=convert.to_runtime(RuntimeType.DOCKER if runtime is None and image else runtime),
        image=image or "",
        resources=convert.to_limits(resources),
        preset=preset or "",
        network=network or "",
        env=dict(env or {}),
        sync_on_completion=_switch(sync_on_completion),
        directory=os.path.abspath(os.fspath(directory)) if directory is not None else "",
        project_root=os.path.abspath(os.fspath(project_root)) if project_root is not None else "",
        reserved_paths=list(reserve or ()),
        no_lock=not lock,
        name=name or "",
        driver=driver or "",
        profile=profile or "",
        host_mount=_switch(host_mount),
        restarts=restarts,
        tags=list(tags or ()),
        metadata=_json(metadata),
        behavior=_json(behavior),
        creator=creator or "",
        creator_type=creator_type or "",
        idempotency_key=idempotency_key or "",
    )
    subject = Subject("Create sandbox", codebase_id=codebase_id, is_review=directory is not None)
    answer = yield Call("CreateSandbox", request, subject)
    return convert.sandbox_of(answer)


def get_sandbox(sandbox_id: str, include_deleted: bool = False) -> Plan[SandboxInfo]:
    request = messages.GetSandboxRequest(sandbox_id=sandbox_id, include_deleted=include_deleted)
    answer = yield Call("GetSandbox", request, Subject("Get sandbox", sandbox_id=sandbox_id))
    return convert.sandbox_of(answer)


def list_sandboxes(
    codebase_id: Optional[str] = None,
    status: Union[SandboxStatus, str, None] = None,
    base: Optional[str] = None,
    decision: Optional[str] = None,
    name: Optional[str] = None,
    directory: Optional[PathLike] = None,
    creator: Optional[str] = None,
    owner_id: Optional[str] = None,
    tags: Optional[Iterable[str]] = None,
    labels: Optional[Mapping[str, str]] = None,
) -> Plan[List[SandboxInfo]]:
    def number(enum: str, word: Optional[str]) -> int:
        found = enum_number(enum, word) if word else 0
        if word and not found:
            raise InvalidConfigurationError(f"'{word}' is no {enum}; there are {', '.join(enum_words(enum))}")
        return found

    request = messages.ListSandboxesRequest(
        codebase_id=codebase_id or "",
        status=number("SandboxStatus", SandboxStatus(status).value if status else None),
        base_kind=number("SandboxBase", base),
        decision=number("SandboxDecision", decision),
        name=name or "",
        directory=os.path.realpath(directory) if directory is not None else "",
        creator=creator or "",
        owner_id=owner_id or "",
        tags=list(tags or ()),
        labels=dict(labels or {}),
    )
    subject = Subject("List sandboxes", codebase_id=codebase_id or "")
    return (yield from pages("ListSandboxes", request, subject, "sandboxes", convert.sandbox_of))


def start_sandbox(sandbox_id: str, timeout: Seconds = None) -> Plan[SandboxInfo]:
    seconds = convert.seconds_of(timeout)
    subject = Subject("Start sandbox", sandbox_id=sandbox_id, timeout=seconds)
    answer = yield Call("StartSandbox", messages.StartSandboxRequest(sandbox_id=sandbox_id), subject, seconds or None)
    return convert.sandbox_of(answer)


def stop_sandbox(sandbox_id: str) -> Plan[SandboxInfo]:
    request = messages.StopSandboxRequest(sandbox_id=sandbox_id)
    answer = yield Call("StopSandbox", request, Subject("Stop sandbox", sandbox_id=sandbox_id))
    return convert.sandbox_of(answer)


def destroy_sandbox(sandbox_id: str, purge: bool = False) -> Plan[None]:
    request = messages.DestroySandboxRequest(sandbox_id=sandbox_id, purge=purge)
    yield Call("DestroySandbox", request, Subject("Destroy sandbox", sandbox_id=sandbox_id))


def update_permissions(
    sandbox_id: str, permissions: Optional[Iterable[RuleLike]] = None, preset: Optional[str] = None
) -> Plan[SandboxInfo]:
    request = messages.UpdatePermissionsRequest(
        sandbox_id=sandbox_id, permissions=convert.to_rules(permissions), preset=preset or ""
    )
    answer = yield Call("UpdatePermissions", request, Subject("Update permissions", sandbox_id=sandbox_id))
    return convert.sandbox_of(answer)


def add_rules(sandbox_id: str, permissions: Iterable[RuleLike]) -> Plan[SandboxInfo]:
    request = messages.AddPermissionRulesRequest(sandbox_id=sandbox_id, permissions=convert.to_rules(permissions))
    answer = yield Call("AddPermissionRules", request, Subject("Add rules", sandbox_id=sandbox_id))
    return convert.sandbox_of(answer)


def remove_rules(sandbox_id: str, patterns: Iterable[str]) -> Plan[SandboxInfo]:
    request = messages.RemovePermissionRulesRequest(sandbox_id=sandbox_id, patterns=list(patterns))
    answer = yield Call("RemovePermissionRules", request, Subject("Remove rules", sandbox_id=sandbox_id))
    return convert.sandbox_of(answer)


def explain_permission(sandbox_id: str, path: str) -> Plan[Explanation]:
    request = messages.ExplainPermissionRequest(sandbox_id=sandbox_id, path=path)
    answer = yield Call("ExplainPermission", request, Subject("Explain permission", sandbox_id=sandbox_id, path=path))
    return convert.explanation_of(answer)


def preview_rules(
    sandbox_id: str,
    permissions: Optional[Iterable[RuleLike]],
    preset: Optional[str],
    add: Optional[Iterable[RuleLike]],
    remove: Optional[Iterable[str]],
    paths: Optional[Iterable[str]],
) -> Plan[RulesPreview]:
    request = messages.PreviewPermissionsRequest(
        sandbox_id=sandbox_id,
        preset=preset or "",
        permissions=convert.to_rules(permissions),
        add=convert.to_rules(add),
        remove_patterns=list(remove or ()),
        paths=list(paths or ()),
    )
    answer = yield Call("PreviewPermissions", request, Subject("Preview rules", sandbox_id=sandbox_id))
    return convert.preview_of(answer)


def lint_rules(sandbox_id: str) -> Plan[List[LintFinding]]:
    request = messages.LintPermissionsRequest(sandbox_id=sandbox_id)
    answer = yield Call("LintPermissions", request, Subject("Lint rules", sandbox_id=sandbox_id))
    return [convert.finding_of(finding) for finding in answer.findings]


def list_events(
    sandbox_id: Optional[str] = None, codebase_id: Optional[str] = None, type: Optional[str] = None
) -> Plan[List[Event]]:
    request = messages.ListEventsRequest(sandbox_id=sandbox_id or "", codebase_id=codebase_id or "", type=type or "")
    subject = Subject("List events", sandbox_id=sandbox_id or "", codebase_id=codebase_id or "")
    return pages("ListEvents", request, subject, "events", convert.event_of)


def disk_use(sandbox_id: str) -> Plan[int]:
    request = messages.GetDiskUseRequest(sandbox_id=sandbox_id, measure=True)
    answer = yield Call("GetDiskUse", request, Subject("Measure disk use", sandbox_id=sandbox_id))
    for one in answer.sandboxes:
        if one.error:
            raise SandboxError(f"The disk use of sandbox '{sandbox_id}' could not be measured.", one.error)
    return int(answer.disk_bytes)


# ---- commands


def line_of(command: Command) -> str:
    """Makes a line for the shell; a program with its arguments is quoted.

    >>> line_of("ls | wc"), line_of(["echo", "a b"])
    ('ls | wc', "echo 'a b'")
    """
    return command if isinstance(command, str) else shlex.join(command)


class _Input(NamedTuple):
    """The input of a command: all of it, or, if it does not fit into one message, its beginning and the file with the rest."""

    first: bytes = b""
    rest: Union[IO[str], IO[bytes], None] = None

    @property
    def is_large(self) -> bool:
        return len(self.first) > INPUT_MAX

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, len(self.first), PIECE):
            yield self.first[at : at + PIECE]
        while self.rest is not None:
            piece = self.rest.read(PIECE)
            if not piece:
                return
            yield piece.encode() if isinstance(piece, str) else piece


def _take_input(stdin: Input) -> _Input:
    if stdin is None or isinstance(stdin, str):
        return _Input((stdin or "").encode())
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return _Input(bytes(stdin))
    first = stdin.read(INPUT_MAX + 1)
    return _Input(first.encode() if isinstance(first, str) else first, stdin)


def exec_call(
    method: str,
    sandbox_id: str,
    command: Command,
    stdin: Input = None,
    env: Env = None,
    workdir: Optional[str] = None,
    timeout: Seconds = None,
) -> Call:
    """Makes the call for `Exec` or `ExecStream`, which have the same request."""
    given = _take_input(stdin)
    if given.is_large:
        raise InvalidConfigurationError(f"an input of more than {INPUT_MAX} bytes can be given to `run` only")
    line = line_of(command)
    request = messages.ExecRequest(
        sandbox_id=sandbox_id,
        command=line,
        env=dict(env or {}),
        workdir=workdir or "",
        timeout=convert.to_duration(timeout),
        stdin_data=given.first,
    )
    seconds = convert.seconds_of(timeout)
    return Call(method, request, Subject("Execute command", sandbox_id=sandbox_id, command=line, timeout=seconds))


class _Watched:
    """Decodes output while it arrives, passes it to the callbacks, and keeps it for the result."""

    def __init__(self, on_stdout: OnOutput, on_stderr: OnOutput) -> None:
        self.watchers = {"stdout": on_stdout, "stderr": on_stderr}
        self.decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self.watchers}
        self.texts: Dict[str, List[str]] = {name: [] for name in self.watchers}
        self.began = time.monotonic()

    def take(self, stream: str, data: bytes) -> Any:
        text = self.decoders[stream].decode(data)
        self.texts[stream].append(text)
        watcher = self.watchers[stream]
        return watcher(text) if watcher is not None and text else None

    def result(self, command: str, exit_code: int) -> ExecResult:
        stdout, stderr = ("".join(self.texts[name]) + self.decoders[name].decode(b"", True) for name in ("stdout", "stderr"))
        return ExecResult(stdout, stderr, exit_code, timedelta(seconds=time.monotonic() - self.began), command)


def _exec_piped(
    sandbox_id: str,
    command: Command,
    given: _Input,
    env: Env,
    workdir: Optional[str],
    timeout: Seconds,
    watched: _Watched,
) -> Plan[ExecResult]:
    """Runs a command with an input of any size, through the pipes of OpenTerminal."""
    line, seconds, ends = line_of(command), convert.seconds_of(timeout), []
    spec = messages.ProcessSpec(command=line, env=dict(env or {}), workdir=workdir or "")

    def requests() -> Iterator[Any]:
        yield messages.TerminalInput(
            open={"sandbox_id": sandbox_id, "spec": spec, "pipes": True, "timeout": convert.to_duration(timeout)}
        )
        for piece in given.pieces():
            yield messages.TerminalInput(data=piece)
        yield messages.TerminalInput(end_input=True)

    def take(message: Any) -> Any:
        if message.HasField("exit"):
            ends.append(message.exit)
        elif message.HasField("output"):
            return watched.take("stdout", message.output)
        elif message.HasField("error_output"):
            return watched.take("stderr", message.error_output)
        return None

    subject = Subject("Execute command", sandbox_id=sandbox_id, command=line, timeout=seconds)
    yield Streaming(Call("OpenTerminal", requests(), subject), take)
    if not ends or ends[0].lost:
        raise SandboxError(f"Command ended with its sandbox: {line}")
    if ends[0].timed_out:
        raise CommandTimeoutError(line, seconds or round(time.monotonic() - watched.began, 3))
    return watched.result(line, ends[0].exit_code)


def exec_command(
    sandbox_id: str,
    command: Command,
    stdin: Input = None,
    env: Env = None,
    workdir: Optional[str] = None,
    timeout: Seconds = None,
    on_stdout: OnOutput = None,
    on_stderr: OnOutput = None,
) -> Plan[ExecResult]:
    is_file = not (stdin is None or isinstance(stdin, (str, bytes, bytearray, memoryview)))
    given: _Input = (yield Blocking(lambda: _take_input(stdin))) if is_file else _take_input(stdin)
    watched = _Watched(on_stdout, on_stderr)
    if given.is_large:
        return (yield from _exec_piped(sandbox_id, command, given, env, workdir, timeout, watched))
    if on_stdout is None and on_stderr is None:
        call = exec_call("Exec", sandbox_id, command, given.first, env, workdir, timeout)
        return convert.result_of((yield call), call.subject.command)

    def take(message: Any) -> Any:
        output = convert.output_of(message)
        return watched.take(output.stream, output.data)

    call = exec_call("ExecStream", sandbox_id, command, given.first, env, workdir, timeout)
    code = yield Streaming(call, take)
    return watched.result(call.subject.command, code or 0)


# ---- sessions


def create_session(sandbox_id: str, shell: Optional[str] = None, env: Env = None) -> Plan[Session]:
    request = messages.CreateSessionRequest(sandbox_id=sandbox_id, shell=shell or "", env=dict(env or {}))
    answer = yield Call("CreateSession", request, Subject("Create session", sandbox_id=sandbox_id))
    return convert.session_of(answer)


def get_session(session_id: str) -> Plan[Session]:
    request = messages.GetSessionRequest(session_id=session_id)
    answer = yield Call("GetSession", request, Subject("Get session", session_id=session_id))
    return convert.session_of(answer)


def list_sessions(sandbox_id: str) -> Plan[List[Session]]:
    request = messages.ListSessionsRequest(sandbox_id=sandbox_id)
    answer = yield Call("ListSessions", request, Subject("List sessions", sandbox_id=sandbox_id))
    return [convert.session_of(session) for session in answer.sessions]


def destroy_session(session_id: str) -> Plan[None]:
    request = messages.DestroySessionRequest(session_id=session_id)
    yield Call("DestroySession", request, Subject("Destroy session", session_id=session_id))


def close_quietly(session: Session) -> Plan[None]:
    """Closes a session at the end of a `with` block. It is no error if the session has ended already."""
    try:
        yield from destroy_session(session.id)
    except (SessionNotFoundError, SessionClosedError):
        pass
    session.status = SessionStatus.CLOSED


def session_call(method: str, session_id: str, command: str, timeout: Seconds = None) -> Call:
    request = messages.SessionExecRequest(session_id=session_id, command=command, timeout=convert.to_duration(timeout))
    seconds = convert.seconds_of(timeout)
    return Call(method, request, Subject("Session exec", session_id=session_id, command=command, timeout=seconds))


def session_exec(session_id: str, command: str, timeout: Seconds = None) -> Plan[ExecResult]:
    answer = yield session_call("SessionExec", session_id, command, timeout)
    return convert.result_of(answer, command)


# ---- codebases


def create_codebase(name: str, owner_id: str) -> Plan[Codebase]:
    request = messages.CreateCodebaseRequest(name=name, owner_id=owner_id)
    answer = yield Call("CreateCodebase", request, Subject("Create codebase"))
    return convert.codebase_of(answer)


def get_codebase(codebase_id: str) -> Plan[Codebase]:
    request = messages.GetCodebaseRequest(codebase_id=codebase_id)
    answer = yield Call("GetCodebase", request, Subject("Get codebase", codebase_id=codebase_id))
    return convert.codebase_of(answer)


def list_codebases(owner_id: Optional[str] = None) -> Plan[List[Codebase]]:
    request = messages.ListCodebasesRequest(owner_id=owner_id or "")
    return pages("ListCodebases", request, Subject("List codebases"), "codebases", convert.codebase_of)


def delete_codebase(codebase_id: str, force: bool = False) -> Plan[None]:
    request = messages.DeleteCodebaseRequest(codebase_id=codebase_id, force=force)
    yield Call("DeleteCodebase", request, Subject("Delete codebase", codebase_id=codebase_id))


def _file_chunks(codebase_id: str, path: str, content: bytes, mode: int, size: int) -> Iterator[Any]:
    yield messages.UploadChunk(
        metadata={"codebase_id": codebase_id, "file_path": path, "total_size": len(content), "mode": mode}
    )
    for at in range(0, len(content), size):
        yield messages.UploadChunk(data=content[at : at + size])


def upload_file(
    codebase_id: str, file_path: str, content: Union[bytes, str], chunk_size: int = 65536, mode: int = 0
) -> Plan[UploadResult]:
    data = content.encode() if isinstance(content, str) else bytes(content)
    chunks = _file_chunks(codebase_id, file_path, data, mode, max(chunk_size, 1))
    answer = yield Call("UploadFiles", chunks, Subject("Upload file", codebase_id=codebase_id, path=file_path))
    return convert.upload_of(answer)


def download_file(codebase_id: str, file_path: str, version: int = 0) -> Plan[bytes]:
    request = messages.DownloadFileRequest(codebase_id=codebase_id, file_path=file_path, version=version)
    chunks = yield Call("DownloadFile", request, Subject("Download file", codebase_id=codebase_id, path=file_path))
    return b"".join(chunk.data for chunk in chunks)


def list_files(codebase_id: str, path: str = "", recursive: bool = False) -> Plan[List[FileInfo]]:
    request = messages.ListFilesRequest(
        codebase_id=codebase_id, path=path, recursive=recursive, page_size=FILES_PER_PAGE
    )
    subject = Subject("List files", codebase_id=codebase_id, path=path)
    return pages("ListFiles", request, subject, "files", convert.file_of)


def delete_file(codebase_id: str, file_path: str) -> Plan[Codebase]:
    request = messages.DeleteFileRequest(codebase_id=codebase_id, file_path=file_path)
    answer = yield Call("DeleteFile", request, Subject("Delete file", codebase_id=codebase_id, path=file_path))
    return convert.codebase_of(answer)


def _archive_chunks(codebase_id: str, pieces: Iterable[bytes], replace: bool) -> Iterator[Any]:
    yield messages.ArchiveChunk(metadata={"codebase_id": codebase_id, "replace": replace})
    for piece in pieces:
        yield messages.ArchiveChunk(data=piece)


def upload_directory(
    codebase_id: str,
    path: PathLike,
    ignore_patterns: Optional[Iterable[str]] = None,
    include_default_ignores: bool = True,
    progress: Union[Progress, bool, None] = None,
    compress: bool = False,
    replace: bool = False,
) -> Plan[UploadResult]:
    """Sends a directory as one archive, which is made while it is sent."""
    root = check_directory(path)
    rules = IgnoreRules.of(ignore_patterns, include_default_ignores)
    entries = yield Blocking(lambda: list(scan(root, rules)))
    bar = None
    if progress is True or (progress is None and ProgressBar.is_wanted(len(entries), sum(e.stat.st_size for e in entries))):
        progress = bar = ProgressBar(f"uploading {os.path.basename(root)}")
    chunks = _archive_chunks(codebase_id, archive(entries, compress, progress or None), replace)
    try:
        answer = yield Call("UploadArchive", chunks, Subject("Upload directory", codebase_id=codebase_id, path=root))
    finally:
        if bar:
            bar.close()
    return convert.archive_of(answer)


def download_archive(codebase_id: str, path: str = "") -> Plan[bytes]:
    request = messages.DownloadArchiveRequest(codebase_id=codebase_id, path=path)
    chunks = yield Call("DownloadArchive", request, Subject("Download archive", codebase_id=codebase_id, path=path))
    return b"".join(chunk.data for chunk in chunks)


def list_versions(codebase_id: str) -> Plan[List[Version]]:
    request = messages.ListVersionsRequest(codebase_id=codebase_id)
    subject = Subject("List versions", codebase_id=codebase_id)
    return pages("ListVersions", request, subject, "versions", convert.version_of)


def restore_version(codebase_id: str, version: int, path: str = "") -> Plan[Version]:
    request = messages.RestoreVersionRequest(codebase_id=codebase_id, version=version, path=path)
    answer = yield Call("RestoreVersion", request, Subject("Restore version", codebase_id=codebase_id, path=path))
    return convert.version_of(answer)


DEFAULT_RUN_TIMEOUT = timedelta(seconds=60)
