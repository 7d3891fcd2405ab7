#include "service/sandbox_disk_use.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "service/sandbox_care.h"
#include "service/service_int.h"

#define POLL_EVERY 1024 /* files */

void sandbox_disk_use_list_done(struct sandbox_disk_use_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        sandbox_row_done(&list->items[i].row);
    free(list->items);
    *list = (struct sandbox_disk_use_list){ 0 };
}

struct disk_measure {
    const struct caller *caller;
    dev_t device;
    int64_t bytes;
    unsigned files;
};

static bool disk_is_cancelled(const struct caller *caller)
{
    struct pollfd fd = { .fd = caller->cancel_fd, .events = POLLIN };

    return caller->cancel_fd >= 0 && poll(&fd, 1, 0) > 0;
}

static int disk_add_file(const struct file_entry *entry, void *cookie)
{
    struct disk_measure *measure = cookie;

    if (++measure->files % POLL_EVERY == 0 && disk_is_cancelled(measure->caller))
        return -ECANCELED;
    /* Mounts in a sandbox's directory show the project, whose files are not the sandbox's. */
    if (entry->st->st_dev != measure->device)
        return FILE_WALK_SKIP;
    measure->bytes += (int64_t) entry->st->st_blocks * 512;
    return FILE_WALK_ON;
}

static int disk_measure_one(struct service *service, const struct caller *caller, struct sandbox_disk_use *use, struct err *err)
{
    struct disk_measure measure = { .caller = caller };
    struct err failure = ERR_NONE;
    char found[SANDBOX_NAME_MAX];
    autofd int dir_fd = -1;
    struct stat st;
    int r = state_dir_find(&service->state_dir, use->row.id, found, &dir_fd, &failure);

    if (r == 0 && fstat(dir_fd, &st) < 0)
        r = err_errno(&failure, -errno, "looking at sandbox %s", use->row.id);
    if (r == 0) {
        measure.device = st.st_dev;
        r = file_walk(dir_fd, ".", disk_add_file, &measure, &failure);
    }
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "nobody waits for the answer");
    use->disk_bytes = measure.bytes;
    /* A sandbox whose creation failed has no directory. */
    if (r < 0 && r != -ENOENT)
        snprintf(use->error, sizeof(use->error), "%s", failure.text);
    return 0;
}

static void disk_use_add_row(struct service *service, struct sandbox_row *row, void *cookie)
{
    struct sandbox_disk_use_list *list = cookie;

    if (row->status == SANDBOX_STATUS_DELETED && sandboxes_trash_until(service, row) == 0)
        return;
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = (struct sandbox_disk_use){ .row = *row };
    *row = (struct sandbox_row){ 0 };
}

static int disk_use_compare(const void *a, const void *b)
{
    const struct sandbox_disk_use *one = a, *two = b;
    int64_t first = one->disk_bytes ? one->disk_bytes : one->row.size_bytes;
    int64_t second = two->disk_bytes ? two->disk_bytes : two->row.size_bytes;

    return (first < second) - (first > second);
}

int sandboxes_disk_use(struct service *service, const struct caller *caller, const char *id, bool measures,
                       struct sandbox_disk_use_list *ret, struct err *err)
{
    struct sandbox_filter filter = { .host_id = service->host_id,
                                     .owner_id = caller->is_admin ? NULL : caller->owner,
                                     .statuses = SANDBOX_STATUS_ANY };
    int r;

    if (*id) {
        autodone(sandbox_row) struct sandbox_row row = { 0 };

        r = service_find_own_sandbox(service, caller, id, &row, err);
        if (r == 0)
            disk_use_add_row(service, &row, ret);
    } else {
        r = service_each_sandbox(service, &filter, disk_use_add_row, ret, err);
    }
    for (size_t i = 0; r >= 0 && measures && i < ret->count; i++)
        r = disk_measure_one(service, caller, &ret->items[i], err);
    if (r < 0)
        sandbox_disk_use_list_done(ret);
    else if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof(*ret->items), disk_use_compare);
    return r < 0 ? r : 0;
}
