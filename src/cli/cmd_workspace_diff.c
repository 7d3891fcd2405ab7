/* diff of a workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/standard_output.h"
#include "cli/client_verbs.h"
#include "cli/diff_print.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_diff.h"
#include "cli/workspace_help.h"
#include "review/diff_text.h"

#define PAGE_FILES "20000"
#define SHOWN_BATCH 10000
#define READER_MS 100 /* for who reads what there is and leaves, as head(1) does */
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
    int form;
};

/* ---- loading ---- */

static void add_path(struct buf *out, const char *id, const char *path)
{
    buf_addf(out, "/api/v1/sandboxes/%s/diff", id);
    workspace_add_query(out, "path", path);
}

static int say_unchanged(const char *path, struct err *err)
{
    return err_reject(err, -ENOENT, path, "has no changes");
}

/* Each page is a walk of its own on the other side: few, rather than short. */
static void add_page(struct buf *out, const char *id, const char *path, enum workspace_diff_use use, long long offset)
{
    autofree char *from = xprintf("%lld", offset);

    add_path(out, id, path);
    workspace_add_query(out, "limit", PAGE_FILES);
    workspace_add_query(out, "offset", offset ? from : NULL);
    workspace_add_query(out, use == WORKSPACE_DIFF_COUNTED ? "content" : "note", "false");
}

static void append(json_t *whole, const json_t *page)
{
    json_array_extend(json_object_get(whole, "files"), json_object_get(page, "files"));
    /* The hash stays that of the first: if anything changed until the last page, it is of another diff, and nothing is approved. */
    if (!json_object_get(whole, "unifiedDiff"))
        return;
    autofree char *text = xprintf("%s%s", json_text(whole, "unifiedDiff"), json_text(page, "unifiedDiff"));
    json_object_set_new(whole, "unifiedDiff", json_string(text));
}

static int load_path(struct api_call *call, const char *id, const char *path, enum workspace_diff_use use, json_t **ret,
                     struct err *err)
{
    long long offset = 0;

    do {
        autodone(buf) struct buf line = BUF_EMPTY;
        autojson page = NULL;
        int r;

        add_page(&line, id, path, use, offset);
        r = workspace_ask(call, "GET", NULL, &page, err, "%s", line.data);
        if (r < 0)
            return r;
        if (path && json_number(page, "total") == 0)
            return say_unchanged(path, err);
        offset = json_number(page, "nextOffset");
        if (*ret)
            append(*ret, page);
        else
            *ret = json_incref(page);
    } while (offset > 0);
    json_object_del(*ret, "nextOffset");
    return 0;
}

int workspace_diff_check_paths(char **paths, int path_count, struct err *err)
{
    for (int i = 0; i < path_count; i++)
        if (!*paths[i])
            return err_invalid(err, "a PATH is empty; leave it out for all changes");
    return 0;
}

int workspace_diff_load(struct api_call *call, const char *id, char **paths, int path_count, enum workspace_diff_use use,
                        json_t **ret, struct err *err)
{
    int r = 0;

    if (path_count == 0)
        return load_path(call, id, NULL, use, ret, err);
    for (int i = 0; r == 0 && i < path_count; i++)
        r = load_path(call, id, paths[i], use, ret, err);
    return r;
}

int workspace_diff_hash(struct api_call *call, const char *id, char ret[WORKSPACE_DIFF_HASH_MAX], struct err *err)
{
    autojson page = NULL;
    int r = workspace_ask(call, "GET", NULL, &page, err, "/api/v1/sandboxes/%s/diff?content=false&limit=1", id);

    if (r == 0)
        snprintf(ret, WORKSPACE_DIFF_HASH_MAX, "%s", json_text(page, "diffHash"));
    return r;
}

/* ---- what was shown ---- */

/* Who prints knows whether it arrived, and the server does not. So it notes nothing until it is told. */
static int say_batch(struct api_call *call, const char *id, json_t *hashes, struct err *err)
{
    autojson answer = NULL;
    int r = workspace_ask(call, "POST", json_pack("{s:O}", "fileHashes", hashes), &answer, err,
                          "/api/v1/sandboxes/%s/diff/shown", id);

    return r < 0 ? err_wrap(err, r, "all was shown, but that could not be noted") : r;
}

/* `hashes` of files by their ids, all of which were printed. Only if all of the output was taken: of a text that a reader left before its end, nobody
 * knows how far it was read. */
