"""POSIX: a fence with full access behaves as a plain filesystem does.

The script below posix/ runs on a tmpfs and on a fence over an equal tree; every check must say the same on both.
Real tools do the same in test_posix_tools.py.
"""

import os
import subprocess
import sys
import time

import harness
import pytest
from harness import (
    HERE,
    LONG,
    PYTHON,
    Fence,
    Refused,
    Tree,
    fingerprint,
    run,
    sandbox_ids,
    tools_dir,
)

sys.path.insert(0, str(HERE / "posix"))
import posix_script  # noqa: E402

SCRIPT_ENV = {}


def transcript(cwd):
    ran = run([PYTHON, tools_dir() / "posix" / "posix_script.py"], cwd=cwd, env={"PYTHONPATH": str(tools_dir())}, timeout=300)
    assert ran.code == 0, ran.err
    checks, name = {}, None
    for line in ran.out.splitlines():
        if line.startswith("== "):
            name = line[3:]
            checks[name] = []
        else:
            checks[name].append(line)
    return checks


def make_lower(root):
    """As the sandbox's user would have made it, but for root: the fence presents its own owner whoever owns the base."""
    run(
        [PYTHON, tools_dir() / "posix" / "posix_script.py", "--make-lower", root / "lower"], cwd="/", env={"PYTHONPATH": str(tools_dir())}
    ).ok()


@pytest.fixture(scope="module")
def on_plain(plain):
    make_lower(plain)
    return transcript(plain)


class OnFence:
    """The script's transcript on a fence of each data path, run once and kept; and the state of the base."""

    def __init__(self, work):
        self.work = work
        self.known = {}

    def get(self, data_path):
        if data_path not in self.known:
            work = self.work / f"posix-{data_path}"
            (work / "base").mkdir(parents=True)
            os.chown(work / "base", *sandbox_ids())
            make_lower(work / "base")
            before = fingerprint(work / "base")
            try:
                with Fence(work, options=["--data-path", data_path]) as f:
                    result = transcript(f.mnt)
                    assert f.alive(), f.log()
            except Refused as e:
                result = e
            self.known[data_path] = (result, before, fingerprint(work / "base"))
        return self.known[data_path]


@pytest.fixture(scope="module")
def on_fence(module_work):
    return OnFence(module_work)


@pytest.mark.parametrize("check", posix_script.CHECKS)
@pytest.mark.parametrize("data_path", ["auto", "passthrough"])
def test_same_as_on_a_plain_filesystem(on_plain, on_fence, check, data_path):
    got = on_fence.get(data_path)[0]
    if isinstance(got, Refused):
        if data_path == "passthrough":
            pytest.skip(f"no passthrough here: {got}")
        raise got
    assert got.get(check) == on_plain[check]


def test_the_script_left_the_base_alone(on_fence):
    _, before, after = on_fence.get("auto")
    assert before == after


@pytest.mark.no_fence
def test_the_script_makes_enough_checks_and_none_of_them_falls_over(on_plain):
    assert len(on_plain) == len(posix_script.CHECKS) >= 150
    assert not {n: lines for n, lines in on_plain.items() if any("raised" in x for x in lines) or not lines}


# What docs/fence.md says is not there, each with the errno at which tools do without it.
ABSENT = """
put("a", b"x" * 20000)
fd, to, here = os.open("a", os.O_RDWR), os.open("b", os.O_RDWR | os.O_CREAT, 0o644), os.open(".", os.O_RDONLY)
def ioctl(fd, number, argument=bytes(512)): return attempt(fcntl.ioctl, fd, number, argument)
def move(mode): return attempt(fallocate, fd, mode, 4096, 4096)
say("O_TMPFILE", opened(".", os.O_TMPFILE | os.O_RDWR), opened(".", os.O_TMPFILE | os.O_WRONLY | os.O_EXCL))
say("FS_IOC_FIEMAP", ioctl(fd, 0xC020660B, struct.pack("QQIIII", 0, 1 << 62, 0, 0, 4, 0) + bytes(4 * 56)))
say("FALLOC_FL_COLLAPSE_RANGE", move(8))
say("FALLOC_FL_INSERT_RANGE", move(32))
say("FALLOC_FL_UNSHARE_RANGE", move(64))
say("FICLONE", ioctl(to, 0x40049409, fd))
say("FS_IOC_GETFLAGS", ioctl(fd, 0x80086601), ioctl(here, 0x80086601))
say("FS_IOC_SETFLAGS", ioctl(fd, 0x40086602, struct.pack("l", 16)))
say("RENAME_WHITEOUT", attempt(renameat2, "b", "c", 4))
say("open_by_handle_at", attempt(open_by_handle, here, name_to_handle("a")))
say("device", attempt(os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
say("content", content("a") == b"x" * 20000, listing())
"""


