/*
 * The limits in force for a sandbox, as its supervisor wrote them into its state file:
 *
 *     limit NAME VALUE asked|default [why it is not enforced]
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIMIT_REPORT_MAX 16

struct state_dir;

struct limit_in_force {
    char name[16];
    int64_t value;
    bool is_default;
    char not_enforced[160]; /* the reason; "" if the limit is enforced */
};

struct limit_report {
    struct limit_in_force items[LIMIT_REPORT_MAX];
    size_t count;
};

/* Returns an empty report if the sandbox does not run, or if its supervisor is of a release that wrote no limits. */
void limit_report_read(int sandbox_dir_fd, struct limit_report *ret);
/* The same by name. */
void limit_report_find(const struct state_dir *state_dir, const char *name, struct limit_report *ret);
