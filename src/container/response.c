#include "container/response.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define ID_MAX 128

int response_json(const struct engine_response *response, json_type type, json_t **ret, struct err *err)
{
    json_error_t why;
    autoptr(json_t) json =
                json_loadb(response->body.data ? response->body.data : "", response->body.len, JSON_REJECT_DUPLICATES, &why);

    if (!json || json_typeof(json) != type)
        return err_set(err, ERR_UNAVAILABLE, -EBADMSG, "the engine's answer is not what was asked for");
    *ret = steal_ptr(&json);
    return 0;
}

/* Returns a length of at most `most` bytes that does not split a character, because the rest would be shown as invalid. */
static size_t response_cut_text(const char *text, size_t len, size_t most)
{
    if (len <= most)
        return len;
    while (most > 0 && ((unsigned char) text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

void response_add_text(struct buf *out, const char *text)
{
    autodone(buf) struct buf line = BUF_EMPTY, shown = BUF_EMPTY;
    size_t whole = strlen(text), len = response_cut_text(text, whole, RESPONSE_TEXT_MAX);

    for (size_t i = 0; i < len; i++)
        buf_add_char(&line, (char) (strchr("\n\r\t", text[i]) ? ' ' : text[i]));
    while (line.len > 0 && line.data[line.len - 1] == ' ')
        line.len--;
    buf_add_escaped(&shown, line.data ? line.data : "", line.len);
    len = response_cut_text(shown.data ? shown.data : "", shown.len, RESPONSE_SHOWN_MAX);
    buf_add(out, shown.data ? shown.data : "", len);
    if (whole > RESPONSE_TEXT_MAX || len < shown.len)
        buf_add_str(out, " ...");
}

static enum err_code code_of_status(long status)
{
    switch (status) {
    case 400:
        return ERR_INVALID_ARGUMENT;
    case 401:
    case 403:
        return ERR_PERMISSION_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 409:
        return ERR_FAILED_PRECONDITION;
    default:
        return ERR_UNAVAILABLE;
    }
}

int response_check(const struct engine_response *response, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autoptr(json_t) json = NULL;
    const char *message = "";
    enum err_code code = code_of_status(response->status);

    if (response->status >= 200 && response->status < 400)
        return 0;
    if (response_json(response, JSON_OBJECT, &json, NULL) == 0)
        message = response_string(json, "message", "");
    response_add_text(&text, message);
    return err_set(err, code,
                   code == ERR_NOT_FOUND             ? -ENOENT
                   : code == ERR_FAILED_PRECONDITION ? -EBUSY
                                                     : -EIO,
                   "the engine says: %s", text.len ? text.data : "(nothing that helps)");
}

const char *response_string(const json_t *object, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : otherwise;
}

json_int_t response_number(const json_t *object, const char *key, json_int_t otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool response_is_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

bool response_is_id(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= ID_MAX && strspn(text, "0123456789abcdef") == len;
}
