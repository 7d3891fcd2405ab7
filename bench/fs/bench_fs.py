#!/usr/bin/env python3
"""How fast is the fence? The same loads on the native filesystem, kernel overlayfs, fuse-overlayfs, bindfs and the fence.

All run interleaved in one process tree: for each round and load, each filesystem takes its turn, in an order that rotates, so
that what else the machine does hits all alike. Reported are medians, as ratios to the native median of the same run.

    tools/bench-fs [--quick] [--files N] [--rounds N] [--only LOAD]... [--fs NAME]... [--results DIR]

Steady loads run on a mount that has seen them before; fresh ones each on a mount made for that one measurement (our own caches are
dropped by remounting; the kernel's page cache of the files beneath stays warm for all). The fence is the program named by
AGENTFENSE; filesystems that this machine does not have are left out, and said so.
"""

import argparse
import datetime
import json
import mmap
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "fence"))
sys.path.insert(0, str(HERE.parent / "page"))

import harness  # noqa: E402
import plot  # noqa: E402

FILES_PER_DIRECTORY = 100
UID, GID = harness.SANDBOX_UID, harness.SANDBOX_GID

# Ratios to native time that the project promises; None where it promises nothing.
TARGETS = {
    "grep -r": 1.15,
    "find": 1.15,
    "git status": 1.15,
    "compile": 1.15,
    "open+close": 1.6,
    "open+read": 1.6,
    "stat": 1.6,
    "negative lookup": 1.6,
    "readdir 1000": 0.4,
    "sequential read": 1.2,
    "random read": 1.2,
    "sequential write": 2.5,
    "create": 6.0,
    "rm -r": None,
    "fresh grep -r": 8.0,
    "fresh git status": 8.0,
    "fresh find": 8.0,
}
# Git as every sandbox has it (see /etc/gitconfig in src/runtime/etc.c), on all file systems alike: the index holds the host's
# inode numbers, which the fence does not show.
PROGRAM_ENV = {
    "PATH": harness.INSIDE_PATH,
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.checkStat",
    "GIT_CONFIG_VALUE_0": "minimal",
    "GIT_CONFIG_KEY_1": "core.trustctime",
    "GIT_CONFIG_VALUE_1": "false",
}

THREE_TIMES_FASTER = ["grep -r", "git status", "open+close", "create"]
HOT_MEMORY = 256 << 20  # bytes, more than any load takes
WRITING = ["compile", "sequential write"]  # whose speed a second warming does not change
UNWARMED = ["create", "rm -r"]
STEADY = [name for name in TARGETS if not name.startswith("fresh ")]
FRESH = [name for name in TARGETS if name.startswith("fresh ")]


# ---- the tree ----


def make_project(root, rng):
    """A C project whose compilation reads headers as a real one does."""
    (root / "project/include").mkdir(parents=True)
    for i in range(30):
        lines = [f'#include "h{j}.h"' for j in range(max(0, i - 2), i)]
        (root / f"project/include/h{i}.h").write_text(
            "#pragma once\n" + "\n".join(lines) + f"\nint value{i}(int);\n" + f"/* {'x' * 800} */\n"
        )
    for i in range(24):
        headers = rng.sample(range(30), 10)
        text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "".join(
            f'#include "h{h}.h"\n' for h in headers
        )
        text += "".join(f"static int f{j}(int x) {{ return x * {j} + {i}; }}\n" for j in range(30))
        text += f"int unit{i}(int x);\nint unit{i}(int x) {{ return {' + '.join(f'f{j}(x)' for j in range(30))}; }}\n"
        (root / f"project/unit{i}.c").write_text(text)
    (root / "project/main.c").write_text("int main(void) { return 0; }\n")
    (root / "project/Makefile").write_text(
        "OUT ?= out\nOBJS = $(patsubst %.c,$(OUT)/%.o,$(wildcard *.c))\n$(OUT)/prog: $(OBJS)\n\t$(CC) -o $@ $^\n"
        "$(OUT)/%.o: %.c | $(OUT)\n\t$(CC) -O0 -Iinclude -c -o $@ $<\n$(OUT):\n\tmkdir -p $@\n"
    )


