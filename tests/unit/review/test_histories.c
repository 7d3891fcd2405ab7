/*
 * Random histories of an agent and a project's owner against a plain model: a file is a few slots of text, some far apart, so that each is
 * a hunk of its own, some with a line or three between them, so that they are one hunk, and two that touch. What the agent
 * changed and the owner did not is the agent's, and the other way round; what both changed in different ways is a conflict. Whether
 * changes that touch are one is asked of the merge itself; what comes of it, never.
 *
 * What is shown must be the hunks from the project to what the model says, and of a conflict what the agent did. Approved is what was
 * chosen from that, by id or by lines. Then the project must be what the model says, the rest must be shown as what is left, and
 * nothing else may have been touched.
 *
 * AGENTFENSE_HISTORIES says how many, AGENTFENSE_SEED which. A failure names the seed of its history.
 */
#include "review/approve.h"

#include "review_fixture.h"

#include <inttypes.h>

#include "review/change_set.h"
#include "review/file_diff.h"
#include "review/rebase.h"
#include "review/undo.h"

#define SLOTS 6
#define TOUCHING 2 /* the first ones */
#define HISTORIES 2000
#define HISTORIES_SHARE 200

static const char *const paths[] = { "a", "b", "c", "dir/d", "dir/e", "dir/sub/f", "n1", "n2", "dir/n3", "new/n4" };

#define PATHS ARRAY_LEN(paths)

/* Lines before each slot. */
static const unsigned between[SLOTS] = { 8, 0, 1, 8, 3, 8 };

enum kind { GONE, TEXT, BINARY, LINK };

struct version {
    enum kind kind;
    mode_t mode;
    unsigned slots[SLOTS]; /* 0: empty */
};

struct file {
    bool is_covered;     /* the delta has something there */
    bool has_merge_base; /* the diary has a word about it: it holds until there is a better one */
    struct version merge_base, project, agent;
};

struct model {
    struct file files[PATHS];
};

struct history {
    struct world *w;
    struct model model;
    uint64_t random, seed;
    unsigned next; /* the next text nobody has had */
    size_t approvals, conflicts, parts, undone, rebased, merged, near, beside, moved_parts;
};

/* Nothing here is about power cuts. */
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_syncfs(int fd);

int __wrap_fsync(int fd)
{
    (void) fd;
    return 0;
}

int __wrap_fdatasync(int fd)
{
    (void) fd;
    return 0;
}

int __wrap_syncfs(int fd)
{
    (void) fd;
    return 0;
}

static unsigned pick(struct history *h, unsigned below)
{
    h->random ^= h->random << 13;
    h->random ^= h->random >> 7;
    h->random ^= h->random << 17;
    return (unsigned) (h->random >> 33) % below;
}

/* ---- versions ---- */

static bool same_content(const struct version *a, const struct version *b)
{
    return a->kind == b->kind && (a->kind == GONE || memcmp(a->slots, b->slots, sizeof(a->slots)) == 0);
}

static bool same_version(const struct version *a, const struct version *b)
{
    return same_content(a, b) && (a->kind == GONE || a->kind == LINK || a->mode == b->mode);
}

static void text_of(const struct version *v, struct buf *out)
{
    buf_clear(out);
    buf_add(out, "", 0);
    if (v->kind == GONE)
        return;
    if (v->kind == LINK) {
        buf_addf(out, "target-%u", v->slots[0]);
        return;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        for (unsigned k = 0; k < between[i]; k++)
            buf_addf(out, "between %u %u\n", i, k);
        if (v->slots[i])
            buf_addf(out, "slot %u has %u\n", i, v->slots[i]);
    }
    if (v->kind == BINARY)
        buf_add(out, "\0", 1);
}

/* ---- the three parties ---- */

