"""At hidden files: contents, names, whether they are there at all. Each try is made in two worlds, one with the hidden files and one without
them, and every answer must be the same. What single system calls answer is tried in tests/fence/test_two_worlds.py; here it is what is
built on them: the file API, commands, sessions, reviews, events, logs."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import threading
import time
import urllib.parse

import pytest
from review import Review, git, make_repository
from workspace import make_project

SECRET = "swordfish-4711"
VISIBLE = {"README": "read me\n", "src/a.txt": "one\ntwo\nthree\n", "src/lib/b.txt": "b\n", "run.sh": "#!/bin/sh\n", "both/open.txt": "open\n"}
HIDDEN = {".env": f"KEY={SECRET}\n", "vault/deep/key.pem": SECRET, "src/id.key": f"{SECRET}\n" * 3000, "src/lib/.env": SECRET,
          "both/tool.key": f"#!/bin/sh\necho {SECRET}\n"}
RULES = [("/**", "write"), ("**/.env", "none"), ("/vault/**", "none"), ("**/*.key", "none")]
RULES_JSON = [{"pattern": pattern, "permission": level} for pattern, level in RULES]
NAMES = [*HIDDEN, "vault", "vault/deep", "vault/nothing", "other.key"]


def add_hidden(project):
    for path, content in HIDDEN.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(content)
        (project / path).chmod(0o755)
    os.mkfifo(project / "vault/fifo")
    with socket.socket(socket.AF_UNIX) as sock:
        with contextlib.suppress(OSError):
            sock.bind(str(project / "vault/sock"))


def add_links(project):
    """In both worlds: what is visible may lead to what is not."""
    for name, target in (("to-env", ".env"), ("to-vault", "vault/deep"), ("up", "src/../vault/deep/key.pem"), ("far", "/srv/project/.env"),
                         ("self", "/proc/self/cwd/.env")):
        os.symlink(target, project / name)


def plain(answer, box):
    """Without what differs between any two sandboxes."""
    text = answer if isinstance(answer, str) else json.dumps(answer, sort_keys=True)
    for value, name in ((str(box.project), "PROJECT"), (box.project.name, "PROJECT"), (box.id, "ID")):
        text = text.replace(value, name)
    text = re.sub(r"\b(ws|pr|ap|ev|req|rv)_[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)
    return re.sub(r'"(pid|duration[A-Za-z]*)": ?[0-9.]+', r'"\1": N', text)


class World(Review):
    def __init__(self, server, has_hidden):
        self.server, self.project = server, make_project()
        for path, content in VISIBLE.items():
            (self.project / path).parent.mkdir(parents=True, exist_ok=True)
            (self.project / path).write_text(content)
        add_links(self.project)
        if has_hidden:
            add_hidden(self.project)
        for path in [*self.project.rglob("*"), self.project]:
            os.utime(path, (1e9, 1e9), follow_symlinks=False)
        status, made = server.http("POST", "/api/v1/sandboxes", {"projectRoot": str(self.project), "rules": RULES_JSON})
        assert status == 201, made
        self.id = made["id"]


@pytest.fixture(scope="module")
def worlds(shared):
    """A project with secrets, and one without."""
    made = [World(shared, has_hidden) for has_hidden in (True, False)]
    yield made
    for box in made:
        box.remove()


def both(worlds, ask):
    """The one answer that both worlds give."""
    full, empty = (plain(ask(box), box) for box in worlds)
    assert full.replace(",", ",\n").splitlines() == empty.replace(",", ",\n").splitlines()
    assert SECRET not in full
    return full


def q(path, key="path"):
    return f"?{key}=" + urllib.parse.quote(path, safe="")


def test_self_without_rules_the_worlds_are_told_apart(shared, monkeypatch):
    monkeypatch.setitem(globals(), "RULES_JSON", [{"pattern": "/**", "permission": "write"}])
    made = [World(shared, has_hidden) for has_hidden in (True, False)]
    try:
        for how in ("by the shell", "as the working directory", "as a program", "through descriptors"):
            with pytest.raises(AssertionError):
                both(made, PROBES[how])
    finally:
        for box in made:
            box.remove()


# ---- the file API ----

@pytest.mark.parametrize("name", [*NAMES, "to-env", "to-vault", "up", "far", "self", "to-vault/key.pem", "src/../.env", "/workspace/.env", ".env/",
                                  "./.env", ".env/x", "README/../.env", "both//tool.key"])
def test_asking_the_file_api_for_a_hidden_name(worlds, name):
    for verb, path, body in (("GET", "/files" + q(name), None), ("GET", "/files/content" + q(name), None), ("GET", "/files/download" + q(name), None),
                             ("DELETE", "/files/content" + q(name), None), ("DELETE", "/files/content" + q(name) + "&recursive=true", None),
                             ("PUT", "/files/content" + q(name), {"content": "mine"}), ("PUT", "/files/content" + q(name + "/in"), {"content": "mine"}),
                             ("POST", "/files/mkdir", {"path": name}), ("POST", "/files/mkdir", {"path": name + "/d"})):
        if name.startswith(("to-", "up", "far", "self")) and verb == "DELETE":
            continue  # the link is visible, and may go
        both(worlds, lambda box, v=verb, p=path, b=body: box.http(v, p, b))


def test_listing_the_directories_that_hidden_files_are_in(worlds):
    for place in ("/", "/src", "/src/lib", "/both"):
        def listing(box, place=place):
            entries = box.ok("GET", "/files" + q(place))["entries"]
            for entry in entries:
                if entry["isDir"]:
                    entry["modTime"] = ""  # the moment of the mount, which is another for each
            return entries

        answer = both(worlds, listing)
        assert "env\"" not in answer.replace("to-env", "") and ".key" not in answer and '"vault"' not in answer


# ---- commands ----

PROBES = {
    "as the working directory": lambda box: box.http("POST", "/exec", {"command": "/bin/pwd", "args": [], "workingDir": "/workspace/vault"}),
    "as a deeper working directory": lambda box: box.http("POST", "/exec", {"command": "/bin/pwd", "args": [], "workingDir": "vault/deep"}),
    "as a program": lambda box: box.exec("/workspace/both/tool.key"),
    "as a script": lambda box: box.exec("/bin/sh", "/workspace/both/tool.key"),
    "by the shell": lambda box: box.sh("cat .env vault/deep/key.pem to-env up far; cd vault; ls -la vault src; . ./both/tool.key; echo $? *.key .e*"),
    "by git": lambda box: box.sh("git init -q /tmp/r && git --git-dir=/tmp/r/.git --work-tree=. add -A && git --git-dir=/tmp/r/.git ls-files -s; "
                                 "git --git-dir=/tmp/r/.git --work-tree=. status --short --ignored"),
    "by archives": lambda box: box.sh("tar cf - --sort=name --mtime=@0 . 2>&1 | tar tvf - | awk '{print $1, $3, $6, $7, $8}'; du -a | sort; "
                                      "cp -r . /tmp/copy; find /tmp/copy | sort"),
    "by names that complete": lambda box: box.exec("/bin/bash", "-O", "nullglob", "-c", "echo .??* v* */*.key **/.env; compgen -f ./v; compgen -f src/i"),
    "through descriptors": lambda box: box.exec("/usr/bin/python3", "-c", """
