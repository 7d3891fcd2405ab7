/*
 * What the files of the fence share.
 *
 * Lock order. Take them in this order, release them before replying:
 *   0. fence.quiesce_lock     one hand-over or hold at a time
 *   1. fence.gate        read side: every operation, for its whole length; write side: swapping rules, handing over. No
 *                        notification to the kernel under it: the kernel may hold a directory that a client keeps while it
 *                        waits for the gate.
 *   2. fence.moves       one rename between directories, or of a directory, at a time
 *   3. file stripe       copy-up of a file, quota of a write (STRIPES mutexes, chosen by inode)
 *   4. dir stripe(s)     what the delta holds under a directory; two are taken in the order of their index
 *   5. fence.names       the tree in memory. No system call under it
 *   6. handle, passage, quota, audit, change log, hidden link, journal, ino_map, base_origin, read_log, poll, casefold locks: leaves
 * 3 and 4 serialise single files and directories and are held across backing calls: that is what they are for.
 */
#pragma once

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "base/fault.h"
#include "fence/fence.h"

#define STRIPES 64
#define DEPTH_MAX 1000 /* directories below one another; deeper ones are -ENAMETOOLONG */

enum layer_kind { LAYER_BASE, LAYER_DELTA, LAYERS };

/* A name in a directory. Exists while the kernel knows its inode, or while the delta holds something under that name. */
enum {
    ENTRY_UP = 1,       /* the delta has a file, directory, ... of that name */
    ENTRY_WHITEOUT = 2, /* the delta says the name is deleted */
};

struct entry {
    struct entry *bucket_next; /* guarded by fence.names, as all of this */
    struct entry *name_next;   /* further names of the same inode */
    struct inode *parent;      /* borrowed: a directory lives as long as it has entries */
    struct inode *inode;       /* NULL while not loaded */
    struct match_state *match; /* owned reference */
    uint64_t ino;
    uint32_t hash;
    uint8_t flags;
    uint8_t type; /* DT_*, 0 while not known */
    uint8_t len;
    char name[]; /* ends with a NUL */
};

enum {
    INODE_BASE = 1,    /* a file: its content is in the base. A directory: entries of the base show through */
    INODE_UP = 2,      /* a file: its content is in the delta. A directory: the delta has one to hold entries */
    INODE_DEAD = 4,    /* no name left; `last_path` instead of `names` */
    INODE_PASSAGE = 8, /* a hidden directory that is shown */
    INODE_LINKED = 16, /* had several names: stays in memory so that they keep meeting in one inode */
    INODE_FRESH = 32,  /* its name was not synced yet */
    INODE_FREED = 64,
    INODE_ORPHAN = 128,        /* dead, and its content is kept by a name in work instead of a pinned handle */
    INODE_UNWATCHED = 256,     /* a directory of a live base that is not watched (unwatched.h) */
    INODE_STALE = 512,         /* the kernel may have old pages: they go before anything new is told */
    INODE_POLLED = 1024,       /* the poller visits it */
    INODE_MULTILINK = 16384,   /* a file of the base that had several names when it was looked up: see hidden_link.h */
    INODE_LISTED_PLAIN = 8192, /* a directory whose files were listed without attributes: see readdirplus.h */
    INODE_NO_NODE = 32768,     /* a dead directory that the kernel has not heard of: `node` is another's by now */
};

struct inode {
    uint64_t lookups;            /* references of the kernel; guarded by fence.names */
    uint32_t refs;               /* ours; likewise */
    uint32_t log_mark;           /* mark of the change log line for its last change, so that a run of writes is one; likewise */
    uint64_t ino;                /* as shown */
    _Atomic uint64_t node;       /* as the kernel names it; set under fence.names, and const from the first lookup on */
    _Atomic uint64_t base_stamp; /* what the base had when we looked last (base_stamp.h) */
    _Atomic uint16_t flags;
    _Atomic uint16_t mode; /* type and permission bits, without suid, and sgid only of directories in the delta */
    _Atomic uint8_t level; /* the lowest of its names' */
    _Atomic uint16_t depth;
    union {
        struct entry *names;        /* guarded by fence.names */
        char *last_path;            /* INODE_DEAD: where it was last, no leading slash; owned */
        struct inode *next_to_free; /* INODE_FREED: waits in fence.to_free */
    };
    struct handle *handles[LAYERS]; /* guarded by handles.lock */
    struct dir *dir;                /* owned; NULL unless a directory */
};

/* The part of an inode that only directories have. */
struct dir {
    struct entry **buckets; /* owned; guarded by fence.names */
    uint32_t bucket_count;  /* a power of two or 0 */
    uint32_t entry_count;
    uint64_t version;                     /* counts changes of the visible listing; guarded by fence.names */
    struct dir_listing *listing;          /* owned reference, the last one built; likewise */
    int64_t atime_ns, mtime_ns, ctime_ns; /* guarded by fence.names */
    int64_t moved_ns;                     /* when it was last renamed, since the mount; likewise */
    /* Of a blind one: when it was compared with the base, what the base's was then, and which visible names it had. */
    _Atomic int64_t checked_ms;
    uint64_t names_stamp, names_digest; /* guarded by fence.names; names_stamp 0: not known */
};

