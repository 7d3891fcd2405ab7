/*
 * Makes messages from what the service returns. The caller sends them with answer_send() or puts them into a message that it sends.
 */
#pragma once

#include "service/codebases.h"
#include "service/commands.h"
#include "service/events.h"
#include "service/sandbox_care.h"
#include "service/sandboxes.h"
#include "service/sessions.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

struct request;

Sandbox__V1__PermissionRule *make_rule(const struct rule *rule);
/* Returns the statuses of the store that the API shows as this one, as bits; status 0: all but deleted. ERR_INVALID_ARGUMENT. */
int take_status(Sandbox__V1__SandboxStatus status, unsigned *ret, struct err *err);
Sandbox__V1__Sandbox *make_sandbox(struct service *service, const struct sandbox_info *info);
/* The same without warnings and the limits in force. */
Sandbox__V1__Sandbox *make_sandbox_of_row(struct service *service, const struct sandbox_row *row);
Sandbox__V1__Session *make_session(const struct session_info *info);
Sandbox__V1__Codebase *make_codebase(const struct codebase_entry *entry);
Sandbox__V1__Version *make_version(const struct version_entry *entry);
Sandbox__V1__Event *make_event(const struct event_info *info);
Sandbox__V1__SandboxStatus make_sandbox_status(int status); /* of an enum sandbox_status */
/* Of another owner's sandbox it names only the path that the caller asked for. */
Sandbox__V1__ReservationConflict *make_reserved(const struct request *request, const struct sandbox_conflict *conflict);
/* Adds a ReservationFailure to the call if there are conflicts. Returns `r`. */
int tell_reserved(const struct request *request, int r, const struct sandbox_conflicts *conflicts);
/* For methods without an answer. */
ProtobufCMessage *make_empty(void);
