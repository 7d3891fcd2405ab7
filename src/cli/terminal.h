/*
 * Our own terminal while a command in a sandbox has it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct terminal {
    bool is_raw;
    struct termios before, raw;
};

/* Every key goes to the command, also Ctrl-C. terminal_restore() gives it back, also after a failure in between. */
int terminal_make_raw(struct terminal *terminal);
/* When somebody else has set it meanwhile. */
void terminal_make_raw_again(struct terminal *terminal);
void terminal_restore(struct terminal *terminal);

/* 24 by 80 where there is none. */
void terminal_get_size(uint16_t *ret_rows, uint16_t *ret_cols);
void terminal_set_size(int master_fd, uint16_t rows, uint16_t cols);
