"""A token's roots as a boundary: directories exchanged while a workspace is made over them and later, questions about what lies outside, and repositories
that lead out of the roots. AGENTFENSE_LONG=1 makes the race ten thousand attempts for each driver."""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
from review import git, make_repository
from server import sandbox_id
from workspace import make_project, may_lack

BASE = "/api/v1/sandboxes"
ATTEMPTS = 10_000 if os.environ.get("AGENTFENSE_LONG") == "1" else 40
CANARY = "canary-outside-the-roots"
DRIVERS = ["fence", "copy", "overlayfs"]
NOBODY, SOMEBODY = (2_000_000_000 + n * 10_000_000 + os.getpid() for n in (1, 2))  # users of this run alone
WRITE = [{"pattern": "/**", "permission": "write"}]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="directories of other users need root")

# Exchanges names without end, until it is killed.
SWAPPER = """
import ctypes, random, sys, time
libc = ctypes.CDLL(None)
a, b = (path.encode() for path in sys.argv[1:3])
print("ready", flush=True)
while True:
    libc.renameat2(-100, a, -100, b, 2)
    time.sleep(random.random() * 0.004)
"""


def exchange(a, b):
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), 2) == 0, os.strerror(ctypes.get_errno())


class Holder:
    """Who has a token for one directory, with a project in it; and a directory beside that, with a secret."""

    def __init__(self, server, *options, user=None):
        self.server = server
        self.top = make_project()
        self.root, self.outside = self.top / "root", self.top / "outside"
        self.project = self.root / "project"
        for place in (self.project / "src", self.outside / "src"):
            place.mkdir(parents=True)
        (self.project / "mine").write_text("mine\n")
        (self.project / "src/a.txt").write_text("one\n")
        (self.outside / "secret").write_text(CANARY)
        if user is not None:
            for place in [self.root, *self.root.rglob("*")]:
                os.chown(place, user, user)
        token = server.token("create", "--owner", self.top.name, "--root", str(self.root), *options)
        self.headers = {"Authorization": "Bearer " + token}

    def http(self, verb, path, body=None):
        return self.server.http(verb, path, body, headers=self.headers)

    def create(self, status=201, scope=None, **more):
        scope = str(scope or self.project)
        got, answer = self.http("POST", BASE, {"scopePath": scope, "projectRoot": scope, "rules": WRITE, **more})
        assert got == status, (got, answer)
        return answer

    def ok(self, verb, path, body=None, status=200):
        got, answer = self.http(verb, path, body)
        assert got == status, (got, answer)
        return answer

    def sh(self, box, script):
        return self.ok("POST", f"{BASE}/{box}/exec", {"command": "/bin/sh", "args": ["-c", script]})

    def approve(self, box, status=200, **more):
        return self.ok("POST", f"{BASE}/{box}/approve", {"acknowledge": True, "stop": True, **more}, status=status)

    def remove(self):
        for one in self.http("GET", BASE)[1]["sandboxes"]:
            self.http("DELETE", f"{BASE}/{one['id']}?purge=true")
        shutil.rmtree(self.top, ignore_errors=True)


@pytest.fixture
def holder(shared):
    made = Holder(shared)
    yield made
    made.remove()


def skip_without(driver):
    if may_lack(driver):
        pytest.skip("this kernel, or this user, has no overlayfs to mount")


# ---- while it is made ----


def attempt(holder, driver):
    """One workspace: what it shows is the project, or there is none."""
    status, answer = holder.http("POST", BASE, {"scopePath": str(holder.project), "projectRoot": str(holder.project), "driver": driver, "noLock": True,
                                                "rules": WRITE})
    assert status in (201, 400, 403, 409, 500), answer
    assert CANARY not in json.dumps(answer)
    if status != 201:
        return status
    box = f"{BASE}/{answer['id']}"
    try:
        done = holder.ok("POST", f"{box}/exec", {"command": "/bin/sh", "args": ["-c", "cat /workspace/*"]})
        assert CANARY not in done["stdout"], "the sandbox is over a directory outside of the token's roots"
        assert done["stdout"] == "mine\n", done
    finally:
        holder.http("DELETE", box + "?purge=true")
    return status


