/*
 * N threads do everything at once to the tree `tree` of the working directory for some seconds: create, write, read back, rename,
 * link, unlink, list, map, truncate. Each thread owns some names, where it knows what must come of a call, and shares others,
 * where any outcome of a race will do but not an error that no race explains.
 *
 *     probe_hammer SECONDS THREADS
 *
 * Ends with 0 when all was well; otherwise says what was not.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop, wrong;
static atomic_ulong rounds;

static void complain(const char *what, const char *path)
{
    int e = errno;

    atomic_fetch_add(&wrong, 1);
    fprintf(stderr, "%s %s: %s\n", what, path, strerrorname_np(e));
}

#define MUST(call, path)                                                                                                       \
    do {                                                                                                                       \
        errno = 0;                                                                                                             \
        if ((call) < 0)                                                                                                        \
            complain(#call, path);                                                                                             \
    } while (0)

/* In shared places a race may lose, but only in these ways. */
static void may_lose(long result, const char *what, const char *path)
{
    if (result < 0 && errno != ENOENT && errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR && errno != EISDIR &&
        errno != EINVAL && errno != ELOOP && errno != ESTALE)
        complain(what, path);
}

static void own_file(unsigned id, unsigned round)
{
    char a[128], b[128], text[64], back[64] = "";
    struct stat st;
    int fd;
    char *map;

    snprintf(a, sizeof a, "tree/own%u/a", id);
    snprintf(b, sizeof b, "tree/own%u/b", id);
    snprintf(text, sizeof text, "%u-%u", id, round);
    fd = open(a, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (fd < 0) {
        complain("create", a);
        return;
    }
    MUST(write(fd, text, strlen(text)), a);
    MUST(rename(a, b), a);
    if (pread(fd, back, sizeof back - 1, 0) != (ssize_t) strlen(text) || strcmp(back, text) != 0)
        complain("read back", b);
    MUST(link(b, a), b);
    MUST(fstat(fd, &st), b);
    if (st.st_nlink != 2)
        complain("link count", b);
    MUST(ftruncate(fd, 8192), b);
    map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        complain("mmap", b);
    else {
        memcpy(map + 4096, text, strlen(text));
        munmap(map, 8192);
    }
    memset(back, 0, sizeof back);
    if (pread(fd, back, strlen(text), 4096) != (ssize_t) strlen(text) || strcmp(back, text) != 0)
        complain("read back of the map", b);
    MUST(unlink(a), a);
    MUST(unlink(b), b);
    MUST(fstat(fd, &st), b);
    if (st.st_nlink != 0)
        complain("link count after unlink", b);
    if (access(b, F_OK) == 0)
        complain("still there", b);
    close(fd);
}

static void shared_files(unsigned *seed)
{
    char a[128], b[128], buf[512];
    unsigned r = rand_r(seed);
    int fd;

    snprintf(a, sizeof a, "tree/d%u/f%u", r % 10, r / 10 % 200);
    snprintf(b, sizeof b, "tree/d%u/f%u", r / 2000 % 10, r / 20000 % 200);
    switch (r / 7 % 8) {
    case 0:
        fd = open(a, O_RDWR | O_CREAT | O_APPEND, 0644);
        may_lose(fd, "open", a);
        if (fd >= 0) {
            MUST(write(fd, "more\n", 5), a);
            close(fd);
        }
        break;
    case 1:
        may_lose(rename(a, b), "rename", a);
        break;
    case 2:
        may_lose(syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), "exchange", a);
        break;
    case 3:
        may_lose(link(a, b), "link", a);
        break;
    case 4:
        may_lose(unlink(a), "unlink", a);
        break;
    case 5:
        may_lose(truncate(a, r % 3000), "truncate", a);
        break;
    case 6:
        may_lose(chmod(a, 0644), "chmod", a);
        break;
    default:
        fd = open(a, O_RDONLY);
        may_lose(fd, "open", a);
        if (fd >= 0) {
            MUST(read(fd, buf, sizeof buf), a);
            close(fd);
        }
    }
}

static void list_some(unsigned *seed)
{
    char path[64];
    DIR *dir;
    int dots = 0;

    snprintf(path, sizeof path, "tree/d%u", rand_r(seed) % 10);
    dir = opendir(path);
    if (!dir) {
        complain("opendir", path);
        return;
    }
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            dots++;
        if (strncmp(e->d_name, ".wh.", 4) == 0)
            complain("marker shown", e->d_name);
    }
    if (dots != 2)
        complain("dots", path);
    closedir(dir);
}

static void *work(void *argument)
{
    unsigned id = (unsigned) (size_t) argument, seed = id * 977 + 1, round = 0;
    char own[64];

    snprintf(own, sizeof own, "tree/own%u", id);
    MUST(mkdir(own, 0755), own);
    while (!atomic_load(&stop) && atomic_load(&wrong) < 50) {
        own_file(id, round++);
        for (int i = 0; i < 5; i++)
            shared_files(&seed);
        list_some(&seed);
        atomic_fetch_add(&rounds, 1);
    }
    MUST(rmdir(own), own);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int count;

    if (argc != 3 || (count = atoi(argv[2])) < 1 || count > 64)
        return 2;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, work, (void *) (size_t) i) != 0)
            return 3;
    }
    nanosleep(&(struct timespec){ atoi(argv[1]), 0 }, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%lu rounds, %d wrong\n", atomic_load(&rounds), atomic_load(&wrong));
    return atomic_load(&wrong) != 0;
}
