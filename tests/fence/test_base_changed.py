"""A base that changes only when the fence is told: nothing is watched, everything is cached for as long as it likes."""

import os
import shutil
import time

import pytest
from harness import Fence, Tree, background

HIDDEN = ["/**=write", "**/.env=none", "/secret/**=none", "/crypt/**=none", "/crypt/**/ok.txt=read"]


@pytest.fixture(params=[[], ["--live"]], ids=["plain", "live"])
def base(request, work):
    Tree(work / "base").file("a", "a\n").file("d/b", "b\n").file("d/keep", "keep\n").link("a", "l").file("e/f/g", "g\n")
    return work / "base", request.param


@pytest.fixture
def seen(base):
    """A fence that has looked at everything, the absent too."""
    path, options = base
    with Fence(path.parent, rules=HIDDEN, options=options) as f:
        f.sh("find . -type f | xargs cat; ls -laR; cat absent d/absent; readlink l; ls crypt n")
        f.tell = lambda *paths: [f.control(f"changed {p}".strip()) for p in paths or [""]]
        yield f


def replace(path, text):
    path.with_name("temporary").write_text(text)
    os.rename(path.with_name("temporary"), path)


def test_nothing_is_seen_before_it_is_told(base):
    path, options = base
    if options:
        pytest.skip("of a live base it is")
    with Fence(path.parent) as f:
        f.sh("cat a").ok()
        replace(path / "a", "new\n")
        assert f.sh("cat a").out == "a\n"


@pytest.mark.parametrize("by_name", [True, False])
def test_the_next_operation_sees_all_of_it(base, seen, by_name):
    path, _ = base
    for i in range(10):
        replace(path / "a", f"new {i}\n")
        (path / "d/b").write_text(f"in place {i}\n")
        (path / "absent").write_text("here\n")
        (path / "d/absent").write_text("here too\n")
        (path / "l").unlink()
        (path / "l").symlink_to(f"to{i}")
        shutil.rmtree(path / "e/f")
        Tree(path).file("e/f/h", f"h{i}\n").file("n/e/w", f"n{i}\n")
        names = ["/a", "/d/b", "/absent", "/d/absent", "/l", "/e/f", "/n"]
        assert all(x["ok"] for x in seen.tell(*(names if by_name else [])))
        show = "cat a d/b absent d/absent e/f/h n/e/w; readlink l; ls . d e/f; cat e/f/g 2>/dev/null"
        want = f"new {i}\nin place {i}\nhere\nhere too\nh{i}\nn{i}\nto{i}\n"
        want += ".:\na\nabsent\nd\ne\nl\nn\n\nd:\nabsent\nb\nkeep\n\ne/f:\nh\n"
        assert seen.sh(show).out == want
        (path / "absent").unlink()
        (path / "d/absent").unlink()
        shutil.rmtree(path / "n")
        seen.tell(*(["/absent", "/d/absent", "/n"] if by_name else []))
        assert seen.sh("ls absent d/absent n 2>/dev/null; ls . d").out == ".:\na\nd\ne\nl\n\nd:\nb\nkeep\n"


def test_a_new_directory_need_only_be_named_itself_and_a_file_in_it_is_enough(base, seen):
    path, _ = base
    Tree(path).file("n/e/w", "new\n")
    seen.tell("/n/e/w")
    assert seen.sh("cat n/e/w").out == "new\n"


def test_who_has_a_file_open_keeps_it_and_who_stands_in_a_directory_stays(base, seen):
    path, _ = base
    code = "import os, sys; fd = os.open('b', os.O_RDWR); print(os.pread(fd, 9, 0).decode().strip(), flush=True)\n"
    code += "for line in sys.stdin: print(os.pread(fd, 9, 0).decode().strip(), os.getcwd()[-2:], *sorted(os.listdir('.')), flush=True)"
    with background(["/usr/bin/python3", "-c", code], seen.mnt / "d", text=True) as child:

        def look():
            child.stdin.write("\n")
            child.stdin.flush()
            return child.stdout.readline().split()

        assert child.stdout.readline() == "b\n"
        replace(path / "d/b", "new\n")
        seen.tell("/d/b")
        assert look() == ["b", "/d", "b", "keep"]
        shutil.copytree(path / "d", path / "d2")
        shutil.rmtree(path / "d")
        (path / "d2/more").write_text("")
        os.rename(path / "d2", path / "d")
        seen.tell("/d", "/d2")
        if base[1]:
            return  # that events came first is as right
        assert look() == ["b", "/d", "b", "keep", "more"]
        seen.tell()
        assert look() == ["b", "/d", "b", "keep", "more"]


