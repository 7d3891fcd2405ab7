#include "base/fault.h"

#ifdef AGENTFENSE_FAULTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/coverage.h"

/* SIGKILL, so that no handler runs and no buffer is flushed. */
void fault(const char *name)
{
    static _Atomic long passes;
    const char *wanted = getenv("AGENTFENSE_FAULT");
    size_t len = strlen(name);

    if (!wanted || strncmp(wanted, name, len) != 0 || (wanted[len] != 0 && wanted[len] != ':'))
        return;
    long n = wanted[len] == ':' ? strtol(wanted + len + 1, NULL, 10) : 1;
    if (atomic_fetch_add(&passes, 1) + 1 != n)
        return;
    coverage_save();
    kill(getpid(), SIGKILL);
    _exit(137);
}

bool fault_is(const char *name)
{
    const char *wanted = getenv("AGENTFENSE_FAULT");

    return wanted && strcmp(wanted, name) == 0;
}

#else

/* A translation unit must not be empty. */
typedef int fault_is_compiled_out;

#endif
