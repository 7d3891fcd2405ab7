/*
 * Manifests and counters of a codebase. What is read is written again as the same meaning, and every path in it stays in the
 * codebase.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "codebase/manifest.h"
#include "codebase/tree_path.h"

static void check_manifest(const char *bytes, size_t len)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY, again = MANIFEST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY, twice = BUF_EMPTY;
    struct codebase_meta meta = CODEBASE_META_NEW;

    if (manifest_parse(bytes, len, &m) < 0)
        return;
    for (size_t i = 0; i < m.count; i++) {
        autodone(buf) struct buf clean = BUF_EMPTY;

        require(tree_path_clean_entry(m.entries[i].path, strlen(m.entries[i].path), &clean, NULL) == 0);
        require(strcmp(clean.data, m.entries[i].path) == 0);
        require(!m.entries[i].source || m.entries[i].source[0] == '/');
    }
    manifest_count(&m, &meta);
    manifest_format(&m, &text);
    require(manifest_parse(text.data, text.len, &again) == 0);
    manifest_format(&again, &twice);
    require(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
}

static void check_meta(const char *bytes, size_t len)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    struct codebase_meta meta;

    if (codebase_meta_parse(bytes, len, &meta) < 0)
        return;
    codebase_meta_format(&meta, &text);
    require(text.len == len && memcmp(text.data, bytes, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = size ? (const char *) data : "";

    check_manifest(bytes, size);
    check_meta(bytes, size);
    return 0;
}
