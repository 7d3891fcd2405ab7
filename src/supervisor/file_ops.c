#include "supervisor/file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/file_op.h"
#include "supervisor/plain.h"
#include "supervisor/sandbox.h"

#define AT_ONCE_MAX 16
#define WAITING_MAX 256

/* Owned by the main thread, except what the job's thread writes. */
struct file_job {
    struct file_job *next;
    struct sandbox *sandbox;
    struct client *client; /* borrowed; NULL: gone */
    uint64_t tag;
    bool is_running, is_reported; /* is_reported: the FILE reply of a READ was sent */
    pthread_t thread;

    /* The thread may read these, and fills the results. */
    struct ctl_file_request request; /* path and after are owned below */
    char *path, *after;
    int content_fd; /* owned: content of a WRITE */
    int cancel_fd;  /* owned: readable when the job is cancelled */
    struct ctl_file file;
    struct ctl_listing listing;
    char target[CTL_PATH_MAX];
    uint8_t *names; /* owned: buffer of a LIST */
    struct err err;
    int r;

    int pipe_fd;             /* owned: the client's end for a READ; set before has_opened */
    _Atomic bool has_opened; /* pipe_fd and file are set */
    _Atomic bool has_ended;  /* all results are set */
};

struct file_ops {
    struct file_job *jobs; /* owned, in order of arrival */
    unsigned count, running;
    int wake_fd; /* owned */
    struct watch watch;
};

