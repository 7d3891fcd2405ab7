/* Handlers of the workspace routes, by the file that they are in. */
#pragma once

#include "api/ws_call.h"

/* ws_about.c */
int ws_about(struct ws *ws, struct err *err);
