#include "supervisor/roster.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"

void roster_done(struct roster *roster)
{
    free(roster->entries);
    roster->entries = NULL;
    roster->count = roster->cap = roster->past_count = 0;
}

static struct roster_entry *find(struct roster *roster, const void *key)
{
    for (size_t i = 0; i < roster->count; i++) {
        if (roster->entries[i].key == key)
            return &roster->entries[i];
    }
    return NULL;
}

/* It has this name no longer. */
static void note_past(struct roster *roster, const struct roster_entry *entry, int64_t now)
{
    struct roster_entry *past = &roster->past[roster->past_count % ROSTER_PAST_MAX];

    if (!*entry->name)
        return;
    *past = *entry;
    past->until_ns = now;
    roster->past_count++;
}

void roster_set(struct roster *roster, const void *key, uint32_t pid, const char *name)
{
    int64_t now = clock_wall_ns();

    pthread_mutex_lock(&roster->lock);
    struct roster_entry *entry = find(roster, key);
    if (!entry) {
        vec_room(&roster->entries, &roster->cap, roster->count);
        entry = &roster->entries[roster->count++];
        *entry = (struct roster_entry){ .key = key, .from_ns = now, .until_ns = INT64_MAX };
    }
    entry->pid = pid;
    if (strncmp(entry->name, name, CTL_NAME_MAX - 1) != 0) {
        note_past(roster, entry, now);
        entry->from_ns = now;
        memset(entry->name, 0, CTL_NAME_MAX);
        memcpy(entry->name, name, strnlen(name, CTL_NAME_MAX - 1));
    }
    pthread_mutex_unlock(&roster->lock);
}

void roster_remove(struct roster *roster, const void *key)
{
    pthread_mutex_lock(&roster->lock);
    struct roster_entry *entry = find(roster, key);
    if (entry) {
        note_past(roster, entry, clock_wall_ns());
        *entry = roster->entries[--roster->count];
    }
    pthread_mutex_unlock(&roster->lock);
}

/* The session id as seen in the innermost pid namespace: the last number of "NSsid:". 0: not to be had. */
static uint32_t session_of(pid_t pid)
{
    char path[64], status[4096];
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);
    if (n <= 0)
        return 0;
    status[n] = '\0';
    char *line = strstr(status, "\nNSsid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return 0;
    *end = '\0';
    char *last = strrchr(line + 1, '\t');
    return last ? (uint32_t) strtoul(last + 1, NULL, 10) : 0;
}

/* Joins the names of those that had one then. How many these are. */
static size_t add_names(const struct roster_entry *entries, size_t count, int64_t wall_ns, char out[CTL_NAME_MAX])
{
    size_t len = strlen(out), found = 0;

    for (size_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        size_t more = strlen(name) + (len > 0);

        if (!*name || entries[i].from_ns > wall_ns || entries[i].until_ns < wall_ns)
            continue;
        found++;
        if (len + more >= CTL_NAME_MAX)
            continue;
        snprintf(out + len, CTL_NAME_MAX - len, "%s%s", len ? "," : "", name);
        len += more;
    }
    return found;
}

static void name_all(const struct roster *roster, char out[CTL_NAME_MAX])
{
    add_names(roster->entries, roster->count, INT64_MAX, out);
}

static bool find_session(struct roster *roster, uint32_t session, char out[CTL_NAME_MAX])
{
    bool found = false;

    pthread_mutex_lock(&roster->lock);
    for (size_t i = 0; i < roster->count && session != 0 && !found; i++) {
        found = roster->entries[i].pid == session;
        if (found)
            memcpy(out, roster->entries[i].name, CTL_NAME_MAX);
    }
    pthread_mutex_unlock(&roster->lock);
    return found;
}

void roster_name_of(struct roster *roster, pid_t pid, char out[CTL_NAME_MAX])
{
    size_t count;

    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&roster->lock);
    count = roster->count;
    if (count <= 1 || pid == 0)
        name_all(roster, out);
    pthread_mutex_unlock(&roster->lock);
    if (count <= 1 || pid == 0 || find_session(roster, session_of(pid), out))
        return;
    pthread_mutex_lock(&roster->lock);
    name_all(roster, out);
    pthread_mutex_unlock(&roster->lock);
}

void roster_name_at(struct roster *roster, pid_t pid, int64_t wall_ns, char out[CTL_NAME_MAX])
{
    size_t past, found;

    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&roster->lock);
    past = roster->past_count < ROSTER_PAST_MAX ? roster->past_count : ROSTER_PAST_MAX;
    found = add_names(roster->past, past, wall_ns, out);
    found += add_names(roster->entries, roster->count, wall_ns, out);
    pthread_mutex_unlock(&roster->lock);
    if (found > 1 && pid != 0)
        find_session(roster, session_of(pid), out);
}