def make_tree(root, files, large_mib, rng):
    words = ["alpha", "beta", "gamma", "delta", "return", "struct", "static", "value", "index", "buffer"]
    for i in range(files):
        where = root / f"src/part{i // 1000}/dir{i // FILES_PER_DIRECTORY % 10}"
        if i % FILES_PER_DIRECTORY == 0:
            where.mkdir(parents=True, exist_ok=True)
        text = "\n".join(" ".join(rng.choices(words, k=8)) for _ in range(rng.randint(8, 30)))
        (where / f"file{i}.c").write_text(text + "\n")
    (root / "wide").mkdir()
    for i in range(1000):
        (root / f"wide/entry{i}").write_text("x\n")
    make_project(root, rng)
    (root / ".gitignore").write_text("/scratch/\n/large.bin\n/project/out/\n")
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "b",
        "GIT_AUTHOR_EMAIL": "b@example.org",
        "GIT_COMMITTER_NAME": "b",
        "GIT_COMMITTER_EMAIL": "b@example.org",
    }
    for args in (
        ["init", "-q", "-b", "main"],
        ["config", "gc.auto", "0"],
        ["add", "-A"],
        ["commit", "-qm", "everything"],
        ["gc", "-q"],
    ):
        subprocess.run(["git", *args], cwd=root, env=env, check=True)
    with open(root / "large.bin", "wb") as f:
        for _ in range(large_mib):
            f.write(rng.randbytes(1 << 20))
    (root / "scratch").mkdir()


def settle(root):
    """Owned by the user that will work in it, with an index that knows this very copy."""
    subprocess.run(["chown", "-R", f"{UID}:{GID}", root], check=True)
    subprocess.run(["sync", "-f", root], check=True)
    time.sleep(1.1)  # so that git does not take fresh files for racily clean ones
    as_user(["git", "update-index", "-q", "--refresh"], root)
    as_user(["git", "status", "--porcelain"], root)


def as_user(argv, cwd):
    ran = harness.run(argv, cwd=cwd, timeout=900)
    if ran.code != 0:
        raise RuntimeError(f"{argv} in {cwd} ended with {ran.code}: {ran.err}")
    return ran.out


def own_filesystem(work, inodes=1000000):
    """An ext4 of our own, on a file beside `work`, mounted there: what others did to the disk's inodes does not matter on it."""
    image = work.with_suffix(".img")
    with open(image, "wb") as f:
        f.truncate(16 << 30)
    subprocess.run(
        ["mkfs.ext4", "-q", "-F", "-N", str(inodes), "-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", image],
        check=True,
    )
    subprocess.run(["mount", "-o", "loop", image, work], check=True)
    work.chmod(0o755)
    return image


# ---- the filesystems ----


class Filesystem:
    """One way to see the tree: `where` is the directory to work in while it is mounted."""

    name = "?"
    missing = None

    def __init__(self, work, source):
        self.work, self.source = Path(work), Path(source)
        self.where = self.work / "mnt"
        self.turn = 0

    def mount(self):
        pass

    def unmount(self):
        while harness.is_mountpoint(self.where) and harness.umount(self.where):
            pass

    def remount(self):
        self.unmount()
        self.mount()

    def fresh_layers(self):
        """An empty upper layer each time, as a new sandbox has."""
        self.turn += 1
        upper, scratch = self.work / f"upper{self.turn}", self.work / f"scratch{self.turn}"
        for d in (self.where, upper, scratch):
            d.mkdir(parents=True, exist_ok=True)
        os.chown(upper, UID, GID)
        for old in self.work.glob("*[0-9]"):
            if old not in (upper, scratch):
                shutil.rmtree(old, ignore_errors=True)
        return upper, scratch


class Native(Filesystem):
    """A copy of its own, because others write beneath."""

    name = "native"

    def __init__(self, work, source):
        super().__init__(work, source)
        self.where = self.work / "copy"
        subprocess.run(["cp", "-a", self.source, self.where], check=True)
        settle(self.where)


class Overlayfs(Filesystem):
    name = "overlayfs"

    def mount(self):
        upper, scratch = self.fresh_layers()
        harness.mount("overlay", self.where, "overlay", 0, f"lowerdir={self.source},upperdir={upper},workdir={scratch}")


class Process(Filesystem):
    """A filesystem that a program of its own serves."""

    process = None

    def wait(self):
        if not harness.wait_until(lambda: harness.is_mountpoint(self.where), 10):
            raise RuntimeError(f"{self.name} did not mount")

    def unmount(self):
        super().unmount()
        if self.process is not None:
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


