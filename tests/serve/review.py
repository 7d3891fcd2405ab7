"""A workspace under review: a project, mostly a git repository, and what tests of reviews need again and again."""

import os
import subprocess

from workspace import Workspace

GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org",
       "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org", "PATH": os.environ["PATH"]}

FILES = {"README": "read me\n", "src/a.txt": "one\ntwo\nthree\n", "src/long.txt": "".join(f"line {n}\n" for n in range(40)), "doc/x.md": "x\n",
         "doc/y.md": "y\n"}


def git(place, *args, check=True):
    done = subprocess.run(["git", *args], cwd=place, env=GIT, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def make_repository(place):
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")


class Review(Workspace):
    def diff(self, query=""):
        return self.ok("GET", "/diff" + query)

    def paths(self):
        return [file["filePath"] for file in self.diff()["files"]]

    def file(self, path):
        return next(file for file in self.diff()["files"] if file["filePath"] == path)

    def approve(self, body=None, status=200, **headers):
        got, answer = self.http("POST", "/approve", body, **headers)
        assert got == status, (got, answer)
        return answer

    def state(self):
        return self.ok("GET", "")["status"]

    def events(self):
        return [event["eventType"] for event in self.ok("GET", "/audit")["events"]]

    def read(self, path):
        return (self.project / path).read_bytes()
