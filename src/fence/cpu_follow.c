#include "fence/cpu_follow.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define STREAK_MIN 4
#define STREAK_GAP_NS CLOCK_NS_PER_MS
#define STREAK_GOOD 1024
#define BACKOFF_MIN_NS (32 * CLOCK_NS_PER_MS)
#define BACKOFF_MAX_NS CLOCK_NS_PER_SEC
#define MEASURE_NS (8 * CLOCK_NS_PER_MS)
#define NEAR_GOOD 32
#define FAR_MIN 2
#define MIGRATE_MIN_NS (CLOCK_NS_PER_MS / 4)
#define MIGRATE_MAX_NS (128 * CLOCK_NS_PER_MS)

/*
 * A round trip costs the waking of an idle CPU, twice: the client's request wakes the worker on another CPU, and the answer
 * wakes the client, whose own CPU went to sleep meanwhile. If both are on one CPU there is nothing to wake: when one waits, the
 * other runs. The scheduler does not arrange that by itself. It puts a woken thread on an idle CPU if there is any, and the
 * waker's is not idle, because the waker runs on it. But a CPU that runs only SCHED_IDLE threads counts as idle
 * (select_idle_sibling(), Linux 5.4). So, for a client that sends one request after the other,
 *
 *   - the worker does not sleep between two requests (see spin_for_request() in session.c): it would be woken elsewhere;
 *   - it moves to the client's CPU, once, and may be moved away again as any thread;
 *   - it is SCHED_IDLE meanwhile. The client stays where it is and runs at once when it is answered; the worker goes on when
 *     the client waits, which usually is for the next answer.
 *
 * A SCHED_IDLE thread hardly runs where others want to. So this is done only while most CPUs are idle, which is when waking one
 * is expensive. If the client computes for long, or other threads use that CPU, the worker would be missing, with whatever
 * locks it holds. After a while another worker takes the lead and restores its policy (cpu_follow_restore), and no worker tries
 * again for a time that doubles whenever that happens.
 *
 * Leaving SCHED_IDLE takes CAP_SYS_NICE or a limit that allows it.
 */

static void set_policy(int thread, int policy)
{
    static const struct sched_param param = { 0 };

    sched_setscheduler(thread, policy, &param);
}

/* Runs in a thread of its own, because a thread without the privilege remains SCHED_IDLE. */
static void *probe_sched_idle(void *arg)
{
    bool *ret = arg;

    set_policy(0, SCHED_IDLE);
    set_policy(0, SCHED_OTHER);
    *ret = sched_getscheduler(0) == SCHED_OTHER;
    return NULL;
}

void cpu_follow_init(struct cpu_follow *cpu_follow)
{
    pthread_t thread;
    bool is_possible = false;

    cpu_follow->cpus = (int) sysconf(_SC_NPROCESSORS_ONLN);
    if (cpu_follow->cpus < 2 || sched_getscheduler(0) != SCHED_OTHER)
        return;
    if (pthread_create(&thread, NULL, probe_sched_idle, &is_possible) == 0)
        pthread_join(thread, NULL);
    cpu_follow->is_possible = is_possible;
}

/* Returns the CPU on which a thread runs or ran last, or -1. */
static int cpu_of_thread(uint32_t pid)
{
    char path[32], text[1024];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned) pid);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -1;
    text[n] = 0;
    /* Field 39. The second field ends with the last parenthesis and may contain anything. */
    at = strrchr(text, ')');
    for (int field = 2; at && field < 39; field++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at + 1) : -1;
}

/* Moves the calling thread there without binding it. */
static void move_to_cpu(int cpu)
{
    cpu_set_t may, there;

    CPU_ZERO(&there);
    CPU_SET(cpu, &there);
    if (sched_getaffinity(0, sizeof(may), &may) < 0 || !CPU_ISSET(cpu, &may))
        return;
    if (sched_setaffinity(0, sizeof(there), &there) == 0)
        sched_setaffinity(0, sizeof(may), &may);
}

/* The fourth field of loadavg begins with the number of runnable threads on all CPUs, the caller included. The first is their
 * average over the last minute: where it is high, a moment without any is only a moment. */
static void count_running(struct cpu_follow *cpu_follow)
{
    char text[128];
    int running = INT_MAX, load = INT_MAX;

    autofd int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n > 0) {
        text[n] = 0;
        if (sscanf(text, "%d.%*s %*s %*s %d/", &load, &running) != 2)
            running = load = INT_MAX;
    }
    atomic_store(&cpu_follow->running, running - 1);
    atomic_store(&cpu_follow->load, load);
}

static void measure_load(struct cpu_follow *cpu_follow, int64_t now_ns)
{
    if (now_ns < atomic_load_explicit(&cpu_follow->measure_after_ns, memory_order_relaxed))
        return;
    atomic_store(&cpu_follow->measure_after_ns, now_ns + MEASURE_NS);
    count_running(cpu_follow);
}

