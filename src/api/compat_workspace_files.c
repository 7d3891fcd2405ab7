/* Files of a running sandbox, as its commands see them. */
#include <errno.h>
#include <nettle/base64.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/sandbox_files.h"
#include "service/sandbox_run.h"

#define CONTENT_MAX ((size_t) 10 << 20) /* of a file in JSON */
#define BINARY_BYTES 8000
#define ETAG_MAX 64

static const char *file_query_path(const struct ws *ws, const char *usual)
{
    const char *path = web_query(ws->web, "path");

    return path && *path ? path : usual;
}

static int file_need_path(const struct ws *ws, const char **ret, struct err *err)
{
    *ret = file_query_path(ws, NULL);
    return *ret ? 0 : err_invalid(err, "'path' is required");
}

/* Paths in answers begin with a slash, at the sandbox's root. */
static json_t *make_file_path(const char *path)
{
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (path_clean(path, strlen(path), &clean) < 0)
        return compat_text(path, strlen(path));
    return compat_text(clean.data, clean.len);
}

/* "-rw-r--r--" */
static void file_format_mode(const struct sandbox_file *file, char out[11])
{
    static const char kinds[] = "?-dl?", letters[] = "rwxrwxrwx";

    out[0] = kinds[file->kind <= SANDBOX_FILE_OTHER ? file->kind : 0];
    for (int i = 0; i < 9; i++)
        out[1 + i] = (char) (file->mode & (0400u >> i) ? letters[i] : '-');
    out[10] = '\0';
}

static void file_format_etag(const struct sandbox_file *file, char out[ETAG_MAX])
{
    snprintf(out, ETAG_MAX, "\"%llx-%llx\"", (unsigned long long) file->mtime_ns, (unsigned long long) file->size_bytes);
}

static json_t *make_file_entry(const char *dir, const struct sandbox_file *file)
{
    static const char *const kinds[] = { "other", "file", "directory", "symlink", "other" };
    autofree char *path = xprintf("%s/%s", dir, file->name);
    char mode[11];

    file_format_mode(file, mode);
    json_t *entry =
        json_pack("{s:o, s:o, s:b, s:I, s:s, s:s}", "name", compat_text(file->name, strlen(file->name)), "path",
                  make_file_path(path), "isDir", file->kind == SANDBOX_FILE_DIRECTORY, "size", (json_int_t) file->size_bytes,
                  "mode", mode, "type", kinds[file->kind <= SANDBOX_FILE_OTHER ? file->kind : 0]);
    compat_set_time(entry, "modTime", file->mtime_ns);
    return entry;
}

int compat_file_list(struct ws *ws, struct err *err)
{
    autodone(sandbox_file_list) struct sandbox_file_list list = { 0 };
    const char *path = file_query_path(ws, "/");
    int r = sandbox_file_list(ws->service, &ws->caller, ws->id, path, &list, err);

    if (r < 0)
        return r;
    json_t *entries = json_array();
    for (size_t i = 0; i < list.count; i++)
        json_array_append_new(entries, make_file_entry(path, &list.items[i]));
    return compat_answer(
        ws, 200,
        json_pack("{s:o, s:o, s:I}", "path", make_file_path(path), "entries", entries, "total", (json_int_t) list.count));
}

/* ---- reading ---- */

struct reading {
    struct ws *ws;
    struct sandbox_file file;
    struct buf content;
    struct err *err;
};

static int file_check_regular(const struct sandbox_file *file, struct err *err)
{
    static const char *const what[] = { "something", "a file", "a directory", "a symlink", "no regular file" };

    if (file->kind == SANDBOX_FILE_REGULAR)
        return 0;
    return err_invalid(err, "it is %s", what[file->kind <= SANDBOX_FILE_OTHER ? file->kind : 0]);
}

static int file_begin_read(const struct sandbox_file *file, void *cookie)
{
    struct reading *reading = cookie;
    int r = file_check_regular(file, reading->err);

    reading->file = *file;
    if (r == 0 && file->size_bytes > CONTENT_MAX)
        r = err_invalid(reading->err, "the file has more than %zu bytes; files/download has no such limit", CONTENT_MAX);
    return r;
}

