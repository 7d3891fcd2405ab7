#!/usr/bin/python3
"""Every benchmark, one after the other: what they measured goes to bench/results/DATE.json, and from there to docs/benchmarks.md.

    tools/bench [--quick] [--long] [PART]...

A part that is not named is not measured, and the page says so. --quick, or BENCH_QUICK=1, is a small variant that shows whether everything
works; its figures mean nothing, and go to build-bench/quick/ with a page of their own. A missed target is a figure like any other; the
exit status is 1 only if a part did not measure.
"""

import argparse
import datetime
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = ROOT / "build-bench" / "results"  # where each tool leaves its figures
SIGNIFICANT = 5  # digits; more would be noise, and make a diff of two runs hard to read


class Part:
    def __init__(self, name, target, files, full=(), quick=(), long=()):
        self.name, self.target, self.files = name, target, files
        self.full, self.quick, self.long = list(full), list(quick), list(long)

    def command(self, args):
        words = self.quick if args.quick else self.full + (self.long if args.long else [])
        return [f"tools/{self.target}", *words]


SERVE = ["--json", str((WRITTEN / "serve.json").relative_to(ROOT))]
PARTS = [
    Part("fs", "bench-fs", ["bench-fs.json"], ["--rounds", "5"],
         ["--quick", "--files", "300", "--rounds", "1", "--fs", "overlayfs", "--fs", "fence"]),
    Part("exec", "bench-exec", ["bench-exec.json"], [], ["--quick", "--rounds", "2", "--idle", "3"]),
    Part("serve", "bench-serve", ["serve.json"], SERVE,
         [*SERVE, "--seconds", "2", "--files", "200", "--rounds", "20", "--clients", "2"]),
    Part("diff", "bench-diff", ["diff.json"], [], ["--files", "200", "--rounds", "1"]),
    Part("policy", "bench-policy", ["policy.json", "init.json"]),
    Part("scale", "bench-scale", ["bench-scale.json"], [], ["--quick"], ["--long"]),
]


def say(text):
    print(text, file=sys.stderr, flush=True)


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal:"))
    return {"cpu": cpu, "cpus": os.cpu_count(), "kernel": platform.release(), "memory_gb": round(memory / 1e6, 1)}


def commit():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return f"{name}, with changes" if git("status", "--porcelain", "--untracked-files=no") else name


def clean(value, key=""):
    """Nothing of this machine but what machine() tells: reasons why something was skipped name its directories."""
    if isinstance(value, dict):
        return {k: clean(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [clean(v, key) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT}g}")
    if isinstance(value, str):
        value = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+([\w.+-]+)", r"\1", value)
        return value.replace(socket.gethostname(), "here")
    return value


def run_to_end(command):
    """Its exit status. Who is asked to end asks it, and waits: it has mounts and processes to take back."""
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


def measure(part, args):
    for name in part.files:
        (WRITTEN / name).unlink(missing_ok=True)
    command = part.command(args)
    load, began = os.getloadavg(), time.monotonic()
    say(f"== {' '.join(command)}")
    code = run_to_end(command)
    found = {Path(name).stem: json.loads((WRITTEN / name).read_text()) for name in part.files if (WRITTEN / name).exists()}
    if len(found) < len(part.files):
        say(f"== {part.name}: no figures, exit status {code}")
        return None
    return {
        "command": f"make {part.target}",
        "ran": " ".join(command),
        "load_before": [round(x, 2) for x in load],
        "seconds": round(time.monotonic() - began),
        "figures": clean(found),
    }


def place(args, date):
    """A file for this run: a second one of a day does not overwrite the first."""
    directory = ROOT / "build-bench" / "quick" if args.quick else ROOT / "bench" / "results"
    directory.mkdir(parents=True, exist_ok=True)
    if args.quick:
        return directory / "quick.json"
    names = [date] + [f"{date}-{n}" for n in range(2, 100)]
    return next(path for name in names if not (path := directory / f"{name}.json").exists())


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", default=os.environ.get("BENCH_QUICK", "") not in ("", "0"))
    p.add_argument("--long", action="store_true", default=os.environ.get("BENCH_LONG", "") not in ("", "0"),
                   help="also 1,000 sandboxes and 1,000,000 files; or BENCH_LONG=1")
    p.add_argument("parts", nargs="*", metavar="PART", help=", ".join(part.name for part in PARTS))
    args = p.parse_args()
    unknown = set(args.parts) - {part.name for part in PARTS}
    if unknown:
        p.error(f"no part '{min(unknown)}'")
    return args


def main():
    args = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    now = datetime.datetime.now(datetime.timezone.utc)
    run = {"when": now.isoformat(timespec="seconds"), "commit": commit(), "quick": args.quick, "machine": machine(), "parts": {}}
    failed = 0
    for part in PARTS:
        if args.parts and part.name not in args.parts:
            continue
        figures = measure(part, args)
        if figures:
            run["parts"][part.name] = figures
        else:
            failed += 1
    path = place(args, now.date().isoformat())
    path.write_text(json.dumps(run, indent=1) + "\n")
    say(f"== figures: {path.relative_to(ROOT)}")
    docs = ["--results", str(path.parent), "--docs", str(path.parent)] if args.quick else []
    subprocess.run(["tools/render-benchmarks", *docs], cwd=ROOT, check=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
