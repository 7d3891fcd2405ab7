/*
 * One thread writes a file past the page cache, many blocks at once and without waiting for each (O_DIRECT, io_submit), as
 * databases do; others read it through the page cache meanwhile. When the last block of a round was acknowledged the readers
 * stop, and what they find then must be what was written.
 *
 *     probe_direct FILE ROUNDS BLOCKS READERS
 *
 * Prints how many reads were made while blocks were on their way, and how many bytes were older than the last write at the
 * end of a round; ends with 0 in either case.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS_MOST 1024

static const char *path;
static int blocks;
static atomic_int stop, at_work;
static atomic_ulong reads;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void *reader(void *argument)
{
    unsigned seed = (unsigned) (size_t) argument;
    char bytes[4 * BLOCK];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        die(path);
    atomic_fetch_add(&at_work, 1);
    while (!atomic_load(&stop)) {
        if (pread(fd, bytes, sizeof(bytes), (off_t) (rand_r(&seed) % (unsigned) blocks) * BLOCK) < 0)
            die("reading");
        atomic_fetch_add(&reads, 1);
    }
    close(fd);
    return NULL;
}

/* All blocks of the file, acknowledged when this returns. */
static void write_round(aio_context_t context, int fd, char *buffer, int round)
{
    static struct iocb requests[BLOCKS_MOST], *pointers[BLOCKS_MOST];
    struct io_event events[BLOCKS_MOST];
    int sent = 0, done = 0;

    for (int i = 0; i < blocks; i++) {
        memset(buffer + (size_t) i * BLOCK, round % 255 + 1, BLOCK);
        requests[i] = (struct iocb){ .aio_fildes = (uint32_t) fd,
                                     .aio_lio_opcode = IOCB_CMD_PWRITE,
                                     .aio_buf = (uint64_t) (uintptr_t) (buffer + (size_t) i * BLOCK),
                                     .aio_nbytes = BLOCK,
                                     .aio_offset = (int64_t) i * BLOCK };
        pointers[i] = &requests[i];
    }
    while (sent < blocks) {
        long n = syscall(SYS_io_submit, context, (long) (blocks - sent), pointers + sent);
        if (n <= 0)
            die("io_submit");
        sent += (int) n;
    }
    while (done < blocks) {
        long n = syscall(SYS_io_getevents, context, 1L, (long) blocks, events, NULL);
        if (n <= 0)
            die("io_getevents");
        for (long i = 0; i < n; i++) {
            if (events[i].res != BLOCK)
                die("a write was not made in full");
        }
        done += (int) n;
    }
}

static size_t count_stale(int round)
{
    static char bytes[BLOCKS_MOST * BLOCK];
    size_t size = (size_t) blocks * BLOCK, stale = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || pread(fd, bytes, size, 0) != (ssize_t) size)
        die("looking");
    close(fd);
    for (size_t i = 0; i < size; i++)
        stale += bytes[i] != (char) (round % 255 + 1);
    return stale;
}

static void read_beside(aio_context_t context, int fd, char *buffer, int round, int readers)
{
    pthread_t threads[64];

    atomic_store(&stop, 0);
    atomic_store(&at_work, 0);
    for (int i = 0; i < readers; i++)
        pthread_create(&threads[i], NULL, reader, (void *) (size_t) (round * readers + i + 1));
    while (atomic_load(&at_work) < readers)
        usleep(100);
    write_round(context, fd, buffer, round);
    atomic_store(&stop, 1);
    for (int i = 0; i < readers; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    aio_context_t context = 0;
    char *buffer;
    size_t stale = 0;

    if (argc < 5)
        return 2;
    path = argv[1];
    int rounds = atoi(argv[2]), readers = atoi(argv[4]);
    blocks = atoi(argv[3]);
    if (blocks < 1 || blocks > BLOCKS_MOST || readers > 64)
        return 2;
    buffer = aligned_alloc(BLOCK, (size_t) blocks * BLOCK);
    int fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0644);
    if (fd < 0 || !buffer || ftruncate(fd, (off_t) blocks * BLOCK) < 0 || syscall(SYS_io_setup, BLOCKS_MOST, &context) < 0)
        die("beginning");
    for (int round = 1; round <= rounds; round++) {
        read_beside(context, fd, buffer, round, readers);
        stale += count_stale(round);
    }
    printf("%lu reads, %zu stale\n", atomic_load(&reads), stale);
    return 0;
}
