#!/usr/bin/env python3
"""What does it cost to look at an agent's changes?

    tools/bench-diff [--files N] [--rounds N] [--results DIR] [--no-server]

A base of N files (10,000) of 200 lines, each of which the agent changed in three places, and one file of 100 MB with one line changed. The
same two trees for `git diff --no-index`. In each round each contestant takes its turn; reported are medians and the peak of memory.

 - show: all changes with hunks, line counts and hashes, as the API tells them. Also of the large file alone and of the many alone. Of the large
   file it is the same job as git's, line by line: that its one changed line is found is checked before anything is timed.
 - patch: the text that `git apply` takes, in which the large file is a binary patch. Against `git diff --binary`.
 - served: what a user waits for, of the many files. `GET diff` by curl, and `agentfense diff`, of a sandbox of a server in
   which the same files were written by a command; the peaks of client and server are told apart.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from served import Served

ROOT = Path(__file__).resolve().parents[2]
TARGET = 1.5
TEXTS = {"many": "{:,} changed files", "large": "one file of 100 MB"}
LARGE = 100 << 20


def line(i, k, salt=""):
    return f"line {k} of file {i}: some text that is as long as lines are{salt}\n"


def make_trees(work, files):
    base, changed = work / "base", work / "changed"
    rows = []
    for i in range(files):
        path = Path(f"d{i % 100}") / f"e{i // 100 % 10}" / f"file{i}.txt"
        lines = [line(i, k) for k in range(200)]
        for root in (base, changed):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_text("".join(lines))
        lines[20] = line(i, 20, " changed")
        lines[100:102] = []
        lines.insert(150, line(i, 150, " added"))
        (changed / path).write_text("".join(lines))
        rows.append(path)
    return base, changed, rows


def make_large(base, changed):
    base.mkdir(exist_ok=True)
    changed.mkdir(exist_ok=True)
    block = "".join(line(0, k) for k in range(10000))
    with open(base / "large.txt", "w") as was, open(changed / "large.txt", "w") as now:
        size = 0
        while size < LARGE:
            was.write(block)
            now.write(block if size else "changed: " + block)
            size += len(block)
    return [Path("large.txt")]


def run(program, command, env):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **env}
    done = subprocess.run([program, "time", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    seconds, peak_kb = done.stderr.split()[-2:]
    return float(seconds), int(peak_kb) / 1024


def check_job(program, delta, added, removed):
    """Whoever is timed does all of it: nothing is passed over for its size."""
    told = subprocess.run([program, "show", delta], check=True, capture_output=True, text=True).stdout
    if f", +{added} -{removed} lines, 0 not measured" not in told:
        sys.exit(f"not all changes are shown: {told}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-bench")
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--no-server", action="store_true", help="only what the library does")
    args = parser.parse_args()
    program = (ROOT / args.build).resolve() / "bench" / "bench-diff"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = Path(tempfile.mkdtemp(prefix="bench-diff-"))
    work.chmod(0o755)
    contestants, served = {}, None
    try:
        for name, make in (("many", lambda w: make_trees(w, args.files)), ("large", None)):
            place = work / name
            place.mkdir()
            if make:
                base, changed, rows = make(place)
            else:
                base, changed = place / "base", place / "changed"
                rows = make_large(base, changed)
            (place / "list").write_text("".join(f"{r} {changed / r}\n" for r in rows))
            subprocess.run([program, "make", base, place / "delta", place / "list"], check=True)
            check_job(program, place / "delta", *((2 * args.files, 3 * args.files) if make else (1, 1)))
            git = ["git", "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv"]
            contestants[f"{name}: git diff"] = git + [base, changed]
            contestants[f"{name}: git diff --binary"] = git + ["--binary", base, changed]
            for what in ("show", "measure", "patch"):
                contestants[f"{name}: {what}"] = [program, what, place / "delta"]
        if not args.no_server:
            served = Served((ROOT / args.build).resolve(), work / "served", work / "many" / "base", work / "many" / "changed", args.files)
            contestants.update({f"many: {what}": command for what, command in served.commands.items()})
        times = {name: [] for name in contestants}
        peaks = {name: 0 for name in contestants}
        server_peaks = {}
        names = list(contestants)
        for r in range(args.rounds + 1):
            for name in names[r % len(names) :] + names[: r % len(names)]:
                is_served = served is not None and served.is_one(name)
                if is_served:
                    served.forget_peak()
                seconds, peak = run(program, contestants[name], served.environment() if is_served else {})
                if r > 0:  # the first warms up
                    times[name].append(seconds)
                    peaks[name] = max(peaks[name], peak)
                    if is_served:
                        server_peaks[name] = max(server_peaks.get(name, 0), served.peak_mb())
        results, rows = {}, []
        print(f"{'':32} {'median s':>9} {'/ git':>6} {'peak MB':>8} {'server MB':>9}")
        for name in names:
            set_name, what = name.split(": ")
            against = f"{set_name}: git diff" + (" --binary" if what == "patch" else "")
            ratio = statistics.median(times[name]) / statistics.median(times[against])
            results[name] = {"seconds": statistics.median(times[name]), "ratio": ratio, "peak_mb": peaks[name]}
            has_target = what == "show" or what in Served.WORDS
            note = f"  (at most {TARGET})" if has_target else ""
            if name in server_peaks:
                results[name]["server_peak_mb"] = server_peaks[name]
            if not what.startswith("git"):
                target = TARGET if has_target else None
                verdict = "" if target is None else "pass" if ratio <= target else "MISS"
                rows.append({"what": f"{TEXTS[set_name].format(args.files)}: {what} / {against.split(': ')[1]}", "value": round(ratio, 3),
                             "unit": "x", "target": target, "verdict": verdict})
            at_server = f"{server_peaks[name]:9.1f}" if name in server_peaks else " " * 9
            print(f"{name:32} {results[name]['seconds']:9.3f} {ratio:6.2f} {peaks[name]:8.1f} {at_server}{note}")
        if args.results:
            args.results.mkdir(parents=True, exist_ok=True)
            (args.results / "diff.json").write_text(json.dumps({"rows": rows, "contestants": results}, indent=1) + "\n")
    finally:
        if served:
            served.stop()
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
