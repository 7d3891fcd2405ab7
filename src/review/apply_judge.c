#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_int.h"

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

static bool is_what_was_copied(const struct job *job, const struct edit *edit, const struct diary_page *page)
{
    uint8_t hash[DIARY_HASH_BYTES];

    if (!page->has_hash)
        return page->size_bytes == (uint64_t) edit->was.st_size && page->mtime_ns == ns_of(edit->was.st_mtim);
    if (!S_ISREG(edit->was.st_mode) || page->size_bytes != (uint64_t) edit->was.st_size)
        return false;
    autofd int fd = path_open_beneath(job->base_fd, edit->path, O_RDONLY | O_NONBLOCK, 0);
    return fd >= 0 && diary_hash(fd, hash) == 0 && memcmp(hash, page->hash, sizeof(hash)) == 0;
}

/* The agent changed the mode, and somebody else another way. */
static bool has_other_mode(const struct edit *edit, const struct diary_page *page)
{
    return S_ISREG(edit->now) && S_ISREG(edit->was.st_mode) && ((edit->now ^ edit->was.st_mode) & 0777) &&
           ((page->mode ^ edit->was.st_mode) & 0777);
}

/* Where the diary does not say what the base had (a file that the agent deleted, or renamed another over, in a base that is not
 * watched), its change time tells: that cannot be set back, as a modification time can. */
static const char *judge_by_time(const struct job *job, const struct edit *edit)
{
    return ns_of(edit->was.st_ctim) > job->edits->delta.made_ns ? "has changed in the base since the sandbox was made" : NULL;
}

static const char *judge_present(const struct job *job, const struct edit *edit, const struct diary_page *page)
{
    if (!page || page->base == DIARY_BASE_UNKNOWN)
        return judge_by_time(job, edit);
    if (page->base == DIARY_BASE_ABSENT)
        return "has appeared in the base meanwhile";
    if (page->has_moved_on)
        return "had changed in the base after the agent read it";
    if (has_other_mode(edit, page))
        return "got another mode in the base meanwhile";
    if (edit->kind == CHANGE_MODE || is_what_was_copied(job, edit, page))
        return NULL;
    return "has changed in the base meanwhile";
}

static const char *judge(const struct job *job, const struct edit *edit)
{
    const struct diary_page *page = diary_find(&job->edits->diary, edit->path);

    if (!edit->was.st_mode)
        return page && page->base == DIARY_BASE_PRESENT ? "was deleted in the base meanwhile" : NULL;
    /* Directories are told by what is in them. */
    return S_ISDIR(edit->was.st_mode) ? NULL : judge_present(job, edit, page);
}

/* A file cannot take the place of a directory in which something stays. */
static bool must_stay_directory(const struct job *job, const struct edit *edit)
{
    size_t len = strlen(edit->path);

    if (!S_ISDIR(edit->was.st_mode) || !edit->now || S_ISDIR(edit->now))
        return false;
    for (size_t i = 0; i < job->edits->unseen_count; i++) {
        const char *path = job->edits->unseen[i];
        if (strncmp(path, edit->path, len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

void job_judge(struct job *job)
{
    struct apply *out = job->out;

    for (size_t i = 0; i < job->edits->count; i++) {
        const struct edit *edit = &job->edits->items[i];
        const char *reason = job->is_forced ? NULL : judge(job, edit);
        if (must_stay_directory(job, edit))
            reason = "is a directory with files the agent never saw, and would become a file";
        if (!reason)
            continue;
        vec_room(&out->conflicts, &out->conflict_cap, out->conflict_count);
        out->conflicts[out->conflict_count++] = (struct apply_conflict){ xdup(edit->path), reason };
    }
}
