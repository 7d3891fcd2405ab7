"""No way around by moving and linking things to where other rules apply: see test_no_way_around."""

import os
import time

from attacker import FIXED, RULES, SECRET, answers
from harness import Tree


# Moving things to where other rules apply


def test_renaming_a_closed_file_to_an_open_name(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt", "look/file.txt", "read/file.txt", "open/server.key", "look/link", "look/dir", "read/dir", "secret"):
    say(path, attempt(os.rename, path, "taken"), attempt(renameat2, path, "taken", RENAME_NOREPLACE), exists("taken"))
""",
    )
    for line in got:
        path, *errnos = line.split()
        want = "EACCES" if path.startswith(("look", "read")) else "ENOENT"
        assert errnos == [want, want, "ENOENT"], line


def test_renaming_onto_a_closed_name(attack):
    got = answers(
        attack(),
        """
for path in ("hidden.txt", "open/server.key", "look/file.txt", "look/new", "read/file.txt", "read/new", "open/new.key"):
    put("mine", b"mine")
    say(path, attempt(os.rename, "mine", path), attempt(renameat2, "mine", path, RENAME_NOREPLACE), attempt(exchange, "mine", path), content("mine"))
""",
    )
    for line in got:
        path, plain, noreplace, both, mine = line.split()
        exists_visibly = path in ("look/file.txt", "read/file.txt")
        assert plain == "EACCES" and noreplace in ({"EACCES", "EEXIST"} if exists_visibly else {"EACCES"}), line
        assert both == ("EACCES" if exists_visibly else "ENOENT" if path in ("look/new", "read/new") else both)
        assert both in ("EACCES", "ENOENT") and mine == "b'mine'", line


def test_hidden_and_absent_names_answer_an_exchange_alike(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine")
for pair in (("hidden.txt", "absent.key"), ("open/server.key", "open/absent.key"), ("secret/plan.txt", "secret/none")):
    say(attempt(exchange, "mine", pair[0]), attempt(exchange, "mine", pair[1]), attempt(exchange, pair[0], "mine"), attempt(exchange, pair[1], "mine"))
""",
    )
    for line in got:
        a, c, b, d = line.split()
        assert a == c and b == d


def test_exchanging_an_open_file_with_a_closed_one(attack):
    got = answers(
        attack(),
        """
put("mine", b"mine"); os.mkdir("dir")
for path in ("look/file.txt", "read/file.txt", "look/dir", "read/dir"):
    say(attempt(exchange, "mine", path), attempt(exchange, path, "mine"), attempt(exchange, "dir", path), attempt(exchange, path, "dir"))
say(content("mine"), content("read/file.txt"))
""",
    )
    assert got[:4] == ["EACCES EACCES EACCES EACCES"] * 4 and got[4] == f"b'mine' {FIXED!r}"


def test_a_rename_may_not_leave_a_whiteout(attack):
    got = answers(
        attack(), "put('mine'); say(attempt(renameat2, 'mine', 'other', RENAME_WHITEOUT), exists('mine'), exists('other'))"
    )
    assert got[0].split()[0] in ("EINVAL", "EPERM", "EOPNOTSUPP", "ENOSYS") and got[0].endswith("ok ENOENT")


def test_renaming_an_ancestor_to_get_at_a_hidden_child(attack):
    f = attack()
    got = answers(
        f,
        """
say(attempt(os.rename, "deep/a/b", "deep/a/c"), attempt(os.rename, "deep/a", "freed"), attempt(os.rename, "deep", "freed"), attempt(os.rename, "open", "freed"))
say(attempt(renameat2, "deep/a", "open/dir", RENAME_EXCHANGE))
""",
    )
    assert got[0] == "EXDEV EXDEV EXDEV EXDEV" and got[1] in ("EXDEV", "EACCES")
    moved = f.sh("mv deep/a freed && find freed deep; cat freed/b/* freed/b/inner.txt; ls -a deep")
    assert SECRET not in moved.stdout and b"outer" in moved.stdout and b"inner" not in moved.stdout
    # once gone it must not come back with what was hidden in it
    again = f.sh("mkdir -p deep/a/b; ls -aR deep/a; cat deep/a/b/inner.txt")
    assert SECRET not in again.stdout


def test_a_directory_of_ones_own_renamed_to_where_rules_would_hide_part_of_it(attack):
    got = answers(
        attack(),
        """
os.makedirs("mine/private/x"); put("mine/private/note", b"n"); put("mine/other", b"o")
say(attempt(os.rename, "mine", "box/mine"))
say(exists("mine/private/note"), exists("box/mine"), exists("box/mine/private"))
os.makedirs("pure/sub"); put("pure/sub/f")
say(attempt(os.rename, "pure", "box/pure"), content("box/pure/sub/f"))
""",
    )
    assert got[0] in ("EXDEV", "EACCES") and got[1] == "ok ENOENT ENOENT" and got[2] == "ok b'x'"


def test_a_base_directory_that_rules_leave_alone_can_be_renamed(attack):
    """Where write is permitted throughout at both ends a rename is a rename, no EXDEV."""
    f = attack(["/plain/**=write@5", "/target/**=write@5", "/look/**=view"])
    got = answers(
        f,
        "say(attempt(os.mkdir, 'target')); say(attempt(os.rename, 'plain/x', 'target/x'), content('target/x/y/z'), exists('plain/x'), listing('plain'))",
    )
    assert got[-1] == "ok b'z\\n' ENOENT []"


