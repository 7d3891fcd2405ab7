"""The quota of a mount: what is charged, when it is full, what is free again."""

import os

from harness import Fence, Tree, folding


def stored_in(directory):
    return sum(os.lstat(os.path.join(t, n)).st_blocks * 512 for t, _, ns in os.walk(directory) for n in ns)


def test_bytes_run_out_at_write_time(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
fd = os.open("big", os.O_CREAT|os.O_WRONLY); total = 0
try:
    while total < 4 << 20: total += os.write(fd, b"x" * 65536)
except OSError as e: say(name_of(e.errno), 512 << 10 < total <= 1 << 20)
else: say("all of it")
say(attempt(fallocate, fd, 0, 0, 8 << 20), content("a"))
os.close(fd); os.unlink("big")
say(put("again", b"y" * 100000), os.path.getsize("again"))
""").ok().out.splitlines()
        assert got == ["ENOSPC True", "ENOSPC b'a\\n'", "ok 100000"]


def test_the_bytes_of_a_removed_file_are_free_when_it_is_gone(dirs):
    """Others ask meanwhile: the kernel then tells late that it forgot the file."""
    Tree(dirs / "base").file("large", b"x" * (800 << 10))
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
def others(parent, i=0):
    while os.getppid() == parent: exists(f"absent{i}"); i += 1
    os._exit(0)
children = []
here = os.getpid()
for _ in range(3):
    pid = os.fork()
    if pid == 0: others(here)
    children.append(pid)
seen = {}
def note(what, result): seen[what, str(result)] = seen.get((what, str(result)), 0) + 1
other = os.open("other", os.O_CREAT|os.O_WRONLY)
reserved = os.open("reserved", os.O_CREAT|os.O_WRONLY)
def filled():
    fd = os.open("big", os.O_CREAT|os.O_WRONLY)
    note("first", attempt(os.write, fd, b"x" * (800 << 10)))
    return fd
for i in range(100):
    fd = filled()
    os.unlink("big")
    note("while it is open", attempt(os.pwrite, other, b"y" * (400 << 10), 0))
    os.close(fd)
    note("after close", attempt(os.pwrite, other, b"y" * (800 << 10), 0))
    os.ftruncate(other, 0)
    os.close(filled()); os.unlink("big")
    note("after unlink", attempt(os.pwrite, other, b"y" * (800 << 10), 0))
    os.ftruncate(other, 0)
    os.close(filled()); put("small", b"s"); os.rename("small", "big")
    note("fallocate after rename", attempt(fallocate, reserved, 0, 0, 800 << 10))
    os.ftruncate(reserved, 0); os.unlink("big")
os.close(filled()); os.unlink("big")
note("copy-up", attempt(os.utime, "large"))
for pid in children: os.kill(pid, 9); os.waitpid(pid, 0)
for (what, result), count in sorted(seen.items()): say(what, result, count)
""").ok().out.splitlines()
        assert got == [
            f"after close {800 << 10} 100",
            f"after unlink {800 << 10} 100",
            "copy-up ok 1",
            "fallocate after rename 0 100",
            f"first {800 << 10} 301",
            "while it is open ENOSPC 100",
        ]


