"""Who the agent is, and that the tools of its trade work."""

import os
import subprocess
import tempfile

import pytest

from conftest import IS_ROOT, SANDBOX_UID

pytestmark = pytest.mark.bwrap("about the users that bwrap maps")


def test_the_agent_is_agent(host):
    result = host.run("id; whoami; echo $HOME; echo ~; pwd; echo $PATH; hostname; cat /etc/hostname; getent passwd agent")
    assert result.out.splitlines() == [
        "uid=1000(agent) gid=1000(agent) groups=1000(agent)" + ("" if host.as_root or IS_ROOT else
                                                                 result.out.splitlines()[0].partition("groups=1000(agent)")[2]),
        "agent", "/home/agent", "/home/agent", "/workspace",
        "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/agentfense/bin",
        "sandbox", "sandbox", "agent:x:1000:1000:agent:/home/agent:/bin/bash"], result


def test_the_hostname_can_be_chosen(host):
    assert host.run("hostname; getent hosts box-9", "--hostname", "box-9").out.split()[0] == "box-9"


def test_files_of_the_workspace_are_the_agents(host):
    result = host.run("touch made; stat -c '%U %G' . made; echo text > made; cat made")
    assert result.out.splitlines() == ["agent agent", "agent agent", "text"]
    st = os.stat(host.workspace / "made")
    assert (st.st_uid, st.st_gid) == (host.uid, host.uid)


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_on_the_host_it_has_a_user_of_its_own(limited):
    with limited.start("echo up; sleep 60; :") as (driver, bwrap, init):
        assert driver.stdout.readline() == "up\n"
        for pid in (bwrap, init):
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                status = f.read()
            assert f"Uid:\t{SANDBOX_UID}\t{SANDBOX_UID}\t{SANDBOX_UID}\t{SANDBOX_UID}" in status
            assert "Groups:\t \n" in status
        with open(f"/proc/{init}/uid_map", encoding="utf-8") as f:
            assert f.read().split()[2] == "1"


@pytest.mark.skipif(not IS_ROOT, reason="needs root")
@pytest.mark.parametrize("uid", [0, 4294967295])
def test_root_is_refused(limited, uid):
    limited.uid = uid
    result = limited.run("id")
    limited.uid = SANDBOX_UID
    assert result.code == 125 and result.err.startswith("error INVALID_ARGUMENT"), result


def test_only_root_can_choose_a_user(user):
    result = user.run("id", "--uid", 12345)
    assert result.code == 125 and "only root" in result.err


def test_python_has_both_names(host):
    result = host.run("python --version; python3 --version; command -v python")
    lines = result.out.splitlines()
    assert lines[0] == lines[1] and lines[0].startswith("Python 3")


TOOLS = {
    "git": "git init -q r && cd r && git config user.name a && git config user.email a@b && echo x > f && git add f && "
           "git commit -qm m && git log --format=%s",
    "gcc": "printf '#include <stdio.h>\\nint main(void){puts(\"m\");}' > a.c && gcc -O1 -o a a.c && ./a",
    "make": "printf 'all:\\n\\t@echo m\\n' > Makefile && make -s",
    "python": "python3 -c 'import subprocess,threading,multiprocessing as mp\n"
              "threading.Thread(target=lambda: None).start()\n"
              "with mp.Pool(2) as p: assert p.map(abs,[-1,2])==[1,2]\n"
              "print(subprocess.check_output([\"echo\",\"m\"],text=True).strip())'",
    "pip": "python3 -m venv --without-pip v && v/bin/python -c 'print(\"m\")'",
    "node": "node -e 'const {execSync}=require(\"child_process\");require(\"fs\").writeFileSync(\"t\",\"m\");"
            "process.stdout.write(execSync(\"cat t\"));console.log()'",
    "npm": "npm init -y >/dev/null 2>&1 && node -p '\"m\" + (require(\"./package.json\").version ? \"\" : \"?\")'",
    "go": "mkdir g && cd g && printf 'module x\\ngo 1.18\\n' > go.mod && printf 'package main\\n"
          "func main(){println(\"m\")}' > m.go && PATH=$PATH:/usr/local/go/bin go run m.go",
    "tar": "mkdir d && echo x > d/f && tar cf d.tar d && tar tf d.tar | grep -q d/f && echo m",
    "bash": "bash -c 'cat <(echo m)'",
    "perl": "perl -e 'print `echo m`'",
    "ssl": "python3 -c 'import ssl; print(\"m\" if ssl.create_default_context().get_ca_certs() else \"none\")'",
}


@pytest.fixture(scope="module")
def go_cache():
    """What go has compiled of its own library, which takes ten seconds: the first sandbox does that, the others find it."""
    with tempfile.TemporaryDirectory(prefix="af-rt-go-") as place:
        os.chmod(place, 0o755)
        yield place


def options_of(host, tool, request):
    if tool != "go":
        return []
    cache = request.getfixturevalue("go_cache")
    if IS_ROOT:
        subprocess.run(["chown", "-R", f"{host.uid}:{host.uid}", cache], check=True)
    return ["--mount", f"{cache}:/mnt/go", "--env", "GOCACHE=/mnt/go"]


@pytest.mark.parametrize("tool", sorted(TOOLS))
def test_real_tools_work(host, tool, request):
    program = {"pip": "python3", "ssl": "python3", "python": "python3"}.get(tool, tool)
    where = "/usr/local/go/bin:" if tool == "go" else ""
    if subprocess.run(["sh", "-c", f"PATH={where}/usr/local/bin:/usr/bin:/bin command -v {program}"], capture_output=True,
                      check=False).returncode:
        pytest.skip(f"{program} is not installed on this host")
    result = host.run(TOOLS[tool], *options_of(host, tool, request))
    assert result.out.splitlines()[-1:] == ["m"], result
