/* A fresh store for each test: an SQLite file of its own or, when AGENTFENSE_TEST_POSTGRES names one, a PostgreSQL made empty.
 * */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../long.h"

#include "base/err.h"
#include "base/mem.h"
#include "store/codebase_row.h"
#include "store/sandbox_row.h"
#include "store/store.h"

#define TEST_SKIPPED 77 /* as meson has it */

struct fixture {
    char dir[64];
    char *url; /* owned */
    struct store *store;
};

/* For stores whose calls must not fail, on however busy a machine. */
extern const struct store_options patient;

bool on_postgres(void);

int fixture_setup(void **state);    /* with an open store */
int fixture_teardown(void **state); /* closes and removes */

void reopen(struct fixture *x);
void forget_all(struct fixture *x); /* as if there had never been a database */

/* A connection and statements behind the store's back. */
struct db;
struct db *open_raw(struct fixture *x);
void run_sql(struct fixture *x, const char *sql);

#define must(call)                                                                                                             \
    do {                                                                                                                       \
        struct err must_err = ERR_NONE, *err = &must_err;                                                                      \
        int must_r = (call);                                                                                                   \
        if (must_r < 0)                                                                                                        \
            fail_msg("%s: %d: %s", #call, must_r, must_err.text);                                                              \
    } while (0)

#define must_fail(code_wanted, call)                                                                                           \
    do {                                                                                                                       \
        struct err must_err = ERR_NONE, *err = &must_err;                                                                      \
        int must_r = (call);                                                                                                   \
        if (must_r >= 0 || must_err.code != (code_wanted))                                                                     \
            fail_msg("%s: %d %s: %s", #call, must_r, err_code_name(must_err.code), must_err.text);                             \
        if (!must_err.text[0])                                                                                                 \
            fail_msg("%s: no text", #call);                                                                                    \
    } while (0)

/* Rows with something in every field. */
struct codebase_row some_codebase(const char *owner, int64_t created_ns);
struct sandbox_row some_sandbox(const char *owner, const char *codebase_id, int64_t created_ns);

#define store_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, fixture_teardown)

/* One over a directory, which it reserves. */
struct sandbox_row some_sandbox_over(const char *path, int64_t created_ns);
