"""What an agent wants to slip into the project: whichever verb takes its changes over, what runs by itself later needs a word, what was not shown stays
in the sandbox, and what lands is what was shown."""

import json
import os
import stat
import subprocess

import pytest
from run_host import hash_tree

ALL = ["--rule", "/**=write"]

# Each does something on the host without being called by name.
TRAPS = {".envrc": "rm -rf ~\n", ".github/workflows/x.yml": "on: push\n", ".vscode/tasks.json": "{}\n", ".husky/pre-commit": "#!/bin/sh\n"}
SET = "; ".join(f"mkdir -p $(dirname {path}); printf '%s' '{text}' > {path}" for path, text in TRAPS.items()) + "; ln -s /etc/passwd out; echo fine > fine.txt"


@pytest.fixture
def box(host):
    """A project of its own for each test, and sandboxes over it, by `agentfense run`."""
    base, host.base = host.base, host.dir / f"of-{os.urandom(4).hex()}"
    host.base.mkdir()
    host.write("hello.txt", "hello\n")
    yield host
    for name in host.names():
        host.call("rm", "--purge", name)
    host.base = base


# ---- what runs by itself ----


@pytest.mark.parametrize("verb", ["apply", "approve"])
@pytest.mark.parametrize("more", [[], ["--force"], ["--json"], ["--all"]], ids=" ".join)
def test_traps_are_not_applied_without_a_word(box, verb, more):
    assert box.run("-q", "--name", "traps", *ALL, command=SET).code == 0
    assert box.call("diff", "traps").code == 0
    before = hash_tree(box.base)
    if verb == "apply" and more == ["--all"]:
        more = ["--keep"]
    refused = box.call(verb, "traps", *more)
    assert refused.code == 1, refused
    assert hash_tree(box.base) == before
    told = refused.err + refused.out.decode()
    for path in (*TRAPS, "out"):
        assert path in told, (path, refused)
    assert box.call(verb, "traps", "fine.txt").code == 0
    assert sorted(p.name for p in box.base.iterdir()) == ["fine.txt", "hello.txt"]
    done = box.call(verb, "traps", "--acknowledge")
    assert done.code == 0 and (box.base / ".envrc").exists() and (box.base / "out").is_symlink(), done


def test_a_directory_of_traps_named_as_a_whole(box):
    assert box.run("-q", "--name", "traps", *ALL, command=SET).code == 0
    for verb in ("apply", "approve"):
        for path in (".github", ".", "/", str(box.base)):
            assert box.call(verb, "traps", path).code != 0, (verb, path)
    assert not (box.base / ".github").exists()


# ---- hooks ----


@pytest.mark.parametrize("verb", ["apply", "approve"])
def test_a_project_whose_hooks_would_refuse_it(box, verb):
    box.write(".agentfense/hooks.json", json.dumps([{"name": "no", "command": "false"}]))
    assert box.run("-q", "--name", "hooked", *ALL, command="echo evil > evil.txt").code == 0
    assert box.call("diff", "hooked").code == 0
    for more in ([], ["--force", "--acknowledge"]):
        refused = box.call(verb, "hooked", *more)
        assert refused.code == 1 and "hook no: failed" in refused.err, refused
        assert not (box.base / "evil.txt").exists()
    assert box.call(verb, "hooked", "--no-verify").code == 0 and (box.base / "evil.txt").exists()


def test_hooks_are_run_for_a_sandbox_of_run(box):
    box.write(".agentfense/hooks.json", json.dumps([{"name": "yes", "command": "true"}]))
    assert box.run("-q", "--name", "hooked", *ALL, command="echo good > good.txt").code == 0
    done = box.call("approve", "--all", "hooked")
    assert done.code == 0 and b"hook yes: passed" in done.out and (box.base / "good.txt").exists()


# ---- modes ----

OPEN = """
umask 0; echo new > plain; chmod 666 plain; echo '#!/bin/sh' > tool; chmod 777 tool; echo own > own; chmod 600 own
mkdir made made/deep there/in; chmod 777 made made/deep there there/in
for place in made made/deep there there/in; do echo x > $place/f; chmod 666 $place/f; done
echo more >> kept; chmod 7777 tool 2>/dev/null || chmod 777 tool; mv moved gone; rm -r again; mkdir again; chmod 777 again; echo x > again/f; chmod 666 again/f
"""


