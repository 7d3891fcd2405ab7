/* Random histories against a model in memory, with processes that die at any step in between. */
#include "codebase_fixture.h"

#include "base/coverage.h"

/* Directories are made by what is in them. "h" and "g" are sometimes files. */
static const char *const universe[] = {
    "a", "b",   "d",   "d/a",   "d/b", "d/e", "d/e/a", "d/e/f",          "d/e/f/a",
    "g", "g/a", "g/h", "g/h/a", "h",   "h/x", "..foo", "d/\xc3\xbc \n%", "h/-",
};

#define PATHS ARRAY_LEN(universe)
#define VERSIONS_MAX 8192

enum kind { NOTHING, A_FILE, A_LINK, A_DIR };

struct node {
    enum kind kind;
    unsigned content;
    bool is_executable;
};

struct model {
    struct node nodes[PATHS];
};

static int parent_of(size_t i)
{
    const char *slash = strrchr(universe[i], '/');

    for (size_t k = 0; slash && k < PATHS; k++)
        if (strlen(universe[k]) == (size_t) (slash - universe[i]) &&
            strncmp(universe[k], universe[i], strlen(universe[k])) == 0)
            return (int) k;
    return -1;
}

static bool is_beneath(size_t i, size_t dir)
{
    for (int p = parent_of(i); p >= 0; p = parent_of((size_t) p))
        if ((size_t) p == dir)
            return true;
    return false;
}

static void model_remove(struct model *m, size_t i)
{
    m->nodes[i] = (struct node){ 0 };
    for (size_t k = 0; k < PATHS; k++)
        if (is_beneath(k, i))
            m->nodes[k] = (struct node){ 0 };
}

static bool model_is_empty(const struct model *m, size_t dir)
{
    for (size_t k = 0; k < PATHS; k++)
        if (is_beneath(k, dir) && m->nodes[k].kind != NOTHING)
            return false;
    return true;
}

/* Strict, as uploads are: false when something is in the way. */
static bool model_put(struct model *m, size_t i, struct node node, bool is_strict)
{
    int p = parent_of(i);

    if (p >= 0 && m->nodes[p].kind != A_DIR) {
        if (m->nodes[p].kind != NOTHING && is_strict)
            return false;
        m->nodes[p] = (struct node){ 0 };
        if (!model_put(m, (size_t) p, (struct node){ .kind = A_DIR }, is_strict))
            return false;
    }
    if (m->nodes[i].kind == A_DIR)
        return node.kind == A_DIR;
    if (m->nodes[i].kind != NOTHING && node.kind == A_DIR && is_strict)
        return false;
    m->nodes[i] = node;
    return true;
}

/* ---- comparing ---- */

struct reading {
    struct model model;
    size_t strangers;
};

static int read_entry(const struct file_entry *e, void *cookie)
{
    struct reading *reading = cookie;
    size_t i = 0;
    char text[64] = "";

    while (i < PATHS && strcmp(universe[i], e->path) != 0)
        i++;
    if (i == PATHS) {
        reading->strangers++;
        return 0;
    }
    struct node *node = &reading->model.nodes[i];
    if (S_ISDIR(e->st->st_mode)) {
        node->kind = A_DIR;
    } else if (S_ISLNK(e->st->st_mode)) {
        node->kind = A_LINK;
        assert_true(readlinkat(e->dirfd, e->name, text, sizeof(text) - 1) > 0);
    } else {
        autofd int fd = path_open_beneath(e->dirfd, e->name, O_RDONLY, 0);
        assert_true(read(fd, text, sizeof(text) - 1) > 0);
        node->kind = A_FILE;
        node->is_executable = e->st->st_mode & 0100;
        assert_int_equal(e->st->st_nlink, 1);
    }
    node->content = (unsigned) atoi(text);
    return 0;
}

static bool tree_is(struct world *w, const struct model *m)
{
    struct reading reading = { 0 };

    assert_int_equal(file_walk(codebase_files_fd(w->cb), ".", read_entry, &reading, NULL), 0);
    if (reading.strangers)
        return false;
    for (size_t i = 0; i < PATHS; i++)
        if (reading.model.nodes[i].kind != m->nodes[i].kind || reading.model.nodes[i].content != m->nodes[i].content ||
            reading.model.nodes[i].is_executable != m->nodes[i].is_executable)
            return false;
    return true;
}

