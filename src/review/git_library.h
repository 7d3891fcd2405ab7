/*
 * The functions of libgit2 that this room calls, loaded when the first text is compared, and not before: the library comes with TLS,
 * SSH and more, whose relocated pages every process of this program would carry otherwise (a mount, for instance, of which there
 * may be many).
 *
 * Only what works on buffers: nothing of git's runs, no filters, no attributes, no configuration of a stranger's tree.
 */
#pragma once

#include <git2.h>

#include "base/err.h"

struct git_library {
    __typeof__(git_libgit2_init) *git_libgit2_init;
    __typeof__(git_error_last) *git_error_last;
    __typeof__(git_diff_options_init) *git_diff_options_init;
    __typeof__(git_diff_buffers) *git_diff_buffers;
};

/* The same one each time, from any thread; stays until the process ends. NULL when it is not installed. */
const struct git_library *git_library_get(struct err *err);

/* Says what the last call of this thread failed with. */
int git_library_failed(const struct git_library *git, struct err *err);
