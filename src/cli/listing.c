#include "cli/listing.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "cli/output.h"
#include "cli/review_call.h"
#include "rest/field.h"
#include "rest/json_message.h"

struct lines {
    const struct api_call *call;
    const struct listing *listing;
    struct grid grid;
    json_t *items; /* with --json */
};

/* Prints the first field, a text or a number, which is the item's key. */
static void print_key(const ProtobufCMessage *item)
{
    const ProtobufCFieldDescriptor *field = &item->descriptor->fields[0];
    const void *member = field_member(item, field);

    if (field->type == PROTOBUF_C_TYPE_STRING)
        output_escaped(stdout, *(const char *const *) member);
    else
        printf("%" PRId64, *(const int64_t *) member);
    putchar('\n');
}

static int on_item(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    struct lines *lines = cookie;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) err;
    if (lines->call->options.is_json) {
        json_message_add(&text, item);
        json_array_append_new(lines->items, json_loadb(text.data, text.len, 0, NULL));
    } else if (lines->call->options.is_quiet) {
        print_key(item);
    } else {
        lines->listing->add_row(&lines->grid, item);
    }
    return 0;
}

/* Prints the pages as one answer of the API. */
static void print_json(const struct lines *lines)
{
    const ProtobufCMessageDescriptor *response = lines->listing->response;
    json_t *all = json_object();

    for (unsigned i = 0; i < response->n_fields; i++) {
        autodone(buf) struct buf name = BUF_EMPTY;

        /* Leave totals out: some count only a page, and the length of the list replaces the others. */
        if (response->fields[i].label != PROTOBUF_C_LABEL_REPEATED && response->fields[i].type != PROTOBUF_C_TYPE_STRING)
            continue;
        field_add_json_name(&name, &response->fields[i]);
        json_object_set_new(all, name.data,
                            response->fields[i].label == PROTOBUF_C_LABEL_REPEATED ? json_incref(lines->items)
                                                                                   : json_string(""));
    }
    output_json(all);
}

int listing_print(struct api_call *call, const struct listing *listing, ProtobufCMessage *request, struct err *err)
{
    struct lines lines = { .call = call, .listing = listing, .items = json_array() };
    int r;

    grid_init(&lines.grid, listing->titles);
    r = review_list(call, listing->method, request, on_item, &lines, err);
    if (r == 0 && call->options.is_json)
        print_json(&lines);
    else if (r == 0 && !call->options.is_quiet)
        grid_print(&lines.grid, stdout);
    grid_done(&lines.grid);
    json_decref(lines.items);
    return r;
}
