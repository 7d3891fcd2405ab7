#include "runtime/bwrap_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/bwrap_args_int.h"

void bwrap_args_free(struct bwrap_args *args)
{
    if (!args)
        return;
    for (size_t i = 0; i < args->count; i++) {
        free(args->ops[i].first);
        free(args->ops[i].second);
        buf_done(&args->ops[i].text);
        cleanup_fd(&args->ops[i].source_fd);
    }
    for (size_t i = 0; i < args->fd_count; i++)
        close(args->fds[i].fd);
    free(args->ops);
    free(args->fds);
    free(args);
}

static void render_text(struct buf *out, const char *text)
{
    if (text)
        buf_add(out, text, strlen(text) + 1);
}

static void render_number(struct buf *out, const char *option, bool octal, unsigned long long number)
{
    char text[32];

    render_text(out, option);
    if (octal)
        snprintf(text, sizeof(text), "%04llo", number);
    else
        snprintf(text, sizeof(text), "%llu", number);
    render_text(out, text);
}

void bwrap_args_render(const struct bwrap_args *args, struct buf *out)
{
    for (size_t i = 0; i < args->count; i++) {
        const struct bwrap_op *op = &args->ops[i];

        if (op->is_staged)
            continue;
        if (op->perms >= 0)
            render_number(out, "--perms", true, (unsigned) op->perms);
        if (op->size_bytes)
            render_number(out, "--size", false, op->size_bytes);
        if (op->fd >= 0)
            render_number(out, op->option, false, (unsigned) op->fd);
        else
            render_text(out, op->option);
        render_text(out, op->first);
        render_text(out, op->second);
    }
}

const struct proc_fd *bwrap_args_fds(const struct bwrap_args *args, size_t *ret_count)
{
    *ret_count = args->fd_count;
    return args->fds;
}
