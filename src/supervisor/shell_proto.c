#include "supervisor/shell_proto.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * Of the ten descriptors that every shell can name, ours are 6 (reports), 7 (the command's text) and 8 (the same, while it is read):
 * 3, 4 and 5 are what people take first, 9 what they lock with. They come to us as 3 and 4 and are moved out of the way.
 */
#define MOVE "exec 6>&3 7<&4 3>&- 4<&-; "
#define RUN " /proc/self/fd/8 8<&7 7<&- 6>&- </dev/null\n"

/* Without job control: it needs a terminal, and interrupting is ours to do. */
static const char *const bash_args[] = { "--norc", "--noprofile", "--noediting", "-i", "+m", NULL };
static const char *const zsh_args[] = { "-f", "-i", "+m", NULL };
static const char *const posix_args[] = { "-i", "+m", NULL };

static const struct shell_proto shell_protos[] = {
    /* execfail: a failed `exec` of a program ends only the command. No history, and no `!` that refers to it. */
    { .name = "bash",
      .args = bash_args,
      .preamble = MOVE "shopt -s execfail; set +H +o history; unset HISTFILE MAILCHECK; PS1= PS2=\n",
      .run_line = "\\builtin ." RUN,
      .echo = "\\builtin echo",
      .no_trace = " 2>/dev/null" },
    { .name = "zsh",
      .args = zsh_args,
      /* NULLCMD: a redirection without a command makes the file and no more, as elsewhere, instead of reading our lines. */
      .preamble = MOVE "unsetopt prompt_cr prompt_sp notify bg_nice; setopt interactive_comments; PS1= PS2= RPS1= NULLCMD=: "
                       "READNULLCMD=:\n",
      .run_line = "\\builtin ." RUN,
      .echo = "\\builtin echo",
      /* A redirection alone, all that an interrupt may leave of the line, is `cat` here, and would eat our lines. */
      .no_trace = "" },
    /* A parse error makes dash and its kin discard their whole input buffer. `command .` would survive it, and go on with the
     * rest of the file; no function can be called `.` in these. */
    { .name = "sh",
      .args = posix_args,
      .preamble = MOVE "PS1= PS2=\n",
      .run_line = "\\." RUN,
      .echo = "\\command echo",
      .no_trace = " 2>/dev/null",
      .forgets_input = true },
};

const struct shell_proto *shell_proto_of(const char *shell_path)
{
    const char *slash = strrchr(shell_path, '/');
    const char *name = slash ? slash + 1 : shell_path;

    for (size_t i = 0; i < ARRAY_LEN(shell_protos) - 1; i++) {
        if (strcmp(name, shell_protos[i].name) == 0)
            return &shell_protos[i];
    }
    return &shell_protos[ARRAY_LEN(shell_protos) - 1];
}

const char *shell_proto_default_shell(void)
{
    return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

/* On the same line as the command, so that line numbers in messages are the command's own. */
void shell_proto_add_text(struct buf *out, const void *command, size_t len)
{
    buf_add_str(out, "\\exec 8<&-;");
    buf_add(out, command, len);
    buf_add_char(out, '\n');
}

/* The quote is a comment, unless one is open. */
void shell_proto_add_report_line(const struct shell_proto *shell_proto, struct buf *out, unsigned long long number,
                                 unsigned attempt)
{
    buf_addf(out, "{ %s %llu \"$?\" >&6; }%s%s\n", shell_proto->echo, number, shell_proto->no_trace, attempt % 2 ? " #\"" : "");
}
