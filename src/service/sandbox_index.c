#include "service/sandbox_index.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/directory.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/sandbox_trust.h"
#include "service/adoption.h"
#include "service/codebases_int.h"
#include "service/sandbox_care.h"
#include "service/service_int.h"
#include "wire/runtime_type.h"

#define BIT(name) SANDBOX_STATUS_BIT(SANDBOX_STATUS_##name)
#define AT_REST (BIT(PENDING) | BIT(STOPPED) | BIT(ERROR))
#define EVENT_BYTES 16384
#define READ_ALL_NS CLOCK_NS_PER_SEC /* how often, where the kernel does not say what changed */

#define OF_ALL (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR)
/* Its spec or its decision is replaced, its supervisor makes its socket or replaces its state. */
#define OF_ONE (IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR)

struct index_watch {
    struct hash_link link; /* by the number that the kernel gave it */
    char id[SANDBOX_ID_MAX];
};

struct id_list {
    char (*items)[SANDBOX_ID_MAX]; /* owned */
    size_t count, cap;
};

struct sandbox_index {
    pthread_mutex_t refreshing; /* taken before `lock`; whoever waits for it finds the rows that the other was about to write */
    pthread_mutex_t lock;       /* of all that follows */
    int fd;                     /* owned: inotify; -1: there is none */
    int all_watch;              /* of the directory of all sandboxes */
    struct hash_table watches;
    struct id_list changed;
    bool reads_all;
    int64_t read_all_ns;
};

/* ---- what the directory knows, as a row ---- */

static const char *network_of(const struct sandbox_spec *spec)
{
    return spec->net == SANDBOX_NET_HOST ? "host" : spec->net == SANDBOX_NET_BRIDGE ? "bridge" : "none";
}

static int runtime_of(const struct sandbox_spec *spec)
{
    const struct runtime_type *type = runtime_type_find(spec->runtime);

    return type ? type->api_number : 0;
}

static bool set_text(char **field, const char *value)
{
    if (*field && strcmp(*field, value) == 0)
        return false;
    free(*field);
    *field = xdup(value);
    return true;
}

static bool set_number(int64_t *field, int64_t value)
{
    bool is_new = *field != value;

    *field = value;
    return is_new;
}

static bool set_paths(char ***field, char *const *paths, size_t count)
{
    size_t had = 0;
    bool is_same;

    while (*field && (*field)[had])
        had++;
    is_same = had == count;
    for (size_t i = 0; is_same && i < count; i++)
        is_same = strcmp((*field)[i], paths[i]) == 0;
    if (is_same)
        return false;
    for (size_t i = 0; i < had; i++)
        free((*field)[i]);
    free(*field);
    *field = xalloc((count + 1) * sizeof(**field));
    for (size_t i = 0; i < count; i++)
        (*field)[i] = xdup(paths[i]);
    (*field)[count] = NULL;
    return true;
}

/* Returns true if the row said anything else. */
static bool row_take_spec(struct sandbox_row *row, const struct sandbox_spec *spec)
{
    bool is_over_directory = !*spec->codebase_id, syncs = spec->syncs || *spec->codebase_path, is_new = false;
    int runtime = runtime_of(spec);
    autodone(buf) struct buf rules = BUF_EMPTY;

    sandbox_spec_rules_encode(spec, &rules);
    if (rules.len != row->rules.len || memcmp(rules.data, row->rules.data, rules.len) != 0) {
        buf_clear(&row->rules);
        buf_add(&row->rules, rules.data, rules.len);
        is_new = true;
    }
    is_new |= set_text(&row->name, spec->name);
    is_new |= set_text(&row->owner_id, spec->owner);
    is_new |= set_text(&row->scope_path, is_over_directory ? spec->base_path : "");
    is_new |= set_text(&row->project_root, !is_over_directory    ? ""
                                           : *spec->project_root ? spec->project_root
                                                                 : spec->base_path);
    is_new |= set_paths(&row->reserved_paths, spec->reserved_paths, spec->reserved_count);
    is_new |= set_text(&row->preset, spec->preset);
    is_new |= set_text(&row->driver, *spec->driver ? spec->driver : SANDBOX_DRIVER);
    is_new |= set_text(&row->network, network_of(spec));
    if (sandbox_spec_is_container(spec))
        is_new |= set_text(&row->image, spec->image);
    is_new |= set_number(&row->memory_bytes, (int64_t) spec->memory_bytes);
    is_new |= set_number(&row->cpu_quota, spec->cpu_quota_us);
    is_new |= set_number(&row->cpu_shares, spec->cpu_shares);
    is_new |= set_number(&row->pids_limit, spec->pids);
    is_new |= set_number(&row->disk_bytes, (int64_t) spec->quota_bytes);
    is_new |= row->no_lock != spec->no_lock || row->sync_on_completion != syncs || row->runtime != runtime;
    row->no_lock = spec->no_lock;
    row->sync_on_completion = syncs;
    row->runtime = runtime;
    return is_new;
}

