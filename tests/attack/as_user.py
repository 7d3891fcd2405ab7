"""Runs files of these tests as an ordinary user, when root runs the tests: the tests themselves, the servers, the clients and whoever calls the
command line are that user, as on most machines. Of what they need there is a copy that this user can reach, wherever the tree lies."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
USER = str(65000 + os.getpid() % 500)  # nobody's, apart from that of another run and from those of tests/run
NEEDED = ["tests/attack", "tests/serve", "tests/rest", "tests/run", "tests/supervisor", "tests/docker", "proto", "examples"]
PROGRAMS = ["AGENTFENSE", "AGENTFENSE_SERVER", "AGENTFENSE_SUPERVISOR", "AGENTFENSE_CONTAINER", "AGENTFENSE_INIT", "AGENTFENSE_MAKE_SANDBOX"]
# In a mount namespace of its own, where everybody may open FUSE, as on most machines.
AS_USER = 'mount --bind "$1" /dev/fuse; uid=$2; shift 2; exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"'


NOTHING_LEFT = 5  # pytest's exit code when no test is selected


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def copy_needed(top):
    """The environment that leads to the copies."""
    tree, programs = top / "tree", top / "bin"
    for name in NEEDED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    programs.mkdir()
    env = dict(os.environ)
    for variable in PROGRAMS:
        shutil.copy(os.environ[variable], programs)
        env[variable] = str(programs / pathlib.Path(os.environ[variable]).name)
    shutil.copy(pathlib.Path(os.environ["AGENTFENSE"]).parent / "agentfense-client", programs)
    subprocess.run(["chmod", "-R", "a+rX", str(top)], check=True)
    for name, variable in (("tmp", "TMPDIR"), ("home", "HOME")):
        (top / name).mkdir(mode=0o755)
        os.chown(top / name, int(USER), int(USER))
        env[variable] = str(top / name)
    os.mknod(top / "fuse", 0o666 | stat.S_IFCHR, os.makedev(10, 229))
    (top / "fuse").chmod(0o666)
    return {**env, "AGENTFENSE_AS_USER": "1"}


def words(top, *command):
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", AS_USER, "sh", str(top / "fuse"), USER, *command]


def main(files):
    if os.geteuid() != 0:
        skip("the tests run as an ordinary user already")
    top = pathlib.Path(tempfile.mkdtemp(prefix="af-user-"))
    top.chmod(0o755)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    child = None
    try:
        env = copy_needed(top)
        tried = subprocess.run(words(top, sys.executable, "-c", "import pytest, grpc, google.protobuf"), env=env, capture_output=True, cwd="/")
        if tried.returncode != 0:
            skip(f"an ordinary user cannot run these tests here: {tried.stderr.decode(errors='replace').strip().splitlines()[-1:]}")
        copies = [str(top / "tree" / pathlib.Path(file).resolve().relative_to(ROOT)) for file in files]
        child = subprocess.Popen(words(top, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rsfE", *copies), env=env,
                                 cwd=top / "home")
        code = child.wait()
        if code == NOTHING_LEFT:
            skip("all of it runs as an ordinary user beside root")
        return code
    finally:
        if child and child.poll() is None:
            child.terminate()
            child.wait()
        shutil.rmtree(top, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
