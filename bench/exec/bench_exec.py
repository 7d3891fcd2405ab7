#!/usr/bin/env python3
"""What does a command cost in a sandbox, and what does a sandbox cost?

All run interleaved in one run: in each round each contestant takes its turn, in an order that rotates, so that what else the
machine does hits all alike. Reported are medians, as ratios to the median of the contestant it is compared with in the same run.

    tools/bench-exec [--quick] [--rounds N] [--idle N] [--long] [--no-docker] [--results DIR]

 - plain: fork and exec of /bin/true. exec: /bin/true in a running sandbox, from asking at its control socket until its end is told.
   builtin: ":" in a session there. container exec, container builtin: the same where the sandbox is a container.
 - bwrap: `bwrap --unshare-all --ro-bind / / ...`. docker: `docker run --rm` and `docker exec` with an engine of our own, private in all
   its directories, and an image of this machine's tools. run: `agentfense run`; run docker: in a container of that image. For these: from
   start to the first byte of output.
 - idle sandboxes: private memory of supervisor, bwrap and init together; of containers with the engine's shim for each.
 - --long adds 500 sandboxes started at once, of which each answers an exec.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docker"))

import engine  # noqa: E402

LIMIT = "256M"

# What is compared with what, and the ratio that the project promises; None where it promises nothing.
RATIOS = [
    ("exec", "plain", 2.0, "exec in a running sandbox / fork+exec"),
    ("builtin", "plain", 0.7, "session builtin / fork+exec"),
    ("run", "bwrap", 2.5, "run to first output / bwrap"),
    ("run -m", "bwrap", 4.0, "run with limits to first output / bwrap"),
    ("run whole", "bwrap whole", None, "run to its end / bwrap"),
    ("docker run", "bwrap", None, "docker run to first output / bwrap"),
    ("docker exec", "plain", None, "docker exec to first output / fork+exec"),
    ("run", "docker run", None, "run to first output / docker run"),
    ("run docker", "docker run", None, "run in a container to first output / docker run"),
    ("container exec", "plain", None, "exec in a running container / fork+exec"),
    ("container exec", "docker exec", None, "exec in a running container / docker exec"),
    ("container builtin", "plain", None, "session builtin in a container / fork+exec"),
]
IDLE_TARGET_MB = 2.0


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, args, work):
        self.args = args
        self.work = work
        build = (ROOT / args.build).resolve()
        self.ctl = build / "bench" / "bench-ctl"
        self.program = build / "src" / "cli" / "agentfense"
        self.supervisor = build / "src" / "supervisor" / "agentfense-supervisor"
        self.base = work / "base"
        self.base.mkdir()
        (self.base / "README").write_text("hello\n")
        self.state = work / "state"
        (self.state / "sandboxes").mkdir(parents=True, mode=0o700)
        self.state.chmod(0o700)
        self.env = {**os.environ, "AGENTFENSE_STATE_DIR": str(self.state)}
        self.samples = {}
        self.skipped = {}

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def call(self, *words, **options):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=self.env, timeout=600, check=False, **options)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def first(self, name, *command):
        """Time to the first output, and to the end."""
        begin, whole = map(float, self.call(self.ctl, "first", *command, stdin=subprocess.DEVNULL).split())
        self.add(name, begin)
        self.add(f"{name} whole", whole)

    # ---- sandboxes that stay ----

    def make(self, name, docker=None):
        path = self.state / "sandboxes" / name
        self.call(self.ctl, "make", path, name, self.base, *([docker.image("tools"), docker.socket] if docker else []))
        return path

    def start(self, paths):
        """Supervisors without an owner; returned when all of them run."""
        began = time.monotonic()
        running = [subprocess.Popen([str(self.supervisor), str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, start_new_session=True) for path in paths]
        waiting = dict(zip(paths, running))
        while waiting:
            for path, process in list(waiting.items()):
                state = (path / "state").read_text() if (path / "state").exists() else ""
                if state.startswith("state running"):
                    del waiting[path]
                elif state.startswith("state failed") or process.poll() is not None:
                    self.end(paths, running)
                    raise RuntimeError(f"{path.name}: {state or process.returncode}")
            if time.monotonic() - began > 600:
                self.end(paths, running)
                raise RuntimeError(f"{len(waiting)} sandboxes do not start")
            time.sleep(0.005 + len(waiting) / 2000)  # looking at hundreds all the time would take a CPU from them
        return running, time.monotonic() - began

    def end(self, paths, running):
        for process in running:
            process.terminate()
        for process in running:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for path in paths:
            shutil.rmtree(path, ignore_errors=True)


def descendants(pid):
    """Of a supervisor: bwrap, and init with what it keeps."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def private_bytes(pid):
    total = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:")):
            total += int(line.split()[1]) * 1024
    return total


