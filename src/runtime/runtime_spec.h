/*
 * What a sandbox is to be: everything a runtime must know to start one.
 *
 * A spec only points: strings, arrays and descriptors are the caller's and are borrowed for the call it is given to. Begin with
 * RUNTIME_SPEC_NONE, which has no descriptors; zeroed fields mean the default that is named beside them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define RUNTIME_WORKSPACE "/workspace"
#define RUNTIME_HOME "/home/agent"
#define RUNTIME_USER "agent"
/* Ours inside the sandbox; read-only for it. */
#define RUNTIME_DIR "/run/agentfense"
#define RUNTIME_INIT (RUNTIME_DIR "/init")
#define RUNTIME_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:" RUNTIME_DIR "/bin"

#define RUNTIME_PIDS_DEFAULT 1024
#define RUNTIME_AGENT_ID 1000 /* uid and gid inside */
#define RUNTIME_TMP_BYTES (512ULL << 20)
#define RUNTIME_HOME_BYTES (512ULL << 20)
#define RUNTIME_SHM_BYTES (64ULL << 20)
#define RUNTIME_CPU_PERIOD_US 100000
#define RUNTIME_MOUNTS_MAX 64
#define RUNTIME_ID_MAX 80

enum runtime_net {
    RUNTIME_NET_NONE, /* its own network with nothing but loopback */
    RUNTIME_NET_HOST,
    RUNTIME_NET_BRIDGE, /* a container engine's network */
};

struct runtime_mount {
    const char *src; /* absolute; must exist; where nothing is staged, or with a link on its way, the sandbox's user must reach it */
    const char *dst; /* absolute, clean, and not in a tree of the sandbox's own: see runtime_spec_check() */
    bool read_only;
};

/* 0 is no limit, except for pids. A limit that cannot be enforced is refused when the sandbox starts. */
struct runtime_limits {
    uint64_t memory_bytes;
    uint32_t cpu_quota_us; /* of each RUNTIME_CPU_PERIOD_US: 150000 is one and a half processors */
    uint32_t cpu_shares;   /* 2 to 262144, where 1024 is an ordinary process group */
    uint64_t
        memory_default_bytes; /* holds where memory_bytes is 0 and there is a cgroup for it; else there is no limit of memory */
    uint32_t pids;            /* 0: RUNTIME_PIDS_DEFAULT, by whatever means there are */
};

/* What only a container has. */
struct runtime_container {
    const char *image;
    const char *engine;      /* path of its socket; "": the usual */
    const char *oci_runtime; /* "": the engine's default */
    const char *sandbox;     /* its name and the mark of its home: labels by which its container is known as ours */
    const char *home;
    const char *dir; /* the sandbox's directory, absolute: a place for what is bound, and its lock */
    bool read_only_root;
    bool no_pull;
};

struct runtime_spec {
    const char *id;
    const char *workspace;        /* path of the fence's mount, or */
    int workspace_fd;             /* a directory descriptor of it; or */
    const char *stage;            /* opened by stage_open(), the workspace in it */
    const char *init_path;        /* a program the sandbox's user may run, bound to RUNTIME_INIT; or */
    int init_fd;                  /* one that is copied there, when no path leads that user to it */
    const char *const *init_argv; /* what follows its name; ended by NULL; NULL: nothing */
    int init_socket;              /* becomes descriptor RUNTIME_INIT_FD of init; -1: none */
    const struct runtime_mount *mounts;
    size_t mount_count;
    enum runtime_net net;
    const char *hostname; /* NULL: "sandbox" */
    uid_t uid;            /* on the outside: whose processes these are; our own, or any when we are root, never root's */
    gid_t gid;
    uid_t agent_uid; /* the same user as seen inside; 0: RUNTIME_AGENT_ID */
    gid_t agent_gid;
    struct runtime_limits limits;
    uint64_t tmp_bytes, home_bytes, shm_bytes; /* sizes of /tmp, HOME, /dev/shm; 0: the defaults above */
    const char *const *env;                    /* "NAME=value" beside the fixed ones, ended by NULL; NULL: none */
    bool own_cgroup;                           /* also without a limit that needs one: to freeze it, or to see what it uses */
    /* Called when the runtime has done what it can without the workspace; when it returns 0 the workspace is there. So the two are
     * made ready side by side. NULL: it is there already. */
    int (*await_workspace)(void *cookie, struct err *err);
    void *cookie;
    const struct runtime_container *container; /* NULL: it is to be none */
    bool outlive_parent;                       /* go on when the thread that started it ends; the default is to die with it */
};

/* The number of init's socket inside. */
#define RUNTIME_INIT_FD 3

#define RUNTIME_SPEC_NONE ((struct runtime_spec){ .workspace_fd = -1, .init_fd = -1, .init_socket = -1 })

/* Everything that can be said without touching the sandbox: names, ids, environment, and the mounts. A destination is refused
 * when it is relative, unclean, doubled, inside another or inside a tree that is bound from the host or that the agent can
 * write: making a mount point there could follow a symlink to somewhere else (CVE-2026-87766). */
int runtime_spec_check(const struct runtime_spec *spec, struct err *err);

uid_t runtime_spec_agent_uid(const struct runtime_spec *spec);
gid_t runtime_spec_agent_gid(const struct runtime_spec *spec);
const char *runtime_spec_hostname(const struct runtime_spec *spec);
uint32_t runtime_spec_pids(const struct runtime_spec *spec);
