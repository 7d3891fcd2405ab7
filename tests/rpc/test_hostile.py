"""What strangers send: floods, broken frames, silence. The server sends them away, forgets them, and goes on serving others."""

import contextlib
import gzip
import socket
import struct
import threading
import time

import grpc
import pytest
from conftest import MIB, SANITIZED, TIMEOUT
from hand import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY,
                  PROTOCOL_ERROR, RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, Hand, Raw, message)

ECHO = "/test.v1.Echo/Unary"
measures_memory = pytest.mark.skipif(bool(SANITIZED), reason="sanitizers keep what is freed")


@pytest.fixture
def others(server):
    """A client of good manners that is served during the test and after it, when all traces of the others are gone."""
    client = server.client()
    client.facts()
    yield client
    facts = client.until(lambda facts: facts.connections == 1 and facts.running == 0)
    assert facts.uid >= 0


def flood(raw, pieces):
    """Sends until the server has had enough."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            raw.send(piece)
    return raw.goaway()


# ---- floods ----


def test_calls_taken_back_at_once_are_too_many_some_day(server, others, pb):
    with Raw(server) as raw:
        body = message(pb.echo.Request(wait={"seconds": 1000}))
        pieces = (raw.headers(i, ECHO) + raw.pack(DATA, END_STREAM, i, body) + raw.pack(RST_STREAM, 0, i, struct.pack(">I", 8))
                  for i in range(1, 20001, 2))
        assert flood(raw, pieces) == ENHANCE_YOUR_CALM
    assert others.facts().ended < 2000


def test_a_client_may_take_back_some_calls(server, others, pb):
    with Raw(server) as raw:
        for i in range(1, 601, 2):
            raw.send(raw.headers(i, ECHO) + raw.pack(RST_STREAM, 0, i, struct.pack(">I", 8)))
        raw.send(raw.headers(601, ECHO) + raw.pack(DATA, END_STREAM, 601, message(pb.echo.Request(text="x"))))
        assert any(kind == HEADERS and stream == 601 for kind, _, stream, _ in raw.frames())


def test_a_client_with_many_calls_is_no_flood(start, pb):
    """Clients give each call a window of its own. Nothing of this is answered while the one thread is at work."""
    server = start("--threads", 1, "--limit", "running", 10000, "--limit", "streams", 10000)
    last = 2999
    with Raw(server) as raw:
        body = message(pb.echo.Request(wait={"seconds": 1000}))
        window = struct.pack(">I", 1 << 20)
        raw.send(b"".join(raw.headers(i, ECHO) + raw.pack(WINDOW_UPDATE, 0, i, window) + raw.pack(WINDOW_UPDATE, 0, i, window)
                          + (raw.pack(DATA, END_STREAM, i, body) if i == 1 else b"") for i in range(1, last + 1, 2)))
        raw.frame(PING, 0, 0, b"12345678")
        kinds = (kind for kind, flags, _, payload in raw.frames() if kind == GOAWAY or payload == b"12345678")
        assert next(kinds) == PING


def test_making_the_server_reset_counts_as_well(server, others):
    with Raw(server) as raw:
        # More credit than there can be is an error of the stream, which the server must reset.
        pieces = (raw.headers(i, ECHO) + raw.pack(WINDOW_UPDATE, 0, i, b"\x7f\xff\xff\xff") for i in range(1, 20001, 2))
        assert flood(raw, pieces) == ENHANCE_YOUR_CALM


def test_a_header_block_without_end_is_cut_off(server, others):
    with Raw(server) as raw:
        head = raw.headers(1, ECHO, flags=0)
        assert flood(raw, [head] + [raw.pack(CONTINUATION, 0, 1, b"\x40\x01a\x01b" * 3000)] * 1000) is not None
    with Raw(server) as raw:
        head = raw.headers(1, ECHO, flags=0)
        assert flood(raw, [head] + [raw.pack(CONTINUATION, 0, 1, b"")] * 100000) is not None


@pytest.mark.parametrize("kind, payload", [(PING, b"12345678"), (SETTINGS, b""), (PRIORITY, b"\0\0\0\0\1")],
                         ids=["ping", "settings", "priority"])
def test_frames_that_cost_nothing_are_limited(server, others, kind, payload):
    with Raw(server) as raw:
        frame = raw.pack(kind, 0, 3 if kind == PRIORITY else 0, payload)
        reader = threading.Thread(target=lambda: results.append(raw.goaway()))
        results = []
        reader.start()
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                raw.send(frame * 100)
        reader.join(TIMEOUT)
        # When the reset outruns what was said before it, there is no code to be seen.
        assert results and results[0] in (ENHANCE_YOUR_CALM, None)


def test_some_pings_are_answered(server, others):
    with Raw(server) as raw:
        for i in range(500):
            raw.frame(PING, payload=struct.pack(">Q", i))
        got = []
        for kind, flags, _, payload in raw.frames():
            if kind == PING and flags & ACK:
                got.append(struct.unpack(">Q", payload)[0])
            if len(got) == 500:
                break
        assert got == list(range(500))


def test_empty_data_frames_are_limited(server, others):
    with Raw(server) as raw:
        raw.send(raw.headers(1, "/test.v1.Echo/Collect"))
        assert flood(raw, [raw.pack(DATA, 0, 1) * 100] * 1000) == ENHANCE_YOUR_CALM


# ---- too much ----


@pytest.mark.parametrize("count, size", [(1, 20000), (200, 1), (30, 1000)])
def test_header_fields_are_limited(server, others, pb, count, size):
    with Hand(server) as hand:
        stream = hand.request(ECHO, pb.echo.Request(), extra=[(f"x-{i}", "v" * size) for i in range(count)])
        assert hand.answer(stream).headers["grpc-status"] == "8"
        stream = hand.request(ECHO, pb.echo.Request(text="x"), extra=[("x-y", "v" * 8000)])
        assert hand.answer(stream).trailers["grpc-status"] == "0"


def test_only_so_many_streams_are_opened(server, others):
    with Raw(server) as raw:
        raw.frame(SETTINGS, ACK)
        for i in range(1, 1001, 2):
            raw.send(raw.headers(i, ECHO))
        refused = 0
        for kind, _, _, payload in raw.frames():
            if kind == RST_STREAM:
                assert payload == struct.pack(">I", 7)
                refused += 1
            if refused == 500 - 256:
                break
    assert others.facts().running == 0  # nothing was asked, so no thread waits


def test_a_message_announced_too_large_is_refused_at_once(server, others):
    with Hand(server) as hand:
        stream = hand.open(ECHO)
        hand.write(stream, b"\0" + struct.pack(">I", 0xFFFFFFFF) + b"x" * 16384)
        answer = hand.answer(stream)
        assert answer.headers["grpc-status"] == "8"
        assert "received message larger than max" in answer.headers["grpc-message"]
        while answer.reset is None:
            hand.pump()
        assert answer.reset == 0  # it may stop sending, and nothing is wrong with what it got


@measures_memory
def test_announcing_much_takes_no_memory(server, others):
    before = server.rss_kib()
    hands = [Hand(server) for _ in range(4)]
    for hand in hands:
        for _ in range(60):
            stream = hand.open("/test.v1.Echo/Collect")
            hand.h2.send_data(stream, b"\0" + struct.pack(">I", 4 * MIB) + b"x" * 100)
            hand.flush()
    others.until(lambda facts: facts.running >= 200)
    assert server.rss_kib() - before < 64 << 10
    for hand in hands:
        hand.socket.close()


def test_more_than_the_window_is_an_error(server, others, pb):
    with Raw(server) as raw:
        raw.send(raw.headers(1, "/test.v1.Echo/Collect"))
        raw.frame(DATA, 0, 1, message(pb.echo.Request(wait={"seconds": 1000})))
        others.until(lambda facts: facts.running == 1)  # and takes nothing more
        for _ in range(100):
            raw.frame(DATA, 0, 1, b"x" * 8000)
        assert next(kind for kind, _, _, _ in raw.frames() if kind in (RST_STREAM, GOAWAY)) == RST_STREAM


# ---- broken ----


@pytest.mark.parametrize("fault", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3" + b"x" * 100, b"\0" * 100,
                                   PREFACE + b"\xff" * 100, PREFACE + Raw.pack(DATA, 0, 0, b"x"),
                                   PREFACE + Raw.pack(SETTINGS) + Raw.pack(HEADERS, END_HEADERS, 2, b"\x82"),
                                   PREFACE + Raw.pack(SETTINGS) + Raw.pack(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
                                   PREFACE + Raw.pack(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff"),
                                   PREFACE + Raw.pack(SETTINGS) + Raw.pack(PING, 0, 0, b"x"),
                                   PREFACE + Raw.pack(SETTINGS) + Raw.pack(CONTINUATION, 0, 1, b"x"),
                                   PREFACE + Raw.pack(SETTINGS) + b"\xff\xff\xff\0\0\0\0\0\1" + b"x" * 20000],
                         ids=["http1", "tls", "zeros", "rubbish", "data", "even", "hpack", "window", "ping", "continuation", "huge"])
def test_what_is_no_http2_is_hung_up_on(server, others, fault):
    with Raw(server, greet=False) as raw:
        raw.send(fault)
        raw.goaway()  # to the end of the connection


def served(raw, stream):
    """Reads until the stream is answered, the client's side of it being ended already."""
    for _ in until_answered(raw, stream):
        pass


