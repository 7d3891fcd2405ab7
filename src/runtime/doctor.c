#include "runtime/doctor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "runtime/doctor_int.h"

void doctor_add(struct doctor *doctor, const char *name, enum doctor_weight weight, enum doctor_state state, const char *found,
                const char *cost, const char *fix)
{
    vec_room(&doctor->findings, &doctor->cap, doctor->count);
    doctor->findings[doctor->count++] = (struct doctor_finding){ .name = name,
                                                                 .weight = weight,
                                                                 .state = state,
                                                                 .found = xdup(found),
                                                                 .cost = cost ? xdup(cost) : NULL,
                                                                 .fix = fix ? xdup(fix) : NULL };
}

void doctor_report(const struct doctor_view *view, const char *name, enum doctor_weight weight, enum doctor_state state,
                   const char *found, const char *cost, const char *fix)
{
    doctor_add(view->doctor, name, weight, state, found, cost, fix);
}

long doctor_read_number(const struct doctor_view *view, const char *path, long otherwise)
{
    autofree char *full = xprintf("%s%s", view->root, path);
    autodone(buf) struct buf text = BUF_EMPTY;

    if (file_read_kernel(full, 64, &text) < 0 || text.len == 0)
        return otherwise;
    return strtol(text.data, NULL, 10);
}

bool doctor_has_file(const struct doctor_view *view, const char *path)
{
    autofree char *full = xprintf("%s%s", view->root, path);

    return access(full, F_OK) == 0;
}

struct doctor *doctor_new(const struct doctor_options *options)
{
    static const struct doctor_options plain;
    struct doctor *doctor = xnew(struct doctor);
    const struct doctor_options *o = options ? options : &plain;
    const struct doctor_view view = { .doctor = doctor,
                                      .root = o->root ? o->root : "",
                                      .bwrap = o->bwrap,
                                      .unshare = o->unshare ? o->unshare : "/usr/bin/unshare" };

    doctor_check_kernel(&view);
    doctor_check_fuse(&view);
    doctor_check_userns(&view);
    doctor_check_seccomp(&view);
    doctor_check_bwrap(&view);
    doctor_check_cgroup(&view);
    doctor_check_container(&view);
    doctor_check_docker(&view);
    return doctor;
}

void doctor_free(struct doctor *doctor)
{
    if (!doctor)
        return;
    for (size_t i = 0; i < doctor->count; i++) {
        free(doctor->findings[i].found);
        free(doctor->findings[i].cost);
        free(doctor->findings[i].fix);
    }
    free(doctor->findings);
    free(doctor);
}

int doctor_verdict(const struct doctor *doctor)
{
    int verdict = 0;

    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *f = &doctor->findings[i];

        if (f->state == DOCTOR_MISSING && f->weight == DOCTOR_ESSENTIAL)
            return 2;
        if (f->state != DOCTOR_OK && f->weight != DOCTOR_OPTIONAL)
            verdict = 1;
    }
    return verdict;
}

const char *doctor_state_name(enum doctor_state state)
{
    static const char *const names[] = { "ok", "degraded", "missing" };

    return names[state];
}

const char *doctor_weight_name(enum doctor_weight weight)
{
    static const char *const names[] = { "optional", "useful", "essential" };

    return names[weight];
}
