"""Projects made to be looked at: whoever shows, approves or commits what an agent changed in them runs nothing that they bring along, waits for
nothing that they hold, and reaches nothing beside them."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading

import pytest
from review import Review, make_repository
from workspace import make_project

FILES = {"README": "read me\n", "src/a.txt": "one\ntwo\nthree\n", "img.bin": "a\0b"}
WORK = "echo four >> src/a.txt; echo new > new.txt; rm README; printf 'c\\0' >> img.bin; chmod +x src/a.txt"


ALL = [{"pattern": "/**", "permission": "write"}]


def arm(project, worktree=""):
    """Everything by which git, an editor or a shell would run something of the project's; each leaves a mark."""
    mark = project.parent / f"{project.name}-ran"
    make_repository(project)
    trap = project / ".git" / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {mark}\ncat\nexit 0\n")
    trap.chmod(0o755)
    for hook in ("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout",
                 "post-index-change", "fsmonitor-watchman", "reference-transaction", "post-rewrite", "pre-auto-gc", "update", "post-update"):
        shutil.copy(trap, project / ".git/hooks" / hook)
    with open(project / ".git/config", "a", encoding="utf-8") as config:
        config.write(f"""
[core]
\tfsmonitor = {trap}
\tpager = {trap}
\teditor = {trap}
\tsshCommand = {trap}
\taskPass = {trap}
\thooksPath = {project}/.git/hooks
\tattributesFile = {project}/.gitattributes
{worktree}
[diff]
\texternal = {trap}
[diff "evil"]
\tcommand = {trap}
\ttextconv = {trap}
[filter "evil"]
\tclean = {trap}
\tsmudge = {trap}
\tprocess = {trap}
\trequired = true
[merge "evil"]
\tdriver = {trap}
[gpg]
\tprogram = {trap}
[commit]
\tgpgSign = true
\ttemplate = /etc/shadow
[credential]
\thelper = {trap}
[include]
\tpath = /proc/self/environ
[alias]
\tdiff = !{trap}
\tcommit = !{trap}
""")
    (project / ".gitattributes").write_text("* filter=evil diff=evil merge=evil -text ident\n")
    (project / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = ext::{trap}\n\tupdate = !{trap}\n')
    (project / ".git/info").mkdir(exist_ok=True)
    (project / ".git/info/attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (project / ".envrc").write_text(f"echo envrc >> {mark}\n")
    return mark


class Armed(Review):
    """A workspace over a project that was prepared before."""

    def __init__(self, server, project, **more):
        self.server, self.project = server, project
        status, made = server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(project), **more})
        assert status == 201, made
        self.id = made["id"]


@pytest.fixture
def project():
    place = make_project()
    for path, content in FILES.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(content)
    yield place
    for name in place.parent.glob(f"{place.name}*"):
        shutil.rmtree(name, ignore_errors=True)
        with contextlib.suppress(OSError):
            name.unlink()


@pytest.fixture
def boxes(shared):
    made = []

    def make(project, **more):
        made.append(Armed(shared, project, **more))
        return made[-1]

    yield make
    for box in made:
        with contextlib.suppress(OSError):
            box.http("DELETE", "")


def finishes(call, seconds=120):
    """What it answers; a test that hangs says where."""
    answer = []

    def run():
        try:
            answer.append(call())
        except BaseException as error:  # noqa: BLE001 - raised below
            answer.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert answer, "it waits for something"
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]


# ---- what would run ----

@pytest.mark.parametrize("worktree", ["", "\tworktree = /\n"], ids=["", "elsewhere"])
@pytest.mark.parametrize("driver", ["fence", "copy"])
def test_a_repository_with_hooks_filters_and_programs_in_its_configuration(boxes, project, driver, worktree):
    mark = arm(project, worktree)
    box = boxes(project, driver=driver, rules=ALL)
    box.sh(WORK)
    box.diff()
    for path in ("/diff?format=patch", "/conflicts"):
        box.http("GET", path, raw=True)
    box.http("POST", "/rebase", {})
    (project / "src/a.txt").write_text("ZERO\none\ntwo\nthree\n")
    box.diff()
    status, answer = box.http("POST", "/approve", {"acknowledge": True, "createCommit": True, "commitMessage": "x"})
    assert status in (200, 409, 422), answer
    if status != 200:
        box.ok("POST", "/rebase", {})
        box.diff()
        box.approve({"acknowledge": True, "force": True})
    assert (project / "new.txt").read_text() == "new\n", "nothing was applied, and nothing tried"
    box.server.http("POST", "/api/v1/commit-preview", {"projectRoot": str(project)})
    box.server.http("POST", "/api/v1/commit-pending", {"projectRoot": str(project)})
    box.http("POST", "/undo", {})
    assert not mark.exists(), mark.read_text()
    assert not pathlib.Path("/new.txt").exists(), "core.worktree led it elsewhere"


