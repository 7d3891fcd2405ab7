#include "fence/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/inode.h"
#include "fence/whiteout.h"

#define MAGIC "AFJ1"
#define SUM_BYTES 16

struct journal {
    int fd; /* owned */
};

int journal_new(struct fence *f, struct journal **ret_journal)
{
    int fd = openat(f->meta_fd, "journal", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -errno;
    *ret_journal = xnew(struct journal);
    (*ret_journal)->fd = fd;
    return 0;
}

void journal_free(struct journal *journal)
{
    if (!journal)
        return;
    close(journal->fd);
    free(journal);
}

static void journal_checksum(const char *bytes, size_t len, char out[SUM_BYTES + 1])
{
    snprintf(out, SUM_BYTES + 1, "%016" PRIx64, inode_number_of(len, bytes, len));
}

/* MAGIC, three letters, from, NUL, to, NUL, checksum. */
void intent_write(const struct intent *intent, struct buf *out)
{
    char check[SUM_BYTES + 1];

    buf_clear(out);
    buf_add_str(out, MAGIC);
    buf_add_char(out, intent->whiteout_from ? 'w' : '-');
    buf_add_char(out, intent->revert_marker ? 'm' : '-');
    buf_add_char(out, intent->clear_to ? 'c' : '-');
    buf_add(out, intent->from, strlen(intent->from) + 1);
    buf_add(out, intent->to, strlen(intent->to) + 1);
    journal_checksum(out->data, out->len, check);
    buf_add(out, check, SUM_BYTES);
}

int intent_parse(char *bytes, size_t len, struct intent *ret)
{
    size_t head = strlen(MAGIC) + 3;
    char check[SUM_BYTES + 1];
    const char *from, *to, *end;

    if (len < head + 4 + SUM_BYTES || memcmp(bytes, MAGIC, strlen(MAGIC)) != 0)
        return -EBADMSG;
    len -= SUM_BYTES;
    journal_checksum(bytes, len, check);
    if (memcmp(bytes + len, check, SUM_BYTES) != 0 || bytes[len - 1] != 0)
        return -EBADMSG;
    from = bytes + head;
    to = from + strlen(from) + 1;
    end = bytes + len;
    if (to >= end || to + strlen(to) + 1 != end || !*from || !*to)
        return -EBADMSG;
    *ret = (struct intent){ from, to, bytes[4] == 'w', bytes[5] == 'm', bytes[6] == 'c' };
    return 0;
}

int journal_begin(struct fence *f, const struct intent *intent)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    int r;

    intent_write(intent, &bytes);
    r = fd_pwrite_full(f->journal->fd, bytes.data, bytes.len, 0);
    if (r < 0 && ftruncate(f->journal->fd, 0) < 0)
        return -EIO;
    fault("journal-begun");
    return r;
}

/* If it cannot be emptied, the next mount repeats the intent and finds nothing left to do. */
void journal_end(struct fence *f)
{
    fault("journal-done");
    if (ftruncate(f->journal->fd, 0) < 0)
        return;
}

static int clear_target(struct fence *f, int dirfd, const char *name)
{
    char temp[48];

    snprintf(temp, sizeof(temp), "trash-%" PRIu64, atomic_fetch_add(&f->temp_counter, 1));
    if (renameat(dirfd, name, f->work_fd, temp) < 0)
        return errno == ENOENT ? 0 : -errno;
    fault("rename-target-cleared");
    file_remove_tree(f->work_fd, temp);
    return 0;
}

/* If `from` is gone, the move itself was done. */
int journal_perform(struct fence *f, const struct intent *intent)
{
    const char *from_name, *to_name;
    autofd int from = -1, to = -1;
    struct stat st;
    bool moved;
    int r = path_open_parent_beneath(f->data_fd, intent->from, &from, &from_name);

    if (r == 0)
        r = path_open_parent_beneath(f->data_fd, intent->to, &to, &to_name);
    if (r != 0)
        return r;
    moved = fstatat(from, from_name, &st, AT_SYMLINK_NOFOLLOW) < 0;
    /* The marker first: it is the step that may find no space, and it can be undone. */
    if (intent->whiteout_from)
        r = whiteout_create(f, from, from_name);
    fault("rename-whiteout");
    if (r == 0 && !moved && intent->clear_to)
        r = clear_target(f, to, to_name);
    if (r == 0 && !moved && renameat(from, from_name, to, to_name) < 0)
        r = -errno;
    fault("rename-moved");
    if (r < 0 && !moved && intent->whiteout_from)
        whiteout_remove(from, from_name);
    if (r == 0 && intent->revert_marker)
        r = whiteout_remove(to, to_name);
    return r;
}

int journal_replay(struct fence *f)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct intent intent;
    int r = fd_read_all(f->journal->fd, 64 << 10, &bytes);

    if (r < 0 || bytes.len == 0)
        return r;
    /* An incomplete intent was never acted upon. */
    if (intent_parse(bytes.data, bytes.len, &intent) == 0)
        r = journal_perform(f, &intent);
    if (r == 0)
        journal_end(f);
    return r;
}
