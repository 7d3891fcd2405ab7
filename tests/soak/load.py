"""Those who use the server. Each works for itself, does one thing after the other, and keeps account of what it was promised."""

import collections
import contextlib
import random
import threading
import time
import traceback

from carrier import KINDS, Lost, Refused

PATIENCE = 60


class Gate:
    """Open, everybody works; closed, nobody is in the middle of anything."""

    def __init__(self):
        self.condition = threading.Condition()
        self.is_closed = False
        self.inside = set()

    @contextlib.contextmanager
    def passing(self, who):
        with self.condition:
            self.condition.wait_for(lambda: not self.is_closed)
            self.inside.add(who)
        try:
            yield
        finally:
            with self.condition:
                self.inside.discard(who)
                self.condition.notify_all()

    @contextlib.contextmanager
    def closed(self):
        """Yields who did not come out in time."""
        with self.condition:
            self.is_closed = True
            self.condition.wait_for(lambda: not self.inside, PATIENCE)
            stuck = set(self.inside)
        try:
            yield stuck
        finally:
            with self.condition:
                self.is_closed = False
                self.condition.notify_all()


class Actor(threading.Thread):
    def __init__(self, name, stage):
        super().__init__(name=name, daemon=True)
        self.stage, self.checker, self.model = stage, stage.checker, stage.model
        self.dice = random.Random(f"{stage.seed} {name}")
        self.counts = collections.Counter()
        self.answers = collections.Counter()
        self.now, self.waiting = "nothing yet", ""  # what it does, and what it was told last when it insists
        self.serial = 0
        self.carriers = {}
        self.is_broken = False

    # ---- its life ----

    def run(self):
        while not self.stage.is_over and not self.is_broken:
            with self.stage.gate.passing(self.name):
                self.work_once()

    def work_once(self):
        try:
            self.step()
        except Lost as problem:
            self.answers[f"lost: {str(problem).partition(':')[0]}"] += 1
            self.drop_carriers()
            self.pause(0.1)
        except Refused as problem:
            self.answers[f"refused: {problem.code}"] += 1
            self.stage.note_refusal(self.name, self.now, problem)
            self.pause(0.05)
        except Exception:
            self.is_broken = True
            self.stage.note_break(self.name, self.now, traceback.format_exc())

    def pause(self, seconds):
        time.sleep(seconds)

    def step(self):
        raise NotImplementedError

    def do(self, what):
        """Says what comes next, for accounts and for those who ask why it hangs."""
        self.now = what
        self.counts[what] += 1

    # ---- means ----

    def token(self):
        """Text that nobody else has."""
        self.serial += 1
        return f"{self.name}-{self.serial}-{self.dice.getrandbits(64):016x}"

    def carrier(self, kind=None):
        kind = kind or self.dice.choice(KINDS)
        if kind.name not in self.carriers:
            self.carriers[kind.name] = kind(self.stage.server)
        return self.carriers[kind.name]

    def drop_carriers(self):
        for one in self.carriers.values():
            one.close()
        self.carriers = {}

    def insist(self, call, *allowed):
        """Until there is an answer. A refusal is none, unless its code is among those allowed: then it is returned."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return call()
            except Lost as problem:
                last = problem
                self.drop_carriers()
            except Refused as problem:
                if problem.code in allowed:
                    return problem
                last = problem
            self.waiting = str(last)
            if time.monotonic() > until:
                raise TimeoutError(f"{self.name}: no answer in {PATIENCE} s: {self.now}: {last}")
            time.sleep(0.2)

    def close(self):
        self.drop_carriers()
