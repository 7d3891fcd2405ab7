#include "cli/chooser.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/standard_output.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/review_call.h"
#include "review/diff_text.h"

#define ANSWER_MAX 256

enum word { WORD_NONE, WORD_YES, WORD_NO };

/* A hunk, or a whole file, about which the chooser asks. */
struct question {
    size_t file, hunk;
    bool is_whole; /* asks about the whole file, because it has no hunks or cannot be approved in parts */
    enum word word;
};

struct dialog {
    Sandbox__V1__FileChange *const *files; /* borrowed */
    size_t file_count;
    struct question *questions; /* owned */
    size_t count, cap;
    size_t at;
    size_t shown_file; /* the file whose header was printed last; SIZE_MAX: none */
    bool is_coloured, is_over;
    struct buf line, early; /* the answer; bytes read after its newline */
};

/* ---- questions ---- */

static void dialog_print(const struct dialog *d, const char *colour, const char *text)
{
    autodone(buf) struct buf safe = BUF_EMPTY;

    diff_text_add_safe(&safe, text, strlen(text));
    printf("%s%s%s\n", d->is_coloured && colour ? colour : "", safe.data ? safe.data : "",
           d->is_coloured && colour ? "\033[0m" : "");
}

static void dialog_print_header(const struct dialog *d, const Sandbox__V1__FileChange *file)
{
    autodone(buf) struct buf line = BUF_EMPTY;
    char kind[32];

    buf_addf(&line, "%s ", review_word(&sandbox__v1__change_kind__descriptor, (int) file->kind, "CHANGE_KIND_", kind));
    if (*file->old_path) {
        buf_add_escaped(&line, file->old_path, strlen(file->old_path));
        buf_add_str(&line, " -> ");
    }
    buf_add_escaped(&line, file->path, strlen(file->path));
    dialog_print(d, "\033[1m", line.data);
    buf_clear(&line);
    if (file->old_mode && file->new_mode && file->old_mode != file->new_mode)
        buf_addf(&line, "mode %06o -> %06o", file->old_mode, file->new_mode);
    if (*file->new_symlink_target)
        buf_addf(&line, "%slink to %s", line.len ? ", " : "", file->new_symlink_target);
    if (file->binary)
        buf_addf(&line, "%sbinary, %lld bytes", line.len ? ", " : "", (long long) file->new_size);
    if (line.len > 0)
        dialog_print(d, NULL, line.data);
    if (*file->conflict) {
        buf_clear(&line);
        buf_addf(&line, "in conflict, and cannot be approved by hunk: it %s", file->conflict);
        dialog_print(d, "\033[33m", line.data);
    }
    if (*file->acknowledge_text) {
        buf_clear(&line);
        buf_addf(&line, "mind: %s", file->acknowledge_text);
        dialog_print(d, "\033[33m", line.data);
    }
}

static const char *colour_of_line(const char *line)
{
    return *line == '+' ? "\033[32m" : *line == '-' ? "\033[31m" : NULL;
}

static void dialog_print_hunk(const struct dialog *d, const Sandbox__V1__Hunk *hunk)
{
    dialog_print(d, "\033[36m", hunk->header);
    for (size_t i = 0; i < hunk->n_lines; i++)
        dialog_print(d, colour_of_line(hunk->lines[i]), hunk->lines[i]);
}

/* Fails if the question could not be printed, so that no answer applies to an unseen question. */
static int dialog_print_question(struct dialog *d, struct err *err)
{
    const struct question *q = &d->questions[d->at];
    const Sandbox__V1__FileChange *file = d->files[q->file];
    int r;

    if (d->shown_file != q->file)
        dialog_print_header(d, file);
    d->shown_file = q->file;
    for (size_t i = q->hunk; i < (q->is_whole ? file->n_hunks : q->hunk + 1); i++)
        dialog_print_hunk(d, file->hunks[i]);
    printf("%s(%zu/%zu) Approve this %s%s [y,n,q,a,d,j,k,?]? %s", d->is_coloured ? "\033[1;34m" : "", d->at + 1, d->count,
           q->is_whole ? "change" : "hunk",
           q->word == WORD_YES  ? " (was: yes)"
           : q->word == WORD_NO ? " (was: no)"
                                : "",
           d->is_coloured ? "\033[0m" : "");
    r = standard_output_flush();
    return r < 0 ? output_refused(r, "asking", err) : 0;
}

