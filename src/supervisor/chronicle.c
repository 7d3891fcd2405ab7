#include "supervisor/chronicle.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct chronicle_entry {
    struct ctl_event event; /* its strings point into `text` */
    char text[];
};

void chronicle_done(struct chronicle *chronicle)
{
    for (size_t i = 0; chronicle->entries && i < CHRONICLE_MAX; i++)
        free(chronicle->entries[i]);
    free(chronicle->entries);
    *chronicle = (struct chronicle){ 0 };
}

static size_t text_len(const char *text)
{
    return text ? strnlen(text, CHRONICLE_TEXT_MAX) : 0;
}

static const char *put(char **at, const char *text)
{
    char *begin = *at;
    size_t len = text_len(text);

    if (len)
        memcpy(begin, text, len);
    begin[len] = '\0';
    *at += len + 1;
    return begin;
}

static struct chronicle_entry *copy(const struct ctl_event *event)
{
    struct chronicle_entry *entry =
        xalloc(sizeof(*entry) + text_len(event->exec) + text_len(event->subject) + text_len(event->detail) + 3);
    char *at = entry->text;

    entry->event = *event;
    entry->event.exec = put(&at, event->exec);
    entry->event.subject = put(&at, event->subject);
    entry->event.detail = put(&at, event->detail);
    if (entry->event.wall_ns == 0)
        entry->event.wall_ns = clock_wall_ns();
    return entry;
}

static bool is_one_too_many(struct chronicle *chronicle)
{
    int64_t now = clock_now_ns();

    chronicle->denial_count++;
    if (now - chronicle->minute_began_ns >= 60 * CLOCK_NS_PER_SEC) {
        chronicle->minute_began_ns = now;
        chronicle->minute_count = 0;
    }
    if (chronicle->minute_count < CHRONICLE_DENIALS_PER_MINUTE) {
        chronicle->minute_count++;
        return false;
    }
    chronicle->dropped_count++;
    return true;
}

void chronicle_add(struct chronicle *chronicle, const struct ctl_event *event)
{
    if (event->kind == CTL_EVENT_DENIED && is_one_too_many(chronicle))
        return;
    if (!chronicle->entries)
        chronicle->entries = xalloc(CHRONICLE_MAX * sizeof(*chronicle->entries));
    struct chronicle_entry *entry = copy(event);
    entry->event.number = ++chronicle->last;
    struct chronicle_entry **place = &chronicle->entries[chronicle->last % CHRONICLE_MAX];
    free(*place);
    *place = entry;
    if (chronicle->fn)
        chronicle->fn(chronicle->cookie);
}

uint64_t chronicle_next(const struct chronicle *chronicle, uint64_t after, struct ctl_event *ret)
{
    if (after >= chronicle->last)
        return 0;
    uint64_t oldest = chronicle->last < CHRONICLE_MAX ? 1 : chronicle->last - CHRONICLE_MAX + 1;
    uint64_t number = after + 1 < oldest ? oldest : after + 1;
    *ret = chronicle->entries[number % CHRONICLE_MAX]->event;
    return number;
}
