#include "cli/setting_options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/env_text.h"

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

static void add_env(const char *name, size_t name_len, const char *value, void *cookie)
{
    entry_list_add(cookie, name, name_len, value);
}

int entry_list_add_env(struct entry_list *list, const char *text, struct err *err)
{
    return env_text_take(text, add_env, list, err);
}

int entry_list_add_env_file(struct entry_list *list, const char *path, struct err *err)
{
    return env_text_take_file(path, add_env, list, err);
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
        return err_invalid(err, "--%s '%s' is not a positive time", name, text);
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
