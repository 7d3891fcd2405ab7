#include "supervisor/event_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct event_log_entry {
    struct ctl_event event; /* its strings point into `text` */
    char text[];
};

void event_log_done(struct event_log *event_log)
{
    for (size_t i = 0; event_log->entries && i < EVENT_LOG_MAX; i++)
        free(event_log->entries[i]);
    free(event_log->entries);
    *event_log = (struct event_log){ 0 };
}

static size_t text_len(const char *text)
{
    return text ? strnlen(text, EVENT_LOG_TEXT_MAX) : 0;
}

static const char *event_log_put_text(char **at, const char *text)
{
    char *begin = *at;
    size_t len = text_len(text);

    if (len)
        memcpy(begin, text, len);
    begin[len] = '\0';
    *at += len + 1;
    return begin;
}

static struct event_log_entry *event_log_copy_event(const struct ctl_event *event)
{
    struct event_log_entry *entry =
        xalloc(sizeof(*entry) + text_len(event->exec) + text_len(event->subject) + text_len(event->detail) + 3);
    char *at = entry->text;

    entry->event = *event;
    entry->event.exec = event_log_put_text(&at, event->exec);
    entry->event.subject = event_log_put_text(&at, event->subject);
    entry->event.detail = event_log_put_text(&at, event->detail);
    if (entry->event.wall_ns == 0)
        entry->event.wall_ns = clock_wall_ns();
    return entry;
}

static bool is_one_too_many(struct event_log *event_log)
{
    int64_t now = clock_now_ns();

    event_log->denial_count++;
    if (now - event_log->minute_began_ns >= 60 * CLOCK_NS_PER_SEC) {
        event_log->minute_began_ns = now;
        event_log->minute_count = 0;
    }
    if (event_log->minute_count < EVENT_LOG_DENIALS_PER_MINUTE) {
        event_log->minute_count++;
        return false;
    }
    event_log->dropped_count++;
    return true;
}

void event_log_add(struct event_log *event_log, const struct ctl_event *event)
{
    if (event->kind == CTL_EVENT_DENIED && is_one_too_many(event_log))
        return;
    if (!event_log->entries)
        event_log->entries = xalloc(EVENT_LOG_MAX * sizeof(*event_log->entries));
    struct event_log_entry *entry = event_log_copy_event(event);
    entry->event.number = ++event_log->last;
    struct event_log_entry **place = &event_log->entries[event_log->last % EVENT_LOG_MAX];
    free(*place);
    *place = entry;
    if (event_log->fn)
        event_log->fn(event_log->cookie);
}

uint64_t event_log_next(const struct event_log *event_log, uint64_t after, struct ctl_event *ret)
{
    if (after >= event_log->last)
        return 0;
    uint64_t oldest = event_log->last < EVENT_LOG_MAX ? 1 : event_log->last - EVENT_LOG_MAX + 1;
    uint64_t number = after + 1 < oldest ? oldest : after + 1;
    *ret = event_log->entries[number % EVENT_LOG_MAX]->event;
    return number;
}
