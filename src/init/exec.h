/*
 * The execs that run: for each an id, the keeper, and what both know of it.
 *
 * The table is of fixed size and lives in static memory; only the boards are shared with keepers. An exec is in it from
 * exec_add() until its keeper was waited for, and, when the keeper was killed, until its processes are gone too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "init/board.h"

struct exec {
    uint64_t id; /* 0: the place is free */
    pid_t keeper;
    bool orphaned; /* its keeper was killed: its processes are init's children now */
    bool hunted;   /* see hunt.h */
    uint32_t hunt_step_count;
    uint32_t hunt_empty_count;
    int64_t hunt_next_ms;
    struct board *board; /* borrowed from the table */
};

struct exec_table {
    struct exec *execs;   /* borrowed: static */
    struct board *boards; /* owned, never given back; one for each place */
    size_t used;          /* no exec at this index or above */
    size_t count;
};

/* 0 or -errno. There is one table in a process. */
int exec_table_open(struct exec_table *ret);

/* NULL: INIT_EXECS_MAX are there. The board is STARTING. */
struct exec *exec_add(struct exec_table *table, uint64_t id);
void exec_remove(struct exec_table *table, struct exec *exec);

struct exec *exec_by_id(const struct exec_table *table, uint64_t id);
struct exec *exec_by_keeper(const struct exec_table *table, pid_t pid); /* an orphaned one has none */

enum board_state exec_state(const struct exec *exec);
pid_t exec_main_pid(const struct exec *exec);
