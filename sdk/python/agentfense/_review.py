"""The review of a sandbox's changes, as plans."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from . import _convert as convert
from ._calls import pages
from ._failure import Subject
from ._rpc import Call, Plan
from ._schema import enum_number, enum_word, messages
from .exceptions import InvalidConfigurationError, ReviewError
from .review import (
    Approval,
    ApprovalRecord,
    Comment,
    Commit,
    Conflicts,
    Diff,
    FileChange,
    Finish,
    Hunk,
    Pending,
    PendingFile,
    Rebase,
    Undo,
)
from .types import SandboxInfo

ChosenFiles = Union[str, FileChange, Iterable[Union[str, FileChange]]]
Hunks = Union[Mapping[str, Iterable[str]], Iterable[Hunk], None]
HASHES_PER_CALL = 10000  # of MarkDiffShown, so that no request is too large


def _ask(method: str, request: Any, what: str) -> Call:
    return Call(method, request, Subject(what, sandbox_id=request.sandbox_id, is_review=True))


# ---- looking


def _file_of(message: Any) -> FileChange:
    def mode(number: int) -> Optional[str]:
        return f"{number:o}" if number else None

    return FileChange(
        id=message.id,
        path=message.path,
        scope_path=message.scope_path,
        change=enum_word("ChangeKind", message.kind),
        added=message.lines_added,
        removed=message.lines_removed,
        is_binary=message.binary,
        old_path=message.old_path or None,
        old_mode=mode(message.old_mode),
        new_mode=mode(message.new_mode),
        symlink_target=message.new_symlink_target or None,
        acknowledge=message.acknowledge_text or None,
        hash=message.hash or None,
        is_merged=enum_word("MergeState", message.merge_state) == "merges",
        conflict=message.conflict or None,
        acceptance=enum_word("AcceptanceStatus", message.acceptance),
        error=message.error or ("too large to be compared" if message.too_large else None),
    )


def _assemble(chunks: Iterable[Any], is_whole: bool) -> Diff:
    """Joins the messages of StreamDiff. A message `more` continues the last file; a hunk with the id of the last hunk continues that."""
    whole = Diff([], "", is_whole)
    is_open = False  # the last line so far goes on
    for chunk in chunks:
        if chunk.HasField("diff"):
            whole.hash = chunk.diff.diff_hash
            continue
        if chunk.HasField("file"):
            whole.files.append(_file_of(chunk.file))
            is_open = False
        part = chunk.file if chunk.HasField("file") else chunk.more
        file = whole.files[-1]
        file.hash = part.hash or file.hash
        for hunk in part.hunks:
            lines = list(hunk.lines)
            if not file.hunks or file.hunks[-1].id != hunk.id:
                file.hunks.append(Hunk(hunk.id, hunk.header, lines, file.id, file.path))
            else:
                known = file.hunks[-1].lines
                if is_open and known and lines:
                    known[-1] += lines.pop(0)
                known.extend(lines)
            is_open = hunk.continues
    return whole


def _in_parts(hashes: Mapping[str, str]) -> Iterator[Dict[str, str]]:
    items = sorted(hashes.items())
    for at in range(0, len(items), HASHES_PER_CALL):
        yield dict(items[at : at + HASHES_PER_CALL])


def diff(sandbox_id: str, path: Optional[str] = None, shown: bool = True) -> Plan[Diff]:
    request = messages.StreamDiffRequest(sandbox_id=sandbox_id, path=path or "")
    chunks = yield _ask("StreamDiff", request, "Get diff")
    found = _assemble(chunks, path is None)
    hashes = {file.id: file.hash for file in found if file.hash} if shown else {}
    for part in _in_parts(hashes):
        yield _ask("MarkDiffShown", messages.MarkDiffShownRequest(sandbox_id=sandbox_id, hashes=part), "Mark diff as shown")
    return found


def has_changes(sandbox_id: str) -> Plan[bool]:
    view = enum_number("DiffView", "files")
    answer = yield _ask("GetDiff", messages.GetDiffRequest(sandbox_id=sandbox_id, view=view, page_size=1), "Get diff")
    return bool(answer.total or answer.directories)


def patch(sandbox_id: str, path: Optional[str] = None) -> Plan[bytes]:
    chunks = yield _ask("DownloadPatch", messages.DownloadPatchRequest(sandbox_id=sandbox_id, path=path or ""), "Get patch")
    return b"".join(chunk.data for chunk in chunks)


# ---- deciding


def _split(files: ChosenFiles) -> Tuple[List[str], List[str]]:
    """Separates paths from the ids of FileChange objects."""
    given = [files] if isinstance(files, (str, FileChange)) else list(files)
    return [one for one in given if isinstance(one, str)], [one.id for one in given if isinstance(one, FileChange)]


def _selection(files: Optional[ChosenFiles], hunks: Hunks) -> Any:
    """Selects everything if neither files nor hunks are given."""
    selection = messages.Selection(all=files is None and hunks is None)
    if files is not None:
        paths, ids = _split(files)
        selection.paths.extend(paths)
        selection.file_ids.extend(ids)
    if isinstance(hunks, Mapping):
        for path, hunk_ids in hunks.items():
            selection.hunks.add(path=path, hunk_ids=list(hunk_ids))
    elif hunks is not None:
        by_file: Dict[str, List[str]] = {}
        for hunk in hunks:
            by_file.setdefault(hunk.file_id, []).append(hunk.id)
        for file_id, hunk_ids in by_file.items():
            selection.hunks.add(file_id=file_id, hunk_ids=hunk_ids)
    return selection


def _acknowledge(request: Any, given: Union[bool, str, Iterable[str]]) -> None:
    if isinstance(given, bool):
        request.acknowledge_all = given
        return
    for name in [given] if isinstance(given, str) else given:
        reason = enum_number("AcknowledgeReason", name)
        if reason:
            request.acknowledge_reasons.append(reason)
        else:
            request.acknowledge_files.append(name)


def approve(
    sandbox_id: str,
    files: Optional[ChosenFiles],
    hunks: Hunks,
    message: Optional[str],
    commit: bool,
    seen: Optional[Diff],
    acknowledge: Union[bool, str, Iterable[str]],
    force: bool,
    override_acceptance: bool,
    dry_run: bool,
    actor: Optional[str],
    stop: bool,
    run_hooks: bool,
) -> Plan[Approval]:
    request = messages.ApproveRequest(
        sandbox_id=sandbox_id,
        selection=_selection(files, hunks),
        commit=commit,
        commit_message=message or "",
        force=force,
        override_acceptance=override_acceptance,
        dry_run=dry_run,
        run_hooks=run_hooks,
        actor=actor or "",
        allow_stop=stop,
    )
    if seen is not None and seen.is_whole:
        request.diff_hash = seen.hash
    elif seen is not None:
        for file in seen:
            request.file_hashes[file.id] = file.hash or ""
    _acknowledge(request, acknowledge)
    answer = yield _ask("Approve", request, "Approve")
    return Approval(
        id=answer.approval_id,
        applied=answer.applied,
        remaining=answer.remaining,
        files={file.path: enum_word("Verdict", file.verdict) for file in answer.files},
        commit=answer.commit_hash or None,
        commit_error=answer.commit_error or None,
        is_dry=dry_run,
        refusal=answer.refusal.message or None,
        note=answer.note or None,
    )


def reject(sandbox_id: str, actor: Optional[str] = None) -> Plan[SandboxInfo]:
    answer = yield _ask("Reject", messages.RejectRequest(sandbox_id=sandbox_id, actor=actor or ""), "Reject")
    return convert.sandbox_of(answer)


def discard(sandbox_id: str, files: Optional[ChosenFiles], stop: bool) -> Plan[int]:
    request = messages.DiscardRequest(sandbox_id=sandbox_id, selection=_selection(files, None), allow_stop=stop)
    answer = yield _ask("Discard", request, "Discard")
    return int(answer.discarded)


def undo(sandbox_id: str, approval_id: Optional[str], dry_run: bool, stop: bool) -> Plan[Undo]:
    request = messages.UndoApprovalRequest(
        sandbox_id=sandbox_id, approval_id=approval_id or "", dry_run=dry_run, allow_stop=stop
    )
    answer = yield _ask("UndoApproval", request, "Undo approval")
    return Undo(answer.approval_id, answer.undone, dry_run)


def approvals(sandbox_id: str) -> Plan[List[ApprovalRecord]]:
    def convert_one(message: Any) -> ApprovalRecord:
        return ApprovalRecord(
            message.id, convert.time_of(message.time), message.paths, message.undoes or None, message.undone
        )

    request = messages.ListApprovalsRequest(sandbox_id=sandbox_id)
    subject = Subject("List approvals", sandbox_id=sandbox_id, is_review=True)
    return (yield from pages("ListApprovals", request, subject, "approvals", convert_one))


def conflicts(sandbox_id: str) -> Plan[Conflicts]:
    answer = yield _ask("GetConflicts", messages.GetConflictsRequest(sandbox_id=sandbox_id), "Get conflicts")
    conflicting = [file.path for file in answer.files if enum_word("MergeState", file.state) == "conflict"]
    return Conflicts(conflicting, [file.path for file in answer.files])


def rebase(sandbox_id: str, strategy: str, stop: bool) -> Plan[Rebase]:
    number = enum_number("RebaseStrategy", strategy)
    if not number:
        raise InvalidConfigurationError(f"'{strategy}' is no strategy; there are 'regenerate', 'merge', 'ours', 'theirs'")
    request = messages.RebaseRequest(sandbox_id=sandbox_id, strategy=number, allow_stop=stop)
    answer = yield _ask("Rebase", request, "Rebase")
    conflicting = [file.path for file in answer.files if enum_word("RebaseOutcome", file.outcome) == "conflict"]
    return Rebase(answer.conflicts == 0, conflicting)


def finish(sandbox_id: str, outcome: str) -> Plan[Tuple[Finish, SandboxInfo]]:
    number = enum_number("RunOutcome", outcome)
    if not number:
        raise InvalidConfigurationError(f"'{outcome}' is no outcome; there are 'completed', 'failed', 'cancelled'")
    answer = yield _ask("FinishSandbox", messages.FinishSandboxRequest(sandbox_id=sandbox_id, outcome=number), "Finish")
    info = convert.sandbox_of(answer.sandbox)
    decision = enum_word("SandboxDecision", answer.decision)
    decision = decision if decision in ("approved", "rejected") else "none"
    return Finish(decision, info.state, answer.reason, answer.approval_id or None, answer.applied), info


def restore(sandbox_id: str) -> Plan[SandboxInfo]:
    answer = yield _ask("RestoreSandbox", messages.RestoreSandboxRequest(sandbox_id=sandbox_id), "Restore")
    return convert.sandbox_of(answer)


# ---- what was applied


def _check_repository(info: SandboxInfo) -> None:
    """Without a project the server would use its default project, which has nothing to do with this sandbox."""
    if not info.directory:
        raise ReviewError(info.id, (), "It is over a codebase: approved changes are a version of that, and there is no repository.")


def pending(info: SandboxInfo) -> Plan[Pending]:
    _check_repository(info)
    request = messages.PreviewCommitRequest(project_root=info.project_root, sandbox_ids=[info.id])
    answer = yield Call("PreviewCommit", request, Subject("Preview commit", sandbox_id=info.id, is_review=True))
    files = [
        PendingFile(
            file.relative_path, enum_word("ChangeKind", file.kind), enum_word("CommitStatus", file.status), file.reason
        )
        for file in answer.files
    ]
    return Pending(files, answer.suggested_message)


def commit(info: SandboxInfo, message: Optional[str], files: Optional[Iterable[str]]) -> Plan[Commit]:
    _check_repository(info)
    request = messages.CommitChangesRequest(
        project_root=info.project_root, sandbox_ids=[info.id], message=message or "", paths=list(files or ())
    )
    answer = yield Call("CommitChanges", request, Subject("Commit", sandbox_id=info.id, is_review=True))
    return Commit(answer.commit_hash or None, answer.files)


# ---- comments


def _comment_of(message: Any) -> Comment:
    return Comment(
        id=message.id,
        path=message.path,
        text=message.text,
        author=message.actor or message.author,
        file_id=message.file_id,
        hunk_id=message.hunk_id or None,
        line=message.line,
        is_resolved=message.resolved,
        is_outdated=message.outdated,
        created_at=convert.time_of(message.created_at),
    )


def add_comment(
    sandbox_id: str, text: str, about: Union[str, FileChange, Hunk], line: int, actor: Optional[str]
) -> Plan[Comment]:
    request = messages.AddReviewCommentRequest(sandbox_id=sandbox_id, text=text, line=line, actor=actor or "")
    if isinstance(about, Hunk):
        request.file_id, request.hunk_id = about.file_id, about.id
    elif isinstance(about, FileChange):
        request.file_id = about.id
    else:
        request.path = about
    return _comment_of((yield _ask("AddReviewComment", request, "Add comment")))


def comments(sandbox_id: str, path: Optional[str], only_open: bool) -> Plan[List[Comment]]:
    request = messages.ListReviewCommentsRequest(sandbox_id=sandbox_id, path=path or "", open=only_open)
    subject = Subject("List comments", sandbox_id=sandbox_id, is_review=True)
    return (yield from pages("ListReviewComments", request, subject, "comments", _comment_of))


def resolve_comment(sandbox_id: str, comment_id: str, reopen: bool, actor: Optional[str]) -> Plan[Comment]:
    request = messages.ResolveReviewCommentRequest(
        sandbox_id=sandbox_id, comment_id=comment_id, reopen=reopen, actor=actor or ""
    )
    return _comment_of((yield _ask("ResolveReviewComment", request, "Resolve comment")))


def delete_comment(sandbox_id: str, comment_id: str) -> Plan[None]:
    request = messages.DeleteReviewCommentRequest(sandbox_id=sandbox_id, comment_id=comment_id)
    yield _ask("DeleteReviewComment", request, "Delete comment")
