/*
 * A directory shown with case ignored and names normalised, as some filesystems do: a base for the fence to be careful with.
 *
 *     probe_fold SOURCE MOUNTPOINT
 *
 * Read-only, in the foreground, until it is unmounted. Names are listed as they are; looked up they match whatever their case, and
 * whether an e with an acute accent is one character or two.
 */
#define FUSE_USE_VERSION 31
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *source;

static void fold(const char *name, char out[NAME_MAX * 2 + 1])
{
    for (; *name; name++) {
        if (strncmp(name, "\xc3\xa9", 2) == 0 || strncmp(name, "\xc3\x89", 2) == 0) {
            strcpy(out, "e\xcc\x81");
            out += 3;
            name++;
        } else {
            *out++ = (char) tolower((unsigned char) *name);
        }
    }
    *out = '\0';
}

static int is_same(const char *a, const char *b)
{
    char x[NAME_MAX * 2 + 1], y[NAME_MAX * 2 + 1];

    fold(a, x);
    fold(b, y);
    return strcmp(x, y) == 0;
}

/* The entry of `dir` that equals `name` once both are folded, written to `ret`; the name itself when there is none. */
static void find(const char *dir, const char *name, char ret[NAME_MAX + 1])
{
    DIR *d = opendir(dir);

    snprintf(ret, NAME_MAX + 1, "%s", name);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        if (is_same(e->d_name, name))
            snprintf(ret, NAME_MAX + 1, "%s", e->d_name);
    }
    closedir(d);
}

static const char *real(const char *path, char out[PATH_MAX * 2])
{
    char parts[PATH_MAX], *save, found[NAME_MAX + 1];

    strcpy(out, source);
    snprintf(parts, sizeof parts, "%s", path);
    for (char *p = strtok_r(parts, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
        find(out, p, found);
        strcat(out, "/");
        strcat(out, found);
    }
    return out;
}

static int fold_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    char full[PATH_MAX * 2];

    (void) info;
    return lstat(real(path, full), st) < 0 ? -errno : 0;
}

static int fold_readlink(const char *path, char *buf, size_t size)
{
    char full[PATH_MAX * 2];
    ssize_t n = readlink(real(path, full), buf, size - 1);

    if (n < 0)
        return -errno;
    buf[n] = '\0';
    return 0;
}

static int fold_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *info,
                        enum fuse_readdir_flags flags)
{
    char full[PATH_MAX * 2];
    DIR *d = opendir(real(path, full));

    (void) off;
    (void) info;
    (void) flags;
    if (!d)
        return -errno;
    for (struct dirent *e; (e = readdir(d));)
        fill(buf, e->d_name, NULL, 0, 0);
    closedir(d);
    return 0;
}

static int fold_open(const char *path, struct fuse_file_info *info)
{
    char full[PATH_MAX * 2];
    int fd = open(real(path, full), O_RDONLY);

    if (fd < 0)
        return -errno;
    info->fh = (uint64_t) fd;
    return 0;
}

static int fold_read(const char *path, char *buf, size_t size, off_t off, struct fuse_file_info *info)
{
    ssize_t n = pread((int) info->fh, buf, size, off);

    (void) path;
    return n < 0 ? -errno : (int) n;
}

static int fold_release(const char *path, struct fuse_file_info *info)
{
    (void) path;
    close((int) info->fh);
    return 0;
}

static const struct fuse_operations operations = {
    .getattr = fold_getattr,
    .readlink = fold_readlink,
    .readdir = fold_readdir,
    .open = fold_open,
    .read = fold_read,
    .release = fold_release,
};

int main(int argc, char **argv)
{
    char foreground[] = "-f", single[] = "-s", option[] = "-o", value[] = "ro,allow_other";
    char *args[] = { argv[0], foreground, single, option, value, argc == 3 ? argv[2] : NULL, NULL };

    if (argc != 3)
        return 2;
    source = argv[1];
    return fuse_main(6, args, &operations, NULL);
}
