/* The API's description as OpenAPI 3.1, made of the same table that it is served from: routes, parameters, bodies, and a schema for each message. */
#pragma once

#include "base/buf.h"
#include "call/method.h"
#include "call/web.h"

/* `web` may be NULL. Of its routes the paths and parameters are told, and no schemas. */
void openapi_add(struct buf *out, const struct method_table *methods, const struct web_table *web, const char *title,
                 const char *version);