class FuseOverlayfs(Process):
    name = "fuse-overlayfs"
    missing = None if shutil.which("fuse-overlayfs") else "fuse-overlayfs is not installed"

    def mount(self):
        upper, scratch = self.fresh_layers()
        self.process = subprocess.Popen(
            [
                "fuse-overlayfs",
                "-f",
                "-o",
                f"lowerdir={self.source},upperdir={upper},workdir={scratch},allow_other",
                self.where,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait()


class Bindfs(Process):
    name = "bindfs"
    missing = None if shutil.which("bindfs") else "bindfs is not installed"

    def __init__(self, work, source):
        super().__init__(work, source)
        subprocess.run(["cp", "-a", self.source, self.work / "copy"], check=True)
        settle(self.work / "copy")

    def mount(self):
        self.where.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            ["bindfs", "-f", "-o", "allow_other", self.work / "copy", self.where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.wait()


class FenceFilesystem(Filesystem):
    name = "fence"
    missing = None if os.environ.get("AGENTFENSE") else "AGENTFENSE does not name the program"
    options = ()
    rules = (
        "**=write",
        "**/.env*=none",
        "**/*.pem=none",
        "/private/**=none",
        "/vendor/**=read",
    )  # some rules, as a sandbox has

    def mount(self):
        self.turn += 1
        delta = self.work / f"delta{self.turn}"
        for old in self.work.glob("delta*"):
            shutil.rmtree(old, ignore_errors=True)
        self.fence = harness.Fence(
            self.work, base=self.source, delta=delta, mountpoint=self.where, rules=self.rules, options=self.options
        )
        self.fence.start()

    def unmount(self):
        if getattr(self, "fence", None):
            self.fence.stop()
        super().unmount()


class FencePassthrough(FenceFilesystem):
    name = "fence-passthrough"
    options = ("--data-path", "passthrough")


class FenceLive(FenceFilesystem):
    """Over a directory that others may change meanwhile, as `agentfense run` and workspaces have it."""

    name = "fence-live"
    options = ("--live",)


FILESYSTEMS = [Native, Overlayfs, FuseOverlayfs, Bindfs, FenceFilesystem, FenceLive, FencePassthrough]
USUAL = ["native", "overlayfs", "fuse-overlayfs", "bindfs", "fence", "fence-live"]


# ---- the loads ----


class Loads:
    def __init__(self, work, files, write_mib, create_count, jumps):
        self.loops = work / "loops"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", self.loops, HERE / "loops.c"], check=True)
        self.loops.chmod(0o755)
        self.list = work / "paths"
        paths = [f"src/part{i // 1000}/dir{i // FILES_PER_DIRECTORY % 10}/file{i}.c" for i in range(files)]
        self.list.write_text("".join(p + "\n" for p in paths))
        self.write_mib, self.create_count, self.jumps = write_mib, create_count, jumps
        self.work = work
        # What "create" made stays until "rm -r": ext4 is slow to hand out inodes in the minutes after it took many back, which would
        # make every filesystem above it look alike.
        self.made = {}
        self.turn = 0

    def quiet(self):
        """What earlier loads left behind must not be paid for by the next: what waits to be written back, also below the image that all
        this is on, and memory that a virtual machine gave back to its host while nothing used it. The host takes about 10 us to
        give a page again, several times what writing it takes; whoever comes after a slow file system would pay for that."""
        subprocess.run(["sync"], check=True)
        with mmap.mmap(-1, HOT_MEMORY) as memory:
            for at in range(0, HOT_MEMORY, mmap.PAGESIZE):
                memory[at] = 1

    def loop(self, where, *args):
        return int(as_user([self.loops, *[str(a) for a in args]], where)) / 1e9

    def program(self, where, *argv):
        command = harness.confined(list(argv))
        start = time.perf_counter()
        code = subprocess.run(
            command,
            cwd=where,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=PROGRAM_ENV,
        )
        took = time.perf_counter() - start
        if code.returncode > 1 or (code.returncode == 1 and argv[0] != "grep"):
            raise RuntimeError(f"{argv} ended with {code.returncode}: {code.stderr.decode(errors='replace')}")
        return took

    def run(self, name, where):
        """Seconds that load `name` takes in `where`."""
        name = name.removeprefix("fresh ")
        if name == "grep -r":
            return self.program(where, "grep", "-r", "no such words", "src")
        if name == "find":
            return self.program(where, "find", "src", "wide", "-type", "f", "-name", "*.h")
        if name == "git status":
            return self.program(where, "git", "status", "--porcelain")
        if name == "compile":
            took = self.program(where, "make", "-s", "-j2", "-C", "project", "OUT=../scratch/out")
            as_user(["rm", "-rf", "scratch/out"], where)
            return took
        if name in ("stat", "open+close", "open+read", "negative lookup"):
            return self.loop(
                where, {"stat": "stat", "open+close": "open", "open+read": "read", "negative lookup": "absent"}[name], self.list
            )
        if name == "readdir 1000":
            return self.loop(where, "list", "wide", 50)
        if name == "sequential read":
            return self.loop(where, "stream", "large.bin")
        if name == "random read":
            return self.loop(where, "jump", "large.bin", self.jumps)
        if name == "sequential write":
            self.quiet()
            # Once before, so that the memory it takes is what the last one gave back, for everybody alike.
            for _ in range(2):
                took = self.loop(where, "write", "scratch/written", self.write_mib)
                as_user(["rm", "-f", "scratch/written"], where)
            return took
        if name == "create":
            self.quiet()
            self.made.setdefault(where, []).append(f"scratch/work{self.turn}")
            self.turn += 1
            as_user(["mkdir", self.made[where][-1]], where)
            return self.loop(where, "create", self.made[where][-1], self.create_count)
        if name == "rm -r":
            if not self.made.get(where):
                self.run("create", where)
            self.quiet()
            return self.program(where, "rm", "-r", self.made[where].pop())
        raise ValueError(name)


def measure(systems, loads, names, rounds, warm_rounds, say):
    samples = {fs.name: {name: [] for name in names} for fs in systems}
    steady = [n for n in names if n in STEADY]
    fresh = [n for n in names if n in FRESH]
    for fs in systems:
        fs.mount()
    say(f"warming {len(steady)} loads on {len(systems)} filesystems")
    for r in range(warm_rounds):
        for name in steady:
            if name not in UNWARMED and (r == 0 or name not in WRITING):
                for fs in systems:
                    loads.run(name, fs.where)
    for part, remount in (
        ([n for n in steady if n != "rm -r"], False),
        ([n for n in steady if n == "rm -r"], False),
        (fresh, True),
    ):
        for r in range(rounds if part else 0):
            say(f"{', '.join(part)}: round {r + 1} of {rounds}")
            for i, name in enumerate(part):
                shift = (r + i) % len(systems)
                for fs in systems[shift:] + systems[:shift]:
                    if remount:
                        fs.remount()
                        loads.quiet()
                    samples[fs.name][name].append(loads.run(name, fs.where))
    return samples


# ---- the report ----


def judge(name, ratios):
    """Pass, miss or nothing for the fence on one load."""
    fence, target = ratios.get("fence"), TARGETS[name]
    if fence is None or target is None:
        return ""
    word = "pass" if fence <= target else "MISS"
    if name in THREE_TIMES_FASTER and "fuse-overlayfs" in ratios and ratios["fuse-overlayfs"] < 3 * fence:
        word += ", not 3x faster than fuse-overlayfs" if word == "pass" else " (nor 3x faster)"
    return word


def table(result):
    systems = result["filesystems"]
    rows = [["load", "native ms", *systems[1:], "target", ""]]
    for name, row in result["loads"].items():
        target = TARGETS[name]
        rows.append(
            [
                name,
                f"{1000 * row['native_s']:.1f}",
                *[f"{row['ratios'][s]:.2f}" for s in systems[1:]],
                f"<= {target}" if target else "",
                row["verdict"],
            ]
        )
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i in (0, len(r) - 1) else cell.rjust(w) for i, (cell, w) in enumerate(zip(r, widths))
        ).rstrip()
        for r in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def svg(result):
    """Ratios to native; the target of each load is a short red line."""
    machine = result["machine"]
    return plot.bars(
        f"Time as a ratio to native (lower is better), {result['date']}, {machine['kernel']}",
        [s for s in result["filesystems"] if s != "native"],
        [(name, row["ratios"], row["target"]) for name, row in result["loads"].items()],
        f"red: what the fence must not exceed. {machine['cpu']}, {machine['cpus']} CPUs, {result['files']} files",
    )


def machine(where):
    cpu = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor()
    )
    kind = subprocess.run(["stat", "-f", "-c", "%T", where], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "cpus": os.cpu_count(), "kernel": platform.release(), "native": kind}


def report(samples, systems, args, work):
    loads = {}
    for name in samples["native"]:
        medians = {fs.name: statistics.median(samples[fs.name][name]) for fs in systems}
        ratios = {fs: m / medians["native"] for fs, m in medians.items()}
        loads[name] = {
            "native_s": medians["native"],
            "ratios": ratios,
            "samples_s": {fs.name: samples[fs.name][name] for fs in systems},
            "target": TARGETS[name],
            "verdict": judge(name, ratios),
        }
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(work),
        "files": args.files,
        "rounds": args.rounds,
        "filesystems": [fs.name for fs in systems],
        "loads": loads,
    }


