/*
 * A form: however it arrives, in one piece or byte by byte, it is the same form, or refused with the same words.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "rest/multipart.h"

static int on_begin(void *cookie, const char *name, const char *filename, struct err *err)
{
    (void) err;
    buf_addf(cookie, "<%s|%s>", name, filename ? filename : "-");
    return 0;
}

static int on_data(void *cookie, const char *bytes, size_t len, struct err *err)
{
    (void) err;
    require(len > 0);
    buf_add(cookie, bytes, len);
    return 0;
}

static int on_end(void *cookie, struct err *err)
{
    (void) err;
    buf_add_str(cookie, "</>");
    return 0;
}

static int read_form(const char *bytes, size_t len, size_t piece, struct buf *out, struct err *err)
{
    static const struct multipart_ops ops = { on_begin, on_data, on_end };
    autoptr(multipart) multipart = NULL;
    int r = multipart_new("multipart/form-data; boundary=XyZ", &ops, out, &multipart, err);

    for (size_t at = 0; r == 0 && at < len; at += piece)
        r = multipart_feed(multipart, bytes + at, len - at < piece ? len - at : piece, err);
    return r < 0 ? r : multipart_finish(multipart, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf whole = BUF_EMPTY;
    autodone(buf) struct buf pieces = BUF_EMPTY;
    struct err err = ERR_NONE, err_pieces = ERR_NONE;
    int r = read_form((const char *) data, size, size ? size : 1, &whole, &err);

    if (r < 0)
        require_refusal(r, &err);
    require(read_form((const char *) data, size, 1, &pieces, &err_pieces) == r);
    /* Of a form that is refused in the end, as much may have been given away before. */
    require(r < 0 || (whole.len == pieces.len && (whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0)));
    return 0;
}
