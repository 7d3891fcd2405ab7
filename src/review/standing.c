#include "review/standing.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>

#include "base/clock.h"

#define TICK_NS 20000000 /* two saves within it may leave the same times */

/* The project's file, as far as it is known. */
struct project {
    const struct stat *st;
    const uint8_t *hash; /* NULL: nobody has read it */
};

enum answer { STILL, MOVED, UNREAD };

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

static bool is_as_noted(const struct diary_page *page, const struct stat *st)
{
    return page->size_bytes == (uint64_t) st->st_size && page->mtime_ns == ns_of(st->st_mtim);
}

/* A modification time can be set back, a change time cannot. */
static enum answer judge_content(const struct edit_list *list, const struct diary_page *page, const struct project *project)
{
    const struct stat *st = project->st;

    if (!page->has_hash)
        return is_as_noted(page, st) ? STILL : MOVED;
    if (!S_ISREG(st->st_mode) || page->size_bytes != (uint64_t) st->st_size)
        return MOVED;
    if (project->hash)
        return memcmp(project->hash, page->hash, sizeof(page->hash)) == 0 ? STILL : MOVED;
    return is_as_noted(page, st) && ns_of(st->st_ctim) + TICK_NS <= list->delta.made_ns ? STILL : UNREAD;
}

/* MOVED wherever reconcile.c has another word than RECONCILE_CLEAN, and perhaps where it has not. */
static enum answer judge(const struct edit_list *list, const struct edit *edit, const struct diary_page *page,
                         const struct project *project)
{
    const struct stat *st = project->st;

    if (!st->st_mode)
        return page && page->base == DIARY_BASE_PRESENT ? MOVED : STILL;
    if (S_ISDIR(st->st_mode))
        return edit->now && !S_ISDIR(edit->now) && list->unseen_count > 0 ? MOVED : STILL;
    if (!page || page->base == DIARY_BASE_UNKNOWN) {
        int64_t since_ns = page && page->since_ns > list->delta.made_ns ? page->since_ns : list->delta.made_ns;
        return ns_of(st->st_ctim) > since_ns ? MOVED : STILL;
    }
    if (page->base == DIARY_BASE_ABSENT || page->has_moved_on || edit_mode_has_moved(edit, page->mode, st->st_mode))
        return MOVED;
    return edit->kind == CHANGE_MODE ? STILL : judge_content(list, page, project);
}

static void mix(const struct diary_page *page, const struct project *project, bool has_moved, uint8_t out[IMAGE_HASH_BYTES])
{
    static const uint8_t nothing[IMAGE_HASH_BYTES];
    const uint64_t numbers[] = { has_moved,
                                 has_moved ? project->st->st_mode & (S_IFMT | 0777) : 0,
                                 page ? (uint64_t) page->base : 0,
                                 page ? page->has_hash : 0,
                                 page ? page->size_bytes : 0,
                                 page ? (uint64_t) page->mtime_ns : 0,
                                 page ? page->mode & 0777 : 0 };
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, sizeof(numbers), (const uint8_t *) numbers);
    sha256_update(&sha, IMAGE_HASH_BYTES, has_moved && project->hash ? project->hash : nothing);
    sha256_update(&sha, IMAGE_HASH_BYTES, page && page->has_hash ? page->hash : nothing);
    sha256_digest(&sha, IMAGE_HASH_BYTES, out);
}

/* Only the content of files and links is read: that something is a directory now is told by its mode. */
static bool needs_hash(const struct edit *edit, const struct project *project)
{
    mode_t mode = project->st->st_mode;

    return !project->hash && edit->kind != CHANGE_MODE && (S_ISREG(mode) || S_ISLNK(mode));
}

/* False: the file has to be read first. */
static bool tell(const struct edit_list *list, const struct edit *edit, const struct project *project, struct standing *ret)
{
    const struct diary_page *page = diary_find(&list->diary, edit->path);
    enum answer answer = judge(list, edit, page, project);

    if (answer == UNREAD || (answer == MOVED && needs_hash(edit, project)))
        return false;
    *ret = STANDING_STILL;
    ret->has_moved = answer == MOVED;
    ret->is_noted = ret->has_moved || (page && page->is_reset && page->base == DIARY_BASE_PRESENT);
    if (ret->is_noted)
        mix(page, &(struct project){ project->st, edit->kind == CHANGE_MODE ? NULL : project->hash }, ret->has_moved,
            ret->hash);
    return true;
}

void standing_of_image(const struct edit_list *list, const struct edit *edit, const struct image *project, struct standing *ret)
{
    tell(list, edit, &(struct project){ &project->st, project->hash }, ret);
}

int standing_look(const struct edit_list *list, const struct edit *edit, struct standing *ret)
{
    autodone(image) struct image image = IMAGE_NONE;
    int r;

    if (tell(list, edit, &(struct project){ &edit->was, NULL }, ret))
        return 0;
    r = image_read(list->base_fd, edit->path, &image);
    if (r == 0)
        standing_of_image(list, edit, &image, ret);
    return r;
}

int standing_of_side(const struct edit_list *list, const struct edit *edit, const struct side *project, struct standing *ret)
{
    uint8_t hash[IMAGE_HASH_BYTES];
    struct sha256_ctx sha;

    if (!project->mode || edit->kind == CHANGE_MODE)
        return standing_look(list, edit, ret);
    if (tell(list, edit, &(struct project){ &project->st, NULL }, ret))
        return 0;
    if (project->is_too_large)
        return standing_look(list, edit, ret);
    sha256_init(&sha);
    sha256_update(&sha, project->bytes.len, (const uint8_t *) project->bytes.data);
    sha256_digest(&sha, sizeof(hash), hash);
    tell(list, edit, &(struct project){ &project->st, hash }, ret);
    return 0;
}

void standing_text(const struct standing *standing, char out[2 * IMAGE_HASH_BYTES + 1])
{
    static const char hex[] = "0123456789abcdef";

    out[0] = '\0';
    for (size_t i = 0; standing->is_noted && i < IMAGE_HASH_BYTES; i++) {
        out[2 * i] = hex[standing->hash[i] >> 4];
        out[2 * i + 1] = hex[standing->hash[i] & 15];
        out[2 * i + 2] = '\0';
    }
}
