"""The table of levels, operation by operation; passages; writable roots; presets on the example project."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from harness import HERE, Tree, sandbox_ids

RULES = ["/none/**=none", "/view/**=view", "/read/**=read", "/write/**=write"]


def build(root):
    t = Tree(root)
    for level in ("none", "view", "read", "write"):
        t.file(f"{level}/file", f"{level} content\n").file(f"{level}/tool", "#!/bin/sh\nexit 7\n", 0o755).link(
            "file", f"{level}/link"
        )
        t.file(f"{level}/dir/inner", "inner\n").dir(f"{level}/empty")
        t.file(f"{level}/plain-mode", "x", 0o640).file(f"{level}/wide-mode", "x", 0o666)
        os.setxattr(t.at(f"{level}/file"), "user.note", b"n")
    t.settle()
    return t


# Each operation is one expression on {p} = the level's directory; what it gives for none, view, read, write. "ok" means success or a
# result that is no errno.
LOOK = {
    "stat": ("attempt(os.stat, '{p}/file')", "ENOENT ok ok ok"),
    "lstat of a link": ("attempt(os.lstat, '{p}/link')", "ENOENT ok ok ok"),
    "stat of a directory": ("attempt(os.stat, '{p}/dir')", "ENOENT ok ok ok"),
    "list": ("attempt(os.listdir, '{p}')", "ENOENT ok ok ok"),
    "chdir": ("attempt(os.chdir, '{p}')", "ENOENT ok ok ok"),
    "access for existence": ("os.access('{p}/file', os.F_OK) or 'ENOENT'", "ENOENT ok ok ok"),
    "O_PATH": ("attempt(os.open, '{p}/file', os.O_PATH)", "ENOENT ok ok ok"),
}
READ = {
    "open to read": ("opened('{p}/file')", "ENOENT EACCES ok ok"),
    "read": ("content('{p}/file')", "ENOENT EACCES ok ok"),
    "exec": (
        "'E' + errno.errorcode[subprocess_code('{p}/tool')][1:] if subprocess_code('{p}/tool') != 107 else 'ok'",
        "ENOENT EACCES ok ok",
    ),
    "readlink": ("attempt(os.readlink, '{p}/link')", "ENOENT EACCES ok ok"),
    "getxattr": ("attempt(os.getxattr, '{p}/file', 'user.note')", "ENOENT EACCES ok ok"),
    "open of a link's target": ("opened('{p}/link')", "ENOENT EACCES ok ok"),
    "mmap": (
        "attempt(lambda: mmap.mmap(os.open('{p}/file', 0), 4, mmap.MAP_SHARED, mmap.PROT_READ)[:])",
        "ENOENT EACCES ok ok",
    ),
    "access to read": ("os.access('{p}/file', os.R_OK)", "False False True True"),
    "access to execute": ("os.access('{p}/tool', os.X_OK)", "False False True True"),
    "access to a directory": ("os.access('{p}/dir', os.X_OK)", "False True True True"),
}
WRITE = {
    "open to write": ("opened('{p}/file', os.O_WRONLY)", "ENOENT EACCES EACCES ok"),
    "open to read and write": ("opened('{p}/file', os.O_RDWR)", "ENOENT EACCES EACCES ok"),
    "open to append": ("opened('{p}/file', os.O_WRONLY|os.O_APPEND)", "ENOENT EACCES EACCES ok"),
    "open with O_TRUNC": ("opened('{p}/file', os.O_WRONLY|os.O_TRUNC)", "ENOENT EACCES EACCES ok"),
    "truncate": ("attempt(os.truncate, '{p}/file', 1)", "ENOENT EACCES EACCES ok"),
    "create": ("opened('{p}/new', os.O_CREAT|os.O_WRONLY)", "ENOENT EACCES EACCES ok"),
    "create what is there": ("opened('{p}/file', os.O_CREAT|os.O_EXCL|os.O_WRONLY)", "ENOENT EEXIST EEXIST EEXIST"),
    "mkdir": ("attempt(os.mkdir, '{p}/new')", "ENOENT EACCES EACCES ok"),
    "mkfifo": ("attempt(os.mkfifo, '{p}/new')", "ENOENT EACCES EACCES ok"),
    "mknod": ("attempt(os.mknod, '{p}/new')", "ENOENT EACCES EACCES ok"),
    "symlink": ("attempt(os.symlink, 'x', '{p}/new')", "ENOENT EACCES EACCES ok"),
    "unlink": ("attempt(os.unlink, '{p}/file')", "ENOENT EACCES EACCES ok"),
    "unlink of a link": ("attempt(os.unlink, '{p}/link')", "ENOENT EACCES EACCES ok"),
    "rmdir": ("attempt(os.rmdir, '{p}/empty')", "ENOENT EACCES EACCES ok"),
    "rename away": ("attempt(os.rename, '{p}/file', 'write/taken')", "ENOENT EACCES EACCES ok"),
    "rename here": ("attempt(os.rename, 'write/plain-mode', '{p}/new')", "ENOENT EACCES EACCES ok"),
    "rename over": ("attempt(os.rename, 'write/plain-mode', '{p}/file')", "ENOENT EACCES EACCES ok"),
    "rename within": ("attempt(os.rename, '{p}/file', '{p}/new')", "ENOENT EACCES EACCES ok"),
    "exchange": ("attempt(exchange, 'write/plain-mode', '{p}/file')", "ENOENT EACCES EACCES ok"),
    "link from": ("attempt(os.link, '{p}/file', 'write/taken')", "ENOENT EACCES EACCES ok"),
    "link to": ("attempt(os.link, 'write/plain-mode', '{p}/new')", "ENOENT EACCES EACCES ok"),
    "chmod": ("attempt(os.chmod, '{p}/file', 0o600)", "ENOENT EACCES EACCES ok"),
    "chmod of a directory": ("attempt(os.chmod, '{p}/dir', 0o700)", "ENOENT EACCES EACCES ok"),
    "utimens": ("attempt(os.utime, '{p}/file', ns=(1, 2))", "ENOENT EACCES EACCES ok"),
    "utimens to now": ("attempt(os.utime, '{p}/file')", "ENOENT EACCES EACCES ok"),
    "setxattr": ("attempt(os.setxattr, '{p}/file', 'user.x', b'y')", "ENOENT EACCES EACCES ok"),
    "removexattr": ("attempt(os.removexattr, '{p}/file', 'user.note')", "ENOENT EACCES EACCES ok"),
    "access to write": ("os.access('{p}/file', os.W_OK)", "False False False True"),
    "bind a socket": ("attempt(socket.socket(socket.AF_UNIX).bind, '{p}/new')", "ENOENT EACCES EACCES ok"),
}
OPERATIONS = {**LOOK, **READ, **WRITE}

PRELUDE = """
def subprocess_code(path):
    pid = os.fork()
    if pid == 0:
        try: os.execv(path, [path])
        except OSError as e: os._exit(e.errno)
    code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    return 107 if code == 7 else code
