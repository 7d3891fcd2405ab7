"""A WebSocket client that can also do what no client should. RFC 6455, by hand: every bit is the test's to choose."""

import base64
import json
import os
import socket
import struct

TEXT, BINARY, CLOSE, PING, PONG, MORE = 1, 2, 8, 9, 10, 0
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of that key, as in the RFC


def request(path, host="127.0.0.1", **headers):
    """The upgrade; None leaves a header out."""
    fields = {"Host": host, "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Key": KEY,
              "Sec-WebSocket-Version": "13"}
    fields.update({name.replace("_", "-"): value for name, value in headers.items()})
    lines = [f"GET {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Refused(Exception):
    def __init__(self, status, headers, body):
        super().__init__(f"{status} {body[:300]}")
        self.status, self.headers, self.body = status, headers, body


class WebSocket:
    def __init__(self, sock, path, early=b"", timeout=120, **headers):
        self.sock, self.buffer, self.closed = sock, bytearray(), None
        sock.settimeout(timeout)
        sock.sendall(request(path, **headers) + early)
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        self.headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        status = int(lines[0].split()[1])
        if status != 101:
            length = int(self.headers.get("content-length", 0))
            while len(self.buffer) < length:
                self._more()
            raise Refused(status, self.headers, self.buffer[:length])
        assert self.headers["sec-websocket-accept"] == ACCEPT and self.headers["upgrade"].lower() == "websocket"

    def _more(self):
        piece = self.sock.recv(65536)
        if not piece:
            raise EOFError("the server hung up")
        self.buffer += piece

    def _take(self, count):
        while len(self.buffer) < count:
            self._more()
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    @staticmethod
    def frame(opcode, payload=b"", fin=True, masked=True, rsv=0, length=None):
        length = len(payload) if length is None else length
        head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
        bit = 0x80 if masked else 0
        if length < 126:
            head += bytes([bit | length])
        elif length < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", length)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", length)
        if not masked:
            return head + payload
        mask = os.urandom(4)
        return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))

    def send_frame(self, *args, **options):
        self.sock.sendall(self.frame(*args, **options))

    def send(self, message):
        if isinstance(message, dict):
            message = json.dumps(message)
        self.send_frame(TEXT if isinstance(message, str) else BINARY, message.encode() if isinstance(message, str) else message)

    def receive_frame(self):
        first, second = self._take(2)
        assert not second & 0x80, "a server does not mask"
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self._take(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._take(8))
        return first & 0x0F, self._take(length)

    def receive(self):
        """The next message; pings are answered. None after the end, whose status then is in `closed`."""
        while True:
            opcode, payload = self.receive_frame()
            if opcode == PING:
                self.send_frame(PONG, payload)
            elif opcode == CLOSE:
                self.closed = struct.unpack(">H", payload[:2])[0] if payload else 1005
                try:
                    self.send_frame(CLOSE, payload[:2])
                except OSError:
                    pass
                return None
            elif opcode == TEXT:
                return payload.decode()
            elif opcode == BINARY:
                return payload

    def receive_json(self):
        message = self.receive()
        return None if message is None else message if isinstance(message, bytes) else json.loads(message)

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(port, path, **options):
    return WebSocket(socket.create_connection(("127.0.0.1", port), timeout=120), path, **options)


assert base64.b64decode(KEY) == b"the sample nonce"
