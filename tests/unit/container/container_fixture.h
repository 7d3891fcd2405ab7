/* What the tests of this directory share: an order with every field set, and an engine that answers what a test wants. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "container/engine.h"
#include "container/response.h"
#include "runtime/docker_order.h"

#define count_of(a) (sizeof(a) / sizeof((a)[0]))

static inline struct docker_order *full_order(void)
{
    static const struct runtime_mount mounts[] = { { "/srv/data", "/data", true }, { "/srv/out", "/out", false } };
    const struct runtime_container container = { .image = "debian:12",
                                                 .engine = "/run/engine.sock",
                                                 .oci_runtime = "runsc",
                                                 .sandbox = "shop-1",
                                                 .home = "0123abcd",
                                                 .dir = "/var/lib/x/shop-1",
                                                 .read_only_root = true,
                                                 .no_pull = true };
    struct runtime_spec spec = RUNTIME_SPEC_NONE;
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct docker_order *order = NULL;

    spec.id = "0123abcd-shop-1";
    spec.workspace = "/var/lib/x/shop-1/mnt";
    spec.init_path = "/usr/libexec/init";
    spec.hostname = "agent";
    spec.net = SANDBOX_NET_BRIDGE;
    spec.uid = 70001;
    spec.gid = 70002;
    spec.limits = (struct runtime_limits){ .memory_bytes = 1ULL << 33, .cpu_quota_us = 150000, .cpu_shares = 512, .pids = 77 };
    spec.tmp_bytes = 1 << 20;
    spec.mounts = mounts;
    spec.mount_count = 2;
    spec.container = &container;
    docker_order_encode(&spec, &bytes);
    assert_int_equal(docker_order_decode(bytes.data, bytes.len, &order, NULL), 0);
    return order;
}

/* Serves one connection after the other with the same bytes, and remembers the last request. */
struct fake_engine {
    char dir[64], path[96];
    int listen_fd;
    pthread_t thread;
    const char *reply;
    const char *later; /* instead of the reply, from the second connection on; NULL: the same */
    size_t reply_len, repeats;
    bool hangs; /* says nothing, and keeps the connection */
    int delay_ms;
    int asked_fd; /* an eventfd that counts the requests that came; -1: requests are not counted */
    int held_fd;
    char request[8192];
};

static inline void *fake_engine_serve(void *cookie)
{
    struct fake_engine *fake = cookie;
    int fd;

    while ((fd = accept(fake->listen_fd, NULL, NULL)) >= 0) {
        ssize_t n = recv(fd, fake->request, sizeof(fake->request) - 1, 0);

        fake->request[n > 0 ? n : 0] = '\0';
        if (fake->asked_fd >= 0)
            eventfd_write(fake->asked_fd, 1);
        if (fake->hangs) {
            fake->held_fd = fd;
            continue;
        }
        poll(NULL, 0, fake->delay_ms);
        for (size_t i = 0; i <= fake->repeats && send(fd, fake->reply, fake->reply_len, MSG_NOSIGNAL) > 0; i++)
            ;
        close(fd);
        if (fake->later) {
            fake->reply = fake->later;
            fake->reply_len = strlen(fake->later);
        }
    }
    return NULL;
}

static inline void fake_engine_start(struct fake_engine *fake, const char *reply, size_t len)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    *fake = (struct fake_engine){ .reply = reply, .reply_len = len, .held_fd = -1, .asked_fd = -1 };
    strcpy(fake->dir, "/tmp/af-engine-XXXXXX");
    assert_non_null(mkdtemp(fake->dir));
    snprintf(fake->path, sizeof(fake->path), "%s/sock", fake->dir);
    strcpy(address.sun_path, fake->path);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listen_fd, (struct sockaddr *) &address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listen_fd, 8), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_engine_serve, fake), 0);
}

static inline void fake_engine_stop(struct fake_engine *fake)
{
    shutdown(fake->listen_fd, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listen_fd);
    if (fake->held_fd >= 0)
        close(fake->held_fd);
    unlink(fake->path);
    rmdir(fake->dir);
}

/* One line, of printable characters. */
static inline void assert_printable(const char *text)
{
    assert_true(utf8_is_valid(text, strlen(text)));
    for (const char *at = text; *at; at++)
        assert_true((unsigned char) *at >= 0x20 && *at != 0x7f);
}
