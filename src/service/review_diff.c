/* Shows the changes, and records which of them were shown. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "review/file_id.h"
#include "service/reviews_int.h"

#define SEEN_FILE "reviewed"
#define SEEN_BYTES_MAX ((size_t) 256 << 20)
#define HASH_LEN (CHANGE_HASH_TEXT_MAX - 1)
#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

/* ---- the record: "HASH PATH" or "HASH-DRIFT PATH", NUL-terminated, in the file `reviewed` beside the delta ---- */

static int seen_by_path(const void *a, const void *b)
{
    return strcmp(((const struct shown_file *) a)->path, ((const struct shown_file *) b)->path);
}

void shown_sort(struct shown_list *seen)
{
    if (seen->count > 0)
        qsort(seen->items, seen->count, sizeof(*seen->items), seen_by_path);
}

struct shown_file *shown_find(const struct shown_list *seen, const char *path)
{
    struct shown_file key = { .path = (char *) (uintptr_t) path };

    return seen->count > 0 ? bsearch(&key, seen->items, seen->count, sizeof(key), seen_by_path) : NULL;
}

void shown_add(struct shown_list *seen, const char *path, const struct shown_file *as)
{
    vec_room(&seen->items, &seen->cap, seen->count);
    struct shown_file *one = &seen->items[seen->count++];
    *one = *as;
    one->path = xdup(path);
}

/* Returns the path in the line; NULL if the line is malformed. */
static const char *parse_line(const char *line, size_t len, struct shown_file *ret)
{
    const size_t both = (size_t) 2 * (HASH_LEN + 1);

    *ret = (struct shown_file){ 0 };
    if (len <= HASH_LEN + 1)
        return NULL;
    memcpy(ret->hash, line, HASH_LEN);
    if (line[HASH_LEN] == ' ')
        return line + HASH_LEN + 1;
    if (line[HASH_LEN] != '-' || len <= both || line[both - 1] != ' ')
        return NULL;
    memcpy(ret->drift, line + HASH_LEN + 1, HASH_LEN);
    return line + both;
}

bool shown_parse(const char *text, struct shown_file *ret)
{
    size_t len = strlen(text);

    *ret = (struct shown_file){ 0 };
    if (len != HASH_LEN && (len != 2 * HASH_LEN + 1 || text[HASH_LEN] != '-'))
        return false;
    memcpy(ret->hash, text, HASH_LEN);
    if (len > HASH_LEN)
        memcpy(ret->drift, text + HASH_LEN + 1, HASH_LEN);
    return true;
}

/* A damaged record counts as empty: everything has to be shown again. */
int shown_load(int dir_fd, struct shown_list *ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(dir_fd, SEEN_FILE, SEEN_BYTES_MAX, &text);

    *ret = (struct shown_list){ 0 };
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_errno(err, r, "reading what was shown of the changes");
    for (size_t at = 0; at < text.len;) {
        const char *line = text.data + at;
        size_t len = strnlen(line, text.len - at);
        struct shown_file one;
        const char *path = at + len < text.len ? parse_line(line, len, &one) : NULL;

        if (!path)
            break;
        shown_add(ret, path, &one);
        at += len + 1;
    }
    shown_sort(ret);
    return 0;
}

/* Not synced: lost entries have to be shown again. */
int shown_save(int dir_fd, const struct shown_list *seen, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    for (size_t i = 0; i < seen->count; i++) {
        if (strlen(seen->items[i].hash) != HASH_LEN)
            continue;
        buf_addf(&text, "%s%s%s %s", seen->items[i].hash, *seen->items[i].drift ? "-" : "", seen->items[i].drift,
                 seen->items[i].path);
        buf_add(&text, "", 1);
    }
    r = file_put(dir_fd, SEEN_FILE, text.data ? text.data : "", text.len, 0600);
    return r < 0 ? err_errno(err, r, "noting what was shown of the changes") : 0;
}

void shown_list_done(struct shown_list *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->items[i].path);
    free(seen->items);
    *seen = (struct shown_list){ 0 };
}

void shown_hash(const struct file_change *change, char out[CHANGE_HASH_TEXT_MAX])
{
    out[0] = '\0';
    if (change->is_hashed && !change->failure)
        change_hash_text(change->hash, out);
}

struct shown_file shown_as(const struct file_change *change)
{
    struct shown_file one = { 0 };

    shown_hash(change, one.hash);
    drift_text(&change->drift, one.drift);
    return one;
}

/* ---- acceptance ---- */

static void parse_criteria(const json_t *given, struct acceptance_criteria *ret)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(given, "pathGlobs"), i, item)
    {
        if (json_is_string(item))
            acceptance_add_glob(ret, json_string_value(item));
    }
    json_array_foreach(json_object_get(given, "extensions"), i, item)
    {
        if (json_is_string(item))
            acceptance_add_extension(ret, json_string_value(item));
    }
}

void review_acceptance(const struct sandbox_row *row, struct acceptance *ret)
{
    json_t *behavior = json_loads(row->behavior, 0, NULL);
    const json_t *acceptance = json_object_get(behavior, "acceptance");

    *ret = (struct acceptance){ .ignores_binary = json_is_true(json_object_get(acceptance, "ignoreBinary")) };
    parse_criteria(json_object_get(acceptance, "allow"), &ret->allow);
    parse_criteria(json_object_get(acceptance, "deny"), &ret->deny);
    json_decref(behavior);
}

/* ---- diff ---- */

static int check_state(const struct sandbox_row *row, struct err *err)
{
    if (!(SANDBOX_STATE_BIT(sandbox_row_state(row)) & (BIT(CREATING) | BIT(DELETED))))
        return 0;
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and has no changes to show",
                                  row->id, sandbox_state_name(sandbox_row_state(row))),
                          "INVALID_STATE");
}

