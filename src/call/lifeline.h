/*
 * The lifeline of a private server: a connection that each of its clients keeps open for as long as it needs the server.
 *
 * A private server serves the state directory of one user to that user's verbs when no other server does. It ends shortly after its last
 * lifeline. Its sockets are in the directory `private` of the state directory, which only the owner may enter:
 *
 *     lifeline   a client sends one line: LIFELINE_USE with two hashes (lifeline_use_line()), or LIFELINE_YIELD
 *     http       calls, as of any other server
 *     log        what the server printed since it was started; only the process that starts it, which holds the state's lock, truncates it
 *
 * The server answers with one line. A connection that ends without an answer means that the server is ending: the client tries again.
 */
#pragma once

#include "base/err.h"

#define LIFELINE_DIR "private"
#define LIFELINE_SOCKET "lifeline"
#define LIFELINE_HTTP "http"
#define LIFELINE_LOG "log"

#define LIFELINE_LINE_MAX (ERR_TEXT_MAX + 64)

#define LIFELINE_USE "use"     /* a client: "use SETTINGS ENVIRONMENT" */
#define LIFELINE_YIELD "yield" /* another server: end now unless there are clients */

#define LIFELINE_READY "ready"          /* calls are answered while this connection is open */
#define LIFELINE_DIFFERS "differs"      /* other clients use this server, which runs with other settings */
#define LIFELINE_BUSY "busy"            /* to "yield": there are clients */
#define LIFELINE_FAILED_PREFIX "error " /* "error CODE TEXT": the server could not start */

/* Makes the directory where `create`. -ENOENT without. Refuses one that somebody else owns or may enter. */
int lifeline_open_dir(int state_fd, bool create, int *ret_fd, struct err *err);

/* Connects and sends the line. Returns the connection, or -ENOENT if nobody listens. */
int lifeline_connect(int dir_fd, const char *line);

/* Waits for the answer, as long as it takes. Returns 1; 0 if the connection ended without one; -ECANCELED when `cancel_fd` (-1: none) became
 * readable. */
int lifeline_read_answer(int fd, int cancel_fd, char ret[LIFELINE_LINE_MAX]);

/* Writes what a client and its private server must agree on: the settings (config_show()) with the namespaces whose paths and processes they mean,
 * and, less strictly, the environment, which profiles read, with the umask. Clients whose settings differ may use a server one after the other,
 * but not at once. Call it before the first thread starts. */
void lifeline_use_line(const char *settings, char ret[LIFELINE_LINE_MAX]);
