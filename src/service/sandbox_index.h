/*
 * The rows of the store as an index over the directories of sandboxes.
 *
 * A sandbox is its directory. `agentfense run` makes, changes and removes sandboxes without a server, and a database may be lost. So the
 * service reads the directories when it starts, and later those that changed: inotify names them, and nothing else is read. For each it makes
 * the row agree with what the directory knows: name, owner, base, rules, runtime, driver, image, limits, network, what was decided, whether
 * it is in the trash, whether it runs. It takes only sandboxes of its own user (sandbox/sandbox_trust.h).
 *
 * Only the row knows: labels, tags, metadata, behavior, creator, idempotency key, sizes, times, reasons, the row's version.
 */
#pragma once

#include "base/err.h"
#include "service/sandbox_conn.h"
#include "store/sandbox_row.h"

struct service;

/* Reads all directories. A sandbox that cannot be read is logged and left out. */
int sandbox_index_open(struct service *service, struct err *err);
void sandbox_index_close(struct service *service);

/* Before rows are looked for: reads the directories that changed since the last call. Sandboxes that somebody is at work with are left for the
 * next call. */
void sandbox_index_refresh(struct service *service);

/* With the lock of its life: makes one row agree with its directory, whether or not anything changed. A row with the id NULL is one that there is none of yet; it is still so afterwards if there is no directory either, or not any
 * more. -EPERM: it is not to be trusted. */
int sandbox_index_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* Returns 0 if it has a directory of ours with a spec that can be read. */
int sandbox_index_check(const struct service *service, const char *id, struct err *err);

/* With the lock of its life, of one that does not run: notes in its directory what the row will say, or says. */
int sandbox_index_note(const struct service *service, const char *id, int decision, bool is_deleted, struct err *err);
