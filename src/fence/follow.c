#include "fence/follow.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define RUN_LEAST 4
#define RUN_GAP_NS CLOCK_NS_PER_MS
#define RUN_GOOD 1024
#define REST_LEAST_NS (32 * CLOCK_NS_PER_MS)
#define REST_MOST_NS CLOCK_NS_PER_SEC
#define LOOK_NS (8 * CLOCK_NS_PER_MS)
#define NEAR_GOOD 32
#define APART_LEAST 2
#define HOP_LEAST_NS (CLOCK_NS_PER_MS / 4)
#define HOP_MOST_NS (128 * CLOCK_NS_PER_MS)
#define AHEAD_BY 15 /* of what nice(1) counts in */

/*
 * What a round trip costs is waking an idle CPU, twice: the client's request wakes the worker elsewhere, the answer wakes the
 * client, whose own CPU went to sleep meanwhile. If both are on one CPU there is nothing to wake: when one waits, the other
 * runs. The scheduler does not arrange that by itself. It puts whoever is woken on an idle CPU if there is any, and the waker's is
 * not idle: the waker runs on it. But one that runs nothing besides SCHED_IDLE threads counts as idle (select_idle_sibling() in
 * Linux 5.4 and newer). So, for a client that asks one thing after the other:
 *
 * - the worker does not sleep between two requests (see spin() in session.c): it would be woken elsewhere;
 * - it moves to the client's CPU, once, and may go elsewhere afterwards as any thread may;
 * - it is a SCHED_IDLE thread meanwhile. The client stays where it is and runs at once when it is answered; the worker goes on when
 *   the client waits, which usually is for the next answer.
 *
 * A SCHED_IDLE thread hardly runs where others want to. So this is done only while most CPUs have nothing to do, which is when
 * waking one is dear. Should the client compute for long, or others be on that CPU all the same, the worker would be missing, with
 * whatever locks it holds: after a while another takes the lead and gives it its rights back (follow_rescue), and nobody
 * tries again for a time that doubles each time that happens.
 *
 * Where many ask at once it is the other way round. Every answer wakes one of them, and the scheduler lets it have the CPU of whoever
 * answered it while the others go on waiting for that one. The worker then goes before them.
 *
 * Coming back from SCHED_IDLE takes CAP_SYS_NICE or a limit that allows it, and so does going first.
 */

static void set_policy(int thread, int policy)
{
    static const struct sched_param param = { 0 };

    sched_setscheduler(thread, policy, &param);
}

/* A thread of its own, because one that fails remains SCHED_IDLE. */
static void *try_it(void *arg)
{
    bool *ret = arg;

    set_policy(0, SCHED_IDLE);
    set_policy(0, SCHED_OTHER);
    *ret = sched_getscheduler(0) == SCHED_OTHER;
    return NULL;
}

void follow_init(struct follow *follow)
{
    pthread_t thread;
    bool is_possible = false;

    follow->cpus = (int) sysconf(_SC_NPROCESSORS_ONLN);
    follow->nice = getpriority(PRIO_PROCESS, 0);
    if (follow->cpus < 2 || sched_getscheduler(0) != SCHED_OTHER)
        return;
    if (pthread_create(&thread, NULL, try_it, &is_possible) == 0)
        pthread_join(thread, NULL);
    follow->is_possible = is_possible;
}

/* The CPU on which a thread runs or ran last, or -1. */
static int cpu_of(uint32_t pid)
{
    char path[32], text[1024];
    const char *at;

    snprintf(path, sizeof(path), "/proc/%u/stat", (unsigned) pid);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return -1;
    text[n] = 0;
    /* Field 39; the second ends with the last parenthesis and may contain anything. */
    at = strrchr(text, ')');
    for (int field = 2; at && field < 39; field++)
        at = strchr(at + 1, ' ');
    return at ? atoi(at + 1) : -1;
}

/* Moved there, but not bound to it. */
static void move_to(int cpu)
{
    cpu_set_t may, there;

    CPU_ZERO(&there);
    CPU_SET(cpu, &there);
    if (sched_getaffinity(0, sizeof(may), &may) < 0 || !CPU_ISSET(cpu, &may))
        return;
    if (sched_setaffinity(0, sizeof(there), &there) == 0)
        sched_setaffinity(0, sizeof(may), &may);
}

/* The fourth field of loadavg begins with how many threads run or want to, on all CPUs; one of them is the caller. The first says how
 * many did in the last minute: where it is high, a moment without any is only a moment. */
static void count_running(struct follow *follow)
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
    atomic_store(&follow->running, running - 1);
    atomic_store(&follow->load, load);
}

static void look_around(struct follow *follow, int64_t now_ns)
{
    if (now_ns < atomic_load_explicit(&follow->look_after_ns, memory_order_relaxed))
        return;
    atomic_store(&follow->look_after_ns, now_ns + LOOK_NS);
    count_running(follow);
}

