"""No way around while rules change or by being quick: see test_no_way_around."""

import contextlib
import threading

import pytest
from attacker import FIXED, RULES, SECRET, VIEWED, answers
from harness import LONG, PYTHON, TIMEOUT, background, tools_dir, wait_until


# Caches after the rules were tightened

HOLD = """
import signal
fd = os.open("open/file.txt", os.O_RDWR); m = mmap.mmap(fd, 5, mmap.MAP_SHARED, mmap.PROT_READ|mmap.PROT_WRITE)
ro = os.open("open/dir/a", os.O_RDONLY); dfd = os.open("open/dir", os.O_RDONLY|os.O_DIRECTORY)
private = mmap.mmap(ro, 2, mmap.MAP_PRIVATE, mmap.PROT_READ)
say(m[:], os.read(ro, 10), private[:], os.listdir(dfd))
sys.stdin.readline()
def touch_map(what):
    pid = os.fork()
    if pid == 0:
        os.write(1, b"map " + what() + b"\\n"); os._exit(0)
    status = os.waitpid(pid, 0)[1]
    say("signal", status & 127)
say("read", attempt(os.pread, ro, 10, 0)); say("readrw", attempt(os.pread, fd, 10, 0)); say("write", attempt(os.pwrite, fd, b"LATE!", 0)); say("fsync", attempt(os.fsync, fd))
touch_map(lambda: m[:]); touch_map(lambda: private[:])
say("list", attempt(os.listdir, dfd)); say("open", opened("open/dir/a"), opened("open/file.txt"), opened("open/dir"), content("open/dir/b"))
say("proc", opened(f"/proc/self/fd/{ro}"), opened(f"/proc/self/fd/{fd}", os.O_RDWR)); say("truncate", attempt(os.ftruncate, fd, 0)); say("fstat", attempt(lambda: os.fstat(ro).st_size))
def smear(): m[:] = b"SMEAR"; m.flush(); return b"smeared"
touch_map(smear)
say("access", os.access("open/file.txt", os.R_OK), os.access("open/file.txt", os.W_OK))
"""


@contextlib.contextmanager
def holding(f, code=HOLD, first="b'open\\n' b'a\\n' b'a\\n' ['a', 'b']\n"):
    """A process that opened, mapped and cached while it could; calling what is given lets it go on and returns what it says."""
    with background([PYTHON, "-c", "from inside import *\n" + code], f.mnt, text=True) as child:
        assert child.stdout.readline() == first

        def go_on():
            out, _ = child.communicate("go\n", timeout=TIMEOUT)
            assert child.returncode == 0, out
            return out

        yield go_on


@pytest.mark.parametrize("level", ["none", "view"])
def test_page_cache_and_mappings_after_rules_were_tightened(attack, level):
    f = attack(options=["--data-path", "cached"])
    f.sh("cat open/file.txt open/dir/a open/dir/b; ls -lR open >/dev/null; grep -r . open/dir")
    with holding(f) as go_on:
        f.set_rules([*RULES, f"/open/**={level}@9"])
        out = go_on()
    lines = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    assert lines["read"].startswith("E") and lines["readrw"].startswith("E"), out
    assert "b'open" not in out and "b'a\\n" not in out and "map a" not in out and "map open" not in out, out
    assert out.count("signal 7") >= 2, out  # SIGBUS: the pages are gone
    assert lines["write"].startswith("E") or "E" in lines["fsync"], out
    assert lines["truncate"].startswith("E"), out
    want = "ENOENT" if level == "none" else "EACCES"
    opens = lines["open"].split()
    assert opens[0] == want and opens[1] == want and opens[3] == want, out
    assert lines["access"] == "False False", out
    assert all(w.startswith("E") for w in lines["proc"].split()), out
    f.set_rules(RULES)
    assert f.sh("cat open/file.txt").stdout == b"open\n", "a write after the tightening took effect"


def test_writing_after_write_was_taken_away(attack):
    f = attack(options=["--data-path", "cached"])
    with holding(f) as go_on:
        f.set_rules([*RULES, "/open/**=read@9"])
        out = go_on()
    lines = dict(line.split(" ", 1) for line in out.splitlines() if " " in line)
    assert lines["write"].startswith("E") or lines["fsync"].startswith("E"), out
    assert lines["truncate"].startswith("E") and lines["access"] == "True False", out
    assert wait_until(lambda: f.sh("cat open/file.txt").stdout == b"open\n"), f.sh("cat open/file.txt").out
    f.remount()
    assert f.sh("cat open/file.txt").stdout == b"open\n"


def test_new_rules_hold_for_the_next_operation(attack):
    """Both ways, again and again, with everything cached in between: never a stale answer after the acknowledgement."""
    f = attack()
    code = "say(content('open/file.txt'), exists('open/dir/a'), 'open' in os.listdir('.'), content('look/file.txt') if len(sys.argv) > 1 else '')"
    for i in range(25 if LONG else 5):
        f.set_rules([*RULES, "/open/**=none@9"])
        assert answers(f, code) == ["ENOENT ENOENT False "], i
        f.set_rules([*RULES, "/open/**=view@9"])
        assert answers(f, code) == ["EACCES ok True "], i
        f.set_rules([*RULES, "/open/**=read@9"])
        assert answers(f, code) == ["b'open\\n' ok True "], i


