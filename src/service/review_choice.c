/* Resolves the chosen changes and the decision about them: from a request to the arguments of review/. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/path.h"
#include "review/file_id.h"
#include "service/reviews_int.h"

struct choosing_from {
    struct change_set *set;
    char (*ids)[FILE_ID_LEN + 1]; /* owned; one for each of the set, made on demand */
    const char *sandbox_id;
    struct chosen *ret;
    struct review_discarded *unknown;
};

static void make_ids(struct choosing_from *from)
{
    if (from->ids)
        return;
    from->ids = xalloc((from->set->count + 1) * sizeof(*from->ids));
    for (size_t i = 0; i < from->set->count; i++)
        file_id_make(from->sandbox_id, from->set->items[i].scope_path, from->ids[i]);
}

static int unknown_file(struct choosing_from *from, const char *name, struct err *err)
{
    if (!from->unknown) {
        err_reject(err, -ENOENT, name, "has no changes");
        err->code = ERR_NOT_FOUND;
        return err_set_reason(err, -ENOENT, "FILE_UNKNOWN");
    }
    vec_room(&from->unknown->unknown, &from->unknown->unknown_cap, from->unknown->unknown_count);
    from->unknown->unknown[from->unknown->unknown_count++] = xdup(name);
    return 0;
}

static size_t place_of_change(const struct choosing_from *from, const struct file_change *change)
{
    return (size_t) (change - from->set->items);
}

static int find_change_by_id(struct choosing_from *from, const char *id, struct file_change **ret, struct err *err)
{
    char normal[UUID_TEXT_MAX];

    *ret = NULL;
    if (uuid_parse(id, normal) < 0)
        return err_reject(err, -EINVAL, id, "is no id of a file");
    make_ids(from);
    for (size_t i = 0; i < from->set->count; i++) {
        if (strcmp(from->ids[i], normal) == 0) {
            *ret = &from->set->items[i];
            return 0;
        }
    }
    /* A renamed file is also found by its old id. */
    for (size_t i = 0; i < from->set->count; i++) {
        char old[FILE_ID_LEN + 1] = "";
        if (from->set->items[i].from && file_id_make(from->sandbox_id, from->set->items[i].from->path, old) == 0 &&
            strcmp(old, normal) == 0) {
            *ret = &from->set->items[i];
            return 0;
        }
    }
    return 0;
}

/* Accepts a path from the project's root or from the sandbox's, because both are shown. */
static int find_change_by_path(struct choosing_from *from, const char *path, struct buf *clean, struct file_change **ret,
                               struct err *err)
{
    if (!*path || path_clean(path, strlen(path), clean) < 0) {
        err_reject(err, -EINVAL, path, "is no path of a file");
        return -EINVAL;
    }
    struct file_change *scoped = change_set_find_scoped(from->set, clean->data + 1),
                       *whole = change_set_find(from->set, clean->data + 1);
    if (scoped && whole && scoped != whole)
        return err_reject(err, -EINVAL, path,
                          "may be two files, from the project's root and from the sandbox's; name it by its id");
    *ret = scoped ? scoped : whole;
    for (size_t i = 0; i < from->set->count && !*ret; i++) {
        struct file_change *change = &from->set->items[i];
        if (change->from &&
            (strcmp(change->from->path, clean->data + 1) == 0 || strcmp(change->old_path, clean->data + 1) == 0))
            *ret = change;
    }
    return 0;
}

static bool is_beneath(const char *dir, const char *path)
{
    size_t len = strlen(dir);

    return len == 0 || (strncmp(dir, path, len) == 0 && path[len] == '/');
}

static size_t choose_beneath(struct choosing_from *from, const char *dir)
{
    size_t count = 0;

    for (size_t i = 0; i < from->set->count; i++) {
        const struct file_change *change = &from->set->items[i];
        if (!is_beneath(dir, change->scope_path) && !is_beneath(dir, change->path))
            continue;
        from->ret->items[i] = CHOOSING_WHOLE;
        count++;
    }
    return count;
}

static int choose_path(struct choosing_from *from, const char *path, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct file_change *change = NULL;
    int r = find_change_by_path(from, path, &clean, &change, err);

    if (r < 0)
        return r;
    if (change)
        from->ret->items[place_of_change(from, change)] = CHOOSING_WHOLE;
    if (change && !change->is_dir)
        return 0;
    return choose_beneath(from, clean.data + 1) > 0 || change ? 0 : unknown_file(from, path, err);
}