/* What an earlier release did not write into the spec is added from the row. Returns true if there was any. */
static bool spec_take_row(struct sandbox_spec *spec, const struct sandbox_row *row)
{
    bool is_of_server = sandbox_row_is_over_directory(row) && spec->own_cgroup, is_new = false;

    if (!*spec->owner && *row->owner_id)
        is_new |= set_text(&spec->owner, row->owner_id);
    if (!*spec->name && *row->name)
        is_new |= set_text(&spec->name, row->name);
    if (!*spec->codebase_id && *row->codebase_id)
        is_new |= set_text(&spec->codebase_id, row->codebase_id);
    if (!*spec->project_root && is_of_server && *row->project_root)
        is_new |= set_text(&spec->project_root, row->project_root);
    if (!*spec->preset && *row->preset)
        is_new |= set_text(&spec->preset, row->preset);
    if (is_of_server && row->no_lock && !spec->no_lock)
        is_new = spec->no_lock = true;
    for (char **path = row->reserved_paths; spec->reserved_count == 0 && path && *path;) {
        for (; *path; path++)
            sandbox_spec_add_reserved(spec, *path);
        is_new = true;
    }
    return is_new;
}

/* Its name is claimed before anybody reads it in the spec. Without one it can still be called by its id. */
static void spec_complete(struct service *service, int dir_fd, struct sandbox_spec *spec, const struct sandbox_row *row)
{
    bool had_name = *spec->name;
    autofd int lock = -1, names_lock = -1;
    struct err err = ERR_NONE;
    int r;

    if (!spec_take_row(spec, row) || sandbox_dir_lock(dir_fd, &lock) < 0)
        return; /* it runs: the next time */
    r = had_name || !*spec->name ? 0 : sandbox_names_lock(&service->state_dir, &names_lock, &err);
    if (r == 0 && !had_name && *spec->name &&
        sandbox_names_claim(&service->state_dir, spec->owner, spec->name, row->id, true, &err) < 0) {
        log_warn("a sandbox loses its name", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
        set_text(&spec->name, "");
    }
    if (r == 0)
        r = sandbox_spec_store(dir_fd, spec, true, &err);
    if (r < 0)
        log_warn("a sandbox's spec could not be completed", LOG_STR("sandbox_id", row->id), LOG_STR("error", err.text));
}

/* ---- one that has no row ---- */

/* The database was lost, and the codebase is still there. Its name is lost, too. */
static int insert_codebase(struct service *service, const struct sandbox_spec *spec, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    struct codebase_info info = { 0 };
    int64_t now = clock_wall_ns();
    int r = codebase_open(service->codebases, spec->codebase_id, &codebase, err);

    if (r == 0)
        r = codebase_info(codebase, &info, err);
    if (r < 0)
        return r;
    const struct codebase_row row = { .id = spec->codebase_id,
                                      .name = spec->codebase_id,
                                      .owner_id = spec->owner,
                                      .host_id = service->host_id,
                                      .size_bytes = (int64_t) info.size_bytes,
                                      .file_count = (int64_t) info.file_count,
                                      .version = (int64_t) info.version,
                                      .created_ns = now,
                                      .updated_ns = now };
    log_warn("a codebase was not in the database, and is again", LOG_STR("codebase_id", spec->codebase_id));
    return codebase_row_insert(service->store, &row, err);
}

static int insert_row(struct service *service, const char *id, const struct sandbox_spec *spec, struct sandbox_row *ret,
                      struct err *err)
{
    struct sandbox_admission room = { .is_there = true };
    int64_t now = clock_wall_ns(), made = spec->created_ns ? (int64_t) spec->created_ns : now;
    autodone(sandbox_row) struct sandbox_row row = {
        .id = xdup(id),
        .host_id = xdup(service->host_id),
        .codebase_id = xdup(spec->codebase_id),
        .status = SANDBOX_STATUS_STOPPED,
        .reason = xdup(""),
        .creator = xdup(spec->owner),
        .creator_type = xdup("user"),
        .tags = xdup("[]"),
        .metadata = xdup("{}"),
        .behavior = xdup("{}"),
        .image = xdup(""),
        .base_commit = xdup(""),
        .idempotency_key = xdup(""),
        .created_ns = made,
        .used_ns = now,
        .updated_ns = now,
        .stopped_ns = now,
    };
    int r;

    row_take_spec(&row, spec);
    buf_add_str(&row.extra, "{}");
    r = sandbox_row_insert(service->store, &row, &room, err);
    if (r == -ENOENT && *spec->codebase_id) {
        *err = ERR_NONE;
        r = insert_codebase(service, spec, err);
        if (r == 0)
            r = sandbox_row_insert(service->store, &row, &room, err);
    }
    if (r == -EEXIST && *row.name) {
        log_warn("two sandboxes have the same name; one is called by its id", LOG_STR("sandbox_id", id),
                 LOG_STR("name", row.name));
        *err = ERR_NONE;
        set_text(&row.name, "");
        r = sandbox_row_insert(service->store, &row, &room, err);
    }
    if (r < 0)
        return r;
    log_info("a sandbox was found", LOG_STR("sandbox_id", id), LOG_STR("name", row.name));
    *ret = row;
    row = (struct sandbox_row){ 0 };
    return 0;
}

/* Its row says nothing but its name. Only the administrator can see and remove it; every look at it finds out again why it is broken. */
static int insert_broken(struct service *service, const char *id, const char *reason, struct sandbox_row *ret, struct err *err)
{
    static char none[] = "";
    char name[SANDBOX_NAME_MAX] = "";
    const struct sandbox_spec nothing = { .name = name,
                                          .owner = none,
                                          .base_path = none,
                                          .codebase_id = none,
                                          .project_root = none,
                                          .preset = none,
                                          .codebase_path = none,
                                          .runtime = none,
                                          .driver = none,
                                          .image = none,
                                          .no_lock = true };

    log_warn("a sandbox is broken: it can only be removed", LOG_STR("sandbox_id", id), LOG_STR("error", reason));
    if (sandbox_names_find_id(&service->state_dir, "", id, name) < 0)
        *name = '\0';
    return insert_row(service, id, &nothing, ret, err);
}

/* ---- one that has ---- */

static int update_row(struct service *service, int dir_fd, struct sandbox_spec *spec, struct sandbox_row *row, struct err *err)
{
    int r;

    spec_complete(service, dir_fd, spec, row);
    if (!row_take_spec(row, spec))
        return 0;
    row->updated_ns = clock_wall_ns();
    r = sandbox_row_update(service->store, row, err);
    if (r < 0)
        log_warn("a sandbox's row could not be brought up to date", LOG_STR("sandbox_id", row->id),
                 LOG_STR("error", err->text));
    return r;
}

static int move_row(struct service *service, struct sandbox_row *row, enum sandbox_status to, int decision, struct err *err)
{
    struct sandbox_admission room = { .is_there = true };
    const struct sandbox_move move = { .id = row->id,
                                       .to = to,
                                       .decides = true,
                                       .decision = (enum sandbox_decision) decision,
                                       .now_ns = clock_wall_ns(),
                                       .room = &room };

    return sandbox_row_move(service->store, &move, row, err);
}

/* One of an earlier release has no file for it yet. */
static int settle_decision(struct service *service, int dir_fd, struct sandbox_row *row, struct err *err)
{
    bool is_deleted = row->status == SANDBOX_STATUS_DELETED, was_deleted = is_deleted;
    enum sandbox_dir_decision decision = SANDBOX_DIR_OPEN;
    int r = sandbox_dir_read_decision(dir_fd, &decision, &is_deleted);

    if (!(SANDBOX_STATUS_BIT((unsigned) row->status) & (AT_REST | BIT(DELETED))) || (r < 0 && r != -ENOENT))
        return 0;
    if (r == -ENOENT)
        return was_deleted || row->decision != SANDBOX_DECISION_OPEN
                   ? sandbox_dir_write_decision(dir_fd, (enum sandbox_dir_decision) row->decision, was_deleted)
                   : 0;
    if (is_deleted == was_deleted && (int) decision == row->decision)
        return 0;
    return move_row(service, row, is_deleted ? SANDBOX_STATUS_DELETED : SANDBOX_STATUS_STOPPED, (int) decision, err);
}

/* `agentfense run` has started it, perhaps while no server was there. One that is just starting writes its state when it runs, and is then
 * looked at again. */
static int settle_running(struct service *service, struct sandbox_conn *conn, int dir_fd, struct sandbox_row *row,
                          struct err *err)
{
    autoptr(sandbox_conn) known = sandbox_conn_find_running(&service->conns, conn->id);
    struct err unheard = ERR_NONE;
    int r;

    if (known || !(AT_REST & SANDBOX_STATUS_BIT((unsigned) row->status)) || !sandbox_dir_is_running(dir_fd))
        return 0;
    if (adoption_try(service, conn, row, &unheard) < 0)
        return 0;
    r = move_row(service, row, SANDBOX_STATUS_STARTING, SANDBOX_DECISION_OPEN, err);
    if (r == 0)
        r = move_row(service, row, SANDBOX_STATUS_RUNNING, SANDBOX_DECISION_OPEN, err);
    if (r < 0) {
        sandbox_conn_end_running(conn);
        return r;
    }
    log_info("sandbox adopted", LOG_STR("sandbox_id", row->id));
    sandbox_tell(service, &caller_system, row, "sandbox_started", NULL, json_pack("{s:s}", "reason", "agentfense run"));
    return 0;
}

static bool has_directory(const struct service *service, const char *id)
{
    struct stat st;

    return fstatat(service->state_dir.sandboxes_fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* `agentfense run --rm` or `rm` removed it. The row of one over a directory stays, for whoever asks where a file in their project came from. */
static int forget_removed(struct service *service, struct sandbox_row *row, struct err *err)
{
    const struct sandbox_move move = {
        .id = row->id, .from = AT_REST, .to = SANDBOX_STATUS_DELETED, .forgets_name = true, .now_ns = clock_wall_ns()
    };
    int r;

    if (!(AT_REST & SANDBOX_STATUS_BIT((unsigned) row->status)))
        return 0;
    r = sandbox_row_is_over_directory(row) ? sandbox_row_move(service->store, &move, row, err)
                                           : sandbox_row_delete(service->store, row->id, err);
    if (r < 0)
        return r;
    sandbox_tell(service, &caller_system, row, "sandbox_destroyed", NULL,
                 json_pack("{s:s}", "reason", "its directory was removed"));
    if (!sandbox_row_is_over_directory(row))
        sandbox_row_done(row);
    return 0;
}

int sandbox_index_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int dir_fd = -1;
    int r;

    if (row->id && (strcmp(row->host_id, service->host_id) != 0 || sandbox_row_state(row) == SANDBOX_STATE_ERROR ||
                    SANDBOX_STATUS_BIT((unsigned) row->status) & (BIT(CREATING) | BIT(DELETING))))
        return 0;
    if (!has_directory(service, conn->id))
        return row->id ? forget_removed(service, row, err) : 0;
    r = sandbox_trust_open(&service->state_dir, conn->id, geteuid(), &dir_fd, &spec, err);
    if (r < 0 && r != -EPERM && dir_fd >= 0 && !row->id && !err_is_transient(err)) {
        struct err reason = *err;

        *err = ERR_NONE;
        r = insert_broken(service, conn->id, reason.text, row, err);
        return r < 0 ? r : settle_decision(service, dir_fd, row, err);
    }
    if (r == 0)
        r = row->id ? update_row(service, dir_fd, spec, row, err) : insert_row(service, conn->id, spec, row, err);
    if (r == 0)
        r = settle_decision(service, dir_fd, row, err);
    return r < 0 ? r : settle_running(service, conn, dir_fd, row, err);
}

int sandbox_index_check(const struct service *service, const char *id, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int dir_fd = -1;

    return sandbox_trust_open(&service->state_dir, id, geteuid(), &dir_fd, &spec, err);
}

int sandbox_index_note(const struct service *service, const char *id, int decision, bool is_deleted, struct err *err)
{
    autofd int dir_fd = path_open_beneath(service->state_dir.sandboxes_fd, id, O_RDONLY | O_DIRECTORY, 0);
    int r = dir_fd < 0 ? dir_fd : sandbox_dir_write_decision(dir_fd, (enum sandbox_dir_decision) decision, is_deleted);

    return r < 0 && r != -ENOENT ? err_errno(err, r, "writing down what was decided of sandbox %s", id) : 0;
}

/* ---- what changed ---- */

static void add_id(struct id_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], id) == 0)
            return;
    vec_room(&list->items, &list->cap, list->count);
    memcpy(list->items[list->count++], id, strlen(id) + 1);
}

