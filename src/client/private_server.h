/* Inside the module: the connection to the private server of this user's state, which is started where it is not there (call/lifeline.h). */
#pragma once

#include "client/client.h"

struct private_server {
    int lifeline_fd, dir_fd; /* owned */
    char *address;           /* owned: "unix:PATH", while `dir_fd` is open */
    char *log_path;          /* owned */
};

#define PRIVATE_SERVER_NONE ((struct private_server){ .lifeline_fd = -1, .dir_fd = -1 })

/* Returns 1 with a private server; 0 where another server of ours serves the state and answers at `local_address`. */
int private_server_open(const struct client_options *options, struct private_server *ret, struct err *err);
void private_server_done(struct private_server *server);
