/*
 * The processes that hold a socket, found in /proc, and whether they are the user's own on this host.
 *
 * A sandbox of an ordinary user has its owner's uid, so a uid proves nothing. A process of the user's own is in the user and pid namespaces of
 * this process, has the uid of the socket, and is none of our programs that work for sandboxes: what those hold may be an agent's.
 *
 * Only what is found counts: a socket on its way between two processes, or held by a thread with descriptors of its own, has no holder. A process
 * that we may not look into counts as a holder if it has the socket's uid and is in a deeper pid namespace. Whatever changes while one looks
 * ends in a refusal. Not seen is who gave the socket to the process that holds it: a program of the user's own that takes descriptors
 * from sandboxes, and keeps them, vouches for them.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct held_socket {
    uid_t uid;
    uint64_t inode;     /* never 0 */
    uint64_t cgroup_id; /* in which it was made (cgroup v2); 0: not known */
};

/*
 * Both return 0, or a negative errno and in `ret_why` a literal that says why not; err_errno_is_exhaustion() tells when there were not the means to look.
 */

/* Of one process, by its open /proc/PID: that it holds the socket and is the user's own. `held` may be NULL: the socket is not asked for. */
int socket_holder_check(int proc_fd, uid_t uid, const struct held_socket *held, const char **ret_why);

/* Of all processes: that some hold it, and all of them are the user's own. */
int socket_holder_search(const struct held_socket *held, const char **ret_why);
