#include "../leftover.h"
#include "fixture.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "wire/sandbox_spec.h"

/* One with every field set, to something no other field has. */
static struct sandbox_spec *full_spec(void)
{
    struct sandbox_spec *spec = xnew(struct sandbox_spec);

    *spec = (struct sandbox_spec){ .id = xdup("sb_0123456789abcdef"),
                                   .name = xdup("shop-1"),
                                   .owner = xdup("alice@example.org"),
                                   .codebase_id = xdup("cb_1"),
                                   .project_root = xdup("/srv"),
                                   .preset = xdup("development"),
                                   .no_lock = true,
                                   .syncs = true,
                                   .base_path = xdup("/srv/shop"),
                                   .codebase_path = xdup("/srv/codebases/cb_1"),
                                   .codebase_quota_bytes = UINT64_MAX - 7,
                                   .codebase_keep_versions = UINT64_MAX - 8,
                                   .codebase_keep_ns = UINT64_MAX - 9,
                                   .runtime = xdup("docker"),
                                   .hostname = xdup("agent"),
                                   .is_live = true,
                                   .own_cgroup = true,
                                   .net = SANDBOX_NET_HOST,
                                   .created_ns = UINT64_MAX - 1,
                                   .quota_bytes = UINT64_MAX - 2,
                                   .quota_inodes = UINT64_MAX - 3,
                                   .memory_bytes = UINT64_MAX,
                                   .cpu_quota_us = 4,
                                   .cpu_shares = 5,
                                   .pids = UINT32_MAX,
                                   .tmp_bytes = UINT64_MAX - 6,
                                   .image = xdup("debian:12"),
                                   .engine = xdup("/run/docker.sock"),
                                   .oci_runtime = xdup("runsc"),
                                   .driver = xdup("copy"),
                                   .read_only_root = true,
                                   .no_pull = true };
    sandbox_spec_add_rule(spec, "**", 1, 2, 0);
    sandbox_spec_add_rule(spec, "/.env", 3, 0, -7);
    sandbox_spec_add_mount(spec, "/usr", "/usr", true);
    sandbox_spec_add_mount(spec, "/cache", "/home/agent/.cache", false);
    sandbox_spec_add_env(spec, "LANG=C");
    sandbox_spec_add_env(spec, "EMPTY=");
    sandbox_spec_add_reserved(spec, "/srv/shop/src");
    sandbox_spec_add_reserved(spec, "/srv/shop/doc");
    return spec;
}

static void every_field_survives_the_way(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) got = NULL;
    autodone(buf) struct buf bytes = BUF_EMPTY, again = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_encode(spec, &bytes);
    assert_int_equal(sandbox_spec_decode(bytes.data, bytes.len, &got, &err), 0);
    assert_string_equal(got->id, "sb_0123456789abcdef");
    assert_string_equal(got->name, "shop-1");
    assert_string_equal(got->owner, "alice@example.org");
    assert_string_equal(got->codebase_id, "cb_1");
    assert_string_equal(got->project_root, "/srv");
    assert_string_equal(got->preset, "development");
    assert_true(got->no_lock && got->syncs && got->reserved_count == 2);
    assert_string_equal(got->reserved_paths[1], "/srv/shop/doc");
    assert_string_equal(got->base_path, "/srv/shop");
    assert_string_equal(got->codebase_path, "/srv/codebases/cb_1");
    assert_true(got->codebase_quota_bytes == UINT64_MAX - 7 && got->codebase_keep_versions == UINT64_MAX - 8 &&
                got->codebase_keep_ns == UINT64_MAX - 9);
    assert_string_equal(got->runtime, "docker");
    assert_string_equal(got->hostname, "agent");
    assert_true(got->is_live && got->own_cgroup && got->net == SANDBOX_NET_HOST);
    assert_true(got->created_ns == UINT64_MAX - 1 && got->quota_bytes == UINT64_MAX - 2 && got->quota_inodes == UINT64_MAX - 3);
    assert_true(got->memory_bytes == UINT64_MAX && got->cpu_quota_us == 4 && got->cpu_shares == 5);
    assert_true(got->pids == UINT32_MAX && got->tmp_bytes == UINT64_MAX - 6);
    assert_string_equal(got->image, "debian:12");
    assert_string_equal(got->engine, "/run/docker.sock");
    assert_string_equal(got->oci_runtime, "runsc");
    assert_string_equal(got->driver, "copy");
    assert_true(got->read_only_root && got->no_pull);
    assert_true(got->rule_count == 2 && got->mount_count == 2 && got->env_count == 2);
    assert_string_equal(got->rules[1].pattern, "/.env");
    assert_true(got->rules[1].type == 3 && got->rules[1].level == 0 && got->rules[1].priority == -7);
    assert_string_equal(got->mounts[1].src, "/cache");
    assert_string_equal(got->mounts[1].dst, "/home/agent/.cache");
    assert_true(got->mounts[0].read_only && !got->mounts[1].read_only);
    assert_string_equal(got->env[0], "LANG=C");
    assert_string_equal(got->env[1], "EMPTY=");
    sandbox_spec_encode(got, &again);
    assert_int_equal(again.len, bytes.len);
    assert_memory_equal(again.data, bytes.data, bytes.len);
}

