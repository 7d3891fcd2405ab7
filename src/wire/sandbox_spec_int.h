/* Shared by the files that implement sandbox_spec.h. */
#pragma once

#include "wire/sandbox_spec.h"

/* Frees the strings that are members of the spec itself. */
void sandbox_spec_free_texts(struct sandbox_spec *spec);

void sandbox_rules_free(struct sandbox_rule *rules, size_t count);

/* Checks that apply to every spec that is written or read. Return -EINVAL. */
int sandbox_spec_check(const struct sandbox_spec *spec, struct err *err);
int sandbox_rules_check(const struct sandbox_rule *rules, size_t count, struct err *err);
