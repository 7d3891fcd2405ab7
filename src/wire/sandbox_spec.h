/*
 * The description of a sandbox, in a file from which its supervisor starts it, for the first time and again after any end.
 *
 * Every sandbox has a directory:
 *
 *     <dir>/spec     this file, replaced as a whole
 *     <dir>/delta    its changes: see fence/delta.h
 *     <dir>/lock     held by its supervisor while that runs
 *     <dir>/ctl      the supervisor's socket: see ctl_proto.h
 *     <dir>/state    the last state that the supervisor reported, as lines "key value"
 *     <dir>/mnt      mount point of the fence: in the supervisor's mount namespace, unless that is root's; or on the host, for
 *                    a container or if a client wants it (sandbox/host_mount.h). As root it exists only while mounted
 *     <dir>/decision   what people decided about it: see sandbox/sandbox_dir.h
 *     <dir>/container  files that are bound into a container
 *     <dir>/log      the supervisor's log
 *
 * Only we can write the directory. The file is nevertheless read as untrusted input.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/sandbox_id.h"

#define SANDBOX_SPEC_BYTES_MAX (16u << 20)
#define SANDBOX_NAME_MAX 64 /* including the NUL */

#define SANDBOX_IMAGE_MAX 256 /* including the NUL */

/* BRIDGE is the engine's network of containers; only a container can use it. */
enum sandbox_net { SANDBOX_NET_NONE = 0, SANDBOX_NET_HOST = 1, SANDBOX_NET_BRIDGE = 2 };

/* policy's struct rule as plain numbers, so that this module does not depend on policy. */
struct sandbox_rule {
    char *pattern; /* owned */
    uint8_t type;
    uint8_t level;
    int32_t priority;
};

struct sandbox_mount {
    char *src, *dst; /* owned */
    bool read_only;
};

/* All pointers are owned. Zero means none, or the default. */
struct sandbox_spec {
    char *id;              /* name of its directory; "" in a spec from before ids: then `name` is */
    char *name;            /* the name for people; may be "" if there is an id */
    char *owner;           /* its owner, as the server knows owners; "": only the administrator sees it */
    char *base_path;       /* the directory whose files it shows: that of a codebase, or any */
    char *codebase_id;     /* "": the base is a directory */
    char *project_root;    /* for a directory: the project that contains it; "": it is the project itself */
    char **reserved_paths; /* for a directory: absolute paths that no other sandbox may reserve at the same time */
    size_t reserved_count;
    bool no_lock;        /* reserve nothing */
    char *preset;        /* the preset its rules started from; "": none, or unknown */
    bool syncs;          /* changes go into the base after each command */
    char *codebase_path; /* the codebase that receives changes and whose files are the base; "": none */
    uint64_t codebase_quota_bytes, codebase_keep_versions, codebase_keep_ns; /* as in codebase/codebase.h */
    char *runtime;                                                           /* its name: see runtime_type.h */
    char *driver;                                                            /* "fence", "overlayfs" or "copy"; "": fence */
    char *hostname;                                                          /* "": the default */
    bool is_live;                                                            /* the base may be edited meanwhile */
    bool own_cgroup;
    enum sandbox_net net;
    uint64_t created_ns; /* wall clock */
    uint64_t quota_bytes, quota_inodes;
    uint64_t memory_bytes;
    uint32_t cpu_quota_us, cpu_shares, pids;
    uint64_t tmp_bytes;
    /* Only for containers. */
    char *image;         /* not empty for a container */
    char *engine;        /* path of the engine's socket; "": the default one */
    char *oci_runtime;   /* the engine's name for it, such as "runsc"; "": the engine's default */
    bool read_only_root; /* only the workspace, /tmp and HOME are writable */
    bool no_pull;        /* a missing image is an error */
    struct sandbox_rule *rules;
    size_t rule_count;
    struct sandbox_mount *mounts;
    size_t mount_count;
    char **env; /* "NAME=value", for every command */
    size_t env_count;
};

void sandbox_spec_free(struct sandbox_spec *spec);
DEFINE_AUTOPTR(sandbox_spec, sandbox_spec_free);

void sandbox_spec_add_rule(struct sandbox_spec *spec, const char *pattern, uint8_t type, uint8_t level, int32_t priority);
void sandbox_spec_add_mount(struct sandbox_spec *spec, const char *src, const char *dst, bool read_only);
void sandbox_spec_add_env(struct sandbox_spec *spec, const char *assignment);
void sandbox_spec_add_reserved(struct sandbox_spec *spec, const char *path);

/* Returns true for 1 to 63 characters of [A-Za-z0-9._-] that do not start with a dot or a dash. Ids satisfy this too. */
bool sandbox_name_is_valid(const char *name);

/* Returns true for an id of a sandbox (base/sandbox_id.h), or "hook_" and 16 digits: the id of a sandbox that runs hooks. */
bool sandbox_spec_id_is_valid(const char *id);

/* Returns the name of its directory: the id, or the name in a spec from before ids. */
const char *sandbox_spec_dir_name(const struct sandbox_spec *spec);

/* Returns true for 1 to 255 characters of [A-Za-z0-9._/:@-] that start with a letter or digit. */
bool sandbox_image_is_valid(const char *image);

/* Returns true if its runtime makes it a container of an engine. */
bool sandbox_spec_is_container(const struct sandbox_spec *spec);

/* Replaces the content of `out`. */
void sandbox_spec_encode(const struct sandbox_spec *spec, struct buf *out);

/* Returns -EBADMSG if the bytes are not a complete spec of a known version, or contain an empty or relative path, an invalid id
 * or name, an empty pattern, an environment entry that is not NAME=value, or a container without an image. Rules are not
 * checked further. */
int sandbox_spec_decode(const void *bytes, size_t len, struct sandbox_spec **ret, struct err *err);

/* Only the rules, for SET_RULES. Decoding replaces the rules of `spec`, or leaves them unchanged on failure. */
void sandbox_spec_rules_encode(const struct sandbox_spec *spec, struct buf *out);
int sandbox_spec_rules_decode(struct sandbox_spec *spec, const void *bytes, size_t len, struct err *err);

/* The file `spec` in a sandbox's directory. Storing is atomic and, with `lasts`, durable. */
int sandbox_spec_load(int dir_fd, struct sandbox_spec **ret, struct err *err);
int sandbox_spec_store(int dir_fd, const struct sandbox_spec *spec, bool lasts, struct err *err);
