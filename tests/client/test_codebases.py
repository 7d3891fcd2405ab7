"""codebase and cp, without a server and with one."""

import filecmp
import io
import os
import stat
import subprocess
import tarfile


def same_trees(a, b):
    """Names, kinds, contents and executable bits."""
    def listing(top):
        found = {}
        for path in sorted(top.rglob("*")):
            name = str(path.relative_to(top))
            if path.is_symlink():
                found[name] = ("link", os.readlink(path))
            elif path.is_dir():
                found[name] = ("dir",)
            else:
                found[name] = ("file", path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR))
        return found

    assert listing(a) == listing(b)


def test_a_tree_comes_back_as_it_was_put(cli, codebase, tree, tmp_path):
    cli.run("codebase", "get", codebase, tmp_path / "back")
    same_trees(tree, tmp_path / "back")


def test_create_tells_the_id_or_the_apis_answer(cli):
    made = cli.json("codebase", "create", "json", "--owner", "someone")
    assert (made["name"], made["ownerId"], made["id"][:3]) == ("json", "someone", "cb_")
    assert cli.say("codebase", "rm", made["id"]) == made["id"]


def test_the_list_is_a_table_ids_or_json(cli, codebase):
    lines = cli.say("codebase", "ls").splitlines()
    assert lines[0].split() == ["ID", "NAME", "OWNER", "FILES", "SIZE", "VERSION", "AGE"]
    assert any(line.startswith(codebase) for line in lines[1:])
    assert codebase in cli.say("codebase", "ls", "-q").splitlines()
    answer = cli.json("codebase", "ls")
    assert answer["nextPageToken"] == ""
    assert [item["fileCount"] for item in answer["codebases"] if item["id"] == codebase] == [5]


def test_files_are_listed(cli, codebase):
    assert cli.say("codebase", "files", "-q", codebase).splitlines() == ["README", "empty", "link", "run.sh", "src"]
    assert cli.say("codebase", "files", "-q", "-r", codebase, "src").splitlines() == ["src/a.py", "src/deep", "src/deep/b b.txt"]
    kinds = {line.split()[-1]: line.split()[0] for line in cli.say("codebase", "files", codebase).splitlines()[1:]}
    assert kinds == {"README": "file", "empty": "dir", "link": "link", "run.sh": "exec", "src": "dir"}
    assert [file["path"] for file in cli.json("codebase", "files", codebase)["files"] if file["isDir"]] == ["empty", "src"]


def test_a_file_goes_and_comes(cli, codebase, tmp_path):
    (tmp_path / "x").write_bytes(os.urandom(300000))
    (tmp_path / "x").chmod(0o755)
    result = cli.json("codebase", "put", codebase, tmp_path / "x", "new dir/%41?.bin")
    assert (result["filePath"], result["size"]) == ("new dir/%41?.bin", "300000")
    cli.run("codebase", "get", codebase, "new dir/%41?.bin", tmp_path / "y")
    assert filecmp.cmp(tmp_path / "x", tmp_path / "y", shallow=False)
    assert os.access(tmp_path / "y", os.X_OK)


def test_cp_knows_which_way(cli, codebase, tmp_path, tree):
    assert cli.say("cp", tree / "README", f"{codebase}:docs/").startswith("docs/README: 8 bytes, version ")
    assert cli.say("cp", f"{codebase}:docs/README", "-") == "read me"
    cli.run("cp", f"{codebase}:src", tmp_path / "src")
    same_trees(tree / "src", tmp_path / "src")
    (tmp_path / "into").mkdir()
    cli.run("cp", f"{codebase}:README", tmp_path / "into")
    assert (tmp_path / "into" / "README").read_text() == "read me\n"
    cli.run("cp", "-", f"{codebase}:in", input=b"\0bytes\xff")
    assert cli.run("cp", f"{codebase}:in", "-").stdout == b"\0bytes\xff"
    archive = cli.run("cp", f"{codebase}:src", "-").stdout
    assert "a.py" in tarfile.open(fileobj=io.BytesIO(archive)).getnames()


def test_what_is_excluded_does_not_go(cli, codebase, tree):
    (tree / "src" / "deep" / "x.log").write_text("log")
    assert cli.say("codebase", "put", codebase, tree, "copy", "--exclude", "*.log", "--exclude", "src/a.*").startswith("4 files, ")
    assert cli.say("codebase", "files", "-rq", codebase, "copy").splitlines() == [
        "copy/README", "copy/empty", "copy/link", "copy/run.sh", "copy/src", "copy/src/deep", "copy/src/deep/b b.txt"]


