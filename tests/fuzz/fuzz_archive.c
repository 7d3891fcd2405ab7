/*
 * Archives, and the names in them. The input is either an archive as it is, or, beginning with '#', lines of which each becomes an
 * entry: its type, its name, and behind a tab its link (a checksum keeps a fuzzer from finding names in archives by itself).
 * Whatever it is: it is unpacked or refused with a reason, only files, symlinks and directories are made, and nothing outside.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/extract.h"

#define LINES_MAX 32
#define BYTES_MAX (1 << 20)

static char top[] = "/dev/shm/fuzz-archive-XXXXXX"; /* or in /tmp: memory is a hundred times faster than a disk here */
static int top_fd = -1;
static struct stat outside;

static void clear_away(void)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    file_remove_tree(root, top + 1);
}

static void set_up(void)
{
    if (top_fd >= 0)
        return;
    if (access("/dev/shm", W_OK) < 0)
        strcpy(top, "/tmp/fuzz-archive-XXXXXX");
    require(mkdtemp(top));
    atexit(clear_away);
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(mkdirat(top_fd, "outside", 0755) == 0);
    require(fstatat(top_fd, "outside", &outside, 0) == 0);
}

static void add_header(struct buf *tar, char type, const char *name, size_t name_len, const char *link, size_t link_len,
                       size_t size)
{
    unsigned char header[512] = { 0 };
    unsigned sum = 0;

    memcpy(header, name, name_len > 100 ? 100 : name_len);
    memcpy(header + 100, "0000755", 7);
    snprintf((char *) header + 124, 12, "%011lo", (unsigned long) size);
    memcpy(header + 136, "00000000000", 11);
    header[156] = (unsigned char) type;
    memcpy(header + 157, link, link_len > 100 ? 100 : link_len);
    memcpy(header + 257, "ustar\00000", 8);
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < sizeof(header); i++)
        sum += header[i];
    snprintf((char *) header + 148, 8, "%06o", sum);
    buf_add(tar, header, sizeof(header));
}

static void pad(struct buf *tar)
{
    while (tar->len % 512)
        buf_add_char(tar, 0);
}

static void add_line(struct buf *tar, const char *line, size_t len)
{
    const char *tab = memchr(line, '\t', len);
    size_t name_len = tab ? (size_t) (tab - line) : len;

    if (name_len == 0)
        return;
    if (name_len - 1 > 100) {
        add_header(tar, 'L', "././@LongLink", 13, "", 0, name_len);
        buf_add(tar, line + 1, name_len - 1);
        buf_add_char(tar, 0);
        pad(tar);
    }
    add_header(tar, line[0], line + 1, name_len - 1, tab ? tab + 1 : "", tab ? len - name_len - 1 : 0, line[0] == '0' ? 3 : 0);
    if (line[0] == '0')
        buf_add(tar, "abc", 3);
    pad(tar);
}

static void make_archive(const char *text, size_t len, struct buf *tar)
{
    const char *end = text + len;
    char zeros[1024] = { 0 };

    for (int i = 0; i < LINES_MAX && text < end; i++) {
        const char *newline = memchr(text, '\n', (size_t) (end - text)), *stop = newline ? newline : end;

        add_line(tar, text, (size_t) (stop - text));
        text = newline ? newline + 1 : end;
    }
    buf_add(tar, zeros, sizeof(zeros));
}

static int check_entry(const struct file_entry *e, void *cookie)
{
    (void) cookie;
    require(S_ISREG(e->st->st_mode) || S_ISLNK(e->st->st_mode) || S_ISDIR(e->st->st_mode));
    require((e->st->st_mode & 07000) == 0);
    require(strncmp(e->name, ".wh.", 4) != 0);
    require(!S_ISREG(e->st->st_mode) || (e->st->st_nlink == 1 && e->st->st_size <= BYTES_MAX));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct extract_limits limits = { .bytes = BYTES_MAX, .entries = 64 };
    autodone(buf) struct buf tar = BUF_EMPTY;
    struct extract_counts counts = { 0 };
    struct err err = ERR_NONE;
    autofd int tree = -1;
    struct stat st;
    int r;

    set_up();
    buf_add(&tar, "", 0);
    if (size > 0 && data[0] == '#')
        make_archive((const char *) data + 1, size - 1, &tar);
    else
        buf_add(&tar, data, size);
    require(mkdirat(top_fd, "tree", 0755) == 0);
    tree = path_open_beneath(top_fd, "tree", O_PATH | O_DIRECTORY, 0);
    require(tree >= 0);
    r = extract_bytes(tar.data, tar.len, tree, &limits, &counts, &err);
    if (r < 0)
        require_refusal(r, &err);
    else
        require(counts.bytes <= limits.bytes && counts.entries <= limits.entries);
    require(file_walk(top_fd, "tree", check_entry, NULL, NULL) == 0);
    require(file_remove_tree(top_fd, "tree") == 0);
    require(fstatat(top_fd, "outside", &st, 0) == 0);
    require(st.st_ctim.tv_sec == outside.st_ctim.tv_sec && st.st_ctim.tv_nsec == outside.st_ctim.tv_nsec);
    return 0;
}
