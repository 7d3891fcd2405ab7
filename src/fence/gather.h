/*
 * Making the list of a hand-over: what the walk over the delta (handover_list.c) and the one over what is gone from the base (gone.c)
 * share. All of it behind the closed gate.
 */
#pragma once

#include "base/clock.h"
#include "fence/handover_int.h"

struct promise {
    size_t path_len;
    mode_t mode;
};

struct gather {
    struct fence *f;
    struct handover_list *list;
    struct buf path;
    struct buf roots;         /* text of meta/roots */
    struct promise *promised; /* owned: directories on the path that only rules asked for so far */
    size_t promised_count, promised_cap;
    int64_t moved_ns; /* the latest move of a directory on the path */
};

/* What an entry says, apart from the tree, whose lock is not held. */
struct found {
    char *name;
    uint8_t flags, type;
    struct place *place;
    struct inode *inode;
};

/* The directory of the base that belongs to the one of the delta. */
struct below {
    int fd;           /* O_PATH; -1: there is none */
    int64_t cover_ns; /* since when nothing of it showed through; 0: it shows through */
};

/* A removal being spelled out. */
struct gone {
    struct gather *g;
    int64_t removed_ns;
    bool has_hidden; /* something stays that the sandbox cannot see */
    bool has_newer;  /* something stays that came later */
};

static inline int64_t gather_ns(struct timespec t)
{
    return (int64_t) t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

/* The path of `g` is that of the change. Directories on it that rules had promised are a change too, now that something is in them. */
void gather_change(struct gather *g, const struct handover_change *change);
struct handover_item *gather_item(struct gather *g, enum handover_item_kind kind, struct inode *dir, const struct found *it);

/* The length to go back to. */
size_t gather_push(struct gather *g, const char *name);
void gather_pop(struct gather *g, size_t len);

bool below_stat(const struct below *below, const char *name, struct stat *ret);
struct handover_was gather_was_of(const struct stat *st);

/* What the base had at the path when it was covered; `base` is what it has now, or NULL. */
struct handover_was gather_was_at(struct gather *g, const struct below *below, const struct stat *base);

/* The path of `g` is that of the name. A hidden directory is gone through for what may be visible in it, and stays. */
int gone_add(struct gone *w, int dirfd, const char *name, struct place *place, unsigned depth);

/* A name with a marker. */
int gone_add_marked(struct gather *g, struct inode *dir, const struct below *below, const struct found *it);

/* What the base has in an opaque directory and the delta has not. */
int gone_add_uncovered(struct gather *g, struct inode *inode, const struct below *in, const struct found *it);
