#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "rules_from_text.h"

#define THREADS 8
#define ROUNDS 3000

static const char rules_text[] =
    "**/*=read; /a*/**=write; **/*x*y*=none; **/b?/**=view; **/[cd]*/e=none; /s/**=none; /s/p=read";

static const char *const words[] = { "a", "ab", "b1", "c", "d2", "e", "xy", "axby", "s", "p", "zzz", "\xc3\xa9" };

/* Makes a path from a number, the same for every thread. */
static void path_of(unsigned number, char path[128])
{
    path[0] = '\0';
    for (int depth = 0; depth < 1 + (int) (number % 5); depth++) {
        strcat(path, "/");
        strcat(path, words[(number * 2654435761u >> (3 * depth + 5)) % ARRAY_LEN(words)]);
    }
}

struct job {
    struct ruleset *rules;
    enum level *expected;
    _Atomic int wrong;
};

static void *ask(void *cookie)
{
    struct job *job = cookie;
    char path[128];

    for (unsigned i = 0; i < ROUNDS; i++) {
        path_of(i, path);
        if (ruleset_level_of(job->rules, path) != job->expected[i])
            atomic_fetch_add(&job->wrong, 1);
        autoptr(match_state) at = ruleset_step(job->rules, ruleset_root(job->rules), words[i % ARRAY_LEN(words)],
                                               strlen(words[i % ARRAY_LEN(words)]));
        ruleset_may_show_below(job->rules, at);
        ruleset_may_write_child(job->rules, at);
    }
    ruleset_unref(job->rules);
    return NULL;
}

/* All threads start with an empty cache, so they build the same states and transitions at once. */
static void ask_from_many_threads(size_t cache_bytes)
{
    struct rule_list list = rules_from_text(rules_text);
    struct ruleset_options options = { .cache_bytes = cache_bytes };
    struct ruleset *alone, *shared;
    enum level *expected = xalloc(ROUNDS * sizeof(*expected));
    pthread_t threads[THREADS];
    char path[128];

    assert_int_equal(ruleset_new(&list, NULL, &alone, NULL), 0);
    assert_int_equal(ruleset_new(&list, &options, &shared, NULL), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        path_of(i, path);
        expected[i] = ruleset_level_of(alone, path);
    }
    struct job job = { .expected = expected, .rules = shared };
    for (int i = 0; i < THREADS; i++) {
        ruleset_ref(shared);
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &job), 0);
    }
    ruleset_unref(shared);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(job.wrong, 0);
    ruleset_unref(alone);
    rule_list_done(&list);
    free(expected);
}

static void threads_sharing_a_ruleset_get_the_answers_of_one(void **state)
{
    (void) state;
    for (int i = 0; i < 10; i++)
        ask_from_many_threads(0);
}

static void also_when_hardly_anything_can_be_kept(void **state)
{
    (void) state;
    ask_from_many_threads(5000);
    ask_from_many_threads(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_sharing_a_ruleset_get_the_answers_of_one),
        cmocka_unit_test(also_when_hardly_anything_can_be_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
