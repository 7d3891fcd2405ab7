/*
 * Everything a runtime must know to start a sandbox.
 *
 * A spec owns nothing: its strings, arrays and descriptors belong to the caller and are borrowed for the call. Start from
 * RUNTIME_SPEC_NONE, which has no descriptors; zero means the default noted at each field.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/defaults.h"
#include "base/err.h"
#include "wire/sandbox_spec.h"

#define RUNTIME_WORKSPACE "/workspace"
#define RUNTIME_HOME "/home/agent"
#define RUNTIME_USER "agent"
/* Our directory in the sandbox, which is read-only there. */
#define RUNTIME_DIR "/run/agentfense"
#define RUNTIME_INIT (RUNTIME_DIR "/init")
#define RUNTIME_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:" RUNTIME_DIR "/bin"

#define RUNTIME_PIDS_DEFAULT DEFAULT_PIDS
#define RUNTIME_AGENT_ID 1000 /* uid and gid inside */
#define RUNTIME_TMP_BYTES (512ULL << 20)
#define RUNTIME_HOME_BYTES (512ULL << 20)
#define RUNTIME_SHM_BYTES (64ULL << 20)
#define RUNTIME_CPU_PERIOD_US 100000
#define RUNTIME_MOUNTS_MAX 64
#define RUNTIME_ID_MAX 80

struct runtime_mount {
    /* Absolute and existing. The sandbox's user must be able to reach it unless the root is staged and no link is on the path. */
    const char *src;
    const char *dst; /* absolute, clean, and not in a directory of the sandbox itself: runtime_spec_check() */
    bool read_only;
};

/* 0 means no limit, except for pids. A limit that cannot be enforced makes the start fail. */
struct runtime_limits {
    uint64_t memory_bytes;
    uint32_t cpu_quota_us;         /* per RUNTIME_CPU_PERIOD_US: 150000 is one and a half CPUs */
    uint32_t cpu_shares;           /* 2 to 262144; 1024 is an ordinary process group */
    uint64_t memory_default_bytes; /* applies if memory_bytes is 0 and a cgroup can enforce it */
    uint32_t pids;                 /* 0: RUNTIME_PIDS_DEFAULT, enforced if possible */
};

/* For containers only. */
struct runtime_container {
    const char *image;
    const char *engine;      /* path of its socket; "": the default */
    const char *oci_runtime; /* "": the engine's default */
    const char *sandbox;     /* its name and the mark of its state directory: the labels of our containers */
    const char *home;
    const char *dir; /* the sandbox's directory, absolute: contains the files to bind, and its lock */
    bool read_only_root;
    bool no_pull;
};

struct runtime_spec {
    const char *id;
    const char *workspace;        /* path of the fence's mount; or */
    const char *stage;            /* opened by stage_open(), with the workspace in it */
    const char *init_path;        /* a program that the sandbox's user may execute, bound to RUNTIME_INIT; or */
    int init_fd;                  /* a descriptor to copy it from, if that user cannot reach it by a path */
    const char *const *init_argv; /* arguments after its name, NULL-terminated; NULL: none */
    int init_socket;              /* becomes init's descriptor RUNTIME_INIT_FD; -1: none */
    const struct runtime_mount *mounts;
    size_t mount_count;
    enum sandbox_net net;
    const char *hostname; /* NULL: "sandbox" */
    uid_t uid;            /* on the host: our own, or any but root's if we are root */
    gid_t gid;
    uid_t agent_uid; /* the same user inside; 0: RUNTIME_AGENT_ID */
    gid_t agent_gid;
    struct runtime_limits limits;
    uint64_t tmp_bytes;     /* size of /tmp; 0: RUNTIME_TMP_BYTES */
    const char *const *env; /* "NAME=value" in addition to the fixed ones, NULL-terminated; NULL: none */
    bool own_cgroup;        /* even if no limit needs one: for freezing, or to see its usage */
    /* Called when the runtime has done what it can without the workspace, so that both are prepared in parallel. The
     * workspace exists when it returns 0. NULL: it exists already. */
    int (*await_workspace)(void *cookie, struct err *err);
    void *cookie;
    const struct runtime_container *container; /* NULL: not a container */
};

/* The variables that every process of a sandbox has, NULL-terminated. */
extern const char *const runtime_environment[];

/* Number of init's socket inside. */
#define RUNTIME_INIT_FD 3

#define RUNTIME_SPEC_NONE ((struct runtime_spec){ .init_fd = -1, .init_socket = -1 })

/* Checks everything that needs no sandbox: names, ids, environment, and mounts. Refuses a destination that is relative,
 * unclean, duplicate, inside another, or inside a directory that is bound from the host or that the agent can write: making
 * a mount point there could follow a symlink (CVE-2026-87766). */
int runtime_spec_check(const struct runtime_spec *spec, struct err *err);

uid_t runtime_spec_agent_uid(const struct runtime_spec *spec);
gid_t runtime_spec_agent_gid(const struct runtime_spec *spec);
const char *runtime_spec_hostname(const struct runtime_spec *spec);
uint32_t runtime_spec_pids(const struct runtime_spec *spec);
