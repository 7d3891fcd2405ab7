/*
 * agentfense-container: one container of a Docker engine as a child process, as bubblewrap is one.
 *
 *     agentfense-container ID     started by a supervisor, with its order and sockets as descriptors: runtime/docker_order.h
 *
 * Runs as long as the container and then removes it, also on SIGTERM, which the kernel sends when the supervisor dies. If it is
 * killed itself, the container's init loses its supervisor and ends, and the engine removes the container.
 *
 * Exits with 0 if the container ran and is gone, 1 if it failed, after it has reported the reason, 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/proc.h"
#include "container/container.h"
#include "container/container_dir.h"
#include "runtime/docker_report.h"

static int read_order(struct docker_order **ret, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = lseek(DOCKER_ORDER_FD, 0, SEEK_SET) < 0 ? -errno : fd_read_all(DOCKER_ORDER_FD, DOCKER_ORDER_MAX, &text);

    return r < 0 ? err_errno(err, r, "reading the order") : docker_order_decode(text.data, text.len, ret, err);
}

static int container_serve_order(pid_t parent, struct err *err)
{
    autoptr(docker_order) order = NULL;
    autofd int stop_fd = proc_open_signals(0);
    struct container_ends ends = { .init_fd = DOCKER_INIT_FD, .report_fd = DOCKER_REPORT_FD };
    int r;

    if (stop_fd < 0)
        return err_errno(err, stop_fd, "waiting for signals");
    r = read_order(&order, err);
    if (r < 0)
        return r;
    ends.stop_fd = stop_fd;
    ends.parent = parent;
    r = container_run(order, &ends, err);
    cleanup_fd(&ends.init_fd);
    /* Tried again: the threads of a killed supervisor end one by one, and the end of the first sends the signal. */
    container_dir_unmount(order, parent);
    container_dir_remove(order, parent);
    return r;
}

int main(int argc, char **argv)
{
    pid_t parent = getppid();
    struct err err = ERR_NONE;
    int type = 0;
    socklen_t len = sizeof(type);

    (void) argv;
    if (argc != 2 || getsockopt(DOCKER_REPORT_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
        fprintf(
            stderr,
            "usage: agentfense-container ID\nStarted by agentfense-supervisor; see 'agentfense help' for what people use.\n");
        return 2;
    }
    umask(022);
    if (container_serve_order(parent, &err) == 0)
        return 0;
    docker_report_send(DOCKER_REPORT_FD, DOCKER_REPORT_FAILED, (uint64_t) err.code, err.text);
    return 1;
}
