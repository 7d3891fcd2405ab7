"""What must be there: all that was acknowledged, and nothing else.

A cell holds one value that is certain. While a call is on its way, and when its answer was lost, it may hold the old one or the new one;
the next look decides, and from then on that is certain too. What one call changes in several cells it changes in all of them or in none.
"""

import threading

ABSENT = None


class Cell:
    """Something with a value that can be looked at: the content of a path, a variable of a session."""

    def __init__(self, value=ABSENT):
        self.possible = {value}

    @property
    def value(self):
        """The one that is certain. Nobody asks while there is a doubt."""
        assert len(self.possible) == 1, self.possible
        return next(iter(self.possible))

    @property
    def is_certain(self):
        return len(self.possible) == 1

    def settle(self, value):
        self.possible = {value}


class Attempt:
    """A call that gives several cells new values."""

    def __init__(self, changes):
        self.changes = dict(changes)  # cell -> new value
        self.before = {cell: cell.value for cell in self.changes}
        for cell, value in self.changes.items():
            cell.possible = {self.before[cell], value}

    def acknowledge(self):
        for cell, value in self.changes.items():
            cell.settle(value)

    def refuse(self):
        """It was answered that nothing was done."""
        for cell, value in self.before.items():
            cell.settle(value)

    @property
    def is_done(self):
        """Once there is no doubt any more."""
        return all(cell.value == value for cell, value in self.changes.items())


class Model:
    """Cells by name, made when they are first spoken of, and what else was promised."""

    def __init__(self):
        self.cells = {}
        self.deaths = {}
        self.deaths_of_all = 0
        self.lock = threading.Lock()

    def cell(self, *name):
        return self.cells.setdefault(name, Cell())

    def forget(self, *prefix):
        for name in [name for name in self.cells if name[:len(prefix)] == prefix]:
            del self.cells[name]

    def attempt(self, changes):
        return Attempt({self.cell(*name): value for name, value in changes.items()})

    def note_death(self, sandbox):
        """Somebody ended what runs in it: what lived in memory is gone, and nobody is to blame."""
        with self.lock:
            self.deaths[sandbox] = self.deaths.get(sandbox, 0) + 1

    def deaths_of(self, sandbox):
        with self.lock:
            return self.deaths.get(sandbox, 0) + self.deaths_of_all

    def note_all_dead(self):
        """Perhaps also what is only being started."""
        with self.lock:
            self.deaths_of_all += 1
