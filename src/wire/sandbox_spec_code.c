#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "wire/reader.h"
#include "wire/sandbox_spec_int.h"
#include "wire/writer.h"

/*
 * The file; numbers are little endian, strings NUL-terminated:
 *
 *      0  "AFSB"       magic
 *      4  u8           version
 *      5  u8           kind: a spec, or rules
 *      6  u32          length of the body, which follows and ends the file
 *     10  u64          checksum of the body
 *
 *     rules:           u32 count, each: pattern, u8 type, u8 level, u32 priority
 *     a spec's body:   name, base_path, runtime, hostname, u8 is_live, u8 own_cgroup, u8 net, u64 created_ns,
 *                      u64 quota_bytes, u64 quota_inodes, u64 memory_bytes, u32 cpu_quota_us, u32 cpu_shares, u32 pids,
 *                      u64 tmp_bytes; since version 2: codebase_path, u64 codebase_quota_bytes, u64 codebase_keep_versions,
 *                      u64 codebase_keep_ns; since version 3: image, engine, oci_runtime, u8 read_only_root, u8 no_pull;
 *                      since version 4: driver; since version 5: id, owner, codebase_id, project_root, preset, u8 no_lock, u8 syncs,
 *                      u32 count of reserved paths, each a string;
 *                      rules
 *                      u32 count of mounts, each: src, dst, u8 read_only
 *                      u32 count of the environment, each a string
 *
 * The checksum protects against disk errors, not against attackers: a flipped bit in a pattern would be another rule.
 */
#define VERSION 5
#define HEADER_LEN 18
#define MAGIC_LEN 4
#define CODEBASE_ID_PREFIX "cb_"

enum spec_file_kind { KIND_SPEC = 1, KIND_RULES = 2 };

static const char magic[MAGIC_LEN] = { 'A', 'F', 'S', 'B' };

/* Detects every change of a single byte. */
static uint64_t sandbox_spec_checksum(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t sum = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * 0x100000001b3u;
    return sum;
}

static void put_number(struct buf *out, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++, value >>= 8)
        buf_add_char(out, (char) value);
}

static void put_string(struct buf *out, const char *text)
{
    if (text)
        buf_add_str(out, text);
    buf_add_char(out, '\0');
}

static void put_rules(struct buf *out, const struct sandbox_spec *spec)
{
    put_number(out, spec->rule_count, 4);
    for (size_t i = 0; i < spec->rule_count; i++) {
        put_string(out, spec->rules[i].pattern);
        put_number(out, spec->rules[i].type, 1);
        put_number(out, spec->rules[i].level, 1);
        put_number(out, (uint32_t) spec->rules[i].priority, 4);
    }
}

/* The members of a spec, in the order of the file. Numbers may be wider in memory; a flag is a bool. */
enum member_type { MEMBER_TEXT, MEMBER_FLAG, MEMBER_U8, MEMBER_U32, MEMBER_U64 };

#define MEMBER(kind, member, version)                                                                                          \
    {                                                                                                                          \
        .type = (kind), .since = (version), .offset = offsetof(struct sandbox_spec, member)                                    \
    }

