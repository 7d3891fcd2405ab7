#!/usr/bin/env python3
"""What does it cost to look at an agent's changes?

    tools/bench-diff [--files N] [--rounds N] [--results DIR]

A base of N files (10,000) of 200 lines, each of which the agent changed in three places, and one file of 100 MB with one line changed. The
same two trees for `git diff --no-index`. In each round each contestant takes its turn; reported are medians and the peak of memory.

 - show: all changes with hunks, line counts and hashes, as the API tells them. Also of the large file alone and of the many alone.
 - patch: the text that `git apply` takes, in which the large file is a binary patch. Against `git diff --binary`.
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


def run(program, command):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run([program, "time", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr}")
    seconds, peak_kb = done.stderr.split()[-2:]
    return float(seconds), int(peak_kb) / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-bench")
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    program = (ROOT / args.build).resolve() / "bench" / "bench-diff"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = Path(tempfile.mkdtemp(prefix="bench-diff-"))
    try:
        contestants = {}
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
            git = ["git", "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv"]
            contestants[f"{name}: git diff"] = git + [base, changed]
            contestants[f"{name}: git diff --binary"] = git + ["--binary", base, changed]
            for what in ("show", "measure", "patch"):
                contestants[f"{name}: {what}"] = [program, what, place / "delta"]
        times = {name: [] for name in contestants}
        peaks = {name: 0 for name in contestants}
        names = list(contestants)
        for r in range(args.rounds + 1):
            for name in names[r % len(names) :] + names[: r % len(names)]:
                seconds, peak = run(program, contestants[name])
                if r > 0:  # the first warms up
                    times[name].append(seconds)
                    peaks[name] = max(peaks[name], peak)
        results, rows = {}, []
        print(f"{'':28} {'median s':>9} {'/ git':>6} {'peak MB':>8}")
        for name in names:
            set_name, what = name.split(": ")
            against = f"{set_name}: git diff" + (" --binary" if what == "patch" else "")
            ratio = statistics.median(times[name]) / statistics.median(times[against])
            results[name] = {"seconds": statistics.median(times[name]), "ratio": ratio, "peak_mb": peaks[name]}
            note = "" if "git" in name or what != "show" else f"  (at most {TARGET})"
            if "git" not in name:
                target = TARGET if what == "show" else None
                verdict = "" if target is None else "pass" if ratio <= target else "MISS"
                rows.append({"what": f"{TEXTS[set_name].format(args.files)}: {what} / {against.split(': ')[1]}", "value": round(ratio, 3),
                             "unit": "x", "target": target, "verdict": verdict})
            print(f"{name:28} {results[name]['seconds']:9.3f} {ratio:6.2f} {peaks[name]:8.1f}{note}")
        if args.results:
            args.results.mkdir(parents=True, exist_ok=True)
            (args.results / "diff.json").write_text(json.dumps({"rows": rows, "contestants": results}, indent=1) + "\n")
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
