"""Curves of the fence alone, on mounts of its own: more rules, more changes, deeper directories."""

import os
import random
import subprocess
from pathlib import Path

import harness
from curve import Curve, in_turns

UID, GID = harness.SANDBOX_UID, harness.SANDBOX_GID
LOOPS_C = Path(__file__).resolve().parents[1] / "fs" / "loops.c"
SOME_RULES = ("**=write", "**/.env*=none", "**/*.pem=none", "/private/**=none", "/vendor/**=read")
AGAIN = 8  # times a list is walked where the kernel alone answers: one walk is too short to time


class Loops:
    """The program that does one thing to each path of a list, as a sandbox's user; returns microseconds for each."""

    def __init__(self, work):
        self.work = Path(work)
        self.program = self.work / "loops"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", self.program, LOOPS_C], check=True)
        self.program.chmod(0o755)

    def list(self, name, paths):
        path = self.work / name
        path.write_text("".join(f"{p}\n" for p in paths))
        return path, len(paths)

    def each(self, verb, paths, where):
        path, count = paths
        ran = harness.run([self.program, verb, path], cwd=where, timeout=900)
        if ran.code != 0:
            raise RuntimeError(f"{verb} of {path.name} in {where}: {ran.err}")
        return int(ran.out) / 1000 / count

    def create(self, where, directory, count):
        ran = harness.run([self.program, "create", directory, count and str(count)], cwd=where, timeout=900)
        if ran.code != 0:
            raise RuntimeError(f"create in {where}: {ran.err}")
        harness.run(["rm", "-r", directory], cwd=where).ok()
        return int(ran.out) / 1000 / count


