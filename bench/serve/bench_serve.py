#!/usr/bin/env python3
"""Load on a real server, over loopback: clients that make sandboxes, run commands and move files for a while, then single measures
side by side with what they are compared with. Prints a table, and JSON with --json."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"exec_ratio": 3.0, "archive_ratio": 4.0, "memory_growth": 1.10, "errors": 0}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build-bench")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--files", type=int, default=10000, help="in the archive (default 10000)")
    parser.add_argument("--rounds", type=int, default=300, help="of single commands (default 300)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    return parser.parse_args()


def share_of(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    return 0


class Load(threading.Thread):
    """One client. Each has a channel of its own, and a codebase."""

    def __init__(self, server, number, until):
        super().__init__()
        self.client, self.until = server.client(), until
        self.random = random.Random(number)
        self.times, self.errors = {}, []

    @contextlib.contextmanager
    def timed(self, what):
        began = time.perf_counter()
        try:
            yield
        except Exception as error:  # whatever it is, it is a failure of the run
            self.errors.append(f"{what}: {error}")
        else:
            self.times.setdefault(what, []).append(time.perf_counter() - began)

    def run(self):
        client = self.client
        codebase = client.codebase({"main.py": "print(1)\n", "data": "x" * 4096})
        while time.monotonic() < self.until and len(self.errors) < 20:
            box = None
            with self.timed("create+start"):
                box = client.sandbox(codebase)
            if not box:
                continue
            for _ in range(self.random.randrange(5, 15)):
                with self.timed("exec"):
                    client.run(box, "cat main.py")
                with self.timed("exec that writes"):
                    client.run(box, f"echo {self.random.random()} > out{self.random.randrange(50)}")
                with self.timed("upload 4 KiB"):
                    client.put(codebase, f"up{self.random.randrange(50)}", "y" * 4096)
                with self.timed("download 4 KiB"):
                    client.get(codebase, "data")
            with self.timed("destroy"):
                client.destroy_sandbox(sandbox_id=box)


def run_load(server, args):
    # Once for warmth: caches of the database fill until they are full, and stay so.
    for seconds in (args.seconds, args.seconds):
        before = rss_kib(server.pid())
        loads = [Load(server, number, time.monotonic() + seconds) for number in range(args.clients)]
        for load in loads:
            load.start()
        for load in loads:
            load.join()
    time.sleep(12)  # idle threads end
    after = rss_kib(server.pid())
    times = {}
    for load in loads:
        for what, values in load.times.items():
            times.setdefault(what, []).extend(values)
    errors = [error for load in loads for error in load.errors]
    return times, errors, before, after


def compare_exec(client, rounds):
    """A call against what it does: fork and exec of the same shell, interleaved."""
    box = client.sandbox(client.codebase())
    ours, plain = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        client.run(box, "true")
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
        plain.append(time.perf_counter() - began)
    client.destroy_sandbox(sandbox_id=box)
    return statistics.median(ours), statistics.median(plain)


def compare_archive(client, place, count):
    """The upload of a tree, durable when it is answered, against cp -r and a sync of it."""
    from sandbox.v1 import codebase_pb2
    Chunk = codebase_pb2.ArchiveChunk
    tree = place / "tree"
    for number in range(count):
        path = tree / f"d{number % 100:02}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d\n" % number * 150)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:") as tar:
        tar.add(tree, arcname=".")
    content = data.getvalue()
    ours, plain = [], []
    for turn in range(3):
        codebase = client.codebase()
        began = time.perf_counter()
        client.upload_archive([Chunk(metadata=Chunk.Metadata(codebase_id=codebase)),
                               *[Chunk(data=content[at:at + 262144]) for at in range(0, len(content), 262144)]])
        ours.append(time.perf_counter() - began)
        client.delete_codebase(codebase_id=codebase)
        began = time.perf_counter()
        subprocess.run(["cp", "-r", tree, place / f"copy{turn}"], check=True)
        plain.append(time.perf_counter() - began)
        shutil.rmtree(place / f"copy{turn}")
    return statistics.median(ours), statistics.median(plain)


def start_server(args):
    build = pathlib.Path(args.build).resolve() / "src"
    for variable, program in (("AGENTFENSE", "cli/agentfense"), ("AGENTFENSE_SERVER", "server/agentfense-server"),
                              ("AGENTFENSE_SUPERVISOR", "supervisor/agentfense-supervisor"), ("AGENTFENSE_INIT", "init/agentfense-init")):
        os.environ[variable] = str(build / program)
    sys.path.insert(0, str(ROOT / "tests" / "serve"))
    import conftest
    import server as harness

    class Measured(harness.Server):
        def pid(self):
            return self.process.pid

    return Measured(conftest.PROGRAMS, **{"logging-level": "error", "sandbox-cleanup-interval": "5m"})


def rows(figures, args):
    """What the project promises, and whether it is so."""
    told = (
        ("exec_ratio", "an Exec call / fork+exec of a shell", "x"),
        ("archive_ratio", f"{args.files:,} files as an archive / cp -r", "x"),
        ("memory_growth", "private memory after the load / before", "x"),
        ("errors", f"errors among {figures['calls']:,} calls of {args.clients} clients in {args.seconds:g} s", ""),
    )
    return [{"what": what, "value": round(figures[key], 3), "unit": unit, "target": TARGETS[key],
             "verdict": "pass" if figures[key] <= TARGETS[key] else "MISS"} for key, what, unit in told]


def main():
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.chdir(ROOT)
    server = start_server(args)
    # It logs where it listens at level info only.
    server.settings["logging-level"] = "info"
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-bench-serve-"))
    try:
        server.start()
        client = server.client()
        exec_ours, exec_plain = compare_exec(client, args.rounds)
        archive_ours, archive_plain = compare_archive(client, place, args.files)
        times, errors, before, after = run_load(server, args)
    finally:
        server.remove()
        shutil.rmtree(place)
    figures = {
        "exec_ms": exec_ours * 1e3, "fork_exec_ms": exec_plain * 1e3, "exec_ratio": exec_ours / exec_plain,
        "archive_s": archive_ours, "cp_s": archive_plain, "archive_ratio": archive_ours / archive_plain,
        "memory_before_kib": before, "memory_after_kib": after, "memory_growth": after / max(before, 1),
        "errors": len(errors), "calls": sum(map(len, times.values())),
        "load": {what: {"count": len(values), "p50_ms": share_of(values, 0.5) * 1e3, "p99_ms": share_of(values, 0.99) * 1e3}
                 for what, values in sorted(times.items())},
    }
    figures["rows"] = rows(figures, args)
    print(f"{args.clients} clients for {args.seconds:g} s: {figures['calls']} calls, {len(errors)} errors")
    for what, row in figures["load"].items():
        print(f"  {what:18} {row['count']:7} calls   p50 {row['p50_ms']:8.2f} ms   p99 {row['p99_ms']:8.2f} ms")
    for error in errors[:5]:
        print(f"  error: {error[:300]}")
    print(f"an Exec call         {figures['exec_ms']:.2f} ms, fork+exec {figures['fork_exec_ms']:.2f} ms: {figures['exec_ratio']:.2f}x "
          f"(target {TARGETS['exec_ratio']:g})")
    print(f"{args.files} files as archive  {archive_ours:.2f} s, cp -r {archive_plain:.2f} s: {figures['archive_ratio']:.2f}x "
          f"(target {TARGETS['archive_ratio']:g})")
    print(f"private memory       {before} kB before the load, {after} kB after: {figures['memory_growth']:.2f}x "
          f"(target {TARGETS['memory_growth']:g})")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
