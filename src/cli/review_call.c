#include "cli/review_call.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/output.h"
#include "review/acknowledge.h"
#include "review/file_id.h"
#include <sandbox/v1/sandbox.pb-c.h>

/* ---- words ---- */

const char *review_word(const ProtobufCEnumDescriptor *descriptor, int value, const char *prefix, char ret[32])
{
    const ProtobufCEnumValue *found = protobuf_c_enum_descriptor_get_value(descriptor, value);
    const char *name = found ? found->name + strlen(prefix) : "unknown";
    size_t i;

    for (i = 0; i < 31 && name[i]; i++)
        ret[i] = (char) tolower((unsigned char) name[i]);
    ret[i] = '\0';
    return ret;
}

/* ---- paths ---- */

void review_paths_done(struct review_paths *paths)
{
    for (size_t i = 0; i < paths->id_count; i++)
        free(paths->ids[i]);
    free(paths->ids);
    free(paths->paths);
    *paths = (struct review_paths){ 0 };
}

/* A protobuf string cannot hold a path that is not UTF-8. But the id of a file is computed from the sandbox's id and the path. */
static int add_file_id(struct api_call *call, const char *path, struct review_paths *ret, struct err *err)
{
    Sandbox__V1__GetSandboxRequest request = SANDBOX__V1__GET_SANDBOX_REQUEST__INIT;
    automessage answer = NULL;
    char id[FILE_ID_LEN + 1] = "";
    int r;

    request.sandbox_id = call->words[0];
    r = review_ask(call, call->words[0], "GetSandbox", &request.base, &answer, err);
    if (r != 0)
        return r;
    while (*path == '/')
        path++;
    r = file_id_make(((const Sandbox__V1__Sandbox *) (const void *) answer)->id, path, id);
    if (r < 0)
        return err_errno(err, r, "the id of a file");
    ret->ids[ret->id_count++] = xdup(id);
    return 0;
}

int review_paths_take(struct api_call *call, int first, struct review_paths *ret, struct err *err)
{
    size_t count = call->word_count > first ? (size_t) (call->word_count - first) : 0;
    int r = 0;

    ret->paths = xalloc((count + 1) * sizeof(*ret->paths));
    ret->ids = xalloc((count + 1) * sizeof(*ret->ids));
    for (size_t i = 0; r == 0 && i < count; i++) {
        char *path = call->words[(size_t) first + i];

        if (!*path)
            return err_invalid(err, "a PATH is empty; leave it out for all changes");
        if (utf8_is_valid(path, strlen(path)))
            ret->paths[ret->path_count++] = path;
        else
            r = add_file_id(call, path, ret, err);
    }
    return r;
}

/* ---- refusals ---- */

static void set_unknown(const char *sandbox, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, sandbox, strlen(sandbox));
    err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'; 'agentfense ls' lists them", shown.data ? shown.data : "");
}

/* Matches "sandbox sb_... is stopped, and not active". */
static bool is_stopped(const char *text)
{
    return strstr(text, " is stopped");
}

static bool is_restorable(const char *text)
{
    return strstr(text, " is rejected") || strstr(text, " is approved") || strstr(text, " is deleted");
}

static void add_remedy(const char *sandbox, const char *reason, struct err *err)
{
    static const struct {
        const char *reason, *text;
    } remedies[] = {
        { "DIFF_NOT_SERVED", "'agentfense diff %s' shows them; or give --all" },
        { "DIFF_STALE", "'agentfense diff %s' shows them; or give --all" },
        { "UNACKNOWLEDGED", "look at these, and give --acknowledge" },
        { "CONFLICTS", "'agentfense conflicts %s' lists them, 'agentfense rebase %1$s --strategy merge' may help" },
        { "WOULD_STOP", "--stop allows the server to stop it and start it again" },
        { "NO_APPROVAL", "'agentfense undo %s --list' lists the approvals" },
        { "STOPPED", "'agentfense start %s' starts it" },
        { "RESTORABLE", "'agentfense restore %s' brings it back" },
        { "VERSION_MISMATCH", "it was changed meanwhile: look at it again ('agentfense inspect %s')" },
        { "ROOT_NOT_ALLOWED", "'agentfense token create --root DIR' makes a token that allows it" },
    };
    autodone(buf) struct buf text = BUF_EMPTY;

    if (strcmp(reason, "INVALID_STATE") == 0)
        reason = is_stopped(err->text) ? "STOPPED" : is_restorable(err->text) ? "RESTORABLE" : reason;

    buf_add_escaped(&text, err->text, strlen(err->text));
    for (size_t i = 0; i < ARRAY_LEN(remedies); i++) {
        if (strcmp(remedies[i].reason, reason) != 0)
            continue;
        buf_add_str(&text, "; ");
        for (const char *at = remedies[i].text; *at; at++) {
            if (*at == '%') {
                buf_add_escaped(&text, sandbox, strlen(sandbox));
                at += strcspn(at, "s");
            } else {
                buf_add_char(&text, *at);
            }
        }
    }
    reason = err->reason;
    err_set_reason(err, err_set(err, err->code, -EREMOTEIO, "%s", text.data ? text.data : ""), reason);
}

int review_complete(const char *sandbox, int r, struct err *err)
{
    if (r < 0 && err->reason && strcmp(err->reason, "SANDBOX_NOT_FOUND") == 0)
        set_unknown(sandbox, err);
    else if (r < 0 && err->reason)
        add_remedy(sandbox, err->reason, err);
    return r;
}

