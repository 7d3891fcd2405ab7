#include "sandbox/limit_report.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "sandbox/state_dir.h"

#define STATE_BYTES_MAX 65536

/* Most lines are about other things. Ignores an incomplete line. */
static bool parse_line(const char *line, size_t len, struct limit_in_force *ret)
{
    char text[256], kind[8];
    int end = 0;

    if (len >= sizeof(text))
        return false;
    memcpy(text, line, len);
    text[len] = '\0';
    *ret = (struct limit_in_force){ 0 };
    if (sscanf(text, "limit %15s %" SCNd64 " %7s%n", ret->name, &ret->value, kind, &end) != 3 || ret->value <= 0)
        return false;
    ret->is_default = strcmp(kind, "default") == 0;
    if (text[end] == ' ')
        snprintf(ret->not_enforced, sizeof(ret->not_enforced), "%.*s", (int) sizeof(ret->not_enforced) - 1, text + end + 1);
    return true;
}

void limit_report_read(int sandbox_dir_fd, struct limit_report *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = path_open_beneath(sandbox_dir_fd, "state", O_RDONLY | O_NONBLOCK, 0);

    ret->count = 0;
    if (fd < 0 || !sandbox_dir_is_running(sandbox_dir_fd) || fd_read_all(fd, STATE_BYTES_MAX, &text) < 0)
        return;
    buf_add_char(&text, '\0');
    for (const char *line = text.data; *line && ret->count < LIMIT_REPORT_MAX; line += *line == '\n') {
        size_t len = strcspn(line, "\n");

        ret->count += parse_line(line, len, &ret->items[ret->count]);
        line += len;
    }
}

void limit_report_find(const struct state_dir *state_dir, const char *name, struct limit_report *ret)
{
    char found[SANDBOX_NAME_MAX];
    struct err ignored = ERR_NONE;
    autofd int dir_fd = -1;

    ret->count = 0;
    if (state_dir_find(state_dir, name, found, &dir_fd, &ignored) == 0)
        limit_report_read(dir_fd, ret);
}
