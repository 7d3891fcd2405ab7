"""Runs a test as an ordinary user when root runs the tests.    usage: as_user.py PROGRAM [WORD]...

The test, and all that it starts, belongs to a user that nothing else on this machine belongs to. That user sees the source tree and the build
directory in a mount namespace, read-only, at a place that every user can reach, wherever they are on the host. Words and variables
that name a path below one of them are changed accordingly. /dev/fuse is open to everybody there, as on most machines.
"""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
USER = str(2000000000 + os.getpid())
SKIPPED = 77  # to Meson
NOTHING_SELECTED = 5  # pytest's exit code
ENTER = """
mount --bind "$1/fuse" /dev/fuse
mount --bind "$2" "$1/tree" && mount -o remount,bind,ro "$1/tree"
mount --bind "$3" "$1/build" && mount -o remount,bind,ro "$1/build"
cd "$1/home"
uid=$4
shift 4
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups -- "$@"
"""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def find_build():
    """Meson runs tests in the build directory; the program under test names it as well."""
    program = pathlib.Path(os.environ.get("AGENTFENSE", os.getcwd())).resolve()
    return next((place for place in (program, *program.parents) if (place / "meson-private").is_dir()), pathlib.Path.cwd())


class User:
    def __init__(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-user-"))
        self.top.chmod(0o755)
        self.build = find_build()
        # The build directory first: it may be below the source tree.
        self.places = {str(self.build): str(self.top / "build"), str(ROOT): str(self.top / "tree")}
        for name in ("tree", "build"):
            (self.top / name).mkdir()
        for name in ("tmp", "home"):
            (self.top / name).mkdir()
            os.chown(self.top / name, int(USER), int(USER))
        os.mknod(self.top / "fuse", 0o666 | stat.S_IFCHR, os.makedev(10, 229))
        (self.top / "fuse").chmod(0o666)

    def translate(self, word):
        """A path, or a list of paths with colons between them, as this user sees it."""
        parts = []
        for part in word.split(":"):
            part = os.path.normpath(part) if part.startswith("/") else part  # Meson's lead through the build directory
            place = next((place for place in self.places if part == place or part.startswith(place + "/")), None)
            parts.append(self.places[place] + part[len(place):] if place else part)
        return ":".join(parts)

    def environment(self):
        env = {name: self.translate(value) for name, value in os.environ.items()}
        return {**env, "TMPDIR": str(self.top / "tmp"), "HOME": str(self.top / "home"), "AGENTFENSE_AS_USER": "1"}

    def words(self, *command):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", ENTER, "sh", str(self.top), str(ROOT), str(self.build), USER,
                *map(self.translate, command)]

    def check(self):
        """That this user can run tests at all."""
        script = "import sys, pytest, grpc, google.protobuf; open(sys.argv[1]).close()"
        tried = subprocess.run(self.words(sys.executable, "-c", script, str(pathlib.Path(__file__).resolve())), env=self.environment(),
                               capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            skip(f"an ordinary user cannot run these tests here: {(tried.stderr.strip().splitlines() or ['?'])[-1]}")

    def run(self, command):
        child = subprocess.Popen(self.words(*command), env=self.environment())
        try:
            return child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()


def main(command):
    if os.geteuid() != 0:
        skip("the tests run as an ordinary user already")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    user = User()
    try:
        user.check()
        code = user.run(command)
    finally:
        shutil.rmtree(user.top, ignore_errors=True)
    if code == NOTHING_SELECTED and "pytest" in command:
        skip("all of it runs as an ordinary user beside root")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
