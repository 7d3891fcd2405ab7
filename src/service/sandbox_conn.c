#include "service/sandbox_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "service/hello.h"
#include "wire/ctl_client.h"

#define HELLO_MS 10000
#define REAP_MS 5000

void sandbox_conns_init(struct sandbox_conns *conns)
{
    *conns = (struct sandbox_conns){ 0 };
    pthread_mutex_init(&conns->lock, NULL);
}

static void sandbox_conn_free(struct sandbox_conn *conn)
{
    for (size_t i = 0; i < conn->idle_count; i++)
        close(conn->idle[i]);
    cleanup_fd(&conn->dir_fd);
    proc_done(&conn->supervisor);
    free(conn->owner);
    free(conn->codebase_id);
    free(conn->step);
    pthread_mutex_destroy(&conn->life);
    pthread_mutex_destroy(&conn->lock);
    free(conn);
}

void sandbox_conns_done(struct sandbox_conns *conns)
{
    for (size_t i = 0; i < SANDBOX_CONN_BUCKETS; i++) {
        for (struct sandbox_conn *conn = conns->buckets[i], *next; conn; conn = next) {
            next = conn->next;
            sandbox_conn_free(conn);
        }
    }
    pthread_mutex_destroy(&conns->lock);
}

static struct sandbox_conn **bucket_of(struct sandbox_conns *conns, const char *id)
{
    return &conns->buckets[hash_text(id) % SANDBOX_CONN_BUCKETS];
}

static struct sandbox_conn *look_up(struct sandbox_conns *conns, const char *id)
{
    for (struct sandbox_conn *conn = *bucket_of(conns, id); conn; conn = conn->next) {
        if (strcmp(conn->id, id) == 0)
            return conn;
    }
    return NULL;
}

struct sandbox_conn *sandbox_conn_get(struct sandbox_conns *conns, const char *id)
{
    struct sandbox_conn *conn;

    pthread_mutex_lock(&conns->lock);
    conn = look_up(conns, id);
    if (!conn) {
        struct sandbox_conn **bucket = bucket_of(conns, id);

        conn = xnew(struct sandbox_conn);
        conn->conns = conns;
        snprintf(conn->id, sizeof(conn->id), "%s", id);
        pthread_mutex_init(&conn->life, NULL);
        pthread_mutex_init(&conn->lock, NULL);
        conn->dir_fd = -1;
        conn->supervisor = PROC_NONE;
        conn->next = *bucket;
        *bucket = conn;
        conns->count++;
    }
    conn->refs++;
    pthread_mutex_unlock(&conns->lock);
    return conn;
}

struct sandbox_conn *sandbox_conn_find_running(struct sandbox_conns *conns, const char *id)
{
    struct sandbox_conn *conn;
    bool is_running = false;

    pthread_mutex_lock(&conns->lock);
    conn = look_up(conns, id);
    if (conn) {
        pthread_mutex_lock(&conn->lock);
        is_running = conn->is_running && !conn->is_stopping;
        pthread_mutex_unlock(&conn->lock);
        conn->refs += is_running;
    }
    pthread_mutex_unlock(&conns->lock);
    return is_running ? conn : NULL;
}

void sandbox_conn_unref(struct sandbox_conn *conn)
{
    struct sandbox_conns *conns;

    if (!conn)
        return;
    conns = conn->conns;
    pthread_mutex_lock(&conns->lock);
    if (--conn->refs > 0) {
        pthread_mutex_unlock(&conns->lock);
        return;
    }
    for (struct sandbox_conn **at = bucket_of(conns, conn->id); *at; at = &(*at)->next) {
        if (*at == conn) {
            *at = conn->next;
            break;
        }
    }
    conns->count--;
    pthread_mutex_unlock(&conns->lock);
    sandbox_conn_free(conn);
}

static void add_ref(struct sandbox_conn *conn)
{
    pthread_mutex_lock(&conn->conns->lock);
    conn->refs++;
    pthread_mutex_unlock(&conn->conns->lock);
}

void sandbox_conn_set_running(struct sandbox_conn *conn, struct proc *supervisor, int dir_fd, const char *owner,
                              const char *codebase_id, bool syncs)
{
    add_ref(conn);
    pthread_mutex_lock(&conn->lock);
    conn->is_running = true;
    conn->is_stopping = false;
    conn->syncs = syncs;
    free(conn->owner);
    conn->owner = xdup(owner);
    free(conn->codebase_id);
    conn->codebase_id = xdup(codebase_id);
    cleanup_fd(&conn->dir_fd);
    conn->dir_fd = dir_fd;
    proc_done(&conn->supervisor);
    conn->supervisor = *supervisor;
    *supervisor = PROC_NONE;
    conn->generation++;
    pthread_mutex_unlock(&conn->lock);
}