def test_replace_removes_what_is_not_there(cli, codebase, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "only").write_text("x")
    cli.run("codebase", "put", "--replace", codebase, tmp_path / "one")
    assert cli.say("codebase", "files", "-rq", codebase) == "only"
    assert "whole codebase" in cli.run("codebase", "put", "--replace", codebase, tmp_path / "one", "sub", code=2).err


def test_versions_are_listed_and_come_back(cli, codebase):
    cli.run("cp", "-", f"{codebase}:README", input=b"changed\n")
    numbers = cli.say("codebase", "versions", "-q", codebase).split()
    assert numbers == ["2", "1"]
    assert cli.say("cp", "--version", "1", f"{codebase}:README", "-") == "read me"
    assert cli.say("codebase", "restore", codebase, "1", "README") == "version 3: 1 file changed"
    assert cli.say("cp", f"{codebase}:README", "-") == "read me"
    assert [version["number"] for version in cli.json("codebase", "versions", codebase)["versions"]] == ["3", "2", "1"]


def test_files_are_removed(cli, codebase):
    assert cli.say("codebase", "del", codebase, "src", "link").splitlines() == ["src", "link"]
    assert cli.say("codebase", "files", "-q", codebase).splitlines() == ["README", "empty", "run.sh"]


def test_a_failed_download_leaves_what_was_there(cli, codebase, tmp_path):
    (tmp_path / "kept").write_text("kept")
    assert "no 'nothing'" in cli.run("cp", f"{codebase}:nothing", tmp_path / "kept", code=125).err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir() if path.is_file()] == [("kept", "kept")]


def test_names_of_strangers_are_escaped(cli):
    made = cli.say("codebase", "create", "evil\x1b[31m")
    listed = cli.run("codebase", "ls").stdout
    assert b"\x1b" not in listed and b"evil\\" in listed
    assert b"\x1b" not in cli.run("codebase", "ls", "--json").stdout
    cli.run("codebase", "rm", made)


def test_more_than_a_page_is_listed_whole(cli):
    made = {cli.say("codebase", "create", "--owner", f"o{i}", "many") for i in range(3)}
    assert made <= set(cli.say("codebase", "ls", "-q").split())
    refusal = cli.run("codebase", "files", "many", code=125).err
    assert "'many' may be any of 3 codebases: " in refusal and all(one in refusal for one in made)
    cli.run("codebase", "rm", *made)


def test_a_name_of_ones_own_is_taken_once(cli):
    made = cli.say("codebase", "create", "shop")
    refusal = cli.run("codebase", "create", "shop", code=125).err
    assert "there is a codebase 'shop' already" in refusal and made in refusal
    other = cli.say("codebase", "create", "--owner", "somebody-else", "shop")
    cli.run("codebase", "rm", made, other)


def test_nothing_is_made_of_a_directory_that_is_not_there(cli):
    assert "'/no/such': No such file or directory" in cli.run("codebase", "create", "empty", "/no/such", code=125).err
    assert "empty" not in cli.say("codebase", "ls")


# ---- what git would run ----

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
       "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org", "PATH": os.environ["PATH"], "LC_ALL": "C"}


def git(place, *args, check=True):
    done = subprocess.run(["git", *args], cwd=place, env=GIT, capture_output=True, text=True, check=False, timeout=60)
    assert not check or done.returncode == 0, (args, done.stderr)
    return done.stdout


def arm(place, mark):
    """A repository in which whatever is called leaves a mark."""
    trap = f"touch {mark}; true"
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    for hook in ("pre-commit", "post-index-change", "post-checkout", "commit-msg"):
        (place / ".git/hooks" / hook).write_text(f"#!/bin/sh\n{trap}\n")
        (place / ".git/hooks" / hook).chmod(0o755)
    with open(place / ".git/config", "a", encoding="utf-8") as config:
        config.write(f"""[core] pager = {trap}
[Core]
\tfsmonitor = "{trap}; echo"
\tHooksPath = .git/hooks
\tsshCommand = {trap} \\
  more
[remote "origin"]
\turl = https://example.org/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
\tuploadpack = {trap}
[remote "evil"]
\turl = ext::sh -c {mark}
[filter "x"]
\tclean = {trap}
[alias]
\tst = !{trap}
[include]
\tpath = ../more
[includeIf "gitdir:/"]
\tpath = ../more
[user]
\tname = Somebody
\temail = "a@b\\n[core] fsmonitor=x"
[unheard]
\tof = {trap}
""")
    (place / ".git/config.worktree").write_text(f"[core]\n\tfsmonitor = {trap}\n")
    (place / ".git/info/attributes").write_text("* filter=x\n")
    (place / ".git/logs/link").symlink_to("../../more")
    (place / ".git/objects/info/alternates").write_text("/etc\n")
    (place / "more").write_text(f"[core]\n\tfsmonitor = {trap}\n")


