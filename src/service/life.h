/*
 * Inside the room: steps of a sandbox's life, for those who take them without being asked by a caller. The ward's `life` is held.
 */
#pragma once

#include "base/err.h"
#include "service/ward.h"
#include "store/sandbox_row.h"

struct service;

/* Writes the step, in the store and in the row. */
int life_move(struct service *service, struct sandbox_row *row, unsigned from, enum sandbox_status to, const char *reason,
              struct err *err);

int life_stop(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err);
int life_destroy(struct service *service, struct ward *ward, struct sandbox_row *row, struct err *err);

/* Ends whatever runs of it; the row is the caller's to write. */
void life_end(struct service *service, struct ward *ward);
