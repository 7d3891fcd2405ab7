/*
 * The inside of a fence: what its files share.
 *
 * Lock order. Take locks in this order, and release them before replying:
 *
 *   0. fence.quiesce_lock   one sync-out or quiesce at a time
 *   1. fence.gate           read side: every operation, for its whole length; write side: swapping rules, syncing out. Do not
 *                           notify the kernel under it: the kernel may hold a directory for a client that waits for the gate.
 *   2. fence.moves          one rename between directories, or of a directory, at a time
 *   3. file stripe          copy-up of a file, quota of a write (STRIPES mutexes, chosen by inode)
 *   4. dir stripe(s)        what the delta has in a directory; two are taken in the order of their index
 *   5. fence.names          the tree in memory. No system call under it
 *   6. locks of handles, passages, quota, audit, change log, hidden links, journal, ino_map, base_origins, read_log, poll and
 *      casefold: leaves
 *
 * Locks 3 and 4 serialise access to single files and directories, so they are held across backing system calls.
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
#include "base/hash_table.h"
#include "fence/fence.h"

#define STRIPES 64
#define DEPTH_MAX 1000 /* how deep directories may nest; deeper ones are -ENAMETOOLONG */

enum layer_kind { LAYER_BASE, LAYER_DELTA, LAYERS };

/* A name in a directory. It exists while the kernel knows its inode, or while the delta has something under that name. */
enum {
    ENTRY_UP = 1,       /* the delta has a file, directory, ... under the name */
    ENTRY_WHITEOUT = 2, /* the delta marks the name as deleted */
};

struct entry {
    struct hash_link link;     /* in dir.entries; guarded by fence.names, as are all fields */
    struct entry *name_next;   /* next name of the same inode */
    struct inode *parent;      /* borrowed: a directory lives as long as it has entries */
    struct inode *inode;       /* NULL while not loaded */
    struct match_state *match; /* owned reference */
    uint64_t ino;
    uint8_t flags;
    uint8_t type; /* DT_*, 0: not known yet */
    uint8_t len;
    char name[]; /* NUL-terminated */
};

enum {
    INODE_BASE = 1,    /* a file: its content is in the base. A directory: names of the base show through */
    INODE_UP = 2,      /* a file: its content is in the delta. A directory: the delta has one */
    INODE_DEAD = 4,    /* it has no name any more; `last_path` replaces `names` */
    INODE_PASSAGE = 8, /* a hidden directory that is shown */
    INODE_LINKED = 16, /* has several names: stays in memory so that all of them lead to one inode */
    INODE_FRESH = 32,  /* its name is not synced yet */
    INODE_FREED = 64,
    INODE_ORPHAN = 128,        /* dead, and a name in work instead of a pinned handle keeps its content */
    INODE_UNWATCHED = 256,     /* a directory of a live base without a watch (unwatched.h) */
    INODE_STALE = 512,         /* the kernel may have old pages, which must go before it gets newer attributes */
    INODE_POLLED = 1024,       /* the poller visits it (unwatched_poll.c) */
    INODE_MULTILINK = 16384,   /* a file of the base with several names at its look-up (hidden_link.h) */
    INODE_LISTED_PLAIN = 8192, /* a directory whose files were listed without attributes (readdirplus.h) */
    INODE_NO_NODE = 32768,     /* a dead directory that the kernel never knew: `node` may belong to another inode */
};

struct inode {
    struct hash_link by_node;    /* in fence.nodes; guarded by fence.names */
    uint64_t lookups;            /* the kernel's references; guarded by fence.names */
    uint32_t refs;               /* our references; likewise */
    uint32_t log_mark;           /* mark of the last change log line, so that a run of writes makes one line; likewise */
    uint64_t ino;                /* as shown to the sandbox */
    _Atomic uint64_t node;       /* the node id; set under fence.names, constant from the first look-up on */
    _Atomic uint64_t base_stamp; /* state of the base file when we last looked (base_stamp.h) */
    _Atomic uint16_t flags;
    _Atomic uint16_t mode; /* type and permission bits, without suid; with sgid only for directories of the delta */
    _Atomic uint8_t level; /* the lowest level of its names */
    _Atomic uint16_t depth;
    union {
        struct entry *names;        /* guarded by fence.names */
        char *last_path;            /* owned; INODE_DEAD: its last path, no leading slash */
        struct inode *next_to_free; /* INODE_FREED: next in fence.to_free */
    };
    struct handle *handles[LAYERS]; /* guarded by handles.lock */
    struct dir *dir;                /* owned; NULL unless a directory */
};

