/* diff: prints the changes of a sandbox, and reports to the server which files it printed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/standard_output.h"
#include "base/utf8.h"
#include "cli/client_verbs.h"
#include "cli/diff_print.h"
#include "cli/diff_reader.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/review_call.h"
#include "cli/review_help.h"
#include "review/diff_text.h"
#include <sandbox/v1/codebase.pb-c.h>

#define SHOWN_BATCH 10000
#define READER_MS 100 /* wait for a reader that closes its end early, as head(1) does */
#define HEAD_MAX 512

enum { OPT_STAT = 1, OPT_NAME_ONLY, OPT_PATCH };

static const struct option options[] = {
    { "stat", no_argument, NULL, OPT_STAT },
    { "name-only", no_argument, NULL, OPT_NAME_ONLY },
    { "patch", no_argument, NULL, OPT_PATCH },
    { "raw", no_argument, NULL, OPT_PATCH },
    API_LONG_OPTIONS,
};

struct diff_options {
    int form; /* 0: text; otherwise the option that was given */
};

static void diff_warn_deep(long long count)
{
    if (count > 0)
        fprintf(stderr, "agentfense diff: %lld director%s nested too deep to be shown, and never approved\n", count,
                count == 1 ? "y is" : "ies are");
}

/* ---- files that were printed ---- */

typedef Sandbox__V1__MarkDiffShownRequest__HashesEntry hash_entry;

struct shown_files {
    hash_entry *items; /* owned, and so are keys and values */
    size_t count, cap;
};

static void shown_files_add(struct shown_files *shown, const char *id, const char *hash)
{
    hash_entry *entry;

    vec_room(&shown->items, &shown->cap, shown->count);
    entry = &shown->items[shown->count++];
    sandbox__v1__mark_diff_shown_request__hashes_entry__init(entry);
    entry->key = xdup(id);
    entry->value = xdup(hash);
}

static void shown_files_done(struct shown_files *shown)
{
    for (size_t i = 0; i < shown->count; i++) {
        free(shown->items[i].key);
        free(shown->items[i].value);
    }
    free(shown->items);
    *shown = (struct shown_files){ 0 };
}

/* Only this program knows whether its output arrived. If the reader closed its end early, this cannot know how far it read, and reports no files. */
static int shown_files_mark(const struct shown_files *shown, struct api_call *call, struct err *err)
{
    autofree hash_entry **batch = xalloc(SHOWN_BATCH * sizeof(*batch));
    int r = standard_output_flush();

    if (r == 0 && shown->count > 0 && !standard_output_has_reader(READER_MS))
        r = -EPIPE;
    if (r < 0)
        return output_refused(r, "writing the changes", err);
    for (size_t at = 0; r == 0 && at < shown->count;) {
        Sandbox__V1__MarkDiffShownRequest request = SANDBOX__V1__MARK_DIFF_SHOWN_REQUEST__INIT;
        automessage answer = NULL;

        request.sandbox_id = call->words[0];
        request.hashes = batch;
        while (at < shown->count && request.n_hashes < SHOWN_BATCH)
            batch[request.n_hashes++] = &shown->items[at++];
        r = review_ask(call, call->words[0], "MarkDiffShown", &request.base, &answer, err);
    }
    return r < 0 ? err_wrap(err, r, "all was shown, but that could not be noted") : r;
}

/* ---- as text ---- */

/* A patch comes in pieces between lines: "LENGTH" before each piece, and "0 ID HASH" after the last piece of a file. */
struct patch_printer {
    bool is_safe; /* escape the text, because another user's server may have sent it */
    struct diff_print print;
    struct buf rest;  /* a line whose end has not arrived */
    struct buf head;  /* the same, for a line between pieces */
    size_t piece_len; /* bytes of the piece that have not arrived */
    size_t len;
    long long deep_count;
    struct shown_files *shown; /* borrowed: files that arrived completely */
};

static void patch_print_lines(struct patch_printer *printer, size_t len)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, printer->rest.data, len);
    diff_print_text(&printer->print, safe.data ? safe.data : "", safe.len);
    memmove(printer->rest.data, printer->rest.data + len, printer->rest.len - len);
    printer->rest.len -= len;
}

static int patch_print_bytes(struct patch_printer *printer, const char *bytes, size_t len, struct err *err)
{
    const char *end;
    int r = 0;

    printer->len += len;
    if (!printer->is_safe)
        r = interrupt_write(STDOUT_FILENO, bytes, len);
    else
        buf_add(&printer->rest, bytes, len);
    end = printer->rest.len > 0 ? memrchr(printer->rest.data, '\n', printer->rest.len) : NULL;
    if (end)
        patch_print_lines(printer, (size_t) (end + 1 - printer->rest.data));
    if (ferror(stdout))
        r = standard_output_flush();
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? output_refused(r, "writing the changes", err) : 0;
}

