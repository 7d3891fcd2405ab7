#include "review/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/approve_int.h"
#include "review/landing_int.h"

/* What one path shall be again. */
struct wish_back {
    const struct step *step;
    mode_t now;
    bool is_mode_only;
    struct stat was; /* what is there */
    struct stat dress;
    char *source; /* owned */
};

struct undoing {
    struct undo *out;
    struct approve_locks *locks;
    int record_fd; /* owned: of what is taken back */
    struct step_log log;
    struct wish_back *backs; /* owned */
    size_t count, cap;
};

static void undoing_done(struct undoing *u)
{
    for (size_t i = 0; i < u->count; i++)
        free(u->backs[i].source);
    free(u->backs);
    step_log_done(&u->log);
    cleanup_fd(&u->record_fd);
}

static void tell_moved(struct undo *out, const char *path)
{
    vec_room(&out->moved, &out->moved_cap, out->moved_count);
    out->moved[out->moved_count++] = xdup(path);
}

static bool has_hash(const struct image *image, const char *hash)
{
    char text[2 * IMAGE_HASH_BYTES + 1];

    for (size_t i = 0; i < IMAGE_HASH_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", image->hash[i]);
    return strcmp(text, hash) == 0;
}

/* As it was written, by whoever. */
static bool is_as_written(const struct step *step, const struct image *image)
{
    const struct stat *st = &image->st;

    if ((st->st_mode ^ step->now.mode) & S_IFMT)
        return false;
    if (S_ISDIR(st->st_mode) || step_file_is(&step->now, st))
        return true;
    return S_ISREG(st->st_mode) && !((st->st_mode ^ step->now.mode) & 0777) && *step->hash && has_hash(image, step->hash);
}

static struct wish_back *add_back(struct undoing *u, const struct step *step, const struct stat *is)
{
    vec_room(&u->backs, &u->cap, u->count);
    struct wish_back *back = &u->backs[u->count++];
    *back = (struct wish_back){ .step = step, .was = *is, .now = step->was.mode };
    back->dress.st_uid = step->was.uid;
    back->dress.st_gid = step->was.gid;
    back->dress.st_mtim = clock_timespec_of_ns(step->was.mtime_ns);
    if (*step->kept)
        back->source = xprintf("kept/%s", step->kept);
    return back;
}

/* A directory came over a file, or the other way: then what was there has a step of its own, which the put is one with. */
static bool is_removed_for_put(const struct undoing *u, const struct step *step)
{
    for (size_t i = 0; i < u->log.count; i++) {
        const struct step *other = &u->log.steps[i];
        if (other->kind == STEP_PUT && other != step && strcmp(other->path, step->path) == 0)
            return true;
    }
    return false;
}

static const struct step *find_rmdir(const struct undoing *u, const char *path)
{
    for (size_t i = 0; i < u->log.count; i++) {
        const struct step *step = &u->log.steps[i];
        if (step->kind == STEP_RMDIR && strcmp(step->path, path) == 0)
            return step;
    }
    return NULL;
}

static void look_at_put(struct undoing *u, const struct step *step, const struct image *image)
{
    const struct step *dir = step->was.mode ? NULL : find_rmdir(u, step->path);

    if (!image->st.st_mode && !step->was.mode && !dir) /* gone, as it was */
        return;
    if (!is_as_written(step, image))
        tell_moved(u->out, step->path);
    else
        add_back(u, dir ? dir : step, &image->st);
}

static int look_at_step(struct undoing *u, const struct step *step)
{
    autodone(image) struct image image = IMAGE_NONE;
    int r = image_read(u->locks->base_fd, step->path, &image);

    if (r < 0)
        return r;
    if (step->kind == STEP_PUT || step->kind == STEP_PART) {
        look_at_put(u, step, &image);
    } else if (step->kind == STEP_MODE) {
        if (((image.st.st_mode ^ step->now.mode) & (S_IFMT | 0777)))
            tell_moved(u->out, step->path);
        else
            add_back(u, step, &image.st)->is_mode_only = true;
    } else if (step->kind == STEP_RMDIR) {
        if (!is_removed_for_put(u, step) && !image.st.st_mode)
            add_back(u, step, &image.st);
        else if (image.st.st_mode && !S_ISDIR(image.st.st_mode) && !is_removed_for_put(u, step))
            tell_moved(u->out, step->path);
    } else if (image.st.st_mode) {
        tell_moved(u->out, step->path);
    } else {
        add_back(u, step, &image.st);
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct wish_back *) a)->step->path, ((const struct wish_back *) b)->step->path);
}

static int look_at_all(struct undoing *u, struct err *err)
{
    for (size_t i = 0; i < u->log.count; i++) {
        int r = look_at_step(u, &u->log.steps[i]);
        if (r < 0) {
            autofree char *shown = landing_quote(u->log.steps[i].path);
            return err_errno(err, r, "reading %s", shown);
        }
    }
    if (u->count > 0)
        qsort(u->backs, u->count, sizeof(*u->backs), by_path);
    return 0;
}

/* ---- the landing ---- */