def options():
    p = argparse.ArgumentParser(description="Compares the fence with native and other filesystems.")
    p.add_argument("--quick", action="store_true", help="2,000 files, 3 rounds, smaller files")
    p.add_argument("--files", type=int, help="small files in the tree (10000)")
    p.add_argument("--rounds", type=int, help="measurements of each load on each filesystem (9)")
    p.add_argument("--only", action="append", metavar="LOAD", help="only this load; may be given again")
    p.add_argument("--fs", action="append", metavar="NAME", help="only this filesystem besides native; may be given again")
    p.add_argument("--results", type=Path, help="directory for bench-fs.json, bench-fs.svg and bench-fs.txt")
    p.add_argument("--tmp", default=None, help="where to work")
    p.add_argument(
        "--no-image", action="store_true", help="work on the filesystem of --tmp itself, not on an ext4 image made there"
    )
    args = p.parse_args()
    args.files = args.files or (2000 if args.quick else 10000)
    args.rounds = args.rounds or (3 if args.quick else 9)
    names = args.only or list(TARGETS)
    for name in names:
        if name not in TARGETS:
            p.error(f"no load '{name}'; there are: " + ", ".join(TARGETS))
    known = [c.name for c in FILESYSTEMS]
    for name in args.fs or []:
        if name not in known:
            p.error(f"no filesystem '{name}'; there are: " + ", ".join(known))
    return args, names


