"""What a sandbox changed comes into its codebase, by real commands and the control socket."""

import os
import signal
import subprocess
import threading
import time

import pytest

from ctl import ERROR, FAILED_PRECONDITION, NOBODY, OK, SYNCED, WAIT, eventually

LONG = os.environ.get("AGENTFENSE_LONG") == "1"
FILES = {"README": "read me\n", "src/main.c": "int main;\n", "src/util.c": "util\n", "docs/a.txt": "a\n", "docs/b.txt": "b\n"}


@pytest.fixture
def codebase(make_codebase):
    return make_codebase(files=FILES)


@pytest.fixture
def box(make, codebase):
    return make(codebase=codebase).start()


def do(box, command, by="exec"):
    """A command, and the sync after it."""
    run = box.run(command)
    assert run.code == 0, run
    return sync(box, by)


def sync(box, by="exec"):
    reply = box.owner.sync(by)
    assert reply.kind == SYNCED, reply
    return reply


def out(box, command):
    run = box.run(command)
    assert run.code == 0, run
    return run.out.decode()


LOOK = "find . -printf '%p %y %m %i %T@ %s %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 cat"


def delta_of(box):
    return sorted(str(p.relative_to(box.delta(""))) for p in box.delta("").rglob("*"))


def test_changes_become_a_version(box, codebase):
    before = codebase.versions()[0][0]
    reply = do(box, "echo more >> README; mkdir -p new/deep; echo x > new/deep/x; ln -s ../README new/link; rm docs/a.txt; "
                    "chmod +x src/util.c", by="exec-7")
    assert reply.version == before + 1 == codebase.versions()[0][0]
    assert codebase.versions()[0][1] == "exec-7"
    assert set(reply.changes) == {"/README", "/new", "/new/deep", "/new/deep/x", "/new/link", "/docs/a.txt", "/src/util.c"}
    assert reply.conflict_count == reply.left == 0
    assert codebase.read("README") == "read me\nmore\n"
    assert codebase.read("new/deep/x") == "x\n"
    assert os.readlink(codebase.files / "new/link") == "../README"
    assert not (codebase.files / "docs/a.txt").exists()
    assert os.access(codebase.files / "src/util.c", os.X_OK)
    assert delta_of(box) == []
    assert codebase.is_consistent()


def test_nothing_changed_is_no_version(box, codebase):
    version = codebase.versions()[0][0]
    assert do(box, "cat README src/*; ls -R; test ! -e nothing").version == version
    assert do(box, "echo new > n").version == version + 1
    reply = sync(box)
    assert reply.version == version + 1 and reply.change_count == 0
    assert len(codebase.versions()) == len(FILES) + 1


def test_the_sandbox_sees_the_same_tree(box, codebase):
    assert box.run("echo more >> README; mkdir d; echo 1 > d/one; mv src lib; ln README hard; ln -s d s; rm -r docs; mkdir docs; "
                   "echo z > docs/z; touch -d '2001-02-03 04:05:06.789' d/one; chmod 751 d/one").code == 0
    before = out(box, LOOK)
    sync(box)
    changed = {line for line in before.splitlines() if "README" in line or "hard" in line}
    after = out(box, LOOK)
    # Two names of one file are two files in a codebase: one of them gets a number of its own.
    assert [a for a in after.splitlines() if "README" not in a and "hard" not in a] == \
        [b for b in before.splitlines() if b not in changed]
    assert codebase.tree()["hard"] == codebase.tree()["README"] == b"read me\nmore\n"
    box.stop()
    box.start()
    assert out(box, LOOK) == after
    assert set(codebase.tree()) == {"README", "hard", "d", "d/one", "lib", "lib/main.c", "lib/util.c", "docs", "docs/z", "s"}


def test_git_works_across_syncs(box, codebase):
    git = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
    do(box, f"{git} init -q && {git} add -A && {git} commit -qm one")
    assert out(box, "git status --porcelain; git fsck --strict 2>&1; git log --format=%s") == "one\n"
    do(box, f"sed -i s/main/MAIN/ src/main.c && {git} mv src/util.c src/tools.c && {git} commit -qam two && {git} gc -q")
    assert out(box, "git status --porcelain; git log --format=%s") == "two\none\n"
    assert "MAIN" in codebase.read("src/main.c")
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", codebase.files, "fsck", "--strict"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    assert codebase.is_consistent()


