#include "fence/crowd.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/*
 * `git status` looks at all its files from 20 threads. Every answer wakes one of them, and the scheduler lets that one have a CPU at once,
 * on which another was just about to ask: for each file two or three changes of threads, which is more than the file costs us. A
 * SCHED_BATCH thread differs from others in one thing only, it waits until whoever runs is done when it is woken. So those who
 * run go on asking until they have to wait themselves, and we find several requests when we look.
 *
 * A client that asks alone would be slower so (it should run as soon as it is answered), and what a SCHED_BATCH thread starts is
 * SCHED_BATCH for good. So this is done to threads beside a process's first only, pools that are there to wait for files; only to those
 * whose policy nobody has chosen; and only while the crowd lasts.
 */

#define CHANGED (UINT64_C(1) << 32)

static bool set_policy(uint32_t thread, int policy)
{
    static const struct sched_param param = { 0 };

    return sched_setscheduler((pid_t) thread, policy, &param) == 0;
}

static bool is_first_of_process(uint32_t thread)
{
    return tgkill((pid_t) thread, (pid_t) thread, 0) == 0 || errno != ESRCH;
}

/* In this order: a thread that is in the table is never left as it is by who empties it meanwhile. */
void crowd_join(struct crowd *c, uint32_t thread, int64_t now_ns)
{
    _Atomic uint64_t *slot = &c->members[thread % CROWD_MOST];
    uint64_t member = thread, none = 0;

    atomic_store(&c->last_ns, now_ns);
    if (thread == 0 || atomic_load_explicit(slot, memory_order_relaxed) != 0 || atomic_load(&c->is_refused))
        return;
    if (!is_first_of_process(thread) && sched_getscheduler((pid_t) thread) == SCHED_OTHER) {
        if (set_policy(thread, SCHED_BATCH))
            member |= CHANGED;
        else if (errno == EPERM)
            atomic_store(&c->is_refused, true);
    }
    if (!atomic_compare_exchange_strong(slot, &none, member) && (member & CHANGED) && none != member)
        set_policy(thread, SCHED_OTHER);
}

/* Another thread may have the number by now: one that has chosen its policy would have to do so within the same milliseconds. */
static void leave(uint64_t member)
{
    uint32_t thread = (uint32_t) member;

    if ((member & CHANGED) && sched_getscheduler((pid_t) thread) == SCHED_BATCH)
        set_policy(thread, SCHED_OTHER);
}

void crowd_disperse(struct crowd *c, int64_t now_ns)
{
    int64_t last_ns = atomic_load(&c->last_ns);

    if (last_ns == 0 || now_ns - last_ns < CROWD_QUIET_NS)
        return;
    atomic_compare_exchange_strong(&c->last_ns, &last_ns, 0);
    for (size_t i = 0; i < CROWD_MOST; i++)
        leave(atomic_exchange(&c->members[i], 0));
}