static void owner_writes(struct history *h, size_t i)
{
    const struct version *v = &h->model.files[i].project;
    autofree char *path = xprintf(BASE_DIR "/%s", paths[i]);
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *slash = strrchr(paths[i], '/');

    unlinkat(h->w->f.fd, path, 0);
    if (v->kind == GONE)
        return;
    if (slash) {
        autofree char *dir = xprintf(BASE_DIR "/%.*s", (int) (slash - paths[i]), paths[i]);
        assert_int_equal(path_mkdirs_beneath(h->w->f.fd, dir, 0755), 0);
    }
    text_of(v, &text);
    if (v->kind == LINK) {
        assert_int_equal(symlinkat(text.data, h->w->f.fd, path), 0);
        return;
    }
    assert_int_equal(file_put(h->w->f.fd, path, text.data, text.len, v->mode), 0);
}

static void agent_puts(struct history *h, size_t i)
{
    const struct version *v = &h->model.files[i].agent;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct inode *inode = walk(&h->w->f, paths[i], NULL);
    struct stat to = { .st_mode = v->mode };
    struct entry_answer answer = { 0 };

    text_of(v, &text);
    if (!inode) {
        const char *name;
        struct inode *dir = agent_dir(h->w, paths[i], &name);
        assert_int_equal(op_mknod(h->w->f.fence, &nobody, dir, name, S_IFREG | v->mode, &answer), 0);
        inode = answer.inode;
    }
    assert_int_equal(op_setattr(h->w->f.fence, &nobody, inode, &to, SETATTR_SIZE | SETATTR_MODE, &answer), 0);
    assert_int_equal(op_write(h->w->f.fence, &nobody, inode, text.len, 0, write_from, text.data), text.len);
}

static bool agent_sees(struct history *h, const char *path)
{
    return walk(&h->w->f, path, NULL);
}

static void make_dirs(struct history *h, const char *path)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *dir = xdupn(path, (size_t) (slash - path));
        if (!agent_sees(h, dir))
            agent_mkdir(h->w, dir);
    }
}

static void cover(struct file *file)
{
    if (!file->is_covered && (file->project.kind != GONE || !file->has_merge_base))
        file->merge_base = file->project;
    file->is_covered = file->has_merge_base = true;
}

/* Of what the project has not, nothing remains in the delta. */
static void uncover(struct file *file)
{
    file->agent = (struct version){ GONE, 0, { 0 } };
    file->is_covered = file->project.kind != GONE;
}

/* What the agent does to a file, in the model; then to the fence. */
static void change_slots(struct history *h, struct version *v)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (pick(h, 3) == 0)
            v->slots[i] = pick(h, 4) == 0 ? 0 : h->next++;
    }
}

static const mode_t modes[] = { 0644, 0755, 0600 };

static void agent_deletes(struct history *h, size_t i)
{
    cover(&h->model.files[i]);
    agent_unlink(h->w, paths[i]);
    uncover(&h->model.files[i]);
}

static void agent_links(struct history *h, size_t i)
{
    struct file *file = &h->model.files[i];
    autodone(buf) struct buf text = BUF_EMPTY;

    if (file->agent.kind != GONE)
        agent_deletes(h, i);
    cover(file);
    file->agent = (struct version){ LINK, 0777, { h->next++ } };
    text_of(&file->agent, &text);
    agent_symlink(h->w, text.data, paths[i]);
}

static void agent_moves(struct history *h, size_t from, size_t to)
{
    struct file *a = &h->model.files[from], *b = &h->model.files[to];

    if (from == to || a->agent.kind == GONE || a->agent.kind == LINK || b->agent.kind == LINK)
        return;
    make_dirs(h, paths[to]);
    cover(a);
    cover(b);
    agent_rename(h->w, paths[from], paths[to]);
    b->agent = a->agent;
    uncover(a);
}

static void agent_edits(struct history *h, size_t i)
{
    struct file *file = &h->model.files[i];

    if (file->agent.kind == LINK)
        return;
    cover(file);
    if (file->agent.kind == GONE) {
        file->agent = (struct version){ pick(h, 6) ? TEXT : BINARY, modes[pick(h, 2)], { 0 } };
        make_dirs(h, paths[i]);
    } else if (pick(h, 8) == 0) {
        file->agent.mode = modes[pick(h, 3)];
    }
    change_slots(h, &file->agent);
    agent_puts(h, i);
}