def test_a_writer_that_stays_never_changes_the_codebase_in_place(box, codebase):
    client = box.client()
    writer = client.start("exec 3>>log; for i in 1 2 3 4; do echo line $i >&3; echo $i; read go; done", stdin=(pipe := os.pipe())[0])
    seen = set()
    for i in range(1, 5):
        writer.wait_output(f"{i}\n".encode())
        sync(box)
        assert codebase.read("log") == "".join(f"line {k}\n" for k in range(1, i + 1))
        inode = os.stat(codebase.files / "log").st_ino
        held = open(codebase.files / "log", "rb")
        content = held.read()
        os.write(pipe[1], b"go\n")
        if i < 4:
            writer.wait_output(f"{i + 1}\n".encode())
            held.seek(0)
            assert held.read() == content and os.stat(codebase.files / "log").st_ino == inode
        held.close()
        seen.add(inode)
    os.close(pipe[1])
    os.close(pipe[0])
    assert writer.wait().code == 0


@pytest.mark.parametrize("fault", ["", "slow-write"])
def test_a_mapping_is_written_through_each_sync(make, codebase, fault):
    """A store through a mapping that was made before the sync is in it, also where the fence is slow to serve the page."""
    box = make(codebase=codebase).start(env={**os.environ, "AGENTFENSE_FAULT": fault})
    program = ("import mmap,sys\nf=open('map','r+b')\nm=mmap.mmap(f.fileno(),0)\n"
               "for i in range(1,4):\n m[0:1]=str(i).encode()\n print(i,flush=True)\n sys.stdin.readline()\nm.close()\n")
    do(box, "head -c 10000 /dev/zero > map")
    client = box.client()
    run = client.start(["/usr/bin/python3", "-c", program], stdin=(pipe := os.pipe())[0])
    for i in range(1, 4):
        run.wait_output(f"{i}\n".encode())
        before = (codebase.files / "map").read_bytes()[:1]
        held = open(codebase.files / "map", "rb")
        sync(box)
        assert (codebase.files / "map").read_bytes()[:1] == str(i).encode()
        assert held.read(1) == before  # replaced, not written to
        held.close()
        os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    os.close(pipe[0])
    assert run.wait().code == 0, run
    assert out(box, "head -c 1 map") == "3"


BUSY = """
import mmap, os, random, sys, threading
pages = int(sys.argv[1])
with open('big', 'wb') as f: f.truncate(pages * 8192)
f = open('big', 'r+b')
m = mmap.mmap(f.fileno(), pages * 8192)
with open('read', 'wb') as r: r.write(bytes(1 << 20))
def ask():
    while True:
        try: os.stat(f'nothing{random.random()}')
        except OSError: pass
        with open('read', 'rb') as r: os.posix_fadvise(r.fileno(), 0, 0, os.POSIX_FADV_DONTNEED); r.read()
for _ in range(12): threading.Thread(target=ask, daemon=True).start()
for i in range(1, 3):
    for at in range(0, pages * 8192, 8192): m[at] = i  # no two pages are neighbours: a request for each
    print(i, flush=True)
    sys.stdin.readline()
os._exit(0)
"""


@pytest.mark.parametrize("fault, pages", [("", 2000), ("slow-lookup", 300)])
def test_every_page_of_a_mapping_is_in_the_sync_of_a_busy_sandbox(make, codebase, fault, pages):
    """More pages than the kernel sends at a time, and others ask without end; or keep every worker of the fence waiting."""
    box = make(codebase=codebase).start(env={**os.environ, "AGENTFENSE_FAULT": fault})
    run = box.client().start(["/usr/bin/python3", "-c", BUSY, str(pages)], stdin=(pipe := os.pipe())[0])
    for i in range(1, 3):
        run.wait_output(f"{i}\n".encode())
        sync(box)
        content = (codebase.files / "big").read_bytes()
        assert len(content) == pages * 8192 and set(content[::8192]) == {i}
        os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    os.close(pipe[0])
    assert run.wait().code == 0, run


