/*
 * The API: methods (methods.h), who may call them (gate.h), and one handler for each (handlers.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "call/method.h"
#include "service/service.h"

struct api {
    struct service *service;   /* borrowed */
    const uid_t *allowed_uids; /* borrowed: local users who need no token */
    size_t allowed_uid_count;
    bool needs_token; /* of local users as well */
};
