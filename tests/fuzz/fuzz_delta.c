/*
 * A delta as a fence finds it at start, whatever a crash, a restore or another program has made of it. The input is lines; each
 * puts one thing into the delta (see take_line). Whatever they are: the fence opens it or says why not, opening it again shows
 * the same changes, a change names a path below the base, and nothing outside the delta is touched.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/change.h"
#include "fence/inode.h"
#include "fence/journal.h"
#include "fence/whiteout.h"

#define LINES_MAX 32

static const char *const untouched[] = { "base", "base/f", "base/d", "base/d/g", "outside", "outside/secret" };
static struct stat as_it_was[ARRAY_LEN(untouched)];
static char top[] = "/dev/shm/fuzz-delta-XXXXXX"; /* or in /tmp: memory is a hundred times faster than a disk here */
static int top_fd, data_fd;
static char *base_path, *delta_path; /* owned, for ever */
static struct ruleset *rules;

static void put(int dirfd, const char *path, const char *bytes, size_t len)
{
    autofd int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

    require(fd >= 0 && write(fd, bytes, len) == (ssize_t) len);
}

static void clear_away(void)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    file_remove_tree(root, top + 1);
}

static void set_up(void)
{
    autodone(rule_list) struct rule_list list = RULE_LIST_EMPTY;

    if (rules)
        return;
    if (access("/dev/shm", W_OK) < 0)
        strcpy(top, "/tmp/fuzz-delta-XXXXXX");
    require(mkdtemp(top));
    atexit(clear_away);
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    base_path = xprintf("%s/base", top);
    delta_path = xprintf("%s/delta", top);
    require(path_mkdirs_beneath(top_fd, "base/d", 0755) == 0 && path_mkdirs_beneath(top_fd, "outside", 0755) == 0);
    put(top_fd, "base/f", "f", 1);
    put(top_fd, "base/d/g", "g", 1);
    put(top_fd, "outside/secret", "s", 1);
    for (size_t i = 0; i < ARRAY_LEN(untouched); i++)
        require(fstatat(top_fd, untouched[i], &as_it_was[i], AT_SYMLINK_NOFOLLOW) == 0);
    require(rule_list_add_short(&list, "/**=write", NULL) == 0 && rule_list_add_short(&list, "/d/out/=write", NULL) == 0);
    require(ruleset_new(&list, NULL, &rules, NULL) == 0);
}

static void make_delta(void)
{
    autofree char *base =
        xprintf("%" PRIu64 " %" PRIu64 " 1\n%s\n", (uint64_t) as_it_was[0].st_dev, (uint64_t) as_it_was[0].st_ino, base_path);

    require(file_remove_tree(top_fd, "delta") == 0);
    require(path_mkdirs_beneath(top_fd, "delta/meta/pre", 0700) == 0 && path_mkdirs_beneath(top_fd, "delta/work", 0700) == 0 &&
            path_mkdirs_beneath(top_fd, "delta/data", 0755) == 0);
    put(top_fd, "delta/meta/format", "agentfense-delta 1\n", strlen("agentfense-delta 1\n"));
    put(top_fd, "delta/meta/base", base, strlen(base));
    data_fd = openat(top_fd, "delta/data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(data_fd >= 0);
}

/* Something at a path below data; the directories above it are made. What is in the way stays. */
static void put_name(char kind, const char *path)
{
    const char *name, *slash = strrchr(path, '/');
    autofree char *above = slash ? xdupn(path, (size_t) (slash - path)) : NULL;
    autofd int dirfd = -1;

    if ((above && path_mkdirs_beneath(data_fd, above, 0755) < 0) || path_open_parent_beneath(data_fd, path, &dirfd, &name) < 0)
        return;
    if (kind == 'd')
        mkdirat(dirfd, name, 0755);
    else if (kind == 'l')
        (void) !symlinkat("../../outside", dirfd, name);
    else if (kind == 'h')
        (void) !linkat(data_fd, "f", dirfd, name, 0);
    else
        mknodat(dirfd, name, (kind == 'p' ? S_IFIFO : S_IFREG) | 0600, 0);
}

/* A marker of that name, with the name inside. */
static void put_marker(const char *name)
{
    char marker[NAME_MAX + 1];

    whiteout_name(name, marker);
    if (!strchr(marker, '/'))
        put(data_fd, marker, name, strlen(name));
}

/* The journal with its checksum right, so that what is behind that is reached. */
static void put_intent(const char *text, size_t len)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;

    buf_add_str(&bytes, "AFJ1");
    buf_add(&bytes, text, len);
    buf_addf(&bytes, "%016" PRIx64, inode_number_of(bytes.len, bytes.data, bytes.len));
    put(top_fd, "delta/meta/journal", bytes.data, bytes.len);
}

