#include "supervisor/fence_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "policy/rule.h"
#include "supervisor/limit_default.h"

#define DENIAL_QUEUE_MAX 256

/* A refusal on its way to the main thread. */
struct queued_denial {
    struct queued_denial *next;
    struct fence_denial denial; /* without its strings */
    char exec[CTL_NAME_MAX];
    char *path, *detail; /* owned */
};

struct fence_server {
    struct fence *fence; /* owned */
    pthread_t thread;
    bool is_running;
    struct fence_server_limits limits;
    struct exec_of_pid *exec_of_pid;
    struct event_log *event_log;
    struct waker waker;
    fence_server_fn on_end;
    void *cookie;

    pthread_mutex_t lock; /* guards all below */
    struct queued_denial *queue, **queue_end;
    unsigned queue_count;
    bool has_ended;
    int end_result;
};

struct fence *fence_server_fence(struct fence_server *fence_server)
{
    return fence_server->fence;
}

struct fence_server_limits fence_server_limits(const struct fence_server *fence_server)
{
    return fence_server->limits;
}

void fence_server_choose_limits(const struct sandbox_spec *spec, const char *dir_path, struct fence_server_limits *ret)
{
    ret->bytes = spec->quota_bytes ? spec->quota_bytes : limit_default_disk(dir_path);
    ret->files = spec->quota_inodes ? spec->quota_inodes : limit_default_files(spec->quota_bytes, spec->memory_bytes);
}

static void queued_denial_free(struct queued_denial *queued)
{
    free(queued->path);
    free(queued->detail);
    free(queued);
}

/* Runs in the fence's threads. A full queue drops the refusal; the fence itself still counts it. */
static void on_denial(const struct fence_denial *denial, void *cookie)
{
    struct fence_server *fence_server = cookie;
    struct queued_denial *queued = xnew(struct queued_denial);

    queued->denial = *denial;
    queued->path = xdup(denial->path);
    queued->detail = xprintf("%s %s%s%s", policy_op_name(denial->op), level_name(denial->level), denial->detail ? " " : "",
                             denial->detail ? denial->detail : "");
    memcpy(queued->exec, denial->exec, strnlen(denial->exec, CTL_NAME_MAX - 1));
    pthread_mutex_lock(&fence_server->lock);
    bool fits = fence_server->queue_count < DENIAL_QUEUE_MAX;
    if (fits) {
        *fence_server->queue_end = queued;
        fence_server->queue_end = &queued->next;
        fence_server->queue_count++;
    }
    pthread_mutex_unlock(&fence_server->lock);
    if (fits)
        waker_wake(&fence_server->waker);
    else
        queued_denial_free(queued);
}

static void log_denial(struct fence_server *fence_server, struct queued_denial *queued)
{
    event_log_add(fence_server->event_log,
                  &(struct ctl_event){
                      .kind = CTL_EVENT_DENIED,
                      .wall_ns = queued->denial.wall_ns,
                      .exec = queued->exec,
                      .subject = queued->path,
                      .detail = queued->detail,
                      .numbers = { queued->denial.error, queued->denial.pid, (int64_t) queued->denial.repeats },
                  });
    queued_denial_free(queued);
}

/* If several names match, the process was unknown and may be known by now. Returns false if a command has not reported its
 * pid yet: the callback of exec_of_pid_notify_with() then wakes us again. */
static bool find_denied_exec(struct fence_server *fence_server, struct queued_denial *queued)
{
    bool is_sure = !exec_of_pid_is_incomplete(fence_server->exec_of_pid);

    if (*queued->exec && !strchr(queued->exec, ','))
        return true;
    exec_of_pid_find_at(fence_server->exec_of_pid, queued->denial.pid, queued->denial.wall_ns, queued->exec);
    return is_sure || !strchr(queued->exec, ',');
}

static void fence_server_deliver_denials(struct fence_server *fence_server, bool all)
{
    struct queued_denial *queue, *kept = NULL, **last = &kept;
    unsigned kept_count = 0;

    pthread_mutex_lock(&fence_server->lock);
    queue = fence_server->queue;
    fence_server->queue = NULL;
    fence_server->queue_end = &fence_server->queue;
    fence_server->queue_count = 0;
    pthread_mutex_unlock(&fence_server->lock);
    while (queue) {
        struct queued_denial *queued = queue;

        queue = queued->next;
        queued->next = NULL;
        if (find_denied_exec(fence_server, queued) || all) {
            log_denial(fence_server, queued);
            continue;
        }
        *last = queued;
        last = &queued->next;
        kept_count++;
    }
    if (!kept)
        return;
    pthread_mutex_lock(&fence_server->lock);
    *last = fence_server->queue;
    if (!fence_server->queue)
        fence_server->queue_end = last;
    fence_server->queue = kept;
    fence_server->queue_count += kept_count;
    pthread_mutex_unlock(&fence_server->lock);
}

static void on_pid(void *cookie)
{
    struct fence_server *fence_server = cookie;
    bool has_letters;

    pthread_mutex_lock(&fence_server->lock);
    has_letters = fence_server->queue;
    pthread_mutex_unlock(&fence_server->lock);
    if (has_letters)
        waker_wake(&fence_server->waker);
}