def main():
    args, names = options()
    if os.geteuid() != 0:
        sys.exit("bench-fs: needs root, to mount what it compares with")
    obstacle = harness.enter_private_namespace()
    if obstacle:
        sys.exit("bench-fs: " + obstacle)
    say = lambda text: print(text, file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    work = Path(tempfile.mkdtemp(prefix="agentfense-bench-", dir=args.tmp))
    work.chmod(0o755)
    systems = []
    image = None
    try:
        if not args.no_image:
            image = own_filesystem(work)
        base = work / "base"
        base.mkdir()
        say(f"making {args.files} files")
        make_tree(base, args.files, 64 if args.quick else 256, random.Random(1))
        settle(base)
        for kind in FILESYSTEMS:
            if kind.name != "native" and kind.name not in (args.fs or USUAL):
                continue
            if kind.missing:
                say(f"without {kind.name}: {kind.missing}")
                continue
            (work / kind.name).mkdir()
            systems.append(kind(work / kind.name, base))
        loads = Loads(work, args.files, 32 if args.quick else 128, 1000 if args.quick else 5000, 5000 if args.quick else 20000)
        samples = measure(systems, loads, names, args.rounds, 2 if args.quick else 3, say)
        result = report(samples, systems, args, work)
    finally:
        for fs in systems:
            fs.unmount()
        if image:
            harness.umount(work)
            image.unlink(missing_ok=True)
        shutil.rmtree(work, ignore_errors=True)
    print(table(result))
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        (args.results / "bench-fs.json").write_text(json.dumps(result, indent=1) + "\n")
        (args.results / "bench-fs.svg").write_text(svg(result))
        (args.results / "bench-fs.txt").write_text(table(result) + "\n")
    sys.exit(1 if any(row["verdict"].startswith("MISS") for row in result["loads"].values()) else 0)


if __name__ == "__main__":
    main()
