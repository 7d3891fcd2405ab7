/*
 * Making and ending the mount, with the kernel directly: no set-user-ID helper.
 */
#pragma once

#include "fence/fence_int.h"

/* Mounts at the fence's mount point and gives the session the device. */
int mount_make(struct fence *f, const char *mount_point, struct err *err);
void mount_end(struct fence *f);
