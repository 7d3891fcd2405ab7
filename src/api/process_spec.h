/* Reads from a message which command to run, for processes and terminals. */
#pragma once

#include "service/sandbox_run.h"
#include <sandbox/v1/process.pb-c.h>

struct process_spec {
    struct sandbox_command command; /* borrows from the message and from the fields below */
    const char **args;              /* owned array */
    struct pair_list env;           /* owned */
};

void process_spec_done(struct process_spec *spec);

/* `message` NULL: "spec is required". */
int process_spec_take(const Sandbox__V1__ProcessSpec *message, struct process_spec *ret, struct err *err);

Sandbox__V1__Process *make_process(const char *sandbox_id, const struct process_info *info);
