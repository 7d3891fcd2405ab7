/*
 * Mounts and unmounts by mount(2), without a set-user-ID helper.
 */
#pragma once

#include "fence/fence_int.h"

/* Mounts and gives the session the device. */
int mount_make(struct fence *f, const char *mount_point, struct err *err);
void mount_end(struct fence *f);