/* Some clients also list the ids of files with chosen hunks: then only the hunks are chosen. */
static int choose_id(struct choosing_from *from, const char *id, bool only_hunks, struct err *err)
{
    struct file_change *change = NULL;
    int r = find_change_by_id(from, id, &change, err);

    if (r < 0)
        return r;
    if (!change)
        return unknown_file(from, id, err);
    if (!only_hunks && from->ret->items[place_of_change(from, change)] != CHOOSING_HUNKS)
        from->ret->items[place_of_change(from, change)] = CHOOSING_WHOLE;
    return 0;
}

static int choose_hunks(struct choosing_from *from, const struct review_hunks *hunks, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct file_change *change = NULL;
    const char *name = *hunks->file_id ? hunks->file_id : hunks->path;
    int r =
        *hunks->file_id ? find_change_by_id(from, name, &change, err) : find_change_by_path(from, name, &clean, &change, err);

    if (r < 0)
        return r;
    if (!change)
        return unknown_file(from, name, err);
    if (change->kind == FILE_CHANGE_RENAMED || change->is_dir)
        return err_reject(err, -EINVAL, change->path, "is taken whole or not at all: it was renamed, or is a directory");
    size_t place = place_of_change(from, change);
    if (from->ret->items[place] != CHOOSING_NOT)
        return err_reject(err, -EINVAL, change->path, "is named twice");
    from->ret->items[place] = CHOOSING_HUNKS;
    from->ret->hunks[place] = hunks;
    return 0;
}

int review_find_change(struct change_set *set, const char *sandbox_id, const char *path, const char *file_id,
                       struct file_change **ret, struct err *err)
{
    struct choosing_from from = { .set = set, .sandbox_id = sandbox_id };
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct file_change *change = NULL;
    int r = *file_id ? find_change_by_id(&from, file_id, &change, err) : find_change_by_path(&from, path, &clean, &change, err);

    free(from.ids);
    if (r == 0 && (!change || change->is_dir))
        r = unknown_file(&from, *file_id ? file_id : path, err);
    if (r == 0)
        *ret = change;
    return r;
}

int chosen_make(const struct review_choice *choice, struct change_set *set, const char *sandbox_id,
                struct review_discarded *unknown, struct chosen *ret, struct err *err)
{
    struct choosing_from from = { .set = set, .sandbox_id = sandbox_id, .ret = ret, .unknown = unknown };
    int r = 0;

    ret->items = xalloc((set->count + 1) * sizeof(*ret->items));
    ret->hunks = xalloc((set->count + 1) * sizeof(*ret->hunks));
    ret->is_all = choice->file_id_count + choice->path_count + choice->hunk_count == 0;
    for (size_t i = 0; ret->is_all && i < set->count; i++)
        ret->items[i] = CHOOSING_WHOLE;
    for (size_t i = 0; r == 0 && i < choice->path_count; i++)
        r = choose_path(&from, choice->paths[i], err);
    for (size_t i = 0; r == 0 && i < choice->hunk_count; i++)
        r = choose_hunks(&from, &choice->hunks[i], err);
    for (size_t i = 0; r == 0 && i < choice->file_id_count; i++)
        r = choose_id(&from, choice->file_ids[i], choice->only_hunks, err);
    free(from.ids);
    return r;
}

/* A directory that was created or removed is chosen with all its contents, and not without. */
static void choose_directory(struct chosen *chosen, const struct change_set *set, size_t place)
{
    const struct file_change *dir = &set->items[place];
    size_t beneath = 0;
    bool all = true;

    for (size_t i = 0; i < set->count && all; i++) {
        const struct file_change *change = &set->items[i];
        bool is_in = is_beneath(dir->scope_path, change->scope_path) ||
                     (change->from && is_beneath(dir->scope_path, change->from->path));
        if (!is_in || change->is_dir)
            continue;
        beneath++;
        all = chosen->items[i] == CHOOSING_WHOLE;
    }
    if (!all)
        chosen->items[place] = CHOOSING_NOT;
    else if (beneath > 0 && (!dir->old_mode || !dir->new_mode))
        chosen->items[place] = CHOOSING_WHOLE;
}