static void show(const char *title, const struct model *m)
{
    fprintf(stderr, "%s:", title);
    for (size_t i = 0; i < PATHS; i++)
        if (m->nodes[i].kind)
            fprintf(stderr, " %s=%c%u%s", universe[i], "-fld"[m->nodes[i].kind], m -> nodes[i].content,
                    m->nodes[i].is_executable ? "x" : "");
    fputc('\n', stderr);
}

static void show_tree(struct world *w)
{
    struct reading reading = { 0 };

    file_walk(codebase_files_fd(w->cb), ".", read_entry, &reading, NULL);
    show("on disk", &reading.model);
}

/* ---- actions ---- */

/* What one step does, decided before it is done, so that a child can do it and the parent knows what to expect. */
struct action {
    enum { PUT, IMPORT, REPLACE, SYNC, RESTORE, RESTORE_PATH, ACTIONS } kind;
    size_t count;
    struct {
        size_t path;
        struct node node; /* NOTHING: removed */
    } items[8];
    uint64_t version;
    bool is_refused;
};

static unsigned counter;

static size_t pick(size_t below)
{
    return (size_t) rand() % below;
}

static struct node new_file(void)
{
    return (struct node){ .kind = A_FILE, .content = ++counter, .is_executable = pick(4) == 0 };
}

static struct node new_leaf(void)
{
    return pick(5) == 0 ? (struct node){ .kind = A_LINK, .content = ++counter } : new_file();
}

/* Paths of which none is above another: what one archive or sync can hold. */
static bool is_apart(const struct action *a, size_t path)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i].path == path || is_beneath(a->items[i].path, path) || is_beneath(path, a->items[i].path))
            return false;
    return true;
}

static void add_items(struct action *a, size_t most)
{
    for (size_t tries = 1 + pick(most); tries > 0; tries--) {
        size_t path = pick(PATHS);

        if (!is_apart(a, path))
            continue;
        a->items[a->count].path = path;
        a->items[a->count++].node = pick(8) == 0 ? (struct node){ .kind = A_DIR } : new_leaf();
    }
}

static struct action plan_action(struct model *m, const struct model *history, uint64_t oldest, uint64_t version)
{
    struct action a = { .kind = (unsigned) pick(ACTIONS) };
    struct model after = *m;

    switch (a.kind) {
    case PUT:
        a.count = 1;
        a.items[0].path = pick(PATHS);
        a.items[0].node = new_file();
        a.is_refused = !model_put(&after, a.items[0].path, a.items[0].node, true);
        break;
    case REPLACE:
        after = (struct model){ 0 };
        __attribute__((fallthrough));
    case IMPORT:
        add_items(&a, 6);
        for (size_t i = 0; i < a.count; i++)
            a.is_refused |= !model_put(&after, a.items[i].path, a.items[i].node, true);
        break;
    case SYNC: {
        struct action puts = { 0 };

        for (size_t tries = pick(5); tries > 0; tries--) {
            size_t path = pick(PATHS);

            a.items[a.count++].path = path;
            if (after.nodes[path].kind != A_DIR || model_is_empty(&after, path))
                model_remove(&after, path);
        }
        add_items(&puts, 3);
        for (size_t i = 0; i < puts.count; i++) {
            a.items[a.count++] = (__typeof__(a.items[0])){ puts.items[i].path, puts.items[i].node };
            model_put(&after, puts.items[i].path, puts.items[i].node, false);
        }
        break;
    }
    case RESTORE:
        a.version = oldest + pick(version - oldest + 1);
        after = history[a.version];
        break;
    case RESTORE_PATH: {
        size_t path = pick(PATHS);
        const struct model *then = &history[a.version = oldest + pick(version - oldest + 1)];

        a.items[0].path = path;
        /* Only where what is above is a directory now: otherwise it may be refused, or make directories. */
        for (int p = parent_of(path); p >= 0; p = parent_of((size_t) p))
            if (m->nodes[p].kind != A_DIR)
                a.kind = RESTORE;
        if (a.kind == RESTORE) {
            after = *then;
            break;
        }
        for (size_t i = 0; i < PATHS; i++)
            if (i == path || is_beneath(i, path))
                after.nodes[i] = then->nodes[i];
        break;
    }
    case ACTIONS:
        break;
    }
    if (!a.is_refused)
        *m = after;
    return a;
}

