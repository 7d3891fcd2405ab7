#!/usr/bin/env python3
"""Runs test programs against a PostgreSQL of their own:   with_postgres.py PROGRAM...

The server has its data in a temporary directory, listens on a unix socket there and nowhere else, and ends with this script however
that ends. Programs find it in AGENTFENSE_TEST_POSTGRES (a URL) and its directory in AGENTFENSE_TEST_POSTGRES_DIR. A program may kill
the server (the first line of data/postmaster.pid says whom): it is started again, as soon as there is no file `hold` in the directory.
Exits with 77, which meson takes as "skipped", when there is no PostgreSQL to run.
"""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 60  # seconds, for what takes one


def find_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(p.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    initdb = shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else None


def find_user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            pass
    return None


class Server:
    def __init__(self, programs, user):
        self.programs = programs
        self.user = user
        self.process = None
        self.directory = tempfile.mkdtemp(prefix="af-pg-")
        self.data = os.path.join(self.directory, "data")
        self.log = open(os.path.join(self.directory, "log"), "ab")
        os.chmod(self.directory, 0o700)
        if os.geteuid() == 0:
            os.chown(self.directory, user.pw_uid, user.pw_gid)

    def command(self, *words):
        # Whoever kills this script ends the server too: SIGQUIT is its immediate shutdown.
        words = ["setpriv", "--pdeathsig", "QUIT", *words]
        if os.geteuid() == 0:
            words[3:3] = ["--reuid", str(self.user.pw_uid), "--regid", str(self.user.pw_gid), "--clear-groups"]
        return words

    def initialise(self):
        program = os.path.join(self.programs, "initdb")
        subprocess.run(
            self.command(program, "-D", self.data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
            stdout=self.log, stderr=subprocess.STDOUT, check=True, cwd=self.directory)

    def start(self):
        # Without fsync: what a killed server loses is not what the tests are about, the machine's losing power is not tested.
        settings = ["listen_addresses=", "fsync=" + os.environ.get("AGENTFENSE_TEST_FSYNC", "off"), "max_connections=60",
                    "shared_buffers=16MB", "unix_socket_permissions=0777", "deadlock_timeout=100ms"]
        words = [os.path.join(self.programs, "postgres"), "-D", self.data, "-k", self.directory]
        for setting in settings:
            words += ["-c", setting]
        self.process = subprocess.Popen(self.command(*words), stdout=self.log, stderr=subprocess.STDOUT, cwd=self.directory)

    def is_ready(self):
        words = [os.path.join(self.programs, "pg_isready"), "-q", "-h", self.directory]
        return subprocess.run(words, check=False).returncode == 0

    def wait(self):
        end = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("PostgreSQL does not start:\n" + self.read_log())
            time.sleep(0.05)

    def read_log(self):
        with open(os.path.join(self.directory, "log"), encoding="utf-8", errors="replace") as f:
            return f.read()[-4000:]

    def run(self, program):
        env = dict(os.environ)
        env["AGENTFENSE_TEST_POSTGRES"] = f"postgresql://tester:secret@/postgres?host={self.directory}"
        env["AGENTFENSE_TEST_POSTGRES_DIR"] = self.directory
        os.chmod(self.directory, 0o711)
        test = subprocess.Popen([program], env=env)
        try:
            while test.poll() is None:
                if self.process.poll() is not None and not os.path.exists(os.path.join(self.directory, "hold")):
                    self.start()
                time.sleep(0.02)
        finally:
            if test.poll() is None:
                test.kill()
                test.wait()
        return test.returncode

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    programs, user = find_programs(), find_user()
    if not programs or not user or not shutil.which("setpriv"):
        print("skipped: there is no PostgreSQL server here, or no user to run it as (packages postgresql, util-linux)")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(programs, user)
    failed = []
    try:
        server.initialise()
        server.start()
        for program in sys.argv[1:]:
            if server.process.poll() is not None:
                server.start()
            server.wait()
            if server.run(program) not in (0, SKIPPED):
                failed.append(os.path.basename(program))
    finally:
        server.stop()
    if failed:
        print("failed with PostgreSQL: " + " ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
