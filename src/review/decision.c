#include "review/decision.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/path.h"
#include "review/file_diff.h"

/* ---- acceptance ---- */

struct acceptance_verdict decision_check_acceptance(const struct acceptance *acceptance, const struct file_change *change)
{
    struct acceptance_verdict verdict = acceptance_check(acceptance, change->path, change->is_binary), old;

    if (verdict.status == ACCEPTANCE_DENIED || !change->old_path)
        return verdict;
    old = acceptance_check(acceptance, change->old_path, change->is_binary);
    return verdict.status == ACCEPTANCE_ACCEPTED || old.status == ACCEPTANCE_DENIED ? old : verdict;
}

int decision_accepts(const struct decision *decision, const struct edit_list *list, const struct edit *edit, struct err *err)
{
    const struct acceptance *acceptance = decision->acceptance;
    const char *prefix = decision->prefix ? decision->prefix : "";
    const struct change_set set = { .edits = *list };
    struct file_change change = { .edit = edit, .path = edit->path };
    int r = 0;

    assert(acceptance);
    if (!edit_is_file(edit))
        return 1;
    if (acceptance->ignores_binary)
        r = file_diff_measure(&set, &change, err);
    if (r < 0)
        return r;
    autofree char *path = xprintf("%s%s%s", prefix, *prefix ? "/" : "", edit->path);
    return acceptance_check(acceptance, path, change.is_binary).status == ACCEPTANCE_ACCEPTED;
}

/* ---- acknowledgement ---- */

enum acknowledge decision_lacks(const struct decision *decision, const struct file_change *change)
{
    if (decision->acknowledges_all)
        return ACKNOWLEDGE_NOTHING;
    for (size_t i = 0; change->acknowledge != ACKNOWLEDGE_NOTHING && i < decision->acknowledged_count; i++) {
        const char *word = decision->acknowledged[i];
        if (strcmp(word, acknowledge_name(change->acknowledge)) == 0 || strcmp(word, change->scope_path) == 0)
            return ACKNOWLEDGE_NOTHING;
    }
    return change->acknowledge;
}

/* ---- shown ---- */

static int expectation_by_path(const void *a, const void *b)
{
    return strcmp(((const struct expectation *) a)->path, ((const struct expectation *) b)->path);
}

void expectation_sort(struct expectation *items, size_t count)
{
    if (count > 0)
        qsort(items, count, sizeof(*items), expectation_by_path);
}

static const struct expectation *expectation_find(const struct expectation_list *list, const char *path)
{
    const struct expectation key = { .path = path };

    return list->count > 0 ? bsearch(&key, list->items, list->count, sizeof(key), expectation_by_path) : NULL;
}

static bool has_shown_drift(const struct edit_list *list, const struct edit *edit, const struct reconcile *re,
                            const struct expectation *item)
{
    struct drift drift = DRIFT_NONE;
    char text[CHANGE_HASH_TEXT_MAX];

    if (!item->drift)
        return true;
    drift_of_file_state(list, edit, &re->project, &drift);
    drift_text(&drift, text);
    return strcasecmp(text, item->drift) == 0;
}

int decision_has_shown(const struct decision *decision, const struct edit_list *list, const struct edit *edit,
                       const struct reconcile *re, struct err *err)
{
    const struct expectation *item = decision->shown ? expectation_find(decision->shown, edit->path) : NULL;
    const struct change_set set = { .edits = *list };
    struct file_change change = { .edit = edit, .path = edit->path };
    char text[CHANGE_HASH_TEXT_MAX];
    int r;

    if (!edit_is_file(edit))
        return DECISION_SHOWN;
    if (!item)
        return decision->shown && !decision->shown->is_complete ? DECISION_SHOWN : DECISION_NOT_SHOWN;
    if (!*item->hash)
        return edit->now == 0 ? DECISION_SHOWN : DECISION_SHOWN_OTHERWISE;
    if (!has_shown_drift(list, edit, re, item))
        return DECISION_SHOWN_OTHERWISE;
    r = file_diff_hash(&set, &change, err);
    if (r < 0)
        return r;
    /* A change that could not be read equals nothing. */
    if (!change.is_hashed)
        return DECISION_SHOWN_OTHERWISE;
    change_hash_text(change.hash, text);
    return strcasecmp(text, item->hash) == 0 ? DECISION_SHOWN : DECISION_SHOWN_OTHERWISE;
}

/* ---- hooks ---- */

/* A hooks file of any kind counts, and one that cannot be accessed: running the hooks will show whether it can be read. */
int decision_lacks_hooks(const struct decision *decision, int base_fd)
{
    autofd int fd = -1;

    if (decision->hooks != DECISION_HOOKS_UNTRIED)
        return 0;
    fd = path_open_beneath(base_fd, DECISION_HOOKS_FILE, O_PATH, 0);
    return fd == -ENOENT || fd == -ENOTDIR ? 0 : 1;
}
