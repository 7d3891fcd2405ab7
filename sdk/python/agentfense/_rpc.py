"""Between what is to be done and how it is carried.

What a client does is written once, as a *plan*: a generator that yields steps, gets their answers, and returns a result.
A plan neither blocks nor awaits. Two short drivers carry out plans: `Transport` with threads that wait, `AsyncTransport` in
an event loop. Whatever is more than carrying belongs into a plan.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import warnings
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import grpc

from . import _plan
from ._convert import output_of
from ._failure import Subject, from_grpc_error
from ._schema import METHODS, Method
from .exceptions import InvalidConfigurationError, SandboxError
from .types import Output

DEFAULT_ENDPOINT = "localhost:9000"
EXIT_CODE = "agentfense-exit-code"
CLOSED = "The connection was closed, or its sandbox destroyed."

T = TypeVar("T")


class Call(NamedTuple):
    """A step: one call of a method. The answer is its message, or the list of them where it streams."""

    method: str
    request: Any  # a message, or an iterator of messages where the method takes a stream
    subject: Subject
    deadline: Optional[float] = None


class Blocking(NamedTuple):
    """A step: a function that blocks, such as one that reads a directory."""

    work: Callable[[], Any]


class Streaming(NamedTuple):
    """A step: one call of a method that streams, each message given to `take` as it comes. The answer is the exit code, if there is one."""

    call: Call
    take: Callable[[Any], Any]  # in an event loop it may be a coroutine function


Step = Union[Call, Blocking, Streaming]
Plan = Generator[Step, Any, T]


class Options(NamedTuple):
    """Where the server is and how one is let in."""

    endpoint: str
    secure: bool = False
    token: Optional[str] = None
    ca_cert: Optional[bytes] = None
    client_cert: Optional[bytes] = None
    client_key: Optional[bytes] = None

    @property
    def metadata(self) -> Sequence[Tuple[str, str]]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    @property
    def credentials(self) -> Any:
        return grpc.ssl_channel_credentials(self.ca_cert, self.client_key, self.client_cert)


def _read_pem(value: Union[str, bytes, "os.PathLike[str]", None]) -> Optional[bytes]:
    """A certificate or key: its PEM itself as bytes, or the path of a file."""
    if value is None or isinstance(value, bytes):
        return value
    try:
        with open(value, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidConfigurationError(f"'{os.fspath(value)}' cannot be read", error.strerror) from error


def is_local(endpoint: str) -> bool:
    host = endpoint.rpartition(":")[0].strip("[]").lower()
    return endpoint.startswith(("unix:", "unix-abstract:")) or host in ("localhost", "::1") or host.startswith("127.")


def make_options(
    endpoint: Optional[str] = None,
    secure: bool = False,
    token: Optional[str] = None,
    ca_cert: Union[str, bytes, "os.PathLike[str]", None] = None,
    client_cert: Union[str, bytes, "os.PathLike[str]", None] = None,
    client_key: Union[str, bytes, "os.PathLike[str]", None] = None,
) -> Options:
    """What is not given comes from the environment: AGENTFENSE_ENDPOINT, AGENTFENSE_TOKEN, AGENTFENSE_CA_CERT, AGENTFENSE_CLIENT_CERT
    with AGENTFENSE_CLIENT_KEY. One file may hold both of a client."""
    where = endpoint or os.environ.get("AGENTFENSE_ENDPOINT") or DEFAULT_ENDPOINT
    ca = ca_cert if ca_cert is not None else os.environ.get("AGENTFENSE_CA_CERT") or None
    if client_cert is None and client_key is None:
        client_cert, client_key = (os.environ.get(f"AGENTFENSE_CLIENT_{what}") or None for what in ("CERT", "KEY"))
    if client_cert is None and client_key is not None:
        raise InvalidConfigurationError("a client_key without a client_cert says nothing to a server")
    if client_key is None:
        client_key = client_cert
    scheme, separator, rest = where.partition("://")
    if separator and scheme in ("http", "https"):
        where, secure = rest.rstrip("/"), secure or scheme == "https"
    elif separator and scheme != "unix":
        raise InvalidConfigurationError(f"'{where}' is no endpoint; it is host:port, http://host:port, https://host:port or unix:/path")
    options = Options(
        endpoint=where,
        secure=secure or ca is not None or client_cert is not None,
        token=token or os.environ.get("AGENTFENSE_TOKEN") or None,
        ca_cert=_read_pem(ca),
        client_cert=_read_pem(client_cert),
        client_key=_read_pem(client_key),
    )
    if options.token and not options.secure and not is_local(where):
        warnings.warn(f"the token for '{where}' is sent without encryption; use secure=True", stacklevel=3)
    return options


def _channel_options(options: Options) -> Sequence[Tuple[str, int]]:
    return (
        # Answers are bounded by the server, so there is no reason to have gRPC refuse them again.
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1),
        # One process talks to one server for long: pings find out that it is gone.
        ("grpc.keepalive_time_ms", 60000),
        ("grpc.keepalive_timeout_ms", 20000),
        # A proxy of the environment cannot reach this host, and should not see what stays on it.
        ("grpc.enable_http_proxy", 0 if is_local(options.endpoint) else 1),
    )


def _kind(method: Method) -> str:
    return f"{'stream' if method.streams_in else 'unary'}_{'stream' if method.streams_out else 'unary'}"


def _stub(channel: Any, method: Method) -> Any:
    make = getattr(channel, _kind(method))
    return make(method.path, request_serializer=method.request.SerializeToString, response_deserializer=method.answer.FromString)


def _failed(error: Any, call: Call, options: Options, began: float) -> Exception:
    if isinstance(call.request, _Requests) and call.request.error is not None:
        return call.request.error
    subject = call.subject._replace(endpoint=options.endpoint, elapsed=time.monotonic() - began)
    return from_grpc_error(error, subject)


def _exit_code(metadata: Optional[Iterable[Any]]) -> Optional[int]:
    for key, value in metadata or ():
        if key == EXIT_CODE:
            return int(value)
    return None


class _Requests(Iterator[Any]):
    """The requests of a stream. gRPC swallows exceptions of the iterator, so this class keeps them."""

    def __init__(self, messages: Iterator[Any]) -> None:
        self._messages = messages
        self.error: Optional[Exception] = None

    def __next__(self) -> Any:
        try:
            return next(self._messages)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise


def _watched(call: Call) -> Call:
    return call._replace(request=_Requests(call.request)) if METHODS[call.method].streams_in else call


class Stream(Iterator[T]):
    """An iterator over the messages of a streaming method. Closing it, or leaving its `with` block, before the end cancels the call."""

    def __init__(self, call: Call, answers: Any, options: Options, convert: Callable[[Any], T]) -> None:
        self._call = call
        self._answers = answers
        self._options = options
        self._convert = convert
        self._began = time.monotonic()
        self.exit_code: Optional[int] = None
        self.last: Any = None

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        try:
            self.last = next(self._answers)
            return self._convert(self.last)
        except StopIteration:
            self.exit_code = _exit_code(self._answers.trailing_metadata())
            raise
        except grpc.RpcError as error:
            raise _failed(error, self._call, self._options, self._began) from error

    def close(self) -> None:
        """Ends it; a command that still runs is killed."""
        self._answers.cancel()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class CommandStream(Stream[bytes]):
    """The output of a command while it runs, as bytes. Afterwards `exit_code` tells how it ended.

    Closing it, or leaving its `with` block, before the end kills the command.
    """


class OutputStream(Stream[Output]):
    """The output of a command while it runs; each piece says whether it was written to stdout or to stderr."""


class AsyncStream(AsyncIterator[T]):
    """As Stream, for `async for`."""

    def __init__(self, call: Call, start: Callable[[], Any], options: Options, convert: Callable[[Any], T]) -> None:
        self._call = call
        self._start = start
        self._answers: Any = None
        self._options = options
        self._convert = convert
        self._began = time.monotonic()
        self.exit_code: Optional[int] = None
        self.last: Any = None

    def __aiter__(self) -> AsyncStream[T]:
        return self

    async def __anext__(self) -> T:
        if self._answers is None:
            self._answers = self._start()
        try:
            answer = await self._answers.read()
            if answer is not grpc.aio.EOF:
                self.last = answer
                return self._convert(answer)
            self.exit_code = _exit_code(await self._answers.trailing_metadata())
        except grpc.RpcError as error:
            raise _failed(error, self._call, self._options, self._began) from error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends it; a command that still runs is killed."""
        if self._answers is not None:
            self._answers.cancel()

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class AsyncCommandStream(AsyncStream[bytes]):
    """As CommandStream, for `async for`."""