static void add_wishes(struct undoing *u, struct landing *landing)
{
    for (size_t i = 0; i < u->count; i++) {
        const struct wish_back *back = &u->backs[i];
        struct landing_wish wish = {
            .path = back->step->path,
            .now = back->now,
            .is_mode_only = back->is_mode_only,
            .was = back->was,
            .source_fd = u->record_fd,
            .source_path = back->source,
            .dress = back->now ? &back->dress : NULL,
        };
        landing_add(landing, &wish);
    }
}

static int land(struct undoing *u, const char *id, const struct buf *follow_up, struct err *err)
{
    autoptr(landing) landing = NULL;
    struct err later = ERR_NONE;
    struct landing_site site = approve_site(u->locks);
    const struct landing_texts texts = { .notes = &u->log.back, .back = &u->log.notes, .follow_up = follow_up };
    int r = landing_new(&site, id, &landing, err);

    if (r < 0)
        return r;
    add_wishes(u, landing);
    r = landing_stage(landing, err);
    if (r == 0)
        r = landing_commit(landing, &texts, err);
    if (r < 0)
        return r;
    u->out->done_count = u->count;
    memcpy(u->out->id, landing_id(landing), sizeof(u->out->id));
    landing_settle(landing, &later);
    return 0;
}

/* ---- records ---- */

struct listing_entries {
    int records_fd;
    struct undo_entry *items;
    size_t count, cap;
};

static int on_entry(const char *id, int64_t time_ns, enum landing_state state, void *cookie)
{
    struct listing_entries *list = cookie;
    struct step_log log = STEP_LOG_EMPTY;
    autofd int fd = landing_open(list->records_fd, id);

    if (state != LANDING_DONE && state != LANDING_FOLLOW_UP && state != LANDING_NOTED)
        return 0;
    int r = fd < 0 ? fd : step_log_read(fd, &log);
    if (r < 0)
        return r;
    vec_room(&list->items, &list->cap, list->count);
    struct undo_entry *entry = &list->items[list->count++];
    *entry = (struct undo_entry){ .time_ns = time_ns, .path_count = log.count };
    snprintf(entry->id, sizeof(entry->id), "%s", id);
    memcpy(entry->undoes, log.undoes, sizeof(entry->undoes));
    step_log_done(&log);
    return 0;
}

static int list_entries(int records_fd, struct undo_entry **ret, size_t *ret_count)
{
    struct listing_entries list = { .records_fd = records_fd };
    int r = landing_each(records_fd, on_entry, &list);

    for (size_t i = 0; i < list.count; i++) {
        for (size_t k = 0; *list.items[i].undoes && k < list.count; k++)
            list.items[k].is_undone |= strcmp(list.items[i].undoes, list.items[k].id) == 0;
    }
    if (r < 0) {
        free(list.items);
        return r;
    }
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}

int undo_list(const char *delta_path, struct undo_entry **ret, size_t *ret_count, struct err *err)
{
    struct delta_about delta = DELTA_ABOUT_NONE;
    int r = delta_about_open(delta_path, &delta, err);

    if (r < 0)
        return r;
    autofd int records = path_open_beneath(delta.meta_fd, "approvals", O_RDONLY | O_DIRECTORY, 0);
    *ret = NULL;
    *ret_count = 0;
    if (records != -ENOENT)
        r = records < 0 ? records : list_entries(records, ret, ret_count);
    delta_about_done(&delta);
    return r < 0 ? err_errno(err, r, "reading the records of approvals") : 0;
}

static int find_record(struct undoing *u, const char *id, struct err *err)
{
    autofree struct undo_entry *entries = NULL;
    const struct undo_entry *found = NULL;
    size_t count = 0;
    int r = list_entries(u->locks->records_fd, &entries, &count);

    for (size_t i = 0; i < count; i++)
        found = strcmp(entries[i].id, id) == 0 ? &entries[i] : found;
    if (r == 0 && !found)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no such approval");
    if (r == 0 && found->is_undone)
        return err_set(err, ERR_FAILED_PRECONDITION, -EALREADY, "approval '%s' was undone already", id);
    if (r == 0)
        u->record_fd = landing_open(u->locks->records_fd, id);
    if (r == 0)
        r = u->record_fd < 0 ? u->record_fd : step_log_read(u->record_fd, &u->log);
    return r < 0 ? err_errno(err, r, "reading the record of approval '%s'", id) : 0;
}

int undo_run(const char *delta_path, const char *id, const struct undo_options *options, struct undo *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    struct undoing u = { .out = ret, .locks = &locks, .record_fd = -1 };
    int r;

    *ret = UNDO_NONE;
    r = approve_locks_take(delta_path, options->is_held, &locks, err);
    if (r == 0)
        r = find_record(&u, id, err);
    if (r == 0)
        r = look_at_all(&u, err);
    if (r == 0 && ret->moved_count > 0)
        r = 1;
    if (r == 0 && !options->is_dry)
        r = land(&u, id, options->follow_up, err);
    undoing_done(&u);
    return r;
}

void undo_done(struct undo *undo)
{
    for (size_t i = 0; i < undo->moved_count; i++)
        free(undo->moved[i]);
    free(undo->moved);
    *undo = UNDO_NONE;
}
