/*
 * Rows of sandboxes, and what the API tells of them.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "service/sandbox_info.h"
#include "store/sandbox_row.h"

/* Rules as they are kept in a row, and back. -EBADMSG. */
void rules_encode(const struct rule_list *rules, struct buf *out);
int rules_decode(const struct buf *bytes, struct rule_list *ret, struct err *err);

int row_info_make(const struct sandbox_row *row, struct sandbox_info **ret, struct err *err);

/* What the API shows for it: an intent that is not fact yet is what it was before. */
enum sandbox_phase row_info_phase(int status);
