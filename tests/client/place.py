"""Where verbs of the API are tried: a state directory of its own, with a server or with the private one of the verbs. Leaves no process, mount or file."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

WAIT = 120  # of what takes a second on an idle machine

NUMBERS = "".join(f"{n}\n" for n in range(1, 41))
CHANGE = "sed -i '2s/.*/two/; 30s/.*/thirty/' n.txt; rm old.txt; echo new > src/new.py"  # of what is in the fixture `project`


def sandbox_id(uuid):
    """The id of a sandbox, which is its directory's name, by its UUID: see src/base/sandbox_id.h."""
    digits = uuid.replace("-", "")
    if digits[12] == "4" and digits[16] == "8" and set(digits[18:]) == {"0"}:
        return "sb_" + digits[:12] + digits[13:16] + digits[17]
    return "ws_" + digits


def eventually(condition):
    """Waits for something that another process does in its own time."""
    until = time.monotonic() + WAIT
    while not (value := condition()):
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.02)
    return value


class Place:
    def __init__(self, program, is_remote):
        self.program, self.is_remote = str(program), is_remote
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="af-client-"))
        self.state = self.top / "state"
        self.server = self.url = None

    def environment(self, **more):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "AGENTFENSE_STATE_DIR": str(self.state), "LC_ALL": "C.UTF-8"}
        # Nobody listens where a server would by default: another one of this host is not to be talked to.
        env["AGENTFENSE_SERVER_HTTP_ADDR"] = "127.0.0.1:1"
        if self.url:
            env["AGENTFENSE_URL"] = self.url
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        return {**env, **more}

    def serve(self, *options):
        log_path = self.top / "log"
        with open(log_path, "wb") as log:
            self.server = subprocess.Popen(
                [self.program, "serve", "--server-grpc-addr=", "--server-http-addr=127.0.0.1:0", "--logging-format=json", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd="/")

        def address():
            assert self.server.poll() is None, log_path.read_text()
            for line in log_path.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if said.get("msg") == "listening" and said.get("interface") == "http":
                        return said["address"]
            return None

        self.address = eventually(address)
        self.url = f"http://{self.address}"
        return self

    def run(self, *words, code=0, input=None, env=None, **options):
        """A verb, to its end. Its exit code is as expected."""
        feed = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, env=self.environment(**(env or {})), timeout=WAIT,
                              cwd=self.top, **feed, **options)
        done.out, done.err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.out}\n{done.err}"
        return done

    def say(self, *words, **options):
        return self.run(*words, **options).out.strip()

    def json(self, *words, **options):
        at = words.index("--") if "--" in words else len(words)
        return json.loads(self.run(*words[:at], "--json", *words[at:], **options).out)

    def start(self, *words, **options):
        return subprocess.Popen([self.program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.environment(), cwd=self.top, **options)

    def token(self, *words):
        return self.say("token", "create", *words)

    def supervisors(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if words[0].endswith(b"/agentfense-supervisor") and any(str(self.top).encode() in word for word in words):
                        found.append(int(entry.name))
        return found

    def connect(self, line=b"yield\n"):
        """A lifeline of the private server, on which something was said; None: it is not there."""
        try:
            place = os.open(self.state / "private", os.O_PATH)
        except FileNotFoundError:
            return None
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, place)
            lifeline = socket.socket(socket.AF_UNIX)
            try:
                lifeline.connect(f"/proc/self/fd/{place}/lifeline")
                lifeline.sendall(line)
                return lifeline
            except OSError:
                lifeline.close()
                return None

    def private_pid(self):
        """The process number of the private server, told by the kernel; None: there is none."""
        lifeline = self.connect(b"")
        if not lifeline:
            return None
        with lifeline:
            return struct.unpack("3i", lifeline.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def end_private(self):
        """Waits until no private server has the state, and asks one without clients to end at once."""
        lock = self.state / "server-lock"
        if self.server or not lock.exists():
            return
        with open(lock) as held:
            def is_free():
                lifeline = self.connect()
                if lifeline:
                    with lifeline:
                        lifeline.recv(100)
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return True

            eventually(is_free)

    def remove(self):
        if self.server and self.server.poll() is None:
            self.server.terminate()
            self.server.wait(WAIT)
        self.server = None
        self.end_private()
        for pid in self.supervisors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        eventually(lambda: not self.supervisors())
        shutil.rmtree(self.top)
