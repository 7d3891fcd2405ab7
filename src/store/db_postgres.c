#include "store/db.h"

#include <endian.h>
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/library.h"
#include "base/mem.h"

#define OLDEST_VERSION 120000
#define SCHEMA "agentfense"

/* The types' OIDs in pg_type, which never change. */
#define OID_BYTEA 17
#define OID_INT8 20
#define OID_TEXT 25

#define PQ_FUNCTIONS(X)                                                                                                        \
    X(PQclear)                                                                                                                 \
    X(PQcmdStatus)                                                                                                             \
    X(PQcmdTuples)                                                                                                             \
    X(PQconnectdbParams)                                                                                                       \
    X(PQconninfoFree)                                                                                                          \
    X(PQconninfoParse)                                                                                                         \
    X(PQerrorMessage)                                                                                                          \
    X(PQexec)                                                                                                                  \
    X(PQexecPrepared)                                                                                                          \
    X(PQfinish)                                                                                                                \
    X(PQfreemem)                                                                                                               \
    X(PQftype)                                                                                                                 \
    X(PQgetisnull)                                                                                                             \
    X(PQgetlength)                                                                                                             \
    X(PQgetvalue)                                                                                                              \
    X(PQisthreadsafe)                                                                                                          \
    X(PQnfields)                                                                                                               \
    X(PQntuples)                                                                                                               \
    X(PQprepare)                                                                                                               \
    X(PQresultErrorField)                                                                                                      \
    X(PQresultStatus)                                                                                                          \
    X(PQserverVersion)                                                                                                         \
    X(PQsetNoticeProcessor)                                                                                                    \
    X(PQsocket)                                                                                                                \
    X(PQstatus)

static struct {
    pthread_once_t once;
    int r;
    struct err err;
#define X(name) __typeof__(name) *name;
    PQ_FUNCTIONS(X)
#undef X
} lib = { .once = PTHREAD_ONCE_INIT };

struct postgres {
    struct db db;
    PGconn *conn;      /* owned */
    const char *shown; /* borrowed from the config */
    uint64_t last_name;
};

struct pg_statement {
    char name[24];
    bool is_commit;
};

static void pg_load_library(void)
{
    const struct library_symbol symbols[] = {
#define X(name) { #name, &lib.name },
        PQ_FUNCTIONS(X)
#undef X
    };

    lib.r = library_load("libpq.so.5", "libpq5", symbols, ARRAY_LEN(symbols), &lib.err);
    if (lib.r == 0 && !lib.PQisthreadsafe())
        lib.r = err_set(&lib.err, ERR_FAILED_PRECONDITION, -ENOSYS, "this libpq was built without threads");
}

static struct postgres *pg_of(struct db *db)
{
    return (struct postgres *) db;
}

static void pg_cleanup_result(PGresult **result)
{
    if (*result)
        lib.PQclear(*result);
}

#define autoresult __attribute__((cleanup(pg_cleanup_result)))

/* ---- errors ---- */

/* libpq's messages end with a newline, and some have several lines. */
static void pg_add_reason(struct buf *out, const char *text)
{
    size_t len = strcspn(text, "\n");

    buf_add_escaped(out, text, len > 300 ? 300 : len);
    buf_add_str(out, "");
}

static int pg_set_unreachable(const char *shown, int r, const char *why, struct err *err)
{
    autodone(buf) struct buf reason = BUF_EMPTY;

    pg_add_reason(&reason, why);
    return err_set(err, ERR_UNAVAILABLE, r, "database '%s' cannot be reached right now: %s", shown, reason.data);
}

/* SQLSTATEs. The first two characters are the class. */
static const struct {
    const char *state;
    enum err_code code;
    int r;
    const char *text;
} states[] = {
    { "23505", ERR_ALREADY_EXISTS, -EEXIST, "it is there already" },
    { "23503", ERR_NOT_FOUND, -ENOLINK, "what it belongs to is not there" },
    { "40001", ERR_UNAVAILABLE, -EBUSY, NULL },         /* serialization_failure */
    { "40P01", ERR_UNAVAILABLE, -EBUSY, NULL },         /* deadlock_detected */
    { "55P03", ERR_UNAVAILABLE, -EBUSY, NULL },         /* lock_not_available */
    { "57014", ERR_UNAVAILABLE, -ETIMEDOUT, NULL },     /* query_canceled: the statement timed out */
    { "53100", ERR_RESOURCE_EXHAUSTED, -ENOSPC, NULL }, /* disk_full */
    { "XX001", ERR_DATA_LOSS, -EUCLEAN, NULL },         /* data_corrupted */
    { "XX002", ERR_DATA_LOSS, -EUCLEAN, NULL },         /* index_corrupted */
};