def test_what_is_absent_is_refused_with_the_errno_that_tools_expect(fence):
    f = fence()
    got = dict(line.split(" ", 1) for line in f.python(ABSENT).ok().out.splitlines())
    assert got == {
        "O_TMPFILE": "EOPNOTSUPP EOPNOTSUPP",
        "FS_IOC_FIEMAP": "EOPNOTSUPP",
        "FALLOC_FL_COLLAPSE_RANGE": "EOPNOTSUPP",
        "FALLOC_FL_INSERT_RANGE": "EOPNOTSUPP",
        "FALLOC_FL_UNSHARE_RANGE": "EOPNOTSUPP",
        "FICLONE": "EOPNOTSUPP",
        "FS_IOC_GETFLAGS": "ENOTTY ENOTTY",
        "FS_IOC_SETFLAGS": "ENOTTY",
        "RENAME_WHITEOUT": "EINVAL",
        "open_by_handle_at": "EPERM",
        "device": "EPERM",
        "content": "True ['a', 'b']",
    }
    documented = (HERE.parents[1] / "docs/fence.md").read_text()
    for what in got.keys() - {"content", "device"}:
        assert f"`{what}`" in documented, what


@pytest.mark.threads
def test_a_report_of_a_sanitizer_is_noticed(fence):
    """Only in its log: all that the fence was asked for came right."""
    f = fence()
    with open(f.log_path, "a") as log:
        log.write("WARNING: ThreadSanitizer: data race\n")
    assert f.stop() == 0
    assert "data race" in harness.reports.pop()


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
def test_eight_threads_hammer_one_tree(work, fence, served):
    """Counts at the end must add up, and no call may fail in a way that only a broken filesystem explains."""
    t = Tree(work / "base")
    for i in range(200):
        t.file(f"tree/d{i % 10}/f{i}", f"{i}\n" * 10)
    before = fingerprint(work / "base")
    f = fence(env={"AGENTFENSE_FAULT": served})
    seconds = "30" if LONG else "2"
    ran = f.run([tools_dir() / "probe_hammer", seconds, "8"], timeout=300)
    assert ran.code == 0, ran.out + ran.err
    assert f.alive(), f.log()
    assert f.sh("find tree -type f | sort | xargs cat >/dev/null && find . | wc -l").ok()
    listed = f.sh("find tree -printf '%p %y %s\\n' | sort").ok().out
    f.remount()
    assert f.sh("find tree -printf '%p %y %s\\n' | sort").ok().out == listed, "a remount shows another tree"
    assert fingerprint(work / "base") == before


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
def test_a_file_is_read_while_it_is_made(fence, served):
    """What a write has acknowledged all readers must see, and a reader that follows the file to its end sees no zeros there."""
    f = fence(env={"AGENTFENSE_FAULT": served})
    ran = f.run([tools_dir() / "probe_making", "20" if LONG else "4", "1000", "3"], timeout=300)
    assert ran.code == 0, ran.out + ran.err
    reads, stale = (int(word) for word in ran.out.split() if word.isdigit())
    assert reads > 100 and stale == 0, ran.out


@pytest.mark.threads
@pytest.mark.parametrize("served", ["as-it-comes", "side-by-side"])
@pytest.mark.parametrize("layer", ["made", "base"])
def test_a_file_is_read_while_it_is_written_past_the_page_cache(work, fence, served, layer):
    """By O_DIRECT and io_submit, many blocks at once: when they are acknowledged, no page that was read meanwhile is left."""
    if layer == "base":
        Tree(work / "base").file("file", "old" * 1000)
    f = fence(env={"AGENTFENSE_FAULT": served})
    ran = f.run([tools_dir() / "probe_direct", "file", "200" if LONG else "20", "160", "3"], timeout=300)
    assert ran.code == 0, ran.out + ran.err
    reads, stale = (int(word) for word in ran.out.split() if word.isdigit())
    assert reads > 100 and stale == 0, ran.out
    assert f.sh("md5sum < file").out == run(["md5sum"], input=(f.delta / "data/file").read_bytes()).out