class AsyncOutputStream(AsyncStream[Output]):
    """As OutputStream, for `async for`."""


def _data_of(message: Any) -> bytes:
    return bytes(message.data)


class Transport:
    """Carries out plans in the thread of the caller."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._is_closed = False
        self._stubs: Dict[str, Any] = {}
        if options.secure:
            self._channel = grpc.secure_channel(options.endpoint, options.credentials, options=_channel_options(options))
        else:
            self._channel = grpc.insecure_channel(options.endpoint, options=_channel_options(options))

    def _invoke(self, call: Call) -> Any:
        if self._is_closed:
            raise SandboxError(CLOSED, call.subject.what)
        if call.method not in self._stubs:
            self._stubs[call.method] = _stub(self._channel, METHODS[call.method])
        return self._stubs[call.method](call.request, timeout=call.deadline, metadata=self.options.metadata)

    def perform(self, step: Step) -> Any:
        if isinstance(step, Blocking):
            return step.work()
        began = time.monotonic()
        if isinstance(step, Streaming):
            return self._feed(step, began)
        step = _watched(step)
        try:
            answer = self._invoke(step)
            return list(answer) if METHODS[step.method].streams_out else answer
        except grpc.RpcError as error:
            raise _failed(error, step, self.options, began) from error

    def _feed(self, step: Streaming, began: float) -> Optional[int]:
        call = _watched(step.call)
        answers = self._invoke(call)
        try:
            for message in answers:
                step.take(message)
        except grpc.RpcError as error:
            raise _failed(error, call, self.options, began) from error
        except BaseException:
            answers.cancel()
            raise
        return _exit_code(answers.trailing_metadata())

    def run(self, plan: Plan[T]) -> T:
        return _plan.run(plan, self.perform)

    def stream(self, call: Call) -> CommandStream:
        return CommandStream(call, self._invoke(call), self.options, _data_of)

    def outputs(self, call: Call) -> OutputStream:
        return OutputStream(call, self._invoke(call), self.options, output_of)

    def close(self) -> None:
        self._is_closed = True
        self._channel.close()


_END = object()


async def _in_thread(messages: Iterator[Any]) -> AsyncIterator[Any]:
    """Iterates in a thread, because the iterator may read files, which would block the event loop."""
    loop = asyncio.get_running_loop()
    while True:
        message = await loop.run_in_executor(None, next, messages, _END)
        if message is _END:
            return
        yield message


class AsyncTransport:
    """Carries out plans in an event loop. The channel is made by the first call, in the loop that it is for."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._is_closed = False
        self._channel: Any = None
        self._stubs: Dict[str, Any] = {}

    def _invoke(self, call: Call) -> Any:
        if self._is_closed:
            raise SandboxError(CLOSED, call.subject.what)
        if self._channel is None:
            options = self.options
            if options.secure:
                self._channel = grpc.aio.secure_channel(options.endpoint, options.credentials, options=_channel_options(options))
            else:
                self._channel = grpc.aio.insecure_channel(options.endpoint, options=_channel_options(options))
        method = METHODS[call.method]
        if call.method not in self._stubs:
            self._stubs[call.method] = _stub(self._channel, method)
        request = _in_thread(call.request) if method.streams_in else call.request
        return self._stubs[call.method](request, timeout=call.deadline, metadata=self.options.metadata)

    async def perform(self, step: Step) -> Any:
        if isinstance(step, Blocking):
            return await asyncio.get_running_loop().run_in_executor(None, step.work)
        began = time.monotonic()
        if isinstance(step, Streaming):
            return await self._feed(step, began)
        step = _watched(step)
        try:
            answer = self._invoke(step)
            if not METHODS[step.method].streams_out:
                return await answer
            found: List[Any] = [message async for message in answer]
            return found
        except grpc.RpcError as error:
            raise _failed(error, step, self.options, began) from error
        except asyncio.CancelledError:
            # Also what gRPC makes of requests that fail to be made; to be cancelled is something else.
            if isinstance(step.request, _Requests) and step.request.error is not None:
                raise step.request.error from None
            raise

    async def _feed(self, step: Streaming, began: float) -> Optional[int]:
        call = _watched(step.call)
        answers = self._invoke(call)
        try:
            async for message in answers:
                done = step.take(message)
                if inspect.isawaitable(done):
                    await done
            return _exit_code(await answers.trailing_metadata())
        except grpc.RpcError as error:
            raise _failed(error, call, self.options, began) from error
        except BaseException:
            answers.cancel()
            raise

    async def run(self, plan: Plan[T]) -> T:
        return await _plan.run_async(plan, self.perform)

    def stream(self, call: Call) -> AsyncCommandStream:
        return AsyncCommandStream(call, lambda: self._invoke(call), self.options, _data_of)

    def outputs(self, call: Call) -> AsyncOutputStream:
        return AsyncOutputStream(call, lambda: self._invoke(call), self.options, output_of)

    async def close(self) -> None:
        self._is_closed = True
        if self._channel is not None:
            await self._channel.close()
