#include "cli/terminal.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_make_raw(struct terminal *terminal)
{
    if (tcgetattr(STDIN_FILENO, &terminal->before) < 0)
        return -errno;
    terminal->raw = terminal->before;
    cfmakeraw(&terminal->raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->raw) < 0)
        return -errno;
    terminal->is_raw = true;
    return 0;
}

void terminal_make_raw_again(struct terminal *terminal)
{
    if (terminal->is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->raw);
}

void terminal_restore(struct terminal *terminal)
{
    if (terminal->is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal->before);
    terminal->is_raw = false;
}

void terminal_get_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize size = { 0 };

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *ret_rows = size.ws_row ? size.ws_row : 24;
    *ret_cols = size.ws_col ? size.ws_col : 80;
}

void terminal_set_size(int master_fd, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };

    ioctl(master_fd, TIOCSWINSZ, &size);
}
