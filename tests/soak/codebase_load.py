"""A user of codebases: uploads, sandboxes, commands, sessions, versions. All its files are in a directory of its own; the codebase may be
another's too."""

import contextlib
import threading
import time

from carrier import Grpc, Lost, Refused, trickle
from load import Actor
from model import ABSENT

FILES = 8
BOXES = 2
RECENT = 15  # versions that are looked back to; the server keeps fifty
RULES = (("**/*", "write"), ("**/secret*", "none"))
SECRET = b"nobody is to see this"
RUNNING = 2
# A command that others can wait for, whoever has stopped waiting for its answer; and the content comes by a rename, whole.
WRITE = ("mkdir -p {dir}; echo $$ > /tmp/busy.{n}; printf %s {text} > {dir}/.t{n} && mv {dir}/.t{n} {path}; r=$?; "
         "rm -f {dir}/.t{n} /tmp/busy.{n}; exit $r")
# One that was killed leaves its note, and is not waited for.
SETTLE = "for b in /tmp/busy.*; do while [ -e $b ] && kill -0 $(cat $b) 2>/dev/null; do sleep 0.05; done; done"


class Box:
    """A sandbox: whether its changes go into the codebase, and what lives in its memory."""

    def __init__(self, identity, is_synced):
        self.id, self.is_synced = identity, is_synced
        self.is_started = False
        self.deaths = 0
        self.pending = set()  # paths of which an answer said that they are not in the codebase yet
        self.sessions = {}  # id -> cell of a variable, deaths when it was opened

    @property
    def is_pending(self):
        return bool(self.pending)


