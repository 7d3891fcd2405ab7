#include "service/pending_delete.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/file.h"
#include "service/service_int.h"

#define PREFIX "condemned-"
#define NAME_BYTES (sizeof(PREFIX) + ID_TEXT_MAX)

/* Callers have checked the id. */
static void name_of(const char *codebase_id, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, PREFIX "%s", codebase_id);
}

int pending_delete_add(struct service *service, const char *codebase_id, struct err *err)
{
    char name[NAME_BYTES];
    int r;

    name_of(codebase_id, name);
    r = file_replace(service->state_dir.fd, name, "", 0, 0600);
    return r < 0 ? err_errno(err, r, "writing '%s/%s'", service->state_dir.path, name) : 0;
}

bool pending_delete_has(const struct service *service, const char *codebase_id)
{
    char name[NAME_BYTES];
    struct stat st;

    name_of(codebase_id, name);
    return fstatat(service->state_dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

void pending_delete_remove(struct service *service, const char *codebase_id)
{
    char name[NAME_BYTES];

    name_of(codebase_id, name);
    unlinkat(service->state_dir.fd, name, 0);
}

void pending_delete_forget_all(struct service *service)
{
    autodirectory dir = directory_open(service->state_dir.fd);

    for (const struct dirent *d; (d = directory_next(dir));) {
        if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0)
            unlinkat(service->state_dir.fd, d->d_name, 0);
    }
}
