#include "cli/diff_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/review_call.h"

/* One stream. */
struct diff_stream {
    const struct diff_reader *reader;
    Sandbox__V1__FileChange *file; /* owned; the next message may continue it */
    size_t count;
};

/* Copies the file, because the callback only borrows the answer. */
static Sandbox__V1__FileChange *dup_file(const Sandbox__V1__FileChange *file)
{
    size_t len = sandbox__v1__file_change__get_packed_size(file);
    autofree uint8_t *bytes = xalloc(len + 1);

    sandbox__v1__file_change__pack(file, bytes);
    return sandbox__v1__file_change__unpack(NULL, len, bytes);
}

static int pass_file_on(struct diff_stream *stream, struct err *err)
{
    Sandbox__V1__FileChange *file = steal_ptr(&stream->file);

    if (!file)
        return 0;
    stream->count++;
    return stream->reader->on_file(file, stream->reader->cookie, err);
}

/* ---- a file in several messages ---- */

static void *move_items(void *into, size_t *into_count, void **from, size_t *from_count)
{
    char **all = realloc(into, (*into_count + *from_count + 1) * sizeof(*all));

    if (!all)
        abort();
    memcpy(all + *into_count, *from, *from_count * sizeof(*all));
    *into_count += *from_count;
    *from_count = 0;
    return all;
}

/* Moves the lines of `part` to the end of the hunk to which they belong. Its first line may continue the hunk's last one. */
static void extend_hunk(Sandbox__V1__Hunk *hunk, Sandbox__V1__Hunk *part)
{
    if (hunk->continues && hunk->n_lines > 0 && part->n_lines > 0) {
        char **last = &hunk->lines[hunk->n_lines - 1], *joined = xprintf("%s%s", *last, part->lines[0]);

        free(*last);
        *last = joined;
        free(part->lines[0]);
        memmove(part->lines, part->lines + 1, --part->n_lines * sizeof(*part->lines));
    }
    hunk->lines = move_items(hunk->lines, &hunk->n_lines, (void **) &part->lines, &part->n_lines);
    hunk->continues = part->continues;
}

static void extend_file(Sandbox__V1__FileChange *file, Sandbox__V1__FileChange *more)
{
    Sandbox__V1__Hunk *last = file->n_hunks > 0 ? file->hunks[file->n_hunks - 1] : NULL;

    if (last && more->n_hunks > 0 && strcmp(last->id, more->hunks[0]->id) == 0) {
        extend_hunk(last, more->hunks[0]);
        sandbox__v1__hunk__free_unpacked(more->hunks[0], NULL);
        memmove(more->hunks, more->hunks + 1, --more->n_hunks * sizeof(*more->hunks));
    }
    file->hunks = move_items(file->hunks, &file->n_hunks, (void **) &more->hunks, &more->n_hunks);
    if (!*more->hash)
        return;
    if (file->hash != protobuf_c_empty_string)
        free(file->hash);
    file->hash = xdup(more->hash);
}

static int on_chunk(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__DiffChunk *chunk = (const void *) answer;
    struct diff_stream *stream = cookie;
    int r = 0;

    if (chunk->content_case == SANDBOX__V1__DIFF_CHUNK__CONTENT_DIFF)
        return stream->reader->on_diff ? stream->reader->on_diff(chunk->diff, stream->reader->cookie, err) : 0;
    if (chunk->content_case == SANDBOX__V1__DIFF_CHUNK__CONTENT_MORE && stream->file) {
        Sandbox__V1__FileChange *more = dup_file(chunk->more);

        if (!more)
            return err_errno(err, -ENOMEM, "a change");
        extend_file(stream->file, more);
        sandbox__v1__file_change__free_unpacked(more, NULL);
        return 0;
    }
    if (chunk->content_case != SANDBOX__V1__DIFF_CHUNK__CONTENT_FILE)
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the server's answer is not a diff");
    r = pass_file_on(stream, err);
    if (r < 0)
        return r;
    stream->file = dup_file(chunk->file);
    return stream->file ? 0 : err_errno(err, -ENOMEM, "a change");
}

int diff_reader_refuse_unchanged(const char *path, struct err *err)
{
    return err_reject(err, -ENOENT, path, "has no changes");
}

int diff_reader_run(struct api_call *call, const char *path, Sandbox__V1__DiffView view, const struct diff_reader *reader,
                    struct err *err)
{
    Sandbox__V1__StreamDiffRequest request = SANDBOX__V1__STREAM_DIFF_REQUEST__INIT;
    struct diff_stream stream = { .reader = reader };
    struct client_call wanted = { .method = "StreamDiff", .request = &request.base, .on_answer = on_chunk, .cookie = &stream };
    int r;

    request.sandbox_id = call->words[0];
    request.path = (char *) (path ? path : "");
    request.view = view;
    r = review_stream(call, &wanted, err);
    if (r == 0)
        r = pass_file_on(&stream, err);
    if (stream.file)
        sandbox__v1__file_change__free_unpacked(stream.file, NULL);
    return r == 0 && path && stream.count == 0 ? diff_reader_refuse_unchanged(path, err) : r;
}

/* ---- lists ---- */

Sandbox__V1__FileChange *file_list_find(const struct file_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i]->id, id) == 0)
            return list->items[i];
    }
    return NULL;
}

int file_list_add(Sandbox__V1__FileChange *file, void *cookie, struct err *err)
{
    struct file_list *list = cookie;

    (void) err;
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = file;
    return 0;
}

/* Drops files that more than one path selected. */
static void drop_doubles(struct file_list *list, size_t before)
{
    size_t kept = before;

    for (size_t i = before; i < list->count; i++) {
        struct file_list earlier = { .items = list->items, .count = before };

        if (file_list_find(&earlier, list->items[i]->id))
            sandbox__v1__file_change__free_unpacked(list->items[i], NULL);
        else
            list->items[kept++] = list->items[i];
    }
    list->count = kept;
}

int file_list_load(struct api_call *call, char *const *paths, size_t path_count, Sandbox__V1__DiffView view,
                   struct file_list *ret, struct err *err)
{
    const struct diff_reader reader = { .on_file = file_list_add, .cookie = ret };
    int r = path_count == 0 ? diff_reader_run(call, NULL, view, &reader, err) : 0;

    for (size_t i = 0; r == 0 && i < path_count; i++) {
        size_t before = ret->count;

        r = diff_reader_run(call, paths[i], view, &reader, err);
        if (r == 0)
            drop_doubles(ret, before);
    }
    return r;
}

void file_list_done(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        sandbox__v1__file_change__free_unpacked(list->items[i], NULL);
    free(list->items);
    *list = (struct file_list){ 0 };
}
