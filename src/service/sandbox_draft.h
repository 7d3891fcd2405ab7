/*
 * Private to the module: a requested sandbox, from the checks of the request to the row and the spec. It writes nothing to disk.
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
    int base_fd; /* owned: the directory that was checked; another may have its name by now */
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

/* Writes a text that is equal for equal requests. Claims keep a hash of it for ever, so a new field must add nothing when it is not given. */
void sandbox_draft_describe(const struct sandbox_request *request, struct buf *out);

/* Checks the request, opens the base, and fills the row and the spec. */
int sandbox_draft_prepare(struct service *service, const struct caller *caller, struct sandbox_draft *draft, struct err *err);
