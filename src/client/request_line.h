/* Turns a request into HTTP: selects one of the method's routes, fills in the variables of its path, and puts the fields that the body lacks into
 * the query. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "call/method.h"

/* Adds "/v1/codebases/cb_1/files/a%20b?version=3" to `out`, and the JSON body to `body` if the route has one. If the method takes content,
 * `request` is its first message, and path and query carry its metadata. */
int request_line_add(const struct method *method, const ProtobufCMessage *request, const struct method_route **ret_route,
                     struct buf *out, struct buf *body, struct err *err);
