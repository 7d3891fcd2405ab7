"""The delta verb: listing, exporting and discarding what a mount kept."""

import json
import os
import re
import stat

from harness import Fence, fingerprint, view_of
from mounting import agentfense


def changed(dirs):
    with Fence(dirs) as f:
        f.sh("echo changed > a; rm d/b; mkdir -p n/e; echo new > n/e/w; ln -s a l; chmod 755 a").ok()


def test_delta_list_names_the_changes(dirs):
    changed(dirs)
    ran = agentfense("delta", "list", dirs / "delta")
    assert ran.returncode == 0, ran
    for what, path in (("modified", "/a"), ("deleted", "/d/b"), ("added", "/n/"), ("added", "/n/e/w"), ("added", "/l")):
        assert re.search(rf"^{what}\s+{re.escape(path)}$", ran.stdout, re.M), (path, ran.stdout)
    assert len(ran.stdout.splitlines()) == 6
    assert ".wh." not in ran.stdout


def test_delta_list_in_json(dirs):
    changed(dirs)
    ran = agentfense("delta", "list", "--json", dirs / "delta")
    assert ran.returncode == 0, ran
    changes = {c["path"]: c["change"] for c in json.loads(ran.stdout)["changes"]}
    assert changes == {"/a": "modified", "/d/b": "deleted", "/n": "added", "/n/e": "added", "/n/e/w": "added", "/l": "added"}


def test_delta_export_gives_the_changed_tree(dirs):
    changed(dirs)
    ran = agentfense("delta", "export", "--to", dirs / "out", dirs / "delta")
    assert ran.returncode == 0, ran
    found = {p.decode(): entry[0] for p, entry in view_of(dirs / "out").items()}
    plain = {p: kind for p, kind in found.items() if not os.path.basename(p).startswith(".wh.")}
    assert plain.items() >= {"a": "file", "n": "dir", "n/e": "dir", "n/e/w": "file", "l": "link"}.items(), found
    assert set(plain) <= {"a", "d", "n", "n/e", "n/e/w", "l"}, "nothing but the changes"
    assert (dirs / "out.deleted").read_bytes() == b"d/b\0"
    assert (dirs / "out/a").read_text() == "changed\n" and stat.S_IMODE(os.stat(dirs / "out/a").st_mode) == 0o755


def test_delta_export_refuses_to_overwrite(dirs):
    changed(dirs)
    (dirs / "out").mkdir()
    (dirs / "out/a").write_text("precious")
    ran = agentfense("delta", "export", "--to", dirs / "out", dirs / "delta")
    assert ran.returncode > 0 and (dirs / "out/a").read_text() == "precious", ran


def test_delta_discard_takes_all_changes_back(dirs):
    changed(dirs)
    before = fingerprint(dirs / "base")
    ran = agentfense("delta", "discard", dirs / "delta")
    assert ran.returncode == 0, ran
    with Fence(dirs) as f:
        assert f.sh("cat a d/b; ls").out == "a\nb\na\nd\n"
    assert fingerprint(dirs / "base") == before


def test_delta_verbs_refuse_what_is_no_delta(dirs):
    (dirs / "photos").mkdir()
    (dirs / "photos/p.jpg").write_text("precious")
    for verb in ("list", "discard"):
        for path in (dirs / "photos", dirs / "absent", dirs / "base", dirs / "base/a"):
            ran = agentfense("delta", verb, path)
            assert ran.returncode > 0 and ran.stderr, (verb, path, ran)
    assert (dirs / "photos/p.jpg").read_text() == "precious" and (dirs / "base/a").read_text() == "a\n"
    assert agentfense("delta").returncode > 0 and agentfense("delta", "frobnicate", dirs / "photos").returncode > 0


def test_discarding_a_delta_in_use_is_refused(dirs):
    with Fence(dirs) as f:
        f.sh("echo x > x").ok()
        ran = agentfense("delta", "discard", f.delta)
        assert ran.returncode > 0, ran
        assert f.sh("cat x").out == "x\n"
