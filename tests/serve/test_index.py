"""A sandbox is its directory, and the store an index over it: `agentfense run` and a server over one state directory."""

import fcntl
import json
import os
import shutil
import signal
import subprocess

import grpc
import pytest
from server import eventually, sandbox_id

RUNNING, STOPPED, ERROR = 2, 3, 4
IS_ROOT = os.geteuid() == 0


class Here:
    """A server and `agentfense run` over its state directory."""

    def __init__(self, server, tmp_path):
        self.server, self.tmp_path, self.going = server, tmp_path, []
        self.sandboxes = server.state / "sandboxes"

    def project(self, name="shop", **files):
        place = self.tmp_path / name
        place.mkdir(exist_ok=True)
        for path, text in ({"a": "one\n", "b": "two\n"} | files).items():
            (place / path).write_text(text)
        return place

    def words(self, *words):
        return [self.server.program, *map(str, words)]

    def cli(self, *words, code=0):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, cwd="/",
                              env={**self.server.environment(), "HOME": str(self.tmp_path), "AGENTFENSE_URL": f"http://{self.server.http_address}"})
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def run(self, place, command, *options, code=0):
        """Makes one that stays; its id."""
        before = self.ids()
        self.cli("run", *options, place, "--", "sh", "-c", command, code=code)
        made = self.ids() - before
        return made.pop() if made else None

    def going_on(self, place, *options):
        """`run` of a command that waits until it is told to go on; its id, and how to do that."""
        before = self.ids()
        process = subprocess.Popen(self.words("run", *options, place, "--", "sh", "-c", "echo early > early; echo ready; read line; echo late > late"),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/",
                                   env={**self.server.environment(), "HOME": str(self.tmp_path)})
        self.going.append(process)
        assert process.stdout.readline() == "ready\n"
        made = self.ids() - before
        return (made.pop() if made else None), process

    def end(self, process):
        process.stdin.write("go\n")
        process.stdin.close()
        assert process.wait(60) == 0

    def ids(self):
        return {place.name for place in self.sandboxes.glob("sb_*")} if self.sandboxes.is_dir() else set()

    def local(self):
        return json.loads(self.cli("ls", "--json"))["sandboxes"]

    def listed(self):
        return {one.id: one for one in self.server.client().list_sandboxes(page_size=1000).sandboxes}

    def rest(self, verb, path, body=None):
        status, answer = self.server.http(verb, "/api/v1/sandboxes/" + path, body)
        return status, answer

    def ok(self, verb, path, body=None):
        status, answer = self.rest(verb, path, body)
        assert status in (200, 201, 204), (status, answer)
        return answer

    def clean(self):
        for process in self.going:
            process.kill()
            process.wait()


@pytest.fixture
def here(make, tmp_path):
    place = Here(make().start(), tmp_path)
    place.project()
    yield place
    place.clean()


