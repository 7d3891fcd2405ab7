"""A private server, for programs that find none. It lives as long as this process.

`agentfense serve` is started by a keeper (`_keeper.py`), with a state directory of its own, reachable by a unix socket that only this
user may open. The keeper ends it when this process ends, in whatever way, and destroys its sandboxes first: they would
outlive it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Optional

from ._failure import Subject
from ._rpc import DEFAULT_ENDPOINT, Call, Options, Transport
from ._schema import messages
from .exceptions import ConnectionError, SandboxError

PROBE_SECONDS = 2.0
START_SECONDS = 30.0
END_SECONDS = 60.0
SOCKET_PATH_MAX = 100  # what sun_path holds, with room for our names


class PrivateServer:
    """The keeper process and the address of its server."""

    def __init__(self, binary: str) -> None:
        top = tempfile.gettempdir()
        if len(os.fsencode(top)) > SOCKET_PATH_MAX - 40:
            top = "/tmp"
        self.directory = tempfile.mkdtemp(prefix="agentfense-", dir=top)
        self.endpoint = f"unix:{self.directory}/grpc.sock"
        self.pid = os.getpid()
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
        try:
            self.keeper = subprocess.Popen(
                [sys.executable, "-m", "agentfense._keeper", binary, self.directory],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # whoever reads ours to its end should not wait for the keeper's
                env=environment,
                start_new_session=True,  # the keeper and the server outlive a Ctrl-C, to clean up after it
            )
            self._wait()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def _wait(self) -> None:
        assert self.keeper.stdout
        answer = self.keeper.stdout.readline().decode(errors="replace").strip()
        if answer != "ready":
            self.stop()
            raise ConnectionError(self.endpoint, answer or "The private server ended at once.")

    def is_alive(self) -> bool:
        return self.pid == os.getpid() and self.keeper.poll() is None

    def stop(self) -> None:
        """Ends the server and all its sandboxes. A child that was forked off leaves both to its parent."""
        if self.pid != os.getpid():
            return
        with contextlib.suppress(OSError):
            assert self.keeper.stdin
            self.keeper.stdin.write(b"stop\n")
            self.keeper.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.keeper.wait(END_SECONDS)
        if self.keeper.stdout:
            self.keeper.stdout.close()


_lock = threading.Lock()
_server: Optional[PrivateServer] = None


def find_binary() -> Optional[str]:
    """The program `agentfense`: AGENTFENSE_BINARY, or from PATH."""
    named = os.environ.get("AGENTFENSE_BINARY")
    return shutil.which(named) if named else shutil.which("agentfense")


def _is_off() -> bool:
    return os.environ.get("AGENTFENSE_AUTOSTART", "1").lower() in ("0", "no", "off", "false")


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _check_listens(endpoint: str) -> None:
    """Raises a ConnectionError that says why no private server was started, unless another server listens."""
    if _listens(endpoint):
        return
    if _is_off():
        why = "none was started because AGENTFENSE_AUTOSTART says so"
    else:
        named = os.environ.get("AGENTFENSE_BINARY")
        where = f"'{named}' of AGENTFENSE_BINARY is no program that could be" if named else "no program 'agentfense' was found in PATH to be"
        why = f"{where} started as one; install it, or set AGENTFENSE_BINARY"
    raise ConnectionError(endpoint, f"Nobody listens there, and {why}.")


def _answers(endpoint: str) -> bool:
    """Whether a server answers there and lets us in. Another program, or another user's server, may listen on that port."""
    if not _listens(endpoint):
        return False
    transport = Transport(Options(endpoint))
    try:
        request = messages.ListCodebasesRequest(page_size=1)
        transport.perform(Call("ListCodebases", request, Subject(), PROBE_SECONDS))
    except SandboxError:
        return False
    finally:
        transport.close()
    return True


def _is_default(options: Options, given: Optional[str]) -> bool:
    return given is None and options.endpoint == DEFAULT_ENDPOINT and not options.secure and not options.token


def prefer(options: Options, given: Optional[str]) -> Options:
    """Returns the address of this process's private server if there is one and the caller named no other."""
    if _server is not None and _server.is_alive() and _is_default(options, given):
        return options._replace(endpoint=_server.endpoint)
    return options


def ensure(options: Options, given: Optional[str]) -> Options:
    """As `prefer`; starts one if the default endpoint does not answer and the program is installed."""
    global _server
    if not _is_default(options, given):
        return options
    with _lock:
        if _server is None or not _server.is_alive():
            binary = None if _is_off() else find_binary()
            if binary is None:
                _check_listens(options.endpoint)
            if binary is None or _answers(options.endpoint):
                return options
            _server = PrivateServer(binary)
        return options._replace(endpoint=_server.endpoint)


def stop() -> None:
    """Ends the private server of this process, if there is one."""
    global _server
    with _lock:
        if _server is not None:
            _server.stop()
            _server = None


atexit.register(stop)
if hasattr(os, "register_at_fork"):

    def _forget() -> None:
        global _server, _lock
        _server, _lock = None, threading.Lock()

    os.register_at_fork(after_in_child=_forget)
