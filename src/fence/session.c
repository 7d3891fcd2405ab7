#include "fence/session.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/follow.h"
#include "fence/inode.h"
#include "fence/reply.h"

#define GREETING_MS 10000
#define BUFFER_BYTES ((1 << 20) + 4096) /* a write of the largest size and its headers */
#define WORKERS_DEFAULT 8
#define SPIN_NS 60000
#define AWAY_NS 500000
#define WAKE_NS 40000 /* what a sleeper's waking adds to the time until a request is met */
#define STUCK_NS (2 * CLOCK_NS_PER_MS)
#define ACTIVE_NS CLOCK_NS_PER_SEC
#define IDLE_NS (10 * CLOCK_NS_PER_SEC)
#define CATCH_UP_NS CLOCK_NS_PER_SEC
#define CATCH_UP_STEP_US 100
#define SETTLE_NS (200 * CLOCK_NS_PER_MS)

/*
 * Who reads.
 *
 * One worker, the leader, reads requests; the others wait for their turn. A short request the leader serves itself and goes
 * on reading: a single client then talks to a single thread whose caches are warm, and nobody else is woken. Waking an idle CPU
 * is what makes a round trip slow, so after a reply the leader looks for the next request for SPIN_NS before it sleeps, as
 * long as that pays (see spin_pays), and is on the CPU of a client that asks one thing after the other (see follow.c).
 *
 * Leadership is passed on in three cases: before a request that takes long (copying, syncing, moving); when several times in a
 * row a request of another process was waiting already, that is, when several clients ask at once; and when the leader is stuck
 * in a short one for STUCK_NS, or stands back and is kept from running, which a waiting worker notices and takes the lead. A worker
 * that finds it is no leader any more lines up. One whose request has to wait for what another worker does (session_step_aside)
 * does not lead, and does not count among those who may be at work.
 *
 *     waiting --take_lead()--> leading --pass_lead()--> serving --> waiting
 *
 * `term` counts leaders; whoever's number is not the current one does not lead. With nothing to do the leader sleeps in poll()
 * and one other on a condition, the rest have gone home: no CPU is used.
 */
struct session {
    struct fence *f;
    struct fuse_session *fuse;
    int fd;      /* owned: the device, non-blocking */
    int stop_fd; /* owned: an eventfd */
    unsigned most;
    bool can_spin;
    bool passes_all;     /* a test: every request beside the others, whatever the machine */
    int serving_most;    /* workers for a crowd: half of the CPUs, the clients need theirs */
    _Atomic int serving; /* workers busy beside the leader */
    uint32_t offered2;   /* the kernel's flags2 */
    bool has_passthrough;
    _Atomic bool stopping;
    _Atomic bool is_lost; /* someone else unmounted us */
    _Atomic uint64_t requests;
    _Atomic uint64_t init_unique;
    struct follow follow;
    _Atomic int unheard; /* workers who read, or have read a FORGET and are not done with it */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    pthread_cond_t gone; /* a worker ended */
    bool has_leader;     /* guarded by lock, as these */
    bool has_watcher;    /* one of the waiting looks after the leader */
    unsigned count, waiting;
    unsigned aside; /* of `count`: see session_step_aside() */
    _Atomic uint64_t term;
    _Atomic int64_t busy_since_ns; /* of the leader; 0: it reads, or waits for something to read */
    _Atomic int64_t last_ns;       /* when a request came */
};

struct worker {
    struct session *s;
    char *bytes; /* owned */
    uint64_t term;
    bool was_waiting; /* the request was there before we looked */
    unsigned crowd;   /* how many in a row were, and from another process than the one before */
    uint32_t last_pid;
    unsigned spins, hits; /* how often looking for a request would have paid, of how many times */
    unsigned turns;       /* how often it gave way until it met the request; 0: it was not looking for it */
    int64_t replied_ns;   /* when it was done with the one before */
    struct pursuit pursuit;
};

static __thread struct worker *self; /* borrowed; NULL in threads that are none */

/* ---- the device ---- */

static ssize_t never_read(int fd, void *bytes, size_t size, void *userdata)
{
    (void) fd;
    (void) bytes;
    (void) size;
    (void) userdata;
    errno = EAGAIN;
    return -1;
}

/* libfuse 3.14 does not know this flag. With it the kernel does not ask for security.capability before every write: there are
 * no capabilities, suid or sgid bits in here to be dropped. */
static void ask_for_passthrough(struct session *s, struct fuse_init_out *out)
{
    enum { PASSTHROUGH_IN_FLAGS2 = 1 << 5 }; /* FUSE_PASSTHROUGH, bit 37 */

    if (s->f->data_path != FENCE_DATA_PASSTHROUGH || !(s->offered2 & PASSTHROUGH_IN_FLAGS2))
        return;
    out->flags |= FUSE_INIT_EXT;
    out->flags2 |= PASSTHROUGH_IN_FLAGS2;
    out->unused[0] = 1; /* max_stack_depth: the base must not be on a stacked file system itself */
    s->has_passthrough = true;
}