def make_files(root, paths, text="x" * 300 + "\n"):
    """Plain files in a tree that a sandbox's user may write; as fast as one process can."""
    data, seen = text.encode(), set()
    for path in paths:
        parent = path.rpartition("/")[0]
        if parent not in seen:
            os.makedirs(f"{root}/{parent}", exist_ok=True)
            seen.add(parent)
        fd = os.open(f"{root}/{path}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, data)
        os.close(fd)


def spread(count, top):
    return [f"{top}/d{i // 100}/file{i}.c" for i in range(count)]


def private_mb(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) / 1000


def some_patterns(count):
    """Rules that a look-up or a walk along the name can find, as people write them; none of them names a file of the tree."""
    shapes = ("/lib/module{}/**", "**/*.ext{}", "**/prefix{}*", "**/name{}/**", "/lib/*/pkg{}/*.o")
    levels = ("none", "read", "write")
    return [("**", "write")] + [(shapes[i % 5].format(i), levels[i % 3]) for i in range(1, count)]


# ---- rules ----


def rules(work, loops, points, rounds, files):
    curve = Curve("rules", "rules of a policy", points)
    base = work / "base"
    names = spread(files, "src")
    make_files(base, names)
    once, often = loops.list("rules.once", names), loops.list("rules.often", names * AGAIN)
    fences = {}
    for n in points:
        place = work / f"r{n}"
        place.mkdir()
        policy = harness.write_policy(place / "policy.json", some_patterns(n))
        fences[n] = harness.Fence(place, base=base, rules=(), policy=policy)

    def turn(n):
        with fences[n] as fence:
            curve.add(n, "start to mounted", (fence.ready_ns - fence.started_ns) / 1e6, "ms")
            curve.add(n, "stat, the first of a file", loops.each("stat", once, fence.mnt), flat=True)
            curve.add(n, "stat again", loops.each("stat", often, fence.mnt), flat=True)
            curve.add(n, "open+close", loops.each("open", often, fence.mnt), flat=True)
            curve.add(n, "a name that is not there", loops.each("absent", once, fence.mnt), flat=True)
            curve.add(n, "private memory of the fence", private_mb(fence.process.pid), "MB")

    in_turns(curve, rounds, turn)
    return curve


# ---- changes ----


def delta(work, loops, points, rounds, files):
    """Of `files` files the first n of a shuffled list are changed, so that changed files have unchanged ones beside them; the
    directory `calm` holds none that is."""
    curve = Curve("delta", "changed files in a sandbox's delta", points)
    base = work / "base"
    names = spread(max(points) * 2, "src")
    calm = spread(files, "calm")
    make_files(base, names + calm)
    subprocess.run(["chown", "-R", f"{UID}:{GID}", base], check=True)
    random.Random(1).shuffle(names)
    few = min(p for p in points if p) if any(points) else 0
    lists = {
        "calm": (loops.list("calm.once", calm), loops.list("calm.often", calm * AGAIN)),
        "beside": (loops.list("beside.once", names[-files:]), loops.list("beside.often", names[-files:] * AGAIN)),
        "changed": (loops.list("changed.once", names[:few]), loops.list("changed.often", names[:few] * AGAIN)),
    }
    fences = {}
    for n in points:
        place = work / f"n{n}"
        place.mkdir()
        fences[n] = harness.Fence(place, base=base, rules=SOME_RULES, ready_timeout=300)
        with fences[n] as fence:
            took = loops.each("change", loops.list("change", names[:n]), fence.mnt) if n else None
        if took:
            curve.add(n, "changing a file for the first time", took, flat=True)

    def turn(n):
        with fences[n] as fence:
            curve.add(n, "start to mounted", (fence.ready_ns - fence.started_ns) / 1e6, "ms")
            for kind, text in (
                ("calm", "unchanged, none changed beside it"),
                ("beside", "unchanged, beside changed ones"),
                ("changed", "changed"),
            ):
                if kind == "changed" and not n:
                    continue
                once, often = lists[kind]
                curve.add(n, f"{text}: the first stat", loops.each("stat", once, fence.mnt), flat=True)
                curve.add(n, f"{text}: stat again", loops.each("stat", often, fence.mnt), flat=True)
                curve.add(n, f"{text}: open+close", loops.each("open", often, fence.mnt), flat=True)
            if n:
                curve.add(n, "changed: writing once more", loops.each("change", lists["changed"][0], fence.mnt), flat=True)
            harness.run(["mkdir", "new"], cwd=fence.mnt).ok()
            curve.add(n, "creating a file", loops.create(fence.mnt, "new", 500), flat=True)
            curve.add(n, "private memory of the fence", private_mb(fence.process.pid), "MB")

    in_turns(curve, rounds, turn)
    return curve


# ---- depth ----


def depth(work, loops, points, rounds, files):
    """By name within the directory, where the path in front does not count, and by the whole path. Of that every component is looked at on
    any file system, on FUSE with a question to the kernel's part of it: told beside native, and not judged."""
    curve = Curve("depth", "directories above a file", points)
    base = work / "base"
    where = {n: "/".join(f"d{i}" for i in range(n)) for n in points}
    names = [f"file{i}.c" for i in range(files)]
    make_files(base, [f"{where[n]}/{name}" for n in points for name in names])
    once, often = loops.list("names.once", names), loops.list("names.often", names * AGAIN)
    whole = {n: loops.list(f"whole.{n}", [f"{where[n]}/{name}" for name in names] * AGAIN) for n in points}
    fence = harness.Fence(work, base=base, rules=SOME_RULES)

    def turn(n):
        with fence:
            inside = fence.mnt / where[n]
            curve.add(n, "by name: the first stat", loops.each("stat", once, inside), flat=True)
            curve.add(n, "by name: stat again", loops.each("stat", often, inside), flat=True)
            curve.add(n, "by name: open+close", loops.each("open", often, inside), flat=True)
            curve.add(n, "by name: one that is not there", loops.each("absent", once, inside), flat=True)
            curve.add(n, "by path: stat", loops.each("stat", whole[n], fence.mnt))
            curve.add(n, "by path: stat, native", loops.each("stat", whole[n], base))

    in_turns(curve, rounds, turn)
    curve.divide("by path: stat / native", "by path: stat", "by path: stat, native", flat=False)
    return curve


CURVES = {"rules": rules, "delta": delta, "depth": depth}
