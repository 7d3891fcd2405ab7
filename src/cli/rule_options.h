/* Rules from the command line as messages of the API: policy files and single rules are read here, a preset is named to the server. */
#pragma once

#include "cli/policy_options.h"
#include <sandbox/v1/sandbox.pb-c.h>

struct rule_messages {
    Sandbox__V1__PermissionRule **items; /* owned, each too; as a request wants them */
    size_t count;
    struct rule_list rules; /* what their texts are borrowed from */
};

void rule_messages_done(struct rule_messages *messages);

/* Those of the list from the one at `from` on; it must outlive them. */
void rule_messages_make(const struct rule_list *rules, size_t from, struct rule_messages *ret);

int rule_messages_load(const struct policy_options *options, struct rule_messages *ret, struct err *err);