def test_the_same_by_the_command_line(one):
    for path, content in FILES.items():
        one.write(path, content)
    mark = arm(one.base)
    try:
        assert one.run("-q", "--name", "armed", "--rule", "/**=write", command=WORK).code == 0
        for words in (["diff", "armed"], ["diff", "armed", "--json"], ["diff", "armed", "--stat"], ["diff", "armed", "--patch"], ["approve", "armed", "--all", "-n"],
                      ["apply", "armed"], ["undo", "armed"], ["ls"], ["discard", "armed", "--all"]):
            one.call(*words, cwd=one.base, env={"GIT_PAGER": str(one.base / ".git/trap"), "PAGER": str(one.base / ".git/trap")})
        assert not mark.exists(), mark.read_text()
    finally:
        one.call("rm", "--purge", "armed")
        shutil.rmtree(one.base / ".git")
        for path in (*FILES, ".gitattributes", ".gitmodules", ".envrc", "new.txt"):
            with contextlib.suppress(OSError):
                (one.base / path).unlink()


def test_a_repository_that_an_agent_arms_for_whoever_comes_next(boxes, project):
    """Its changes to .git never arrive; what would run by itself elsewhere needs a word."""
    make_repository(project)
    before = {path: path.read_bytes() for path in (project / ".git").rglob("*") if path.is_file()}
    box = boxes(project, rules=ALL)
    box.sh("""
printf '[core]\\n\\tfsmonitor = /bin/false\\n' >> .git/config; printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
mkdir -p sub/.git/hooks .github/workflows .vscode .husky; echo x > sub/.git/config; echo 'ref: x' > sub/.git/HEAD
mkdir -p bare.git/hooks bare.git/objects bare.git/refs; echo 'ref: refs/heads/x' > bare.git/HEAD; printf '[core]\\n\\tfsmonitor = x\\n' > bare.git/config
echo on: push > .github/workflows/x.yml; echo '{}' > .vscode/tasks.json; echo 'rm -rf ~' > .envrc; echo x > .husky/pre-commit
echo 'gitdir: /elsewhere' > .git.txt; mkdir GIT~1 .GIT 2>/dev/null; echo x > .GIT/config; printf x > "$(printf '.g\\342\\200\\214it')"
echo plain > plain.txt
""")
    box.diff()
    status, answer = box.http("POST", "/approve", {})
    assert status == 422, (status, answer)
    asked = json.dumps(answer)
    for name in (".github/workflows/x.yml", ".vscode/tasks.json", ".envrc", ".husky/pre-commit"):
        assert name in asked, (name, asked)
    assert not (project / "plain.txt").exists()
    box.approve({"files": ["plain.txt"]})
    assert {path: path.read_bytes() for path in (project / ".git").rglob("*") if path.is_file()} == before
    assert sorted(p.name for p in project.iterdir()) == [".git", "README", "img.bin", "plain.txt", "src"]


# ---- what would be waited for ----

