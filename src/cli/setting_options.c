#include "cli/setting_options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"

#define ENV_FILE_LINE_MAX 65536

_Static_assert(sizeof(Sandbox__V1__ExecRequest__EnvEntry) == sizeof(Sandbox__V1__CreateSandboxRequest__LabelsEntry) &&
                   sizeof(Sandbox__V1__ExecRequest__EnvEntry) == sizeof(Sandbox__V1__CreateSandboxRequest__EnvEntry) &&
                   sizeof(Sandbox__V1__ExecRequest__EnvEntry) == sizeof(Sandbox__V1__CreateSessionRequest__EnvEntry),
               "maps of one shape");

void entry_list_done(struct entry_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i]->key);
        free(list->items[i]->value);
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct entry_list){ 0 };
}

void entry_list_add(struct entry_list *list, const char *key, size_t key_len, const char *value)
{
    Sandbox__V1__ExecRequest__EnvEntry *entry = xnew(Sandbox__V1__ExecRequest__EnvEntry);

    sandbox__v1__exec_request__env_entry__init(entry);
    entry->key = xdupn(key, key_len);
    entry->value = xdup(value);
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = entry;
}

static bool is_env_name(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!isalnum((unsigned char) name[i]) && name[i] != '_')
            return false;
    }
    return len > 0 && !isdigit((unsigned char) name[0]);
}

int entry_list_add_env(struct entry_list *list, const char *text, struct err *err)
{
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t) (equals - text) : strlen(text);

    if (!is_env_name(text, len))
        return err_invalid(err, "'%.*s' is no name of a variable", (int) len, text);
    if (equals)
        entry_list_add(list, text, len, equals + 1);
    else if (getenv(text))
        entry_list_add(list, text, len, getenv(text));
    return 0;
}

int entry_list_add_env_file(struct entry_list *list, const char *path, struct err *err)
{
    autofile FILE *file = fopen(path, "re");
    autofree char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (!file)
        return err_errno(err, -errno, "--env-file '%s'", path);
    for (unsigned number = 1; (n = getline(&line, &cap, file)) >= 0; number++) {
        if (n > ENV_FILE_LINE_MAX)
            return err_invalid(err, "--env-file '%s': line %u is too long", path, number);
        line[strcspn(line, "\r\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        if (entry_list_add_env(list, line, err) < 0)
            return err_wrap(err, -EINVAL, "--env-file '%s', line %u", path, number);
    }
    return ferror(file) ? err_errno(err, -errno, "--env-file '%s'", path) : 0;
}

int entry_list_add_pair(struct entry_list *list, const char *name, const char *text, struct err *err)
{
    const char *equals = strchr(text, '=');

    if (!equals || equals == text)
        return err_invalid(err, "--%s '%s' is not of the form KEY=VALUE", name, text);
    entry_list_add(list, text, (size_t) (equals - text), equals + 1);
    return 0;
}

int parse_span(const char *name, const char *text, Google__Protobuf__Duration *ret, struct err *err)
{
    int64_t ns;
    int r = clock_parse_duration(text, &ns, err);

    if (r < 0)
        return err_wrap(err, r, "--%s", name);
    if (ns == 0)
        return err_invalid(err, "--%s '%s' is no time at all", name, text);
    google__protobuf__duration__init(ret);
    ret->seconds = ns / CLOCK_NS_PER_SEC;
    ret->nanos = (int32_t) (ns % CLOCK_NS_PER_SEC);
    return 0;
}

int parse_size_above_0(const char *name, const char *text, int64_t *ret, struct err *err)
{
    uint64_t bytes;
    int r = size_parse(text, &bytes, err);

    if (r < 0)
        return err_wrap(err, r, "--%s", name);
    if (bytes == 0)
        return err_invalid(err, "--%s '%s' leaves nothing", name, text);
    *ret = (int64_t) bytes;
    return 0;
}

int parse_number(const char *name, const char *text, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    char *end;

    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || !isdigit((unsigned char) *text) || n < least || n > most)
        return err_invalid(err, "%s '%s' is not a number from %" PRId64 " to %" PRId64, name, text, least, most);
    *ret = n;
    return 0;
}
