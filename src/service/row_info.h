/*
 * Encoded parts of a sandbox's row.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "policy/rule.h"

/* Encode rules for a row, and decode them. -EBADMSG. */
void rules_encode(const struct rule_list *rules, struct buf *out);
int rules_decode(const struct buf *bytes, struct rule_list *ret, struct err *err);
