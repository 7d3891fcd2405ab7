/*
 * The running execs: for each an id, its reaper, and their shared state.
 *
 * The table has a fixed size and is in static memory; only the states are shared with reapers. An exec is in it from exec_add()
 * until its reaper was waited for and, if the reaper was killed, until its processes are gone too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/exec_state.h"

struct exec {
    uint64_t id; /* 0: free slot */
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
    struct exec_state *states; /* owned, never freed; one per slot */
    size_t used;               /* no exec at this index or above */
    size_t count;
};

/* Returns 0 or -errno. A process has one table. */
int exec_table_open(struct exec_table *ret);

/* Returns NULL if there are INIT_EXECS_MAX already. The state is STARTING. */
struct exec *exec_add(struct exec_table *table, uint64_t id);
void exec_remove(struct exec_table *table, struct exec *exec);

struct exec *exec_by_id(const struct exec_table *table, uint64_t id);
struct exec *exec_by_reaper(const struct exec_table *table, pid_t pid); /* an orphaned one has none */

enum exec_phase exec_phase(const struct exec *exec);
pid_t exec_main_pid(const struct exec *exec);
