#include "fence/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fence/caller_syscall.h"
#include "fence/inode.h"

#define RING 256
#define KINDS 512 /* refusals remembered for the rate limit; a new one replaces that in its slot */
#define SYSCALL_READS_PER_SECOND 500

struct audit_event {
    struct fence_denial denial;
    char *path; /* owned */
    char detail[32];
    char exec[FENCE_EXEC_MAX];
};

struct audit_rate {
    uint64_t key;
    int64_t reported_ns;
    uint64_t repeats;
};

struct audit {
    struct fence *f;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stopping;
    struct audit_event ring[RING]; /* guarded by lock, as are all fields below */
    size_t head, count;
    struct audit_rate kinds[KINDS];
    uint64_t dropped;
    int64_t syscall_second;
    unsigned syscall_reads;
};

struct audit *audit_new(struct fence *f)
{
    struct audit *a = xnew(struct audit);

    a->f = f;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wake, NULL);
    return a;
}

static bool audit_pop(struct audit *a, struct audit_event *ret)
{
    if (a->count == 0)
        return false;
    *ret = a->ring[a->head];
    a->head = (a->head + 1) % RING;
    a->count--;
    return true;
}

static void *audit_thread_main(void *arg)
{
    struct audit *a = arg;
    struct audit_event event;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        if (!audit_pop(a, &event)) {
            if (a->stopping)
                break;
            pthread_cond_wait(&a->wake, &a->lock);
            continue;
        }
        pthread_mutex_unlock(&a->lock);
        event.denial.path = event.path;
        event.denial.detail = *event.detail ? event.detail : NULL;
        event.denial.exec = event.exec;
        a->f->on_denial(&event.denial, a->f->cookie);
        free(event.path);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

int audit_start(struct audit *a)
{
    int r;

    if (!a->f->on_denial)
        return 0;
    r = pthread_create(&a->thread, NULL, audit_thread_main, a);
    a->running = r == 0;
    return -r;
}

void audit_stop(struct audit *a)
{
    if (!a || !a->running)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    a->running = false;
}

void audit_free(struct audit *a)
{
    struct audit_event event;

    if (!a)
        return;
    audit_stop(a);
    while (audit_pop(a, &event))
        free(event.path);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->wake);
    free(a);
}

uint64_t audit_dropped(struct audit *a)
{
    autolock(&a->lock);
    return a->dropped;
}

/* Returns false if the same was reported less than a second ago. */
static bool audit_is_due(struct audit *a, uint64_t key, int64_t now_ns, uint64_t *ret_repeats)
{
    autolock(&a->lock);
    struct audit_rate *kind = &a->kinds[key % KINDS];

    if (kind->key != key)
        *kind = (struct audit_rate){ .key = key };
    else if (now_ns - kind->reported_ns < CLOCK_NS_PER_SEC) {
        kind->repeats++;
        return false;
    }
    *ret_repeats = kind->repeats;
    kind->repeats = 0;
    kind->reported_ns = now_ns;
    return true;
}

static void audit_push(struct audit *a, const struct audit_event *event)
{
    pthread_mutex_lock(&a->lock);
    bool fits = a->count < RING && a->running;
    if (fits)
        a->ring[(a->head + a->count++) % RING] = *event;
    else
        a->dropped++;
    pthread_cond_signal(&a->wake);
    pthread_mutex_unlock(&a->lock);
    if (!fits)
        free(event->path);
}

static bool may_read_syscall(struct audit *a, int64_t now_ns)
{
    autolock(&a->lock);
    if (now_ns / CLOCK_NS_PER_SEC != a->syscall_second) {
        a->syscall_second = now_ns / CLOCK_NS_PER_SEC;
        a->syscall_reads = 0;
    }
    return a->syscall_reads++ < SYSCALL_READS_PER_SECOND;
}

static void audit_report(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                         pid_t pid, const char *detail)
{
    autodone(buf) struct buf path = BUF_EMPTY, full = BUF_EMPTY;
    /* With a secret: otherwise a process could find a name with the same hash, be refused it first, and so hide the refusal
     * that matters. */
    uint64_t key = inode_hash(f->hash_secret ^ (dir->ino + op), name ? name : "", name ? strlen(name) : 0);
    struct audit_event event = { 0 };

    if (!f->audit || !f->on_denial || !audit_is_due(f->audit, key, clock_now_ns(), &event.denial.repeats))
        return;
    tree_path_of(f, dir, name, &path);
    buf_addf(&full, "/");
    buf_add(&full, path.data, path.len);
    event.denial.wall_ns = clock_wall_ns();
    event.denial.op = op;
    event.denial.level = level;
    event.denial.error = error;
    event.denial.pid = pid;
    /* The caller still waits for the answer: later it may have gone. */
    if (f->exec_of && pid > 0 && may_read_syscall(f->audit, clock_now_ns()))
        f->exec_of(pid, event.exec, f->cookie);
    event.path = buf_dup_take(&full);
    if (detail)
        snprintf(event.detail, sizeof(event.detail), "%s", detail);
    audit_push(f->audit, &event);
}

void audit_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                  const struct op_caller *who)
{
    audit_report(f, op, dir, name, level, error, who ? who->pid : 0, NULL);
}