static void take_line(const char *line, size_t len)
{
    autofree char *text = len > 0 ? xdupn(line + 1, len - 1) : NULL;

    if (!text)
        return;
    len--;
    for (size_t i = 0; strchr("bij", line[0]) && i < len; i++) /* so that these can hold what ends a line */
        text[i] = text[i] != '|' ? text[i] : line[0] == 'b' ? '\n' : '\0';
    switch (line[0]) {
    case 'b':
        put(top_fd, "delta/meta/base", text, len);
        break;
    case 'v':
        put(top_fd, "delta/meta/format", text, len);
        break;
    case 'r':
        text[len] = '\n';
        put(top_fd, "delta/meta/roots", text, len + 1);
        break;
    case 'i':
        put_intent(text, len);
        break;
    case 'j':
        put(top_fd, "delta/meta/journal", text, len);
        break;
    case 'm':
        put_marker(text);
        break;
    default:
        put_name(line[0], text);
    }
}

static int on_change(const struct change *change, void *cookie)
{
    struct buf *told = cookie;
    autodone(buf) struct buf clean = BUF_EMPTY;

    require(path_clean(change->path, strlen(change->path), &clean) == 0);
    require(strcmp(clean.data + 1, change->path) == 0 && *change->path);
    buf_addf(told, "%s %s\n", change_kind_name(change->kind), change->path);
    return 0;
}

/* What the fence tells of its changes; false when it did not start. */
static bool open_fence(struct buf *told)
{
    const struct fence_config config = { .base_path = base_path, .delta_path = delta_path, .rules = rules };
    struct fence *fence = NULL;
    struct err err = ERR_NONE;
    int r = fence_new(&config, &fence, &err);

    if (r < 0) {
        require_refusal(r, &err);
        return false;
    }
    r = fence_each_change(fence, on_change, told, &err);
    if (r < 0)
        require_refusal(r, &err);
    fence_free(fence);
    return true;
}

static void check_untouched(void)
{
    for (size_t i = 0; i < ARRAY_LEN(untouched); i++) {
        const struct stat *was = &as_it_was[i];
        struct stat st;
        require(fstatat(top_fd, untouched[i], &st, AT_SYMLINK_NOFOLLOW) == 0);
        require(st.st_ino == was->st_ino && st.st_size == was->st_size && st.st_mode == was->st_mode);
        require(st.st_ctim.tv_sec == was->st_ctim.tv_sec && st.st_ctim.tv_nsec == was->st_ctim.tv_nsec);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf first = BUF_EMPTY, again = BUF_EMPTY;
    const char *at = (const char *) data, *end = at + size;

    set_up();
    make_delta();
    for (int i = 0; i < LINES_MAX && at < end; i++) {
        const char *stop = memchr(at, '\n', (size_t) (end - at));
        if (!stop)
            stop = end;
        take_line(at, (size_t) (stop - at));
        at = stop < end ? stop + 1 : end;
    }
    close(data_fd);
    if (open_fence(&first)) {
        require(open_fence(&again));
        require(first.len == again.len && (first.len == 0 || memcmp(first.data, again.data, first.len) == 0));
    }
    check_untouched();
    return 0;
}
