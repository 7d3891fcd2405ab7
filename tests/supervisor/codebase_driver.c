/* What a server does with a codebase, for the tests: codebase-driver ROOT ID VERB [ARGUMENT...]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "codebase/codebase.h"
#include "codebase/codebase_put.h"
#include "codebase/codebase_version.h"

static struct err err = ERR_NONE;

static int upload(struct codebase *cb, const char *path)
{
    autoptr(codebase_put) put = NULL;
    struct codebase_put_result result;
    char bytes[65536];
    ssize_t n = 0;
    int r = codebase_put_begin(cb, path, CODEBASE_PUT_SAME_MODE, "upload", &put, &err);

    while (r >= 0 && (n = read(0, bytes, sizeof(bytes))) > 0)
        r = codebase_put_write(put, bytes, (size_t) n, &err);
    return r < 0 ? r : codebase_put_commit(put, &result, NULL, &err);
}

static int delete_at(struct codebase *cb, const char *path)
{
    autoptr(codebase_txn) txn = NULL;
    struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    struct timespec now;
    int r = codebase_txn_begin(cb, "somebody", "delete", &txn, &err);

    clock_gettime(CLOCK_REALTIME, &now);
    struct codebase_change change = { path, now.tv_sec * 1000000000LL + now.tv_nsec, CODEBASE_UNSEEN };
    if (r >= 0)
        r = codebase_txn_remove(txn, &change, &err);
    if (r >= 0)
        r = codebase_txn_commit(txn, &commit, &err);
    codebase_commit_done(&commit);
    return r;
}

static int on_version(const struct codebase_version *v, void *cookie)
{
    (void) cookie;
    printf("%llu %s %zu %zu %zu\n", (unsigned long long) v->number, *v->by ? v->by : "-", v->put_count, v->removed_count,
           v->conflict_count);
    return 0;
}

/* "consistent" when the counters are what a walk counts. */
static int check(struct codebase *cb)
{
    struct codebase_info kept, counted;
    int r = codebase_info(cb, &kept, &err);

    if (r >= 0)
        r = codebase_recount(cb, &counted, &err);
    if (r >= 0)
        printf("%llu %llu %s\n", (unsigned long long) kept.version, (unsigned long long) kept.file_count,
               memcmp(&kept, &counted, sizeof(kept)) == 0 ? "consistent" : "wrong");
    return r;
}

static int act(struct codebases *all, const char *id, char **args)
{
    autoptr(codebase) cb = NULL;
    int r;

    if (strcmp(args[0], "create") == 0)
        return codebase_create(all, id, &cb, &err);
    r = codebase_open(all, id, &cb, &err);
    if (r < 0)
        return r;
    if (strcmp(args[0], "put") == 0)
        return upload(cb, args[1]);
    if (strcmp(args[0], "delete") == 0)
        return delete_at(cb, args[1]);
    if (strcmp(args[0], "versions") == 0)
        return codebase_versions(cb, on_version, NULL, &err);
    if (strcmp(args[0], "check") == 0)
        return check(cb);
    if (strcmp(args[0], "settle") == 0)
        return codebase_settle(cb, &err);
    if (strcmp(args[0], "recover") == 0)
        return codebase_recover_loser(cb, strtoull(args[1], NULL, 10), args[2], "test", NULL, &err);
    return err_invalid(&err, "no such verb");
}

int main(int argc, char **argv)
{
    autoptr(codebases) all = NULL;
    int r = argc < 4 ? err_invalid(&err, "ROOT ID VERB") : codebases_open(argv[1], NULL, &all, &err);

    if (r >= 0)
        r = act(all, argv[2], argv + 3);
    if (r < 0)
        fprintf(stderr, "%s\n", err.text);
    return r < 0;
}
