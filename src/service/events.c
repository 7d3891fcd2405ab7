#include "service/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/redaction.h"
#include "service/service_int.h"
#include "store/event_row.h"

#define LINE_MAX_EVENTS 4096
#define BATCH_MAX 256
#define FIELDS_MAX 16
#define RETRY_MS 1000
#define WINDOW_LOOK_MAX 20000
#define PAGE_DEFAULT 100
#define REFUSAL "permission_denied"

struct recorder {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    struct event_row *line; /* owned ring: the queue */
    size_t first, count;
    size_t at_work; /* taken from the queue, but not in the store yet */
    uint64_t dropped;
    bool is_stuck; /* the database accepts no events now */
    bool is_ending;
};

/* ---- the log ---- */

/* Writes a log line with a field for each field of the payload. */
static void log_one(const struct event_row *row, const json_t *payload)
{
    enum log_level level = strcmp(row->type, REFUSAL) == 0 || strstr(row->type, "exceeded") || strstr(row->type, "conflict") ||
                                   strstr(row->type, "failed")
                               ? LOG_LEVEL_WARN
                               : LOG_LEVEL_INFO;
    struct log_field fields[FIELDS_MAX];
    char *texts[FIELDS_MAX] = { 0 };
    size_t count = 0;
    const char *key;
    json_t *value;

    if (!log_is_on(level))
        return;
    fields[count++] = LOG_STR("msg", row->type);
    if (*row->sandbox_id)
        fields[count++] = LOG_STR("sandbox_id", row->sandbox_id);
    if (*row->codebase_id)
        fields[count++] = LOG_STR("codebase_id", row->codebase_id);
    if (*row->owner_id)
        fields[count++] = LOG_STR("user_id", row->owner_id);
    json_object_foreach((json_t *) payload, key, value)
    {
        if (count == FIELDS_MAX)
            break;
        if (json_is_string(value))
            fields[count] = LOG_BYTES(key, json_string_value(value), json_string_length(value));
        else if (json_is_integer(value))
            fields[count] = LOG_INT(key, json_integer_value(value));
        else if (json_is_boolean(value))
            fields[count] = LOG_BOOL(key, json_is_true(value));
        else if ((texts[count] = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII)))
            fields[count] = LOG_JSON(key, texts[count]);
        else
            continue;
        count++;
    }
    log_write(level, fields, count);
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
}

/* ---- the queue ---- */

static void fill_row(const struct service *service, const struct event *event, struct event_row *ret)
{
    char *payload = event->payload ? json_dumps(event->payload, JSON_COMPACT) : NULL;

    *ret = (struct event_row){
        .time_ns = event->time_ns ? event->time_ns : clock_wall_ns(),
        .type = xdup(event->type),
        .sandbox_id = xdup(event->sandbox_id ? event->sandbox_id : ""),
        .codebase_id = xdup(event->codebase_id ? event->codebase_id : ""),
        .owner_id = xdup(event->owner ? event->owner : ""),
        .host_id = xdup(service->host_id),
        .payload = payload ? payload : xdup("{}"),
    };
}

