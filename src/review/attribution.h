/*
 * Who a commit is by, and what it says: names and texts that come from strangers, made into what git takes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define ATTRIBUTION_ADDRESS "noreply@agentfense.local"
#define ATTRIBUTION_NOBODY "AgentFense"

enum attribution_mode {
    ATTRIBUTION_AGENT,      /* whoever owns the sandbox is the author */
    ATTRIBUTION_REVIEWER,   /* whoever approved is */
    ATTRIBUTION_COAUTHORED, /* the first is, and the second is named at the end of the message */
};

struct attribution {
    enum attribution_mode mode;
    const char *agent, *reviewer; /* "Name", or "Name <mail>"; NULL or empty: nobody */
    const char *address;          /* for names without one; NULL: ATTRIBUTION_ADDRESS */
};

/* A name and an address, without what git would not take in them. Never empty. */
struct person {
    struct buf name, mail;
};

void person_make(const char *text, const char *address, struct person *ret);
void person_done(struct person *person);

/* "agent", "reviewer", "coauthored". */
int attribution_parse_mode(const char *text, enum attribution_mode *ret, struct err *err);

void attribution_author(const struct attribution *attribution, struct person *ret);
void attribution_committer(const struct attribution *attribution, struct person *ret);

/* What `{{.Name}}` stands for in a template. */
struct attribution_word {
    const char *name, *value;
};

#define ATTRIBUTION_TEMPLATE "Apply {{.FileCount}} reviewed change(s) of sandbox {{.SandboxID}}\n"

/* The message: the template (NULL: ATTRIBUTION_TEMPLATE) with its words, and the co-author. A word that is unknown is
 * ERR_INVALID_ARGUMENT. */
int attribution_message(const struct attribution *attribution, const char *template, const struct attribution_word *words,
                        size_t word_count, struct buf *out, struct err *err);
