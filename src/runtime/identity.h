/*
 * Who a sandbox is on the host: a uid of its own, taken from a range that nobody else uses.
 *
 * Taking one locks a file named after the uid in a directory of ours; the lock is held by the descriptor and so ends with the
 * process, however it dies. The file has a byte in it as long as the holder has not given the uid back: where the last one was
 * killed, the uid may still have processes, and is then passed over. The gid is the same number. Only root can have a sandbox run as another user; an ordinary user's sandboxes are
 * that user's, kept apart by their namespaces.
 *
 * How root gets 'own uid, own user namespace, no capabilities': bubblewrap itself is started as that uid, with no groups, and
 * makes an unprivileged user namespace in which this one uid is mapped to the agent's. So no part of the set-up inside runs
 * with root's rights, a bug in it is worth no more than the sandbox, and root's case is the ordinary user's case. What it
 * costs: the paths that are bound (workspace, init, mounts) must be reachable for that uid, so their parents need search
 * permission.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Above what adduser, systemd's dynamic users and containers (100000 on, subuid) take by default, below 2^31. */
#define IDENTITY_FIRST 1879048192u
#define IDENTITY_COUNT 65536u

struct identity {
    uid_t uid;
    gid_t gid;
    int lock_fd; /* owned; -1 when nothing had to be locked */
};

#define IDENTITY_NONE ((struct identity){ .lock_fd = -1 })

/* As root a free uid of [first, first + count), locked in the directory `lock_dir`; otherwise our own. -EUSERS when all are
 * taken. */
int identity_allocate(int lock_dir, uid_t first, unsigned count, struct identity *ret, struct err *err);

/* Gives it back. The file stays: removing it would let two holders lock two files of one name. */
void identity_done(struct identity *identity);

/* Whether commands may run as this uid and gid: not the host's root under any name, and ours unless we may change it. */
int identity_check(uid_t uid, gid_t gid, struct err *err);

/* Whether we are root where it counts: uid 0, and not by grace of a user namespace. */
bool identity_is_host_root(void);
