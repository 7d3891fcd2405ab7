/*
 * A process in the background: what EXEC starts with CTL_RUN_LOGGED.
 *
 * It goes on whoever asked for it leaves; what it prints goes to files (log_file.h), and its record (wire/process_record.h) tells the rest,
 * also when we are gone. With a terminal a client may be attached to it, see what it prints and type; who attaches is first shown the end
 * of the log. Such a client has heard the end when the first process has ended; the process itself has ended when its whole tree has.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;

#define PROCESSES_KEPT_MAX 64 /* records of those that ended; the oldest go first, with their logs */
#define PROCESS_REPLAY_BYTES (64u << 10)

/* The client hears STARTED or FINISHED; it stays attached only where there is a terminal. */
int process_start(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
                  const struct ctl_command *wanted, struct err *err);

/* END: the client hears OK when nothing of it runs. */
int process_end(struct sandbox *sandbox, struct client *client, uint64_t tag, const char *name, uint32_t grace_ms,
                struct err *err);

/* A client that may wait for an end has gone. */
void process_lose_client(struct sandbox *sandbox, const struct client *client);

/* Before the first: what an earlier supervisor left as running has ended with it. */
void process_recover_all(struct sandbox *sandbox);
