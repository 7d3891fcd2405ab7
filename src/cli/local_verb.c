#include "cli/local_verb.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/output.h"

static int check_words(const struct local_verb *verb, const struct local_call *call, struct err *err)
{
    if (call->word_count < verb->words_min)
        return err_invalid(err, "%s", verb->wanted);
    if (verb->words_max == 0 && call->word_count > 0)
        return err_invalid(err, "it takes no arguments; see 'agentfense %s --help'", verb->name);
    if (verb->words_max >= 0 && call->word_count > verb->words_max)
        return err_invalid(err, "one word too many");
    return verb->check ? verb->check(call, err) : 0;
}

static int parse(const struct local_verb *verb, int argc, char **argv, struct local_call *call, bool *ret_wants_help,
                 struct err *err)
{
    int option, r = 0;

    while (r == 0 && (option = getopt_long(argc, argv, verb->letters, verb->options, NULL)) != -1) {
        if (option == '?')
            return err_invalid(err, "see 'agentfense %s --help'", verb->name);
        if (option == 'h')
            *ret_wants_help = true;
        else if (option == LOCAL_OPT_JSON)
            call->is_json = true;
        else
            r = verb->take(call->own, option, err);
    }
    call->words = argv + optind;
    call->word_count = argc - optind;
    return r < 0 || *ret_wants_help ? r : check_words(verb, call, err);
}

int local_verb_run(const struct local_verb *verb, void *own, int argc, char **argv)
{
    struct local_call call = { .own = own };
    struct err err = ERR_NONE;
    bool wants_help = false;
    int r = parse(verb, argc, argv, &call, &wants_help, &err);

    if (r == 0 && wants_help)
        fputs(verb->help, stdout);
    else if (r == 0)
        r = verb->run(&call, &err);
    return r < 0 ? output_error(verb->name, &err) : r;
}
