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
#include "fence/reply.h"

#define BUFFER_BYTES ((1 << 20) + 4096) /* a write of the largest size and its headers */
#define WORKERS_DEFAULT 8
#define SPIN_NS 60000
#define STUCK_NS (2 * CLOCK_NS_PER_MS)
#define ACTIVE_NS CLOCK_NS_PER_SEC

/*
 * Who reads.
 *
 * One worker, the leader, reads requests; the others wait for their turn. A short request the leader serves itself and goes
 * on reading: a single client then talks to a single thread whose caches are warm, and nobody else is woken. Waking an idle CPU
 * is what makes a round trip slow, so after a reply the leader looks for the next request for SPIN_NS before it sleeps, as
 * long as that pays (see spin_pays).
 *
 * Leadership is passed on in three cases: before a request that takes long (copying, syncing, moving); when the next request was
 * already waiting several times in a row, that is, when several clients ask at once; and when the leader is stuck in a short
 * one for STUCK_NS, which a waiting worker notices and takes the lead. A worker that finds it is no leader any more lines up.
 *
 *     waiting --take_lead()--> leading --pass_lead()--> serving --> waiting
 *
 * `term` counts leaders; whoever's number is not the current one does not lead. With nothing to do the leader sleeps in poll()
 * and the others on a condition: no CPU is used.
 */
struct session {
    struct fence *f;
    struct fuse_session *fuse;
    int fd;      /* owned: the device, non-blocking */
    int stop_fd; /* owned: an eventfd */
    unsigned most;
    bool can_spin;
    _Atomic bool stopping;
    _Atomic uint64_t requests;
    _Atomic uint64_t init_unique;

    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool has_leader; /* guarded by lock, as these */
    unsigned count, waiting;
    pthread_t *threads;
    size_t thread_count, thread_cap;
    _Atomic uint64_t term;
    _Atomic int64_t busy_since_ns; /* of the leader; 0: it reads */
    _Atomic int64_t last_ns;       /* when a request came */
};

struct worker {
    struct session *s;
    char *bytes; /* owned */
    uint64_t term;
    unsigned backlog; /* requests in a row that were there before we looked */
    unsigned spins, hits;
};

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
static void amend_init(struct session *s, struct iovec *iov, int count)
{
    const struct fuse_out_header *head = iov[0].iov_base;
    uint64_t unique = atomic_load_explicit(&s->init_unique, memory_order_relaxed);

    if (!unique || count < 2 || head->unique != unique || head->error)
        return;
    if (iov[1].iov_len >= offsetof(struct fuse_init_out, flags) + sizeof(uint32_t))
        ((struct fuse_init_out *) iov[1].iov_base)->flags |= FUSE_HANDLE_KILLPRIV_V2;
    atomic_store_explicit(&s->init_unique, 0, memory_order_relaxed);
}

static ssize_t send_reply(int fd, struct iovec *iov, int count, void *userdata)
{
    struct fence *f = userdata;

    amend_init(f->session, iov, count);
    return writev(fd, iov, count);
}