static void watch_one(struct service *service, const char *id)
{
    struct sandbox_index *index = service->index;
    autofree char *path = state_dir_path(&service->state_dir, id, "");
    struct hash_link *link;
    int number;

    pthread_mutex_lock(&index->lock);
    number = index->fd < 0 ? -1 : inotify_add_watch(index->fd, path, OF_ONE | IN_DONT_FOLLOW);
    if (number < 0 && index->fd >= 0 && errno == ENOSPC)
        index->reads_all = true; /* too many for this user: everything is read, now and then */
    for (link = hash_table_first(&index->watches, (uint64_t) number); link && number >= 0; link = hash_link_next(link))
        memcpy(((struct index_watch *) link)->id, id, strlen(id) + 1);
    if (number >= 0 && !hash_table_first(&index->watches, (uint64_t) number)) {
        struct index_watch *watch = xnew(struct index_watch);

        memcpy(watch->id, id, strlen(id) + 1);
        hash_table_add(&index->watches, &watch->link, (uint64_t) number);
    }
    pthread_mutex_unlock(&index->lock);
}

static void take_event(struct sandbox_index *index, const struct inotify_event *event)
{
    struct hash_link *link = hash_table_first(&index->watches, (uint64_t) event->wd);

    if (event->mask & IN_Q_OVERFLOW)
        index->read_all_ns = 0;
    else if (event->wd == index->all_watch && event->len > 0 && sandbox_id_is_valid(event->name))
        add_id(&index->changed, event->name);
    else if (link)
        add_id(&index->changed, ((struct index_watch *) link)->id);
    if (link && event->mask & IN_IGNORED) {
        hash_table_remove(&index->watches, link);
        free(link);
    }
}

