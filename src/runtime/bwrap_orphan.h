/*
 * A bubblewrap that lost its parent at the worst moment. bwrap ties itself to whoever started it a moment before it lets its
 * child go on; if the starter is killed in between, bwrap dies and the child waits for ever: it runs no program yet, and no
 * closed socket wakes it. Whoever starts sandboxes sweeps such children now and then, at its own start at the latest.
 */
#pragma once

/* Ends every child of this kind that we may signal, and only those: started with our arguments, first of its pid namespace,
 * still running bwrap itself, and with a parent that is no bwrap. Returns how many. */
int bwrap_orphan_sweep(void);