def until_answered(raw, stream):
    for frame in raw.frames():
        yield frame
        if frame[2] == stream and (frame[0] == RST_STREAM or (frame[0] == HEADERS and frame[1] & END_STREAM)):
            return


@pytest.mark.parametrize("tail", ["\0x", "\0", " x", "\r\nx: y", "\x7f"], ids=repr)
def test_a_path_that_could_be_read_as_another_is_no_call(server, others, pb, tail):
    with Raw(server) as raw:
        raw.send(raw.headers(1, ECHO + tail) + raw.pack(DATA, END_STREAM, 1, message(pb.echo.Request(text="x"))))
        assert RST_STREAM in [kind for kind, _, at, _ in until_answered(raw, 1)]


def test_a_stream_that_the_client_ended_is_not_opened_again(server, others, pb):
    with Raw(server) as raw:
        raw.send(raw.headers(1, ECHO) + raw.pack(DATA, END_STREAM, 1, message(pb.echo.Request(text="x"))))
        served(raw, 1)
        # The first two may still be on their way, by the rules; the third is passed over.
        raw.send(raw.pack(WINDOW_UPDATE, 0, 1, b"\0\0\0\1") + raw.pack(RST_STREAM, 0, 1, b"\0\0\0\x08") + raw.pack(DATA, 0, 1, b"x"))
        raw.send(raw.headers(3, ECHO) + raw.pack(DATA, END_STREAM, 3, message(pb.echo.Request(text="x"))))
        served(raw, 3)
        raw.send(raw.headers(1, ECHO))
        assert raw.goaway() == STREAM_CLOSED


