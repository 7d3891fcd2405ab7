#include "review/binary_patch.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <string.h>

#include "review/libgit.h"

#define LINE_BYTES 52
#define BLOCK_MOST 65535
#define ADLER_MODULUS 65521u
#define ADLER_RUN 5000 /* bytes until the sums must be reduced */

void binary_patch_oid(const void *bytes, size_t len, char out[BINARY_PATCH_OID_MAX])
{
    uint8_t digest[SHA1_DIGEST_SIZE];
    struct sha1_ctx sha;
    char head[32];

    sha1_init(&sha);
    sha1_update(&sha, (size_t) snprintf(head, sizeof(head), "blob %zu", len) + 1, (const uint8_t *) head);
    sha1_update(&sha, len, bytes);
    sha1_digest(&sha, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- base 85 ---- */

/* Five digits for four bytes, the most significant first; missing bytes at the end are zero. */
static void encode_four(const uint8_t *bytes, size_t len, char out[5])
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    uint32_t value = 0;

    for (size_t i = 0; i < 4; i++)
        value = value << 8 | (i < len ? bytes[i] : 0);
    for (size_t i = 5; i-- > 0; value /= 85)
        out[i] = digits[value % 85];
}

/* The line's first letter gives its number of bytes: A to Z for 1 to 26, a to z for 27 to 52. */
static void add_line(struct buf *out, const uint8_t *bytes, size_t len)
{
    char line[1 + LINE_BYTES / 4 * 5 + 1];
    size_t n = 0;

    line[n++] = (char) (len <= 26 ? 'A' + len - 1 : 'a' + len - 27);
    for (size_t at = 0; at < len; at += 4, n += 5)
        encode_four(bytes + at, len - at, line + n);
    line[n++] = '\n';
    buf_add(out, line, n);
}

static void add_base85(struct buf *out, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len; at += LINE_BYTES)
        add_line(out, bytes + at, len - at < LINE_BYTES ? len - at : LINE_BYTES);
}

/* ---- by libgit2 ---- */

static void add_direction(struct buf *out, const git_diff_binary_file *file)
{
    buf_addf(out, "%s %zu\n", file->type == GIT_DIFF_BINARY_DELTA ? "delta" : "literal", file->inflatedlen);
    add_base85(out, (const uint8_t *) file->data, file->datalen);
    buf_add_char(out, '\n');
}

static int on_binary(const git_diff_delta *delta, const git_diff_binary *binary, void *cookie)
{
    (void) delta;
    if (!binary->contains_data)
        return -1;
    add_direction(cookie, &binary->new_file);
    add_direction(cookie, &binary->old_file);
    return 0;
}

int binary_patch_add(struct buf *out, const void *was, size_t was_len, const void *now, size_t now_len, struct err *err)
{
    const struct libgit *git;
    git_diff_options options;
    int r = libgit_get(&git, err);

    if (r < 0)
        return r;
    git->git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
    options.flags |= GIT_DIFF_FORCE_BINARY | GIT_DIFF_SHOW_BINARY;
    r = git->git_diff_buffers(was_len ? was : "", was_len, "a", now_len ? now : "", now_len, "b", &options, NULL, on_binary,
                              NULL, NULL, out);
    return r < 0 ? libgit_failed(git, "comparing", err) : 0;
}

/* ---- in pieces ---- */

static void put_bytes(struct binary_patch_stream *stream, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t n = LINE_BYTES - stream->line_len < len ? LINE_BYTES - stream->line_len : len;
        memcpy(stream->line + stream->line_len, bytes, n);
        stream->line_len += n;
        bytes += n;
        len -= n;
        if (stream->line_len == LINE_BYTES) {
            add_line(stream->out, stream->line, LINE_BYTES);
            stream->line_len = 0;
        }
    }
}

static void put_block(struct binary_patch_stream *stream, const uint8_t *bytes, size_t len)
{
    uint8_t head[5] = { stream->left == len, (uint8_t) len, (uint8_t) (len >> 8), (uint8_t) ~len, (uint8_t) (~len >> 8) };

    put_bytes(stream, head, sizeof(head));
    put_bytes(stream, bytes, len);
    stream->left -= len;
}

static void update_adler(struct binary_patch_stream *stream, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t n = len < ADLER_RUN ? len : ADLER_RUN;
        for (size_t i = 0; i < n; i++) {
            stream->a += bytes[i];
            stream->b += stream->a;
        }
        stream->a %= ADLER_MODULUS;
        stream->b %= ADLER_MODULUS;
        bytes += n;
        len -= n;
    }
}

void binary_patch_begin(struct binary_patch_stream *stream, struct buf *out, uint64_t size_bytes)
{
    static const uint8_t zlib_head[2] = { 0x78, 0x01 };

    *stream = (struct binary_patch_stream){ .out = out, .left = size_bytes, .a = 1 };
    buf_addf(out, "literal %" PRIu64 "\n", size_bytes);
    put_bytes(stream, zlib_head, sizeof(zlib_head));
    if (size_bytes == 0)
        put_block(stream, zlib_head, 0);
}

void binary_patch_feed(struct binary_patch_stream *stream, const uint8_t *bytes, size_t len)
{
    if (len > stream->left)
        len = (size_t) stream->left;
    update_adler(stream, bytes, len);
    while (len > 0) {
        size_t n = len < BLOCK_MOST ? len : BLOCK_MOST;
        put_block(stream, bytes, n);
        bytes += n;
        len -= n;
    }
}

void binary_patch_end(struct binary_patch_stream *stream)
{
    uint8_t adler[4] = { (uint8_t) (stream->b >> 8), (uint8_t) stream->b, (uint8_t) (stream->a >> 8), (uint8_t) stream->a };

    put_bytes(stream, adler, sizeof(adler));
    if (stream->line_len > 0)
        add_line(stream->out, stream->line, stream->line_len);
    stream->line_len = 0;
    buf_add_char(stream->out, '\n');
}