/* States that make this connection useless while another may work: the server shuts down, starts, or has become a replica. */
static bool pg_state_ends_connection(const char *state)
{
    return strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0 || strcmp(state, "25006") == 0;
}

static int pg_explain(struct postgres *p, const PGresult *result, struct err *err)
{
    const char *state = result ? lib.PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *message = result ? lib.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    autodone(buf) struct buf reason = BUF_EMPTY;

    if (!message)
        message = lib.PQerrorMessage(p->conn);
    if (lib.PQstatus(p->conn) == CONNECTION_BAD || !state || pg_state_ends_connection(state)) {
        p->db.is_lost = true;
        return pg_set_unreachable(p->shown, -ECONNRESET, message, err);
    }
    pg_add_reason(&reason, message);
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        if (strcmp(states[i].state, state) == 0)
            return err_set(err, states[i].code, states[i].r, "%s%s%s%s", states[i].text ? states[i].text : "database '",
                           states[i].text ? "" : p->shown, states[i].text ? "" : "': ", states[i].text ? "" : reason.data);
    }
    return err_set(err, ERR_INTERNAL, -EIO, "database '%s': %s (SQLSTATE %s)", p->shown, reason.data, state);
}

/* ---- statements ---- */

static int pg_prepare(struct db *db, const char *text, const struct db_value *values, size_t count, void **ret, struct err *err)
{
    static const Oid types[] = { [DB_INT] = OID_INT8, [DB_TEXT] = OID_TEXT, [DB_BYTES] = OID_BYTEA };
    struct postgres *p = pg_of(db);
    autofree struct pg_statement *s = xnew(struct pg_statement);
    autoresult PGresult *result = NULL;
    Oid oids[DB_VALUES_MAX];

    if (count > DB_VALUES_MAX)
        return err_set(err, ERR_INTERNAL, -E2BIG, "a statement has too many parameters");
    for (size_t i = 0; i < count; i++)
        oids[i] = types[values[i].kind];
    snprintf(s->name, sizeof(s->name), "s%llu", (unsigned long long) ++p->last_name);
    s->is_commit = strcmp(text, "COMMIT") == 0;
    result = lib.PQprepare(p->conn, s->name, text, (int) count, oids);
    if (lib.PQresultStatus(result) != PGRES_COMMAND_OK)
        return pg_explain(p, result, err);
    *ret = steal_ptr(&s);
    return 0;
}

static void pg_drop(struct db *db, void *handle)
{
    struct pg_statement *s = handle;
    char text[48];

    /* Ignore the result: the name is never used again. Closing a connection drops its statements anyway. */
    if (!db->is_lost) {
        snprintf(text, sizeof(text), "DEALLOCATE %s", s->name);
        lib.PQclear(lib.PQexec(pg_of(db)->conn, text));
    }
    free(s);
}

/* Numbers are sent as eight bytes, big-endian; texts and bytes unchanged. */
struct pg_params {
    const char *values[DB_VALUES_MAX];
    int lengths[DB_VALUES_MAX];
    int formats[DB_VALUES_MAX];
    uint64_t numbers[DB_VALUES_MAX];
};

static int pg_fill_params(struct pg_params *params, const struct db_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct db_value *v = &values[i];
        params->formats[i] = 1;
        if (v->is_null) {
            params->values[i] = NULL;
            params->lengths[i] = 0;
        } else if (v->kind == DB_INT) {
            params->numbers[i] = htobe64((uint64_t) v->number);
            params->values[i] = (const char *) &params->numbers[i];
            params->lengths[i] = sizeof(params->numbers[i]);
        } else {
            if (v->len > INT32_MAX)
                return -E2BIG;
            params->values[i] = v->bytes;
            params->lengths[i] = (int) v->len;
        }
    }
    return 0;
}

