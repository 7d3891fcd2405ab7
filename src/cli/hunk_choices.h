/*
 * The changes that the user chose hunk by hunk, with the hash of each file as the user saw it. The agent may continue to work: if files have changed
 * by the time the choices are sent, the user is asked about those files again, and all other answers are kept.
 */
#pragma once

#include "cli/api_verb.h"
#include <sandbox/v1/review.pb-c.h>

struct chosen_file {
    char *id, *path, *hash; /* owned */
    char **hunk_ids;        /* owned, and so are the strings */
    size_t hunk_count;
    bool is_whole, needs_acknowledgement;
};

struct hunk_choices {
    struct chosen_file *items; /* owned */
    size_t count, cap;
};

/* Asks about the changes at and below each path, or about all without paths. Returns 1 if there are no changes. */
int hunk_choices_ask(struct hunk_choices *choices, struct api_call *call, char *const *paths, size_t path_count,
                     struct err *err);

/* Compares the choices with the current changes, and asks again about files that have changed. Returns 1 if none has. */
int hunk_choices_ask_again(struct hunk_choices *choices, struct api_call *call, struct err *err);

/* A request to approve the choices. */
struct hunk_choices_request {
    Sandbox__V1__ApproveRequest message; /* borrows from the choices */
    Sandbox__V1__Selection selection;
    Sandbox__V1__HunkSelection *hunks;                    /* owned */
    Sandbox__V1__ApproveRequest__FileHashesEntry *hashes; /* owned */
    void **lists[4];                                      /* owned */
};

/* Fills in a copy of `base` that approves the choices. */
void hunk_choices_fill(const struct hunk_choices *choices, const Sandbox__V1__ApproveRequest *base,
                       struct hunk_choices_request *ret);
void hunk_choices_request_done(struct hunk_choices_request *request);
void hunk_choices_done(struct hunk_choices *choices);
