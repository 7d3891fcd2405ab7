#include "sandbox/sandbox_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/host_mount.h"
#include "wire/ctl_client.h"

#define DECISION_FILE "decision"
#define DECISION_BYTES_MAX 64
#define STATE_BYTES_MAX 65536

#define LOCK_TRIES 10      /* with 2 ms between them */
#define STOP_GRACE_MS 2000 /* for its commands */
#define STOP_WAIT_MS 30000 /* for the whole stop */
#define STOP_LOOK_NS 20000000L

int sandbox_dir_lock(int dir_fd, int *ret_fd)
{
    autofd int fd = path_open_beneath(dir_fd, "lock", O_RDWR | O_CREAT | O_NONBLOCK, 0600);

    if (fd < 0)
        return fd;
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_TRIES)
            return errno == EWOULDBLOCK ? -EBUSY : -errno;
        nanosleep(&(struct timespec){ .tv_nsec = 2 * CLOCK_NS_PER_MS }, NULL);
    }
    *ret_fd = steal_fd(&fd);
    return 0;
}

static bool is_locked(int dir_fd, const char *relpath)
{
    autofd int fd = path_open_beneath(dir_fd, relpath, O_RDONLY | O_NONBLOCK, 0);

    /* Treat a lock that cannot be opened as held: otherwise we might remove a sandbox under its supervisor. */
    if (fd < 0)
        return fd != -ENOENT;
    return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* Directories that were created for a rule count as changes too, so such a sandbox is kept longer than necessary. */
bool sandbox_dir_has_changes(int dir_fd)
{
    autodirectory dir = directory_take(path_open_beneath(dir_fd, "delta/data", O_RDONLY | O_DIRECTORY, 0));

    return dir ? directory_next(dir) != NULL : errno != ENOENT;
}

bool sandbox_dir_is_running(int dir_fd)
{
    return is_locked(dir_fd, "lock");
}

int sandbox_dir_stop(int dir_fd, const char *name, struct err *err)
{
    const struct ctl_request request = { .type = CTL_REQUEST_STOP, .tag = 1, .stop = { .grace_ms = STOP_GRACE_MS } };
    int64_t until_ns = clock_now_ns() + STOP_WAIT_MS * CLOCK_NS_PER_MS;
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    autofd int fd = -1;
    int r = ctl_client_connect(dir_fd, &fd, err);

    if (r == -ENOENT || r == -ECONNREFUSED)
        *err = ERR_NONE; /* it has ended or is ending: the lock shows which */
    else if (r == 0)
        r = ctl_request_encode(&request, payload, sizeof(payload), &frame);
    if (r == 0)
        r = ctl_client_send(fd, &frame, STOP_WAIT_MS, err);
    if (r < 0 && r != -ENOENT && r != -ECONNREFUSED)
        return err_wrap(err, r, "stopping sandbox '%s'", name);
    while (sandbox_dir_is_running(dir_fd)) {
        if (clock_now_ns() > until_ns)
            return err_set(err, ERR_DEADLINE_EXCEEDED, -ETIMEDOUT, "sandbox '%s' was asked to stop, and is still running",
                           name);
        nanosleep(&(struct timespec){ .tv_nsec = STOP_LOOK_NS }, NULL);
    }
    return 0;
}

bool sandbox_dir_delta_is_locked(int dir_fd)
{
    return is_locked(dir_fd, "delta/meta/lock");
}

void sandbox_dir_unmount_leftover(int dir_fd)
{
    autofd int lock = -1;

    if (sandbox_dir_lock(dir_fd, &lock) == 0)
        host_mount_hide(dir_fd);
}

bool sandbox_dir_ended_well(int dir_fd)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofree char *line = xprintf("state %s\n", ctl_state_name(CTL_STATE_STOPPED));

    return !sandbox_dir_is_running(dir_fd) && file_read(dir_fd, "state", STATE_BYTES_MAX, &text) == 0 &&
           text.len >= strlen(line) && memcmp(text.data, line, strlen(line)) == 0;
}

/* ---- decision ---- */

static const char *const decisions[] = { "open", "approved", "rejected" };

int sandbox_dir_read_decision(int dir_fd, enum sandbox_dir_decision *ret, bool *ret_is_deleted)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char word[16] = "", more[16] = "";
    int r = file_read(dir_fd, DECISION_FILE, DECISION_BYTES_MAX, &text);

    if (r < 0)
        return r;
    buf_add_char(&text, '\0');
    r = sscanf(text.data, "%15s %15s", word, more);
    for (size_t i = 0; r >= 1 && i < ARRAY_LEN(decisions); i++) {
        if (strcmp(word, decisions[i]) != 0 || (r == 2 && strcmp(more, "deleted") != 0))
            continue;
        *ret = (enum sandbox_dir_decision) i;
        *ret_is_deleted = r == 2;
        return 0;
    }
    return -EBADMSG;
}

int sandbox_dir_write_decision(int dir_fd, enum sandbox_dir_decision decision, bool is_deleted)
{
    autofree char *text = xprintf("%s%s\n", decisions[decision], is_deleted ? " deleted" : "");

    return file_replace(dir_fd, DECISION_FILE, text, strlen(text), 0600);
}

bool sandbox_dir_is_deleted(int dir_fd)
{
    enum sandbox_dir_decision decision;
    bool is_deleted = false;

    return sandbox_dir_read_decision(dir_fd, &decision, &is_deleted) == 0 && is_deleted;
}
