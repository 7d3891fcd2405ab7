#include "api/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/gate.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "service/sandboxes.h"

#define SECONDS_MAX (INT64_MAX / CLOCK_NS_PER_SEC)

int request_admit(struct call *call, void *cookie, struct request *ret, struct err *err)
{
    struct api *api = cookie;
    int r = gate_pass(api, call, err);

    if (r < 0)
        return r;
    *ret = (struct request){
        .call = call,
        .service = api->service,
        .caller = { .owner = call->owner,
                    .is_admin = call->is_admin,
                    .cancel_fd = call_cancel_fd(call),
                    .allowed_roots = (const char *const *) call->allowed_roots },
    };
    ret->caller.has_uid = peer_uid(call->peer, &ret->caller.uid) == 0;
    return 0;
}

void request_free(ProtobufCMessage **message)
{
    if (*message)
        protobuf_c_message_free_unpacked(*message, NULL);
}

int request_end(struct call *call, int r, const struct err *err)
{
    if (r < 0 && err->reason && (!call->reason || strcmp(call->reason, err->reason) != 0))
        call_set_reason(call, err->reason);
    return r;
}

static int request_serve(struct call *call, void *cookie, struct err *err)
{
    autorequest message = NULL;
    ProtobufCMessage *answer = NULL;
    struct request request;
    int r = request_admit(call, cookie, &request, err);

    if (r < 0)
        return r;
    r = call_recv(call, &message, err);
    if (r == 0)
        return err_invalid(err, "the request is missing");
    if (r > 0)
        r = call->method->serve(&request, message, &answer, err);
    return r < 0 || !answer ? r : answer_send(call, answer, err);
}

int request_run(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, request_serve(call, cookie, err), err);
}

int request_need(const char *value, const char *name, struct err *err)
{
    return value && *value ? 0 : err_invalid(err, "%s is required", name);
}

int request_find_sandbox(const struct request *request, const char *given, char ret[SANDBOX_ID_MAX], struct err *err)
{
    int r = request_need(given, "sandbox_id", err);

    return r < 0 ? r : sandboxes_find(request->service, &request->caller, given, ret, err);
}

/* ---- parts of requests ---- */

/* A missing permission means none. A missing type stays unspecified, and answers show it as a glob. */
int take_rules(Sandbox__V1__PermissionRule *const *rules, size_t count, struct rule_list *ret, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const Sandbox__V1__PermissionRule *rule = rules[i];
        enum level level;
        int r;

        if (rule->permission < 0 || rule->permission > SANDBOX__V1__PERMISSION__PERMISSION_WRITE)
            return err_invalid(err, "rule %zu: permission %d is not known", i + 1, (int) rule->permission);
        if (rule->type < 0 || rule->type > SANDBOX__V1__PATTERN_TYPE__PATTERN_TYPE_FILE)
            return err_invalid(err, "rule %zu: type %d is not known", i + 1, (int) rule->type);
        level = rule->permission == SANDBOX__V1__PERMISSION__PERMISSION_UNSPECIFIED ? LEVEL_NONE
                                                                                    : (enum level)(rule->permission - 1);
        r = rule_list_add(ret, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type, level, rule->priority, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int take_duration(const Google__Protobuf__Duration *duration, const char *name, int64_t *ret, struct err *err)
{
    *ret = 0;
    if (!duration)
        return 0;
    if (duration->seconds < 0 || duration->nanos < 0 || duration->nanos >= CLOCK_NS_PER_SEC)
        return err_invalid(err, "%s must not be negative", name);
    if (duration->seconds >= SECONDS_MAX)
        return err_invalid(err, "%s is too long", name);
    *ret = duration->seconds * CLOCK_NS_PER_SEC + duration->nanos;
    return 0;
}

size_t take_page_size(int32_t size)
{
    return size > 0 ? (size_t) size : 0;
}

#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define TOKEN_NAME_MAX 8192

size_t take_bounded_page_size(int32_t size)
{
    return size <= 0 ? PAGE_DEFAULT : size > PAGE_MAX ? PAGE_MAX : (size_t) size;
}

int take_page_token(const char *token, char **ret, struct err *err)
{
    size_t len = strlen(token);
    char byte[3] = "";

    if (len % 2 || len / 2 > TOKEN_NAME_MAX || strspn(token, "0123456789abcdef") != len)
        return err_invalid(err, "page_token is not of this list");
    autofree char *name = xalloc(len / 2 + 1);
    for (size_t i = 0; i < len / 2; i++) {
        memcpy(byte, token + 2 * i, 2);
        name[i] = (char) strtoul(byte, NULL, 16);
        if (!name[i])
            return err_invalid(err, "page_token is not of this list");
    }
    *ret = steal_ptr(&name);
    return 0;
}

/* ---- parts of answers ---- */

char *make_page_token(const char *name)
{
    struct buf token = BUF_EMPTY;

    for (const unsigned char *at = (const unsigned char *) name; *at; at++)
        buf_addf(&token, "%02x", *at);
    return buf_dup_take(&token);
}

Google__Protobuf__Timestamp *make_timestamp(int64_t wall_ns)
{
    Google__Protobuf__Timestamp *stamp;
    struct timespec t = clock_timespec_of_ns(wall_ns);

    if (wall_ns == 0)
        return NULL;
    stamp = message_new(&google__protobuf__timestamp__descriptor);
    stamp->seconds = t.tv_sec;
    stamp->nanos = (int32_t) t.tv_nsec;
    return stamp;
}

Google__Protobuf__Duration *make_duration(int64_t ns)
{
    Google__Protobuf__Duration *duration = message_new(&google__protobuf__duration__descriptor);

    duration->seconds = ns / CLOCK_NS_PER_SEC;
    duration->nanos = (int32_t) (ns % CLOCK_NS_PER_SEC);
    return duration;
}

char *make_text_within(const void *bytes, size_t len, size_t max, protobuf_c_boolean *is_cut)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    const char *at = bytes, *end = at + len;
    struct buf out = BUF_EMPTY;

    if (len <= max && !memchr(bytes, '\0', len) && utf8_is_valid(bytes, len))
        return xdupn(bytes, len);
    while (at < end) {
        uint32_t code_point;
        size_t n = utf8_decode(at, (size_t) (end - at), &code_point);
        bool is_text = n > 0 && *at != '\0';
        const char *piece = is_text ? at : replacement;
        size_t piece_len = is_text ? n : strlen(replacement);

        if (out.len + piece_len > max) {
            *is_cut = true;
            break;
        }
        buf_add(&out, piece, piece_len);
        at += n ? n : 1;
    }
    return buf_dup_take(&out);
}

char *make_text(const void *bytes, size_t len)
{
    protobuf_c_boolean is_cut = false;

    return make_text_within(bytes, len, SIZE_MAX, &is_cut);
}

char *make_string(const char *text)
{
    return text ? make_text(text, strlen(text)) : xdup("");
}

char **make_texts(char *const *texts, size_t count)
{
    char **copies = count > 0 ? xalloc(count * sizeof(*copies)) : NULL;

    for (size_t i = 0; i < count; i++)
        copies[i] = make_text(texts[i], strlen(texts[i]));
    return copies;
}

int answer_send(struct call *call, ProtobufCMessage *answer, struct err *err)
{
    int r = call_send(call, answer);

    protobuf_c_message_free_unpacked(answer, NULL);
    return r < 0 ? err_set(err, ERR_CANCELLED, r, "nobody waits for the answer") : 0;
}
