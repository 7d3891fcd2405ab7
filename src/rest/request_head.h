/*
 * Whether the head of a request is written as it must be: lines that end with CR LF, no folded lines, names of nothing but what names are made of,
 * no zero byte and no other control character anywhere. Where another server before us could read it differently, it is none.
 *
 * libmicrohttpd 0.9.75, which has no such mode, takes each of these and tells nothing of it. It leaves the head where it was read and ends its parts
 * in place, so where the parts lie tells what was between them; only a zero byte with a bare LF behind it looks as CR LF does then. A later
 * one leaves trimmed parts behind, and is told to be strict instead.
 */
#pragma once

#include <microhttpd.h>

/* When the headers are there. `target` is path and query as they were sent, up to a zero byte; the others are as the access handler gets them. NULL: it
 * is sound. Otherwise a literal that says what is wrong. */
const char *request_head_flaw(struct MHD_Connection *connection, const char *verb, const char *url, const char *target,
                              const char *version);
