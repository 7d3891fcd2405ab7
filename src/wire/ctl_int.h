/* Shared by the files that implement ctl_proto.h. */
#pragma once

#include <stdbool.h>

#include "wire/ctl_proto.h"
#include "wire/reader.h"
#include "wire/writer.h"

/* The highest signal and errno numbers on Linux. */
#define CTL_SIGNAL_MAX 64
#define CTL_ERRNO_MAX 4095

bool ctl_state_is_valid(enum ctl_state state);

/* Returns true if the array contains a NUL. */
bool ctl_text_is_ended(const char *text, size_t cap);

/* Copies a string into an array of `cap` zeros. Fails the reader if it does not fit. */
void ctl_read_text(struct reader *r, char *ret, size_t cap);

/* Returns true if there are exactly `count` NUL-terminated paths and none is empty. */
bool ctl_paths_are_valid(const struct ctl_paths *paths, size_t most);
void ctl_write_paths(struct writer *w, const struct ctl_paths *paths);
void ctl_read_paths(struct reader *r, struct ctl_paths *paths);

bool ctl_type_is_run(enum ctl_request_type type);
int ctl_run_decode(const struct frame *frame, struct ctl_run *ret);

/* QUIESCE, REVERT, RELEASE and FILE (ctl_file.c). */
bool ctl_revert_is_valid(const struct ctl_request *m);
bool ctl_quiesce_is_valid(const struct ctl_request *m);
bool ctl_file_request_is_valid(const struct ctl_file_request *m);
void ctl_write_file_request(struct writer *w, const struct ctl_file_request *m);
void ctl_read_file_request(struct reader *r, struct ctl_file_request *m);

bool ctl_file_is_valid(const struct ctl_file *m, bool is_entry);
bool ctl_listing_is_valid(const struct ctl_listing *m);
void ctl_write_file(struct writer *w, const struct ctl_file *m);
void ctl_read_file(struct reader *r, struct ctl_file *m);
void ctl_write_listing(struct writer *w, const struct ctl_listing *m);
void ctl_read_listing(struct reader *r, struct ctl_listing *m);
