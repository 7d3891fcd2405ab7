"""Writes state.json, rows.json and the schemas: what servers of the first edition left.    usage: make.py BUILD

BUILD is a build directory of commit 70a3888, the last of that edition. Rows are the same in both databases, so they are there once. Needs
root, and PostgreSQL for its schema. The tests use what is committed; this is for whoever wants to see how it came to be.
"""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

TOP = pathlib.Path("/tmp/af-first-edition-00000000")  # as long as that of tests, which replace it
PROGRAMS = {"agentfense": "src/cli", "agentfense-client": "src/cli", "agentfense-server": "src/server", "agentfense-supervisor": "src/supervisor",
            "agentfense-container": "src/container", "agentfense-init": "src/init"}
LOST = {"server-lock", "lock", "ctl", "log", "mnt"}


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class First:
    def __init__(self, build, db=None):
        self.bin = TOP / "bin"
        self.bin.mkdir(parents=True)
        for name, place in PROGRAMS.items():
            (self.bin / name).symlink_to(build / place / name)
        self.environment = {"AGENTFENSE_STATE_DIR": str(TOP / "state"), "PATH": os.environ["PATH"], "HOME": str(TOP)}
        self.words = [str(self.bin / "agentfense"), "serve", "--server-grpc-addr=", "--server-http-addr=127.0.0.1:0", "--logging-format=json"]
        if db:
            self.environment["AGENTFENSE_STORAGE_DB_PATH"] = db

    def start(self):
        self.log = open(TOP / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(self.words, env=self.environment, stdout=self.log, stderr=self.log, cwd="/")
        while True:
            for line in (TOP / "log").read_text().splitlines():
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if said.get("msg") == "listening" and said.get("interface") == "http":
                        self.address = said["address"]
                        return
            time.sleep(0.05)

    def http(self, verb, path, body=None):
        request = urllib.request.Request(f"http://{self.address}{path}", method=verb, data=json.dumps(body).encode() if body is not None else None)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def cli(self, *words):
        return subprocess.run([str(self.bin / "agentfense"), *map(str, words)], env={**self.environment, "AGENTFENSE_URL": f"http://{self.address}"},
                              check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd="/").stdout.strip()

    def kill(self):
        self.process.kill()
        self.process.wait()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if b"agentfense-supervisor" in words and str(TOP).encode() in words:
                    os.kill(int(entry.name), signal.SIGKILL)
        time.sleep(1)


def make_things(first):
    made = {}
    for name in ("running", "stopped", "approved", "rejected", "deleted"):
        write(TOP / "projects" / name / "a", "one\n")
        write(TOP / "projects" / name / "b", "two\n")
        made[name] = first.http("POST", "/api/v1/sandboxes", {"projectRoot": str(TOP / "projects" / name), "owner": f"agent of {name}"})["id"]
        first.http("POST", f"/api/v1/sandboxes/{made[name]}/exec", {"command": "sh", "args": ["-c", "echo agent > a; rm b; echo new > c"]})
        first.http("GET", f"/api/v1/sandboxes/{made[name]}/diff")
    first.http("POST", f"/api/v1/sandboxes/{made['stopped']}/stop", {})
    first.http("POST", f"/api/v1/sandboxes/{made['approved']}/approve", {})
    first.http("POST", f"/api/v1/sandboxes/{made['rejected']}/reject", {})
    first.http("DELETE", f"/api/v1/sandboxes/{made['deleted']}")
    write(TOP / "tree" / "x", "1\n")
    made["codebase"] = first.cli("codebase", "create", "old", TOP / "tree")
    made["held"] = first.cli("create", "--preset", "full-access", "--no-sync", "--start", made["codebase"])
    first.cli("exec", made["held"], "--", "echo 2 > x; echo held > y")
    made["synced"] = first.cli("create", "--preset", "full-access", "--start", made["codebase"])
    first.cli("exec", made["synced"], "--", "echo 3 > z")
    first.cli("stop", made["held"])
    first.cli("stop", made["synced"])
    write(TOP / "projects" / "run" / "a", "one\n")
    first.cli("run", "--name", "by-run", "-n", TOP / "projects" / "run", "--", "sh", "-c", "echo agent > a")
    return made


def hello(directory):
    """What a supervisor of that edition says first."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as end:
        end.connect(str(directory / "ctl"))
        return end.recv(65536)


def tree(place):
    found = {}
    for path in sorted(place.rglob("*")):
        inside = path.relative_to(place)
        if (path.name in LOST and "codebases" not in inside.parts) or path.name.startswith(("metadata.db", ".af-tmp")) or path.is_socket() or "bin" in inside.parts[:1]:
            continue
        if path.is_symlink():
            found[str(inside)] = {"link": os.readlink(path)}
        elif path.is_dir():
            found[str(inside)] = {"mode": path.stat().st_mode & 0o7777}
        elif path.is_file():
            found[str(inside)] = {"mode": path.stat().st_mode & 0o7777, "bytes": base64.b64encode(path.read_bytes()).decode()}
    return found


def rows():
    database = sqlite3.connect(TOP / "state" / "metadata.db")
    names = [name for name, in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")]
    found = {}
    for name in names:
        cursor = database.execute(f"SELECT * FROM {name}")
        columns = [column[0] for column in cursor.description]
        found[name] = {"columns": columns, "rows": [[{"hex": value.hex()} if isinstance(value, bytes) else value for value in row] for row in cursor]}
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    schema = f"PRAGMA application_id = {mark};\n" + ";\n".join(sql for sql, in database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'")) + ";\n"
    return found, schema


def postgres_schema(build):
    from postgres import Postgres

    own = Postgres()
    try:
        url = own.new_database()
        shutil.rmtree(TOP)
        first = First(build, url)
        first.start()
        first.kill()
        return subprocess.run(["pg_dump", "--schema-only", "--no-owner", "-d", url], check=True, capture_output=True, text=True).stdout
    finally:
        own.stop()


def main(build):
    shutil.rmtree(TOP, ignore_errors=True)
    first = First(build)
    first.start()
    made = make_things(first)
    made["hello"] = base64.b64encode(hello(next((TOP / "state/mounts/sandboxes").glob("*/ctl")).parent)).decode()
    first.kill()
    found, schema = rows()
    write(HERE / "state.json", json.dumps({"made": made, "files": tree(TOP)}, indent=0, sort_keys=True) + "\n")
    write(HERE / "rows.json", json.dumps(found, indent=0, sort_keys=True) + "\n")
    write(HERE / "schema.sqlite.sql", schema)
    write(HERE / "schema.postgres.sql", "".join(line for line in postgres_schema(build).splitlines(True) if not line.startswith(("--", "\\"))))
    shutil.rmtree(TOP)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