static void dialog_print_help(void)
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

/* ---- answers ---- */

/* Reads the next line, without its newline. -ECANCELED at the end of the input. */
static int dialog_read_answer(struct dialog *d, struct err *err)
{
    char *end;

    while (!(end = d->early.len ? memchr(d->early.data, '\n', d->early.len) : NULL)) {
        char piece[ANSWER_MAX];
        ssize_t n = d->early.len > ANSWER_MAX ? -EMSGSIZE : interrupt_read(STDIN_FILENO, piece, sizeof(piece));

        if (n == -EINTR)
            continue;
        if (n <= 0) {
            putchar('\n');
            fflush(stdout);
            if (n == -ECANCELED) /* api_verb.c prints no error after an interrupt */
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

/* Goes to the next unanswered question, from `at` on and then from the start. Ends the dialog if all are answered. */
static void dialog_go_on(struct dialog *d)
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

static void dialog_decide_rest(struct dialog *d, enum word word)
{
    size_t file = d->questions[d->at].file;

    for (size_t i = d->at; i < d->count && d->questions[i].file == file; i++)
        d->questions[i].word = word;
    dialog_go_on(d);
}

static void dialog_obey(struct dialog *d)
{
    char letter = (char) (d->line.len == 1 ? d->line.data[0] : '?');

    switch (letter) {
    case 'y':
    case 'n':
        d->questions[d->at].word = letter == 'y' ? WORD_YES : WORD_NO;
        dialog_go_on(d);
        return;
    case 'a':
    case 'd':
        dialog_decide_rest(d, letter == 'a' ? WORD_YES : WORD_NO);
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
        dialog_print_help();
    }
}

/* ---- the dialog ---- */

static void dialog_add_questions(struct dialog *d)
{
    for (size_t i = 0; i < d->file_count; i++) {
        const Sandbox__V1__FileChange *file = d->files[i];
        /* A rename can only be approved as a whole. */
        bool is_whole = file->n_hunks == 0 || file->whole_only || *file->old_path;

        for (size_t j = 0; j < (is_whole ? 1 : file->n_hunks); j++) {
            vec_room(&d->questions, &d->cap, d->count);
            d->questions[d->count++] = (struct question){ .file = i, .hunk = j, .is_whole = is_whole };
        }
    }
}

static void dialog_take_choices(const struct dialog *d, struct choice_list *ret)
{
    ret->count = d->file_count;
    ret->items = xalloc((ret->count + 1) * sizeof(*ret->items));
    for (size_t i = 0; i < ret->count; i++) {
        ret->items[i].hunk_count = d->files[i]->n_hunks;
        ret->items[i].hunks = xalloc(ret->items[i].hunk_count + 1);
    }
    for (size_t i = 0; i < d->count; i++) {
        const struct question *q = &d->questions[i];
        struct choice *choice = &ret->items[q->file];

        if (q->word != WORD_YES)
            continue;
        if (!q->is_whole)
            choice->hunks[q->hunk] = true;
        choice->chosen_count++;
        choice->is_whole = q->is_whole || choice->chosen_count == choice->hunk_count;
    }
}

int chooser_run(Sandbox__V1__FileChange *const *files, size_t count, struct choice_list *ret, struct err *err)
{
    struct dialog d = {
        .files = files, .file_count = count, .shown_file = SIZE_MAX, .is_coloured = output_is_coloured(stdout)
    };
    int r = 0;

    dialog_add_questions(&d);
    while (r == 0 && d.count > 0 && !d.is_over) {
        r = dialog_print_question(&d, err);
        if (r == 0)
            r = dialog_read_answer(&d, err);
        if (r == 0)
            dialog_obey(&d);
    }
    if (r == 0)
        dialog_take_choices(&d, ret);
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
