/*
 * The execs that run: for each an id, the reaper, and what both know of it.
 *
 * The table is of fixed size and lives in static memory; only the states are shared with reapers. An exec is in it from
 * exec_add() until its reaper was waited for, and, when the reaper was killed, until its processes are gone too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/exec_state.h"

struct exec {
    uint64_t id; /* 0: the place is free */
    pid_t reaper;
    bool orphaned;   /* its reaper was killed: its processes are init's children now */
    bool is_killing; /* see kill_tree.h */
    uint32_t kill_step_count;
    uint32_t kill_empty_count;
    int64_t kill_next_ms;
    struct exec_state *state; /* borrowed from the table */
};

struct exec_table {
    struct exec *execs;        /* borrowed: static */
    struct exec_state *states; /* owned, never given back; one for each place */
    size_t used;               /* no exec at this index or above */
    size_t count;
};

/* 0 or -errno. There is one table in a process. */
int exec_table_open(struct exec_table *ret);

/* NULL: INIT_EXECS_MAX are there. The state is STARTING. */
struct exec *exec_add(struct exec_table *table, uint64_t id);
void exec_remove(struct exec_table *table, struct exec *exec);

struct exec *exec_by_id(const struct exec_table *table, uint64_t id);
struct exec *exec_by_reaper(const struct exec_table *table, pid_t pid); /* an orphaned one has none */

enum exec_phase exec_phase(const struct exec *exec);
pid_t exec_main_pid(const struct exec *exec);
