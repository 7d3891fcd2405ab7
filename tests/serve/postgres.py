"""A PostgreSQL with a database for each server: of the tests' own, as tests/unit/store/with_postgres.py runs it, or one that several
processes of tests share."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit/store"))

import with_postgres  # noqa: E402


class Databases:
    """Those of a server that runs, and has its socket in a directory."""

    def __init__(self, directory):
        self.directory = directory
        self.prefix = f"d{os.getpid()}_{os.urandom(4).hex()}"  # others have theirs in the same server
        self.count = 0

    def query(self, sql, database="postgres"):
        words = ["psql", "-X", "-q", "-A", "-t", "-h", self.directory, "-U", "tester", "-d", database, "-c", sql]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def new_database(self):
        """The URL of an empty one."""
        self.count += 1
        name = f"{self.prefix}_{self.count}"
        # From template0, which nobody can be connected to: CREATE DATABASE fails while somebody is connected to what it copies.
        self.query(f"CREATE DATABASE {name} TEMPLATE template0")
        return f"postgresql://tester@/{name}?host={self.directory}"

    def drop_database(self, url):
        name = url.partition("@/")[2].partition("?")[0]
        self.query(f"DROP DATABASE {name} WITH (FORCE)")


class Postgres(Databases):
    """One of our own."""

    def __init__(self):
        programs, user = with_postgres.find_programs(), with_postgres.find_user()
        if not programs or not user:
            raise LookupError("there is no PostgreSQL here, or no user to run it as")
        self.server = with_postgres.Server(programs, user)
        super().__init__(self.server.directory)
        try:
            self.server.initialise()
            os.chmod(self.server.directory, 0o711)
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def is_running(self):
        return self.server.process is not None and self.server.process.poll() is None

    def start(self):
        self.server.start()
        self.server.wait()

    def kill(self):
        """Everybody's connection is gone, as with a machine that is; what was committed is there."""
        self.server.process.send_signal(signal.SIGQUIT)
        self.server.process.wait()

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.server.stop()
