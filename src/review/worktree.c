#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/root_dir.h"
#include "review/apply_txn.h"
#include "review/commit_int.h"
#include "review/edit.h"
#include "review/git_location.h"

#define BLOB_MAX ((size_t) 256 << 20)

/* ---- opening ---- */

/* Objects must belong to the project's owner, who could otherwise not add to the same directories later; and a project must
 * not get the rights of another user by naming that user's repository as its own. Only if the project belongs to root are
 * the rights of the repository's owner used. The thread's file system identity suffices, and leaves other threads alone. */
static int use_rights_of(struct worktree *wt, int project_fd, int git_fd, struct err *err)
{
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (fstat(project_fd, &st) < 0 || (st.st_uid == 0 && fstat(git_fd, &st) < 0))
        return err_errno(err, -errno, "finding whose project it is");
    if (st.st_uid == 0)
        return 0;
    wt->owner_gid = st.st_gid;
    wt->owner_uid = st.st_uid;
    wt->gid = (gid_t) setfsgid(st.st_gid);
    wt->uid = (uid_t) setfsuid(st.st_uid);
    wt->has_changed_rights = true;
    return 0;
}

void worktree_restore_rights(const struct worktree *wt)
{
    if (!wt->has_changed_rights)
        return;
    setfsuid(wt->uid);
    setfsgid(wt->gid);
}

void worktree_assume_rights(const struct worktree *wt)
{
    if (!wt->has_changed_rights)
        return;
    setfsgid(wt->owner_gid);
    setfsuid(wt->owner_uid);
}

void worktree_done(struct worktree *wt)
{
    if (wt->repo)
        wt->git->git_repository_free(wt->repo);
    worktree_restore_rights(wt);
    free(wt->prefix);
    cleanup_fd(&wt->root_fd);
    *wt = WORKTREE_NONE;
}

static int reject_repository(struct err *err, const char *project_path, const char *why)
{
    autofree char *shown = apply_txn_quote(project_path);

    return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "%s %s", shown, why);
}

/* Always the same text, so that it reveals nothing about files outside. */
static int reject_outside(struct err *err, const char *project_path)
{
    autofree char *shown = apply_txn_quote(project_path);

    return err_set_reason(err,
                          err_set(err, ERR_PERMISSION_DENIED, -EPERM,
                                  "the repository of %s, or a part of it, is not in the directories that this token allows",
                                  shown),
                          "ROOT_NOT_ALLOWED");
}

static int find_prefix(struct worktree *wt, const char *project_path, int project_fd, const char *const *roots, struct err *err)
{
    const char *workdir = wt->git->git_repository_workdir(wt->repo);
    autodone(buf) struct buf clean = BUF_EMPTY;

    if (path_clean(workdir, strlen(workdir), &clean) < 0)
        return reject_repository(err, project_path, "is in a repository whose work tree has no path");
    wt->root_fd = root_dirs_reach(roots, clean.data, O_RDONLY | O_DIRECTORY);
    if (wt->root_fd == -EPERM && roots)
        return reject_outside(err, project_path);
    if (wt->root_fd < 0)
        return err_errno(err, wt->root_fd, "opening the work tree");
    autofree char *root = path_of_open(wt->root_fd), *project = path_of_open(project_fd);
    if (!root || !project || !path_is_beneath(root, project))
        return reject_repository(err, project_path, "is not in the work tree of its repository");
    const char *below = strcmp(root, "/") == 0 ? project : project + strlen(root);
    below += *below == '/';
    wt->prefix = *below ? xprintf("%s/", below) : xdup("");
    return 0;
}

