#include "wire/driver_trial.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/program.h"

#define TRY_MS 10000

const char *const driver_trial_names[] = { "fence", "overlayfs", "copy", NULL };

int driver_trial_index(const char *name)
{
    for (int i = 0; driver_trial_names[i]; i++)
        if (strcmp(driver_trial_names[i], name) == 0)
            return i;
    return -1;
}

static void parse_line(const char *line, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    autofree char *text = xdupn(line, len);
    char *verdict = strchr(text, '\t'), *reason = verdict ? strchr(verdict + 1, '\t') : NULL;
    int i;

    if (!reason)
        return;
    *verdict++ = *reason++ = '\0';
    i = driver_trial_index(text);
    if (i < 0)
        return;
    ret[i].works = strcmp(verdict, "yes") == 0;
    snprintf(ret[i].reason, sizeof(ret[i].reason), "%s", reason);
}

void driver_trial_parse(const char *text, size_t len, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t) (end - text) : len;

        if (!memchr(text, '\0', line))
            parse_line(text, line, ret);
        if (!end)
            return;
        len -= line + 1;
        text = end + 1;
    }
}

void driver_trial_run(const char *dir, struct driver_trial ret[DRIVER_TRIAL_COUNT])
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofree char *program = NULL;
    struct err err = ERR_NONE;
    int status, r = program_find("agentfense-supervisor", &program, &err);

    if (r == 0) {
        const char *argv[] = { program, "--try", dir, NULL };

        r = proc_run(&(struct proc_spec){ .argv = argv }, TRY_MS, &text, &status, &err);
    }
    memset(ret, 0, DRIVER_TRIAL_COUNT * sizeof(*ret));
    if (r >= 0 && text.data)
        driver_trial_parse(text.data, text.len, ret);
    for (size_t i = 0; i < DRIVER_TRIAL_COUNT; i++)
        if (!*ret[i].reason)
            snprintf(ret[i].reason, sizeof(ret[i].reason), "it could not be tried%s%.200s", *err.text ? ": " : "", err.text);
}
