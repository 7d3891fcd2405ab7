/* What every fuzz target has: the entry that libFuzzer or replay.c calls, and a way to say what must hold. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): it must hold in every build, and the abort is what the fuzzer looks for. */
#define require(condition)                                                                                                     \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                                     \
            abort();                                                                                                           \
        }                                                                                                                      \
    } while (0)

/* A refusal has a text of one line that is safe to print, whatever the input was. */
static inline void require_refusal(int r, const struct err *err)
{
    require(r < 0);
    require(err->code != ERR_OK);
    require(err->text[0] != '\0');
    require(utf8_is_valid(err->text, strlen(err->text)));
    for (const char *at = err->text; *at; at++)
        require((unsigned char) *at >= 0x20 && *at != 0x7F);
}
