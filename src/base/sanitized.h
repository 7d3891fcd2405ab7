/*
 * Whether a sanitizer is built in. Code that a sanitizer's run-time does not support tests these names.
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

/* For a program that ends with _exit(), which skips the leak check. */
#ifdef SANITIZED_ADDRESS
#include <sanitizer/lsan_interface.h>
#define sanitized_find_leaks() __lsan_do_leak_check()
#else
#define sanitized_find_leaks() ((void) 0)
#endif
