/*
 * What this host can do for a sandbox: a list of findings, each with its consequence and how to fix it. The doctor tries things
 * rather than inferring them if that leaves no trace: it makes a user namespace, starts a sandbox, makes and removes a cgroup.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

enum doctor_state { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

enum doctor_weight {
    DOCTOR_OPTIONAL,  /* a feature that a user may not want */
    DOCTOR_USEFUL,    /* sandboxes run without it, less protected */
    DOCTOR_ESSENTIAL, /* no sandbox without it */
};

struct doctor_finding {
    const char *name;
    enum doctor_weight weight;
    enum doctor_state state;
    char *found; /* owned */
    char *cost;  /* owned; NULL if it is ok */
    char *fix;   /* owned; NULL if it is ok or cannot be fixed */
};

/* All NULL: the host as it is. Tests name another prefix for /proc/sys, /dev and sockets, and other programs. */
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

/* Adds the result of another module's trial. Copies `found`, `cost` and `fix`, but not `name`. */
void doctor_add(struct doctor *doctor, const char *name, enum doctor_weight weight, enum doctor_state state, const char *found,
                const char *cost, const char *fix);

/* 0: everything essential or useful is there. 1: something is degraded. 2: no sandbox can run here. */
int doctor_verdict(const struct doctor *doctor);

const char *doctor_state_name(enum doctor_state state);
const char *doctor_weight_name(enum doctor_weight weight);
