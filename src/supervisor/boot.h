/*
 * A sandbox's start: identity, fence, runtime, link to init, in this order. Running when init has said hello, which comes by
 * the reactor; failed when it does not.
 */
#pragma once

struct sandbox;

/* In the supervisor's mount namespace (namespace.h). Failing is said by sandbox_fail(). */
void boot(struct sandbox *sandbox);

/* The reverse. Everything that runs in the sandbox is killed; what was written is in the delta. */
void boot_undo(struct sandbox *sandbox);

/* Notes the limits that were hit until now: what hit one may end before its event comes. */
void boot_take_limits(struct sandbox *sandbox);
