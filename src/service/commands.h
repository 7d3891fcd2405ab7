/*
 * Commands in sandboxes and in their sessions, and what becomes of their changes when they end.
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

/* All borrowed. One of the two ids. */
struct command_request {
    const char *sandbox_id;
    const char *session_id; /* NULL: a command of its own */
    const char *command;
    const struct pair_list *env; /* NULL: none */
    const char *workdir;         /* "": the workspace; relative ones count from there */
    const void *input;
    size_t input_len;
    int64_t timeout_ns;    /* 0: the server's default */
    uint64_t output_limit; /* 0: the server's, or none when it streams */
    bool streams;          /* whoever takes the output keeps none of it */
};

struct command_result {
    char name[ID_TEXT_MAX];
    int exit_code;
    bool out_cut, err_cut, ran_out_of_memory;
    int64_t duration_ns;
    uint64_t version; /* of the codebase, with its changes; 0: they are not in it */
    char **conflicts; /* owned, each too */
    size_t conflict_count;
};

void command_result_done(struct command_result *result);

/* Output goes to `fn` as it comes. A command that timed out is ERR_DEADLINE_EXCEEDED, -ETIME; what it wrote is kept. */
int command_run(struct service *service, const struct caller *caller, const struct command_request *request, exec_output_fn fn,
                void *cookie, struct command_result *ret, struct err *err);

/* How long a command may take when `wanted_ns` are asked for; 0: nothing is. */
uint32_t commands_timeout_ms(const struct service *service, int64_t wanted_ns);

/* Where a command or a session begins: relative ones count from the workspace, "" is the workspace. Free it. */
char *commands_make_workdir(const char *workdir);

/* "NAME=value" each, ended by NULL. */
int commands_make_env(const struct pair_list *pairs, char ***ret, struct err *err);
void commands_free_env(char ***env);
