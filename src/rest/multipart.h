/*
 * A form as browsers send it (multipart/form-data, RFC 7578), taken apart while it arrives: no part is kept, only what could be the
 * beginning of a boundary, and a part's headers.
 */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"

#define MULTIPART_HEADERS_MAX 4096

/* Each returns 0, or a negative errno that ends it all. A part begins, has any number of pieces, and ends. */
struct multipart_ops {
    int (*begin)(void *cookie, const char *name, const char *filename, struct err *err); /* filename NULL: it has none */
    int (*data)(void *cookie, const char *bytes, size_t len, struct err *err);
    int (*end)(void *cookie, struct err *err);
};

struct multipart;

/* `content_type` is the header's value, which names the boundary. -EINVAL when it does not, or is of another type. */
int multipart_new(const char *content_type, const struct multipart_ops *ops, void *cookie, struct multipart **ret,
                  struct err *err);
void multipart_free(struct multipart *multipart);
DEFINE_AUTOPTR(multipart, multipart_free);

/* After a failure nothing more may be fed. */
int multipart_feed(struct multipart *multipart, const char *bytes, size_t len, struct err *err);

/* The body is over: -EINVAL when the form is not. */
int multipart_finish(const struct multipart *multipart, struct err *err);