static int say_shown(struct api_call *call, const char *id, const json_t *hashes, struct err *err)
{
    int r = standard_output_flush();
    autojson batch = json_object();
    const char *file;
    json_t *hash;

    if (r == 0 && json_object_size(hashes) > 0 && !standard_output_has_reader(READER_MS))
        r = -EPIPE;
    if (r < 0)
        return output_refused(r, "writing the changes", err);
    json_object_foreach((json_t *) (uintptr_t) hashes, file, hash)
    {
        json_object_set(batch, file, hash);
        if (json_object_size(batch) < SHOWN_BATCH)
            continue;
        r = say_batch(call, id, batch, err);
        if (r != 0)
            return r;
        json_object_clear(batch);
    }
    return json_object_size(batch) > 0 ? say_batch(call, id, batch, err) : 0;
}

static int print_json(struct api_call *call, const char *id, json_t *diff, struct err *err)
{
    autojson hashes = json_object();
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(diff, "files"), i, file)
    {
        if (*json_text(file, "hash"))
            json_object_set_new(hashes, json_text(file, "id"), json_string(json_text(file, "hash")));
    }
    output_json(json_incref(diff));
    return say_shown(call, id, hashes, err);
}

/* ---- printing ---- */

static void print_stats(const json_t *diff, bool is_coloured)
{
    const json_t *files = json_object_get(diff, "files"), *file;
    size_t i, added = 0, removed = 0;
    int width = 0;

    json_array_foreach(files, i, file)
    {
        int one = diff_print_width(json_text(file, "projectPath"));
        width = one > width ? one : width;
    }
    json_array_foreach(files, i, file)
    {
        struct diff_stat stat = {
            .path = json_text(file, "projectPath"),
            .added = (size_t) json_number(file, "additions"),
            .removed = (size_t) json_number(file, "deletions"),
            .is_binary = json_is_true(json_object_get(file, "binary")),
            .is_too_large = json_is_true(json_object_get(file, "tooLarge")),
            .old_bytes = (unsigned long long) json_number(file, "oldSize"),
            .new_bytes = (unsigned long long) json_number(file, "fileSize"),
        };
        diff_print_stat(&stat, width, is_coloured);
        added += stat.added;
        removed += stat.removed;
    }
    if (json_array_size(files) > 0)
        diff_print_totals(json_array_size(files), added, removed);
}

static void print_names(const json_t *diff)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(diff, "files"), i, file)
    {
        output_escaped(stdout, json_text(file, "projectPath"));
        putchar('\n');
    }
}

/* ---- streams ---- */

struct stream {
    const char *path; /* NULL: all */
    const char *format;
    bool is_safe; /* made so before it is printed: the server may be another's */
    struct diff_print print;
    struct buf rest; /* a line whose end has not come yet */
    size_t len;
    struct buf head; /* of a piece, likewise */
    size_t left;     /* bytes of the piece that are still to come */
    json_t *shown;   /* borrowed: hashes of what has come whole, by the ids of files */
};

static void print_lines(struct stream *stream, size_t len)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, stream->rest.data, len);
    diff_print_text(&stream->print, safe.data ? safe.data : "", safe.len);
    memmove(stream->rest.data, stream->rest.data + len, stream->rest.len - len);
    stream->rest.len -= len;
}

static int print_bytes(struct stream *stream, const char *bytes, size_t len, struct err *err)
{
    const char *end;
    int r = 0;

    stream->len += len;
    if (!stream->is_safe)
        r = interrupt_write(STDOUT_FILENO, bytes, len);
    else
        buf_add(&stream->rest, bytes, len);
    end = stream->rest.len > 0 ? memrchr(stream->rest.data, '\n', stream->rest.len) : NULL;
    if (end)
        print_lines(stream, (size_t) (end + 1 - stream->rest.data));
    if (ferror(stdout))
        r = standard_output_flush();
    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    return r < 0 ? output_refused(r, "writing the changes", err) : 0;
}

/* "LENGTH", and the bytes follow; or "0 ID HASH": a change has come whole. */
static int take_head(struct stream *stream, struct err *err)
{
    char *rest = NULL, *hash;
    unsigned long long len = strtoull(stream->head.data, &rest, 10);

    if (rest == stream->head.data || (*rest != '\0' && *rest != ' ') || len > SIZE_MAX)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the server's answer is no diff");
    stream->left = (size_t) len;
    hash = len == 0 && *rest ? strchr(rest + 1, ' ') : NULL;
    if (hash) {
        *hash = '\0';
        json_object_set_new(stream->shown, rest + 1, json_string(hash + 1));
    }
    buf_clear(&stream->head);
    return 0;
}