/* It knows what it is about to change: who works from what has changed since makes a conflict, which is another test's (test_partial.c). */
static void agent_reads(struct history *h)
{
    char bytes[4096];

    for (size_t i = 0; i < PATHS; i++) {
        struct inode *inode = agent_sees(h, paths[i]) ? walk(&h->w->f, paths[i], NULL) : NULL;

        if (inode && S_ISREG(atomic_load(&inode->mode)))
            assert_true(op_read(h->w->f.fence, &nobody, inode, bytes, sizeof(bytes), 0) >= 0);
    }
}

static void agent_works(struct history *h)
{
    agent_start(h->w, (const char *const[]){ "**=write", NULL }, true);
    agent_reads(h);
    for (unsigned n = 1 + pick(h, 6); n > 0; n--) {
        size_t i = pick(h, PATHS);
        unsigned what = pick(h, 12);
        if (what == 0 && h->model.files[i].agent.kind != GONE)
            agent_deletes(h, i);
        else if (what == 1)
            agent_moves(h, i, pick(h, PATHS));
        else if (what == 2 && agent_sees(h, "dir/sub") && strncmp(paths[i], "new/", 4) != 0)
            agent_links(h, i);
        else
            agent_edits(h, i);
    }
    agent_end(h->w);
}

static bool has_hunks(const struct file *file)
{
    return file->agent.kind == TEXT && file->project.kind == TEXT && file->merge_base.kind == TEXT;
}

/* Of a deletion that is in the delta still, the owner makes no new file: that is told as a conflict, though the agent has done nothing
 * since (see the_owner_may_make_it_again in test_approve). */
static bool owner_may(const struct file *file)
{
    return !(file->is_covered && file->agent.kind == GONE && file->merge_base.kind == GONE) && file->project.kind != LINK &&
           file->agent.kind != LINK;
}

static void owner_works(struct history *h)
{
    for (unsigned n = pick(h, 4); n > 0; n--) {
        size_t i = pick(h, PATHS);
        for (unsigned more = 3; more > 0 && !has_hunks(&h->model.files[i]); more--) /* where there is something to merge */
            i = pick(h, PATHS);
        struct file *file = &h->model.files[i];
        struct version *v = &file->project;
        if (!owner_may(file))
            continue;
        if (v->kind == GONE)
            *v = (struct version){ TEXT, 0644, { 0 } };
        else if (pick(h, 10) == 0)
            *v = (struct version){ GONE, 0, { 0 } };
        else if (pick(h, 6) == 0)
            v->mode = modes[pick(h, 3)];
        if (v->kind != GONE)
            v->slots[pick(h, SLOTS)] = h->next++;
        if (!file->is_covered)
            file->agent = *v;
        owner_writes(h, i);
    }
}

/* ---- what the model says ---- */

/* Whether there is an edit to review. */
static bool is_edit(const struct file *file)
{
    const struct version *b = &file->merge_base, *o = &file->project, *t = &file->agent;

    if (!file->is_covered || same_version(t, o))
        return false;
    if (t->kind == GONE || o->kind == GONE || b->kind == GONE || t->kind == LINK || b->kind == LINK)
        return true;
    bool has_content = !same_content(t, b) && !same_content(t, o), has_mode = t->mode != b->mode && t->mode != o->mode;
    return has_content || has_mode;
}

/* Both changed something where no line is between them. */
static bool is_near(const struct file *file)
{
    bool owner = false, agent = false;

    for (unsigned i = 0; i < TOUCHING; i++) {
        owner |= file->project.slots[i] != file->merge_base.slots[i];
        agent |= file->agent.slots[i] != file->merge_base.slots[i];
    }
    return owner && agent;
}

static bool merges(const struct file *file)
{
    autodone(threeway) struct threeway merge = THREEWAY_EMPTY;
    autodone(buf) struct buf merge_base = BUF_EMPTY, project = BUF_EMPTY, agent = BUF_EMPTY;
    struct err err = ERR_NONE;

    text_of(&file->merge_base, &merge_base);
    text_of(&file->project, &project);
    text_of(&file->agent, &agent);
    assert_int_equal(threeway_make(&merge_base, &project, &agent, THREEWAY_NONE, &merge, &err), 0);
    return merge.is_clean;
}

