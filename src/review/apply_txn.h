/*
 * Applies changes to a project's directory as one transaction: all of them, or none.
 *
 *     apply_txn_new      creates a record in the directory of records
 *     apply_txn_add      adds the planned change of a path, and what the path must hold until then
 *     apply_txn_stage    writes every new file beside its place, and copies all that is to be replaced; syncs both
 *     apply_txn_commit   syncs the journal, renames the files, and marks the journal as done
 *     apply_txn_finish   removes what was moved aside, and writes the caller's notes
 *     apply_txn_close    marks the caller's follow-up as done, if there was one
 *
 * The transaction is committed when the journal is on disk. If the process is killed before, the project is unchanged and
 * apply_txn_recover() removes the staged files; if it is killed after, apply_txn_recover() finishes. If a step fails, because
 * a file changed since it was read or the disk is full, all steps are rolled back: files that a rename replaced are moved
 * aside and kept until the end.
 *
 * If the base is the files of a codebase, the steps are one transaction of the codebase (codebase_txn.h), which fails if a
 * file is not what it must be; recovery performs it if that did not happen. The record then has the version it made.
 *
 * No path is reached through a symlink. A new directory is moved into place complete, by one rename. Modes lose set-user-ID,
 * set-group-ID and the sticky bit. As root, files keep their owner, and new files get the owner of their directory.
 *
 * A follow-up is work outside the project that the caller must do after the commit, such as writing rows to a database. Its
 * text is opaque here, and is written with the journal, before the commit. After a kill the caller finds it by
 * apply_txn_each_unfinished() and apply_txn_read(), does the work, which must be idempotent, and calls apply_txn_close().
 *
 * The record stays for an undo. It knows nothing of deltas: the notes are the caller's text.
 */
#pragma once

#include "base/id.h"
#include "codebase/codebase.h"
#include "review/file_state.h"

#define APPLY_TXN_ID_PREFIX "ap_"

/* The planned change of one path. */
struct apply_txn_change {
    const char *path;         /* copied */
    mode_t now;               /* the new kind and permission bits; 0: nothing */
    bool is_mode_only;        /* the content stays as it is */
    struct stat was;          /* what must be there until the commit; st_mode 0: nothing. Any directory matches a directory */
    int source_fd;            /* borrowed: the directory in which `source_path` is the content; -1: the content is `bytes` */
    const char *source_path;  /* borrowed until staged */
    const struct buf *bytes;  /* borrowed until staged; a file's content or a link's target */
    const uint8_t *hash;      /* borrowed until staged: the hash that the staged bytes must have (-ESTALE); NULL: any */
    const struct stat *attrs; /* the new owner and times; NULL: as described above */
};

struct apply_txn;

/* Writes notes. After a kill it is called again with the same ones. */
typedef int (*apply_txn_note_fn)(const char *notes, size_t len, void *cookie);

/* The codebase whose files are the base: the changes become one version of it. */
struct apply_txn_codebase {
    struct codebase *codebase;
    const char *by, *message; /* shown in the list of versions: who made it, and why; the record's id is appended */
};

/* The base that is changed and the directory of records; all borrowed. */
struct apply_txn_site {
    int base_fd, records_fd;
    apply_txn_note_fn note;
    void *cookie;
    const struct apply_txn_codebase *codebase; /* NULL: the base is a plain directory */
    mode_t umask;                              /* the approver's; it is added to that of the process */
};

/* `undoes` is the id of the record that this one undoes, or NULL. */
int apply_txn_new(const struct apply_txn_site *site, const char *undoes, struct apply_txn **ret, struct err *err);

/* Removes staged files that were not committed. */
void apply_txn_free(struct apply_txn *txn);
DEFINE_AUTOPTR(apply_txn, apply_txn_free);

const char *apply_txn_id(const struct apply_txn *txn);

/* The codebase's version that apply_txn_commit() made; 0: no codebase, or unknown. */
uint64_t apply_txn_version_of(const struct apply_txn *txn);

/* Paths must come in ascending order, each once, parents before their contents. Returns the index of the change. */
size_t apply_txn_add(struct apply_txn *txn, const struct apply_txn_change *change);

/* A failure leaves the project unchanged. */
int apply_txn_stage(struct apply_txn *txn, struct err *err);

/* The staged file of a change: its times and inode number are those it will have in its place. st_mode 0: nothing. */
const struct stat *apply_txn_staged(const struct apply_txn *txn, size_t change);

#define APPLY_TXN_FOLLOW_UP_MAX ((size_t) 512 << 20)

/* Texts of the caller's that the record keeps, all borrowed; NULL: none. */
struct apply_txn_texts {
    const struct buf *notes;     /* written when the transaction is done */
    const struct buf *back;      /* written when it is rolled back, now or by an undo */
    const struct buf *drops;     /* NUL-terminated strings */
    const struct buf *follow_up; /* empty: none. Longer than APPLY_TXN_FOLLOW_UP_MAX: -EFBIG */
};

/* After a failure (-ESTALE: a file changed meanwhile) the project is unchanged, or the error names what could not be rolled
 * back. */
int apply_txn_commit(struct apply_txn *txn, const struct apply_txn_texts *texts, struct err *err);

int apply_txn_finish(struct apply_txn *txn, struct err *err);

/* ---- records ---- */

enum apply_txn_state {
    APPLY_TXN_STAGING,
    APPLY_TXN_INTENT,
    APPLY_TXN_DONE,
    APPLY_TXN_FOLLOW_UP, /* all is written and noted; the caller's follow-up remains */
    APPLY_TXN_FINISHED,
    APPLY_TXN_ROLLED_BACK,
    APPLY_TXN_ROLLING_BACK, /* the roll-back is not complete */
};

/* Finishes or removes unfinished transactions. The caller keeps all others from these records and from this project. */
int apply_txn_recover(const struct apply_txn_site *site, struct err *err);

/* Calls `fn` for each record, the oldest first. A nonzero result ends the loop and is returned. */
typedef int (*apply_txn_each_fn)(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie);

int apply_txn_each(int records_fd, apply_txn_each_fn fn, void *cookie);

/* Calls `fn` only for records that may be unfinished. The cost does not depend on the finished ones. */
int apply_txn_each_unfinished(int records_fd, apply_txn_each_fn fn, void *cookie);

/* What the record of a transaction, finished or not, holds for its follow-up. `undoes` is an id, or "". */
struct apply_txn_record {
    enum apply_txn_state state;
    char undoes[ID_TEXT_MAX];
    uint64_t version; /* of the codebase; 0: no codebase, or not known yet */
    struct buf drops, follow_up;
};

#define APPLY_TXN_RECORD_NONE ((struct apply_txn_record){ .undoes = "" })

/* -ENOENT: no such record. */
int apply_txn_read(int records_fd, const char *id, struct apply_txn_record *ret);
void apply_txn_record_done(struct apply_txn_record *record);

/* Marks the follow-up as done. Does nothing to a record without one. */
int apply_txn_close(int records_fd, const char *id);

/* Opens a record's directory. Finished records are in the subdirectory `done`. -ENOENT: no such record. */
int apply_txn_open(int records_fd, const char *id);

/* Moves the record back among the unfinished ones, before its removal: apply_txn_recover() then completes an interrupted
 * one. */
int apply_txn_unarchive(int records_fd, const char *id);

/* Returns "'src/x'" for messages, shortened if it is long; free it. */
char *apply_txn_quote(const char *path);
