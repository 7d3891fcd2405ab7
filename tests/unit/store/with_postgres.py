#!/usr/bin/env python3
"""Runs test programs with PostgreSQL, several at once:

    with_postgres.py PROGRAM... [--alone PROGRAM...]
    with_postgres.py --serve DIRECTORY

A program finds the URL of a database of its own in AGENTFENSE_TEST_POSTGRES. Those after --alone run one after the other, find the directory
of their server in AGENTFENSE_TEST_POSTGRES_DIR, and may kill the server (the first line of data/postmaster.pid is its process): it is started
again, as soon as there is no file `hold` in the directory.

A server has its data in a temporary directory, listens on a unix socket and nowhere else, and ends with this script however that ends. If
AGENTFENSE_TEST_POSTGRES_SHARED names the directory of a running server's socket, the programs that need no server of their own use it.
Exits with 77, which meson takes as "skipped", when there is no PostgreSQL to run.

With --serve, runs a server for others: makes DIRECTORY, prints `ready` or `unavailable: REASON`, serves at DIRECTORY/socket as user "tester",
and removes everything again when its standard input ends or it gets SIGTERM.
"""

import glob
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
PATIENCE = 120  # seconds, for what takes one
STEP = 0.02  # seconds between two looks at what runs
PROGRAMS_AT_ONCE = 4
SOCKET = ".s.PGSQL.5432"
UNAVAILABLE = "there is no PostgreSQL server here, or no user to run it as (packages postgresql, util-linux)"


def find_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: int(p.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    initdb = shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else None


def find_user():
    """PostgreSQL refuses to run as root, and as a user without a name."""
    names = (None,) if os.geteuid() != 0 else ("postgres", "nobody")
    for name in names:
        try:
            return pwd.getpwnam(name) if name else pwd.getpwuid(os.geteuid())
        except KeyError:
            pass
    return None


def is_possible():
    return bool(find_programs() and find_user() and shutil.which("setpriv"))


class Server:
    def __init__(self, programs, user, directory=None, max_connections=60):
        self.programs = programs
        self.user = user
        self.process = None
        self.max_connections = max_connections
        if directory:
            os.mkdir(directory)
        self.directory = directory or tempfile.mkdtemp(prefix="af-pg-")
        self.data = os.path.join(self.directory, "data")
        self.socket = self.directory
        self.log = open(os.path.join(self.directory, "log"), "ab")
        os.chmod(self.directory, 0o700)
        self.give(self.directory)

    def give(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def make_socket_directory(self):
        """One that other users may enter, beside the data."""
        self.socket = os.path.join(self.directory, "socket")
        os.mkdir(self.socket)
        self.give(self.socket)
        os.chmod(self.socket, 0o755)
        os.chmod(self.directory, 0o711)

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
        settings = ["listen_addresses=", "fsync=" + os.environ.get("AGENTFENSE_TEST_FSYNC", "off"),
                    f"max_connections={self.max_connections}", "shared_buffers=16MB", "unix_socket_permissions=0777", "deadlock_timeout=100ms"]
        words = [os.path.join(self.programs, "postgres"), "-D", self.data, "-k", self.socket]
        for setting in settings:
            words += ["-c", setting]
        self.process = subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        cwd=self.directory)

    def is_ready(self):
        words = [os.path.join(self.programs, "pg_isready"), "-q", "-h", self.socket]
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

    def restart_if_killed(self):
        if self.process.poll() is not None and not os.path.exists(os.path.join(self.directory, "hold")):
            self.start()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def start_server(**options):
    """A server that answers, with which this process ends. What it leaves behind when it cannot be started is removed."""
    server = Server(find_programs(), find_user(), **options)
    try:
        server.make_socket_directory()
        server.initialise()
        server.start()
        server.wait()
    except BaseException:
        server.stop()
        raise
    return server


# ---- programs ----


def query(socket, sql):
    psql = shutil.which("psql") or os.path.join(find_programs() or "", "psql")
    subprocess.run([psql, "-X", "-q", "-h", socket, "-U", "tester", "-d", "postgres", "-c", sql], check=True)


class Program:
    """A test program with a database of its own, whose output is printed when it has ended."""

    count = 0

    def __init__(self, path, socket, server):
        Program.count += 1
        self.path = path
        self.socket = socket
        self.server = server
        self.database = f"store_{os.getpid()}_{os.urandom(4).hex()}_{Program.count}"
        # From template0, which nobody can be connected to: CREATE DATABASE fails while somebody is connected to what it copies.
        query(socket, f"CREATE DATABASE {self.database} TEMPLATE template0")
        env = os.environ | {"AGENTFENSE_TEST_POSTGRES": f"postgresql://tester:secret@/{self.database}?host={socket}"}
        if server:
            env["AGENTFENSE_TEST_POSTGRES_DIR"] = server.directory
        self.outputs = [(tempfile.TemporaryFile(), stream) for stream in (sys.stdout, sys.stderr)]
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", path], env=env, stdin=subprocess.DEVNULL,
                                        stdout=self.outputs[0][0], stderr=self.outputs[1][0])

    def has_ended(self):
        if self.server:
            self.server.restart_if_killed()
        return self.process.poll() is not None

    def finish(self):
        """Whether it passed."""
        for file, stream in self.outputs:
            file.seek(0)
            stream.write(file.read().decode("utf-8", errors="replace"))
            stream.flush()
            file.close()
        if self.server:
            self.server.restart_if_killed()
            self.server.wait()
        query(self.socket, f"DROP DATABASE {self.database} WITH (FORCE)")
        return self.process.returncode in (0, SKIPPED)

    def kill(self):
        self.process.kill()
        self.process.wait()


