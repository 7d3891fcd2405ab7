/*
 * What agentfense-container tells its supervisor, one packet each: "word number text".
 */
#pragma once

#include <stdint.h>

#define DOCKER_REPORT_TEXT_MAX 1024

enum docker_report_kind {
    DOCKER_REPORT_PROGRESS, /* text: what it is at, for the log */
    DOCKER_REPORT_STARTED,  /* number: init's pid. Before init is given its socket */
    DOCKER_REPORT_MEMORY,   /* number: processes ended since the last such report */
    DOCKER_REPORT_PIDS,     /* number: forks refused since then */
    DOCKER_REPORT_FAILED,   /* number: a code of base/err.h; text: why. The last one */
};

struct docker_report {
    enum docker_report_kind kind;
    uint64_t number;
    char text[DOCKER_REPORT_TEXT_MAX];
};

/* Never waits: -EAGAIN when nobody has listened for long. Text too long is cut. */
int docker_report_send(int fd, enum docker_report_kind kind, uint64_t number, const char *text);

/* 1; 0 when there is none now, or no more; -EPROTO for what is no report. Never waits. */
int docker_report_receive(int fd, struct docker_report *ret);