@pytest.mark.parametrize("user", [None, NOBODY], ids=["root", "user"])
def test_a_sandbox_cannot_close_its_root_to_a_sync_or_a_hold(make, make_codebase, user):
    """Both begin at the root of the mount, whose mode is the sandbox's to set."""
    codebase = make_codebase(files=FILES, user=user)
    box = make(codebase=codebase, user=user).start()
    run = box.run("echo x > new; chmod 0 .")
    assert run.code == 0, run
    sync(box)
    assert codebase.read("new") == "x\n"
    client = box.client()
    assert client.hold().kind == OK and client.release().kind == OK


def test_what_runs_goes_on(box):
    client = box.client()
    script = ("mkdir -p work/here && cd work/here && exec 3<>kept && echo secret >&3 && rm kept && echo ready && read x && "
              "pwd && cat /dev/fd/3 && echo new > file && cat file && ls && mv ../here ../there && pwd -P && echo done")
    run = client.start(script, stdin=(pipe := os.pipe())[0])
    run.wait_output(b"ready\n")
    sync(box)
    os.write(pipe[1], b"go\n")
    run.wait()
    os.close(pipe[1])
    os.close(pipe[0])
    assert run.result == (0, b"ready\n/workspace/work/here\nsecret\nnew\nfile\n/workspace/work/there\ndone\n", b""), run


def test_setgid_of_directories_stays_in_the_sandbox(box, codebase):
    do(box, "mkdir new && chmod 2775 new && mkdir new/in && chmod g+s src && echo x > src/x")
    show = "stat -c '%a %n' new new/in src"
    assert out(box, show) == "2775 new\n2755 new/in\n2755 src\n"
    assert (codebase.files / "new/in").is_dir() and codebase.read("src/x") == "x\n"
    assert [p for p in codebase.files.rglob("*") if p.lstat().st_mode & 0o6000] == []
    do(box, "echo y > new/y")
    assert out(box, show) == "2775 new\n2755 new/in\n2755 src\n"
    assert codebase.read("new/y") == "y\n"


def test_moved_and_removed_trees(box, codebase):
    do(box, "mv src lib && rm -rf docs && mkdir docs && echo c > docs/c.txt")
    assert codebase.tree() == {"README": b"read me\n", "lib": None, "lib/main.c": b"int main;\n", "lib/util.c": b"util\n",
                               "docs": None, "docs/c.txt": b"c\n"}
    do(box, "mv lib docs/ && mv docs x && rm README && mkdir README && touch README/now-a-directory")
    assert set(codebase.tree()) == {"README", "README/now-a-directory", "x", "x/c.txt", "x/lib", "x/lib/main.c", "x/lib/util.c"}
    do(box, "rm -rf x README; echo file > x")
    assert codebase.tree() == {"x": b"file\n"}
    assert delta_of(box) == [] and codebase.is_consistent()


def test_sparse_files_stay_sparse(box, codebase):
    do(box, "truncate -s 100M big && echo end >> big")
    st = os.stat(codebase.files / "big")
    assert st.st_size == 100 * 2**20 + 4 and st.st_blocks * 512 < 2**20


def test_special_bits_and_kinds(box, codebase):
    reply = do(box, "cp /bin/true t; chmod 6755 t; mkfifo p; echo x > ro; chmod 444 ro")
    mode = os.stat(codebase.files / "t").st_mode
    assert mode & 0o7777 == 0o755 and os.stat(codebase.files / "t").st_uid == os.geteuid()
    assert not (codebase.files / "p").exists() and reply.change_count == 2
    assert out(box, "test -p p && stat -c %a ro t") == "444\n755\n"
    assert os.stat(codebase.files / "ro").st_mode & 0o777 == 0o444


def test_hidden_files_survive(make, make_codebase):
    codebase = make_codebase(files={"d/secret": "s", "d/e/secret": "s2", "d/e/f": "f", "d/g": "g", "plain/h": "h"})
    box = make(codebase=codebase, rules=[("/**", "write"), ("secret", "none")]).start()
    do(box, "rm -rf d plain")
    assert codebase.tree() == {"d": None, "d/secret": b"s", "d/e": None, "d/e/secret": b"s2"}
    assert out(box, "ls -A") == ""
    do(box, "mkdir d && echo new > d/g")
    assert codebase.tree() == {"d": None, "d/secret": b"s", "d/e": None, "d/e/secret": b"s2", "d/g": b"new\n"}
    box.stop()
    box.start()
    assert out(box, "find . -mindepth 1 | sort") == "./d\n./d/g\n"