def test_pipes_sockets_and_devices_in_the_project(boxes, project):
    """Never opened: not by the fence, not by a diff, not by an approval, also where an agent puts a file in their place."""
    os.mkfifo(project / "pipe")
    os.mkfifo(project / "src/pipe2")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(project / "sock"))
    if os.geteuid() == 0:
        os.mknod(project / "tty", 0o020666, os.makedev(5, 0))
    for driver in ("fence", "overlayfs", "copy"):
        try:
            box = boxes(project, driver=driver, rules=ALL)
        except AssertionError:
            if driver == "overlayfs":
                continue
            raise
        finishes(lambda b=box: b.sh("ls -la; rm -f pipe sock; echo file > pipe; mv src/pipe2 moved; mkfifo mine; mkdir d; mkfifo d/inner; echo x > new.txt; find . | wc -l"))
        finishes(box.diff)
        finishes(lambda b=box: b.http("GET", "/diff?format=patch", raw=True))
        finishes(lambda b=box: b.http("GET", "/conflicts"))
        for route in ("/files?path=/", "/files/content?path=mine", "/files/download?path=mine", "/files/content?path=src/pipe2"):
            finishes(lambda b=box, r=route: b.http("GET", r, raw=True))
        status, answer = finishes(lambda b=box: b.http("POST", "/approve", {"files": ["new.txt"]}))
        assert status in (200, 409, 422), (driver, answer)
        finishes(lambda b=box: b.http("POST", "/approve", {"acknowledge": True}))
        finishes(lambda b=box: b.http("DELETE", ""))
        with contextlib.suppress(OSError):
            (project / "new.txt").unlink()


def test_pipes_by_the_command_line(one):
    os.mkfifo(one.base / "pipe")
    try:
        assert one.run("-q", "--name", "pipes", "--rule", "/**=write", command="mkfifo mine; rm pipe; echo x > pipe; cat hello.txt > new").code == 0
        for words in (["diff", "pipes"], ["diff", "pipes", "--json"], ["approve", "pipes", "--all"], ["discard", "pipes", "--all"]):
            one.call(*words)
    finally:
        one.call("rm", "--purge", "pipes")
        for name in ("pipe", "new", "mine"):
            with contextlib.suppress(OSError):
                (one.base / name).unlink()


def test_a_file_that_grows_while_it_is_read(boxes, project):
    """And one that is truncated under a reader's mapping, replaced, and made again: an answer comes, and the server lives."""
    box = boxes(project)
    box.sh("seq 100000 > src/a.txt; seq 50000 > grows")
    over = threading.Event()

    def host_side():
        n = 0
        while not over.is_set():
            n += 1
            with contextlib.suppress(OSError):
                (project / "src/a.txt").write_text("x\n" * (n % 5000))
                os.truncate(project / "src/a.txt", 0)
                os.replace(project / "src/a.txt", project / "src/b.txt")
                (project / "src/a.txt").write_text("y\n" * 100)

    thread = threading.Thread(target=host_side)
    thread.start()
    process = box.start_process("while :; do seq 200000 > grows; : > grows; mv grows g2; mv g2 grows; done")["id"]
    try:
        for _ in range(3):
            assert finishes(lambda: box.http("GET", "/diff", raw=True))[0].status == 200
            assert finishes(lambda: box.http("GET", "/conflicts", raw=True))[0].status in (200, 409)
            with contextlib.suppress(http.client.IncompleteRead):  # of what is shorter now than was announced
                assert finishes(lambda: box.http("GET", "/files/download?path=grows", raw=True))[0].status in (200, 404)
    finally:
        over.set()
        thread.join()
        box.http("DELETE", f"/processes/{process}")
    assert box.server.process.poll() is None


def test_a_huge_directory_and_a_file_that_is_one_hole(boxes, project):
    many = project / "many"
    many.mkdir()
    for n in range(800):
        (many / f"f{n}").touch()
    box = boxes(project)
    finishes(lambda: box.sh("rm -rf many; truncate -s 1T mine; ls | head"))
    diff = finishes(box.diff)
    assert diff["total"] >= 800
    status, _ = finishes(lambda: box.http("GET", "/files/content?path=mine"))
    assert status == 400
    assert next(file for file in diff["files"] if file["filePath"] == "mine")["fileSize"] == 1 << 40
    finishes(lambda: box.sh("truncate -s 200G hole; cp --sparse=always hole other; echo end >> other"))
    finishes(box.diff)
    assert finishes(lambda: box.http("GET", "/conflicts"))[0] == 200
    assert finishes(lambda: box.http("POST", "/approve", {"mode": "files", "files": ["hole", "other"], "acknowledge": True}))[0] == 200
    assert (project / "hole").stat().st_size == 200 << 30 and (project / "hole").stat().st_blocks < 1 << 20
    with open(project / "other", "rb") as file:
        file.seek(200 << 30)
        assert file.read() == b"end\n"
    assert finishes(lambda: box.http("POST", "/discard", {"filePaths": ["mine"]}))[0] == 200
    assert "mine" not in [file["filePath"] for file in finishes(box.diff)["files"]]


