/* What of a sandbox's changes is chosen, and may be applied. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "review/file_id.h"
#include "service/workspace_review_int.h"

int approving_load(struct approving *a, struct err *err)
{
    struct workspace_approved *out = a->out;
    struct change_set_options options = { .prefix = a->still->prefix };
    int r = change_set_load(a->still->delta_path, &options, &out->set, err);

    if (r < 0)
        return r;
    out->verdicts = xalloc((out->set.count + 1) * sizeof(*out->verdicts));
    out->files = xalloc((out->set.count + 1) * sizeof(*out->files));
    workspace_acceptance(&a->still->row, &out->acceptance);
    if (out->acceptance.ignores_binary)
        r = change_set_measure(&out->set, NULL, 0, err);
    return r < 0 ? r : change_set_hash(&out->set, out->hash, err);
}

int approving_refuse(struct err *err, enum err_code code, const char *reason, size_t count, const char *what)
{
    static const char *const verbs[][2] = { { "are ", "is " }, { "were ", "was " }, { "have ", "has " } };
    const char *verb = "";

    for (size_t i = 0; count == 1 && i < ARRAY_LEN(verbs); i++) {
        size_t len = strlen(verbs[i][0]);
        if (strncmp(what, verbs[i][0], len) != 0)
            continue;
        verb = verbs[i][1];
        what += len;
        break;
    }
    return err_because(
        err, err_set(err, code, -EPERM, "%zu change%s %s%s; nothing was applied", count, count == 1 ? "" : "s", verb, what),
        reason);
}

static int check_acceptance(struct approving *a, struct err *err)
{
    struct workspace_approved *out = a->out;
    size_t refused = 0;

    for (size_t i = 0; !a->request->overrides_acceptance && i < out->set.count; i++) {
        const struct file_change *change = &out->set.items[i];
        if (change->is_dir || a->chosen.items[i] == CHOOSING_NOT ||
            acceptance_judge(&out->acceptance, change->path, change->is_binary).status == ACCEPTANCE_ACCEPTED)
            continue;
        refused += !a->chosen.is_all;
        out->verdicts[i] = a->chosen.is_all ? WORKSPACE_VERDICT_SKIPPED : WORKSPACE_VERDICT_REFUSED;
        a->chosen.items[i] = CHOOSING_NOT;
    }
    return refused ? approving_refuse(err, ERR_INVALID_ARGUMENT, "NOT_ACCEPTED", refused,
                                      "may not be applied by the sandbox's acceptance")
                   : 0;
}

static bool is_acknowledged(const struct approving *a, const struct file_change *change)
{
    const struct workspace_approval *request = a->request;
    char id[FILE_ID_LEN + 1] = "";

    file_id_make(a->still->row.id, change->scope_path, id);
    for (size_t i = 0; i < request->acknowledged_count; i++) {
        const char *word = request->acknowledged[i];
        if (strcmp(word, acknowledge_name(change->acknowledge)) == 0 || strcmp(word, change->path) == 0 ||
            strcmp(word, change->scope_path) == 0 || strcasecmp(word, id) == 0)
            return true;
    }
    return request->acknowledges_all;
}

static int check_acknowledged(struct approving *a, struct err *err)
{
    size_t missing = 0;

    for (size_t i = 0; i < a->out->set.count; i++) {
        const struct file_change *change = &a->out->set.items[i];
        if (a->chosen.items[i] == CHOOSING_NOT || change->acknowledge == ACKNOWLEDGE_NOTHING || is_acknowledged(a, change))
            continue;
        a->out->verdicts[i] = WORKSPACE_VERDICT_UNACKNOWLEDGED;
        missing++;
    }
    return missing ? approving_refuse(err, ERR_FAILED_PRECONDITION, "UNACKNOWLEDGED", missing,
                                      "may do something on this host by themselves")
                   : 0;
}

/* The hash of a file that could not be read is nobody's. Of which hunks are to be taken, its hunks must be those that were shown. */
static bool is_as_shown(const struct seen_one *shown, const struct file_change *change, enum choosing choosing)
{
    struct seen_one now = seen_as(change);

    return *now.hash && strcasecmp(shown->hash, now.hash) == 0 &&
           (choosing != CHOOSING_HUNKS || strcasecmp(shown->standing, now.standing) == 0);
}