static void amend_init(struct session *s, struct iovec *iov, int count)
{
    const struct fuse_out_header *head = iov[0].iov_base;
    uint64_t unique = atomic_load_explicit(&s->init_unique, memory_order_relaxed);

    if (!unique || count < 2 || head->unique != unique || head->error)
        return;
    if (iov[1].iov_len >= sizeof(struct fuse_init_out)) {
        struct fuse_init_out *out = iov[1].iov_base;
        out->flags |= FUSE_HANDLE_KILLPRIV_V2;
        ask_for_passthrough(s, out);
    }
    atomic_store_explicit(&s->init_unique, 0, memory_order_relaxed);
}

static ssize_t send_reply(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fence *f = userdata;
    struct session *s = f->session;
    amend_init(s, iov, count);
    return writev(fd, iov, count);
}

/* The kernel begins with INIT; answered here, so that what was agreed is known before the first client comes. */
static int greet(struct session *s)
{
    struct pollfd fds = { .fd = s->fd, .events = POLLIN };
    autofree char *bytes = malloc(BUFFER_BYTES);
    struct fuse_buf buf = { .mem = bytes };
    const struct fuse_in_header *head = (const void *) bytes;

    if (!bytes || poll(&fds, 1, GREETING_MS) <= 0)
        return -ETIMEDOUT;
    ssize_t n = read(s->fd, bytes, BUFFER_BYTES);
    if (n < (ssize_t) (sizeof(*head) + sizeof(struct fuse_init_in)) || head->opcode != FUSE_INIT)
        return -EPROTO;
    s->offered2 = ((const struct fuse_init_in *) (bytes + sizeof(*head)))->flags2;
    atomic_store(&s->init_unique, head->unique);
    buf.size = (size_t) n;
    fuse_session_process_buf(s->fuse, &buf);
    return 0;
}

int session_attach(struct session *s, int take_fd)
{
    static const struct fuse_custom_io io = { .read = never_read, .writev = send_reply };
    int r;

    s->fd = take_fd; /* libfuse's from here on */
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    r = fuse_session_custom_io(s->fuse, &io, s->fd);
    return r < 0 ? r : greet(s);
}

/* ---- reading ---- */

static void relax(void)
{
    sched_yield();
}

/* Spinning that seldom meets a request only takes CPU from those who could make one. While it does not pay, sleepers find out
 * whether it would have (see count_sleep). */
static bool spin_pays(struct worker *w)
{
    if (w->spins >= 64) {
        w->spins /= 2;
        w->hits /= 2;
    }
    return (w->hits * 3 >= w->spins || w->spins < 8) && !follow_is_crowded(&w->s->follow, clock_now_ns());
}

static void count_sleep(struct worker *w)
{
    w->spins++;
    w->hits += clock_now_ns() - w->replied_ns < SPIN_NS + WAKE_NS;
}

/* After a request was read serve() says when it is heard. */
static ssize_t try_read(struct worker *w)
{
    atomic_fetch_add(&w->s->unheard, 1);
    for (;;) {
        ssize_t n = read(w->s->fd, w->bytes, BUFFER_BYTES);
        if (n > 0)
            return n;
        /* ENOENT: the caller was killed while we read its request. */
        if (n < 0 && (errno == EINTR || errno == ENOENT))
            continue;
        n = n < 0 ? -errno : 0;
        atomic_fetch_sub(&w->s->unheard, 1);
        return n;
    }
}

/* On a busy CPU whoever gives way is away for a turn of the others', which is long; whoever sleeps comes back as soon as it is woken. */
static int64_t give_way(struct worker *w, int64_t now_ns)
{
    relax();
    int64_t back_ns = clock_now_ns();
    if (back_ns - now_ns > AWAY_NS)
        follow_look_again(&w->s->follow);
    return back_ns;
}

static ssize_t spin(struct worker *w)
{
    int64_t now = clock_now_ns(), until = now + SPIN_NS;
    ssize_t n = -EAGAIN;

    while (n == -EAGAIN && now < until && !atomic_load_explicit(&w->s->stopping, memory_order_relaxed)) {
        now = give_way(w, now);
        w->turns++;
        n = try_read(w);
    }
    if (n > 0) {
        w->spins++;
        w->hits++;
    }
    return n;
}

static bool still_leads(const struct worker *w)
{
    return atomic_load(&w->s->term) == w->term;
}

/* Nobody has to watch a leader that waits for a request; but one that stands back may want to read and not come to it. */
static void be_idle(struct worker *w)
{
    if (still_leads(w))
        atomic_store(&w->s->busy_since_ns, 0);
}

