#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/library.h"
#include "base/mem.h"

#define OLDEST_VERSION 3037000    /* for STRICT tables; RETURNING is older */
#define APPLICATION_ID 0x41464e53 /* "AFNS", in the file's header */
#define WAL_PAUSE_MS 10
#define LOG_SIZE_KEPT (16 << 20) /* size to which SQLite truncates the write-ahead log after a burst */

/* Page cache per connection. SQLite's default is eight times as large. A reader's cache is invalidated by every write of
 * another connection, so a large one would waste memory. */
#define READER_CACHE_KIB 256
#define WRITER_CACHE_KIB 512

#define SQLITE_FUNCTIONS(X)                                                                                                    \
    X(sqlite3_bind_blob64)                                                                                                     \
    X(sqlite3_bind_int64)                                                                                                      \
    X(sqlite3_bind_null)                                                                                                       \
    X(sqlite3_bind_text64)                                                                                                     \
    X(sqlite3_busy_timeout)                                                                                                    \
    X(sqlite3_changes)                                                                                                         \
    X(sqlite3_clear_bindings)                                                                                                  \
    X(sqlite3_close)                                                                                                           \
    X(sqlite3_column_blob)                                                                                                     \
    X(sqlite3_column_bytes)                                                                                                    \
    X(sqlite3_column_count)                                                                                                    \
    X(sqlite3_column_int64)                                                                                                    \
    X(sqlite3_column_text)                                                                                                     \
    X(sqlite3_column_type)                                                                                                     \
    X(sqlite3_db_config)                                                                                                       \
    X(sqlite3_errmsg)                                                                                                          \
    X(sqlite3_exec)                                                                                                            \
    X(sqlite3_extended_errcode)                                                                                                \
    X(sqlite3_finalize)                                                                                                        \
    X(sqlite3_get_autocommit)                                                                                                  \
    X(sqlite3_libversion_number)                                                                                               \
    X(sqlite3_open_v2)                                                                                                         \
    X(sqlite3_prepare_v3)                                                                                                      \
    X(sqlite3_reset)                                                                                                           \
    X(sqlite3_step)                                                                                                            \
    X(sqlite3_system_errno)                                                                                                    \
    X(sqlite3_threadsafe)

static struct {
    pthread_once_t once;
    int r;
    struct err err;
#define X(name) __typeof__(name) *name;
    SQLITE_FUNCTIONS(X)
#undef X
} lib = { .once = PTHREAD_ONCE_INIT };

struct sqlite {
    struct db db;
    sqlite3 *handle;   /* owned */
    const char *shown; /* borrowed from the config */
    int busy_timeout_ms;
};

static void sqlite_load_library(void)
{
    const struct library_symbol symbols[] = {
#define X(name) { #name, &lib.name },
        SQLITE_FUNCTIONS(X)
#undef X
    };

    lib.r = library_load("libsqlite3.so.0", "libsqlite3-0", symbols, ARRAY_LEN(symbols), &lib.err);
    if (lib.r == 0 && (lib.sqlite3_libversion_number() < OLDEST_VERSION || !lib.sqlite3_threadsafe()))
        lib.r = err_set(&lib.err, ERR_FAILED_PRECONDITION, -ENOSYS,
                        "this SQLite is too old or was built without threads; version 3.37 or newer is needed");
}

static struct sqlite *sqlite_of(struct db *db)
{
    return (struct sqlite *) db;
}

/* ---- errors ---- */

static int sqlite_set_no_space(const struct sqlite *s, struct err *err)
{
    return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOSPC,
                   "no room for database '%s': nothing of this was stored; free some space on its file system", s->shown);
}

static int sqlite_set_damaged(const struct sqlite *s, const char *how, struct err *err)
{
    return err_set(
        err, ERR_DATA_LOSS, -EUCLEAN,
        "database '%s' is damaged (%s). Nothing was changed. Restore it from a backup, or try `sqlite3 '%s' .recover`, "
        "or move it and its -wal file away to begin with an empty one",
        s->shown, how, s->shown);
}

static int sqlite_explain_constraint(const struct sqlite *s, int rc, struct err *err)
{
    switch (rc) {
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_ROWID:
        return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "it is there already");
    case SQLITE_CONSTRAINT_FOREIGNKEY:
        return err_set(err, ERR_NOT_FOUND, -ENOLINK, "what it belongs to is not there");
    default:
        return err_set(err, ERR_INTERNAL, -EINVAL, "database '%s': %s", s->shown, lib.sqlite3_errmsg(s->handle));
    }
}

