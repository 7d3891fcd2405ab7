#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "codebase/codebase_version.h"
#include "service/codebases_int.h"
#include "service/events.h"
#include "service/service_int.h"

#define PAGE_DEFAULT 50
#define CONFLICTS_TOLD_MAX 100

struct gathering {
    struct codebase *codebase;
    struct version_page *page;
    size_t limit, cap;
    uint64_t before; /* 0: start with the newest */
    bool has_more;
    struct err *err;
};

void version_entry_done(struct version_entry *entry)
{
    for (size_t i = 0; i < entry->conflict_count; i++)
        free(entry->conflicts[i]);
    free(entry->conflicts);
    free(entry->author);
    free(entry->reason);
    *entry = (struct version_entry){ 0 };
}

void version_page_done(struct version_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        version_entry_done(&page->items[i]);
    free(page->items);
    free(page->next_token);
    *page = (struct version_page){ 0 };
}

static int add_conflict(const struct codebase_version_entry *entry, void *cookie)
{
    struct version_entry *into = cookie;

    if (!entry->is_conflict || into->conflict_count == CONFLICTS_TOLD_MAX)
        return 0;
    into->conflicts = xgrow(into->conflicts, into->conflict_count + 1, sizeof(*into->conflicts));
    into->conflicts[into->conflict_count++] = xdup(entry->path);
    return 0;
}

static int gather(const struct codebase_version *version, void *cookie)
{
    struct gathering *gathering = cookie;
    struct version_page *page = gathering->page;
    struct version_entry *entry;

    if (gathering->before && version->number >= gathering->before)
        return 0;
    if (page->count == gathering->limit) {
        gathering->has_more = true;
        return 1;
    }
    vec_room(&page->items, &gathering->cap, page->count);
    entry = &page->items[page->count++];
    *entry = (struct version_entry){
        .number = version->number,
        .created_ns = version->time_ns,
        .author = xdup(version->by),
        .reason = xdup(version->reason),
        .changes = version->put_count + version->removed_count,
    };
    if (version->conflict_count == 0)
        return 0;
    return codebase_version_entries(gathering->codebase, version->number, add_conflict, entry, gathering->err);
}

static int parse_token(const char *token, uint64_t *ret, struct err *err)
{
    char *end;

    if (!*token)
        return 0;
    errno = 0;
    *ret = strtoull(token, &end, 10);
    return *token < '0' || *token > '9' || *end || errno || *ret == 0 ? err_reject(err, -EINVAL, token, "is no page_token") : 0;
}

int codebases_list_versions(struct service *service, const struct caller *caller, const char *id, size_t page_size,
                            const char *token, struct version_page *ret, struct err *err)
{
    struct gathering gathering = { .page = ret, .limit = page_size ? page_size : PAGE_DEFAULT, .err = err };
    autoptr(codebase) codebase = NULL;
    int r = parse_token(token, &gathering.before, err);

    if (r == 0)
        r = codebases_open_dir(service, caller, id, &codebase, NULL, err);
    if (r < 0)
        return r;
    gathering.codebase = codebase;
    r = codebase_versions(codebase, gather, &gathering, err);
    if (r < 0)
        return r;
    ret->next_token = gathering.has_more ? xprintf("%llu", (unsigned long long) ret->items[ret->count - 1].number) : xdup("");
    return 0;
}

static int find(struct codebase *codebase, uint64_t version, struct version_entry *ret)
{
    autodone(version_page) struct version_page page = { 0 };
    struct err err = ERR_NONE;
    struct gathering gathering = { .codebase = codebase, .page = &page, .limit = 1, .before = version + 1, .err = &err };
    int r = codebase_versions(codebase, gather, &gathering, &err);

    if (r < 0 || page.count == 0 || page.items[0].number != version)
        return r < 0 ? r : -ENOENT;
    *ret = page.items[0];
    page.items[0] = (struct version_entry){ 0 };
    return 0;
}

int codebases_restore(struct service *service, const struct caller *caller, const char *id, uint64_t version, const char *path,
                      struct version_entry *ret, struct err *err)
{
    autodone(codebase_commit) struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    autoptr(codebase) codebase = NULL;
    autofree char *owner = NULL;
    int r = codebases_open_dir(service, caller, id, &codebase, &owner, err);

    if (r == 0)
        r = codebase_restore(codebase, version, *path ? path : NULL, caller->owner, &commit, err);
    if (r < 0)
        return r == -ERANGE ? err_set_reason(err, r, "VERSION_NOT_KEPT") : r;
    codebases_note_commit(service, codebase, &commit, NULL);
    events_add(service, &(struct event){ .type = "version_restored",
                                         .codebase_id = id,
                                         .owner = owner,
                                         .payload = json_pack("{s:I, s:I, s:s}", "restored", (json_int_t) version, "version",
                                                              (json_int_t) commit.version, "path", path) });
    /* The restore has succeeded, so return success even if its entry cannot be read. */
    if (find(codebase, commit.version, ret) < 0)
        *ret = (struct version_entry){ .number = commit.version,
                                       .created_ns = clock_wall_ns(),
                                       .author = xdup(caller->owner),
                                       .reason = xdup(""),
                                       .changes = commit.change_count };
    return 0;
}