/* An open backing file or directory, shared by all who use the inode. See handle.c. */
struct handle {
    struct handle *newer, *older; /* guarded by handles.lock, as the rest but fd */
    struct inode *inode;          /* borrowed: NULL once taken out of the cache */
    int fd;                       /* owned; const */
    uint32_t refs;
    uint8_t layer;
    bool pinned;                         /* nothing else keeps the file: it has no name any more */
    _Atomic(struct casefold *) casefold; /* owned. Of a directory of the base: how it compares names; NULL: not known yet */
    _Atomic uint64_t read_stamp;         /* as it was last noted (read_log.h) */
};

struct handles {
    pthread_mutex_t lock;
    struct handle *newest, *oldest;
    size_t count, limit, pinned;
};

struct quota {
    pthread_mutex_t lock;
    uint64_t bytes, bytes_max; /* 0: no limit */
    uint64_t dead_bytes;       /* part of `bytes`: files without a name that are still open */
    uint64_t inodes, inodes_max;
};

struct op_caller {
    pid_t pid;
    uid_t uid;
};

/* The answer to a request about one inode; nothing owned. inode NULL: a negative entry. */
struct entry_answer {
    struct inode *inode;
    struct stat st;
    double entry_timeout_s;
    double attr_timeout_s;
    bool is_stale; /* to be told when the kernel has dropped the inode's pages */
};

struct fence {
    struct ruleset *rules; /* owned reference; guarded by gate */
    char *base_path, *delta_path, *mount_point;
    uid_t uid;
    gid_t gid;
    bool is_live;
    bool syncs_out;                                  /* const */
    bool is_new;                                     /* the delta was made just now */
    bool made_delta;                                 /* ... with its directory, by us: ours to take back */
    bool is_refused;                                 /* nobody is going to be served */
    _Atomic bool is_unsynced;                        /* the delta may not be on disk yet */
    int base_fd, data_fd, work_fd, meta_fd, lock_fd; /* owned */
    int64_t version_ns;
    fence_denial_fn on_denial;
    fence_exec_fn exec_of;
    void *cookie;

    pthread_rwlock_t gate;
    pthread_mutex_t moves;
    pthread_mutex_t opaque; /* 4b: the one opaque directory being made in work */
    pthread_mutex_t file_stripes[STRIPES];
    pthread_mutex_t dir_stripes[STRIPES];
    pthread_mutex_t names;
    struct inode *root;    /* owned */
    struct inode *to_free; /* to be destroyed when fence.names is released; chained by next_to_free */
    struct inode **dead;   /* those without a name; each knows its index by `log_mark` */
    size_t dead_count, dead_cap;
    struct inode **nodes; /* by node id: open addressing */
    size_t node_cap;
    uint64_t inode_count;
    uint64_t ino_counter; /* counter behind inode numbers of what is created; guarded by names */
    uint64_t hash_secret; /* const: nobody inside can find what is the same by a hash of it */
    _Atomic uint64_t temp_counter;

    struct handles handles;
    struct quota quota;
    struct passages *passages;         /* owned */
    struct hidden_links *hidden_links; /* owned */
    struct journal *journal;
    struct ino_map *ino_map;
    struct change_log *change_log;
    struct base_origins *base_origins; /* NULL unless syncs_out */
    struct read_log *read_log;         /* NULL unless is_live */
    struct sync_ages *sync_ages;       /* likewise; guarded by quiesce_lock */
    struct audit *audit;
    struct invalidator *invalidator;
    struct passthrough *passthrough; /* NULL: the cached data path */
    enum fence_data_path data_path;
    struct base_watch *base_watch; /* NULL unless is_live */
    struct unwatched_poll *poll;   /* likewise */
    _Atomic uint32_t unwatched_dirs;
    _Atomic int64_t unwatched_ms; /* when passages were last asked for anew on account of them */
    int64_t unwatched_round_ms;   /* how old what is shown of them may get: a second, in some tests less */
    struct session *session;

    _Atomic int readdirplus_left; /* how many directories are still listed with the attributes of their files (readdirplus.h) */
    _Atomic uint64_t ops[POLICY_OPS], denied[POLICY_OPS];
    _Atomic uint64_t copied_up;
    _Atomic uint64_t changes;     /* counts what changed the tree, so that a hand-over of nothing costs nothing */
    pthread_mutex_t quiesce_lock; /* 0: one hand-over or hold at a time */
    uint64_t synced_changes;      /* `changes` at the last one; guarded by quiesce_lock */
};

static inline bool inode_is_dir(const struct inode *inode)
{
    return inode->dir != NULL;
}

static inline bool inode_has(const struct inode *inode, unsigned flag)
{
    return atomic_load_explicit(&inode->flags, memory_order_acquire) & flag;
}

static inline void inode_set(struct inode *inode, unsigned flag)
{
    atomic_fetch_or_explicit(&inode->flags, (uint16_t) flag, memory_order_release);
}

static inline void inode_clear(struct inode *inode, unsigned flag)
{
    atomic_fetch_and_explicit(&inode->flags, (uint16_t) ~flag, memory_order_release);
}

static inline pthread_mutex_t *lock_acquire(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void lock_release(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}

/* Held until the end of the block. */
#define autolock(mutex) __attribute__((cleanup(lock_release), unused)) pthread_mutex_t *held_lock = lock_acquire(mutex)

static inline pthread_mutex_t *fence_file_stripe(struct fence *f, const struct inode *inode)
{
    return &f->file_stripes[(inode->ino ^ inode->ino >> 32) % STRIPES];
}
