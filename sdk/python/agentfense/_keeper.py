"""Keeps a private server: `python -m agentfense._keeper BINARY DIRECTORY`, started by `_private`.

Says "ready" on stdout, or what went wrong. When stdin has a line or ends, because the process that started us wants that or is
gone, it destroys the sandboxes, stops the server, and removes the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

START_SECONDS = 30.0
STOP_SECONDS = 40.0
PR_SET_PDEATHSIG = 1


IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


def _prepare() -> None:
    """The server dies with the keeper, and what it starts ignores no signal because the keeper does."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(binary: str, directory: str) -> subprocess.Popen[bytes]:
    """The server, with nothing but a socket to reach it by."""
    settings = ["--grpc-addr=", "--http-addr=", f"--unix-socket={directory}/grpc.sock"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTFENSE_")}
    environment["AGENTFENSE_STATE_DIR"] = f"{directory}/state"
    with open(f"{directory}/log", "wb") as log:
        return subprocess.Popen(
            [binary, "serve", *settings],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment,
            preexec_fn=_prepare,
        )


def wait_for_socket(server: subprocess.Popen[bytes], path: str) -> bool:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(path)
            return True
        time.sleep(0.01)
    return False


def last_words(directory: str) -> str:
    with contextlib.suppress(OSError):
        lines = open(f"{directory}/log", errors="replace").read().strip().splitlines()
        return " ".join(lines[-3:])
    return ""


def destroy_all(directory: str) -> None:
    """Its sandboxes would go on without it."""
    from . import SandboxClient, SandboxError  # here, because it is needed only now

    with SandboxClient(f"unix:{directory}/grpc.sock") as client, contextlib.suppress(SandboxError):
        for sandbox in client.list_sandboxes():
            with contextlib.suppress(SandboxError):
                client.destroy_sandbox(sandbox.id)


def remove(directory: str) -> None:
    """The kernel closes the work directory of an overlay to everybody, and an agent may have closed directories to their owner."""
    for _, names, _, parent in os.fwalk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
                try:
                    os.chmod(f"/proc/self/fd/{found}", 0o700)
                finally:
                    os.close(found)
    shutil.rmtree(directory, ignore_errors=True)


def end(server: subprocess.Popen[bytes], directory: str) -> None:
    if server.poll() is None:
        destroy_all(directory)
        server.terminate()
        try:
            server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
    remove(directory)


def main(binary: str, directory: str) -> int:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)  # only the end of who started us ends us
    try:
        server = start(binary, directory)
    except OSError as error:
        print(f"'{binary}': {error.strerror}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        return 1
    if not wait_for_socket(server, f"{directory}/grpc.sock"):
        print(last_words(directory) or "The private server did not start.", flush=True)
        end(server, directory)
        return 1
    with contextlib.suppress(OSError):
        print("ready", flush=True)
    sys.stdin.buffer.readline()
    end(server, directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