def contained(path, docker):
    """Of a sandbox that is a container: the engine's shim, and init with what it keeps."""
    (container,) = docker.containers(f"label=agentfense.sandbox={path.name}")
    init = docker.inspect(container)["State"]["Pid"]
    shim = int(Path(f"/proc/{init}/stat").read_text().rpartition(")")[2].split()[1])
    return [shim, *descendants(shim)]


def memory_of(supervisors, paths=(), docker=None):
    """Private bytes of each sandbox, and of each kind of process in the middle one."""
    totals, parts = [], []
    for at, supervisor in enumerate(supervisors):
        pids = [supervisor.pid, *descendants(supervisor.pid), *(contained(paths[at], docker) if docker else [])]
        each = [(Path(f"/proc/{pid}/comm").read_text().strip(), private_bytes(pid)) for pid in pids]
        totals.append(sum(size for _, size in each))
        parts.append(each)
    middle = sorted(range(len(totals)), key=totals.__getitem__)[len(totals) // 2]
    return totals, parts[middle]


# ---- the rounds ----

def contestants(bench, docker):
    run = [bench.program, "run", "-q", "-n"]
    found = [
        ("bwrap", lambda: bench.first("bwrap", "bwrap", "--unshare-all", "--ro-bind", "/", "/", "echo", "x")),
        ("run", lambda: bench.first("run", *run, bench.base, "--", "echo", "x")),
    ]
    try:
        bench.call(*run, "-m", LIMIT, bench.base, "--", "true")
        found.append(("run -m", lambda: bench.first("run -m", *run, "-m", LIMIT, bench.base, "--", "echo", "x")))
    except RuntimeError as problem:
        bench.skipped["run -m"] = str(problem)
    if docker:
        base, image = ["docker", "-H", docker.host], docker.image("tools")
        ours = [*run, "--runtime", "docker", "--image", image, bench.base, "--", "echo", "x"]
        found.append(("docker run", lambda: bench.first("docker run", *base, "run", "--rm", "--network", "none", image, "echo", "x")))
        found.append(("docker exec", lambda: bench.first("docker exec", *base, "exec", "box", "echo", "x")))
        found.append(("run docker", lambda: bench.first("run docker", *ours)))
    return found


def start_docker(bench):
    if bench.args.no_docker:
        bench.skipped["docker"] = "not asked for"
        return None
    try:
        docker = engine.get_engine()
        docker.docker("run", "-d", "--name", "box", "--network", "none", docker.image("tools"), "sleep", "3600")
    except (engine.Unavailable, RuntimeError, OSError) as problem:
        bench.skipped["docker"] = str(problem)
        return None
    bench.env["DOCKER_HOST"] = docker.host
    return docker


def measure(bench):
    """Between two blocks of execs a round of starts, so that both meet the same weather."""
    docker = start_docker(bench)
    paths = [bench.make("running"), *([bench.make("contained", docker)] if docker else [])]
    running, _ = bench.start(paths)
    try:
        turns = contestants(bench, docker)
        per_round = 10 if bench.args.quick else 20
        for turn in range(bench.args.rounds):
            for path, kind in zip(paths, ("", "container ")):
                for line in bench.call(bench.ctl, "rounds", path, per_round).splitlines():
                    for name, value in zip(("plain", f"{kind}exec", f"{kind}builtin"), map(float, line.split())):
                        bench.add(name, value)
            for at in range(len(turns)):
                turns[(turn + at) % len(turns)][1]()
            say(f"round {turn + 1} of {bench.args.rounds}")
    finally:
        bench.end(paths, running)
    return docker


def measure_idle(bench, count, docker=None):
    paths = [bench.make(f"idle{n}", docker) for n in range(count)]
    running, seconds = bench.start(paths)
    try:
        time.sleep(1)
        totals, parts = memory_of(running, paths, docker)
    finally:
        bench.end(paths, running)
    return {"count": len(paths), "started_s": round(seconds, 2), "private_mb": round(statistics.median(totals) / 1e6, 3),
            "most_mb": round(max(totals) / 1e6, 3), "parts_kb": [(name, size // 1000) for name, size in parts]}


def measure_many(bench, count):
    paths = [bench.make(f"many{n}") for n in range(count)]
    running, seconds = bench.start(paths)
    try:
        answered = float(bench.call(bench.ctl, "all", *paths)) / 1e6
        totals, _ = memory_of(running)
    finally:
        began = time.monotonic()
        bench.end(paths, running)
    return {"count": count, "started_s": round(seconds, 2), "answered_s": round(answered, 2),
            "private_mb_all": round(sum(totals) / 1e6, 1), "ended_s": round(time.monotonic() - began, 2)}


# ---- the report ----

def report(bench, idle, contained_idle, many):
    medians = {name: statistics.median(values) for name, values in bench.samples.items()}
    rows = []
    for name, reference, target, text in RATIOS:
        if name in medians and reference in medians:
            ratio = medians[name] / medians[reference]
            verdict = "" if target is None else "pass" if ratio <= target else "MISS"
            rows.append({"what": text, "value": round(ratio, 2), "unit": "x", "target": target, "verdict": verdict})
    if idle:
        verdict = "pass" if idle["private_mb"] <= IDLE_TARGET_MB else "MISS"
        rows.append({"what": f"private memory of one of {idle['count']} idle sandboxes", "value": idle["private_mb"], "unit": "MB",
                     "target": IDLE_TARGET_MB, "verdict": verdict})
    if contained_idle:
        rows.append({"what": f"private memory of one of {contained_idle['count']} idle containers", "value": contained_idle["private_mb"],
                     "unit": "MB", "target": None, "verdict": ""})
    if many:
        rows.append({"what": f"{many['count']} sandboxes started at once", "value": many["started_s"], "unit": "s", "target": None,
                     "verdict": ""})
        rows.append({"what": "each answers an exec", "value": many["answered_s"], "unit": "s", "target": None, "verdict": ""})
    return {
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "rounds": bench.args.rounds,
        "rows": rows,
        "medians_us": {name: round(value, 1) for name, value in sorted(medians.items())},
        "best_us": {name: round(min(values), 1) for name, values in sorted(bench.samples.items())},
        "idle": idle,
        "contained_idle": contained_idle,
        "many": many,
        "skipped": bench.skipped,
    }


def table(result):
    lines = [f"{'':52} {'value':>10} {'target':>8}"]
    for row in result["rows"]:
        target = f"{row['target']:g}" if row["target"] is not None else "-"
        lines.append(f"{row['what']:52} {row['value']:>8.2f} {row['unit']:<2} {target:>7} {row['verdict']}".rstrip())
    lines.append("")
    lines.append("medians in us: " + ", ".join(f"{name} {value:.0f}" for name, value in result["medians_us"].items()))
    if result["idle"]:
        lines.append("an idle sandbox in kB: " + ", ".join(f"{name} {size}" for name, size in result["idle"]["parts_kb"]))
    if result["contained_idle"]:
        lines.append("an idle container in kB: " + ", ".join(f"{name} {size}" for name, size in result["contained_idle"]["parts_kb"]))
    lines += [f"without {name}: {reason}" for name, reason in result["skipped"].items()]
    return "\n".join(lines)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-bench", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="few rounds, few sandboxes")
    parser.add_argument("--rounds", type=int, help="of everything (20)")
    parser.add_argument("--idle", type=int, help="idle sandboxes to weigh (100); 0: none")
    parser.add_argument("--long", action="store_true", help="500 sandboxes at once")
    parser.add_argument("--no-docker", action="store_true")
    parser.add_argument("--results", type=Path, default=ROOT / "build-bench" / "results")
    args = parser.parse_args()
    args.rounds = args.rounds or (4 if args.quick else 20)
    args.idle = (10 if args.quick else 100) if args.idle is None else args.idle
    return args


def main():
    args = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    work = Path(tempfile.mkdtemp(prefix="af-bench-"))
    work.chmod(0o755)
    try:
        bench = Bench(args, work)
        docker = measure(bench)
        idle = measure_idle(bench, args.idle) if args.idle else None
        contained_idle = measure_idle(bench, min(args.idle, 10), docker) if args.idle and docker else None
        many = measure_many(bench, 500) if args.long else None
        result = report(bench, idle, contained_idle, many)
    except RuntimeError as problem:
        sys.exit(f"bench-exec: {problem}")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(table(result))
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "bench-exec.json").write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if any(row["verdict"] == "MISS" for row in result["rows"]) else 0)


if __name__ == "__main__":
    main()
