/*
 * What this host can do for a sandbox: a list of findings, each with what it costs and how to put it right. Things are tried,
 * not inferred, wherever trying leaves no trace: a user namespace is made, a sandbox started, a cgroup made and removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

enum doctor_state { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

enum doctor_weight {
    DOCTOR_OPTIONAL,  /* a feature that one may not want */
    DOCTOR_USEFUL,    /* sandboxes run without, less well kept */
    DOCTOR_ESSENTIAL, /* no sandbox without it */
};

struct doctor_finding {
    const char *name;
    enum doctor_weight weight;
    enum doctor_state state;
    char *found; /* owned */
    char *cost;  /* owned; NULL when it is ok */
    char *fix;   /* owned; NULL when it is ok or nothing helps */
};

/* All NULL: this host, as it is. For tests: another place for /proc/sys, /dev and sockets, and other programs. */
struct doctor_options {
    const char *root;
    const char *bwrap;
    const char *unshare;
};

struct doctor {
    struct doctor_finding *findings; /* owned */
    size_t count, cap;
};

struct doctor *doctor_new(const struct doctor_options *options);
void doctor_free(struct doctor *doctor);
DEFINE_AUTOPTR(doctor, doctor_free);

/* What somebody else has tried. `found`, `cost` and `fix` are copied; `name` is not. */
void doctor_add(struct doctor *doctor, const char *name, enum doctor_weight weight, enum doctor_state state, const char *found,
                const char *cost, const char *fix);

/* 0: all that is essential or useful is there. 1: something is degraded. 2: no sandbox can run here. */
int doctor_verdict(const struct doctor *doctor);

const char *doctor_state_name(enum doctor_state state);
const char *doctor_weight_name(enum doctor_weight weight);
