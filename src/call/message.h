/*
 * Unpacks messages that anybody may have sent. protobuf-c bounds neither nesting nor memory, and cuts a string off at a NUL. These functions
 * therefore check the bytes against the message's descriptor first and unpack them within a memory budget.
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
 * string in them is UTF-8 without a NUL. Skips unknown fields. Allocates nothing. */
int message_check(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, struct err *err);

/* INVALID_ARGUMENT if the message, or one nested in it, has a field that its descriptor does not know. */
int message_check_known(const ProtobufCMessage *message, struct err *err);

/* Checks and unpacks; free with protobuf_c_message_free_unpacked(message, NULL). Also -EMSGSIZE, RESOURCE_EXHAUSTED: the
 * bytes hold so many elements that unpacking them would take many times their size. */
int message_unpack(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, ProtobufCMessage **ret,
                   struct err *err);

/* Allocates a message of this type with its default values. Free it as above, or with the message that it becomes a part of. */
void *message_new(const ProtobufCMessageDescriptor *descriptor);
