#include "service/ward.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "service/greeting.h"
#include "wire/ctl_client.h"

#define HELLO_MS 10000
#define REAP_MS 5000

void wards_init(struct wards *wards)
{
    *wards = (struct wards){ 0 };
    pthread_mutex_init(&wards->lock, NULL);
}

static void ward_free(struct ward *ward)
{
    for (size_t i = 0; i < ward->idle_count; i++)
        close(ward->idle[i]);
    cleanup_fd(&ward->dir_fd);
    proc_done(&ward->supervisor);
    free(ward->owner);
    free(ward->codebase_id);
    free(ward->step);
    pthread_mutex_destroy(&ward->life);
    pthread_mutex_destroy(&ward->lock);
    free(ward);
}

void wards_done(struct wards *wards)
{
    for (size_t i = 0; i < WARD_BUCKETS; i++) {
        for (struct ward *ward = wards->buckets[i], *next; ward; ward = next) {
            next = ward->next;
            ward_free(ward);
        }
    }
    pthread_mutex_destroy(&wards->lock);
}

static struct ward **bucket_of(struct wards *wards, const char *id)
{
    return &wards->buckets[hash_text(id) % WARD_BUCKETS];
}

static struct ward *look_up(struct wards *wards, const char *id)
{
    for (struct ward *ward = *bucket_of(wards, id); ward; ward = ward->next) {
        if (strcmp(ward->id, id) == 0)
            return ward;
    }
    return NULL;
}

struct ward *ward_get(struct wards *wards, const char *id)
{
    struct ward *ward;

    pthread_mutex_lock(&wards->lock);
    ward = look_up(wards, id);
    if (!ward) {
        struct ward **bucket = bucket_of(wards, id);

        ward = xnew(struct ward);
        ward->wards = wards;
        snprintf(ward->id, sizeof(ward->id), "%s", id);
        pthread_mutex_init(&ward->life, NULL);
        pthread_mutex_init(&ward->lock, NULL);
        ward->dir_fd = -1;
        ward->supervisor = PROC_NONE;
        ward->next = *bucket;
        *bucket = ward;
        wards->count++;
    }
    ward->refs++;
    pthread_mutex_unlock(&wards->lock);
    return ward;
}

struct ward *ward_find_running(struct wards *wards, const char *id)
{
    struct ward *ward;
    bool is_running = false;

    pthread_mutex_lock(&wards->lock);
    ward = look_up(wards, id);
    if (ward) {
        pthread_mutex_lock(&ward->lock);
        is_running = ward->is_running && !ward->is_stopping;
        pthread_mutex_unlock(&ward->lock);
        ward->refs += is_running;
    }
    pthread_mutex_unlock(&wards->lock);
    return is_running ? ward : NULL;
}

void ward_unref(struct ward *ward)
{
    struct wards *wards;

    if (!ward)
        return;
    wards = ward->wards;
    pthread_mutex_lock(&wards->lock);
    if (--ward->refs > 0) {
        pthread_mutex_unlock(&wards->lock);
        return;
    }
    for (struct ward **at = bucket_of(wards, ward->id); *at; at = &(*at)->next) {
        if (*at == ward) {
            *at = ward->next;
            break;
        }
    }
    wards->count--;
    pthread_mutex_unlock(&wards->lock);
    ward_free(ward);
}

static void add_ref(struct ward *ward)
{
    pthread_mutex_lock(&ward->wards->lock);
    ward->refs++;
    pthread_mutex_unlock(&ward->wards->lock);
}

void ward_set_running(struct ward *ward, struct proc *supervisor, int dir_fd, const char *owner, const char *codebase_id,
                      bool syncs)
{
    add_ref(ward);
    pthread_mutex_lock(&ward->lock);
    ward->is_running = true;
    ward->is_stopping = false;
    ward->syncs = syncs;
    free(ward->owner);
    ward->owner = xdup(owner);
    free(ward->codebase_id);
    ward->codebase_id = xdup(codebase_id);
    cleanup_fd(&ward->dir_fd);
    ward->dir_fd = dir_fd;
    proc_done(&ward->supervisor);
    ward->supervisor = *supervisor;
    *supervisor = PROC_NONE;
    ward->generation++;
    pthread_mutex_unlock(&ward->lock);
}

