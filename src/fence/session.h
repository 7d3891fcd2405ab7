/*
 * The conversation with the kernel: the device, the workers, what was agreed at the start.
 */
#pragma once

#include "fence/fence_int.h"

struct session;

int session_new(struct fence *f, unsigned threads, struct session **ret_session);
void session_free(struct session *session);

/* Takes over an open /dev/fuse that a mount was made with. */
int session_attach(struct session *session, int take_fd);

int session_run(struct session *session);
void session_stop(struct session *session);
uint64_t session_requests(const struct session *session);
unsigned session_workers(const struct session *session);

/* Messages to the kernel that are no replies. -ENOENT: the kernel had nothing of the kind cached. Never from a worker and never
 * with the gate held. */
int session_forget_entry(struct session *session, struct inode *dir, const char *name, bool only_expire);
int session_forget_pages(struct session *session, struct inode *inode); /* and attributes */
int session_forget_attrs(struct session *session, struct inode *inode);
int session_forget_all_names(struct session *session); /* -EINVAL before Linux 6.16 */
