/*
 * Finds the processes that hold a socket in /proc and checks that they are the user's own processes on this host.
 *
 * A sandbox of an ordinary user has its owner's uid, so a uid proves nothing. A process is the user's own if it is in the user and pid namespaces
 * of this process, has the uid of the socket, and is not one of our programs that work for sandboxes: those may hold an agent's sockets.
 *
 * A socket that is on its way between two processes, or that only a thread with a descriptor table of its own holds, has no holder here. A process
 * that we may not inspect counts as a holder if it has the socket's uid and is in a deeper pid namespace. If anything changes during the search,
 * the check fails. The check does not see where a process got the socket from: a program of the user's own that accepts descriptors from
 * sandboxes and keeps them vouches for them.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct held_socket {
    uid_t uid;
    uint64_t inode;     /* never 0 */
    uint64_t cgroup_id; /* the cgroup (v2) in which the socket was created; 0: unknown */
};

/*
 * Both return 0, or a negative errno and a literal reason in `ret_why`. err_errno_is_exhaustion() is true if descriptors or memory ran out.
 */

/* Checks that one process, given its open /proc/PID, holds the socket and is the user's own. With `held` NULL it does not look for the socket. */
int socket_holder_check(int proc_fd, uid_t uid, const struct held_socket *held, const char **ret_why);

/* Checks that at least one process holds the socket and that all holders are the user's own. */
int socket_holder_search(const struct held_socket *held, const char **ret_why);
