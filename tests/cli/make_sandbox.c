/* make-sandbox NAME BASE: makes the directory of a sandbox in the state directory and prints its path. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/state_dir.h"

int main(int argc, char **argv)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    autofd int fd = -1;
    struct err err = ERR_NONE;

    if (argc != 3)
        return 2;
    spec->name = xdup(argv[1]);
    spec->base_path = xdup(argv[2]);
    spec->runtime = xdup("mock");
    spec->hostname = xdup("");
    spec->created_ns = (uint64_t) clock_wall_ns();
    if (state_dir_open(true, &state_dir, &err) < 0 || state_dir_create(&state_dir, spec, true, &fd, &err) < 0) {
        fprintf(stderr, "make-sandbox: %s\n", err.text);
        return 1;
    }
    autofree char *path = state_dir_path(&state_dir, spec->id, "");
    puts(path);
    return 0;
}
