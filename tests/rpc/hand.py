"""HTTP/2 by hand: what well-behaved clients do not send."""

import socket
import struct

import h2.config
import h2.connection
import h2.events
import hpack
from conftest import TIMEOUT

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PROTOCOL_ERROR, STREAM_CLOSED, ENHANCE_YOUR_CALM = 1, 5, 11


def message(data):
    if not isinstance(data, bytes):
        data = data.SerializeToString()
    return b"\0" + struct.pack(">I", len(data)) + data


def fields(path, extra=(), **changed):
    base = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", "content-type": "application/grpc",
            "te": "trailers"}
    for name, value in changed.items():
        base[{"method": ":method", "content_type": "content-type"}.get(name, name)] = value
    return [(name, value) for name, value in base.items() if value is not None] + list(extra)


class Answer:
    def __init__(self):
        self.headers, self.trailers, self.data, self.reset = {}, {}, b"", None

    @property
    def messages(self):
        out, data = [], self.data
        while data:
            size = struct.unpack(">I", data[1:5])[0]
            out.append(data[5:5 + size])
            data = data[5 + size:]
        return out


class Hand:
    """A connection whose streams one opens oneself."""

    def __init__(self, server, address=None):
        if address and address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address[5:])
        else:
            self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.settimeout(TIMEOUT)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8",
                                                                       validate_outbound_headers=False,
                                                                       normalize_outbound_headers=False))
        self.h2.initiate_connection()
        self.answers, self.ended, self.goaway, self.closed, self.pings = {}, set(), None, False, 0
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.socket.close()

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def open(self, path, end=False, extra=(), **changed):
        stream = self.h2.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.h2.send_headers(stream, fields(path, extra, **changed), end_stream=end)
        self.flush()
        return stream

    def write(self, stream, data, end=False):
        """In pieces, without waiting for credit: there must be enough."""
        for at in range(0, len(data), 16384):
            self.h2.send_data(stream, data[at:at + 16384])
        if end:
            self.h2.end_stream(stream)
        self.flush()

    def request(self, path, data, extra=(), **changed):
        stream = self.open(path, extra=extra, **changed)
        self.h2.send_data(stream, message(data), end_stream=True)
        self.flush()
        return stream

    def pump(self):
        data = self.socket.recv(65536)
        if not data:
            self.closed = True
            return
        for event in self.h2.receive_data(data):
            stream = getattr(event, "stream_id", None)
            answer = self.answers.get(stream)
            if isinstance(event, h2.events.ResponseReceived):
                answer.headers = dict(event.headers)
            elif isinstance(event, h2.events.TrailersReceived):
                answer.trailers = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                answer.data += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            elif isinstance(event, h2.events.StreamReset):
                answer.reset = event.error_code
                self.ended.add(stream)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(stream)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event.error_code
            elif isinstance(event, h2.events.PingReceived):  # h2 answers it
                self.pings += 1
        if not self.goaway:
            self.flush()

    def answer(self, stream):
        while stream not in self.ended and not self.closed:
            self.pump()
        return self.answers[stream]


class Raw:
    """A connection without any rules."""

    def __init__(self, server, greet=True):
        self.socket = socket.create_connection(("127.0.0.1", server.port))
        self.socket.settimeout(TIMEOUT)
        self.encoder = hpack.Encoder()
        self.buffer = b""
        if greet:
            self.send(PREFACE)
            self.frame(SETTINGS)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    @staticmethod
    def pack(kind, flags=0, stream=0, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def frame(self, *args, **kwargs):
        self.send(self.pack(*args, **kwargs))

    def headers(self, stream, path, flags=END_HEADERS, **kwargs):
        return self.pack(HEADERS, flags, stream, self.encoder.encode(fields(path, **kwargs)))

    def frames(self):
        """What the server sends, until it hangs up."""
        while True:
            while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
                try:
                    data = self.socket.recv(65536)
                except ConnectionError:
                    return
                if not data:
                    return
                self.buffer += data
            size = int.from_bytes(self.buffer[:3], "big")
            kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
            payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
            yield kind, flags, stream, payload

    def goaway(self):
        """The code with which the server hangs up; None: without a word."""
        code = None
        for kind, _, _, payload in self.frames():
            if kind == GOAWAY:
                code = int.from_bytes(payload[4:8], "big")
        return code
