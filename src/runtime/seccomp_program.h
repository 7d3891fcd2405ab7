/*
 * The compiled filter of seccomp.h, generated at build time by seccomp_compile.c.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

extern const struct sock_filter seccomp_program[];
extern const size_t seccomp_program_bytes;
