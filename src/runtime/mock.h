/*
 * A runtime without confinement, for tests: init runs as a plain child in the workspace. It can be made to refuse the next
 * start, and to report events.
 */
#pragma once

#include "runtime/runtime.h"

int mock_runtime_new(struct runtime **ret, struct err *err);

/* Makes the next start fail once, with this negative errno and text. */
void mock_fail_next(struct runtime *runtime, int r, const char *text);

/* Makes the next runtime_next_event() of this sandbox return this event. Only one is kept; a new one replaces it. */
void mock_push_event(struct runtime_process *process, const struct runtime_event *event);