@pytest.mark.xfail(os.geteuid() != 0, strict=True, raises=AssertionError,
                   reason="without root a review has no right to read what the agent closed to its owner, who is who reviews")
@pytest.mark.parametrize("script", ["echo 2 > mine; chmod 0 mine", "mkdir d; echo 2 > d/mine; chmod 0 d"], ids=["file", "directory"])
def test_changes_that_an_agent_closes_to_their_owner(boxes, project, script):
    """Modes are the agent's to choose. They keep nobody from reviewing its changes, nor those beside them."""
    box = boxes(project)
    assert box.sh(f"echo 1 > other; {script}")["exitCode"] == 0
    status, diff = finishes(lambda: box.http("GET", "/diff"))
    assert status == 200, diff
    files = [file["filePath"] for file in diff["files"] if file["filePath"] == "other" or file["filePath"].endswith("mine")]
    assert len(files) == 2 and "+2" in diff["unifiedDiff"], diff
    status, answer = finishes(lambda: box.http("POST", "/approve", {"mode": "files", "files": files, "acknowledge": True}))
    assert status == 200 and (project / "other").exists(), answer


# ---- where it would lead ----

def test_a_scope_that_is_a_link(shared, project, boxes):
    """What counts is where it leads, and what it leads to when the sandbox is made; not what it is made to lead to later."""
    elsewhere = project.parent / f"{project.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "victim").write_text("untouched\n")
    door = project.parent / f"{project.name}-door"
    door.symlink_to(project)
    box = boxes(door)
    box.sh("echo changed > README; echo new > victim")
    door.unlink()
    door.symlink_to(elsewhere)
    box.diff()
    box.approve({"acknowledge": True})
    assert sorted(os.listdir(elsewhere)) == ["victim"] and (elsewhere / "victim").read_text() == "untouched\n"
    assert (project / "README").read_text() == "changed\n"


def test_a_project_replaced_by_a_link_while_it_is_reviewed(project, boxes):
    elsewhere = project.parent / f"{project.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "README").write_text("untouched\n")
    box = boxes(project)
    box.sh("echo changed > README; echo new > evil")
    box.diff()
    away = project.parent / f"{project.name}-away"
    os.rename(project, away)
    project.symlink_to(elsewhere)
    try:
        box.http("POST", "/approve", {"acknowledge": True, "force": True})
        assert (elsewhere / "README").read_text() == "untouched\n" and os.listdir(elsewhere) == ["README"]
    finally:
        project.unlink()
        os.rename(away, project)


def test_directories_of_the_project_that_become_links_before_the_approval(project, boxes):
    elsewhere = project.parent / f"{project.name}-elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("one\ntwo\nthree\n")
    box = boxes(project)
    box.sh("echo evil > src/a.txt; echo evil > src/new; rm README")
    box.diff()
    shutil.rmtree(project / "src")
    (project / "src").symlink_to(elsewhere)
    for body in ({}, {"force": True, "acknowledge": True}, {"files": ["src/a.txt"], "force": True}):
        box.http("POST", "/approve", body)
    assert os.listdir(elsewhere) == ["a.txt"] and (elsewhere / "a.txt").read_text() == "one\ntwo\nthree\n"


# ---- what would run later ----

BARE = "mkdir -p d; echo 'ref: refs/heads/x' > d/HEAD; printf '[core]\\n\\tfsmonitor = ./evil\\n' > d/config; "

