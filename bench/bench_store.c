/* What calls of the store cost.    usage: bench-store URL [SECONDS], an SQLite file or a PostgreSQL database made for this */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "store/event_row.h"
#include "store/sandbox_row.h"
#include "store/store.h"

#define THREADS_MAX 32
#define SAMPLES_MAX 200000

typedef int (*call_fn)(struct store *store, struct err *err);

struct worker {
    struct store *store;
    call_fn call;
    int64_t end_ns;
    int64_t *samples; /* owned */
    size_t count;
    pthread_t thread;
};

static char known_id[ID_TEXT_MAX];

static int insert_sandbox(struct store *store, struct err *err)
{
    char id[ID_TEXT_MAX], owner[] = "ann", host[] = "host";
    struct sandbox_row row = { .id = id, .owner_id = owner, .host_id = host, .status = SANDBOX_STATUS_PENDING };

    id_new(SANDBOX_ID_PREFIX, id);
    row.created_ns = clock_wall_ns();
    return sandbox_row_insert(store, &row, NULL, err);
}

static int append_event(struct store *store, struct err *err)
{
    char type[] = "command_executed", payload[] = "{\"exit_code\":0,\"duration_ms\":12}";
    struct event_row row = { .type = type, .payload = payload, .time_ns = clock_wall_ns() };

    return event_row_append(store, &row, 1, NULL, err);
}

static int append_hundred(struct store *store, struct err *err)
{
    char type[] = "command_executed", payload[] = "{\"exit_code\":0,\"duration_ms\":12}";
    struct event_row rows[100];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        rows[i] = (struct event_row){ .type = type, .payload = payload, .time_ns = (int64_t) i };
    return event_row_append(store, rows, ARRAY_LEN(rows), NULL, err);
}

static int move_sandbox(struct store *store, struct err *err)
{
    struct sandbox_move m = { .id = known_id, .to = SANDBOX_STATUS_STOPPING, .now_ns = 1 };

    return sandbox_row_move(store, &m, NULL, err);
}

static int get_sandbox(struct store *store, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };

    return sandbox_row_get(store, known_id, &row, err);
}

static int list_fifty(struct store *store, struct err *err)
{
    autodone(sandbox_rows) struct sandbox_rows rows = { 0 };

    return sandbox_row_list(store, &(struct sandbox_filter){ .owner_id = "ann" }, &(struct store_page){ .limit = 50 }, &rows,
                            err);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    int64_t now = clock_now_ns(), then;

    while (now < w->end_ns && w->count < SAMPLES_MAX) {
        struct err err = ERR_NONE;
        if (w->call(w->store, &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        then = clock_now_ns();
        w->samples[w->count++] = then - now;
        now = then;
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

static void measure(struct store *store, const char *name, call_fn call, int threads, double seconds)
{
    struct worker workers[THREADS_MAX];
    int64_t *all = xalloc(sizeof(int64_t) * SAMPLES_MAX * (size_t) threads), began = clock_now_ns(), took;
    size_t count = 0;

    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .store = store, .call = call, .samples = xalloc(sizeof(int64_t) * SAMPLES_MAX) };
        workers[i].end_ns = began + (int64_t) (seconds * 1e9);
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        memcpy(all + count, workers[i].samples, workers[i].count * sizeof(int64_t));
        count += workers[i].count;
        free(workers[i].samples);
    }
    took = clock_now_ns() - began;
    qsort(all, count, sizeof(*all), by_size);
    printf("%-16s %2d threads  %9.0f calls/s   median %8.1f us   p99 %8.1f us\n", name, threads,
           (double) count * 1e9 / (double) took, (double) all[count / 2] / 1e3, (double) all[count * 99 / 100] / 1e3);
    free(all);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        call_fn call;
    } calls[] = {
        { "sandbox insert", insert_sandbox }, { "sandbox move", move_sandbox }, { "event append", append_event },
        { "100 events", append_hundred },     { "sandbox get", get_sandbox },   { "list of 50", list_fifty },
    };
    static const int threads[] = { 1, 8, 32 };
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    char owner[] = "ann";
    struct sandbox_row row = { .id = known_id, .owner_id = owner };
    autoptr(store) store = NULL;
    struct err err = ERR_NONE;
    struct store_stats stats;

    if (argc < 2) {
        fprintf(stderr, "usage: bench-store URL [SECONDS]\n");
        return 2;
    }
    id_new(SANDBOX_ID_PREFIX, known_id);
    if (store_open(argv[1], NULL, &store, &err) < 0 || sandbox_row_insert(store, &row, NULL, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        for (size_t j = 0; j < ARRAY_LEN(threads); j++)
            measure(store, calls[i].name, calls[i].call, threads[j], seconds);
    }
    store_stats(store, &stats);
    printf("%llu writes in %llu commits\n", (unsigned long long) stats.writes, (unsigned long long) stats.commits);
    return 0;
}