void follow_look_again(struct follow *follow)
{
    atomic_store(&follow->look_after_ns, 0);
}

bool follow_is_crowded(struct follow *follow, int64_t now_ns)
{
    look_around(follow, now_ns);
    return atomic_load_explicit(&follow->running, memory_order_relaxed) >= follow->cpus;
}

static bool is_calm(const struct follow *follow)
{
    return atomic_load_explicit(&follow->running, memory_order_relaxed) < (follow->cpus + 1) / 2 &&
           atomic_load_explicit(&follow->load, memory_order_relaxed) <= follow->cpus;
}

static bool is_on(const struct follow *follow, const struct pursuit *p, int64_t now_ns)
{
    return p->run >= RUN_LEAST && now_ns >= atomic_load_explicit(&follow->rest_until_ns, memory_order_relaxed);
}

/* Hopping that does not bring us together is done less and less. */
static void hop(struct pursuit *p, int64_t now_ns)
{
    int cpu = cpu_of(p->pid);

    p->hop_wait_ns = p->hop_wait_ns < HOP_LEAST_NS ? HOP_LEAST_NS : p->hop_wait_ns * 2;
    if (p->hop_wait_ns > HOP_MOST_NS)
        p->hop_wait_ns = HOP_MOST_NS;
    p->hop_after_ns = now_ns + p->hop_wait_ns;
    p->apart = 0;
    if (cpu >= 0 && cpu < CPU_SETSIZE && cpu != sched_getcpu())
        move_to(cpu);
}

bool follow_is_behind(struct follow *follow, const struct pursuit *p)
{
    return atomic_load_explicit(&follow->behind, memory_order_relaxed) == p->thread;
}

/* Whoever rescues takes the number away first and gives the rights back then: it can't come too early. */
static void stand_back(struct follow *follow, struct pursuit *p)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&follow->behind, &none, p->thread))
        return;
    set_policy(0, SCHED_IDLE);
    if (!follow_is_behind(follow, p))
        set_policy(0, SCHED_OTHER);
}

static void set_nice(const struct follow *follow, struct pursuit *p, bool is_ahead)
{
    if (p->is_ahead == is_ahead)
        return;
    p->is_ahead = is_ahead;
    setpriority(PRIO_PROCESS, 0, is_ahead ? follow->nice - AHEAD_BY : follow->nice);
}

static void come_back(struct follow *follow, struct pursuit *p)
{
    int self = p->thread;

    if (!follow_is_behind(follow, p))
        return;
    set_policy(0, SCHED_OTHER);
    atomic_compare_exchange_strong(&follow->behind, &self, 0);
}

void follow_end(struct follow *follow, struct pursuit *p)
{
    come_back(follow, p);
    set_nice(follow, p, false);
}

void follow_crowd(struct follow *follow, struct pursuit *p)
{
    if (!follow->is_possible)
        return;
    come_back(follow, p);
    set_nice(follow, p, true);
}

static void count(struct pursuit *p, uint32_t pid, bool is_near, int64_t now_ns)
{
    p->run = pid != 0 && pid == p->pid && now_ns - p->last_ns < RUN_GAP_NS ? p->run + 1 : 0;
    p->pid = pid;
    p->last_ns = now_ns;
    p->near = is_near ? p->near + 1 : 0;
    p->apart += !is_near;
    if (p->near >= NEAR_GOOD) {
        p->apart = 0;
        p->hop_wait_ns = 0;
    }
}

void follow_request(struct follow *follow, struct pursuit *p, uint32_t pid, bool is_near, int64_t now_ns)
{
    if (!follow->is_possible)
        return;
    count(p, pid, is_near, now_ns);
    if (is_on(follow, p, now_ns))
        look_around(follow, now_ns);
    if (!is_on(follow, p, now_ns) || !is_calm(follow)) {
        come_back(follow, p);
        return;
    }
    set_nice(follow, p, false);
    if (!follow_is_behind(follow, p))
        stand_back(follow, p);
    if (p->apart >= APART_LEAST && now_ns >= p->hop_after_ns)
        hop(p, now_ns);
    if (p->run % RUN_GOOD == 0)
        atomic_store(&follow->rest_ns, 0);
}

void follow_rescue(struct follow *follow, int64_t now_ns)
{
    int thread = atomic_exchange(&follow->behind, 0);
    int64_t ns = atomic_load(&follow->rest_ns) * 2;

    if (!thread)
        return;
    set_policy(thread, SCHED_OTHER);
    ns = ns < REST_LEAST_NS ? REST_LEAST_NS : ns > REST_MOST_NS ? REST_MOST_NS : ns;
    atomic_store(&follow->rest_ns, ns);
    atomic_store(&follow->rest_until_ns, now_ns + ns);
}
