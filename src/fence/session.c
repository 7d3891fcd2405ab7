#include "fence/session.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/inode.h"
#include "fence/reply.h"
#include "fence/session_int.h"

#define WORKERS_DEFAULT 8
#define SPIN_NS 60000
#define AWAY_NS 500000
#define BURST_MIN 3
#define SLOW_US 100000
#define WAKE_NS 40000 /* how much later a sleeping worker meets a request than a polling one */

/* ---- reading ---- */

/* Polling that seldom meets a request only takes CPU time from the clients. While it does not pay, worker_count_sleep() finds
 * out whether it would have. */
static bool spin_pays(struct worker *w)
{
    if (w->spins >= 64) {
        w->spins /= 2;
        w->hits /= 2;
    }
    return (w->hits * 3 >= w->spins || w->spins < 8) && !cpu_follow_is_overloaded(&w->s->cpu_follow, clock_now_ns());
}

static void worker_count_sleep(struct worker *w)
{
    w->spins++;
    w->hits += clock_now_ns() - w->replied_ns < SPIN_NS + WAKE_NS;
}

/* After a request was read, serve_request() counts forgets_pending down. */
static ssize_t worker_try_read(struct worker *w)
{
    atomic_fetch_add(&w->s->forgets_pending, 1);
    for (;;) {
        ssize_t n = read(w->s->fd, w->bytes, SESSION_BUFFER_BYTES);
        if (n > 0)
            return n;
        /* ENOENT: the calling process was killed while we read its request. */
        if (n < 0 && (errno == EINTR || errno == ENOENT))
            continue;
        n = n < 0 ? -errno : 0;
        atomic_fetch_sub(&w->s->forgets_pending, 1);
        return n;
    }
}

static ssize_t spin_for_request(struct worker *w)
{
    int64_t now = clock_now_ns(), until = now + SPIN_NS;
    ssize_t n = -EAGAIN;

    while (n == -EAGAIN && now < until && !atomic_load_explicit(&w->s->stopping, memory_order_relaxed)) {
        int64_t before = now;

        sched_yield();
        now = clock_now_ns();
        /* On a busy CPU a thread that yields waits for the time slices of others, while a sleeper runs as soon as it is
         * woken. */
        if (now - before > AWAY_NS)
            cpu_follow_remeasure(&w->s->cpu_follow);
        w->yields++;
        n = worker_try_read(w);
    }
    if (n > 0) {
        w->spins++;
        w->hits++;
    }
    return n;
}

/* A leader that waits for a request need not be watched, but one that is SCHED_IDLE may want to read and not run. */
static void session_note_idle(struct worker *w)
{
    if (session_still_leads(w))
        atomic_store(&w->s->busy_since_ns, 0);
}

/* Reads the next request. Returns -EAGAIN if another worker leads by now, another -errno if there will be no more. */
static ssize_t next_request(struct worker *w)
{
    struct session *s = w->s;
    ssize_t n = worker_try_read(w);

    w->yields = 0;
    w->was_waiting = n > 0;
    if (n > 0)
        return n;
    if (n == -EAGAIN && s->can_spin && spin_pays(w))
        n = spin_for_request(w);
    if (n != -EAGAIN)
        return n;
    cpu_follow_end(&s->cpu_follow, &w->affinity);
    session_note_idle(w);
    while (n == -EAGAIN && session_still_leads(w)) {
        struct pollfd fds[2] = { { s->fd, POLLIN, 0 }, { s->stop_fd, POLLIN, 0 } };
        poll(fds, 2, -1);
        if (atomic_load(&s->stopping))
            return -ECANCELED;
        n = worker_try_read(w);
    }
    w->yields = 0;
    worker_count_sleep(w);
    return n;
}

/* ---- serving ---- */