static void add_file(struct chosen *chosen, const char *path, const struct review_hunks *hunks)
{
    struct selection_file *file = &chosen->files[chosen->selection.file_count++];

    *file = (struct selection_file){ .path = path };
    if (!hunks)
        return;
    file->hunk_ids = hunks->ids;
    file->hunk_id_count = hunks->id_count;
    file->ranges = hunks->ranges;
    file->range_count = hunks->range_count;
}

void chosen_select(struct chosen *chosen, const struct change_set *set)
{
    bool takes_all = true;

    for (size_t i = 0; i < set->count; i++)
        takes_all &= chosen->items[i] == CHOOSING_WHOLE;
    chosen->files = xalloc((2 * set->count + 1) * sizeof(*chosen->files));
    chosen->selection = (struct selection){ .files = chosen->files };
    for (size_t i = 0; !takes_all && i < set->count; i++)
        if (set->items[i].is_dir)
            choose_directory(chosen, set, i);
    for (size_t i = 0; i < set->count; i++) {
        chosen->count += chosen->items[i] != CHOOSING_NOT;
        if (chosen->items[i] == CHOOSING_NOT || takes_all)
            continue;
        add_file(chosen, set->items[i].scope_path, chosen->hunks[i]);
        if (set->items[i].from)
            add_file(chosen, set->items[i].from->path, NULL);
    }
}

void chosen_done(struct chosen *chosen)
{
    free(chosen->items);
    free(chosen->hunks);
    free(chosen->files);
    *chosen = (struct chosen){ 0 };
}

/* ---- acceptance ---- */

/* An approval of all changes covers all that the acceptance rules allow. approve_run() refuses changes that are named and
 * not accepted. */
static void skip_unaccepted(struct approval_run *a)
{
    struct review_approved *out = a->out;

    for (size_t i = 0; a->chosen.is_all && !a->request->overrides_acceptance && i < out->set.count; i++) {
        const struct file_change *change = &out->set.items[i];
        if (change->is_dir || decision_check_acceptance(&out->acceptance, change).status == ACCEPTANCE_ACCEPTED)
            continue;
        out->verdicts[i] = REVIEW_VERDICT_SKIPPED;
        a->chosen.items[i] = CHOOSING_NOT;
    }
}

/* ---- acknowledgement ---- */

static bool names_change(const char *word, const struct approval_run *a, const struct file_change *change)
{
    char id[FILE_ID_LEN + 1] = "";

    file_id_make(a->review_lock->row.id, change->scope_path, id);
    return strcmp(word, change->path) == 0 || strcmp(word, change->scope_path) == 0 || strcasecmp(word, id) == 0;
}

static bool is_acknowledged(const struct approval_run *a, const struct file_change *change)
{
    for (size_t i = 0; i < a->request->acknowledged_count; i++)
        if (names_change(a->request->acknowledged[i], a, change))
            return true;
    return false;
}

static void set_acknowledged(struct approval_run *a)
{
    const struct review_approval *request = a->request;
    struct decision *decision = &a->decision.given;
    const struct change_set *set = &a->out->set;

    decision->acknowledges_all = request->acknowledges_all;
    a->decision.acknowledged = xalloc((request->acknowledged_count + 2 * set->count + 1) * sizeof(*a->decision.acknowledged));
    decision->acknowledged = a->decision.acknowledged;
    for (size_t i = 0; i < request->acknowledged_count; i++)
        a->decision.acknowledged[decision->acknowledged_count++] = request->acknowledged[i];
    for (size_t i = 0; request->acknowledged_count > 0 && i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        if (!is_acknowledged(a, change))
            continue;
        a->decision.acknowledged[decision->acknowledged_count++] = change->scope_path;
        if (change->from)
            a->decision.acknowledged[decision->acknowledged_count++] = change->from->path;
    }
}

/* ---- shown changes ---- */

static const char *hash_given(const struct approval_run *a, const struct file_change *change)
{
    char id[FILE_ID_LEN + 1] = "";
    const char *names[] = { id, change->path, change->scope_path };
    const char *hash = NULL;

    file_id_make(a->review_lock->row.id, change->scope_path, id);
    for (size_t i = 0; i < ARRAY_LEN(names) && !hash; i++)
        hash = json_string_value(json_object_get(a->request->hashes, names[i]));
    return hash;
}

