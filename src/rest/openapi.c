#include "rest/openapi.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "rest/field.h"

/* What is being made. References in jansson are counted; whatever is put into an object belongs to it. */
struct openapi {
    json_t *paths, *schemas;
};

static json_t *schema_of_message(struct openapi *api, const ProtobufCMessageDescriptor *descriptor);

static json_t *openapi_type(const char *name, const char *format)
{
    json_t *schema = json_pack("{s:s}", "type", name);

    if (format)
        json_object_set_new(schema, "format", json_string(format));
    return schema;
}

/* The name without its package: "sandbox.v1.UploadChunk.Metadata" is "UploadChunk.Metadata". */
static const char *short_name(const ProtobufCMessageDescriptor *descriptor)
{
    size_t package = strlen(descriptor->package_name);

    return package ? descriptor->name + package + 1 : descriptor->name;
}

static json_t *openapi_reference(struct openapi *api, const ProtobufCMessageDescriptor *descriptor)
{
    const char *name = short_name(descriptor);
    autofree char *path = xprintf("#/components/schemas/%s", name);

    if (!json_object_get(api->schemas, name)) {
        json_object_set_new(api->schemas, name, json_object()); /* there already, for a message within itself */
        json_object_set_new(api->schemas, name, schema_of_message(api, descriptor));
    }
    return json_pack("{s:s}", "$ref", path);
}

static json_t *schema_of_enum(const ProtobufCEnumDescriptor *descriptor)
{
    json_t *names = json_array();

    for (unsigned i = 0; i < descriptor->n_values; i++)
        json_array_append_new(names, json_string(descriptor->values[i].name));
    return json_pack("{s:s,s:o}", "type", "string", "enum", names);
}

static json_t *schema_of_value(struct openapi *api, const ProtobufCFieldDescriptor *field)
{
    /* JSON cannot hold all 64-bit numbers, so they are strings. */
    static const char *const types[][2] = {
        [PROTOBUF_C_TYPE_INT32] = { "integer", "int32" },    [PROTOBUF_C_TYPE_SINT32] = { "integer", "int32" },
        [PROTOBUF_C_TYPE_SFIXED32] = { "integer", "int32" }, [PROTOBUF_C_TYPE_UINT32] = { "integer", "int64" },
        [PROTOBUF_C_TYPE_FIXED32] = { "integer", "int64" },  [PROTOBUF_C_TYPE_INT64] = { "string", "int64" },
        [PROTOBUF_C_TYPE_SINT64] = { "string", "int64" },    [PROTOBUF_C_TYPE_SFIXED64] = { "string", "int64" },
        [PROTOBUF_C_TYPE_UINT64] = { "string", "uint64" },   [PROTOBUF_C_TYPE_FIXED64] = { "string", "uint64" },
        [PROTOBUF_C_TYPE_FLOAT] = { "number", "float" },     [PROTOBUF_C_TYPE_DOUBLE] = { "number", "double" },
        [PROTOBUF_C_TYPE_BOOL] = { "boolean", NULL },        [PROTOBUF_C_TYPE_STRING] = { "string", NULL },
    };

    if (field->type < ARRAY_LEN(types) && types[field->type][0])
        return openapi_type(types[field->type][0], types[field->type][1]);
    if (field->type == PROTOBUF_C_TYPE_ENUM)
        return schema_of_enum(field->descriptor);
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return json_pack("{s:s,s:s}", "type", "string", "contentEncoding", "base64");
    switch (field_well_known(field)) {
    case FIELD_WELL_KNOWN_TIMESTAMP:
        return openapi_type("string", "date-time");
    case FIELD_WELL_KNOWN_DURATION:
        return json_pack("{s:s,s:s}", "type", "string", "pattern", "^-?[0-9]+(\\.[0-9]{1,9})?s$");
    case FIELD_WELL_KNOWN_NOT:
        break;
    }
    return openapi_reference(api, field->descriptor);
}

