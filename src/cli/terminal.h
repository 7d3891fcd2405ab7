/*
 * Our own terminal, while a command in a sandbox uses it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct terminal {
    bool is_raw;
    struct termios before, raw;
};

/* Passes every key to the command, including Ctrl-C. terminal_restore() restores the mode, also after a failure. */
int terminal_make_raw(struct terminal *terminal);
/* Sets the mode again after another program has changed it. */
void terminal_make_raw_again(struct terminal *terminal);
void terminal_restore(struct terminal *terminal);

/* Returns 24 by 80 without a terminal. */
void terminal_get_size(uint16_t *ret_rows, uint16_t *ret_cols);
void terminal_set_size(int master_fd, uint16_t rows, uint16_t cols);