def test_a_tree_comes_without_what_git_would_run(cli, tmp_path):
    top, mark = tmp_path / "top", tmp_path / "ran"
    (top / "sub").mkdir(parents=True)
    (top / "a").write_text("a\n")
    (top / "sub/b").write_text("b\n")
    arm(top / "sub", mark)
    arm(top, mark)
    (top / "linked").mkdir()
    (top / "linked/.git").symlink_to("../sub/.git")
    (top / "tree").mkdir()
    (top / "tree/.git").write_text("gitdir: ../sub/.git\n")
    (top / "bare").mkdir()
    for name in ("objects", "refs"):
        (top / "bare" / name).write_text("")
        (top / "bare" / name).chmod(0o755)
    (top / "bare/HEAD").write_text("ref: refs/heads/x\n")
    (top / "bare/config").write_text(f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = touch {mark};\n")
    (top / "out").symlink_to("/etc/passwd")
    (top / "sub/up").symlink_to("../../x")
    (top / "sub/in").symlink_to("../a")
    codebase = cli.say("codebase", "create", f"armed-{tmp_path.name}", top)
    try:
        done = cli.run("codebase", "get", codebase, tmp_path / "got")
        got = tmp_path / "got"
        for word in (".git/hooks/", "fsmonitor", "--git-as-is", "links that lead out", "out", "sub/up"):
            assert word in done.err, done.err
        assert "sub/in" not in done.err.split("links that lead out", 1)[1]
        for place in (got, got / "sub", got / "bare", got / "tree", got / "linked"):
            for words in (["status"], ["diff"], ["log"], ["st"], ["fetch", "evil"], ["add", "-A"], ["commit", "-m", "x"]):
                git(place, *words, check=False)
        assert not mark.exists()
        assert git(got, "log", "--format=%s").splitlines()[-1] == "first" and git(got / "sub", "show", "HEAD:b") == "b\n"
        assert git(got, "config", "--get", "remote.origin.url") == "https://example.org/x.git\n"
        assert git(got, "config", "--get", "user.name") == "Somebody\n"
        kept = set(git(got, "config", "--local", "--name-only", "--list").split())
        assert kept == {"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "remote.origin.url", "remote.origin.fetch",
                        "user.name"}
        names = sorted(str(path.relative_to(got / "sub/.git")) for path in (got / "sub/.git").iterdir())
        assert set(names) <= {"COMMIT_EDITMSG", "FETCH_HEAD", "HEAD", "config", "description", "index", "info", "logs", "objects", "refs"}
        for name in ("bare/HEAD", "tree/.git", "linked/.git", ".git/info/attributes", ".git/objects/info/alternates", ".git/logs/link"):
            assert not os.path.lexists(got / name)
        assert os.readlink(got / "out") == "/etc/passwd" and (got / "bare/config").exists()

        cli.run("cp", f"{codebase}:.git", tmp_path / "inner")
        assert not (tmp_path / "inner/hooks").exists() and "fsmonitor" not in (tmp_path / "inner/config").read_text()
        asis = cli.run("codebase", "get", "--git-as-is", codebase, tmp_path / "asis")
        assert asis.err == ""
        same_trees(top, tmp_path / "asis")
        assert "usage" not in asis.out and "--git-as-is" in cli.run("codebase", "put", "--git-as-is", codebase, tmp_path / "ran", code=2).err
    finally:
        cli.run("codebase", "rm", codebase)


def test_a_repository_that_comes_in_two_parts(cli, tmp_path):
    """What is there from before counts: a HEAD that was harmless has nothing put beside it that would make it one."""
    top, got = tmp_path / "top", tmp_path / "got"
    (top / "d").mkdir(parents=True)
    (top / "d/HEAD").write_text("ref: refs/heads/x\n")
    (top / "d/config").write_text("[core]\n\tfsmonitor = evil\n")
    codebase = cli.say("codebase", "create", f"parts-{tmp_path.name}", top)
    try:
        assert cli.run("codebase", "get", codebase, got).err == ""
        cli.run("codebase", "del", codebase, "d/HEAD")
        (tmp_path / "more/objects/x").mkdir(parents=True)
        (tmp_path / "more/refs").mkdir()
        (tmp_path / "more/objects/x/y").write_text("")
        (tmp_path / "more/refs/z").write_text("")
        cli.run("codebase", "put", codebase, tmp_path / "more", "d/")
        done = cli.run("codebase", "get", codebase, got)
        assert "d/objects/x/y" in done.err and "d/refs/z" in done.err
        assert not (got / "d/objects").exists() and not (got / "d/refs").exists()
    finally:
        cli.run("codebase", "rm", codebase)