static int perform_put(struct world *w, const struct action *a)
{
    char text[32];

    snprintf(text, sizeof(text), "%u", a->items[0].node.content);
    return try_put(w, universe[a->items[0].path], text, a->items[0].node.is_executable ? 0755 : 0644, NULL, NULL);
}

static int perform_import(struct world *w, const struct action *a)
{
    struct codebase_import_options options = { .is_replacing = a->kind == REPLACE };
    autodone(buf) struct buf tar = BUF_EMPTY;
    char text[32];

    for (size_t i = 0; i < a->count; i++) {
        const struct node *node = &a->items[i].node;

        snprintf(text, sizeof(text), "%u", node->content);
        tar_add(&tar, universe[a->items[i].path],
                node->kind == A_FILE   ? '0'
                : node->kind == A_LINK ? '2'
                                       : '5',
                text, node->kind == A_LINK ? text : NULL, node->is_executable ? 0755 : 0644);
    }
    tar_end(&tar);
    return try_import(w, &tar, &options, NULL, NULL);
}

static void source_name(size_t i, char out[16])
{
    snprintf(out, 16, "s%zu", i);
}

/* Before the step, and not by the child: the delta is there whatever happens to the sync. */
static void fill_delta(struct world *w, const struct action *a)
{
    for (size_t i = 0; i < a->count; i++) {
        char name[16], text[32];

        source_name(i, name);
        unlinkat(w->delta, name, 0);
        snprintf(text, sizeof(text), "%u", a->items[i].node.content);
        if (a->items[i].node.kind == A_FILE)
            assert_int_equal(file_put(w->delta, name, text, strlen(text), a->items[i].node.is_executable ? 04755 : 0644), 0);
        else if (a->items[i].node.kind == A_LINK)
            assert_int_equal(symlinkat(text, w->delta, name), 0);
    }
}

static size_t count_delta(struct world *w)
{
    size_t count = 0;

    for (size_t i = 0; i < 8; i++) {
        char name[16];

        source_name(i, name);
        count += delta_has(w, name);
    }
    return count;
}

static int perform_sync(struct world *w, const struct action *a)
{
    autoptr(codebase_txn) txn = NULL;
    struct codebase_commit ret = CODEBASE_COMMIT_NONE;
    int r = codebase_txn_begin(w->cb, "sb", "sync", &txn, NULL);

    for (size_t i = 0; i < a->count && r >= 0; i++) {
        struct codebase_change change = { .path = universe[a->items[i].path], .when_ns = clock_wall_ns() };
        char name[16];

        source_name(i, name);
        if (a->items[i].node.kind == NOTHING)
            r = codebase_txn_remove(txn, &change, NULL);
        else if (a->items[i].node.kind == A_DIR)
            r = codebase_txn_mkdir(txn, &change, 0755, NULL);
        else
            r = codebase_txn_put(txn, &change, w->delta, name, NULL);
    }
    if (r >= 0)
        r = codebase_txn_commit(txn, &ret, NULL);
    codebase_commit_done(&ret);
    return r;
}

static int perform(struct world *w, const struct action *a)
{
    switch (a->kind) {
    case PUT:
        return perform_put(w, a);
    case IMPORT:
    case REPLACE:
        return perform_import(w, a);
    case SYNC:
        return perform_sync(w, a);
    case RESTORE:
        return codebase_restore(w->cb, a->version, NULL, "tester", NULL, NULL);
    case RESTORE_PATH:
        return codebase_restore(w->cb, a->version, universe[a->items[0].path], "tester", NULL, NULL);
    case ACTIONS:
        break;
    }
    return 0;
}

/* True if the child lived to the end. */
static bool perform_in_child(struct world *w, const struct action *a, size_t dies_at)
{
    char fault[32];
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        snprintf(fault, sizeof(fault), "codebase-step:%zu", dies_at);
        setenv("AGENTFENSE_FAULT", fault, 1);
        coverage_exit(perform(w, a) < 0 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), a->is_refused ? 1 : 0);
    return true;
}

/* A power cut may take the last counters, and with them the word which versions were performed: all of them, or those since an
 * earlier one. */
static void lose_counters(struct world *w, struct buf *earlier)
{
    autofree char *path = xprintf("codebases/%s/meta", codebase_id(w->cb));

    switch (pick(4)) {
    case 0:
        assert_int_equal(unlinkat(w->fd, path, 0), 0);
        break;
    case 1:
        assert_int_equal(file_put(w->fd, path, "", 0, 0600), 0);
        break;
    default:
        if (earlier->len)
            assert_int_equal(file_put(w->fd, path, earlier->data, earlier->len, 0600), 0);
    }
    buf_clear(earlier);
}

