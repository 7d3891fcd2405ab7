#include "supervisor/file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/file_op.h"
#include "supervisor/plain.h"
#include "supervisor/sandbox.h"

/* The thread may read all fields, and fills the results. */
struct file_job {
    struct job job;
    struct sandbox *sandbox;
    struct ctl_file_request request; /* path and after are owned below */
    char *path, *after;
    int content_fd;   /* owned: content of a WRITE */
    int cancel_fd;    /* owned: readable when the job is cancelled */
    bool is_reported; /* the FILE reply of a READ was sent */

    struct ctl_file file;
    struct ctl_listing listing;
    char target[CTL_PATH_MAX];
    uint8_t *names;          /* owned: buffer of a LIST */
    int pipe_fd;             /* owned: the client's end for a READ; set before has_opened */
    _Atomic bool has_opened; /* pipe_fd and file are set */
};

static void file_job_free(struct job *job)
{
    struct file_job *op = (struct file_job *) job;
    int *fds[] = { &op->content_fd, &op->cancel_fd, &op->pipe_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        cleanup_fd(fds[i]);
    free(op->path);
    free(op->after);
    free(op->names);
    free(op);
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
    job_report_progress(&job->job);
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

static void file_job_run(struct job *job)
{
    static const char *const names[] = { "",        "looking at",       "listing",  "reading",
                                         "writing", "making directory", "removing", "renaming" };
    struct file_job *op = (struct file_job *) job;

    job->r = file_ops_run_job(op);
    if (job->r == -EBADMSG)
        err_set(&job->err, ERR_ABORTED, job->r, "the content was not as long as it was said to be");
    else if (job->r == -EXDEV && op->request.op == CTL_FILE_RENAME)
        err_set(&job->err, ERR_FAILED_PRECONDITION, job->r,
                "renaming '%.256s': not everything in this directory may move; copy what is to be elsewhere", op->path);
    else if (job->r < 0)
        err_errno(&job->err, job->r, "%s '%.256s'", names[op->request.op], op->path);
}

/* Sends the FILE of a READ as soon as there is something to read. */
static void file_job_progress(struct job *job)
{
    struct file_job *op = (struct file_job *) job;
    struct ctl_reply reply = { .type = CTL_REPLY_FILE, .tag = job->tag, .file = op->file };

    if (!op->has_opened || op->is_reported)
        return;
    op->is_reported = true;
    if (job->client)
        client_reply(job->client, &reply, op->pipe_fd);
    close(op->pipe_fd);
    op->pipe_fd = -1;
}

static void file_job_finish(struct job *job)
{
    struct file_job *op = (struct file_job *) job;
    struct ctl_reply reply = { .type = CTL_REPLY_OK, .tag = job->tag };

    if (!job->client || job->r < 0)
        return;
    if (op->request.op == CTL_FILE_STAT) {
        reply.type = CTL_REPLY_FILE;
        reply.file = op->file;
    } else if (op->request.op == CTL_FILE_LIST) {
        reply.type = CTL_REPLY_LISTING;
        reply.listing = op->listing;
    }
    client_reply(job->client, &reply, -1);
}

static void file_job_cancel(struct job *job)
{
    uint64_t one = 1;

    if (write(((struct file_job *) job)->cancel_fd, &one, sizeof(one)) < 0)
        log_error("an operation on a file cannot be ended", LOG_ERRNO("error", -errno));
}

static const struct job_ops file_job_ops = {
    .run = file_job_run,
    .progress = file_job_progress,
    .finish = file_job_finish,
    .cancel = file_job_cancel,
    .free = file_job_free,
};

void file_ops_request(struct sandbox *sandbox, struct client *client, const struct ctl_request *request, struct frame *frame)
{
    struct file_job *op = xnew(struct file_job);

    *op = (struct file_job){ .job = { .ops = &file_job_ops, .client = client, .tag = request->tag },
                             .sandbox = sandbox,
                             .request = request->file,
                             .path = xdup(request->file.path),
                             .after = xdup(request->file.after),
                             .content_fd = frame->fd_count ? frame_take_fd(frame, 0) : -1,
                             .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                             .pipe_fd = -1 };
    op->request.path = op->path;
    op->request.after = op->after;
    if (sandbox->state != CTL_STATE_RUNNING)
        job_reject(&op->job, ERR_FAILED_PRECONDITION, "the sandbox is not running");
    else if (op->cancel_fd < 0)
        job_reject(&op->job, ERR_RESOURCE_EXHAUSTED, "there is no descriptor for an operation on a file");
    else
        job_queue_add(&sandbox->file_ops, &sandbox->reactor, &op->job);
}