static int sqlite_explain_io(const struct sqlite *s, struct err *err)
{
    int seen = errno, code = lib.sqlite3_system_errno(s->handle);

    /* SQLite does not record the cause of a failed COMMIT. Then errno still has the result of the last system call, because
     * sqlite_step_all() cleared it before. */
    if (code == 0)
        code = seen;
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        return sqlite_set_no_space(s, err);
    return err_set(err, ERR_INTERNAL, -EIO, "database '%s': %s%s%s", s->shown, lib.sqlite3_errmsg(s->handle), code ? ": " : "",
                   code ? strerror(code) : "");
}

/* Returns errno and text of the connection's last failure. */
static int sqlite_explain(struct sqlite *s, struct err *err)
{
    int rc = lib.sqlite3_extended_errcode(s->handle);

    /* Some failures, such as a full disk, end the transaction. */
    if (lib.sqlite3_get_autocommit(s->handle))
        s->db.in_transaction = false;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, ERR_UNAVAILABLE, -EBUSY, "database '%s' is locked by another process", s->shown);
    case SQLITE_FULL:
        return sqlite_set_no_space(s, err);
    case SQLITE_IOERR:
        return sqlite_explain_io(s, err);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return sqlite_set_damaged(s, lib.sqlite3_errmsg(s->handle), err);
    case SQLITE_CONSTRAINT:
        return sqlite_explain_constraint(s, rc, err);
    case SQLITE_NOMEM:
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "database '%s': out of memory", s->shown);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(err, ERR_FAILED_PRECONDITION, -EROFS, "database '%s' cannot be written: %s", s->shown,
                       lib.sqlite3_errmsg(s->handle));
    default:
        return err_set(err, ERR_INTERNAL, -EIO, "database '%s': %s", s->shown, lib.sqlite3_errmsg(s->handle));
    }
}

/* ---- statements ---- */

/* Replaces PostgreSQL's $1 by ?1. Our statements contain $ only in parameters. */
static int sqlite_prepare(struct db *db, const char *text, const struct db_value *values, size_t count, void **ret,
                          struct err *err)
{
    autofree char *own = xdup(text);
    sqlite3_stmt *stmt = NULL;

