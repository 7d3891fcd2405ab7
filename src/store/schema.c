#include "store/schema.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * Each step is written once, with macro parameters where the databases differ. Never change a released step; add a new one
 * after it. Columns that order pages compare bytes in both databases (PostgreSQL would use the server's locale otherwise).
 * Times are nanoseconds since 1970; 0 is never. There are no NULLs.
 *
 * Sandboxes refer to their codebase without a foreign key: a stopped sandbox outlives its codebase and still names it.
 */
#define STEP_1(INT, TEXT, BYTES, SERIAL, END, NO_BYTES)                                                                        \
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

/* Workspaces and their applied changes. A workspace's row contains its reserved paths, so no lock outlives its holder. */
#define STEP_2(INT, TEXT, BYTES, SERIAL, END, NO_BYTES)                                                                        \
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

/*
 * One table for all sandboxes: workspaces become rows of it, with the ids that name their directories already. Their status
 * becomes two columns (sandbox_row.h). Their idempotency keys become normal claims that never expire, as before.
 */
#define ADD(column) "ALTER TABLE sandboxes ADD COLUMN " column ";"
#define WORKSPACE_ID(uuid) "'ws_' || replace(" uuid ", '-', '')"
#define STEP_3(INT, TEXT, BYTES, SERIAL, END, NO_BYTES)                                                                        \
    ADD("name " TEXT " NOT NULL DEFAULT ''")                                                                                   \
    ADD("project_root " BYTES " NOT NULL DEFAULT " NO_BYTES)                                                                   \
    ADD("reserved_paths " BYTES " NOT NULL DEFAULT " NO_BYTES)                                                                 \
    ADD("no_lock " INT " NOT NULL DEFAULT 0")                                                                                  \
    ADD("decision " INT " NOT NULL DEFAULT 0")                                                                                 \
    ADD("restarts " INT " NOT NULL DEFAULT 0")                                                                                 \
    ADD("creator " TEXT " NOT NULL DEFAULT ''")                                                                                \
    ADD("creator_type " TEXT " NOT NULL DEFAULT ''")                                                                           \
    ADD("preset " TEXT " NOT NULL DEFAULT ''")                                                                                 \
    ADD("tags " TEXT " NOT NULL DEFAULT ''")                                                                                   \
    ADD("metadata " TEXT " NOT NULL DEFAULT ''")                                                                               \
    ADD("behavior " TEXT " NOT NULL DEFAULT ''")                                                                               \
    ADD("driver " TEXT " NOT NULL DEFAULT 'fence'")                                                                            \
    ADD("base_commit " TEXT " NOT NULL DEFAULT ''")                                                                            \
    ADD("idempotency_key " TEXT " NOT NULL DEFAULT ''")                                                                        \
    ADD("size_bytes " INT " NOT NULL DEFAULT 0")                                                                               \
    ADD("file_count " INT " NOT NULL DEFAULT 0")                                                                               \
    ADD("used_ns " INT " NOT NULL DEFAULT 0")                                                                                  \
    ADD("updated_ns " INT " NOT NULL DEFAULT 0")                                                                               \
    ADD("approved_ns " INT " NOT NULL DEFAULT 0")                                                                              \
    ADD("closed_ns " INT " NOT NULL DEFAULT 0")                                                                                \
    ADD("deleted_ns " INT " NOT NULL DEFAULT 0")                                                                               \
    "CREATE INDEX sandboxes_by_status ON sandboxes (host_id, status);"                                                         \
    "CREATE UNIQUE INDEX sandboxes_by_name ON sandboxes (owner_id, name) WHERE name <> '';"                                    \
    "INSERT INTO sandboxes (id, codebase_id, scope_path, owner_id, host_id, status, reason, rules, labels, runtime, image,"    \
    " memory_bytes, cpu_quota, cpu_shares, pids_limit, disk_bytes, network, sync_on_completion, extra, created_ns,"            \
    " started_ns, stopped_ns, expires_ns, row_version, project_root, reserved_paths, no_lock, decision, restarts, creator,"    \
    " creator_type, preset, tags, metadata, behavior, driver, base_commit, idempotency_key, size_bytes, file_count, used_ns,"  \
    " updated_ns, approved_ns, closed_ns, deleted_ns)"                                                                         \
    " SELECT " WORKSPACE_ID(                                                                                                   \
        "id") ", '', scope_path, account_id, host_id,"                                                                         \
              " CASE status WHEN 1 THEN 8 WHEN 2 THEN 2 WHEN 6 THEN 9 WHEN 7 THEN 4 ELSE 3 END, reason, rules, '', 1, '',"     \
              " 0, 0, 0, 0, 0, '', 0, extra, created_ns,"                                                                      \
              " CASE WHEN status IN (1, 7) THEN 0 WHEN status = 2 THEN updated_ns ELSE created_ns END, stopped_ns, 0, "        \
              "row_version,"                                                                                                   \
              " project_root, reserved_paths, no_lock,"                                                                        \
              " CASE WHEN status IN (1, 2, 3, 7) OR closed_ns = 0 THEN 0 WHEN approved_ns > 0 THEN 1 ELSE 2 END, 1, owner, "   \
              "owner_type,"                                                                                                    \
              " preset, tags, metadata, behavior, driver, base_commit, idempotency_key, size_bytes, file_count, used_ns, "     \
              "updated_ns,"                                                                                                    \
              " approved_ns, closed_ns, CASE status WHEN 7 THEN updated_ns ELSE deleted_ns END FROM workspaces;"               \
              "INSERT INTO claims (owner_id, idempotency_key, method, hash, host_id, resource_id, is_finished, response, "     \
              "created_ns,"                                                                                                    \
              " expires_ns)"                                                                                                   \
              " SELECT account_id, idempotency_key, 'CreateWorkspace', request_hash, host_id, " WORKSPACE_ID(                  \
                  "id") ","                                                                                                    \
                        " CASE status WHEN 1 THEN 0 ELSE 1 END, CAST(" WORKSPACE_ID(                                           \
                            "id") " AS " BYTES "), created_ns, 9223372036854775807"                                            \
                                  " FROM workspaces WHERE idempotency_key <> '' ON CONFLICT (owner_id, idempotency_key) DO "   \
                                  "NOTHING;"                                                                                   \
                                  "UPDATE events SET sandbox_id = " WORKSPACE_ID(                                              \
                                      "sandbox_id") " WHERE length(sandbox_id) = 36;"                                          \
                                                    "ALTER TABLE applied_changes RENAME COLUMN workspace_id TO sandbox_id;"    \
                                                    "ALTER TABLE applied_changes RENAME COLUMN account_id TO owner_id;"        \
                                                    "ALTER TABLE applied_changes RENAME COLUMN owner TO creator;"              \
                                                    "ALTER TABLE applied_changes RENAME COLUMN owner_type TO creator_type;"    \
                                                    "DROP INDEX applied_changes_by_workspace;"                                 \
                                                    "UPDATE applied_changes SET sandbox_id = " WORKSPACE_ID(                   \
                                                        "sandbox_id") ";"                                                      \
                                                                      "CREATE INDEX applied_changes_by_sandbox ON "            \
                                                                      "applied_changes (sandbox_id, applied_ns);"              \
                                                                      "DROP TABLE workspaces;"

#define FOR_SQLITE(step) step("INTEGER", "TEXT", "BLOB", "INTEGER PRIMARY KEY AUTOINCREMENT", " STRICT", "x''")
#define FOR_POSTGRES(step)                                                                                                     \
    step("BIGINT", "TEXT COLLATE \"C\"", "BYTEA", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "", "''")

static const struct {
    const char *sqlite;
    const char *postgres;
} steps[] = {
    { FOR_SQLITE(STEP_1), FOR_POSTGRES(STEP_1) },
    { FOR_SQLITE(STEP_2), FOR_POSTGRES(STEP_2) },
    { FOR_SQLITE(STEP_3), FOR_POSTGRES(STEP_3) },
};

int schema_latest(void)
{
    return (int) ARRAY_LEN(steps);
}

static int schema_read_version(struct db *db, int64_t *ret, struct err *err)
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
    int r = schema_read_version(db, ret_version, err);

    if (r == 0 && *ret_version > schema_latest())
        return err_set(
            err, ERR_FAILED_PRECONDITION, -EPROTO,
            "database '%s' has schema %lld, and this agentfense knows up to %d: a newer version has used it. Nothing was "
            "changed; use that version, or another database",
            shown, (long long) *ret_version, schema_latest());
    return r;
}

/* Call in a transaction. */
static int schema_run_step(struct db *db, int64_t version, struct err *err)
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

/* Returns 1 after a step, 0 if none was missing. */
static int schema_migrate_once(struct db *db, const char *shown, int wanted, struct err *err)
{
    int64_t version = 0;
    int r = db_begin(db, err);

    if (r < 0)
        return r;
    r = db->driver->lock(db, "schema", err);
    if (r == 0)
        r = schema_check(db, shown, &version, err); /* another host may have run the step meanwhile */
    if (r == 0 && version < wanted)
        r = schema_run_step(db, version, err);
    if (r < 0 || version >= wanted) {
        db_rollback(db);
        return r;
    }
    r = db_commit(db, err);
    if (r == 0)
        log_info("database schema brought up to date", LOG_STR("database", shown), LOG_INT("version", version + 1));
    return r < 0 ? r : 1;
}

int schema_migrate(struct db *db, const char *shown, int wanted, struct err *err)
{
    int r;

    while ((r = schema_migrate_once(db, shown, wanted, err)) > 0)
        ;
    return r < 0 ? err_wrap(err, r, "preparing the tables") : 0;
}