/* Tells whether the library opened the directory that was checked. */
static bool is_directory_at(const char *path, int fd)
{
    struct stat a, b;

    return stat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int open_repository(struct worktree *wt, const char *project_path, const struct git_location *location, struct err *err)
{
    int r = wt->git->git_repository_open_ext(&wt->repo, location->top, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);

    if (r == GIT_ENOTFOUND) {
        reject_repository(err, project_path, "is in no git repository");
        return -ENOENT;
    }
    if (r < 0)
        return libgit_failed(wt->git, "opening the repository", err);
    if (!is_directory_at(wt->git->git_repository_path(wt->repo), location->git_fd) ||
        !is_directory_at(wt->git->git_repository_commondir(wt->repo), location->common_fd))
        return reject_repository(err, project_path, "is in a repository that changes while it is looked at");
    if (wt->git->git_repository_is_bare(wt->repo))
        return reject_repository(err, project_path, "is a repository without a work tree");
    return 0;
}

int worktree_open(const char *project_path, const char *const *roots, struct worktree *ret, struct err *err)
{
    autodone(worktree) struct worktree wt = WORKTREE_NONE;
    autodone(git_location) struct git_location location = GIT_LOCATION_NONE;
    autofd int project = -1;
    int r = libgit_get(&wt.git, err);

    if (r < 0)
        return r;
    r = git_location_find(project_path, roots, &location);
    if (r == -EPERM && roots)
        return reject_outside(err, project_path);
    if (r == -ENOENT) {
        reject_repository(err, project_path, "is in no git repository");
        return r;
    }
    project = r < 0 ? r : root_dirs_reach(roots, project_path, O_PATH | O_DIRECTORY);
    if (project < 0)
        return err_errno(err, project, "looking for the repository");
    r = use_rights_of(&wt, project, location.git_fd, err);
    if (r == 0)
        r = open_repository(&wt, project_path, &location, err);
    if (r == 0)
        r = find_prefix(&wt, project_path, project, roots, err);
    if (r < 0)
        return r;
    *ret = wt;
    wt = WORKTREE_NONE;
    return 0;
}

/* ---- paths ---- */

/* A directory on the way with its own `.git` belongs to a submodule or another repository. */
static bool is_foreign(const struct worktree *wt, const char *repo_path)
{
    for (const char *slash = repo_path; (slash = strchr(slash, '/')); slash++) {
        autofree char *git = xprintf("%.*s/.git", (int) (slash - repo_path), repo_path);
        autofd int fd = path_open_beneath(wt->root_fd, git, O_PATH, 0);
        if (!path_is_absent(fd)) /* also if it cannot be checked: a foreign file must not be committed */
            return true;
    }
    return false;
}

int worktree_path(const struct worktree *wt, const char *path, char **ret, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofree char *shown = apply_txn_quote(path);

    if (path_clean(path, strlen(path), &clean) < 0 || clean.len < 2)
        return err_invalid(err, "%s is no path in the project", shown);
    if (edit_is_git(clean.data))
        return err_invalid(err, "%s is git's own", shown);
    autofree char *repo_path = xprintf("%s%s", wt->prefix, clean.data + 1);
    if (is_foreign(wt, repo_path))
        return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL, "%s is in a submodule or in another repository; commit it there",
                       shown);
    *ret = steal_ptr(&repo_path);
    return 0;
}

int worktree_head(const struct worktree *wt, git_oid *ret_commit, git_oid *ret_tree, struct err *err)
{
    git_commit *commit = NULL;
    git_tree *tree = NULL;
    int r = wt->git->git_reference_name_to_id(ret_commit, wt->repo, "HEAD");

    memset(ret_tree, 0, sizeof(*ret_tree));
    if (r == GIT_ENOTFOUND || r == GIT_EUNBORNBRANCH) {
        memset(ret_commit, 0, sizeof(*ret_commit));
        return 0;
    }
    if (r == 0)
        r = wt->git->git_commit_lookup(&commit, wt->repo, ret_commit);
    if (r == 0)
        r = wt->git->git_commit_tree(&tree, commit);
    if (r == 0)
        *ret_tree = *wt->git->git_tree_id(tree);
    wt->git->git_tree_free(tree);
    wt->git->git_commit_free(commit);
    return r < 0 ? libgit_failed(wt->git, "reading HEAD", err) : 0;
}

/* ---- blobs ---- */

/* A named filter is a program from the user's configuration. If we skipped it, git would expect other bytes in the file
 * than we commit. */
static int check_filter(const struct worktree *wt, const char *repo_path, struct err *err)
{
    const char *value = NULL;

    if (wt->git->git_attr_get(&value, wt->repo, GIT_ATTR_CHECK_FILE_THEN_INDEX, repo_path, "filter") < 0)
        return libgit_failed(wt->git, "reading attributes", err);
    if (wt->git->git_attr_value(value) != GIT_ATTR_VALUE_STRING)
        return 0;
    autofree char *shown = apply_txn_quote(repo_path), *filter = apply_txn_quote(value);
    return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP,
                   "%s needs the filter %s, a program that is not run here; commit it "
                   "yourself",
                   shown, filter);
}

