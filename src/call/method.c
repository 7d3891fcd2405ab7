#include "call/method.h"

#include <string.h>

const struct method *method_find(const struct method_table *table, const char *service, const char *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct method *m = &table->methods[i];
        if (strcmp(m->name, name) == 0 && strcmp(m->service, service) == 0)
            return m;
    }
    return NULL;
}
