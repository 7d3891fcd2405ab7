#include "cli/local_chooser.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/standard_output.h"
#include "cli/output.h"
#include "review/diff_text.h"

#define ANSWER_MAX 256

enum word { WORD_NONE, WORD_YES, WORD_NO };

/* What is asked about at once. */
struct question {
    size_t file, hunk;
    bool is_whole; /* a file without hunks, or one that cannot be taken in parts */
    enum word word;
};

struct dialog {
    const json_t *files;
    chooser_read_fn read;
    struct question *questions; /* owned */
    size_t count, cap;
    size_t at;
    size_t shown_file; /* whose header was printed last; SIZE_MAX: none */
    bool is_coloured, is_over;
    struct buf line, early; /* the answer; what came behind it */
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static const json_t *hunks_of(const struct dialog *d, size_t file)
{
    return json_object_get(json_array_get(d->files, file), "hunks");
}

/* ---- what is shown ---- */

static void print_in(const struct dialog *d, const char *colour, const char *text)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, text, strlen(text));
    printf("%s%s%s\n", d->is_coloured && colour ? colour : "", safe.data ? safe.data : "",
           d->is_coloured && colour ? "\033[0m" : "");
}

static void print_header(const struct dialog *d, const json_t *file)
{
    autodone(buf) struct buf line = BUF_EMPTY;
    const char *path = text_of(file, "projectPath"), *old = text_of(file, "oldProjectPath");
    const char *was = text_of(file, "oldMode"), *now = text_of(file, "newMode"), *target = text_of(file, "symlinkTarget");
    const json_t *acknowledge = json_object_get(file, "acknowledge");

    buf_addf(&line, "%s ", text_of(file, "changeType"));
    if (*old) {
        buf_add_escaped(&line, old, strlen(old));
        buf_add_str(&line, " -> ");
    }
    buf_add_escaped(&line, path, strlen(path));
    print_in(d, "\033[1m", line.data);
    buf_clear(&line);
    if (*was && *now && strcmp(was, now) != 0)
        buf_addf(&line, "mode %s -> %s", was, now);
    if (*target)
        buf_addf(&line, "%slink to %s", line.len ? ", " : "", target);
    if (json_is_true(json_object_get(file, "binary")))
        buf_addf(&line, "%sbinary, %lld bytes", line.len ? ", " : "",
                 (long long) json_integer_value(json_object_get(file, "fileSize")));
    if (line.len > 0)
        print_in(d, NULL, line.data);
    if (*text_of(file, "conflict")) {
        buf_clear(&line);
        buf_addf(&line, "in conflict, and cannot be approved by hunk: it %s", text_of(file, "conflict"));
        print_in(d, "\033[33m", line.data);
    }
    if (acknowledge) {
        buf_clear(&line);
        buf_addf(&line, "mind: %s", text_of(acknowledge, "text"));
        print_in(d, "\033[33m", line.data);
    }
}

static const char *colour_of(const char *line)
{
    return *line == '+' ? "\033[32m" : *line == '-' ? "\033[31m" : NULL;
}

static void print_hunk(const struct dialog *d, const json_t *hunk)
{
    const json_t *line;
    size_t i;

    print_in(d, "\033[36m", text_of(hunk, "header"));
    json_array_foreach(json_object_get(hunk, "lines"), i, line)
        print_in(d, colour_of(json_string_value(line)), json_string_value(line));
}

/* What could not be printed is not asked about: nobody has seen it. */
static int print_question(struct dialog *d, struct err *err)
{
    const struct question *q = &d->questions[d->at];
    const json_t *hunks = hunks_of(d, q->file);
    int r;

    if (d->shown_file != q->file)
        print_header(d, json_array_get(d->files, q->file));
    d->shown_file = q->file;
    for (size_t i = q->hunk; i < (q->is_whole ? json_array_size(hunks) : q->hunk + 1); i++)
        print_hunk(d, json_array_get(hunks, i));
    printf("%s(%zu/%zu) Approve this %s%s [y,n,q,a,d,j,k,?]? %s", d->is_coloured ? "\033[1;34m" : "", d->at + 1, d->count,
           q->is_whole ? "change" : "hunk",
           q->word == WORD_YES  ? " (was: yes)"
           : q->word == WORD_NO ? " (was: no)"
                                : "",
           d->is_coloured ? "\033[0m" : "");
    r = standard_output_flush();
    return r < 0 ? output_refused(r, "asking", err) : 0;
}

static void print_help(void)
{
    puts("y - approve this\n"
         "n - leave it in the sandbox\n"
         "q - end here: approve what was chosen so far, and leave the rest\n"
         "a - approve this and all that follow in the file\n"
         "d - leave this and all that follow in the file\n"
         "j - leave this undecided, and go on to the next\n"
         "k - go back to the one before\n"
         "? - this help\n"
         "Ctrl-C or the end of input: approve nothing at all");
}

