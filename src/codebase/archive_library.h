/*
 * libarchive, loaded at the first archive. It brings a dozen other libraries along, and most processes that link this module
 * are supervisors, which never read an archive.
 */
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "base/err.h"

#define ARCHIVE_FUNCTIONS(X)                                                                                                   \
    X(archive_read_new)                                                                                                        \
    X(archive_read_free)                                                                                                       \
    X(archive_read_support_filter_gzip)                                                                                        \
    X(archive_read_support_filter_zstd)                                                                                        \
    X(archive_read_support_format_tar)                                                                                         \
    X(archive_read_open_fd)                                                                                                    \
    X(archive_read_open_memory)                                                                                                \
    X(archive_read_next_header)                                                                                                \
    X(archive_read_data_block)                                                                                                 \
    X(archive_error_string)                                                                                                    \
    X(archive_entry_pathname)                                                                                                  \
    X(archive_entry_filetype)                                                                                                  \
    X(archive_entry_hardlink)                                                                                                  \
    X(archive_entry_symlink)                                                                                                   \
    X(archive_entry_mode)                                                                                                      \
    X(archive_entry_mtime)                                                                                                     \
    X(archive_entry_mtime_nsec)                                                                                                \
    X(archive_entry_mtime_is_set)                                                                                              \
    X(archive_entry_new)                                                                                                       \
    X(archive_entry_free)                                                                                                      \
    X(archive_entry_clear)                                                                                                     \
    X(archive_entry_set_pathname)                                                                                              \
    X(archive_entry_set_symlink)                                                                                               \
    X(archive_entry_set_filetype)                                                                                              \
    X(archive_entry_set_perm)                                                                                                  \
    X(archive_entry_set_size)                                                                                                  \
    X(archive_entry_set_mtime)                                                                                                 \
    X(archive_write_new)                                                                                                       \
    X(archive_write_free)                                                                                                      \
    X(archive_write_close)                                                                                                     \
    X(archive_write_set_format_pax_restricted)                                                                                 \
    X(archive_write_add_filter_gzip)                                                                                           \
    X(archive_write_add_filter_zstd)                                                                                           \
    X(archive_write_set_bytes_in_last_block)                                                                                   \
    X(archive_write_open)                                                                                                      \
    X(archive_write_header)                                                                                                    \
    X(archive_write_data)

struct archive_library {
#define X(name) __typeof__(name) *name;
    ARCHIVE_FUNCTIONS(X)
#undef X
};

/* Returns NULL and sets `err` if the library cannot be loaded. */
const struct archive_library *archive_library_get(struct err *err);