static int pg_take_column(const PGresult *result, int row, int at, struct db_value *ret)
{
    Oid type = lib.PQftype(result, at);

    *ret = (struct db_value){ .kind = type == OID_INT8 ? DB_INT : type == OID_TEXT ? DB_TEXT : DB_BYTES, .bytes = "" };
    ret->is_null = lib.PQgetisnull(result, row, at);
    if (ret->is_null)
        return 0;
    ret->bytes = lib.PQgetvalue(result, row, at);
    ret->len = (size_t) lib.PQgetlength(result, row, at);
    if (ret->kind == DB_INT) {
        uint64_t number;
        if (ret->len != sizeof(number))
            return -EUCLEAN;
        memcpy(&number, ret->bytes, sizeof(number));
        ret->number = (int64_t) be64toh(number);
    }
    return 0;
}

static int pg_give_rows(const PGresult *result, db_row_fn fn, void *cookie)
{
    struct db_value columns[DB_COLUMNS_MAX];
    int rows = lib.PQntuples(result), count = lib.PQnfields(result), r = 0;

    if (count > DB_COLUMNS_MAX)
        return -E2BIG;
    for (int row = 0; fn && row < rows && r >= 0; row++) {
        for (int i = 0; i < count && r == 0; i++)
            r = pg_take_column(result, row, i, &columns[i]);
        if (r == 0)
            r = fn(columns, (size_t) count, cookie);
    }
    return r < 0 ? r : rows;
}

static int pg_finish_result(struct postgres *p, const struct pg_statement *s, const PGresult *result, db_row_fn fn,
                            void *cookie, struct err *err)
{
    int r;

    switch (lib.PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
        /* PostgreSQL answers COMMIT of a failed transaction with the success status "ROLLBACK". */
        if (s->is_commit && strcmp(lib.PQcmdStatus((PGresult *) result), "COMMIT") != 0)
            return err_set(err, ERR_INTERNAL, -EIO, "database '%s': the transaction was rolled back", p->shown);
        return atoi(lib.PQcmdTuples((PGresult *) result));
    case PGRES_TUPLES_OK:
        r = pg_give_rows(result, fn, cookie);
        if (r == -EUCLEAN)
            return err_set(err, ERR_DATA_LOSS, r, "database '%s': a row is not of the kind it should be", p->shown);
        return r;
    default:
        return pg_explain(p, result, err);
    }
}

static int pg_run(struct db *db, void *handle, const struct db_value *values, size_t count, db_row_fn fn, void *cookie,
                  struct err *err)
{
    const struct pg_statement *s = handle;
    autoresult PGresult *result = NULL;
    struct pg_params params;
    int r = pg_fill_params(&params, values, count);

    if (r < 0)
        return err_invalid(err, "a value is too long for the database");
    result = lib.PQexecPrepared(pg_of(db)->conn, s->name, (int) count, params.values, params.lengths, params.formats, 1);
    return pg_finish_result(pg_of(db), s, result, fn, cookie, err);
}

static int pg_script(struct db *db, const char *text, struct err *err)
{
    autoresult PGresult *result = lib.PQexec(pg_of(db)->conn, text);
    ExecStatusType status = lib.PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : pg_explain(pg_of(db), result, err);
}

