/*
 * What a sandbox is, in the file from which its supervisor starts it, now and again after whatever ended it.
 *
 * A sandbox has a directory of its own:
 *
 *     <dir>/spec     this, replaced whole
 *     <dir>/delta    its changes: see fence/delta.h
 *     <dir>/lock     held by its supervisor as long as that lives
 *     <dir>/ctl      the supervisor's socket: see ctl_proto.h
 *     <dir>/state    what the supervisor last said of itself, as lines "key value"
 *     <dir>/mnt      where the fence is mounted: in the supervisor's own mount namespace, when that is not root's; or on the host, for
 *                    a container, or at a client's wish (sandbox/host_mount.h). Root has it only while something is mounted there
 *     <dir>/container  of a container: what is bound into it
 *     <dir>/log      what the supervisor logged
 *
 * The file is written by us for us, in a directory nobody else can write; it is nevertheless read like a stranger's.
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
#define SANDBOX_NAME_MAX 64 /* with its NUL */

#define SANDBOX_IMAGE_MAX 256 /* with its NUL */

/* BRIDGE is the engine's own network of containers, and only a container can have it. */
enum sandbox_net { SANDBOX_NET_NONE = 0, SANDBOX_NET_HOST = 1, SANDBOX_NET_BRIDGE = 2 };

/* policy's struct rule, in plain numbers, so that this room needs to know nothing of rules. */
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

/* All owned. Zero means none, or the default. */
struct sandbox_spec {
    char *id;              /* what its directory is called; "" in a spec of a release before ids: then that is its name */
    char *name;            /* what people call it; may be "" where there is an id */
    char *owner;           /* whom it belongs to, as the server knows owners; "": the administrator, and nobody else sees it */
    char *base_path;       /* the directory whose files it shows: that of a codebase, or any */
    char *codebase_id;     /* "": the base is a directory */
    char *project_root;    /* of a directory: the project that it lies in; "": it is the project */
    char **reserved_paths; /* of a directory: absolute paths that no other sandbox may have meanwhile; none: the base */
    size_t reserved_count;
    bool no_lock;        /* reserves nothing */
    char *preset;        /* that its rules began with; "": none, or not known */
    bool syncs;          /* changes go into the base after each command */
    char *codebase_path; /* the codebase that changes are synced to, whose files are the base; "": none is */
    uint64_t codebase_quota_bytes, codebase_keep_versions, codebase_keep_ns; /* as in codebase/codebase.h */
    char *runtime;                                                           /* its name: runtime_type.h */
    char *driver;                                                            /* "fence", "overlayfs" or "copy"; "": fence */
    char *hostname;                                                          /* "": the default */
    bool is_live;                                                            /* the base is edited meanwhile */
    bool own_cgroup;
    enum sandbox_net net;
    uint64_t created_ns; /* wall clock */
    uint64_t quota_bytes, quota_inodes;
    uint64_t memory_bytes;
    uint32_t cpu_quota_us, cpu_shares, pids;
    uint64_t tmp_bytes;
    /* Of a container; without meaning elsewhere. */
    char *image;         /* never empty */
    char *engine;        /* path of the engine's socket; "": the usual one */
    char *oci_runtime;   /* as the engine knows it, "runsc"; "": the engine's default */
    bool read_only_root; /* nothing can be written but the workspace, /tmp and HOME */
    bool no_pull;        /* an image that is not here is an error */
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

/* Whether it may name a sandbox: 1 to 63 of [A-Za-z0-9._-], not beginning with a dot or a dash. An id is such a text too. */
bool sandbox_name_is_valid(const char *name);

/* Whether it is an id of a sandbox (base/sandbox_id.h), or "hook_" and 16 digits: the id of a sandbox in which hooks run. */
bool sandbox_spec_id_is_valid(const char *id);

/* What its directory is called: the id, or the name in a spec of a release before ids. */
const char *sandbox_spec_dir_name(const struct sandbox_spec *spec);

/* Whether an engine could be asked for it: 1 to 255 of [A-Za-z0-9._/:@-], beginning with a letter or digit. */
bool sandbox_image_is_valid(const char *image);

/* Whether its runtime makes it a container of an engine. */
bool sandbox_spec_is_container(const struct sandbox_spec *spec);

/* `out` is emptied first. */
void sandbox_spec_encode(const struct sandbox_spec *spec, struct buf *out);

/* -EBADMSG for whatever is no spec, or not a whole one, or of a later version, or has an empty or relative path, an id or a name that is
 * not valid, a pattern without text, an environment that is not NAME=value, or a container without an image. Rules are not judged beyond that. */
int sandbox_spec_decode(const void *bytes, size_t len, struct sandbox_spec **ret, struct err *err);

/* Only the rules: for SET_RULES. Decoding replaces those of `spec`, or leaves them on failure. */
void sandbox_spec_rules_encode(const struct sandbox_spec *spec, struct buf *out);
int sandbox_spec_rules_decode(struct sandbox_spec *spec, const void *bytes, size_t len, struct err *err);

/* The file `spec` in a sandbox's directory. Writing is atomic, and when it `lasts` also durable. */
int sandbox_spec_load(int dir_fd, struct sandbox_spec **ret, struct err *err);
int sandbox_spec_store(int dir_fd, const struct sandbox_spec *spec, bool lasts, struct err *err);
