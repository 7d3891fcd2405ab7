#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/defaults.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/attach.h"
#include "cli/output.h"
#include "cli/policy_tree.h"
#include "cli/run_again.h"
#include "cli/run_options.h"
#include "cli/verb.h"
#include "policy/lint.h"
#include "review/edit.h"
#include "runtime/runtime_spec.h"
#include "sandbox/launch.h"
#include "sandbox/state_dir.h"

/* The sandbox in which the command runs. */
struct run_sandbox {
    char id[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX];
    int dir_fd;                  /* owned */
    struct sandbox_spec *before; /* owned: the spec before options changed it; NULL: unchanged */
};

#define RUN_SANDBOX_NONE ((struct run_sandbox){ .dir_fd = -1 })

static void run_sandbox_done(struct run_sandbox *sandbox)
{
    cleanup_fd(&sandbox->dir_fd);
    sandbox_spec_free(sandbox->before);
}

/* Counts of the changes, as 'agentfense diff' would show them. */
struct tally {
    size_t added, modified, deleted; /* files */
    bool has_others;                 /* directories, and changes that no diff shows, such as those in .git */
};

static int take_tally(const char *delta, struct tally *ret, struct err *err)
{
    autodone(edit_list) struct edit_list edits = EDIT_LIST_EMPTY;
    int r = edit_list_load(delta, NULL, 0, &edits, err);

    if (r < 0)
        return r;
    *ret = (struct tally){ .has_others = edits.git_count > 0 || edits.special_count > 0 || edits.deep_count > 0 };
    for (size_t i = 0; i < edits.count; i++) {
        const struct edit *edit = &edits.items[i];

        if (!edit_is_file(edit))
            ret->has_others = true;
        else if (edit->kind == CHANGE_ADDED)
            ret->added++;
        else if (edit->kind == CHANGE_DELETED)
            ret->deleted++;
        else
            ret->modified++;
    }
    return 0;
}

static void print_json(const struct run_sandbox *sandbox, const struct tally *tally, const struct ctl_finished *result,
                       int code, bool kept)
{
    json_t *summary = json_pack("{s:s, s:s, s:i, s:b, s:f, s:b, s:{s:I, s:I, s:I}}", "sandbox", sandbox->name, "id",
                                sandbox->id, "exit_code", code, "timed_out", result->end == CTL_END_TIMED_OUT, "seconds",
                                (double) result->wall_us / 1e6, "kept", kept, "changes", "added", (json_int_t) tally->added,
                                "modified", (json_int_t) tally->modified, "deleted", (json_int_t) tally->deleted);
    char *text = json_dumps(summary, JSON_REAL_PRECISION(6));

    fprintf(stderr, "%s\n", text);
    free(text);
    json_decref(summary);
}

static void print_summary(const char *name, const struct tally *tally, bool kept)
{
    size_t total = tally->added + tally->modified + tally->deleted;

    if (total == 0 && !(kept && tally->has_others)) {
        fprintf(stderr, "agentfense: no files changed\n");
        return;
    }
    if (total == 0) {
        fprintf(stderr,
                "agentfense: no files changed, but directories or .git; go on: agentfense run --in %s, drop: agentfense "
                "rm %s\n",
                name, name);
        return;
    }
    fprintf(stderr, "agentfense: %zu file%s changed (%zu added, %zu modified, %zu deleted)", total, total == 1 ? "" : "s",
            tally->added, tally->modified, tally->deleted);
    if (kept && isatty(STDERR_FILENO))
        fprintf(stderr, "\n  see:  agentfense diff %s\n  keep: agentfense approve %s\n  drop: agentfense rm %s\n", name, name,
                name);
    else if (kept)
        fprintf(stderr, "; see: agentfense diff %s, keep: agentfense approve %s, drop: agentfense rm %s\n", name, name, name);
    else
        fprintf(stderr, ", and dropped\n");
}

