"""Calls of every kind as real clients make them."""

import asyncio
import base64
import itertools
import threading

import grpc
import pytest
from conftest import MIB, SANITIZED, TIMEOUT

Code = grpc.StatusCode
measures_memory = pytest.mark.skipif(bool(SANITIZED), reason="sanitizers keep what is freed")


def failure(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def test_a_unary_call_is_answered(client, pb):
    answer, call = client.unary.with_call(pb.echo.Request(text="grüß", data=b"\0\xff", labels={"a": "b"}), timeout=TIMEOUT)
    assert (answer.text, answer.data, answer.count, answer.size) == ("grüß", b"\0\xff", 1, 2)
    assert call.code() == Code.OK
    trailers = dict(call.trailing_metadata())
    assert trailers["x-request-id"].startswith("req_")
    assert trailers["echo-bin"] == "grüß".encode()


def test_metadata_reaches_the_handler(client, pb):
    sent = [("x-request-id", "abc"), ("authorization", "Bearer x"), ("some-bin", b"bytes")]
    for name, value in [("authorization", "Bearer x"), ("some-bin", "bytes"), ("none", "")]:
        answer, call = client.unary.with_call(pb.echo.Request(header=name), metadata=sent, timeout=TIMEOUT)
        assert answer.text == value
        assert dict(call.trailing_metadata())["x-request-id"] == "abc"


def test_requests_are_collected(client, pb):
    answer = client.collect((pb.echo.Request(data=b"x" * i) for i in range(100)), timeout=TIMEOUT)
    assert (answer.count, answer.size) == (100, sum(range(100)))


def test_an_empty_stream_of_requests_is_one(client):
    answer = client.collect(iter([]), timeout=TIMEOUT)
    assert (answer.count, answer.size) == (0, 0)


def test_an_upload_larger_than_every_window_arrives_whole(client, pb):
    answer = client.collect((pb.echo.Request(data=b"x" * (64 << 10)) for _ in range(512)), timeout=TIMEOUT)
    assert (answer.count, answer.size) == (512, 32 * MIB)


def test_answers_are_streamed_in_order(client, pb):
    answers = list(client.stream(pb.echo.Request(count=500, size=1000), timeout=TIMEOUT))
    assert [a.count for a in answers] == list(range(500))
    assert all(len(a.data) == 1000 for a in answers)


def test_an_empty_stream_of_answers_is_one(client, pb):
    assert list(client.stream(pb.echo.Request(), timeout=TIMEOUT)) == []


def test_both_sides_talk_in_turn(client, pb):
    said = []

    def questions():
        for i in range(20):
            said.append(threading.Event())
            yield pb.echo.Request(text=str(i))
            assert said[i].wait(TIMEOUT)  # not before the answer to this one

    for i, answer in enumerate(client.chat(questions(), timeout=TIMEOUT)):
        assert (answer.text, answer.count) == (str(i), i)
        said[i].set()
    assert len(said) == 20


def test_a_hundred_streams_share_a_channel(client, pb):
    request = pb.echo.Request(text="x", count=20, size=5000)
    request.wait.nanos = 1_000_000
    calls = [client.stream(request, timeout=TIMEOUT) for _ in range(100)]
    assert all(len(list(call)) == 20 for call in calls)
    assert client.facts().connections == 1


def test_asyncio_clients_are_served(server, pb):
    async def run():
        async with grpc.aio.insecure_channel(server.addresses[0]) as channel:
            unary = channel.unary_unary("/test.v1.Echo/Unary", pb.echo.Request.SerializeToString, pb.echo.Response.FromString)
            chat = channel.stream_stream("/test.v1.Echo/Chat", pb.echo.Request.SerializeToString, pb.echo.Response.FromString)
            answers = await asyncio.gather(*(unary(pb.echo.Request(text=str(i)), timeout=TIMEOUT) for i in range(100)))
            assert [a.text for a in answers] == [str(i) for i in range(100)]
            call = chat(timeout=TIMEOUT)
            for i in range(10):
                await call.write(pb.echo.Request(text=str(i)))
                assert (await call.read()).text == str(i)
            await call.done_writing()
            assert await call.code() == Code.OK

    asyncio.run(run())


# ---- errors ----


def test_errors_have_code_and_text(client, pb):
    for number in range(1, 17):
        error = failure(lambda: client.unary(pb.echo.Request(code=number, text="50 % grüße\n"), timeout=TIMEOUT))
        assert error.code().value[0] == number
        assert error.details() == "told to fail: 50 % grüße\n"


def test_a_reason_comes_with_the_error(client, pb):
    error = failure(lambda: client.unary(pb.echo.Request(code=5, text="sb_1", reason="x"), timeout=TIMEOUT))
    status = pb.status.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    assert (status.code, status.message) == (5, "told to fail: sb_1")
    assert [d.type_url for d in status.details] == ["type.googleapis.com/google.rpc.ErrorInfo"]
    info = pb.status.ErrorInfo.FromString(status.details[0].value)
    assert (info.reason, info.domain) == ("SANDBOX_NOT_FOUND", "agentfense")
    assert dict(info.metadata) == {"sandbox_id": "sb_1", "other": "x"}


def test_the_longest_error_still_fits_a_client(client, pb):
    error = failure(lambda: client.unary(pb.echo.Request(code=9, text="ü" * 5000, reason="LONG"), timeout=TIMEOUT))
    assert error.code() == Code.FAILED_PRECONDITION
    assert error.details().startswith("told to fail: üüü")


def test_a_stream_may_fail_after_answers(client, pb):
    call = client.stream(pb.echo.Request(count=3, code=10, text="x"), timeout=TIMEOUT)
    assert len(list(itertools.islice(call, 3))) == 3
    assert failure(lambda: next(call)).code() == Code.ABORTED


@pytest.mark.parametrize("path, text", [("/test.v1.Echo/Nope", "unknown method Nope for service test.v1.Echo"),
                                        ("/nope.Nope/Unary", "unknown service nope.Nope"), ("/x", "malformed method name")])
def test_what_is_not_served_is_unimplemented(server, path, text):
    call = server.channel().unary_unary(path, lambda x: x, lambda x: x)
    error = failure(lambda: call(b"", timeout=TIMEOUT))
    assert (error.code(), error.details()) == (Code.UNIMPLEMENTED, text)


def test_a_handler_that_gives_no_answer_is_an_error_of_ours(client, pb):
    assert failure(lambda: client.silent(pb.echo.Nothing(), timeout=TIMEOUT)).code() == Code.INTERNAL


@pytest.mark.parametrize("data, text", [(b"\x0a\x02\xc3\x28", "field 'text' is not UTF-8"), (b"\x0a\x03a\0b", "field 'text' has a NUL"),
                                        (b"\x0a\x7f", "no message"), (b"\x4a\x04\x0a\x02\xff\xff", "'labels.key'")])
def test_a_request_that_is_none_is_refused(server, data, text):
    call = server.channel().unary_unary("/test.v1.Echo/Unary", lambda x: x, lambda x: x)
    error = failure(lambda: call(data, timeout=TIMEOUT))
    assert error.code() == Code.INVALID_ARGUMENT
    assert text in error.details()


# ---- sizes ----


def of_size(pb, size):
    """A request that is so long on the wire."""
    request = pb.echo.Request(data=b"x" * (size - 5))
    assert request.ByteSize() == size
    return request


def test_messages_of_4_mib_pass_both_ways_and_no_more(server, pb):
    client = server.client(options=[("grpc.max_receive_message_length", -1)])
    assert client.unary(of_size(pb, 4 * MIB - 20), timeout=TIMEOUT).size == 4 * MIB - 25
    answer = client.collect(iter([of_size(pb, 4 * MIB)] * 2), timeout=TIMEOUT)
    assert (answer.count, answer.size) == (2, 2 * (4 * MIB - 5))
    error = failure(lambda: client.unary(of_size(pb, 4 * MIB + 1), timeout=TIMEOUT))
    assert error.code() == Code.RESOURCE_EXHAUSTED
    assert error.details() == f"grpc: received message larger than max ({4 * MIB + 1} vs. {4 * MIB})"
    assert len(client.unary(pb.echo.Request(size=4 * MIB - 5), timeout=TIMEOUT).data) == 4 * MIB - 5
    error = failure(lambda: client.unary(pb.echo.Request(size=4 * MIB - 4), timeout=TIMEOUT))
    assert error.code() == Code.RESOURCE_EXHAUSTED
    assert error.details() == f"grpc: trying to send message larger than max ({4 * MIB + 1} vs. {4 * MIB})"
    assert client.unary(pb.echo.Request(text="still there"), timeout=TIMEOUT).text == "still there"


def test_compressed_requests_are_unpacked(client, pb):
    answer = client.unary(pb.echo.Request(data=b"x" * 100000), compression=grpc.Compression.Gzip, timeout=TIMEOUT)
    assert answer.size == 100000
    requests = (pb.echo.Request(data=b"y" * 50000) for _ in range(50))
    assert client.collect(requests, compression=grpc.Compression.Gzip, timeout=TIMEOUT).size == 2500000


@measures_memory
def test_a_compressed_bomb_is_refused(server, client, pb):
    before = server.peak_kib()
    big = server.client(options=[("grpc.max_send_message_length", -1)])
    error = failure(lambda: big.unary(pb.echo.Request(data=b"\0" * (64 * MIB)), compression=grpc.Compression.Gzip, timeout=TIMEOUT))
    assert error.code() == Code.RESOURCE_EXHAUSTED
    assert server.peak_kib() - before < 16 << 10


def test_another_compression_is_unimplemented_and_ours_is_told(client, pb):
    error = failure(lambda: client.unary(pb.echo.Request(data=b"x" * 1000), compression=grpc.Compression.Deflate, timeout=TIMEOUT))
    assert error.code() == Code.UNIMPLEMENTED
    assert "deflate" in error.details()


# ---- deadlines and cancelling ----


def test_a_deadline_ends_the_call_on_both_sides(client, pb):
    request = pb.echo.Request()
    request.wait.seconds = TIMEOUT * 10
    client.facts()  # it is connected, and has a second to reach the handler
    error = failure(lambda: client.unary(request, timeout=1))
    assert error.code() == Code.DEADLINE_EXCEEDED
    client.until(lambda facts: facts.cancelled == 1 and facts.running == 0)


def test_a_call_in_line_ends_at_its_deadline(start, pb):
    client = start("--threads", 1).client()
    go = threading.Event()

    def questions():
        yield pb.echo.Request()
        go.wait(TIMEOUT)

    first = client.chat(questions())
    next(first)  # the one thread there is has begun with it
    error = failure(lambda: client.unary(pb.echo.Request(), timeout=0.3))
    assert error.code() == Code.DEADLINE_EXCEEDED
    first.cancel()
    go.set()
    assert client.unary(pb.echo.Request(text="x"), timeout=TIMEOUT).text == "x"


def test_cancelling_reaches_the_handler(client, pb):
    request = pb.echo.Request(count=1000000, size=10)
    call = client.stream(request, timeout=TIMEOUT)
    next(call)
    call.cancel()
    client.until(lambda facts: facts.cancelled == 1 and facts.running == 0)
    request.wait.seconds = TIMEOUT * 10
    future = client.unary.future(request)
    client.until(lambda facts: facts.running == 1)
    future.cancel()
    client.until(lambda facts: facts.cancelled == 2 and facts.running == 0)


def test_hanging_up_reaches_the_handler(server, client, pb):
    other = server.client(options=[("grpc.use_local_subchannel_pool", 1)])
    request = pb.echo.Request()
    request.wait.seconds = TIMEOUT * 10
    futures = [other.unary.future(request) for _ in range(10)]
    client.until(lambda facts: facts.running == 10 and facts.connections == 2)
    other.channel.close()
    client.until(lambda facts: facts.cancelled == 10 and facts.running == 0 and facts.connections == 1)
    assert len(futures) == 10


def test_an_upload_broken_off_midway_is_cancelled(client, pb):
    go = threading.Event()

    def requests():
        yield pb.echo.Request(data=b"x")
        go.wait(TIMEOUT)

    call = client.collect.future(requests())
    client.until(lambda facts: facts.running == 1)
    call.cancel()
    client.until(lambda facts: facts.cancelled == 1 and facts.running == 0)
    go.set()


def test_an_error_ends_an_upload_that_goes_on(client, pb):
    sent = itertools.count()

    def requests():
        yield pb.echo.Request(code=7, text="enough")
        while True:
            next(sent)
            yield pb.echo.Request(data=b"x" * 60000)

    error = failure(lambda: client.collect(requests(), timeout=TIMEOUT))
    assert (error.code(), error.details()) == (Code.PERMISSION_DENIED, "told to fail: enough")
    client.until(lambda facts: facts.running == 0)


# ---- back-pressure ----


@measures_memory
def test_a_slow_reader_holds_up_its_handler_and_costs_little(server, client, pb):
    before = server.rss_kib()
    calls = [client.stream(pb.echo.Request(count=100000, size=10000), timeout=TIMEOUT * 5) for _ in range(4)]
    for call in calls:
        next(call)
    last = -1
    while last != (now := client.facts().out):  # until nothing goes out any more
        last = now
        threading.Event().wait(0.3)
    assert now < 20000  # of 400000
    assert server.rss_kib() - before < 16 << 10
    for call in calls:
        call.cancel()
    client.until(lambda facts: facts.running == 0)


def test_other_calls_go_on_beside_a_slow_reader(client, pb):
    slow = client.stream(pb.echo.Request(count=1000, size=100000), timeout=TIMEOUT)
    next(slow)
    for i in range(50):
        assert client.unary(pb.echo.Request(text=str(i)), timeout=TIMEOUT).text == str(i)
    assert len(list(slow)) == 999


def test_more_calls_than_may_run_wait_and_are_served(start, pb):
    client = start("--limit", "running", 3).client()
    request = pb.echo.Request(text="x")
    request.wait.nanos = 5_000_000
    futures = [client.unary.future(request, timeout=TIMEOUT) for _ in range(60)]
    assert all(future.result().text == "x" for future in futures)


def test_every_call_is_reported_when_it_is_over(client, pb):
    for _ in range(10):
        client.unary(pb.echo.Request(), timeout=TIMEOUT)
    failure(lambda: client.unary(pb.echo.Request(code=3), timeout=TIMEOUT))
    assert client.until(lambda facts: facts.ended >= 11)


@measures_memory
def test_a_thousand_streams_leave_no_memory_behind(server, client, pb):
    def round():
        futures = [client.unary.future(pb.echo.Request(data=b"x" * 20000), timeout=TIMEOUT) for _ in range(200)]
        assert all(f.result().size == 20000 for f in futures)

    for _ in range(5):
        round()
    before = server.rss_kib()
    for _ in range(10):
        round()
    assert server.rss_kib() - before < 4 << 10


def test_binary_metadata_that_is_none_is_left_out(server, pb):
    # By hand, as clients encode it themselves.
    from hand import Hand

    with Hand(server) as hand:
        stream = hand.request("/test.v1.Echo/Unary", pb.echo.Request(header="a-bin", text="x"), extra=[("a-bin", "!!!")])
        assert pb.echo.Response.FromString(hand.answer(stream).messages[0]).text == "x"
        stream = hand.request("/test.v1.Echo/Unary", pb.echo.Request(header="a-bin"),
                              extra=[("a-bin", base64.b64encode(b"ab").decode())])
        assert pb.echo.Response.FromString(hand.answer(stream).messages[0]).text == "ab"
