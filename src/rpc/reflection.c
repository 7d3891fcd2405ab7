#include "rpc/reflection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <google/protobuf/descriptor.pb-c.h>
#include <grpc/reflection/v1/reflection.pb-c.h>

#include "base/mem.h"
#include "call/call.h"

#define SERVICES_MAX 16

typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Google__Protobuf__DescriptorProto type_proto;
typedef Grpc__Reflection__V1__ServerReflectionRequest request_proto;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_proto;

struct reflection {
    Google__Protobuf__FileDescriptorSet *set; /* owned */
    ProtobufCBinaryData *files;               /* owned: each file packed, in the order of the set */
    const struct method_table *const *tables;
    struct method_table table;
};

static int reflection_answer_all(struct call *call, void *cookie, struct err *err);

/* Both versions have the same messages under different names, and names are not sent. */
#define REFLECTION_METHOD(version)                                                                                             \
    {                                                                                                                          \
        .service = "grpc.reflection." version ".ServerReflection", .name = "ServerReflectionInfo",                             \
        .flags = METHOD_PUBLIC | METHOD_CLIENT_STREAMS | METHOD_SERVER_STREAMS,                                                \
        .request = &grpc__reflection__v1__server_reflection_request__descriptor,                                               \
        .response = &grpc__reflection__v1__server_reflection_response__descriptor, .run = reflection_answer_all,               \
    }

static const struct method methods[] = { REFLECTION_METHOD("v1"), REFLECTION_METHOD("v1alpha") };

int reflection_new(const void *set, size_t len, const struct method_table *const *tables, struct reflection **ret,
                   struct err *err)
{
    autoptr(reflection) made = xnew(struct reflection);

    made->set = google__protobuf__file_descriptor_set__unpack(NULL, len, set);
    if (!made->set)
        return err_set(err, ERR_INTERNAL, -EINVAL, "the descriptors for reflection are broken");
    made->files = xalloc(made->set->n_file * sizeof(made->files[0]) + 1);
    for (size_t i = 0; i < made->set->n_file; i++) {
        ProtobufCBinaryData *file = &made->files[i];
        file->len = protobuf_c_message_get_packed_size(&made->set->file[i]->base);
        file->data = xalloc(file->len + 1);
        protobuf_c_message_pack(&made->set->file[i]->base, file->data);
    }
    made->tables = tables;
    made->table = (struct method_table){ .methods = methods, .count = ARRAY_LEN(methods), .cookie = made };
    *ret = steal_ptr(&made);
    return 0;
}

void reflection_free(struct reflection *reflection)
{
    if (!reflection)
        return;
    for (size_t i = 0; reflection->files && i < reflection->set->n_file; i++)
        free(reflection->files[i].data);
    free(reflection->files);
    if (reflection->set)
        google__protobuf__file_descriptor_set__free_unpacked(reflection->set, NULL);
    free(reflection);
}

const struct method_table *reflection_table(const struct reflection *reflection)
{
    return &reflection->table;
}

/* Returns the part of `symbol` after `name` and a dot; "" if they are equal; NULL if `symbol` is not inside `name`. */
static const char *reflection_symbol_below(const char *name, const char *symbol)
{
    size_t len = strlen(name);

    if (len == 0)
        return symbol;
    if (strncmp(name, symbol, len) != 0)
        return NULL;
    if (symbol[len] == '\0')
        return symbol + len;
    return symbol[len] == '.' ? symbol + len + 1 : NULL;
}

static bool type_has_symbol(const type_proto *type, const char *symbol)
{
    const char *rest = reflection_symbol_below(type->name, symbol);

    if (!rest || *rest == '\0')
        return rest;
    for (size_t i = 0; i < type->n_nested_type; i++) {
        if (type_has_symbol(type->nested_type[i], rest))
            return true;
    }
    for (size_t i = 0; i < type->n_enum_type; i++) {
        if (strcmp(type->enum_type[i]->name, rest) == 0)
            return true;
    }
    for (size_t i = 0; i < type->n_field; i++) {
        if (strcmp(type->field[i]->name, rest) == 0)
            return true;
    }
    return false;
}

static bool file_has_symbol(const file_proto *file, const char *symbol)
{
    const char *rest = reflection_symbol_below(file->package ? file->package : "", symbol);

    if (!rest || *rest == '\0')
        return false;
    for (size_t i = 0; i < file->n_message_type; i++) {
        if (type_has_symbol(file->message_type[i], rest))
            return true;
    }
    for (size_t i = 0; i < file->n_enum_type; i++) {
        if (strcmp(file->enum_type[i]->name, rest) == 0)
            return true;
    }
    for (size_t i = 0; i < file->n_service; i++) {
        const Google__Protobuf__ServiceDescriptorProto *service = file->service[i];
        const char *method = reflection_symbol_below(service->name, rest);
        for (size_t m = 0; method && *method && m < service->n_method; m++) {
            if (strcmp(service->method[m]->name, method) == 0)
                return true;
        }
        if (method && *method == '\0')
            return true;
    }
    return false;
}

