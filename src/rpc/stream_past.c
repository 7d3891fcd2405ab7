#include "rpc/stream_past.h"

/* Clients' streams have odd ids. */
static unsigned place_of(uint32_t id)
{
    return (id / 2) % STREAM_PAST_KEPT;
}

static bool is_set(const uint64_t *bits, uint32_t id)
{
    return bits[place_of(id) / 64] >> (place_of(id) % 64) & 1;
}

static void set(uint64_t *bits, uint32_t id, bool on)
{
    uint64_t bit = UINT64_C(1) << (place_of(id) % 64);

    if (on)
        bits[place_of(id) / 64] |= bit;
    else
        bits[place_of(id) / 64] &= ~bit;
}

static bool is_kept(const struct stream_past *past, uint32_t id)
{
    return id % 2 == 1 && id <= past->last_id && (past->last_id - id) / 2 < STREAM_PAST_KEPT;
}

/* Whatever lies between was skipped; more than we keep of it need not be gone through. */
static void advance(struct stream_past *past, uint32_t to)
{
    uint32_t from = past->last_id ? past->last_id + 2 : 1;

    if ((to - from) / 2 >= STREAM_PAST_KEPT)
        from = to - 2 * (STREAM_PAST_KEPT - 1);
    for (uint32_t id = from; id <= to && id >= from; id += 2) {
        set(past->opened, id, false);
        set(past->ended, id, false);
    }
    past->last_id = to;
    set(past->opened, to, true);
}

enum stream_word stream_past_open(struct stream_past *past, int32_t id)
{
    uint32_t number = (uint32_t) id;

    if (id > 0 && number % 2 == 1 && number > past->last_id)
        advance(past, number);
    if (!is_kept(past, number))
        return STREAM_SOUND;
    if (!is_set(past->opened, number))
        return STREAM_SKIPPED;
    return is_set(past->ended, number) ? STREAM_ENDED : STREAM_SOUND;
}

void stream_past_end(struct stream_past *past, int32_t id)
{
    if (is_kept(past, (uint32_t) id))
        set(past->ended, (uint32_t) id, true);
}
