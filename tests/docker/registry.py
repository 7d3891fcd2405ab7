"""A registry of images for an engine to fetch from: as much of the Docker Registry API (v2) as `docker pull` uses, over plain HTTP, which
engines accept from loopback. It is on the loopback of the engine's network, wherever that is, and does what a test wants it to do: go slowly
until it is told otherwise, break off, refuse."""

import contextlib
import ctypes
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import socket
import tarfile
import threading

import images

CLONE_NEWNET = 0x40000000
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
DRIP_BYTES, DRIP_SECONDS = 8192, 0.02
PATIENCE = 120  # of a held answer with a test that does not come to let it go


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def in_network(pid, make_socket):
    """A socket in that process's network; None: our own. A socket stays where it was made, so only a thread goes there."""
    made, failed = [], []

    def go():
        try:
            if pid:
                with open(f"/proc/{pid}/ns/net", "rb") as network:
                    if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) < 0:
                        raise OSError(ctypes.get_errno(), "setns")
            made.append(make_socket())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


@contextlib.contextmanager
def no_registry(engine):
    """A host at whose port nobody listens; it stays taken, so nobody will."""
    def bind():
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        return taken

    with in_network(engine.network_pid, bind) as taken:
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def make_layers(place, filler=3 << 20):
    """Of an image: busybox, and noise that cannot be compressed, so that fetching it takes a while."""
    box = images.make_box(place / "registry-box.tar")
    with open(box, "rb") as content:
        first = content.read()
    box.unlink()
    noise = io.BytesIO()
    with tarfile.open(fileobj=noise, mode="w") as tar:
        entry = tarfile.TarInfo("noise")
        entry.size, entry.mode = filler, 0o644
        tar.addfile(entry, io.BytesIO(os.urandom(filler)))
    return [first, noise.getvalue()]


class Registry:
    """`slow`, `cut` and `wants_password` hold from the next answer on; what an engine asked for is in `asked`."""

    def __init__(self, engine, layers):
        self.blobs, self.tags, self.asked = {}, {}, []
        self.slow = None  # the number of a layer that drips until `go_on` is set
        self.cut = None  # the number of a layer that ends in its midst, each time
        self.wants_password = False
        self.go_on = threading.Event()
        self.layers = [self.keep(gzip.compress(layer, 1)) for layer in layers]
        config = self.keep(json.dumps({
            "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine), "os": "linux",
            "config": {"Env": ["PATH=/bin"]}, "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
            "history": [{"created": "2026-01-01T00:00:00Z"} for _ in layers], "created": "2026-01-01T00:00:00Z"}).encode())
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.part(CONFIG, config),
            "layers": [self.part(LAYER, layer) for layer in self.layers]}).encode()
        self.socket = in_network(engine.network_pid, lambda: socket.create_server(("127.0.0.1", 0), backlog=16))
        self.port = self.socket.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self), bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = self.socket
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def keep(self, content):
        self.blobs[digest_of(content)] = content
        return digest_of(content)

    def part(self, kind, digest):
        return {"mediaType": kind, "digest": digest, "size": len(self.blobs[digest])}

    def name(self, repository, tag="latest"):
        """Of the image, as an engine is asked for it; there is nothing under other names."""
        self.tags[(repository, tag)] = self.manifest
        return f"{self.host}/{repository}:{tag}"

    def stop(self):
        self.go_on.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def handler_of(registry):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, status, content, kind="application/json", **headers):
            self.send_response(status)
            for key, value in {"Content-Type": kind, "Content-Length": len(content), **headers}.items():
                self.send_header(key.replace("_", "-"), str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def refuse(self, status, code, text, **headers):
            self.answer(status, json.dumps({"errors": [{"code": code, "message": text}]}).encode(), **headers)

        def do_GET(self):
            registry.asked.append(f"{self.command} {self.path}")
            parts = self.path.strip("/").split("/")
            if registry.wants_password:
                self.refuse(401, "UNAUTHORIZED", "authentication required", WWW_Authenticate='Basic realm="of a test"')
            elif self.path == "/v2/":
                self.answer(200, b"{}")
            elif len(parts) > 3 and parts[-2] == "manifests":
                self.give_manifest("/".join(parts[1:-2]), parts[-1])
            elif len(parts) > 3 and parts[-2] == "blobs" and parts[-1] in registry.blobs:
                self.give_blob(parts[-1])
            else:
                self.refuse(404, "BLOB_UNKNOWN", "blob unknown")

        do_HEAD = do_GET

        def give_manifest(self, repository, tag):
            found = registry.tags.get((repository, tag))
            if found is None and tag == digest_of(registry.manifest):
                found = registry.manifest
            if found is None:
                self.refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
            else:
                self.answer(200, found, MANIFEST, Docker_Content_Digest=digest_of(found))

        def give_blob(self, digest):
            content = registry.blobs[digest]
            number = registry.layers.index(digest) if digest in registry.layers else None
            if number is None or number not in (registry.slow, registry.cut):
                self.answer(200, content, "application/octet-stream")
                return
            self.begin(content)
            content = content[self.start():]
            with contextlib.suppress(OSError):
                if number == registry.cut:
                    self.wfile.write(content[:len(content) // 2])
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                else:
                    self.drip(content)
            self.close_connection = True

        def start(self):
            """Where to begin: an engine goes on where it was cut off."""
            return int((re.fullmatch(r"bytes=(\d+)-.*", self.headers.get("Range", "")) or ["", "0"])[1])

        def begin(self, content):
            self.send_response(206 if self.start() else 200)
            self.send_header("Content-Length", str(len(content) - self.start()))
            if self.start():
                self.send_header("Content-Range", f"bytes {self.start()}-{len(content) - 1}/{len(content)}")
            self.end_headers()

        def drip(self, content):
            """Most of it little by little, and the rest when somebody says so."""
            sent = 0
            for _ in range(int(PATIENCE / DRIP_SECONDS)):
                if registry.go_on.wait(DRIP_SECONDS):
                    break
                if sent < len(content) * 3 // 4:
                    self.wfile.write(content[sent:sent + DRIP_BYTES])
                    sent += DRIP_BYTES
            self.wfile.write(content[sent:])

    return Handler
