/* Private to the module: the connection to the private server of this user's state directory, which is started if needed (call/lifeline.h). */
#pragma once

#include "client/client.h"

struct private_server {
    int lifeline_fd, dir_fd; /* owned */
    char *address;           /* owned: "unix:PATH", valid while `dir_fd` is open */
    char *log_path;          /* owned */
};

#define PRIVATE_SERVER_NONE ((struct private_server){ .lifeline_fd = -1, .dir_fd = -1 })

/* Returns 1 with a private server, or 0 if another server of ours has the state directory and listens at `local_address`. */
int private_server_open(const struct client_options *options, struct private_server *ret, struct err *err);
void private_server_done(struct private_server *server);
