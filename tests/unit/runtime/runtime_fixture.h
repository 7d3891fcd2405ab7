/* What the tests of this directory share: a scratch directory and small files in it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../long.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/runtime_spec.h"

/* For what happens soon, on however busy a machine; a test that waits as long has failed. */
#define WAIT_MS 60000

struct scratch {
    char path[64];
    int fd;
};

static inline int scratch_setup(void **state)
{
    struct scratch *scratch = xnew(struct scratch);

    strcpy(scratch->path, "/tmp/af-runtime-XXXXXX");
    assert_non_null(mkdtemp(scratch->path));
    chmod(scratch->path, 0755);
    scratch->fd = open(scratch->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = scratch;
    return 0;
}

static inline int scratch_teardown(void **state)
{
    struct scratch *scratch = *state;

    autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_remove_tree(tmp, scratch->path + strlen("/tmp/")), 0);
    close(scratch->fd);
    free(scratch);
    return 0;
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

static inline void make_dir(const struct scratch *scratch, const char *path)
{
    assert_int_equal(path_mkdirs_beneath(scratch->fd, path, 0755), 0);
}

static inline void make_file(const struct scratch *scratch, const char *path, const char *text, mode_t mode)
{
    const char *slash = strrchr(path, '/');

    if (slash) {
        autofree char *parent = xdupn(path, (size_t) (slash - path));

        make_dir(scratch, parent);
    }
    assert_int_equal(file_replace(scratch->fd, path, text, strlen(text), mode), 0);
}

static inline void make_link(const struct scratch *scratch, const char *target, const char *path)
{
    assert_int_equal(symlinkat(target, scratch->fd, path), 0);
}

/* The file's text, lent until the next call. */
static inline const char *text_of(const struct scratch *scratch, const char *path)
{
    static char text[4096];
    autodone(buf) struct buf b = BUF_EMPTY;

    if (file_read(scratch->fd, path, sizeof(text) - 1, &b) < 0)
        return NULL;
    snprintf(text, sizeof(text), "%s", b.data ? b.data : "");
    return text;
}

/* A spec that is accepted whoever runs the tests. */
static inline struct runtime_spec plain_spec(void)
{
    struct runtime_spec spec = RUNTIME_SPEC_NONE;

    spec.id = "sb_test";
    spec.workspace = "/tmp";
    spec.init_path = "/bin/true";
    spec.uid = geteuid() ? geteuid() : 70001;
    spec.gid = geteuid() ? getegid() : 70001;
    return spec;
}
