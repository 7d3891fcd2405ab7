#include <limits.h>
#include <string.h>

#include "wire/ctl_int.h"

bool ctl_quiesce_is_valid(const struct ctl_request *m)
{
    return m->quiesce.wait_ms <= CTL_QUIESCE_MS_MAX && m->quiesce.limit_ms >= 1 && m->quiesce.limit_ms <= CTL_QUIESCE_MS_MAX;
}

bool ctl_revert_is_valid(const struct ctl_request *m)
{
    return ctl_paths_are_valid(&m->revert.paths, CTL_PATHS_BYTES_MAX) && m->revert.paths.count > 0 && m->revert.replaces <= 1 &&
           (!m->revert.replaces || m->revert.paths.count == 1);
}

static uint32_t flags_of(enum ctl_file_op op)
{
    switch (op) {
    case CTL_FILE_WRITE:
    case CTL_FILE_RENAME:
        return CTL_FILE_PARENTS | CTL_FILE_EXCLUSIVE;
    case CTL_FILE_MKDIR:
        return CTL_FILE_PARENTS;
    case CTL_FILE_REMOVE:
        return CTL_FILE_RECURSIVE;
    default:
        return 0;
    }
}

static bool after_is_valid(const struct ctl_file_request *m)
{
    if (!m->after)
        return false;
    if (m->op == CTL_FILE_RENAME)
        return *m->after && strnlen(m->after, CTL_PATH_MAX) < CTL_PATH_MAX;
    return strnlen(m->after, NAME_MAX + 1) <= (m->op == CTL_FILE_LIST ? NAME_MAX : 0);
}

/* Fields that an operation does not use must be zero. */
bool ctl_file_request_is_valid(const struct ctl_file_request *m)
{
    bool makes = m->op == CTL_FILE_WRITE || m->op == CTL_FILE_MKDIR;

    if (m->op < CTL_FILE_STAT || m->op > CTL_FILE_RENAME || (m->flags & ~flags_of(m->op)) || m->mode > (makes ? 0777u : 0u))
        return false;
    if (m->offset > (m->op == CTL_FILE_READ ? CTL_FILE_SIZE_MAX : 0) ||
        m->size > (m->op == CTL_FILE_READ || m->op == CTL_FILE_WRITE ? CTL_FILE_SIZE_MAX : 0))
        return false;
    return m->path && *m->path && strnlen(m->path, CTL_PATH_MAX) < CTL_PATH_MAX && after_is_valid(m);
}

bool ctl_file_is_valid(const struct ctl_file *m, bool is_entry)
{
    if (m->kind < CTL_FILE_REGULAR || m->kind > CTL_FILE_OTHER || m->mode > 07777 || !m->text)
        return false;
    if (!is_entry)
        return strnlen(m->text, CTL_PATH_MAX) < CTL_PATH_MAX && (m->kind == CTL_FILE_SYMLINK || !*m->text);
    return *m->text && strnlen(m->text, NAME_MAX + 1) <= NAME_MAX && !strchr(m->text, '/');
}

const struct field ctl_file_fields[] = {
    FIELD_OF(FIELD_U8, struct ctl_file, kind),
    FIELD_OF(FIELD_U32, struct ctl_file, mode),
    FIELD_OF(FIELD_U64, struct ctl_file, size),
    FIELD_OF(FIELD_U64, struct ctl_file, mtime_ns),
    FIELD_STRING_OF(struct ctl_file, text, CTL_PATH_MAX),
    { .type = FIELD_END },
};

bool ctl_listing_next(const struct ctl_listing *listing, size_t *at, struct ctl_file *ret)
{
    struct reader r;

    if (*at >= listing->len)
        return false;
    reader_init(&r, listing->bytes + *at, listing->len - *at);
    fields_read(ctl_file_fields, ret, &r);
    if (r.failed || !ctl_file_is_valid(ret, true))
        return false;
    *at = listing->len - r.left;
    return true;
}

bool ctl_listing_add(struct ctl_listing *listing, uint8_t *buf, const struct ctl_file *file)
{
    struct writer w;

    writer_init(&w, buf + listing->len, CTL_LISTING_BYTES_MAX - listing->len);
    fields_write(ctl_file_fields, file, &w);
    if (writer_end(&w) < 0)
        return false;
    listing->bytes = buf;
    listing->len += (uint32_t) w.len;
    listing->count++;
    return true;
}

/* Requires exactly `count` entries in ascending order without duplicates. */
bool ctl_listing_is_valid(const struct ctl_listing *m)
{
    struct ctl_file file;
    const char *last = "";
    size_t at = 0;
    uint32_t count = 0;

    if (m->len > CTL_LISTING_BYTES_MAX || m->has_more > 1 || (m->len > 0 && !m->bytes) || (m->has_more && m->count == 0))
        return false;
    while (ctl_listing_next(m, &at, &file)) {
        if (strcmp(last, file.text) >= 0)
            return false;
        last = file.text;
        count++;
    }
    return at == m->len && count == m->count;
}
