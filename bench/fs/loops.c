/*
 * The hot loops of the filesystem benchmark: each does one thing many times and prints the nanoseconds it took.
 *
 *     loops stat LIST              lstat of each path in the file LIST
 *     loops absent LIST            lstat of each path with a name appended that does not exist
 *     loops open LIST              open and close
 *     loops read LIST              open, read to the end, close
 *     loops change LIST            open, write 16 bytes at the beginning, close
 *     loops list DIR COUNT         opendir, readdir to the end, closedir
 *     loops stream FILE            read from beginning to end by 128 KiB
 *     loops jump FILE COUNT        COUNT reads of 4 KiB at random places
 *     loops write FILE MIB         write by 128 KiB, close
 *     loops create DIR COUNT       create, write 1 KiB, close
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (128 << 10)

static char block[BLOCK];

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

struct paths {
    char **items;
    size_t count;
};

static struct paths load(const char *list)
{
    struct paths p = { NULL, 0 };
    FILE *f = fopen(list, "r");
    char *line = NULL;
    size_t room = 0, cap = 0;
    ssize_t n;

    if (!f)
        die(list);
    while ((n = getline(&line, &room, f)) > 0) {
        line[n - 1] = '\0';
        if (p.count == cap) {
            cap = cap ? 2 * cap : 1024;
            p.items = realloc(p.items, cap * sizeof *p.items);
        }
        p.items[p.count++] = strdup(line);
    }
    free(line);
    fclose(f);
    return p;
}

static void one_path(char kind, const char *path)
{
    struct stat st;
    int fd;

    if (kind == 's') {
        if (lstat(path, &st) < 0)
            die(path);
        return;
    }
    if (kind == 'a') {
        if (lstat(path, &st) == 0 || errno != ENOENT)
            die(path);
        return;
    }
    fd = open(path, (kind == 'c' ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        die(path);
    if (kind == 'r') {
        while (read(fd, block, sizeof block) > 0)
            ;
    }
    if (kind == 'c' && write(fd, "changed by loops", 16) != 16)
        die(path);
    close(fd);
}

static int64_t over_paths(char kind, const char *list)
{
    struct paths p = load(list);
    int64_t start;

    if (kind == 'a') {
        for (size_t i = 0; i < p.count; i++) {
            char *longer;

            if (asprintf(&longer, "%s.absent", p.items[i]) < 0)
                die("memory");
            p.items[i] = longer;
        }
    }
    start = now_ns();
    for (size_t i = 0; i < p.count; i++)
        one_path(kind, p.items[i]);
    return now_ns() - start;
}

static int64_t list_dir(const char *path, long count)
{
    int64_t start = now_ns();

    for (long i = 0; i < count; i++) {
        DIR *dir = opendir(path);

        if (!dir)
            die(path);
        while (readdir(dir))
            ;
        closedir(dir);
    }
    return now_ns() - start;
}

static int64_t read_file(const char *path, long jumps)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    uint64_t x = 88172645463325252u;
    int64_t start;

    if (fd < 0 || fstat(fd, &st) < 0)
        die(path);
    start = now_ns();
    if (jumps == 0) {
        while (read(fd, block, sizeof block) > 0)
            ;
    }
    for (long i = 0; i < jumps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (pread(fd, block, 4096, (off_t) (x % (uint64_t) (st.st_size / 4096)) * 4096) != 4096)
            die(path);
    }
    start = now_ns() - start;
    close(fd);
    return start;
}

static int64_t write_file(const char *path, long mib)
{
    int64_t start;
    int fd;

    memset(block, 'w', sizeof block);
    start = now_ns();
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        die(path);
    for (long i = 0; i < mib * 8; i++) {
        if (write(fd, block, sizeof block) != sizeof block)
            die(path);
    }
    if (close(fd) < 0)
        die(path);
    return now_ns() - start;
}

static int64_t create_files(const char *dir, long count)
{
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int64_t start = now_ns();

    if (at < 0)
        die(dir);
    for (long i = 0; i < count; i++) {
        char name[32];
        int fd;

        snprintf(name, sizeof name, "file%ld.txt", i);
        fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, block, 1024) != 1024)
            die(name);
        close(fd);
    }
    close(at);
    return now_ns() - start;
}

int main(int argc, char **argv)
{
    int64_t ns;
    long n = argc > 3 ? atol(argv[3]) : 0;

    if (argc < 3)
        return 2;
    if (strcmp(argv[1], "stat") == 0 || strcmp(argv[1], "absent") == 0 || strcmp(argv[1], "open") == 0 ||
        strcmp(argv[1], "read") == 0 || strcmp(argv[1], "change") == 0)
        ns = over_paths(argv[1][0], argv[2]);
    else if (strcmp(argv[1], "list") == 0)
        ns = list_dir(argv[2], n);
    else if (strcmp(argv[1], "stream") == 0)
        ns = read_file(argv[2], 0);
    else if (strcmp(argv[1], "jump") == 0)
        ns = read_file(argv[2], n);
    else if (strcmp(argv[1], "write") == 0)
        ns = write_file(argv[2], n);
    else if (strcmp(argv[1], "create") == 0)
        ns = create_files(argv[2], n);
    else
        return 2;
    printf("%lld\n", (long long) ns);
    return 0;
}