/* After a quiet time no worker watches the leader. */
static void session_call_watcher(struct session *s)
{
    autolock(&s->lock);
    if (s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else if (s->count == 1)
        session_add_worker(s);
}

/* Returns true for requests that may take longer than waking another worker. */
static bool request_takes_long(struct session *s, const struct fuse_in_header *head)
{
    const struct inode *inode;

    switch (head->opcode) {
    case FUSE_SETATTR: /* may copy a file of the base up */
        inode = head->nodeid == FUSE_ROOT_ID ? s->f->root : inode_by_node(s->f, head->nodeid);
        return !inode || !inode_has(inode, INODE_UP);
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_LINK:
    case FUSE_FALLOCATE:
    case FUSE_COPY_FILE_RANGE:
        return true;
    case FUSE_WRITE:
        return head->len > 256 * 1024;
    default:
        return false;
    }
}

/* A page that was changed through a mapping. */
static bool is_writeback(const struct fuse_in_header *head, size_t len)
{
    const struct fuse_write_in *in = (const void *) (head + 1);

    return head->opcode == FUSE_WRITE && len >= sizeof(*head) + sizeof(*in) && (in->write_flags & FUSE_WRITE_CACHE);
}

/* A client sends one request at a time; that its next one is already there only shows that it is quick. FORGET, RELEASE and
 * written-back pages have no process (0), and none waits for them. */
static void worker_count_burst(struct worker *w, const struct fuse_in_header *head)
{
    if (head->pid == 0)
        return;
    w->burst = w->was_waiting && head->pid != w->last_pid ? w->burst + 1 : 0;
    w->last_pid = head->pid;
}

/* Returns true if this worker still leads. */
static bool serve_request(struct worker *w, size_t len)
{
    struct session *s = w->s;
    const struct fuse_in_header *head = (const void *) w->bytes;
    struct fuse_buf buf = { .size = len, .mem = w->bytes };
    int64_t now = clock_now_ns();
    bool leads = session_still_leads(w), writes_back = is_writeback(head, len);
    bool forgets = head->opcode == FUSE_FORGET || head->opcode == FUSE_BATCH_FORGET;

    /* For session_await_writeback(), which needs each request to be in one of the two numbers: this, or forgets_pending. */
    if (writes_back)
        atomic_fetch_add(&s->writing_back, 1);
    if (writes_back || head->opcode == FUSE_READ || head->opcode == FUSE_RELEASE)
        atomic_fetch_add(&s->background, 1);
    if (!forgets)
        atomic_fetch_sub(&s->forgets_pending, 1);
    if (s->slow_opcode && head->opcode == s->slow_opcode)
        usleep(SLOW_US);
    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    if (now - atomic_exchange(&s->last_ns, now) > SESSION_ACTIVE_NS / 2)
        session_call_watcher(s);
    worker_count_burst(w, head);
    if (!leads || s->passes_all || request_takes_long(s, head) ||
        (w->burst > BURST_MIN && atomic_load(&s->serving) + 1 < s->serving_max)) {
        cpu_follow_end(&s->cpu_follow, &w->affinity);
        session_pass_lead(w);
        leads = false;
        atomic_fetch_add(&s->serving, 1);
    } else {
        atomic_store(&s->busy_since_ns, now);
        if (w->burst > BURST_MIN)
            cpu_follow_end(&s->cpu_follow, &w->affinity);
        else if (head->pid != 0)
            cpu_follow_request(&s->cpu_follow, &w->affinity, head->pid, w->was_waiting || w->yields == 1 || w->yields == 2,
                               now);
    }
    fuse_session_process_buf(s->fuse, &buf);
    if (forgets)
        atomic_fetch_sub(&s->forgets_pending, 1);
    if (writes_back)
        atomic_fetch_sub(&s->writing_back, 1);
    if (!leads)
        atomic_fetch_sub(&s->serving, 1);
    if (!leads || !session_still_leads(w))
        return false;
    w->replied_ns = clock_now_ns();
    if (!cpu_follow_is_yielding(&s->cpu_follow, &w->affinity))
        session_note_idle(w);
    return true;
}

static void worker_run(struct session *s)
{
    struct worker w = { .s = s, .bytes = malloc(SESSION_BUFFER_BYTES), .affinity.thread = (int) gettid() };

    session_self = &w;
    while (w.bytes && session_take_lead(&w)) {
        bool leads = true;
        while (leads) {
            ssize_t n = next_request(&w);
            if (n == -EAGAIN)
                break;
            if (n <= 0) {
                if (n == -ENODEV)
                    atomic_store(&s->is_lost, true);
                atomic_store(&s->stopping, true);
                pthread_mutex_lock(&s->lock);
                pthread_cond_broadcast(&s->turn);
                pthread_mutex_unlock(&s->lock);
                break;
            }
            leads = serve_request(&w, (size_t) n);
        }
    }
    cpu_follow_end(&s->cpu_follow, &w.affinity);
    session_self = NULL;
    free(w.bytes);
    reply_free_buffer();
}

/* The last thing that a worker does is to release the lock under which session_run() waits for it. */
void *session_work(void *arg)
{
    struct session *s = arg;

    worker_run(s);
    pthread_mutex_lock(&s->lock);
    s->count--;
    pthread_cond_signal(&s->gone);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* The first worker is the caller's thread, which stays to the end. */
int session_run(struct session *s)
{
    s->count = 1;
    while (!atomic_load(&s->stopping))
        worker_run(s);
    pthread_mutex_lock(&s->lock);
    while (s->count > 1)
        pthread_cond_wait(&s->gone, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* Async-signal-safe. */
void session_stop(struct session *s)
{
    uint64_t one = 1;

    atomic_store(&s->stopping, true);
    if (write(s->stop_fd, &one, sizeof(one)) < 0)
        return;
}

/* ---- life ---- */

int session_new(struct fence *f, unsigned threads, struct session **ret_session)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct session *s = xnew(struct session);
    pthread_condattr_t attr;

    s->f = f;
    s->fd = -1;
    s->workers_max = threads ? threads : WORKERS_DEFAULT;
    s->passes_all = fault_is("side-by-side");
    s->slow_opcode = fault_is("slow-write") ? FUSE_WRITE : fault_is("slow-lookup") ? FUSE_LOOKUP : 0;
    cpu_follow_init(&s->cpu_follow);
    s->can_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    s->serving_max = (int) sysconf(_SC_NPROCESSORS_ONLN) / 2;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->turn, &attr);
    pthread_cond_init(&s->gone, NULL);
    pthread_condattr_destroy(&attr);
    s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fuse_opt_add_arg(&args, "agentfense");
    s->fuse = fuse_session_new(&args, &reply_ops, sizeof(reply_ops), f);
    fuse_opt_free_args(&args);
    if (s->stop_fd < 0 || !s->fuse) {
        session_free(s);
        return -ENOMEM;
    }
    *ret_session = s;
    return 0;
}

void session_free(struct session *s)
{
    if (!s)
        return;
    if (s->fuse)
        fuse_session_destroy(s->fuse);
    /* fuse_session_destroy() closes the device. */
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->turn);
    pthread_cond_destroy(&s->gone);
    free(s);
}

int session_passthrough_fd(const struct session *s)
{
    return s->has_passthrough ? s->fd : -EOPNOTSUPP;
}

bool session_is_lost(const struct session *s)
{
    return atomic_load(&s->is_lost);
}

int session_device(const struct session *s)
{
    return s->fd;
}

uint64_t session_requests(const struct session *s)
{
    return atomic_load(&s->requests);
}

unsigned session_workers(struct session *s)
{
    autolock(&s->lock);
    return s->count;
}