static void job_free(struct file_job *job)
{
    int fds[] = { job->content_fd, job->cancel_fd, job->pipe_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    free(job->path);
    free(job->after);
    free(job->names);
    free(job);
}

static void file_ops_wake(const struct file_ops *ops)
{
    uint64_t one = 1;

    if (write(ops->wake_fd, &one, sizeof(one)) < 0)
        log_error("an operation on a file ended and nobody hears of it", LOG_ERRNO("error", -errno));
}

static int do_read(struct file_job *job, int root)
{
    const struct ctl_file_request *request = &job->request;
    autofd int from = file_op_open(root, job->path, &job->file), to = -1;
    uint64_t size = request->size ? request->size : UINT64_MAX;
    int ends[2];
    int64_t n;

    if (from < 0)
        return from;
    if (request->offset > 0 && lseek(from, (off_t) request->offset, SEEK_SET) < 0)
        return -errno;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    to = ends[1];
    job->pipe_fd = ends[0];
    /* Our end never blocks; the client chooses for the other end. */
    if (fcntl(to, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    job->has_opened = true;
    file_ops_wake(job->sandbox->file_ops);
    n = file_op_copy(from, to, size, job->cancel_fd);
    return n < 0 ? (int) n : 0;
}

/* Collects the content first, so that the sandbox never sees a slow or incomplete upload. */
static int file_ops_receive_content(struct file_job *job, int *ret_fd)
{
    autofd int ring = -1;
    struct stat st;
    int64_t n;

    if (fstat(job->content_fd, &st) < 0)
        return -errno;
    if (S_ISREG(st.st_mode)) {
        if ((uint64_t) st.st_size != job->request.size || lseek(job->content_fd, 0, SEEK_SET) < 0)
            return -EBADMSG;
        *ret_fd = steal_fd(&job->content_fd);
        return 0;
    }
    if (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode))
        return -EINVAL;
    ring = openat(job->sandbox->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (ring < 0)
        return -errno;
    n = file_op_copy(job->content_fd, ring, job->request.size + 1, job->cancel_fd);
    if (n < 0)
        return (int) n;
    if ((uint64_t) n != job->request.size || lseek(ring, 0, SEEK_SET) < 0)
        return -EBADMSG;
    *ret_fd = steal_fd(&ring);
    return 0;
}

static int do_write(struct file_job *job, int root, int from)
{
    autofd int to = file_op_create(root, job->path, job->request.flags, (mode_t) job->request.mode, job->request.size);
    int64_t n;

    if (to < 0)
        return to;
    n = file_op_copy(from, to, job->request.size, job->cancel_fd);
    if (n < 0)
        return (int) n;
    if ((uint64_t) n != job->request.size)
        return -EIO;
    return ftruncate(to, (off_t) n) < 0 ? -errno : 0;
}

static int file_ops_perform(struct file_job *job, int root, int content)
{
    const struct ctl_file_request *request = &job->request;

    switch (request->op) {
    case CTL_FILE_STAT:
        return file_op_stat(root, job->path, job->target, &job->file);
    case CTL_FILE_LIST:
        job->names = xalloc(CTL_LISTING_BYTES_MAX);
        return file_op_list(root, job->path, job->after, job->names, &job->listing);
    case CTL_FILE_READ:
        return do_read(job, root);
    case CTL_FILE_WRITE:
        return do_write(job, root, content);
    case CTL_FILE_MKDIR:
        return file_op_mkdir(root, job->path, request->flags, (mode_t) request->mode);
    case CTL_FILE_REMOVE:
        return file_op_remove(root, job->path, request->flags);
    case CTL_FILE_RENAME:
        return file_op_rename(root, job->path, job->after, request->flags);
    }
    return -EINVAL;
}

/* We open the mount's root and receive the content with our own rights; everything else happens as the sandbox's user. */
static int file_ops_run_job(struct file_job *job)
{
    const struct identity *user = &job->sandbox->identity;
    struct plain *plain = job->sandbox->plain;
    bool changes = job->request.op != CTL_FILE_STAT && job->request.op != CTL_FILE_LIST && job->request.op != CTL_FILE_READ;
    autofd int root = file_op_open_root(job->sandbox->mount_point, plain), content = -1;
    int r = root < 0 ? root : 0;

    if (r == 0 && job->request.op == CTL_FILE_WRITE)
        r = file_ops_receive_content(job, &content);
    if (r == 0)
        r = file_op_become(user->uid, user->gid);
    if (r < 0)
        return r;
    /* A fence has its own gate. */
    if (plain && changes)
        plain_change_begin(plain);
    r = file_ops_perform(job, root, content);
    if (plain && changes)
        plain_change_end(plain);
    return r;
}

static void *file_ops_thread(void *cookie)
{
    static const char *const names[] = { "",        "looking at",       "listing",  "reading",
                                         "writing", "making directory", "removing", "renaming" };
    struct file_job *job = cookie;
    struct file_ops *ops = job->sandbox->file_ops;

    job->r = file_ops_run_job(job);
    if (job->r == -EBADMSG)
        err_set(&job->err, ERR_ABORTED, job->r, "the content was not as long as it was said to be");
    else if (job->r == -EXDEV && job->request.op == CTL_FILE_RENAME)
        err_set(&job->err, ERR_FAILED_PRECONDITION, job->r,
                "renaming '%.256s': not everything in this directory may move; copy what is to be elsewhere", job->path);
    else if (job->r < 0)
        err_errno(&job->err, job->r, "%s '%.256s'", names[job->request.op], job->path);
    job->has_ended = true;
    file_ops_wake(ops);
    return NULL;
}

static void report_opened(struct file_job *job)
{
    struct ctl_reply reply = { .type = CTL_REPLY_FILE, .tag = job->tag, .file = job->file };

    job->is_reported = true;
    if (job->client)
        client_reply(job->client, &reply, job->pipe_fd);
    close(job->pipe_fd);
    job->pipe_fd = -1;
}

static void file_ops_reply(struct file_job *job)
{
    struct ctl_reply reply = { .type = CTL_REPLY_OK, .tag = job->tag };

    if (!job->client)
        return;
    if (job->r < 0) {
        client_error(job->client, job->tag, &job->err);
        return;
    }
    if (job->request.op == CTL_FILE_STAT) {
        reply.type = CTL_REPLY_FILE;
        reply.file = job->file;
    } else if (job->request.op == CTL_FILE_LIST) {
        reply.type = CTL_REPLY_LISTING;
        reply.listing = job->listing;
    }
    client_reply(job->client, &reply, -1);
}

static void file_ops_reject(struct client *client, uint64_t tag, enum err_code code, const char *why)
{
    struct err err = ERR_NONE;

    err_set(&err, code, -EBUSY, "%s", why);
    if (client)
        client_error(client, tag, &err);
}

static void remove_job(struct file_ops *ops, struct file_job *job)
{
    struct file_job **at = &ops->jobs;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    ops->count--;
}

static void start_some(struct file_ops *ops)
{
    for (struct file_job *job = ops->jobs, *next; job && ops->running < AT_ONCE_MAX; job = next) {
        next = job->next;
        if (job->is_running)
            continue;
        if (pthread_create(&job->thread, NULL, file_ops_thread, job) == 0) {
            job->is_running = true;
            ops->running++;
        } else {
            remove_job(ops, job);
            file_ops_reject(job->client, job->tag, ERR_RESOURCE_EXHAUSTED, "there is no thread for an operation on a file");
            job_free(job);
        }
    }
}

static void file_ops_finish_job(struct file_ops *ops, struct file_job *job)
{
    pthread_join(job->thread, NULL);
    remove_job(ops, job);
    ops->running--;
    if (job->has_opened && !job->is_reported)
        report_opened(job);
    file_ops_reply(job);
    job_free(job);
}

static void on_wake(uint32_t events, void *cookie)
{
    struct file_ops *ops = cookie;
    uint64_t count;

    (void) events;
    if (read(ops->wake_fd, &count, sizeof(count)) < 0)
        return;
    for (struct file_job *job = ops->jobs, *next; job; job = next) {
        next = job->next;
        if (job->has_opened && !job->is_reported)
            report_opened(job);
        if (job->has_ended)
            file_ops_finish_job(ops, job);
    }
    start_some(ops);
}

static int make_ready(struct sandbox *sandbox)
{
    struct file_ops *ops = sandbox->file_ops;
    int r;

    if (ops)
        return 0;
    ops = xnew(struct file_ops);
    ops->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = ops->wake_fd < 0 ? -errno : watch_start(&ops->watch, &sandbox->reactor, ops->wake_fd, EPOLLIN, on_wake, ops);
    if (r < 0) {
        if (ops->wake_fd >= 0)
            close(ops->wake_fd);
        free(ops);
        return r;
    }
    sandbox->file_ops = ops;
    return 0;
}

static struct file_job *job_new(struct sandbox *sandbox, struct client *client, const struct ctl_request *request,
                                struct frame *frame)
{
    struct file_job *job = xnew(struct file_job);

    job->sandbox = sandbox;
    job->client = client;
    job->tag = request->tag;
    job->request = request->file;
    job->request.path = job->path = xdup(request->file.path);
    job->request.after = job->after = xdup(request->file.after);
    job->pipe_fd = -1;
    job->content_fd = frame->fd_count ? frame_take_fd(frame, 0) : -1;
    job->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return job;
}

void file_ops_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame)
{
    struct file_job *job, **at;

    if (sandbox->state != CTL_STATE_RUNNING) {
        file_ops_reject(client, request->tag, ERR_FAILED_PRECONDITION, "the sandbox is not running");
        return;
    }
    if (make_ready(sandbox) < 0 || sandbox->file_ops->count >= WAITING_MAX) {
        file_ops_reject(client, request->tag, ERR_RESOURCE_EXHAUSTED, "too many operations on files are waiting");
        return;
    }
    job = job_new(sandbox, client, request, frame);
    if (job->cancel_fd < 0) {
        file_ops_reject(client, request->tag, ERR_RESOURCE_EXHAUSTED, "there is no descriptor for an operation on a file");
        job_free(job);
        return;
    }
    for (at = &sandbox->file_ops->jobs; *at; at = &(*at)->next)
        continue;
    *at = job;
    sandbox->file_ops->count++;
    start_some(sandbox->file_ops);
}

static void file_ops_cancel_job(const struct file_job *job)
{
    uint64_t one = 1;

    if (write(job->cancel_fd, &one, sizeof(one)) < 0)
        log_error("an operation on a file cannot be ended", LOG_ERRNO("error", -errno));
}

void file_ops_lose_client(struct sandbox *sandbox, const struct client *client)
{
    for (struct file_job *job = sandbox->file_ops ? sandbox->file_ops->jobs : NULL; job; job = job->next) {
        if (job->client == client) {
            job->client = NULL;
            file_ops_cancel_job(job);
        }
    }
}

void file_ops_stop(struct sandbox *sandbox)
{
    struct file_ops *ops = sandbox->file_ops;

    if (!ops)
        return;
    for (const struct file_job *job = ops->jobs; job; job = job->next)
        file_ops_cancel_job(job);
    while (ops->jobs) {
        struct file_job *job = ops->jobs;
        if (job->is_running) {
            file_ops_finish_job(ops, job);
            continue;
        }
        remove_job(ops, job);
        file_ops_reject(job->client, job->tag, ERR_ABORTED, "the sandbox has ended");
        job_free(job);
    }
    watch_stop(&ops->watch);
    close(ops->wake_fd);
    free(steal_ptr(&sandbox->file_ops));
}
