/* Converts rules from the command line to messages of the API. Policy files and single rules are read here; the server resolves a preset by its
 * name. */
#pragma once

#include "cli/policy_options.h"
#include <sandbox/v1/sandbox.pb-c.h>

struct rule_messages {
    Sandbox__V1__PermissionRule **items; /* owned, and so are the messages */
    size_t count;
    struct rule_list rules; /* owns the strings that the messages borrow */
};

void rule_messages_done(struct rule_messages *messages);

/* Converts the rules from index `from` on. The list must outlive the messages. */
void rule_messages_make(const struct rule_list *rules, size_t from, struct rule_messages *ret);

int rule_messages_load(const struct policy_options *options, struct rule_messages *ret, struct err *err);
