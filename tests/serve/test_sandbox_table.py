"""The table of docs/sandboxes.md: every capability on every base. A cell is "yes", and it works, or "no: REASON", and it is refused so."""

import json
import os
import pathlib
import queue
import re
import subprocess

import grpc
import pytest
from api import Refusal
from review import git, make_repository
from sandbox.v1 import file_pb2, review_pb2, sandbox_pb2, terminal_pb2
from server import WRITE_ALL, eventually, rules
from workspace import make_project

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "sandboxes.md"
FILES = {"README": "read me\n", "src/long.txt": "".join(f"line {n}\n" for n in range(40))}
NEVER, ON_EXEC = sandbox_pb2.SYNC_MODE_OFF, sandbox_pb2.SYNC_MODE_ON
ALL = {"all": True}


class OverDirectory:
    """A sandbox over a directory that is a git repository."""

    syncs = False

    def __init__(self, server, client, **fields):
        self.client, self.project = client, make_project()
        if server.user is not None:
            os.chown(self.project, server.user, server.user)
        for path, content in FILES.items():
            place = self.project / path
            place.parent.mkdir(exist_ok=True)
            place.write_text(content)
        make_repository(self.project)
        self.base = {"directory": str(self.project)}
        self.id = self.make(server, **fields)

    def make(self, server, **fields):
        return self.client.create_sandbox(start=True, **self.base, **fields).id

    def in_base(self, path):
        place = self.project / path
        return place.read_text() if place.exists() else None

    def put_in_base(self, path, text):
        (self.project / path).write_text(text)

    def remove(self):
        self.client.destroy_sandbox(sandbox_id=self.id, purge=True)


class MadeByRun(OverDirectory):
    """The same, made by `agentfense run` over the server's state directory."""

    def make(self, server):
        words = [server.program, "run", "-q", "--name", "by-run", str(self.project), "--", "touch", "kept-for-this"]
        words = server.as_user(words) if server.user is not None else words
        subprocess.run(words, check=True, timeout=120, stdin=subprocess.DEVNULL, env={**server.environment(), "HOME": str(self.project)})
        made = self.client.get_sandbox(sandbox_id="by-run").id
        self.client.discard(sandbox_id=made, selection=ALL)
        self.client.start_sandbox(sandbox_id=made)
        return made


class OverCodebase:
    def __init__(self, client, sync, **fields):
        self.client, self.codebase, self.syncs = client, client.codebase(FILES), sync == ON_EXEC
        self.base = {"codebase_id": self.codebase}
        self.id = client.create_sandbox(sync_on_completion=sync, permissions=rules(WRITE_ALL), start=True, **self.base, **fields).id

    def in_base(self, path):
        try:
            return self.client.get(self.codebase, path).decode()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.NOT_FOUND
            return None

    def put_in_base(self, path, text):
        self.client.put(self.codebase, path, text)

    def remove(self):
        self.client.destroy_sandbox(sandbox_id=self.id, force=True)
        self.client.delete_codebase(codebase_id=self.codebase)


BASES = {
    "directory": OverDirectory,
    "codebase, held": lambda server, client, **fields: OverCodebase(client, NEVER, **fields),
    "codebase, synced": lambda server, client, **fields: OverCodebase(client, ON_EXEC, **fields),
}


def sh(box, command):
    done = box.client.run(box.id, command)
    assert done.exit_code == 0, done
    return done.stdout


def diff(box):
    return box.client.get_diff(sandbox_id=box.id)


def approve(box, selection):
    answer = diff(box)
    return box.client.approve(sandbox_id=box.id, selection=selection, diff_hash=answer.diff_hash)


# ---- one function for each row; of those with options, these ----

OPTIONS = {
    "a name": {"name": "named"},
    "an environment": {"env": {"GREETING": "hello"}},
    "labels and tags": {"labels": {"team": "blue"}, "tags": ["nightly"]},
    "limits of its own": {"resources": {"pids_limit": 50, "memory_bytes": 256 << 20, "disk_bytes": 64 << 20}},
    "reserved paths": {"reserved_paths": ["src"]},
    "hooks": {"behavior": json.dumps({"hooks": [{"name": "tests", "command": "/bin/sh", "args": ["-c", "grep -q good new"]}]})},
}


def name(box):
    assert box.client.get_sandbox(sandbox_id="named").id == box.id
    with pytest.raises(grpc.RpcError) as raised:
        box.client.create_sandbox(name="named", **box.base, no_lock="directory" in box.base)
    assert raised.value.code() == grpc.StatusCode.ALREADY_EXISTS


def environment(box):
    assert sh(box, "echo $GREETING") == "hello\n"


def labels_and_tags(box):
    ids = [one.id for one in box.client.list_sandboxes(labels={"team": "blue"}, tags=["nightly"]).sandboxes]
    assert ids == [box.id]


def limits(box):
    held = {limit.name: limit.value for limit in box.client.get_sandbox(sandbox_id=box.id).limits if not limit.not_enforced}
    assert held["pids"] == 50 and held["memory"] == 256 << 20, held
    assert box.client.run(box.id, "head -c 80000000 /dev/zero > big").exit_code != 0