void cpu_follow_remeasure(struct cpu_follow *cpu_follow)
{
    atomic_store(&cpu_follow->measure_after_ns, 0);
}

bool cpu_follow_is_overloaded(struct cpu_follow *cpu_follow, int64_t now_ns)
{
    measure_load(cpu_follow, now_ns);
    return atomic_load_explicit(&cpu_follow->running, memory_order_relaxed) >= cpu_follow->cpus;
}

static bool is_lightly_loaded(const struct cpu_follow *cpu_follow)
{
    return atomic_load_explicit(&cpu_follow->running, memory_order_relaxed) < (cpu_follow->cpus + 1) / 2 &&
           atomic_load_explicit(&cpu_follow->load, memory_order_relaxed) <= cpu_follow->cpus;
}

static bool has_streak(const struct cpu_follow *cpu_follow, const struct client_affinity *p, int64_t now_ns)
{
    return p->streak >= STREAK_MIN && now_ns >= atomic_load_explicit(&cpu_follow->backoff_until_ns, memory_order_relaxed);
}

/* Migrations that do not bring the two together become rarer. */
static void migrate_to_client(struct client_affinity *p, int64_t now_ns)
{
    int cpu = cpu_of_thread(p->pid);

    p->migrate_backoff_ns = p->migrate_backoff_ns < MIGRATE_MIN_NS ? MIGRATE_MIN_NS : p->migrate_backoff_ns * 2;
    if (p->migrate_backoff_ns > MIGRATE_MAX_NS)
        p->migrate_backoff_ns = MIGRATE_MAX_NS;
    p->migrate_after_ns = now_ns + p->migrate_backoff_ns;
    p->far = 0;
    if (cpu >= 0 && cpu < CPU_SETSIZE && cpu != sched_getcpu())
        move_to_cpu(cpu);
}

bool cpu_follow_is_yielding(struct cpu_follow *cpu_follow, const struct client_affinity *p)
{
    return atomic_load_explicit(&cpu_follow->yielding_thread, memory_order_relaxed) == p->thread;
}

/* A thread that restores us clears the number first and then sets our policy, so it cannot come too early. */
static void yield_cpu(struct cpu_follow *cpu_follow, struct client_affinity *p)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&cpu_follow->yielding_thread, &none, p->thread))
        return;
    set_policy(0, SCHED_IDLE);
    if (!cpu_follow_is_yielding(cpu_follow, p))
        set_policy(0, SCHED_OTHER);
}

void cpu_follow_end(struct cpu_follow *cpu_follow, struct client_affinity *p)
{
    int self = p->thread;

    if (!cpu_follow_is_yielding(cpu_follow, p))
        return;
    set_policy(0, SCHED_OTHER);
    atomic_compare_exchange_strong(&cpu_follow->yielding_thread, &self, 0);
}

static void count_request(struct client_affinity *p, uint32_t pid, bool is_near, int64_t now_ns)
{
    p->streak = pid != 0 && pid == p->pid && now_ns - p->last_ns < STREAK_GAP_NS ? p->streak + 1 : 0;
    p->pid = pid;
    p->last_ns = now_ns;
    p->near = is_near ? p->near + 1 : 0;
    p->far += !is_near;
    if (p->near >= NEAR_GOOD) {
        p->far = 0;
        p->migrate_backoff_ns = 0;
    }
}

void cpu_follow_request(struct cpu_follow *cpu_follow, struct client_affinity *p, uint32_t pid, bool is_near, int64_t now_ns)
{
    if (!cpu_follow->is_possible)
        return;
    count_request(p, pid, is_near, now_ns);
    if (has_streak(cpu_follow, p, now_ns))
        measure_load(cpu_follow, now_ns);
    if (!has_streak(cpu_follow, p, now_ns) || !is_lightly_loaded(cpu_follow)) {
        cpu_follow_end(cpu_follow, p);
        return;
    }
    if (!cpu_follow_is_yielding(cpu_follow, p))
        yield_cpu(cpu_follow, p);
    if (p->far >= FAR_MIN && now_ns >= p->migrate_after_ns)
        migrate_to_client(p, now_ns);
    if (p->streak % STREAK_GOOD == 0)
        atomic_store(&cpu_follow->backoff_ns, 0);
}

void cpu_follow_restore(struct cpu_follow *cpu_follow, int64_t now_ns)
{
    int thread = atomic_exchange(&cpu_follow->yielding_thread, 0);
    int64_t ns = atomic_load(&cpu_follow->backoff_ns) * 2;

    if (!thread)
        return;
    set_policy(thread, SCHED_OTHER);
    ns = ns < BACKOFF_MIN_NS ? BACKOFF_MIN_NS : ns > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : ns;
    atomic_store(&cpu_follow->backoff_ns, ns);
    atomic_store(&cpu_follow->backoff_until_ns, now_ns + ns);
}