static void remember_counters(struct world *w, struct buf *out)
{
    autofree char *path = xprintf("codebases/%s/meta", codebase_id(w->cb));

    buf_clear(out);
    assert_int_equal(file_read(w->fd, path, 4096, out), 0);
}

static void check_a_past_file(struct world *w, const struct model *history, uint64_t oldest, uint64_t version)
{
    uint64_t then = oldest + pick(version - oldest + 1);
    size_t i = pick(PATHS);
    const struct node *node = &history[then].nodes[i];
    struct err err = ERR_NONE;
    autofree char *got = NULL;
    autofd int fd = -1;
    struct stat st;
    int r = codebase_get_open_at(w->cb, then, universe[i], &fd, &st, &err);

    if (node->kind != A_FILE) {
        assert_true(r < 0);
        return;
    }
    if (r < 0)
        fail_msg("version %llu of %s: %s", (unsigned long long) then, universe[i], err.text);
    got = text_of(fd);
    assert_int_equal(atoi(got), node->content);
}

static void every_history_is_as_the_model_says(void **state)
{
    struct world *w = *state;
    struct model *history = xalloc(VERSIONS_MAX * sizeof(*history)), now = { 0 };
    autodone(buf) struct buf counters = BUF_EMPTY;
    const char *seed_text = getenv("CODEBASE_TEST_SEED"), *steps_text = getenv("CODEBASE_TEST_STEPS");
    unsigned seed = seed_text ? (unsigned) atoi(seed_text) : (unsigned) clock_wall_ns();
    int steps = steps_text ? atoi(steps_text) : (int) full_or_share(3000, 600), crashes = 0, undone = 0;

    print_message("CODEBASE_TEST_SEED=%u\n", seed);
    srand(seed);
    w->options.keep_versions = 12;
    world_reopen(w);
    for (int step = 0; step < steps; step++) {
        struct codebase_info info = { 0 };
        struct model before = now, after = now;

        assert_ok(codebase_info(w->cb, &info, e_));
        struct action a = plan_action(&after, history, info.oldest_version, info.version);
        if (a.kind == SYNC)
            fill_delta(w, &a);
        size_t sources = count_delta(w);
        bool is_done = perform_in_child(w, &a, pick(3) == 0 ? 1 + pick(25) : 1000000);
        crashes += !is_done;
        if (step % 64 == 10)
            remember_counters(w, &counters);
        if (step % 64 == 10 + step / 64 % 20)
            lose_counters(w, &counters);
        if (!is_done && pick(2) == 0)
            assert_ok(codebases_recover(w->all, e_));
        assert_ok(codebase_settle(w->cb, e_));
        bool is_new = tree_is(w, &after);
        if (!is_new && (is_done || !tree_is(w, &before))) {
            show("before", &before);
            show("after", &after);
            show_tree(w);
            fail_msg("step %d (action %d, %s) made neither", step, a.kind, is_done ? "done" : "killed");
        }
        undone += !is_new;
        uint64_t version = version_now(w);
        assert_true(version <= info.version + 1);
        if (a.kind == SYNC) {
            /* All of the delta or nothing. Where nothing changed, there is nothing to tell the two apart by. */
            size_t left = count_delta(w);
            assert_true(left == 0 || (!is_done && left == sources));
            if (version > info.version)
                assert_int_equal(left, 0);
            for (size_t i = 0; i < 8; i++) {
                char name[16];
                source_name(i, name);
                unlinkat(w->delta, name, 0);
            }
        }
        now = is_new ? after : before;
        assert_true(version < VERSIONS_MAX);
        history[version] = now;
        assert_ok(codebase_info(w->cb, &info, e_));
        check_a_past_file(w, history, info.oldest_version, info.version);
        if (step % 16 == 0)
            assert_counts(w);
    }
    print_message("%d steps, %d of them killed, %d undone, version %llu\n", steps, crashes, undone,
                  (unsigned long long) version_now(w));
    assert_true(crashes >
                steps / (runs_long() ? 10 : 25)); /* by chance: about an eighth of many steps, of a few sometimes fewer */
    assert_true(undone > 0);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, "stage"), 0);
    assert_counts(w);
    free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = { world_test(every_history_is_as_the_model_says) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