def reserved_paths(box):
    with pytest.raises(grpc.RpcError) as raised:
        box.client.create_sandbox(directory=str(box.project / "src"))
    assert Refusal(raised.value).reason == "SCOPE_CONFLICT"


def hooks(box):
    sh(box, "echo bad > new")
    with pytest.raises(grpc.RpcError) as raised:
        approve(box, ALL)
    if (reason := Refusal(raised.value).reason) != "HOOK_FAILED":
        raise raised.value
    assert reason == "HOOK_FAILED" and box.in_base("new") is None
    sh(box, "echo good > new")
    assert approve(box, ALL).applied == 1 and box.in_base("new") == "good\n"



def run_commands(box):
    assert box.client.run(box.id, "cat README; exit 3").exit_code == 3 and sh(box, "cat README") == "read me\n"


def stream_output(box):
    pieces = box.client.exec_stream(sandbox_id=box.id, command="echo one; echo two >&2")
    assert sorted(piece.data for piece in pieces if piece.data) == [b"one\n", b"two\n"]


def sessions(box):
    session = box.client.create_session(sandbox_id=box.id).id
    box.client.session_exec(session_id=session, command="cd src; X=kept")
    assert box.client.session_exec(session_id=session, command="echo $X in $(basename $PWD)").stdout == "kept in src\n"
    box.client.destroy_session(session_id=session)


def processes(box):
    process = box.client.start_process(sandbox_id=box.id, spec={"command": "echo hello; sleep 1000"})
    chunks = box.client.follow_process_log(sandbox_id=box.id, process_id=process.id)
    assert b"hello" in next(chunk.data for chunk in chunks if chunk.data)
    chunks.cancel()
    box.client.kill_process(sandbox_id=box.id, process_id=process.id, grace_period={})


def terminals(box):
    said = queue.Queue()
    say = terminal_pb2.TerminalInput
    said.put(say(open={"sandbox_id": box.id, "spec": {"command": "read x; echo got $x"}}))
    said.put(say(data=b"typed\n"))
    talk, seen = box.client.open_terminal(iter(said.get, None)), b""
    for message in talk:
        seen += message.output
    said.put(None)
    assert b"got typed" in seen


def files(box):
    client, where = box.client, {"sandbox_id": box.id}
    head = file_pb2.WriteFileChunk(metadata=file_pb2.WriteFileChunk.Metadata(path="note", **where))
    client.write_file([head, file_pb2.WriteFileChunk(data=b"a needle\n")])
    assert client.make_directory(path="made", **where).path == "/made"
    assert client.rename_file(path="note", new_path="made/note", **where).path == "/made/note"
    assert b"".join(chunk.data for chunk in client.read_file(path="made/note", **where)) == b"a needle\n"
    assert client.stat_file(path="made/note", **where).size == 9
    assert [entry.name for entry in client.list_directory(path="made", **where).files] == ["note"]
    assert [match.path for match in client.search_files(text="needle", **where).matches] == ["/made/note"]
    client.remove_file(path="made/note", **where)
    assert sh(box, "ls made") == ""


def change_rules(box):
    box.client.add_permission_rules(sandbox_id=box.id, permissions=rules((("/src/**", "none", 100),)))
    assert sh(box, "ls") == "README\n"
    box.client.remove_permission_rules(sandbox_id=box.id, patterns=["/src/**"])
    assert "src" in sh(box, "ls")


def stop_and_start(box):
    sh(box, "echo kept > new")
    box.client.stop_sandbox(sandbox_id=box.id)
    box.client.start_sandbox(sandbox_id=box.id)
    assert sh(box, "cat new") == "kept\n"


def events(box):
    sh(box, "true")
    eventually(lambda: "command_executed" in [event.type for event in box.client.events(sandbox_id=box.id)])


def show_diff(box):
    sh(box, "echo new > new; echo more >> README")
    assert [file.path for file in diff(box).files] == ([] if box.syncs else ["README", "new"])
    assert not box.syncs or box.in_base("new") == "new\n"


def approve_all(box):
    sh(box, "echo new > new; echo more >> README")
    assert approve(box, ALL).applied == 2
    assert (box.in_base("new"), box.in_base("README")) == ("new\n", "read me\nmore\n") and not diff(box).files


def approve_files(box):
    sh(box, "echo new > new; echo more >> README")
    assert approve(box, {"paths": ["new"]}).applied == 1
    assert (box.in_base("new"), box.in_base("README")) == ("new\n", "read me\n")
    assert [file.path for file in diff(box).files] == ["README"]


def approve_hunks(box):
    sh(box, "sed -i -e 's/^line 2$/TWO/' -e 's/^line 35$/MANY/' src/long.txt")
    hunks = [hunk.id for file in diff(box).files for hunk in file.hunks]
    approve(box, {"hunks": [{"path": "src/long.txt", "hunk_ids": hunks[:1] or ["none"]}]})
    assert "TWO\n" in box.in_base("src/long.txt") and "MANY\n" not in box.in_base("src/long.txt")
    assert len(diff(box).files[0].hunks) == 1


