/*
 * The fence of the sandbox, served by threads of its own, and the mailbox through which it reports refusals to the main thread.
 */
#pragma once

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "fence/fence.h"
#include "supervisor/chronicle.h"
#include "supervisor/reactor.h"
#include "supervisor/roster.h"
#include "wire/sandbox_spec.h"

/* In the delta's diary, in the place of an exec: a client changed the file, not a command. No exec can be called so. */
#define FENCING_FILE_OP "@file"

struct fencing;

/* Called in the main thread when the fence has stopped without being asked to. */
typedef void (*fencing_fn)(int r, void *cookie);

struct fencing_config {
    const char *dir_path; /* the sandbox's directory: its delta is in it */
    const char *mount_point;
    const struct sandbox_spec *spec;
    int base_fd; /* as in struct sandbox */
    uid_t uid;
    gid_t gid;
    struct reactor *reactor;
    struct roster *roster;
    struct chronicle *chronicle;
    fencing_fn on_end;
    void *cookie;
};

/* Mounted and serving when it returns. All but strings and `spec` must outlive it. */
int fencing_start(const struct fencing_config *config, struct fencing **ret, struct err *err);

/* Unmounts and waits for the threads. Everything acknowledged is in the delta before and after. */
void fencing_free(struct fencing *fencing);
DEFINE_AUTOPTR(fencing, fencing_free);

struct fence *fencing_fence(struct fencing *fencing);

/* What the delta may hold. */
struct fencing_limits {
    uint64_t bytes, files;
};

/* As the spec says, or the defaults (limit_default.h); `dir_path` as in struct fencing_config. */
void fencing_choose_limits(const struct sandbox_spec *spec, const char *dir_path, struct fencing_limits *ret);
/* Those that it is held to. */
struct fencing_limits fencing_limits(const struct fencing *fencing);

/* The rules of a spec, checked one by one. */
struct rule_list;
int fencing_rules(const struct sandbox_spec *spec, struct rule_list *rules, struct err *err);

/* The rules of a spec, compiled for its base; `base_fd` as in struct sandbox. */
int fencing_compile(const struct sandbox_spec *spec, int base_fd, struct ruleset **ret, struct err *err);
