#include "store/schema.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * A step is written once, with words for what the two databases call differently. A step that was released is never changed; a
 * new one is added behind it. What a page is ordered by is compared in bytes by both (PostgreSQL's order of texts is the
 * server's locale's otherwise). Times are nanoseconds since 1970, 0 is never. There are no NULLs.
 *
 * Sandboxes name their codebase without a foreign key: one that is stopped outlives it, and says still what it was made from.
 */
#define STEP_1(INT, TEXT, BYTES, SERIAL, END)                                                                                  \
    "CREATE TABLE meta (name " TEXT " PRIMARY KEY, value " TEXT " NOT NULL)" END ";"                                           \
    "CREATE TABLE codebases ("                                                                                                 \
    " id " TEXT " PRIMARY KEY, name " TEXT " NOT NULL, owner_id " TEXT " NOT NULL, host_id " TEXT " NOT NULL,"                 \
    " size_bytes " INT " NOT NULL, file_count " INT " NOT NULL, version " INT " NOT NULL,"                                     \
    " created_ns " INT " NOT NULL, updated_ns " INT " NOT NULL)" END ";"                                                       \
    "CREATE UNIQUE INDEX codebases_by_time ON codebases (created_ns, id);"                                                     \
    "CREATE UNIQUE INDEX codebases_by_owner ON codebases (owner_id, created_ns, id);"                                          \
    "CREATE TABLE sandboxes ("                                                                                                 \
    " id " TEXT " PRIMARY KEY, codebase_id " TEXT " NOT NULL, scope_path " BYTES " NOT NULL,"                                  \
    " owner_id " TEXT " NOT NULL, host_id " TEXT " NOT NULL, status " INT " NOT NULL, reason " TEXT " NOT NULL,"               \
    " rules " BYTES " NOT NULL, labels " TEXT " NOT NULL, runtime " INT " NOT NULL, image " TEXT " NOT NULL,"                  \
    " memory_bytes " INT " NOT NULL, cpu_quota " INT " NOT NULL, cpu_shares " INT " NOT NULL,"                                 \
    " pids_limit " INT " NOT NULL, disk_bytes " INT " NOT NULL, network " TEXT " NOT NULL,"                                    \
    " sync_on_completion " INT " NOT NULL, extra " BYTES " NOT NULL, created_ns " INT " NOT NULL,"                             \
    " started_ns " INT " NOT NULL, stopped_ns " INT " NOT NULL, expires_ns " INT " NOT NULL,"                                  \
    " row_version " INT " NOT NULL)" END ";"                                                                                   \
    "CREATE UNIQUE INDEX sandboxes_by_time ON sandboxes (created_ns, id);"                                                     \
    "CREATE UNIQUE INDEX sandboxes_by_owner ON sandboxes (owner_id, created_ns, id);"                                          \
    "CREATE UNIQUE INDEX sandboxes_by_codebase ON sandboxes (codebase_id, created_ns, id);"                                    \
    "CREATE TABLE sessions ("                                                                                                  \
    " id " TEXT " PRIMARY KEY, sandbox_id " TEXT " NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"                      \
    " host_id " TEXT " NOT NULL, shell " TEXT " NOT NULL, status " INT " NOT NULL,"                                            \
    " created_ns " INT " NOT NULL, closed_ns " INT " NOT NULL)" END ";"                                                        \
    "CREATE UNIQUE INDEX sessions_by_sandbox ON sessions (sandbox_id, created_ns, id);"                                        \
    "CREATE TABLE tokens ("                                                                                                    \
    " id " TEXT " PRIMARY KEY, hash " BYTES " NOT NULL UNIQUE, owner_id " TEXT " NOT NULL, name " TEXT " NOT NULL,"            \
    " created_ns " INT " NOT NULL, expires_ns " INT " NOT NULL, revoked_ns " INT " NOT NULL,"                                  \
    " last_used_ns " INT " NOT NULL, allowed_roots " BYTES " NOT NULL, is_admin " INT " NOT NULL)" END ";"                     \
    "CREATE UNIQUE INDEX tokens_by_owner ON tokens (owner_id, created_ns, id);"                                                \
    "CREATE TABLE events ("                                                                                                    \
    " sequence " SERIAL ", time_ns " INT " NOT NULL, type " TEXT " NOT NULL, sandbox_id " TEXT " NOT NULL,"                    \
    " codebase_id " TEXT " NOT NULL, owner_id " TEXT " NOT NULL, host_id " TEXT " NOT NULL, payload " TEXT " NOT NULL)" END    \
    ";"                                                                                                                        \
    "CREATE INDEX events_by_sandbox ON events (sandbox_id, sequence);"                                                         \
    "CREATE INDEX events_by_owner ON events (owner_id, sequence);"                                                             \
    "CREATE TABLE claims ("                                                                                                    \
    " owner_id " TEXT " NOT NULL, idempotency_key " TEXT " NOT NULL, method " TEXT " NOT NULL, hash " BYTES " NOT NULL,"       \
    " host_id " TEXT " NOT NULL, resource_id " TEXT " NOT NULL, is_finished " INT " NOT NULL, response " BYTES " NOT NULL,"    \
    " created_ns " INT " NOT NULL, expires_ns " INT " NOT NULL, PRIMARY KEY (owner_id, idempotency_key))" END ";"              \
    "CREATE INDEX claims_by_end ON claims (expires_ns);"