def verdict(x):
    return x if isinstance(x, str) and x[:1] == "E" or x is False or (x is True and WANT_BOOL) else "ok"
"""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_of_levels(work, fence, operation):
    expression, want = OPERATIONS[operation]
    build(work / "base")
    f = fence(RULES)
    bools = "True" in want or "False" in want
    got = []
    for level in ("none", "view", "read", "write"):
        ran = f.python(PRELUDE + f"WANT_BOOL = {bools}\nsay(verdict({expression.format(p=level)}))").ok()
        got.append(ran.out.strip())
    assert " ".join(got) == want


def test_names_hidden_by_file_rules_answer_as_the_table_says(work, fence):
    """Among visible siblings: ENOENT on what would exist, EACCES for names that would be created, existing or not."""
    Tree(work / "base").file("d/secret", "s").file("d/open", "o")
    f = fence(["/**=write", "/d/secret=none", "/d/unborn=none"])
    got = f.python("""
for p in ("d/secret", "d/unborn"):
    say(exists(p), opened(p), opened(p, os.O_WRONLY), opened(p, os.O_CREAT|os.O_WRONLY), opened(p, os.O_CREAT|os.O_EXCL|os.O_RDWR), attempt(os.mkdir, p), attempt(os.symlink, "x", p), attempt(os.mkfifo, p),
        attempt(os.unlink, p), attempt(os.rmdir, p), attempt(os.rename, p, "d/n"), attempt(os.rename, "d/open", p), attempt(os.link, "d/open", p), attempt(os.link, p, "d/n"), attempt(os.chmod, p, 0o600),
        attempt(os.truncate, p, 0), attempt(os.utime, p), attempt(os.setxattr, p, "user.x", b""), attempt(os.listxattr, p))