def modes(place):
    return {str(path.relative_to(place)): stat.S_IMODE(path.lstat().st_mode) for path in sorted(place.rglob("*"))}


@pytest.fixture
def open_work(box):
    for name, mode in (("kept", 0o640), ("moved", 0o600), ("there/old", 0o644), ("again/old", 0o644)):
        box.write(name, "old\n", mode)
    (box.base / "there").chmod(0o750)
    assert box.run("-q", "--name", "open", *ALL, command=OPEN).code == 0
    return box


@pytest.mark.parametrize("verb", ["apply", "approve"])
def test_modes_that_the_diff_does_not_show(open_work, verb):
    """It says 100644 and 100755 of what is new, and nothing of directories: so nobody else can write to any of it."""
    shown = open_work.call("diff", "open").out.decode()
    assert "new file mode 100644" in shown and "new file mode 100755" in shown and "0666" not in shown and "0777" not in shown
    assert open_work.call(verb, "open", cwd=open_work.base).code == 0
    found = modes(open_work.base)
    assert found == {"again": 0o755, "again/f": 0o644, "gone": 0o600, "hello.txt": 0o644, "kept": 0o640, "made": 0o755, "made/deep": 0o755, "made/deep/f": 0o644,
                     "made/f": 0o644, "own": 0o600, "plain": 0o644, "there": 0o750, "there/f": 0o640, "there/in": 0o750, "there/in/f": 0o640, "there/old": 0o644,
                     "tool": 0o755}


def test_modes_in_a_directory_that_is_closed_to_others(open_work):
    """By its own mode, and by the umask of who applies it: as if they had made the files themselves."""
    open_work.base.chmod(0o700)
    assert open_work.call("apply", "open", "plain", "made", "--keep").code == 0
    assert {path: mode for path, mode in modes(open_work.base).items() if path[0] in "pm" and path != "moved"} == {
        "made": 0o700, "made/deep": 0o700, "made/deep/f": 0o600, "made/f": 0o600, "plain": 0o600}
    open_work.base.chmod(0o755)
    assert open_work.call("apply", "open", "tool", "again", "--keep", umask=0o027).code == 0
    assert (modes(open_work.base)["tool"], modes(open_work.base)["again/f"]) == (0o750, 0o640)


@pytest.mark.parametrize("form", [[], ["--patch"], ["--json"]], ids=["text", "patch", "json"])
def test_a_mode_that_lands_was_shown(box, form):
    """Also where git would not tell: a secret that becomes readable, and nothing else."""
    box.write("secret", "s\n", 0o600)
    box.write("both", "b\n", 0o600)
    assert box.run("-q", "--name", "finer", *ALL, command="chmod 644 secret both; echo more >> both").code == 0
    shown = box.call("diff", "finer", *form).out.decode()
    if form == ["--json"]:
        modes_shown = {file["path"]: (file["oldMode"], file["newMode"]) for file in json.loads(shown)["files"]}
        assert modes_shown == {"secret": (0o100600, 0o100644), "both": (0o100600, 0o100644)}
    else:
        assert shown.count("# mode 0644, was 0600" if form else "old mode 100600\nnew mode 100644\n") == 2, shown
    assert box.call("apply", "finer").code == 0 and modes(box.base)["secret"] == modes(box.base)["both"] == 0o644


def test_a_patch_with_finer_modes_is_still_one(box):
    for name in ("a", "b", "c"):
        box.write(name, "one\ntwo\n", 0o600)
    assert box.run("-q", "--name", "finer", *ALL, command="echo more >> a; chmod 644 a b; chmod 640 c; echo new > d").code == 0
    patch = box.call("diff", "finer", "--patch").out
    assert patch.count(b"# mode 06") == 3
    done = subprocess.run(["git", "apply", "-"], cwd=box.base, input=patch, capture_output=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(box.dir)})
    assert done.returncode == 0 and (box.base / "a").read_text() == "one\ntwo\nmore\n" and (box.base / "d").exists(), done