def test_a_stream_that_the_client_took_back_is_not_opened_again(server, others):
    with Raw(server) as raw:
        raw.send(raw.headers(1, ECHO) + raw.pack(RST_STREAM, 0, 1, b"\0\0\0\x08") + raw.headers(1, ECHO))
        assert raw.goaway() == STREAM_CLOSED


def test_streams_are_not_opened_backwards(server, others):
    with Raw(server) as raw:
        raw.send(raw.headers(5, ECHO) + raw.headers(3, ECHO))
        assert raw.goaway() == PROTOCOL_ERROR


def test_what_crosses_our_reset_is_no_fault(server, others, pb):
    with Raw(server) as raw:
        # Answered before its end: the server resets, and the client may not know yet.
        raw.send(raw.headers(1, "/test.v1.Echo/Nothing"))
        served(raw, 1)
        raw.send(raw.pack(DATA, 0, 1, b"x" * 100) + raw.headers(1, ECHO, flags=END_HEADERS | END_STREAM))
        raw.send(raw.headers(3, ECHO) + raw.pack(DATA, END_STREAM, 3, message(pb.echo.Request(text="x"))))
        served(raw, 3)


def test_requests_that_are_none_are_told_so(server, others, pb):
    with Hand(server) as hand:
        ask = pb.echo.Request(text="x")
        assert hand.answer(hand.request(ECHO, ask, content_type="application/json")).headers[":status"] == "415"
        assert hand.answer(hand.request(ECHO, ask, content_type="application/grpcx")).headers[":status"] == "415"
        assert hand.answer(hand.request(ECHO, ask, content_type=None)).headers[":status"] == "415"
        assert hand.answer(hand.request(ECHO, ask, method="PUT")).headers[":status"] == "405"
        assert hand.answer(hand.request(ECHO, ask, content_type="application/grpc+proto")).trailers["grpc-status"] == "0"
        assert hand.answer(hand.request(ECHO, ask, extra=[("grpc-timeout", "1x")])).headers["grpc-status"] == "13"
        assert hand.answer(hand.request(ECHO, ask, extra=[("grpc-timeout", "99999999H")])).trailers["grpc-status"] == "0"
        assert hand.answer(hand.open(ECHO, end=True)).headers["grpc-status"] == "13"  # without a request


