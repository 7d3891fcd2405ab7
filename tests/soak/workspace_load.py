"""Somebody who reviews: a project, workspaces over it, what an agent changes there, and what becomes of that."""

import http.client
import json
import urllib.parse

from carrier import TIMEOUT, Lost, Refused
from codebase_load import SETTLE
from load import Actor
from model import ABSENT, Attempt, Cell

FILES = 6
# No shell of the sandbox's is between the command and its answer, so this one waits for itself.
WRITE = "echo $$ > /tmp/busy.{n}; {steps}; rm -f /tmp/busy.{n} .t{n}; exit $r"


class Project:
    """A directory of the host, and what must be in it."""

    def __init__(self, place):
        self.place = place
        place.mkdir(parents=True)
        place.chmod(0o755)
        self.cells = {}
        for n in range(FILES):
            (place / f"f{n}").write_bytes(b"first\n")
            self.cells[f"f{n}"] = Cell(b"first\n")

    def read(self, path):
        try:
            return (self.place / path).read_bytes()
        except FileNotFoundError:
            return ABSENT

    def check(self, who, checker):
        for path, cell in self.cells.items():
            checker.compare(f"{who}: {path} in the project", cell, self.read(path))

    def leftovers(self):
        """But what a command of ours that was killed had begun to write, and somebody has approved."""
        return sorted(str(path) for path in self.place.rglob("*") if path.name not in self.cells and not path.name.startswith(".t"))


