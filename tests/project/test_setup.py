"""tools/setup with dpkg-query, id and apt-get replaced by stand-ins, so that nothing is ever installed from here."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETUP = ROOT / "tools" / "setup"

# Answers as `dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' names...` does.
DPKG_QUERY = """#!/bin/sh
echo asked >> "$FAKE_QUERY_LOG"
shift 3
status=0
for name in "$@"; do
    case " $FAKE_ABSENT " in
    *" $name "*) status=1; echo "dpkg-query: no packages found matching $name" >&2; continue ;;
    esac
    case " $FAKE_REMOVED " in
    *" $name "*) echo "rc  $name" ;;
    *) echo "ii  $name" ;;
    esac
done
exit $status
"""

APT_GET = """#!/bin/sh
echo "$*" >> "$FAKE_APT_LOG"
echo "apt-get speaks"
[ "$1" != "$FAKE_APT_FAILS_AT" ]
"""


def wanted_packages():
    lines = (ROOT / "tools" / "packages.txt").read_text().splitlines()
    return [line.split("#")[0].split()[0] for line in lines if line.split("#")[0].strip()]


class Host:
    """A made-up Debian: what is installed, who runs the script, and what apt-get was asked to do."""

    def __init__(self, directory):
        self.bin = directory / "bin"
        self.apt_log = directory / "apt.log"
        self.query_log = directory / "query.log"
        self.bin.mkdir()
        self.put("dpkg-query", DPKG_QUERY)
        self.put("apt-get", APT_GET)

    def put(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, uid, absent=(), removed=(), apt_fails_at=""):
        self.put("id", f"#!/bin/sh\necho {uid}\n")
        env = {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "FAKE_ABSENT": " ".join(absent),
            "FAKE_REMOVED": " ".join(removed),
            "FAKE_APT_LOG": str(self.apt_log),
            "FAKE_QUERY_LOG": str(self.query_log),
            "FAKE_APT_FAILS_AT": apt_fails_at,
        }
        return subprocess.run([SETUP], env=env, cwd="/", capture_output=True, text=True, timeout=60)

    def queries(self):
        return self.query_log.read_text().splitlines()

    def apt_calls(self):
        return self.apt_log.read_text().splitlines() if self.apt_log.exists() else []


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_the_list_names_each_package_once():
    wanted = wanted_packages()
    assert len(wanted) == len(set(wanted)) > 0
    for line in (ROOT / "tools" / "packages.txt").read_text().splitlines():
        assert all(word.startswith("?") for word in line.split("#")[0].split()[1:])


def test_a_command_that_is_there_makes_its_package_needless(host):
    for command in ["node", "npm"]:
        host.put(command, "#!/bin/sh\n")
    result = host.run(uid=0, absent=["nodejs", "npm"])
    assert (result.returncode, host.apt_calls()) == (0, [])


@pytest.mark.parametrize("uid", [0, 1000])
def test_nothing_missing_nothing_said_nothing_done(host, uid):
    result = host.run(uid)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert host.apt_calls() == []
    assert len(host.queries()) == 1, "every make target waits for this: one question about all packages, not one for each"


def test_without_root_it_prints_the_command_and_stops(host):
    result = host.run(1000, absent=["meson", "libyaml-dev"])
    assert result.returncode == 1
    commands = [line for line in result.stderr.splitlines() if line.startswith("  ")]
    in_order = [name for name in wanted_packages() if name in ("meson", "libyaml-dev")]
    assert commands == ["  apt-get update && apt-get install -y --no-install-recommends " + " ".join(in_order)]
    assert host.apt_calls() == []


def test_as_root_it_installs_what_is_missing_in_one_call(host):
    result = host.run(0, absent=["meson", "libyaml-dev"])
    assert result.returncode == 0, result.stderr
    installs = [call.split() for call in host.apt_calls() if call.startswith("install")]
    assert len(installs) == 1
    assert [word for word in installs[0][1:] if not word.startswith("-")] == ["meson", "libyaml-dev"]
    assert "--no-install-recommends" in installs[0] and "-y" in installs[0]
    assert [call.split()[0] for call in host.apt_calls()] == ["update", "install"]
    assert "apt-get speaks" not in result.stdout + result.stderr


def test_a_package_removed_but_not_purged_is_missing(host):
    result = host.run(1000, removed=["ninja-build"])
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("--no-install-recommends ninja-build")


@pytest.mark.parametrize("step", ["update", "install"])
def test_a_failed_apt_get_fails_with_its_log(host, step):
    result = host.run(0, absent=["meson"], apt_fails_at=step)
    assert result.returncode == 1
    assert "apt-get speaks" in result.stderr