static void what_is_not_set_is_empty_or_zero(void **state)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    autoptr(sandbox_spec) got = NULL;
    autodone(buf) struct buf bytes = BUF_EMPTY;

    (void) state;
    spec->name = xdup("x");
    spec->base_path = xdup("/");
    buf_add_str(&bytes, "what was there before");
    sandbox_spec_encode(spec, &bytes);
    assert_int_equal(sandbox_spec_decode(bytes.data, bytes.len, &got, NULL), 0);
    assert_true(!*got->id && !*got->owner && !*got->codebase_id && !*got->project_root && !*got->preset);
    assert_true(!got->no_lock && !got->syncs && got->reserved_count == 0);
    assert_string_equal(got->runtime, "");
    assert_string_equal(got->hostname, "");
    assert_string_equal(got->image, "");
    assert_string_equal(got->engine, "");
    assert_string_equal(got->oci_runtime, "");
    assert_string_equal(got->driver, "");
    assert_true(!got->read_only_root && !got->no_pull);
    assert_true(!got->is_live && !got->own_cgroup && got->net == SANDBOX_NET_NONE && got->memory_bytes == 0);
    assert_true(got->rule_count == 0 && got->mount_count == 0 && got->env_count == 0);
    sandbox_spec_free(NULL);
}

/* A refusal says why, in one line that is safe to print. */
static void refuse(const void *bytes, size_t len)
{
    struct sandbox_spec *got = NULL;
    struct err err = ERR_NONE;

    assert_int_equal(sandbox_spec_decode(bytes, len, &got, &err), -EBADMSG);
    assert_null(got);
    assert_true(err.code == ERR_DATA_LOSS || err.code == ERR_FAILED_PRECONDITION);
    assert_true(err.text[0] != '\0' && utf8_is_valid(err.text, strlen(err.text)));
    for (const char *at = err.text; *at; at++)
        assert_true((unsigned char) *at >= 0x20 && *at != 0x7f);
}

static void every_changed_byte_is_noticed(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY;

    (void) state;
    sandbox_spec_encode(spec, &bytes);
    for (size_t at = 0; at < bytes.len; at++) {
        char kept = bytes.data[at];

        for (unsigned value = 0; value < 256; value++) {
            bytes.data[at] = (char) value;
            if (bytes.data[at] != kept)
                refuse(bytes.data, bytes.len);
        }
        bytes.data[at] = kept;
    }
}

static void every_cut_and_every_extra_byte_is_noticed(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY;
    size_t whole;

    (void) state;
    sandbox_spec_encode(spec, &bytes);
    whole = bytes.len;
    for (size_t len = 0; len < whole; len++)
        refuse(bytes.data, len);
    buf_add_char(&bytes, '\0');
    refuse(bytes.data, whole + 1);
    refuse(NULL, 0);
}

/* What sandbox_spec_code.c has before the body. */
#define HEADER_LEN 18

/* As whoever writes such a file on purpose would: the body is wrong, what is around it is right. */
static void set_header(struct buf *bytes)
{
    uint64_t sum = 0xcbf29ce484222325u, len = bytes->len - HEADER_LEN;

    for (size_t i = HEADER_LEN; i < bytes->len; i++)
        sum = (sum ^ (uint8_t) bytes->data[i]) * 0x100000001b3u;
    for (size_t i = 0; i < 4; i++)
        bytes->data[6 + i] = (char) (len >> (8 * i));
    for (size_t i = 0; i < 8; i++)
        bytes->data[10 + i] = (char) (sum >> (8 * i));
}

