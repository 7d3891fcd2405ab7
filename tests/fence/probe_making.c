/*
 * One thread makes files and fills them, as a program does that only writes; others read them meanwhile, by descriptor and
 * by mapping. What a write has acknowledged every later read must find, and what a read returns must have been written: a reader
 * that follows the file to its end must not see zeros there.
 *
 *     probe_making FILES WRITES READERS
 *
 * Prints how many reads were made and how many of them found something older, or zeros; ends with 0 in either case.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE 64 /* bytes, many to a page */

static atomic_int file_number, stop;
static atomic_long written; /* pieces of the present file that were acknowledged */
static atomic_ulong reads, stale;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void name_of(int number, char out[32])
{
    snprintf(out, 32, "made%d", number);
}

/* The first piece is written again each time, with the count in it. */
static void check(const uint64_t *first, const uint64_t *piece, long index, long least)
{
    atomic_fetch_add(&reads, 1);
    if (*first < (uint64_t) least || *piece != (uint64_t) index + 1)
        atomic_fetch_add(&stale, 1);
}

/* Reads to the end of the file, as far as there are pieces behind those that were acknowledged. No word of any piece is zero. */
static void check_end(int fd, long least)
{
    uint64_t end[16 * PIECE / 8];
    ssize_t n = pread(fd, end, sizeof(end), least * PIECE);

    if (n < 0)
        die("reading");
    atomic_fetch_add(&reads, 1);
    for (ssize_t i = 0; i < n / 8; i++)
        if (end[i] == 0) {
            atomic_fetch_add(&stale, 1);
            return;
        }
}

static void look(int fd, const char *map, long least, unsigned *seed)
{
    long index = least > 1 ? 1 + rand_r(seed) % (least - 1) : 0;
    uint64_t first[PIECE / 8], piece[PIECE / 8];

    check_end(fd, least);
    if (index == 0)
        return;
    if (pread(fd, first, PIECE, 0) != PIECE || pread(fd, piece, PIECE, index * PIECE) != PIECE)
        die("reading");
    check(first, piece, index, least);
    if (map)
        check((const void *) map, (const void *) (map + index * PIECE), index, least);
}

static void *reader(void *argument)
{
    unsigned seed = (unsigned) (size_t) argument;
    char name[32];

    while (!atomic_load(&stop)) {
        int number = atomic_load(&file_number);

        name_of(number, name);
        int fd = open(name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            die(name);
        char *map = seed % 2 ? mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0) : NULL;
        while (!atomic_load(&stop) && atomic_load(&file_number) == number) {
            long least = atomic_load(&written);
            /* Only if all of that is about this file. */
            if (atomic_load(&file_number) == number)
                look(fd, map, least, &seed);
        }
        if (map)
            munmap(map, 1 << 20);
        close(fd);
    }
    return NULL;
}

static int begin_file(int number)
{
    char name[32];
    int fd;

    name_of(number, name);
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        die(name);
    atomic_store(&written, 0);
    atomic_store(&file_number, number);
    return fd;
}

static void fill_file(int fd, long writes)
{
    for (long i = 0; i < writes; i++) {
        uint64_t piece[PIECE / 8];

        for (int word = 0; word < PIECE / 8; word++)
            piece[word] = (uint64_t) i + 1;
        if (pwrite(fd, piece, PIECE, i * PIECE) != PIECE || pwrite(fd, piece, PIECE, 0) != PIECE)
            die("writing");
        atomic_store(&written, i + 1);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int files, readers, fd;
    long writes;

    if (argc < 4)
        return 2;
    files = atoi(argv[1]);
    writes = atol(argv[2]);
    readers = atoi(argv[3]);
    if (readers > 64 || writes * PIECE > 1 << 20)
        return 2;
    fd = begin_file(1);
    for (int i = 0; i < readers; i++)
        pthread_create(&threads[i], NULL, reader, (void *) (size_t) (i + 1));
    for (int number = 1; number <= files; number++) {
        fill_file(fd, writes);
        if (number < files)
            fd = begin_file(number + 1);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < readers; i++)
        pthread_join(threads[i], NULL);
    printf("%lu reads, %lu stale\n", atomic_load(&reads), atomic_load(&stale));
    return 0;
}
