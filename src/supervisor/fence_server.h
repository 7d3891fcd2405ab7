/*
 * Runs the sandbox's fence in threads of its own, and queues its refusals for the main thread.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "fence/fence.h"
#include "supervisor/event_log.h"
#include "supervisor/exec_of_pid.h"
#include "supervisor/reactor.h"
#include "wire/sandbox_spec.h"

/* Appears in the delta's change log instead of an exec's name when a client changed the file. No exec can have this name. */
#define FENCE_SERVER_FILE_OP "@file"

struct fence_server;

/* Called in the main thread when the fence has stopped unexpectedly. */
typedef void (*fence_server_fn)(int r, void *cookie);

struct fence_server_config {
    const char *dir_path; /* the sandbox's directory, which contains its delta */
    const char *mount_point;
    const struct sandbox_spec *spec;
    int base_fd; /* as in struct sandbox */
    uid_t uid;
    gid_t gid;
    struct reactor *reactor;
    struct exec_of_pid *exec_of_pid;
    struct event_log *event_log;
    fence_server_fn on_end;
    void *cookie;
};

/* The fence is mounted and serving when this returns. Everything in the config except strings and `spec` must outlive it. */
int fence_server_start(const struct fence_server_config *config, struct fence_server **ret, struct err *err);

/* Unmounts and joins the threads. Acknowledged writes are in the delta before and after. */
void fence_server_free(struct fence_server *fence_server);
DEFINE_AUTOPTR(fence_server, fence_server_free);

struct fence *fence_server_fence(struct fence_server *fence_server);

/* How much the delta may hold. */
struct fence_server_limits {
    uint64_t bytes, files;
};

/* Chooses the limits of the spec, or the defaults (limit_default.h). `dir_path` as in struct fence_server_config. */
void fence_server_choose_limits(const struct sandbox_spec *spec, const char *dir_path, struct fence_server_limits *ret);
/* The limits in force. */
struct fence_server_limits fence_server_limits(const struct fence_server *fence_server);

/* Adds the rules of a spec to `rules` and checks each. */
struct rule_list;
int fence_server_rules(const struct sandbox_spec *spec, struct rule_list *rules, struct err *err);

/* Compiles the rules of a spec for its base; `base_fd` as in struct sandbox. */
int fence_server_compile(const struct sandbox_spec *spec, int base_fd, struct ruleset **ret, struct err *err);