/* What only directories have. */
struct dir {
    struct hash_table entries;            /* by name; guarded by fence.names */
    uint64_t version;                     /* counts changes of the visible names; guarded by fence.names */
    struct dir_listing *listing;          /* owned reference to the last listing built; likewise */
    int64_t atime_ns, mtime_ns, ctime_ns; /* guarded by fence.names */
    int64_t moved_ns;                     /* time of its last rename since the mount; likewise */
    /* Unwatched directories: when it was last compared with the base, the stamp of the base directory then, and a digest of its
     * visible names. */
    _Atomic int64_t checked_ms;
    uint64_t names_stamp, names_digest; /* guarded by fence.names; names_stamp 0: unknown */
};

/* An open backing file or directory, shared by all operations on the inode. See handle.c. */
struct handle {
    struct handle *newer, *older; /* guarded by handles.lock, as are all fields but fd */
    struct inode *inode;          /* borrowed; NULL once it has left the cache */
    int fd;                       /* owned; const */
    uint32_t refs;
    uint8_t layer;
    bool pinned;                         /* the only way to the file, which has no name any more */
    _Atomic(struct casefold *) casefold; /* owned; how a base directory compares names; NULL: not known yet */
    _Atomic uint64_t read_stamp;         /* the stamp last noted in the read log */
};

struct handles {
    pthread_mutex_t lock;
    struct handle *newest, *oldest;
    size_t count, limit, pinned;
};

struct quota {
    pthread_mutex_t lock;
    uint64_t bytes, bytes_max; /* 0: no limit */
    uint64_t dead_bytes;       /* part of `bytes`: open files without a name */
    uint64_t inodes, inodes_max;
};

struct op_caller {
    pid_t pid;
    uid_t uid;
};

/* The answer to a request about one inode. Owns nothing. inode NULL: a negative entry. */
struct entry_answer {
    struct inode *inode;
    struct stat st;
    double entry_timeout_s;
    double attr_timeout_s;
    bool is_stale; /* reply only when the kernel has dropped the pages of the inode */
};

struct fence {
    struct ruleset *rules; /* owned reference; guarded by gate */
    char *base_path, *delta_path, *mount_point;
    uid_t uid;
    gid_t gid;
    bool is_live;
    bool syncs_out;           /* const */
    bool is_new;              /* fence_new() made the delta */
    bool made_delta;          /* and its directory, which fence_free() removes if the fence never served */
    bool is_refused;          /* the fence never serves */
    _Atomic bool is_unsynced; /* the delta may not be on disk yet */
    int base_fd, data_fd, work_fd, meta_fd, lock_fd; /* owned */
    int64_t version_ns;
    fence_denial_fn on_denial;
    fence_exec_fn exec_of;
    void *cookie;

    pthread_rwlock_t gate;
    pthread_mutex_t moves;
    pthread_mutex_t opaque; /* 4b: guards the one opaque directory that is being made in work */
    pthread_mutex_t file_stripes[STRIPES];
    pthread_mutex_t dir_stripes[STRIPES];
    pthread_mutex_t names;
    struct inode *root;    /* owned */
    struct inode *to_free; /* to be destroyed when fence.names is released; linked by next_to_free */
    struct inode **dead;   /* inodes without a name; `log_mark` is the index of each */
    size_t dead_count, dead_cap;
    struct hash_table nodes; /* all inodes with a node id, by that; guarded by names */
    uint64_t ino_counter;    /* counter for new inode numbers; guarded by names */
    uint64_t hash_secret;    /* const; keeps processes inside from finding hash collisions */
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
    _Atomic int64_t unwatched_ms; /* when passages were last searched again on account of unwatched directories */
    int64_t unwatched_round_ms;   /* how old their shown state may get: a second, less in some tests */
    struct session *session;

    _Atomic int readdirplus_left; /* how many directories are still listed with the attributes of their files (readdirplus.h) */
    _Atomic uint64_t ops[POLICY_OPS], denied[POLICY_OPS];
    _Atomic uint64_t copied_up;
    _Atomic uint64_t changes;     /* counts changes of the tree, so that a sync-out without changes costs nothing */
    pthread_mutex_t quiesce_lock; /* lock 0: one sync-out or quiesce at a time */
    uint64_t synced_changes;      /* value of `changes` at the last sync-out; guarded by quiesce_lock */
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
