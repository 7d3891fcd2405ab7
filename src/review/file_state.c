#include "review/file_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "review/change_log_index.h"
#include "review/sparse.h"

#define BINARY_LOOK 8000 /* where git looks for a NUL */
#define PIECE 65536

static void hash_bytes(const void *bytes, size_t len, uint8_t out[FILE_STATE_HASH_BYTES])
{
    struct sha256_ctx ctx;

    sha256_init(&ctx);
    sha256_update(&ctx, len, bytes);
    sha256_digest(&ctx, FILE_STATE_HASH_BYTES, out);
}

/* For files that are too large for a hash in the change log: hashes the pieces that are not all zeroes, each with its
 * offset, and the size, so that a hole and written zeroes give the same. Reads only up to the known size: a file that is
 * appended to as fast as it is read would have no end. */
static int hash_large(int fd, off_t size, struct sha256_ctx *ctx, uint8_t *piece)
{
    off_t at = 0;

    while (at < size) {
        ssize_t n = fd_pread_full(fd, piece, size - at < PIECE ? (size_t) (size - at) : PIECE, at);
        if (n < 0)
            return (int) n;
        if (n == 0)
            break;
        if (piece[0] != 0 || memcmp(piece, piece + 1, (size_t) n - 1) != 0) {
            sha256_update(ctx, sizeof(at), (const uint8_t *) &at);
            sha256_update(ctx, (size_t) n, piece);
        }
        at = sparse_skip_hole(fd, at + n, size, PIECE);
    }
    sha256_update(ctx, sizeof(at), (const uint8_t *) &at);
    return 0;
}

static int hash_plain(int fd, struct sha256_ctx *ctx, uint8_t *piece)
{
    off_t at = 0;
    ssize_t n;

    while (at <= CHANGE_LOG_INDEX_HASH_MAX && (n = fd_pread_full(fd, piece, PIECE, at)) != 0) {
        if (n < 0)
            return (int) n;
        sha256_update(ctx, (size_t) n, piece);
        at += n;
    }
    return 0;
}

int file_state_hash_fd(int fd, uint8_t out[FILE_STATE_HASH_BYTES])
{
    autofree uint8_t *piece = malloc(PIECE);
    struct sha256_ctx ctx;
    struct stat st;
    int r;

    if (!piece)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return -errno;
    sha256_init(&ctx);
    r = st.st_size > CHANGE_LOG_INDEX_HASH_MAX ? hash_large(fd, st.st_size, &ctx, piece) : hash_plain(fd, &ctx, piece);
    if (r == 0)
        sha256_digest(&ctx, FILE_STATE_HASH_BYTES, out);
    return r;
}

static int read_link(int fd, struct file_state *state)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(fd, "", target, sizeof(target));

    if (n < 0)
        return -errno;
    buf_add(&state->bytes, target, (size_t) n);
    state->has_bytes = true;
    hash_bytes(target, (size_t) n, state->hash);
    return 0;
}

/* The descriptor is opened anew for reading; if that is another file by now, the stat is of the file that is read. */
static int read_file(int dirfd, const char *path, struct file_state *state)
{
    autofd int fd = path_open_beneath(dirfd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    int r;

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return -ESTALE; /* it existed a moment ago */
    if (fd < 0)
        return fd;
    if (fstat(fd, &state->st) < 0)
        return -errno;
    if (!S_ISREG(state->st.st_mode))
        return -ESTALE;
    if ((uint64_t) state->st.st_size > FILE_STATE_BYTES_MAX)
        return file_state_hash_fd(fd, state->hash);
    r = fd_read_all(fd, FILE_STATE_BYTES_MAX, &state->bytes);
    if (r == -EFBIG)
        return -ESTALE;
    if (r < 0)
        return r;
    state->has_bytes = true;
    hash_bytes(state->bytes.data ? state->bytes.data : "", state->bytes.len, state->hash);
    return 0;
}

int file_state_read(int dirfd, const char *path, struct file_state *ret)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    autofd int fd = path_open_beneath(dirfd, path, O_PATH, 0);
    int r = 0;

    /* A link or a file replaced a directory on the way: nothing can be at the path. */
    if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
        return fd;
    if (fd >= 0 && fstat(fd, &state.st) < 0)
        return -errno;
    if (fd >= 0 && S_ISLNK(state.st.st_mode))
        r = read_link(fd, &state);
    else if (fd >= 0 && S_ISREG(state.st.st_mode))
        r = read_file(dirfd, path, &state);
    if (r < 0)
        return r;
    *ret = state;
    state = FILE_STATE_NONE;
    return 0;
}

void file_state_of_bytes(const void *bytes, size_t len, mode_t mode, struct file_state *ret)
{
    *ret = FILE_STATE_NONE;
    ret->st.st_mode = S_IFREG | (mode & 0777);
    ret->st.st_size = (off_t) len;
    buf_add(&ret->bytes, bytes, len);
    ret->has_bytes = true;
    hash_bytes(len ? bytes : "", len, ret->hash);
}

void file_state_done(struct file_state *state)
{
    buf_done(&state->bytes);
    *state = FILE_STATE_NONE;
}

bool file_state_equals(const struct file_state *a, const struct file_state *b)
{
    if ((a->st.st_mode & S_IFMT) != (b->st.st_mode & S_IFMT))
        return false;
    if (!S_ISREG(a->st.st_mode) && !S_ISLNK(a->st.st_mode))
        return true;
    return a->st.st_size == b->st.st_size && memcmp(a->hash, b->hash, FILE_STATE_HASH_BYTES) == 0;
}

bool file_state_is_binary(const struct file_state *state)
{
    size_t look = state->bytes.len < BINARY_LOOK ? state->bytes.len : BINARY_LOOK;

    return !state->has_bytes || (look > 0 && memchr(state->bytes.data, 0, look));
}