# What the project has, what the agent does, and which of its changes need acknowledgement, and why.
LATER = {
    "a link named like an editor's directory": ("", "mkdir conf; echo {} > conf/tasks.json; ln -s conf .vscode", {".vscode": "editor", "conf/tasks.json": "editor"}),
    "one named like a directory of which some is CI": ("", "mkdir -p gh/workflows; echo x > gh/workflows/ci.yml; echo x > gh/note; ln -s gh .github",
                                                     {".github": "ci", "gh/workflows/ci.yml": "ci"}),
    "links named like others": ("", "mkdir c; for n in .claude .husky .agentfense .GitHub; do ln -s c $n; done; mkdir .config; ln -s ../c .config/systemd",
                                {".claude": "editor", ".husky": "hook", ".agentfense": "hook", ".GitHub": "ci", ".config/systemd": "shell"}),
    "where a link of the project leads": ("mkdir conf; echo {} > conf/tasks.json; ln -s conf/ .vscode", "echo evil > conf/tasks.json; echo x > conf/new; echo x > other",
                                          {"conf/tasks.json": "editor", "conf/new": "editor"}),
    "where a chain of links leads": ("mkdir -p a/deep; ln -s b .vscode; ln -s ./a/../a/deep b", "echo evil > a/deep/tasks.json; echo x > a/x", {"a/deep/tasks.json": "editor"}),
    "a link on the way": ("mkdir one two; ln -s way .vscode; ln -s one way", "ln -sfn two way; echo x > two/tasks.json", {"way": "editor", "two/tasks.json": "editor"}),
    "a link replaced, and what it led to": ("mkdir one; ln -s one .vscode", "mkdir two; ln -sfn two .vscode; echo x > one/tasks.json",
                                            {".vscode": "editor", "one/tasks.json": "editor"}),
    "a link to the directory above": ("mkdir d; ln -s .. d/.vscode", "echo x > tasks.json", {"tasks.json": "editor"}),
    "links in where a link leads": ("mkdir gh wf; ln -s gh .github; ln -s ../wf gh/workflows", "echo x > wf/ci.yml; echo x > gh/note", {"wf/ci.yml": "ci"}),
    "a file that is a shell's through a link": ("mkdir conf; echo > conf/env; ln -s conf/env .envrc", "echo evil > conf/env", {"conf/env": "shell"}),
    "a link that says where the project is": ("mkdir conf; ln -s $PWD/conf .vscode", "echo evil > conf/tasks.json", {"conf/tasks.json": "editor"}),
    "a target in other letters": ("mkdir Conf; ln -s conf .vscode", "echo evil > Conf/tasks.json", {"Conf/tasks.json": "editor"}),
    "hooks through a link": ("mkdir scripts; ln -s scripts hooks", "echo x > scripts/pre-commit; echo x > scripts/other", {"scripts/pre-commit": "hook"}),
    "links that mean nothing": ("mkdir lib; ln -s lib lib64", "echo x > lib/a; ln -s lib lib32; ln -s gh github", {}),
    "a repository of files": ("", BARE + "echo > d/objects; echo > d/refs; chmod +x d/objects d/refs",
                              {"d/HEAD": "git", "d/config": "git", "d/objects": "git", "d/refs": "git"}),
    "a repository of links": ("", BARE + "mkdir o; ln -s ../o d/objects; ln -s ../o d/refs", {"d/HEAD": "git", "d/config": "git", "d/objects": "git", "d/refs": "git"}),
    "a repository elsewhere": ("", BARE + "echo ../o > d/commondir", {"d/HEAD": "git", "d/config": "git", "d/commondir": "git"}),
    "half of a repository": ("mkdir -p d/objects d/refs; touch d/objects/x d/refs/x", BARE, {"d/HEAD": "git", "d/config": "git"}),
    "the other half": ("mkdir d; echo 'ref: refs/heads/x' > d/HEAD", "mkdir d/refs; touch d/refs/x d/x", {"d/refs/x": "git"}),
    "the configuration of one": ("mkdir -p d/objects d/refs; echo 'ref: refs/heads/x' > d/HEAD", "echo x > d/config; mkdir d/worktrees; echo x > d/worktrees/x",
                                 {"d/config": "git", "d/worktrees/x": "git"}),
    "one in the top directory": ("", "echo 'ref: refs/heads/x' > head; mkdir Objects; touch Objects/x", {"head": "git", "Objects/x": "git"}),
    "what another repository may lead to": ("mkdir -p d/objects d/refs; touch d/config", "echo evil > d/config", {"d/config": "git"}),
    "no repository": ("", "mkdir -p d/objects d/config e/head e/refs; touch d/objects/x d/config/x e/head/x e/refs/x", {}),
    "the checks themselves deleted": ("mkdir -p .agentfense .husky .github/workflows x; echo '[]' > .agentfense/hooks.json; touch .husky/pre-commit .github/workflows/ci.yml x/plain",
                                      "rm -r .agentfense .husky .github x",
                                      {".agentfense/hooks.json": "hook", ".husky/pre-commit": "hook", ".github/workflows/ci.yml": "ci"}),
    "the checks moved away": ("mkdir .agentfense; seq 50 > .agentfense/check; seq 60 99 > .gitlab-ci.yml",
                              "mv .agentfense/check x; mv .gitlab-ci.yml y", {"x": "hook", "y": "ci"}),
    "a link to the checks deleted": ("mkdir gh; ln -s gh .github", "rm .github", {".github": "ci"}),
    "filters of git": ("echo '*.c diff=cpp' > .gitattributes", "echo '* filter=evil' >> .gitattributes; mkdir d; echo '*.c text' > d/.gitattributes", {".gitattributes": "hook"}),
    "filters of git taken away": ("echo '* filter=crypt' > .gitattributes", "echo '*.c text' > .gitattributes", {".gitattributes": "hook"}),
    "attributes beside filters": ("echo '* filter=lfs' > .gitattributes", "echo '*.c text' >> .gitattributes", {}),
    "what a hook runs": ("mkdir .husky scripts; printf 'make check\\n./scripts/a.sh\\n' > .husky/pre-commit; touch Makefile scripts/a.sh scripts/b.sh",
                         "echo x > Makefile; echo x > scripts/a.sh; echo x > scripts/b.sh", {"Makefile": "hook", "scripts/a.sh": "hook"}),
    "what nothing runs": ("mkdir -p .github/workflows; echo '# make sure' > .github/workflows/ci.yml; touch Makefile", "echo x > Makefile", {}),
    "what assistants are told": ("", "mkdir .windsurf .venv; mkdir .venv/bin; touch AGENTS.md .windsurf/x .cursorrules opencode.json .venv/bin/python .venv/pyvenv.cfg README.md",
                                 {"AGENTS.md": "editor", ".windsurf/x": "editor", ".cursorrules": "editor", "opencode.json": "editor", ".venv/bin/python": "shell"}),
}


