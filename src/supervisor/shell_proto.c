#include "supervisor/shell_proto.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * Every shell can name ten descriptors. Ours are 6 (reports), 7 (the command's text) and 8 (the text while it is read): users
 * often take 3, 4 and 5, and lock with 9. The shell starts with ours as 3 and 4 and moves them.
 */
#define MOVE "exec 6>&3 7<&4 3>&- 4<&-; "
#define RUN " /proc/self/fd/8 8<&7 7<&- 6>&- </dev/null\n"

/* Without job control, which needs a terminal; we do the interrupting. */
static const char *const bash_args[] = { "--norc", "--noprofile", "--noediting", "-i", "+m", NULL };
static const char *const zsh_args[] = { "-f", "-i", "+m", NULL };
static const char *const posix_args[] = { "-i", "+m", NULL };

static const struct shell_proto shell_protos[] = {
    /* execfail: a failed `exec` of a program ends only the command. No history, so `!` has no special meaning. */
    { .name = "bash",
      .args = bash_args,
      .preamble = MOVE "shopt -s execfail; set +H +o history; unset HISTFILE MAILCHECK; PS1= PS2=\n",
      .run_line = "\\builtin ." RUN,
      .echo = "\\builtin echo",
      .no_trace = " 2>/dev/null" },
    { .name = "zsh",
      .args = zsh_args,
      /* NULLCMD: as in other shells, a redirection without a command only creates the file, instead of reading our lines. */
      .preamble = MOVE "unsetopt prompt_cr prompt_sp notify bg_nice; setopt interactive_comments; PS1= PS2= RPS1= NULLCMD=: "
                       "READNULLCMD=:\n",
      .run_line = "\\builtin ." RUN,
      .echo = "\\builtin echo",
      /* An interrupt may leave only the redirection of the line, which would run `cat` here and read our lines. */
      .no_trace = "" },
    /* A parse error makes dash and similar shells discard their whole input buffer. `command .` would survive it, but
     * continue with the rest of the file. No function can be named `.` in these shells. */
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

/* The prefix is on the command's first line, so that line numbers in messages are right. */
void shell_proto_add_text(struct buf *out, const void *command, size_t len)
{
    buf_add_str(out, "\\exec 8<&-;");
    buf_add(out, command, len);
    buf_add_char(out, '\n');
}

/* The quote is part of a comment, unless a quotation is open. */
void shell_proto_add_report_line(const struct shell_proto *shell_proto, struct buf *out, unsigned long long number,
                                 unsigned attempt)
{
    buf_addf(out, "{ %s %llu \"$?\" >&6; }%s%s\n", shell_proto->echo, number, shell_proto->no_trace, attempt % 2 ? " #\"" : "");
}
