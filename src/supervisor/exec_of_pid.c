#include "supervisor/exec_of_pid.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"

void exec_of_pid_done(struct exec_of_pid *map)
{
    free(map->entries);
    map->entries = NULL;
    map->count = map->cap = map->past_count = 0;
}

static struct exec_of_pid_entry *exec_of_pid_find_entry(struct exec_of_pid *map, const void *key)
{
    for (size_t i = 0; i < map->count; i++) {
        if (map->entries[i].key == key)
            return &map->entries[i];
    }
    return NULL;
}

/* Remembers that the entry had this name until `now`. */
static void note_past(struct exec_of_pid *map, const struct exec_of_pid_entry *entry, int64_t now)
{
    struct exec_of_pid_entry *past = &map->past[map->past_count % EXEC_OF_PID_PAST_MAX];

    if (!*entry->name)
        return;
    *past = *entry;
    past->until_ns = now;
    map->past_count++;
}

void exec_of_pid_set(struct exec_of_pid *map, const void *key, uint32_t pid, const char *name)
{
    int64_t now = clock_wall_ns();

    pthread_mutex_lock(&map->lock);
    struct exec_of_pid_entry *entry = exec_of_pid_find_entry(map, key);
    if (!entry) {
        vec_room(&map->entries, &map->cap, map->count);
        entry = &map->entries[map->count++];
        *entry = (struct exec_of_pid_entry){ .key = key, .from_ns = now, .until_ns = INT64_MAX };
    }
    if (entry->pid == 0 && pid != 0 && map->on_pid)
        map->on_pid(map->cookie);
    entry->pid = pid;
    if (strncmp(entry->name, name, CTL_NAME_MAX - 1) != 0) {
        note_past(map, entry, now);
        entry->from_ns = now;
        memset(entry->name, 0, CTL_NAME_MAX);
        memcpy(entry->name, name, strnlen(name, CTL_NAME_MAX - 1));
    }
    pthread_mutex_unlock(&map->lock);
}

void exec_of_pid_remove(struct exec_of_pid *map, const void *key)
{
    pthread_mutex_lock(&map->lock);
    struct exec_of_pid_entry *entry = exec_of_pid_find_entry(map, key);
    if (entry) {
        note_past(map, entry, clock_wall_ns());
        if (entry->pid == 0 && map->on_pid)
            map->on_pid(map->cookie);
        *entry = map->entries[--map->count];
    }
    pthread_mutex_unlock(&map->lock);
}

bool exec_of_pid_is_incomplete(struct exec_of_pid *map)
{
    bool awaits = false;

    pthread_mutex_lock(&map->lock);
    for (size_t i = 0; i < map->count && !awaits; i++)
        awaits = map->entries[i].pid == 0;
    pthread_mutex_unlock(&map->lock);
    return awaits;
}

void exec_of_pid_notify_with(struct exec_of_pid *map, void (*on_pid)(void *cookie), void *cookie)
{
    pthread_mutex_lock(&map->lock);
    map->on_pid = on_pid;
    map->cookie = cookie;
    pthread_mutex_unlock(&map->lock);
}

/* The session id in the innermost pid namespace: the last number of "NSsid:". 0 if it cannot be read. */
static uint32_t session_of(pid_t pid)
{
    char status[4096];

    proc_read_file(pid, "status", status, sizeof(status));
    char *line = strstr(status, "\nNSsid:");
    char *end = line ? strchr(line + 1, '\n') : NULL;
    if (!end)
        return 0;
    *end = '\0';
    char *last = strrchr(line + 1, '\t');
    return last ? (uint32_t) strtoul(last + 1, NULL, 10) : 0;
}

/* Joins the names that were valid at that time, and returns their number. */
static size_t add_names(const struct exec_of_pid_entry *entries, size_t count, int64_t wall_ns, char out[CTL_NAME_MAX])
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

/* Returns the latest entry of that pid; 0 if there is none. */
static uint32_t find_unknown_pid(struct exec_of_pid *map, pid_t pid)
{
    uint32_t session = 0;

    pthread_mutex_lock(&map->lock);
    for (size_t i = 0; i < EXEC_OF_PID_UNKNOWN_MAX && i < map->unknown_count && session == 0; i++) {
        const struct exec_of_pid_unknown *one = &map->unknown_pids[(map->unknown_count - 1 - i) % EXEC_OF_PID_UNKNOWN_MAX];
        session = one->pid == pid ? one->session : 0;
    }
    pthread_mutex_unlock(&map->lock);
    return session;
}

/* Finds the entry that had the session at that time. The caller holds the lock. */
static bool find_session_at(const struct exec_of_pid_entry *entries, size_t count, uint32_t session, int64_t wall_ns,
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

/* Reads /proc without the lock. */
void exec_of_pid_find(struct exec_of_pid *map, pid_t pid, char out[CTL_NAME_MAX])
{
    uint32_t session = 0;
    bool is_clear;

    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&map->lock);
    is_clear = map->count <= 1 || pid == 0;
    if (!is_clear) {
        pthread_mutex_unlock(&map->lock);
        session = session_of(pid);
        pthread_mutex_lock(&map->lock);
    }
    if (is_clear || !find_session_at(map->entries, map->count, session, INT64_MAX, out)) {
        if (session != 0)
            map->unknown_pids[map->unknown_count++ % EXEC_OF_PID_UNKNOWN_MAX] = (struct exec_of_pid_unknown){ pid, session };
        add_names(map->entries, map->count, INT64_MAX, out);
    }
    pthread_mutex_unlock(&map->lock);
}

void exec_of_pid_find_at(struct exec_of_pid *map, pid_t pid, int64_t wall_ns, char out[CTL_NAME_MAX])
{
    uint32_t session = pid == 0 ? 0 : find_unknown_pid(map, pid);
    size_t past, found;

    if (session == 0 && pid != 0)
        session = session_of(pid);
    memset(out, 0, CTL_NAME_MAX);
    pthread_mutex_lock(&map->lock);
    past = map->past_count < EXEC_OF_PID_PAST_MAX ? map->past_count : EXEC_OF_PID_PAST_MAX;
    found = add_names(map->past, past, wall_ns, out);
    found += add_names(map->entries, map->count, wall_ns, out);
    if (found > 1 && !find_session_at(map->entries, map->count, session, wall_ns, out))
        find_session_at(map->past, past, session, wall_ns, out);
    pthread_mutex_unlock(&map->lock);
}
