/*
 * Runs commands in sandboxes and in their sessions, and syncs their changes when they end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "service/caller.h"
#include "service/exec.h"
#include "service/sandbox_info.h"

struct service;

/* All borrowed. Set exactly one of the two ids. */
struct command_request {
    const char *sandbox_id;
    const char *session_id; /* NULL: the command runs outside of sessions */
    const char *command;
    const struct pair_list *env; /* NULL: none */
    const char *workdir;         /* "": the workspace; a relative path starts at the workspace */
    const void *input;
    size_t input_len;
    int64_t timeout_ns;    /* 0: the server's default */
    uint64_t output_limit; /* 0: the server's default, or unlimited if `streams` */
    bool streams;          /* the output goes only to the callback, without being collected */
};

struct command_result {
    char name[ID_TEXT_MAX];
    int exit_code;
    bool out_cut, err_cut, ran_out_of_memory;
    int64_t duration_ns;
    uint64_t version; /* the codebase's version that contains its changes; 0: they were not synced */
    char **conflicts; /* owned, each item too */
    size_t conflict_count;
};

void command_result_done(struct command_result *result);

/* Passes output to `fn` as it arrives. ERR_DEADLINE_EXCEEDED, -ETIME for a command that timed out; the changes it made are kept. */
int command_run(struct service *service, const struct caller *caller, const struct command_request *request, exec_output_fn fn,
                void *cookie, struct command_result *ret, struct err *err);

/* Returns the timeout of a command that requests `wanted_ns`; 0: it requests none. */
uint32_t commands_timeout_ms(const struct service *service, int64_t wanted_ns);

/* Returns the directory in which a command or a session starts. A relative path starts at the workspace; "" is the workspace. Free it. */
char *commands_make_workdir(const char *workdir);

/* Makes "NAME=value" strings, ended by NULL. */
int commands_make_env(const struct pair_list *pairs, char ***ret, struct err *err);
void commands_free_env(char ***env);
