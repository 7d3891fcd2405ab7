"""Somebody at a terminal without a server: `agentfense run`, `approve`, `undo`, `rm`, with a state directory of its own."""

import os
import signal
import subprocess
import time

from carrier import Lost, Refused
from load import Actor
from model import ABSENT, Attempt
from workspace_load import FILES, Project

OURS = 125  # what the program says when it is not the command that failed


class Terminal(Actor):
    def __init__(self, name, stage, place):
        super().__init__(name, stage)
        self.project = Project(place / "project")
        self.state = place / "state"
        self.state.mkdir(mode=0o700)
        self.box = None
        self.delta = {}  # path -> value, certain

    def call(self, *words, may_kill=False):
        """Exit code and output. Now and then it is killed on its way."""
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AGENTFENSE_STATE_DIR": str(self.state),
               "AGENTFENSE_SERVER_HTTP_ADDR": "127.0.0.1:1"}
        process = subprocess.Popen([self.stage.server.program, *words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, cwd=self.project.place)
        if may_kill and self.stage.may_fault and self.dice.random() < 0.15:
            time.sleep(self.dice.uniform(0, 0.3))
            process.kill()
            self.stage.count_fault("kill agentfense run")
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"{self.name}: agentfense {' '.join(words)} does not end") from None
        if process.returncode == -signal.SIGKILL:
            raise Lost("killed")
        if process.returncode == OURS:
            raise Lost(f"125: {err.decode(errors='replace').strip()[-300:]}")
        return process.returncode, out

    def step(self):
        choices = {self.run_command: 4}
        if self.box:
            choices |= {self.look: 1, self.approve: 2, self.discard: 0.5}
        self.dice.choices(list(choices), choices.values())[0]()

    def view(self, path):
        return self.delta.get(path, self.project.cells[path].value)

    def run_command(self):
        self.do("agentfense run")
        text, path, code = self.token(), f"f{self.dice.randrange(FILES)}", self.dice.randrange(4)
        name = self.box or f"{self.name}-{self.serial}"
        options = ["--in", name] if self.box else ["--name", name, str(self.project.place)]
        script = (f"printf '%s\\n' {text} > .t{self.serial} && mv .t{self.serial} {path} && echo done; r=$?; rm -f .t{self.serial}; "
                  f"[ $r = 0 ] || exit 99; exit {code}")
        before, after = self.view(path), f"{text}\n".encode()
        deaths = self.model.deaths_of(name)
        try:
            got, out = self.call("run", "-q", "-n", *options, "--", "sh", "-c", script, may_kill=True)
        except Lost:
            self.resolve(name, path, before, after)
            raise
        # Who looks for something to kill finds what this one runs, too.
        if got == 99 or (got == 128 + signal.SIGKILL and deaths != self.model.deaths_of(name)):
            self.resolve(name, path, before, after)
            return
        self.checker.check(f"{self.name}: exit code and output of run", (code, b"done\n"), (got, out))
        self.box, self.delta[path] = name, after

    def has(self, name):
        claim = self.state / "names/-" / name
        return claim.exists() and (self.state / "sandboxes" / claim.read_text()).exists()

    def resolve(self, name, path, before, after):
        """A sandbox in which nothing was changed need not be there."""
        def ask():
            if not self.has(name):
                return None
            return self.call("run", "-q", "-n", "--in", name, "--", "sh", "-c", f"cat {path} 2>/dev/null || echo absent")

        answer = self.insist(ask)
        if answer is None:
            self.checker.check(f"{self.name}: sandbox {name} with changes is there", True, not self.box)
            self.box, self.delta = None, {}
            return
        found = ABSENT if answer[1] == b"absent\n" else answer[1]
        if self.checker.check(f"{self.name}: {path} in sandbox {name} after a kill", True, found in (before, after)) and found == after:
            self.box, self.delta[path] = name, after
        if not self.box and self.has(name):
            self.insist(lambda: self.call("rm", "--purge", name))

    def look(self):
        self.do("agentfense diff")
        paths = self.call("diff", self.box, "--name-only")[1].decode().split()
        wanted = sorted(path for path, value in self.delta.items() if value != self.project.cells[path].value)
        self.checker.check(f"{self.name}: the diff of {self.box}", wanted, sorted(path.lstrip("/") for path in paths if ".t" not in path))
        self.project.check(self.name, self.checker)

    def approve(self):
        self.do("agentfense approve")
        changes = {path: value for path, value in self.delta.items() if value != self.project.cells[path].value}
        if not changes:
            self.discard()
            return
        attempt = Attempt({self.project.cells[path]: value for path, value in changes.items()})
        old = {path: attempt.before[self.project.cells[path]] for path in changes}
        self.land(attempt, changes, "approve", "--all", self.box)
        if self.project.cells[next(iter(changes))].value == next(iter(changes.values())) and self.dice.random() < 0.4:
            self.do("agentfense undo")
            self.land(Attempt({self.project.cells[path]: value for path, value in old.items()}), changes, "undo", self.box)
        self.discard()

    def land(self, attempt, paths, *words):
        try:
            code, out = self.call(*words, may_kill=True)
            if code != 0:
                attempt.refuse()
                raise Refused(f"exit {code}", out.decode(errors="replace"))
            attempt.acknowledge()
        except Lost:
            # The next that looks at it finishes it.
            self.insist(lambda: self.call("diff", self.box, "--name-only"))
            found = {self.project.cells[path]: self.project.read(path) for path in paths}
            self.checker.compare_all(f"{self.name}: {words}, killed: {sorted(paths)}", attempt, found)
        self.project.check(self.name, self.checker)

    def discard(self):
        self.do("agentfense rm")
        name, self.box, self.delta = self.box, None, {}
        self.insist(lambda: self.call("rm", "--purge", name) if self.has(name) else None)

    def check(self):
        self.now = "check"
        self.project.check(self.name, self.checker)
        for path, value in list(self.delta.items()):
            found = self.insist(lambda path=path: self.call("run", "-q", "-n", "--in", self.box, "--", "cat", path))
            self.checker.check(f"{self.name}: {path} in sandbox {self.box}", value, found[1])

    def leave(self):
        self.now = "leave"
        if self.box:
            self.discard()
        self.project.check(self.name, self.checker)
