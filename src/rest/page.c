#include "rest/page.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

void rest_response_add_header(struct rest_response *response, const char *name, const char *value)
{
    if (response->header_count == REST_RESPONSE_HEADERS_MAX)
        return;
    response->headers[response->header_count++] = (struct rest_header){ .name = name, .value = xdup(value) };
}

void rest_response_done(struct rest_response *response)
{
    for (size_t i = 0; i < response->header_count; i++)
        free(response->headers[i].value);
    response->header_count = 0;
    buf_done(&response->body);
    if (response->fd >= 0)
        close(response->fd);
    response->fd = -1;
}
