/*
 * Lines of a delta's diary. The fence writes them, but the names in them are the agent's. What is taken has a path, and a path
 * written the way the fence does is read back as it was.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "fence/change_log.h"
#include "review/change_log_index.h"

static void check_round_trip(const char *path)
{
    autodone(change_log_index) struct change_log_index again = CHANGE_LOG_INDEX_EMPTY;
    autodone(buf) struct buf line = BUF_EMPTY;

    buf_add_str(&line, "{\"change\":\"created\",\"path\":");
    change_log_format_string(&line, path);
    buf_add_char(&line, '}');
    require(change_log_index_parse_line(&again, line.data, line.len));
    require(again.count == 1 && strcmp(again.entries[0].path, path) == 0);
    require(!memchr(line.data, '\n', line.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(change_log_index) struct change_log_index log_index = CHANGE_LOG_INDEX_EMPTY;
    autofree char *line = malloc(size + 1);
    bool taken;

    require(line);
    memcpy(line, data, size);
    line[size] = 0;
    taken = change_log_index_parse_line(&log_index, line, size);
    require(taken || log_index.count == 0);
    for (size_t i = 0; i < log_index.count; i++) {
        require(log_index.entries[i].path[0] != 0);
        check_round_trip(log_index.entries[i].path);
    }
    if (size > 0 && strlen(line) > 0)
        check_round_trip(line);
    return 0;
}
