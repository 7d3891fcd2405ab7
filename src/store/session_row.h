/* A session: a shell in a sandbox. The shell itself runs in the sandbox. Deleting the sandbox's row deletes this one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

#define SESSION_ID_PREFIX "sess_"

enum session_status { SESSION_STATUS_UNSPECIFIED = 0, SESSION_STATUS_ACTIVE = 1, SESSION_STATUS_CLOSED = 2 };

struct session_row {
    char *id; /* all texts owned */
    char *sandbox_id;
    char *host_id;
    char *shell;
    int status; /* enum session_status */
    int64_t created_ns;
    int64_t closed_ns;
};

struct session_rows {
    struct session_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL on the last page */
};

void session_row_done(struct session_row *row);
void session_rows_done(struct session_rows *rows);

/* ERR_NOT_FOUND if its sandbox does not exist, ERR_ALREADY_EXISTS. */
int session_row_insert(struct store *store, const struct session_row *row, struct err *err);
int session_row_get(struct store *store, const char *id, struct session_row *ret, struct err *err);

/* Lists the sessions of a sandbox, of a host, or (both NULL) all. `status` UNSPECIFIED does not restrict. */
int session_row_list(struct store *store, const char *sandbox_id, const char *host_id, enum session_status status,
                     const struct store_page *page, struct session_rows *ret, struct err *err);

/* ERR_FAILED_PRECONDITION (-ESTALE) if it is closed already, so only one of two concurrent callers succeeds. */
int session_row_close(struct store *store, const char *id, int64_t now_ns, struct err *err);

/* Closes all open sessions of a stopping sandbox, or of a starting host. Give exactly one of both. Returns how many. */
int session_row_close_all(struct store *store, const char *sandbox_id, const char *host_id, int64_t now_ns, struct err *err);

/* Removes sessions of a host that were closed before this time. Returns how many, at most `limit`. */
int session_row_trim(struct store *store, const char *host_id, int64_t closed_before_ns, unsigned limit, struct err *err);
