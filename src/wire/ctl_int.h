/* Shared by the files that implement ctl_proto.h. */
#pragma once

#include <stdbool.h>

#include "wire/ctl_proto.h"
#include "wire/field.h"

/* The highest signal and errno numbers on Linux. */
#define CTL_SIGNAL_MAX 64
#define CTL_ERRNO_MAX 4095

bool ctl_state_is_valid(enum ctl_state state);

/* Returns true if the array contains a NUL. */
bool ctl_text_is_ended(const char *text, size_t cap);

/* Returns true if there are exactly `count` NUL-terminated paths and none is empty. */
bool ctl_paths_are_valid(const struct ctl_paths *paths, size_t most);

/* The fields of a struct ctl_paths, a member of a message. */
#define CTL_PATHS_FIELDS(struct_type, member)                                                                                  \
    FIELD_OF(FIELD_U32, struct_type, member.count), FIELD_OF(FIELD_U32, struct_type, member.len),                              \
        FIELD_BYTES_OF(struct_type, member.bytes, member.len)

bool ctl_type_is_run(enum ctl_request_type type);
int ctl_run_decode(const struct frame *frame, struct ctl_run *ret);

/* QUIESCE, REVERT, RELEASE and FILE (ctl_file.c). */
bool ctl_revert_is_valid(const struct ctl_request *m);
bool ctl_quiesce_is_valid(const struct ctl_request *m);
bool ctl_file_request_is_valid(const struct ctl_file_request *m);

bool ctl_file_is_valid(const struct ctl_file *m, bool is_entry);
bool ctl_listing_is_valid(const struct ctl_listing *m);
extern const struct field ctl_file_fields[];