/* Cut anywhere and with anything in any byte, nothing worse happens than a refusal. */
static void a_body_made_on_purpose_does_no_harm(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autodone(buf) struct buf whole = BUF_EMPTY, bytes = BUF_EMPTY;

    (void) state;
    sandbox_spec_encode(spec, &whole);
    for (size_t at = HEADER_LEN; at < whole.len; at++) {
        static const unsigned char values[] = { 0, 1, 2, '=', 0x7f, 0x80, 0xff };

        buf_clear(&bytes);
        buf_add(&bytes, whole.data, at);
        set_header(&bytes);
        refuse(bytes.data, bytes.len);
        for (size_t i = 0; i < sizeof(values); i++) {
            autoptr(sandbox_spec) got = NULL;
            autodone(buf) struct buf again = BUF_EMPTY;

            buf_clear(&bytes);
            buf_add(&bytes, whole.data, whole.len);
            bytes.data[at] = (char) values[i];
            set_header(&bytes);
            if (sandbox_spec_decode(bytes.data, bytes.len, &got, NULL) < 0) {
                refuse(bytes.data, bytes.len);
                continue;
            }
            sandbox_spec_encode(got, &again);
            assert_int_equal(again.len, bytes.len);
            assert_memory_equal(again.data, bytes.data, bytes.len);
        }
    }
}

static void a_number_of_rules_is_not_believed(void **state)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct sandbox_spec spec = { 0 };
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_rules_encode(&spec, &bytes);
    memset(bytes.data + HEADER_LEN, 0xff, 4);
    set_header(&bytes);
    assert_int_equal(sandbox_spec_rules_decode(&spec, bytes.data, bytes.len, &err), -EBADMSG);
    assert_string_equal(err.text, "the file is damaged: its fields do not fill it");
}

static void refused_as(struct sandbox_spec *spec, const char *text)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct sandbox_spec *got = NULL;
    struct err err = ERR_NONE;

    sandbox_spec_encode(spec, &bytes);
    assert_int_equal(sandbox_spec_decode(bytes.data, bytes.len, &got, &err), -EBADMSG);
    assert_int_equal(err.code, ERR_DATA_LOSS);
    assert_string_equal(err.text, text);
    err = ERR_NONE;
    assert_int_equal(sandbox_spec_store(-1, spec, true, &err), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, text));
    sandbox_spec_free(spec);
}

static struct sandbox_spec *with(char **field, struct sandbox_spec *spec, const char *value)
{
    free(*field);
    *field = value ? xdup(value) : NULL;
    return spec;
}

static void what_makes_no_sense_is_neither_written_nor_read(void **state)
{
    struct sandbox_spec *spec;

    (void) state;
#define NAME_RULE "is not 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter, digit or _"
    spec = full_spec();
    refused_as(with(&spec->name, spec, "../x"), "name '../x' " NAME_RULE);
    spec = full_spec();
    refused_as(with(&spec->name, spec, "a\nb"), "name 'a\\nb' " NAME_RULE);
    spec = full_spec();
    spec = with(&spec->id, spec, "");
    refused_as(with(&spec->name, spec, NULL), "name is empty");
    spec = full_spec();
    refused_as(with(&spec->id, spec, "sb_0123456789ABCDEF"), "id 'sb_0123456789ABCDEF' is not the id of a sandbox");
    spec = full_spec();
    refused_as(with(&spec->codebase_id, spec, "../x"), "codebase '../x' is not the id of a codebase");
    spec = full_spec();
    refused_as(with(&spec->preset, spec, "a b"), "preset 'a b' is not the name of a preset");
    spec = full_spec();
    refused_as(with(&spec->project_root, spec, "srv"), "project 'srv' is not an absolute path");
    spec = full_spec();
    refused_as(with(&spec->reserved_paths[0], spec, ""), "reserved path is empty");
    spec = full_spec();
    refused_as(with(&spec->base_path, spec, "srv/shop"), "base 'srv/shop' is not an absolute path");
    spec = full_spec();
    refused_as(with(&spec->base_path, spec, NULL), "base is empty");
    spec = full_spec();
    refused_as(with(&spec->rules[1].pattern, spec, ""), "rule 2: its pattern is empty");
    spec = full_spec();
    refused_as(with(&spec->mounts[0].src, spec, "usr"), "mount 1: source 'usr' is not an absolute path");
    spec = full_spec();
    refused_as(with(&spec->mounts[1].dst, spec, ""), "mount 2: destination is empty");
    spec = full_spec();
    refused_as(with(&spec->env[0], spec, "LANG"), "environment 'LANG' is not NAME=value");
    spec = full_spec();
    refused_as(with(&spec->env[0], spec, "=x"), "environment '=x' is not NAME=value");
    spec = full_spec();
    refused_as(with(&spec->image, spec, ""), "image is empty");
    spec = full_spec();
    refused_as(with(&spec->image, spec, "../x?y"), "image '../x?y' is no name of an image");
    spec = full_spec();
    refused_as(with(&spec->engine, spec, "docker.sock"), "engine 'docker.sock' is not an absolute path");
    spec = full_spec();
    refused_as(with(&spec->oci_runtime, spec, "a/b"), "OCI runtime 'a/b' is no name");
    spec = full_spec();
    spec->net = SANDBOX_NET_BRIDGE;
    refused_as(with(&spec->runtime, spec, "bwrap"), "the network 'bridge' is for containers; this sandbox is none");
}