static bool is_conflict(const struct file *file, struct version *ret)
{
    const struct version *b = &file->merge_base, *o = &file->project, *t = &file->agent;

    *ret = *t;
    if (t->kind != GONE && t->kind != LINK && o->kind != GONE && o->kind != LINK && t->mode == b->mode)
        ret->mode = o->mode;
    /* The mode both changed, each another way. */
    bool is_regular = (t->kind == TEXT || t->kind == BINARY) && (o->kind == TEXT || o->kind == BINARY);
    if (o->kind != GONE && b->kind == GONE)
        return true;
    if (o->kind == GONE)
        return b->kind != GONE;
    if (is_regular && ret->mode != o->mode && b->mode != o->mode)
        return true;
    if (same_content(t, o) || (same_content(t, b) && is_regular)) {
        memcpy(ret->slots, o->slots, sizeof(o->slots));
        ret->kind = o->kind;
        return false;
    }
    if (same_content(o, b))
        return false;
    if (t->kind != TEXT || o->kind != TEXT || b->kind != TEXT)
        return true;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (t->slots[i] == b->slots[i])
            ret->slots[i] = o->slots[i];
        else if (o->slots[i] != b->slots[i] && o->slots[i] != t->slots[i])
            return true;
    }
    return is_near(file) && !merges(file);
}

static void assert_file(struct history *h, size_t i)
{
    const struct version *v = &h->model.files[i].project;
    autodone(buf) struct buf text = BUF_EMPTY;
    autodone(file_state) struct file_state file_state = FILE_STATE_NONE;
    autofree char *path = xprintf(BASE_DIR "/%s", paths[i]);

    assert_int_equal(file_state_read(h->w->f.fd, path, &file_state), 0);
    enum kind kind = S_ISLNK(file_state.st.st_mode) ? LINK : S_ISREG(file_state.st.st_mode) ? TEXT : GONE;
    if (kind != (v->kind == BINARY ? TEXT : v->kind))
        fail_msg("seed %" PRIu64 ": %s is of kind %d, not %d", h->seed, path, kind, v->kind);
    if (v->kind == GONE)
        return;
    text_of(v, &text);
    if (file_state.bytes.len != text.len || memcmp(file_state.bytes.data, text.data, text.len) != 0)
        fail_msg("seed %" PRIu64 ": %s is\n%s\nand not\n%s", h->seed, path, file_state.bytes.data, text.data);
    if (v->kind != LINK && (file_state.st.st_mode & 0777) != v->mode)
        fail_msg("seed %" PRIu64 ": %s has mode %o, not %o", h->seed, path, file_state.st.st_mode & 0777, v->mode);
}

static int on_base(const struct file_entry *entry, void *cookie)
{
    struct history *h = cookie;

    if (S_ISDIR(entry->st->st_mode))
        return FILE_WALK_ON;
    for (size_t i = 0; i < PATHS; i++) {
        if (strcmp(entry->path, paths[i]) == 0)
            return FILE_WALK_ON;
    }
    fail_msg("seed %" PRIu64 ": %s was left", h->seed, entry->path);
    return FILE_WALK_ON;
}

static void assert_project(struct history *h)
{
    struct err err = ERR_NONE;

    for (size_t i = 0; i < PATHS; i++)
        assert_file(h, i);
    assert_int_equal(file_walk(h->w->f.fd, BASE_DIR, on_base, h, &err), 0);
}

static bool is_shown_as_text(const struct version *v)
{
    return v->kind == TEXT || v->kind == GONE;
}