bool sandbox_conn_end_running(struct sandbox_conn *conn)
{
    struct proc supervisor;
    bool was_running;
    int status;

    pthread_mutex_lock(&conn->lock);
    was_running = conn->is_running;
    conn->is_running = false;
    for (size_t i = 0; i < conn->idle_count; i++)
        close(conn->idle[i]);
    conn->idle_count = 0;
    supervisor = conn->supervisor;
    conn->supervisor = PROC_NONE;
    pthread_mutex_unlock(&conn->lock);
    if (supervisor.pid > 0)
        proc_wait_timeout(&supervisor, REAP_MS, &status);
    proc_done(&supervisor);
    if (was_running)
        sandbox_conn_unref(conn);
    return was_running;
}

int sandbox_conn_take_fd(struct sandbox_conn *conn, int *ret_fd, struct err *err)
{
    enum ctl_state state; /* the supervisor itself refuses what it cannot do in its state */
    autofd int fd = -1;
    int r = 0;

    pthread_mutex_lock(&conn->lock);
    if (!conn->is_running || conn->is_stopping)
        r = err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox is not running");
    else if (conn->idle_count > 0)
        fd = conn->idle[--conn->idle_count];
    if (r < 0 || fd >= 0) {
        pthread_mutex_unlock(&conn->lock);
        *ret_fd = steal_fd(&fd);
        return r;
    }
    /* With the lock held, because the directory may be closed with the sandbox. A unix socket connects immediately or fails. */
    r = ctl_client_connect(conn->dir_fd, &fd, err);
    pthread_mutex_unlock(&conn->lock);
    if (r == 0)
        r = hello_await(fd, HELLO_MS, &state, err);
    if (r < 0)
        return r;
    *ret_fd = steal_fd(&fd);
    return 0;
}

void sandbox_conn_give_fd(struct sandbox_conn *conn, int fd)
{
    pthread_mutex_lock(&conn->lock);
    if (conn->is_running && conn->idle_count < SANDBOX_CONN_IDLE_MAX) {
        conn->idle[conn->idle_count++] = fd;
        fd = -1;
    }
    pthread_mutex_unlock(&conn->lock);
    if (fd >= 0)
        close(fd);
}

void sandbox_conn_note_exec(struct sandbox_conn *conn, const char *name)
{
    pthread_mutex_lock(&conn->lock);
    conn->execs[conn->exec_next++ % SANDBOX_CONN_EXECS_KEPT] = hash_text(name);
    pthread_mutex_unlock(&conn->lock);
}

bool sandbox_conn_knows_exec(struct sandbox_conn *conn, const char *name)
{
    uint64_t hash = hash_text(name);
    bool is_known = false;

    pthread_mutex_lock(&conn->lock);
    for (size_t i = 0; i < SANDBOX_CONN_EXECS_KEPT && !is_known; i++)
        is_known = conn->execs[i] == hash;
    pthread_mutex_unlock(&conn->lock);
    return is_known;
}

void sandbox_conn_set_step(struct sandbox_conn *conn, const char *text)
{
    autofree char *step = text ? xdup(text) : NULL;

    pthread_mutex_lock(&conn->lock);
    free(conn->step);
    conn->step = steal_ptr(&step);
    pthread_mutex_unlock(&conn->lock);
}

char *sandbox_conn_dup_step(struct sandbox_conns *conns, const char *id)
{
    char *step = NULL;
    struct sandbox_conn *conn;

    pthread_mutex_lock(&conns->lock);
    conn = look_up(conns, id);
    if (conn) {
        pthread_mutex_lock(&conn->lock);
        step = conn->step ? xdup(conn->step) : NULL;
        pthread_mutex_unlock(&conn->lock);
    }
    pthread_mutex_unlock(&conns->lock);
    return step;
}

void sandbox_conns_each_running(struct sandbox_conns *conns, sandbox_conn_fn fn, void *cookie)
{
    struct sandbox_conn **found = NULL;
    size_t count = 0;

    pthread_mutex_lock(&conns->lock);
    found = xalloc((conns->count + 1) * sizeof(struct sandbox_conn *));
    for (size_t i = 0; i < SANDBOX_CONN_BUCKETS; i++) {
        for (struct sandbox_conn *conn = conns->buckets[i]; conn; conn = conn->next) {
            pthread_mutex_lock(&conn->lock);
            if (conn->is_running) {
                conn->refs++;
                found[count++] = conn;
            }
            pthread_mutex_unlock(&conn->lock);
        }
    }
    pthread_mutex_unlock(&conns->lock);
    for (size_t i = 0; i < count; i++) {
        fn(found[i], cookie);
        sandbox_conn_unref(found[i]);
    }
    free(found);
}