def test_a_working_directory_that_becomes_hidden(attack):
    f = attack()
    code = "os.chdir('open/dir'); say(listing()); sys.stdin.readline(); say(attempt(listing), content('a'), put('new'), exists('b'))"
    with holding(f, code, "['a', 'b']\n") as go_on:
        f.set_rules([*RULES, "/open/**=none@9"])
        out = go_on()
    assert out.split()[-3:] == ["ENOENT", "ENOENT", "ENOENT"] or out.split()[-3:] == ["ENOENT", "EACCES", "ENOENT"], out
    assert "'a'" not in out


STALE = """
fd = os.open("open/file.txt", os.O_RDONLY)
stop = []
def churn(n):
    while not stop:
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(fd, 10, 0)
        except OSError: pass
        exists("open/file.txt"); content("open/file.txt"); attempt(os.listdir, "open"); attempt(os.listdir, "."); exists("open/dir/a"); content("open/dir/a")
threads = [threading.Thread(target=churn, args=(n,)) for n in range(6)]
[t.start() for t in threads]
say("ready")
for line in sys.stdin:
    say(attempt(os.pread, fd, 10, 0), content("open/file.txt"), exists("open/dir/a"), content("open/dir/a"), "open" in os.listdir("."))
    if line == "end\\n": break
stop.append(1)
[t.join() for t in threads]
"""


def test_answers_in_flight_when_the_rules_change_do_not_stay_in_caches(attack):
    """Lookups and reads that were under way may have been answered by the old rules; after the acknowledgement none of them may be
    found in a cache."""
    f = attack(options=["--data-path", "cached"])
    with background([PYTHON, "-c", "from inside import *\n" + STALE], f.mnt, text=True) as child:
        assert child.stdout.readline() == "ready\n"

        def ask(word="go"):
            child.stdin.write(word + "\n")
            child.stdin.flush()
            return child.stdout.readline()

        for i in range(100 if LONG else 30):
            f.set_rules([*RULES, "/open/**=none@9"])
            assert ask() == "ENOENT ENOENT ENOENT ENOENT False\n", i
            f.set_rules(RULES)
            assert ask() == "b'open\\n' b'open\\n' ok b'a\\n' True\n", i
        ask("end")


def test_a_directory_renamed_to_free_what_new_rules_hid_in_it(attack):
    f = attack()
    answers(f, "os.mkdir('mine'); put('mine/note', b'once mine'); put('mine/other', b'o')")
    f.set_rules([*RULES, "/mine/note=none"])
    ran = f.sh(
        "mv mine freed; cat freed/note mine/note; ls -a freed; cp -r mine copy; cat copy/note; tar cf - . 2>/dev/null | tar xOf - ./freed/note ./mine/note"
    )
    assert b"once mine" not in ran.stdout
    got = answers(
        f,
        "say(attempt(os.rename, 'freed' if exists('freed') == 'ok' else 'mine', 'again'), exists('again/note'), exists('freed/note'))",
    )
    assert got[0].split()[1:] == ["ENOENT", "ENOENT"]


def test_what_was_made_before_a_rule_is_hidden_by_it_after_a_remount(attack):
    f = attack()
    answers(f, "put('late.txt', b'mine'); os.makedirs('latedir/x'); put('latedir/x/y', b'mine')")
    f.remount(rules=[*RULES, "/late.txt=none", "/latedir/**=none"])
    got = answers(f, "say(content('late.txt'), exists('latedir'), put('late.txt'), listing())")
    assert got[0].startswith("ENOENT ENOENT EACCES") and "late" not in got[0]
    f.remount(rules=RULES)
    assert answers(f, "say(content('late.txt'), content('latedir/x/y'))") == ["b'mine' b'mine'"]


# Races


@pytest.mark.threads
def test_hundreds_of_threads_racing_renames_against_opens(attack):
    """Directories, files and links are swapped under readers; not one of them may ever see a closed byte."""
    f = attack()
    seconds = "20" if LONG else "2"
    ran = f.run([tools_dir() / "probe_race", seconds, "200", SECRET, VIEWED])
    assert ran.code == 0, ran.out + ran.err
    assert "caught 0" in ran.out, ran.out


@pytest.mark.threads
def test_rules_swapped_while_hundreds_of_threads_run(attack):
    f = attack()
    seconds = 15 if LONG else 2
    results = []
    racer = threading.Thread(
        target=lambda: results.append(f.run([tools_dir() / "probe_race", str(seconds), "100", SECRET, VIEWED]))
    )
    racer.start()
    swaps = 0
    while racer.is_alive():
        f.set_rules([*RULES, ["/open/**=none@9", "/open/file.txt=read@9", "/race/**=view@3", "/plain/**=none"][swaps % 4]])
        swaps += 1
    racer.join()
    assert results[0].code == 0 and "caught 0" in results[0].out, results[0].out + results[0].err
    assert swaps > (20 if LONG else 2)
    f.set_rules(RULES)
    assert f.sh("cat read/file.txt").stdout == FIXED