/* Removes the sandbox if nothing changed in it. */
static int conclude(struct state_dir *state_dir, const struct run_sandbox *sandbox, const struct run_options *o,
                    const struct ctl_finished *result, int code)
{
    autofree char *delta = state_dir_path(state_dir, sandbox->id, "delta");
    struct tally tally = { 0 };
    struct err err = ERR_NONE;
    int r = take_tally(delta, &tally, &err);

    if (r == -ENOENT) {
        fprintf(stderr, "agentfense: sandbox '%s' was discarded while it ran\n", sandbox->name);
        return code;
    }
    if (r < 0) {
        fprintf(stderr, "agentfense: the changes in sandbox '%s' cannot be read: %s\n", sandbox->name, err.text);
        return EXIT_OURS;
    }
    bool keeps = !o->removes && (run_options_go_on(o) || tally.has_others || tally.added + tally.modified + tally.deleted > 0);
    if (!keeps && state_dir_remove(state_dir, sandbox->id, &err) < 0)
        fprintf(stderr, "agentfense: sandbox '%s' is left behind: %s\n", sandbox->name, err.text);
    if (o->is_json)
        print_json(sandbox, &tally, result, code, keeps);
    else if (!o->is_quiet)
        print_summary(sandbox->name, &tally, keeps);
    return code;
}

static int exit_code(const struct run_options *o, const struct ctl_finished *result)
{
    const char *what = o->command[0] ? o->command[0] : "the shell";

    if (result->flags & CTL_FINISHED_OOM && (result->end == CTL_END_SIGNALED || result->status == 128 + SIGKILL)) {
        char limit[SIZE_TEXT_MAX];
        size_format(o->spec->memory_bytes, limit);
        fprintf(stderr, "agentfense: it ran out of memory%s%s\n", o->spec->memory_bytes ? "; the limit is " : "",
                o->spec->memory_bytes ? limit : "");
        return EXIT_OOM;
    }
    switch (result->end) {
    case CTL_END_EXITED:
        return result->status;
    case CTL_END_SIGNALED:
        return 128 + result->status;
    case CTL_END_TIMED_OUT:
        fprintf(stderr, "agentfense: it was killed after %u.%03u seconds (--timeout)\n", o->timeout_ms / 1000,
                o->timeout_ms % 1000);
        return EXIT_TIMED_OUT;
    case CTL_END_NOT_STARTED:
        fputs("agentfense: cannot run '", stderr);
        output_escaped(stderr, what);
        fputs("'", stderr);
        if (o->workdir) {
            fputs(" in '", stderr);
            output_escaped(stderr, o->workdir);
            fputs("'", stderr);
        }
        fprintf(stderr, ": %s\n", result->text);
        return result->status;
    default:
        fprintf(stderr, "agentfense: the sandbox ended before the command: %s\n", result->text);
        return EXIT_OURS;
    }
}

static int resolve_base(struct run_options *o, struct err *err)
{
    const char *dir = o->dir ? o->dir : ".";
    struct stat st;

    o->spec->base_path = realpath(dir, NULL);
    if (!o->spec->base_path)
        return err_errno(err, -errno, "directory '%s'", dir);
    if (stat(o->spec->base_path, &st) < 0)
        return err_errno(err, -errno, "directory '%s'", dir);
    if (!S_ISDIR(st.st_mode))
        return err_invalid(err, "'%s' is not a directory", dir);
    if (access(o->spec->base_path, R_OK | X_OK) < 0)
        return err_errno(err, -errno, "directory '%s' cannot be read", dir);
    return 0;
}

/* Like realpath(3), but the last components of the path may be missing. */
static char *resolve_missing(const char *path)
{
    autofree char *part = xdup(path);
    char *real = realpath(part, NULL);

    while (!real) {
        char *slash = strrchr(part, '/');

        if (!slash || slash == part)
            return xdup(path);
        *slash = '\0';
        real = realpath(part, NULL);
    }
    autofree char *above = real;
    return xprintf("%s%s", strcmp(above, "/") == 0 ? "" : above, path + strlen(part));
}

/* Must run before any step that creates files in the directory. */
static int check_home(const struct run_options *o, struct err *err)
{
    autofree char *home = state_dir_find_path(err);
    size_t len = strlen(o->spec->base_path);

    if (!home)
        return -EINVAL;
    autofree char *real = resolve_missing(home);
    if (strcmp(o->spec->base_path, "/") == 0 ||
        (strncmp(real, o->spec->base_path, len) == 0 && (real[len] == '/' || real[len] == '\0')))
        return err_set(err, ERR_FAILED_PRECONDITION, -EINVAL,
                       "'%s' holds the state directory '%s', where changes to it are kept; set AGENTFENSE_STATE_DIR to a "
                       "directory outside of it, or choose a smaller one",
                       o->spec->base_path, home);
    return 0;
}

