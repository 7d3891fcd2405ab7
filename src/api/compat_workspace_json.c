#include "api/compat_workspace_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"

/* NULL: not there. */
static const json_t *get(const json_t *object, const char *key)
{
    const json_t *value = object ? json_object_get(object, key) : NULL;

    return json_is_null(value) ? NULL : value;
}

int compat_get_text(const json_t *object, const char *key, size_t max, const char **ret, struct err *err)
{
    const json_t *value = get(object, key);

    if (!value)
        return 0;
    if (!json_is_string(value))
        return err_invalid(err, "%s must be a text", key);
    if (json_string_length(value) > (max ? max : COMPAT_TEXT_MAX))
        return err_invalid(err, "%s is longer than %zu bytes", key, max ? max : COMPAT_TEXT_MAX);
    *ret = json_string_value(value);
    return 0;
}

int compat_get_bool(const json_t *object, const char *key, bool *ret, struct err *err)
{
    const json_t *value = get(object, key);

    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return err_invalid(err, "%s must be true or false", key);
    *ret = json_is_true(value);
    return 0;
}

int compat_get_int(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    const json_t *value = get(object, key);

    if (!value)
        return 0;
    if (!json_is_integer(value))
        return err_invalid(err, "%s must be a whole number", key);
    if (json_integer_value(value) < least || json_integer_value(value) > most)
        return err_invalid(err, "%s must be from %lld to %lld", key, (long long) least, (long long) most);
    *ret = json_integer_value(value);
    return 0;
}

static int parse_duration(const char *name, const char *text, int64_t *ret_ns, struct err *err)
{
    int r = clock_parse_duration(text, ret_ns, err);

    return r < 0 ? err_wrap(err, r, "%s", name) : 0;
}

int compat_get_duration(const json_t *object, const char *key, int64_t *ret_ns, struct err *err)
{
    const json_t *value = get(object, key);

    const char *text = json_string_value(value);

    if (text)
        return parse_duration(key, text, ret_ns, err);
    if (value && !json_is_integer(value))
        return err_invalid(err, "%s must be a number of nanoseconds or a text such as \"24h\"", key);
    if (value && json_integer_value(value) < 0)
        return err_invalid(err, "%s must not be negative", key);
    if (value)
        *ret_ns = json_integer_value(value);
    return 0;
}

int compat_get_object(const json_t *object, const char *key, const json_t **ret, struct err *err)
{
    const json_t *value = get(object, key);

    if (value && !json_is_object(value))
        return err_invalid(err, "%s must be an object", key);
    if (value)
        *ret = value;
    return 0;
}

int compat_get_array(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err)
{
    const json_t *value = get(object, key);

    if (value && !json_is_array(value))
        return err_invalid(err, "%s must be a list", key);
    if (value && json_array_size(value) > max)
        return err_invalid(err, "%s has more than %zu entries", key, max);
    if (value)
        *ret = value;
    return 0;
}

int compat_get_texts(const json_t *object, const char *key, size_t max, const char ***ret, size_t *ret_count, struct err *err)
{
    const json_t *list = NULL;
    int r = compat_get_array(object, key, max ? max : COMPAT_TEXTS_MAX, &list, err);

    if (r < 0 || !list)
        return r;
    autofree const char **texts = xalloc((json_array_size(list) + 1) * sizeof(*texts));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_string(value) || json_string_length(value) > COMPAT_TEXT_MAX)
            return err_invalid(err, "%s[%zu] must be a text of at most %d bytes", key, i, COMPAT_TEXT_MAX);
        texts[i] = json_string_value(value);
    }
    *ret_count = json_array_size(list);
    *ret = steal_ptr(&texts);
    return 0;
}

int compat_get_pairs(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err)
{
    const json_t *pairs = NULL;
    const char *name;
    json_t *value;
    int r = compat_get_object(object, key, &pairs, err);

    if (r < 0 || !pairs)
        return r;
    if (json_object_size(pairs) > max)
        return err_invalid(err, "%s has more than %zu entries", key, max);
    json_object_foreach((json_t *) (uintptr_t) pairs, name, value)
    {
        if (!json_is_string(value))
            return err_invalid(err, "%s must hold texts only", key);
    }
    *ret = pairs;
    return 0;
}

/* ---- the query ---- */

static int parse_int(const char *name, const char *text, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    size_t len = strlen(text);
    int64_t value;

    if (len == 0 || len > 18 || strspn(text, "0123456789") != len) {
        autodone(buf) struct buf shown = BUF_EMPTY;

        buf_add_excerpt(&shown, text, len);
        return err_invalid(err, "%s must be a whole number, not '%s'", name, shown.data ? shown.data : "");
    }
    value = strtoll(text, NULL, 10);
    if (value < least || value > most)
        return err_invalid(err, "%s must be from %lld to %lld", name, (long long) least, (long long) most);
    *ret = value;
    return 0;
}

int compat_query_int(const struct ws *ws, const char *name, int64_t least, int64_t most, int64_t *ret, struct err *err)
{
    const char *text = web_query(ws->web, name);

    return text && *text ? parse_int(name, text, least, most, ret, err) : 0;
}

int compat_query_bool(const struct ws *ws, const char *name, bool *ret, struct err *err)
{
    const char *text = web_query(ws->web, name);

    if (!text || !*text)
        return 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0)
        *ret = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *ret = false;
    else
        return err_invalid(err, "%s must be true or false", name);
    return 0;
}

int compat_query_duration(const struct ws *ws, const char *name, int64_t *ret_ns, struct err *err)
{
    const char *text = web_query(ws->web, name);

    return text && *text ? parse_duration(name, text, ret_ns, err) : 0;
}

int compat_get_version(const struct ws *ws, int64_t *ret, struct err *err)
{
    const char *match = web_header(ws->web, "if-match");
    int r;

    if (match && strcmp(match, "*") != 0) {
        size_t len = strlen(match);
        bool is_quoted = len >= 2 && match[0] == '"' && match[len - 1] == '"';
        autofree char *number = is_quoted ? xdupn(match + 1, len - 2) : xdup(match);

        return parse_int("If-Match", number, 1, INT64_MAX, ret, err);
    }
    r = compat_get_int(ws->body, "version", 1, INT64_MAX, ret, err);
    return r < 0 ? r : compat_query_int(ws, "version", 1, INT64_MAX, ret, err);
}

/* ---- answers ---- */

void compat_set_time(json_t *object, const char *key, int64_t wall_ns)
{
    char text[CLOCK_TEXT_MAX];

    if (wall_ns != 0 && clock_format(clock_timespec_of_ns(wall_ns), 9, text) == 0)
        json_object_set_new(object, key, json_string(text));
}

json_t *compat_text(const char *bytes, size_t len)
{
    autofree char *text = make_text(bytes, len);

    return json_string(text);
}

void compat_set_text(json_t *object, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(object, key, compat_text(text, strlen(text)));
}

json_t *compat_uuid(const char *sandbox_id)
{
    char uuid[UUID_TEXT_MAX];

    sandbox_id_to_uuid(sandbox_id, uuid);
    return json_string(*uuid ? uuid : sandbox_id);
}