def race(holder, driver, attempts):
    os.symlink(holder.outside, holder.root / "evil")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(holder.project), str(holder.root / "evil")], stdout=subprocess.PIPE)
    seen, tried, until = {}, 0, time.monotonic() + 600
    try:
        assert swapper.stdout.readline()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            # At least a few must get as far as to be made, or nothing was tried.
            while tried < attempts or (seen.get(201, 0) < 4 and time.monotonic() < until):
                for status in pool.map(lambda _: attempt(holder, driver), range(20)):
                    seen[status] = seen.get(status, 0) + 1
                    tried += 1
    finally:
        swapper.kill()
        swapper.wait()
    assert seen.get(201, 0) > 0 and seen.keys() - {201}, seen


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_directory_exchanged_for_a_link_while_a_workspace_is_made(holder, driver):
    skip_without(driver)
    race(holder, driver, ATTEMPTS)


def test_the_supervisor_takes_the_directory_and_not_its_name(make_box):
    """What it is handed is what it is over, whatever has the name in its spec by then."""
    box = make_box(files={"file": "what has the name"})
    given = box.top / "given"
    given.mkdir()
    (given / "file").write_text("what was checked")
    fd = os.open(given, os.O_RDONLY | os.O_DIRECTORY)
    wrapper = box.top / "with-base"
    wrapper.write_text(f'#!/bin/sh\nexec {box.program} --base-fd {fd} "$@"\n')
    wrapper.chmod(0o755)
    box.program = str(wrapper)
    try:
        box.start(own=False, pass_fds=[fd])
        assert box.run("cat file").out == b"what was checked"
    finally:
        os.close(fd)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_supervisor_is_handed_the_directory_that_was_checked(shared, holder, driver):
    skip_without(driver)
    box = holder.create(driver=driver)["id"]
    pid = shared.supervisors()[sandbox_id(box)]
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert "--base-fd" in words, words


@needs_root
def test_a_directory_exchanged_for_a_link_under_a_server_of_an_ordinary_user(make):
    server = make(user=SOMEBODY).start()
    holder = Holder(server, user=SOMEBODY)
    try:
        race(holder, "fence", 20)
    finally:
        holder.remove()


@pytest.mark.parametrize("above", ["root", "project"])
def test_a_link_in_the_place_of_the_root_or_in_it(shared, holder, above):
    """The root's holder owns the directory that the root is in, as one does whose root is below the home directory."""
    place = getattr(holder, above)
    place.rename(holder.top / "aside")
    os.symlink(holder.outside, place)
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
        os.chown(holder.top, NOBODY, NOBODY)
    status, answer = holder.http("POST", BASE, {"scopePath": str(place), "projectRoot": str(place)})
    if above == "project" or os.geteuid() == 0:
        assert status == 403 and answer["details"]["reason"] == "ROOT_NOT_ALLOWED", answer
    place.unlink()
    (holder.top / "aside").rename(place)


def test_links_that_stay_in_the_root_are_followed(holder):
    os.symlink("project", holder.root / "relative")
    os.symlink(holder.project, holder.root / "absolute")
    for name in ("relative", "absolute", "relative/../absolute"):
        made = holder.create(scope=holder.root / name)
        assert made["scopePath"] == str(holder.project)
        holder.ok("DELETE", f"{BASE}/{made['id']}", status=204)