static void names_of_sandboxes(void **state)
{
    static const char *const good[] = { "a", "_", "Z9", "a.b-c_d", "0", "a..", "a-" };
    static const char *const bad[] = { "", ".", "..", ".a", "-a", "a/b", "a b", "a\n", "\xc3\xa4", "a:b", "~" };
    char name[SANDBOX_NAME_MAX + 1];

    (void) state;
    for (size_t i = 0; i < count_of(good); i++)
        assert_true(sandbox_name_is_valid(good[i]));
    for (size_t i = 0; i < count_of(bad); i++)
        assert_false(sandbox_name_is_valid(bad[i]));
    memset(name, 'x', sizeof(name));
    name[SANDBOX_NAME_MAX] = '\0';
    assert_false(sandbox_name_is_valid(name));
    name[SANDBOX_NAME_MAX - 1] = '\0';
    assert_true(sandbox_name_is_valid(name));
}

static void rules_alone_replace_those_of_a_spec(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) other = xnew(struct sandbox_spec);
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_add_rule(other, "/new", 2, 3, INT32_MIN);
    sandbox_spec_rules_encode(other, &bytes);
    assert_int_equal(sandbox_spec_rules_decode(spec, bytes.data, bytes.len, &err), 0);
    assert_int_equal(spec->rule_count, 1);
    assert_string_equal(spec->rules[0].pattern, "/new");
    assert_true(spec->rules[0].type == 2 && spec->rules[0].level == 3 && spec->rules[0].priority == INT32_MIN);
    assert_string_equal(spec->name, "shop-1");
    assert_int_equal(spec->env_count, 2);

    sandbox_spec_rules_encode(&(struct sandbox_spec){ 0 }, &bytes);
    assert_int_equal(sandbox_spec_rules_decode(spec, bytes.data, bytes.len, &err), 0);
    assert_int_equal(spec->rule_count, 0);
}

static void bad_rules_leave_those_that_are_there(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_rules_encode(spec, &bytes);
    for (size_t at = 0; at < bytes.len; at++) {
        bytes.data[at] ^= 0x40;
        assert_int_equal(sandbox_spec_rules_decode(spec, bytes.data, bytes.len, &err), -EBADMSG);
        assert_true(err.code == ERR_INVALID_ARGUMENT || err.code == ERR_FAILED_PRECONDITION);
        bytes.data[at] ^= 0x40;
        assert_int_equal(sandbox_spec_rules_decode(spec, bytes.data, at, &err), -EBADMSG);
    }
    sandbox_spec_encode(spec, &bytes);
    assert_int_equal(sandbox_spec_rules_decode(spec, bytes.data, bytes.len, &err), -EBADMSG);
    assert_string_equal(err.text, "this is not a file of rules");
    assert_int_equal(spec->rule_count, 2);
    assert_string_equal(spec->rules[1].pattern, "/.env");
}

static void a_later_format_is_recognised(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct sandbox_spec *got = NULL;
    struct err err = ERR_NONE;

    (void) state;
    sandbox_spec_encode(spec, &bytes);
    bytes.data[4] = 6;
    assert_int_equal(sandbox_spec_decode(bytes.data, bytes.len, &got, &err), -EBADMSG);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_string_equal(err.text, "format 6 is unknown to this version, which reads up to 5");
}

/* What a version adds lies between what both write: taken out again, it is a file of the version before. */
static void take_out(struct buf *bytes, const void *added, size_t added_len, size_t len, uint8_t version)
{
    char *at = memmem(bytes->data, bytes->len, added, added_len);

    assert_non_null(at);
    memmove(at, at + len, bytes->len - len - (size_t) (at - bytes->data));
    bytes->len -= len;
    bytes->data[4] = (char) version;
    set_header(bytes);
}

