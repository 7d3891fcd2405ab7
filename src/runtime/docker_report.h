/*
 * The reports of agentfense-container to its supervisor, one packet each: "word number text".
 */
#pragma once

#include <stdint.h>

#define DOCKER_REPORT_TEXT_MAX 1024

enum docker_report_kind {
    DOCKER_REPORT_PROGRESS, /* text: the progress, for the log */
    DOCKER_REPORT_STARTED,  /* number: init's pid; sent before init gets its socket */
    DOCKER_REPORT_MEMORY,   /* number: processes ended since the last such report */
    DOCKER_REPORT_PIDS,     /* number: forks refused since then */
    DOCKER_REPORT_FAILED,   /* number: a code of base/err.h; text: the reason; always the last report */
};

struct docker_report {
    enum docker_report_kind kind;
    uint64_t number;
    char text[DOCKER_REPORT_TEXT_MAX];
};

/* Never blocks: -EAGAIN if the reader is far behind. Truncates long text. */
int docker_report_send(int fd, enum docker_report_kind kind, uint64_t number, const char *text);

/* Returns 1; 0 if there is no report now or no more at all; -EPROTO for an invalid one. Never blocks. */
int docker_report_receive(int fd, struct docker_report *ret);