/* The hunks are those from one version to the other, with their ids, their lines and their places. */
static void assert_hunks(struct history *h, const char *path, const struct hunk_list *hunks, const struct version *from,
                         const struct version *to)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY;
    autodone(hunk_list) struct hunk_list expected = HUNK_LIST_EMPTY;
    struct err err = ERR_NONE;

    if (!is_shown_as_text(from) || !is_shown_as_text(to))
        return;
    text_of(from, &was);
    text_of(to, &now);
    assert_int_equal(hunk_list_make(was.data, was.len, now.data, now.len, &expected, &err), 0);
    if (hunks->count != expected.count)
        fail_msg("seed %" PRIu64 ": %s has %zu hunks, not %zu", h->seed, path, hunks->count, expected.count);
    for (size_t i = 0; i < expected.count; i++) {
        const struct hunk *a = &hunks->items[i], *b = &expected.items[i];
        if (strcmp(a->id, b->id) != 0 || strcmp(a->header, b->header) != 0 || a->lines.len != b->lines.len ||
            memcmp(a->lines.data, b->lines.data, a->lines.len) != 0)
            fail_msg("seed %" PRIu64 ": %s shows\n%s\n%s\nand not\n%s\n%s", h->seed, path, a->header, a->lines.data, b->header,
                     b->lines.data);
    }
}

/* What is shown of a path is what the model says would come of it, to the byte, and what is shown is what would be taken. */
static void assert_left(struct history *h, struct change_set *set, struct file_change *change, size_t i)
{
    const struct file *file = &h->model.files[i];
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct version result;
    struct err err = ERR_NONE;
    bool expected = is_conflict(file, &result);

    assert_int_equal(reconcile_make(&set->edits, change->edit, THREEWAY_NONE, &re, &err), 0);
    assert_int_equal(file_diff_make(set, change, &diff, &err), 0);
    if ((re.state == RECONCILE_CONFLICT) != expected)
        fail_msg("seed %" PRIu64 ": %s %s", h->seed, paths[i], re.reason ? re.reason : "is no conflict");
    if (change->state != re.state || change->failure)
        fail_msg("seed %" PRIu64 ": %s is shown as %s", h->seed, paths[i], reconcile_state_name(change->state));
    h->merged += re.state == RECONCILE_MERGES;
    h->near += has_hunks(file) && is_near(file);
    if (expected && file->merge_base.kind == TEXT && file->project.kind == TEXT && change->edit->kind != CHANGE_MODE)
        assert_hunks(h, paths[i], &diff.hunks, &file->merge_base, &file->agent);
    if (expected)
        return;
    if (change->edit->kind != CHANGE_MODE)
        assert_hunks(h, paths[i], &diff.hunks, &file->project, &result);
    if (result.kind == GONE)
        return;
    text_of(&result, &text);
    if (re.result.bytes.len != text.len || memcmp(re.result.bytes.data, text.data, text.len) != 0)
        fail_msg("seed %" PRIu64 ": of %s is left\n%s\nand not\n%s", h->seed, paths[i], re.result.bytes.data, text.data);
    if (result.kind != LINK)
        assert_int_equal(re.result.st.st_mode & 0777, result.mode);
}

static void load_set(struct history *h, struct change_set *ret)
{
    struct change_set_options options = { .without_renames = true };
    struct err err = ERR_NONE;

    if (change_set_load(h->w->delta, &options, ret, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", h->seed, err.text);
}

static void assert_rest(struct history *h)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;

    load_set(h, &set);
    for (size_t i = 0; i < PATHS; i++) {
        struct file_change *change = change_set_find(&set, paths[i]);
        bool is_listed = change && !change->is_dir;
        if (is_listed != is_edit(&h->model.files[i]))
            fail_msg("seed %" PRIu64 ": %s is %s", h->seed, paths[i], is_listed ? "left over" : "lost");
        if (is_listed)
            assert_left(h, &set, change, i);
    }
}

/* ---- approving ---- */

struct wanted {
    bool is_chosen;
    bool is_by_hunk, is_by_lines;
    bool slots[SLOTS];
    char ids[SLOTS][HUNK_ID_LEN + 1];
    const char *id_list[SLOTS];
    struct selection_range ranges[SLOTS];
    size_t count;
    char hash[CHANGE_HASH_TEXT_MAX], drift[CHANGE_HASH_TEXT_MAX];
};

static void add_hunk(const struct hunk *hunk, struct wanted *wanted)
{
    const char *end = hunk->lines.data + hunk->lines.len;

    for (const char *at = hunk->lines.data, *next; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t) (end - at));
        next = newline ? newline + 1 : end;
        if (*at != ' ' && strncmp(at + 1, "slot ", 5) == 0)
            wanted->slots[at[6] - '0'] = true;
    }
    memcpy(wanted->ids[wanted->count], hunk->id, sizeof(wanted->ids[0]));
    wanted->id_list[wanted->count] = wanted->ids[wanted->count];
    wanted->ranges[wanted->count] =
        (struct selection_range){ hunk->new_start, hunk->new_start + (hunk->new_lines ? hunk->new_lines - 1 : 0) };
    wanted->count++;
}

