/*
 * The supervisor's last report about itself, lines of "key value" in <dir>/state, for people and for a process that finds no
 * supervisor. A running supervisor's control socket has the truth, and the lock tells whether it runs.
 */
#pragma once

struct sandbox;

void state_file_write(const struct sandbox *sandbox);