bool ward_end_running(struct ward *ward)
{
    struct proc supervisor;
    bool was_running;
    int status;

    pthread_mutex_lock(&ward->lock);
    was_running = ward->is_running;
    ward->is_running = false;
    for (size_t i = 0; i < ward->idle_count; i++)
        close(ward->idle[i]);
    ward->idle_count = 0;
    supervisor = ward->supervisor;
    ward->supervisor = PROC_NONE;
    pthread_mutex_unlock(&ward->lock);
    if (supervisor.pid > 0)
        proc_wait_timeout(&supervisor, REAP_MS, &status);
    proc_done(&supervisor);
    if (was_running)
        ward_unref(ward);
    return was_running;
}

int ward_take_fd(struct ward *ward, int *ret_fd, struct err *err)
{
    enum ctl_state state; /* what it will not do any more it says itself */
    autofd int fd = -1;
    int r = 0;

    pthread_mutex_lock(&ward->lock);
    if (!ward->is_running || ward->is_stopping)
        r = err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox is not running");
    else if (ward->idle_count > 0)
        fd = ward->idle[--ward->idle_count];
    if (r < 0 || fd >= 0) {
        pthread_mutex_unlock(&ward->lock);
        *ret_fd = steal_fd(&fd);
        return r;
    }
    /* Under the lock, since the directory may be closed with the sandbox; a unix socket connects at once or not at all. */
    r = ctl_client_connect(ward->dir_fd, &fd, err);
    pthread_mutex_unlock(&ward->lock);
    if (r == 0)
        r = greeting_await(fd, HELLO_MS, &state, err);
    if (r < 0)
        return r;
    *ret_fd = steal_fd(&fd);
    return 0;
}

void ward_give_fd(struct ward *ward, int fd)
{
    pthread_mutex_lock(&ward->lock);
    if (ward->is_running && ward->idle_count < WARD_IDLE_MAX) {
        ward->idle[ward->idle_count++] = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&ward->lock);
    if (fd >= 0)
        close(fd);
}

void ward_note_exec(struct ward *ward, const char *name)
{
    pthread_mutex_lock(&ward->lock);
    ward->execs[ward->exec_next++ % WARD_EXECS_KEPT] = hash_text(name);
    pthread_mutex_unlock(&ward->lock);
}

bool ward_knows_exec(struct ward *ward, const char *name)
{
    uint64_t hash = hash_text(name);
    bool is_known = false;

    pthread_mutex_lock(&ward->lock);
    for (size_t i = 0; i < WARD_EXECS_KEPT && !is_known; i++)
        is_known = ward->execs[i] == hash;
    pthread_mutex_unlock(&ward->lock);
    return is_known;
}

void ward_set_step(struct ward *ward, const char *text)
{
    autofree char *step = text ? xdup(text) : NULL;

    pthread_mutex_lock(&ward->lock);
    free(ward->step);
    ward->step = steal_ptr(&step);
    pthread_mutex_unlock(&ward->lock);
}

char *ward_dup_step(struct wards *wards, const char *id)
{
    char *step = NULL;
    struct ward *ward;

    pthread_mutex_lock(&wards->lock);
    ward = look_up(wards, id);
    if (ward) {
        pthread_mutex_lock(&ward->lock);
        step = ward->step ? xdup(ward->step) : NULL;
        pthread_mutex_unlock(&ward->lock);
    }
    pthread_mutex_unlock(&wards->lock);
    return step;
}

void wards_each_running(struct wards *wards, ward_fn fn, void *cookie)
{
    struct ward **found = NULL;
    size_t count = 0;

    pthread_mutex_lock(&wards->lock);
    found = xalloc((wards->count + 1) * sizeof(struct ward *));
    for (size_t i = 0; i < WARD_BUCKETS; i++) {
        for (struct ward *ward = wards->buckets[i]; ward; ward = ward->next) {
            pthread_mutex_lock(&ward->lock);
            if (ward->is_running) {
                ward->refs++;
                found[count++] = ward;
            }
            pthread_mutex_unlock(&ward->lock);
        }
    }
    pthread_mutex_unlock(&wards->lock);
    for (size_t i = 0; i < count; i++) {
        fn(found[i], cookie);
        ward_unref(found[i]);
    }
    free(found);
}
