/*
 * A sandbox's start: identity, then fence and runtime side by side, then the link to init. Running when init has said hello, which comes by
 * the reactor; failed when it does not.
 */
#pragma once

struct sandbox;

/* In the supervisor's mount namespace (namespace.h). Failing is said by sandbox_fail(). */
void boot(struct sandbox *sandbox);

/* Limits that were hit and of which nobody was told yet: counts them, and tells. What hit one may end before its event comes. */
void boot_report_limits(struct sandbox *sandbox);

/* The same after a command was killed, by the memory limit perhaps: who counts for a container is another process, and is waited for. */
void boot_await_limits(struct sandbox *sandbox);

/* The reverse. Everything that runs in the sandbox is killed; what was written is in the delta. */
void boot_undo(struct sandbox *sandbox);
