"""Ignore files mean here what they mean to git, which is asked about trees and patterns at random."""

import os
import random
import subprocess

import pytest
from agentfense._archive import scan
from agentfense._ignore import IgnoreRules

NAMES = ["a", "b", "ab", "abc", ".x", "a b", "x.py", "[a]", "é", "!b", "#c", "a\\b", "build", "a-b", "Q"]
PIECES = ["a", "b", "c", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[]a]", "\\*", "\\a", ".", "x", " ", "é", "[a", "py"]
ROUNDS = 60


def git(top, *args, **options):
    environment = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["git", *args], cwd=top, env=environment, capture_output=True, timeout=60, **options)


def random_pattern(rng):
    parts = ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 2))) for _ in range(rng.randint(1, 3))]
    # "a**/b" means to some versions of git what its manual says it does not.
    parts = [rng.choice(["*", "**"]) if "**" in part else part for part in parts]
    text = "/".join(parts)
    return rng.choice(["", "", "", "!", "/", "!/"]) + text + rng.choice(["", "", "", "/", " ", "\\ "])


def pattern_of(rng, path):
    """One that has to do with a path that is there."""
    parts = path.split("/")
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(len(parts))
        name = parts[at]
        parts[at] = rng.choice(["*", "**", name[0] + "*", "?" * len(name), f"[{name[0]}]" + name[1:], "*" + name[-1], name])
        if rng.random() < 0.3:
            parts.insert(at, "**")
    if rng.random() < 0.3:
        parts = parts[1:] or parts
    return rng.choice(["", "", "!", "/", "!/"]) + "/".join(parts) + rng.choice(["", "", "/"])


def random_tree(rng, top):
    directories = [top]
    for _ in range(rng.randint(3, 8)):
        path = os.path.join(rng.choice(directories), rng.choice(NAMES))
        if not os.path.exists(path):
            os.mkdir(path)
            directories.append(path)
    for _ in range(rng.randint(5, 25)):
        path = os.path.join(rng.choice(directories), rng.choice(NAMES))
        if not os.path.exists(path):
            open(path, "w").close()
    for directory in rng.sample(directories, min(len(directories), rng.randint(1, 3))):
        inside = list(everything(directory)) or ["a"]
        lines = [random_pattern(rng) for _ in range(rng.randint(0, 3))] + ["# comment", ""]
        lines += [pattern_of(rng, rng.choice(inside)) for _ in range(rng.randint(1, 5))]
        with open(os.path.join(directory, ".gitignore"), "w", newline="") as file:
            file.write(rng.choice(["\n", "\r\n"]).join(lines))


def everything(top):
    for directory, directories, files in os.walk(top):
        if ".git" in directories:
            directories.remove(".git")
        for name in directories + files:
            yield os.path.relpath(os.path.join(directory, name), top)


def ignored_by_git(top, paths):
    done = git(top, "check-ignore", "--no-index", "-z", "--stdin", input="\0".join(paths).encode())
    assert done.returncode in (0, 1), done.stderr
    return {path for path in done.stdout.decode().split("\0") if path}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_trees_are_read_as_git_reads_them(tmp_path, seed):
    rng = random.Random(seed)
    git(tmp_path, "init", "-q", check=True)
    for name in (".git/info/exclude",):
        (tmp_path / name).write_text("")
    random_tree(rng, str(tmp_path))
    paths = list(everything(tmp_path))
    ours = {entry.path for entry in scan(str(tmp_path), IgnoreRules.of([".git"], include_defaults=False))}
    wanted = set(paths) - ignored_by_git(tmp_path, paths)
    patterns = {str(file.relative_to(tmp_path)): file.read_text() for file in tmp_path.rglob(".gitignore")}
    assert ours == wanted, patterns


def kept(top, **options):
    return sorted(entry.path for entry in scan(str(top), IgnoreRules.of(**options)) if entry.is_file)


def test_the_manual_s_own_cases(tree):
    top = tree({
        ".gitignore": "*.log\n!keep.log\n/anchored\nonly-dir/\nfoo/**/bar\n**/deep/x\nall/**\n!all/\n",
        "a.log": "", "keep.log": "", "sub/keep.log": "", "anchored": "", "sub/anchored": "", "only-dir/x": "", "sub/only-dir": "",
        "foo/bar": "", "foo/1/2/bar": "", "foo/baz": "", "1/2/deep/x": "", "deep/x": "", "all/x": "",
    })  # fmt: skip
    assert kept(top) == [".gitignore", "foo/baz", "keep.log", "sub/anchored", "sub/keep.log", "sub/only-dir"]


def test_deeper_files_and_later_kinds_win(tree):
    top = tree({
        ".gitignore": "*.a\n*.b\n", ".sandboxignore": "*.c\n", ".agentfenseignore": "!x.a\n",
        "sub/.gitignore": "!*.b\n", "x.a": "", "y.a": "", "x.b": "", "x.c": "", "sub/x.b": "", "sub/x.c": "",
    })  # fmt: skip
    assert [path for path in kept(top) if not path.endswith("ignore")] == ["sub/x.b", "x.a"]


def test_defaults_can_be_undone_and_arguments_cannot(tree):
    top = tree({".agentfenseignore": "!venv/\n!*.secret\n", "venv/x": "", "node_modules/y": "", "z.secret": "", ".env": "", ".env.local": ""})
    assert kept(top, patterns=["*.secret"]) == [".agentfenseignore", ".env.local", "venv/x"]


def test_an_ignore_file_that_is_a_link_is_not_followed(tree, tmp_path):
    (tmp_path / "outside").write_text("*")
    top = tree({"a": ""})
    (top / ".gitignore").symlink_to(tmp_path / "outside")
    assert kept(top) == ["a"]


def test_nothing_in_an_ignored_directory_comes_back(tree):
    top = tree({".gitignore": "build/\n!build/keep\n", "build/keep": "", "a": ""})
    assert kept(top) == [".gitignore", "a"]