/* ---- what is answered ---- */

/* The next line, without its end. -ECANCELED when there is none. */
static int read_answer(struct dialog *d, struct err *err)
{
    char *end;

    while (!(end = d->early.len ? memchr(d->early.data, '\n', d->early.len) : NULL)) {
        char piece[ANSWER_MAX];
        ssize_t n = d->early.len > ANSWER_MAX ? -EMSGSIZE : d->read(STDIN_FILENO, piece, sizeof(piece));

        if (n == -1)
            n = -errno;
        if (n == -EINTR)
            continue;
        if (n <= 0) {
            putchar('\n');
            fflush(stdout);
            if (n == -ECANCELED) /* who interrupts is told nothing else */
                fputs("nothing was approved\n", stderr);
            return err_set(err, ERR_CANCELLED, -ECANCELED, "there is no answer: nothing was approved");
        }
        buf_add(&d->early, piece, (size_t) n);
    }
    buf_clear(&d->line);
    buf_add(&d->line, d->early.data, (size_t) (end - d->early.data));
    size_t used = d->line.len + 1;
    memmove(d->early.data, d->early.data + used, d->early.len - used);
    d->early.len -= used;
    return 0;
}

/* The next one without a word, from `at` on and then from the start; none: it is over. */
static void go_on(struct dialog *d)
{
    for (size_t i = 1; i <= d->count; i++) {
        size_t next = (d->at + i) % d->count;
        if (d->questions[next].word == WORD_NONE) {
            d->at = next;
            return;
        }
    }
    d->is_over = true;
}

static void decide_rest(struct dialog *d, enum word word)
{
    size_t file = d->questions[d->at].file;

    for (size_t i = d->at; i < d->count && d->questions[i].file == file; i++)
        d->questions[i].word = word;
    go_on(d);
}

static void obey(struct dialog *d)
{
    char letter = (char) (d->line.len == 1 ? d->line.data[0] : '?');

    switch (letter) {
    case 'y':
    case 'n':
        d->questions[d->at].word = letter == 'y' ? WORD_YES : WORD_NO;
        go_on(d);
        return;
    case 'a':
    case 'd':
        decide_rest(d, letter == 'a' ? WORD_YES : WORD_NO);
        return;
    case 'q':
        d->is_over = true;
        return;
    case 'j':
    case 'k':
        if (letter == 'j' ? d->at + 1 < d->count : d->at > 0)
            d->at += letter == 'j' ? 1 : -1;
        else
            puts(letter == 'j' ? "There is none behind this." : "There is none before this.");
        return;
    default:
        print_help();
    }
}

/* ---- all of it ---- */

static void add_questions(struct dialog *d)
{
    for (size_t i = 0; i < json_array_size(d->files); i++) {
        size_t hunks = json_array_size(hunks_of(d, i));
        const json_t *file = json_array_get(d->files, i);
        /* Half a rename is none. */
        bool is_whole = hunks == 0 || json_is_true(json_object_get(file, "wholeOnly")) || *text_of(file, "oldProjectPath");

        for (size_t j = 0; j < (is_whole ? 1 : hunks); j++) {
            vec_room(&d->questions, &d->cap, d->count);
            d->questions[d->count++] = (struct question){ .file = i, .hunk = j, .is_whole = is_whole };
        }
    }
}

static void take_choices(const struct dialog *d, struct choice_list *ret)
{
    ret->count = json_array_size(d->files);
    ret->items = xalloc((ret->count + 1) * sizeof(*ret->items));
    for (size_t i = 0; i < ret->count; i++) {
        ret->items[i].hunk_count = json_array_size(hunks_of(d, i));
        ret->items[i].hunks = xalloc(ret->items[i].hunk_count + 1);
    }
    for (size_t i = 0; i < d->count; i++) {
        const struct question *q = &d->questions[i];
        struct choice *choice = &ret->items[q->file];

        if (q->word != WORD_YES)
            continue;
        if (!q->is_whole)
            choice->hunks[q->hunk] = true;
        ret->taken += choice->taken++ == 0;
        choice->is_whole = q->is_whole || choice->taken == choice->hunk_count;
    }
}

int chooser_run(const json_t *files, chooser_read_fn read, struct choice_list *ret, struct err *err)
{
    struct dialog d = { .files = files, .read = read, .shown_file = SIZE_MAX, .is_coloured = output_is_coloured(stdout) };
    int r = 0;

    add_questions(&d);
    while (r == 0 && d.count > 0 && !d.is_over) {
        r = print_question(&d, err);
        if (r == 0)
            r = read_answer(&d, err);
        if (r == 0)
            obey(&d);
    }
    if (r == 0)
        take_choices(&d, ret);
    free(d.questions);
    buf_done(&d.line);
    buf_done(&d.early);
    return r;
}

void choice_list_done(struct choice_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].hunks);
    free(list->items);
    *list = (struct choice_list){ 0 };
}