/* Checks only the user's own rules: with a preset alone there is nothing to check. */
static int warn_of_rules(const struct run_options *o, const struct rule_list *rules, struct err *err)
{
    struct ruleset_options options = { 0 };
    autoptr(ruleset) compiled = NULL;
    autoptr(lint) lint = NULL;
    size_t count;
    int r;

    if (o->policy.file_count == 0 && o->policy.short_count == 0)
        return 0;
    r = policy_tree_has_workspace(o->spec->base_path, &options.workspace_is_real, err);
    if (r == 0)
        r = ruleset_new(rules, &options, &compiled, err);
    if (r < 0 || o->is_quiet)
        return r;
    lint = lint_new(compiled);
    lint_finish(lint);
    const struct lint_finding *findings = lint_findings(lint, &count);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "agentfense: %s: ", findings[i].severity == LINT_ERROR ? "careful" : "note");
        output_escaped(stderr, findings[i].text);
        fputs("\n", stderr);
    }
    return 0;
}

static int fill_rules(struct run_options *o, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    int r = policy_options_load(&o->policy, DEFAULT_PRESET, &rules, err);

    if (r == 0)
        r = warn_of_rules(o, &rules, err);
    for (size_t i = 0; r == 0 && i < rules.count; i++)
        sandbox_spec_add_rule(o->spec, rules.items[i].pattern, (uint8_t) rules.items[i].type, (uint8_t) rules.items[i].level,
                              rules.items[i].priority);
    return r;
}

/* Checks all that can be refused before anything is created. */
static int prepare(struct run_options *o, struct err *err)
{
    int r = resolve_base(o, err);

    if (r == 0)
        r = check_home(o, err);
    return r < 0 ? r : fill_rules(o, err);
}

/* Finds the existing sandbox that --in or --last names. */
static int find_sandbox(const struct run_options *o, struct state_dir *state_dir, struct run_sandbox *ret, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    int r = o->in ? state_dir_find(state_dir, o->in, ret->id, &ret->dir_fd, err)
                  : state_dir_find_last(state_dir, ret->id, &ret->dir_fd, err);

    if (r == 0 && sandbox_dir_is_deleted(ret->dir_fd))
        return run_refuse_deleted(o->in ? o->in : ret->id, err);
    if (r == 0)
        r = sandbox_spec_load(ret->dir_fd, &spec, err);
    if (r < 0)
        return r;
    state_dir_show_name(state_dir, ret->id, spec, ret->name);
    return run_again_change(o, ret->dir_fd, ret->name, &ret->before, err);
}

/* Creates the sandbox's directory, or opens that of an existing sandbox. */
static int make_sandbox(struct run_options *o, struct state_dir *state_dir, struct run_sandbox *ret, struct err *err)
{
    int r;

    if (run_options_go_on(o))
        return find_sandbox(o, state_dir, ret, err);
    o->spec->is_live = true;
    o->spec->created_ns = (uint64_t) clock_wall_ns();
    r = state_dir_create(state_dir, o->spec, false, &ret->dir_fd, err);
    if (r < 0)
        return r;
    snprintf(ret->id, sizeof(ret->id), "%s", o->spec->id);
    snprintf(ret->name, sizeof(ret->name), "%s", o->spec->name);
    return 0;
}

static char *workdir_of(const struct run_options *o)
{
    if (!o->workdir)
        return xdup("");
    return *o->workdir == '/' ? xdup(o->workdir) : xprintf("%s/%s", RUNTIME_WORKSPACE, o->workdir);
}

/* Sets a prompt that names the sandbox, and our TERM, because the command draws on our terminal. */
static char **make_env(const struct run_options *o, const char *name)
{
    const char *term = getenv("TERM");
    char **env = xalloc((o->spec->env_count + 4) * sizeof(*env));
    size_t count = 0;

    if (o->has_tty) {
        env[count++] = xprintf("TERM=%s", term && *term ? term : "xterm");
        env[count++] = xprintf("PS1=[agentfense %s] \\w\\$ ", name);
    }
    for (size_t i = 0; run_options_go_on(o) && i < o->spec->env_count; i++)
        env[count++] = xdup(o->spec->env[i]);
    return env;
}

