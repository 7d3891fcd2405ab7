#include "service/hook.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/known_keys.h"

#define NAME_BYTES_MAX 64
#define ARGS_MAX 256
#define TEXT_BYTES_MAX 8192

const char *hook_source_name(enum hook_source source)
{
    static const char *const names[] = { "server", "project", "workspace" };

    return names[source];
}

static void hook_done(struct hook *hook)
{
    for (char **arg = hook->args; arg && *arg; arg++)
        free(*arg);
    free(hook->args);
    free(hook->name);
    free(hook->command);
    *hook = (struct hook){ 0 };
}

void hook_list_done(struct hook_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        hook_done(&list->items[i]);
    free(list->items);
    *list = (struct hook_list){ 0 };
}

static int hook_take_text(const json_t *object, const char *key, size_t max, char **ret, struct err *err)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) > max ||
        strlen(json_string_value(value)) != json_string_length(value))
        return err_invalid(err, "%s must be a text of 1 to %zu bytes", key, max);
    *ret = xdup(json_string_value(value));
    return 0;
}

/* The name appears in messages and in the audit. */
static int hook_take_name(const json_t *object, struct hook *hook, struct err *err)
{
    int r = hook_take_text(object, "name", NAME_BYTES_MAX, &hook->name, err);

    for (const char *at = hook->name; at && *at; at++)
        if ((unsigned char) *at < 0x20 || *at == 0x7f || (unsigned char) *at >= 0x80)
            return err_invalid(err, "name must be printable ASCII");
    return r;
}

static int hook_take_args(const json_t *object, struct hook *hook, struct err *err)
{
    const json_t *list = json_object_get(object, "args");
    size_t count = json_array_size(list);

    if (list && (!json_is_array(list) || count > ARGS_MAX))
        return err_invalid(err, "args must be a list of at most %d texts", ARGS_MAX);
    hook->args = xalloc((count + 1) * sizeof(*hook->args));
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > TEXT_BYTES_MAX ||
            strlen(json_string_value(value)) != json_string_length(value))
            return err_invalid(err, "args[%zu] must be a text of at most %d bytes", i, TEXT_BYTES_MAX);
        hook->args[i] = xdup(json_string_value(value));
    }
    return 0;
}

static int hook_take_timeout(const json_t *object, struct hook *hook, struct err *err)
{
    const json_t *value = json_object_get(object, "timeout");
    int r = 0;

    hook->timeout_ns = HOOK_TIMEOUT_NS;
    if (json_is_string(value))
        r = clock_parse_duration(json_string_value(value), &hook->timeout_ns, err);
    else if (json_is_integer(value))
        hook->timeout_ns = json_integer_value(value);
    else if (value)
        return err_invalid(err, "timeout must be a number of nanoseconds or a text such as \"5m\"");
    if (r < 0)
        return r;
    if (hook->timeout_ns < CLOCK_NS_PER_MS || hook->timeout_ns > HOOK_TIMEOUT_MAX_NS)
        return err_invalid(err, "timeout must be between 1 ms and 1 h");
    return 0;
}

static int check_keys(const json_t *object, struct err *err)
{
    static const char *const keys[] = { "name", "description", "command", "args", "required", "timeout", NULL };
    const json_t *description = json_object_get(object, "description"), *required = json_object_get(object, "required");
    int r;

    if (!json_is_object(object))
        return err_invalid(err, "it must be an object");
    r = known_keys_check(object, keys, "a hook", err);
    if (r < 0)
        return r;
    if (description && (!json_is_string(description) || json_string_length(description) > TEXT_BYTES_MAX))
        return err_invalid(err, "description must be a text of at most %d bytes", TEXT_BYTES_MAX);
    if (required && !json_is_boolean(required))
        return err_invalid(err, "required must be true or false");
    return 0;
}

static int hook_parse(const json_t *object, struct hook *hook, struct err *err)
{
    const json_t *required = json_object_get(object, "required");
    int r = check_keys(object, err);

    hook->is_required = !required || json_is_true(required);
    if (r == 0)
        r = hook_take_name(object, hook, err);
    if (r == 0)
        r = hook_take_text(object, "command", TEXT_BYTES_MAX, &hook->command, err);
    if (r == 0)
        r = hook_take_args(object, hook, err);
    return r < 0 ? r : hook_take_timeout(object, hook, err);
}

int hook_list_add(struct hook_list *list, const json_t *given, enum hook_source source, const char *where, struct err *err)
{
    if (!json_is_array(given) || json_array_size(given) > HOOKS_MAX)
        return err_invalid(err, "%s must be a list of at most %d hooks", where, HOOKS_MAX);
    for (size_t i = 0; i < json_array_size(given); i++) {
        struct hook hook = { .source = source };
        int r = hook_parse(json_array_get(given, i), &hook, err);

        if (r < 0) {
            hook_done(&hook);
            return err_wrap(err, r, "%s[%zu]", where, i);
        }
        vec_room(&list->items, &list->cap, list->count);
        list->items[list->count++] = hook;
    }
    return 0;
}

int hook_list_add_text(struct hook_list *list, const char *text, size_t len, enum hook_source source, const char *where,
                       struct err *err)
{
    json_error_t at;
    json_t *given = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, &at);
    int r = given ? hook_list_add(list, given, source, where, err)
                  : err_invalid(err, "%s is no JSON: line %d: %s", where, at.line, at.text);

    json_decref(given);
    return r;
}

static json_t *hook_to_json(const struct hook *hook, const json_t *given)
{
    const json_t *description = json_object_get(given, "description");
    json_t *args = json_array();
    json_t *one = json_pack("{s:s, s:s, s:b, s:I}", "name", hook->name, "command", hook->command, "required", hook->is_required,
                            "timeout", (json_int_t) hook->timeout_ns);

    for (char **arg = hook->args; arg && *arg; arg++)
        json_array_append_new(args, json_string(*arg));
    if (json_array_size(args) > 0)
        json_object_set(one, "args", args);
    json_decref(args);
    if (description)
        json_object_set_new(one, "description", json_string(json_string_value(description)));
    return one;
}

int hook_list_normalise(const json_t *given, const char *where, json_t **ret, struct err *err)
{
    autodone(hook_list) struct hook_list list = { 0 };
    int r = hook_list_add(&list, given, HOOK_WORKSPACE, where, err);

    if (r < 0)
        return r;
    *ret = json_array();
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(*ret, hook_to_json(&list.items[i], json_array_get(given, i)));
    return 0;
}
