"""A PostgreSQL of the tests' own, as tests/unit/store/with_postgres.py runs it, with a database for each server."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/store"))

import with_postgres  # noqa: E402


class Postgres:
    def __init__(self):
        programs, user = with_postgres.find_programs(), with_postgres.find_user()
        if not programs or not user:
            raise LookupError("there is no PostgreSQL here, or no user to run it as")
        self.server = with_postgres.Server(programs, user)
        self.count = 0
        try:
            self.server.initialise()
            os.chmod(self.server.directory, 0o711)
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.server.start()
        self.server.wait()

    def kill(self):
        """Everybody's connection is gone, as with a machine that is; what was committed is there."""
        self.server.process.send_signal(signal.SIGQUIT)
        self.server.process.wait()

    def query(self, sql, database="postgres"):
        words = ["psql", "-X", "-q", "-A", "-t", "-h", self.server.directory, "-U", "tester", "-d", database, "-c", sql]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def new_database(self):
        """The URL of an empty one."""
        self.count += 1
        self.query(f"CREATE DATABASE d{self.count}")
        return f"postgresql://tester@/d{self.count}?host={self.server.directory}"

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.server.stop()
