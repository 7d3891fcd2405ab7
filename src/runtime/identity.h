/*
 * The user of a sandbox on the host: a uid of its own, from a range that nothing else uses.
 *
 * Allocating a uid locks a file named after it in our directory. The descriptor holds the lock, so it ends with the process,
 * however that dies. The file contains a byte until the holder releases the uid: if the last holder was killed, the uid may
 * still have processes, and is skipped. The gid is the same number. Only root can run a sandbox as another user; an ordinary
 * user's sandboxes run as that user, separated by their namespaces.
 *
 * How root gets 'own uid, own user namespace, no capabilities': bubblewrap itself starts with that uid and without groups, and
 * makes an unprivileged user namespace that maps this one uid to the agent's. So no part of the set-up inside has root's
 * rights, a bug in it gains no more than the sandbox, and root's case equals the ordinary user's. The price: that uid must be
 * able to reach the bound paths (workspace, init, mounts), so their parents need search permission.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Above the defaults of adduser, systemd's dynamic users and containers (subuid, from 100000), below 2^31. */
#define IDENTITY_FIRST 1879048192u
#define IDENTITY_COUNT 65536u

struct identity {
    uid_t uid;
    gid_t gid;
    int lock_fd; /* owned; -1: no lock was needed */
};

#define IDENTITY_NONE ((struct identity){ .lock_fd = -1 })

/* As root, allocates a free uid of [first, first + count) and locks it in the directory `lock_dir`; otherwise returns our
 * own. -EUSERS if all are taken. */
int identity_allocate(int lock_dir, uid_t first, unsigned count, struct identity *ret, struct err *err);

/* Releases it. The file stays, because otherwise two holders could lock two files of the same name. */
void identity_done(struct identity *identity);

/* Checks whether commands may run with these ids: not as the host's root under any number, and only as ourselves unless we
 * are root. */
int identity_check(uid_t uid, gid_t gid, struct err *err);

/* Tells whether we are root on the host, not only in a user namespace. */
bool identity_is_host_root(void);