    (void) values;
    (void) count;
    for (char *p = own; (p = strchr(p, '$')); p++)
        *p = '?';
    if (lib.sqlite3_prepare_v3(sqlite_of(db)->handle, own, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
        return sqlite_explain(sqlite_of(db), err);
    *ret = stmt;
    return 0;
}

static void sqlite_drop(struct db *db, void *handle)
{
    (void) db;
    lib.sqlite3_finalize(handle);
}

static int sqlite_bind_value(sqlite3_stmt *stmt, int at, const struct db_value *v)
{
    if (v->is_null)
        return lib.sqlite3_bind_null(stmt, at);
    if (v->kind == DB_INT)
        return lib.sqlite3_bind_int64(stmt, at, v->number);
    if (v->kind == DB_TEXT)
        return lib.sqlite3_bind_text64(stmt, at, v->bytes, v->len, SQLITE_STATIC, SQLITE_UTF8);
    return lib.sqlite3_bind_blob64(stmt, at, v->bytes, v->len, SQLITE_STATIC);
}

static void sqlite_take_column(sqlite3_stmt *stmt, int at, struct db_value *ret)
{
    int type = lib.sqlite3_column_type(stmt, at);

    *ret = (struct db_value){ .bytes = "" };
    if (type == SQLITE_INTEGER) {
        ret->number = lib.sqlite3_column_int64(stmt, at);
        return;
    }
    ret->kind = type == SQLITE_TEXT ? DB_TEXT : DB_BYTES;
    ret->is_null = type == SQLITE_NULL;
    if (ret->is_null)
        return;
    /* Get the pointer first: this may convert the value, and the length must be that of the converted one. */
    const void *bytes =
        type == SQLITE_TEXT ? (const void *) lib.sqlite3_column_text(stmt, at) : lib.sqlite3_column_blob(stmt, at);
    ret->len = (size_t) lib.sqlite3_column_bytes(stmt, at);
    if (bytes)
        ret->bytes = bytes;
}

static int sqlite_give_row(sqlite3_stmt *stmt, db_row_fn fn, void *cookie)
{
    struct db_value columns[DB_COLUMNS_MAX];
    int count = lib.sqlite3_column_count(stmt);

    if (!fn)
        return 0;
    if (count > DB_COLUMNS_MAX)
        return -E2BIG;
    for (int i = 0; i < count; i++)
        sqlite_take_column(stmt, i, &columns[i]);
    return fn(columns, (size_t) count, cookie);
}

static int sqlite_step_all(struct sqlite *s, sqlite3_stmt *stmt, db_row_fn fn, void *cookie, struct err *err)
{
    int rows = 0, rc, r;

    errno = 0;
    while ((rc = lib.sqlite3_step(stmt)) == SQLITE_ROW) {
        r = sqlite_give_row(stmt, fn, cookie);
        if (r < 0)
            return r == -EUCLEAN ? sqlite_set_damaged(s, "a row is not of the kind it should be", err) : r;
        rows++;
    }
    if (rc != SQLITE_DONE)
        return sqlite_explain(s, err);
    return lib.sqlite3_column_count(stmt) > 0 ? rows : lib.sqlite3_changes(s->handle);
}

static int sqlite_run(struct db *db, void *handle, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
                      struct err *err)
{
    sqlite3_stmt *stmt = handle;
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        if (sqlite_bind_value(stmt, (int) i + 1, &values[i]) != SQLITE_OK)
            r = sqlite_explain(sqlite_of(db), err);
    }
    if (r == 0)
        r = sqlite_step_all(sqlite_of(db), stmt, fn, cookie, err);
    lib.sqlite3_reset(stmt);
    lib.sqlite3_clear_bindings(stmt);
    return r;
}

static int sqlite_script(struct db *db, const char *text, struct err *err)
{
    return lib.sqlite3_exec(sqlite_of(db)->handle, text, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                                        : sqlite_explain(sqlite_of(db), err);
}

/* A write transaction locks the whole file, so this needs nothing. */
static int sqlite_lock(struct db *db, const char *name, struct err *err)
{
    (void) db;
    (void) name;
    (void) err;
    return 0;
}

/* ---- opening ---- */

/* Resolves links in the directories, which the administrator may have made. The file itself must not be a link: whoever can put
 * one there could make us write to any file of ours. SQLITE_OPEN_NOFOLLOW requires a path without links. */
static int sqlite_find_file(const struct db_config *config, char **ret, struct err *err)
{
    autofree char *for_dir = xdup(config->address), *for_name = xdup(config->address), *dir = NULL;

    dir = realpath(dirname(for_dir), NULL);
    if (!dir)
        return err_errno(err, -errno, "opening the directory of database '%s'", config->shown);
    *ret = xprintf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, basename(for_name));
    return 0;
}

/* Syncs the directory: if a power cut loses the file's name, it loses all rows. */
static int sqlite_sync_name(const char *path, const struct db_config *config, struct err *err)
{
    autofree char *own = xdup(path);
    autofd int dir = open(dirname(own), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0 || fsync(dir) < 0)
        return err_errno(err, -errno, "making database '%s'", config->shown);
    return 0;
}

/*
 * Makes the file with mode 0600, or sets that mode; SQLite gives the same mode to its -wal and -shm files. Never opens the file
 * itself: closing any descriptor of it would drop the locks that SQLite holds for this process (fcntl(2) locks), and another
 * process could then believe that it is alone and remove the log that we use. O_PATH descriptors do not have this effect.
 */
static int sqlite_make_file(const char *path, const struct db_config *config, struct err *err)
{
    bool is_new = mknod(path, S_IFREG | 0600, 0) == 0;
    autofd int fd = -1;
    autofree char *by_fd = NULL;
    struct stat st;

    if (!is_new && errno != EEXIST)
        return err_errno(err, -errno, "making database '%s'", config->shown);
    fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    by_fd = xprintf("/proc/self/fd/%d", fd);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "opening database '%s'", config->shown);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "'%s' is no regular file, so it is no database", config->shown);
    if ((st.st_mode & 077) && chmod(by_fd, 0600) < 0)
        return err_errno(err, -errno, "closing database '%s' to others", config->shown);
    return is_new ? sqlite_sync_name(path, config, err) : 0;
}