/* Some of those that are shown, and the slots that each is about. */
static void choose_hunks(struct history *h, struct change_set *set, struct file_change *change, struct wanted *wanted)
{
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;
    struct err err = ERR_NONE;

    assert_int_equal(file_diff_make(set, change, &diff, &err), 0);
    if (change->state == RECONCILE_CONFLICT)
        return;
    for (size_t k = 0; k < diff.hunks.count; k++) {
        if (pick(h, 2))
            add_hunk(&diff.hunks.items[k], wanted);
    }
    wanted->is_by_hunk = wanted->count > 0;
    wanted->is_by_lines = pick(h, 2);
    change_hash_text(change->hash, wanted->hash);
    drift_text(&change->drift, wanted->drift);
}

static size_t choose(struct history *h, struct wanted *wanted)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    bool is_all = pick(h, 3) == 0;
    size_t count = 0;

    load_set(h, &set);
    for (size_t i = 0; i < PATHS; i++) {
        struct file_change *change = change_set_find(&set, paths[i]);
        if (!change || (!is_all && pick(h, 2)))
            continue;
        wanted[i].is_chosen = true;
        if (!is_all && has_hunks(&h->model.files[i]) && pick(h, 2))
            choose_hunks(h, &set, change, &wanted[i]);
        count++;
    }
    return count;
}

static size_t selection_of(const struct wanted *wanted, struct selection_file *files)
{
    size_t count = 0;

    for (size_t i = 0; i < PATHS; i++) {
        if (!wanted[i].is_chosen)
            continue;
        files[count] = (struct selection_file){ .path = paths[i] };
        if (wanted[i].is_by_hunk && wanted[i].is_by_lines) {
            files[count].ranges = wanted[i].ranges;
            files[count].range_count = wanted[i].count;
        } else if (wanted[i].is_by_hunk) {
            files[count].hunk_ids = wanted[i].id_list;
            files[count].hunk_id_count = wanted[i].count;
        }
        count++;
    }
    return count;
}

/* What was chosen by hunk is held to what was shown. */
static size_t expectations_of(const struct wanted *wanted, struct expectation *items)
{
    size_t count = 0;

    for (size_t i = 0; i < PATHS; i++) {
        if (wanted[i].is_by_hunk)
            items[count++] = (struct expectation){ paths[i], wanted[i].hash, wanted[i].drift };
    }
    expectation_sort(items, count);
    return count;
}

/* Hunks beside the owner's lines may be refused: it is said that all of it can be taken. Nothing was written. */
static bool is_refused_beside(const struct history *h, const struct approve *approve, const struct wanted *wanted)
{
    size_t count = 0;

    for (size_t k = 0; k < approve->edits.count; k++) {
        for (size_t i = 0; i < PATHS; i++) {
            const struct approve_file *file = &approve->files[k];
            count += strcmp(file->edit->path, paths[i]) == 0 && file->outcome == APPROVE_CONFLICT && wanted[i].is_by_hunk &&
                     is_near(&h->model.files[i]) && strstr(file->reason, "beside these hunks");
        }
    }
    return count > 0 && count == approve->conflict_count && approve->stale_count == 0;
}

static bool expects_conflict(const struct history *h, const struct wanted *wanted)
{
    struct version result;

    for (size_t i = 0; i < PATHS; i++) {
        if (wanted[i].is_chosen && is_edit(&h->model.files[i]) && is_conflict(&h->model.files[i], &result))
            return true;
    }
    return false;
}

