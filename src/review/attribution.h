/*
 * A commit's author and message: names and texts from strangers, made into what git accepts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define ATTRIBUTION_ADDRESS "noreply@agentfense.local"
#define ATTRIBUTION_NOBODY "AgentFense"

enum attribution_mode {
    ATTRIBUTION_AGENT,      /* the author is the sandbox's owner */
    ATTRIBUTION_REVIEWER,   /* the author is the approver */
    ATTRIBUTION_COAUTHORED, /* the author is the owner, and a trailer of the message names the approver */
};

struct attribution {
    enum attribution_mode mode;
    const char *agent, *reviewer; /* "Name", or "Name <mail>"; NULL or empty: none */
    const char *address;          /* for names without an address; NULL: ATTRIBUTION_ADDRESS */
};

/* A name and an address, without characters that git does not accept. Never empty. */
struct person {
    struct buf name, mail;
};

void person_make(const char *text, const char *address, struct person *ret);
void person_done(struct person *person);

/* "agent", "reviewer", "coauthored". */
int attribution_parse_mode(const char *text, enum attribution_mode *ret, struct err *err);

void attribution_author(const struct attribution *attribution, struct person *ret);
void attribution_committer(const struct attribution *attribution, struct person *ret);

/* The value of `{{.Name}}` in a template. */
struct attribution_word {
    const char *name, *value;
};

#define ATTRIBUTION_TEMPLATE "Apply {{.FileCount}} reviewed change(s) of sandbox {{.SandboxID}}\n"

/* Makes the message: the template (NULL: ATTRIBUTION_TEMPLATE) with its words, and the co-author. An unknown word is
 * ERR_INVALID_ARGUMENT. */
int attribution_message(const struct attribution *attribution, const char *template, const struct attribution_word *words,
                        size_t word_count, struct buf *out, struct err *err);
