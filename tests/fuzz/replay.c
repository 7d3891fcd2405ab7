/*
 * Runs a fuzz target over the files of the directories it is given, in the order of their names: the corpus as a
 * regression test, for builds without libFuzzer.
 */
#include <dirent.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/file.h"
#include "fuzz.h"

#define INPUT_MAX ((size_t) 1 << 20)

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool replay_file(int dirfd, const char *name)
{
    autodone(buf) struct buf input = BUF_EMPTY;
    int r = file_read(dirfd, name, INPUT_MAX, &input);

    if (r < 0) {
        fprintf(stderr, "%s: %s\n", name, strerror(-r));
        return false;
    }
    printf("%s\n", name);
    fflush(stdout); /* the last name printed is that of the input that aborts */
    LLVMFuzzerTestOneInput((const uint8_t *) input.data, input.len);
    return true;
}

/* How many files were replayed, or -1. */
static int replay_directory(const char *path)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_visible, alphasort);
    autofd int dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = count >= 0 && dirfd >= 0;

    if (!ok)
        perror(path);
    for (int i = 0; i < count; i++) {
        ok = ok && replay_file(dirfd, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return ok ? count : -1;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int count = replay_directory(argv[i]);
        if (count < 0)
            return EXIT_FAILURE;
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