static int run_in(struct run_options *o, const char *name, struct launch *sandbox, int signal_fd, struct ctl_finished *ret,
                  struct err *err)
{
    static const char *const shell[] = { "/bin/bash", "--norc", NULL };
    autofree char *workdir = workdir_of(o);
    char **env = make_env(o, name);
    struct attach attach = {
        .ctl_fd = sandbox->ctl_fd,
        .signal_fd = signal_fd,
        .is_tty = o->has_tty,
        .takes_stdin = !o->no_stdin,
        .shows_refusals = o->is_verbose,
        .timeout_ms = o->timeout_ms,
    };
    struct ctl_command command = {
        .name = "",
        .session = "",
        .cwd = workdir,
        .argv = o->command[0] ? (const char *const *) o->command : shell,
        .envp = (const char *const *) env,
    };
    int r = attach_run(&attach, &command, ret, err);

    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    free(env);
    return r;
}

/* Returns the exit code after an interrupt that came before the command had started. */
static int interrupted(int signal_fd)
{
    struct signalfd_siginfo info = { 0 };

    return read(signal_fd, &info, sizeof(info)) == sizeof(info) ? 128 + (int) info.ssi_signo : EXIT_OURS;
}

/* Prints one step of a slow start. The text comes from another program, so it is escaped. */
static void tell_step(const char *text, void *cookie)
{
    const struct run_options *o = cookie;

    if (o->is_quiet)
        return;
    fputs("agentfense: ", stderr);
    output_escaped(stderr, text);
    fputc('\n', stderr);
}

/* If the start fails, removes a new sandbox, and restores the spec of an existing one. */
static int start_sandbox(struct run_options *o, struct state_dir *state_dir, const struct run_sandbox *sandbox, int signal_fd,
                         struct launch *ret, struct err *err)
{
    struct err ignored = ERR_NONE;
    bool may_be_container = run_options_go_on(o) || sandbox_spec_is_container(o->spec);
    struct launch_wait wait = { .within_ms = may_be_container ? LAUNCH_CONTAINER_MS : LAUNCH_MS,
                                .cancel_fd = signal_fd,
                                .on_step = tell_step,
                                .cookie = o };
    int r = launch(state_dir, sandbox->id, LAUNCH_OWNED, &wait, ret, err);

    if (r < 0 && !run_options_go_on(o))
        state_dir_remove(state_dir, sandbox->id, &ignored);
    else if (r < 0 && sandbox->before)
        run_again_restore(sandbox->dir_fd, sandbox->before);
    if (r < 0 && err->code == ERR_FAILED_PRECONDITION && sandbox_dir_is_running(sandbox->dir_fd))
        return run_refuse_running(sandbox->name, err);
    return r;
}

/* Prints refusals that arrive after the command has ended. */
static void show_late(const struct ctl_reply *reply, void *cookie)
{
    if (((const struct run_options *) cookie)->is_verbose)
        attach_show_refusal(reply);
}

static int run_sandbox(struct run_options *o, struct err *err)
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    autodone(launch) struct launch sandbox = LAUNCH_NONE;
    autofd int signal_fd = -1;
    autodone(run_sandbox) struct run_sandbox made = RUN_SANDBOX_NONE;
    struct ctl_finished result = { .end = CTL_END_LOST };
    int r = attach_take_signals(&signal_fd);

    if (r < 0)
        return err_errno(err, r, "waiting for signals");
    if (!run_options_go_on(o))
        r = prepare(o, err);
    if (r == 0)
        r = state_dir_open(true, &state_dir, err);
    if (r == 0)
        r = make_sandbox(o, &state_dir, &made, err);
    if (r < 0)
        return r;
    r = start_sandbox(o, &state_dir, &made, signal_fd, &sandbox, err);
    if (r == -EINTR)
        return interrupted(signal_fd);
    if (r < 0)
        return r;
    /* Report the changes however the command ended: what it wrote is kept. */
    if (run_in(o, made.name, &sandbox, signal_fd, &result, err) < 0)
        snprintf(result.text, sizeof(result.text), "%s", err->text);
    int code = exit_code(o, &result);
    launch_stop(&sandbox, 0, show_late, o);
    return conclude(&state_dir, &made, o, &result, code);
}

static int run(int argc, char **argv)
{
    struct run_options options;
    struct err err = ERR_NONE;
    int r = run_options_parse(&options, argc, argv, &err);
    bool is_usage = r < 0;

    if (r == 0 && options.wants_help)
        fputs(run_options_help, stdout);
    else if (r == 0)
        r = run_sandbox(&options, &err);
    run_options_done(&options);
    if (r >= 0)
        return r;
    fputs("agentfense run: ", stderr);
    output_escaped(stderr, err.text);
    fputs("\n", stderr);
    return is_usage ? EXIT_USAGE : EXIT_OURS;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "run a command in a sandbox over a directory",
    .run = run,
};