/* With its lock. */
static void take_events(struct sandbox_index *index)
{
    char bytes[EVENT_BYTES] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t len;

    while (index->fd >= 0 && (len = read(index->fd, bytes, sizeof(bytes))) > 0) {
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *event = (const struct inotify_event *) (const void *) (bytes + at);

            take_event(index, event);
            at += (ssize_t) (sizeof(*event) + event->len);
        }
    }
}

static void add_row_id(struct service *service, struct sandbox_row *row, void *cookie)
{
    if (!has_directory(service, row->id))
        add_id(cookie, row->id);
}

static void list_all(struct service *service, struct id_list *out)
{
    const struct sandbox_filter filter = { .host_id = service->host_id, .statuses = AT_REST };
    autodirectory dir = directory_open(service->state_dir.sandboxes_fd);
    struct err err = ERR_NONE;

    for (const struct dirent *d; dir && (d = directory_next(dir));) {
        if (!sandbox_id_is_valid(d->d_name))
            continue;
        vec_room(&out->items, &out->cap, out->count); /* no two have the same name */
        memcpy(out->items[out->count++], d->d_name, strlen(d->d_name) + 1);
    }
    if (service_each_sandbox(service, &filter, add_row_id, out, &err) < 0)
        log_warn("removed sandboxes are not looked for", LOG_STR("error", err.text));
}

