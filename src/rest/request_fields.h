/* A request's fields from what stands in the URL: variables of the path, and the query. */
#pragma once

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "rest/route.h"

/* Each variable into its field, over what stands there. */
int request_fields_of_path(ProtobufCMessage *message, const struct route_match *match, struct err *err);

/* Each parameter into the field it names, by either name; what the path says and what no field is called is passed over. A field
 * that is no list is given once. */
int request_fields_of_query(ProtobufCMessage *message, const struct route_match *match, const char *query, size_t len,
                            struct err *err);

/* One parameter, decoded, as in a query, but for "path", which also fills the field `file_path` of a message that has no field `path`. */
int request_fields_set(ProtobufCMessage *message, const struct route_match *match, const char *name, const char *value,
                       size_t len, struct err *err);
