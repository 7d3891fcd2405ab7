#include "service/behavior.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/hook.h"
#include "service/known_keys.h"

#define TEXTS_MAX 1000
#define TEXT_MAX 1024

static const char *const events[] = { "run_completed", "run_failed", "run_cancelled", "approved", "rejected", "terminal" };

static int need(const json_t *value, json_type type, const char *key, const char *what, struct err *err)
{
    return json_typeof(value) == type ? 0 : err_invalid(err, "behavior.%s must be %s", key, what);
}

/* NULL: it is missing, or null. */
static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static int copy_bool(const json_t *from, const char *key, json_t *to, struct err *err)
{
    const json_t *value = get(from, key);

    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return err_invalid(err, "behavior.acceptance.%s must be true or false", key);
    if (json_is_true(value))
        json_object_set_new(to, key, json_true());
    return 0;
}

static int copy_span(const json_t *from, const char *key, json_t *to, struct err *err)
{
    const json_t *value = get(from, key);
    int64_t ns = 0;

    if (!value)
        return 0;
    if (json_is_string(value)) {
        int r = clock_parse_duration(json_string_value(value), &ns, err);
        if (r < 0)
            return err_wrap(err, r, "behavior.lifecycle.%s", key);
    } else if (json_is_integer(value)) {
        ns = json_integer_value(value);
    } else {
        return err_invalid(err, "behavior.lifecycle.%s must be a number of nanoseconds or a text such as \"24h\"", key);
    }
    if (ns < 0)
        return err_invalid(err, "behavior.lifecycle.%s must not be negative", key);
    if (ns > 0)
        json_object_set_new(to, key, json_integer(ns));
    return 0;
}

static int copy_events(const json_t *from, const char *key, json_t *to, struct err *err)
{
    const json_t *list = get(from, key);
    json_t *kept;

    if (!list)
        return 0;
    if (need(list, JSON_ARRAY, key, "a list of events", err) < 0)
        return -EINVAL;
    kept = json_array();
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        for (size_t j = 0; j < json_array_size(list); j++) {
            const char *name = json_string_value(json_array_get(list, j));
            if (name && strcmp(name, events[i]) == 0) {
                json_array_append_new(kept, json_string(name));
                break;
            }
        }
    }
    for (size_t j = 0; j < json_array_size(list); j++) {
        const char *name = json_string_value(json_array_get(list, j));
        bool is_known = false;

        for (size_t i = 0; name && i < ARRAY_LEN(events); i++)
            is_known |= strcmp(name, events[i]) == 0;
        if (!is_known) {
            json_decref(kept);
            return err_invalid(err,
                               "behavior.lifecycle.%s: '%s' is no event; there are run_completed, run_failed, run_cancelled, "
                               "approved, rejected, terminal",
                               key, name ? name : "?");
        }
    }
    if (json_array_size(kept) > 0)
        json_object_set_new(to, key, kept);
    else
        json_decref(kept);
    return 0;
}

static bool has_text(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return true;
    return false;
}

static int add_criterion(json_t *list, const char *key, const char *given, size_t len, bool is_extension, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    while (len > 0 && isspace((unsigned char) *given))
        given++, len--;
    while (len > 0 && isspace((unsigned char) given[len - 1]))
        len--;
    if (len == 0)
        return 0;
    if (is_extension && *given != '.')
        buf_add_char(&text, '.');
    if (!is_extension && *given == '/')
        return err_invalid(err, "behavior.acceptance.%s: globs are relative to the project root, and '%.*s' is absolute", key,
                           (int) len, given);
    for (size_t i = 0; i < len; i++)
        buf_add_char(&text, (char) (is_extension ? tolower((unsigned char) given[i]) : given[i]));
    if (!has_text(list, text.data))
        json_array_append_new(list, json_string(text.data));
    return 0;
}

static int copy_texts(const json_t *from, const char *key, bool is_extension, json_t *to, struct err *err)
{
    const json_t *list = get(from, key);
    json_t *kept;
    int r = 0;

    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > TEXTS_MAX)
        return err_invalid(err, "behavior.acceptance: %s must be a list of at most %d texts", key, TEXTS_MAX);
    kept = json_array();
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > TEXT_MAX)
            r = err_invalid(err, "behavior.acceptance: %s[%zu] must be a text of at most %d bytes", key, i, TEXT_MAX);
        else
            r = add_criterion(kept, key, json_string_value(value), json_string_length(value), is_extension, err);
    }
    if (r == 0 && json_array_size(kept) > 0)
        json_object_set(to, key, kept);
    json_decref(kept);
    return r;
}

static int copy_criteria(const json_t *from, const char *key, const char *where, json_t *to, struct err *err)
{
    static const char *const keys[] = { "pathGlobs", "extensions", NULL };
    const json_t *given = get(from, key);
    json_t *kept = json_object();
    int r = 0;

    if (given)
        r = need(given, JSON_OBJECT, key, "an object", err);
    if (given && r == 0)
        r = known_keys_check(given, keys, where, err);
    if (given && r == 0)
        r = copy_texts(given, "pathGlobs", false, kept, err);
    if (given && r == 0)
        r = copy_texts(given, "extensions", true, kept, err);
    json_object_set_new(to, key, kept);
    return r;
}

