/*
 * Changes to a project's directory as one transaction: all of them, or none.
 *
 *     apply_txn_new      a record of its own beneath the directory of records
 *     apply_txn_add      what shall be there, path by path, and what must be there until then
 *     apply_txn_stage    every new file beside its place, and a copy of everything that goes, all of it on disk
 *     apply_txn_commit   the journal, on disk; then renames; then the journal says that it is done
 *     apply_txn_finish   what was moved aside goes, and the caller's notes are taken down
 *     apply_txn_close    the caller has done its follow-up, if it left one
 *
 * The journal on disk is the moment at which it happens. Killed before, the project is as it was, and apply_txn_recover() removes what was
 * staged; killed after, apply_txn_recover() finishes. A step that cannot be made, because somebody changed the file since it was
 * looked at or the disk is full, takes all steps back: what a rename replaced is moved aside and stays until the end.
 *
 * Where the base is the files of a codebase, that is one transaction of the codebase (codebase_txn.h), which refuses if one of the files is not
 * what must be there; recovery makes it if it was not made. The record says which version it became.
 *
 * Nothing is reached through a symlink. A directory that is new comes into its place whole, by one rename. Modes lose set-user-ID,
 * set-group-ID and the sticky bit. As root, files keep the owner they had, and new ones get that of the directory they come into.
 *
 * A follow-up is work that the caller owes when all is written, outside the project: rows in a database, say. The text that describes it
 * is opaque here, and is written with the journal, before the moment of commit. After a kill whoever can read it finds it by
 * apply_txn_each_unfinished() and apply_txn_read(), does the work, which must bear being done twice, and calls apply_txn_close().
 *
 * The record stays, as what an undo needs. It knows nothing of deltas: the notes are the caller's text.
 */
#pragma once

#include "base/id.h"
#include "codebase/codebase.h"
#include "review/file_state.h"

#define APPLY_TXN_ID_PREFIX "ap_"

/* What shall be at a path. */
struct apply_txn_change {
    const char *path;         /* copied */
    mode_t now;               /* kind and permission bits; 0: nothing */
    bool is_mode_only;        /* the content stays as it is */
    struct stat was;          /* what must be there until then; st_mode 0: nothing. A directory need only be one */
    int source_fd;            /* borrowed: the directory where the content is found as `source_path`; -1: it is `bytes` */
    const char *source_path;  /* borrowed until it is staged */
    const struct buf *bytes;  /* borrowed until it is staged; a file's content or a link's target */
    const uint8_t *hash;      /* borrowed until it is staged: what the staged bytes must hash to (-ESTALE); NULL: whatever */
    const struct stat *attrs; /* owner and times it shall have; NULL: as said above */
};

struct apply_txn;

/* Takes lines down. Called again with the same ones after a kill. */
typedef int (*apply_txn_note_fn)(const char *notes, size_t len, void *cookie);

/* A codebase whose files are the base: what lands becomes one version of it. */
struct apply_txn_codebase {
    struct codebase *codebase;
    const char *by, *message; /* for those who read the list of versions: who, and what for; the record's id is added */
};

/* Where it lands and where its record is; all borrowed. */
struct apply_txn_site {
    int base_fd, records_fd;
    apply_txn_note_fn note;
    void *cookie;
    const struct apply_txn_codebase *codebase; /* NULL: it lands in the directory that is the base */
    mode_t umask;                              /* of who decides; that of the process counts too */
};

/* `undoes` is the id of the record it takes back, or NULL. */
int apply_txn_new(const struct apply_txn_site *site, const char *undoes, struct apply_txn **ret, struct err *err);

/* Removes what was staged and not committed. */
void apply_txn_free(struct apply_txn *txn);
DEFINE_AUTOPTR(apply_txn, apply_txn_free);

const char *apply_txn_id(const struct apply_txn *txn);

/* Of the codebase, after apply_txn_commit(); 0: there is none, or it is not known. */
uint64_t apply_txn_version_of(const struct apply_txn *txn);

/* Paths in ascending order, each once: parents before what is in them. Returns its index. */
size_t apply_txn_add(struct apply_txn *txn, const struct apply_txn_change *change);

/* After a failure nothing in the project has changed. */
int apply_txn_stage(struct apply_txn *txn, struct err *err);

/* What was staged for a wish: its times and number are those it will have in its place. st_mode 0: nothing. */
const struct stat *apply_txn_staged(const struct apply_txn *txn, size_t change);

#define APPLY_TXN_FOLLOW_UP_MAX ((size_t) 512 << 20)

/* Texts of the caller's that the record keeps, all borrowed; NULL: none. */
struct apply_txn_texts {
    const struct buf *notes;     /* taken down when it is done */
    const struct buf *back;      /* taken down when it is taken back, now or by an undo */
    const struct buf *drops;     /* strings ended by NUL */
    const struct buf *follow_up; /* empty: none is owed. Longer than APPLY_TXN_FOLLOW_UP_MAX: -EFBIG */
};

/* After a failure (-ESTALE: somebody changed a file meanwhile) the project is as it was, unless the text says what could not be taken back. */
int apply_txn_commit(struct apply_txn *txn, const struct apply_txn_texts *texts, struct err *err);

int apply_txn_finish(struct apply_txn *txn, struct err *err);

/* ---- records ---- */

enum apply_txn_state {
    APPLY_TXN_STAGING,
    APPLY_TXN_INTENT,
    APPLY_TXN_DONE,
    APPLY_TXN_FOLLOW_UP, /* all is written and noted; the caller's follow-up is owed */
    APPLY_TXN_FINISHED,  /* finished */
    APPLY_TXN_ROLLED_BACK,
    APPLY_TXN_ROLLING_BACK, /* to be taken back, of which something is left to do */
};

/* Finishes or removes what was cut short. Nobody else may be at work on these records or this project. */
int apply_txn_recover(const struct apply_txn_site *site, struct err *err);

/* Calls `fn` for each record, the oldest first. A nonzero answer ends it and is returned. */
typedef int (*apply_txn_each_fn)(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie);

int apply_txn_each(int records_fd, apply_txn_each_fn fn, void *cookie);

/* Those of which something may be left to do; how many others there are, and what they have changed, costs nothing. */
int apply_txn_each_unfinished(int records_fd, apply_txn_each_fn fn, void *cookie);

/* What the record of a finished or half finished one says, for its follow-up: of `undoes` the id, or "". */
struct apply_txn_record {
    enum apply_txn_state state;
    char undoes[ID_TEXT_MAX];
    uint64_t version; /* of the codebase; 0: there is none, or it is not known yet */
    struct buf drops, follow_up;
};

#define APPLY_TXN_RECORD_NONE ((struct apply_txn_record){ .undoes = "" })

/* -ENOENT: there is none. */
int apply_txn_read(int records_fd, const char *id, struct apply_txn_record *ret);
void apply_txn_record_done(struct apply_txn_record *record);

/* The follow-up is done. Does nothing to one that owes none. */
int apply_txn_close(int records_fd, const char *id);

/* A record's directory. Those of which nothing is left to do are in one of their own, `done`. -ENOENT: there is none. */
int apply_txn_open(int records_fd, const char *id);

/* Puts it where those are of which something is left to do, for who is about to remove it: cut short, that is finished by apply_txn_recover(). */
int apply_txn_unarchive(int records_fd, const char *id);

/* "'src/x'" for messages, not all of a long one; free it. */
char *apply_txn_quote(const char *path);
