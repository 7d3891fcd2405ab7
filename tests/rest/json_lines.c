/* Reads messages as JSON, one a line, and writes each as JSON again, or "refused: " and why. For comparing with other implementations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <echo.pb-c.h>

#include "base/cleanup.h"
#include "rest/json_message.h"

int main(void)
{
    autofree char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&line, &cap, stdin)) > 0) {
        autodone(buf) struct buf out = BUF_EMPTY;
        struct err err = ERR_NONE;
        ProtobufCMessage *message;

        if (line[len - 1] == '\n')
            len--;
        if (json_message_parse(&echo__v1__everything__descriptor, line, (size_t) len, &message, &err) < 0) {
            printf("refused: %s\n", err.text);
            continue;
        }
        json_message_add(&out, message);
        protobuf_c_message_free_unpacked(message, NULL);
        printf("%s\n", out.data);
    }
    return 0;
}
