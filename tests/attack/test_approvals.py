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
        host.call("discard", name)
    host.base = base


# ---- what runs by itself ----


@pytest.mark.parametrize("verb", ["apply", "approve"])
@pytest.mark.parametrize("more", [[], ["--force"], ["--json"], ["--all"]], ids=" ".join)
def test_traps_are_not_applied_without_a_word(box, verb, more):
    assert box.run("-q", "--name", "traps", *ALL, command=SET).code == 0
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
    """Those of a workspace run them. For a sandbox of `run` they are not run, and so it is refused, not let through."""
    box.write(".agentfense/hooks.json", json.dumps([{"name": "no", "command": "false"}]))
    assert box.run("-q", "--name", "hooked", *ALL, command="echo evil > evil.txt").code == 0
    for more in ([], ["--force", "--acknowledge"]):
        refused = box.call(verb, "hooked", *more)
        assert refused.code == 1 and "--no-verify" in refused.err, refused
        assert not (box.base / "evil.txt").exists()
    assert box.call(verb, "hooked", "--no-verify").code == 0 and (box.base / "evil.txt").exists()


@pytest.mark.xfail(strict=True, reason="hooks are not run for sandboxes of `run` yet")
def test_hooks_are_run_for_a_sandbox_of_run(box):
    box.write(".agentfense/hooks.json", json.dumps([{"name": "yes", "command": "true"}]))
    assert box.run("-q", "--name", "hooked", *ALL, command="echo good > good.txt").code == 0
    done = box.call("approve", "hooked")
    assert done.code == 0 and b"hook yes: passed" in done.out and (box.base / "good.txt").exists()
