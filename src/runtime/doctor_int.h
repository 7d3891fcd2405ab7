/* The doctor's checks, each for one aspect of the host. */
#pragma once

#include "runtime/doctor.h"

/* Where to look. Not NULL unless noted. */
struct doctor_view {
    struct doctor *doctor;
    const char *root;
    const char *bwrap; /* NULL: the host's */
    const char *unshare;
};

/* `cost` and `fix` may be NULL. All texts are copied. */
void doctor_report(const struct doctor_view *view, const char *name, enum doctor_weight weight, enum doctor_state state,
                   const char *found, const char *cost, const char *fix);

/* Reads a number from a file beneath the root; `otherwise` if there is none. */
long doctor_read_number(const struct doctor_view *view, const char *path, long otherwise);
bool doctor_has_file(const struct doctor_view *view, const char *path);

void doctor_check_kernel(const struct doctor_view *view);
void doctor_check_fuse(const struct doctor_view *view);
void doctor_check_container(const struct doctor_view *view);
void doctor_check_docker(const struct doctor_view *view);

void doctor_check_userns(const struct doctor_view *view);
void doctor_check_seccomp(const struct doctor_view *view);
void doctor_check_bwrap(const struct doctor_view *view);
void doctor_check_cgroup(const struct doctor_view *view);
