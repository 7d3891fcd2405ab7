/*
 * What a Docker engine answers, as an error and as the news of an image that is fetched: whatever it is, and however it is cut, what a
 * person is told of it can be printed.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "container/pull.h"
#include "container/response.h"

static void require_printable(const char *text, void *cookie)
{
    (void) cookie;
    require(utf8_is_valid(text, strlen(text)));
    for (const char *at = text; *at; at++)
        require((unsigned char) *at >= 0x20 && *at != 0x7F);
}

static void check_error(const uint8_t *data, size_t size)
{
    autodone(engine_response) struct engine_response response = { .status = 500 };
    struct err err = ERR_NONE;

    buf_add(&response.body, data, size);
    require_refusal(response_check(&response, &err), &err);
}

static void check_pull(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
    autodone(pull) struct pull pull;

    pull_init(&pull, require_printable, NULL);
    for (size_t at = 0; at < size; at += piece)
        pull_feed(&pull, data + at, size - at < piece ? size - at : piece, (int64_t) at);
    require(pull.layer_count <= PULL_LAYERS_MAX && pull.line.len <= PULL_LINE_MAX);
    require_printable(pull.error, NULL);
    pull_summary(&pull, out);
    buf_add_str(out, pull.error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf whole = BUF_EMPTY, cut = BUF_EMPTY;

    if (size == 0)
        return 0;
    check_error(data, size);
    check_pull(data, size, size, &whole);
    check_pull(data, size, 1 + data[0] % 7, &cut);
    require(strcmp(whole.data, cut.data) == 0);
    return 0;
}
