/* A configuration file: whatever the text, it is refused with a line, or each value went through its setting and can be shown again. */
#include "fuzz.h"

#include "base/cleanup.h"
#include "server/config_file.h"
#include "server/setting.h"

static int take(const char *key, const char *value, bool is_item, size_t line, void *cookie, struct err *err)
{
    const struct setting *setting = setting_find(key);
    int r;

    require(key && line > 0);
    require(value || is_item);
    if (!setting)
        return 0;
    if (is_item && value && setting->kind == SETTING_LIST) {
        setting_add(setting, cookie, value);
        return 0;
    }
    r = setting_set(setting, cookie, value ? value : "", err);
    if (r < 0)
        require_refusal(r, err);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config = { 0 };
    autodone(buf) struct buf shown = BUF_EMPTY;
    struct err err = ERR_NONE;
    int r;

    for (size_t i = 0; i < setting_count; i++)
        require(setting_set(&settings[i], &config, settings[i].value ? settings[i].value : "", &err) == 0);
    r = config_file_parse((const char *) data, size, take, &config, &err);
    if (r < 0)
        require_refusal(r, &err);
    for (size_t i = 0; i < setting_count; i++)
        setting_show(&settings[i], &config, &shown);
    require(utf8_is_valid(shown.data, shown.len));
    for (size_t i = 0; i < setting_count; i++)
        setting_done(&settings[i], &config);
    return 0;
}
