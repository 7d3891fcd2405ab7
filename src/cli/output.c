#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/standard_output.h"
#include "base/utf8.h"
#include "cli/verb.h"

json_t *output_json_name(const char *name)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;

    if (utf8_is_valid(name, strlen(name)))
        return json_string(name);
    buf_add_escaped(&escaped, name, strlen(name));
    return json_string(escaped.data);
}

void output_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(value);
}

void output_escaped(FILE *out, const char *text)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;

    buf_add_escaped(&escaped, text, strlen(text));
    fwrite(escaped.data ? escaped.data : "", 1, escaped.len, out);
}

void output_field(const char *name, const json_t *value)
{
    autofree char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

    printf("%s: ", name);
    output_escaped(stdout, text ? text : json_string_value(value));
    putchar('\n');
}

static struct {
    const char *verb, *program, *name;
} called;

void output_call_verb(const char *verb, const char *program, const char *name)
{
    called.verb = verb;
    called.program = program;
    called.name = name;
}

int output_refused(int r, const char *what, struct err *err)
{
    standard_output_failed(r);
    err_errno(err, r, "%s", what);
    return r == -EPIPE ? err_set_reason(err, r, OUTPUT_CLOSED) : r;
}

int output_error(const char *verb, const struct err *err)
{
    bool is_other = called.verb && strcmp(called.verb, verb) == 0;

    if (err->reason && strcmp(err->reason, OUTPUT_CLOSED) == 0)
        return STANDARD_OUTPUT_CLOSED;
    fprintf(stderr, "%s %s: %s\n", is_other ? called.program : "agentfense", is_other ? called.name : verb, err->text);
    return err->code == ERR_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_OURS;
}

bool output_is_coloured(FILE *out)
{
    const char *no_color = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");

    if (no_color && *no_color)
        return false;
    return isatty(out == stdout ? STDOUT_FILENO : STDERR_FILENO) || (force && *force && strcmp(force, "0") != 0);
}
