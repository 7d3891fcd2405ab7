#include "base/hash_table.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

/* Small, because every directory that the fence knows may have a table. */
#define BUCKETS_MIN 4

void hash_table_done(struct hash_table *table)
{
    free(table->buckets);
    *table = HASH_TABLE_EMPTY;
}

static struct hash_link **hash_table_bucket(const struct hash_table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static void hash_table_grow(struct hash_table *table)
{
    struct hash_table larger = { .bucket_count = table->bucket_count ? table->bucket_count * 2 : BUCKETS_MIN,
                                 .count = table->count };

    larger.buckets = xalloc(larger.bucket_count * sizeof(*larger.buckets));
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (struct hash_link *link = table->buckets[i], *next; link; link = next) {
            struct hash_link **bucket = hash_table_bucket(&larger, link->hash);

            next = link->next;
            link->next = *bucket;
            *bucket = link;
        }
    }
    free(table->buckets);
    *table = larger;
}

void hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash)
{
    struct hash_link **bucket;

    if (table->count >= table->bucket_count)
        hash_table_grow(table);
    bucket = hash_table_bucket(table, hash);
    *link = (struct hash_link){ .next = *bucket, .hash = hash };
    *bucket = link;
    table->count++;
}

void hash_table_remove(struct hash_table *table, struct hash_link *link)
{
    struct hash_link **at = hash_table_bucket(table, link->hash);

    while (*at != link) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = link->next;
    link->next = NULL;
    table->count--;
}

struct hash_link *hash_table_next(const struct hash_table *table, const struct hash_link *link)
{
    size_t bucket = 0;

    if (link && link->next)
        return link->next;
    if (link)
        bucket = (link->hash & (table->bucket_count - 1)) + 1;
    while (bucket < table->bucket_count && !table->buckets[bucket])
        bucket++;
    return bucket < table->bucket_count ? table->buckets[bucket] : NULL;
}