def test_an_open_file_that_did_not_change_can_still_be_written(base, seen):
    code = "import os, sys; fd = os.open('d/keep', os.O_RDWR); print('open', flush=True); sys.stdin.readline(); "
    code += "print(os.pwrite(fd, b'K', 0), flush=True); sys.stdin.readline()"
    with background(["/usr/bin/python3", "-c", code], seen.mnt, text=True) as child:
        assert child.stdout.readline() == "open\n"
        seen.tell()
        seen.tell("/d")
        seen.tell("/d/keep")
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        assert seen.sh("cat d/keep").out == "Keep\n"


def test_what_the_delta_covers_is_not_affected(base, seen):
    path, _ = base
    seen.sh("echo mine > a; rm d/b; mkdir mine; echo x > mine/x; rm -r e; mkdir e").ok()
    (path / "a").write_text("theirs\n")
    replace(path / "d/b", "theirs\n")
    Tree(path).file("mine/y", "y\n").file("e/z", "z\n")
    for told in (["/a", "/d/b", "/mine/y", "/mine", "/e", "/e/z"], []):
        seen.tell(*told)
        assert seen.sh("cat a; ls d e mine; cat mine/x mine/y").out == "mine\nd:\nkeep\n\ne:\n\nmine:\nx\ny\nx\ny\n"


def test_a_passage_is_there_when_it_is_told(base, seen):
    path, _ = base
    Tree(path).file("crypt/token", "x").file("crypt/deep/er/ok.txt", "ok\n")
    seen.tell("/crypt/token", "/crypt/deep/er/ok.txt")
    assert seen.sh("ls; find crypt; cat crypt/deep/er/ok.txt").out == "a\ncrypt\nd\ne\nl\ncrypt\ncrypt/deep\ncrypt/deep/er\ncrypt/deep/er/ok.txt\nok\n"
    shutil.rmtree(path / "crypt")
    Tree(path).file("crypt/token", "x")
    seen.tell("/crypt")
    assert seen.sh("ls; ls crypt 2>/dev/null").out == "a\nd\ne\nl\n"


def test_what_is_hidden_has_no_effect(base, seen):
    path, _ = base
    look = "stat -c '%n %s %i %Y %Z %y' . d e a; ls -la --time-style=full-iso . d; cat a; ls n 2>&1"
    seen.sh(look)
    before = seen.sh(look).out
    quiet = seen.control("stats")["requests"]
    seen.sh(look)
    quiet = seen.control("stats")["requests"] - quiet
    Tree(path).file("d/.env", "x").file("secret/s", "s").file(".env", "x").file("crypt/token", "x")
    seen.tell("/d/.env", "/secret", "/secret/s", "/.env", "/crypt", "/crypt/token", "/secret/not/there", "/n/.env")
    busy = seen.control("stats")["requests"]
    assert seen.sh(look).out == before
    assert seen.control("stats")["requests"] - busy <= quiet


def test_times_of_a_directory_move_with_its_visible_names(base, seen):
    path, _ = base
    before = seen.sh("stat -c %y d e").out.split("\n")
    (path / "d/new").write_text("")
    seen.tell("/d/new")
    after = seen.sh("stat -c %y d e").out.split("\n")
    assert after[0] > before[0] and after[1] == before[1]


def test_paths_that_are_none_are_refused(base, seen):
    for path in ("a", "", "//", "/a/../b", "/a//b", "/.", "/a/", "/" + "x" * 256):
        assert not seen.control(f"changed {path}")["ok"], path
    assert seen.control("changed /")["ok"] and seen.control("changed")["ok"]
    assert seen.control("changed /..a")["ok"]


@pytest.mark.threads
def test_telling_while_it_is_used(base, seen):
    path, _ = base
    loop = "while :; do cat a d/b e/f/g; ls -la . d e/f; cat absent; done >/dev/null 2>&1"
    with background(["/bin/sh", "-c", loop], seen.mnt), background(["/bin/sh", "-c", loop], seen.mnt):
        until = time.monotonic() + 2
        i = 0
        while time.monotonic() < until:
            replace(path / "a", f"{i}\n")
            replace(path / "d/b", f"{i}\n")
            seen.tell(*([["/a", "/d/b"], [], ["/d", "/a"]][i % 3]))
            assert seen.sh("cat a d/b").out == f"{i}\n{i}\n"
            i += 1
    assert seen.alive()
