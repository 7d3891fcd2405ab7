"""The files and the background processes of a running sandbox, as plans."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Union

from . import _convert as convert
from ._calls import Command, Env, pages
from ._convert import Seconds
from ._failure import Subject
from ._rpc import Call, Plan
from ._schema import messages
from .exceptions import FileNotFoundError
from .types import FileStat, ProcessInfo, SearchResult

CHUNK = 256 << 10


def _subject(what: str, sandbox_id: str, path: str = "") -> Subject:
    return Subject(what, sandbox_id=sandbox_id, path=path)


# ---- files


def stat_file(sandbox_id: str, path: str) -> Plan[FileStat]:
    request = messages.StatFileRequest(sandbox_id=sandbox_id, path=path)
    return convert.stat_of((yield Call("StatFile", request, _subject("Stat file", sandbox_id, path))))


def file_exists(sandbox_id: str, path: str) -> Plan[bool]:
    try:
        yield from stat_file(sandbox_id, path)
    except FileNotFoundError:
        return False
    return True


def list_directory(sandbox_id: str, path: str = "") -> Plan[List[FileStat]]:
    request = messages.ListDirectoryRequest(sandbox_id=sandbox_id, path=path)
    subject = _subject("List directory", sandbox_id, path)
    return (yield from pages("ListDirectory", request, subject, "files", convert.stat_of))


def read_file(sandbox_id: str, path: str, offset: int = 0, length: int = 0) -> Plan[bytes]:
    request = messages.ReadFileRequest(sandbox_id=sandbox_id, path=path, offset=offset, length=length)
    chunks = yield Call("ReadFile", request, _subject("Read file", sandbox_id, path))
    return b"".join(chunk.data for chunk in chunks)


def _write_chunks(metadata: Any, content: bytes) -> Iterator[Any]:
    yield messages.WriteFileChunk(metadata=metadata)
    for at in range(0, len(content), CHUNK):
        yield messages.WriteFileChunk(data=content[at : at + CHUNK])


def write_file(
    sandbox_id: str, path: str, content: Union[str, bytes], mode: int = 0, exclusive: bool = False, etag: str = ""
) -> Plan[FileStat]:
    data = content.encode() if isinstance(content, str) else bytes(content)
    metadata = {
        "sandbox_id": sandbox_id,
        "path": path,
        "mode": mode,
        "total_size": len(data),
        "exclusive": exclusive,
        "etag": etag,
    }
    answer = yield Call("WriteFile", _write_chunks(metadata, data), _subject("Write file", sandbox_id, path))
    return convert.stat_of(answer.file)


def make_directory(sandbox_id: str, path: str) -> Plan[FileStat]:
    request = messages.MakeDirectoryRequest(sandbox_id=sandbox_id, path=path)
    return convert.stat_of((yield Call("MakeDirectory", request, _subject("Make directory", sandbox_id, path))))


def remove_file(sandbox_id: str, path: str, recursive: bool = False) -> Plan[None]:
    request = messages.RemoveFileRequest(sandbox_id=sandbox_id, path=path, recursive=recursive)
    yield Call("RemoveFile", request, _subject("Remove file", sandbox_id, path))


def rename_file(sandbox_id: str, path: str, new_path: str, replace: bool = False) -> Plan[FileStat]:
    request = messages.RenameFileRequest(sandbox_id=sandbox_id, path=path, new_path=new_path, replace=replace)
    return convert.stat_of((yield Call("RenameFile", request, _subject("Rename file", sandbox_id, path))))


def search_files(
    sandbox_id: str,
    text: str = "",
    glob: str = "",
    path: str = "",
    ignore_case: bool = False,
    context: int = 0,
    max_results: int = 0,
) -> Plan[SearchResult]:
    request = messages.SearchFilesRequest(
        sandbox_id=sandbox_id,
        path=path,
        glob=glob,
        text=text,
        ignore_case=ignore_case,
        context_lines=context,
        max_results=max_results,
    )
    return convert.search_of((yield Call("SearchFiles", request, _subject("Search files", sandbox_id, path))))


# ---- processes


def start_process(
    sandbox_id: str, command: Command, env: Env, workdir: Optional[str], name: Optional[str], tag: Optional[str]
) -> Plan[ProcessInfo]:
    spec = messages.ProcessSpec(env=dict(env or {}), workdir=workdir or "", name=name or "", tag=tag or "")
    if isinstance(command, str):
        spec.command = command
    else:
        spec.argv.extend(command)
    request = messages.StartProcessRequest(sandbox_id=sandbox_id, spec=spec)
    return convert.process_of((yield Call("StartProcess", request, _subject("Start process", sandbox_id))))


def list_processes(sandbox_id: str, running: bool = False, tag: Optional[str] = None) -> Plan[List[ProcessInfo]]:
    request = messages.ListProcessesRequest(sandbox_id=sandbox_id, running=running, tag=tag or "")
    subject = _subject("List processes", sandbox_id)
    return (yield from pages("ListProcesses", request, subject, "processes", convert.process_of))


def get_process(sandbox_id: str, process_id: str) -> Plan[ProcessInfo]:
    request = messages.GetProcessRequest(sandbox_id=sandbox_id, process_id=process_id)
    return convert.process_of((yield Call("GetProcess", request, _subject("Get process", sandbox_id))))


def kill_process(sandbox_id: str, process_id: str, grace: Seconds = None) -> Plan[ProcessInfo]:
    request = messages.KillProcessRequest(
        sandbox_id=sandbox_id, process_id=process_id, grace_period=convert.to_duration(grace)
    )
    return convert.process_of((yield Call("KillProcess", request, _subject("Kill process", sandbox_id))))


def kill_all_processes(sandbox_id: str, grace: Seconds = None) -> Plan[int]:
    request = messages.KillAllProcessesRequest(sandbox_id=sandbox_id, grace_period=convert.to_duration(grace))
    answer = yield Call("KillAllProcesses", request, _subject("Kill processes", sandbox_id))
    return int(answer.killed)


def read_log(sandbox_id: str, process_id: str, tail: int = 0) -> Plan[bytes]:
    """What is kept of it, from the beginning or the last lines."""
    found, offset = b"", 0
    while True:
        request = messages.ReadProcessLogRequest(sandbox_id=sandbox_id, process_id=process_id, offset=offset, tail_lines=tail)
        answer = yield Call("ReadProcessLog", request, _subject("Read log", sandbox_id))
        found += answer.data
        if not answer.data or answer.next_offset >= answer.end_offset:
            return found
        offset, tail = answer.next_offset, 0


def follow_call(sandbox_id: str, process_id: str, only_new: bool = False) -> Call:
    request = messages.FollowProcessLogRequest(sandbox_id=sandbox_id, process_id=process_id, only_new=only_new)
    return Call("FollowProcessLog", request, _subject("Follow log", sandbox_id))
