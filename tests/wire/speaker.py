#!/usr/bin/env python3
"""A client by grpcio, told what to do in lines of JSON:   speaker.py sync|aio

Every speaker, in whatever language, understands the same lines (speakers.py writes them):

    {"id": 1, "op": "open", "channel": "c", "target": "127.0.0.1:9000", "ca": "FILE" or null, "keepalive_ms": 0,
     "gzip": false}        what is sent on it is compressed
    {"id": 2, "op": "call", "channel": "c", "path": "/service/Method", "kind": "unary_stream", "requests": ["base64"...],
     "repeat": 0,          so often is the last request sent again, as long as the server takes it
     "deadline_ms": 0, "metadata": {},
     "cancel_after": -1,   answers, after which the call is cancelled
     "abandon": false}     the call is cancelled when all requests are sent, instead of ending the stream of them

and answers each, in whatever order they end, with {"id": 2, "code": 0, "message": "", "answers": ["base64"...], "trailing": {}}; before
that, {"id": 2, "began": true} at the first answer of a call. Messages are bytes here: what is tried is how they travel.
"""

import asyncio
import base64
import json
import sys
import threading

import grpc

out_lock = threading.Lock()


def tell(**fields):
    with out_lock:
        print(json.dumps(fields), flush=True)


def options_of(line):
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100),
               ("grpc.max_reconnect_backoff_ms", 500)]
    if line.get("gzip"):
        options += [("grpc.default_compression_algorithm", grpc.Compression.Gzip.value)]
    if line.get("keepalive_ms"):
        options += [("grpc.keepalive_time_ms", line["keepalive_ms"]), ("grpc.keepalive_permit_without_calls", 1),
                    ("grpc.http2.max_pings_without_data", 0)]
    return options


def open_channel(module, line):
    if line.get("ca"):
        with open(line["ca"], "rb") as file:
            return module.secure_channel(line["target"], grpc.ssl_channel_credentials(file.read()), options_of(line))
    return module.insecure_channel(line["target"], options_of(line))


def trailing_of(pairs):
    return {key: base64.b64encode(value).decode() if isinstance(value, bytes) else value for key, value in pairs or ()}


def arguments(line):
    return {"timeout": line.get("deadline_ms") / 1000 if line.get("deadline_ms") else None,
            "metadata": list((line.get("metadata") or {}).items()) or None, "wait_for_ready": True}


def requests_of(line):
    return [base64.b64decode(text) for text in line["requests"]] + [base64.b64decode(line["requests"][-1])] * line.get("repeat", 0)


def speak_one(channel, line):
    over = threading.Event()
    sent = threading.Event()

    def requests():
        for request in requests_of(line):
            if over.is_set():
                return
            yield request
        if line.get("abandon"):
            sent.set()
            over.wait()

    kind = line["kind"]
    method = getattr(channel, kind)(line["path"])
    answers = []
    call = None
    try:
        value = requests() if kind.startswith("stream") else requests_of(line)[0]
        if kind.endswith("unary"):
            call = method.future(value, **arguments(line))
            if line.get("abandon"):
                sent.wait()
                call.cancel()
            if line.get("cancel_after") == 0:
                call.cancel()
            answers.append(call.result())
        else:
            call = method(value, **arguments(line))
            if line.get("cancel_after") == 0:
                call.cancel()
            for answer in call:
                answers.append(answer)
                if len(answers) == 1:
                    tell(id=line["id"], began=True)
                if line.get("cancel_after") == len(answers):
                    call.cancel()
        code, message = 0, ""
    except grpc.FutureCancelledError:
        code, message = 1, "cancelled"
    except grpc.RpcError as error:
        code, message = error.code().value[0], error.details()
    over.set()
    return finished(line, code, message, answers, call.trailing_metadata() if code != 1 else ())


def finished(line, code, message, answers, trailing):
    return {"id": line["id"], "code": code, "message": message, "answers": [base64.b64encode(a).decode() for a in answers],
            "trailing": trailing_of(trailing)}


def speak():
    channels = {}
    for text in sys.stdin:
        line = json.loads(text)
        if line["op"] == "open":
            channels[line["channel"]] = open_channel(grpc, line)
            tell(id=line["id"], code=0)
        else:
            threading.Thread(target=lambda line=line: tell(**speak_one(channels[line["channel"]], line)), daemon=True).start()


async def write_all(call, line):
    for request in requests_of(line):
        await call.write(request)
    if line.get("abandon"):
        call.cancel()
    else:
        await call.done_writing()


async def speak_one_async(channel, line):
    kind = line["kind"]
    method = getattr(channel, kind)(line["path"])
    answers = []
    writer = None
    if kind.startswith("stream"):
        call = method(**arguments(line))
        writer = asyncio.ensure_future(write_all(call, line))
    else:
        call = method(requests_of(line)[0], **arguments(line))
    try:
        if line.get("cancel_after") == 0:
            call.cancel()
        if kind.endswith("unary"):
            answers.append(await call)
        else:
            async for answer in call:
                answers.append(answer)
                if len(answers) == 1:
                    tell(id=line["id"], began=True)
                if line.get("cancel_after") == len(answers):
                    call.cancel()
        code, message = (await call.code()).value[0], await call.details()
    except asyncio.CancelledError:
        code, message = 1, "cancelled"
    except grpc.aio.AioRpcError as error:
        code, message = error.code().value[0], error.details()
    if writer:
        await asyncio.gather(writer, return_exceptions=True)
    tell(**finished(line, code, message or "", answers, await call.trailing_metadata() if code != 1 else ()))


async def speak_async():
    channels, tasks = {}, set()
    while text := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        line = json.loads(text)
        if line["op"] == "open":
            channels[line["channel"]] = open_channel(grpc.aio, line)
            tell(id=line["id"], code=0)
        else:
            task = asyncio.ensure_future(speak_one_async(channels[line["channel"]], line))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    if sys.argv[1] == "aio":
        asyncio.run(speak_async())
    else:
        speak()
