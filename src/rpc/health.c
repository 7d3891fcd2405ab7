#include "rpc/health.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <grpc/health/v1/health.pb-c.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "call/call.h"

/* Each watcher occupies a thread, and the method needs no authentication. */
#define WATCHERS_MAX 16

struct health {
    const struct method_table *const *tables;
    struct method_table table;
    pthread_mutex_t lock;
    bool is_serving, is_closed;
    int watchers[WATCHERS_MAX]; /* eventfds of the watchers; -1: free */
};

static int health_check(struct call *call, void *cookie, struct err *err);
static int health_watch(struct call *call, void *cookie, struct err *err);

static const struct method methods[] = {
    { .service = "grpc.health.v1.Health",
      .name = "Check",
      .flags = METHOD_PUBLIC,
      .request = &grpc__health__v1__health_check_request__descriptor,
      .response = &grpc__health__v1__health_check_response__descriptor,
      .run = health_check },
    { .service = "grpc.health.v1.Health",
      .name = "Watch",
      .flags = METHOD_PUBLIC | METHOD_SERVER_STREAMS,
      .request = &grpc__health__v1__health_check_request__descriptor,
      .response = &grpc__health__v1__health_check_response__descriptor,
      .run = health_watch },
};

struct health *health_new(const struct method_table *const *tables)
{
    struct health *health = xnew(struct health);

    health->tables = tables;
    health->table = (struct method_table){ .methods = methods, .count = ARRAY_LEN(methods), .cookie = health };
    pthread_mutex_init(&health->lock, NULL);
    for (size_t i = 0; i < WATCHERS_MAX; i++)
        health->watchers[i] = -1;
    return health;
}

void health_free(struct health *health)
{
    if (!health)
        return;
    pthread_mutex_destroy(&health->lock);
    free(health);
}

const struct method_table *health_table(const struct health *health)
{
    return &health->table;
}

/* Call with the lock held. */
static void health_wake_watchers(struct health *health)
{
    const uint64_t one = 1;

    for (size_t i = 0; i < WATCHERS_MAX; i++) {
        if (health->watchers[i] >= 0 && write(health->watchers[i], &one, sizeof(one)) < 0)
            continue; /* it is readable already */
    }
}

void health_set(struct health *health, bool is_serving)
{
    pthread_mutex_lock(&health->lock);
    health->is_serving = is_serving;
    health_wake_watchers(health);
    pthread_mutex_unlock(&health->lock);
}

void health_close(struct health *health)
{
    pthread_mutex_lock(&health->lock);
    health->is_closed = true;
    health_wake_watchers(health);
    pthread_mutex_unlock(&health->lock);
}

static bool health_knows_service(const struct health *health, const char *service)
{
    if (service[0] == '\0')
        return true;
    for (size_t t = 0; health->tables[t]; t++) {
        for (size_t i = 0; i < health->tables[t]->count; i++) {
            if (strcmp(health->tables[t]->methods[i].service, service) == 0)
                return true;
        }
    }
    return false;
}

/* Receives the request's service name; free it. */
static int health_take_service(struct call *call, char **ret, struct err *err)
{
    ProtobufCMessage *message = NULL;
    int r = call_recv(call, &message, err);

    if (r < 0)
        return r;
    *ret = xdup(((Grpc__Health__V1__HealthCheckRequest *) message)->service);
    protobuf_c_message_free_unpacked(message, NULL);
    return 0;
}

static int health_send_status(struct call *call, Grpc__Health__V1__HealthCheckResponse__ServingStatus status)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;

    response.status = status;
    return call_send(call, &response.base);
}

static bool health_get_serving(struct health *health, bool *ret_closed)
{
    pthread_mutex_lock(&health->lock);
    bool is_serving = health->is_serving;
    *ret_closed = health->is_closed;
    pthread_mutex_unlock(&health->lock);
    return is_serving;
}

static Grpc__Health__V1__HealthCheckResponse__ServingStatus health_status_of(bool is_serving)
{
    return is_serving ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                      : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
}

static int health_check(struct call *call, void *cookie, struct err *err)
{
    struct health *health = cookie;
    autofree char *service = NULL;
    bool is_closed;
    int r = health_take_service(call, &service, err);

    if (r < 0)
        return r;
    if (!health_knows_service(health, service))
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "unknown service");
    return health_send_status(call, health_status_of(health_get_serving(health, &is_closed)));
}

static int health_add_watcher(struct health *health, int fd)
{
    int place = -EAGAIN;

    pthread_mutex_lock(&health->lock);
    for (int i = 0; i < WATCHERS_MAX && place < 0; i++) {
        if (health->watchers[i] < 0) {
            health->watchers[i] = fd;
            place = i;
        }
    }
    pthread_mutex_unlock(&health->lock);
    return place;
}

static void health_remove_watcher(struct health *health, int place)
{
    pthread_mutex_lock(&health->lock);
    health->watchers[place] = -1;
    pthread_mutex_unlock(&health->lock);
}

/* Sends the state now and at each change. For an unknown service, it sends that once: the set of services never changes
 * here. */
static int health_report_changes(struct call *call, struct health *health, bool known, int wake_fd)
{
    struct pollfd fds[] = { { .fd = wake_fd, .events = POLLIN }, { .fd = call_cancel_fd(call), .events = POLLIN } };
    bool is_closed = false, is_first = true, said = false;
    uint64_t ignored;

    if (fds[1].fd < 0)
        return -errno;
    while (!is_closed) {
        bool is_serving = health_get_serving(health, &is_closed);
        if (is_first || (known && is_serving != said)) {
            int r = health_send_status(call, known ? health_status_of(is_serving)
                                                   : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN);
            if (r < 0)
                return r;
        }
        is_first = false;
        said = is_serving;
        if (!is_closed && poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            return -ECANCELED;
        if (fds[0].revents && read(wake_fd, &ignored, sizeof(ignored)) < 0 && errno != EAGAIN)
            return -errno;
    }
    return 0;
}

static int health_watch(struct call *call, void *cookie, struct err *err)
{
    struct health *health = cookie;
    autofree char *service = NULL;
    autofd int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = health_take_service(call, &service, err);

    if (r < 0)
        return r;
    int place = fd < 0 ? -EAGAIN : health_add_watcher(health, fd);
    if (place < 0)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, place, "too many watch already");
    r = health_report_changes(call, health, health_knows_service(health, service), fd);
    health_remove_watcher(health, place);
    if (r == 0)
        return err_set(err, ERR_UNAVAILABLE, -ESHUTDOWN, "the server goes down");
    return r == -ECANCELED ? err_set(err, ERR_CANCELLED, r, "the call was cancelled") : r;
}
