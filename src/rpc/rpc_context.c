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
    /* The write cannot fail, because the counter never approaches its maximum. */
    if (is_first && write(mailbox->wake_fd, &one, sizeof(one)) < 0)
        return;
}

/* Takes one call at a time: its handler may post it again at once. */
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

struct conn_shared *conn_shared_new(void)
{
    struct conn_shared *shared = xnew(struct conn_shared);

    atomic_init(&shared->refs, 1);
    return shared;
}

struct conn_shared *conn_shared_ref(struct conn_shared *shared)
{
    atomic_fetch_add(&shared->refs, 1);
    return shared;
}

void conn_shared_unref(struct conn_shared *shared)
{
    if (!shared || atomic_fetch_sub(&shared->refs, 1) > 1)
        return;
    peer_done(&shared->peer);
    free(shared);
}

static void rpc_limits_set_default(unsigned *value, unsigned otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void rpc_limits_fill(struct rpc_limits *limits)
{
    rpc_limits_set_default(&limits->connections_max, 1024);
    rpc_limits_set_default(&limits->streams_max, 256);
    rpc_limits_set_default(&limits->running_max, 128);
    rpc_limits_set_default(&limits->message_bytes_max, MESSAGE_BYTES_MAX);
    rpc_limits_set_default(&limits->header_bytes_max, 16u << 10);
    rpc_limits_set_default(&limits->queued_bytes_max, 32u << 20);
    rpc_limits_set_default(&limits->handshake_ms, 10000);
    rpc_limits_set_default(&limits->keepalive_ms, 60000);
    rpc_limits_set_default(&limits->keepalive_timeout_ms, 20000);
    rpc_limits_set_default(&limits->stall_ms, 60000);
    rpc_limits_set_default(&limits->slow_reader_ms, 600000);
    rpc_limits_set_default(&limits->reset_burst, 500);
    rpc_limits_set_default(&limits->reset_per_second, 50);
}

int rpc_context_init(struct rpc_context *ctx, const struct rpc_limits *limits)
{
    *ctx = (struct rpc_context){ 0 };
    int r = mailbox_init(&ctx->mailbox);
    if (r < 0)
        return r;
    if (limits)
        ctx->limits = *limits;
    rpc_limits_fill(&ctx->limits);
    ctx->read_bytes = xalloc(RPC_READ_BYTES);
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_cond_init(&ctx->idle, NULL);
    return 0;
}

void rpc_context_done(struct rpc_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    while (ctx->handlers > 0)
        pthread_cond_wait(&ctx->idle, &ctx->lock);
    pthread_mutex_unlock(&ctx->lock);
    mailbox_done(&ctx->mailbox);
    deadline_heap_done(&ctx->deadlines);
    free(ctx->read_bytes);
    pthread_cond_destroy(&ctx->idle);
    pthread_mutex_destroy(&ctx->lock);
}

void rpc_context_enter(struct rpc_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->handlers++;
    pthread_mutex_unlock(&ctx->lock);
}

void rpc_context_leave(struct rpc_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    /* Signal with the lock held: the waiting thread frees the context as soon as it gets the lock. */
    if (--ctx->handlers == 0)
        pthread_cond_signal(&ctx->idle);
    pthread_mutex_unlock(&ctx->lock);
}