void events_add(struct service *service, const struct event *event)
{
    struct recorder *recorder = service->recorder;
    struct event_row row;

    redaction_json(service->redaction, event->payload);
    fill_row(service, event, &row);
    log_one(&row, event->payload);
    json_decref(event->payload);
    pthread_mutex_lock(&recorder->lock);
    while (recorder->count == LINE_MAX_EVENTS && strcmp(row.type, REFUSAL) != 0 && !recorder->is_ending)
        pthread_cond_wait(&recorder->went, &recorder->lock);
    if (recorder->count == LINE_MAX_EVENTS) {
        recorder->dropped++;
        event_row_done(&row);
    } else {
        recorder->line[(recorder->first + recorder->count++) % LINE_MAX_EVENTS] = row;
        pthread_cond_signal(&recorder->came);
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* With the lock held. Returns how many it took. */
static size_t take_batch(struct recorder *recorder, struct event_row batch[BATCH_MAX])
{
    size_t count = recorder->count < BATCH_MAX ? recorder->count : BATCH_MAX;

    for (size_t i = 0; i < count; i++)
        batch[i] = recorder->line[(recorder->first + i) % LINE_MAX_EVENTS];
    recorder->count -= count;
    /* Start at the beginning again when the queue is empty: a ring that always moves on ends up with all its pages in memory. */
    recorder->first = recorder->count > 0 ? (recorder->first + count) % LINE_MAX_EVENTS : 0;
    recorder->at_work = count;
    pthread_cond_broadcast(&recorder->went);
    return count;
}

/* Retries until the database is back or the server ends: the log has the events anyway. Does not repeat a write that may have succeeded. */
static void write_batch(struct service *service, const struct event_row *batch, size_t count)
{
    struct recorder *recorder = service->recorder;

    for (;;) {
        struct err err = ERR_NONE;
        int r = event_row_append(service->store, batch, count, NULL, &err);
        bool is_ending;

        if (r >= 0 || r == -EINPROGRESS)
            return;
        pthread_mutex_lock(&recorder->lock);
        is_ending = recorder->is_ending;
        recorder->is_stuck = true;
        pthread_cond_broadcast(&recorder->went);
        pthread_mutex_unlock(&recorder->lock);
        if (is_ending || !err_is_transient(&err)) {
            log_error("events could not be kept", LOG_UINT("count", count), LOG_STR("error", err.text));
            return;
        }
        log_warn("events wait for the database", LOG_UINT("count", count), LOG_STR("error", err.text));
        nanosleep(&(struct timespec){ .tv_sec = RETRY_MS / 1000 }, NULL);
    }
}

static void *record(void *arg)
{
    struct service *service = arg;
    struct recorder *recorder = service->recorder;
    struct event_row batch[BATCH_MAX];

    pthread_mutex_lock(&recorder->lock);
    for (;;) {
        size_t count;

        while (recorder->count == 0 && !recorder->is_ending)
            pthread_cond_wait(&recorder->came, &recorder->lock);
        if (recorder->count == 0)
            break;
        count = take_batch(recorder, batch);
        pthread_mutex_unlock(&recorder->lock);
        write_batch(service, batch, count);
        for (size_t i = 0; i < count; i++)
            event_row_done(&batch[i]);
        pthread_mutex_lock(&recorder->lock);
        recorder->at_work = 0;
        recorder->is_stuck = false;
        pthread_cond_broadcast(&recorder->went);
    }
    pthread_mutex_unlock(&recorder->lock);
    return NULL;
}

int events_start(struct service *service, struct err *err)
{
    struct recorder *recorder = xnew(struct recorder);
    int r;

    recorder->line = xalloc(LINE_MAX_EVENTS * sizeof(*recorder->line));
    pthread_mutex_init(&recorder->lock, NULL);
    pthread_cond_init(&recorder->came, NULL);
    pthread_cond_init(&recorder->went, NULL);
    service->recorder = recorder;
    r = pthread_create(&recorder->thread, NULL, record, service);
    if (r != 0) {
        free(recorder->line);
        free(recorder);
        service->recorder = NULL;
        return err_errno(err, -r, "starting a thread");
    }
    return 0;
}

void events_stop(struct service *service)
{
    struct recorder *recorder = service->recorder;

    if (!recorder)
        return;
    pthread_mutex_lock(&recorder->lock);
    recorder->is_ending = true;
    pthread_cond_broadcast(&recorder->came);
    pthread_cond_broadcast(&recorder->went);
    pthread_mutex_unlock(&recorder->lock);
    pthread_join(recorder->thread, NULL);
    pthread_mutex_destroy(&recorder->lock);
    pthread_cond_destroy(&recorder->came);
    pthread_cond_destroy(&recorder->went);
    free(recorder->line);
    free(recorder);
    service->recorder = NULL;
}

/* Does not wait while the database is away or full: the wait could be long, and would occupy a thread. */
bool events_flush(struct service *service)
{
    struct recorder *recorder = service->recorder;

    pthread_mutex_lock(&recorder->lock);
    while ((recorder->count > 0 || recorder->at_work > 0) && !recorder->is_stuck)
        pthread_cond_wait(&recorder->went, &recorder->lock);
    bool is_done = recorder->count == 0 && recorder->at_work == 0;
    pthread_mutex_unlock(&recorder->lock);
    return is_done;
}

/* ---- queries ---- */

void event_page_done(struct event_page *page)
{
    for (size_t i = 0; i < page->count; i++) {
        struct event_info *info = &page->items[i];

        free(info->type);
        free(info->sandbox_id);
        free(info->codebase_id);
        free(info->owner);
        free(info->payload);
    }
    free(page->items);
    free(page->next_token);
    *page = (struct event_page){ 0 };
}

/* A token is the sequence number of the last event of the previous page. */
static int parse_token(const char *token, int64_t *ret, struct err *err)
{
    char *end;
    long long number;

    if (!token || !*token)
        return 0;
    errno = 0;
    number = strtoll(token, &end, 10);
    if (*token < '0' || *token > '9' || *end || errno)
        return err_reject(err, -EINVAL, token, "is no page_token");
    *ret = number;
    return 0;
}

static const char *unless_empty(const char *s)
{
    return s && *s ? s : NULL;
}

int events_list(struct service *service, const struct caller *caller, const struct event_query *query, struct event_page *ret,
                struct err *err)
{
    size_t limit = query->page_size == 0 ? PAGE_DEFAULT : query->page_size < STORE_PAGE_MAX ? query->page_size : STORE_PAGE_MAX;
    struct event_filter filter = {
        .type = unless_empty(query->type),
        .sandbox_id = unless_empty(query->sandbox_id),
        .codebase_id = unless_empty(query->codebase_id),
        .owner_id = caller->is_admin ? NULL : caller->owner,
        .since_ns = query->since_ns,
        .newest_first = query->newest_first,
    };
    autodone(event_rows) struct event_rows rows = { 0 };
    int r = parse_token(query->page_token, query->newest_first ? &filter.before : &filter.after, err);

    if (r < 0)
        return r;
    /* So that a caller sees the events of a call that has returned. */
    events_flush(service);
    r = event_row_query(service->store, &filter, limit, &rows, err);
    if (r < 0)
        return r;
    ret->items = rows.count > 0 ? xalloc(rows.count * sizeof(*ret->items)) : NULL;
    for (size_t i = 0; i < rows.count; i++) {
        const struct event_row *row = &rows.rows[i];

        ret->items[ret->count++] = (struct event_info){
            .sequence = row->sequence,
            .time_ns = row->time_ns,
            .type = xdup(row->type),
            .sandbox_id = xdup(row->sandbox_id),
            .codebase_id = xdup(row->codebase_id),
            .owner = xdup(row->owner_id),
            .payload = xdup(row->payload),
        };
    }
    ret->next_token = rows.count == limit ? xprintf("%lld", (long long) rows.rows[rows.count - 1].sequence) : xdup("");
    return 0;
}

int events_window(struct service *service, const struct caller *caller, const char *sandbox_id, size_t limit, size_t offset,
                  struct event_page *ret, int64_t *ret_total, struct err *err)
{
    autofree char *token = xdup("");
    size_t total = 0, looked = 0, cap = 0;
    int r;

    do {
        struct event_query query = { .sandbox_id = sandbox_id,
                                     .codebase_id = "",
                                     .type = "",
                                     .page_size = STORE_PAGE_MAX,
                                     .page_token = token,
                                     .newest_first = true };
        autodone(event_page) struct event_page page = { 0 };

        r = events_list(service, caller, &query, &page, err);
        for (size_t i = 0; r == 0 && i < page.count; i++) {
            if (!*page.items[i].sandbox_id || *page.items[i].codebase_id)
                continue;
            if (total >= offset && total < offset + limit) {
                vec_room(&ret->items, &cap, ret->count);
                ret->items[ret->count++] = page.items[i];
                page.items[i] = (struct event_info){ 0 };
            }
            total++;
        }
        looked += page.count;
        free(token);
        token = xdup(r == 0 && page.next_token ? page.next_token : "");
    } while (r == 0 && *token && looked < WINDOW_LOOK_MAX);
    *ret_total = (int64_t) total;
    return r;
}
