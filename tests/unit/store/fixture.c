#include "fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "store/db.h"

const struct store_options patient = { .busy_timeout_ms = 60000, .statement_timeout_ms = 60000, .patience_ms = 60000 };

bool on_postgres(void)
{
    return getenv("AGENTFENSE_TEST_POSTGRES") != NULL;
}

struct db *open_raw(struct fixture *x)
{
    static struct db_config config;
    struct err problem = ERR_NONE;
    struct db *db = NULL;

    config = (struct db_config){ .address = x->url, .shown = x->url, .busy_timeout_ms = 60000, .statement_timeout_ms = 60000 };
    if ((on_postgres() ? &db_postgres : &db_sqlite)->connect(&config, DB_WRITER, &db, &problem) < 0)
        fail_msg("%s", problem.text);
    return db;
}

void run_sql(struct fixture *x, const char *sql)
{
    autoptr(db) db = open_raw(x);

    must(db_script(db, sql, err));
}

void forget_all(struct fixture *x)
{
    if (on_postgres())
        run_sql(x, "DROP SCHEMA IF EXISTS agentfense CASCADE");
    else
        unlink(x->url);
}

int fixture_setup(void **state)
{
    struct fixture *x = xnew(struct fixture);

    log_set_level(LOG_LEVEL_ERROR);
    strcpy(x->dir, "/tmp/test-store-XXXXXX");
    if (!mkdtemp(x->dir))
        return -1;
    x->url = on_postgres() ? xdup(getenv("AGENTFENSE_TEST_POSTGRES")) : xprintf("%s/metadata.db", x->dir);
    *state = x;
    forget_all(x);
    must(store_open(x->url, &patient, &x->store, err));
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *x = *state;
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r;

    store_close(x->store);
    r = file_remove_tree(root, x->dir + 1);
    free(x->url);
    free(x);
    return r;
}

void reopen(struct fixture *x)
{
    store_close(x->store);
    x->store = NULL;
    must(store_open(x->url, &patient, &x->store, err));
}

static char *new_id(const char *prefix)
{
    char id[ID_TEXT_MAX];

    id_new(prefix, id);
    return xdup(id);
}

struct codebase_row some_codebase(const char *owner, int64_t created_ns)
{
    return (struct codebase_row){
        .id = new_id(CODEBASE_ID_PREFIX),
        .name = xdup("shop \xc3\xa9\xf0\x9f\x98\x80 'quoted' \"$1\""),
        .owner_id = xdup(owner),
        .host_id = xdup("host_a"),
        .size_bytes = 1LL << 40,
        .file_count = 12,
        .version = 3,
        .created_ns = created_ns,
        .updated_ns = created_ns + 5,
    };
}

struct sandbox_row some_sandbox(const char *owner, const char *codebase_id, int64_t created_ns)
{
    struct sandbox_row row = {
        .id = new_id(SANDBOX_ID_PREFIX),
        .codebase_id = xdup(codebase_id),
        .scope_path = xdup(*codebase_id ? "" : "/srv/\xff not UTF-8"),
        .owner_id = xdup(owner),
        .host_id = xdup("host_a"),
        .status = SANDBOX_STATUS_PENDING,
        .reason = xdup(""),
        .runtime = 1,
        .image = xdup("debian:12"),
        .memory_bytes = 1LL << 33,
        .cpu_quota = 50000,
        .cpu_shares = 512,
        .pids_limit = 100,
        .disk_bytes = 1LL << 34,
        .network = xdup("none"),
        .sync_on_completion = true,
        .created_ns = created_ns,
        .expires_ns = created_ns + 1000,
    };

    buf_add(&row.rules, "a\0b\xff", 4);
    buf_add(&row.extra, "{}", 2);
    label_list_add(&row.labels, "team", "red");
    label_list_add(&row.labels, "stage", "");
    return row;
}

struct sandbox_row some_sandbox_over(const char *path, int64_t created_ns)
{
    struct sandbox_row row = some_sandbox("ann", "", created_ns);

    free(row.scope_path);
    row.scope_path = xdup(path);
    row.project_root = xdup("/p");
    row.reserved_paths = xalloc(2 * sizeof(char *));
    row.reserved_paths[0] = xdup(path);
    row.reserved_paths[1] = NULL;
    row.status = SANDBOX_STATUS_CREATING;
    row.creator = xdup("agent-7");
    row.creator_type = xdup("agent");
    row.driver = xdup("fence");
    row.preset = xdup("development");
    row.tags = xdup("[\"a\"]");
    row.metadata = xdup("{\"k\":1}");
    row.behavior = xdup("{}");
    row.base_commit = xdup("abc");
    row.used_ns = row.updated_ns = created_ns;
    return row;
}
