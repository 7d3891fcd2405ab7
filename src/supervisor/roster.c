#include "supervisor/roster.h"

#include <fcntl.h>
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
    if (entry->pid == 0 && pid != 0 && roster->on_pid)
        roster->on_pid(roster->cookie);
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
        if (entry->pid == 0 && roster->on_pid)
            roster->on_pid(roster->cookie);
        *entry = roster->entries[--roster->count];
    }
    pthread_mutex_unlock(&roster->lock);
}

bool roster_awaits_pids(struct roster *roster)
{
    bool awaits = false;

    pthread_mutex_lock(&roster->lock);
    for (size_t i = 0; i < roster->count && !awaits; i++)
        awaits = roster->entries[i].pid == 0;
    pthread_mutex_unlock(&roster->lock);
    return awaits;
}

void roster_tell(struct roster *roster, void (*on_pid)(void *cookie), void *cookie)
{
    pthread_mutex_lock(&roster->lock);
    roster->on_pid = on_pid;
    roster->cookie = cookie;
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

static void note_stranger(struct roster *roster, pid_t pid, uint32_t session)
{
    pthread_mutex_lock(&roster->lock);
    if (session != 0)
        roster->strangers[roster->stranger_count++ % ROSTER_STRANGERS_MAX] = (struct roster_stranger){ pid, session };
    pthread_mutex_unlock(&roster->lock);
}

/* The latest of that pid; 0: none. */
static uint32_t find_stranger(struct roster *roster, pid_t pid)
{
    uint32_t session = 0;

    pthread_mutex_lock(&roster->lock);
    for (size_t i = 0; i < ROSTER_STRANGERS_MAX && i < roster->stranger_count && session == 0; i++) {
        const struct roster_stranger *one = &roster->strangers[(roster->stranger_count - 1 - i) % ROSTER_STRANGERS_MAX];
        session = one->pid == pid ? one->session : 0;
    }
    pthread_mutex_unlock(&roster->lock);
    return session;
}

void roster_name_of(struct roster *roster, pid_t pid, char out[CTL_NAME_MAX])
{
    size_t count;
    uint32_t session;

    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&roster->lock);
    count = roster->count;
    if (count <= 1 || pid == 0)
        name_all(roster, out);
    pthread_mutex_unlock(&roster->lock);
    if (count <= 1 || pid == 0)
        return;
    session = session_of(pid);
    if (find_session(roster, session, out))
        return;
    note_stranger(roster, pid, session);
    pthread_mutex_lock(&roster->lock);
    name_all(roster, out);
    pthread_mutex_unlock(&roster->lock);
}

/* Also among those that have left. With the lock. */
static bool find_session_at(const struct roster_entry *entries, size_t count, uint32_t session, int64_t wall_ns,
                            char out[CTL_NAME_MAX])
{
    for (size_t i = 0; i < count && session != 0; i++) {
        if (entries[i].pid != session || entries[i].from_ns > wall_ns || entries[i].until_ns < wall_ns)
            continue;
        memcpy(out, entries[i].name, CTL_NAME_MAX);
        return true;
    }
    return false;
}

void roster_name_at(struct roster *roster, pid_t pid, int64_t wall_ns, char out[CTL_NAME_MAX])
{
    uint32_t session = pid == 0 ? 0 : find_stranger(roster, pid);
    size_t past, found;

    if (session == 0 && pid != 0)
        session = session_of(pid);
    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&roster->lock);
    past = roster->past_count < ROSTER_PAST_MAX ? roster->past_count : ROSTER_PAST_MAX;
    found = add_names(roster->past, past, wall_ns, out);
    found += add_names(roster->entries, roster->count, wall_ns, out);
    if (found > 1 && !find_session_at(roster->entries, roster->count, session, wall_ns, out))
        find_session_at(roster->past, past, session, wall_ns, out);
    pthread_mutex_unlock(&roster->lock);
}