int reviews_diff(struct service *service, const struct caller *caller, const char *id, struct review_diff *ret, struct err *err)
{
    int r = service_find_sandbox(service, caller, id, &ret->row, err);

    if (r == 0)
        r = check_state(&ret->row, err);
    if (r < 0)
        return r;
    ret->delta_path = sandboxes_path(service, id, "delta");
    ret->prefix = review_prefix(&ret->row);
    review_acceptance(&ret->row, &ret->acceptance);
    struct change_set_options options = { .prefix = ret->prefix };
    r = change_set_load(ret->delta_path, &options, &ret->set, err);
    if (r == -ENOENT && sandbox_row_state(&ret->row) == SANDBOX_STATE_ERROR) {
        *err = ERR_NONE;
        ret->set = CHANGE_SET_EMPTY;
        return 0;
    }
    return r;
}

/* The last display of each file counts. The lock keeps two writers from losing each other's entries. */
static int note_shown_locked(struct service *service, const char *name, const struct shown_list *shown, struct err *err)
{
    autodone(shown_list) struct shown_list seen = { 0 };
    autofd int dir_fd = openat(service->state_dir.sandboxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    size_t known;
    int r;

    if (dir_fd < 0)
        return 0; /* it was collected meanwhile */
    r = shown_load(dir_fd, &seen, err);
    known = seen.count;
    for (size_t i = 0; r == 0 && i < shown->count; i++) {
        struct shown_list before = { .items = seen.items, .count = known };
        struct shown_file *old = shown_find(&before, shown->items[i].path), now = shown->items[i];

        if (old) {
            now.path = old->path;
            *old = now;
        } else {
            shown_add(&seen, now.path, &now);
        }
    }
    return r < 0 ? r : shown_save(dir_fd, &seen, err);
}

static int note_shown(struct service *service, const char *id, const struct shown_list *shown, struct err *err)
{
    int r;

    if (shown->count == 0)
        return 0;
    autoptr(sandbox_conn) conn = sandbox_conn_get(&service->conns, id);
    pthread_mutex_lock(&conn->life);
    r = note_shown_locked(service, id, shown, err);
    pthread_mutex_unlock(&conn->life);
    return r;
}

int reviews_diff_hash(struct service *service, struct review_diff *diff, struct err *err)
{
    int r = change_set_hash(&diff->set, diff->hash, err);

    if (r < 0)
        return r;
    sandboxes_touch(service, diff->row.id);
    sandboxes_measure(service, &diff->row, &(struct err){ 0 });
    sandboxes_totals(service)->diffs++;
    return 0;
}

int reviews_diff_note(struct service *service, const struct review_diff *diff, const size_t *places, size_t count,
                      struct err *err)
{
    autodone(shown_list) struct shown_list shown = { 0 };

    for (size_t i = 0; i < count; i++) {
        const struct file_change *change = &diff->set.items[places[i]];
        struct shown_file one = shown_as(change);
        shown_add(&shown, change->scope_path, &one);
    }
    return note_shown(service, diff->row.id, &shown, err);
}

static const json_t *hash_given_for(const json_t *hashes, const struct review_diff *diff, const struct file_change *change)
{
    char id[FILE_ID_LEN + 1] = "";
    const char *names[] = { id, change->path, change->scope_path };
    const json_t *hash = NULL;

    file_id_make(diff->row.id, change->scope_path, id);
    for (size_t i = 0; i < ARRAY_LEN(names) && !hash; i++)
        hash = json_object_get(hashes, names[i]);
    return hash;
}

static int check_hashes(const json_t *hashes, struct err *err)
{
    struct shown_file ignored;
    const json_t *hash;
    const char *name;

    json_object_foreach((json_t *) (uintptr_t) hashes, name, hash)
    {
        if (!json_is_string(hash) || !shown_parse(json_string_value(hash), &ignored))
            return err_reject(err, -EINVAL, name, "has no hash of a change");
    }
    return 0;
}

int reviews_diff_shown(struct service *service, const struct caller *caller, const char *id, const json_t *hashes,
                       size_t *ret_count, struct err *err)
{
    autodone(review_diff) struct review_diff diff = REVIEW_DIFF_NONE;
    autodone(shown_list) struct shown_list shown = { 0 };
    int r = reviews_diff(service, caller, id, &diff, err);

    if (r == 0)
        r = check_hashes(hashes, err);
    for (size_t i = 0; r == 0 && i < diff.set.count; i++) {
        const struct file_change *change = &diff.set.items[i];
        const json_t *hash = change->is_dir ? NULL : hash_given_for(hashes, &diff, change);
        struct shown_file one;

        if (hash && shown_parse(json_string_value(hash), &one))
            shown_add(&shown, change->scope_path, &one);
    }
    if (r == 0)
        r = note_shown(service, id, &shown, err);
    *ret_count = shown.count;
    return r;
}

void review_diff_done(struct review_diff *diff)
{
    sandbox_row_done(&diff->row);
    free(diff->delta_path);
    free(diff->prefix);
    change_set_done(&diff->set);
    acceptance_done(&diff->acceptance);
    *diff = REVIEW_DIFF_NONE;
}

int reviews_approvals(struct service *service, const struct caller *caller, const char *id, struct undo_entry **ret,
                      size_t *ret_count, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    autofree char *delta_path = NULL;
    int r = service_find_sandbox(service, caller, id, &row, err);

    if (r == 0)
        r = check_state(&row, err);
    if (r < 0)
        return r;
    delta_path = sandboxes_path(service, row.id, "delta");
    return undo_list(delta_path, ret, ret_count, err);
}