/* Returns false if somebody is at work with it, or the store is away. */
static bool read_one(struct service *service, const char *id)
{
    autoptr(sandbox_conn) conn = sandbox_conn_get(&service->conns, id);
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    struct err err = ERR_NONE;
    int r;

    if (pthread_mutex_trylock(&conn->life) != 0)
        return false;
    r = sandbox_row_get(service->store, id, &row, &err);
    if (r == 0 || r == -ENOENT) {
        err = ERR_NONE;
        watch_one(service, id);
        r = sandbox_index_settle(service, conn, &row, &err);
        if (r == 0 && row.id && strcmp(row.host_id, service->host_id) == 0 &&
            AT_REST & SANDBOX_STATUS_BIT((unsigned) row.status))
            sandboxes_measure(service, &row, &(struct err){ 0 }); /* perhaps no server saw what ran in it */
    }
    pthread_mutex_unlock(&conn->life);
    if (r >= 0)
        return true;
    log_warn("a sandbox is not served as its directory says", LOG_STR("sandbox_id", id), LOG_STR("error", err.text));
    return !err_is_transient(&err);
}

void sandbox_index_refresh(struct service *service)
{
    struct sandbox_index *index = service->index;
    struct id_list changed;
    bool reads_all;

    if (!index)
        return;
    pthread_mutex_lock(&index->refreshing);
    pthread_mutex_lock(&index->lock);
    take_events(index);
    changed = index->changed;
    index->changed = (struct id_list){ 0 };
    reads_all = index->read_all_ns == 0 || (index->reads_all && clock_now_ns() >= index->read_all_ns);
    if (reads_all)
        index->read_all_ns = clock_now_ns() + READ_ALL_NS;
    pthread_mutex_unlock(&index->lock);
    if (reads_all) {
        changed.count = 0;
        list_all(service, &changed);
    }
    /* A sandbox that was removed gives its name up before another one with the same name is looked at. */
    for (size_t i = 0, first = 0; i < changed.count; i++) {
        char id[SANDBOX_ID_MAX];

        if (has_directory(service, changed.items[i]))
            continue;
        memcpy(id, changed.items[first], sizeof(id));
        memcpy(changed.items[first++], changed.items[i], sizeof(id));
        memcpy(changed.items[i], id, sizeof(id));
    }
    for (size_t i = 0; i < changed.count; i++) {
        if (read_one(service, changed.items[i]))
            continue;
        pthread_mutex_lock(&index->lock);
        add_id(&index->changed, changed.items[i]);
        pthread_mutex_unlock(&index->lock);
    }
    free(changed.items);
    pthread_mutex_unlock(&index->refreshing);
}

int sandbox_index_open(struct service *service, struct err *err)
{
    struct sandbox_index *index = service->index = xnew(struct sandbox_index);
    autofree char *path = xprintf("%s/sandboxes", service->state_dir.path);

    (void) err;
    pthread_mutex_init(&index->refreshing, NULL);
    pthread_mutex_init(&index->lock, NULL);
    index->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    index->all_watch = index->fd < 0 ? -1 : inotify_add_watch(index->fd, path, OF_ALL);
    index->reads_all = index->all_watch < 0;
    sandbox_index_refresh(service);
    return 0;
}

void sandbox_index_close(struct service *service)
{
    struct sandbox_index *index = service->index;

    if (!index)
        return;
    for (struct hash_link *link = hash_table_next(&index->watches, NULL), *next; link; link = next) {
        next = hash_table_next(&index->watches, link);
        hash_table_remove(&index->watches, link);
        free(link);
    }
    hash_table_done(&index->watches);
    cleanup_fd(&index->fd);
    free(index->changed.items);
    pthread_mutex_destroy(&index->lock);
    pthread_mutex_destroy(&index->refreshing);
    free(index);
    service->index = NULL;
}
