/*
 * A field of a message as its descriptor tells it: where it lies, what it is called in JSON, and the two things protobuf-c does not tell:
 * which repeated messages are maps, and which messages are points or spans of time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/buf.h"

enum field_shape { FIELD_SINGLE, FIELD_REPEATED, FIELD_MAP };
enum field_well_known { FIELD_WELL_KNOWN_NOT, FIELD_WELL_KNOWN_TIMESTAMP, FIELD_WELL_KNOWN_DURATION };

enum field_shape field_shape(const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field);
enum field_well_known field_well_known(const ProtobufCFieldDescriptor *field);

/* By either name, "sandbox_id" or "sandboxId". NULL: there is none. */
const ProtobufCFieldDescriptor *field_find(const ProtobufCMessageDescriptor *of, const char *name, size_t len);
void field_add_json_name(struct buf *out, const ProtobufCFieldDescriptor *field);

/* What one value takes in memory, also as an element of a list. */
size_t field_size(const ProtobufCFieldDescriptor *field);

/* Where it lies in a message: the value, or the pointer to the elements of a list and their number. */
void *field_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* False for the members of a oneof that are not the chosen one, and for one with a flag that says it is not there. */
bool field_is_there(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);
bool field_is_in_oneof(const ProtobufCFieldDescriptor *field);

/* Says that a value will be put there. False when another member of the same oneof has been chosen. */
bool field_choose(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Back to the default; what it owned is freed. Not for lists. */
void field_clear(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field);

/* Memory that may still be taken for a message that a stranger writes. NULL when that is used up. What is given is zeroed, and freed by free(). */
void *field_alloc(size_t *budget, size_t size_bytes);

/* An empty message, likewise. */
ProtobufCMessage *field_new_message(size_t *budget, const ProtobufCMessageDescriptor *descriptor);

/* Room for one more element at the end of a list, zeroed, which counts from now on. NULL: the budget is used up. */
void *field_append(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, size_t *budget);