say(listing("d"))
""").ok().out.splitlines()
    want = "ENOENT ENOENT ENOENT EACCES EACCES EACCES EACCES EACCES ENOENT ENOENT ENOENT EACCES EACCES ENOENT ENOENT ENOENT ENOENT ENOENT ENOENT"
    assert got == [want, want, "['open']"]


def test_modes_show_what_the_level_allows(work, fence):
    build(work / "base")
    f = fence(RULES)
    got = f.python("""
for level in ("view", "read", "write"):
    for name in ("file", "tool", "plain-mode", "wide-mode", "dir", "empty"):
        m = os.stat(f"{level}/{name}").st_mode & 0o7777
        s = os.stat(f"{level}/{name}")
        say(level, name, oct(m), s.st_uid == os.getuid(), s.st_gid == os.getgid())
""").ok().out.splitlines()
    shown = {tuple(line.split()[:2]): line.split()[2:] for line in got}
    assert all(v[1:] == ["True", "True"] for v in shown.values()), "files belong to the sandbox's user"
    for name in ("file", "tool", "plain-mode", "wide-mode"):
        view, read, write = (int(shown[level, name][0], 8) for level in ("view", "read", "write"))
        assert view == 0, f"view shows no bits on a file, {name} shows {view:o}"
        assert read & 0o222 == 0 and read & 0o400, f"read shows no w: {name} {read:o}"
        assert write & 0o600 == 0o600
    assert int(shown["read", "tool"][0], 8) & 0o100 and int(shown["write", "tool"][0], 8) & 0o100
    assert int(shown["write", "file"][0], 8) == 0o644 and int(shown["write", "plain-mode"][0], 8) == 0o640
    for level in ("view", "read"):
        for name in ("dir", "empty"):
            mode = int(shown[level, name][0], 8)
            assert mode & 0o500 == 0o500 and not mode & 0o222, f"{level}/{name} {mode:o}"
    assert int(shown["write", "dir"][0], 8) == 0o755


def test_access_agrees_with_what_happens(work, fence):
    """For every path and mode: access(2) says yes exactly when the open succeeds."""
    build(work / "base")
    f = fence([*RULES, "/write/dir/**=read", "/read/dir/inner=write", "/view/dir/inner=read"])
    got = f.python("""
wrong = []
for top, dirs, files in os.walk("."):
    for n in files:
        p = os.path.join(top, n)
        if os.path.islink(p): continue
        for m, flags in ((os.R_OK, os.O_RDONLY), (os.W_OK, os.O_WRONLY), (os.R_OK|os.W_OK, os.O_RDWR)):
            if os.access(p, m) != (opened(p, flags) == "ok"): wrong.append((p, m))
            if attempt(faccessat2, p, m, 0x200) not in ((0, "ok") if os.access(p, m) else ("EACCES",)): wrong.append((p, m, "faccessat2"))
    for n in dirs:
        p = os.path.join(top, n)
        made = attempt(os.mkdir, p + "/probe")
        if made == "ok":
            os.rmdir(p + "/probe")
            if not os.access(p, os.W_OK): wrong.append((p, "makes but denies"))
say(wrong)
""").ok().out.strip()
    assert got == "[]"


def test_a_directory_is_writable_when_a_child_could_be(work, fence):
    """A directory shows w when some direct child name could be write; the daemon decides which."""
    Tree(work / "base").file("d/a", "a").file("e/a", "a").dir("f")
    f = fence(["/**=read", "/d/*.log=write", "/f/out=write"])
    got = f.python("""
