/*
 * A runtime that confines nothing: init runs as a plain child in the workspace. For tests of whoever drives a runtime; it can
 * be told to refuse the next start, and to report events.
 */
#pragma once

#include "runtime/runtime.h"

int mock_runtime_new(struct runtime **ret, struct err *err);

/* The next start fails with this errno (negative) and text, once. */
void mock_fail_next(struct runtime *runtime, int r, const char *text);

/* The next runtime_next_event() of this sandbox gives this one. One is kept; another takes its place. */
void mock_push_event(struct runtime_process *process, const struct runtime_event *event);