static int file_keep_bytes(const void *bytes, size_t len, void *cookie)
{
    struct reading *reading = cookie;

    buf_add(&reading->content, bytes, len);
    return reading->content.len > CONTENT_MAX ? err_invalid(reading->err, "the file grew while it was read") : 0;
}

static json_t *file_encode_base64(const struct buf *content)
{
    size_t len = BASE64_ENCODE_RAW_LENGTH(content->len);
    autofree char *text = xalloc(len + 1);

    base64_encode_raw(text, content->len, (const uint8_t *) (content->data ? content->data : ""));
    return json_stringn(text, len);
}

/* Sends invalid UTF-8 as base64 too, because text would change the bytes. */
static json_t *make_file_content(const char *path, const struct buf *content)
{
    const char *bytes = content->data ? content->data : "";
    bool is_binary = memchr(bytes, '\0', content->len < BINARY_BYTES ? content->len : BINARY_BYTES) != NULL;
    json_t *text = is_binary || memchr(bytes, '\0', content->len) ? NULL : json_stringn(bytes, content->len);
    const char *encoding = text ? "utf8" : "base64";

    return json_pack("{s:o, s:o, s:s, s:I, s:b}", "path", make_file_path(path), "content",
                     text ? text : file_encode_base64(content), "encoding", encoding, "size", (json_int_t) content->len,
                     "isBinary", is_binary);
}

int compat_file_read(struct ws *ws, struct err *err)
{
    struct reading reading = { .ws = ws, .err = err };
    const char *path;
    char etag[ETAG_MAX];
    int r = file_need_path(ws, &path, err);

    if (r == 0)
        r = sandbox_file_read(ws->service, &ws->caller, ws->id, path, file_begin_read, file_keep_bytes, &reading, err);
    if (r == 0) {
        file_format_etag(&reading.file, etag);
        web_add_header(ws->web, "ETag", etag);
        r = compat_answer(ws, 200, make_file_content(path, &reading.content));
    }
    buf_done(&reading.content);
    return r;
}

/* Replaces what could break out of the header in filename; browsers take the exact name from filename*. */
static void file_add_disposition(struct ws *ws, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    autodone(buf) struct buf value = BUF_EMPTY;

    buf_add_str(&value, "attachment; filename=\"");
    for (const char *at = name; *at; at++) {
        bool is_safe = *at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\';
        buf_add_char(&value, (char) (is_safe ? *at : '_'));
    }
    buf_add_str(&value, "\"; filename*=UTF-8''");
    for (const unsigned char *at = (const unsigned char *) name; *at; at++) {
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            buf_add_char(&value, (char) *at);
        else
            buf_addf(&value, "%%%02X", *at);
    }
    web_add_header(ws->web, "Content-Disposition", value.data);
}

static int file_begin_download(const struct sandbox_file *file, void *cookie)
{
    struct reading *reading = cookie;
    char etag[ETAG_MAX];
    int r = file_check_regular(file, reading->err);

    if (r < 0)
        return r;
    file_format_etag(file, etag);
    web_add_header(reading->ws->web, "ETag", etag);
    file_add_disposition(reading->ws, file_query_path(reading->ws, ""));
    reading->ws->web->response.content_type = "application/octet-stream";
    reading->ws->web->response.size_bytes = (int64_t) file->size_bytes;
    return web_begin(reading->ws->web);
}

static int file_send_bytes(const void *bytes, size_t len, void *cookie)
{
    return web_write(((struct reading *) cookie)->ws->web, bytes, len);
}

int compat_file_download(struct ws *ws, struct err *err)
{
    struct reading reading = { .ws = ws, .err = err };
    const char *path;
    int r = file_need_path(ws, &path, err);

    return r < 0
               ? r
               : sandbox_file_read(ws->service, &ws->caller, ws->id, path, file_begin_download, file_send_bytes, &reading, err);
}

/* ---- writing ---- */

