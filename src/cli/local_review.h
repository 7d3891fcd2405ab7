/*
 * The changes of a sandbox of 'agentfense run' on their way to an approval: shown as the API shows those of a workspace, and what was chosen
 * of them.
 */
#pragma once

#include <jansson.h>

#include "review/approve.h"
#include "review/change_set.h"
#include "review/selection.h"

struct local_review {
    struct change_set set;
    size_t *places; /* owned: those that are meant, in the set */
    size_t count, cap;
    json_t *files;                 /* owned: with local_review_ask() */
    struct selection_file *chosen; /* owned */
    struct selection selection;

    /* What it is decided with, by local_review_decide(). */
    struct decision decision;
    const char **acknowledged;       /* owned array of borrowed paths */
    struct expectation *expected;    /* owned */
    struct local_review_text *texts; /* owned: what the expectations borrow from */
    struct expectation_list shown;
};

struct local_review_text {
    char hash[CHANGE_HASH_TEXT_MAX], drift[CHANGE_HASH_TEXT_MAX];
};

/* What the options say. */
struct local_review_words {
    bool has_asked; /* by local_review_ask() */
    bool acknowledges, skips_hooks;
};

#define LOCAL_REVIEW_NONE ((struct local_review){ .set = CHANGE_SET_EMPTY })

/* Those at and below each path; none: all. A path without changes is ERR_NOT_FOUND. */
int local_review_load(struct local_review *review, const char *delta_path, char **paths, int path_count, struct err *err);
void local_review_done(struct local_review *review);

/* Each is meant; `by_name`: only those, and not whatever else there is. */
void local_review_take_all(struct local_review *review, bool by_name);

/* A person says which. -ECANCELED. */
int local_review_ask(struct local_review *review, struct err *err);

/* About what is selected. Borrows from the review: after a person was asked only what was shown then, and otherwise whatever there is. */
const struct decision *local_review_decide(struct local_review *review, const struct local_review_words *words);

/* Why nothing of it was written, on standard error. */
void local_review_print_refused(const char *verb, const struct approve *approve);