# ---- afterwards ----


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("how", ["exchanged", "link"])
def test_another_directory_in_the_place_of_the_project(holder, driver, how):
    """Whatever looks at the project or writes to it for the workspace refuses; with the old directory back, all goes on."""
    skip_without(driver)
    box = holder.create(driver=driver)["id"]
    path = f"{BASE}/{box}"
    holder.sh(box, "echo two > /workspace/src/a.txt; echo new > /workspace/new.txt")
    holder.ok("GET", f"{path}/diff")
    holder.approve(box, files=["new.txt"], mode="files")
    other = holder.outside
    if how == "link":
        other = holder.top / "link"
        os.symlink(holder.outside, other)
    exchange(holder.project, other)
    before = sorted(os.listdir(holder.outside)) if how == "link" else sorted(os.listdir(holder.project))
    for verb, part, body in [("GET", "/diff", None), ("GET", "/diff?format=patch", None), ("GET", "/conflicts", None), ("POST", "/rebase", {}),
                             ("POST", "/approve", {"acknowledge": True, "force": True}), ("POST", "/undo", {}),
                             ("POST", "/discard", {"filePaths": ["src/a.txt"]}), ("POST", "/stop", None), ("GET", "/diff", None),
                             ("POST", "/approve", {"acknowledge": True, "force": True}), ("POST", "/undo", {}),
                             ("POST", "/discard", {"filePaths": ["src/a.txt"]}), ("POST", "/start", None)]:
        status, answer = holder.http(verb, path + part, body)
        if part == "/stop":
            assert status == 200, answer
            continue
        assert status >= 400, (verb, part, answer)
        assert CANARY not in json.dumps(answer)
        if how == "exchanged":
            # Without a fence some changes need the sandbox to be stopped, for an ordinary user most; that is asked for first.
            reasons = ["BASE_REPLACED", *(["WOULD_STOP"] if driver != "fence" else [])]
            assert status == 409 and answer["details"]["reason"] in reasons, (verb, part, status, answer)
            assert "put that one back" in answer["error"] or answer["details"]["reason"] == "WOULD_STOP", answer
    place = holder.outside if how == "link" else holder.project
    assert sorted(os.listdir(place)) == before and (place / "secret").read_text() == CANARY
    if how == "exchanged":
        given_up = holder.create(driver=driver, noLock=True)["id"]  # over the other one: it can be deleted when that is away
        exchange(holder.project, other)
        holder.ok("DELETE", f"{BASE}/{given_up}", status=204)
    else:
        exchange(holder.project, other)
    holder.ok("POST", f"{path}/start")
    assert [file["filePath"] for file in holder.ok("GET", f"{path}/diff")["files"]] == ["src/a.txt"]
    holder.approve(box)
    assert (holder.project / "src/a.txt").read_text() == "two\n"


# ---- asking what is outside ----

PLACES = ["is-there", "is-there/below", "is-not-there", "is-not-there/below", "file", "file/below", "link", "dangling", "closed/below", "closed/none"]


def put_places(top):
    for name in ("is-there/below", "closed/below"):
        (top / name).mkdir(parents=True)
    (top / "file").write_text("x")
    os.symlink("is-there", top / "link")
    os.symlink("nowhere", top / "dangling")
    (top / "closed").chmod(0)


def answers(holder, ask):
    """What is said about each of the places outside, their names taken out; the same about links to them in the root."""
    found = {}
    for name in PLACES:
        link = holder.root / "way-out"
        link.unlink(missing_ok=True)
        os.symlink(holder.outside / name, link)
        for place in (holder.outside / name, link, pathlib.Path(f"{holder.root}/../outside/{name}")):
            status, answer = ask(str(place))
            text = json.dumps(answer, sort_keys=True)
            for spelled in (str(place), os.path.normpath(place)):
                text = text.replace(spelled, "PLACE")
            text = re.sub(r"'[^']*\.\.\. \(\d+ bytes\)'", "'PLACE'", text)  # a long name is cut
            if isinstance(answer, dict) and "requestId" in answer:
                text = text.replace(answer["requestId"], "ID")
            found.setdefault((status, text), []).append(str(place))
    return found


