/*
 * Validation hooks: commands that try what is to be approved before it lands. Where they come from:
 *
 *     server       the file that workspace.hooks names, for every approval of this server
 *     project      .agentfense/hooks.json at the project's root, as the project has it: never as the agent's changes have it
 *     workspace    behavior.hooks of the request that made it
 *
 * Each is a JSON list of {"name", "description"?, "command", "args"?, "required"?, "timeout"?}. All of them run, in this order: what one
 * place asks for cannot be taken back by another. A required one (unless it says otherwise, all are) that fails stops the approval.
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
    char **args;          /* owned, each too; ended by NULL */
    bool is_required;
    int64_t timeout_ns;
    enum hook_source source;
};

struct hook_list {
    struct hook *items; /* owned */
    size_t count, cap;
};

void hook_list_done(struct hook_list *list);

/* Adds those of a JSON list. ERR_INVALID_ARGUMENT, with what `where` calls it: "behavior.hooks[2]: ...". */
int hook_list_add(struct hook_list *list, const json_t *given, enum hook_source source, const char *where, struct err *err);

/* Likewise of a file's text. */
int hook_list_add_text(struct hook_list *list, const char *text, size_t len, enum hook_source source, const char *where,
                       struct err *err);

/* The list, checked and put in order: what hook_list_add() takes again. */
int hook_list_normalise(const json_t *given, const char *where, json_t **ret, struct err *err);