static void on_wake(void *cookie)
{
    struct fence_server *fence_server = cookie;
    bool has_ended;
    int r;

    fence_server_deliver_denials(fence_server, false);
    pthread_mutex_lock(&fence_server->lock);
    has_ended = fence_server->has_ended;
    r = fence_server->end_result;
    pthread_mutex_unlock(&fence_server->lock);
    if (has_ended)
        fence_server->on_end(r, fence_server->cookie);
}

static void exec_of(pid_t pid, char out[FENCE_EXEC_MAX], void *cookie)
{
    _Static_assert(FENCE_EXEC_MAX == CTL_NAME_MAX, "an exec's name fits both");
    /* One of our own threads that works for a client (file_ops.h). */
    if (pid > 0 && syscall(SYS_tgkill, getpid(), pid, 0) == 0)
        snprintf(out, FENCE_EXEC_MAX, "%s", FENCE_SERVER_FILE_OP);
    else
        exec_of_pid_find(((struct fence_server *) cookie)->exec_of_pid, pid, out);
}

static void *fence_server_thread(void *cookie)
{
    struct fence_server *fence_server = cookie;
    int r = fence_run(fence_server->fence);

    pthread_mutex_lock(&fence_server->lock);
    fence_server->has_ended = true;
    fence_server->end_result = r;
    pthread_mutex_unlock(&fence_server->lock);
    waker_wake(&fence_server->waker);
    return NULL;
}

static bool has_workspace_dir(const char *base_path, int base_fd)
{
    autofree char *path = xprintf("%s/workspace", base_path);
    struct stat st;

    return fstatat(base_fd, base_fd < 0 ? path : "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int fence_server_rules(const struct sandbox_spec *spec, struct rule_list *rules, struct err *err)
{
    for (size_t i = 0; i < spec->rule_count; i++) {
        const struct sandbox_rule *rule = &spec->rules[i];
        int r;

        if (rule->type > RULE_FILE || rule->level > LEVEL_WRITE)
            return err_invalid(err, "rule %zu has an unknown type or level", i + 1);
        r = rule_list_add(rules, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type, (enum level) rule->level,
                          rule->priority, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int fence_server_compile(const struct sandbox_spec *spec, int base_fd, struct ruleset **ret, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct ruleset_options options = { .workspace_is_real = has_workspace_dir(spec->base_path, base_fd) };
    int r = fence_server_rules(spec, &rules, err);

    return r < 0 ? r : ruleset_new(&rules, &options, ret, err);
}

static int make_fence(struct fence_server *fence_server, const struct fence_server_config *config, struct err *err)
{
    const struct sandbox_spec *spec = config->spec;
    autofree char *delta = xprintf("%s/delta", config->dir_path);
    autoptr(ruleset) rules = NULL;
    int r = fence_server_compile(spec, config->base_fd, &rules, err);

    if (r < 0)
        return r;
    fence_server_choose_limits(spec, config->dir_path, &fence_server->limits);
    struct fence_config fence = {
        .base_path = spec->base_path,
        .base_fd = config->base_fd,
        .delta_path = delta,
        .rules = rules,
        .uid = config->uid,
        .gid = config->gid,
        .quota_bytes = fence_server->limits.bytes,
        .quota_inodes = fence_server->limits.files,
        .is_live = spec->is_live,
        .syncs_out = spec->codebase_path && spec->codebase_path[0] != '\0',
        .on_denial = on_denial,
        .exec_of = exec_of,
        .cookie = fence_server,
    };
    r = fence_new(&fence, &fence_server->fence, err);
    return r < 0 ? r : fence_mount(fence_server->fence, config->mount_point, err);
}

int fence_server_start(const struct fence_server_config *config, struct fence_server **ret, struct err *err)
{
    autoptr(fence_server) fence_server = xnew(struct fence_server);
    int r;

    pthread_mutex_init(&fence_server->lock, NULL);
    fence_server->queue_end = &fence_server->queue;
    fence_server->exec_of_pid = config->exec_of_pid;
    fence_server->event_log = config->event_log;
    fence_server->on_end = config->on_end;
    fence_server->cookie = config->cookie;
    r = waker_open(&fence_server->waker, config->reactor, on_wake, fence_server);
    if (r < 0)
        return err_errno(err, r, "watching the fence");
    r = make_fence(fence_server, config, err);
    if (r < 0)
        return r;
    r = pthread_create(&fence_server->thread, NULL, fence_server_thread, fence_server);
    if (r)
        return err_errno(err, -r, "starting the fence's thread");
    fence_server->is_running = true;
    exec_of_pid_notify_with(config->exec_of_pid, on_pid, fence_server);
    *ret = steal_ptr(&fence_server);
    return 0;
}

void fence_server_free(struct fence_server *fence_server)
{
    if (!fence_server)
        return;
    exec_of_pid_notify_with(fence_server->exec_of_pid, NULL, NULL);
    if (fence_server->is_running) {
        fence_stop(fence_server->fence);
        pthread_join(fence_server->thread, NULL);
    }
    fence_free(fence_server->fence);
    fence_server_deliver_denials(fence_server, true); /* the last ones: the fence reports no more once it is freed */
    waker_close(&fence_server->waker);
    pthread_mutex_destroy(&fence_server->lock);
    free(fence_server);
}