def test_a_deadline_is_kept_also_for_clients_that_do_not_look_at_the_clock(server, others, pb):
    with Hand(server) as hand:
        asked = [hand.request(ECHO, pb.echo.Request(wait={"seconds": 1000}), extra=[("grpc-timeout", f"{ms}m")])
                 for ms in (1300, 1100, 1200)]  # time enough for all handlers to begin
        silent = hand.open(ECHO, extra=[("grpc-timeout", "1150m")])
        streaming = hand.request("/test.v1.Echo/Stream", pb.echo.Request(count=100000000, size=10), extra=[("grpc-timeout", "1250m")])
        for stream in (*asked, silent, streaming):
            answer = hand.answer(stream)
            assert {**answer.headers, **answer.trailers}["grpc-status"] == "4"
    others.until(lambda facts: facts.cancelled == 4)


@pytest.mark.parametrize("body, code", [(b"\0\0\0\0\5abc", "13"), (b"\0\0", "13"), (b"\2\0\0\0\0", "13"), (b"\1\0\0\0\1x", "13"),
                                        (b"", "13")])
def test_bodies_that_are_no_messages_are_errors(server, others, body, code):
    with Hand(server) as hand:
        stream = hand.open(ECHO)
        hand.h2.send_data(stream, body, end_stream=True)
        hand.flush()
        assert hand.answer(stream).headers["grpc-status"] == code


def test_gzip_is_checked(server, others, pb):
    data = pb.echo.Request(text="x").SerializeToString()
    good = gzip.compress(data)
    with Hand(server) as hand:
        for packed, code in [(good, "0"), (good[:-4], "13"), (good + b"x", "13"), (b"rubbish", "13"), (b"", "13"),
                             (gzip.compress(bytes(8 * MIB)), "8")]:
            stream = hand.open(ECHO, extra=[("grpc-encoding", "gzip")])
            hand.h2.send_data(stream, b"\1" + struct.pack(">I", len(packed)) + packed, end_stream=True)
            hand.flush()
            answer = hand.answer(stream)
            assert {**answer.headers, **answer.trailers}["grpc-status"] == code


# ---- silence ----


def closed(raw):
    """Waits until the server hangs up."""
    for _ in raw.frames():
        pass
    return True


def test_who_does_not_introduce_itself_is_hung_up_on(start):
    server = start("--limit", "handshake", 300)
    with Raw(server, greet=False) as silent, Raw(server, greet=False) as slow:
        slow.send(PREFACE[:10])
        assert closed(silent) and closed(slow)


def test_header_fields_that_do_not_end_are_hung_up_on(start):
    server = start("--limit", "handshake", 1000)
    with Raw(server) as raw:
        time.sleep(1.2)  # long after it introduced itself
        raw.send(raw.headers(1, ECHO, flags=0))
        assert closed(raw)


def test_who_gives_no_sign_of_life_is_hung_up_on(start, pb):
    server = start("--limit", "keepalive", 200, "--limit", "keepalive_timeout", 1500)
    other = server.client()
    with Raw(server) as raw:
        body = message(pb.echo.Request(wait={"seconds": 1000}))
        raw.send(raw.headers(1, ECHO) + raw.pack(DATA, END_STREAM, 1, body))
        kinds = [kind for kind, _, _, _ in raw.frames()]
        assert PING in kinds
    # Those who answer stay, and the call of the other was cancelled.
    other.until(lambda facts: facts.cancelled == 1 and facts.connections == 1)
    with Hand(server) as hand:
        while hand.pings < 4 and not hand.closed:  # the next comes only when the last was answered
            hand.pump()
        assert not hand.closed


