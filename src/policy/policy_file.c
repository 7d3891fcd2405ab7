#include "policy/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "policy/policy_draft.h"

static bool ends_in(const char *s, const char *ending)
{
    size_t len = strlen(s), ending_len = strlen(ending);

    return len >= ending_len && strcmp(s + len - ending_len, ending) == 0;
}

/* O_NONBLOCK: opening a FIFO would wait for its writer. */
static int open_file(const char *path, int *ret_fd, struct err *err)
{
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "it cannot be opened");
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID_ARGUMENT, -EISDIR, "it is a directory");
    if (!S_ISREG(st.st_mode))
        return err_invalid(err, "not a regular file ('-' reads standard input)");
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int read_text(const char *path, struct buf *text, struct err *err)
{
    bool from_stdin = strcmp(path, "-") == 0;
    autofd int fd = -1;
    int r;

    r = from_stdin ? 0 : open_file(path, &fd, err);
    if (r < 0)
        return r;
    r = fd_read_all(from_stdin ? STDIN_FILENO : fd, POLICY_TEXT_MAX, text);
    if (r == -EFBIG)
        return policy_check_size(POLICY_TEXT_MAX + 1, err);
    return r < 0 ? err_errno(err, r, "it cannot be read") : 0;
}

int policy_file_load(const char *path, struct rule_list *rules, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    r = read_text(path, &text, err);
    if (r >= 0)
        r = ends_in(path, ".json") ? policy_parse_json(text.data, text.len, rules, err)
                                   : policy_parse_yaml(text.data, text.len, rules, err);
    if (r >= 0)
        return 0;
    if (strcmp(path, "-") == 0)
        return err_wrap(err, r, "policy from standard input");
    buf_clear(&text);
    buf_add_escaped(&text, path, strlen(path)); /* whole: a shortened path cannot be looked for */
    return err_wrap(err, r, "policy file '%s'", text.data);
}
