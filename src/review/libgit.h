/*
 * The functions of libgit2 that this module calls, loaded when the first of them is needed: the library comes with TLS, SSH
 * and more, whose relocated pages would otherwise cost memory in every process of this program (a mount, for instance, of
 * which there may be many).
 *
 * The library may not read anything besides its repository: no configuration of the system or of a home. It runs no programs;
 * callers handle filters that name programs.
 */
#pragma once

#include <git2.h>

#include "base/err.h"

#define LIBGIT_FUNCTIONS(X)                                                                                                    \
    X(git_libgit2_init)                                                                                                        \
    X(git_libgit2_opts)                                                                                                        \
    X(git_error_last)                                                                                                          \
    X(git_diff_buffers)                                                                                                        \
    X(git_diff_options_init)                                                                                                   \
    X(git_merge_file)                                                                                                          \
    X(git_merge_file_options_init)                                                                                             \
    X(git_merge_file_result_free)                                                                                              \
    X(git_repository_open_ext)                                                                                                 \
    X(git_repository_free)                                                                                                     \
    X(git_repository_is_bare)                                                                                                  \
    X(git_repository_workdir)                                                                                                  \
    X(git_repository_path)                                                                                                     \
    X(git_repository_commondir)                                                                                                \
    X(git_repository_state)                                                                                                    \
    X(git_repository_index)                                                                                                    \
    X(git_repository_set_ident)                                                                                                \
    X(git_reference_lookup)                                                                                                    \
    X(git_reference_free)                                                                                                      \
    X(git_reference_name)                                                                                                      \
    X(git_reference_symbolic_target)                                                                                           \
    X(git_reference_target)                                                                                                    \
    X(git_reference_type)                                                                                                      \
    X(git_reference_create_matching)                                                                                           \
    X(git_reference_name_to_id)                                                                                                \
    X(git_commit_lookup)                                                                                                       \
    X(git_commit_tree)                                                                                                         \
    X(git_commit_free)                                                                                                         \
    X(git_commit_create)                                                                                                       \
    X(git_tree_lookup)                                                                                                         \
    X(git_tree_free)                                                                                                           \
    X(git_tree_id)                                                                                                             \
    X(git_index_new)                                                                                                           \
    X(git_index_free)                                                                                                          \
    X(git_index_read)                                                                                                          \
    X(git_index_read_tree)                                                                                                     \
    X(git_index_write)                                                                                                         \
    X(git_index_write_tree_to)                                                                                                 \
    X(git_index_add)                                                                                                           \
    X(git_index_remove)                                                                                                        \
    X(git_index_remove_directory)                                                                                              \
    X(git_index_conflict_remove)                                                                                               \
    X(git_index_get_bypath)                                                                                                    \
    X(git_index_get_byindex)                                                                                                   \
    X(git_index_entrycount)                                                                                                    \
    X(git_index_has_conflicts)                                                                                                 \
    X(git_blob_create_from_buffer)                                                                                             \
    X(git_blob_lookup)                                                                                                         \
    X(git_blob_rawcontent)                                                                                                     \
    X(git_blob_rawsize)                                                                                                        \
    X(git_blob_free)                                                                                                           \
    X(git_oid_fromstr)                                                                                                         \
    X(git_odb_hash)                                                                                                            \
    X(git_filter_list_load)                                                                                                    \
    X(git_filter_list_apply_to_buffer)                                                                                         \
    X(git_filter_list_free)                                                                                                    \
    X(git_buf_dispose)                                                                                                         \
    X(git_attr_get)                                                                                                            \
    X(git_attr_value)                                                                                                          \
    X(git_oid_tostr)                                                                                                           \
    X(git_oid_cmp)                                                                                                             \
    X(git_oid_is_zero)                                                                                                         \
    X(git_signature_new)                                                                                                       \
    X(git_signature_free)

struct libgit {
#define X(name) __typeof__(name) *name;
    LIBGIT_FUNCTIONS(X)
#undef X
};

/* ERR_UNIMPLEMENTED: the library is not installed. */
int libgit_get(const struct libgit **ret, struct err *err);

/* Sets the error of its last call in this thread. Returns -EIO. */
int libgit_failed(const struct libgit *git, const char *doing, struct err *err);
