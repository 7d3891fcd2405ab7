#include "api/terminal_input.h"

#include <string.h>

bool terminal_input_is_empty(const struct terminal_input *input)
{
    return input->typed.len == 0;
}

/* Sends one message at a time to a terminal. Writes into a pipe until it is full. */
static int type_next(struct terminal_input *input, struct err *err)
{
    size_t at = 0;
    int r = 0;

    while (r == 0 && !input->awaits_taking && at < input->typed.len) {
        size_t left = input->typed.len - at;
        size_t len = left < WORKSPACE_TERMINAL_TYPE_MAX ? left : WORKSPACE_TERMINAL_TYPE_MAX;

        r = sandbox_terminal_type(input->link, input->typed.data + at, len, err);
        if (r < 0)
            break;
        at += len;
        input->awaits_taking = !input->is_piped || !sandbox_terminal_feed(input->link);
    }
    if (at > 0)
        memmove(input->typed.data, input->typed.data + at, input->typed.len - at);
    input->typed.len -= at;
    if (r == 0 && input->typed.len == 0 && input->ends && !input->awaits_taking)
        sandbox_terminal_end_input(input->link);
    return r < 0 ? r : 0;
}

int terminal_input_add(struct terminal_input *input, const void *bytes, size_t len, struct err *err)
{
    buf_add(&input->typed, bytes, len);
    return type_next(input, err);
}

int terminal_input_end(struct terminal_input *input, struct err *err)
{
    input->ends = true;
    return type_next(input, err);
}

int terminal_input_taken(struct terminal_input *input, struct err *err)
{
    input->awaits_taking = false;
    return type_next(input, err);
}

int terminal_input_feed(struct terminal_input *input, struct err *err)
{
    return sandbox_terminal_feed(input->link) ? terminal_input_taken(input, err) : 0;
}