/* Checks If-Match against the file's ETag. If the file changes between this check and the write, the write wins. */
static int file_check_match(struct ws *ws, const char *path, struct err *err)
{
    const char *wanted = web_header(ws->web, "if-match");
    autodone(sandbox_file) struct sandbox_file file = { 0 };
    char etag[ETAG_MAX];
    int r;

    if (!wanted)
        return 0;
    r = sandbox_file_stat(ws->service, &ws->caller, ws->id, path, &file, err);
    if (r < 0 && err->code != ERR_NOT_FOUND)
        return r;
    if (r == 0)
        file_format_etag(&file, etag);
    if (r == 0 && (strcmp(wanted, "*") == 0 || strcmp(wanted, etag) == 0))
        return 0;
    ws->status = 412;
    compat_hint(ws, "read the file again, and its ETag");
    return err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "the file is not as If-Match says");
}

static int file_decode(const char *text, const char *encoding, struct buf *out, struct err *err)
{
    size_t len = strlen(text), decoded = 0;
    struct base64_decode_ctx decoder;

    if (strcmp(encoding, "utf8") == 0) {
        buf_add(out, text, len);
        return 0;
    }
    if (strcmp(encoding, "base64") != 0)
        return err_reject(err, -EINVAL, encoding, "is no encoding; there are 'utf8' and 'base64'");
    buf_room(out, BASE64_DECODE_LENGTH(len) + 1);
    base64_decode_init(&decoder);
    if (!base64_decode_update(&decoder, &decoded, (uint8_t *) out->data, len, text) || !base64_decode_final(&decoder))
        return err_invalid(err, "'content' is no base64");
    out->len = decoded;
    return 0;
}

int compat_file_write(struct ws *ws, struct err *err)
{
    autodone(buf) struct buf content = BUF_EMPTY;
    const char *path, *text = NULL, *encoding = "utf8";
    int64_t mode = 0644;
    bool is_new = false;
    int r = file_need_path(ws, &path, err);

    if (r == 0)
        r = compat_get_text(ws->body, "content", CONTENT_MAX / 3 * 4 + 4, &text, err);
    if (r < 0)
        return r;
    if (!text)
        return err_invalid(err, "'content' is required");
    r = compat_read(ws->body, err, { "encoding", .text = &encoding }, { "mode", .number = &mode, .least = 0, .most = 0777 });
    if (r == 0)
        r = file_decode(text, encoding, &content, err);
    if (r == 0 && content.len > CONTENT_MAX)
        r = err_invalid(err, "'content' has more than %zu bytes", CONTENT_MAX);
    if (r == 0)
        r = file_check_match(ws, path, err);
    if (r == 0)
        r = sandbox_file_write(ws->service, &ws->caller, ws->id, path, (uint32_t) mode, content.data, content.len, &is_new,
                               err);
    if (r < 0)
        return r;
    return compat_answer(
        ws, is_new ? 201 : 200,
        json_pack("{s:o, s:I, s:b}", "path", make_file_path(path), "size", (json_int_t) content.len, "created", is_new));
}

int compat_file_delete(struct ws *ws, struct err *err)
{
    bool recursive = false, was_there = true;
    const char *path;
    int r = file_need_path(ws, &path, err);

    if (r == 0)
        r = compat_query_bool(ws, "recursive", &recursive, err);
    if (r == 0)
        r = file_check_match(ws, path, err);
    if (r < 0)
        return r;
    r = sandbox_file_remove(ws->service, &ws->caller, ws->id, path, recursive, err);
    /* Only a missing file is fine, not a missing sandbox. */
    if (r == -ENOENT && sandbox_check_active(ws->service, &ws->caller, ws->id, NULL) == 0) {
        was_there = false;
        r = 0;
    }
    if (r < 0)
        return r;
    return compat_answer(ws, 200, json_pack("{s:o, s:b}", "path", make_file_path(path), "deleted", was_there));
}

int compat_file_mkdir(struct ws *ws, struct err *err)
{
    const char *path = NULL;
    int r = compat_get_text(ws->body, "path", 0, &path, err);

    if (r < 0)
        return r;
    if (!path || !*path)
        return err_invalid(err, "'path' is required");
    r = sandbox_file_mkdir(ws->service, &ws->caller, ws->id, path, err);
    return r < 0 ? r : compat_answer(ws, 201, json_pack("{s:o, s:b}", "path", make_file_path(path), "created", true));
}