static const char identity[] =
    "sb_0123456789abcdef\0alice@example.org\0cb_1\0/srv\0development\0\1\1\2\0\0\0/srv/shop/src\0/srv/shop/doc";

static void decode_version_4(struct sandbox_spec *spec, struct sandbox_spec **ret)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct err err = ERR_NONE;

    sandbox_spec_encode(spec, &bytes);
    take_out(&bytes, identity, sizeof(identity), sizeof(identity), 4);
    if (sandbox_spec_decode(bytes.data, bytes.len, ret, &err) < 0)
        fail_msg("%s", err.text);
}

/* Version 4 knew one name, which was that of the directory. */
static void a_spec_without_an_id_has_what_can_be_told(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) named = NULL;
    autoptr(sandbox_spec) served = NULL;
    autoptr(sandbox_spec) workspace = NULL;

    (void) state;
    decode_version_4(spec, &named);
    assert_string_equal(named->id, "");
    assert_string_equal(named->name, "shop-1");
    assert_string_equal(sandbox_spec_dir_name(named), "shop-1");
    assert_true(named->syncs && !named->no_lock && named->reserved_count == 0 && !*named->owner && !*named->codebase_id);
    assert_true(named->rule_count == 2 && named->env_count == 2);

    spec->is_live = false;
    with(&spec->name, spec, "sb_00000000000000ff");
    with(&spec->base_path, spec, "/srv/codebases/cb_0123456789abcdef/files");
    with(&spec->codebase_path, spec, "");
    decode_version_4(spec, &served);
    assert_string_equal(served->id, "sb_00000000000000ff");
    assert_string_equal(served->name, "");
    assert_string_equal(served->codebase_id, "cb_0123456789abcdef");
    assert_false(served->syncs);

    spec->is_live = true;
    with(&spec->name, spec, "ws_0123456789abcdef0123456789abcdef");
    decode_version_4(spec, &workspace);
    assert_string_equal(sandbox_spec_dir_name(workspace), "ws_0123456789abcdef0123456789abcdef");
    assert_string_equal(workspace->codebase_id, "");
}

static void ids_of_sandboxes(void **state)
{
    static const char *const good[] = { "sb_0123456789abcdef", "ws_0123456789abcdef0123456789abcdef", "hook_0123456789abcdef" };
    static const char *const bad[] = { "",
                                       "sb_",
                                       "sb_0123456789abcde",
                                       "sb_0123456789abcdef0",
                                       "sb_0123456789abcdeF",
                                       "ws_0123456789abcdef",
                                       "ws_0123456789abcdef0123456789abcdef0",
                                       "cb_0123456789abcdef",
                                       "shop",
                                       "/sb_0123456789abcdef" };

    (void) state;
    for (size_t i = 0; i < count_of(good); i++)
        assert_true(sandbox_spec_id_is_valid(good[i]) && sandbox_name_is_valid(good[i]) && strlen(good[i]) < SANDBOX_ID_MAX);
    for (size_t i = 0; i < count_of(bad); i++)
        assert_false(sandbox_spec_id_is_valid(bad[i]));
}

static void earlier_formats_are_read(void **state)
{
    static const char container[] = "debian:12\0/run/docker.sock\0runsc\0\1\1copy";
    static const char codebase[] = "/srv/codebases/cb_1";
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) second = NULL;
    autoptr(sandbox_spec) first = NULL;
    autodone(buf) struct buf old = BUF_EMPTY;

    (void) state;
    with(&spec->runtime, spec, "bwrap");
    sandbox_spec_encode(spec, &old);
    take_out(&old, identity, sizeof(identity), sizeof(identity), 4);
    take_out(&old, container, sizeof(container), sizeof(container), 2);
    assert_int_equal(sandbox_spec_decode(old.data, old.len, &second, NULL), 0);
    assert_true(second->image[0] == '\0' && second->engine[0] == '\0' && second->oci_runtime[0] == '\0');
    assert_string_equal(second->driver, "");
    assert_true(!second->read_only_root && !second->no_pull && second->net == SANDBOX_NET_HOST);
    assert_true(second->codebase_keep_ns == UINT64_MAX - 9 && second->rule_count == 2 && second->env_count == 2);

    take_out(&old, codebase, sizeof(codebase), sizeof(codebase) + 24, 1);
    assert_int_equal(sandbox_spec_decode(old.data, old.len, &first, NULL), 0);
    assert_true(first->codebase_path[0] == '\0' && first->tmp_bytes == UINT64_MAX - 6 && first->rule_count == 2 &&
                first->env_count == 2);
}

