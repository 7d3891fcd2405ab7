/*
 * Changes to a project's directory as one transaction: all of them, or none.
 *
 *     landing_new      a record of its own beneath the directory of records
 *     landing_add      what shall be there, path by path, and what must be there until then
 *     landing_stage    every new file beside its place, and a copy of everything that goes, all of it on disk
 *     landing_commit   the journal, on disk; then renames; then the journal says that it is done
 *     landing_settle   what was moved aside goes, and the caller's notes are taken down
 *     landing_close    the caller has done its follow-up, if it left one
 *
 * The journal on disk is the moment at which it happens. Killed before, the project is as it was, and landing_recover() removes what was
 * staged; killed after, landing_recover() finishes. A step that cannot be made, because somebody changed the file since it was
 * looked at or the disk is full, takes all steps back: what a rename replaced is moved aside and stays until the end.
 *
 * Nothing is reached through a symlink. A directory that is new comes into its place whole, by one rename. Modes lose set-user-ID,
 * set-group-ID and the sticky bit. As root, files keep the owner they had, and new ones get that of the directory they come into.
 *
 * A follow-up is work that the caller owes when all is written, outside the project: rows in a database, say. The text that describes it
 * is opaque here, and is written with the journal, before the moment of commit. After a kill whoever can read it finds it by
 * landing_each_unfinished() and landing_read(), does the work, which must bear being done twice, and calls landing_close().
 *
 * The record stays, as what an undo needs. It knows nothing of deltas: the notes are the caller's text.
 */
#pragma once

#include "base/id.h"
#include "review/image.h"

#define LANDING_ID_PREFIX "ap_"

/* What shall be at a path. */
struct landing_wish {
    const char *path;         /* copied */
    mode_t now;               /* kind and permission bits; 0: nothing */
    bool is_mode_only;        /* the content stays as it is */
    struct stat was;          /* what must be there until then; st_mode 0: nothing. A directory need only be one */
    int source_fd;            /* borrowed: the directory where the content is found as `source_path`; -1: it is `bytes` */
    const char *source_path;  /* borrowed until it is staged */
    const struct buf *bytes;  /* borrowed until it is staged; a file's content or a link's target */
    const uint8_t *hash;      /* borrowed until it is staged: what the staged bytes must hash to (-ESTALE); NULL: whatever */
    const struct stat *dress; /* owner and times it shall have; NULL: as said above */
};

struct landing;

/* Takes lines down. Called again with the same ones after a kill. */
typedef int (*landing_note_fn)(const char *notes, size_t len, void *cookie);

/* Where it lands and where its record is; all borrowed. */
struct landing_site {
    int base_fd, records_fd;
    landing_note_fn note;
    void *cookie;
};

/* `undoes` is the id of the record it takes back, or NULL. */
int landing_new(const struct landing_site *site, const char *undoes, struct landing **ret, struct err *err);

/* Removes what was staged and not committed. */
void landing_free(struct landing *landing);
DEFINE_AUTOPTR(landing, landing_free);

const char *landing_id(const struct landing *landing);

/* Paths in ascending order, each once: parents before what is in them. Returns its index. */
size_t landing_add(struct landing *landing, const struct landing_wish *wish);

/* After a failure nothing in the project has changed. */
int landing_stage(struct landing *landing, struct err *err);

/* What was staged for a wish: its times and number are those it will have in its place. st_mode 0: nothing. */
const struct stat *landing_staged(const struct landing *landing, size_t wish);

#define LANDING_FOLLOW_UP_MAX ((size_t) 512 << 20)

/* Texts of the caller's that the record keeps, all borrowed; NULL: none. */
struct landing_texts {
    const struct buf *notes;     /* taken down when it is done */
    const struct buf *back;      /* taken down when it is taken back, now or by an undo */
    const struct buf *drops;     /* strings ended by NUL */
    const struct buf *follow_up; /* empty: none is owed. Longer than LANDING_FOLLOW_UP_MAX: -EFBIG */
};

/* After a failure (-ESTALE: somebody changed a file meanwhile) the project is as it was, unless the text says what could not be taken back. */
int landing_commit(struct landing *landing, const struct landing_texts *texts, struct err *err);

int landing_settle(struct landing *landing, struct err *err);

/* ---- records ---- */

enum landing_state {
    LANDING_STAGING,
    LANDING_INTENT,
    LANDING_DONE,
    LANDING_FOLLOW_UP, /* all is written and noted; the caller's follow-up is owed */
    LANDING_NOTED,     /* finished */
    LANDING_TAKEN_BACK,
    LANDING_GIVEN_UP, /* to be taken back, of which something is left to do */
};

/* Finishes or removes what was cut short. Nobody else may be at work on these records or this project. */
int landing_recover(const struct landing_site *site, struct err *err);

/* Calls `fn` for each record, the oldest first. A nonzero answer ends it and is returned. */
typedef int (*landing_each_fn)(const char *id, int64_t time_ns, enum landing_state state, void *cookie);

int landing_each(int records_fd, landing_each_fn fn, void *cookie);

/* Those of which something may be left to do; how many others there are, and what they have changed, costs nothing. */
int landing_each_unfinished(int records_fd, landing_each_fn fn, void *cookie);

/* What the record of a finished or half finished one says, for its follow-up: of `undoes` the id, or "". */
struct landing_record {
    enum landing_state state;
    char undoes[ID_TEXT_MAX];
    struct buf drops, follow_up;
};

#define LANDING_RECORD_NONE ((struct landing_record){ .undoes = "" })

/* -ENOENT: there is none. */
int landing_read(int records_fd, const char *id, struct landing_record *ret);
void landing_record_done(struct landing_record *record);

/* The follow-up is done. Does nothing to one that owes none. */
int landing_close(int records_fd, const char *id);

/* A record's directory. Those of which nothing is left to do are in one of their own, `done`. -ENOENT: there is none. */
int landing_open(int records_fd, const char *id);

/* Puts it where those are of which something is left to do, for who is about to remove it: cut short, that is finished by landing_recover(). */
int landing_bring_back(int records_fd, const char *id);

/* "'src/x'" for messages, not all of a long one; free it. */
char *landing_quote(const char *path);