import errno, mmap, os, fcntl
def attempt(what, *args):
    try: return what(*args)
    except OSError as e: return errno.errorcode[e.errno]
here = os.open(".", os.O_PATH)
for name in (".env", "vault", "vault/deep", "src/id.key", "other.key", "to-env", "up"):
    for way in (os.O_RDONLY, os.O_PATH, os.O_PATH | os.O_NOFOLLOW, os.O_RDWR, os.O_DIRECTORY, os.O_CREAT | os.O_EXCL, os.O_WRONLY | os.O_TRUNC,
                os.O_TMPFILE | os.O_RDWR):
        got = attempt(lambda: os.open(name, way, dir_fd=here))
        print(name, oct(way), got if isinstance(got, str) else (os.fstat(got).st_mode, os.readlink(f"/proc/self/fd/{got}")))
        if isinstance(got, int): os.close(got)
    for what in (os.stat, os.lstat, os.listdir, os.unlink, os.rmdir, os.mkdir, os.listxattr, lambda n: os.rename("README", n), lambda n: os.rename(n, "x"),
                 lambda n: os.link("README", n), lambda n: os.link(n, "y"), lambda n: os.symlink("z", n), lambda n: os.chmod(n, 0), lambda n: os.utime(n),
                 lambda n: os.truncate(n, 0), lambda n: os.getxattr(n, "user.x"), lambda n: os.setxattr(n, "user.x", b""), os.mkfifo, os.statvfs):
        if name in ("to-env", "up") and what not in (os.stat, os.listdir): continue
        got = attempt(what, name)
        print(name, got if isinstance(got, (str, list)) or got is None else "ok")
