#include "review/reconcile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/landing.h"
#include "review/line_distance.h"

const char *reconcile_state_name(enum reconcile_state state)
{
    static const char *const names[] = { "clean", "merges", "conflict" };

    return names[state];
}

static int64_t ns_of(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

static void copy_image(const struct image *from, struct image *to)
{
    *to = *from;
    to->bytes = BUF_EMPTY;
    if (from->has_bytes)
        buf_add(&to->bytes, from->bytes.data ? from->bytes.data : "", from->bytes.len);
}

static void refuse(struct reconcile *re, const char *reason)
{
    re->state = RECONCILE_CONFLICT;
    re->reason = reason;
}

/* ---- the ground ---- */

static bool is_ground(const struct reconcile *re, const struct diary_page *page)
{
    const struct stat *st = &re->project.st;

    if (!page->has_hash)
        return page->size_bytes == (uint64_t) st->st_size && page->mtime_ns == ns_of(st->st_mtim);
    return S_ISREG(st->st_mode) && page->size_bytes == (uint64_t) st->st_size &&
           memcmp(page->hash, re->project.hash, sizeof(page->hash)) == 0;
}

/* The copy that was kept, if it is whole: it was not synced when it was made. */
static void find_kept(const struct edit_list *list, const struct diary_page *page, struct reconcile *re)
{
    autofree char *path = page->kept ? xprintf("pre/%s", page->kept) : NULL;

    if (!path || !page->has_hash || image_read(list->delta.meta_fd, path, &re->ground) < 0)
        return;
    re->has_ground =
        S_ISREG(re->ground.st.st_mode) && re->ground.has_bytes && memcmp(re->ground.hash, page->hash, sizeof(page->hash)) == 0;
    re->ground.st.st_mode = S_IFREG | (page->mode & 0777);
}

static void find_ground(const struct edit_list *list, const struct diary_page *page, struct reconcile *re)
{
    if (!page || page->base != DIARY_BASE_PRESENT || is_ground(re, page)) {
        copy_image(&re->project, &re->ground);
        re->has_ground = true;
        if (page && page->base == DIARY_BASE_PRESENT)
            re->ground.st.st_mode = (re->ground.st.st_mode & S_IFMT) | (page->mode & 0777);
        return;
    }
    find_kept(list, page, re);
}

/* ---- judging ---- */

static int merge_text(struct reconcile *re, enum threeway_favor favor, struct err *err)
{
    mode_t mode = re->result.st.st_mode;
    int r = threeway_make(&re->ground.bytes, &re->project.bytes, &re->agent.bytes, favor, &re->merge, err);

    if (r < 0)
        return r;
    if (!re->merge.is_clean) {
        refuse(re, "has changed in the project meanwhile, in the same lines");
        return 0;
    }
    image_done(&re->result);
    image_of_bytes(re->merge.bytes.data ? re->merge.bytes.data : "", re->merge.bytes.len, mode, &re->result);
    re->state = RECONCILE_MERGES;
    return 0;
}

static bool is_text(const struct image *image)
{
    return S_ISREG(image->st.st_mode) && !image_is_binary(image);
}

/* libgit2 would take minutes, and cannot be stopped. */
static bool is_far(const struct image *ground, const struct image *other)
{
    return !line_distance_is_small(ground->bytes.data, ground->bytes.len, other->bytes.data, other->bytes.len);
}

/* The project has something else than the ground. */
static int merge_moved(const struct edit *edit, struct reconcile *re, enum threeway_favor favor, struct err *err)
{
    if (!edit->now) {
        refuse(re, "has changed in the project meanwhile, and the agent deleted it");
        return 0;
    }
    if (!re->has_ground) {
        refuse(re, "has changed in the project meanwhile");
        return 0;
    }
    if (!is_text(&re->ground) || !is_text(&re->project) || !is_text(&re->agent)) {
        refuse(re, S_ISREG(re->project.st.st_mode) && S_ISREG(edit->now)
                       ? "has changed in the project meanwhile, and is no text that could be merged"
                       : "has changed in the project meanwhile, and is of another kind");
        return 0;
    }
    if (is_far(&re->ground, &re->project) || is_far(&re->ground, &re->agent)) {
        refuse(re, "has changed in the project meanwhile, and has too little in common with what it was to be merged");
        return 0;
    }
    return merge_text(re, favor, err);
}

/* Where the diary does not say what the base had (a file that the agent deleted, or renamed another over, in a base that is not
 * watched), its change time tells: that cannot be set back, as a modification time can. */
static void judge_by_time(const struct edit_list *list, const struct diary_page *page, struct reconcile *re)
{
    int64_t since_ns = page && page->since_ns > list->delta.made_ns ? page->since_ns : list->delta.made_ns;

    if (ns_of(re->project.st.st_ctim) > since_ns)
        refuse(re, "has changed in the project since the sandbox was made");
}

static int judge_present(const struct edit_list *list, const struct edit *edit, const struct diary_page *page,
                         enum threeway_favor favor, struct reconcile *re, struct err *err)
{
    if (!page || page->base == DIARY_BASE_UNKNOWN)
        judge_by_time(list, page, re);
    else if (page->base == DIARY_BASE_ABSENT)
        refuse(re, "has appeared in the project meanwhile");
    else if (page->has_moved_on)
        refuse(re, "had changed in the project after the agent read it");
    else if (edit_mode_has_moved(edit, page->mode, re->project.st.st_mode))
        refuse(re, "got another mode in the project meanwhile");
    else if (edit->kind != CHANGE_MODE && !is_ground(re, page))
        return merge_moved(edit, re, favor, err);
    return 0;
}

/* A file cannot take the place of a directory in which something stays. */
static bool must_stay_directory(const struct edit_list *list, const struct edit *edit)
{
    size_t len = strlen(edit->path);

    if (!S_ISDIR(edit->was.st_mode) || !edit->now || S_ISDIR(edit->now))
        return false;
    for (size_t i = 0; i < list->unseen_count; i++) {
        const char *path = list->unseen[i];
        if (strncmp(path, edit->path, len) == 0 && path[len] == '/')
            return true;
    }
    return false;
}

static int judge(const struct edit_list *list, const struct edit *edit, const struct diary_page *page,
                 enum threeway_favor favor, struct reconcile *re, struct err *err)
{
    if (must_stay_directory(list, edit)) {
        refuse(re, "is a directory with files the agent never saw, and would become a file");
        re->is_hard = true;
        return 0;
    }
    if (!re->project.st.st_mode) {
        if (page && page->base == DIARY_BASE_PRESENT)
            refuse(re, "was deleted in the project meanwhile");
        return 0;
    }
    /* Directories are told by what is in them. */
    if (S_ISDIR(re->project.st.st_mode))
        return 0;
    return judge_present(list, edit, page, favor, re, err);
}

/* ---- the three ---- */

static int read_one(int dirfd, const char *path, struct image *image, struct err *err)
{
    int r = image_read(dirfd, path, image);

    if (r == 0)
        return 0;
    autofree char *shown = landing_quote(path);
    return err_errno(err, r, "reading %s", shown);
}

static int read_sides(const struct edit_list *list, const struct edit *edit, struct reconcile *re, struct err *err)
{
    int r = read_one(list->base_fd, edit->path, &re->project, err);

    if (r == 0 && edit->now)
        r = read_one(list->delta.data_fd, edit->path, &re->agent, err);
    if (r < 0)
        return r;
    /* Between the walk and now. */
    if (((re->project.st.st_mode ^ edit->was.st_mode) & S_IFMT) || ((re->agent.st.st_mode ^ edit->now) & S_IFMT)) {
        autofree char *shown = landing_quote(edit->path);
        return err_set(err, ERR_ABORTED, -ESTALE, "%s is being changed; try again", shown);
    }
    return 0;
}

/* What lands if nothing is in the way. The mode as the edit tells it: that of the project, if the agent did not change it. */
static void expect(const struct edit *edit, struct reconcile *re)
{
    copy_image(edit->kind == CHANGE_MODE ? &re->project : &re->agent, &re->result);
    re->result.st.st_mode = edit->now & (S_IFMT | 0777);
}

int reconcile_make(const struct edit_list *list, const struct edit *edit, enum threeway_favor favor, struct reconcile *ret,
                   struct err *err)
{
    const struct diary_page *page = diary_find(&list->diary, edit->path);
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    int r = read_sides(list, edit, &re, err);

    if (r < 0)
        return r;
    expect(edit, &re);
    find_ground(list, page, &re);
    r = judge(list, edit, page, favor, &re, err);
    if (r < 0)
        return r;
    *ret = re;
    re = RECONCILE_EMPTY;
    return 0;
}

void reconcile_done(struct reconcile *re)
{
    image_done(&re->ground);
    image_done(&re->project);
    image_done(&re->agent);
    image_done(&re->result);
    threeway_done(&re->merge);
    *re = RECONCILE_EMPTY;
}
