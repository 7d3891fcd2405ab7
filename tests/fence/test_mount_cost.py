"""What mounts cost that nobody uses, or that remember much."""

import contextlib
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from harness import Fence, Tree, background, tools_dir, wait_until


def private_kib(pid):
    """What this process alone costs: pages of the program file are in the page cache once for all, even if only one maps them."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^Private_Dirty:\s+(\d+)", text, re.M))


def cpu_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.fixture
def plain_malloc(monkeypatch):
    """Meson has malloc fill what it gives with a pattern, which touches pages that nobody would; a sanitizer has a malloc of
    its own, whose cost is not ours."""
    if "AGENTFENSE_SANITIZED" in os.environ:
        pytest.skip(f"memory says nothing under {os.environ['AGENTFENSE_SANITIZED']}")
    monkeypatch.delenv("MALLOC_PERTURB_", raising=False)


def test_an_idle_mount_costs_nothing(dirs, plain_malloc):
    """Under 1 MB of private memory and no CPU."""
    with Fence(dirs) as f:
        f.sh("ls -la; cat a")

        def is_idle():
            before = cpu_ticks(f.process.pid)
            time.sleep(2)
            return cpu_ticks(f.process.pid) == before

        assert wait_until(is_idle)  # for a second after the last request its worker is watched
        assert private_kib(f.process.pid) < 1024


def test_memory_per_remembered_inode(dirs, plain_malloc):
    """About 200 bytes for each inode the kernel remembers, besides names; no more than 400 here with the names."""
    count = 20_000
    for i in range(count):
        if i % 500 == 0:
            (dirs / f"base/m{i // 500}").mkdir()
        os.close(os.open(dirs / f"base/m{i // 500}/f{i}", os.O_CREAT | os.O_WRONLY))
    with Fence(dirs) as f:
        f.sh("ls")
        before = private_kib(f.process.pid)
        f.sh("find . -printf '%s' >/dev/null; ls -lR >/dev/null")
        grown = (private_kib(f.process.pid) - before) * 1024 / count
        assert grown < 400, f"{grown:.0f} bytes per inode"


DIRECTORIES, FILES_EACH = 40, 50


@pytest.fixture
def many_files(dirs):
    for d in range(DIRECTORIES):
        (dirs / f"base/part{d}").mkdir()
        for i in range(FILES_EACH):
            (dirs / f"base/part{d}/f{i}").write_text(f"{d} {i}\n")
    return dirs


def lookups(f):
    return f.control("stats")["ops"]["lookup"]


def test_who_wants_only_names_has_no_file_looked_up(many_files):
    with Fence(many_files) as f:
        assert f.sh("find . -type f -name 'f*' | wc -l").out.strip() == str(DIRECTORIES * FILES_EACH)
        assert f.control("stats")["inodes"] < 2 * DIRECTORIES


def test_who_reads_what_it_lists_has_it_looked_up_with_the_listing(many_files):
    """But for those of one directory, by which that is noticed. It makes no difference who else listed only names before, elsewhere."""
    with Fence(many_files) as f:
        f.sh("ls part1 part2").ok()
        before = lookups(f)
        assert f.sh("grep -r . . | wc -l").out.strip() == str(DIRECTORIES * FILES_EACH + 2)
        assert lookups(f) - before < 4 * FILES_EACH


def test_after_listing_names_only_the_attributes_are_those_of_the_base(many_files):
    with Fence(many_files) as f:
        f.sh("find . -type f | wc -l; stat -c %n part3/* > /dev/null").ok()
        show = "find . -type f -printf '%P %s %T@ %m %n\\n' | sort"
        seen = f.sh(show).ok().out
        assert seen.count("\n") == DIRECTORIES * FILES_EACH + 2
        for line in seen.splitlines():
            name, size, when, mode, links = line.split()
            st = os.lstat(many_files / "base" / name)
            assert (int(size), int(mode, 8), int(links)) == (st.st_size, st.st_mode & 0o777, st.st_nlink), line
            assert abs(float(when) - st.st_mtime) < 1e-3, line


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_many_mounts_at_once(work, count, plain_malloc):
    """Each usable, each within its memory; unmounting leaves nothing behind."""
    Tree(work / "base").file("a", "a\n").file("d/b", "b\n")
    fences = []
    try:
        for i in range(count):
            f = Fence(work / f"m{i}", base=work / "base")
            f.start()
            fences.append(f)
        for i, f in enumerate(fences):
            (f.mnt / "own").write_text(str(i))
        assert all((f.mnt / "own").read_text() == str(i) and (f.mnt / "a").read_text() == "a\n" for i, f in enumerate(fences))
        memory = sorted(private_kib(f.process.pid) for f in fences)
        assert memory[-1] < 1024, memory[-5:]
    finally:
        for f in fences:
            if f.process:
                f.process.terminate()
        for f in fences:
            f.stop()
    assert not any(f.left_mounted for f in fences)
    assert sorted(os.listdir(work / "base")) == ["a", "d"]


# ---- what it does to those who ask ----


def policies(pid):
    """Of its threads beside the first, as far as they are there."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            with contextlib.suppress(ProcessLookupError):
                found.append(os.sched_getscheduler(int(task.name)))
    return found


def test_threads_that_ask_at_once_keep_their_scheduling(dirs):
    """Twenty threads at once are a load for which the fence moves threads of its own; it must not touch theirs."""
    t = Tree(dirs / "base")
    for i in range(200):
        t.file(f"tree/d{i % 10}/f{i}", f"{i}\n" * 10)
    with Fence(dirs) as f, background([tools_dir() / "probe_hammer", "600", "20"], f.mnt, stdout=subprocess.DEVNULL) as child:
        assert wait_until(lambda: len(policies(child.pid)) == 20)
        seen = [policies(child.pid) for _ in range(500)]
        assert child.poll() is None and max(map(len, seen)) == 20
        assert {policy for found in seen for policy in found} == {os.SCHED_OTHER}
