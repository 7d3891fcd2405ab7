/* Private to the files of sandbox_run.h: a command prepared for the supervisor. */
#pragma once

#include "service/sandbox_conn.h"
#include "service/sandbox_run.h"

/* All owned. */
struct prepared_exec {
    const char **argv; /* only the array is owned */
    char **env;
    char *cwd;
    struct ctl_limits limits;
    uint32_t timeout_ms; /* 0: none */
};

void prepared_exec_done(struct prepared_exec *prepared);

/* Sets environment, limits and profile. Refuses a profile that confines otherwise than the sandbox. */
int prepared_exec_make(struct service *service, struct sandbox_conn *conn, const struct sandbox_command *command,
                       struct prepared_exec *ret, struct err *err);

#define PREPARED_TAG 1

/* Sends EXEC for a process in the background and waits for STARTED. */
int prepared_exec_start(int ctl_fd, const struct prepared_exec *prepared, const struct sandbox_command *command, uint32_t flags,
                        char name[CTL_NAME_MAX], struct err *err);

/* Waits for the STARTED of an EXEC or ATTACH that was sent. `payload` holds FRAME_PAYLOAD_MAX. */
int prepared_exec_await(int ctl_fd, char *payload, char name[CTL_NAME_MAX], struct err *err);
