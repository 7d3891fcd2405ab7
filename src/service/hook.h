/*
 * Validation hooks: commands that test the changes of an approval before they are applied. They come from three places:
 *
 *     server       the file that workspace.hooks names, for every approval of this server
 *     project      .agentfense/hooks.json at the project's root: the project's version, never the agent's
 *     workspace    behavior.hooks of the request that created it
 *
 * Each is a JSON list of {"name", "description"?, "command", "args"?, "required"?, "timeout"?}. All of them run, in this
 * order: no place can remove a hook of another. If a required hook fails (hooks are required by default), it stops the
 * approval.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "review/decision.h"

#define HOOKS_MAX 16 /* of each place */
#define HOOK_FILE DECISION_HOOKS_FILE
#define HOOK_FILE_BYTES_MAX ((size_t) 256 << 10)
#define HOOK_TIMEOUT_NS ((int64_t) 300 * 1000000000)
#define HOOK_TIMEOUT_MAX_NS ((int64_t) 3600 * 1000000000)

enum hook_source { HOOK_SERVER, HOOK_PROJECT, HOOK_WORKSPACE };

const char *hook_source_name(enum hook_source source);

struct hook {
    char *name, *command; /* owned */
    char **args;          /* owned, like its elements; NULL-terminated */
    bool is_required;
    int64_t timeout_ns;
    enum hook_source source;
};

struct hook_list {
    struct hook *items; /* owned */
    size_t count, cap;
};

void hook_list_done(struct hook_list *list);

/* Adds the hooks of a JSON list. ERR_INVALID_ARGUMENT, with the name that `where` gives it: "behavior.hooks[2]: ...". */
int hook_list_add(struct hook_list *list, const json_t *given, enum hook_source source, const char *where, struct err *err);

/* The same for a file's text. */
int hook_list_add_text(struct hook_list *list, const char *text, size_t len, enum hook_source source, const char *where,
                       struct err *err);

/* Checks the list and returns it in the form that hook_list_add() accepts again. */
int hook_list_normalise(const json_t *given, const char *where, json_t **ret, struct err *err);
