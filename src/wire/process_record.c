#include "wire/process_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/directory.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "wire/field.h"

/* The file: "AFPR", u8 version, u8 flags, u32 pid, u64 started_ns, u64 stopped_ns, u8 end, u32 status, u64 user_us, u64
 * system_us, u64 max_rss_kib, u64 lost_bytes; then name, command and note, each NUL-terminated. */
#define VERSION 1
#define RECORD_BYTES_MAX (CTL_NAME_MAX + PROCESS_COMMAND_MAX + CTL_NOTE_MAX + 128)
#define SUFFIX ".record"
#define FILE_NAME_MAX (CTL_NAME_MAX + 16)

static const char magic[4] = { 'A', 'F', 'P', 'R' };

enum record_flag { RECORD_TTY = 1 << 0, RECORD_EXITED = 1 << 1, RECORD_ALL = (1 << 2) - 1 };

void process_record_done(struct process_record *record)
{
    free(record->command);
    free(record->note);
    *record = (struct process_record){ 0 };
}

void process_record_list_done(struct process_record_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        process_record_done(&list->items[i]);
    free(list->items);
    *list = (struct process_record_list){ 0 };
}

int process_dir_open(int sandbox_dir_fd, bool create)
{
    int fd;

    if (create && mkdirat(sandbox_dir_fd, PROCESS_DIR, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(sandbox_dir_fd, PROCESS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void put_text(struct writer *w, const char *text, size_t cap)
{
    size_t len = text ? strnlen(text, cap - 1) : 0;

    writer_bytes(w, text, len);
    writer_u8(w, 0);
}

static const struct field record_fields[] = {
    FIELD_OF(FIELD_U32, struct process_record, pid),
    FIELD_OF(FIELD_U64, struct process_record, started_ns),
    FIELD_OF(FIELD_U64, struct process_record, stopped_ns),
    FIELD_OF(FIELD_U8, struct process_record, end),
    FIELD_OF(FIELD_U32, struct process_record, status),
    FIELD_OF(FIELD_U64, struct process_record, user_us),
    FIELD_OF(FIELD_U64, struct process_record, system_us),
    FIELD_OF(FIELD_U64, struct process_record, max_rss_kib),
    FIELD_OF(FIELD_U64, struct process_record, lost_bytes),
    FIELD_OF(FIELD_TEXT, struct process_record, name),
    { .type = FIELD_END },
};

static int process_record_encode(const struct process_record *record, char *bytes, size_t *ret_len)
{
    struct writer w;

    writer_init(&w, bytes, RECORD_BYTES_MAX);
    writer_bytes(&w, magic, sizeof(magic));
    writer_u8(&w, VERSION);
    writer_u8(&w, (uint8_t) ((record->is_tty ? RECORD_TTY : 0) | (record->has_exited ? RECORD_EXITED : 0)));
    fields_write(record_fields, record, &w);
    put_text(&w, record->command, PROCESS_COMMAND_MAX);
    put_text(&w, record->note, CTL_NOTE_MAX);
    *ret_len = w.len;
    return writer_end(&w);
}

static int process_record_decode(const void *bytes, size_t len, struct process_record *ret)
{
    struct process_record record = { 0 };
    const char *command, *note;
    const void *head;
    unsigned flags;
    struct reader r;

    reader_init(&r, bytes, len);
    head = reader_bytes(&r, sizeof(magic));
    if (!head || memcmp(head, magic, sizeof(magic)) != 0 || reader_u8(&r) != VERSION)
        return -EBADMSG;
    flags = reader_u8(&r);
    record.is_tty = flags & RECORD_TTY;
    record.has_exited = flags & RECORD_EXITED;
    fields_read(record_fields, &record, &r);
    command = reader_string(&r, PROCESS_COMMAND_MAX);
    note = reader_string(&r, CTL_NOTE_MAX);
    if (reader_end(&r) < 0 || flags & ~(unsigned) RECORD_ALL || record.end > CTL_END_SESSION || record.started_ns < 0 ||
        record.stopped_ns < 0)
        return -EBADMSG;
    record.command = xdup(command);
    record.note = xdup(note);
    *ret = record;
    return 0;
}

static void name_file(const char *name, char out[FILE_NAME_MAX])
{
    snprintf(out, FILE_NAME_MAX, "%.*s" SUFFIX, CTL_NAME_MAX - 1, name);
}

int process_record_load(int process_dir_fd, const char *name, struct process_record *ret)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct process_record record;
    char file[FILE_NAME_MAX];
    int r;

    if (!id_is_valid(PROCESS_ID_PREFIX, name))
        return -ENOENT;
    name_file(name, file);
    r = file_read(process_dir_fd, file, RECORD_BYTES_MAX, &bytes);
    if (r < 0)
        return r;
    r = process_record_decode(bytes.data, bytes.len, &record);
    if (r < 0)
        return r;
    if (strcmp(record.name, name) != 0) {
        process_record_done(&record);
        return -EBADMSG;
    }
    *ret = record;
    return 0;
}

static int write_over(int dir_fd, const char *file, const char *bytes, size_t len)
{
    autofd int fd = openat(dir_fd, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return st.st_size == (off_t) len ? fd_pwrite_full(fd, bytes, len, 0) : -ENOSPC;
}

int process_record_store(int process_dir_fd, const struct process_record *record)
{
    char bytes[RECORD_BYTES_MAX], file[FILE_NAME_MAX];
    size_t len;
    int r = process_record_encode(record, bytes, &len);

    if (r < 0)
        return r;
    name_file(record->name, file);
    r = file_put(process_dir_fd, file, bytes, len, 0600);
    return r < 0 && write_over(process_dir_fd, file, bytes, len) == 0 ? 0 : r;
}

/* Returns true if the file belongs to the process: its name, a dot, anything. */
static bool is_of(const char *file, const char *name)
{
    size_t len = strlen(name);

    return strncmp(file, name, len) == 0 && file[len] == '.';
}

void process_record_remove(int process_dir_fd, const char *name)
{
    char file[FILE_NAME_MAX];
    autodirectory dir = directory_open(process_dir_fd);

    name_file(name, file);
    unlinkat(process_dir_fd, file, 0);
    for (const struct dirent *entry; (entry = directory_next(dir));) {
        if (is_of(entry->d_name, name))
            unlinkat(process_dir_fd, entry->d_name, 0);
    }
}

static int process_record_compare(const void *a, const void *b)
{
    const struct process_record *x = a, *y = b;

    if (x->started_ns != y->started_ns)
        return x->started_ns < y->started_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void add_record(struct process_record_list *list, int dir_fd, const char *file)
{
    const size_t suffix = strlen(SUFFIX);
    struct process_record record;
    char name[CTL_NAME_MAX];
    size_t len = strlen(file);

    if (len <= suffix || len - suffix >= sizeof(name) || strcmp(file + len - suffix, SUFFIX) != 0)
        return;
    memcpy(name, file, len - suffix);
    name[len - suffix] = '\0';
    if (process_record_load(dir_fd, name, &record) < 0)
        return;
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = record;
}

int process_record_list_load(int process_dir_fd, struct process_record_list *ret)
{
    struct process_record_list list = { 0 };
    autodirectory dir = directory_open(process_dir_fd);

    if (!dir)
        return -errno;
    for (const struct dirent *entry; (entry = directory_next(dir));)
        add_record(&list, process_dir_fd, entry->d_name);
    if (list.count > 1)
        qsort(list.items, list.count, sizeof(*list.items), process_record_compare);
    *ret = list;
    return 0;
}
