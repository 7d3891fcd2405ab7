"""Compares what is there with what must be, and remembers every difference."""

import sys
import threading
import time


def shorten(value):
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)})"


class Checker:
    def __init__(self, is_loud=False):
        self.is_loud = is_loud
        self.losses = []
        self.count = 0
        self.lock = threading.Lock()

    def lose(self, what, expected, found):
        loss = {"at": time.strftime("%H:%M:%S"), "what": what, "expected": shorten(expected), "found": shorten(found)}
        with self.lock:
            self.losses.append(loss)
        if self.is_loud:
            print(f"soak: a loss: {loss}", file=sys.stderr, flush=True)

    def check(self, what, expected, found):
        """For what has no doubt in it."""
        with self.lock:
            self.count += 1
        if expected != found:
            self.lose(what, expected, found)
        return expected == found

    def compare(self, what, cell, found):
        """A look at a cell. Whatever it shows is certain from now on: a loss is told once."""
        with self.lock:
            self.count += 1
        is_right = found in cell.possible
        if not is_right:
            self.lose(what, sorted(cell.possible, key=repr), found)
        cell.settle(found)
        return is_right

    def compare_all(self, what, attempt, found):
        """A look at all that one call was to change, by cell: all of it, or nothing."""
        with self.lock:
            self.count += 1
        is_right = found in (attempt.before, attempt.changes)
        if not is_right:
            self.lose(what, [list(attempt.before.values()), list(attempt.changes.values())], list(found.values()))
        for cell, value in found.items():
            cell.settle(value)
        return is_right
