/* What the files of landing share. */
#pragma once

#include <limits.h>

#include "review/apply_txn.h"

/*
 * A step of the journal. Each knows by the numbers of the files involved whether it was made, so it can be made or taken back any
 * number of times.
 *
 *     put      the staged file at `temp` and what is at `path` change places (or it is moved there, if nothing is)
 *     part     something in a directory that a put brings: for an undo
 *     remove   what is at `path` is moved to `temp`, in the nearest directory that stays
 *     rmdir    the directory is moved to `temp` likewise, if it is empty; one that is not, stays
 *     mode     permission bits
 *
 * In a codebase they are made by one of its transactions, and `temp` is where the record has the staged file.
 */
enum apply_step_kind {
    APPLY_STEP_PUT,
    APPLY_STEP_PART,
    APPLY_STEP_REMOVE,
    APPLY_STEP_RMDIR,
    APPLY_STEP_MODE,
};

/* What is told of a file in the journal. */
struct apply_step_file {
    mode_t mode; /* 0: nothing */
    uid_t uid;
    gid_t gid;
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

struct apply_step {
    enum apply_step_kind kind;
    char *path, *temp; /* owned; `temp` may be NULL */
    struct apply_step_file was, now;
    char hash[2 * FILE_STATE_HASH_BYTES + 1]; /* of `now`, or empty */
    char kept[16];                            /* the copy of `was` in <record>/kept, or empty */
};

struct apply_journal {
    enum apply_txn_state state;
    const char *name; /* of its file in the record, a literal; see apply_journal_mark() */
    int64_t time_ns;
    char undoes[ID_TEXT_MAX];
    char codebase[ID_TEXT_MAX]; /* of which a version is made; "": the base is a directory */
    struct buf notes, back, drops, follow_up;
    struct apply_step *steps; /* owned */
    size_t count, cap;
};

#define APPLY_JOURNAL_NAME "journal" /* of one that is being written */
#define APPLY_JOURNAL_EMPTY ((struct apply_journal){ .name = APPLY_JOURNAL_NAME })

/* What comes into its place by one rename. */
struct apply_unit {
    char *path, *temp; /* owned */
    struct stat was;
    struct stat staged;
    uid_t uid;
    gid_t gid;
    mode_t mask; /* what of a mode is for those who can get there; for what is new */
    bool is_dir;
};

/* A wish, with what belongs to it. */
struct staged_change {
    struct apply_txn_change change; /* its path is owned */
    struct stat attrs, staged;
    uint8_t hash[FILE_STATE_HASH_BYTES];
    bool has_hash;
    size_t unit;   /* APPLY_TXN_NO_UNIT: deleted, or only its mode */
    char kept[16]; /* as in struct apply_step */
};

#define APPLY_TXN_NO_UNIT SIZE_MAX

/* What is done otherwise in a directory and in a codebase. */
struct apply_txn_ops {
    /* Every new file, on disk, and none in its place. */
    int (*stage)(struct apply_txn *txn, struct err *err);
    void (*list_steps)(struct apply_txn *txn);
    /* With the journal on disk: all of it, or none of it. Marks it as done, taken back, or given up. */
    int (*perform)(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                   struct err *err);
    /* The same after a kill, in the middle of that. */
    int (*resume)(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                  struct err *err);
    int (*take_back)(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err);
    /* Removes what lies aside, and what was staged and never placed. */
    int (*clean)(const struct apply_txn_site *site, int record_fd, const struct apply_journal *journal);
};

extern const struct apply_txn_ops apply_txn_in_directory, apply_txn_in_codebase;

const struct apply_txn_ops *apply_txn_ops_of(const struct apply_journal *journal);

struct apply_txn {
    const struct apply_txn_ops *ops;
    struct apply_txn_site site;
    int record_fd; /* owned */
    char id[ID_TEXT_MAX];
    struct staged_change *changes; /* owned */
    size_t change_count, change_cap;
    struct apply_unit *units; /* owned */
    size_t unit_count, unit_cap;
    size_t kept_count;
    mode_t umask; /* by apply_txn_stage() */
    struct apply_journal journal;
};

/* The wish for a path of `len` bytes; NULL: there is none. */
struct staged_change *apply_txn_find(const struct apply_txn *txn, const char *path, size_t len);

/* Finished: from here on it is not among the records that recovery looks at. */
void apply_txn_archive(int records_fd, const char *id);
int apply_txn_finish_journal(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err);

/* Of which nothing has come, and which can be removed with all it staged. */
bool apply_txn_is_abandoned(const struct apply_journal *journal);
int apply_txn_remove_abandoned(const struct apply_txn_site *site, const char *id, int record_fd,
                               const struct apply_journal *journal);

/* Of the codebase; 0: it is not known. */
uint64_t apply_txn_version(int record_fd);

/* Fills `now` and `hash`. */
void apply_txn_describe_now(const struct staged_change *w, struct apply_step *step);

/* ---- staging (apply_txn.c, apply_txn_directory.c) ---- */

int apply_txn_stage_failed(const char *path, int r, struct err *err);

/* The content that is wished for; then whether it is the one of its hash (-ESTALE). */
int apply_txn_fill(const struct apply_txn_change *change, int fd);
int apply_txn_check_hash(struct staged_change *w, int fd);
int apply_txn_read_target(const struct apply_txn_change *change, char target[PATH_MAX]);

#define APPLY_TXN_SYNC_EACH_MOST 256 /* files; for more, one syncfs() is cheaper */

struct apply_step_file apply_step_file_of(const struct stat *st);

/* A name beside `path` that only we give. */
char *apply_txn_temp_beside(const char *path);

/* ---- apply_txn_record.c ---- */

struct apply_step *apply_journal_add(struct apply_journal *journal, enum apply_step_kind kind, const char *path,
                                     const char *temp);
void apply_journal_done(struct apply_journal *journal);
void apply_journal_clear(struct apply_journal *journal); /* of its steps */

/* Replaces <record>/journal, durably. */
int apply_journal_write(int record_fd, struct apply_journal *journal);
int apply_journal_read(int record_fd, struct apply_journal *ret);

/* What has become of it, durably, and without a need for room. */
int apply_journal_mark(int record_fd, struct apply_journal *journal, enum apply_txn_state state);

/* Its follow-up is done. */
int apply_journal_close(int record_fd);

/* Finished. Told by its name alone. */
bool apply_journal_is_finished(int record_fd);

/* Whatever its name. */
int apply_journal_unlink(int record_fd);

/* ---- apply_journal_perform.c ---- */

/* All, from the first; the index of one that failed in `ret_failed`. -ESTALE: its file is not what it was. */
int apply_journal_perform(int base_fd, const struct apply_journal *journal, size_t *ret_failed);

/* All, from the last, made or not. What somebody changed after it was put there is left: its index in `ret_left`, or SIZE_MAX. */
int apply_journal_roll_back(int base_fd, int record_fd, const struct apply_journal *journal, size_t *ret_left);

int apply_journal_clean(int base_fd, const struct apply_journal *journal);

/* Makes the names durable. */
int apply_journal_sync(int base_fd, const struct apply_journal *journal);

/* Whether what is described is what is there. Directories are told by their number alone. */
bool apply_step_file_matches(const struct apply_step_file *file, const struct stat *st);