say(os.access("d", os.W_OK), os.access("e", os.W_OK), os.access("f", os.W_OK), os.access(".", os.W_OK))
say(put("d/x.log"), put("d/x.txt"), put("e/x.log"), put("f/out"), put("f/in"), attempt(os.mkdir, "d/sub.log"), attempt(os.mkdir, "d/sub"), attempt(os.unlink, "d/x.log"), attempt(os.unlink, "d/a"))
""").ok().out.splitlines()
    assert got == ["True False True False", "ok EACCES EACCES ok EACCES ok EACCES ok EACCES"]


# ---- passages ----


def test_a_passage_shows_only_what_is_visible(work, fence):
    t = Tree(work / "base")
    t.file("secrets/public.key", "pub").file("secrets/private.key", "x").file("secrets/deep/er/ok.txt", "ok").file(
        "secrets/deep/er/no.txt", "no"
    ).file("secrets/deep/other", "no")
    t.file("closed/only/hidden", "x").dir("bare")
    f = fence(
        [
            "/**=read",
            "/secrets/**=none",
            "/secrets/public.key=read",
            "/secrets/deep/er/ok.txt=write",
            "/closed/**=none",
            "/bare/**=none",
        ]
    )
    got = f.python("""
say(listing(), listing("secrets"), listing("secrets/deep"), listing("secrets/deep/er"))
say(content("secrets/public.key"), exists("secrets/private.key"), content("secrets/deep/er/ok.txt"), exists("secrets/deep/other"), exists("closed"), exists("bare"))
say(put("secrets/deep/er/ok.txt", b"new"), put("secrets/deep/er/x"), attempt(os.mkdir, "secrets/new"), attempt(os.rmdir, "secrets"), attempt(os.chmod, "secrets", 0o777), attempt(os.rename, "secrets", "x"), attempt(os.utime, "secrets"), attempt(os.setxattr, "secrets", "user.x", b"y"))
say(oct(os.stat("secrets").st_mode & 0o777), os.stat("secrets").st_nlink, os.access("secrets", os.X_OK), os.access("secrets", os.W_OK))
""").ok().out.splitlines()
    assert got[0] == "['secrets'] ['deep', 'public.key'] ['er'] ['ok.txt']"
    assert got[1] == "b'pub' ENOENT b'ok' ENOENT ENOENT ENOENT"
    words = got[2].split()
    assert words[0] == "ok" and words[1] == "EACCES" and words[2] == "EACCES"
    assert words[3] in ("EACCES", "ENOTEMPTY") and words[4:] == ["EACCES"] * 4, words
    assert got[3].endswith("1 True False")


def test_a_passage_once_shown_stays(work, fence):
    """When the last visible descendant goes, the passage stays until it is removed itself; another world's would tell otherwise."""
    Tree(work / "base").file("p/q/ok.txt", "ok").file("p/q/hidden", "h")
    f = fence(["/**=read", "/p/**=none", "/p/q/ok.txt=write"])
    got = f.python("""
say(listing("p/q"), attempt(os.unlink, "p/q/ok.txt"), exists("p"), exists("p/q"), listing("p/q"), listing("p"))
say(put("p/q/ok.txt", b"again"), content("p/q/ok.txt"))
""").ok().out.splitlines()
    assert got == ["['ok.txt'] ok ok ok [] ['q']", "ok b'again'"]


def test_a_hidden_directory_is_absent_until_something_visible_is_in_it(work, fence):
    t = Tree(work / "base").file("p/hidden", "h").file("x", "x")
    f = fence(["/**=read", "/p/**=none", "/p/ok.txt=read"], options=["--live"])
    assert f.python("say(listing(), exists('p'))").ok().out == "['x'] ENOENT\n"
    t.file("p/ok.txt", "ok")
    from harness import wait_until

    assert wait_until(lambda: f.python("say(content('p/ok.txt'))").out == "b'ok'\n")
    assert f.python("say(listing(), listing('p'))").ok().out == "['p', 'x'] ['ok.txt']\n"


def test_extension_rules_alone_show_a_way_to_the_files(work, fence):
    t = (
        Tree(work / "base")
        .file("a/b/c/code.py", "p")
        .file("a/b/c/data.txt", "d")
        .file("a/other/data.txt", "d")
        .file("top.py", "t")
    )
    f = fence(["**/*.py=read"])
    got = f.sh("find . | sort").ok().out.split()
    assert got == [".", "./a", "./a/b", "./a/b/c", "./a/b/c/code.py", "./top.py"]