static int on_bytes(const void *bytes, size_t len, void *cookie, struct err *err)
{
    struct stream *stream = cookie;
    const char *at = bytes, *stop = at + len;
    int r = 0;

    while (r == 0 && at < stop) {
        size_t held = (size_t) (stop - at), n = stream->left < held ? stream->left : held;

        if (stream->left > 0) {
            r = print_bytes(stream, at, n, err);
            stream->left -= n;
        } else {
            const char *end = memchr(at, '\n', held);
            n = end ? (size_t) (end + 1 - at) : held;
            if (stream->head.len + n > HEAD_MAX)
                return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the server's answer is no diff");
            buf_add(&stream->head, at, n - (end != NULL));
            r = end ? take_head(stream, err) : 0;
        }
        at += n;
    }
    return r;
}

static int print_stream(struct api_call *call, const char *id, struct stream *stream, struct err *err)
{
    autodone(buf) struct buf line = BUF_EMPTY, refusal = BUF_EMPTY;
    struct client_web request = { .verb = "GET", .on_bytes = on_bytes, .cookie = stream };
    int status = 0, r;

    add_path(&line, id, stream->path);
    workspace_add_query(&line, "format", stream->format);
    workspace_add_query(&line, "receipts", "true");
    request.path = line.data;
    r = client_web(call->client, &request, &status, &refusal, err);
    if (r == 0 && status != 200) {
        autojson told = json_loadb(refusal.data ? refusal.data : "", refusal.len, 0, NULL);
        return workspace_refuse(status, told, err);
    }
    if (r == 0 && stream->rest.len > 0)
        print_lines(stream, stream->rest.len);
    return r == 0 && stream->path && stream->len == 0 ? say_unchanged(stream->path, err) : r;
}

static int print_streams(struct api_call *call, const char *id, bool is_patch, struct err *err)
{
    autojson shown = json_object();
    int paths = call->word_count - 1, r = 0;

    for (int i = 0; r == 0 && i < (paths ? paths : 1); i++) {
        struct stream stream = { .path = paths ? call->words[1 + i] : NULL,
                                 .format = is_patch ? "patch" : "text",
                                 .is_safe = !is_patch,
                                 .print = { .is_coloured = output_is_coloured(stdout) },
                                 .shown = shown };

        r = print_stream(call, id, &stream, err);
        buf_done(&stream.rest);
        buf_done(&stream.head);
    }
    return r == 0 ? say_shown(call, id, shown, err) : r;
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct diff_options *o = call->own;

    (void) argument;
    if (o->form && o->form != option)
        return err_invalid(err, "--stat, --name-only and --patch exclude each other; choose one");
    o->form = option;
    return 0;
}

static int check(struct api_call *call, struct err *err)
{
    const struct diff_options *o = call->own;

    if (o->form == OPT_PATCH && call->options.is_json)
        return err_invalid(err, "--patch and --json exclude each other; choose one");
    if (o->form == OPT_PATCH && isatty(STDOUT_FILENO))
        return err_invalid(err, "--patch writes bytes as they are, which no terminal should get; send it to a file or a pipe");
    return workspace_diff_check_paths(call->words + 1, call->word_count - 1, err);
}

static int run(struct api_call *call, struct err *err)
{
    const struct diff_options *o = call->own;
    bool is_json = call->options.is_json, is_shown = is_json || (!o->form && !call->options.is_quiet);
    char id[UUID_TEXT_MAX];
    autojson diff = NULL;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r < 0)
        return r;
    if (o->form == OPT_PATCH || (is_shown && !is_json))
        return print_streams(call, id, o->form == OPT_PATCH, err);
    r = workspace_diff_load(call, id, call->words + 1, call->word_count - 1,
                            is_shown ? WORKSPACE_DIFF_WHOLE : WORKSPACE_DIFF_COUNTED, &diff, err);
    if (r < 0)
        return r;
    if (is_json)
        return print_json(call, id, diff, err);
    if (o->form == OPT_STAT)
        print_stats(diff, output_is_coloured(stdout));
    else if (o->form == OPT_NAME_ONLY)
        print_names(diff);
    return 0;
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
        .take = take,
        .check = check,
        .run = run,
    };

    return api_verb_run(&verb, argc, argv);
}
