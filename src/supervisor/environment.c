#include "supervisor/environment.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/runtime_spec.h"

void environment_set(struct environment *environment, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    size_t len = equals ? (size_t) (equals - assignment) + 1 : 0;

    if (len <= 1)
        return;
    for (size_t i = 0; i < environment->count; i++) {
        if (strncmp(environment->vars[i], assignment, len) == 0) {
            free(environment->vars[i]);
            environment->vars[i] = xdup(assignment);
            return;
        }
    }
    vec_room(&environment->vars, &environment->cap, environment->count);
    environment->vars[environment->count++] = xdup(assignment);
    vec_room(&environment->vars, &environment->cap, environment->count);
    environment->vars[environment->count] = NULL;
}

void environment_init(struct environment *environment, const struct sandbox_spec *spec, const char *const *more)
{
    *environment = (struct environment){ 0 };
    for (const char *const *entry = runtime_environment; *entry; entry++)
        environment_set(environment, *entry);
    for (size_t i = 0; i < spec->env_count; i++)
        environment_set(environment, spec->env[i]);
    for (; more && *more; more++)
        environment_set(environment, *more);
}

void environment_done(struct environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->vars[i]);
    free(environment->vars);
    *environment = (struct environment){ 0 };
}
