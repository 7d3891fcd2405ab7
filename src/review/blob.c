#include "review/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/sparse.h"

#define PIECE ((size_t) 256 << 10)

static int read_link(int dirfd, const char *path, struct blob *blob)
{
    autofd int fd = path_open_beneath(dirfd, path, O_PATH, 0);
    char target[PATH_MAX];
    ssize_t n;

    if (fd < 0)
        return fd;
    if (fstat(fd, &blob->st) < 0 || !S_ISLNK(blob->st.st_mode))
        return -ESTALE;
    n = readlinkat(fd, "", target, sizeof(target));
    if (n < 0)
        return -errno;
    buf_add(&blob->bytes, target, (size_t) n);
    blob->size_bytes = (uint64_t) n;
    return 0;
}

/* Reads the file at once, into memory of the known size: most files are small. */
static int read_whole(int fd, size_t size, struct blob *blob)
{
    buf_room(&blob->bytes, size);
    ssize_t n = fd_read_full(fd, blob->bytes.data, size);

    if (n < 0)
        return (int) n;
    blob->bytes.len = (size_t) n;
    blob->bytes.data[n] = 0;
    blob->size_bytes = (uint64_t) n;
    return 0;
}

/*
 * Because of holes (review/sparse.h), the hash covers the pieces that are not all zeroes, each with its offset, and the size
 * at the end. It is the same for a hole and for written zeroes, and the same whether the file was read whole or piece by
 * piece.
 *
 * A file no larger than a piece is hashed as it is. The first piece of a larger file is always hashed, so that more bytes are
 * hashed than a piece has: otherwise a small file with exactly the bytes that are hashed for a large one would have the same
 * hash.
 */
static void hash_piece(struct sha256_ctx *sha, uint64_t at, const char *piece, size_t len)
{
    if (at > 0 && piece[0] == 0 && memcmp(piece, piece + 1, len - 1) == 0)
        return;
    sha256_update(sha, sizeof(at), (const uint8_t *) &at);
    sha256_update(sha, len, (const uint8_t *) piece);
}

static void hash_whole(struct sha256_ctx *sha, const struct buf *bytes)
{
    uint64_t size = bytes->len;

    if (size <= PIECE) {
        sha256_update(sha, bytes->len, (const uint8_t *) bytes->data);
        return;
    }
    for (size_t at = 0; at < bytes->len; at += PIECE)
        hash_piece(sha, at, bytes->data + at, bytes->len - at < PIECE ? bytes->len - at : PIECE);
    sha256_update(sha, sizeof(size), (const uint8_t *) &size);
}

/* Reads only up to the size at opening: a file that is appended to as fast as it is read would have no end. */
static int read_past(int fd, uint64_t size, struct sha256_ctx *sha, struct blob *blob)
{
    const size_t most = size < PIECE ? (size_t) size : PIECE;
    autofree char *piece = xalloc(most);
    uint64_t at = 0;

    blob->is_too_large = true;
    while (at < size) {
        ssize_t n = fd_pread_full(fd, piece, size - at < most ? (size_t) (size - at) : most, (off_t) at);
        if (n < 0)
            return (int) n;
        if (n == 0)
            break;
        if (at == 0)
            buf_add(&blob->bytes, piece, n < BLOB_SNIFF_BYTES ? (size_t) n : BLOB_SNIFF_BYTES);
        if (!sha) /* the beginning was enough */
            break;
        if (size <= PIECE)
            sha256_update(sha, (size_t) n, (const uint8_t *) piece);
        else
            hash_piece(sha, at, piece, (size_t) n);
        at = (uint64_t) sparse_skip_hole(fd, (off_t) at + n, (off_t) size, (off_t) PIECE);
    }
    blob->size_bytes = sha ? at : size;
    if (sha && size > PIECE)
        sha256_update(sha, sizeof(at), (const uint8_t *) &at);
    return 0;
}

static int read_file(int dirfd, const char *path, uint64_t max, struct sha256_ctx *sha, struct blob *blob)
{
    autofd int fd = path_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    int r = 0;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -ESTALE;
    if ((uint64_t) st.st_size > max)
        r = read_past(fd, (uint64_t) st.st_size, sha, blob);
    else if (st.st_size > 0)
        r = read_whole(fd, (size_t) st.st_size, blob);
    if (r == 0 && sha && !blob->is_too_large)
        hash_whole(sha, &blob->bytes);
    /* Stat again: a write during the reading has left a later time. */
    return r == 0 && fstat(fd, &blob->st) < 0 ? -errno : r;
}

void blob_hash(mode_t mode, const struct buf *bytes, struct sha256_ctx *sha)
{
    if (S_ISREG(mode))
        hash_whole(sha, bytes);
    else
        sha256_update(sha, bytes->len, (const uint8_t *) bytes->data);
}

int blob_hash_from(uint64_t size, blob_read_fn read, void *cookie, struct sha256_ctx *sha)
{
    autofree char *piece = xalloc(PIECE);

    for (uint64_t at = 0; at < size;) {
        size_t len = size - at < PIECE ? (size_t) (size - at) : PIECE;
        int r = read(at, piece, len, cookie);
        if (r < 0)
            return r;
        if (size <= PIECE)
            sha256_update(sha, len, (const uint8_t *) piece);
        else
            hash_piece(sha, at, piece, len);
        at += len;
    }
    if (size > PIECE)
        sha256_update(sha, sizeof(size), (const uint8_t *) &size);
    return 0;
}

int blob_read(int dirfd, const char *path, mode_t mode, uint64_t max, struct sha256_ctx *sha, struct blob *ret)
{
    struct blob blob = { .mode = mode };
    int r = 0;

    if (S_ISREG(mode)) {
        r = read_file(dirfd, path, max, sha, &blob);
    } else if (S_ISLNK(mode)) {
        r = read_link(dirfd, path, &blob);
        if (r == 0 && sha)
            sha256_update(sha, blob.bytes.len, (const uint8_t *) blob.bytes.data);
    }
    if (r < 0) {
        blob_done(&blob);
        return r;
    }
    *ret = blob;
    return 0;
}

bool blob_is_binary(const struct blob *blob)
{
    return blob->bytes.data &&
           memchr(blob->bytes.data, 0, blob->bytes.len < BLOB_SNIFF_BYTES ? blob->bytes.len : BLOB_SNIFF_BYTES);
}

bool blob_equals(const struct blob *a, const struct blob *b)
{
    return !a->is_too_large && !b->is_too_large && a->bytes.len == b->bytes.len &&
           (a->bytes.len == 0 || memcmp(a->bytes.data, b->bytes.data, a->bytes.len) == 0);
}

void blob_done(struct blob *blob)
{
    buf_done(&blob->bytes);
    *blob = BLOB_NONE;
}