/* Workspaces, and what was applied of them. What a workspace reserves is with it, so that no lock outlives its holder. */
#define STEP_2(INT, TEXT, BYTES, SERIAL, END)                                                                                  \
    "CREATE TABLE workspaces ("                                                                                                \
    " id " TEXT " PRIMARY KEY, account_id " TEXT " NOT NULL, host_id " TEXT " NOT NULL, scope_path " BYTES " NOT NULL,"        \
    " project_root " BYTES " NOT NULL, reserved_paths " BYTES " NOT NULL, no_lock " INT " NOT NULL,"                           \
    " owner " TEXT " NOT NULL, owner_type " TEXT " NOT NULL, status " INT " NOT NULL, reason " TEXT " NOT NULL,"               \
    " driver " TEXT " NOT NULL, preset " TEXT " NOT NULL, rules " BYTES " NOT NULL, tags " TEXT " NOT NULL,"                   \
    " metadata " TEXT " NOT NULL, behavior " TEXT " NOT NULL, idempotency_key " TEXT " NOT NULL,"                              \
    " request_hash " BYTES " NOT NULL, base_commit " TEXT " NOT NULL, size_bytes " INT " NOT NULL,"                            \
    " file_count " INT " NOT NULL, created_ns " INT " NOT NULL, used_ns " INT " NOT NULL, updated_ns " INT " NOT NULL,"        \
    " stopped_ns " INT " NOT NULL, approved_ns " INT " NOT NULL, closed_ns " INT " NOT NULL, deleted_ns " INT " NOT NULL,"     \
    " extra " BYTES " NOT NULL, row_version " INT " NOT NULL)" END ";"                                                         \
    "CREATE UNIQUE INDEX workspaces_by_time ON workspaces (created_ns, id);"                                                   \
    "CREATE INDEX workspaces_by_status ON workspaces (host_id, status);"                                                       \
    "CREATE UNIQUE INDEX workspaces_by_key ON workspaces (account_id, idempotency_key) WHERE idempotency_key <> '';"           \
    "CREATE TABLE applied_changes ("                                                                                           \
    " id " TEXT " PRIMARY KEY, approval_id " TEXT " NOT NULL, workspace_id " TEXT " NOT NULL, account_id " TEXT " NOT NULL,"   \
    " host_id " TEXT " NOT NULL, owner " TEXT " NOT NULL, owner_type " TEXT " NOT NULL, actor " TEXT " NOT NULL,"              \
    " file_path " BYTES " NOT NULL, relative_path " BYTES " NOT NULL, project_root " BYTES " NOT NULL,"                        \
    " change_type " TEXT " NOT NULL, size_bytes " INT " NOT NULL, mode " INT " NOT NULL, content_hash " TEXT " NOT NULL,"      \
    " applied_ns " INT " NOT NULL, undone_ns " INT " NOT NULL, committed_ns " INT " NOT NULL, commit_hash " TEXT " NOT NULL,"  \
    " commit_message " TEXT " NOT NULL)" END ";"                                                                               \
    "CREATE INDEX applied_changes_by_path ON applied_changes (file_path, applied_ns);"                                         \
    "CREATE INDEX applied_changes_by_workspace ON applied_changes (workspace_id, applied_ns);"                                 \
    "CREATE INDEX applied_changes_open ON applied_changes (project_root, committed_ns, applied_ns);"