static json_t *schema_of_field(struct openapi *api, const ProtobufCMessageDescriptor *of, const ProtobufCFieldDescriptor *field)
{
    switch (field_shape(of, field)) {
    case FIELD_MAP: {
        const ProtobufCMessageDescriptor *entry = field->descriptor;
        return json_pack("{s:s,s:o}", "type", "object", "additionalProperties", schema_of_value(api, &entry->fields[1]));
    }
    case FIELD_REPEATED:
        return json_pack("{s:s,s:o}", "type", "array", "items", schema_of_value(api, field));
    case FIELD_SINGLE:
        break;
    }
    json_t *schema = schema_of_value(api, field);
    /* A message that is not set is null. */
    if (field->type != PROTOBUF_C_TYPE_MESSAGE || field_is_in_oneof(field))
        return schema;
    return json_pack("{s:[o,o]}", "anyOf", schema, openapi_type("null", NULL));
}

static json_t *schema_of_message(struct openapi *api, const ProtobufCMessageDescriptor *descriptor)
{
    json_t *properties = json_object();

    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        autodone(buf) struct buf name = BUF_EMPTY;

        field_add_json_name(&name, field);
        json_object_set_new(properties, name.data, schema_of_field(api, descriptor, field));
    }
    return json_pack("{s:s,s:o}", "type", "object", "properties", properties);
}

static bool is_in_path(const char *path, const char *name)
{
    autofree char *plain = xprintf("{%s}", name), *rest = xprintf("{%s=**}", name);

    return strstr(path, plain) || strstr(path, rest);
}

static json_t *openapi_parameter(const char *name, const char *in, json_t *schema)
{
    return json_pack("{s:s,s:s,s:b,s:o}", "name", name, "in", in, "required", strcmp(in, "path") == 0, "schema", schema);
}

/* The message whose fields path and query fill: the request, or its metadata. */
static const ProtobufCMessageDescriptor *message_of_url(const struct method *method, const struct method_route *method_route)
{
    if (method_route->body != METHOD_BODY_BYTES)
        return method->request;
    return field_find(method->request, "metadata", strlen("metadata"))->descriptor;
}

static json_t *parameters_of(struct openapi *api, const struct method *method, const struct method_route *method_route)
{
    const ProtobufCMessageDescriptor *message = message_of_url(method, method_route);
    json_t *parameters = json_array();

    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        bool is_text = field->type != PROTOBUF_C_TYPE_MESSAGE || field_well_known(field) != FIELD_WELL_KNOWN_NOT;
        autodone(buf) struct buf name = BUF_EMPTY;

        field_add_json_name(&name, field);
        if (is_in_path(method_route->path, field->name))
            json_array_append_new(parameters, openapi_parameter(field->name, "path", schema_of_value(api, field)));
        else if (method_route->body != METHOD_BODY_JSON && is_text && field->label == PROTOBUF_C_LABEL_REPEATED)
            json_array_append_new(
                parameters, openapi_parameter(name.data, "query",
                                              json_pack("{s:s,s:o}", "type", "array", "items", schema_of_value(api, field))));
        else if (method_route->body != METHOD_BODY_JSON && is_text)
            json_array_append_new(parameters, openapi_parameter(name.data, "query", schema_of_value(api, field)));
    }
    return parameters;
}

static json_t *openapi_content(const char *media_type, json_t *schema)
{
    return json_pack("{s:{s:o}}", media_type, "schema", schema);
}

static json_t *body_of(struct openapi *api, const struct method *method, const struct method_route *method_route)
{
    if (method_route->body == METHOD_BODY_JSON)
        return json_pack("{s:o}", "content", openapi_content("application/json", openapi_reference(api, method->request)));
    json_t *media = openapi_content("application/octet-stream", json_object());
    if (strcmp(method_route->verb, "POST") == 0)
        json_object_set_new(media, "multipart/form-data",
                            json_pack("{s:{s:s,s:{s:{s:s},s:{}},s:[s]}}", "schema", "type", "object", "properties", "path",
                                      "type", "string", "file", "required", "file"));
    return json_pack("{s:b,s:o}", "required", 1, "content", media);
}

