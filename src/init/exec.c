#include "init/exec.h"

#include <errno.h>
#include <sys/mman.h>

#include "wire/init_proto.h"

static struct exec places[INIT_EXECS_MAX];

int exec_table_open(struct exec_table *ret)
{
    struct exec_state *states =
        mmap(NULL, INIT_EXECS_MAX * sizeof(*states), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (states == MAP_FAILED)
        return -errno;
    *ret = (struct exec_table){ .execs = places, .states = states };
    return 0;
}

struct exec *exec_add(struct exec_table *table, uint64_t id)
{
    size_t i = 0;

    while (i < table->used && table->execs[i].id != 0)
        i++;
    if (i == INIT_EXECS_MAX)
        return NULL;
    if (i == table->used)
        table->used++;
    table->execs[i] = (struct exec){ .id = id, .state = table->states + i };
    atomic_store(&table->execs[i].state->main_pid, 0);
    atomic_store(&table->execs[i].state->signal, 0);
    atomic_store(&table->execs[i].state->state, EXEC_STARTING);
    table->count++;
    return &table->execs[i];
}

void exec_remove(struct exec_table *table, struct exec *exec)
{
    exec->id = 0;
    exec->reaper = 0;
    exec->is_killing = false;
    table->count--;
    while (table->used > 0 && table->execs[table->used - 1].id == 0)
        table->used--;
}

struct exec *exec_by_id(const struct exec_table *table, uint64_t id)
{
    for (size_t i = 0; i < table->used; i++)
        if (table->execs[i].id == id)
            return &table->execs[i];
    return NULL;
}

struct exec *exec_by_reaper(const struct exec_table *table, pid_t pid)
{
    for (size_t i = 0; i < table->used; i++)
        if (table->execs[i].id != 0 && !table->execs[i].orphaned && table->execs[i].reaper == pid)
            return &table->execs[i];
    return NULL;
}

enum exec_phase exec_phase(const struct exec *exec)
{
    return (enum exec_phase) atomic_load(&exec->state->state);
}

pid_t exec_main_pid(const struct exec *exec)
{
    return atomic_load(&exec->state->main_pid);
}