class CodebaseUser(Actor):
    def __init__(self, name, stage, shared, **box_fields):
        super().__init__(name, stage)
        self.shared, self.box_fields = shared, box_fields
        self.boxes = []
        self.history = []  # (version, path, value): certain

    # ---- what it does ----

    def step(self):
        self.codebase = self.shared.get(self)
        choices = {self.upload: 4, self.upload_slowly: 1, self.upload_archive: 2, self.remove_file: 1, self.look: 3, self.look_back: 1,
                   self.restore: 1, self.make_box: 3 if len(self.boxes) < BOXES else 0}
        if self.boxes:
            choices |= {self.run_write: 6, self.run_output: 2, self.read_slowly: 1, self.open_session: 1, self.use_session: 3,
                        self.close_session: 1, self.restart_box: 1, self.destroy_box: 1, self.peek: 1}
        self.dice.choices(list(choices), choices.values())[0]()

    def path(self):
        """But one that a box has yet to bring in: of two changes the box's would be kept, which is what it should do, and says."""
        pending = set().union(*(box.pending for box in self.boxes))
        free = [path for n in range(FILES) if (path := f"{self.name}/f{n}") not in pending]
        if not free:
            for box in self.boxes:
                self.flush(box)
            return self.path()
        return self.dice.choice(free)

    def cell(self, path):
        return self.model.cell(self.codebase, path)

    def change(self, values, call):
        """One version, or none."""
        attempt = self.model.attempt({(self.codebase, path): value for path, value in values.items()})
        try:
            version = call()
        except Lost:
            self.resolve(attempt, {path: self.cell(path) for path in values})
            raise
        except Refused:
            attempt.refuse()
            raise
        attempt.acknowledge()
        self.history += [(version, path, value) for path, value in values.items()]
        self.history = [one for one in self.history if one[0] > version - RECENT]

    def resolve(self, attempt, cells):
        found = {cell: self.insist(lambda path=path: self.read(path)) for path, cell in cells.items()}
        self.checker.compare_all(f"{self.name}: {self.now}, answer lost: {sorted(cells)}", attempt, found)

    def read(self, path, version=0):
        try:
            return self.carrier().get(self.codebase, path, version)
        except Refused as problem:
            if problem.code == "NOT_FOUND":
                return ABSENT
            raise

    def content(self):
        return (self.token() * self.dice.choice((1, 1, 1, 40, 4000))).encode()

    def upload(self):
        path, content, carrier = self.path(), self.content(), self.carrier()
        self.do(f"upload {carrier.name}")
        self.change({path: content}, lambda: carrier.put(self.codebase, path, content))

    def upload_slowly(self):
        path, content = self.path(), self.content()
        self.do("upload slowly")
        self.change({path: content}, lambda: trickle(self.stage.server.http_address, self.codebase, path, content,
                                                     lambda: time.sleep(self.dice.uniform(0, 0.1))))

    def upload_archive(self):
        files = {self.path(): self.content() for _ in range(4)}
        carrier = self.carrier()
        self.do(f"archive {carrier.name}")
        self.change(files, lambda: carrier.put_archive(self.codebase, files))

    def remove_file(self):
        path, carrier = self.path(), self.carrier()
        if self.cell(path).value is ABSENT:
            return
        self.do(f"delete {carrier.name}")
        self.change({path: ABSENT}, lambda: carrier.delete(self.codebase, path))

    def look(self):
        path = self.path()
        self.do("download")
        self.compare_file(path, self.read(path))

    def compare_file(self, path, found):
        if any(box.is_pending for box in self.boxes):
            return  # the codebase will have it later: checked when it must
        self.checker.compare(f"{self.name}: {path} of {self.codebase}", self.cell(path), found)

    def look_back(self):
        if self.history:
            version, path, value = self.dice.choice(self.history)
            self.do("download an old version")
            self.checker.check(f"{self.name}: {path} at version {version} of {self.codebase}", value, self.read(path, version))

    def restore(self):
        kept = [one for one in self.history if one[2] is not ABSENT]
        if not kept or any(box.is_pending for box in self.boxes):
            return
        version, path, value = self.dice.choice(kept)
        if self.cell(path).value == value:
            return
        self.do("restore")
        self.change({path: value}, lambda: self.carrier().restore(self.codebase, version, path))

    # ---- sandboxes ----

    def make_box(self):
        self.do("create sandbox")
        key, is_synced = self.token(), self.dice.random() < 0.7

        def create():
            return self.carrier(Grpc).create_sandbox(self.codebase, key, is_synced, RULES, **self.box_fields)

        try:
            made = create()
        except Lost:
            # The same key, so that it is the same sandbox, if there is one.
            made = self.insist(create, "RESOURCE_EXHAUSTED")
            if isinstance(made, Refused):
                raise made from None
        box = Box(made, is_synced)
        self.boxes.append(box)
        self.awake(box)

    def awake(self, box):
        """Runs it, unless it does. One that ended and that nobody has ended is a loss."""
        status, reason = self.insist(lambda: self.carrier(Grpc).status(box.id))
        if status == RUNNING:
            box.is_started = True
            return
        if box.is_started and box.deaths == self.model.deaths_of(box.id):
            # Of a kill that was a moment ago we may be told a moment later.
            self.checker.lose(f"{self.name}: sandbox {box.id} ended by itself", "running", (status, reason))
        self.insist(lambda: self.start_box(box))
        box.is_started, box.deaths = True, self.model.deaths_of(box.id)
        box.sessions = {}

    def start_box(self, box):
        try:
            self.carrier(Grpc).start(box.id)
        except Refused as problem:
            # Another try of ours may have started it, its answer lost.
            if self.carrier(Grpc).status(box.id)[0] != RUNNING:
                raise Lost(str(problem)) from None

    def a_box(self):
        box = self.dice.choice(self.boxes)
        if not box.is_started or box.deaths != self.model.deaths_of(box.id):
            self.awake(box)
        return box

    def place_of(self, box, path):
        """Where the cell of what a box sees is: its own, or everybody's."""
        return (self.codebase, path) if box.is_synced else (box.id, path)

    def run_write(self):
        box, carrier, text = self.a_box(), self.carrier(), self.token()
        path = self.path() if box.is_synced else f"off/f{self.dice.randrange(FILES)}"
        self.do(f"exec {carrier.name}")
        attempt = self.model.attempt({self.place_of(box, path): text.encode()})
        command = WRITE.format(dir=path.rpartition("/")[0], n=self.serial, text=text, path=path)
        try:
            done = carrier.run(box.id, command)
        except Lost:
            self.resolve_write(box, path, attempt)
            raise
        except Refused:
            attempt.refuse()
            self.awake(box)
            raise
        if done.code != 0:
            self.resolve_write(box, path, attempt)
            return
        attempt.acknowledge()
        self.note_sync(box, done.version, path, text.encode())

    def note_sync(self, box, version, path=None, value=None):
        if not box.is_synced:
            return
        if version:
            box.pending.clear()
        else:
            box.pending.add(path)
        if version and path:
            self.history.append((version, path, value))
            self.history = [one for one in self.history if one[0] > version - RECENT]

    def resolve_write(self, box, path, attempt):
        """The command may be at work still: it is waited for, inside. Then the sandbox tells."""
        def ask():
            self.awake(box)
            # What it could not sync before would hide what others have written since.
            if box.is_synced and not self.carrier(Grpc).run(box.id, SETTLE).version:
                raise Lost("it is not synced yet")
            return self.carrier(Grpc).run(box.id, f"{SETTLE}; cat {path} 2>/dev/null || echo absent")

        # Others of ours may have what the codebase, and so this one, has not yet.
        for other in self.boxes:
            if other is not box and box.is_synced and other.is_pending:
                self.flush(other)
        done = self.insist(ask)
        found = ABSENT if done.out == "absent\n" else done.out.encode()
        cell = self.model.cell(*self.place_of(box, path))
        self.checker.compare_all(f"{self.name}: {self.now}, answer lost: {path} in {box.id}", attempt, {cell: found})
        self.note_sync(box, done.version)

    def check_command(self, box, what, expected, found):
        """What a command printed and how it ended, unless part of its sandbox was killed meanwhile: the process that keeps a command is one."""
        if expected != found and box.deaths != self.model.deaths_of(box.id):
            self.answers["ended with a kill"] += 1
            return
        self.checker.check(f"{self.name}: {what} in {box.id}", expected, found)

    def run_output(self):
        box, count, code = self.a_box(), self.dice.randrange(2000), self.dice.randrange(5)
        self.do("exec output")
        done = self.carrier().run(box.id, f"seq {count}; exit {code}")
        lines = "".join(f"{n}\n" for n in range(1, count + 1))
        self.check_command(box, "output of a command", (code, lines), (done.code, done.out))

    def read_slowly(self):
        box, count = self.a_box(), self.dice.randrange(1000, 60000)
        self.do("stream read slowly")
        found = self.carrier(Grpc).stream(box.id, f"seq {count}", lambda: time.sleep(0.02))
        self.check_command(box, "a stream that is read slowly", (0, "".join(f"{n}\n" for n in range(1, count + 1)).encode()), found)

    def peek(self):
        box = self.a_box()
        self.do("exec on what is hidden")
        done = self.carrier().run(box.id, "cat secret.txt; ls | grep secret")
        self.checker.check(f"{self.name}: what is hidden is seen", "", done.out)

    def restart_box(self):
        box = self.a_box()
        self.do("stop and start")
        self.model.note_death(box.id)
        self.carrier().stop(box.id)
        self.awake(box)

    def destroy_box(self):
        box = self.dice.choice(self.boxes)
        if box.is_pending or self.dice.random() < 0.5:
            return
        self.do("destroy sandbox")
        self.model.note_death(box.id)
        try:
            self.carrier(Grpc).destroy(box.id)
        except (Lost, Refused):
            # What is meant is known, and may be done by and by; what it has not synced needs room first.
            self.insist(lambda: self.carrier(Grpc).destroy(box.id), "NOT_FOUND")
        self.forget(box)

    def forget(self, box):
        self.boxes.remove(box)
        self.model.forget(box.id)

    # ---- sessions ----

    def open_session(self):
        box = self.a_box()
        self.do("open session")
        if len(box.sessions) < 2:
            session = self.carrier(Grpc).open_session(box.id)
            cell = self.model.cell(box.id, session)
            cell.settle("")
            box.sessions[session] = (cell, self.model.deaths_of(box.id))

    def use_session(self):
        box = self.a_box()
        if not box.sessions:
            return
        session = self.dice.choice(sorted(box.sessions))
        cell, deaths = box.sessions[session]
        value = self.token()
        self.do("session exec")
        seen = set(cell.possible)
        try:
            done = self.carrier().session_run(session, f"echo \"$X\"; X={value}")
        except Lost:
            cell.possible = seen | {value}
            raise
        except Refused as problem:
            if deaths == self.model.deaths_of(box.id) and problem.code in ("NOT_FOUND", "FAILED_PRECONDITION"):
                self.checker.lose(f"{self.name}: session {session} of {box.id} is gone", "a session", str(problem))
            del box.sessions[session]
            return
        if done.out.rstrip("\n") not in seen and deaths == self.model.deaths_of(box.id):
            self.checker.lose(f"{self.name}: variable in session {session}", sorted(seen), done.out)
        cell.settle(value)

    def close_session(self):
        box = self.a_box()
        if box.sessions:
            session = self.dice.choice(sorted(box.sessions))
            self.do("close session")
            del box.sessions[session]
            with contextlib.suppress(Refused):
                self.carrier(Grpc).close_session(session)

    # ---- accounts ----

    def check(self):
        """Everything it was promised. Nobody works meanwhile, and nothing is broken."""
        if not self.shared.codebase:
            return
        self.codebase = self.shared.codebase
        self.now = "check"
        for box in self.boxes:
            if box.is_pending:
                self.flush(box)
        found = self.insist(lambda: self.carrier(Grpc).get_archive(self.codebase, self.name), "NOT_FOUND")
        found = {} if isinstance(found, Refused) else found
        for n in range(FILES):
            path = f"{self.name}/f{n}"
            content = found.get(path, found.get(f"f{n}", ABSENT))
            self.checker.compare(f"{self.name}: {path} of {self.codebase}", self.cell(path), content)
        there = self.insist(lambda: self.carrier(Grpc).sandboxes(self.codebase))
        for box in self.boxes:
            if self.checker.check(f"{self.name}: sandbox {box.id} is there", True, box.id in there) and not box.is_synced:
                self.check_box(box)

    def flush(self, box):
        """What had no room goes into the codebase when there is some."""
        def sync():
            self.awake(box)
            if not self.carrier(Grpc).run(box.id, "true").version:
                raise Lost("it is not synced yet")

        self.insist(sync)
        box.pending.clear()

    def check_box(self, box):
        def ask():
            self.awake(box)
            return self.carrier(Grpc).run(box.id, f"{SETTLE}; for n in $(seq 0 {FILES - 1}); do cat off/f$n 2>/dev/null; echo; done")

        lines = self.insist(ask).out.split("\n")
        for n in range(FILES):
            path = f"off/f{n}"
            self.checker.compare(f"{self.name}: {path} in {box.id}", self.model.cell(box.id, path), lines[n].encode() or ABSENT)

    def leave(self):
        """At the end: everything is given back."""
        self.now = "leave"
        for box in list(self.boxes):
            self.model.note_death(box.id)
            self.insist(lambda box=box: self.carrier(Grpc).destroy(box.id), "NOT_FOUND")
            self.forget(box)


class SharedCodebase:
    """Made by whoever comes first."""

    def __init__(self):
        self.codebase = None
        self.lock = threading.Lock()

    def get(self, actor):
        with self.lock:
            if not self.codebase:
                actor.do("create codebase")
                key = actor.token()
                made = actor.insist(lambda: actor.carrier().create_codebase(key))
                actor.insist(lambda: actor.carrier().put(made, "secret.txt", SECRET))
                self.codebase = made
            return self.codebase

    def leave(self, actor):
        if self.codebase:
            actor.insist(lambda: actor.carrier(Grpc).delete_codebase(self.codebase), "NOT_FOUND")
            self.codebase = None