s = os.statvfs("."); print(s.f_bsize, s.f_namemax, s.f_files - s.f_ffree if s.f_files else 0)
print(sorted((d.name, d.is_symlink(), d.stat(follow_symlinks=False).st_nlink) for d in os.scandir(".")))
"""),
}


@pytest.mark.parametrize("how", PROBES)
def test_reaching_for_hidden_files(worlds, how):
    both(worlds, PROBES[how])


def test_watching_a_directory_while_hidden_files_in_it_are_used(worlds):
    """Changed, locked, removed and made again on the host: neither inotify nor a lock nor a listing tells."""
    script = """
import ctypes, fcntl, os, struct, time
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
for place in (b".", b"src", b"both"): libc.inotify_add_watch(fd, place, 0xFFF)
before = [sorted(os.listdir(p)) for p in (".", "src", "both")]
print("watching", flush=True)
while not os.path.exists("stop"): time.sleep(0.02)
os.chdir("/")
try: seen = os.read(fd, 65536)
except BlockingIOError: seen = b""
names, at = [], 0
while at < len(seen):
    _, mask, _, length = struct.unpack_from("iIII", seen, at)
    names.append(seen[at + 16:at + 16 + length].rstrip(b"\\0").decode()); at += 16 + length
print(sorted({n for n in names if n not in ("", "stop", "src", "both")}), before == [sorted(set(os.listdir("/workspace/" + p)) - {"stop"}) for p in (".", "src", "both")])
"""

    def ask(box):
        process = box.ok("POST", "/processes", {"command": "/usr/bin/python3", "args": ["-c", script]}, status=201)["id"]
        box.wait_log(process, "watching")
        if (box.project / ".env").exists():
            for name in (".env", "src/id.key", "both/tool.key"):
                with open(box.project / name, "r+b") as file:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    file.write(b"#")
                os.rename(box.project / name, box.project / "vault/moved")
                os.rename(box.project / "vault/moved", box.project / name)
        box.ok("PUT", "/files/content" + q("stop"), {"content": ""}, status=201)
        box.wait_stopped(process)
        content = box.log(process)["content"]
        box.ok("DELETE", "/files/content" + q("stop"))
        return content

    assert "[] True" in both(worlds, ask)


# ---- reviews ----

def test_naming_a_hidden_file_in_a_review(worlds):
    for name in (".env", "vault", "vault/deep/key.pem", "src/id.key", "other.key"):
        for verb, path, body in (("GET", "/diff" + q(name), None), ("GET", "/diff" + q(name, "file"), None), ("POST", "/approve", {"files": [name]}),
                                 ("POST", "/approve", {"files": [name], "dryRun": True, "force": True}), ("POST", "/discard", {"filePaths": [name]}),
                                 ("POST", "/approve", {"hunks": [{"path": name, "hunkIds": ["x"]}]}), ("GET", "/conflicts" + q(name), None)):
            both(worlds, lambda box, v=verb, p=path, b=body: box.http(v, p, b))


def test_removing_and_moving_directories_with_hidden_files(worlds):
    """Removed, replaced and moved by the agent; the diff, the patch and the conflicts tell of what it saw and no more, and what is applied
    leaves every hidden file where it was."""
    for box in worlds:
        box.sh("rm -rf both src/lib; mv src source; ln -s vault/deep/key.pem stolen; ln -sfn .env to-vault; mkdir src; echo new > src/a.txt; echo 1 >> README")

    def shown(box):
        """That a directory stays because something hidden is in it is for its owner to know, who reads this; the agent does not."""
        diff = box.diff()
        return {key: value for key, value in diff.items() if key not in ("directories", "diffHash")}

    both(worlds, shown)
    for path in ("/diff?format=patch", "/conflicts"):
        both(worlds, lambda box, p=path: box.http("GET", p, raw=True)[1].decode())
    dry = json.dumps([box.http("POST", "/approve", {"dryRun": True, "acknowledge": True}) for box in worlds])
    assert not any(word in dry for word in ("id.key", "tool.key", "key.pem\"", SECRET))
    both(worlds, lambda box: box.http("POST", "/rebase", {})[0])
    both(worlds, shown)
    full = worlds[0]
    both(worlds, lambda box: box.approve({"acknowledge": True})["status"])
    left = {path: (full.project / path).exists() for path in HIDDEN}
    assert all(left.values()), left
    assert (full.project / "vault/deep/key.pem").read_text() == SECRET
    assert {p for p in os.listdir(worlds[1].project)} ^ {p for p in os.listdir(full.project)} == {".env", "vault", "both"}, "only what is hidden, and its way"


def test_what_the_server_wrote_down(worlds, shared):
    """The log and the events name what was refused, as it was asked for, and hold no content."""
    assert SECRET not in shared.log()
    assert len(worlds) == 2 and SECRET not in json.dumps(shared.http("GET", "/api/v1/audit?limit=1000")[1])
    logs = list(shared.state.glob("**/log"))
    assert logs and not any(SECRET in path.read_text(errors="replace") for path in logs)


# ---- codebases ----

def test_a_codebase_s_hidden_files_by_every_call_about_its_sandbox(shared):
    client = shared.client()
    answers = []
    for hidden in (HIDDEN, {}):
        codebase = client.codebase({**VISIBLE, **hidden})
        box = client.sandbox(codebase, RULES)
        session = client.create_session(sandbox_id=box).id
        said = []
        for script in ("cat .env vault/deep/key.pem; ls -A . src both", "cd vault || ls vault", "mkdir vault; echo x > .env; mv README src/id.key; touch other.key",
                       "rm -rf both && mkdir both && ls -A both", "ln README .env; ln -s README vault; cp src/a.txt src/id.key; ls -A src"):
            for run in (lambda s: client.run(box, s), lambda s: client.session_exec(session_id=session, command=s)):
                done = run(script)
                said.append((script, done.stdout, done.stderr, done.exit_code))
        for cwd in ("/workspace/vault", "/workspace/nothing.key", "/workspace/.env"):
            try:
                said.append(client.run(box, "pwd", workdir=cwd).stdout)
            except Exception as error:  # noqa: BLE001
                said.append((error.code().name, error.details()))
        assert SECRET not in str(client.events(sandbox_id=box))
        if hidden:
            assert client.get(codebase, ".env").decode() == HIDDEN[".env"] and client.get(codebase, "both/tool.key").decode() == HIDDEN["both/tool.key"]
        answers.append([re.sub(r"\b(sb|cb|se|ss|ex|ev)_\w+", "ID", str(line)) for line in said])
        client.destroy_sandbox(sandbox_id=box)
    assert answers[0] == answers[1]
    assert SECRET not in str(answers)


# ---- run ----

def test_secrets_that_come_while_the_command_runs(one):
    """Made, linked and moved into sight of the rules by the host, under names that are hidden."""
    one.write("docs/x", "x\n")
    stop = threading.Event()

    def host_side():
        n = 0
        while not stop.is_set():
            n += 1
            one.write(f"docs/new{n % 5}.key", SECRET)
            with contextlib.suppress(OSError):
                os.link(one.base / f"docs/new{n % 5}.key", one.base / ".env")
            with contextlib.suppress(OSError):
                (one.base / ".env").unlink()
            time.sleep(0.002)

    thread = threading.Thread(target=host_side)
    thread.start()
    script = """
