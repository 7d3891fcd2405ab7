#include "server/config_file.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define DEPTH_MAX 8

struct reading {
    yaml_parser_t parser;
    yaml_event_t event; /* owned */
    struct buf key;     /* the current key: "runtime.docker" */
    config_file_fn fn;
    void *cookie;
    size_t line;
};

static int read_value(struct reading *reading, unsigned depth, struct err *err);

static int reject_syntax(struct reading *reading, struct err *err)
{
    const yaml_parser_t *parser = &reading->parser;

    reading->line = parser->problem_mark.line + 1;
    if (parser->error == YAML_MEMORY_ERROR)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    return err_invalid(err, "%s%s%s", parser->context ? parser->context : "", parser->context ? ": " : "",
                       parser->problem ? parser->problem : "not readable");
}

static int next_event(struct reading *reading, struct err *err)
{
    yaml_event_delete(&reading->event);
    if (!yaml_parser_parse(&reading->parser, &reading->event))
        return reject_syntax(reading, err);
    reading->line = reading->event.start_mark.line + 1;
    if (reading->event.type == YAML_ALIAS_EVENT)
        return err_invalid(err, "aliases are not taken; quote values that begin with '*'");
    return 0;
}

static int pass_value(struct reading *reading, bool is_item, struct err *err)
{
    const yaml_event_t *event = &reading->event;
    const char *value = (const char *) event->data.scalar.value;

    if (strlen(value) != event->data.scalar.length)
        return err_invalid(err, "%s: a NUL in a value", reading->key.data);
    /* A key without a value, or with ~, counts as missing. */
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        (!*value || strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
        return 0;
    return reading->fn(reading->key.data, value, is_item, reading->line, reading->cookie, err);
}

static int read_list(struct reading *reading, struct err *err)
{
    int r = reading->fn(reading->key.data, NULL, true, reading->line, reading->cookie, err);

    while (r == 0) {
        r = next_event(reading, err);
        if (r < 0 || reading->event.type == YAML_SEQUENCE_END_EVENT)
            return r;
        if (reading->event.type != YAML_SCALAR_EVENT)
            return err_invalid(err, "%s: a list of single values is expected", reading->key.data);
        r = pass_value(reading, true, err);
    }
    return r;
}

static int read_mapping(struct reading *reading, unsigned depth, struct err *err)
{
    size_t outer = reading->key.len;
    int r = 0;

    if (depth > DEPTH_MAX)
        return err_invalid(err, "nested too deeply");
    while (r == 0) {
        r = next_event(reading, err);
        if (r < 0 || reading->event.type == YAML_MAPPING_END_EVENT)
            return r;
        if (reading->event.type != YAML_SCALAR_EVENT)
            return err_invalid(err, "a key must be a single value");
        if (outer > 0)
            buf_add_char(&reading->key, '.');
        buf_add_escaped(&reading->key, reading->event.data.scalar.value, reading->event.data.scalar.length);
        r = next_event(reading, err);
        if (r == 0)
            r = read_value(reading, depth + 1, err);
        reading->key.len = outer;
        reading->key.data[outer] = '\0';
    }
    return r;
}

static int read_value(struct reading *reading, unsigned depth, struct err *err)
{
    switch (reading->event.type) {
    case YAML_SCALAR_EVENT:
        return pass_value(reading, false, err);
    case YAML_SEQUENCE_START_EVENT:
        return read_list(reading, err);
    case YAML_MAPPING_START_EVENT:
        return read_mapping(reading, depth, err);
    default:
        return err_invalid(err, "a value is expected");
    }
}

static int read_document(struct reading *reading, struct err *err)
{
    int r;

    do
        r = next_event(reading, err);
    while (r == 0 && (reading->event.type == YAML_STREAM_START_EVENT || reading->event.type == YAML_DOCUMENT_START_EVENT));
    if (r < 0 || reading->event.type == YAML_STREAM_END_EVENT)
        return r;
    if (reading->event.type == YAML_SCALAR_EVENT && reading->event.data.scalar.length == 0)
        return 0; /* the file has only comments */
    if (reading->event.type != YAML_MAPPING_START_EVENT)
        return err_invalid(err, "sections such as 'server:' are expected");
    r = read_mapping(reading, 1, err);
    if (r == 0)
        r = next_event(reading, err);
    if (r == 0)
        r = next_event(reading, err);
    if (r == 0 && reading->event.type != YAML_STREAM_END_EVENT)
        return err_invalid(err, "one document is expected");
    return r;
}

int config_file_parse(const char *text, size_t len, config_file_fn fn, void *cookie, struct err *err)
{
    struct reading reading = { .fn = fn, .cookie = cookie };
    int r;

    if (!yaml_parser_initialize(&reading.parser))
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    buf_add_str(&reading.key, "");
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reading.parser, (const unsigned char *) text, len);
    r = read_document(&reading, err);
    if (r < 0)
        err_wrap(err, r, "line %zu", reading.line);
    yaml_event_delete(&reading.event);
    yaml_parser_delete(&reading.parser);
    buf_done(&reading.key);
    return r;
}
