#include "wire/string_block.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"

/* With these seals no process can change the bytes or the size, or remove the seals. */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* Counts the strings and bytes of a vector. Stops when they exceed the limits. */
static int string_block_measure_vector(const char *const *strings, uint32_t *ret_count, size_t *bytes)
{
    uint32_t count = 0;

    for (; strings[count]; count++) {
        *bytes += strlen(strings[count]) + 1;
        if (count >= STRING_BLOCK_COUNT_MAX || *bytes > STRING_BLOCK_BYTES_MAX)
            return -E2BIG;
    }
    *ret_count = count;
    return 0;
}

int string_block_measure(struct string_block *block)
{
    size_t bytes = 0;
    int r;

    for (size_t i = 0; i < block->head_count; i++)
        bytes += strlen(block->heads[i]) + 1;
    r = string_block_measure_vector(block->argv, &block->argc, &bytes);
    if (r == 0)
        r = string_block_measure_vector(block->envp, &block->envc, &bytes);
    if (r < 0)
        return r;
    if (bytes > STRING_BLOCK_BYTES_MAX || block->argc + block->envc > STRING_BLOCK_COUNT_MAX)
        return -E2BIG;
    block->len = (uint32_t) bytes;
    return 0;
}

void string_block_write(const struct string_block *block, struct writer *writer)
{
    for (size_t i = 0; i < block->head_count; i++)
        writer_string(writer, block->heads[i]);
    for (const char *const *s = block->argv; *s; s++)
        writer_string(writer, *s);
    for (const char *const *s = block->envp; *s; s++)
        writer_string(writer, *s);
}

int string_block_seal(const struct string_block *block)
{
    autofd int fd = memfd_create("agentfense-strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct writer w;
    void *bytes;

    if (fd < 0 || ftruncate(fd, (off_t) block->len) < 0)
        return -errno;
    bytes = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    writer_init(&w, bytes, block->len);
    string_block_write(block, &w);
    munmap(bytes, block->len);
    return fcntl(fd, F_ADD_SEALS, SEALS) < 0 ? -errno : steal_fd(&fd);
}

bool string_block_is_bounded(uint32_t argc, uint32_t envc, uint32_t len)
{
    /* Each is compared alone first, because their sum may wrap. */
    return argc <= STRING_BLOCK_COUNT_MAX && envc <= STRING_BLOCK_COUNT_MAX && argc + envc <= STRING_BLOCK_COUNT_MAX &&
           len <= STRING_BLOCK_BYTES_MAX;
}

bool string_block_is_valid(const char *bytes, size_t len, size_t count)
{
    const char *at = bytes, *end = bytes + len;
    size_t found = 0;

    if (len == 0 || end[-1] != '\0')
        return false;
    for (; at < end && found <= count; found++)
        at += strlen(at) + 1;
    return at == end && found == count;
}

/* Without the seals the sender could change the strings after the check, or truncate them, which raises SIGBUS in the reader.
 * Only memfds have seals, so other files fail. */
static int check_fd(int fd, size_t len)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS)
        return -EINVAL;
    if (fstat(fd, &st) < 0)
        return -errno;
    return len > 0 && st.st_size == (off_t) len ? 0 : -EINVAL;
}

int string_block_map(int fd, size_t len, size_t count, const char **ret_bytes)
{
    void *bytes;
    int r;

    r = check_fd(fd, len);
    if (r < 0)
        return r;
    bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    if (!string_block_is_valid(bytes, len, count)) {
        munmap(bytes, len);
        return -EPROTO;
    }
    *ret_bytes = bytes;
    return 0;
}

void string_block_unmap(const char *bytes, size_t len)
{
    if (bytes)
        munmap((void *) bytes, len);
}

const char *string_block_point(const char *at, uint32_t count, const char **room)
{
    for (uint32_t i = 0; i < count; i++) {
        room[i] = at;
        at += strlen(at) + 1;
    }
    room[count] = NULL;
    return at;
}
