"""REST, for what gRPC does not have: one request to `/api/v1` and its answer, by TCP, TLS or a unix socket."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union
from urllib.parse import quote, urlencode, urlsplit

from .exceptions import (
    AuthenticationError,
    ConflictError,
    ConnectionError,
    HookFailedError,
    InvalidConfigurationError,
    NotAcknowledgedError,
    PermissionDeniedError,
    ResourceLimitExceededError,
    ReviewError,
    SandboxError,
    SandboxNotFoundError,
    StaleDiffError,
    WouldStopError,
)

DEFAULT_URL = "http://localhost:8080"
API = "/api/v1"
SECONDS = 60.0


class Site(NamedTuple):
    """Where the server is, and who asks."""

    url: str
    token: Optional[str] = None
    ca_cert: Union[str, bytes, None] = None


class Ask(NamedTuple):
    """One request: a step of a plan."""

    verb: str
    path: str
    body: Optional[Mapping[str, Any]] = None
    query: Mapping[str, Any] = {}
    seconds: Optional[float] = SECONDS
    sandbox_id: str = ""


def make_site(url: Optional[str], token: Optional[str], ca_cert: Union[str, bytes, None]) -> Site:
    """What was given, or else what the environment says."""
    url = url or os.environ.get("AGENTFENSE_URL") or DEFAULT_URL
    if not url.startswith(("http://", "https://", "unix:/")):
        raise InvalidConfigurationError(f"'{url}' is neither http://..., https://... nor unix:/path.")
    return Site(url.rstrip("/"), token or os.environ.get("AGENTFENSE_TOKEN"), ca_cert or os.environ.get("AGENTFENSE_CA_CERT"))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connect(site: Site, seconds: Optional[float]) -> http.client.HTTPConnection:
    if site.url.startswith("unix:"):
        return _UnixConnection(site.url[len("unix:") :], seconds)
    parts = urlsplit(site.url)
    host = parts.hostname or "localhost"
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=seconds)
    given = site.ca_cert
    text = given.decode("ascii") if isinstance(given, bytes) else None
    context = ssl.create_default_context(cafile=given if isinstance(given, str) else None, cadata=text)
    return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=context)


def _failure(status: int, told: Mapping[str, Any], ask: Ask) -> SandboxError:
    """The exception for a refusal: by the reason in it, else by its status."""
    details = told.get("details")
    details = details if isinstance(details, dict) else {}
    reason = str(details.get("reason") or "")
    text = "; ".join(str(part) for part in (told.get("error"), told.get("hint")) if part)
    files = [str(file.get("projectPath", "")) for file in details.get("files", []) if isinstance(file, dict)]
    error: SandboxError
    if reason in ("DIFF_STALE", "DIFF_NOT_SERVED", "HUNK_UNKNOWN"):
        error = StaleDiffError(ask.sandbox_id, files, text)
    elif reason == "WOULD_STOP":
        error = WouldStopError(ask.sandbox_id, files, text)
    elif reason == "UNACKNOWLEDGED":
        error = NotAcknowledgedError(ask.sandbox_id, files, text)
    elif reason in ("HOOK_FAILED", "HOOKS_UNREADABLE"):
        hooks = details.get("hooks")
        error = HookFailedError(ask.sandbox_id, files, text, hooks if isinstance(hooks, list) else [])
    elif reason == "CONFLICTS":
        error = ConflictError(ask.sandbox_id, files, text)
    elif status == 401:
        error = AuthenticationError("call the server", None, text)
    elif status == 403:
        error = PermissionDeniedError("call the server", None, text)
    elif status == 404 and not reason and ask.sandbox_id:
        error = SandboxNotFoundError(ask.sandbox_id, text)
    elif status in (400, 413):
        error = InvalidConfigurationError(text)
    elif status == 429:
        error = ResourceLimitExceededError("server", "see details", text)
    elif status in (404, 409, 422):
        error = ReviewError(ask.sandbox_id, files, text)
    else:
        error = SandboxError("Operation failed", text)
    error.reason = reason or None
    return error


def perform(site: Site, ask: Ask) -> Any:
    """Does it; None where the answer is empty."""
    query = urlencode([(name, value) for name, value in ask.query.items() if value is not None], quote_via=quote)
    headers: Dict[str, str] = {"Accept": "application/json"}
    if site.token:
        headers["Authorization"] = f"Bearer {site.token}"
    body = None
    if ask.body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(ask.body).encode()
    connection = _connect(site, ask.seconds)
    try:
        connection.request(ask.verb, API + ask.path + ("?" + query if query else ""), body, headers)
        answer = connection.getresponse()
        text = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(site.url, str(error) or type(error).__name__) from error
    finally:
        connection.close()
    try:
        told = json.loads(text) if text else None
    except ValueError:
        raise ConnectionError(site.url, f"What answers there is no server of ours (HTTP status {answer.status}).") from None
    if answer.status >= 400:
        raise _failure(answer.status, told if isinstance(told, dict) else {}, ask)
    return told