def test_a_newer_upload_is_not_overwritten(box, codebase):
    assert box.run("echo ours > README; echo ours > src/main.c; rm src/util.c; rm docs/a.txt").code == 0
    time.sleep(0.05)
    codebase.put("README", "theirs\n")
    codebase.put("docs/a.txt", "theirs\n")
    watcher = box.client().watch()
    reply = sync(box)
    assert set(reply.conflicts) == {"-/README", "-/docs/a.txt"}
    assert codebase.read("README") == codebase.read("docs/a.txt") == "theirs\n"
    assert codebase.read("src/main.c") == "ours\n" and not (codebase.files / "src/util.c").exists()
    assert out(box, "cat README docs/a.txt src/main.c") == "theirs\ntheirs\nours\n"
    event = watcher.wait_event(lambda e: e.event == "sync_conflict" and e.subject == "/README")
    assert event.detail == "lost" and event.numbers[0] == reply.version
    codebase.act("recover", reply.version, "README")
    assert codebase.read("README") == "ours\n"


def test_an_older_upload_is_replaced_and_kept(box, codebase):
    assert box.run("echo first > README").code == 0
    codebase.put("README", "theirs\n")
    time.sleep(0.05)
    reply = do(box, "echo ours > README")
    assert reply.conflicts == ["+/README"] and codebase.read("README") == "ours\n"
    # Once synced it is what everybody has: no conflict any more.
    reply = do(box, "echo again > README")
    assert reply.conflicts == [] and codebase.read("README") == "again\n"


def test_a_deletion_does_not_reach_what_came_after_it(box, codebase):
    do(box, "rm -rf docs README")
    codebase.put("README", "again\n")
    codebase.put("docs/a.txt", "again\n")
    box.owner.base_changed()
    reply = do(box, "echo unrelated > u")
    assert reply.changes == ["/u"]
    assert codebase.read("README") == codebase.read("docs/a.txt") == "again\n"