static const struct spec_member {
    uint8_t type, since;
    uint16_t offset;
} members[] = {
    MEMBER(MEMBER_TEXT, name, 1),
    MEMBER(MEMBER_TEXT, base_path, 1),
    MEMBER(MEMBER_TEXT, runtime, 1),
    MEMBER(MEMBER_TEXT, hostname, 1),
    MEMBER(MEMBER_FLAG, is_live, 1),
    MEMBER(MEMBER_FLAG, own_cgroup, 1),
    MEMBER(MEMBER_U8, net, 1),
    MEMBER(MEMBER_U64, created_ns, 1),
    MEMBER(MEMBER_U64, quota_bytes, 1),
    MEMBER(MEMBER_U64, quota_inodes, 1),
    MEMBER(MEMBER_U64, memory_bytes, 1),
    MEMBER(MEMBER_U32, cpu_quota_us, 1),
    MEMBER(MEMBER_U32, cpu_shares, 1),
    MEMBER(MEMBER_U32, pids, 1),
    MEMBER(MEMBER_U64, tmp_bytes, 1),
    MEMBER(MEMBER_TEXT, codebase_path, 2),
    MEMBER(MEMBER_U64, codebase_quota_bytes, 2),
    MEMBER(MEMBER_U64, codebase_keep_versions, 2),
    MEMBER(MEMBER_U64, codebase_keep_ns, 2),
    MEMBER(MEMBER_TEXT, image, 3),
    MEMBER(MEMBER_TEXT, engine, 3),
    MEMBER(MEMBER_TEXT, oci_runtime, 3),
    MEMBER(MEMBER_FLAG, read_only_root, 3),
    MEMBER(MEMBER_FLAG, no_pull, 3),
    MEMBER(MEMBER_TEXT, driver, 4),
    MEMBER(MEMBER_TEXT, id, 5),
    MEMBER(MEMBER_TEXT, owner, 5),
    MEMBER(MEMBER_TEXT, codebase_id, 5),
    MEMBER(MEMBER_TEXT, project_root, 5),
    MEMBER(MEMBER_TEXT, preset, 5),
    MEMBER(MEMBER_FLAG, no_lock, 5),
    MEMBER(MEMBER_FLAG, syncs, 5),
};

_Static_assert(sizeof(enum sandbox_net) == sizeof(unsigned), "net is copied as an unsigned");

static void put_members(struct buf *out, const struct sandbox_spec *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const char *at = (const char *) spec + members[i].offset;

        if (members[i].type == MEMBER_TEXT)
            put_string(out, *(const char *const *) at);
        else if (members[i].type == MEMBER_FLAG)
            put_number(out, *(const bool *) at, 1);
        else if (members[i].type == MEMBER_U8)
            put_number(out, *(const unsigned *) at, 1);
        else if (members[i].type == MEMBER_U32)
            put_number(out, *(const uint32_t *) at, 4);
        else
            put_number(out, *(const uint64_t *) at, 8);
    }
    put_number(out, spec->reserved_count, 4);
    for (size_t i = 0; i < spec->reserved_count; i++)
        put_string(out, spec->reserved_paths[i]);
}

void sandbox_spec_free_texts(struct sandbox_spec *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (members[i].type == MEMBER_TEXT)
            free(*(char **) ((char *) spec + members[i].offset));
}

static void put_mounts(struct buf *out, const struct sandbox_spec *spec)
{
    put_number(out, spec->mount_count, 4);
    for (size_t i = 0; i < spec->mount_count; i++) {
        put_string(out, spec->mounts[i].src);
        put_string(out, spec->mounts[i].dst);
        put_number(out, spec->mounts[i].read_only, 1);
    }
}

static void put_env(struct buf *out, const struct sandbox_spec *spec)
{
    put_number(out, spec->env_count, 4);
    for (size_t i = 0; i < spec->env_count; i++)
        put_string(out, spec->env[i]);
}

/* Leaves space for the header, whose fields are known at the end. */
static void sandbox_spec_begin_file(struct buf *out)
{
    static const char blank[HEADER_LEN];

    buf_clear(out);
    buf_add(out, blank, HEADER_LEN);
}

static void sandbox_spec_end_file(struct buf *out, enum spec_file_kind kind)
{
    size_t len = out->len - HEADER_LEN;
    struct writer w;

    writer_init(&w, out->data, HEADER_LEN);
    writer_bytes(&w, magic, MAGIC_LEN);
    writer_u8(&w, VERSION);
    writer_u8(&w, (uint8_t) kind);
    writer_u32(&w, (uint32_t) len);
    writer_u64(&w, sandbox_spec_checksum(out->data + HEADER_LEN, len));
}

void sandbox_spec_encode(const struct sandbox_spec *spec, struct buf *out)
{
    sandbox_spec_begin_file(out);
    put_members(out, spec);
    put_rules(out, spec);
    put_mounts(out, spec);
    put_env(out, spec);
    sandbox_spec_end_file(out, KIND_SPEC);
}