def code_of(call, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(**fields)
    return caught.value.code(), caught.value.details()


# Made by run, used by the server.

def test_what_run_made_is_listed_reviewed_and_run_by_the_server(here):
    place, client = here.project(), here.server.client()
    box = here.run(place, "echo agent > a; rm b; echo new > c", "--name", "mine")
    shown = here.listed()[box]
    assert (shown.status, shown.codebase_id, shown.network) == (STOPPED, "", "none")
    assert [one["name"] for one in here.local()] == ["mine"]
    files = {file["filePath"]: file["changeType"] for file in here.ok("GET", f"{box}/diff")["files"]}
    assert files == {"a": "modified", "b": "deleted", "c": "added"}
    assert client.start_sandbox(sandbox_id="mine").status == RUNNING
    assert client.run("mine", "cat a c").stdout == "agent\nnew\n"
    session = client.create_session(sandbox_id=box)
    assert client.session_exec(session_id=session.id, command="echo more >> c; pwd").exit_code == 0
    assert here.ok("POST", f"{box}/stop")["status"] == "stopped"
    assert (place / "a").read_text() == "one\n"
    # Some of it by the server, the rest by the command line, and undone by either.
    here.ok("GET", f"{box}/diff")
    here.ok("POST", f"{box}/approve", {"files": ["a"]})
    assert (place / "a").read_text() == "agent\n" and (place / "b").exists()
    assert "c" in here.cli("diff", "mine") and "agent" not in here.cli("diff", "mine")
    here.cli("approve", "mine", "c")
    assert (place / "c").read_text() == "new\nmore\n"
    assert {file["filePath"] for file in here.ok("GET", f"{box}/diff")["files"]} == {"b"}
    here.cli("run", "--in", "mine", "--", "sh", "-c", "echo again > d")
    assert {file["filePath"] for file in here.ok("GET", f"{box}/diff")["files"]} == {"b", "d"}


def test_a_run_going_on_is_running_and_afterwards_stopped(here):
    place, client = here.project(), here.server.client()
    box, process = here.going_on(place)
    assert eventually(lambda: here.listed()[box].status == RUNNING)
    assert box in [one.id for one in client.list_sandboxes(status=RUNNING, page_size=100).sandboxes]
    assert client.run(box, "cat a; echo by-server > s").stdout == "one\n"
    here.end(process)
    assert eventually(lambda: here.listed()[box].status == STOPPED)
    assert {file["filePath"] for file in here.ok("GET", f"{box}/diff")["files"]} == {"early", "late", "s"}


def test_a_server_that_starts_in_the_middle_of_a_run_adopts_it(here):
    place = here.project()
    here.server.stop()
    box, process = here.going_on(place)
    here.server.start()
    assert here.listed()[box].status == RUNNING
    assert here.server.client().run(box, "cat a").stdout == "one\n"
    # It ends while no server is there, as it should: that is no error.
    here.server.process.kill()
    here.server.process.wait()
    here.end(process)
    here.server.start()
    assert here.listed()[box].status == STOPPED


def test_a_run_that_is_killed_is_an_error_and_one_that_leaves_nothing_is_gone(here):
    place, client = here.project(), here.server.client()
    box, process = here.going_on(place)
    assert eventually(lambda: here.listed()[box].status == RUNNING)
    os.kill(here.server.supervisors()[box], signal.SIGKILL)
    assert eventually(lambda: here.listed()[box].status == ERROR)
    process.wait(60)
    box = here.run(place, "echo x > a")
    assert box in here.listed()
    here.cli("rm", "--purge", box)
    assert box not in here.listed() and box not in here.ids()
    assert code_of(client.get_sandbox, sandbox_id=box)[0] == grpc.StatusCode.NOT_FOUND
    box, process = here.going_on(place, "--rm")
    assert eventually(lambda: here.listed()[box].status == RUNNING)
    here.end(process)
    assert eventually(lambda: box not in here.listed())


def test_a_directory_that_is_removed_takes_its_row_along_also_while_no_server_is_there(here):
    kept, gone = (here.run(here.project(), "echo x > a") for _ in range(2))
    assert {kept, gone} <= set(here.listed())
    here.server.stop()
    shutil.rmtree(here.sandboxes / gone)
    here.server.start()
    assert set(here.listed()) == {kept}


# One namespace of names.

def test_a_name_is_given_once(here):
    place, client = here.project(), here.server.client()
    here.run(place, "echo x > a", "--name", "taken")
    code, text = code_of(client.create_sandbox, directory=str(place), project_root=str(place), name="taken")
    assert code == grpc.StatusCode.ALREADY_EXISTS and "taken" in text
    made = client.create_sandbox(directory=str(place), project_root=str(place), name="other")
    assert "choose another name" in here.cli("run", "--name", "other", place, "--", "true", code=125)
    assert len(here.listed()) == 2
    assert here.rest("DELETE", f"{made.id}?purge=true")[0] == 204
    here.run(place, "echo x > a", "--name", "other")
    assert client.get_sandbox(sandbox_id="other").status == STOPPED
    # Also where the row of the one that has it is not there yet, nor ever will be.
    (here.server.state / "names" / "-" / "claimed").write_text(here.run(place, "echo x > b"))
    for fields in ({"start": True}, {}):
        code, text = code_of(client.create_sandbox, directory=str(place), project_root=str(place), name="claimed", **fields)
        assert code == grpc.StatusCode.ALREADY_EXISTS and "choose another name" in text
    assert len(here.listed()) == 3 and len(here.ids()) == 3
    here.cli("run", "--in", "taken", "--", "true")


# Whom a server believes.

@pytest.mark.parametrize("spoil", ["no spec", "bad spec"])
def test_a_broken_one_is_an_error_that_the_administrator_alone_sees_and_removes(here, spoil):
    """Also if no row tells whose it is, and from start to start: nobody but who asks for it removes it."""
    here.server.stop()
    bad = here.run(here.project(), "echo x > a", "--name", "bad")
    spec = here.sandboxes / bad / "spec"
    spec.unlink() if spoil == "no spec" else spec.write_text("nonsense")
    for _ in range(2):
        client = here.server.start().client()
        row = here.listed()[bad]
        assert (row.status, row.name, row.directory, row.owner_id) == (ERROR, "bad", "", "") and "spec" in row.status_reason, row
        assert bad in here.ids()
        here.server.stop()
    client = here.server.start().client()
    theirs = here.server.client(here.server.token("create", "--owner", "alice"))
    assert code_of(theirs.get_sandbox, sandbox_id=bad)[0] == code_of(theirs.destroy_sandbox, sandbox_id=bad)[0] == grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError):
        client.start_sandbox(sandbox_id=bad)
    status, answer = here.rest("POST", f"{bad}/approve", {"acknowledge": True})
    assert status >= 400 and "spec" in answer["error"], answer
    client.destroy_sandbox(sandbox_id=bad, force=True)
    assert bad not in here.listed() and bad not in here.ids()


