"""Links and renames exchanged by a hostile process in the sandbox while somebody outside looks, approves, reads and writes. AGENTFENSE_LONG=1 makes
it a hundred thousand attempts. The same against the rooms alone: tests/unit/review/test_race.c, tests/supervisor/test_files.py."""

import http.client
import os
import shutil
import tarfile
import threading

import pytest
from conftest import IS_LONG, IS_SECOND_RUN
from review import Review
from workspace import make_project, may_lack

ATTEMPTS = 100_000 if IS_LONG else 700
FENCE_ATTEMPTS = 250 if IS_SECOND_RUN and not IS_LONG else ATTEMPTS
CANARY, HIDDEN = "canary-beside-the-scope", "canary-that-is-hidden"

# Exchanges files and directories for links that lead out of the scope, into what is hidden, and to themselves.
RACER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
outside = sys.argv[1]
os.makedirs("race/real", exist_ok=True)
open("race/real/target", "w").write("mine"); open("race/plain", "w").write("mine")
for name, to in (("race/evil", outside), ("race/evil-file", outside + "/target"), ("race/up", "../../.."), ("race/hid", "../hidden"), ("race/loop", "loop")):
    os.symlink(to, name)
def swap(a, b): libc.renameat2(-100, a, -100, b, 2)
print("ready", flush=True)
n = 0
while True:
    n += 1
    for _ in range(10):
        swap(b"race/real", b"race/evil"); swap(b"race/plain", b"race/evil-file"); swap(b"race/real", b"race/up"); swap(b"race/plain", b"race/hid")
        swap(b"race/real", b"race/loop")
    try:
        os.rename("race", "moved"); os.symlink(outside, "race"); os.unlink("race"); os.rename("moved", "race")
    except OSError: pass
    time.sleep(0.002)  # so that the others come to their turn between two of ours, too