class Reviewer(Actor):
    def __init__(self, name, stage, place):
        super().__init__(name, stage)
        self.project = Project(place)
        self.id = None
        self.delta = {}  # path -> cell: what the agent changed; elsewhere it sees the project
        self.before = {}  # path -> what the last approval replaced
        self.is_decided = False

    # ---- the server ----

    def ask(self, verb, path, body=None, is_raw=False):
        host, port = self.stage.server.http_address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)
        try:
            connection.request(verb, f"/api/v1/sandboxes{path}", json.dumps(body) if body is not None else None)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 500 and answer.status != 507:
                raise Lost(f"HTTP {answer.status}: {content[:300]!r}")
            if answer.status >= 400:
                raise Refused(f"HTTP {answer.status}", content[:600].decode(errors="replace"))
            return content if is_raw else json.loads(content) if content else None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Lost(f"{type(problem).__name__}: {problem}") from None
        finally:
            connection.close()

    def of(self, verb, path="", body=None, **more):
        return self.ask(verb, f"/{self.id}{path}", body, **more)

    # ---- what it does ----

    def step(self):
        if not self.id:
            self.create()
            return
        if self.is_decided:
            self.remove()
            return
        choices = {self.agent_writes: 6, self.put_file: 2, self.look_inside: 2, self.look_at_diff: 3, self.restart: 1}
        if self.delta:
            choices |= {self.approve_all: 1, self.approve_some: 3, self.discard: 1, self.reject: 0.4}
        self.dice.choices(list(choices), choices.values())[0]()

    def create(self):
        self.do("workspace create")
        key = self.token()
        place = str(self.project.place)
        body = {"projectRoot": place, "scopePath": place, "idempotencyKey": key}
        try:
            made = self.ask("POST", "", body)
        except Lost:
            made = self.insist(lambda: self.ask("POST", "", body), "HTTP 507", "HTTP 429")
            if isinstance(made, Refused):
                raise made from None
        self.id, self.delta = made["id"], {}

    def awake(self):
        if self.of("GET")["status"] == "stopped":
            self.of("POST", "/start")

    def read_awake(self, path):
        """One that was killed while the disk was full is told to be active until that could be noted."""
        self.awake()
        return self.read_inside(path)

    def view(self, path):
        """What the agent sees there, with certainty."""
        return (self.delta.get(path) or self.project.cells[path]).value

    def agent_writes(self):
        self.do("workspace exec")
        self.insist(self.awake, "HTTP 404")
        changes = {f"f{self.dice.randrange(FILES)}": ABSENT if self.dice.random() < 0.15 else f"{self.token()}\n".encode()
                   for _ in range(self.dice.choice((1, 1, 2, 3)))}
        self.token()
        steps = "; ".join(f"rm -f {path} || r=1" if value is ABSENT else
                          f"{{ printf '%s\\n' {value.decode().strip()} > .t{self.serial} && mv .t{self.serial} {path}; }} || r=1"
                          for path, value in changes.items())
        before = {path: self.view(path) for path in changes}
        for path, value in changes.items():
            self.delta[path] = Cell()
            self.delta[path].possible = {before[path], value}
        try:
            done = self.sh(WRITE.format(n=self.serial, steps="r=0; " + steps))
        except Lost:
            self.resolve_view(changes)
            raise
        except Refused:
            for path, value in before.items():
                self.delta[path].settle(value)
            self.tidy()
            raise
        if done["exitCode"] != 0:
            self.resolve_view(changes)
            return
        for path, value in changes.items():
            self.delta[path].settle(value)
        self.tidy()

    def sh(self, script):
        return self.of("POST", "/exec", {"command": "/bin/sh", "args": ["-c", script]})

    def tidy(self):
        """What is as the project has it is no change."""
        self.delta = {path: cell for path, cell in self.delta.items() if cell.value != self.project.cells[path].value}

    def resolve_view(self, paths):
        def wait():
            self.awake()
            return self.sh(SETTLE)

        self.insist(wait)
        for path in paths:
            found = self.insist(lambda path=path: self.read_awake(path))
            self.checker.compare(f"{self.name}: {self.now}, answer lost: {path} in workspace {self.id}", self.delta[path], found)
        self.tidy()

    def read_inside(self, path):
        try:
            return self.of("GET", f"/files/download?path={urllib.parse.quote(path)}", is_raw=True)
        except Refused as problem:
            if problem.code == "HTTP 404":
                return ABSENT
            raise

    def put_file(self):
        self.do("workspace put")
        self.insist(self.awake)
        path, text = f"f{self.dice.randrange(FILES)}", self.token() + "\n"
        before = self.view(path)
        self.delta[path] = Cell()
        self.delta[path].possible = {before, text.encode()}
        try:
            self.of("PUT", f"/files/content?path={path}", {"content": text})
            self.delta[path].settle(text.encode())
        except Lost:
            self.resolve_view([path])
            raise
        except Refused:
            self.delta[path].settle(before)
            self.tidy()
            raise

    def look_inside(self):
        self.do("workspace read")
        self.insist(self.awake)
        path = f"f{self.dice.randrange(FILES)}"
        self.checker.check(f"{self.name}: {path} in workspace {self.id}", self.view(path), self.read_inside(path))

    def restart(self):
        self.do("workspace stop and start")
        self.of("POST", "/stop")
        self.insist(self.awake)

    # ---- decisions ----

    def diff(self):
        found = self.of("GET", "/diff")
        paths = {path for file in found["files"] for path in (file["filePath"], file.get("oldPath")) if path and not path.startswith(".t")}
        self.checker.check(f"{self.name}: the diff of workspace {self.id}", sorted(self.delta), sorted(paths))
        return found

    def look_at_diff(self):
        self.do("workspace diff")
        self.diff()
        self.project.check(self.name, self.checker)

    def approve_all(self):
        self.do("workspace approve all")
        self.approve(sorted(self.delta), {"diffHash": self.diff()["diffHash"]})
        if not self.delta:
            self.finish()

    def approve_some(self):
        self.do("workspace approve files")
        paths = sorted(self.dice.sample(sorted(self.delta), self.dice.randint(1, len(self.delta))))
        self.diff()
        is_done = self.approve(paths, {"files": paths})
        if not self.delta:
            self.finish()
        elif is_done and self.dice.random() < 0.3:
            self.undo(paths)

    def approve(self, paths, body):
        """False: the answer was lost, and the call did nothing. An undo would take back the approval before this one."""
        changes = {self.project.cells[path]: self.delta[path].value for path in paths}
        attempt = Attempt(changes)
        self.before = {path: attempt.before[self.project.cells[path]] for path in paths}
        try:
            self.of("POST", "/approve", body)
            attempt.acknowledge()
        except Lost:
            self.resolve_landing(attempt, paths)
        except Refused:
            attempt.refuse()
            raise
        self.tidy()
        self.project.check(self.name, self.checker)
        return attempt.is_done

    def resolve_landing(self, attempt, paths):
        """Whoever served the call has come to its end, or the next has finished it, when somebody answers again."""
        self.answers["lost: decision"] += 1
        self.insist(lambda: self.of("GET", "/diff"), "HTTP 404", "HTTP 409")
        found = {self.project.cells[path]: self.project.read(path) for path in paths}
        self.checker.compare_all(f"{self.name}: {self.now}, answer lost: {paths}", attempt, found)

    def undo(self, paths):
        self.do("workspace undo")
        changes = {self.project.cells[path]: self.before[path] for path in paths}
        attempt = Attempt(changes)
        try:
            self.of("POST", "/undo", {})
            attempt.acknowledge()
        except Lost:
            self.resolve_landing(attempt, paths)
        except Refused:
            attempt.refuse()
            raise
        self.tidy()
        self.project.check(self.name, self.checker)

    def discard(self):
        self.do("workspace discard")
        path = self.dice.choice(sorted(self.delta))
        cell = self.delta[path]
        cell.possible = {cell.value, self.project.cells[path].value}
        try:
            self.of("POST", "/discard", {"filePaths": [path]})
            del self.delta[path]
        except Lost:
            self.resolve_view([path])
            raise
        except Refused:
            cell.settle(next(value for value in cell.possible if value != self.project.cells[path].value))
            raise

    def reject(self):
        self.do("workspace reject")
        try:
            self.of("POST", "/reject")
        except Lost:
            self.insist(lambda: self.of("POST", "/reject"))
        self.finish(may_undo=False)

    def finish(self, may_undo=True):
        """It was decided on. Half of what was approved is taken back."""
        self.is_decided = True
        self.project.check(self.name, self.checker)
        state = self.insist(lambda: self.of("GET"))["status"]
        if may_undo and state == "approved" and self.before and self.dice.random() < 0.5:
            self.undo(sorted(self.before))
        self.remove()

    def remove(self):
        self.do("workspace delete")
        self.insist(lambda: self.of("DELETE", "?purge=true"), "HTTP 404")
        self.id, self.delta, self.before, self.is_decided = None, {}, {}, False

    # ---- accounts ----

    def check(self):
        self.now = "check"
        self.project.check(self.name, self.checker)
        if not self.id or self.is_decided:
            return
        for n in range(FILES):
            found = self.insist(lambda n=n: self.read_awake(f"f{n}"))
            self.checker.check(f"{self.name}: f{n} in workspace {self.id}", self.view(f"f{n}"), found)
        self.insist(self.diff)

    def leave(self):
        self.now = "leave"
        if self.id:
            self.remove()
        self.project.check(self.name, self.checker)
