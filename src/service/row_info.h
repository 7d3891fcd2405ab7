/*
 * What a row of a sandbox holds in encoded form.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "policy/rule.h"

/* Rules as they are kept in a row, and back. -EBADMSG. */
void rules_encode(const struct rule_list *rules, struct buf *out);
int rules_decode(const struct buf *bytes, struct rule_list *ret, struct err *err);