#define FOR_SQLITE(step) step("INTEGER", "TEXT", "BLOB", "INTEGER PRIMARY KEY AUTOINCREMENT", " STRICT")
#define FOR_POSTGRES(step) step("BIGINT", "TEXT COLLATE \"C\"", "BYTEA", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "")

static const struct {
    const char *sqlite;
    const char *postgres;
} steps[] = {
    { FOR_SQLITE(STEP_1), FOR_POSTGRES(STEP_1) },
    { FOR_SQLITE(STEP_2), FOR_POSTGRES(STEP_2) },
};

int schema_latest(void)
{
    return (int) ARRAY_LEN(steps);
}

static int read_version(struct db *db, int64_t *ret, struct err *err)
{
    int64_t tables = 0;
    int r = db_run_int(db, db->driver->count_tables, DB_VALUES(db_text("schema_version")), &tables, err);

    *ret = 0;
    if (r == 0 && tables > 0)
        r = db_run_int(db, "SELECT coalesce(max(version), 0) FROM schema_version", DB_NO_VALUES, ret, err);
    return r;
}

int schema_check(struct db *db, const char *shown, int64_t *ret_version, struct err *err)
{
    int r = read_version(db, ret_version, err);

    if (r == 0 && *ret_version > schema_latest())
        return err_set(
            err, ERR_FAILED_PRECONDITION, -EPROTO,
            "database '%s' has schema %lld, and this agentfense knows up to %d: a newer version has used it. Nothing was "
            "changed; use that version, or another database",
            shown, (long long) *ret_version, schema_latest());
    return r;
}

/* Within a transaction. */
static int take_step(struct db *db, int64_t version, struct err *err)
{
    int r = 0;

    if (version == 0)
        r = db_script(db, "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL PRIMARY KEY)", err);
    if (r == 0)
        r = db_script(db, db->driver == &db_sqlite ? steps[version].sqlite : steps[version].postgres, err);
    if (r == 0)
        r = db_run(db, "INSERT INTO schema_version (version) VALUES ($1)", DB_VALUES(db_int(version + 1)), NULL, NULL, err);
    return r < 0 ? r : 0;
}

/* 1 when a step was taken, 0 when there is none left. */
static int migrate_once(struct db *db, const char *shown, struct err *err)
{
    int64_t version = 0;
    int r = db_begin(db, err);

    if (r < 0)
        return r;
    r = db->driver->lock(db, "schema", err);
    if (r == 0)
        r = schema_check(db, shown, &version, err); /* another host may have been quicker */
    if (r == 0 && version < schema_latest())
        r = take_step(db, version, err);
    if (r < 0 || version == schema_latest()) {
        db_rollback(db);
        return r;
    }
    r = db_commit(db, err);
    if (r == 0)
        log_info("database schema brought up to date", LOG_STR("database", shown), LOG_INT("version", version + 1));
    return r < 0 ? r : 1;
}

int schema_migrate(struct db *db, const char *shown, struct err *err)
{
    int r;

    while ((r = migrate_once(db, shown, err)) > 0)
        ;
    return r < 0 ? err_wrap(err, r, "preparing the tables") : 0;
}
