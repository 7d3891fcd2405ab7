/*
 * Lines of a delta's diary. The fence writes them, but the names in them are the agent's. What is taken has a path, and a path
 * written the way the fence does is read back as it was.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "fence/record.h"
#include "review/diary.h"

static void check_round_trip(const char *path)
{
    autodone(diary) struct diary again = DIARY_EMPTY;
    autodone(buf) struct buf line = BUF_EMPTY;

    buf_add_str(&line, "{\"change\":\"created\",\"path\":");
    record_add_string(&line, path);
    buf_add_char(&line, '}');
    require(diary_take_line(&again, line.data, line.len));
    require(again.count == 1 && strcmp(again.pages[0].path, path) == 0);
    require(!memchr(line.data, '\n', line.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(diary) struct diary diary = DIARY_EMPTY;
    autofree char *line = malloc(size + 1);
    bool taken;

    require(line);
    memcpy(line, data, size);
    line[size] = 0;
    taken = diary_take_line(&diary, line, size);
    require(taken || diary.count == 0);
    for (size_t i = 0; i < diary.count; i++) {
        require(diary.pages[i].path[0] != 0);
        check_round_trip(diary.pages[i].path);
    }
    if (size > 0 && strlen(line) > 0)
        check_round_trip(line);
    return 0;
}
