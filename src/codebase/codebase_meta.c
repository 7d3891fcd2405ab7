#include "codebase/codebase_meta.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

#define FILE_NAME "meta"
#define FILE_SIZE_MAX 1024

/* A larger counter is invalid. Within the limit the sum of two counters cannot overflow. */
#define COUNTER_MAX (INT64_MAX / 4)

#define FORMAT                                                                                                                 \
    "agentfense-codebase 1\nversion %" PRIu64 "\noldest %" PRIu64 "\nsize %" PRIu64 "\nfiles %" PRIu64 "\nundo %" PRIu64       \
    "\ntrimmed %" PRId64 "\nend\n"

void codebase_meta_format(const struct codebase_meta *m, struct buf *out)
{
    buf_addf(out, FORMAT, m->version, m->oldest, m->size_bytes, m->file_count, m->undo_bytes, m->trimmed_ns);
}

static bool is_sane(const struct codebase_meta *m)
{
    return m->version <= COUNTER_MAX && m->oldest >= 1 && m->oldest <= m->version + 1 && m->size_bytes <= COUNTER_MAX &&
           m->file_count <= COUNTER_MAX && m->undo_bytes <= COUNTER_MAX;
}

/* sscanf() accepts several spellings, so the values are formatted again and compared. */
int codebase_meta_parse(const char *bytes, size_t len, struct codebase_meta *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY, again = BUF_EMPTY;
    struct codebase_meta m = { 0 };

    if (len > FILE_SIZE_MAX || memchr(bytes, 0, len))
        return -EBADMSG;
    buf_add(&text, bytes, len);
    if (sscanf(text.data,
               "agentfense-codebase 1 version %" SCNu64 " oldest %" SCNu64 " size %" SCNu64 " files %" SCNu64 " undo %" SCNu64
               " trimmed %" SCNd64,
               &m.version, &m.oldest, &m.size_bytes, &m.file_count, &m.undo_bytes, &m.trimmed_ns) != 6 ||
        !is_sane(&m))
        return -EBADMSG;
    codebase_meta_format(&m, &again);
    if (again.len != len || memcmp(again.data, bytes, len) != 0)
        return -EBADMSG;
    *ret = m;
    return 0;
}

int codebase_meta_read(int dirfd, struct codebase_meta *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(dirfd, FILE_NAME, FILE_SIZE_MAX, &text);

    if (r == -EFBIG)
        return -EBADMSG;
    return r < 0 ? r : codebase_meta_parse(text.data ? text.data : "", text.len, ret);
}

int codebase_meta_write(int dirfd, const struct codebase_meta *meta)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    codebase_meta_format(meta, &text);
    return file_put(dirfd, FILE_NAME, text.data, text.len, 0600);
}

int codebase_meta_check_version(const struct codebase_meta *meta, uint64_t version, struct err *err)
{
    return version + 1 < meta->oldest || version > meta->version
               ? err_set(err, ERR_NOT_FOUND, -ERANGE, "version %" PRIu64 " is not kept", version)
               : 0;
}
