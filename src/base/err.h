/*
 * An error that a person will read.
 *
 * It is a value with its text inline: it owns nothing and may be copied. Functions whose errors people read take it as their
 * last argument and also return a negative errno: callers branch on the number, people read the text. `err` may be NULL if the
 * caller does not need the text. Codes have gRPC's numbers, so the API passes them on unchanged.
 *
 * Texts are lower case, with the outermost context first and user input quoted: "reading policy 'x.yaml': rule 3: ...".
 */
#pragma once

#include <stdbool.h>

#define ERR_TEXT_MAX 1024

enum err_code {
    ERR_OK = 0,
    ERR_CANCELLED = 1,
    ERR_UNKNOWN = 2,
    ERR_INVALID_ARGUMENT = 3,
    ERR_DEADLINE_EXCEEDED = 4,
    ERR_NOT_FOUND = 5,
    ERR_ALREADY_EXISTS = 6,
    ERR_PERMISSION_DENIED = 7,
    ERR_RESOURCE_EXHAUSTED = 8,
    ERR_FAILED_PRECONDITION = 9,
    ERR_ABORTED = 10,
    ERR_OUT_OF_RANGE = 11,
    ERR_UNIMPLEMENTED = 12,
    ERR_INTERNAL = 13,
    ERR_UNAVAILABLE = 14,
    ERR_DATA_LOSS = 15,
    ERR_UNAUTHENTICATED = 16,
};

struct err {
    enum err_code code;
    const char *reason; /* for programs: "SANDBOX_NOT_FOUND", which is never freed; NULL if the code is specific enough */
    char text[ERR_TEXT_MAX];
};

#define ERR_NONE ((struct err){ .code = ERR_OK })

/* Sets code and text, and returns `r`, a negative errno. Text that is too long is cut. */
int err_set(struct err *err, enum err_code code, int r, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Reports a failed system call: appends ": <strerror(-r)>" to the text and derives the code from the negative errno `r`. */
int err_errno(struct err *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Refuses the caller's input: sets ERR_INVALID_ARGUMENT and returns -EINVAL. */
int err_invalid(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Refuses a text as ERR_INVALID_ARGUMENT: "'<text>' <why>". The text may be untrusted: it is escaped and shortened. */
int err_reject(struct err *err, int r, const char *text, const char *why);

/* Adds a reason, a literal, to the error that was just set. Returns `r`. */
int err_set_reason(struct err *err, int r, const char *reason);

/* Prepends context to the text: "<context>: <text>". Code and reason stay. */
int err_wrap(struct err *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

enum err_code err_code_of_errno(int r);

/* Returns true if the negative errno `r` means that descriptors or memory ran out. Such a failure does not depend on the
 * request and may be over a moment later. */
bool err_errno_is_exhaustion(int r);

/* Returns true if the same request may succeed later although the caller changes nothing. */
bool err_is_transient(const struct err *err);

const char *err_code_name(enum err_code code);
int err_code_http_status(enum err_code code);
