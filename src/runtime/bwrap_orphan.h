/*
 * A bubblewrap that lost its parent at the worst moment. bwrap ties itself to its starter just before it releases its child. If
 * the starter is killed in between, bwrap dies and the child waits for ever: it runs no program yet, and no closed socket wakes
 * it. Programs that start sandboxes sweep such children now and then, at the latest at their own start.
 */
#pragma once

/* Kills every such child that we may signal: one with our arguments that is the first process of its pid namespace, still
 * runs bwrap itself, and whose parent is not bwrap. Returns their number. */
int bwrap_orphan_sweep(void);
