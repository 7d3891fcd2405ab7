/*
 * The control socket <dir>/ctl. Only our own user and root may connect.
 */
#pragma once

#include "base/err.h"

struct sandbox;

int ctl_server_open(struct sandbox *sandbox, struct err *err);
void ctl_server_close(struct sandbox *sandbox);
