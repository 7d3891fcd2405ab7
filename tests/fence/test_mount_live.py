"""A mount over a base that others change meanwhile."""

import os
import shutil
import subprocess
import threading
import time

from harness import LONG, PYTHON, Fence, Tree, background, wait_until


def test_changes_of_a_live_base_are_seen_though_everything_is_cached(dirs):
    t = Tree(dirs / "base").file("d/old", "old").file("gone", "g").file("to-move", "m").link("a", "l")
    with Fence(dirs, options=["--live"]) as f:
        f.sh("find . -type f | xargs cat; ls -laR; cat absent d/absent; readlink l")  # everything cached, negative answers too
        (dirs / "base/a").write_text("longer than before\n")
        t.file("d/new", "new").file("absent", "now here")
        os.unlink(t.at("gone"))
        os.rename(t.at("to-move"), t.at("d/moved"))
        os.makedirs(t.at("n/e/w"))
        t.file("n/e/w/f", "deep")
        os.unlink(t.at("l"))
        os.symlink("d", t.at("l"))
        os.chmod(t.at("d/b"), 0o755)
        want = "longer than before\n|new|now here|m|deep|d\n|755\n"
        show = "cat a; printf '|'; cat d/new; printf '|'; cat absent; printf '|'; cat d/moved; printf '|'; cat n/e/w/f; printf '|'; readlink l; printf '|'; stat -c %a d/b; ls gone to-move 2>/dev/null"
        assert wait_until(lambda: f.sh(show).out == want), f.sh(show).out
        assert f.sh("ls").out.split() == ["a", "absent", "d", "l", "n"]


def test_what_happens_in_a_removed_directory_of_a_live_base_touches_nothing_else(dirs):
    """Hidden files come and go where the sandbox removed the directory: no name it knows may be asked for again on that account."""
    Tree(dirs / "base").file("half/.env", "hidden")
    rules = ["/**=write", ".env=none"]
    with Fence(dirs, rules=rules, options=["--live"]) as f:
        f.sh("ls -laR; cat a; rmdir half").ok()
        f.sh("stat a d d/b").ok()
        quiet = f.control("stats")["requests"]
        f.sh("stat a d d/b; " * 20).ok()
        quiet = f.control("stats")["requests"] - quiet
        noisy = f.control("stats")["requests"]
        for i in range(20):
            (dirs / "base/half/.env").unlink()
            (dirs / "base/half/.env").write_text(str(i))
            time.sleep(0.02)
            f.sh("stat a d d/b").ok()
        noisy = f.control("stats")["requests"] - noisy
        assert noisy <= quiet + 20, (quiet, noisy)


HIDDEN_CRYPT = ["/**=write", "**/.env=none", "/crypt/**=none", "/crypt/**/ok.txt=read"]


class Flicker:
    """Something comes and goes in the base as fast as it can."""

    def __init__(self, come, go):
        self.come, self.go = come, go
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.stop.is_set():
            self.come()
            self.go()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.stop.set()
        self.thread.join()


def test_a_live_base_under_change_can_be_entered_at_once(dirs):
    """The first answer about the root is the one that must not get lost among invalidations."""
    code = "import os\nwhile os.getppid() != 1: os.mknod('flicker'); os.unlink('flicker')"
    flicker = subprocess.Popen([PYTHON, "-c", code], cwd=dirs / "base")
    try:
        for _ in range(30 if LONG else 10):
            with Fence(dirs, options=["--live"]) as f:
                f.run(["/bin/cat", "a"]).ok()
    finally:
        flicker.kill()
        flicker.wait()