static json_t *answer_of(struct openapi *api, const struct method *method, const struct method_route *method_route)
{
    const char *description = "The answer.";
    json_t *media;

    switch (method_route->answer) {
    case METHOD_ANSWER_EVENTS: {
        autofree char *said = xprintf(
            "Events `message`, each with one %s as JSON; then `end` with {\"trailers\": {...}}, or `error` with an Error.",
            short_name(method->response));
        /* Listed among the schemas although only the text names it. */
        json_decref(openapi_reference(api, method->response));
        return json_pack("{s:s,s:o}", "description", said, "content",
                         openapi_content("text/event-stream", openapi_type("string", NULL)));
    }
    case METHOD_ANSWER_BYTES:
        description = "The content.";
        media = openapi_content("application/octet-stream", json_object());
        break;
    default:
        media = openapi_content("application/json", openapi_reference(api, method->response));
    }
    return json_pack("{s:s,s:o}", "description", description, "content", media);
}

static json_t *operation_of(struct openapi *api, const struct method *method, const struct method_route *method_route,
                            size_t nth)
{
    const char *dot = strrchr(method->service, '.');
    const char *service = dot ? dot + 1 : method->service;
    autofree char *id =
        nth == 0 ? xprintf("%s_%s", service, method->name) : xprintf("%s_%s_%zu", service, method->name, nth + 1);
    json_t *operation = json_pack("{s:s,s:[s],s:o,s:{s:o,s:{s:s}}}", "operationId", id, "tags", service, "parameters",
                                  parameters_of(api, method, method_route), "responses", "200",
                                  answer_of(api, method, method_route), "default", "$ref", "#/components/responses/Error");

    if (method->summary)
        json_object_set_new(operation, "summary", json_string(method->summary));
    if (method_route->body != METHOD_BODY_NONE)
        json_object_set_new(operation, "requestBody", body_of(api, method, method_route));
    if (method->flags & METHOD_PUBLIC)
        json_object_set_new(operation, "security", json_array());
    return operation;
}

/* "{file_path=**}" is "{file_path}" here: OpenAPI has no way to say that it takes slashes. */
static char *dup_path(const char *template)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    for (const char *at = template; *at; at++) {
        if (strncmp(at, "=**}", 4) == 0)
            at += 3;
        buf_add_char(&path, *at);
    }
    return buf_dup_take(&path);
}

/* Takes the operation. */
static void openapi_add_operation(struct openapi *api, const char *template, const char *verb, json_t *operation)
{
    autofree char *path = dup_path(template), *key = xdup(verb);
    json_t *item = json_object_get(api->paths, path);

    for (char *at = key; *at; at++)
        *at = (char) (*at | 0x20);
    if (!item) {
        item = json_object();
        json_object_set_new(api->paths, path, item);
    }
    json_object_set_new(item, key, operation);
}

static json_t *schema_of_error(void)
{
    return json_pack("{s:s,s:{s:{s:s,s:s},s:{s:s},s:{s:s,s:{s:s}}},s:[s,s,s]}", "type", "object", "properties", "code", "type",
                     "integer", "description", "As gRPC numbers them.", "message", "type", "string", "details", "type", "array",
                     "items", "type", "object", "required", "code", "message", "details");
}

static int openapi_append(const char *bytes, size_t len, void *out)
{
    buf_add(out, bytes, len);
    return 0;
}

/* "GET /api/v1/sandboxes/{id}/diff" is get_api_v1_sandboxes_id_diff. */
static char *dup_operation(const struct web_route *route)
{
    autodone(buf) struct buf name = BUF_EMPTY;

    if (route->operation)
        return xdup(route->operation);
    for (const char *at = route->verb; *at; at++)
        buf_add_char(&name, (char) (*at | 0x20));
    for (const char *at = route->path; *at; at++) {
        if (*at == '/' || *at == '-')
            buf_add_char(&name, '_');
        else if (*at != '{' && *at != '}' && *at != '=' && *at != '*')
            buf_add_char(&name, *at);
    }
    return buf_dup_take(&name);
}

