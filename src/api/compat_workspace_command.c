#include "api/compat_workspace_command.h"

#include <errno.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_handlers.h"
#include "api/compat_workspace_json.h"
#include "base/mem.h"

#define ARGUMENT_MAX ((size_t) 128 << 10) /* the kernel takes no longer one */
#define ARGUMENTS_MAX 4096
#define VARIABLES_MAX 1000
#define INPUT_MAX ((size_t) 4 << 20)
#define LIMIT_MAX ((int64_t) 1 << 31)

const char *const compat_command_keys[] = { "command",    "args",       "allowNetwork",   "env",
                                            "workingDir", "sessionId",  "isolationLevel", "memoryLimitMB",
                                            "cpuTimeSec", "timeoutSec", "maxProcesses",   "maxOpenFiles",
                                            "name",       "stdin",      "stdinEncoding",  NULL };

void compat_command_done(struct compat_command *command)
{
    free(command->args);
    pair_list_done(&command->env);
    buf_done(&command->input);
    *command = (struct compat_command){ 0 };
}

int compat_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err)
{
    int r = compat_get_int(object, "memoryLimitMB", 0, LIMIT_MAX, &ret->memory_mb, err);

    if (r == 0)
        r = compat_get_int(object, "cpuTimeSec", 0, LIMIT_MAX, &ret->cpu_sec, err);
    if (r == 0)
        r = compat_get_int(object, "maxProcesses", 0, LIMIT_MAX, &ret->processes, err);
    if (r == 0)
        r = compat_get_int(object, "maxOpenFiles", 0, LIMIT_MAX, &ret->open_files, err);
    if (r == 0)
        r = compat_get_int(object, "timeoutSec", 0, LIMIT_MAX, &ret->timeout_sec, err);
    return r;
}

/* Longer ones than other texts: a script is an argument. */
static int read_args(const json_t *object, struct compat_command *ret, struct err *err)
{
    const json_t *list = NULL;
    int r = compat_get_array(object, "args", ARGUMENTS_MAX, &list, err);

    if (r < 0 || !list)
        return r;
    ret->args = xalloc((json_array_size(list) + 1) * sizeof(*ret->args));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > ARGUMENT_MAX)
            return err_invalid(err, "args[%zu] must be a text of at most %zu bytes", i, ARGUMENT_MAX);
        ret->args[i] = json_string_value(value);
    }
    return 0;
}

static int read_env(const json_t *object, struct compat_command *ret, struct err *err)
{
    const json_t *env = NULL;
    const char *key;
    json_t *value;
    int r = compat_get_pairs(object, "env", VARIABLES_MAX, &env, err);

    if (r < 0 || !env)
        return r;
    json_object_foreach((json_t *) (uintptr_t) env, key, value) pair_list_add(&ret->env, key, json_string_value(value));
    return 0;
}

/* "stdin" as text, or base64 with "stdinEncoding". */
static int read_input(const json_t *object, struct compat_command *ret, struct err *err)
{
    const char *text = NULL, *encoding = "utf8";
    struct base64_decode_ctx decoder;
    int r = compat_get_text(object, "stdin", INPUT_MAX, &text, err);

    if (r == 0)
        r = compat_get_text(object, "stdinEncoding", 0, &encoding, err);
    if (r < 0 || !text)
        return r;
    size_t len = strlen(text), decoded = 0;
    if (strcmp(encoding, "utf8") == 0) {
        buf_add(&ret->input, text, len);
    } else if (strcmp(encoding, "base64") == 0) {
        buf_room(&ret->input, BASE64_DECODE_LENGTH(len) + 1);
        base64_decode_init(&decoder);
        if (!base64_decode_update(&decoder, &decoded, (uint8_t *) ret->input.data, len, text) || !base64_decode_final(&decoder))
            return err_invalid(err, "'stdin' is no base64");
        ret->input.len = decoded;
    } else {
        return err_reject(err, -EINVAL, encoding, "is no encoding; there are 'utf8' and 'base64'");
    }
    ret->command.input = ret->input.data;
    ret->command.input_len = ret->input.len;
    return 0;
}

static int read_network(const json_t *object, struct compat_command *ret, struct err *err)
{
    bool wanted = false;
    int r = compat_get_bool(object, "allowNetwork", &wanted, err);
    json_t *value = json_object_get(object, "allowNetwork");

    /* Clients that always send it mean nothing by false: a sandbox without a network is what they get. */
    ret->command.network = value && !json_is_null(value) && wanted ? WISH_YES : WISH_NONE;
    return r;
}

int compat_command_read(const json_t *object, struct compat_command *ret, struct err *err)
{
    struct sandbox_command *command = &ret->command;
    int r;

    *ret = (struct compat_command){ .command = {
                                        .command = "", .working_dir = "", .profile = "", .label = "", .session_id = "" } };
    r = compat_get_text(object, "command", ARGUMENT_MAX, &command->command, err);
    if (r == 0)
        r = read_args(object, ret, err);
    if (r == 0)
        r = compat_get_text(object, "workingDir", 0, &command->working_dir, err);
    if (r == 0)
        r = compat_get_text(object, "isolationLevel", 0, &command->profile, err);
    if (r == 0)
        r = compat_get_text(object, "sessionId", 256, &command->session_id, err);
    if (r == 0)
        r = compat_get_text(object, "name", 256, &command->label, err);
    if (r == 0)
        r = read_network(object, ret, err);
    if (r == 0)
        r = compat_command_read_limits(object, &command->limits, err);
    if (r == 0)
        r = read_env(object, ret, err);
    if (r == 0)
        r = read_input(object, ret, err);
    if (r == 0 && !*command->command)
        r = err_invalid(err, "'command' is required");
    command->args = ret->args;
    command->env = &ret->env;
    return r;
}