/* System calls that open a file or test access to it, and the index of their flags among the arguments. */
static const struct {
    long number;
    const char *name;
    int flags_at; /* -1: always for writing or executing */
    bool is_access;
} opening_syscalls[] = {
    { SYS_openat, "openat", 2, false },
#ifdef SYS_open
    { SYS_open, "open", 1, false },          { SYS_creat, "creat", -1, false },         { SYS_access, "access", 1, true },
#endif
#ifdef SYS_openat2
    { SYS_openat2, "openat2", -1, false },
#endif
    { SYS_faccessat, "faccessat", 2, true }, { SYS_faccessat2, "faccessat2", 2, true }, { SYS_truncate, "truncate", -1, false },
    { SYS_execve, "execve", -1, false },     { SYS_execveat, "execveat", -1, false },
};

/* System calls that create or remove a name, which a directory without `w` refuses. */
static const struct {
    long number;
    const char *name;
    enum policy_op op;
} name_calls[] = {
    { SYS_mkdirat, "mkdirat", POLICY_OP_MKDIR },    { SYS_mknodat, "mknodat", POLICY_OP_MKNOD },
    { SYS_unlinkat, "unlinkat", POLICY_OP_UNLINK }, { SYS_renameat2, "renameat2", POLICY_OP_RENAME_TO },
    { SYS_linkat, "linkat", POLICY_OP_LINK_TO },    { SYS_symlinkat, "symlinkat", POLICY_OP_SYMLINK },
#ifdef SYS_mkdir
    { SYS_mkdir, "mkdir", POLICY_OP_MKDIR },        { SYS_mknod, "mknod", POLICY_OP_MKNOD },
    { SYS_unlink, "unlink", POLICY_OP_UNLINK },     { SYS_rmdir, "rmdir", POLICY_OP_RMDIR },
    { SYS_rename, "rename", POLICY_OP_RENAME_TO },  { SYS_renameat, "renameat", POLICY_OP_RENAME_TO },
    { SYS_link, "link", POLICY_OP_LINK_TO },        { SYS_symlink, "symlink", POLICY_OP_SYMLINK },
    { SYS_creat, "creat", POLICY_OP_MKNOD },
#endif
};

/* Returns true if the level refuses what the call wants. */
static bool syscall_is_refused(enum level level, bool is_access, unsigned long flags, bool flags_known)
{
    bool writes = is_access ? flags & W_OK : !flags_known || (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);

    if (!is_access && flags_known && (flags & O_PATH))
        return false;
    if (is_access && flags == F_OK)
        return false;
    return required_level_check(writes ? POLICY_OP_WRITE : POLICY_OP_READ, level, false) < 0;
}

static void audit_report_by_syscall(struct fence *f, enum policy_op op, struct inode *inode, enum level level, pid_t pid,
                                    const char *call)
{
    atomic_fetch_add_explicit(&f->denied[op], 1, memory_order_relaxed);
    audit_report(f, op, inode, NULL, level, EACCES, pid, call);
}

/* For a directory in which no name can be written. The name in question is unknown. */
static void find_syscall_in_dir(struct fence *f, struct inode *dir, enum level level, pid_t pid,
                                const struct caller_syscall *call)
{
    bool creates = (call->number == SYS_openat && (call->args[2] & O_CREAT));
#ifdef SYS_open
    creates |= call->number == SYS_open && (call->args[1] & O_CREAT);
#endif

    if (creates)
        audit_report_by_syscall(f, POLICY_OP_MKNOD, dir, level, pid, "open");
    for (size_t i = 0; i < ARRAY_LEN(name_calls); i++) {
        if (name_calls[i].number == call->number)
            audit_report_by_syscall(f, name_calls[i].op, dir, level, pid, name_calls[i].name);
    }
}

static bool refuses_writing(struct fence *f, struct inode *inode, enum level level)
{
    if (!inode_is_dir(inode))
        return required_level_check(POLICY_OP_WRITE, level, false) < 0;
    autoptr(match_state) match = inode_dup_match_state(f, inode);
    return match && !ruleset_may_write_child(f->rules, match);
}

void audit_getattr(struct fence *f, struct inode *inode, const struct op_caller *who)
{
    enum level level = (enum level) atomic_load_explicit(&inode->level, memory_order_relaxed);
    struct caller_syscall call;

    if (!f->on_denial || who->pid <= 0 || !refuses_writing(f, inode, level))
        return;
    if (!may_read_syscall(f->audit, clock_now_ns()) || !caller_syscall_get(who->pid, &call))
        return;
    if (inode_is_dir(inode)) {
        find_syscall_in_dir(f, inode, level, who->pid, &call);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(opening_syscalls); i++) {
        if (opening_syscalls[i].number != call.number)
            continue;
        int at = opening_syscalls[i].flags_at;
        if (!syscall_is_refused(level, opening_syscalls[i].is_access, at < 0 ? 0 : call.args[at], at >= 0))
            return;
        enum policy_op op = required_level_check(POLICY_OP_READ, level, false) < 0 ? POLICY_OP_READ : POLICY_OP_WRITE;
        audit_report_by_syscall(f, op, inode, level, who->pid, opening_syscalls[i].name);
        return;
    }
}
