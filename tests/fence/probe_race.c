/*
 * Hundreds of threads swap directories, files and links in the working directory while others open and read through the
 * changing names, looking for bytes that must never be seen.
 *
 *     probe_race SECONDS THREADS FORBIDDEN...
 *
 * Prints how often a forbidden text was caught, and how many calls were made; ends with 0 in either case.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
static atomic_ulong calls, reads, caught;
static char **forbidden;

static const char *const targets[] = { "../secret/plan.txt", "../hidden.txt",      "../look/file.txt",
                                       "../read/file.txt",   "../open/server.key", "../open/file.txt",
                                       "one/file",           "two/file",           "../deep/a/b/inner.txt" };
static const char *const closed[] = { "secret",          "hidden.txt", "look",
                                      "look/file.txt",   "look/dir",   "read/file.txt",
                                      "open/server.key", "deep/a",     "deep/a/b",
                                      "secret/plan.txt", "read",       "open" };
static const char *const names[] = { "race/one", "race/two", "race/link", "race/file", "race/deep" };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void look_at(const char *path)
{
    char buf[256];
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    ssize_t n;

    atomic_fetch_add(&calls, 1);
    if (fd < 0)
        return;
    n = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (n <= 0)
        return;
    atomic_fetch_add(&reads, 1);
    buf[n] = '\0';
    for (char **f = forbidden; *f; f++) {
        if (strstr(buf, *f)) {
            atomic_fetch_add(&caught, 1);
            printf("caught through %s: %s\n", path, buf);
        }
    }
}

static void *reader(void *argument)
{
    unsigned seed = (unsigned) (size_t) argument;
    char path[256];

    while (!atomic_load(&stop)) {
        unsigned r = rand_r(&seed);

        snprintf(path, sizeof path, "%s%s", names[r % COUNT(names)],
                 (const char *[]){ "", "/file", "/plan.txt", "/file.txt", "/inner", "/b/inner.txt", "/server.key",
                                   "/link" }[r / 7 % 8]);
        look_at(path);
        look_at(closed[r / 11 % COUNT(closed)]);
    }
    return NULL;
}

static void *swapper(void *argument)
{
    unsigned seed = (unsigned) (size_t) argument * 7919;
    char own[64];

    snprintf(own, sizeof own, "race/own%zu", (size_t) argument);
    while (!atomic_load(&stop)) {
        unsigned r = rand_r(&seed);
        const char *a = names[r % COUNT(names)], *b = names[r / 5 % COUNT(names)], *c = closed[r / 25 % COUNT(closed)];
        int fd;

        atomic_fetch_add(&calls, 1);
        switch (r / 300 % 9) {
        case 0:
            if (symlink(targets[r % COUNT(targets)], own) == 0)
                rename(own, a);
            break;
        case 1:
            syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
            break;
        case 2:
            syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, c, RENAME_EXCHANGE);
            break;
        case 3:
            rename(c, a);
            break;
        case 4:
            if (link(c, own) == 0)
                look_at(own);
            unlink(own);
            break;
        case 5:
            mkdir(a, 0755);
            rename(a, b);
            break;
        case 6:
            fd = open(a, O_RDWR | O_CREAT, 0644);
            if (fd >= 0) {
                if (write(fd, "mine", 4) < 0)
                    atomic_fetch_add(&calls, 1);
                close(fd);
            }
            break;
        case 7:
            unlink(a);
            rmdir(a);
            break;
        default:
            syscall(SYS_renameat2, AT_FDCWD, c, AT_FDCWD, own, RENAME_NOREPLACE);
            look_at(own);
            unlink(own);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[1024];
    int count;

    if (argc < 4)
        return 2;
    count = atoi(argv[2]);
    forbidden = argv + 3;
    if (count < 2 || count > 1024)
        return 2;
    mkdir("race", 0755);
    mkdir("race/one", 0755);
    mkdir("race/two", 0755);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, i % 3 == 0 ? swapper : reader, (void *) (size_t) (i + 1)) != 0)
            return 3;
    }
    nanosleep(&(struct timespec){ atoi(argv[1]), 0 }, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("caught %lu in %lu reads of %lu calls\n", atomic_load(&caught), atomic_load(&reads), atomic_load(&calls));
    return 0;
}
