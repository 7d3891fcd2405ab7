/*
 * The rows of the store as an index over the directories of sandboxes.
 *
 * A sandbox is its directory. `agentfense run` makes, changes and removes sandboxes without a server, and a database may be lost. So the
 * service reads all directories when it starts, and later only those that inotify reports as changed. It makes each row agree with the
 * directory on name, owner, base, rules, runtime, driver, image, limits, network, decision, trash, and whether it runs. It accepts only
 * sandboxes of its own user (sandbox/sandbox_trust.h).
 *
 * Only the row has: labels, tags, metadata, behavior, creator, idempotency key, sizes, times, reasons, the row's version.
 */
#pragma once

#include "base/err.h"
#include "service/sandbox_conn.h"
#include "store/sandbox_row.h"

struct service;

/* Reads all directories. A sandbox of this user whose spec cannot be read gets a row, so that it can be listed and removed. Logs and skips a
 * sandbox that must not be trusted. */
int sandbox_index_open(struct service *service, struct err *err);
void sandbox_index_close(struct service *service);

/* Call it before rows are looked up: reads the directories that changed since the last call. Skips sandboxes that another call is working
 * with until the next call. */
void sandbox_index_refresh(struct service *service);

/* The caller holds `life`. Makes one row agree with its directory, whether or not anything changed. A row with the id NULL does not exist
 * yet; it has the id NULL afterwards if it still does not exist, or was removed because its directory is gone. -EPERM: the directory must not
 * be trusted. */
int sandbox_index_settle(struct service *service, struct sandbox_conn *conn, struct sandbox_row *row, struct err *err);

/* Returns 0 if it has a directory of our user with a readable spec. */
int sandbox_index_check(const struct service *service, const char *id, struct err *err);

/* The caller holds `life` of a sandbox that does not run. Writes the decision and the deletion to its directory. */
int sandbox_index_note(const struct service *service, const char *id, int decision, bool is_deleted, struct err *err);
