#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/hash_table.h"
#include "base/mem.h"

struct word {
    int number;
    struct hash_link link;
    char text[16];
};

static struct word *word_of(struct hash_link *link)
{
    return hash_link_in(link, struct word, link);
}

static struct word *find(const struct hash_table *table, const char *text, uint64_t hash)
{
    struct hash_link *link = hash_table_first(table, hash);

    while (link && strcmp(word_of(link)->text, text) != 0)
        link = hash_link_next(link);
    return link ? word_of(link) : NULL;
}

static void an_empty_table_has_no_elements(void **state)
{
    struct hash_table table = HASH_TABLE_EMPTY;

    (void) state;
    assert_null(hash_table_first(&table, 0));
    assert_null(hash_table_next(&table, NULL));
    hash_table_done(&table);
    hash_table_done(&table);
}

static void every_element_is_found_however_many_there_are(void **state)
{
    enum { COUNT = 1000 };
    struct hash_table table = HASH_TABLE_EMPTY;
    struct word *words = xalloc(COUNT * sizeof(*words));

    (void) state;
    for (int i = 0; i < COUNT; i++) {
        words[i].number = i;
        snprintf(words[i].text, sizeof(words[i].text), "word-%d", i);
        hash_table_add(&table, &words[i].link, hash_text(words[i].text));
    }
    assert_int_equal(table.count, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_ptr_equal(find(&table, words[i].text, hash_text(words[i].text)), &words[i]);
    assert_null(find(&table, "another", hash_text("another")));
    hash_table_done(&table);
    free(words);
}

static void elements_with_the_same_hash_are_told_apart_by_their_keys(void **state)
{
    struct hash_table table = HASH_TABLE_EMPTY;
    struct word a = { .text = "a" }, b = { .text = "b" }, c = { .text = "c" }, same_bucket = { .text = "a" };

    (void) state;
    hash_table_add(&table, &a.link, 7);
    hash_table_add(&table, &same_bucket.link, 7 + (1 << 20));
    hash_table_add(&table, &b.link, 7);
    hash_table_add(&table, &c.link, 7);
    assert_ptr_equal(find(&table, "a", 7), &a);
    assert_ptr_equal(find(&table, "b", 7), &b);
    assert_ptr_equal(find(&table, "c", 7), &c);
    hash_table_remove(&table, &b.link);
    assert_ptr_equal(find(&table, "a", 7), &a);
    assert_null(find(&table, "b", 7));
    assert_ptr_equal(find(&table, "a", 7 + (1 << 20)), &same_bucket);
    assert_int_equal(table.count, 3);
    hash_table_done(&table);
}

static void a_walk_meets_every_element_once_and_may_remove_them(void **state)
{
    enum { COUNT = 100 };
    struct hash_table table = HASH_TABLE_EMPTY;
    struct word words[COUNT] = { 0 };
    int met = 0;

    (void) state;
    for (int i = 0; i < COUNT; i++)
        hash_table_add(&table, &words[i].link, (uint64_t) i * 3);
    for (struct hash_link *link = hash_table_next(&table, NULL), *next; link; link = next) {
        next = hash_table_next(&table, link);
        assert_int_equal(word_of(link)->number++, 0);
        met++;
        hash_table_remove(&table, link);
    }
    assert_int_equal(met, COUNT);
    assert_int_equal(table.count, 0);
    assert_null(hash_table_next(&table, NULL));
    hash_table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_no_elements),
        cmocka_unit_test(every_element_is_found_however_many_there_are),
        cmocka_unit_test(elements_with_the_same_hash_are_told_apart_by_their_keys),
        cmocka_unit_test(a_walk_meets_every_element_once_and_may_remove_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