def big_directory(f, count):
    code = f"""
os.mkdir("big"); start = time.time()
for i in range({count}): os.close(os.open(f"big/f{{i:06}}", os.O_CREAT|os.O_WRONLY, 0o644))
made = time.time() - start; start = time.time()
names = os.listdir("big"); listed = time.time() - start
say(len(names), len(set(names)))
for i in range(0, {count}, 2): os.unlink(f"big/f{{i:06}}")
say(len(os.listdir("big")), exists("big/f000001"), exists("big/f000002"))
start = time.time(); put("big/last"); one = time.time() - start
say(made, listed, one)
"""
    return f.python(code, timeout=600).ok().out.splitlines()


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_large_directories(fence, count):
    f = fence(options=["--quota-inodes", "1000000"])
    got = big_directory(f, count)
    assert got[:2] == [f"{count} {count}", f"{count // 2} ok ENOENT"]
    f.remount()
    assert f.sh("ls -f big | wc -l").out.strip() == str(count // 2 + 3)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_large_directories_of_the_base(work, fence, count):
    (work / "base/big").mkdir(parents=True)
    for i in range(count):
        os.close(os.open(work / f"base/big/f{i:06}", os.O_CREAT | os.O_WRONLY, 0o644))
    f = fence(options=["--quota-inodes", "1000000"])
    got = (
        f.python(
            f"""
say(len(os.listdir("big")))
for i in range(0, {count}, 10): os.unlink(f"big/f{{i:06}}")
for i in range(100): put(f"big/n{{i}}")
say(len(os.listdir("big")), len(set(os.listdir("big"))))
""",
            timeout=300,
        )
        .ok()
        .out.split()
    )
    assert got == [str(count), str(count * 9 // 10 + 100)] + [str(count * 9 // 10 + 100)]


def test_hard_links_of_the_base_are_whole_or_apart(work, fence):
    """Two names of one inode in the base are shown as one file or as two; never as one in this respect and two in that."""
    Tree(work / "base").file("a", "linked\n").hard("a", "b")
    f = fence()
    got = f.python("""
one = os.stat("a").st_ino == os.stat("b").st_ino
say(one, os.stat("a").st_nlink, os.stat("b").st_nlink)
put("a", b"changed")
say(content("b") == b"changed", os.stat("a").st_ino == os.stat("b").st_ino)
os.unlink("a")
say(os.stat("b").st_nlink)
""").ok().out.split()
    assert got in (["True", "2", "2", "True", "True", "1"], ["False", "1", "1", "False", "False", "1"])


def test_setgid_of_a_directory_is_the_sandboxs_own(work, fence):
    """It lasts in the delta, and neither comes from the base nor is a change that somebody reviews."""
    Tree(work / "base").file("shared/file", "x").file("plain/file", "x")
    os.chmod(work / "base/shared", 0o2775)
    f = fence()
    show = "stat -c '%a %n' shared plain made made/in"
    f.sh("umask 022; chmod 2755 plain; mkdir made; chmod g+s made; mkdir made/in; echo y >> shared/file").ok()
    expected = "775 shared\n2755 plain\n2755 made\n2755 made/in\n"
    assert f.sh(show).ok().out == expected
    f.remount()
    assert f.sh(show).ok().out == expected
    f.stop()
    listed = subprocess.run([os.environ["AGENTFENSE"], "delta", "list", f.delta], capture_output=True, text=True)
    assert listed.returncode == 0 and "/made" in listed.stdout and "plain" not in listed.stdout, listed
    subprocess.run([os.environ["AGENTFENSE"], "delta", "export", f.delta, "--to", work / "out"], check=True, capture_output=True)
    assert [p for p in (work / "out").rglob("*") if p.stat().st_mode & 0o6000] == []


def test_inode_numbers_are_stable(work, fence):
    """Across copy-up, cache pressure and a remount."""
    t = Tree(work / "base")
    for i in range(50):
        t.file(f"d/f{i}", "x")
    f = fence()
    first = f.sh("find . -printf '%p %i\\n' | sort").out
    assert len({line.split()[-1] for line in first.splitlines()}) == len(first.splitlines())
    f.sh("for i in $(seq 0 49); do echo y >> d/f$i; done; chmod 700 d")
    assert f.sh("find . -printf '%p %i\\n' | sort").out == first
    f.remount()
    assert f.sh("find . -printf '%p %i\\n' | sort").out == first


def test_inode_numbers_of_what_is_made_and_moved_are_stable(work, fence):
    t = Tree(work / "base")
    t.file("kept", "k").file("saved", "s").file("tree/a/b", "b").file("one", "1").file("two/2", "2")
    f = fence()
    f.sh("""set -e
        echo new > new; mkdir -p made/deep; echo x > made/deep/x; ln -s new link; mkfifo pipe
        echo saved > .saved.tmp; mv .saved.tmp saved
        mv tree moved-tree; mv made/deep made/deeper; echo y > moved-tree/a/y
        ln kept kept-too; rm two/2; echo 3 > two/2; mv one two/one; echo 1 > one""").ok()
    f.python("exchange('new', 'moved-tree')").ok()
    show = "find . -printf '%p %i %n\\n' | sort"
    first = f.sh(show).ok().out
    f.remount()
    assert f.sh(show).ok().out == first
    f.sh("echo later > later; mkdir more; echo x > more/x; rm two/2").ok()
    second = f.sh(show).ok().out
    numbers = [line.split()[-2] for line in second.splitlines()]
    assert len(set(numbers)) == len(numbers) - 1, "only kept and kept-too are one"
    f.kill()
    f.start()
    assert f.sh(show).ok().out == second
