/*
 * Whether a sanitizer is built in. Its run-time is in the way of a few things that are otherwise right; those say so by these names.
 */
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#endif
#else
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED_ADDRESS 1
#endif
#ifdef __SANITIZE_THREAD__
#define SANITIZED_THREAD 1
#endif
#endif

/* For a program that ends by _exit(), where nobody would look for leaks. */
#ifdef SANITIZED_ADDRESS
#include <sanitizer/lsan_interface.h>
#define sanitized_find_leaks() __lsan_do_leak_check()
#else
#define sanitized_find_leaks() ((void) 0)
#endif
