#include "fixture.h"

#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

#include "call/message.h"

#define EXEC (&sandbox__v1__exec_request__descriptor)
#define UPLOAD (&sandbox__v1__upload_chunk__descriptor)

static void refused(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t len, const char *word)
{
    struct err err = ERR_NONE;
    ProtobufCMessage *message = NULL;

    assert_int_equal(message_unpack(descriptor, bytes, len, &message, &err), -EBADMSG);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    if (!strstr(err.text, word))
        fail_msg("'%s' does not say '%s'", err.text, word);
    assert_null(message);
}

static void what_was_packed_is_unpacked(void **state)
{
    Sandbox__V1__ExecRequest request = SANDBOX__V1__EXEC_REQUEST__INIT, *got;
    char text[] = "echo gr\xc3\xbc\xc3\x9f", id[] = "sb_1";
    uint8_t bytes[64];
    ProtobufCMessage *message = NULL;
    (void) state;

    request.sandbox_id = id;
    request.command = text;
    size_t len = sandbox__v1__exec_request__pack(&request, bytes);
    assert_int_equal(message_unpack(EXEC, bytes, len, &message, NULL), 0);
    got = (Sandbox__V1__ExecRequest *) message;
    assert_string_equal(got->command, text);
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(message_unpack(EXEC, bytes, 0, &message, NULL), 0);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void strings_are_text(void **state)
{
    (void) state;
    refused(EXEC, "\x12\x03rm\0", 5, "field 'command' has a NUL");
    refused(EXEC, "\x0a\x02\xc3\x28", 4, "field 'sandbox_id' is not UTF-8");
    /* Also in what a later value of the same field replaces, and in messages within. */
    refused(EXEC, "\x12\x01\0\x12\x01x", 6, "command");
    refused(UPLOAD, "\x0a\x04\x12\x02\xff\xfe", 6, "field 'metadata.file_path' is not UTF-8");
    refused(EXEC,
            "\x22\x05\x0a\x03"
            "A\0B",
            7, "field 'env.key' has a NUL");
    /* Bytes are bytes. */
    ProtobufCMessage *message = NULL;
    assert_int_equal(message_unpack(UPLOAD, "\x12\x03\0\xff\x80", 5, &message, NULL), 0);
    protobuf_c_message_free_unpacked(message, NULL);
}

static void broken_bytes_are_refused(void **state)
{
    (void) state;
    refused(EXEC, "\x12\x7fx", 3, "no message");
    refused(EXEC, "\x12", 1, "no message");
    refused(EXEC, "\x00\x01", 2, "no message");
    refused(EXEC, "\x0b\x0c", 2, "no message");
    refused(EXEC, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "no message");
    refused(EXEC, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, "no message");
    refused(EXEC, "\x31\x01", 2, "no message");
}

/* 2 bytes on the wire each, and many times that in memory: fields unknown to us, and empty elements of a list. */
static void memory_is_bounded_by_the_bytes(void **state)
{
    const size_t len = 4u << 20;
    uint8_t *bytes = malloc(len);
    ProtobufCMessage *message = NULL;
    struct err err = ERR_NONE;
    (void) state;

    for (size_t i = 0; i < len; i += 2)
        memcpy(bytes + i, "\x70\x01", 2);
    assert_int_equal(message_unpack(EXEC, bytes, len, &message, &err), -EMSGSIZE);
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
    for (size_t i = 0; i < len; i += 2)
        memcpy(bytes + i, "\x22\x00", 2);
    assert_int_equal(message_unpack(EXEC, bytes, len, &message, &err), -EMSGSIZE);
    /* What people send fits. */
    for (size_t i = 0; i < 5000 * 8; i += 8)
        memcpy(bytes + i,
               "\x22\x06\x0a\x01"
               "A\x12\x01"
               "1",
               8);
    assert_int_equal(message_unpack(EXEC, bytes, 5000 * 8, &message, &err), 0);
    protobuf_c_message_free_unpacked(message, NULL);
    free(bytes);
}

/* A type that contains itself, as nothing of the API does. */
static const ProtobufCMessageDescriptor nested;
static const ProtobufCFieldDescriptor nested_fields[] = {
    { .name = "inner", .id = 1, .label = PROTOBUF_C_LABEL_NONE, .type = PROTOBUF_C_TYPE_MESSAGE, .descriptor = &nested },
};
static const ProtobufCIntRange nested_ranges[] = { { 1, 0 }, { 0, 1 } };
static const ProtobufCMessageDescriptor nested = { .magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
                                                   .sizeof_message = sizeof(ProtobufCMessage),
                                                   .n_fields = 1,
                                                   .fields = nested_fields,
                                                   .n_field_ranges = 1,
                                                   .field_ranges = nested_ranges };

static void nesting_is_bounded(void **state)
{
    uint8_t bytes[128];
    struct err err = ERR_NONE;
    (void) state;

    /* Each length tells how many bytes follow it. */
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 0x0a;
        bytes[i + 1] = (uint8_t) (sizeof(bytes) - i - 2);
    }
    assert_int_equal(message_check(&nested, bytes + 128 - 64, 64, NULL), 0);
    assert_int_equal(message_check(&nested, bytes + 128 - 66, 66, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "too deep"));
}

static void fields_of_a_later_release_are_found_wherever_they_are(void **state)
{
    static const struct {
        const ProtobufCMessageDescriptor *descriptor;
        const char *bytes, *word;
        size_t len;
    } cases[] = {
        { EXEC, "\x0a\x01x\xc0\x3e\x01", "field 1000 of ExecRequest", 6 },
        { UPLOAD, "\x0a\x03\xc0\x3e\x01", "field 1000 of Metadata", 5 },
        { &sandbox__v1__create_sandbox_request__descriptor, "\x12\x00\x12\x03\xc0\x3e\x01", "field 1000 of PermissionRule", 7 },
        { EXEC, "\x22\x06\x0a\x01k\xc0\x3e\x01", "field 1000 of EnvEntry", 8 },
        { UPLOAD, "\x12\x03\xc0\x3e\x01", NULL, 5 }, /* data that looks like one */
        { EXEC, "", NULL, 0 },
    };
    (void) state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        ProtobufCMessage *message = NULL;
        struct err err = ERR_NONE;
        int r;

        assert_int_equal(message_unpack(cases[i].descriptor, cases[i].bytes, cases[i].len, &message, NULL), 0);
        r = message_check_known(message, &err);
        assert_int_equal(r, cases[i].word ? -EBADMSG : 0);
        if (cases[i].word && !strstr(err.text, cases[i].word))
            fail_msg("'%s' does not say '%s'", err.text, cases[i].word);
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_later_release_are_found_wherever_they_are),
        cmocka_unit_test(what_was_packed_is_unpacked),
        cmocka_unit_test(strings_are_text),
        cmocka_unit_test(broken_bytes_are_refused),
        cmocka_unit_test(memory_is_bounded_by_the_bytes),
        cmocka_unit_test(nesting_is_bounded),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
