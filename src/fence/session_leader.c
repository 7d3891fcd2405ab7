/* Who leads and who waits: see struct session. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fence/session_int.h"

#define STUCK_NS (2 * CLOCK_NS_PER_MS)
#define IDLE_NS (10 * CLOCK_NS_PER_SEC)
#define CATCH_UP_NS CLOCK_NS_PER_SEC
#define CATCH_UP_STEP_US 100

__thread struct worker *session_self;

/* While there are requests, one waiting worker wakes up now and then to see whether the leader is stuck. The others sleep until
 * they are signalled, and end if that does not happen for long. Returns true if this worker shall end. */
static bool wait_turn(struct session *s)
{
    int64_t now = clock_now_ns();
    bool watches = !s->has_watcher, is_active = now - atomic_load(&s->last_ns) < SESSION_ACTIVE_NS;
    struct timespec until = clock_timespec_of_ns(now + (watches && is_active ? STUCK_NS : IDLE_NS));
    int r;

    s->waiting++;
    s->has_watcher |= watches;
    r = watches && !is_active ? pthread_cond_wait(&s->turn, &s->lock) : pthread_cond_timedwait(&s->turn, &s->lock, &until);
    if (watches)
        s->has_watcher = false;
    s->waiting--;
    return !watches && r == ETIMEDOUT;
}

bool session_take_lead(struct worker *w)
{
    struct session *s = w->s;

    autolock(&s->lock);
    while (!atomic_load(&s->stopping) && s->has_leader) {
        int64_t since = atomic_load(&s->busy_since_ns);
        if (since && clock_now_ns() - since > STUCK_NS)
            break;
        if (wait_turn(s))
            return false;
    }
    if (atomic_load(&s->stopping))
        return false;
    if (s->has_leader)
        cpu_follow_restore(&s->cpu_follow, clock_now_ns());
    s->has_leader = true;
    atomic_store(&s->busy_since_ns, 0);
    w->term = atomic_fetch_add(&s->term, 1) + 1;
    w->burst = 0;
    return true;
}

void session_add_worker(struct session *s)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;

    if (s->count - s->waiting_aside >= s->workers_max)
        return;
    if (session_self)
        cpu_follow_end(&s->cpu_follow, &session_self->affinity); /* a new thread inherits the scheduling policy */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, session_work, s) == 0)
        s->count++;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void session_pass_lead(struct worker *w)
{
    struct session *s = w->s;

    autolock(&s->lock);
    if (atomic_load(&s->term) != w->term)
        return;
    s->has_leader = false;
    if (s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else
        session_add_worker(s);
}

/* ---- stepping aside ---- */

bool session_begin_wait(struct session *s)
{
    if (!session_self)
        return false;
    cpu_follow_end(&s->cpu_follow, &session_self->affinity);
    autolock(&s->lock);
    if (s->waiting_aside >= s->workers_max)
        return false;
    s->waiting_aside++;
    if (atomic_load(&s->term) == session_self->term)
        s->has_leader = false;
    session_self->term = 0; /* this worker does not lead, whichever does */
    if (!s->has_leader && s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else if (!s->has_leader)
        session_add_worker(s);
    return true;
}

void session_end_wait(struct session *s)
{
    autolock(&s->lock);
    s->waiting_aside--;
}

/* While clients keep the device full it is never seen empty. But of FEW requests some are FORGETs, if there are any. */
static bool is_caught_up(struct session *s, uint64_t since)
{
    enum { FEW = 64 };
    struct pollfd fds = { .fd = s->fd, .events = POLLIN };
    bool is_read = poll(&fds, 1, 0) == 0 || atomic_load(&s->requests) - since > FEW;

    /* In this order: what has left the device is counted in forgets_pending. */
    return is_read && atomic_load(&s->forgets_pending) == 0;
}

/* The kernel has queued a FORGET when the system call that caused it returns, but now and then hands out later requests
 * first. */
void session_await_forgets(struct session *s)
{
    int64_t until = clock_now_ns() + CATCH_UP_NS;
    uint64_t since = atomic_load(&s->requests);

    if (!session_begin_wait(s))
        return;
    while (!is_caught_up(s, since) && clock_now_ns() < until && !atomic_load(&s->stopping))
        usleep(CATCH_UP_STEP_US);
    session_end_wait(s);
}

/*
 * The kernel hands out requests in the order in which they came. But of those for which no process waits, such as written-back
 * pages, it sends only SESSION_BACKGROUND_MAX and keeps the others back until some are answered. So we have read all that it
 * had when
 *
 *   - there is nothing to read: workers then hold fewer than that, so the kernel keeps none back; or,
 *   - where clients send without pause, a request of our own has been answered: what was there before it has been read. Had
 *     the kernel kept any back at that time, as many as it may send would have been there, and all but those that workers hold
 *     would have been read meanwhile.
 */
static bool has_read_all(struct session *s, int mount_fd)
{
    uint64_t before = atomic_load(&s->background);
    struct pollfd fds = { .fd = s->fd, .events = POLLIN };
    struct statfs ignored;

    if (poll(&fds, 1, 0) == 0)
        return true;
    if (fstatfs(mount_fd, &ignored) < 0)
        return false;
    return atomic_load(&s->background) - before < SESSION_BACKGROUND_MAX / 2;
}

bool session_await_writeback(struct session *s, int mount_fd, int64_t until_ns)
{
    bool is_read = false;

    while (!atomic_load(&s->stopping) && clock_now_ns() < until_ns) {
        is_read = is_read || has_read_all(s, mount_fd);
        /* In this order: a request that was read is in the first number until it is in the second. */
        if (is_read && atomic_load(&s->forgets_pending) == 0 && atomic_load(&s->writing_back) == 0)
            return true;
        usleep(CATCH_UP_STEP_US);
    }
    return false;
}
