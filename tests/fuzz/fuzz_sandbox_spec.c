/*
 * The file that describes a sandbox, and the one with rules alone. The input is read as it is, and once more as the body of each
 * with a header that is right, since nobody guesses a checksum. What is read is written again, byte for byte.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "wire/sandbox_spec.h"

#define HEADER_LEN 18

enum kind { KIND_SPEC = 1, KIND_RULES = 2 };

static void put_number(struct buf *out, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_add_char(out, (char) (value >> (8 * i)));
}

static void put_file(struct buf *out, enum kind kind, uint8_t version, const uint8_t *body, size_t len)
{
    uint64_t sum = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ body[i]) * 0x100000001b3u;
    buf_add_str(out, "AFSB");
    put_number(out, version, 1);
    put_number(out, kind, 1);
    put_number(out, len, 4);
    put_number(out, sum, 8);
    buf_add(out, body, len);
}

static void require_same(const struct buf *made, const void *bytes, size_t len)
{
    require(made->len == len && memcmp(made->data, bytes, len) == 0);
}

static void check_spec(const void *bytes, size_t len)
{
    autoptr(sandbox_spec) spec = NULL;
    autodone(buf) struct buf again = BUF_EMPTY;
    struct err err = ERR_NONE;
    int r = sandbox_spec_decode(bytes, len, &spec, &err);

    if (r < 0) {
        require(!spec);
        require_refusal(r, &err);
        return;
    }
    require(sandbox_name_is_valid(sandbox_spec_dir_name(spec)) && spec->base_path[0] == '/');
    sandbox_spec_encode(spec, &again);
    /* An earlier format is written as the current one. */
    if (((const char *) bytes)[4] == again.data[4])
        require_same(&again, bytes, len);
}

static void check_rules(const void *bytes, size_t len)
{
    autoptr(sandbox_spec) spec = calloc(1, sizeof(*spec));
    autodone(buf) struct buf again = BUF_EMPTY;
    struct err err = ERR_NONE;
    int r;

    sandbox_spec_add_rule(spec, "/old", 1, 1, 0);
    r = sandbox_spec_rules_decode(spec, bytes, len, &err);
    if (r < 0) {
        require(spec->rule_count == 1 && strcmp(spec->rules[0].pattern, "/old") == 0);
        require_refusal(r, &err);
        return;
    }
    sandbox_spec_rules_encode(spec, &again);
    if (((const char *) bytes)[4] == again.data[4])
        require_same(&again, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf file = BUF_EMPTY;

    check_spec(data, size);
    check_rules(data, size);
    for (uint8_t version = 3; version <= 5; version += 2) {
        buf_clear(&file);
        put_file(&file, KIND_SPEC, version, data, size);
        require(file.len == size + HEADER_LEN);
        check_spec(file.data, file.len);
        buf_clear(&file);
        put_file(&file, KIND_RULES, version, data, size);
        check_rules(file.data, file.len);
    }
    return 0;
}
