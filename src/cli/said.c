#include "cli/said.h"

#include <stdio.h>
#include <string.h>

#include "cli/chooser.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_diff.h"

void said_done(struct said *said)
{
    json_decref(said->files);
    *said = SAID_NOTHING;
}

bool said_is_empty(const struct said *said)
{
    return json_object_size(said->files) == 0;
}

/* ---- asking ---- */

static void note(struct said *said, const json_t *file, const struct choice *choice)
{
    json_t *ids = json_array(), *hunk;
    size_t i;

    json_array_foreach(json_object_get(file, "hunks"), i, hunk)
    {
        if (choice->hunks[i])
            json_array_append_new(ids, json_string(json_text(hunk, "id")));
    }
    json_object_set_new(said->files, json_text(file, "id"),
                        json_pack("{s:s, s:s, s:b, s:b, s:o}", "path", json_text(file, "projectPath"), "hash",
                                  json_text(file, "hash"), "whole", choice->is_whole, "warned",
                                  json_object_get(file, "acknowledge") != NULL, "hunkIds", ids));
}

static int ask(struct said *said, const json_t *files, struct err *err)
{
    autodone(choice_list) struct choice_list choices = { 0 };
    int r = chooser_run(files, interrupt_read, &choices, err);

    for (size_t i = 0; r == 0 && i < choices.count; i++)
        if (choices.items[i].taken > 0)
            note(said, json_array_get(files, i), &choices.items[i]);
    return r;
}

int said_ask(struct said *said, struct api_call *call, const char *id, char **paths, int path_count, struct err *err)
{
    autojson diff = NULL;
    int r = workspace_diff_load(call, id, paths, path_count, WORKSPACE_DIFF_WHOLE, &diff, err);

    if (r < 0)
        return r;
    said->files = json_object();
    if (json_array_size(json_object_get(diff, "files")) == 0)
        return 1;
    return ask(said, json_object_get(diff, "files"), err);
}

/* ---- asking again ---- */

static const json_t *find(const json_t *diff, const char *id)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(diff, "files"), i, file)
    {
        if (strcmp(json_text(file, "id"), id) == 0)
            return file;
    }
    return NULL;
}

static void tell(const json_t *one, bool is_there)
{
    fputs("  ", stderr);
    output_escaped(stderr, json_text(one, "path"));
    fputs(is_there ? " has changed since you saw it\n" : " has no changes any more\n", stderr);
}

/* Takes out what is not what was seen; those of them that are there go to `again`. How many they were. */
static size_t take_out(struct said *said, const json_t *diff, json_t *again)
{
    const char *id;
    json_t *one;
    void *next;
    size_t count = 0;

    json_object_foreach_safe(said->files, next, id, one)
    {
        const json_t *now = find(diff, id);

        if (now && strcmp(json_text(now, "hash"), json_text(one, "hash")) == 0)
            continue;
        tell(one, now);
        if (now)
            json_array_append(again, (json_t *) (uintptr_t) now);
        json_object_del(said->files, id);
        count++;
    }
    return count;
}

int said_ask_again(struct said *said, struct api_call *call, const char *id, struct err *err)
{
    autojson diff = NULL;
    autojson again = json_array();
    int r = workspace_diff_load(call, id, NULL, 0, WORKSPACE_DIFF_WHOLE, &diff, err);

    if (r < 0)
        return r;
    if (take_out(said, diff, again) == 0)
        return 1;
    if (json_array_size(again) > 0)
        r = ask(said, again, err);
    return r;
}

/* ---- the request ---- */

static void put(json_t *body, const char *key, json_t *value)
{
    json_object_del(body, key);
    if (json_array_size(value) > 0)
        json_object_set(body, key, value);
    json_decref(value);
}

/* Who says yes to a change that is shown with a warning has given it a word of its own. */
void said_put(const struct said *said, json_t *body)
{
    json_t *whole = json_array(), *parts = json_array(), *known = json_array(), *hashes = json_object(), *one;
    const char *id;

    json_object_foreach(said->files, id, one)
    {
        json_object_set_new(hashes, id, json_string(json_text(one, "hash")));
        if (json_is_true(json_object_get(one, "whole")))
            json_array_append_new(whole, json_string(id));
        else
            json_array_append_new(parts, json_pack("{s:s, s:O}", "fileId", id, "hunkIds", json_object_get(one, "hunkIds")));
        if (json_is_true(json_object_get(one, "warned")))
            json_array_append_new(known, json_string(id));
    }
    put(body, "fileIds", whole);
    put(body, "hunks", parts);
    if (json_is_true(json_object_get(body, "acknowledge")))
        json_decref(known);
    else
        put(body, "acknowledge", known);
    json_object_set_new(body, "fileHashes", hashes);
}
