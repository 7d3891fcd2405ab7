/*
 * Messages from strangers: protobuf-c unpacks what it is given, without a bound on nesting or memory, and turns a string with a NUL in it
 * into a shorter one. So the bytes are checked against the message's descriptor first, and unpacked within a budget.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"

/* The largest message of the API, on the wire: what gRPC's clients take by default. */
#define MESSAGE_BYTES_MAX (4u << 20)
#define MESSAGE_DEPTH_MAX 32

/* -EBADMSG and INVALID_ARGUMENT, naming the field, unless the bytes are well-formed, nested at most MESSAGE_DEPTH_MAX deep, and every
 * string in them is UTF-8 without a NUL. Fields that the descriptor does not know are passed over. Allocates nothing. */
int message_check(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, struct err *err);

/* INVALID_ARGUMENT when there is a field in it, or in a message in it, that its descriptor does not know. */
int message_check_known(const ProtobufCMessage *message, struct err *err);

/* Checks and unpacks; free with protobuf_c_message_free_unpacked(message, NULL). Also -EMSGSIZE, RESOURCE_EXHAUSTED: so many parts in so few
 * bytes that it would take many times their size. */
int message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, ProtobufCMessage **ret,
                   struct err *err);