static int check_shown(struct approving *a, struct err *err)
{
    autodone(seen) struct seen seen = { 0 };
    size_t stale = 0, unshown = 0;
    int r = seen_load(a->still->dir_fd, &seen, err);

    for (size_t i = 0; r == 0 && i < a->out->set.count; i++) {
        const struct file_change *change = &a->out->set.items[i];
        const struct seen_one *shown = seen_find(&seen, change->scope_path);

        if (change->is_dir || a->chosen.items[i] == CHOOSING_NOT || (shown && is_as_shown(shown, change, a->chosen.items[i])))
            continue;
        a->out->verdicts[i] = shown ? WORKSPACE_VERDICT_STALE : WORKSPACE_VERDICT_UNSHOWN;
        *(shown ? &stale : &unshown) += 1;
    }
    if (r < 0 || stale + unshown == 0)
        return r;
    if (stale == 0 && seen.count == 0)
        return approving_refuse(err, ERR_ABORTED, "DIFF_NOT_SERVED", unshown, "nobody has looked at");
    return approving_refuse(err, ERR_ABORTED, "DIFF_STALE", stale + unshown, "were made or changed since the diff was shown");
}

static const char *hash_given(const struct approving *a, const struct file_change *change)
{
    char id[FILE_ID_LEN + 1] = "";
    const char *names[] = { id, change->path, change->scope_path };
    const char *hash = NULL;

    file_id_make(a->still->row.id, change->scope_path, id);
    for (size_t i = 0; i < ARRAY_LEN(names) && !hash; i++)
        hash = json_string_value(json_object_get(a->request->hashes, names[i]));
    return hash;
}

/* What the caller says to have seen, whatever anybody else was shown. */
static int check_hashes(struct approving *a, struct err *err)
{
    size_t stale = 0;

    for (size_t i = 0; i < a->out->set.count; i++) {
        const struct file_change *change = &a->out->set.items[i];
        struct seen_one shown = { 0 };

        if (change->is_dir || a->chosen.items[i] == CHOOSING_NOT)
            continue;
        const char *given = hash_given(a, change);
        if (given && seen_parse(given, &shown) && is_as_shown(&shown, change, a->chosen.items[i]))
            continue;
        a->out->verdicts[i] = given ? WORKSPACE_VERDICT_STALE : WORKSPACE_VERDICT_UNSHOWN;
        stale++;
    }
    return stale ? approving_refuse(err, ERR_ABORTED, "DIFF_STALE", stale, "are not what was seen") : 0;
}

static int check_reviewed(struct approving *a, struct err *err)
{
    const char *given = a->request->diff_hash;

    bool is_its = *given && change_set_hash_is(a->out->hash, given, a->request->choice.hunk_count == 0);

    if (a->request->is_forced)
        return 0;
    if (a->request->hashes && (!*given || is_its))
        return check_hashes(a, err);
    if (is_its)
        return 0;
    if (!*given)
        return check_shown(a, err);
    check_shown(a, err); /* says which */
    return err_because(
        err, err_set(err, ERR_ABORTED, -ESTALE, "the changes are not those of diffHash any more; nothing was applied"),
        "DIFF_STALE");
}

int approving_choose(struct approving *a, struct err *err)
{
    int r = chosen_make(&a->request->choice, &a->out->set, a->still->row.id, NULL, &a->chosen, err);

    if (r == 0)
        r = check_acceptance(a, err);
    if (r == 0)
        r = check_acknowledged(a, err);
    if (r == 0)
        r = check_reviewed(a, err);
    if (r == 0)
        chosen_select(&a->chosen, &a->out->set);
    return r;
}
