/* A value of a field as text, wherever it stands: in JSON, in a query, in a path. */
#pragma once

#include "base/err.h"
#include "rest/field.h"

enum field_text_kind {
    FIELD_TEXT_STRING, /* a JSON string: numbers may be written so, truth may not */
    FIELD_TEXT_NUMBER, /* a JSON number */
    FIELD_TEXT_PLAIN,  /* of a path or a query, where everything is text */
    FIELD_TEXT_KEY,    /* the key of a map */
};

/* Puts the value into `member`, which holds the default; what it needs comes from `budget`. The text is UTF-8 and may hold a NUL. -EINVAL
 * with a reason that does not repeat the text when it is long, -ENOMEM when the budget is used up. */
int field_text_put(const ProtobufCFieldDescriptor *field, enum field_text_kind kind, const char *text, size_t len,
                   size_t *budget, void *member, struct err *err);

/* Puts it into a field of the message: added to a list, over what stood there otherwise. For paths and queries. */
int field_text_assign(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const char *text, size_t len,
                      size_t *budget, struct err *err);

/* The message has become larger than anybody needs. */
int field_text_reject_size(struct err *err);

/* "1970-01-01T00:00:00Z", "1.500s"; for a value that cannot be written so, -ERANGE. */
int field_text_add_timestamp(struct buf *out, const ProtobufCMessage *timestamp);
int field_text_add_duration(struct buf *out, const ProtobufCMessage *duration);
