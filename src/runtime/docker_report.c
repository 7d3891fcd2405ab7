#include "runtime/docker_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define PACKET_MAX (DOCKER_REPORT_TEXT_MAX + 64)

static const char *const words[] = {
    [DOCKER_REPORT_PROGRESS] = "progress", [DOCKER_REPORT_STARTED] = "started", [DOCKER_REPORT_MEMORY] = "memory",
    [DOCKER_REPORT_PIDS] = "pids",         [DOCKER_REPORT_FAILED] = "failed",
};

int docker_report_send(int fd, enum docker_report_kind kind, uint64_t number, const char *text)
{
    char packet[PACKET_MAX];
    int len = snprintf(packet, sizeof(packet), "%s %" PRIu64 " %.*s", words[kind], number, DOCKER_REPORT_TEXT_MAX - 1, text);

    return send(fd, packet, (size_t) len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int docker_report_parse(char *packet, struct docker_report *ret)
{
    char *number = strchr(packet, ' '), *text;

    if (!number || number[1] < '0' || number[1] > '9')
        return -EPROTO;
    *number++ = '\0';
    errno = 0;
    ret->number = strtoull(number, &text, 10);
    if (errno != 0 || *text != ' ' || strlen(text + 1) >= sizeof(ret->text))
        return -EPROTO;
    memcpy(ret->text, text + 1, strlen(text + 1) + 1);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i], packet) == 0) {
            ret->kind = (enum docker_report_kind) i;
            return 1;
        }
    }
    return -EPROTO;
}

int docker_report_receive(int fd, struct docker_report *ret)
{
    char packet[PACKET_MAX];
    ssize_t n = recv(fd, packet, sizeof(packet) - 1, MSG_DONTWAIT | MSG_TRUNC);

    if (n <= 0)
        return n == 0 || errno == EAGAIN || errno == ECONNRESET ? 0 : -errno;
    if ((size_t) n > sizeof(packet) - 1 || memchr(packet, '\0', (size_t) n))
        return -EPROTO;
    packet[n] = '\0';
    return docker_report_parse(packet, ret);
}