/* What becomes of a file by what was taken from it. */
static void take(struct file *file, const struct wanted *wanted)
{
    struct version result;
    bool is_all = true;

    is_conflict(file, &result);
    for (unsigned i = 0; i < SLOTS && wanted->is_by_hunk; i++) {
        if (result.slots[i] != file->project.slots[i])
            is_all &= wanted->slots[i];
    }
    if (!wanted->is_by_hunk || (is_all && result.mode == file->project.mode)) {
        file->project = result;
        file->merge_base = file->agent;
        return;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (wanted->slots[i] || is_all) {
            file->project.slots[i] = result.slots[i];
            file->merge_base.slots[i] = file->agent.slots[i];
        }
    }
}

static void drop_all(struct history *h, char *const *drops, size_t count)
{
    autofree struct fence_revert *changes = xalloc((count + 1) * sizeof(*changes));
    struct err err = ERR_NONE;

    for (size_t k = 0; k < count; k++) {
        changes[k] = (struct fence_revert){ drops[k], -1 };
        for (size_t i = 0; i < PATHS; i++) {
            struct file *file = &h->model.files[i];
            if (strcmp(drops[k] + 1, paths[i]) != 0)
                continue;
            file->is_covered = file->has_merge_base = false;
            file->agent = file->project;
        }
    }
    if (delta_revert(h->w->delta, changes, count, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", h->seed, err.text);
}

/* The agent's files get what the owner changed, where that can be done. */
static void rebase(struct history *h)
{
    autodone(rebase) struct rebase rb = REBASE_NONE;
    struct version result;
    struct err err = ERR_NONE;
    size_t conflicts = 0;

    if (rebase_plan(h->w->delta, NULL, REBASE_MERGE, &rb, &err) < 0 ||
        delta_revert(h->w->delta, rb.changes, rb.change_count, &err) < 0 || rebase_finish(&rb, &err) < 0)
        fail_msg("seed %" PRIu64 ": %s", h->seed, err.text);
    for (size_t i = 0; i < PATHS; i++) {
        struct file *file = &h->model.files[i];
        if (!is_edit(file))
            continue;
        bool has_other_text = file->agent.kind == TEXT && file->project.kind == TEXT && file->merge_base.kind == TEXT &&
                              !same_content(&file->project, &file->merge_base) &&
                              !same_content(&file->agent, &file->merge_base) && !same_content(&file->agent, &file->project);
        if (is_conflict(file, &result)) {
            conflicts++;
        } else if (has_other_text) {
            memcpy(file->agent.slots, result.slots, sizeof(result.slots));
            mode_t mode = file->agent.mode == file->merge_base.mode ? file->merge_base.mode : file->project.mode;
            file->merge_base = file->project;
            file->merge_base.mode = mode;
            h->rebased++;
        }
    }
    if (rb.conflict_count != conflicts)
        fail_msg("seed %" PRIu64 ": %zu conflicts, not %zu", h->seed, rb.conflict_count, conflicts);
    assert_project(h);
    assert_rest(h);
}

static void undo(struct history *h, const char *id, const struct model *before)
{
    autodone(undo) struct undo undo = UNDO_NONE;
    struct err err = ERR_NONE;
    int r = undo_run(h->w->delta, id, &(struct undo_options){ .codebase = lands_in(h->w) }, &undo, &err);

    if (r != 0)
        fail_msg("seed %" PRIu64 ": undo: %d %s %s", h->seed, r, err.text, r == 1 ? undo.moved[0] : "");
    h->model = *before;
    h->undone++;
}

static void approve_some(struct history *h)
{
    autodone(approve) struct approve approve = APPROVE_NONE, dry = APPROVE_NONE;
    struct wanted wanted[PATHS] = { 0 };
    struct selection_file files[PATHS];
    struct expectation items[PATHS];
    struct model before = h->model;
    struct err err = ERR_NONE;
    size_t count = choose(h, wanted);
    bool is_dropping = pick(h, 2);

    if (count == 0)
        return;
    struct selection selection = { files, selection_of(wanted, files) };
    struct expectation_list shown = { items, expectations_of(wanted, items), false };
    struct decision decision = decided_all;
    struct approve_options options = {
        .selection = &selection, .is_dropping = is_dropping, .is_dry = true, .codebase = lands_in(h->w)
    };
    decision.shown = &shown;
    int expected = expects_conflict(h, wanted);
    int r = approve_run(h->w->delta, &decision, &options, &dry, &err);
    if (r == 1 && !expected && is_refused_beside(h, &dry, wanted)) {
        h->beside++;
        assert_project(h);
        assert_rest(h);
        return;
    }
    if (r != expected)
        fail_msg("seed %" PRIu64 ": dry: %d, not %d: %s", h->seed, r, expected, err.text);
    options.is_dry = false;
    r = approve_run(h->w->delta, &decision, &options, &approve, &err);
    if (r != expected)
        fail_msg("seed %" PRIu64 ": %d, not %d: %s", h->seed, r, expected, err.text);
    h->approvals++;
    h->conflicts += r == 1;
    for (size_t i = 0; i < PATHS && r == 0; i++) {
        if (!wanted[i].is_chosen)
            continue;
        take(&h->model.files[i], &wanted[i]);
        h->parts += wanted[i].is_by_hunk;
        h->moved_parts += wanted[i].is_by_hunk && *wanted[i].drift;
    }
    assert_project(h);
    if (r == 0 && !is_dropping && pick(h, 4) == 0) {
        undo(h, approve.id, &before);
        assert_project(h);
    }
    if (is_dropping && r == 0)
        drop_all(h, approve.drops, approve.drop_count);
    assert_rest(h);
}

static void begin(struct history *h)
{
    for (size_t i = 0; i < PATHS; i++) {
        struct file *file = &h->model.files[i];
        if (i < 6) {
            file->project = (struct version){ pick(h, 6) ? TEXT : BINARY, modes[pick(h, 2)], { 0 } };
            for (unsigned k = 0; k < SLOTS; k++)
                file->project.slots[k] = pick(h, 4) ? h->next++ : 0;
        }
        file->agent = file->project;
        owner_writes(h, i);
    }
}

static void run_history(uint64_t seed, struct history *totals)
{
    struct history h = { .random = seed * 0x9E3779B97F4A7C15ULL + 1, .seed = seed, .next = 1 };
    void *state = NULL;

    world_setup(&state);
    h.w = state;
    begin(&h);
    for (unsigned round = 2 + pick(&h, 3); round > 0; round--) {
        agent_works(&h);
        owner_works(&h);
        assert_rest(&h);
        if (pick(&h, 3) == 0)
            rebase(&h);
        approve_some(&h);
    }
    totals->approvals += h.approvals;
    totals->conflicts += h.conflicts;
    totals->parts += h.parts;
    totals->undone += h.undone;
    totals->rebased += h.rebased;
    totals->merged += h.merged;
    totals->near += h.near;
    totals->beside += h.beside;
    totals->moved_parts += h.moved_parts;
    assert_int_equal(world_teardown(&state), 0);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void the_project_is_what_a_plain_model_says(void **state)
{
    struct history totals = { 0 };
    uint64_t count = number_from("AGENTFENSE_HISTORIES", full_or_share(HISTORIES, HISTORIES_SHARE)),
             seed = number_from("AGENTFENSE_SEED", 1);

    (void) state;
    for (uint64_t i = 0; i < count; i++)
        run_history(seed + i, &totals);
    print_message(
        "%zu approvals, %zu refused for conflicts, %zu for hunks beside the owner's, %zu files by hunk, %zu of them not where "
        "the agent found them, %zu undone, "
        "%zu files rebased, %zu shown merged, %zu with edits that touch\n",
        totals.approvals, totals.conflicts, totals.beside, totals.parts, totals.moved_parts, totals.undone, totals.rebased,
        totals.merged, totals.near);
    assert_true(count < 100 || (totals.conflicts > 0 && totals.parts > 0 && totals.undone > 0 && totals.rebased > 0 &&
                                totals.merged > 0 && totals.near > 0 && totals.moved_parts > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_project_is_what_a_plain_model_says) };

    use_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
