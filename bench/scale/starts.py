"""Curves of whole sandboxes: more of them at once, and more files in what they work on."""

import io
import os
import subprocess
import tarfile
import time
from pathlib import Path

import bench_exec
from curve import Curve, in_turns

PER_DIRECTORY = 200
MEMORY = 1.1  # of one sandbox, whoever else is there: it hardly varies
SAMPLE = 50  # sandboxes that are asked for their memory and for an exec, spread over all of them


class Population(bench_exec.Bench):
    """Sandboxes that stay, made and started like those of bench-exec, and more and more of them."""

    def __init__(self, build, work):
        super().__init__(type("Options", (), {"build": build}), work)
        self.paths, self.running = [], []

    def grow(self, count):
        """Seconds that the new ones took, started at once."""
        new = [self.make(f"box{n}") for n in range(len(self.paths), count)]
        if not new:
            return None
        running, seconds = self.start(new)
        self.paths += new
        self.running += running
        return seconds / len(new)

    def some(self, most=SAMPLE):
        step = max(1, len(self.paths) // most)
        return range(0, len(self.paths), step)

    def first_us(self, *command):
        return float(self.call(self.ctl, "first", *command, stdin=subprocess.DEVNULL).split()[0])

    def gone(self):
        self.end(self.paths, self.running)


def memory_mb(supervisor):
    """Of all processes of a sandbox: what is private, and what of it was written. The pages of programs count as private to whoever is the
    only one that runs them, so the first sandbox has more of the former."""
    private = written = 0
    for pid in [supervisor, *bench_exec.descendants(supervisor)]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_"):
                private += int(line.split()[1])
            if line.startswith("Private_Dirty:"):
                written += int(line.split()[1])
    return private / 1000, written / 1000


def sandboxes(work, build, points, rounds, say):
    """Points are reached one after the other, so they cannot take turns; fork+exec and bwrap are measured beside, and their ratio is
    what must not grow."""
    curve = Curve("sandboxes", "sandboxes running", points)
    boxes = Population(build, work)
    run = [boxes.program, "run", "-q", "-n", boxes.base, "--", "echo", "x"]
    bwrap = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "echo", "x"]
    try:
        for n in points:
            each = boxes.grow(n)
            time.sleep(1)
            say(f"{n} sandboxes")
            if each:
                curve.add(n, "started at once, each", each * 1000, "ms")
            for i in boxes.some():
                private, written = memory_mb(boxes.running[i].pid)
                curve.add(n, "private memory of each", private, "MB")
                curve.add(n, "memory that each has written", written, "MB", target=MEMORY)
            for r in range(rounds):
                asked = boxes.paths[list(boxes.some(rounds))[r % len(boxes.some(rounds))]]
                for line in boxes.call(boxes.ctl, "rounds", asked, 20).splitlines():
                    plain, command, builtin = map(float, line.split())
                    curve.add(n, "fork+exec", plain)
                    curve.add(n, "a command in one of them", command)
                    curve.add(n, "a builtin in a session of one", builtin)
                for name, command in (("bwrap to first output", bwrap), ("run to first output", run)):
                    curve.add(n, name, boxes.first_us(*command) / 1000, "ms")
    finally:
        boxes.gone()
    curve.divide("a command / fork+exec", "a command in one of them", "fork+exec")
    curve.divide("a builtin / fork+exec", "a builtin in a session of one", "fork+exec")
    curve.divide("run / bwrap", "run to first output", "bwrap to first output")
    return curve


# ---- files ----


def make_tree(root, count):
    """Names are what counts here: the files are empty, and made by two processes, as there is nothing else to wait for."""
    workers = []
    for part in range(2):
        pid = os.fork()
        if pid == 0:
            try:
                for d in range(part, (count + PER_DIRECTORY - 1) // PER_DIRECTORY, 2):
                    where = f"{root}/part{d // 100}/dir{d}"
                    os.makedirs(where, exist_ok=True)
                    fd = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
                    for i in range(min(PER_DIRECTORY, count - d * PER_DIRECTORY)):
                        os.close(os.open(f"file{i}.c", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd))
                    os.close(fd)
                os._exit(0)
            finally:
                os._exit(1)
        workers.append(pid)
    if any(os.waitpid(pid, 0)[1] for pid in workers):
        raise RuntimeError(f"cannot make {count} files")


def archive_of(root):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:") as tar:
        tar.add(root, arcname=".")
    return data.getvalue()


def upload(client, root):
    from sandbox.v1 import codebase_pb2

    chunk, content = codebase_pb2.ArchiveChunk, archive_of(root)
    made = client.codebase()
    pieces = (chunk(data=content[at : at + 262144]) for at in range(0, len(content), 262144))
    client.upload_archive([chunk(metadata=chunk.Metadata(codebase_id=made)), *pieces], call_timeout=900)
    return made


def files(work, build, points, rounds, say, server=None, most_uploaded=100000):
    """A live directory by `run`, and a codebase of a server: starting a sandbox must not look at what it will work on."""
    curve = Curve("files", "files in the codebase", points)
    one = Population(build, work)
    bwrap = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "echo", "x"]
    trees, codebases = {}, {}
    for n in points:
        say(f"making {n} files")
        trees[n] = work / f"tree{n}"
        trees[n].mkdir()
        make_tree(trees[n], n)
        if server and n <= most_uploaded:
            codebases[n] = upload(server.client(), trees[n])
    client = server.client() if server else None

    def turn(n):
        curve.add(n, "bwrap to first output", one.first_us(*bwrap) / 1000, "ms")
        curve.add(n, "run to first output", one.first_us(one.program, "run", "-q", "-n", trees[n], "--", "echo", "x") / 1000, "ms",
                  flat=True)
        if n in codebases:
            began = time.perf_counter()
            box = client.sandbox(codebases[n])
            started = time.perf_counter()
            client.run(box, "true")
            ended = time.perf_counter()
            client.destroy_sandbox(sandbox_id=box)
            gone = time.perf_counter()
            curve.add(n, "a server's sandbox: create and start", (started - began) * 1000, "ms", flat=True)
            curve.add(n, "a server's sandbox: first command", (ended - started) * 1000, "ms", flat=True)
            curve.add(n, "a server's sandbox: destroy", (gone - ended) * 1000, "ms", flat=True)

    in_turns(curve, rounds, turn)
    if server and max(points) > most_uploaded:
        curve.notes.append(f"codebases of a server up to {most_uploaded:,} files")
    return curve