def test_renaming_a_read_only_directory_away(attack):
    got = answers(
        attack(),
        """
say(attempt(os.rename, "read", "mine"), attempt(os.rename, "read/dir", "mine"), attempt(os.rename, "look", "mine"), attempt(os.rename, "secret", "mine"), attempt(os.rename, "deep/exception", "mine"))
""",
    )
    first = got[0].split()
    assert first[:3] == ["EACCES"] * 3 and first[3] == "ENOENT" and first[4] == "EACCES"


# Links


def test_hard_links_between_levels(attack):
    got = answers(
        attack(),
        """
for old in ("hidden.txt", "open/server.key", "look/file.txt", "read/file.txt"):
    say(attempt(os.link, old, "taken"), exists("taken"))
    try:
        fd = os.open(old, os.O_PATH); say(attempt(linkat, AT_FDCWD, f"/proc/self/fd/{fd}", "taken", AT_SYMLINK_FOLLOW), attempt(linkat, fd, "", "taken", AT_EMPTY_PATH) in ("ENOENT", "EACCES", "EPERM"))
    except OSError as e: say(name_of(e.errno))
for new in ("hidden2.key", "look/new", "read/new", "secret/new", ".wh.new"):
    say(attempt(os.link, "open/file.txt", new))
""",
    )
    assert got[:8] == ["ENOENT ENOENT", "ENOENT"] * 2 + ["EACCES ENOENT", "EACCES True"] * 2
    assert got[8:] == ["EACCES", "EACCES", "EACCES", "ENOENT", "EPERM"]


def test_one_name_of_an_inode_does_not_give_more_than_another(attack):
    """An inode with several names has the lowest of their levels."""
    f = attack()
    answers(f, "put('one', b'first'); os.link('one', 'two'); assert os.stat('one').st_nlink == 2")
    f.set_rules([*RULES, "/two=read"])
    got = answers(f, "say(put('two'), put('one'), opened('one', os.O_RDWR), content('one'), attempt(os.truncate, 'one', 0))")
    assert got == ["EACCES EACCES EACCES b'first' EACCES"]
    f.set_rules([*RULES, "/two=view"])
    got = answers(f, "say(content('two'), content('one'))")
    assert got == ["EACCES EACCES"]


def test_symlink_chains_into_hidden_paths(attack):
    got = answers(
        attack(),
        """
os.symlink("hidden.txt", "l1"); os.symlink("l1", "l2"); os.symlink("l2", "l3"); os.symlink("secret", "s1"); os.symlink("s1", "s2")
os.symlink(os.path.abspath("secret/plan.txt"), "abs"); os.symlink("open/../look/../secret/sub", "winding"); os.symlink("look/file.txt", "v"); os.symlink("look/link", "vv")
for p in ("l1", "l2", "l3", "s1/plan.txt", "s2/plan.txt", "s2", "abs", "winding/more.txt"):
    say(content(p), opened(p, os.O_RDONLY|os.O_CREAT), attempt(os.stat, p), attempt(os.chmod, p, 0o777), attempt(os.truncate, p, 0))
say(content("v"), content("vv"), opened("v", os.O_WRONLY), attempt(os.truncate, "v", 0))
say(opened("l3", os.O_CREAT|os.O_EXCL|os.O_WRONLY), attempt(os.link, "l3", "hard"), os.readlink("l3"), os.readlink("hard"))
""",
    )
    for line in got[:8]:
        read, create, *rest = line.split()
        assert read == "ENOENT" and create in ("EACCES", "ENOENT", "EISDIR") and set(rest) == {"ENOENT"}, line
    assert got[8] == "EACCES EACCES EACCES EACCES"
    assert got[9] == "EEXIST ok l2 l2"


def test_creating_through_a_dangling_link_to_a_hidden_name(attack):
    got = answers(
        attack(),
        """
os.symlink("open/absent.key", "l"); os.symlink("hidden.txt", "m")
say(opened("l", os.O_CREAT|os.O_WRONLY), opened("m", os.O_CREAT|os.O_WRONLY))
""",
    )
    assert got == ["EACCES EACCES"]


def test_a_symlink_in_the_base_is_never_followed_by_the_fence(work, fence):
    """The host swaps a directory of the base for a symlink that leads outside; what lies there is not served."""
    outside = Tree(work / "outside").file("file.txt", SECRET).file("sub/file.txt", SECRET)
    t = Tree(work / "base").file("d/file.txt", "inside\n").file("d/sub/file.txt", "inside\n").file("e/file.txt", "inside\n")
    f = fence(options=["--live"])
    keep = f.sh("cat d/file.txt d/sub/file.txt; ls -R")
    assert keep.out.count("inside") == 2
    os.rename(t.at("d"), t.at("moved"))
    os.symlink(outside.root, t.at("d"))
    os.rename(t.at("e/file.txt"), t.at("e/old"))
    os.symlink(outside.root / "file.txt", t.at("e/file.txt"))
    for _ in range(30):
        # as a file of the fence; the kernel itself may follow the new symlink as it would any, so it is not given the chance
        got = f.python(
            "say(content('d/sub/file.txt')) if not os.path.islink('d') else None; say(attempt(os.open, 'e/file.txt', os.O_RDONLY|os.O_NOFOLLOW)); say(put('d/new') if not os.path.islink('d') else '')"
        )
        assert SECRET not in got.stdout
        time.sleep(0.05)
    assert sorted(os.listdir(work / "outside")) == ["file.txt", "sub"], "written outside the base"
