#include "base/standard_output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failure; /* a negative errno; 0: none */

int standard_output_failed(int r)
{
    if (failure == 0)
        failure = r;
    return r;
}

/* Returns 0 on error, as stdio requires. Handles EAGAIN, because another process with the same open file description may have
 * made it non-blocking. */
static ssize_t write_all(void *cookie, const char *bytes, size_t len)
{
    size_t done = 0;

    (void) cookie;
    while (done < len) {
        ssize_t n = write(STDOUT_FILENO, bytes + done, len - done);
        if (n >= 0) {
            done += (size_t) n;
        } else if (errno == EAGAIN) {
            poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, -1);
        } else if (errno != EINTR) {
            standard_output_failed(-errno);
            return 0;
        }
    }
    return (ssize_t) len;
}

void standard_output_begin(void)
{
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_all });

    if (!stream)
        return;
    setvbuf(stream, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = stream;
}

int standard_output_flush(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        standard_output_failed(errno ? -errno : -EIO);
    return failure;
}

bool standard_output_has_reader(int wait_ms)
{
    struct pollfd p = { .fd = STDOUT_FILENO };
    struct stat st;

    if (fstat(STDOUT_FILENO, &st) < 0 || !S_ISFIFO(st.st_mode))
        return true;
    return poll(&p, 1, wait_ms) <= 0 || !(p.revents & (POLLERR | POLLHUP));
}

int standard_output_finish(const char *program, int code, int failed_code)
{
    int r = standard_output_flush();

    if (r == 0)
        return code;
    if (r == -EPIPE)
        return STANDARD_OUTPUT_CLOSED;
    fprintf(stderr, "%s: writing output: %s\n", program, strerror(-r));
    return failed_code;
}
