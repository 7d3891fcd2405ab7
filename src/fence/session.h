/*
 * The conversation with the kernel: the device, the workers, what was agreed at the start.
 */
#pragma once

#include "fence/fence_int.h"

#define SESSION_BACKGROUND_MAX 64 /* background requests that the kernel sends before it waits for an answer */

struct session;

int session_new(struct fence *f, unsigned threads, struct session **ret_session);
void session_free(struct session *session);

/* Takes over an open /dev/fuse that a mount was made with. */
int session_attach(struct session *session, int take_fd);

int session_run(struct session *session);
void session_stop(struct session *session);
/* The device for passthrough_new(), or -EOPNOTSUPP where the kernel does not offer it. */
int session_passthrough_fd(const struct session *session);

/* For a worker in the middle of a request that has to wait for what another worker does: it does not lead meanwhile, nor count
 * among those who may be at work. False: too many wait already, or the caller is no worker. */
bool session_begin_wait(struct session *session);
void session_end_wait(struct session *session);

/* For a worker in the middle of a request: waits, not for long, until every FORGET that the kernel had sent by then is dealt
 * with. Others read meanwhile, so the caller may hold no lock that they need for that. */
void session_await_forgets(struct session *session);

/* For a thread that is no worker, after syncfs() on the mount: waits until every page that the kernel had sent by then is written.
 * mount_fd is any descriptor of the mount. False: not by then. */
bool session_await_writeback(struct session *session, int mount_fd, int64_t until_ns);

bool session_is_lost(const struct session *session); /* unmounted from outside */
int session_device(const struct session *session);
uint64_t session_requests(const struct session *session);
unsigned session_workers(struct session *session);
