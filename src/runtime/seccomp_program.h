/*
 * The filter of seccomp.h as the kernel runs it, made by seccomp_compile.c when the house is built.
 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

extern const struct sock_filter seccomp_program[];
extern const size_t seccomp_program_bytes;
