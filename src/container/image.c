#include "container/image.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "container/response.h"

#define LOOK_MS 30000
#define SILENCE_MS 120000

/* Among the characters of image names, only these have a meaning in a query. */
static void add_escaped(struct buf *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strchr(":@/", text[i]))
            buf_addf(out, "%%%02X", (unsigned char) text[i]);
        else
            buf_add_char(out, text[i]);
    }
}

void image_pull_path(const char *name, struct buf *out)
{
    const char *slash = strrchr(name, '/'), *tag = strchr(slash ? slash : name, ':');

    buf_add_str(out, "/images/create?fromImage=");
    if (strchr(name, '@')) {
        add_escaped(out, name, strlen(name));
        return;
    }
    add_escaped(out, name, tag ? (size_t) (tag - name) : strlen(name));
    buf_add_str(out, "&tag=");
    add_escaped(out, tag ? tag + 1 : "latest", strlen(tag ? tag + 1 : "latest"));
}

static int on_piece(const void *bytes, size_t len, void *cookie)
{
    pull_feed(cookie, bytes, len, clock_now_ns());
    return 0;
}

/* Passwords for registries belong to people, not to sandboxes, so we pass none to the engine. */
static bool is_refused(const char *reason)
{
    static const char *const signs[] = { "unauthorized", "authentication required", "no basic auth", "denied" };

    for (size_t i = 0; i < ARRAY_LEN(signs); i++)
        if (strcasestr(reason, signs[i]))
            return true;
    return false;
}

static int image_explain_missing(int r, const char *name, struct err *err)
{
    struct err why = err ? *err : ERR_NONE;

    return err_set(
        err, why.code, r, "there is no image '%s' here, and it cannot be fetched: %s%s", name, why.text,
        is_refused(why.text) ? "; if it is not for everybody, use 'docker login' and 'docker pull' on this host first" : "");
}

static int image_pull(struct engine *engine, const char *name, struct pull *pull, struct err *err)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    int r;

    image_pull_path(name, &path);
    r = engine_send(engine,
                    &(struct engine_request){
                        .method = "POST", .path = path.data, .silence_ms = SILENCE_MS, .piece = on_piece, .cookie = pull },
                    &response, err);
    /* Engines use 500 for any failure of a registry, which is not a failure of ours. */
    if (r == 0 && (r = response_check(&response, err)) < 0 && err && err->code == ERR_UNAVAILABLE)
        err->code = ERR_FAILED_PRECONDITION;
    if (r == 0 && pull->has_failed)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "%s", pull->error);
    return r;
}

/* Returns 1 if the image is here, otherwise 0. */
static int image_is_here(struct engine *engine, const char *name, struct err *err)
{
    autofree char *path = xprintf("/images/%s/json", name);
    autodone(engine_response) struct engine_response response = ENGINE_RESPONSE_NONE;
    int r =
        engine_send(engine, &(struct engine_request){ .method = "GET", .path = path, .timeout_ms = LOOK_MS }, &response, err);

    if (r < 0 || response.status == 404)
        return r;
    r = response_check(&response, err);
    return r < 0 ? err_wrap(err, r, "looking for the image '%s'", name) : 1;
}

int image_require(struct engine *engine, const char *name, bool may_pull, pull_fn fn, void *cookie, struct err *err)
{
    autodone(pull) struct pull pull;
    int r = image_is_here(engine, name, err);

    pull_init(&pull, fn, cookie);
    if (r != 0)
        return r < 0 ? r : 0;
    if (!may_pull)
        return err_set(
            err, ERR_NOT_FOUND, -ENOENT,
            "there is no image '%s' here, and fetching images is switched off: 'docker pull %s' on this host, or set "
            "runtime.docker.pull",
            name, name);
    fn("", cookie);
    r = image_pull(engine, name, &pull, err);
    if (r == -ECANCELED)
        return r;
    if (r == 0)
        r = image_is_here(engine, name, err);
    if (r < 0)
        return image_explain_missing(r, name, err);
    return r > 0 ? 0 : err_set(err, ERR_NOT_FOUND, -ENOENT, "the image '%s' was fetched and is not there", name);
}