def approve_and_commit(box):
    sh(box, "echo new > new")
    answer = box.client.approve(sandbox_id=box.id, selection=ALL, diff_hash=diff(box).diff_hash, commit=True, commit_message="as reviewed")
    assert answer.commit_hash and git(box.project, "log", "-1", "--format=%s").strip() == "as reviewed"


def undo(box):
    sh(box, "echo new > new; echo more >> README")
    approve(box, {"paths": ["README"]})
    assert box.client.undo_approval(sandbox_id=box.id).undone == 1 and box.in_base("README") == "read me\n"


def discard(box):
    sh(box, "echo new > new; echo more >> README")
    assert box.client.discard(sandbox_id=box.id, selection={"paths": ["new"]}).discarded == 1
    assert [file.path for file in diff(box).files] == ["README"] and box.in_base("new") is None


def reject_and_restore(box):
    sh(box, "echo new > new")
    assert box.client.reject(sandbox_id=box.id).decision == sandbox_pb2.SANDBOX_DECISION_REJECTED and box.in_base("new") is None
    assert box.client.restore_sandbox(sandbox_id=box.id).decision == sandbox_pb2.SANDBOX_DECISION_OPEN
    box.client.start_sandbox(sandbox_id=box.id)
    assert sh(box, "cat new") == "new\n"


def collide(box):
    sh(box, "sed -i 's/^line 2$/agent/' src/long.txt")
    box.put_in_base("src/long.txt", FILES["src/long.txt"].replace("line 2\n", "project\n"))


def conflicts(box):
    collide(box)
    report = box.client.get_conflicts(sandbox_id=box.id)
    assert [(file.path, file.state) for file in report.files] == ([] if box.syncs else [("src/long.txt", review_pb2.MERGE_STATE_CONFLICT)])


def rebase(box):
    collide(box)
    merged = box.client.rebase(sandbox_id=box.id, strategy=review_pb2.REBASE_STRATEGY_THEIRS)
    assert merged.conflicts == 0
    approve(box, ALL)
    assert "agent\n" in box.in_base("src/long.txt")


def provenance(box):
    sh(box, "echo new > new; echo more >> README")
    approval = approve(box, {"paths": ["new"]}).approval_id
    assert approval in [one.id for one in box.client.list_approvals(sandbox_id=box.id).approvals]


def see_the_base(box):
    box.put_in_base("later", "from outside\n")
    assert sh(box, "cat later") == "from outside\n"


ROWS = {
    "a name": name,
    "an environment": environment,
    "labels and tags": labels_and_tags,
    "limits of its own": limits,
    "reserved paths": reserved_paths,
    "run commands": run_commands,
    "stream their output": stream_output,
    "sessions": sessions,
    "processes in the background": processes,
    "terminals": terminals,
    "files: read, write, list, stat, mkdir, rename, search, remove": files,
    "change the rules while it runs": change_rules,
    "stop and start": stop_and_start,
    "events": events,
    "diff": show_diff,
    "approve everything": approve_all,
    "approve files": approve_files,
    "approve hunks": approve_hunks,
    "approve, and commit to its git repository": approve_and_commit,
    "hooks": hooks,
    "undo an approval": undo,
    "discard some changes": discard,
    "reject, and restore": reject_and_restore,
    "conflicts": conflicts,
    "rebase": rebase,
    "provenance": provenance,
    "see changes in the base at once": see_the_base,
}


def read_table():
    lines = re.search(r"^\| capability \|.*?(?:\n\n|\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S).group().strip().splitlines()
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return head[1:], {row[0]: row[1:] for row in body}


def check(make, row, server, client):
    box = make(server, client, **OPTIONS.get(row, {}))
    try:
        ROWS[row](box)
    finally:
        box.remove()


COLUMNS, TABLE = read_table()
CELLS = [(row, base, cell) for row, cells in TABLE.items() for base, cell in zip(COLUMNS, cells, strict=True)]


def test_the_table_has_what_is_tested():
    assert COLUMNS == list(BASES) and list(TABLE) == list(ROWS)


@pytest.mark.parametrize("row, base, cell", CELLS, ids=[f"{row} - {base}" for row, base, _ in CELLS])
def test_a_cell_holds(shared, client, row, base, cell):
    if row == "limits of its own" and os.geteuid() != 0:
        pytest.skip("an ordinary user has no cgroups")
    if cell == "yes":
        check(BASES[base], row, shared, client)
    else:
        with pytest.raises(grpc.RpcError) as raised:
            check(BASES[base], row, shared, client)
        assert "no: " + Refusal(raised.value).reason == cell, raised.value.details()


@pytest.mark.parametrize("row", [row for row in ROWS if row not in OPTIONS])
def test_it_holds_for_a_sandbox_of_run(shared, client, row):
    check(MadeByRun, row, shared, client)
