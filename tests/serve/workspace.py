"""A workspace over HTTP, as clients of /api/v1 use it."""

import atexit
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import shutil
import socket
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "rest"))

from websocket_client import Refused, WebSocket  # noqa: E402, F401

WAIT = 120


def may_lack(driver):
    """Whether a host may do without it: the kernel's overlayfs wants a kernel that has it, and for root nothing else."""
    has_overlay = "overlay" in pathlib.Path("/proc/filesystems").read_text().split()
    return driver == "overlayfs" and (os.geteuid() != 0 or not has_overlay)


def own_name():
    """As the audit has it. The user of tests/as_user.py has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def make_project():
    """A directory that other users can reach, gone at the end."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="af-project-"))
    place.chmod(0o755)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


class Workspace:
    def __init__(self, server, files=None, **more):
        self.server = server
        self.project = make_project()
        if server.user is not None:
            os.chown(self.project, server.user, server.user)
        for path, content in (files or {"README": "read me\n"}).items():
            place = self.project / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        status, made = server.http("POST", "/api/v1/sandboxes",
                                   {"scopePath": str(self.project), "projectRoot": str(self.project), **more})
        assert status == 201, made
        self.id = made["id"]

    @property
    def path(self):
        return f"/api/v1/sandboxes/{self.id}"

    def http(self, verb, path, body=None, **options):
        return self.server.http(verb, self.path + path, body, **options)

    def ok(self, verb, path, body=None, status=200):
        got, answer = self.http(verb, path, body)
        assert got == status or (status is None and got < 300), (got, answer)
        return answer

    def exec(self, command, *args, **more):
        return self.ok("POST", "/exec", {"command": command, "args": list(args), **more})

    def sh(self, script, **more):
        return self.exec("/bin/sh", "-c", script, **more)

    def start_process(self, script, **more):
        return self.ok("POST", "/processes", {"command": "/bin/sh", "args": ["-c", script], **more}, status=201)

    def process(self, which):
        for process in self.ok("GET", "/processes")["processes"]:
            if which in (process["id"], process["pid"]):
                return process
        return None

    def wait_stopped(self, which):
        until = time.monotonic() + WAIT
        while self.process(which)["running"]:
            assert time.monotonic() < until, "it does not end"
            time.sleep(0.02)
        return self.process(which)

    def log(self, which, **query):
        return self.ok("GET", f"/processes/{which}/logs?{urllib.parse.urlencode(query)}")

    def wait_log(self, which, text):
        until = time.monotonic() + WAIT
        while text not in (content := self.log(which)["content"]):
            assert time.monotonic() < until, f"'{text}' does not come: {content!r}"
            time.sleep(0.02)

    @contextlib.contextmanager
    def follow(self, which, query="", **headers):
        """A stream of events: an iterator of (event, id, data)."""
        host, port = self.server.http_address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=WAIT)
        connection.request("GET", f"{self.path}/processes/{which}/logs/stream{query}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream"), answer.read()
        try:
            yield events_of(answer)
        finally:
            connection.close()

    def terminal(self, query="", **headers):
        host, port = self.server.http_address.rsplit(":", 1)
        return WebSocket(socket.create_connection((host, int(port)), timeout=WAIT), f"{self.path}/exec-interactive{query}",
                         **{**self.server.own_headers(), **headers})

    def remove(self):
        with contextlib.suppress(OSError):
            self.http("DELETE", "")
        shutil.rmtree(self.project, ignore_errors=True)


def events_of(answer):
    """By the rules of the HTML standard."""
    event, identity, data = "message", None, []
    for line in answer:
        line = line.decode().rstrip("\n")
        if line == "":
            if data:
                yield event, identity, "\n".join(data)
            event, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            event = value
        elif field == "id":
            identity = value
        elif field == "data":
            data.append(value)


class Terminal:
    """Both ends of a conversation with a program."""

    def __init__(self, socket, first=None):
        self.socket, self.seen, self.others, self.code = socket, bytearray(), [], None
        if first is not None:
            socket.send(first)
        self.started = self.next()

    def next(self):
        message = self.socket.receive_json()
        if isinstance(message, bytes):
            self.seen += message
        elif message and message["type"] == "stdout":
            self.seen += message["data"].encode()
        elif message and message["type"] == "exit":
            self.code = message["code"]
        elif message:
            self.others.append(message)
        return message

    def read_until(self, text):
        while text not in self.seen:
            assert self.next() is not None, (text, self.seen, self.others)

    def type(self, text):
        self.socket.send({"type": "stdin", "data": text} if isinstance(text, str) else text)

    def wait(self):
        while self.next() is not None:
            pass
        return self.code


def dump(value):
    return json.dumps(value)


def refused(answer, status):
    got, body = answer
    assert got == status, (got, body)
    assert body["code"] == status and body["success"] is False and body["error"] and body["hint"]
    return body