@pytest.mark.few_as_user(every=6)
@pytest.mark.parametrize("driver, case", [("fence", case) for case in LATER] + [("copy", case) for case in list(LATER)[::5]])
def test_what_would_run_later_in_disguise(boxes, project, driver, case):
    """Nothing of it is approved without acknowledgement, and nothing else needs one."""
    before, work, expected = LATER[case]
    subprocess.run(["/bin/sh", "-ec", before], cwd=project, check=True)
    was = sorted(str(path) for path in project.rglob("*"))
    box = boxes(project, driver=driver, rules=ALL)
    assert box.sh("set -e; " + work)["exitCode"] == 0
    files = box.diff()["files"]
    assert {file["filePath"]: file["acknowledge"]["reason"] for file in files if "acknowledge" in file} == expected
    if expected:
        status, answer = box.http("POST", "/approve", {})
        assert status == 422 and sorted(file["filePath"] for file in answer["details"]["files"] if "acknowledge" in file) == sorted(expected), answer
        assert sorted(str(path) for path in project.rglob("*")) == was
    else:
        assert box.approve({})["applied"] == len(files)


def test_a_repository_in_disguise_in_two_approvals(boxes, project):
    """The first half is nothing; with the second git would run what its configuration names, whatever it was made of."""
    box = boxes(project, driver="fence", rules=ALL)
    box.sh("mkdir -p d; touch d/objects d/refs; chmod +x d/objects d/refs; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n' > d/note; echo > keep")
    box.diff()
    assert box.approve({"files": ["d/objects", "d/refs", "d/note"]})["applied"] == 3
    box.sh("echo 'ref: refs/heads/x' > d/HEAD; mv d/note d/config")
    box.diff()
    status, answer = box.http("POST", "/approve", {})
    assert status == 422, answer
    assert sorted(file["filePath"] for file in answer["details"]["files"] if "acknowledge" in file) == ["d/HEAD", "d/config"]