/* Configures a new connection without writing. Does not trust the schema, because another program may have written the file. */
static int sqlite_set_up_connection(struct sqlite *s, const struct db_config *config, enum db_role role, struct err *err)
{
    autofree char *text =
        xprintf("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA foreign_keys=ON;"
                "PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA journal_size_limit=%d; PRAGMA query_only=%s;"
                "PRAGMA cache_size=-%d;",
                LOG_SIZE_KEPT, role == DB_READER ? "ON" : "OFF", role == DB_READER ? READER_CACHE_KIB : WRITER_CACHE_KIB);

    s->busy_timeout_ms = config->busy_timeout_ms;
    lib.sqlite3_busy_timeout(s->handle, config->busy_timeout_ms);
    lib.sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    /* Before sqlite_inspect(), closing must not copy the log into a file that may be damaged. */
    lib.sqlite3_db_config(s->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    return sqlite_script(&s->db, text, err);
}

static void sqlite_close(struct db *db)
{
    struct sqlite *s = sqlite_of(db);

    db_drop_statements(db);
    lib.sqlite3_close(s->handle);
    free(s);
}

static int sqlite_connect(const struct db_config *config, enum db_role role, struct db **ret, struct err *err)
{
    autofree char *path = NULL;
    autoptr(db) db = NULL;
    struct sqlite *s;
    int r;

    pthread_once(&lib.once, sqlite_load_library);
    if (lib.r < 0) {
        if (err)
            *err = lib.err;
        return lib.r;
    }
    r = sqlite_find_file(config, &path, err);
    if (r == 0)
        r = sqlite_make_file(path, config, err);
    if (r < 0)
        return r;
    s = xnew(struct sqlite);
    s->db.driver = &db_sqlite;
    s->shown = config->shown;
    db = &s->db;
    if (lib.sqlite3_open_v2(path, &s->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL) !=
        SQLITE_OK)
        return sqlite_explain(s, err);
    r = sqlite_set_up_connection(s, config, role, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&db);
    return 0;
}

/* ---- inspection ---- */

static int sqlite_take_complaint(const struct db_value *columns, size_t count, void *cookie)
{
    struct buf *all = cookie;

    if (count > 0 && all->len < 200 && !(columns[0].len == 2 && memcmp(columns[0].bytes, "ok", 2) == 0)) {
        buf_add_str(all, all->len ? "; " : "");
        buf_add_excerpt(all, columns[0].bytes, columns[0].len);
    }
    return 0;
}

static int sqlite_check_pages(struct db *db, struct err *err)
{
    autodone(buf) struct buf complaints = BUF_EMPTY;
    int r = db_run(db, "PRAGMA quick_check(3)", DB_NO_VALUES, sqlite_take_complaint, &complaints, err);

    if (r < 0)
        return r;
    return complaints.len ? sqlite_set_damaged(sqlite_of(db), complaints.data, err) : 0;
}

/* The order matters: a server that starts concurrently writes the id before its first table. */
static int sqlite_check_application_id(struct db *db, struct err *err)
{
    int64_t id = 0, things = 0;
    int r = db_run_int(db, "SELECT count(*) FROM sqlite_master", DB_NO_VALUES, &things, err);

    if (r == 0 && things > 0)
        r = db_run_int(db, "PRAGMA application_id", DB_NO_VALUES, &id, err);
    if (r < 0 || things == 0 || id == APPLICATION_ID)
        return r;
    return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL,
                   "'%s' is a database of another program; nothing was changed. Name another file", sqlite_of(db)->shown);
}

static int sqlite_inspect(struct db *db, const struct db_config *config, struct err *err)
{
    int r = config->skip_check ? 0 : sqlite_check_pages(db, err);

    return r < 0 ? r : sqlite_check_application_id(db, err);
}

static int sqlite_take_mode(const struct db_value *columns, size_t count, void *cookie)
{
    bool *is_wal = cookie;

    *is_wal = count == 1 && columns[0].len == 3 && memcmp(columns[0].bytes, "wal", 3) == 0;
    return 0;
}

/* If two connections change the mode of a new file at once, they would deadlock. SQLite therefore fails one of them with
 * SQLITE_BUSY at once, without its busy timeout. */
static int sqlite_set_wal_mode(struct db *db, bool *ret_is_wal, struct err *err)
{
    int64_t until_ns = clock_now_ns() + sqlite_of(db)->busy_timeout_ms * CLOCK_NS_PER_MS;

    for (;;) {
        struct err problem = ERR_NONE;
        int r = db_run(db, "PRAGMA journal_mode=WAL", DB_NO_VALUES, sqlite_take_mode, ret_is_wal, &problem);

        if (r != -EBUSY || clock_now_ns() > until_ns) {
            if (r < 0 && err)
                *err = problem;
            return r;
        }
        poll(NULL, 0, WAL_PAUSE_MS);
    }
}

static int sqlite_settle(struct db *db, struct err *err)
{
    autofree char *text = xprintf("PRAGMA application_id=%d", APPLICATION_ID);
    int64_t id = 0;
    bool is_wal = false;
    int r = sqlite_set_wal_mode(db, &is_wal, err);

    if (r < 0)
        return r;
    if (!is_wal)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                       "database '%s' is on a file system where a write-ahead log is not possible; put it on a local one",
                       sqlite_of(db)->shown);
    lib.sqlite3_db_config(sqlite_of(db)->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    r = db_run_int(db, "PRAGMA application_id", DB_NO_VALUES, &id, err);
    return r == 0 && id != APPLICATION_ID ? sqlite_script(db, text, err) : r;
}

static bool sqlite_is_stale(struct db *db)
{
    (void) db;
    return false;
}

const struct db_driver db_sqlite = {
    .name = "sqlite",
    .one_writer = true,
    .begin_write = "BEGIN IMMEDIATE",
    .for_share = "",
    .for_update = "",
    .count_tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1",
    .connect = sqlite_connect,
    .close = sqlite_close,
    .is_stale = sqlite_is_stale,
    .inspect = sqlite_inspect,
    .settle = sqlite_settle,
    .prepare = sqlite_prepare,
    .drop = sqlite_drop,
    .run = sqlite_run,
    .script = sqlite_script,
    .lock = sqlite_lock,
};
