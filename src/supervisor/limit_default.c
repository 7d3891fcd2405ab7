#include "supervisor/limit_default.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include "base/defaults.h"

#define DISK_BYTES ((uint64_t) DEFAULT_DISK_GIB << 30)
#define FILES ((uint64_t) DEFAULT_FILES)
#define FILES_MIN 16384ULL
#define DISK_BYTES_PER_FILE 8192
#define MEMORY_BYTES_PER_FILE 512

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t limit_default_disk(const char *dir_path)
{
    struct statvfs st;

    if (statvfs(dir_path, &st) < 0 || st.f_blocks == 0)
        return DISK_BYTES;
    return min_of(DISK_BYTES, (uint64_t) st.f_blocks * st.f_frsize / 2);
}

uint64_t limit_default_files(uint64_t disk_bytes, uint64_t memory_bytes)
{
    uint64_t files = FILES;

    if (disk_bytes)
        files = min_of(files, disk_bytes / DISK_BYTES_PER_FILE);
    if (memory_bytes)
        files = min_of(files, memory_bytes / MEMORY_BYTES_PER_FILE);
    return files < FILES_MIN ? FILES_MIN : files;
}

uint64_t limit_default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t) pages * (uint64_t) size / 4 * 3 : 0;
}