@pytest.mark.parametrize("spoil", ["directory writable", "no spec, directory writable", "spec writable", "link"])
def test_what_others_could_write_is_not_served(here, spoil):
    good, bad = (here.run(here.project(), "echo x > a") for _ in range(2))
    place = here.sandboxes / bad
    here.server.stop()
    for path in here.server.state.glob("metadata.db*"):
        path.unlink()
    if here.server.db:
        here.server.sql("DELETE FROM sandboxes")
    if spoil == "link":
        place.rename(here.tmp_path / "elsewhere")
        place.symlink_to(here.tmp_path / "elsewhere")
    else:
        (place / "spec" if spoil == "spec writable" else place).chmod(0o770)
        if spoil.startswith("no spec"):
            (place / "spec").unlink()
    here.server.start()
    assert set(here.listed()) == {good}
    assert code_of(here.server.client().start_sandbox, sandbox_id=bad)[0] == grpc.StatusCode.NOT_FOUND
    assert any(bad == line.get("sandbox_id") and "not served" in json.dumps(line) for line in here.server.lines())


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_not_served_also_if_it_did_once(here):
    box = here.run(here.project(), "echo x > a")
    assert box in here.listed()
    os.chown(here.sandboxes / box / "spec", 54321, 54321)
    code, text = code_of(here.server.client().start_sandbox, sandbox_id=box)
    assert code == grpc.StatusCode.PERMISSION_DENIED and "belongs to another user" in text
    assert here.listed()[box].status == ERROR


# What the directory can tell.

def test_without_its_database_everything_is_there_again(here):
    place, client = here.project(), here.server.client()
    by_run = here.run(place, "echo agent > a; echo more > c", "--name", "by-run")
    made = {"by-run": "by-run"}
    for name in ("rejected", "approved", "open", "deleted"):
        status, answer = here.server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(here.project(name))})
        assert status == 201, answer
        made[name] = answer["id"]
        client.run(made[name], f"echo {name} > c")
    here.ok("POST", made["rejected"] + "/reject", {})
    here.ok("POST", made["approved"] + "/approve", {"force": True})
    here.ok("DELETE", made["deleted"])
    here.ok("POST", made["open"] + "/stop")
    codebase = client.codebase({"x": "1\n"})
    over = client.sandbox(codebase, sync_on_completion=2)
    client.run(over, "echo 2 > x")
    before = {name: here.ok("GET", box)["status"] for name, box in made.items()}
    assert before == {"by-run": "stopped", "rejected": "rejected", "approved": "approved", "open": "stopped", "deleted": "deleted"}
    here.server.process.kill()
    here.server.process.wait()
    if here.server.db:
        for table in ("sandboxes", "codebases", "applied_changes", "claims", "events"):
            here.server.sql(f"DELETE FROM {table}")
    for path in here.server.state.glob("metadata.db*"):
        path.unlink()
    client = here.server.start().client()
    assert {name: here.ok("GET", box)["status"] for name, box in made.items()} == before
    assert set(here.listed()) >= {by_run, over} and here.listed()[over].codebase_id == codebase
    assert {sandbox_id(made["open"]), sandbox_id(made["deleted"])} & {one["id"] for one in here.local()} == {sandbox_id(made["open"])}
    assert (here.tmp_path / "approved" / "c").read_text() == "approved\n"
    assert here.ok("POST", made["deleted"] + "/restore")["status"] == "stopped"
    assert {file["filePath"] for file in here.ok("GET", made["deleted"] + "/diff")["files"]} == {"c"}
    assert client.run(over, "cat x").stdout == "2\n"