static int pg_lock(struct db *db, const char *name, struct err *err)
{
    int r = db_run(db, "SELECT pg_advisory_xact_lock(hashtextextended($1, 4707))", DB_VALUES(db_text(name)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

/* ---- connecting ---- */

static void pg_close(struct db *db)
{
    struct postgres *p = pg_of(db);

    db->is_lost = true; /* so that db_drop_statements() sends no DEALLOCATE */
    db_drop_statements(db);
    lib.PQfinish(p->conn);
    free(p);
}

static void pg_on_notice(void *cookie, const char *message)
{
    (void) cookie;
    (void) message;
}

/* Acknowledged writes must be durable: if the server's synchronous_commit is off, turn it on for this connection. Keep stricter
 * settings. */
static int pg_set_up_connection(struct postgres *p, const struct db_config *config, struct err *err)
{
    autofree char *text = xprintf("SET search_path TO " SCHEMA "; SET statement_timeout TO %d; SET lock_timeout TO %d;"
                                  "SET idle_in_transaction_session_timeout TO 60000;"
                                  "SET default_transaction_isolation TO 'read committed';"
                                  "SELECT set_config('synchronous_commit', 'on', false)"
                                  " WHERE current_setting('synchronous_commit') = 'off'",
                                  config->statement_timeout_ms, config->busy_timeout_ms);

    return pg_script(&p->db, text, err);
}

/* Parameters before `dbname` are our defaults, which the URL may override. Those after it override the URL. */
static PGconn *pg_open(const struct db_config *config)
{
    const char *const names[] = {
        "application_name", "connect_timeout", "keepalives_idle", "tcp_user_timeout", "dbname", "client_encoding", NULL
    };
    const char *const values[] = { "agentfense", "5", "30", "30000", config->address, "UTF8", NULL };

    return lib.PQconnectdbParams(names, values, 1);
}

/* libpq quotes an invalid URL completely, with the password, so do not show its message. */
static int pg_check_url(const struct db_config *config, struct err *err)
{
    char *message = NULL;
    PQconninfoOption *options = lib.PQconninfoParse(config->address, &message);

    lib.PQfreemem(message);
    if (!options)
        return err_invalid(err, "'%s' is no address of a PostgreSQL database; it is postgresql://USER@HOST:PORT/DATABASE",
                           config->shown);
    lib.PQconninfoFree(options);
    return 0;
}

static int pg_connect(const struct db_config *config, enum db_role role, struct db **ret, struct err *err)
{
    autoptr(db) db = NULL;
    struct postgres *p;
    int r;

    (void) role;
    pthread_once(&lib.once, pg_load_library);
    if (lib.r < 0) {
        if (err)
            *err = lib.err;
        return lib.r;
    }
    r = pg_check_url(config, err);
    if (r < 0)
        return r;
    p = xnew(struct postgres);
    p->db.driver = &db_postgres;
    p->shown = config->shown;
    p->conn = pg_open(config);
    db = &p->db;
    if (lib.PQstatus(p->conn) != CONNECTION_OK)
        return pg_set_unreachable(p->shown, -ECONNREFUSED, p->conn ? lib.PQerrorMessage(p->conn) : "out of memory", err);
    lib.PQsetNoticeProcessor(p->conn, pg_on_notice, NULL);
    r = pg_set_up_connection(p, config, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&db);
    return 0;
}

/* An idle connection becomes readable only when the server closes it or reports a changed setting, which is rare and costs us a
 * new connection. The check costs a system call, but otherwise a write could go to a dead connection, and its outcome would be
 * unknown. */
static bool pg_is_stale(struct db *db)
{
    struct pollfd p = { .fd = lib.PQsocket(pg_of(db)->conn), .events = POLLIN };

    return p.fd < 0 || poll(&p, 1, 0) != 0;
}

static int pg_inspect(struct db *db, const struct db_config *config, struct err *err)
{
    if (lib.PQserverVersion(pg_of(db)->conn) < OLDEST_VERSION)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP, "database '%s' is PostgreSQL %d; 12 or newer is needed",
                       config->shown, lib.PQserverVersion(pg_of(db)->conn) / 10000);
    return 0;
}

/* Query first, because CREATE SCHEMA IF NOT EXISTS requires the privilege to create even if the schema exists. */
static int pg_settle(struct db *db, struct err *err)
{
    int64_t there = 0;
    int r = db_run_int(db, "SELECT count(*) FROM pg_namespace WHERE nspname = '" SCHEMA "'", DB_NO_VALUES, &there, err);

    if (r < 0 || there)
        return r;
    r = pg_script(db, "CREATE SCHEMA IF NOT EXISTS " SCHEMA, err);
    return r == -EEXIST ? 0 : r; /* another host has just made it */
}

const struct db_driver db_postgres = {
    .name = "postgres",
    .begin_write = "BEGIN",
    .for_share = " FOR SHARE",
    .for_update = " FOR UPDATE",
    .count_tables = "SELECT count(*) FROM pg_tables WHERE schemaname = '" SCHEMA "' AND tablename = $1",
    .connect = pg_connect,
    .close = pg_close,
    .is_stale = pg_is_stale,
    .inspect = pg_inspect,
    .settle = pg_settle,
    .prepare = pg_prepare,
    .drop = pg_drop,
    .run = pg_run,
    .script = pg_script,
    .lock = pg_lock,
};