int review_stream(struct api_call *call, struct client_call *wanted, struct err *err)
{
    return review_complete(call->words[0], client_call(call->client, wanted, err), err);
}

int review_list(struct api_call *call, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err)
{
    const char *sandbox = call->word_count > 0 ? call->words[0] : "";

    return review_complete(sandbox, client_list(call->client, method, request, fn, cookie, err), err);
}

int review_try(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct client_refusal *refusal, struct err *err)
{
    return review_complete(sandbox, client_ask_refusal(call->client, method, request, ret, refusal, err), err);
}

static json_t *make_refusal_json(const struct client_refusal *refusal, const struct err *err)
{
    json_t *all = refusal->failure ? api_message_json(refusal->failure) : json_object();

    json_object_set_new(all, "refusal",
                        json_pack("{s:s, s:s}", "reason", err->reason ? err->reason : "", "message", err->text));
    return all;
}

int review_refuse(struct api_call *call, int r, const struct client_refusal *refusal, const struct err *err)
{
    const Sandbox__V1__ReviewFailure *failure = NULL;

    if (err->code != ERR_FAILED_PRECONDITION && err->code != ERR_ABORTED && !refusal->failure)
        return r;
    if (refusal->failure && refusal->failure->descriptor == &sandbox__v1__review_failure__descriptor)
        failure = (const void *) refusal->failure;
    if (call->options.is_json)
        output_json(make_refusal_json(refusal, err));
    output_error(call->verb->name, err);
    if (!failure || call->options.is_json)
        return EXIT_REFUSED;
    review_print_stopping(stderr, failure->files, failure->n_files);
    if (failure->total > (int32_t) failure->n_files)
        fprintf(stderr, "  and %zu more\n", (size_t) failure->total - failure->n_files);
    review_print_hooks(stderr, failure->hooks, failure->n_hooks);
    return EXIT_REFUSED;
}

int review_ask(struct api_call *call, const char *sandbox, const char *method, const ProtobufCMessage *request,
               ProtobufCMessage **ret, struct err *err)
{
    struct client_refusal refusal = { .type = &sandbox__v1__review_failure__descriptor };
    int r = review_try(call, sandbox, method, request, ret, &refusal, err);

    if (r < 0)
        r = review_refuse(call, r, &refusal, err);
    client_refusal_done(&refusal);
    return r;
}

/* ---- printing ---- */

void review_print_path(FILE *out, const char *state, const char *path, const char *reason)
{
    fprintf(out, "  %s: ", state);
    output_escaped(out, path);
    if (*reason) {
        fputs(": ", out);
        output_escaped(out, reason);
    }
    fputc('\n', out);
}

static const char *make_verdict_word(const Sandbox__V1__FileVerdict *file, bool is_dry, char word[32])
{
    if (is_dry && file->verdict == SANDBOX__V1__VERDICT__VERDICT_APPLIED)
        return "would apply";
    if (is_dry && file->verdict == SANDBOX__V1__VERDICT__VERDICT_PARTLY)
        return "would apply partly";
    return review_word(&sandbox__v1__verdict__descriptor, (int) file->verdict, "VERDICT_", word);
}

static void print_verdict(FILE *out, const Sandbox__V1__FileVerdict *file, bool is_dry)
{
    bool is_unacknowledged = file->verdict == SANDBOX__V1__VERDICT__VERDICT_UNACKNOWLEDGED;
    char word[32];

    fprintf(out, "  %s: ", make_verdict_word(file, is_dry, word));
    output_escaped(out, file->path);
    if (file->hunks_total > 0)
        fprintf(out, " (%d of %d hunks)", file->hunks_applied, file->hunks_total);
    if (file->merged)
        fputs(" (merged)", out);
    if (is_unacknowledged || *file->reason) {
        fputs(": ", out);
        output_escaped(out, is_unacknowledged && file->acknowledge <= (int) ACKNOWLEDGE_PACKAGE
                                ? acknowledge_text((enum acknowledge) file->acknowledge)
                                : file->reason);
    }
    fputc('\n', out);
}

void review_print_verdicts(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count, bool is_dry)
{
    for (size_t i = 0; i < count; i++)
        print_verdict(out, files[i], is_dry);
}

void review_print_stopping(FILE *out, Sandbox__V1__FileVerdict *const *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i]->verdict >= (int) SANDBOX__V1__VERDICT__VERDICT_CONFLICT)
            print_verdict(out, files[i], false);
    }
}

void review_print_hooks(FILE *out, Sandbox__V1__HookResult *const *hooks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Sandbox__V1__HookResult *hook = hooks[i];
        bool has_passed = hook->status == SANDBOX__V1__HOOK_STATUS__HOOK_STATUS_PASSED;
        char word[32];

        fputs("hook ", out);
        output_escaped(out, hook->name);
        fprintf(out, ": %s%s (%lld ms)\n",
                review_word(&sandbox__v1__hook_status__descriptor, (int) hook->status, "HOOK_STATUS_", word),
                has_passed || hook->required ? "" : ", not required", (long long) hook->duration_ms);
        for (const char *text = hook->output; !has_passed && *text;) {
            size_t len = strcspn(text, "\n");
            autofree char *line = xdupn(text, len);

            fputs("  | ", out);
            output_escaped(out, line);
            fputc('\n', out);
            text += len + (text[len] == '\n');
        }
    }
}
