/*
 * Inside the module: a sandbox that was asked for, from the request to what will be written down of it. Nothing of it is there yet.
 */
#pragma once

#include "base/buf.h"
#include "service/profile.h"
#include "service/sandbox_driver.h"
#include "service/sandbox_scope.h"
#include "service/sandboxes.h"
#include "store/codebase_row.h"
#include "wire/sandbox_spec.h"

struct sandbox_draft {
    char id[SANDBOX_ID_MAX];
    const struct sandbox_request *request;
    bool is_over_directory, is_container, host_mount;
    int base_fd; /* owned: the directory that was checked; from here on everybody uses that, and not its name */
    struct sandbox_scope scope;
    struct codebase_row codebase;
    struct rule_list rules;
    struct profile profile;
    const char *driver;
    char driver_reason[DRIVER_TRIAL_REASON_MAX];
    struct sandbox_spec *spec;
    struct sandbox_creation *out; /* borrowed: its row and its warnings */
};

void sandbox_draft_init(struct sandbox_draft *draft, const struct service *service, const struct sandbox_request *request,
                        struct sandbox_creation *out);
void sandbox_draft_done(struct sandbox_draft *draft);

/* What makes two requests the same. Claims have a hash of it, for ever: what is added is left out where it is not given. */
void sandbox_draft_describe(const struct sandbox_request *request, struct buf *out);

/* Checks the request, and finds out what it is over. The row and the spec are ready then. */
int sandbox_draft_prepare(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err);