int worktree_put(const struct worktree *wt, const struct buf *bytes, bool is_dry, git_oid *ret, struct err *err)
{
    const char *data = bytes->data ? bytes->data : "";
    int r = is_dry ? wt->git->git_odb_hash(ret, data, bytes->len, GIT_OBJECT_BLOB)
                   : wt->git->git_blob_create_from_buffer(ret, wt->repo, data, bytes->len);

    return r < 0 ? libgit_failed(wt->git, "writing an object", err) : 0;
}

int worktree_get(const struct worktree *wt, const git_oid *id, struct buf *out, struct err *err)
{
    git_blob *blob = NULL;

    if (wt->git->git_blob_lookup(&blob, wt->repo, id) < 0)
        return libgit_failed(wt->git, "reading an object", err);
    buf_add(out, wt->git->git_blob_rawcontent(blob), (size_t) wt->git->git_blob_rawsize(blob));
    wt->git->git_blob_free(blob);
    return 0;
}

/* Converts line ends to the repository's. */
int worktree_clean(const struct worktree *wt, const char *repo_path, struct buf *bytes, struct err *err)
{
    const struct libgit *git = wt->git;
    git_filter_list *filters = NULL;
    git_buf out = { 0 };
    int r = check_filter(wt, repo_path, err);

    if (r < 0)
        return r;
    r = git->git_filter_list_load(&filters, wt->repo, NULL, repo_path, GIT_FILTER_TO_ODB, GIT_FILTER_DEFAULT);
    if (r == 0 && filters)
        r = git->git_filter_list_apply_to_buffer(&out, filters, bytes->data ? bytes->data : "", bytes->len);
    if (r == 0 && filters) {
        buf_clear(bytes);
        buf_add(bytes, out.ptr, out.size);
    }
    git->git_buf_dispose(&out);
    git->git_filter_list_free(filters);
    return r < 0 ? libgit_failed(git, "reading it as the repository keeps it", err) : 0;
}

static int read_link(int fd, struct buf *out)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(fd, "", target, sizeof(target));

    if (n < 0)
        return -errno;
    buf_add(out, target, (size_t) n);
    return 0;
}

static void fill_index_stat(git_index_entry *entry, const struct stat *st)
{
    entry->ctime = (git_index_time){ (int32_t) st->st_ctim.tv_sec, (uint32_t) st->st_ctim.tv_nsec };
    entry->mtime = (git_index_time){ (int32_t) st->st_mtim.tv_sec, (uint32_t) st->st_mtim.tv_nsec };
    entry->dev = (uint32_t) st->st_dev;
    entry->ino = (uint32_t) st->st_ino;
    entry->uid = st->st_uid;
    entry->gid = st->st_gid;
    entry->file_size = (uint32_t) st->st_size;
    entry->mode = S_ISLNK(st->st_mode) ? GIT_FILEMODE_LINK
                  : st->st_mode & 0100 ? GIT_FILEMODE_BLOB_EXECUTABLE
                                       : GIT_FILEMODE_BLOB;
}

int worktree_entry(const struct worktree *wt, const char *repo_path, bool is_dry, git_index_entry *ret, struct err *err)
{
    autofd int fd = path_open_beneath(wt->root_fd, repo_path, O_PATH, 0);
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct stat st = { 0 };
    int r = 0;

    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 1;
    if (fd < 0 || fstat(fd, &st) < 0)
        r = fd < 0 ? fd : -errno;
    if (r == 0 && S_ISDIR(st.st_mode))
        return 1;
    if (r == 0 && !S_ISLNK(st.st_mode))
        r = file_read(wt->root_fd, repo_path, BLOB_MAX, &bytes);
    else if (r == 0)
        r = read_link(fd, &bytes);
    if (r < 0) {
        autofree char *shown = apply_txn_quote(repo_path);
        return err_errno(err, r, "reading %s", shown);
    }
    r = S_ISLNK(st.st_mode) ? 0 : worktree_clean(wt, repo_path, &bytes, err);
    *ret = (git_index_entry){ .path = repo_path };
    fill_index_stat(ret, &st);
    return r < 0 ? r : worktree_put(wt, &bytes, is_dry, &ret->id, err);
}
