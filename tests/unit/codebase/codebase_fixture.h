/* A codebase of its own for each test, a delta beside it, and small archives made by hand. In memory where that is possible: these
 * tests sync a lot. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../long.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase.h"
#include "codebase/codebase_get.h"
#include "codebase/codebase_import.h"
#include "codebase/codebase_list.h"
#include "codebase/codebase_put.h"
#include "codebase/codebase_txn.h"
#include "codebase/codebase_version.h"

#define ID "cb_0123456789abcdef"

struct world {
    char dir[64];
    char *root; /* owned */
    int fd;     /* of `dir` */
    int delta;
    struct codebases *all;
    struct codebase *cb;
    struct codebase_options options;
};

#define assert_ok(call)                                                                                                        \
    do {                                                                                                                       \
        struct err err_ = ERR_NONE, *e_ = &err_;                                                                               \
        (void) e_;                                                                                                             \
        int r_ = (call);                                                                                                       \
        if (r_ < 0)                                                                                                            \
            fail_msg("%s:%d: %s: %d %s", __FILE__, __LINE__, #call, r_, err_.text);                                            \
    } while (0)

static inline void world_open(struct world *w)
{
    assert_ok(codebases_open(w->root, &w->options, &w->all, e_));
    assert_ok(codebase_open(w->all, ID, &w->cb, e_));
}

static inline void world_close(struct world *w)
{
    codebase_close(w->cb);
    codebases_close(w->all);
    w->cb = NULL;
    w->all = NULL;
}

static inline void world_reopen(struct world *w)
{
    world_close(w);
    world_open(w);
}

static inline int world_setup(void **state)
{
    struct world *w = xnew(struct world);
    bool has_memory = access("/dev/shm", W_OK) == 0;

    log_set_level(LOG_LEVEL_ERROR);
    umask(022);
    snprintf(w->dir, sizeof(w->dir), "%s/codebase-test-XXXXXX", has_memory ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(w->dir));
    w->fd = open(w->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(w->fd, "delta", 0755), 0);
    w->delta = path_open_beneath(w->fd, "delta", O_RDONLY | O_DIRECTORY, 0);
    w->root = xprintf("%s/codebases", w->dir);
    assert_ok(codebases_open(w->root, &w->options, &w->all, e_));
    assert_ok(codebase_create(w->all, ID, &w->cb, e_));
    *state = w;
    return 0;
}

static inline int world_teardown(void **state)
{
    struct world *w = *state;
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = file_remove_tree(root, w->dir + 1);

    world_close(w);
    close(w->delta);
    close(w->fd);
    free(w->root);
    free(w);
    return r;
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

/* ---- changes ---- */

static inline int try_put(struct world *w, const char *path, const char *text, int mode, struct codebase_put_result *ret,
                          struct err *err)
{
    struct codebase_put_result result;
    autoptr(codebase_put) put = NULL;
    int r = codebase_put_begin(w->cb, path, mode, "tester", &put, err);

    if (r >= 0)
        r = codebase_put_write(put, text, strlen(text), err);
    return r < 0 ? r : codebase_put_commit(put, ret ? ret : &result, NULL, err);
}

static inline void put(struct world *w, const char *path, const char *text)
{
    assert_ok(try_put(w, path, text, CODEBASE_PUT_SAME_MODE, NULL, e_));
}

static inline uint64_t version_now(struct world *w)
{
    struct codebase_info info = { 0 };

    assert_ok(codebase_info(w->cb, &info, e_));
    return info.version;
}

static inline void delta_put(struct world *w, const char *name, const char *text)
{
    assert_int_equal(file_put(w->delta, name, text, strlen(text), 0644), 0);
}

static inline bool delta_has(struct world *w, const char *name)
{
    struct stat st;

    return fstatat(w->delta, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline struct codebase_txn *begin(struct world *w)
{
    struct codebase_txn *txn = NULL;

    assert_ok(codebase_txn_begin(w->cb, "sb_1/exec_1", "sync", &txn, e_));
    return txn;
}

static inline void commit(struct codebase_txn *txn, struct codebase_commit *ret)
{
    struct codebase_commit ignored = CODEBASE_COMMIT_NONE;

    assert_ok(codebase_txn_commit(txn, &ignored, e_));
    codebase_txn_free(txn);
    if (ret)
        *ret = ignored;
    else
        codebase_commit_done(&ignored);
}

/* What a fence would note when it copies the file up. */
static inline struct codebase_seen seen(struct world *w, const char *path)
{
    autofd int fd = path_open_beneath(codebase_files_fd(w->cb), path, O_PATH, 0);
    struct stat st;

    if (fd < 0)
        return CODEBASE_WAS_ABSENT;
    assert_int_equal(fstat(fd, &st), 0);
    return codebase_seen_of_stat(&st);
}

/* ---- what is there ---- */

static inline char *text_of(int fd)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add(&text, "", 0);
    assert_int_equal(fd_read_all(fd, 1 << 20, &text), 0);
    return buf_dup_take(&text);
}

static inline void assert_file(struct world *w, const char *path, const char *text)
{
    autofree char *got = NULL;
    autofd int fd = -1;
    struct stat st;

    assert_ok(codebase_get_open(w->cb, path, &fd, &st, e_));
    got = text_of(fd);
    assert_string_equal(got, text);
}

static inline void assert_file_at(struct world *w, uint64_t version, const char *path, const char *text)
{
    autofree char *got = NULL;
    autofd int fd = -1;
    struct stat st;

    assert_ok(codebase_get_open_at(w->cb, version, path, &fd, &st, e_));
    got = text_of(fd);
    assert_string_equal(got, text);
}

static inline void assert_absent(struct world *w, const char *path)
{
    struct err err = ERR_NONE;
    struct stat st;
    int fd;

    assert_int_equal(codebase_get_open(w->cb, path, &fd, &st, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static inline mode_t mode_of(struct world *w, const char *path)
{
    autofd int fd = path_open_beneath(codebase_files_fd(w->cb), path, O_PATH, 0);
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_mode;
}

static inline void assert_counts(struct world *w)
{
    struct codebase_info info = { 0 }, counted = { 0 };

    assert_ok(codebase_settle(w->cb, e_));
    assert_ok(codebase_info(w->cb, &info, e_));
    assert_ok(codebase_recount(w->cb, &counted, e_));
    assert_int_equal(info.version, counted.version);
    assert_int_equal(info.size_bytes, counted.size_bytes);
    assert_int_equal(info.file_count, counted.file_count);
    assert_int_equal(info.undo_bytes, counted.undo_bytes);
    assert_int_equal(info.oldest_version, counted.oldest_version);
}

/* How many names a directory of the codebase has; "": that of all codebases. */
static inline size_t names_in(struct world *w, const char *part)
{
    autofree char *path = *part ? xprintf("%s/%s/%s", w->root, ID, part) : xdup(w->root);
    DIR *dir = opendir(path);
    size_t count = 0;

    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return count;
}

/* ---- archives ---- */

/* A ustar entry. Types: 'L' the name of the next, '0' file, '1' hard link, '2' symlink, '3' device, '5' directory, '6' pipe. */
static inline void tar_add(struct buf *tar, const char *name, char type, const char *text, const char *link, unsigned mode)
{
    char header[512] = { 0 };
    unsigned sum = 0;
    size_t len = type == '0' || type == 'L' ? strlen(text) : 0;

    assert_true(strlen(name) <= 100);
    memcpy(header, name, strlen(name));
    snprintf(header + 100, 8, "%07o", mode);
    snprintf(header + 108, 8, "%07o", 1000u);
    snprintf(header + 116, 8, "%07o", 1000u);
    snprintf(header + 124, 12, "%011lo", (unsigned long) len);
    snprintf(header + 136, 12, "%011lo", 1700000000UL);
    header[156] = type;
    if (link)
        memcpy(header + 157, link, strlen(link));
    memcpy(header + 257, "ustar\00000", 8);
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < sizeof(header); i++)
        sum += (unsigned char) header[i];
    snprintf(header + 148, 8, "%06o", sum);
    buf_add(tar, header, sizeof(header));
    buf_add(tar, text, len);
    while (tar->len % 512)
        buf_add_char(tar, 0);
}

static inline void tar_end(struct buf *tar)
{
    char zeros[1024] = { 0 };

    buf_add(tar, zeros, sizeof(zeros));
}

static inline int try_import(struct world *w, const struct buf *tar, const struct codebase_import_options *options,
                             struct codebase_import_result *ret, struct err *err)
{
    struct codebase_import_options plain = { .by = "tester" };
    struct codebase_import_result result;
    autoptr(codebase_import) import = NULL;
    int r = codebase_import_begin(w->cb, options ? options : &plain, &import, err);

    for (size_t at = 0; r >= 0 && at < tar->len; at += 1000)
        r = codebase_import_write(import, tar->data + at, tar->len - at < 1000 ? tar->len - at : 1000, err);
    return r < 0 ? r : codebase_import_commit(import, ret ? ret : &result, NULL, err);
}
