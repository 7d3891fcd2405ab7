/* Shared by the files of apply_txn. */
#pragma once

#include <limits.h>

#include "review/apply_txn.h"

/*
 * A step of the journal. The inode numbers of its files show whether it was performed, so it can be performed or rolled back
 * any number of times.
 *
 *     put      exchanges the staged file at `temp` with the file at `path`, or moves it there if `path` is empty
 *     part     a file in a directory that a put brings; for an undo
 *     remove   moves the file at `path` to `temp`, in the nearest directory that stays
 *     rmdir    moves the directory to `temp` in the same way if it is empty, otherwise keeps it
 *     mode     sets permission bits
 *
 * In a codebase the steps belong to one of its transactions, and `temp` is the staged file's place in the record.
 */
enum apply_step_kind {
    APPLY_STEP_PUT,
    APPLY_STEP_PART,
    APPLY_STEP_REMOVE,
    APPLY_STEP_RMDIR,
    APPLY_STEP_MODE,
};

/* A file as the journal describes it. */
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
    const char *name; /* the name of its file in the record, a literal; see apply_journal_mark() */
    int64_t time_ns;
    char undoes[ID_TEXT_MAX];
    char codebase[ID_TEXT_MAX]; /* that gets a new version; "": the base is a directory */
    struct buf notes, back, drops, follow_up;
    struct apply_step *steps; /* owned */
    size_t count, cap;
};

#define APPLY_JOURNAL_NAME "journal" /* of a journal that is being written */
#define APPLY_JOURNAL_EMPTY ((struct apply_journal){ .name = APPLY_JOURNAL_NAME })

/* A file or directory that one rename moves into its place. */
struct apply_unit {
    char *path, *temp; /* owned */
    struct stat was;
    struct stat staged;
    uid_t uid;
    gid_t gid;
    mode_t mask; /* for new files: limits the bits for group and others */
    bool is_dir;
};

/* A planned change, with its staged file. */
struct staged_change {
    struct apply_txn_change change; /* its path is owned */
    struct stat attrs, staged;
    uint8_t hash[FILE_STATE_HASH_BYTES];
    bool has_hash;
    size_t unit;   /* APPLY_TXN_NO_UNIT: a deletion, or a change of the mode alone */
    char kept[16]; /* as in struct apply_step */
};

#define APPLY_TXN_NO_UNIT SIZE_MAX

/* The steps that differ between a directory and a codebase. */
struct apply_txn_ops {
    /* Writes and syncs every new file, none of them in its place. */
    int (*stage)(struct apply_txn *txn, struct err *err);
    void (*list_steps)(struct apply_txn *txn);
    /* Called with the journal on disk. Performs all steps or none, and marks the journal as done, rolled back or failed. */
    int (*perform)(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                   struct err *err);
    /* Continues that after a kill. */
    int (*resume)(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                  struct err *err);
    int (*roll_back)(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err);
    /* Removes the files that were moved aside, and the staged ones that were not used. */
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

/* Finds the planned change of a path of `len` bytes; NULL: there is none. */
struct staged_change *apply_txn_find(const struct apply_txn *txn, const char *path, size_t len);

/* Called when it is finished. Recovery does not read archived records. */
void apply_txn_archive(int records_fd, const char *id);
int apply_txn_finish_journal(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err);

/* Returns true if nothing was changed, so that the record can be removed with all it staged. */
bool apply_txn_is_abandoned(const struct apply_journal *journal);
int apply_txn_remove_abandoned(const struct apply_txn_site *site, const char *id, int record_fd,
                               const struct apply_journal *journal);

/* The codebase's version; 0: unknown. */
uint64_t apply_txn_version(int record_fd);

/* Fills `now` and `hash`. */
void apply_txn_describe_now(const struct staged_change *w, struct apply_step *step);

/* ---- staging (apply_txn.c, apply_txn_directory.c) ---- */

int apply_txn_stage_failed(const char *path, int r, struct err *err);

/* Write the planned content; then check that it has the planned hash (-ESTALE). */
int apply_txn_fill(const struct apply_txn_change *change, int fd);
int apply_txn_check_hash(struct staged_change *w, int fd);
int apply_txn_read_target(const struct apply_txn_change *change, char target[PATH_MAX]);

#define APPLY_TXN_SYNC_EACH_MOST 256 /* files; for more, one syncfs() is cheaper */

struct apply_step_file apply_step_file_of(const struct stat *st);

/* Returns a name beside `path` that only we use. */
char *apply_txn_temp_beside(const char *path);

/* ---- apply_txn_record.c ---- */

struct apply_step *apply_journal_add(struct apply_journal *journal, enum apply_step_kind kind, const char *path,
                                     const char *temp);
void apply_journal_done(struct apply_journal *journal);
void apply_journal_clear(struct apply_journal *journal); /* frees its steps */

/* Replaces <record>/journal, durably. */
int apply_journal_write(int record_fd, struct apply_journal *journal);
int apply_journal_read(int record_fd, struct apply_journal *ret);

/* Marks the journal with a new state, durably, and without allocating disk space. */
int apply_journal_mark(int record_fd, struct apply_journal *journal, enum apply_txn_state state);

/* Marks the follow-up as done. */
int apply_journal_close(int record_fd);

/* Depends only on the name of the journal's file. */
bool apply_journal_is_finished(int record_fd);

/* Removes the journal under any of its names. */
int apply_journal_unlink(int record_fd);

/* ---- apply_journal_perform.c ---- */

/* Performs all steps from the first. `ret_failed` is the index of a step that failed. -ESTALE: its file has changed. */
int apply_journal_perform(int base_fd, const struct apply_journal *journal, size_t *ret_failed);

/* Rolls back all steps from the last, performed or not. Keeps a file that changed after it was put there: `ret_left` is its
 * index, or SIZE_MAX. */
int apply_journal_roll_back(int base_fd, int record_fd, const struct apply_journal *journal, size_t *ret_left);

int apply_journal_clean(int base_fd, const struct apply_journal *journal);

/* Makes the names durable. */
int apply_journal_sync(int base_fd, const struct apply_journal *journal);

/* Compares a description with a file. Directories are compared only by inode number. */
bool apply_step_file_matches(const struct apply_step_file *file, const struct stat *st);
