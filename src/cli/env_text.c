#include "cli/env_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define LINE_BYTES_MAX 65536

static bool is_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char) name[i]) && name[i] != '_')
            return false;
    }
    return len > 0 && !isdigit((unsigned char) name[0]);
}

int env_text_take(const char *text, env_text_fn fn, void *cookie, struct err *err)
{
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t) (equals - text) : strlen(text);
    const char *value = equals ? equals + 1 : getenv(text);

    if (!is_name(text, len))
        return err_invalid(err, "'%.*s' is not the name of a variable", (int) len, text);
    if (value)
        fn(text, len, value, cookie);
    return 0;
}

int env_text_take_file(const char *path, env_text_fn fn, void *cookie, struct err *err)
{
    autofile FILE *file = fopen(path, "re");
    autofree char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (!file)
        return err_errno(err, -errno, "--env-file '%s'", path);
    for (unsigned number = 1; (n = getline(&line, &cap, file)) >= 0; number++) {
        if (n > LINE_BYTES_MAX)
            return err_invalid(err, "--env-file '%s': line %u is too long", path, number);
        line[strcspn(line, "\r\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        if (env_text_take(line, fn, cookie, err) < 0)
            return err_wrap(err, -EINVAL, "--env-file '%s', line %u", path, number);
    }
    return ferror(file) ? err_errno(err, -errno, "--env-file '%s'", path) : 0;
}