static int patch_take_head(struct patch_printer *printer, struct err *err)
{
    char *rest = NULL, *value;
    unsigned long long len = strtoull(printer->head.data, &rest, 10);

    if (rest == printer->head.data || (*rest != '\0' && *rest != ' ') || len > SIZE_MAX)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the server's answer is not a diff");
    printer->piece_len = (size_t) len;
    value = len == 0 && *rest ? strchr(rest + 1, ' ') : NULL;
    if (value) {
        *value++ = '\0';
        if (strcmp(rest + 1, "deep") == 0)
            printer->deep_count = atoll(value);
        else
            shown_files_add(printer->shown, rest + 1, value);
    }
    buf_clear(&printer->head);
    return 0;
}

static int patch_on_chunk(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__FileChunk *chunk = (const void *) answer;
    struct patch_printer *printer = cookie;
    const char *at = (const char *) chunk->data.data, *stop = at + chunk->data.len;
    int r = 0;

    while (r == 0 && at < stop) {
        size_t held = (size_t) (stop - at), n = printer->piece_len < held ? printer->piece_len : held;

        if (printer->piece_len > 0) {
            r = patch_print_bytes(printer, at, n, err);
            printer->piece_len -= n;
        } else {
            const char *end = memchr(at, '\n', held);
            n = end ? (size_t) (end + 1 - at) : held;
            if (printer->head.len + n > HEAD_MAX)
                return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the server's answer is not a diff");
            buf_add(&printer->head, at, n - (end != NULL));
            r = end ? patch_take_head(printer, err) : 0;
        }
        at += n;
    }
    return r;
}

static int diff_print_path(struct api_call *call, const char *path, bool is_patch, struct shown_files *shown, struct err *err)
{
    Sandbox__V1__DownloadPatchRequest request = SANDBOX__V1__DOWNLOAD_PATCH_REQUEST__INIT;
    struct patch_printer printer = { .is_safe = !is_patch,
                                     .print = { .is_coloured = output_is_coloured(stdout) },
                                     .shown = shown };
    struct client_call wanted = {
        .method = "DownloadPatch", .request = &request.base, .on_answer = patch_on_chunk, .cookie = &printer
    };
    int r;

    request.sandbox_id = call->words[0];
    request.path = (char *) (path ? path : "");
    request.format = is_patch ? SANDBOX__V1__PATCH_FORMAT__PATCH_FORMAT_GIT : SANDBOX__V1__PATCH_FORMAT__PATCH_FORMAT_TEXT;
    request.receipts = true;
    r = review_stream(call, &wanted, err);
    if (r == 0 && printer.rest.len > 0)
        patch_print_lines(&printer, printer.rest.len);
    if (r == 0)
        diff_warn_deep(printer.deep_count);
    buf_done(&printer.rest);
    buf_done(&printer.head);
    return r == 0 && path && printer.len == 0 ? diff_reader_refuse_unchanged(path, err) : r;
}

static int diff_run_text(struct api_call *call, bool is_patch, struct err *err)
{
    autodone(shown_files) struct shown_files shown = { 0 };
    int paths = call->word_count - 1, r = 0;

    for (int i = 0; r == 0 && i < (paths ? paths : 1); i++)
        r = diff_print_path(call, paths ? call->words[1 + i] : NULL, is_patch, &shown, err);
    return r == 0 ? shown_files_mark(&shown, call, err) : r;
}

/* ---- as JSON ---- */

struct json_printer {
    struct shown_files *shown; /* borrowed */
    bool has_begun, has_file;
};