def test_no_rules_that_match_show_an_empty_root(work, fence):
    Tree(work / "base").file("a", "a").file("d/b", "b")
    f = fence(["/nothing/here=read"])
    got = (
        f.python(
            "say(listing(), exists('a'), put('new'), attempt(os.mkdir, 'd'), os.stat('.').st_nlink, attempt(os.rmdir, '.'))"
        )
        .ok()
        .out
    )
    assert got == "[] ENOENT EACCES EACCES 1 EINVAL\n"


# ---- writable roots ----


def test_writable_roots_are_there_from_the_start(work, fence):
    Tree(work / "base").file("src/a", "a")
    f = fence(["/**=read", "/output/**=write", "/deep/er/logs/=write", "/*.tmp=write", "/exact=write"])
    got = (
        f.python(
            "say(listing(), listing('deep'), put('output/f', b'x'), content('output/f'), put('deep/er/logs/l'), put('deep/er/x'), put('x'), put('deep/x'), exists('exact'))"
        )
        .ok()
        .out
    )
    assert got == "['deep', 'output', 'src'] ['er'] ok b'x' ok EACCES EACCES EACCES ENOENT\n"


# ---- inodes with the presented owner ----


def test_everything_belongs_to_the_sandboxs_user(work, fence):
    t = Tree(work / "base").file("a", "a").dir("d").link("a", "l")
    if sandbox_ids()[0]:
        os.chown(t.at("a"), 4711, 4712)
    f = fence()
    f.sh("touch new; mkdir newdir; ln -s x newlink; echo more >> a")
    got = (
        f.python(
            "say({(os.lstat(n).st_uid == os.getuid(), os.lstat(n).st_gid == os.getgid()) for n in os.listdir('.') + ['.']})"
        )
        .ok()
        .out
    )
    assert got == "{(True, True)}\n"


# ---- presets on the example project ----

SHOP = HERE.parent.parent / "examples" / "shop"


def secret_like(path):
    name = os.path.basename(path)
    return (
        (name.startswith(".env") and not name.endswith((".example", ".sample")))
        or name in (".npmrc", ".netrc", ".pypirc", ".git-credentials")
        or name.startswith("id_")
        or name.endswith((".p12", ".pfx"))
        or "/secrets/" in path + "/"
        or "/.aws/" in path + "/"
        or "/.kube/" in path + "/"
    )


@pytest.mark.skipif(not SHOP.exists(), reason="no examples/shop")
@pytest.mark.parametrize("preset", ["agent-safe", "development", "full-access", "read-only", "view-only"])
def test_presets_on_the_example_project(work, fence, preset):
    """The mount shows exactly what the presets mean: secrets hidden by those that hide, nothing written where nothing may be."""
    shutil.copytree(SHOP, work / "base", symlinks=True)
    files = [os.path.relpath(os.path.join(t, n), work / "base") for t, _, ns in os.walk(work / "base") for n in ns]
    f = fence((), preset=preset)
    ran = f.python("""
for t, ds, fs in os.walk("."):
    for n in fs:
        p = os.path.join(t, n)
        say(os.path.relpath(p), content(p) if isinstance(content(p), str) else "read", opened(p, os.O_WRONLY))
""").ok()
    seen = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines()}
    hidden = sorted(set(files) - set(seen))
    if preset in ("agent-safe", "development"):
        assert hidden and not [p for p in seen if secret_like(p)], (hidden, sorted(seen))
    if preset in ("full-access", "read-only", "view-only"):
        assert not [p for p in hidden if not secret_like(p)], hidden
    wants = {
        "full-access": {("read", "ok")},
        "development": {("read", "ok")},
        "read-only": {("read", "EACCES")},
        "view-only": {("EACCES", "EACCES")},
    }
    if preset in wants:
        assert {tuple(v) for v in seen.values()} == wants[preset]
    else:
        assert ("read", "EACCES") in {tuple(v) for v in seen.values()}
