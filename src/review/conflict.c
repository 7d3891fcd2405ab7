#include "review/conflict.h"

#include <stdlib.h>

#include "base/mem.h"

static bool has_moved(const struct reconcile *re)
{
    return re->state != RECONCILE_CLEAN || (re->has_merge_base && !file_state_equals(&re->merge_base, &re->project));
}

static int check_edit(struct conflict_report *report, size_t i, struct err *err)
{
    autodone(reconcile) struct reconcile re = RECONCILE_EMPTY;
    struct conflict_file *file = &report->files[i];
    int r = reconcile_make(&report->edits, &report->edits.items[i], THREEWAY_NONE, &re, err);

    if (r < 0)
        return r;
    *file = (struct conflict_file){ &report->edits.items[i], re.state, re.reason, has_moved(&re), re.merge };
    re.merge = THREEWAY_EMPTY;
    report->moved_count += file->has_moved;
    report->merge_count += file->state == RECONCILE_MERGES;
    report->conflict_count += file->state == RECONCILE_CONFLICT;
    return 0;
}

int conflict_report_make(const char *delta_path, const struct selection *selection, struct conflict_report *ret,
                         struct err *err)
{
    static const struct selection all = { 0 };
    autodone(conflict_report) struct conflict_report report = CONFLICT_REPORT_NONE;
    int r = selection_load(selection ? selection : &all, delta_path, &report.edits, err);

    report.files = xalloc((report.edits.count + 1) * sizeof(*report.files));
    for (size_t i = 0; i < report.edits.count && r == 0; i++)
        r = check_edit(&report, i, err);
    if (r < 0)
        return r;
    *ret = report;
    report = CONFLICT_REPORT_NONE;
    for (size_t i = 0; i < ret->edits.count; i++)
        ret->files[i].edit = &ret->edits.items[i];
    return 0;
}

void conflict_report_done(struct conflict_report *report)
{
    for (size_t i = 0; report->files && i < report->edits.count; i++)
        threeway_done(&report->files[i].merge);
    free(report->files);
    edit_list_done(&report->edits);
    *report = CONFLICT_REPORT_NONE;
}
