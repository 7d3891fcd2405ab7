// A client by grpc-js; speaker.py says what lines it reads and writes.
"use strict";

const fs = require("fs");
const readline = require("readline");
const grpc = require("@grpc/grpc-js");

const clients = {};
const same = (bytes) => bytes;

function tell(fields) {
  process.stdout.write(JSON.stringify(fields) + "\n");
}

function open(line) {
  const credentials = line.ca ? grpc.credentials.createSsl(fs.readFileSync(line.ca)) : grpc.credentials.createInsecure();
  const options = {"grpc.enable_http_proxy": 0, "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 500,
                   "grpc.use_local_subchannel_pool": 1};
  if (line.keepalive_ms) {
    options["grpc.keepalive_time_ms"] = line.keepalive_ms;
    options["grpc.keepalive_permit_without_calls"] = 1;
  }
  if (line.gzip) // it knows no compression of single calls
    options["grpc.default_compression_algorithm"] = grpc.compressionAlgorithms.gzip;
  clients[line.channel] = new grpc.Client(line.target, credentials, options);
  tell({id: line.id, code: 0});
}

function trailing(metadata) {
  const result = {};
  for (const [key, value] of Object.entries(metadata.getMap()))
    result[key] = Buffer.isBuffer(value) ? value.toString("base64") : value;
  return result;
}

function send(call, line, requests, state) {
  let count = 0;
  const next = () => {
    for (;;) {
      if (state.over)
        return;
      if (count === requests.length + (line.repeat || 0))
        break;
      if (!call.write(requests[Math.min(count++, requests.length - 1)])) {
        call.once("drain", next);
        return;
      }
    }
    if (line.abandon) // once all is out: node sends no reset for a stream that still has something to say (20.20)
      setTimeout(() => call.cancel(), 500);
    else
      call.end();
  };
  next();
}

function speak(line) {
  const client = clients[line.channel];
  const metadata = new grpc.Metadata({waitForReady: true});
  for (const [key, value] of Object.entries(line.metadata || {}))
    metadata.set(key, value);
  const options = line.deadline_ms ? {deadline: Date.now() + line.deadline_ms} : {};
  const requests = line.requests.map((text) => Buffer.from(text, "base64"));
  const answers = [];
  const state = {over: false};
  let call;

  const add = (answer) => {
    answers.push(answer.toString("base64"));
    if (answers.length === 1)
      tell({id: line.id, began: true});
    if (line.cancel_after === answers.length)
      call.cancel();
  };
  const done = (status) => {
    state.over = true;
    tell({id: line.id, code: status.code, message: status.code ? status.details : "", answers, trailing: trailing(status.metadata)});
  };
  const single = (error, answer) => {
    if (answer)
      answers.push(answer.toString("base64"));
  };

  switch (line.kind) {
  case "unary_unary":
    call = client.makeUnaryRequest(line.path, same, same, requests[0], metadata, options, single);
    break;
  case "unary_stream":
    call = client.makeServerStreamRequest(line.path, same, same, requests[0], metadata, options);
    break;
  case "stream_unary":
    call = client.makeClientStreamRequest(line.path, same, same, metadata, options, single);
    break;
  default:
    call = client.makeBidiStreamRequest(line.path, same, same, metadata, options);
  }
  if (line.kind.endsWith("_stream"))
    call.on("data", add);
  call.on("error", () => {});
  call.on("status", done);
  if (line.kind.startsWith("stream"))
    send(call, line, requests, state);
  if (line.cancel_after === 0)
    call.cancel();
}

readline.createInterface({input: process.stdin}).on("line", (text) => {
  const line = JSON.parse(text);
  if (line.op === "open")
    open(line);
  else
    speak(line);
}).on("close", () => process.exit(0));
