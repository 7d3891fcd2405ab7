#include "rpc/rpc_int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "call/message.h"
#include "rpc/grpc_call.h"

int mailbox_init(struct mailbox *mailbox)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0)
        return -errno;
    *mailbox = (struct mailbox){ .wake_fd = fd };
    mailbox->last = &mailbox->first;
    pthread_mutex_init(&mailbox->lock, NULL);
    return 0;
}

void mailbox_done(struct mailbox *mailbox)
{
    struct grpc_call *call;

    while ((call = mailbox_take(mailbox)))
        grpc_call_unref(call);
    close(mailbox->wake_fd);
    pthread_mutex_destroy(&mailbox->lock);
}

void mailbox_post(struct mailbox *mailbox, struct grpc_call *call)
{
    const uint64_t one = 1;
    bool is_first = false;

    pthread_mutex_lock(&mailbox->lock);
    if (!call->is_posted) {
        is_first = !mailbox->first;
        call->is_posted = true;
        call->next_posted = NULL;
        *mailbox->last = grpc_call_ref(call);
        mailbox->last = &call->next_posted;
    }
    pthread_mutex_unlock(&mailbox->lock);
    /* It cannot fail: the counter never comes near its end. */
    if (is_first && write(mailbox->wake_fd, &one, sizeof(one)) < 0)
        return;
}

/* One by one: as soon as a call is out its handler may put it in again. */
struct grpc_call *mailbox_take(struct mailbox *mailbox)
{
    pthread_mutex_lock(&mailbox->lock);
    struct grpc_call *call = mailbox->first;
    if (call) {
        mailbox->first = call->next_posted;
        if (!mailbox->first)
            mailbox->last = &mailbox->first;
        call->is_posted = false;
    }
    pthread_mutex_unlock(&mailbox->lock);
    return call;
}

struct link *link_new(void)
{
    struct link *link = xnew(struct link);

    atomic_init(&link->refs, 1);
    return link;
}

struct link *link_ref(struct link *link)
{
    atomic_fetch_add(&link->refs, 1);
    return link;
}

void link_unref(struct link *link)
{
    if (!link || atomic_fetch_sub(&link->refs, 1) > 1)
        return;
    peer_done(&link->peer);
    free(link);
}

static void fill(unsigned *value, unsigned otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void fill_limits(struct rpc_limits *limits)
{
    fill(&limits->connections_max, 1024);
    fill(&limits->streams_max, 256);
    fill(&limits->running_max, 128);
    fill(&limits->message_bytes_max, MESSAGE_BYTES_MAX);
    fill(&limits->header_bytes_max, 16u << 10);
    fill(&limits->queued_bytes_max, 32u << 20);
    fill(&limits->handshake_ms, 10000);
    fill(&limits->keepalive_ms, 60000);
    fill(&limits->keepalive_timeout_ms, 20000);
    fill(&limits->stall_ms, 60000);
    fill(&limits->slow_reader_ms, 600000);
    fill(&limits->reset_burst, 500);
    fill(&limits->reset_per_second, 50);
}

int host_init(struct host *host, const struct rpc_limits *limits)
{
    *host = (struct host){ 0 };
    int r = mailbox_init(&host->mailbox);
    if (r < 0)
        return r;
    if (limits)
        host->limits = *limits;
    fill_limits(&host->limits);
    host->read_bytes = xalloc(HOST_READ_BYTES);
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->idle, NULL);
    return 0;
}

void host_done(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    while (host->handlers > 0)
        pthread_cond_wait(&host->idle, &host->lock);
    pthread_mutex_unlock(&host->lock);
    mailbox_done(&host->mailbox);
    deadline_heap_done(&host->deadlines);
    free(host->read_bytes);
    pthread_cond_destroy(&host->idle);
    pthread_mutex_destroy(&host->lock);
}

void host_enter(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    host->handlers++;
    pthread_mutex_unlock(&host->lock);
}

void host_leave(struct host *host)
{
    pthread_mutex_lock(&host->lock);
    /* Signalled with the lock held: whoever waits for the last one frees the host as soon as it gets the lock. */
    if (--host->handlers == 0)
        pthread_cond_signal(&host->idle);
    pthread_mutex_unlock(&host->lock);
}
