#include "review/confine.h"

#include "review_fixture.h"

#include <linux/landlock.h>
#include <sys/syscall.h>

static bool has_landlock(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 2;
}

struct tries {
    const char *inside, *outside;
    int parts_fd;
    bool reads_inside, writes_inside, reads_outside, writes_outside, reads_parts;
};

static bool opens(int dir, const char *path, int flags)
{
    autofd int fd = openat(dir, path, flags | O_CLOEXEC, 0600);

    return fd >= 0;
}

static int try_all(void *cookie, struct err *err)
{
    struct tries *t = cookie;
    autofree char *in = xprintf("%s/file", t->inside), *out = xprintf("%s/file", t->outside);
    autofree char *link = xprintf("%s/link", t->inside), *made = xprintf("%s/made", t->inside);

    (void) err;
    t->reads_inside = opens(AT_FDCWD, in, O_RDONLY);
    t->writes_inside = opens(AT_FDCWD, made, O_WRONLY | O_CREAT);
    t->reads_outside = opens(AT_FDCWD, out, O_RDONLY) || opens(AT_FDCWD, link, O_RDONLY);
    t->writes_outside = opens(AT_FDCWD, out, O_WRONLY) || opens(AT_FDCWD, link, O_WRONLY);
    t->reads_parts = opens(t->parts_fd, "file", O_RDONLY) && !opens(t->parts_fd, "file", O_WRONLY);
    return 7;
}

static void make_empty(struct world *w, const char *path)
{
    autofd int fd = openat(w->f.fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
}

static void a_confined_thread_reaches_its_roots_and_nothing_else(void **state)
{
    struct world *w = *state;
    autofree char *top = path_of_open(w->f.fd);
    autofree char *inside = xprintf("%s/inside", top), *outside = xprintf("%s/outside", top);
    const char *roots[] = { inside, NULL }, *nowhere[] = { "/nowhere/at/all", NULL };
    struct err err = ERR_NONE;

    if (!has_landlock())
        skip();
    assert_int_equal(mkdirat(w->f.fd, "inside", 0700) | mkdirat(w->f.fd, "outside", 0700) | mkdirat(w->f.fd, "kept", 0700), 0);
    make_empty(w, "inside/file");
    make_empty(w, "outside/file");
    make_empty(w, "kept/file");
    assert_int_equal(symlinkat("../outside/file", w->f.fd, "inside/link"), 0);
    autofd int kept = openat(w->f.fd, "kept", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct tries t = { .inside = inside, .outside = outside, .parts_fd = kept };

    assert_int_equal(confine_run(&(struct confine_bounds){ roots, kept }, try_all, &t, &err), 7);
    assert_true(t.reads_inside && t.writes_inside && t.reads_parts);
    assert_false(t.reads_outside || t.writes_outside);
    /* Only that thread: this one, and one without roots, go where they like. */
    assert_int_equal(confine_run(&(struct confine_bounds){ NULL, -1 }, try_all, &t, &err), 7);
    assert_true(t.reads_inside && t.reads_outside && t.writes_outside);
    assert_int_equal(try_all(&t, &err), 7);
    assert_true(t.reads_outside && t.writes_outside);
    /* Roots that are not there are none. */
    assert_int_equal(confine_run(&(struct confine_bounds){ nowhere, -1 }, try_all, &t, &err), 7);
    assert_false(t.reads_inside || t.writes_inside || t.reads_outside || t.writes_outside);
}

int main(void)
{
    const struct CMUnitTest tests[] = { world_test(a_confined_thread_reaches_its_roots_and_nothing_else) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
