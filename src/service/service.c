#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "sandbox/engine_path.h"
#include "service/events.h"
#include "service/hook_box.h"
#include "service/idempotency.h"
#include "service/janitor.h"
#include "service/recovery.h"
#include "service/redaction.h"
#include "service/sandbox_index.h"
#include "service/sandbox_tend.h"
#include "service/service_int.h"
#include "service/watch.h"

#define HOST_ID_FILE "host-id"
#define HOST_ID_PREFIX "host_"

static void copy_options(struct service_options *to, const struct service_options *from)
{
    *to = *from;
    to->codebase_path = xdup(from->codebase_path);
    to->mount_path = xdup(from->mount_path);
    to->db_url = xdup(from->db_url);
    to->container.engine = xdup(from->container.engine ? from->container.engine : ENGINE_PATH_USUAL);
    to->container.image = xdup(from->container.image ? from->container.image : ENGINE_IMAGE_USUAL);
    to->container.network = xdup(from->container.network ? from->container.network : "none");
    to->container.oci_runtime = xdup(from->container.oci_runtime ? from->container.oci_runtime : "");
    to->project_root = xdup(from->project_root ? from->project_root : "");
    to->hooks_path = xdup(from->hooks_path ? from->hooks_path : "");
    to->commit_template = xdup(from->commit_template ? from->commit_template : "");
    to->commit_author = xdup(from->commit_author ? from->commit_author : "agent");
    to->redact_names = xdup(from->redact_names ? from->redact_names : "");
    to->redact_patterns_path = xdup(from->redact_patterns_path ? from->redact_patterns_path : "");
}

/* A server with configured hooks must not start without them. */
static int load_hooks(struct service *service, struct err *err)
{
    const char *path = service->options.hooks_path;
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    int r = fd < 0 ? -errno : fd_read_all(fd, HOOK_FILE_BYTES_MAX, &text);

    if (!*path)
        return 0;
    if (r < 0)
        return err_errno(err, r, "reading '%s'", path);
    return hook_list_add_text(&service->hooks, text.data, text.len, HOOK_SERVER, path, err);
}

/* Made once, and stored in the state directory, whose sandboxes it identifies. */
static int find_host_id(struct service *service, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char id[ID_TEXT_MAX];
    int r = file_read(service->state_dir.fd, HOST_ID_FILE, ID_TEXT_MAX, &text);

    if (r == 0 && id_is_valid(HOST_ID_PREFIX, text.data)) {
        service->host_id = xdup(text.data);
        return 0;
    }
    if (r == 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBADMSG,
                       "'%s/%s' is no id of a host; remove it only if no database is shared", service->state_dir.path,
                       HOST_ID_FILE);
    if (r != -ENOENT)
        return err_errno(err, r, "reading '%s/%s'", service->state_dir.path, HOST_ID_FILE);
    id_new(HOST_ID_PREFIX, id);
    r = file_replace(service->state_dir.fd, HOST_ID_FILE, id, strlen(id), 0600);
    if (r < 0)
        return err_errno(err, r, "writing '%s/%s'", service->state_dir.path, HOST_ID_FILE);
    service->host_id = xdup(id);
    return 0;
}

/* Without this lock, two servers would each treat the other's sandboxes as leftovers. */
static int take_lock(struct service *service, struct err *err)
{
    if (service->lock_fd < 0)
        service->lock_fd = openat(service->state_dir.fd, STATE_DIR_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (service->lock_fd < 0)
        return err_errno(err, -errno, "opening '%s/%s'", service->state_dir.path, STATE_DIR_LOCK);
    if (flock(service->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "another server serves the sandboxes in '%s'",
                   service->state_dir.path);
}

static int open_all(struct service *service, struct err *err)
{
    const struct service_options *options = &service->options;
    struct codebase_options codebase = {
        .quota_bytes = options->codebase_quota_bytes,
        .keep_versions = options->versions_kept,
        .keep_ns = options->versions_age_ns,
    };
    int r = state_dir_open_at(options->mount_path, &service->state_dir, err);

    if (r == 0)
        r = take_lock(service, err);
    if (r == 0)
        r = store_open(options->db_url, NULL, &service->store, err);
    if (r == 0)
        r = state_dir_take_in(&service->state_dir, err); /* after the lock and the store, which may prevent the start */
    if (r == 0)
        r = find_host_id(service, err);
    if (r == 0)
        r = codebases_open(options->codebase_path, &codebase, &service->codebases, err);
    if (r == 0)
        r = events_start(service, err);
    if (r == 0)
        r = watch_start_thread(service, err);
    if (r == 0)
        r = recovery_run(service, err);
    if (r == 0)
        hook_boxes_sweep(service);
    return r < 0 ? r : janitor_start(service, err);
}

int service_new(const struct service_options *options, struct service **ret, struct err *err)
{
    autoptr(service) service = xnew(struct service);
    int r;

    service->state_dir = STATE_DIR_NONE;
    service->lock_fd = options->lock_fd > 0 ? options->lock_fd : -1;
    sandbox_conns_init(&service->conns);
    pthread_mutex_init(&service->sandbox_drivers.lock, NULL);
    copy_options(&service->options, options);
    r = load_hooks(service, err);
    if (r == 0 && !service->options.keeps_secrets)
        r = redaction_new(service->options.redact_names, service->options.redact_patterns_path, &service->redaction, err);
    if (r < 0)
        return r;
    service->sandbox_totals.started_ns = clock_now_ns();
    r = open_all(service, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&service);
    return 0;
}

static void free_options(struct service_options *options)
{
    free((char *) options->codebase_path);
    free((char *) options->mount_path);
    free((char *) options->db_url);
    free((char *) options->container.engine);
    free((char *) options->container.image);
    free((char *) options->container.network);
    free((char *) options->container.oci_runtime);
    free((char *) options->project_root);
    free((char *) options->hooks_path);
    free((char *) options->commit_template);
    free((char *) options->commit_author);
    free((char *) options->redact_names);
    free((char *) options->redact_patterns_path);
}

void service_free(struct service *service)
{
    if (!service)
        return;
    watch_stop_thread(service);
    janitor_stop(service);
    events_stop(service);
    sandbox_index_close(service);
    sandbox_conns_done(&service->conns);
    pthread_mutex_destroy(&service->sandbox_drivers.lock);
    codebases_close(service->codebases);
    store_close(service->store);
    state_dir_done(&service->state_dir);
    cleanup_fd(&service->lock_fd);
    free(service->host_id);
    free_options(&service->options);
    hook_list_done(&service->hooks);
    redaction_free(service->redaction);
    free(service);
}

void service_end_at(struct service *service, int64_t when_ns)
{
    atomic_store(&service->ends_at_ns, when_ns);
}

int service_check(struct service *service, struct err *err)
{
    return store_ping(service->store, err);
}
