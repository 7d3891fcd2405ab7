/* What of a sandbox's changes is chosen, and what was decided about it, as the request has it. Whether that will do is for approve_run() to say. */
#include <errno.h>
#include <stdlib.h>
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
    return err_set_reason(
        err, err_set(err, code, -EPERM, "%zu change%s %s%s; nothing was applied", count, count == 1 ? "" : "s", verb, what),
        reason);
}

/* ---- acceptance ---- */

/* Who approves all means all that its acceptance lets in. What is named and not let in is refused, by approve_run(). */
static void skip_unaccepted(struct approving *a)
{
    struct workspace_approved *out = a->out;

    for (size_t i = 0; a->chosen.is_all && !a->request->overrides_acceptance && i < out->set.count; i++) {
        const struct file_change *change = &out->set.items[i];
        if (change->is_dir || decision_check_acceptance(&out->acceptance, change).status == ACCEPTANCE_ACCEPTED)
            continue;
        out->verdicts[i] = WORKSPACE_VERDICT_SKIPPED;
        a->chosen.items[i] = CHOOSING_NOT;
    }
}

/* ---- acknowledgement ---- */

static bool names(const char *word, const struct approving *a, const struct file_change *change)
{
    char id[FILE_ID_LEN + 1] = "";

    file_id_make(a->still->row.id, change->scope_path, id);
    return strcmp(word, change->path) == 0 || strcmp(word, change->scope_path) == 0 || strcasecmp(word, id) == 0;
}

static bool is_acknowledged(const struct approving *a, const struct file_change *change)
{
    for (size_t i = 0; i < a->request->acknowledged_count; i++)
        if (names(a->request->acknowledged[i], a, change))
            return true;
    return false;
}

static void take_acknowledged(struct approving *a)
{
    const struct workspace_approval *request = a->request;
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

/* ---- what was shown ---- */

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

/* What the caller says to have seen, whatever anybody else was shown; else what all of diffHash names; else what was shown last. */
static const struct seen_one *shown_of(struct approving *a, size_t i)
{
    const struct file_change *change = &a->out->set.items[i];
    struct seen_one *shown = &a->decision.shown[i];
    const char *given;

    if (!*a->request->diff_hash || a->decision.is_other_diff) {
        if (!a->request->hashes || a->decision.is_other_diff)
            return seen_find(&a->decision.seen, change->scope_path);
    } else if (!a->request->hashes) {
        *shown = seen_as(change);
        return *shown->hash ? shown : NULL;
    }
    given = hash_given(a, change);
    if (given && !seen_parse(given, shown))
        memcpy(shown->hash, "?", sizeof("?")); /* nobody's */
    return given ? shown : NULL;
}

/* Of a file of which hunks are to be taken, its hunks must be those that were shown. */
static void expect(struct approving *a)
{
    const struct change_set *set = &a->out->set;
    struct approving_decision *decision = &a->decision;

    decision->shown = xalloc((set->count + 1) * sizeof(*decision->shown));
    decision->expected = xalloc((2 * set->count + 1) * sizeof(*decision->expected));
    for (size_t i = 0; i < set->count; i++) {
        const struct file_change *change = &set->items[i];
        const struct seen_one *shown = change->is_dir ? NULL : shown_of(a, i);
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

static int take_shown(struct approving *a, struct err *err)
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
        r = seen_load(a->still->dir_fd, &a->decision.seen, err);
    if (r == 0)
        expect(a);
    return r;
}

void approving_decision_done(struct approving_decision *decision)
{
    free(decision->acknowledged);
    free(decision->shown);
    free(decision->expected);
    seen_done(&decision->seen);
    *decision = (struct approving_decision){ 0 };
}

int approving_choose(struct approving *a, struct err *err)
{
    struct decision *decision = &a->decision.given;
    int r = chosen_make(&a->request->choice, &a->out->set, a->still->row.id, NULL, &a->chosen, err);

    if (r < 0)
        return r;
    skip_unaccepted(a);
    decision->prefix = a->still->prefix;
    decision->acceptance = a->request->overrides_acceptance ? &a->decision.anything : &a->out->acceptance;
    take_acknowledged(a);
    r = take_shown(a, err);
    if (r == 0)
        chosen_select(&a->chosen, &a->out->set);
    return r;
}

/* ---- refusals ---- */

static int tell_unshown(const struct approving *a, size_t count, bool is_dry, struct err *err)
{
    if (!is_dry)
        return approving_refuse(err, ERR_ABORTED, "DIFF_STALE", count, "were changed meanwhile");
    if (a->request->hashes)
        return approving_refuse(err, ERR_ABORTED, "DIFF_STALE", count, "are not what was seen");
    if (a->out->approve.stale_count == 0 && a->decision.seen.count == 0)
        return approving_refuse(err, ERR_ABORTED, "DIFF_NOT_SERVED", count, "nobody has looked at");
    return approving_refuse(err, ERR_ABORTED, "DIFF_STALE", count, "were made or changed since the diff was shown");
}

int approving_tell_refused(struct approving *a, bool is_dry, struct err *err)
{
    const struct approve *approve = &a->out->approve;
    size_t unshown = approve->stale_count - approve->lost_hunk_count + approve->unshown_count;

    if (approve->unaccepted_count > 0)
        return approving_refuse(err, ERR_INVALID_ARGUMENT, "NOT_ACCEPTED", approve->unaccepted_count,
                                "may not be applied by the sandbox's acceptance");
    if (approve->unacknowledged_count > 0)
        return approving_refuse(err, ERR_FAILED_PRECONDITION, "UNACKNOWLEDGED", approve->unacknowledged_count,
                                "may do something on this host by themselves");
    if (a->decision.is_other_diff)
        return err_set_reason(
            err, err_set(err, ERR_ABORTED, -ESTALE, "the changes are not those of diffHash any more; nothing was applied"),
            "DIFF_STALE");
    if (unshown > 0)
        return tell_unshown(a, unshown, is_dry, err);
    if (approve->conflict_count > 0)
        return approving_refuse(err, ERR_FAILED_PRECONDITION, "CONFLICTS", approve->conflict_count,
                                "cannot be applied: the project has changed there, too");
    if (is_dry)
        return approving_refuse(err, ERR_ABORTED, "HUNK_UNKNOWN", approve->stale_count,
                                "have other hunks than those that are named");
    return tell_unshown(a, approve->stale_count, is_dry, err);
}