/* Prints the diff up to its list of files. The end of its object follows later. */
static int json_print_diff(const Sandbox__V1__Diff *diff, void *cookie, struct err *err)
{
    struct json_printer *printer = cookie;

    (void) err;
    diff_warn_deep(diff->stats ? (long long) diff->stats->deep_left_out : 0);
    if (printer->has_begun)
        return 0;
    json_t *all = api_message_json(&diff->base);
    json_object_del(all, "files");
    autofree char *text = json_dumps(all, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    json_decref(all);
    printf("%.*s,\n  \"files\": [", (int) strlen(text) - 2, text);
    printer->has_begun = true;
    return 0;
}

static int json_print_file(Sandbox__V1__FileChange *file, void *cookie, struct err *err)
{
    struct json_printer *printer = cookie;
    json_t *one = api_message_json(&file->base);
    int r;

    fputs(printer->has_file ? ",\n    " : "\n    ", stdout);
    printer->has_file = true;
    json_dumpf(one, stdout, JSON_ENSURE_ASCII);
    json_decref(one);
    if (*file->hash)
        shown_files_add(printer->shown, file->id, file->hash);
    sandbox__v1__file_change__free_unpacked(file, NULL);
    r = ferror(stdout) ? standard_output_flush() : 0;
    return r < 0 ? output_refused(r, "writing the changes", err) : 0;
}

static int diff_run_json(struct api_call *call, Sandbox__V1__DiffView view, struct err *err)
{
    autodone(shown_files) struct shown_files shown = { 0 };
    struct json_printer printer = { .shown = &shown };
    const struct diff_reader reader = { json_print_diff, json_print_file, &printer };
    int paths = call->word_count - 1, r = 0;

    for (int i = 0; r == 0 && i < (paths ? paths : 1); i++)
        r = diff_reader_run(call, paths ? call->words[1 + i] : NULL, view, &reader, err);
    if (r < 0)
        return r;
    puts(printer.has_file ? "\n  ]\n}" : "]\n}");
    return shown_files_mark(&shown, call, err);
}

/* ---- names and counts ---- */

static int brief_on_diff(const Sandbox__V1__Diff *diff, void *cookie, struct err *err)
{
    (void) cookie;
    (void) err;
    diff_warn_deep(diff->stats ? (long long) diff->stats->deep_left_out : 0);
    return 0;
}

static void diff_print_stats(const struct file_list *files)
{
    bool is_coloured = output_is_coloured(stdout);
    size_t added = 0, removed = 0;
    int width = 0;

    for (size_t i = 0; i < files->count; i++) {
        int one = diff_print_width(files->items[i]->path);
        width = one > width ? one : width;
    }
    for (size_t i = 0; i < files->count; i++) {
        const Sandbox__V1__FileChange *file = files->items[i];
        struct diff_stat stat = {
            .path = file->path,
            .added = (size_t) file->lines_added,
            .removed = (size_t) file->lines_removed,
            .is_binary = file->binary,
            .is_too_large = file->too_large,
            .old_bytes = (unsigned long long) file->old_size,
            .new_bytes = (unsigned long long) file->new_size,
        };
        diff_print_stat(&stat, width, is_coloured);
        added += stat.added;
        removed += stat.removed;
    }
    if (files->count > 0)
        diff_print_totals(files->count, added, removed);
}

static int diff_print_name(Sandbox__V1__FileChange *file, void *cookie, struct err *err)
{
    int r;

    (void) cookie;
    output_escaped(stdout, file->path);
    putchar('\n');
    sandbox__v1__file_change__free_unpacked(file, NULL);
    r = ferror(stdout) ? standard_output_flush() : 0;
    return r < 0 ? output_refused(r, "writing the changes", err) : 0;
}

/* The column is as wide as the longest name, so this prints only after all files have arrived. */
static int diff_run_brief(struct api_call *call, bool is_stat, struct err *err)
{
    autodone(file_list) struct file_list files = { 0 };
    const struct diff_reader reader = { brief_on_diff, is_stat ? file_list_add : diff_print_name, &files };
    Sandbox__V1__DiffView view = is_stat ? SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FILES : SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_NAMES;
    int paths = call->word_count - 1, r = 0;

    for (int i = 0; r == 0 && i < (paths ? paths : 1); i++)
        r = diff_reader_run(call, paths ? call->words[1 + i] : NULL, view, &reader, err);
    if (r == 0 && is_stat)
        diff_print_stats(&files);
    return r;
}

/* ---- the verb ---- */

static int diff_take_option(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct diff_options *o = call->own;

    (void) argument;
    if (o->form && o->form != option)
        return err_invalid(err, "--stat, --name-only and --patch exclude each other; choose one");
    o->form = option;
    return 0;
}

static int diff_check(struct api_call *call, struct err *err)
{
    const struct diff_options *o = call->own;

    if (o->form == OPT_PATCH && call->options.is_json)
        return err_invalid(err, "--patch and --json exclude each other; choose one");
    if (o->form == OPT_PATCH && isatty(STDOUT_FILENO))
        return err_invalid(err, "--patch writes bytes as they are, which no terminal should get; send it to a file or a pipe");
    for (int i = 1; i < call->word_count; i++) {
        if (!*call->words[i])
            return err_invalid(err, "a PATH is empty; leave it out for all changes");
        if (!utf8_is_valid(call->words[i], strlen(call->words[i])))
            return err_reject(err, -EINVAL, call->words[i], "is not UTF-8; name the directory that it is in");
    }
    return 0;
}

static int diff_run(struct api_call *call, struct err *err)
{
    int form = ((const struct diff_options *) call->own)->form;

    if (call->options.is_json)
        return diff_run_json(call,
                             form == OPT_STAT        ? SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FILES
                             : form == OPT_NAME_ONLY ? SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_NAMES
                                                     : SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_FULL,
                             err);
    if (form == OPT_STAT || form == OPT_NAME_ONLY)
        return diff_run_brief(call, form == OPT_STAT, err);
    return call->options.is_quiet && !form ? 0 : diff_run_text(call, form == OPT_PATCH, err);
}

int cmd_diff(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "diff",
        .last = API_LAST_WORKSPACE,
        .help = DIFF_HELP API_LAST_HELP API_OPTIONS_HELP,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct diff_options),
        .take = diff_take_option,
        .check = diff_check,
        .run = diff_run,
    };

    return api_verb_run(&verb, argc, argv);
}