def test_a_full_quota_answers_soon_while_a_removed_file_is_open(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
fd = os.open("big", os.O_CREAT|os.O_WRONLY); os.write(fd, b"x" * (1000 << 10)); os.unlink("big")
threads = [threading.Thread(target=lambda i=i: [say(put(f"f{i}", b"y" * 65536)) for _ in range(5)]) for i in range(20)]
begin = time.monotonic()
for t in threads: t.start()
for t in threads: t.join()
say(time.monotonic() - begin < 10)
""").ok().out.splitlines()
        assert got == ["ENOSPC"] * 100 + ["True"]


def test_mapped_writes_and_sparse_files_cannot_evade_the_quota(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        f.python("""
fd = os.open("m", os.O_CREAT|os.O_RDWR); attempt(os.ftruncate, fd, 16 << 20)
pid = os.fork()
if pid == 0:
    m = mmap.mmap(fd, 16 << 20)
    for i in range(0, 16 << 20, 4096): m[i:i+4096] = b"z" * 4096
    m.flush(); os._exit(0)
os.waitpid(pid, 0)
""")
        f.control("sync")
        f.stop()
    used = stored_in(dirs / "delta")
    assert used < 3 << 20, f"{used} bytes in a delta of 1M"


def test_space_reserved_beyond_the_end_does_not_pay_for_holes(dirs):
    with Fence(dirs, options=["--quota", "8M"]) as f:
        got = f.python("""
N = (8 << 20) - (64 << 10)
KEEP, PUNCH = 1, 2
def fill(name):
    fd = os.open(name, os.O_CREAT|os.O_RDWR); written = 0
    os.ftruncate(fd, N)
    attempt(fallocate, fd, KEEP, N, N)
    try:
        for at in range(0, N, 1 << 20): written += os.pwrite(fd, b"x" * min(1 << 20, N - at), at)
    except OSError as e: result = name_of(e.errno)
    else: result = "all of it"
    os.ftruncate(fd, 2 * N); attempt(fallocate, fd, KEEP|PUNCH, N, N); os.ftruncate(fd, N)
    os.close(fd)
    return result, written <= 1 << 20
say(fill("first"))
total = [fill(f"f{i}") for i in range(4)]
say(sum(os.stat(n).st_blocks * 512 for n in os.listdir(".")) <= 9 << 20)
""").ok().out.splitlines()
        assert got == ["('ENOSPC', True)", "True"]
        f.stop()
    assert stored_in(dirs / "delta/data") <= 9 << 20


def test_replacing_and_reserving_what_is_there_needs_no_room(dirs):
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("""
fd = os.open("f", os.O_CREAT|os.O_RDWR)
say(os.write(fd, b"x" * (900 << 10)), attempt(os.pwrite, fd, b"y" * (950 << 10), 0), attempt(os.posix_fallocate, fd, 0, 950 << 10))
say(attempt(os.pwrite, fd, b"z" * (1 << 20), 0), attempt(os.pwrite, fd, b"z" * (1 << 20), 0), attempt(os.pwrite, fd, b"!", 1 << 20))
""").ok().out.splitlines()
        assert got == [f"{900 << 10} {950 << 10} ok", f"{1 << 20} {1 << 20} ENOSPC"]


def test_a_copy_counts_for_what_it_occupies_whatever_the_base_says(work):
    """Through a file system that tells nothing of holes they are copied as bytes, though the base reports no blocks for them."""
    (work / "sparse").mkdir()
    for name in ("s1", "s2", "s3", "large"):
        with open(work / "sparse" / name, "wb") as file:
            file.truncate(16 << 20 if name == "large" else 3 << 20)
    with folding(work / "sparse", work / "base"), Fence(work, options=["--quota", "8M"]) as f:
        assert os.stat(work / "base/s1").st_blocks == 0
        free = "v = os.statvfs('.'); say(v.f_bavail * v.f_frsize >> 20, attempt(os.utime, 's1'), attempt(os.utime, 'large'))"
        assert f.python(free).ok().out == "8 ok ENOSPC\n"
        got = f.python("""
def free(): v = os.statvfs("."); return v.f_bavail * v.f_frsize >> 20
say(free()); os.unlink("s1"); say(free())
say(attempt(os.write, os.open("most", os.O_CREAT|os.O_WRONLY), b"x" * (7 << 20)))
for name in ("s2", "s3"): say(attempt(os.utime, name), attempt(os.unlink, name))
say(free())
""").ok().out.splitlines()
        assert got == ["5", "8", str(7 << 20), "ENOSPC ok", "ENOSPC ok", "1"]
        f.stop()


def test_a_removed_directory_gives_back_what_was_hidden_in_it(dirs):
    with Fence(dirs, options=["--quota", "1M", "--quota-inodes", "50"]) as f:
        f.sh("mkdir -p e/h; head -c 800K /dev/zero > e/h/most; touch e/h/1 e/h/2").ok()
        f.set_rules(["/**=write", "/e/h=none", "/e/h/**=none"])
        got = f.python("""
def left(): v = os.statvfs("."); return v.f_bavail * v.f_frsize, v.f_ffree
before = left(); os.rmdir("e"); after = left()
say(after[0] - before[0] >> 10, after[1] - before[1], put("again", b"y" * (900 << 10)))
""").ok().out
        assert got == "800 5 ok\n"


def test_copying_up_a_large_file_is_charged(dirs):
    Tree(dirs / "base").file("large", b"x" * (3 << 20))
    with Fence(dirs, options=["--quota", "1M"]) as f:
        got = f.python("say(put('large', b'y', os.O_WRONLY), content('large')[:2], attempt(os.chmod, 'a', 0o600))").ok().out
        assert got == "ENOSPC b'xx' ok\n"


def test_statfs_tells_the_quota(dirs):
    with Fence(dirs, options=["--quota", "100M", "--quota-inodes", "1000"]) as f:
        code = "v = os.statvfs('.'); say(v.f_blocks * v.f_frsize, v.f_bavail * v.f_frsize, v.f_files, v.f_ffree)"
        total, free, files, ffree = map(int, f.python(code).ok().out.split())
        assert total == 100 << 20 and free <= total and files == 1000
        f.sh("head -c 10M /dev/zero > ten; sync ten; touch n1 n2 n3")
        total2, free2, files2, ffree2 = map(int, f.python(code).ok().out.split())
        assert total2 == total and (9 << 20) <= free - free2 <= (12 << 20) and 3 <= ffree - ffree2 <= 6


def test_inodes_run_out(dirs):
    with Fence(dirs, options=["--quota-inodes", "50"]) as f:
        got = f.python("""
made = 0
try:
    for i in range(100): put_ = os.close(os.open(f"f{i}", os.O_CREAT|os.O_WRONLY)); made += 1
except OSError as e: say(name_of(e.errno), 30 <= made <= 50)
say(attempt(os.mkdir, "d1"), attempt(os.symlink, "x", "l1"), attempt(os.mkfifo, "p1"))
for i in range(10): os.unlink(f"f{i}")
say(attempt(os.mkdir, "d1"), attempt(os.symlink, "x", "l1"))
""").ok().out.splitlines()
        assert got == ["ENOSPC True", "ENOSPC ENOSPC ENOSPC", "ok ok"]


def test_the_quota_is_known_after_a_kill(dirs):
    f = Fence(dirs, options=["--quota", "1M"])
    try:
        f.start()
        f.sh("head -c 900000 /dev/zero > most").ok()
        f.kill()
        f.start()
        assert f.sh("head -c 900000 /dev/zero > more").code != 0
        assert f.sh("rm most && head -c 900000 /dev/zero > more").ok()
    finally:
        f.kill()