def test_asking_what_is_outside_of_the_roots(holder):
    """One answer, whatever is there."""
    put_places(holder.outside)
    mine = holder.project
    questions = {
        "project root": lambda p: holder.http("POST", BASE, {"projectRoot": p}),
        "scope": lambda p: holder.http("POST", BASE, {"projectRoot": str(mine), "scopePath": p}),
        "scope alone": lambda p: holder.http("POST", BASE, {"scopePath": p}),
        "both": lambda p: holder.http("POST", BASE, {"projectRoot": p, "scopePath": p}),
        "reserved": lambda p: holder.http("POST", BASE, {"projectRoot": str(mine), "scopePath": str(mine), "reservedPaths": [p]}),
        "reserved beside": lambda p: holder.http("POST", BASE, {"projectRoot": str(mine), "reservedPaths": ["src", p]}),
        "validate": lambda p: holder.http("GET", f"/api/v1/validate-path?path={p}"),
        "validate root": lambda p: holder.http("GET", f"/api/v1/validate-path?path={mine}&projectRoot={p}"),
        "commit": lambda p: holder.http("POST", "/api/v1/commit-pending", {"projectRoot": p}),
        "commit preview": lambda p: holder.http("POST", "/api/v1/commit-preview", {"projectRoot": p}),
        "pending": lambda p: holder.http("GET", f"/api/v1/pending?projectRoot={p}"),
        "provenance": lambda p: holder.http("GET", f"/api/v1/provenance?path={p}"),
        "provenance root": lambda p: holder.http("GET", f"/api/v1/provenance?path=x&projectRoot={p}"),
        "list": lambda p: holder.http("GET", f"{BASE}?projectRoot={p}"),
        "list scope": lambda p: holder.http("GET", f"{BASE}?scopePath={p}"),
    }
    for what, ask in questions.items():
        found = answers(holder, ask)
        assert len(found) == 1, (what, found)
        (status, text), = found
        assert status != 404 or "provenance" in what, (what, status, text)
    for what in ("project root", "scope", "scope alone", "both", "commit", "commit preview", "pending"):
        assert questions[what](str(holder.outside / "is-there"))[0] == 403, what
    assert holder.http("GET", BASE)[1]["sandboxes"] == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_another_directory_in_the_place_of_what_a_command_ran_over(host, driver):
    """The same for sandboxes of `agentfense run`."""
    host.write("kept", "one\n")
    name = "swapped-" + driver
    done = host.run("-q", "--name", name, "--driver", driver, "--rule", "/**=write", command="echo two > kept")
    if done.code == 125 and driver == "overlayfs":
        pytest.skip(done.err.strip())
    assert done.code == 0, done
    other = host.dir / ("other-" + driver)
    other.mkdir()
    (other / "kept").write_text("one\n")
    exchange(host.base, other)
    for words in (["diff", name], ["apply", name], ["run", "-q", "--in", name, "--", "cat", "kept"]):
        refused = host.call(*words)
        assert refused.code != 0 and "is another directory now" in refused.err, (words, refused)
    assert (host.base / "kept").read_text() == "one\n"
    exchange(host.base, other)
    assert host.call("run", "-q", "--in", name, "--", "cat", "kept").out == b"two\n"
    assert host.call("apply", name).code == 0
    assert (host.base / "kept").read_text() == "two\n"
    shutil.rmtree(other)


# ---- repositories ----


def outside_repository(holder, user=None):
    """Somebody else's, beside the root, with a commit."""
    place = holder.outside / "theirs"
    place.mkdir()
    (place / "secret.txt").write_text(CANARY)
    make_repository(place)
    if user is not None:
        for path in [place, *place.rglob("*")]:
            os.chown(path, user, user)
    return place


def state_of(place):
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def lead_by_file(holder, theirs):
    (holder.project / ".git").write_text(f"gitdir: {theirs}/.git\n")


def lead_by_relative_file(holder, theirs):
    (holder.project / ".git").write_text("gitdir: ../../outside/theirs/.git\n")


def lead_by_link(holder, theirs):
    os.symlink(theirs / ".git", holder.project / ".git")


def lead_by_links_in_turn(holder, theirs):
    os.symlink(theirs, holder.root / "way")
    os.symlink("../way/.git", holder.project / ".git")


def lead_by_common_directory(holder, theirs):
    place = holder.project / ".git"
    place.mkdir()
    (place / "HEAD").write_text("ref: refs/heads/main\n")
    (place / "commondir").write_text(f"{theirs}/.git\n")
    (place / "gitdir").write_text(f"{place}\n")


def lead_by_objects(holder, theirs):
    make_repository(holder.project)
    shutil.rmtree(holder.project / ".git/objects")
    os.symlink(theirs / ".git/objects", holder.project / ".git/objects")


def lead_by_alternates(holder, theirs):
    make_repository(holder.project)
    (holder.project / ".git/objects/info/alternates").write_text(f"{theirs}/.git/objects\n")


def lead_by_alternates_of_alternates(holder, theirs):
    make_repository(holder.project)
    (holder.root / "more/info").mkdir(parents=True)
    (holder.root / "more/info/alternates").write_text(f"{theirs}/.git/objects\n")
    (holder.project / ".git/objects/info/alternates").write_text("../../../more\n")


def lead_by_work_tree(holder, theirs):
    make_repository(holder.project)
    git(holder.project, "config", "core.worktree", str(theirs.parent.parent))