static void names_of_images(void **state)
{
    static const char *const good[] = { "a", "debian:12", "localhost:5000/a/b:c", "x@sha256:0123abcd", "A.b_c-d" };
    static const char *const bad[] = { "", "/a", ":a", "-a", ".a", "a b", "a?b", "a#b", "a%2f", "a\n", "\xc3\xa4" };
    char name[SANDBOX_IMAGE_MAX + 1];

    (void) state;
    for (size_t i = 0; i < count_of(good); i++)
        assert_true(sandbox_image_is_valid(good[i]));
    for (size_t i = 0; i < count_of(bad); i++)
        assert_false(sandbox_image_is_valid(bad[i]));
    memset(name, 'x', sizeof(name));
    name[SANDBOX_IMAGE_MAX] = '\0';
    assert_false(sandbox_image_is_valid(name));
    name[SANDBOX_IMAGE_MAX - 1] = '\0';
    assert_true(sandbox_image_is_valid(name));
}

static void a_spec_is_stored_and_loaded(void **state)
{
    char root[] = "/tmp/agentfense-XXXXXX";
    autofd int tmp = open("/tmp", O_DIRECTORY | O_CLOEXEC), dir = -1;
    autoptr(sandbox_spec) spec = full_spec();
    autoptr(sandbox_spec) got = NULL;
    autoptr(sandbox_spec) again = NULL;
    struct err err = ERR_NONE;
    struct stat st;

    (void) state;
    assert_non_null(mkdtemp(root));
    leftover_add(root);
    dir = open(root, O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(sandbox_spec_load(dir, &got, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(sandbox_spec_store(dir, spec, true, &err), 0);
    assert_int_equal(fstatat(dir, "spec", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(sandbox_spec_load(dir, &got, &err), 0);
    assert_string_equal(got->hostname, "agent");

    /* A spec that is refused leaves the one that is there. */
    spec->env[0][0] = '=';
    assert_int_equal(sandbox_spec_store(dir, spec, true, &err), -EINVAL);
    assert_int_equal(sandbox_spec_load(dir, &again, &err), 0);
    assert_string_equal(again->env[0], "LANG=C");

    assert_int_equal(file_replace(dir, "spec", "", 0, 0600), 0);
    assert_int_equal(sandbox_spec_load(dir, &got, &err), -EBADMSG);
    assert_string_equal(err.text, "reading the sandbox's spec: this is not a sandbox's spec");
    assert_int_equal(file_remove_tree(tmp, root + strlen("/tmp/")), 0);
}

static void a_spec_too_large_is_not_stored(void **state)
{
    autoptr(sandbox_spec) spec = full_spec();
    char *large = malloc((1u << 20) + 1);
    struct err err = ERR_NONE;

    (void) state;
    memset(large, 'x', 1u << 20);
    large[1u << 20] = '\0';
    for (int i = 0; i < 16; i++)
        sandbox_spec_add_rule(spec, large, 1, 1, 0);
    free(large);
    assert_int_equal(sandbox_spec_store(-1, spec, true, &err), -E2BIG);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_survives_the_way),
        cmocka_unit_test(what_is_not_set_is_empty_or_zero),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(every_cut_and_every_extra_byte_is_noticed),
        cmocka_unit_test(a_body_made_on_purpose_does_no_harm),
        cmocka_unit_test(a_number_of_rules_is_not_believed),
        cmocka_unit_test(what_makes_no_sense_is_neither_written_nor_read),
        cmocka_unit_test(names_of_sandboxes),
        cmocka_unit_test(rules_alone_replace_those_of_a_spec),
        cmocka_unit_test(bad_rules_leave_those_that_are_there),
        cmocka_unit_test(a_later_format_is_recognised),
        cmocka_unit_test(earlier_formats_are_read),
        cmocka_unit_test(a_spec_without_an_id_has_what_can_be_told),
        cmocka_unit_test(ids_of_sandboxes),
        cmocka_unit_test(names_of_images),
        cmocka_unit_test(a_spec_is_stored_and_loaded),
        cmocka_unit_test(a_spec_too_large_is_not_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
