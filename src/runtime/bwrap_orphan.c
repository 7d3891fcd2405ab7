#include "runtime/bwrap_orphan.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/proc.h"
#include "runtime/bwrap_args.h"

#define TEXT_MAX 4096

static bool is_bwrap(int pid)
{
    char name[TEXT_MAX];

    proc_read_file(pid, "comm", name, sizeof(name));
    return strcmp(name, "bwrap\n") == 0;
}

static bool is_our_call(int pid)
{
    char text[TEXT_MAX];
    const char *word = text, *end = text + proc_read_file(pid, "cmdline", text, sizeof(text));

    for (const char *const *expected = bwrap_call; *expected; expected++) {
        if (word >= end || strcmp(word, *expected) != 0)
            return false;
        word += strlen(word) + 1;
    }
    return true;
}

/* A child that continues becomes init soon, with another name, and a child whose bwrap runs has that as its parent. */
static bool is_orphan(int pid)
{
    char text[TEXT_MAX];
    const char *ppid, *ns;
    size_t len;

    if (!is_bwrap(pid) || !is_our_call(pid))
        return false;
    proc_read_file(pid, "status", text, sizeof(text));
    ppid = strstr(text, "\nPPid:\t");
    ns = strstr(text, "\nNSpid:\t");
    if (!ppid || !ns)
        return false;
    len = strcspn(ns + 1, "\n");
    return len > 2 && strncmp(ns + 1 + len - 2, "\t1", 2) == 0 && !is_bwrap(atoi(ppid + strlen("\nPPid:\t")));
}

/* Checks again after opening the pidfd: if the pid was reused meanwhile, the new process is not an orphan. */
static bool bwrap_orphan_kill(int pid)
{
    autofd int fd = (int) syscall(SYS_pidfd_open, pid, 0);

    return fd >= 0 && is_orphan(pid) && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
}

int bwrap_orphan_sweep(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int count = 0;

    while (dir && (entry = readdir(dir))) {
        int pid = atoi(entry->d_name);

        if (pid > 0 && is_orphan(pid))
            count += bwrap_orphan_kill(pid);
    }
    if (dir)
        closedir(dir);
    return count;
}
