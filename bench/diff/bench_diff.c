/*
 * The read side of a review, as bench_diff.py measures it.
 *
 *     bench-diff make BASE DELTA LIST   lets an agent write to each file that LIST names ("<path> <file with the new content>")
 *     bench-diff show DELTA             every change with its hunks, lines and hash, and the hash of all, as the API tells them
 *     bench-diff measure DELTA          lines and hashes alone
 *     bench-diff patch DELTA            the patch, to stdout
 *     bench-diff time COMMAND...        runs it and tells seconds and peak kilobytes on stderr. The peak of a process counts from its
 *                                       fork, when it is as large as who made it: hence not from Python
 */
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "fence/fence.h"
#include "fence/inode.h"
#include "fence/ops.h"
#include "policy/ruleset.h"
#include "review/file_diff.h"
#include "review/parallel.h"
#include "review/patch.h"

static const struct op_caller nobody = { 0 };

/* ---- make ---- */

static int look_up(struct fence *fence, char *path, struct inode **ret)
{
    struct inode *at = fence->root;
    char *save = NULL;

    for (char *name = strtok_r(path, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        struct entry_answer answer = { 0 };
        int r = op_lookup(fence, &nobody, at, name, &answer);
        if (r < 0 || !answer.inode)
            return r < 0 ? r : -ENOENT;
        at = answer.inode;
    }
    *ret = at;
    return 0;
}

static ssize_t write_from(int fd, size_t size, off_t offset, void *cookie)
{
    ssize_t n = pwrite(fd, cookie, size, offset);

    return n < 0 ? -errno : n;
}

static int rewrite(struct fence *fence, char *path, const char *from)
{
    autodone(buf) struct buf content = BUF_EMPTY;
    autofile FILE *file = fopen(from, "re");
    struct entry_answer answer = { 0 };
    struct inode *inode;
    int r = file ? fd_read_all(fileno(file), (size_t) 1 << 30, &content) : -errno;

    if (r == 0)
        r = look_up(fence, path, &inode);
    if (r == 0)
        r = op_setattr(fence, &nobody, inode, &(struct stat){ 0 }, SETATTR_SIZE, &answer);
    for (size_t at = 0; r == 0 && at < content.len;) {
        size_t n = content.len - at < (1 << 20) ? content.len - at : 1 << 20;
        ssize_t done = op_write(fence, &nobody, inode, n, (off_t) at, write_from, content.data + at);
        r = done < 0 ? (int) done : 0;
        at += n;
    }
    return r;
}

static int make(const char *base, const char *delta, const char *list, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autoptr(ruleset) set = NULL;
    autoptr(fence) fence = NULL;
    autofile FILE *file = fopen(list, "re");
    char path[4096], from[4096];
    int r = file ? rule_list_add_short(&rules, "**=write", err) : -errno;

    if (r == 0)
        r = ruleset_new(&rules, NULL, &set, err);
    if (r == 0)
        r = fence_new(&(struct fence_config){ .base_path = base, .delta_path = delta, .rules = set }, &fence, err);
    while (r == 0 && fscanf(file, "%4095s %4095s", path, from) == 2)
        r = rewrite(fence, path, from);
    return r;
}

/* ---- read ---- */

static int show_one(size_t i, void *cookie, struct err *err)
{
    struct change_set *set = cookie;
    autodone(file_diff) struct file_diff diff = FILE_DIFF_NONE;

    return file_diff_make(set, &set->items[i], &diff, err);
}

static int to_stdout(const void *bytes, size_t len, void *cookie)
{
    (void) cookie;
    return fd_write_full(STDOUT_FILENO, bytes, len);
}

static int look(const char *what, const char *delta, struct err *err)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    char hash[CHANGE_SET_HASH_MAX] = "";
    int r = change_set_load(delta, &(struct change_set_options){ 0 }, &set, err);

    if (r < 0)
        return r;
    if (strcmp(what, "patch") == 0)
        return patch_write(&set, NULL, 0, to_stdout, NULL, NULL, err);
    if (strcmp(what, "show") == 0)
        r = parallel_run(set.count, show_one, &set, err);
    else
        r = change_set_measure(&set, NULL, 0, err);
    if (r == 0)
        r = change_set_hash(&set, hash, err);
    struct change_totals totals = change_set_totals(&set);
    printf("%zu files, +%zu -%zu lines, %zu not measured, %s\n", totals.files, totals.lines_added, totals.lines_removed,
           totals.unmeasured, hash);
    return r;
}

/* ---- time ---- */

static int take_time(char **command)
{
    struct timespec began, ended;
    struct rusage usage;
    pid_t pid;
    int status;

    clock_gettime(CLOCK_MONOTONIC, &began);
    int r = -posix_spawnp(&pid, command[0], NULL, NULL, command, environ);
    if (r < 0)
        return r;
    if (wait4(pid, &status, 0, &usage) < 0)
        return -errno;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    fprintf(stderr, "%.6f %ld\n", (double) (ended.tv_sec - began.tv_sec) + (double) (ended.tv_nsec - began.tv_nsec) / 1e9,
            usage.ru_maxrss);
    /* git diff says by 1 that there are differences */
    return WIFEXITED(status) && WEXITSTATUS(status) <= 1 ? 0 : -EIO;
}

int main(int argc, char **argv)
{
    struct err err = ERR_NONE;
    int r = -EINVAL;

    if (argc == 5 && strcmp(argv[1], "make") == 0)
        r = make(argv[2], argv[3], argv[4], &err);
    else if (argc > 2 && strcmp(argv[1], "time") == 0)
        r = take_time(argv + 2);
    else if (argc == 3)
        r = look(argv[1], argv[2], &err);
    if (r < 0)
        fprintf(stderr, "bench-diff: %s\n", err.code != ERR_OK ? err.text : strerror(-r));
    return r < 0;
}