static ssize_t reflection_find_file(const struct reflection *reflection, const char *name)
{
    for (size_t i = 0; i < reflection->set->n_file; i++) {
        if (strcmp(reflection->set->file[i]->name, name) == 0)
            return (ssize_t) i;
    }
    return -1;
}

static ssize_t reflection_find_symbol(const struct reflection *reflection, const char *symbol)
{
    for (size_t i = 0; i < reflection->set->n_file; i++) {
        if (file_has_symbol(reflection->set->file[i], symbol))
            return (ssize_t) i;
    }
    return -1;
}

/* Marks the file and all that it imports. In the set each file comes after its imports, because protoc orders it so. */
static void reflection_mark_needed(const struct reflection *reflection, size_t file, bool *needed)
{
    needed[file] = true;
    for (size_t i = file + 1; i-- > 0;) {
        const file_proto *proto = reflection->set->file[i];
        for (size_t d = 0; needed[i] && d < proto->n_dependency; d++) {
            ssize_t other = reflection_find_file(reflection, proto->dependency[d]);
            if (other >= 0)
                needed[other] = true;
        }
    }
}

/* The caller's local variables, to which the response points, are gone when it returns, so clear the pointers. */
static int reflection_send(struct call *call, response_proto *response)
{
    int r = call_send(call, &response->base);

    response->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE__NOT_SET;
    response->error_response = NULL;
    return r;
}

static int reflection_send_error(struct call *call, response_proto *response, enum err_code code, const char *text)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

    error.error_code = code;
    error.error_message = (char *) text;
    response->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    response->error_response = &error;
    return reflection_send(call, response);
}

static int reflection_send_file(struct call *call, const struct reflection *reflection, response_proto *response, ssize_t file)
{
    Grpc__Reflection__V1__FileDescriptorResponse files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;

    if (file < 0)
        return reflection_send_error(call, response, ERR_NOT_FOUND, "not found");
    autofree bool *needed = xalloc(reflection->set->n_file * sizeof(*needed));
    autofree ProtobufCBinaryData *list = xalloc(reflection->set->n_file * sizeof(*list));
    reflection_mark_needed(reflection, (size_t) file, needed);
    list[files.n_file_descriptor_proto++] = reflection->files[file];
    for (size_t i = 0; i < (size_t) file; i++) {
        if (needed[i])
            list[files.n_file_descriptor_proto++] = reflection->files[i];
    }
    files.file_descriptor_proto = list;
    response->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    response->file_descriptor_response = &files;
    return reflection_send(call, response);
}

static int reflection_send_services(struct call *call, const struct reflection *reflection, response_proto *response)
{
    Grpc__Reflection__V1__ListServiceResponse services = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse items[SERVICES_MAX], *list[SERVICES_MAX];

    for (size_t t = 0; reflection->tables[t]; t++) {
        const char *last = "";
        for (size_t i = 0; i < reflection->tables[t]->count && services.n_service < SERVICES_MAX; i++) {
            const char *name = reflection->tables[t]->methods[i].service;
            bool is_listed = strcmp(name, last) == 0;
            for (size_t s = 0; s < services.n_service && !is_listed; s++)
                is_listed = strcmp(items[s].name, name) == 0;
            last = name;
            if (is_listed)
                continue;
            list[services.n_service] = &items[services.n_service];
            grpc__reflection__v1__service_response__init(&items[services.n_service]);
            items[services.n_service++].name = (char *) name;
        }
    }
    services.service = list;
    response->message_response_case = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    response->list_services_response = &services;
    return reflection_send(call, response);
}

static int reflection_answer(struct call *call, const struct reflection *reflection, request_proto *request)
{
    response_proto response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    response.valid_host = request->host;
    response.original_request = request;
    switch (request->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        return reflection_send_file(call, reflection, &response, reflection_find_file(reflection, request->file_by_filename));
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        return reflection_send_file(call, reflection, &response,
                                    reflection_find_symbol(reflection, request->file_containing_symbol));
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        return reflection_send_services(call, reflection, &response);
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
        return reflection_send_error(call, &response, ERR_INVALID_ARGUMENT, "nothing was asked");
    default:
        return reflection_send_error(call, &response, ERR_NOT_FOUND, "there are no extensions");
    }
}

static int reflection_answer_all(struct call *call, void *cookie, struct err *err)
{
    ProtobufCMessage *message;
    int r;

    while ((r = call_recv(call, &message, err)) > 0) {
        r = reflection_answer(call, cookie, (request_proto *) message);
        protobuf_c_message_free_unpacked(message, NULL);
        if (r < 0)
            return r;
    }
    return r;
}
