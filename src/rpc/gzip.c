#include "rpc/gzip.h"

#include <errno.h>
#include <zlib.h>

/* The largest window, gzip format only. */
#define WINDOW_BITS (15 + 16)
#define STEP_BYTES (64u << 10)

/* Decompresses in steps, so that a small message that expands enormously does not cost memory beyond `max`. */
static int gzip_unpack_steps(z_stream *z, size_t max, struct buf *out)
{
    size_t begin = out->len;
    int code = Z_OK;

    while (code != Z_STREAM_END) {
        buf_room(out, STEP_BYTES);
        z->next_out = (Bytef *) out->data + out->len;
        z->avail_out = STEP_BYTES;
        code = inflate(z, Z_NO_FLUSH);
        if (code != Z_OK && code != Z_STREAM_END)
            return code == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        out->len += STEP_BYTES - z->avail_out;
        if (out->len - begin > max)
            return -EMSGSIZE;
    }
    return z->avail_in == 0 ? 0 : -EBADMSG;
}

int gzip_unpack(const void *bytes, size_t len, size_t max, struct buf *out)
{
    z_stream z = { .next_in = (Bytef *) bytes, .avail_in = (uInt) len };

    if (inflateInit2(&z, WINDOW_BITS) != Z_OK)
        return -ENOMEM;
    int r = gzip_unpack_steps(&z, max, out);
    inflateEnd(&z);
    return r;
}