def test_a_request_that_does_not_go_on_is_given_up(start, pb):
    server = start("--limit", "stall", 200)
    other = server.client()
    with Hand(server) as hand:
        stream = hand.open(ECHO)
        hand.write(stream, b"\0" + struct.pack(">I", 100000) + b"x" * 20000)
        assert hand.answer(stream).headers["grpc-status"] == "1"
    other.until(lambda facts: facts.running == 0)


def test_a_reader_that_never_reads_is_given_up(start, pb):
    server = start("--limit", "slow_reader", 300)
    other = server.client()
    with Hand(server) as hand:
        stream = hand.request("/test.v1.Echo/Stream", pb.echo.Request(count=10000, size=10000))
        other.until(lambda facts: facts.running == 0 and facts.cancelled == 1)
        assert stream


def test_a_socket_that_takes_nothing_is_closed(start, pb):
    server = start("--limit", "stall", 300)
    other = server.client()
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", server.port))
    hand = Raw.__new__(Raw)
    hand.socket, hand.buffer = raw, b""
    import hpack
    hand.encoder = hpack.Encoder()
    # All the credit there is, so that it is the socket that is full.
    hand.send(PREFACE + Raw.pack(SETTINGS, 0, 0, struct.pack(">HI", 4, 0x7FFFFFFF)) +
              Raw.pack(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFF0000)))
    hand.send(hand.headers(1, "/test.v1.Echo/Stream") +
              Raw.pack(DATA, END_STREAM, 1, message(pb.echo.Request(count=100000, size=100000))))
    other.until(lambda facts: facts.connections == 1 and facts.running == 0 and facts.cancelled == 1)
    raw.close()


def test_answers_that_nobody_takes_are_bounded_for_a_connection(start, pb):
    server = start("--limit", "queued", 2 * MIB)
    other = server.client()
    with Hand(server) as hand:
        for _ in range(30):
            hand.request(ECHO, pb.echo.Request(size=MIB))
        other.until(lambda facts: facts.running > 10)
        last = -1
        while last != (now := other.facts().out):
            last = now
            time.sleep(0.3)
        assert now - 1 < 10  # of 30
        # Those that wait go on when there is room again.
        for stream in list(hand.answers):
            assert len(hand.answer(stream).data) > MIB
    other.until(lambda facts: facts.running == 0)


# ---- no more descriptors, no more room ----


def test_without_descriptors_clients_are_turned_away_and_served_later(start, pb):
    server = start("--files", 40)
    client = server.client()
    client.facts()
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(80)]
    facts = client.until(lambda facts: facts.refused > 20)
    assert facts.connections < 40
    with contextlib.suppress(ConnectionError):
        sockets[-1].settimeout(TIMEOUT)
        while sockets[-1].recv(1000):  # hung up on
            pass
    for s in sockets:
        s.close()
    client.until(lambda facts: facts.connections == 1)
    assert server.client(options=[("grpc.use_local_subchannel_pool", 1)]).unary(pb.echo.Request(text="x"), timeout=TIMEOUT).text == "x"


def test_only_so_many_connections_are_taken(start):
    server = start("--limit", "connections", 5)
    client = server.client()
    client.facts()
    raws = [Raw(server) for _ in range(4)]
    client.until(lambda facts: facts.connections == 5)
    with contextlib.suppress(ConnectionError):
        assert closed(Raw(server, greet=False))
    for raw in raws:
        raw.socket.close()
    client.until(lambda facts: facts.connections == 1)


def test_connections_that_come_and_go_leave_nothing(server, others):
    before = server.descriptors()
    for _ in range(300):
        with Raw(server) as raw:
            raw.send(raw.headers(1, ECHO))
    others.until(lambda facts: facts.connections == 1)
    assert server.descriptors() <= before


def test_a_full_pool_refuses(start, pb):
    server = start("--threads", 1, "--limit", "running", 10000, "--limit", "streams", 10000)
    client = server.client()
    request = pb.echo.Request(wait={"nanos": 100_000_000})
    refused = threading.Event()

    def look(future):
        if not future.cancelled() and future.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
            refused.set()

    futures = [client.unary.future(request) for _ in range(1500)]
    for future in futures:
        future.add_done_callback(look)
    is_refused = refused.wait(TIMEOUT)
    for future in futures:
        future.cancel()
    assert is_refused