void sandbox_spec_rules_encode(const struct sandbox_spec *spec, struct buf *out)
{
    sandbox_spec_begin_file(out);
    put_rules(out, spec);
    sandbox_spec_end_file(out, KIND_RULES);
}

/* Rules come from a client, whose fault an error is; a spec is ours. */
static enum err_code code_of(enum spec_file_kind kind)
{
    return kind == KIND_SPEC ? ERR_DATA_LOSS : ERR_INVALID_ARGUMENT;
}

static int sandbox_spec_damaged(enum spec_file_kind kind, const char *how, struct err *err)
{
    return err_set(err, code_of(kind), -EBADMSG, "the file is damaged: %s", how);
}

/* Adjusts the code of an error that a check of the content has set. */
static int bad_content(enum spec_file_kind kind, struct err *err)
{
    if (err)
        err->code = code_of(kind);
    return -EBADMSG;
}

/* Checks everything around the body and sets `ret` to read the body. */
static int open_body(const void *bytes, size_t len, enum spec_file_kind kind, struct reader *ret, uint8_t *ret_version,
                     struct err *err)
{
    const char *what = kind == KIND_SPEC ? "a sandbox's spec" : "a file of rules";
    struct reader r;
    const void *found;
    uint8_t version, found_kind;
    uint32_t body_len;
    uint64_t sum;

    reader_init(&r, bytes, len);
    found = reader_bytes(&r, MAGIC_LEN);
    if (!found || memcmp(found, magic, MAGIC_LEN) != 0)
        return err_set(err, code_of(kind), -EBADMSG, "this is not %s", what);
    version = reader_u8(&r);
    found_kind = reader_u8(&r);
    body_len = reader_u32(&r);
    sum = reader_u64(&r);
    if (!r.failed && (version < 1 || version > VERSION))
        return err_set(err, ERR_FAILED_PRECONDITION, -EBADMSG, "format %u is unknown to this version, which reads up to %u",
                       version, VERSION);
    if (r.failed || body_len != r.left)
        return sandbox_spec_damaged(kind, "its length is wrong", err);
    if (found_kind != kind)
        return err_set(err, code_of(kind), -EBADMSG, "this is not %s", what);
    if (len > SANDBOX_SPEC_BYTES_MAX)
        return err_set(err, code_of(kind), -EBADMSG, "it is too large");
    if (sandbox_spec_checksum(r.at, r.left) != sum)
        return sandbox_spec_damaged(kind, "its checksum does not match", err);
    *ret = r;
    *ret_version = version;
    return 0;
}

static const char *read_string(struct reader *r)
{
    const char *text = reader_string(r, SIZE_MAX);

    return text ? text : "";
}

static bool read_bool(struct reader *r)
{
    uint8_t value = reader_u8(r);

    if (value > 1)
        reader_fail(r);
    return value == 1;
}

static void read_rules(struct reader *r, struct sandbox_spec *spec)
{
    uint32_t count = reader_u32(r);

    for (uint32_t i = 0; i < count && !r->failed; i++) {
        const char *pattern = read_string(r);
        uint8_t type = reader_u8(r), level = reader_u8(r);
        int32_t priority = (int32_t) reader_u32(r);

        if (!r->failed)
            sandbox_spec_add_rule(spec, pattern, type, level, priority);
    }
}

/* The files of a codebase are in <codebases>/<id>/files. */
static char *codebase_of_base(const char *base_path)
{
    const char *end = strrchr(base_path, '/'), *at = end;

    if (!end || strcmp(end, "/files") != 0)
        return xdup("");
    while (at > base_path && at[-1] != '/')
        at--;
    autofree char *id = xdupn(at, (size_t) (end - at));
    return xdup(id_is_valid(CODEBASE_ID_PREFIX, id) ? id : "");
}

