/*
 * A WebSocket in this process: the server's handler runs in a thread of its own, at the other end of a pair of sockets. So what it says, and
 * what becomes of a command when we hang up, is what a server says and does.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "client/own_web.h"

struct tandem {
    struct own_web own; /* first */
    struct client_web wanted;
    pthread_t thread;
    int ours, theirs; /* owned */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_upgraded, has_returned; /* under the lock */
};

static int on_upgrade(struct own_web *own, struct web_socket *ret, struct err *err)
{
    struct tandem *tandem = (struct tandem *) own;

    (void) err;
    *ret = (struct web_socket){ .fd = tandem->theirs };
    pthread_mutex_lock(&tandem->lock);
    tandem->has_upgraded = true;
    pthread_cond_signal(&tandem->changed);
    pthread_mutex_unlock(&tandem->lock);
    return 0;
}

/* Our end hears of it at once, not only when the handler has seen to the rest. */
static void on_hang_up(struct own_web *own)
{
    struct tandem *tandem = (struct tandem *) own;

    shutdown(tandem->theirs, SHUT_RDWR);
}

static void *handle(void *cookie)
{
    struct tandem *tandem = cookie;

    tandem->own.web.route->run(&tandem->own.web, &tandem->own.embedded->api);
    pthread_mutex_lock(&tandem->lock);
    tandem->has_returned = true;
    pthread_cond_signal(&tandem->changed);
    pthread_mutex_unlock(&tandem->lock);
    return NULL;
}

static void tandem_free(struct tandem *tandem)
{
    cleanup_fd(&tandem->ours);
    cleanup_fd(&tandem->theirs);
    own_web_done(&tandem->own);
    pthread_cond_destroy(&tandem->changed);
    pthread_mutex_destroy(&tandem->lock);
    free(tandem);
}

/* Hanging up is what tells the handler; it ends the command, and then comes the end of the thread. */
static void tandem_close(void *own)
{
    struct tandem *tandem = own;

    shutdown(tandem->ours, SHUT_RDWR);
    pthread_join(tandem->thread, NULL);
    tandem_free(tandem);
}

static int start(struct tandem *tandem, struct err *err)
{
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_errno(err, -errno, "making a pair of sockets");
    tandem->ours = pair[0];
    tandem->theirs = pair[1];
    tandem->own.on_upgrade = on_upgrade;
    tandem->own.on_hang_up = on_hang_up;
    /* Signals are for whoever has the terminal: we hear of them, and hang up. */
    tandem->own.cancel_fd = -1;
    r = -pthread_create(&tandem->thread, NULL, handle, tandem);
    return r < 0 ? err_errno(err, r, "starting a thread") : 0;
}

static bool wait_for_upgrade(struct tandem *tandem)
{
    bool has_upgraded;

    pthread_mutex_lock(&tandem->lock);
    while (!tandem->has_upgraded && !tandem->has_returned)
        pthread_cond_wait(&tandem->changed, &tandem->lock);
    has_upgraded = tandem->has_upgraded;
    pthread_mutex_unlock(&tandem->lock);
    return has_upgraded;
}

int embedded_connect(struct embedded *embedded, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                     struct err *err)
{
    struct tandem *tandem = xnew(struct tandem);
    int r;

    tandem->ours = tandem->theirs = -1;
    tandem->wanted = (struct client_web){ .verb = "GET", .path = path };
    pthread_mutex_init(&tandem->lock, NULL);
    pthread_cond_init(&tandem->changed, NULL);
    r = own_web_init(&tandem->own, embedded, &tandem->wanted, answer, err);
    if (r == 0)
        r = start(tandem, err);
    if (r == 0 && wait_for_upgrade(tandem)) {
        *ret = (struct carrier){ .fd = tandem->ours, .close = tandem_close, .own = tandem };
        *ret_status = 101;
        return 0;
    }
    if (r == 0) {
        pthread_join(tandem->thread, NULL);
        r = own_web_end(&tandem->own, ret_status, err);
    }
    tandem_free(tandem);
    return r;
}