/* The next request; -EAGAIN when another leads by now; another -errno when there will be none. */
static ssize_t next_request(struct worker *w)
{
    struct session *s = w->s;
    ssize_t n = try_read(w);

    w->turns = 0;
    w->was_waiting = n > 0;
    if (n > 0)
        return n;
    if (n == -EAGAIN && s->can_spin && spin_pays(w))
        n = spin(w);
    if (n != -EAGAIN)
        return n;
    follow_end(&s->follow, &w->pursuit);
    be_idle(w);
    while (n == -EAGAIN && still_leads(w)) {
        struct pollfd fds[2] = { { s->fd, POLLIN, 0 }, { s->stop_fd, POLLIN, 0 } };
        poll(fds, 2, -1);
        if (atomic_load(&s->stopping))
            return -ECANCELED;
        n = try_read(w);
    }
    w->turns = 0;
    count_sleep(w);
    return n;
}

/* ---- the lead ---- */

/* While there is work, one of those who wait wakes up now and then to see whether the leader is stuck. The others sleep until
 * they are called, and go home when that does not happen for long. True: time to go. */
static bool wait_turn(struct session *s)
{
    int64_t now = clock_now_ns();
    bool watches = !s->has_watcher, is_active = now - atomic_load(&s->last_ns) < ACTIVE_NS;
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

static bool leader_is_stuck(struct session *s)
{
    int64_t since = atomic_load(&s->busy_since_ns);

    return since && clock_now_ns() - since > STUCK_NS;
}

/* False: time to end. */
static bool take_lead(struct worker *w)
{
    struct session *s = w->s;

    autolock(&s->lock);
    while (!atomic_load(&s->stopping) && s->has_leader && !leader_is_stuck(s)) {
        if (wait_turn(s))
            return false;
    }
    if (atomic_load(&s->stopping))
        return false;
    if (s->has_leader)
        follow_rescue(&s->follow, clock_now_ns());
    s->has_leader = true;
    atomic_store(&s->busy_since_ns, 0);
    w->term = atomic_fetch_add(&s->term, 1) + 1;
    w->crowd = 0;
    return true;
}

static void *work_detached(void *arg);

static void add_worker(struct session *s)
{
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t thread;

    if (s->count - s->aside >= s->most)
        return;
    if (self)
        follow_end(&s->follow, &self->pursuit); /* a thread inherits that */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work_detached, s) == 0)
        s->count++;
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void pass_lead(struct worker *w)
{
    struct session *s = w->s;

    autolock(&s->lock);
    if (atomic_load(&s->term) != w->term)
        return;
    s->has_leader = false;
    if (s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else
        add_worker(s);
}

/* ---- stepping aside ---- */

bool session_step_aside(struct session *s)
{
    if (!self)
        return false;
    follow_end(&s->follow, &self->pursuit);
    autolock(&s->lock);
    if (s->aside >= s->most)
        return false;
    s->aside++;
    if (atomic_load(&s->term) == self->term)
        s->has_leader = false;
    self->term = 0; /* whoever leads now, we do not */
    if (!s->has_leader && s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else if (!s->has_leader)
        add_worker(s);
    return true;
}

void session_step_back(struct session *s)
{
    autolock(&s->lock);
    s->aside--;
}

/* While clients keep the device full it is never seen empty; but of FEW requests some are FORGETs then, if there are any. */
static bool is_caught_up(struct session *s, uint64_t since)
{
    enum { FEW = 64 };
    struct pollfd fds = { .fd = s->fd, .events = POLLIN };
    bool is_read = poll(&fds, 1, 0) == 0 || atomic_load(&s->requests) - since > FEW;

    /* In this order: what is not in the device any more is in somebody's hands. */
    return is_read && atomic_load(&s->unheard) == 0;
}

/* The kernel has queued a FORGET when the system call returns that made it forget, but hands out later requests first now and
 * then. */
void session_catch_up(struct session *s)
{
    int64_t until = clock_now_ns() + CATCH_UP_NS;
    uint64_t since = atomic_load(&s->requests);

    if (!session_step_aside(s))
        return;
    while (!is_caught_up(s, since) && clock_now_ns() < until && !atomic_load(&s->stopping))
        usleep(CATCH_UP_STEP_US);
    session_step_back(s);
}

static bool is_idle(struct session *s)
{
    struct pollfd p = { .fd = s->fd, .events = POLLIN };

    return poll(&p, 1, 0) == 0 && atomic_load(&s->serving) == 0 && atomic_load(&s->busy_since_ns) == 0;
}

/* Twice, because a request that was read is not yet at work for a moment. */
void session_settle(struct session *s)
{
    int64_t until = clock_now_ns() + SETTLE_NS;

    for (int in_a_row = 0; in_a_row < 2 && clock_now_ns() < until && !atomic_load(&s->stopping);) {
        in_a_row = is_idle(s) ? in_a_row + 1 : 0;
        if (in_a_row == 0)
            usleep(CATCH_UP_STEP_US);
    }
}

/* ---- serving ---- */

/* After a quiet time nobody watches the leader. */
static void call_watcher(struct session *s)
{
    autolock(&s->lock);
    if (s->waiting > 0)
        pthread_cond_signal(&s->turn);
    else if (s->count == 1)
        add_worker(s);
}

static bool has_content_here(struct session *s, uint64_t node)
{
    const struct inode *inode = node == FUSE_ROOT_ID ? s->f->root : inode_by_node(s->f, node);

    return inode && inode_has(inode, INODE_UP);
}

/* What may take longer than waking another worker. */
static bool takes_long(struct session *s, const struct fuse_in_header *head)
{
    switch (head->opcode) {
    case FUSE_SETATTR: /* copies a file of the base */
        return !has_content_here(s, head->nodeid);
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

static bool is_forget(const struct fuse_in_header *head)
{
    return head->opcode == FUSE_FORGET || head->opcode == FUSE_BATCH_FORGET;
}

/* One client asks one thing at a time; that its next request is there when we look only says that it was quick. FORGET, RELEASE and
 * pages that are written back are nobody's (0) and nobody waits for them. */
static void count_crowd(struct worker *w, const struct fuse_in_header *head)
{
    if (head->pid == 0)
        return;
    w->crowd = w->was_waiting && head->pid != w->last_pid ? w->crowd + 1 : 0;
    w->last_pid = head->pid;
}

/* True: we still lead. */
static bool serve(struct worker *w, size_t len)
{
    struct session *s = w->s;
    const struct fuse_in_header *head = (const void *) w->bytes;
    struct fuse_buf buf = { .size = len, .mem = w->bytes };
    int64_t now = clock_now_ns();
    bool leads = still_leads(w), forgets = is_forget(head);

    if (!forgets)
        atomic_fetch_sub(&s->unheard, 1);
    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    if (now - atomic_exchange(&s->last_ns, now) > ACTIVE_NS / 2)
        call_watcher(s);
    count_crowd(w, head);
    if (!leads || s->passes_all || takes_long(s, head) || (w->crowd > 3 && atomic_load(&s->serving) + 1 < s->serving_most)) {
        follow_end(&s->follow, &w->pursuit);
        pass_lead(w);
        leads = false;
        atomic_fetch_add(&s->serving, 1);
    } else {
        atomic_store(&s->busy_since_ns, now);
        if (head->pid != 0)
            follow_request(&s->follow, &w->pursuit, head->pid, w->was_waiting || w->turns == 1 || w->turns == 2, now);
    }
    fuse_session_process_buf(s->fuse, &buf);
    if (forgets)
        atomic_fetch_sub(&s->unheard, 1);
    if (!leads)
        atomic_fetch_sub(&s->serving, 1);
    if (!leads || !still_leads(w))
        return false;
    w->replied_ns = clock_now_ns();
    if (!follow_is_behind(&s->follow, &w->pursuit))
        be_idle(w);
    return true;
}

static void end_all(struct session *s)
{
    atomic_store(&s->stopping, true);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

static void work(struct session *s)
{
    struct worker w = { .s = s, .bytes = malloc(BUFFER_BYTES), .pursuit.thread = (int) gettid() };

    self = &w;
    while (w.bytes && take_lead(&w)) {
        bool leads = true;
        while (leads) {
            ssize_t n = next_request(&w);
            if (n == -EAGAIN)
                break;
            if (n <= 0) {
                if (n == -ENODEV)
                    atomic_store(&w.s->is_lost, true);
                end_all(w.s);
                break;
            }
            leads = serve(&w, (size_t) n);
        }
    }
    follow_end(&s->follow, &w.pursuit);
    self = NULL;
    free(w.bytes);
    reply_free_buffer();
}

/* The last thing a worker does is let go of the lock under which session_run() waits for it. */
static void *work_detached(void *arg)
{
    struct session *s = arg;

    work(s);
    pthread_mutex_lock(&s->lock);
    s->count--;
    pthread_cond_signal(&s->gone);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* The first worker is the caller's thread; it stays to the end. */
int session_run(struct session *s)
{
    s->count = 1;
    while (!atomic_load(&s->stopping))
        work(s);
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
    s->most = threads ? threads : WORKERS_DEFAULT;
    s->passes_all = fault_is("side-by-side");
    follow_init(&s->follow);
    s->can_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    s->serving_most = (int) sysconf(_SC_NPROCESSORS_ONLN) / 2;
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
    /* libfuse closes the descriptor it was given. */
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

unsigned session_workers(const struct session *s)
{
    return s->count;
}