def run_all(jobs, running):
    """The names of those that failed. A job is what a Program takes; two of one server do not run at once. `running` has what must be killed
    if this raises."""
    waiting, failed = list(jobs), []
    while waiting or running:
        busy = [program.server for program in running if program.server]
        startable = [job for job in waiting if job[2] not in busy]
        if startable and len(running) < PROGRAMS_AT_ONCE:
            waiting.remove(startable[0])
            running.append(Program(*startable[0]))
            continue
        ended = [program for program in running if program.has_ended()]
        for program in ended:
            running.remove(program)
            if not program.finish():
                failed.append(os.path.basename(program.path))
        if not ended:
            time.sleep(STEP)
    return failed


def find_shared():
    socket = os.environ.get("AGENTFENSE_TEST_POSTGRES_SHARED")
    return socket if socket and os.path.exists(os.path.join(socket, SOCKET)) else None


def run_programs(words):
    cut = words.index("--alone") if "--alone" in words else len(words)
    together, alone = words[:cut], words[cut + 1:]
    shared = find_shared()
    if not shared and not is_possible():
        print("skipped: " + UNAVAILABLE)
        return SKIPPED
    server, running, failed = None, [], []
    try:
        if not shared or (alone and is_possible()):
            server = start_server()
        if alone and not server:
            print("skipped: " + " ".join(map(os.path.basename, alone)) + ": " + UNAVAILABLE)
        of_shared = [(path, shared or server.socket, None) for path in together]
        of_server = [(path, server.socket, server) for path in alone] if server else []
        # The server of those that kill it must be nobody else's then.
        for jobs in ([of_server + of_shared] if shared else [of_shared, of_server]):
            failed += run_all(jobs, running)
    finally:
        for program in running:
            program.kill()
        if server:
            server.stop()
    if failed:
        print("failed with PostgreSQL: " + " ".join(failed))
    return 1 if failed else 0


# ---- a server for others ----


def serve(directory):
    if not is_possible():
        print("unavailable: " + UNAVAILABLE, flush=True)
        return 0
    try:
        server = start_server(directory=directory, max_connections=200)
    except (OSError, RuntimeError, subprocess.SubprocessError) as problem:
        print("unavailable: " + " ".join(str(problem).split()), flush=True)
        return 1
    try:
        print("ready", flush=True)
        while server.process.poll() is None:
            if select.select([sys.stdin], [], [], 1)[0] and not os.read(sys.stdin.fileno(), 4096):
                return 0
        print("PostgreSQL has ended:\n" + server.read_log(), file=sys.stderr)
        return 1
    finally:
        server.stop()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    words = sys.argv[1:]
    if len(words) == 2 and words[0] == "--serve":
        return serve(words[1])
    return run_programs(words)


if __name__ == "__main__":
    sys.exit(main())
