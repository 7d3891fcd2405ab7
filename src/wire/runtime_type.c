#include "wire/runtime_type.h"

#include <string.h>

#include "base/mem.h"

#define RUNTIME_TYPE_ROW(type_name, number, scope, ...)                                                                        \
    { .name = #type_name, .api_number = (number), .mount_scope = (scope), __VA_ARGS__ },

static const struct runtime_type runtime_types[] = { RUNTIME_TYPES(RUNTIME_TYPE_ROW) };

const struct runtime_type *runtime_type_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(runtime_types); i++)
        if (strcmp(runtime_types[i].name, name) == 0)
            return &runtime_types[i];
    return NULL;
}

const struct runtime_type *runtime_type_of_number(int api_number)
{
    for (size_t i = 0; i < ARRAY_LEN(runtime_types); i++)
        if (runtime_types[i].api_number == api_number)
            return &runtime_types[i];
    return &runtime_types[0];
}

const struct runtime_type *runtime_type_default(bool has_image)
{
    size_t i = 0;

    while (has_image && i < ARRAY_LEN(runtime_types) - 1 && !runtime_types[i].needs_image)
        i++;
    return &runtime_types[i];
}

bool runtime_type_is_offered(int api_number)
{
    const struct runtime_type *type = runtime_type_of_number(api_number);

    return api_number == 0 || (type->api_number == api_number && !type->is_for_tests);
}

int runtime_type_parse(const char *text, const struct runtime_type **ret, struct err *err)
{
    const struct runtime_type *type = runtime_type_find(text);

    if (type && !type->is_for_tests) {
        *ret = type;
        return 0;
    }
    return err_invalid(err, "'%s' is not one of:" RUNTIME_TYPE_NAMES_OFFERED, text);
}
