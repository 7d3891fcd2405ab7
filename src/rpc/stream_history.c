#include "rpc/stream_history.h"

/* Clients' streams have odd ids. */
static unsigned stream_history_place(uint32_t id)
{
    return (id / 2) % STREAM_HISTORY_KEPT;
}

static bool stream_history_bit_is_set(const uint64_t *bits, uint32_t id)
{
    return bits[stream_history_place(id) / 64] >> (stream_history_place(id) % 64) & 1;
}

static void stream_history_set_bit(uint64_t *bits, uint32_t id, bool on)
{
    uint64_t bit = UINT64_C(1) << (stream_history_place(id) % 64);

    if (on)
        bits[stream_history_place(id) / 64] |= bit;
    else
        bits[stream_history_place(id) / 64] &= ~bit;
}

static bool stream_history_keeps(const struct stream_history *past, uint32_t id)
{
    return id % 2 == 1 && id <= past->last_id && (past->last_id - id) / 2 < STREAM_HISTORY_KEPT;
}

/* All streams between were skipped. Visits no more of them than the history keeps. */
static void stream_history_advance(struct stream_history *past, uint32_t to)
{
    uint32_t from = past->last_id ? past->last_id + 2 : 1;

    if ((to - from) / 2 >= STREAM_HISTORY_KEPT)
        from = to - 2 * (STREAM_HISTORY_KEPT - 1);
    for (uint32_t id = from; id <= to && id >= from; id += 2) {
        stream_history_set_bit(past->opened, id, false);
        stream_history_set_bit(past->ended, id, false);
    }
    past->last_id = to;
    stream_history_set_bit(past->opened, to, true);
}

enum stream_check stream_history_open(struct stream_history *past, int32_t id)
{
    uint32_t number = (uint32_t) id;

    if (id > 0 && number % 2 == 1 && number > past->last_id)
        stream_history_advance(past, number);
    if (!stream_history_keeps(past, number))
        return STREAM_SOUND;
    if (!stream_history_bit_is_set(past->opened, number))
        return STREAM_SKIPPED;
    return stream_history_bit_is_set(past->ended, number) ? STREAM_ENDED : STREAM_SOUND;
}

void stream_history_end(struct stream_history *past, int32_t id)
{
    if (stream_history_keeps(past, (uint32_t) id))
        stream_history_set_bit(past->ended, (uint32_t) id, true);
}
