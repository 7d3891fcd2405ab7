#include "api/process_spec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"

#define SHELL "/bin/sh"
#define LIMIT_MAX ((int64_t) 1 << 31)
#define LABEL_BYTES_MAX 256

void process_spec_done(struct process_spec *spec)
{
    free(spec->args);
    pair_list_done(&spec->env);
    *spec = (struct process_spec){ 0 };
}

static int take_limits(const Sandbox__V1__ProcessLimits *limits, struct execution_limits *ret, struct err *err)
{
    int64_t cpu_ns;
    int r;

    if (!limits)
        return 0;
    r = take_duration(limits->cpu_time, "cpu_time", &cpu_ns, err);
    if (r < 0)
        return r;
    if (limits->memory_bytes < 0 || limits->processes < 0 || limits->open_files < 0)
        return err_invalid(err, "limits must not be negative");
    ret->memory_mb = limits->memory_bytes / (1 << 20) + (limits->memory_bytes % (1 << 20) > 0);
    ret->cpu_sec = cpu_ns / CLOCK_NS_PER_SEC + (cpu_ns % CLOCK_NS_PER_SEC > 0);
    ret->processes = limits->processes;
    ret->open_files = limits->open_files;
    if (ret->memory_mb > LIMIT_MAX || ret->cpu_sec > LIMIT_MAX || ret->processes > LIMIT_MAX || ret->open_files > LIMIT_MAX)
        return err_invalid(err, "a limit is too large");
    return 0;
}

int process_spec_take(const Sandbox__V1__ProcessSpec *message, struct process_spec *ret, struct err *err)
{
    struct sandbox_command *command = &ret->command;

    if (!message)
        return err_invalid(err, "spec is required");
    if (!*message->command == !message->n_argv)
        return err_invalid(err, *message->command ? "command and argv are both given" : "command is required");
    if (message->n_argv && !*message->argv[0])
        return err_invalid(err, "argv has no program");
    if (strlen(message->name) > LABEL_BYTES_MAX || strlen(message->tag) > LABEL_BYTES_MAX)
        return err_invalid(err, "name and tag have at most %d bytes", LABEL_BYTES_MAX);
    ret->args = xalloc((message->n_argv + 3) * sizeof(*ret->args));
    if (message->n_argv) {
        command->command = message->argv[0];
        for (size_t i = 1; i < message->n_argv; i++)
            ret->args[i - 1] = message->argv[i];
    } else {
        command->command = SHELL;
        ret->args[0] = "-c";
        ret->args[1] = message->command;
    }
    for (size_t i = 0; i < message->n_env; i++)
        pair_list_add(&ret->env, message->env[i]->key, message->env[i]->value);
    command->args = ret->args;
    command->env = &ret->env;
    command->working_dir = message->workdir;
    command->profile = "";
    command->label = message->name;
    command->session_id = message->tag;
    return take_limits(message->limits, &command->limits, err);
}

static Sandbox__V1__ProcessStatus status_of(const struct process_info *info)
{
    if (info->is_running)
        return SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_RUNNING;
    if (!info->record.has_exited || info->record.end == CTL_END_LOST)
        return SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_LOST;
    return info->record.end == CTL_END_SIGNALED ? SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_SIGNALED
                                                : SANDBOX__V1__PROCESS_STATUS__PROCESS_STATUS_EXITED;
}

Sandbox__V1__Process *make_process(const char *sandbox_id, const struct process_info *info)
{
    const struct process_record *record = &info->record;
    Sandbox__V1__Process *out = message_new(&sandbox__v1__process__descriptor);

    out->id = xdup(record->name);
    out->sandbox_id = xdup(sandbox_id);
    out->pid = (int32_t) record->pid;
    out->status = status_of(info);
    out->command = make_text(record->command, strlen(record->command));
    out->name = make_text(info->label, strlen(info->label));
    out->tag = make_text(info->session_id, strlen(info->session_id));
    out->terminal = record->is_tty;
    out->started_at = make_timestamp(record->started_ns);
    out->ended_at = make_timestamp(record->stopped_ns);
    out->log_lost_bytes = (int64_t) record->lost_bytes;
    if (!record->has_exited)
        return out;
    out->exit_code = record->end == CTL_END_SIGNALED ? 128 + record->status : record->status;
    out->signal = record->end == CTL_END_SIGNALED ? record->status : 0;
    out->user_time = make_duration((int64_t) record->user_us * 1000);
    out->system_time = make_duration((int64_t) record->system_us * 1000);
    out->max_rss_bytes = (int64_t) record->max_rss_kib << 10;
    return out;
}