def test_hidden_things_that_come_and_go_cause_no_request(dirs):
    base = dirs / "base"
    crypt = base / "crypt"

    def come():
        (crypt / "deep" / "er").mkdir(parents=True)
        (crypt / "deep" / "bones").write_text("x")
        (base / ".env").write_text("x")

    def go():
        shutil.rmtree(crypt)
        (base / ".env").unlink()

    with Fence(dirs, rules=HIDDEN_CRYPT, options=["--live"]) as f:

        def look():
            before = f.control("stats")["requests"]
            seen = {f.sh("ls -laR; stat . d a").ok().out for _ in range(20)}
            return seen, f.control("stats")["requests"] - before

        look()
        quiet, quiet_requests = look()
        with Flicker(come, go):
            busy, busy_requests = look()
        assert quiet == busy and len(quiet) == 1
        assert busy_requests <= quiet_requests + 10, "what is cached must stay so"


def test_a_hidden_directory_of_a_live_base_shows_when_something_visible_is_in_it(dirs):
    base = dirs / "base"
    (base / "crypt" / "deep").mkdir(parents=True)

    def inside(expected, what="ls . crypt crypt/deep 2>/dev/null"):
        assert wait_until(lambda: f.sh(what).out == expected), (f.sh(what).out, expected)

    def let_events_arrive():
        """They come in the order of the changes."""
        (base / "d" / "mark").write_text("x")
        assert wait_until(lambda: f.sh("ls d").out == "b\nmark\n")
        (base / "d" / "mark").unlink()
        assert wait_until(lambda: f.sh("ls d").out == "b\n")

    nothing = ".:\na\nd\n"
    with Fence(dirs, rules=HIDDEN_CRYPT, options=["--live"]) as f:
        inside(nothing)
        (base / "crypt" / "deep" / "ok.txt").write_text("x")
        inside(".:\na\ncrypt\nd\n\ncrypt:\ndeep\n\ncrypt/deep:\nok.txt\n")
        (base / "crypt" / "late").mkdir()
        (base / "crypt" / "late" / "token").write_text("x")
        let_events_arrive()
        inside("deep\n", "ls crypt")
        (base / "crypt" / "late" / "ok.txt").write_text("x")
        inside("deep\nlate\n", "ls crypt")
        shutil.rmtree(base / "crypt")
        inside(nothing)
        (base / "crypt").mkdir()
        (base / "crypt" / "token").write_text("x")
        let_events_arrive()
        assert f.sh("ls . crypt crypt/deep 2>/dev/null").out == nothing
        (base / "crypt" / "ok.txt").write_text("x")
        inside(".:\na\ncrypt\nd\n\ncrypt:\nok.txt\n")


def test_rewrites_of_a_live_file_are_never_torn(dirs):
    """Size and content belong together: a reader sees an old or a new version, no old size over new bytes."""
    with Fence(dirs, options=["--live"]) as f:
        target = dirs / "base/a"
        for i in range(20):
            body = (f"{i:03}" * (100 + 50 * (i % 7))).encode()
            (dirs / "base/.tmp").write_bytes(body)
            os.rename(dirs / "base/.tmp", target)
            assert wait_until(lambda: f.sh("cat a").stdout == body), i
            assert int(f.sh("stat -c %s a").out) == len(body)


def test_what_the_sandbox_changed_hides_later_changes_of_the_base(dirs):
    with Fence(dirs, options=["--live"]) as f:
        f.sh("echo mine > a; rm d/b").ok()
        (dirs / "base/a").write_text("theirs\n")
        (dirs / "base/d/b").write_text("theirs\n")
        (dirs / "base/d/c").write_text("c\n")
        assert wait_until(lambda: f.sh("cat d/c").out == "c\n")
        assert f.sh("cat a; ls d").out == "mine\nc\n"


def test_a_removed_base_directory_does_not_break_the_fence(dirs):
    with Fence(dirs, options=["--live"]) as f:
        with background(["/bin/sh", "-c", "cd d && sleep 20"], f.mnt):
            f.sh("ls d")
            shutil.rmtree(dirs / "base/d")
            assert wait_until(lambda: f.sh("ls").out == "a\n")
            f.sh("ls d; cat d/b; mkdir d; echo x > d/y")
            assert f.alive()