"""
PATHS = ["race/real/target", "race/plain", "race/evil/target", "race/evil-file", "race/hid/target", "race/up", "race/loop/target", "race/real"]


class Place:
    """A project with a canary beside it and, where rules hold, one in it that is hidden."""

    def __init__(self, server, driver):
        self.outside = make_project()
        (self.outside / "target").write_text(CANARY)
        self.outside.chmod(0o777)
        (self.outside / "target").chmod(0o666)
        rules = [{"pattern": "/**", "permission": "write"}] + ([{"pattern": "/hidden/**", "permission": "none"}] if driver == "fence" else [])
        self.box = Review(server, {"README": "r\n", "kept/x": "x\n", **({"hidden/target": HIDDEN} if driver == "fence" else {})}, driver=driver, rules=rules)
        self.before = self.state()

    def state(self):
        st = os.stat(self.outside)
        return sorted(os.listdir(self.outside)), (self.outside / "target").read_text(), st.st_mtime_ns, st.st_mode

    def start(self):
        process = self.box.ok("POST", "/processes", {"command": "/usr/bin/python3", "args": ["-c", RACER, str(self.outside)]}, status=201)["id"]
        self.box.wait_log(process, "ready")
        return process

    def check(self):
        assert self.state() == self.before
        for path in self.box.project.rglob("*"):
            if path.is_file() and not path.is_symlink() and "hidden" not in path.parts:
                assert path.read_bytes() not in (CANARY.encode(), HIDDEN.encode()), path
        if (self.box.project / "hidden").exists():
            assert (self.box.project / "hidden/target").read_text() == HIDDEN

    def remove(self):
        self.box.remove()
        shutil.rmtree(self.outside, ignore_errors=True)


def attempt(place, n, driver, statuses):
    """One question; a broken off answer, of what changed while it was sent, is looked at like any other."""
    try:
        status, content = ask(place, n, driver)
    except http.client.IncompleteRead as broken:
        status, content = 200, broken.partial
    assert status < 500, (n, status, content[:500])
    assert CANARY.encode() not in content and HIDDEN.encode() not in content, (n, content[:500])
    statuses[status] = statuses.get(status, 0) + 1


def ask(place, n, driver):
    box, path = place.box, PATHS[n % len(PATHS)]
    what = n % 150 if driver == "fence" else n % 4  # the file API is the fence's
    if what == 0:
        answer, content = box.http("GET", "/diff", raw=True)
    elif what == 1:
        answer, content = box.http("GET", "/diff?format=patch", raw=True)
    elif what == 2 and driver != "fence":
        answer, content = box.http("GET", "/conflicts", raw=True)
    elif what == 2:
        answer, content = box.http("POST", "/approve", {"files": ["race/plain"], "acknowledge": True, "force": n % 100 == 2}, raw=True)
    elif what == 3:
        answer, content = box.http("POST", "/approve", {"dryRun": True, "acknowledge": True, "files": ["race"]}, raw=True)
    elif what % 5 == 0:
        answer, content = box.http("PUT", f"/files/content?path={path}", {"content": "written"}, raw=True)
    elif what % 5 == 1:
        answer, content = box.http("GET", f"/files?path={path}", raw=True)
    elif what % 5 == 2:
        answer, content = box.http("DELETE", f"/files/content?path={path}/made&recursive=true", raw=True)
    elif what % 5 == 3:
        answer, content = box.http("GET", f"/files/download?path={path}", raw=True)
    elif n % 10 == 4:
        answer, content = box.http("POST", "/files/mkdir", {"path": path + "/made"}, raw=True)
    else:
        answer, content = box.http("GET", f"/files/content?path={path}", raw=True)
    return answer.status, content


@pytest.mark.parametrize("driver", ["fence", "overlayfs", "copy"])
def test_links_exchanged_during_reviews_and_the_file_api(shared, driver):
    try:
        place = Place(shared, driver)
    except AssertionError as refused:
        if may_lack(driver):
            pytest.skip(str(refused))
        raise
    statuses, failures = {}, []

    def work(first):
        try:
            for n in range(first, FENCE_ATTEMPTS if driver == "fence" else ATTEMPTS // 14, 2):
                attempt(place, n, driver, statuses)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    try:
        process = place.start()
        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]
        print(statuses)
        assert {200} < set(statuses), "only one outcome was met"
        if driver == "fence":
            assert place.box.process(process)["running"]
        place.check()
        # And all of it at last, as it happens to stand.
        place.box.http("POST", "/stop", {})
        place.box.diff()
        place.box.http("POST", "/approve", {"acknowledge": True})
        place.check()
    finally:
        place.remove()


SYNCED = """
mkdir -p race/real; echo mine > race/real/target; ln -sfn %(outside)s race/evil
(while :; do mv -T race/real race/tmp; mv -T race/evil race/real; mv -T race/tmp race/evil; mv -T race/real race/tmp; mv -T race/evil race/real; mv -T race/tmp race/evil; done) 2>/dev/null &
for n in $(seq 30); do echo $n > race/real/target; done 2>/dev/null; kill %%1
"""


def test_links_exchanged_while_changes_are_synced_and_archives_made(shared, tmp_path):
    """Into a codebase with every command that ends, and out of it as an archive."""
    client = shared.client()
    outside = make_project()
    (outside / "target").write_text(CANARY)
    outside.chmod(0o777)
    (outside / "target").chmod(0o666)
    codebase = client.codebase({"a": "1"})
    boxes = [client.sandbox(codebase) for _ in range(2)]
    archives = []

    def download():
        while not over.is_set():
            archives.append(b"".join(chunk.data for chunk in client.download_archive(codebase_id=codebase)))

    over = threading.Event()
    thread = threading.Thread(target=download)
    thread.start()
    try:
        for n in range(200 if IS_LONG else 6):
            client.run(boxes[n % 2], SYNCED % {"outside": outside})
    finally:
        over.set()
        thread.join()
    assert (outside / "target").read_text() == CANARY and os.listdir(outside) == ["target"] and archives
    for n, data in enumerate(archives[-50:]):
        assert CANARY.encode() not in data
        (tmp_path / f"{n}.tar").write_bytes(data)
        with tarfile.open(tmp_path / f"{n}.tar") as tar:
            assert all(not entry.name.startswith("/") and ".." not in entry.name.split("/") for entry in tar)
    for box in boxes:
        client.destroy_sandbox(sandbox_id=box)
    shutil.rmtree(outside)
    assert shared.http("GET", "/health")[0] == 200