def lead_by_references(holder, theirs):
    """Found only by whoever opens them: what is behind is written when a branch moves."""
    make_repository(holder.project)
    shutil.rmtree(holder.project / ".git/refs")
    os.symlink(theirs / ".git/refs", holder.project / ".git/refs")


def lead_by_branch(holder, theirs):
    make_repository(holder.project)
    branch = holder.project / ".git/refs/heads/main"
    branch.unlink()
    os.symlink(theirs / ".git/refs/heads/main", branch)


def lead_by_log(holder, theirs):
    make_repository(holder.project)
    shutil.rmtree(holder.project / ".git/logs")
    os.symlink(theirs / ".git/logs", holder.project / ".git/logs")


def lead_by_index(holder, theirs):
    make_repository(holder.project)
    (holder.project / ".git/index").unlink()
    os.symlink(theirs / ".git/index", holder.project / ".git/index")


def lead_by_configuration(holder, theirs):
    make_repository(holder.project)
    (holder.project / ".git/config").unlink()
    os.symlink(theirs / ".git/config", holder.project / ".git/config")


def lead_by_repository_above(holder, theirs):
    """The one that the root itself is in."""
    shutil.copytree(theirs / ".git", holder.top / ".git")


LEADS = {name[len("lead_by_"):]: fn for name, fn in globals().items() if name.startswith("lead_by_")}
CHECKED = {"file", "relative_file", "link", "links_in_turn", "common_directory", "objects", "alternates", "alternates_of_alternates", "work_tree", "references", "log",
           "index", "configuration"}


def has_landlock():
    """By which the kernel refuses what lies outside, also what nobody looked at before."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2


@pytest.mark.parametrize("lead", LEADS)
def test_committing_into_a_repository_outside_of_the_roots(holder, lead):
    if lead not in CHECKED | {"repository_above"} and not has_landlock():
        pytest.skip("this kernel has no Landlock")
    theirs = outside_repository(holder)
    LEADS[lead](holder, theirs)
    hashes = {git(theirs, "rev-parse", "HEAD").strip()}
    before = state_of(holder.outside)
    made = holder.create()
    box, told = made["id"], [made]
    holder.sh(box, "echo two > /workspace/src/a.txt; echo new > /workspace/new.txt")
    holder.ok("GET", f"{BASE}/{box}/diff")
    status, answer = holder.http("POST", f"{BASE}/{box}/approve", {"acknowledge": True, "createCommit": True, "files": ["new.txt"]})
    told.append(answer)
    assert status >= 400 or not answer.get("commitHash"), answer
    told.append(holder.http("POST", f"{BASE}/{box}/approve", {"acknowledge": True})[1])
    for verb, path in (("GET", "/api/v1/commit-preview"), ("POST", "/api/v1/commit-preview"), ("POST", "/api/v1/commit-pending")):
        status, answer = holder.http(verb, f"{path}?projectRoot={holder.project}", {} if verb == "POST" else None)
        told.append(answer)
        if lead in CHECKED:
            assert status == 403 and answer["details"]["reason"] == "ROOT_NOT_ALLOWED", (status, answer)
        if path.endswith("pending"):
            assert status >= 400, answer
    told.append(holder.http("GET", f"{BASE}/{box}")[1])
    assert state_of(holder.outside) == before
    text = json.dumps(told)
    assert CANARY not in text and not [h for h in hashes if h in text and lead != "repository_above"], text
    assert (holder.project / "new.txt").read_text() == "new\n"


def test_what_is_said_of_a_repository_does_not_tell_whether_it_is_there(holder):
    outside_repository(holder)
    box = holder.create()["id"]
    holder.sh(box, "echo new > /workspace/new.txt")
    holder.ok("GET", f"{BASE}/{box}/diff")
    holder.approve(box)
    said = set()
    for name in ("theirs/.git", "theirs", "theirs/secret.txt", "nowhere", "nowhere/.git", "secret"):
        (holder.project / ".git").write_text(f"gitdir: {holder.outside}/{name}\n")
        status, answer = holder.http("POST", "/api/v1/commit-pending", {"projectRoot": str(holder.project)})
        answer.pop("requestId", None)
        said.add((status, json.dumps(answer, sort_keys=True)))
    assert len(said) == 1 and said.pop()[0] == 403


def test_a_repository_exchanged_for_a_link_while_it_is_committed_to(holder):
    if not has_landlock():
        pytest.skip("this kernel has no Landlock")
    theirs = outside_repository(holder)
    make_repository(holder.project)
    os.symlink(theirs / ".git", holder.root / "evil")
    before = state_of(holder.outside)
    box = holder.create()["id"]
    theirs_head = git(theirs, "rev-parse", "HEAD").strip()
    holder.sh(box, "echo left > /workspace/left")  # one that all was approved of would be done with
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(holder.project / ".git"), str(holder.root / "evil")], stdout=subprocess.PIPE)
    done = {}
    try:
        assert swapper.stdout.readline()
        for n in range(min(ATTEMPTS // 2, 500)):
            holder.sh(box, f"echo {n} > /workspace/new-{n}")
            holder.ok("GET", f"{BASE}/{box}/diff")
            status, answer = holder.http("POST", f"{BASE}/{box}/approve", {"acknowledge": True, "createCommit": True, "files": [f"new-{n}"]})
            assert theirs_head not in json.dumps(answer) and CANARY not in json.dumps(answer)
            done[status, "commitHash" in answer] = done.get((status, "commitHash" in answer), 0) + 1
    finally:
        swapper.kill()
        swapper.wait()
    assert state_of(holder.outside) == before, done


def commit_all(holder, box):
    """A change of the agent's, approved and committed."""
    holder.sh(box, "echo two > /workspace/src/a.txt")
    holder.ok("GET", f"{BASE}/{box}/diff")
    return holder.approve(box, createCommit=True)