def test_the_directory_wins_over_the_row(here):
    place, client = here.project(secret="s\n"), here.server.client()
    box = here.run(place, "echo x > a", "--name", "mine")
    assert box in here.listed()
    here.cli("run", "--in", "mine", "--disk", "64M", "--", "true")
    assert here.listed()[box].resources.disk_bytes == 64 << 20
    client.update_permissions(sandbox_id="mine", permissions=[])
    here.server.stop()
    here.server.sql("UPDATE sandboxes SET name = 'wrong', disk_bytes = 7, scope_path = '/nowhere' WHERE TRUE") if here.server.db else \
        here.server.sql("UPDATE sandboxes SET name = 'wrong', disk_bytes = 7")
    here.server.start()
    assert here.server.client().get_sandbox(sandbox_id="mine").id == box


def test_nobody_else_sees_what_has_no_owner(here):
    box = here.run(here.project(), "echo x > a")
    theirs = here.server.client(here.server.token("create", "--owner", "alice"))
    assert not theirs.list_sandboxes().sandboxes
    assert code_of(theirs.get_sandbox, sandbox_id=box)[0] == grpc.StatusCode.NOT_FOUND


def test_a_rejected_one_that_run_goes_on_with_is_open_again(here):
    place = here.project()
    box = here.run(place, "echo x > a", "--name", "mine")
    here.ok("POST", "mine/reject", {})
    here.server.process.kill()
    here.server.process.wait()
    here.cli("run", "--in", "mine", "--", "sh", "-c", "echo y > b")
    here.server.start()
    assert here.ok("GET", "mine")["status"] == "stopped" and box in here.listed()


# One lock.

def test_what_another_command_works_with_is_not_changed(here):
    box = here.run(here.project(), "echo agent > a", "--name", "mine")
    here.ok("GET", f"{box}/diff")
    client = here.server.client()
    with open(here.sandboxes / box / "lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path, body in (("approve", {}), ("discard", {"files": ["a"]}), ("reject", {})):
            status, answer = here.rest("POST", f"{box}/{path}", body)
            assert status == 409 and "in use" in answer["error"] and f"agentfense stop {box}" in answer["error"], answer
        assert "in use" in code_of(client.update_permissions, sandbox_id=box, permissions=[])[1]
        assert "in use" in code_of(client.destroy_sandbox, sandbox_id=box)[1]
        assert code_of(client.start_sandbox, sandbox_id=box)[0] == grpc.StatusCode.FAILED_PRECONDITION
    assert (here.project() / "a").read_text() == "one\n"
    here.ok("POST", f"{box}/approve", {})
    assert (here.tmp_path / "shop" / "a").read_text() == "agent\n"


def test_a_name_is_free_when_its_sandbox_has_gone(here):
    """A server that was away sees both changes at once: the sandbox that was removed gives the name up first."""
    first = here.run(here.project(), "echo 1 > a", "--name", "mine")
    assert here.server.client().get_sandbox(sandbox_id="mine").id == first
    here.server.stop()
    shutil.rmtree(here.sandboxes / first)
    second = here.run(here.project(), "echo 2 > a", "--name", "mine")
    here.server.start()
    assert here.server.client().get_sandbox(sandbox_id="mine").id == second != first


@pytest.mark.parametrize("point", ["sandbox_deleted", "sandbox_purged"])
def test_a_kill_in_the_middle_leaves_what_either_side_can_go_on_with(here, point):
    box = here.run(here.project(), "echo agent > a", "--name", "mine")
    environment = here.server.environment
    here.server.stop()
    here.server.environment = lambda: {**environment(), "AGENTFENSE_FAULT": point}
    here.server.start()
    with pytest.raises((OSError, ValueError)):
        here.rest("DELETE", f"{box}?purge=true")
    here.server.process.wait()
    here.server.environment = environment
    assert (box in here.ids()) == (point == "sandbox_deleted")
    here.server.start()
    assert box not in here.listed() and not here.ids()
    here.run(here.project(), "echo agent > a", "--name", "mine")
    assert len(here.listed()) == 1
