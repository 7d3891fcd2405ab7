/*
 * A hash table whose links are in its elements.
 *
 * The table owns the array of its buckets and nothing else: it neither allocates, copies nor frees elements, and it does not know their
 * keys. The caller computes the hash of a key and compares the keys of the few elements that have the same hash:
 *
 *     struct hash_link *link = hash_table_first(&table, hash);
 *     while (link && strcmp(name_of(link), name) != 0)
 *         link = hash_link_next(link);
 *
 * A struct that has its link as its first member can be had from the link by a cast, any other by hash_link_in(). The table does not
 * lock: its owner names the lock that guards it. Hashes that an adversary can predict make look-ups slow, never wrong.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_link {
    struct hash_link *next; /* in the same bucket */
    uint64_t hash;
};

struct hash_table {
    struct hash_link **buckets; /* owned; a power of two of them, or none */
    size_t bucket_count;
    size_t count; /* of elements */
};

#define HASH_TABLE_EMPTY ((struct hash_table){ 0 })

/* The element of type `type` whose member `member` the link is. */
#define hash_link_in(link, type, member) ((type *) (void *) ((char *) (link) -offsetof(type, member)))

/* Frees the buckets. The elements, if there are any left, stay as they are. */
void hash_table_done(struct hash_table *table);

/* Does not look whether the table has an element with that key. The element must stay where it is until it is removed. */
void hash_table_add(struct hash_table *table, struct hash_link *link, uint64_t hash);

/* The link must be in the table. */
void hash_table_remove(struct hash_table *table, struct hash_link *link);

/*
 * Walks over all elements in no particular order: NULL gives the first one, and the end is NULL. An element may be removed when the one
 * after it has been asked for; nothing may be added during the walk.
 */
struct hash_link *hash_table_next(const struct hash_table *table, const struct hash_link *link);

/* The next element with the same hash, or NULL. */
static inline struct hash_link *hash_link_next(const struct hash_link *link)
{
    uint64_t hash = link->hash;

    for (link = link->next; link && link->hash != hash; link = link->next)
        continue;
    return (struct hash_link *) (uintptr_t) link;
}

/* An element with this hash, or NULL. */
static inline struct hash_link *hash_table_first(const struct hash_table *table, uint64_t hash)
{
    struct hash_link *link = table->bucket_count ? table->buckets[hash & (table->bucket_count - 1)] : NULL;

    while (link && link->hash != hash)
        link = link->next;
    return link;
}