/* Before version 5 a sandbox had one name, that of its directory. For sandboxes of a server that was an id. */
static void derive_identity(struct sandbox_spec *spec)
{
    char *id = spec->id;

    if (sandbox_spec_id_is_valid(spec->name)) {
        spec->id = spec->name;
        spec->name = id; /* "" */
    }
    if (!spec->is_live) {
        free(spec->codebase_id);
        spec->codebase_id = codebase_of_base(spec->base_path);
    }
    spec->syncs = *spec->codebase_path != '\0';
}

/* Members that the version lacks are "" or 0. */
static void read_members(struct reader *r, uint8_t version, struct sandbox_spec *spec)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        char *at = (char *) spec + members[i].offset;
        bool is_there = version >= members[i].since;

        if (members[i].type == MEMBER_TEXT)
            *(char **) at = xdup(is_there ? read_string(r) : "");
        else if (is_there && members[i].type == MEMBER_FLAG)
            *(bool *) at = read_bool(r);
        else if (is_there && members[i].type == MEMBER_U8)
            *(unsigned *) at = reader_u8(r);
        else if (is_there && members[i].type == MEMBER_U32)
            *(uint32_t *) at = reader_u32(r);
        else if (is_there)
            *(uint64_t *) at = reader_u64(r);
    }
    if (spec->net > (version < 3 ? SANDBOX_NET_HOST : SANDBOX_NET_BRIDGE))
        reader_fail(r);
    if (version < 5) {
        derive_identity(spec);
        return;
    }
    for (uint32_t i = 0, count = reader_u32(r); i < count && !r->failed; i++) {
        const char *path = read_string(r);

        if (!r->failed)
            sandbox_spec_add_reserved(spec, path);
    }
}

static void read_mounts(struct reader *r, struct sandbox_spec *spec)
{
    uint32_t count = reader_u32(r);

    for (uint32_t i = 0; i < count && !r->failed; i++) {
        const char *src = read_string(r), *dst = read_string(r);
        bool read_only = read_bool(r);

        if (!r->failed)
            sandbox_spec_add_mount(spec, src, dst, read_only);
    }
}

static void read_env(struct reader *r, struct sandbox_spec *spec)
{
    uint32_t count = reader_u32(r);

    for (uint32_t i = 0; i < count && !r->failed; i++) {
        const char *assignment = read_string(r);

        if (!r->failed)
            sandbox_spec_add_env(spec, assignment);
    }
}

int sandbox_spec_decode(const void *bytes, size_t len, struct sandbox_spec **ret, struct err *err)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    struct reader reader;
    uint8_t version = 0;
    int r;

    r = open_body(bytes, len, KIND_SPEC, &reader, &version, err);
    if (r < 0)
        return r;
    read_members(&reader, version, spec);
    read_rules(&reader, spec);
    read_mounts(&reader, spec);
    read_env(&reader, spec);
    if (reader_end(&reader) < 0)
        return sandbox_spec_damaged(KIND_SPEC, "its fields do not fill it", err);
    if (sandbox_spec_check(spec, err) < 0)
        return bad_content(KIND_SPEC, err);
    *ret = steal_ptr(&spec);
    return 0;
}

int sandbox_spec_rules_decode(struct sandbox_spec *spec, const void *bytes, size_t len, struct err *err)
{
    autoptr(sandbox_spec) fresh = xnew(struct sandbox_spec);
    struct reader reader;
    uint8_t version;
    int r;

    r = open_body(bytes, len, KIND_RULES, &reader, &version, err);
    if (r < 0)
        return r;
    read_rules(&reader, fresh);
    if (reader_end(&reader) < 0)
        return sandbox_spec_damaged(KIND_RULES, "its fields do not fill it", err);
    if (sandbox_rules_check(fresh->rules, fresh->rule_count, err) < 0)
        return bad_content(KIND_RULES, err);
    sandbox_rules_free(spec->rules, spec->rule_count);
    spec->rules = steal_ptr(&fresh->rules);
    spec->rule_count = fresh->rule_count;
    fresh->rule_count = 0;
    return 0;
}
