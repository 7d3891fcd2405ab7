"""What holds the changes back may be the fence, an overlayfs of the kernel's, or a copy: what a person reviews is the same."""

import json
import os
import subprocess

import pytest

DRIVERS = ("fence", "overlayfs", "copy")
ALL = ["--rule", "/**=write"]

PROJECT = {
    "edited": "one\ntwo\nthree\n",
    "deleted": "gone\n",
    "kept": "kept\n",
    "script": "#!/bin/sh\n",
    "dir/a": "a\n",
    "dir/sub/b": "b\n",
    "replaced/old": "old\n",
    "moved/x": "x\n",
    "becomes-dir": "file\n",
    "with space/quo'te": "q\n",
}

WORK = """
set -e
sed -i s/two/TWO/ edited
rm deleted
chmod 755 script
rm -r dir
rm -r replaced && mkdir replaced && echo new > replaced/new
cp -r moved elsewhere && rm -r moved
rm becomes-dir && mkdir becomes-dir && echo in > becomes-dir/in
echo added > "with space/added file"
ln -s kept link
printf 'a\\0b' > binary
touch -r kept kept
mkdir -p deep/er && echo deep > deep/er/file
"""


@pytest.fixture(params=["fence", *(pytest.param(name, marks=pytest.mark.bwrap("refused in containers")) for name in DRIVERS[1:])])
def driver(request, host):
    for name, text in PROJECT.items():
        host.write(name, text)
    result = host.run("-q", "--rm", "--driver", request.param, *ALL, command=["true"])
    if result.code == 125 and request.param == "overlayfs":
        pytest.skip(result.err.strip())
    assert result.code == 0, result
    return request.param


def edits(host, name):
    told = json.loads(host.call("diff", "--json", name).out)
    found = set()
    for file in told["files"]:
        kind = file["kind"].removeprefix("CHANGE_KIND_").lower()
        found |= {("deleted", file["oldPath"]), ("added", file["path"])} if kind == "renamed" else {(kind, file["path"])}
    return found


EXPECTED = {
    ("modified", "edited"), ("deleted", "deleted"), ("modified", "script"), ("deleted", "dir/a"), ("deleted", "dir/sub/b"),
    ("deleted", "replaced/old"), ("added", "replaced/new"), ("deleted", "moved/x"), ("added", "elsewhere/x"),
    ("added", "becomes-dir/in"), ("added", "with space/added file"), ("added", "link"), ("added", "binary"),
    ("added", "deep/er/file"),
}


def snapshot(root):
    found = {}
    for where, dirs, files in os.walk(root):
        for name in files + [d for d in dirs if os.path.islink(os.path.join(where, d))]:
            path = os.path.join(where, name)
            what = os.readlink(path) if os.path.islink(path) else (open(path, "rb").read(), os.lstat(path).st_mode & 0o777)
            found[os.path.relpath(path, root)] = what
    return found


def test_the_same_changes_are_told_and_applied(host, driver):
    before = snapshot(host.base)
    done = host.run("-q", "--name", "box", "--driver", driver, *ALL, command=WORK)
    assert done.code == 0, done
    assert snapshot(host.base) == before
    assert EXPECTED <= edits(host, "box")
    assert {path for _, path in edits(host, "box") - EXPECTED} <= {"becomes-dir"}
    text = host.call("diff", "box").out.decode()
    assert "-two\n+TWO\n" in text and "old mode 100644\nnew mode 100755" in text
    # Once more in the same sandbox, with what was done before.
    again = host.run("-q", "--in", "box", command="cat edited; ls dir 2>/dev/null; ls replaced; echo more > more; rm binary")
    assert (again.code, again.out) == (0, b"one\nTWO\nthree\nnew\n"), again
    assert ("added", "more") in edits(host, "box") and ("added", "binary") not in edits(host, "box")
    applied = host.call("apply", "box")
    assert applied.code == 0, applied
    after = snapshot(host.base)
    assert after["edited"][0] == b"one\nTWO\nthree\n" and after["script"][1] == 0o755 and after["link"] == "kept"
    assert after["replaced/new"][0] == b"new\n" and "replaced/old" not in after and "dir/a" not in after
    assert after["becomes-dir/in"][0] == b"in\n" and after["more"][0] == b"more\n" and "moved/x" not in after


def test_what_changed_in_the_project_meanwhile_is_a_conflict(host, driver):
    assert host.run("-q", "--name", "box", "--driver", driver, *ALL, command="echo agent > edited").code == 0
    host.write("edited", "person\n")
    result = host.call("apply", "box")
    assert result.code == 1 and "edited" in result.out.decode() + result.err
    assert (host.base / "edited").read_text() == "person\n"
    assert host.call("rm", "box").code == 0


def test_files_that_come_later_are_not_deleted_with_a_directory(host, driver):
    assert host.run("-q", "--name", "box", "--driver", driver, *ALL, command="rm -r dir").code == 0
    host.write("dir/late", "late\n")
    host.call("apply", "box")
    assert (host.base / "dir/late").read_text() == "late\n"


def test_killed_supervisor_leaves_changes_readable(host, driver):
    with host.start("-q", "--name", "box", "--driver", driver, *ALL, command="rm deleted; echo x > new; echo ready; sleep 300") as run:
        assert run.stdout.readline() == b"ready\n"
        run.kill()
    assert not host.settle()
    assert edits(host, "box") == {("deleted", "deleted"), ("added", "new")}
    assert host.run("-q", "--in", "box", command="cat new; ls deleted").out == b"x\n"


@pytest.mark.bwrap("refused in containers whatever else is asked for: tests/docker/test_images.py")
@pytest.mark.parametrize("driver", ["overlayfs", "copy"])
@pytest.mark.parametrize("options,word", [(["--preset", "agent-safe"], "forbid"), ([*ALL, "--disk", "1M"], "disk limit"),
                                          ([*ALL, "--rule", "/x=read"], "forbid")])
def test_what_only_the_fence_can_hold_is_refused(one, driver, options, word):
    result = one.run("--driver", driver, *options, command=["true"])
    assert result.code == 125 and word in result.err and "use fence" in result.err, result


def test_an_unknown_driver_is_a_bad_call(one):
    assert one.run("--driver", "zfs", *ALL, command=["true"]).code == 2


def test_files_belong_to_the_agent_and_stay_the_projects(host, driver):
    result = host.run("-q", "--name", "box", "--driver", driver, *ALL, command="stat -c %U kept . && echo >> kept && touch here && stat -c %U here kept")
    assert result.out.split() == [b"agent"] * 4, result
    assert host.call("apply", "box").code == 0
    owner = (host.base / "edited").stat().st_uid
    assert (host.base / "here").stat().st_uid == owner and (host.base / "kept").stat().st_uid == owner
    assert subprocess.run(["getfattr", "-d", "-m", "-", str(host.base / "kept")], capture_output=True, text=True, check=False).stdout == ""


def test_links_of_the_project(host, driver):
    os.symlink("kept", host.base / "same")
    os.symlink("kept", host.base / "turned")
    for name in ("same", "turned"):
        os.lchown(host.base / name, host.uid, -1)
    result = host.run("-q", "--name", "box", "--driver", driver, *ALL, command="cat same; readlink turned; ln -sfn edited turned")
    assert (result.code, result.out) == (0, b"kept\nkept\n"), result
    assert {path for _, path in edits(host, "box")} == {"turned"}
    assert host.call("approve", "--all", "box").code == 0
    assert (os.readlink(host.base / "turned"), os.readlink(host.base / "same")) == ("edited", "kept")
    assert host.call("rm", "box").code == 0
