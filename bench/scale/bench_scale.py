#!/usr/bin/python3
"""What grows with what? Each curve measures the same thing at points a factor apart and tells the ratio to its first point.

    tools/bench-scale [--quick] [--long] [--rounds N] [--only CURVE]... [--results DIR]

 - sandboxes: 1, 10, 100, 300 of them running (1,000 with --long): memory of each, a command in one, one more started.
 - files: 1,000, 10,000, 100,000 in the codebase (1,000,000 with --long): starting a sandbox on it.
 - rules: 1 to 10,000: the fence's look-ups, and its start, which compiles them.
 - delta: 0 to 100,000 files changed: operations on what is changed and what is not.
 - depth: 1 to 60 directories above a file.
 - history: 0 to 1,000 approvals of a workspace before: its diff, and one more of them.

Points take turns in an order that rotates, medians are reported. What the design says does not grow is judged; the rest is told. Needs root.
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for room in ("tests/fence", "bench/exec", "bench/fs", "bench/serve"):
    sys.path.insert(0, str(ROOT / room))

import bench_fs  # noqa: E402
import bench_serve  # noqa: E402
import fences  # noqa: E402
import harness  # noqa: E402
import history  # noqa: E402
import starts  # noqa: E402
from curve import table  # noqa: E402

POINTS = {
    "sandboxes": [1, 10, 100, 300],
    "files": [1000, 10000, 100000],
    "rules": [1, 10, 100, 1000, 10000],
    "delta": [0, 1000, 10000, 100000],
    "depth": [1, 5, 10, 20, 40, 60],
    "history": [0, 100, 1000],
}
LONG_POINTS = {"sandboxes": [1000], "files": [1000000]}
ROUNDS = {"sandboxes": 15, "files": 11, "rules": 21, "delta": 9, "depth": 21, "history": 21}  # more where one is short
QUICK_POINTS = {"sandboxes": [1, 5], "files": [100, 1000], "rules": [1, 100], "delta": [0, 100, 1000], "depth": [1, 20], "history": [0, 20]}


def say(text):
    print(text, file=sys.stderr, flush=True)


def measure_fence(name, work, points, args):
    few = 300 if args.quick else 2000
    loops = fences.Loops(work)
    return fences.CURVES[name](work, loops, points, args.rounds[name], 500 if name == "depth" else few)


def measure_starts(name, work, points, args):
    if name == "sandboxes":
        return starts.sandboxes(work, args.build, points, args.rounds[name], say)
    server = bench_serve.start_server(args)
    server.settings["logging-level"] = "info"  # it tells where it listens
    try:
        server.start()
        if name == "history":
            return history.history(work, points, args.rounds[name], say, server)
        return starts.files(work, args.build, points, args.rounds[name], say, server)
    finally:
        server.remove()


def measure(name, points, args, top):
    """In a directory of its own on a file system of its own: what is left of the last curve is not in the way of the next, and is gone
    with the image, however many files it was."""
    work = top / name
    work.mkdir()
    image = bench_fs.own_filesystem(work, 1600000 if args.long and name == "files" else 1000000)
    try:
        kind = measure_fence if name in fences.CURVES else measure_starts
        return kind(name, work, points, args).result()
    finally:
        harness.umount(work)
        image.unlink(missing_ok=True)


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build-bench", help=argparse.SUPPRESS)
    p.add_argument("--quick", action="store_true", help="few points, few rounds: does it work at all")
    p.add_argument("--long", action="store_true", help="also 1,000 sandboxes and 1,000,000 files")
    p.add_argument("--rounds", type=int, help="of each point (9 to 21)")
    p.add_argument("--only", action="append", choices=list(POINTS), metavar="CURVE", help="may be given again")
    p.add_argument("--results", type=Path, help="directory for bench-scale.json")
    args = p.parse_args()
    args.rounds = {name: args.rounds or (2 if args.quick else usual) for name, usual in ROUNDS.items()}
    return args


def main():
    args = options()
    if os.geteuid() != 0:
        sys.exit("bench-scale: needs root, to mount file systems of its own")
    obstacle = harness.enter_private_namespace()
    if obstacle:
        sys.exit("bench-scale: " + obstacle)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.environ["AGENTFENSE"] = str((ROOT / args.build).resolve() / "src" / "cli" / "agentfense")
    top = Path(tempfile.mkdtemp(prefix="af-scale-"))
    top.chmod(0o755)
    curves = []
    try:
        for name in args.only or POINTS:
            began = time.monotonic()
            points = QUICK_POINTS[name] if args.quick else POINTS[name] + (LONG_POINTS.get(name, []) if args.long else [])
            say(f"{name}: {', '.join(f'{p:,}' for p in points)}")
            curves.append(measure(name, points, args, top))
            curves[-1]["rounds"] = args.rounds[name]
            curves[-1]["seconds"] = round(time.monotonic() - began)
            print(table(curves[-1]), flush=True)
            say(f"{name}: {curves[-1]['seconds']} s")
    finally:
        shutil.rmtree(top, ignore_errors=True)
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        result = {"date": datetime.date.today().isoformat(), "quick": args.quick, "curves": curves}
        (args.results / "bench-scale.json").write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if any(row["verdict"] == "MISS" for curve in curves for row in curve["series"]) else 0)


if __name__ == "__main__":
    main()