static json_t *web_parameters(const char *path)
{
    json_t *list = json_array();

    for (const char *at = path; (at = strchr(at, '{')); at++) {
        size_t len = strcspn(at + 1, "}=");

        json_array_append_new(list, json_pack("{s:s%, s:s, s:b, s:o}", "name", at + 1, len, "in", "path", "required", 1,
                                              "schema", openapi_type("string", NULL)));
    }
    return list;
}

static json_t *web_operation(const struct web_route *route)
{
    autofree char *id = dup_operation(route);
    const char *media = route->answer == WEB_ANSWER_EVENTS  ? "text/event-stream"
                        : route->answer == WEB_ANSWER_BYTES ? "application/octet-stream"
                                                            : "application/json";
    json_t *answer = json_pack("{s:s, s:o}", "description", "It was done.", "content", openapi_content(media, json_object()));
    json_t *failure =
        json_pack("{s:s, s:o}", "description", "It failed, or was refused.", "content",
                  openapi_content("application/json", json_pack("{s:s}", "$ref", "#/components/schemas/WorkspaceError")));
    json_t *operation = json_pack("{s:s, s:[s], s:o, s:{s:o, s:o}}", "operationId", id, "tags", "Workspaces", "parameters",
                                  web_parameters(route->path), "responses", "2XX", answer, "default", failure);

    if (route->summary)
        json_object_set_new(operation, "summary", json_string(route->summary));
    if (route->has_body)
        json_object_set_new(operation, "requestBody",
                            json_pack("{s:o}", "content", openapi_content("application/json", openapi_type("object", NULL))));
    return operation;
}

static void add_web(struct openapi *api, const struct web_table *web)
{
    for (size_t i = 0; i < web->count; i++)
        openapi_add_operation(api, web->routes[i].path, web->routes[i].verb, web_operation(&web->routes[i]));
    json_object_set_new(api->schemas, "WorkspaceError",
                        json_pack("{s:s, s:{s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}, s:{s:s}}, s:[s, s, s]}", "type",
                                  "object", "properties", "error", "type", "string", "code", "type", "integer", "success",
                                  "type", "boolean", "hint", "type", "string", "retryable", "type", "boolean", "details",
                                  "type", "object", "required", "error", "code", "success"));
}

void openapi_add(struct buf *out, const struct method_table *methods, const struct web_table *web, const char *title,
                 const char *version)
{
    struct openapi api = { .paths = json_object(), .schemas = json_object() };

    for (size_t i = 0; i < methods->count; i++) {
        const struct method *method = &methods->methods[i];

        for (size_t j = 0; j < METHOD_ROUTES_MAX && method->routes[j].verb; j++)
            openapi_add_operation(&api, method->routes[j].path, method->routes[j].verb,
                                  operation_of(&api, method, &method->routes[j], j));
    }
    if (web)
        add_web(&api, web);
    json_object_set_new(api.schemas, "Error", schema_of_error());
    json_t *responses =
        json_pack("{s:{s:s,s:o}}", "Error", "description", "It failed, or was refused.", "content",
                  openapi_content("application/json", json_pack("{s:s}", "$ref", "#/components/schemas/Error")));
    json_t *document =
        json_pack("{s:s,s:{s:s,s:s},s:o,s:{s:o,s:o,s:{s:{s:s,s:s}}},s:[{s:[]}]}", "openapi", "3.1.0", "info", "title", title,
                  "version", version ? version : "0", "paths", api.paths, "components", "schemas", api.schemas, "responses",
                  responses, "securitySchemes", "token", "type", "http", "scheme", "bearer", "security", "token");
    if (!document)
        abort(); /* a format above is wrong, or memory is gone */
    json_dump_callback(document, openapi_append, out, JSON_COMPACT);
    json_decref(document);
}
