/* A request as HTTP has it: which of a method's routes, the path with its variables filled in, and in the query what the body does not say. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "call/method.h"

/* Adds "/v1/codebases/cb_1/files/a%20b?version=3" to `out`, and the body as JSON to `body` where the route has one. Of a method that takes
 * content, `request` is its first message, and the metadata in it is what path and query tell. */
int request_line_add(const struct method *method, const ProtobufCMessage *request, const struct method_route **ret_route,
                     struct buf *out, struct buf *body, struct err *err);
