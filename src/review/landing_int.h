/* What the files of landing share. */
#pragma once

#include "base/id.h"
#include "review/landing.h"

/*
 * A step of the journal. Each knows by the numbers of the files involved whether it was made, so it can be made or taken back any
 * number of times.
 *
 *     put      the staged file at `temp` and what is at `path` change places (or it is moved there, if nothing is)
 *     part     something in a directory that a put brings: for an undo
 *     remove   what is at `path` is moved to `temp`, in the nearest directory that stays
 *     rmdir    the directory is moved to `temp` likewise, if it is empty; one that is not, stays
 *     mode     permission bits
 */
enum step_kind {
    STEP_PUT,
    STEP_PART,
    STEP_REMOVE,
    STEP_RMDIR,
    STEP_MODE,
};

/* What is told of a file in the journal. */
struct step_file {
    mode_t mode; /* 0: nothing */
    uid_t uid;
    gid_t gid;
    uint64_t ino, size_bytes;
    int64_t mtime_ns;
};

struct step {
    enum step_kind kind;
    char *path, *temp; /* owned; `temp` may be NULL */
    struct step_file was, now;
    char hash[2 * IMAGE_HASH_BYTES + 1]; /* of `now`, or empty */
    char kept[16];                       /* the copy of `was` in <record>/kept, or empty */
};

struct step_log {
    enum landing_state state;
    const char *name; /* of its file in the record, a literal; see step_log_mark() */
    int64_t time_ns;
    char undoes[ID_TEXT_MAX];
    struct buf notes, back, drops, follow_up;
    struct step *steps; /* owned */
    size_t count, cap;
};

#define STEP_LOG_NAME "journal" /* of one that is being written */
#define STEP_LOG_EMPTY ((struct step_log){ .name = STEP_LOG_NAME })

/* What comes into its place by one rename. */
struct unit {
    char *path, *temp; /* owned */
    struct stat was;
    struct stat staged;
    uid_t uid;
    gid_t gid;
    mode_t mask; /* what of a mode is for those who can get there; for what is new */
    bool is_dir;
};

/* A wish, with what belongs to it. */
struct wished {
    struct landing_wish wish; /* its path is owned */
    struct stat dress, staged;
    uint8_t hash[IMAGE_HASH_BYTES];
    bool has_hash;
    size_t unit;   /* LANDING_NO_UNIT: deleted, or only its mode */
    char kept[16]; /* as in struct step */
};

#define LANDING_NO_UNIT SIZE_MAX

struct landing {
    struct landing_site site;
    int record_fd; /* owned */
    char id[ID_TEXT_MAX];
    struct wished *wishes; /* owned */
    size_t wish_count, wish_cap;
    struct unit *units; /* owned */
    size_t unit_count, unit_cap;
    size_t kept_count;
    mode_t umask; /* by landing_stage() */
    struct step_log log;
};

/* The wish for a path of `len` bytes; NULL: there is none. */
struct wished *landing_find(const struct landing *landing, const char *path, size_t len);

/* The rest of the way for a journal on disk: all steps, or all back; then tidying up. */
int landing_land(const struct landing_site *site, int record_fd, struct step_log *log, struct err *err);

/* `ret_left`: the last step that is not as it was; SIZE_MAX: all are. Those of which somebody has made something else stay so. */
int landing_take_back(const struct landing_site *site, int record_fd, struct step_log *log, size_t *ret_left);

/* Nothing is left to do: from here on nobody who looks for what is finds it. */
void landing_shelve(int records_fd, const char *id);
int landing_settle_log(const struct landing_site *site, int record_fd, struct step_log *log, struct err *err);

/* Of which nothing has come, and which can be removed with all it staged. */
bool landing_is_spent(const struct step_log *log);
int landing_remove_spent(const struct landing_site *site, const char *id, const struct step_log *log);

/* ---- landing_stage.c, landing_keep.c ---- */

#define LANDING_SYNC_EACH_MOST 256 /* files; for more, one syncfs() is cheaper */

int landing_stage_failed(const char *path, int r, struct err *err);

/* Copies of what will be replaced or removed. */
int landing_keep(struct landing *landing, struct err *err);

struct step_file step_file_of(const struct stat *st);

/* A name beside `path` that only we give. */
char *landing_temp_beside(const char *path);

/* ---- step_log.c ---- */

struct step *step_log_add(struct step_log *log, enum step_kind kind, const char *path, const char *temp);
void step_log_done(struct step_log *log);

/* Replaces <record>/journal, durably. */
int step_log_write(int record_fd, struct step_log *log);
int step_log_read(int record_fd, struct step_log *ret);

/* What has become of it, durably, and without a need for room. */
int step_log_mark(int record_fd, struct step_log *log, enum landing_state state);

/* Its follow-up is done. */
int step_log_close(int record_fd);

/* Finished. Told by its name alone. */
bool step_log_is_noted(int record_fd);

/* Whatever its name. */
int step_log_unlink(int record_fd);

/* ---- step_perform.c ---- */

/* All, from the first; the index of one that failed in `ret_failed`. -ESTALE: its file is not what it was. */
int step_log_land(int base_fd, const struct step_log *log, size_t *ret_failed);

/* All, from the last, made or not. What somebody changed after it was put there is left: its index in `ret_left`, or SIZE_MAX. */
int step_log_take_back(int base_fd, int record_fd, const struct step_log *log, size_t *ret_left);

/* Removes what lies aside, and what was staged and never placed. */
int step_log_clean(int base_fd, const struct step_log *log);

/* Makes the names durable. */
int step_log_sync(int base_fd, const struct step_log *log);

/* Whether what is described is what is there. Directories are told by their number alone. */
bool step_file_is(const struct step_file *file, const struct stat *st);
