/* A state directory of a test's own, and sandboxes in it. */
#pragma once

#include "sandbox/state_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define state_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

struct fixture {
    char dir[64];
    char *state; /* owned: the state directory, not made yet */
    struct state_dir state_dir;
};

static inline int setup(void **state)
{
    struct fixture *x = xnew(struct fixture);

    strcpy(x->dir, "/tmp/test-home-XXXXXX");
    if (!mkdtemp(x->dir))
        return -1;
    x->state = xprintf("%s/a/b/state", x->dir);
    x->state_dir = STATE_DIR_NONE;
    setenv("AGENTFENSE_STATE_DIR", x->state, 1);
    *state = x;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *x = *state;
    int r;

    state_dir_done(&x->state_dir);
    r = file_remove_tree(AT_FDCWD, x->dir + 1); /* beneath the root: the working directory is set to it */
    free(x->state);
    free(x);
    return r;
}

static inline struct sandbox_spec *spec_of(const char *name, const char *base)
{
    struct sandbox_spec *spec = xnew(struct sandbox_spec);

    spec->name = name ? xdup(name) : NULL;
    spec->base_path = xdup(base);
    spec->runtime = xdup("mock");
    spec->hostname = xdup("");
    return spec;
}

static inline void open_it(struct fixture *x)
{
    struct err err = ERR_NONE;

    if (state_dir_open(true, &x->state_dir, &err) < 0)
        fail_msg("%s", err.text);
}

static inline int make(struct fixture *x, const char *name, int *ret_fd, struct err *err)
{
    autoptr(sandbox_spec) spec = spec_of(name, "/srv/shop");

    return state_dir_create(&x->state_dir, spec, true, ret_fd, err);
}

static inline void must_make(struct fixture *x, const char *name)
{
    struct err err = ERR_NONE;
    autofd int fd = -1;

    if (make(x, name, &fd, &err) < 0)
        fail_msg("%s", err.text);
}

struct names {
    char items[16][SANDBOX_NAME_MAX];
    size_t count;
};

static inline int add_name(const char *id, int dir_fd, void *cookie)
{
    struct names *names = cookie;
    autoptr(sandbox_spec) spec = NULL;
    struct err err = ERR_NONE;

    assert_true(dir_fd >= 0 && names->count < ARRAY_LEN(names->items));
    assert_int_equal(sandbox_spec_load(dir_fd, &spec, &err), 0);
    assert_string_equal(sandbox_spec_dir_name(spec), id);
    snprintf(names->items[names->count++], SANDBOX_NAME_MAX, "%s", spec->name);
    return 0;
}

static inline int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline void assert_names(struct fixture *x, const char *expected)
{
    autodone(buf) struct buf all = BUF_EMPTY;
    struct names names = { .count = 0 };
    struct err err = ERR_NONE;

    assert_int_equal(state_dir_each(&x->state_dir, add_name, &names, &err), 0);
    qsort(names.items, names.count, sizeof(names.items[0]), compare_names);
    for (size_t i = 0; i < names.count; i++)
        buf_addf(&all, "%s ", names.items[i]);
    assert_string_equal(all.data ? all.data : "", expected);
}

/* The name's sandbox, opened; its id is checked to be one. */
static inline int open_named(struct fixture *x, const char *name)
{
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    int fd = -1;

    if (state_dir_find(&x->state_dir, name, id, &fd, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(sandbox_id_is_valid(id));
    return fd;
}

static inline int remove_named(struct fixture *x, const char *name, struct err *err)
{
    char id[SANDBOX_NAME_MAX];
    autofd int fd = -1;
    int r = state_dir_find(&x->state_dir, name, id, &fd, err);

    return r < 0 ? r : state_dir_remove(&x->state_dir, id, err);
}

/* Of any name, also a temporary one. */
static inline int count_entries(struct fixture *x)
{
    struct dirent **names = NULL;
    int count = scandirat(x->state_dir.sandboxes_fd, ".", &names, NULL, alphasort);

    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return count - 2;
}
