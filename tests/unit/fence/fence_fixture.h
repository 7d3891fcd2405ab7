/* A fence on temporary directories, without a mount: its operations are called as the reply layer would. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../leftover.h"
#include "../long.h"

#include "base/file.h"
#include "base/mem.h"
#include "fence/fence_int.h"
#include "fence/inode.h"
#include "fence/ops.h"

struct fixture {
    char dir[64];
    int fd;
    bool syncs_out;
    bool is_live;
    struct fence *fence;
};

static const struct op_caller nobody = { 0 };

static inline void put_file(struct fixture *x, const char *path, const char *text)
{
    autofd int fd = openat(x->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static inline void put_dir(struct fixture *x, const char *path)
{
    assert_int_equal(mkdirat(x->fd, path, 0755), 0);
}

static inline bool is_there(struct fixture *x, const char *path)
{
    return faccessat(x->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const char *fixture_top = "/tmp";

/* For programs that make or sync thousands of files: from now on those are in memory, so that nobody waits for a disk. Root has a file system
 * of its own for them. */
static inline void use_memory(void)
{
#ifdef AGENTFENSE_COVERAGE /* whose counters may lie beneath it */
    return;
#endif
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        (void) !mount("none", "/tmp", "tmpfs", 0, "mode=1777");
    else if (access("/dev/shm", W_OK) == 0)
        fixture_top = "/dev/shm";
}

static inline void fixture_init(struct fixture *x)
{
    *x = (struct fixture){ 0 };
    snprintf(x->dir, sizeof(x->dir), "%s/test-fence-XXXXXX", fixture_top);
    assert_non_null(mkdtemp(x->dir));
    leftover_add(x->dir);
    x->fd = open(x->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(x->fd >= 0);
    put_dir(x, "base");
}

/* `rules` ends with NULL; each is PATTERN=LEVEL[@PRIORITY]. */
static inline void fixture_open(struct fixture *x, const char *const *rules, uint64_t quota_bytes)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;
    autoptr(ruleset) set = NULL;
    autofree char *base = xprintf("%s/base", x->dir), *delta = xprintf("%s/delta", x->dir);
    struct err err = ERR_NONE;

    for (; *rules; rules++)
        assert_int_equal(rule_list_add_short(&list, *rules, &err), 0);
    assert_int_equal(ruleset_new(&list, NULL, &set, &err), 0);
    struct fence_config config = { .base_path = base,
                                   .delta_path = delta,
                                   .rules = set,
                                   .quota_bytes = quota_bytes,
                                   .syncs_out = x->syncs_out,
                                   .is_live = x->is_live };
    if (fence_new(&config, &x->fence, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void fixture_close(struct fixture *x)
{
    fence_free(x->fence);
    x->fence = NULL;
}

static inline void fixture_done(struct fixture *x)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    fixture_close(x);
    close(x->fd);
    assert_int_equal(file_remove_tree(root, x->dir + 1), 0);
}

/* The inode at a path, with a lookup of the kernel's on every step; NULL where there is none. */
static inline struct inode *walk(struct fixture *x, const char *path, struct stat *ret_st)
{
    struct inode *at = x->fence->root;
    autofree char *copy = xdup(path);
    char *save = NULL;

    for (char *name = strtok_r(copy, "/", &save); name && at; name = strtok_r(NULL, "/", &save)) {
        struct entry_answer answer = { 0 };
        assert_int_equal(op_lookup(x->fence, &nobody, at, name, &answer), 0);
        at = answer.inode;
        if (ret_st)
            *ret_st = answer.st;
    }
    return at;
}

static inline ssize_t write_from(int fd, size_t size, off_t offset, void *cookie)
{
    ssize_t n = pwrite(fd, cookie, size, offset);

    return n < 0 ? -errno : n;
}

static inline ssize_t write_text(struct fixture *x, struct inode *inode, const char *text, off_t offset)
{
    return op_write(x->fence, &nobody, inode, strlen(text), offset, write_from, (void *) (uintptr_t) text);
}

static inline void assert_content(struct fixture *x, struct inode *inode, const char *text)
{
    char bytes[4096];
    ssize_t n = op_read(x->fence, &nobody, inode, bytes, sizeof(bytes), 0);

    assert_int_equal(n, strlen(text));
    assert_memory_equal(bytes, text, (size_t) n);
}

static inline struct inode *make_file(struct fixture *x, const char *dir, const char *name, const char *text)
{
    struct entry_answer answer;

    assert_int_equal(op_mknod(x->fence, &nobody, *dir ? walk(x, dir, NULL) : x->fence->root, name, S_IFREG | 0644, &answer), 0);
    assert_int_equal(write_text(x, answer.inode, text, 0), strlen(text));
    return answer.inode;
}

static inline void make_dir(struct fixture *x, const char *dir, const char *name)
{
    struct entry_answer answer;

    assert_int_equal(op_mkdir(x->fence, &nobody, *dir ? walk(x, dir, NULL) : x->fence->root, name, 0755, &answer), 0);
}

/* However deep. */
static inline size_t count_below(struct fixture *x, const char *path)
{
    autofree char *cmd = xprintf("find %s/%s -mindepth 1 | wc -l", x->dir, path);
    FILE *pipe = popen(cmd, "r");
    size_t count = 0;

    assert_int_equal(fscanf(pipe, "%zu", &count), 1);
    pclose(pipe);
    return count;
}

static inline size_t delta_entries(struct fixture *x)
{
    return count_below(x, "delta/data");
}