@pytest.mark.parametrize("how", ["plain", "worktree", "link", "alternates"])
def test_repositories_that_stay_in_the_roots_are_committed_to(holder, how):
    main = holder.root / "main"
    if how == "plain":
        make_repository(holder.project)
    else:
        shutil.move(holder.project, main)
        make_repository(main)
    if how == "worktree":
        git(main, "worktree", "add", "-q", "-b", "side", str(holder.project))
    elif how == "alternates":
        git(holder.root, "clone", "-q", "--shared", str(main), str(holder.project))
    elif how == "link":
        git(holder.root, "clone", "-q", str(main), str(holder.project))
        (holder.project / ".git").rename(holder.root / "elsewhere")
        os.symlink(holder.root / "elsewhere", holder.project / ".git")
    before = git(holder.project, "rev-parse", "HEAD").strip()
    made = holder.create()
    assert made["baseCommitHash"] == before
    answer = commit_all(holder, made["id"])
    assert answer["commitHash"] == git(holder.project, "rev-parse", "HEAD").strip() != before, answer
    assert git(holder.project, "status", "--porcelain") == ""


@needs_root
@pytest.mark.parametrize("lead", ["file", "link"])
def test_a_repository_of_another_user_gives_nobody_his_rights(shared, lead):
    """Also where the roots would allow it: a project's owner commits as himself."""
    holder = Holder(shared, user=NOBODY)
    try:
        theirs = holder.root / "theirs"
        theirs.mkdir()
        (theirs / "a.txt").write_text("a\n")
        make_repository(theirs)
        for path in [theirs, *theirs.rglob("*")]:
            os.chown(path, SOMEBODY, SOMEBODY)
        LEADS[lead](holder, theirs)
        os.chown(holder.project / ".git", NOBODY, NOBODY, follow_symlinks=False)
        before = state_of(theirs)
        box = holder.create()["id"]
        holder.sh(box, "echo new > /workspace/new.txt")
        holder.ok("GET", f"{BASE}/{box}/diff")
        status, answer = holder.http("POST", f"{BASE}/{box}/approve", {"acknowledge": True, "createCommit": True})
        assert status >= 400 or (not answer.get("commitHash") and answer["commitError"]), answer
        assert state_of(theirs) == before
    finally:
        holder.remove()


@needs_root
def test_a_commit_belongs_to_the_owner_of_the_project(shared):
    holder = Holder(shared, user=NOBODY)
    try:
        os.chown(holder.project, 0, 0)
        make_repository(holder.project)
        for path in [holder.project, *holder.project.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        answer = commit_all(holder, holder.create()["id"])
        assert answer["commitHash"], answer
        assert {path.lstat().st_uid for path in (holder.project / ".git").rglob("*")} == {NOBODY}
    finally:
        holder.remove()
