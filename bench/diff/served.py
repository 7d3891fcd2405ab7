"""A sandbox of a real server, in which a command has written what the other contestants compare, and how users look at it."""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

WAIT = 120


class Served:
    """`commands`: name to command, each of which shows all of it. The server's memory is asked of the kernel."""

    GET, CLIENT = "GET diff", "agentfense diff"
    WORDS = (GET, CLIENT)

    def __init__(self, build, place, base, changed, files):
        self.place, self.state, self.url = place, place / "state", None
        self.program = str(build / "src" / "cli" / "agentfense")
        place.mkdir()
        shutil.copytree(base, place / "project", symlinks=True)
        self.server = self.id = None
        try:
            self.start()
            self.id = self.make(changed, files)
        except BaseException:
            self.stop()
            raise
        self.commands = {
            self.GET: ["curl", "-sSf", "-o", "/dev/null", self.diff_of(self.id, files)],
            self.CLIENT: [self.program, "diff", self.id],
        }

    def environment(self):
        env = {"PATH": os.environ["PATH"], "AGENTFENSE_STATE_DIR": str(self.state), "HOME": str(self.place)}
        return {**env, "AGENTFENSE_URL": self.url} if self.url else env

    def is_one(self, contestant):
        return contestant.split(": ", 1)[1] in self.WORDS

    def start(self):
        log = self.place / "log"
        with open(log, "wb") as out:
            self.server = subprocess.Popen(
                [self.program, "serve", "--server-grpc-addr=", "--server-http-addr=127.0.0.1:0", "--logging-format=json"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/", env=self.environment())
        until = time.monotonic() + WAIT
        while not self.url:
            if self.server.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the server does not start:\n{log.read_text()}")
            for line in log.read_text().splitlines():
                said = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
                if said.get("msg") == "listening" and said.get("interface") == "http":
                    self.url = f"http://{said['address']}"
            time.sleep(0.02)

    def call(self, *words, **options):
        return subprocess.run([self.program, *map(str, words)], env=self.environment(), check=True, **options)

    def diff_of(self, sandbox, files):
        """All of it: without a limit the answer is a page."""
        return f"{self.url}/api/v1/sandboxes/{sandbox}/diff?limit={files}"

    def make(self, changed, files):
        """Writes the files as an agent does: by a command in the sandbox."""
        made = self.call("create", "--scope", self.place / "project", capture_output=True, text=True).stdout.strip()
        with subprocess.Popen(["tar", "-C", changed, "-c", "."], stdout=subprocess.PIPE) as tar:
            self.call("exec", "-i", "--timeout", "10m", made, "--", "tar", "-x", "--no-same-owner", "-f", "-", stdin=tar.stdout)
        with urllib.request.urlopen(self.diff_of(made, files), timeout=WAIT) as answer:
            told = json.load(answer)
        if told["stats"]["filesModified"] != files or told["stats"]["linesAdded"] != 2 * files:
            raise SystemExit(f"the sandbox does not show what was written: {told['stats']}")
        return made

    def forget_peak(self):
        Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")

    def peak_mb(self):
        for line in Path(f"/proc/{self.server.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return 0

    def stop(self):
        if self.server is None or self.server.poll() is not None:
            return
        if self.id:
            with contextlib.suppress(subprocess.CalledProcessError):  # an interrupt from the keyboard ends the server, too
                self.call("rm", self.id, stdout=subprocess.DEVNULL)
        self.server.terminate()
        self.server.wait(WAIT)
