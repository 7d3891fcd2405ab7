/*
 * The communication with the kernel: the device, the handshake, the workers.
 */
#pragma once

#include "fence/fence_int.h"

#define SESSION_BACKGROUND_MAX 64 /* how many background requests the kernel sends before it waits for replies */

struct session;

int session_new(struct fence *f, unsigned threads, struct session **ret_session);
void session_free(struct session *session);

/* Takes ownership of the open /dev/fuse that the mount was made with, and answers INIT. */
int session_attach(struct session *session, int take_fd);

int session_run(struct session *session);
void session_stop(struct session *session);
/* Returns the device for passthrough_new(), or -EOPNOTSUPP if the kernel does not offer passthrough. */
int session_passthrough_fd(const struct session *session);

/* Brackets a wait of a worker for what another worker does. It does not lead meanwhile and does not count among those that may
 * be at work. session_begin_wait() returns false if too many wait already, or if the caller is no worker. */
bool session_begin_wait(struct session *session);
void session_end_wait(struct session *session);

/* Makes a worker wait, not for long, until every FORGET that the kernel had sent by then is handled. Other workers read
 * meanwhile, so the caller may hold no lock that they need. */
void session_await_forgets(struct session *session);

/* Waits, after syncfs() on the mount, until every page that the kernel had sent by then is written. Not for workers. mount_fd
 * is any descriptor of the mount. Returns false if that did not happen in time. */
bool session_await_writeback(struct session *session, int mount_fd, int64_t until_ns);

bool session_is_lost(const struct session *session); /* unmounted from outside */
int session_device(const struct session *session);
uint64_t session_requests(const struct session *session);
unsigned session_workers(struct session *session);
