"""The options of `agentfense run`, one by one."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import IS_ROOT, TIMEOUT

SUMMARY = "agentfense: {} changed ({} added, {} modified, {} deleted); see: agentfense diff {name}, keep: agentfense approve {name}, " \
          "drop: agentfense rm {name}\n"


def test_the_help_names_every_option(one):
    text = one.call("run", "--help").out.decode()
    for word in ("--preset", "--policy", "--rule", "--env", "--env-file", "--workdir", "--timeout", "--memory", "--cpus", "--pids",
                 "--disk", "--mount", "--net", "--tty", "--no-stdin", "--name", "--in", "--rm", "--verbose", "--quiet", "--json"):
        assert word in text


# ---- what is said afterwards ----

def test_the_summary_counts_files(host):
    host.write("gone", "x")
    host.write("changed", "x")
    result = host.run("--name", "box", command="echo 1 > a; echo 2 > b; mkdir d; echo 3 > d/c; echo y >> changed; rm gone")
    assert result.err == SUMMARY.format("5 files", 3, 1, 1, name="box")
    assert host.names() == ["box"]


def test_one_file_is_one_file(one):
    assert one.run("--name", "box", command="echo 1 > a").err == SUMMARY.format("1 file", 1, 0, 0, name="box")


def test_nothing_changed_leaves_nothing(host):
    result = host.run(command="cat hello.txt; mkdir d; rmdir d; touch a; rm a")
    assert (result.out, result.err) == (b"hello\n", "agentfense: no files changed\n")
    assert host.names() == []


def test_quiet_says_nothing(one):
    assert one.run("-q", command="echo x > x").err == ""
    assert len(one.names()) == 1


def test_json_is_one_line_with_the_same_facts(one):
    result = one.run("--json", "--name", "box", command="echo out; echo x > x; exit 3")
    told = json.loads(result.err)
    assert result.out == b"out\n"
    assert told.pop("seconds") < 60
    assert told == {"sandbox": "box", "id": one.place("box").name, "exit_code": 3, "timed_out": False, "kept": True,
                    "changes": {"added": 1, "modified": 0, "deleted": 0}}
    assert re.search(r'"seconds": [\d.e-]{1,12}[,}]', result.err), result


def test_json_tells_of_a_timeout(one):
    told = json.loads(one.run("--json", "-t", "300ms", command="sleep 60").err.splitlines()[-1])
    assert (told["exit_code"], told["timed_out"], told["kept"]) == (124, True, False)


def test_rm_drops_what_was_changed(host):
    result = host.run("--rm", command="echo x > x; cat x")
    assert (result.code, result.out) == (0, b"x\n")
    assert result.err == "agentfense: 1 file changed (1 added, 0 modified, 0 deleted), and dropped\n"
    assert host.names() == []


# ---- names, and going on ----

def test_an_id_its_beginning_and_its_uuid_name_it_too(one):
    assert one.run("-q", "--name", "box", command="echo x > x").code == 0
    id = one.place("box").name
    digits = id.removeprefix("sb_")
    uuid = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15]}00-000000000000"
    assert re.fullmatch("sb_[0-9a-f]{16}", id)
    for word in ("box", "bo", id, id[:9], uuid):
        assert one.run("--in", word, "-q", command="cat x").out == b"x\n", word
        assert word == "bo" or "+x" in one.call("diff", word).out.decode(), word
    refused = one.run("--name", id, command=["true"])
    assert refused.code == 2 and "form of an id" in refused.err, refused


def test_of_two_that_want_a_name_at_once_one_gets_it(host):
    for _ in range(5):
        both = [host.start("-q", "--name", "box", command="echo x > x") for _ in range(2)]
        told = [run.communicate(timeout=60)[1].decode() for run in both]
        codes = [run.returncode for run in both]
        assert sorted(codes) == [0, 125], (codes, told)
        assert told[codes.index(125)] == "agentfense run: there is a sandbox 'box' already; choose another name\n", told
        assert host.names() == ["box"] and host.call("rm", "--purge", "box").code == 0


def test_a_sandbox_of_a_release_before_ids_goes_on(one):
    """Its directory had its name, and nothing was in names."""
    assert one.run("-q", "--name", "box", command="echo x > x").code == 0
    one.place("box").rename(one.sandboxes / "box")
    shutil.rmtree(one.state / "names")
    assert one.run("--in", "box", "-q", command="cat x; echo y > y").out == b"x\n"
    (row,) = json.loads(one.call("ls", "--json").out)["sandboxes"]
    assert (row["name"], row["changedFiles"]) == ("box", "2") and re.fullmatch("sb_[0-9a-f]{16}", row["id"])
    assert os.listdir(one.sandboxes) == [row["id"]]
    assert one.call("rm", "box").code == 0 and one.names() == []


def test_a_name_is_made_of_the_directory(one):
    one.run("-q", command="echo x > x")
    assert re.fullmatch(r"project-[a-z0-9]{4}", one.name())


def test_in_goes_on_with_changes_and_rules(host):
    host.write("secret", "s")
    first = host.run("-q", "--name", "box", "--preset", "full-access", "--rule", "/secret=none", "-e", "MADE=1",
                     command="echo 1 > one")
    assert first.code == 0, first
    result = host.run("--in", "box", "-e", "NOW=2", command="cat one; ls; echo 2 > two; echo $MADE $NOW")
    assert result.out == b"1\nhello.txt\none\n1 2\n"
    assert "2 files changed (2 added" in result.err
    assert host.run("--in", "bo", "-q", command="cat two").out == b"2\n"


def test_in_takes_mounts_limits_and_network_for_good(host):
    for place in ("one", "two"):
        (host.dir / place).mkdir()
        (host.dir / place / place).touch()
    shown = "ls /mnt; ls /mnt/* 2>/dev/null; ulimit -u 2>/dev/null; touch f1 f2 f3 f4 2>/dev/null; ls | wc -l"
    assert host.run("-q", "--name", "box", "--mount", f"{host.dir}/one:/mnt/a:ro", command="echo x > x").code == 0
    first = host.run("--in", "box", "-q", "--files", "3", "--mount", f"{host.dir}/two:/mnt/b:ro", command=shown).out.decode().split()
    assert "b" in first and "two" in first and "a" not in first and "one" not in first
    assert int(first[-1]) < 6, "x, hello.txt and four more are too many"
    assert host.run("--in", "box", "-q", command=shown).out.decode().split() == first, "it was not for once"
    free = host.run("--in", "box", "-q", "--files", "100", command=shown).out.decode().split()
    assert "two" in free and int(free[-1]) == 6
    links = "cat /proc/net/dev | wc -l"
    alone = int(host.run("--in", "box", "-q", command=links).out)
    shared = host.run("--in", "box", "-q", "--net", "host", command=links)
    assert shared.code != 0 or int(shared.out) == len(pathlib.Path("/proc/net/dev").read_text().splitlines()), shared
    assert int(host.run("--in", "box", "-q", "--net", "none", command=links).out) == alone
    for words in (["--preset", "full-access"], ["--rule", "/**=write"], ["--name", "other"], ["--driver", "copy"], ["--runtime", "bwrap"]):
        refused = host.run("--in", "box", *words, command=["true"])
        assert refused.code == 2 and "takes the sandbox as it is" in refused.err, refused


def test_in_leaves_a_sandbox_that_cannot_be_started_so_as_it_was(one):
    (one.dir / "there").mkdir()
    assert one.run("-q", "--name", "box", command="echo x > x").code == 0
    refused = one.run("--in", "box", "--mount", f"{one.dir}/there:/workspace/there", command=["true"])
    assert refused.code == 125 and "/workspace/there" in refused.err, refused
    refused = one.run("--in", "box", "--net", "bridge", command=["true"])
    assert refused.code == 125 and "bridge" in refused.err, refused
    assert one.run("--in", "box", "-q", command="cat x").out == b"x\n"


def test_last_is_the_sandbox_that_was_made_last(one):
    for name in ("zebra", "ant"):
        assert one.run("-q", "--name", name, command=f"echo {name} > {name}").code == 0
    assert one.run("--last", "-q", command="ls").out == b"ant\nhello.txt\n"
    assert one.call("diff", "--last", "--name-only").out == b"ant\n"
    assert one.call("diff", "--name-only", "--last", "ant").out == b"ant\n"
    refused = one.run("--last", "--in", "zebra", command=["true"])
    assert refused.code == 2 and "two sandboxes" in refused.err
    assert one.call("approve", "--last", "--all").code == 0 and (one.base / "ant").exists()
    assert one.call("undo", "--last").code == 0 and not (one.base / "ant").exists()
    assert one.call("discard", "--last", "--all").code == 0
    assert one.call("rm", "ant").code == 0 and one.call("diff", "--last", "--name-only").out == b"zebra\n"
    assert one.call("rm", "zebra").code == 0
    assert "there is no sandbox" in one.run("--last", command=["true"]).err


def test_in_keeps_the_sandbox_even_if_nothing_changed(one):
    one.run("-q", "--name", "box", command="echo x > x")
    result = one.run("--in", "box", command="rm x")
    assert (result.code, result.err) == (0, "agentfense: no files changed\n")
    assert one.names() == ["box"]


def test_a_sandbox_runs_once_at_a_time(one):
    with one.start("-q", "--name", "box", command="echo ready; cat; echo x > x") as run:
        assert run.stdout.readline() == b"ready\n"
        result = one.run("--in", "box", command=["true"])
        assert (result.code, result.err) == (125, "agentfense run: sandbox 'box' is running; wait for its command, or stop it with "
                                                     "'agentfense stop box'\n")
        run.stdin.close()
        assert run.wait(TIMEOUT) == 0
    assert one.run("--in", "box", "-q", command="cat x").out == b"x\n"


@pytest.mark.parametrize("count", [8])
def test_many_run_side_by_side_over_one_directory(host, count):
    runs = [host.start("-q", "--rm", command=f"echo {n} > hello.txt; sleep 0.2; cat hello.txt") for n in range(count)]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert outputs == [b"%d\n" % n for n in range(count)]
    assert host.names() == []


def test_sandboxes_of_one_name_in_two_homes_leave_each_other_alone(limited):
    other = limited.dir / "other"
    with limited.start("-q", "--name", "box", "-m", "64M", command="echo ready; cat; echo x > x") as run:
        assert run.stdout.readline() == b"ready\n"
        for _ in range(2):
            result = limited.run("-q", "--name", "box", "--rm", "-m", "64M", command="sleep 0.5; echo other",
                                 env={"AGENTFENSE_STATE_DIR": str(other)})
            assert (result.code, result.out) == (0, b"other\n"), result
        run.stdin.close()
        assert run.wait(TIMEOUT) == 0


# ---- environment and place ----

def test_the_environment_is_small_and_not_ours(one):
    names = {line.partition("=")[0] for line in one.run("-q", command=["env"], env={"SECRET_TOKEN": "x"}).out.decode().splitlines()}
    assert "SECRET_TOKEN" not in names and "AGENTFENSE_STATE_DIR" not in names
    assert {"PATH", "HOME", "USER"} <= names


def test_variables_are_set(one, tmp_path):
    (tmp_path / "vars").write_text("# a comment\n\nFILE=from file=x\nBOTH=file\n  \n" .replace("  \n", ""))
    result = one.run("-q", "-e", "A=b c", "-e", "EMPTY=", "-e", "OURS", "-e", "NOTHERE", "--env-file", tmp_path / "vars", "-e", "BOTH=opt",
                     command='echo "$A|$EMPTY|$OURS|${NOTHERE-unset}|$FILE|$BOTH"', env={"OURS": "o"})
    assert result.out == b"b c||o|unset|from file=x|opt\n", result


@pytest.mark.parametrize("option", [["-e", "1A=x"], ["-e", "=x"], ["-e", "A B=x"], ["--env-file", "/nonexistent"]])
def test_bad_variables_are_refused(one, option):
    result = one.run(*option, command=["true"])
    assert result.code == 2
    assert result.err.count("\n") == 1


def test_workdir(one):
    one.write("sub/a", "a")
    assert one.run("-q", command=["pwd"]).out == b"/workspace\n"
    assert one.run("-q", "-w", "sub", command=["pwd"]).out == b"/workspace/sub\n"
    assert one.run("-q", "-w", "/tmp", command=["pwd"]).out == b"/tmp\n"
    result = one.run("-w", "none", command=["pwd"])
    assert (result.code, result.err.splitlines()[0]) == (
        125, "agentfense: cannot run 'pwd' in 'none': changing the directory: No such file or directory")


def test_the_directory_is_the_current_one_by_default(one):
    assert one.call("run", "-q", "--", "ls", cwd=one.base).out == b"hello.txt\n"


def test_words_before_the_command_may_come_in_any_order(one):
    assert one.call("run", one.base, "-q", "--", "echo", "-q", "--", "x").out == b"-q -- x\n"


# ---- mounts ----

def test_mounts_ro_and_rw(host):
    data = host.dir / "data"
    data.mkdir()
    (data / "f").write_text("data\n")
    data.chmod(0o777)
    result = host.run("-q", "--mount", f"{data}:/mnt/data:ro", command="cat /mnt/data/f; echo x > /mnt/data/g; echo code $?")
    assert result.out.startswith(b"data\ncode ") and not result.out.endswith(b" 0\n"), result
    assert "Read-only file system" in result.err
    result = host.run("-q", "--mount", f"{data}:/mnt/data", command="echo made > /mnt/data/g; cat /mnt/data/g")
    assert result.out == b"made\n", result
    assert (data / "g").read_text() == "made\n"
    (data / "g").unlink()


def test_a_mount_below_a_directory_that_is_closed_to_the_sandbox(host):
    """As most homes are. Who asks for it can reach it; the files in it keep their modes."""
    closed = host.dir / "closed"
    data = closed / "data"
    data.mkdir(parents=True)
    (data / "open").mkdir()
    (data / "open").chmod(0o777)
    (data / "f").write_text("data\n")
    (data / "key").write_text("secret\n")
    (data / "key").chmod(0o600)
    (closed / "beside").write_text("beside\n")
    closed.chmod(0o700)
    host.give(closed)
    result = host.run("-q", "--mount", f"{data}:/mnt/a/data:ro", "--mount", f"{data / 'f'}:/mnt/f:ro", command="""
        cat /mnt/a/data/f /mnt/f; cat /mnt/a/data/key; echo x > /mnt/a/data/open/x; ls /mnt /mnt/a; ls /mnt/a/data/..
        grep -c ' /mnt/[a/dt]*f* ro,.*nosuid,nodev' /proc/self/mountinfo""")
    assert result.out == b"data\ndata\n/mnt:\na\nf\n\n/mnt/a:\ndata\ndata\n2\n" and result.code == 0, result
    assert "Permission denied" in result.err and "Read-only file system" in result.err, result
    result = host.run("-q", "--mount", f"{data}:/mnt/data", command="echo made > /mnt/data/open/x; cat /mnt/data/open/x")
    assert result.out == b"made\n" and result.code == 0, result
    assert (data / "open" / "x").read_text() == "made\n"


def test_a_mount_whose_source_is_a_link_on_the_way(host):
    """`run` looks links up when it is called, as any program does."""
    (host.dir / "real" / "data").mkdir(parents=True)
    (host.dir / "real" / "data" / "f").write_text("data\n")
    (host.dir / "link").symlink_to("real")
    result = host.run("-q", "--mount", f"{host.dir}/link/data:/mnt/data:ro", command="cat /mnt/data/f")
    assert result.out == b"data\n" and result.code == 0, result


def test_a_mounted_file(one):
    result = one.run("-q", "--mount", "/etc/hostname:/mnt/name:ro", command="test -f /mnt/name && echo yes")
    assert result.out == b"yes\n", result


@pytest.mark.parametrize("mount, code", [("/nonexistent:/mnt/x", 2), ("/etc", 2), ("/etc:/mnt/x:rx", 2), ("/etc:/workspace/x", 125),
                                         ("/etc:/usr/x", 125), ("/etc:/proc/x", 125), ("/etc:/", 125), ("/etc:mnt/x", 2),
                                         ("/etc:/mnt/../usr", 125)])
def test_bad_mounts_are_refused(one, mount, code):
    result = one.run("--mount", mount, command=["true"])
    assert result.code == code, result
    assert result.err.count("\n") == 1 and result.err.startswith("agentfense run: "), result
    assert code != 2 or f"--mount '{mount}'" in result.err, result
    assert one.names() == []


# ---- network ----

def test_no_network_by_default(host):
    for options in ([], ["--net", "none"]):
        devices = host.run("-q", *options, command=["cat", "/proc/net/dev"]).out
        assert [line.split(b":")[0].strip() for line in devices.splitlines()[2:]] == [b"lo"]


@pytest.mark.bwrap("the engine of the tests has a network of its own")
def test_the_hosts_network_on_request(one):
    ours = os.readlink("/proc/self/ns/net").encode()
    assert one.run("-q", "--net", "host", command=["readlink", "/proc/self/ns/net"]).out.strip() == ours
    assert one.run("-q", command=["readlink", "/proc/self/ns/net"]).out.strip() != ours


# ---- limits ----

def test_memory_that_runs_out_is_137(limited):
    result = limited.run("-m", "64M", command=["python3", "-c", "x = b'a' * (300 << 20)"])
    assert result.code == 137
    assert result.err.startswith("agentfense: it ran out of memory; the limit is 64.0 MB\n"), result


def test_memory_that_suffices(limited):
    assert limited.run("-q", "-m", "200M", command=["python3", "-c", "x = b'a' * (50 << 20); print(len(x))"]).out == b"52428800\n"


def test_pids_are_limited(host):
    script = "import os, time\nn = 0\ntry:\n  while n < 200:\n    if os.fork() == 0: time.sleep(20); os._exit(0)\n    n += 1\n" \
             "except OSError as e: print(e.errno)\nprint(n < 64)"
    result = host.run("-q", "--pids", "32", command=["python3", "-c", script])
    assert result.out == b"11\nTrue\n", result


def test_cpus_are_limited(limited):
    script = "import time\nc = time.process_time()\nw = time.monotonic()\nwhile time.monotonic() - w < 2: pass\n" \
             "print((time.process_time() - c) / (time.monotonic() - w))"
    result = limited.run("-q", "--cpus", "0.1", command=["python3", "-c", script])
    assert float(result.out) < 0.3, result


def test_disk_is_limited(host):
    result = host.run("-q", "--disk", "1M", command="dd if=/dev/zero of=big bs=64k count=64 2>&1; stat -c %s big")
    assert b"No space left on device" in result.out
    assert int(result.out.split()[-1]) <= 1 << 20
    assert host.run("-q", "--disk", "1M", command="dd if=/dev/zero of=small bs=64k count=8 2>/dev/null && echo fits").out == b"fits\n"


@pytest.mark.parametrize("option", [["-m", "0"], ["-m", "x"], ["-m", "-1"], ["--disk", "0"], ["--pids", "0"], ["--pids", "x"],
                                    ["--cpus", "0"], ["--cpus", "nan"], ["--cpus", "-1"], ["-t", "0"], ["-t", "x"], ["--net", "x"],
                                    ["--name", "a/b"], ["--name", ".x"], ["--name", ""], ["--cpu-shares", "1"]])
def test_values_that_mean_nothing_are_bad_usage(one, option):
    result = one.run(*option, command=["true"])
    assert result.code == 2, result
    assert result.err.count("\n") == 1 and result.err.startswith("agentfense run: "), result


@pytest.mark.parametrize("option", [["-m", "1K"], ["--pids", "2"]])
def test_limits_too_small_to_start_are_refused(one, option):
    result = one.run(*option, command=["true"])
    assert result.code == 125, result
    assert result.err.count("\n") == 1, result


@pytest.mark.skipif(not IS_ROOT, reason="who may have limits is not for us to say")
@pytest.mark.parametrize("option, word", [(["-m", "64M"], "memory"), (["--cpus", "1"], "cpu")])
def test_a_limit_that_cannot_be_enforced_is_refused(user, option, word):
    result = user.run(*option, command=["true"])
    if result.code == 0:
        pytest.skip("this user may make cgroups")
    assert result.code == 125
    assert result.err.startswith(f"agentfense run: a {word} limit cannot be enforced here: "), result
    assert result.err.count("\n") == 1
    assert user.names() == []
