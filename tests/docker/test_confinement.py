"""What is different in a container from what tests/runtime tries in both, looked at from inside and from the engine's side."""


def facts(client, dock, **fields):
    sandbox = client.sandbox(client.codebase({"a": "a"}), **fields)
    (container,) = dock.containers(f"label=agentfense.sandbox={sandbox}")
    return sandbox, dock.inspect(container)


def test_the_engine_is_asked_for_nothing_it_should_not_give(client, dock):
    sandbox, seen = facts(client, dock)
    config = seen["HostConfig"]
    assert not config["Privileged"] and config["CapDrop"] == ["ALL"] and not config["CapAdd"] and not config["Devices"]
    assert config["NetworkMode"] == "none" and config["IpcMode"] == "private" and config["PidMode"] == ""
    assert any(option.startswith("no-new-privileges") for option in config["SecurityOpt"])
    assert any(option.startswith("seccomp=") and len(option) > 100 for option in config["SecurityOpt"])
    uid = int(seen["Config"]["User"].split(":")[0])
    assert uid >= 1000 and not seen["Config"]["Env"] or all("PATH" in each for each in seen["Config"]["Env"])
    client.destroy_sandbox(sandbox_id=sandbox)


def test_our_mounts_are_closed_and_scratch_places_are_bounded(client, dock):
    sandbox, _ = facts(client, dock)
    lines = client.run(sandbox, "cat /proc/self/mountinfo").stdout.splitlines()
    mounts = {line.split()[4]: set(line.split()[5].split(",")) for line in lines}
    for place in ("/workspace", "/tmp", "/var/tmp", "/home/agent"):
        assert {"nosuid", "nodev"} <= mounts[place], (place, mounts[place])
    assert [path for path, flags in mounts.items() if path.startswith(("/run/agentfense", "/etc/passwd")) and "ro" not in flags] == []
    assert client.run(sandbox, "find /sys -writable -not -type l 2>/dev/null | head").stdout == ""
    assert "/dev/fuse" not in client.run(sandbox, "ls /dev/fuse").stdout
    sizes = client.run(sandbox, "df -k --output=size /tmp /var/tmp /home/agent /dev/shm | tail -n 4").stdout.split()
    assert list(map(int, sizes)) == [512 * 1024] * 3 + [64 * 1024]
    client.destroy_sandbox(sandbox_id=sandbox)


def test_the_agent_is_agent_with_a_number_of_its_own(client, dock):
    first, second = (client.sandbox(client.codebase(), image=dock.image("tools")) for _ in range(2))
    told = [client.run(sandbox, "id -un; echo $HOME; id -u; hostname; touch mine; stat -c %U mine").stdout.split() for sandbox in (first, second)]
    assert [each[:2] + each[3:] for each in told] == [["agent", "/home/agent", "sandbox", "agent"]] * 2
    assert told[0][2] != told[1][2] and "0" not in (told[0][2], told[1][2])
    for sandbox in (first, second):
        client.destroy_sandbox(sandbox_id=sandbox)


def test_a_read_only_image_cannot_be_written(make, dock):
    client = make(**{"runtime-docker-read-only-root": "true"}).start().client()
    sandbox, seen = facts(client, dock)
    assert seen["HostConfig"]["ReadonlyRootfs"]
    done = client.run(sandbox, "for d in / /etc /usr /var /run /workspace /tmp /var/tmp /dev/shm /home/agent; do (: > $d/x) 2>/dev/null && echo $d; done")
    assert done.stdout.split() == ["/workspace", "/tmp", "/var/tmp", "/dev/shm", "/home/agent"]


def test_rules_hold_in_a_container(client, dock):
    codebase = client.codebase({"src/a.py": "a", ".env": "SECRET=1", "doc.md": "d", "view.me": "v"})
    sandbox = client.sandbox(codebase, permissions=(("**/*", "read"), ("/out/**", "write"), (".env", "none", 10), ("view.me", "view", 10)),
                             image=dock.image("box"))
    done = client.run(sandbox, "ls -A; cat .env view.me; echo x > doc.md; echo y > out/y; cat out/y src/a.py")
    assert done.stdout == "doc.md\nout\nsrc\nview.me\ny\na", done
    assert "'.env': No such file or directory" in done.stderr and done.stderr.count("Permission denied") == 2, done
    assert [event.type for event in client.events(sandbox_id=sandbox) if event.type == "permission_denied"]
    client.destroy_sandbox(sandbox_id=sandbox)