int session_attach(struct session *s, int take_fd)
{
    static const struct fuse_custom_io io = { .read = never_read, .writev = send_reply };
    int r;

    s->fd = take_fd;
    if (fcntl(s->fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    r = fuse_session_custom_io(s->fuse, &io, s->fd);
    return r < 0 ? r : 0;
}

/* ---- reading ---- */

static void relax(void)
{
    sched_yield();
}

/* Spinning that seldom meets a request only takes CPU from those who could make one. */
static bool spin_pays(struct worker *w)
{
    if (w->spins >= 64) {
        w->spins /= 2;
        w->hits /= 2;
    }
    return w->hits * 3 >= w->spins || w->spins < 8 || w->spins % 16 == 0;
}

static ssize_t try_read(struct worker *w)
{
    for (;;) {
        ssize_t n = read(w->s->fd, w->bytes, BUFFER_BYTES);
        if (n >= 0)
            return n;
        /* ENOENT: the caller was killed while we read its request. */
        if (errno != EINTR && errno != ENOENT)
            return -errno;
    }
}

static ssize_t spin(struct worker *w)
{
    int64_t until = clock_now_ns() + SPIN_NS;
    ssize_t n = -EAGAIN;

    w->spins++;
    while (n == -EAGAIN && clock_now_ns() < until && !atomic_load_explicit(&w->s->stopping, memory_order_relaxed)) {
        relax();
        n = try_read(w);
    }
    w->hits += n > 0;
    return n;
}

/* The next request, or -errno when there will be none. Only the leader is here. */
static ssize_t next_request(struct worker *w)
{
    struct session *s = w->s;
    ssize_t n = try_read(w);

    if (n > 0) {
        w->backlog++;
        return n;
    }
    w->backlog = 0;
    if (n == -EAGAIN && s->can_spin && spin_pays(w))
        n = spin(w);
    else
        w->spins++;
    while (n == -EAGAIN) {
        struct pollfd fds[2] = { { s->fd, POLLIN, 0 }, { s->stop_fd, POLLIN, 0 } };
        poll(fds, 2, -1);
        if (atomic_load(&s->stopping))
            return -ECANCELED;
        n = try_read(w);
    }
    return n;
}

/* ---- the lead ---- */

static void wait_turn(struct session *s)
{
    int64_t now = clock_now_ns();
    struct timespec until;

    s->waiting++;
    if (now - atomic_load(&s->last_ns) < ACTIVE_NS) {
        until = clock_timespec_of_ns(now + STUCK_NS);
        pthread_cond_timedwait(&s->turn, &s->lock, &until);
    } else {
        pthread_cond_wait(&s->turn, &s->lock);
    }
    s->waiting--;
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
    while (!atomic_load(&s->stopping) && s->has_leader && !leader_is_stuck(s))
        wait_turn(s);
    if (atomic_load(&s->stopping))
        return false;
    s->has_leader = true;
    atomic_store(&s->busy_since_ns, 0);
    w->term = atomic_fetch_add(&s->term, 1) + 1;
    w->backlog = 0;
    return true;
}

static void *work(void *arg);

static void add_worker(struct session *s)
{
    sigset_t all, old;
    pthread_t thread;

    if (s->count >= s->most)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, work, s) == 0) {
        vec_room(&s->threads, &s->thread_cap, s->thread_count);
        s->threads[s->thread_count++] = thread;
        s->count++;
    }
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

/* What may take longer than waking another worker. */
static bool takes_long(const struct fuse_in_header *head)
{
    switch (head->opcode) {
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
    case FUSE_SETATTR:
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

/* True: we still lead. */
static bool serve(struct worker *w, size_t len)
{
    struct session *s = w->s;
    const struct fuse_in_header *head = (const void *) w->bytes;
    struct fuse_buf buf = { .size = len, .mem = w->bytes };
    int64_t now = clock_now_ns();
    bool leads = true;

    atomic_fetch_add_explicit(&s->requests, 1, memory_order_relaxed);
    atomic_store(&s->last_ns, now);
    if (head->opcode == FUSE_INIT)
        atomic_store(&s->init_unique, head->unique);
    if (is_forget(head)) {
        w->backlog = 0;
    } else if (takes_long(head) || w->backlog > 2) {
        pass_lead(w);
        leads = false;
    } else {
        atomic_store(&s->busy_since_ns, now);
    }
    fuse_session_process_buf(s->fuse, &buf);
    if (!leads)
        return false;
    autolock(&s->lock);
    if (atomic_load(&s->term) != w->term)
        return false;
    atomic_store(&s->busy_since_ns, 0);
    return true;
}

static void end_all(struct session *s)
{
    atomic_store(&s->stopping, true);
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

static void *work(void *arg)
{
    struct worker w = { .s = arg, .bytes = malloc(BUFFER_BYTES) };

    while (w.bytes && take_lead(&w)) {
        bool leads = true;
        while (leads) {
            ssize_t n = next_request(&w);
            if (n <= 0) {
                end_all(w.s);
                break;
            }
            leads = serve(&w, (size_t) n);
        }
    }
    free(w.bytes);
    reply_free_buffer();
    return NULL;
}

int session_run(struct session *s)
{
    s->count = 1;
    work(s);
    for (;;) {
        pthread_t thread;
        pthread_mutex_lock(&s->lock);
        bool more = s->thread_count > 0;
        if (more)
            thread = s->threads[--s->thread_count];
        pthread_mutex_unlock(&s->lock);
        if (!more)
            return 0;
        pthread_join(thread, NULL);
    }
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
    s->can_spin = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->turn, &attr);
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
    free(s->threads);
    free(s);
}

uint64_t session_requests(const struct session *s)
{
    return atomic_load(&s->requests);
}

unsigned session_workers(const struct session *s)
{
    return s->count;
}

/* ---- messages of our own ---- */

static int notify(struct session *s, int32_t code, struct iovec *parts, int count)
{
    struct fuse_out_header head = { .len = sizeof(head), .error = code };
    struct iovec iov[4] = { { &head, sizeof(head) } };

    for (int i = 0; i < count; i++) {
        iov[i + 1] = parts[i];
        head.len += (uint32_t) parts[i].iov_len;
    }
    return writev(s->fd, iov, count + 1) < 0 ? -errno : 0;
}

int session_forget_entry(struct session *s, struct inode *dir, const char *name, bool only_expire)
{
    struct fuse_notify_inval_entry_out out = {
        .parent = reply_node_of(s->f, dir),
        .namelen = (uint32_t) strlen(name),
        .flags = only_expire ? FUSE_EXPIRE_ONLY : 0,
    };

    return notify(s, FUSE_NOTIFY_INVAL_ENTRY, (struct iovec[]) { { &out, sizeof(out) }, { (void *) (uintptr_t) name, out.namelen + 1 } },
                  2);
}

static int forget_inode(struct session *s, struct inode *inode, int64_t offset)
{
    struct fuse_notify_inval_inode_out out = { .ino = reply_node_of(s->f, inode), .off = offset };

    return notify(s, FUSE_NOTIFY_INVAL_INODE, &(struct iovec) { &out, sizeof(out) }, 1);
}

int session_forget_pages(struct session *s, struct inode *inode)
{
    return forget_inode(s, inode, 0);
}

int session_forget_attrs(struct session *s, struct inode *inode)
{
    return forget_inode(s, inode, -1);
}

/* Every name the kernel remembers is asked for again at its next use, negative ones too; nothing is dropped, so a process that
 * stands in a directory stays there. */
int session_forget_all_names(struct session *s)
{
    enum { NOTIFY_INC_EPOCH = 8 };

    return notify(s, NOTIFY_INC_EPOCH, NULL, 0);
}