def test_two_sandboxes_on_one_codebase(make, codebase):
    one, two = make(codebase=codebase).start(), make(codebase=codebase).start()
    assert one.run("echo one > README; echo one > only-one").code == 0
    time.sleep(0.05)
    assert two.run("echo two > README; echo two > only-two").code == 0
    replies = {}
    threads = [threading.Thread(target=lambda b=b, n=n: replies.update({n: sync(b)})) for n, b in (("one", one), ("two", two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert codebase.read("README") == "two\n"
    assert codebase.read("only-one") == "one\n" and codebase.read("only-two") == "two\n"
    # Which of them met the other depends on who came first; that they met is told in any case.
    assert sorted(replies["one"].conflicts + replies["two"].conflicts) in (["-/README"], ["+/README"])
    loser = max(replies["one"].version, replies["two"].version)
    if replies["one"].conflicts:
        codebase.act("recover", replies["one"].version, "README")
        assert codebase.read("README") == "one\n"
    assert loser == codebase.versions()[0 if not replies["one"].conflicts else 1][0]
    for box in (one, two):
        assert box.owner.base_changed().kind == OK
    assert out(one, "cat only-two; cat README") == out(two, "echo two; cat README")


def test_a_sibling_sees_a_sync_at_once(make, codebase):
    one, two = make(codebase=codebase).start(), make(codebase=codebase).start()
    assert out(two, "cat README src/main.c; ls docs; cat docs/new 2>&1 || true").startswith("read me\n")
    reply = do(one, "echo changed > README; rm docs/a.txt; echo n > docs/new; mv src lib")
    assert two.owner.base_changed(*reply.changes).kind == OK
    assert out(two, "cat README docs/new lib/main.c; ls docs; ls") == \
        "changed\nn\nint main;\nb.txt\nnew\nREADME\ndocs\nlib\n"
    # And works on from there.
    reply = do(two, "echo more >> README; rm -r lib")
    assert reply.conflicts == [] and codebase.read("README") == "changed\nmore\n"
    assert "lib" not in codebase.tree()


def test_word_of_changes_does_not_disturb_what_was_synced(box, codebase):
    """A file that is open for writing stays the one with the name."""
    client = box.client()
    writer = client.start("mkdir -p d; cd d; exec 3>>log; for i in 1 2 3 4; do echo $i >&3; echo $i; read go; done; pwd; cat log",
                          stdin=(pipe := os.pipe())[0])
    for i in range(1, 5):
        writer.wait_output(f"{i}\n".encode())
        sync(box)
        codebase.put("other", str(i))
        assert box.owner.base_changed(*(["/other"] if i % 2 else [])).kind == OK
        os.write(pipe[1], b"go\n")
    os.close(pipe[1])
    os.close(pipe[0])
    assert writer.wait().out == b"1\n2\n3\n4\n/workspace/d\n1\n2\n3\n4\n", writer
    sync(box)
    assert codebase.read("d/log") == "1\n2\n3\n4\n"
    assert out(box, "cat other") == "4"


def test_syncs_of_many_sandboxes_at_once(make, codebase):
    boxes = [make(codebase=codebase).start() for _ in range(3)]

    def work(box, n):
        for i in range(8):
            do(box, f"set -e; echo {n} {i} > shared; echo {n} {i} > own-{n}-{i}; mkdir -p dir-{i}; echo {n} > dir-{i}/{n}; rm -f own-{n}-{i - 2}")

    failures = []

    def guarded(box, n):
        try:
            work(box, n)
        except BaseException as failure:  # a thread's failure is to be read in the report
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(box, n)) for n, box in enumerate(boxes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not failures, failures
    assert not any(thread.is_alive() for thread in threads), "it takes too long"
    tree = codebase.tree()
    for n in range(3):
        assert {p for p in tree if p.startswith(f"own-{n}-")} == {f"own-{n}-6", f"own-{n}-7"}
        assert all(tree[f"dir-{i}/{n}"] == f"{n}\n".encode() for i in range(8))
    assert tree["shared"].endswith(b" 7\n")
    assert codebase.is_consistent()


def test_while_processes_write(box, codebase):
    """Syncs in the midst of work lose nothing, and what the codebase has at the end is what the sandbox has."""
    client = box.client()
    rounds = 300 if LONG else 100
    run = client.start(f"i=0; while [ $i -lt {rounds} ] || [ ! -e /tmp/stop ]; do i=$((i+1)); echo $i >> all; echo $i > f-$i; "
                       "mkdir -p d/$((i % 7)); mv f-$i d/$((i % 7))/; ln -sf $i last; rm -rf d/$(((i + 3) % 7)); done; echo $i")
    count = 0
    while not run.is_over:
        sync(box)
        count += 1
        if count == 3:
            assert box.run("touch /tmp/stop").code == 0
        client.until(lambda: True)
        try:
            client.receive(0.01)
        except AssertionError:
            pass
    assert run.code == 0 and count > 2, (run, count)
    sync(box)
    seen = out(box, "find . -mindepth 1 -printf '%P %y %l\\n' | sort; cat all")
    assert "".join(f"{i}\n" for i in range(1, int(run.out) + 1)) in seen
    host = subprocess.run("find . -mindepth 1 -printf '%P %y %l\\n' | sort; cat all", shell=True, cwd=codebase.files, text=True,
                          capture_output=True, env={**os.environ, "LC_ALL": "C"}).stdout
    assert sorted(host.splitlines()) == sorted(seen.splitlines())
    assert delta_of(box) == [] and codebase.is_consistent()


def test_without_a_codebase_a_sync_makes_safe(make):
    box = make().start()
    assert box.run("echo x > x").code == 0
    assert box.owner.sync().kind == OK
    assert box.delta("x").read_text() == "x\n"


def test_a_base_that_is_not_the_codebases_is_refused(make, codebase):
    box = make(codebase=codebase)
    spec = (box.dir / "spec").read_bytes()
    other = make()
    import ctl
    (box.dir / "spec").write_bytes(ctl.spec_file(box.name, other.base, [("/**", "write")], codebase=codebase.path))
    box.launch()
    box.owner.until(lambda: box.owner.states)
    assert box.owner.state.state == "failed" and "codebase" in box.owner.state.text
    box.stop()
    (box.dir / "spec").write_bytes(spec)
    box.start()


def test_a_sync_is_answered_while_others_are_served(box):
    """The reactor does not wait for it."""
    assert box.run("for i in $(seq 400); do head -c 100000 /dev/urandom > f$i; done").code == 0
    client = box.client()
    tag = client.tag()
    import ctl
    client.send(ctl.frame(ctl.SYNC, tag, b"\0"))
    for _ in range(5):
        assert box.owner.status().state == "running"
    client.until(lambda: tag in client.replies)
    assert client.replies[tag][0].kind == SYNCED and client.replies[tag][0].change_count == 400


def test_a_sync_that_fails_changes_nothing(box, codebase):
    assert box.run("echo ours > README; rm -r docs; echo new > new").code == 0
    before = out(box, LOOK)
    os.rename(codebase.path / "versions", codebase.path / "versions.away")
    (codebase.path / "versions").write_text("")
    stage = codebase.path / "stage"
    os.rename(stage, codebase.path / "stage.away")
    reply = box.owner.sync()
    # It has the directories open; what matters is that it either works or says so.
    os.unlink(codebase.path / "versions")
    os.rename(codebase.path / "versions.away", codebase.path / "versions")
    os.rename(codebase.path / "stage.away", stage)
    assert reply.kind in (ERROR, SYNCED)
    assert out(box, LOOK) == before
    if reply.kind == ERROR:
        assert codebase.read("README") == "read me\n"
        assert sync(box).change_count > 0
    assert codebase.read("README") == "ours\n"


FAULTS = ["handover-begun", "codebase-staged", "codebase-manifest-written", "codebase-manifest-synced", "codebase-committed",
          "codebase-kept-old", "codebase-put-new:1", "codebase-put-new:3", "codebase-removed", "codebase-source-removed",
          "codebase-source-removed:2", "codebase-performed", "codebase-counted", "handover-taken", "handover-opened",
          "handover-emptied", "handover-dropped"]

CHANGES = ("echo ours > README; mv src lib; rm -rf docs; mkdir docs; echo c > docs/c.txt; mkdir -p n/m; echo x > n/m/x; "
           "ln -s README link; rm -f lib/util.c; ln README hard; mkdir empty")


@pytest.mark.parametrize("fault", FAULTS)
def test_killed_at_any_point_it_is_before_or_after(make, codebase, fault):
    box = make(codebase=codebase)
    box.start(own=False, env={**os.environ, "AGENTFENSE_FAULT": fault})
    client = box.client()
    assert client.run(CHANGES).code == 0
    look = "find . -printf '%p %y %m %s %l\\n' | grep -v '^\\. ' | sort; find . -type f -print0 | sort -z | xargs -0 cat"
    before = out(box, look)
    old = codebase.tree()
    try:
        reply = client.sync()
        pytest.fail(f"{fault} is not passed: {reply}")
    except EOFError:
        pass
    assert box.wait() == -signal.SIGKILL
    box.assert_nothing_runs()
    box.hang_up()
    box.process.stderr.close()
    box.process = None
    box.start()
    assert out(box, look) == before
    codebase.act("settle")
    assert codebase.is_consistent()
    tree = codebase.tree()
    sync(box)
    final = codebase.tree()
    assert tree in (old, final)
    assert final == {"README": b"ours\n", "hard": b"ours\n", "lib": None, "lib/main.c": b"int main;\n", "docs": None,
                     "docs/c.txt": b"c\n", "n": None, "n/m": None, "n/m/x": b"x\n", "link": "-> README", "empty": None}
    assert out(box, look) == before
    assert codebase.is_consistent()
    assert sum(1 for v in codebase.versions() if v[1] == "exec" or v[1] == "-") <= 2
    # Nothing in the codebase is shared with the delta: what is written now stays in here.
    assert box.run("echo later >> README; echo later >> lib/main.c; echo later >> n/m/x").code == 0
    assert codebase.tree() == final


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_as_an_ordinary_user(make, make_codebase):
    codebase = make_codebase(files=FILES, user=NOBODY)
    box = make(codebase=codebase, user=NOBODY).start()
    reply = do(box, "echo more >> README; rm -r docs; mv src lib")
    assert reply.kind == SYNCED and codebase.read("README") == "read me\nmore\n"
    assert set(codebase.tree()) == {"README", "lib", "lib/main.c", "lib/util.c"}
    assert os.stat(codebase.files / "README").st_uid == NOBODY
    assert codebase.is_consistent()