import os, time
seen, until = set(), time.monotonic() + 1.0
while time.monotonic() < until:
    seen |= set(os.listdir("docs")) | set(os.listdir("."))
    for name in [f"docs/new{n}.key" for n in range(5)] + [".env"]:
        try: seen.add(open(name).read())
        except FileNotFoundError: pass
        try: os.stat(name); seen.add(name)
        except FileNotFoundError: pass
print(sorted(seen))
"""
    try:
        result = one.run("-q", "--rm", "--rule", "/**=write", "--rule", "**/*.key=none", "--rule", "**/.env=none", command=["/usr/bin/python3", "-c", script])
    finally:
        stop.set()
        thread.join()
        shutil.rmtree(one.base / "docs")
    assert result.out.decode().strip() == str(["docs", "hello.txt", "x"]), result


def test_git_commands_of_the_agent_on_a_repository_whose_tracked_files_are_hidden(shared):
    """What git itself keeps of old versions is told in SECURITY.md; that a file is hidden must not make git commit its deletion for the owner."""
    box = Review(shared, {**VISIBLE, ".env": SECRET}, rules=[{"pattern": pattern, "permission": level} for pattern, level in [*RULES, ("/.git/**", "none")]])
    try:
        make_repository(box.project)
        out = box.sh("git log; git show HEAD:.env; cat .git/HEAD; ls -A; echo 2 > README")
        assert SECRET not in json.dumps(out) and ".git" not in out["stdout"]
        box.diff()
        answer = box.approve({"createCommit": True})
        assert git(box.project, "show", "--format=", "--name-status", answer["commitHash"]).split() == ["M", "README"]
        assert (box.project / ".env").read_text() == SECRET
    finally:
        box.remove()
