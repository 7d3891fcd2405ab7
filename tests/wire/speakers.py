"""The clients that are tried, as processes that are told what to do (speaker.py says how), and how each is had.

What a distribution does not have comes from the network, into AGENTFENSE_WIRE_CACHE if that is set: whoever has no network, or sets
AGENTFENSE_OFFLINE, sees these clients skipped, with the reason.
"""

import base64
import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
WAIT = 90
FETCH = 240  # seconds that getting one may take


class Missing(Exception):
    """Why there is no such client here."""


class Ended:
    """How a call ended."""

    def __init__(self, line):
        self.code, self.message, self.trailing = line["code"], line.get("message"), line.get("trailing")
        self.answers = [base64.b64decode(text) for text in line.get("answers") or ()]

    def __repr__(self):
        return f"code {self.code} {self.message!r}, {len(self.answers)} answers"


class Pending:
    def __init__(self):
        self.began, self.over = threading.Event(), threading.Event()
        self.line = None

    def wait(self, timeout=WAIT):
        assert self.over.wait(timeout), "the call does not end"
        assert self.line, "the client died"
        return Ended(self.line)


class Speaker:
    def __init__(self, args):
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "GRPC_VERBOSITY": "NONE", "PYTHONWARNINGS": "ignore"})
        self.pending = {}
        self.lock = threading.Lock()
        self.last = 0
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for text in self.process.stdout:
            line = json.loads(text)
            pending = self.pending[line["id"]]
            if line.get("began"):
                pending.began.set()
            else:
                pending.line = line
                pending.over.set()
        for pending in list(self.pending.values()):
            pending.over.set()

    def tell(self, **fields):
        pending = Pending()
        with self.lock:
            self.last += 1
            self.pending[self.last] = pending
            self.process.stdin.write(json.dumps({"id": self.last, **fields}) + "\n")
            self.process.stdin.flush()
        return pending

    def open(self, channel, target, **options):
        self.tell(op="open", channel=channel, target=target, **options).wait()

    def start(self, channel, path, kind, requests, **options):
        texts = [base64.b64encode(request).decode() for request in requests]
        return self.tell(op="call", channel=channel, path=path, kind=kind, requests=texts, **options)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join()


# How they are had.

def cache(name):
    top = pathlib.Path(os.environ.get("AGENTFENSE_WIRE_CACHE") or SCRATCH.name)
    place = top / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def fetch(args, **options):
    """Runs what gets something from elsewhere."""
    if os.environ.get("AGENTFENSE_OFFLINE"):
        raise Missing("AGENTFENSE_OFFLINE is set")
    if not shutil.which(args[0]):
        raise Missing(f"there is no {args[0]}")
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=FETCH, **options)
    except subprocess.TimeoutExpired:
        raise Missing(f"'{' '.join(map(str, args[:3]))}' did not end in {FETCH} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Missing(f"'{' '.join(map(str, args[:3]))}' failed: {' '.join(last)}")


def build(name, make):
    """What `make` leaves in a directory, which it does once; another run at the same time waits for it."""
    place = cache(name)
    with open(place.parent / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_locked(name, place, make)


def build_locked(name, place, make):
    if not (place / "ready").exists():
        work = pathlib.Path(tempfile.mkdtemp(prefix=name, dir=place.parent))
        try:
            make(work)
            (work / "ready").touch()
            shutil.rmtree(place, ignore_errors=True)
            work.rename(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return place


def debian(how):
    return [sys.executable, str(HERE / "speaker.py"), how]


def pypi(how):
    def make(work):
        # Not a venv: those have their place written into them, and this one is moved.
        fetch([sys.executable, "-m", "pip", "install", "-q", "--no-input", "--target", str(work / "packages"), "--only-binary", ":all:",
               "grpcio"])

    place = build("pypi", make)
    script = "import sys, runpy; sys.path.insert(0, sys.argv[1]); sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return [sys.executable, "-c", script, str(place / "packages"), str(HERE / "speaker.py"), how]


def go():
    def make(work):
        shutil.copy(HERE / "go" / "main.go", work)
        fetch(["go", "mod", "init", "wire"], cwd=work)
        fetch(["go", "mod", "tidy"], cwd=work)
        fetch(["go", "build", "-o", "client", "."], cwd=work)

    return [str(build("go", make) / "client")]


def js():
    def make(work):
        shutil.copy(HERE / "js" / "client.js", work)
        fetch(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(work), "@grpc/grpc-js"])

    if not shutil.which("node"):
        raise Missing("there is no node")
    return ["node", str(build("js", make) / "client.js")]


SCRATCH = tempfile.TemporaryDirectory(prefix="af-wire-")
SPEAKERS = {
    "grpcio": lambda: debian("sync"),
    "grpcio-aio": lambda: debian("aio"),
    "grpcio-newest": lambda: pypi("sync"),
    "grpcio-newest-aio": lambda: pypi("aio"),
    "grpc-go": go,
    "grpc-js": js,
}


class Fetching:
    """Gets all of these at the same time, while tests go on with those that are there."""

    def __init__(self, names):
        self.pool = concurrent.futures.ThreadPoolExecutor(len(SPEAKERS))
        self.futures = {name: self.pool.submit(SPEAKERS[name]) for name in names}

    def get(self, name):
        """The words that start it. Missing: why it is not there."""
        return self.futures[name].result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)