static int copy_lifecycle(const json_t *given, json_t *to, struct err *err)
{
    static const char *const keys[] = { "stopOn", "deleteOn", "ttl", "idleTimeout", NULL };
    int r = need(given, JSON_OBJECT, "lifecycle", "an object", err);

    if (r == 0)
        r = known_keys_check(given, keys, "behavior.lifecycle", err);
    if (r == 0)
        r = copy_events(given, "stopOn", to, err);
    if (r == 0)
        r = copy_events(given, "deleteOn", to, err);
    if (r == 0)
        r = copy_span(given, "ttl", to, err);
    return r < 0 ? r : copy_span(given, "idleTimeout", to, err);
}

static int copy_acceptance(const json_t *given, json_t *to, struct err *err)
{
    static const char *const keys[] = { "mode", "allow", "deny", "ignoreBinary", "autoApprove", "autoReject", NULL };
    const json_t *mode = get(given, "mode");
    int r = given && !json_is_object(given) ? err_invalid(err, "behavior.acceptance must be an object") : 0;

    if (r == 0 && given)
        r = known_keys_check(given, keys, "behavior.acceptance", err);
    if (r == 0 && mode && (!json_is_string(mode) || strcmp(json_string_value(mode), "allowlist") != 0))
        r = err_invalid(err, "behavior.acceptance.mode can be 'allowlist' only");
    json_object_set_new(to, "mode", json_string("allowlist"));
    if (r == 0)
        r = copy_criteria(given, "allow", "behavior.acceptance.allow", to, err);
    if (r == 0)
        r = copy_criteria(given, "deny", "behavior.acceptance.deny", to, err);
    if (r == 0)
        r = copy_bool(given, "ignoreBinary", to, err);
    if (r == 0)
        r = copy_bool(given, "autoApprove", to, err);
    return r < 0 ? r : copy_bool(given, "autoReject", to, err);
}

static int copy_hooks(const json_t *given, json_t *to, struct err *err)
{
    json_t *hooks = NULL;
    int r = given ? hook_list_normalise(given, "behavior.hooks", &hooks, err) : 0;

    if (r == 0 && json_array_size(hooks) > 0)
        json_object_set(to, "hooks", hooks);
    json_decref(hooks);
    return r;
}

int behavior_no_lock(const json_t *given, bool *ret_is_given, bool *ret, struct err *err)
{
    const json_t *value = get(given, "noLock");

    *ret_is_given = value != NULL;
    *ret = json_is_true(value);
    return value && !json_is_boolean(value) ? err_invalid(err, "behavior.noLock must be true or false") : 0;
}

int behavior_normalise(const json_t *given, json_t **ret, struct err *err)
{
    static const char *const keys[] = { "lifecycle", "acceptance", "hooks", "noLock", NULL };
    json_t *lifecycle = json_object(), *acceptance = json_object();
    json_t *kept = json_pack("{s:o, s:o}", "lifecycle", lifecycle, "acceptance", acceptance);
    int r = given && !json_is_object(given) ? err_invalid(err, "behavior must be an object") : 0;

    if (r == 0 && given)
        r = known_keys_check(given, keys, "behavior", err);
    if (r == 0 && get(given, "lifecycle"))
        r = copy_lifecycle(get(given, "lifecycle"), lifecycle, err);
    if (r == 0)
        r = copy_acceptance(get(given, "acceptance"), acceptance, err);
    if (r == 0)
        r = copy_hooks(get(given, "hooks"), kept, err);
    if (r < 0) {
        json_decref(kept);
        return r;
    }
    *ret = kept;
    return 0;
}

static unsigned bits_of(const json_t *list)
{
    unsigned bits = 0;

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t j = 0; j < ARRAY_LEN(events); j++)
            if (strcmp(json_string_value(json_array_get(list, i)), events[j]) == 0)
                bits |= 1u << j;
    return bits;
}

struct behavior behavior_parse(const char *text)
{
    json_t *kept = json_loads(text ? text : "", 0, NULL);
    const json_t *lifecycle = json_object_get(kept, "lifecycle"), *acceptance = json_object_get(kept, "acceptance");
    struct behavior behavior = {
        .stop_on = bits_of(json_object_get(lifecycle, "stopOn")),
        .delete_on = bits_of(json_object_get(lifecycle, "deleteOn")),
        .ttl_ns = json_integer_value(json_object_get(lifecycle, "ttl")),
        .idle_ns = json_integer_value(json_object_get(lifecycle, "idleTimeout")),
        .auto_approves = json_is_true(json_object_get(acceptance, "autoApprove")),
        .auto_rejects = json_is_true(json_object_get(acceptance, "autoReject")),
    };

    json_decref(kept);
    return behavior;
}