/* The hashes of the request come first, whatever was shown to others; then all of diffHash; then what was last shown. The
 * result may be stored in `shown`. */
static const struct shown_file *shown_of_change(struct approval_run *a, const struct file_change *change,
                                                struct shown_file *shown)
{
    const char *given;

    if (!*a->request->diff_hash || a->decision.is_other_diff) {
        if (!a->request->hashes || a->decision.is_other_diff)
            return shown_find(&a->decision.seen, change->scope_path);
    } else if (!a->request->hashes) {
        *shown = shown_as(change);
        return *shown->hash ? shown : NULL;
    }
    given = hash_given(a, change);
    if (given && !shown_parse(given, shown))
        *shown = (struct shown_file){ .hash = "?" }; /* matches no change */
    return given ? shown : NULL;
}

/* If hunks of a file are chosen, its hunks must be those that were shown. */
static void set_expectations(struct approval_run *a)
{
    const struct change_set *set = &a->out->set;
    struct approval_decision *decision = &a->decision;

    decision->shown = xalloc((set->count + 1) * sizeof(*decision->shown));
    decision->expected = xalloc((2 * set->count + 1) * sizeof(*decision->expected));
    for (size_t i = 0; i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        const struct shown_file *shown = change->is_dir ? NULL : shown_of_change(a, change, &decision->shown[i]);
        if (!shown)
            continue;
        const char *drift = a->chosen.items[i] == CHOOSING_HUNKS ? shown->drift : NULL;
        decision->expected[decision->list.count++] = (struct expectation){ change->scope_path, shown->hash, drift };
        if (change->from)
            decision->expected[decision->list.count++] = (struct expectation){ change->from->path, "", NULL };
    }
    expectation_sort(decision->expected, decision->list.count);
    decision->list.items = decision->expected;
    decision->list.is_complete = true;
}

static int load_shown(struct approval_run *a, struct err *err)
{
    const char *given = a->request->diff_hash;
    int r = 0;

    a->decision.given.shown = &a->decision.list;
    if (a->request->is_forced) {
        a->decision.list = EXPECTATION_ANYTHING;
        return 0;
    }
    a->decision.is_other_diff = *given && !change_set_hash_is(a->out->hash, given, a->request->choice.hunk_count == 0);
    if ((!*given && !a->request->hashes) || a->decision.is_other_diff)
        r = shown_load(a->review_lock->dir_fd, &a->decision.seen, err);
    if (r == 0)
        set_expectations(a);
    return r;
}

void approval_decision_done(struct approval_decision *decision)
{
    free(decision->acknowledged);
    free(decision->shown);
    free(decision->expected);
    shown_list_done(&decision->seen);
    *decision = (struct approval_decision){ 0 };
}

/* ---- the whole request ---- */

int approval_run_look(struct approval_run *a, struct err *err)
{
    const struct change_set_options options = { .prefix = a->review_lock->prefix };
    struct review_approved *out = a->out;
    struct decision *decision = &a->decision.given;
    int r = change_set_load(a->review_lock->delta_path, &options, &out->set, err);

    if (r < 0)
        return r;
    out->verdicts = xalloc((out->set.count + 1) * sizeof(*out->verdicts));
    out->files = xalloc((out->set.count + 1) * sizeof(*out->files));
    review_acceptance(&a->review_lock->row, &out->acceptance);
    if (out->acceptance.ignores_binary)
        r = change_set_measure(&out->set, NULL, 0, err);
    if (r == 0)
        r = change_set_hash(&out->set, out->hash, err);
    if (r == 0)
        r = chosen_make(&a->request->choice, &out->set, a->review_lock->row.id, NULL, &a->chosen, err);
    if (r != 0)
        return r;
    skip_unaccepted(a);
    decision->hooks = DECISION_HOOKS_WAIVED;
    decision->prefix = a->review_lock->prefix;
    decision->acceptance = a->request->overrides_acceptance ? &a->decision.anything : &out->acceptance;
    set_acknowledged(a);
    r = load_shown(a, err);
    if (r == 0)
        chosen_select(&a->chosen, &out->set);
    return r;
}
