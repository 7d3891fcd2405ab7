/*
 * Messages as JSON and back, by their descriptors: protobuf's mapping as gRPC gateways have it.
 *
 * Written: names in lowerCamelCase in the order of the fields, every field present whatever its value (of a oneof the chosen one alone),
 * 64-bit numbers as strings, enums by name, bytes as base64, points of time as RFC 3339, spans as "1.500s", messages that are not set as null.
 * Text that is no UTF-8 is written with U+FFFD where it is not, so that what is written is always JSON.
 *
 * Read: either name of a field, enums by name or number, numbers as numbers or strings, spans also as a bare number of seconds, null for
 * the default. Unknown fields are skipped. Everything else that is not exactly so is refused, with the name of the field.
 */
#pragma once

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"
#include "base/err.h"

/* What one message may take in memory, whatever the text is: a list of empty objects becomes thirty times as large. */
#define JSON_MESSAGE_MEMORY_MAX ((size_t) 32 << 20)

/* Blank text is an empty message. The caller frees with protobuf_c_message_free_unpacked(msg, NULL). -EINVAL, -ENOMEM. */
int json_message_parse(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, ProtobufCMessage **ret,
                       struct err *err);

/* The same, and unknown fields are refused by their names. */
int json_message_parse_known(const ProtobufCMessageDescriptor *descriptor, const char *text, size_t len, ProtobufCMessage **ret,
                             struct err *err);

void json_message_add(struct buf *out, const ProtobufCMessage *message);

/* A string with its quotes. */
void json_message_add_string(struct buf *out, const char *bytes, size_t len);
