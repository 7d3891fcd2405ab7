/*
 * An error a person will read.
 *
 * A value with inline text: it owns nothing, may live on the stack and be copied. Functions of the human tier take it last
 * and return a negative errno as well, so that callers branch on the number and people read the text. `err` may be NULL
 * wherever a caller does not care. Codes are numbered as gRPC numbers them, so the API's mapping is the identity.
 *
 * Text is lower case, outermost context first, strings from users quoted: "reading policy 'x.yaml': rule 3: ...".
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
    const char *reason; /* for programs: a literal such as "SANDBOX_NOT_FOUND"; NULL: the code says enough */
    char text[ERR_TEXT_MAX];
};

#define ERR_NONE ((struct err){ .code = ERR_OK })

/* Says what went wrong, with a code of the caller's choosing. Returns `r`, a negative errno. Text too long is cut. */
int err_set(struct err *err, enum err_code code, int r, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* A system call failed with the negative errno `r`: the text gets ": <strerror>", the code follows the errno. */
int err_errno(struct err *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The caller's input was refused: ERR_INVALID_ARGUMENT and -EINVAL. */
int err_invalid(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A text was refused: "'<text>' <why>", ERR_INVALID_ARGUMENT. It may be a stranger's: it is shown escaped, and not all of it. */
int err_reject(struct err *err, int r, const char *text, const char *why);

/* Names the reason, a literal, of what was just set. Returns `r`. */
int err_set_reason(struct err *err, int r, const char *reason);

/* Puts context before the text that is already there: "<context>: <text>". Keeps code and reason. */
int err_wrap(struct err *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

enum err_code err_code_of_errno(int r);

/* Whether the negative errno `r` says that descriptors or memory are short, which says nothing about what was asked for and may be
 * otherwise a moment later. */
bool err_errno_is_exhaustion(int r);

/* Whether what failed may succeed when it is tried again later, with nothing done about it by the caller. */
bool err_is_transient(const struct err *err);

const char *err_code_name(enum err_code code);
int err_code_http_status(enum err_code code);
