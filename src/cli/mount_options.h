/* The options of 'agentfense mount'. */
#pragma once

#include "cli/policy_options.h"
#include "fence/fence.h"

struct mount_options {
    struct fence_config config;
    struct policy_options policy;
    const char *mount_point;
    const char *events_path;
    const char *control_path;
    int ready_fd;
    bool wants_help;
};

extern const char mount_options_help[];

/* The caller passes `ret` to mount_options_done(), also after an error. */
int mount_options_parse(int argc, char **argv, struct mount_options *ret, struct err *err);
void mount_options_done(struct mount_options *options);
