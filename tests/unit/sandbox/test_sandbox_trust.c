#include "sandbox/sandbox_trust.h"

#include "state_fixture.h"

#include <sys/stat.h>

#define ID "sb_0123456789abcdef"

static void make_one(struct fixture *x, int *ret_fd)
{
    autoptr(sandbox_spec) spec = spec_of("shop", "/srv/shop");
    struct err err = ERR_NONE;

    open_it(x);
    spec->id = xdup(ID);
    assert_int_equal(state_dir_create(&x->state_dir, spec, true, ret_fd, &err), 0);
}

static int open_trusted(struct fixture *x, uid_t uid, struct err *err)
{
    autoptr(sandbox_spec) spec = NULL;
    autofd int fd = -1;
    int r = sandbox_trust_open(&x->state_dir, ID, uid, &fd, &spec, err);

    assert_true(r == 0 ? fd >= 0 && strcmp(spec->name, "shop") == 0 : !spec);
    assert_true(r != -EPERM || fd < 0);
    return r;
}

static void assert_refused(struct fixture *x, const char *why)
{
    struct err err = ERR_NONE;

    assert_int_equal(open_trusted(x, geteuid(), &err), -EPERM);
    assert_int_equal(err.code, ERR_PERMISSION_DENIED);
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void assert_taken(struct fixture *x)
{
    struct err err = ERR_NONE;

    if (open_trusted(x, geteuid(), &err) < 0)
        fail_msg("%s", err.text);
}

static void ones_own_is_taken(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;

    make_one(x, &fd);
    assert_taken(x);
    assert_int_equal(fchmod(fd, 0755), 0); /* others may look */
    assert_taken(x);
    assert_int_equal(unlinkat(fd, "spec", 0), 0);
    assert_int_equal(open_trusted(x, geteuid(), &err), -ENOENT);
}

static void ones_own_without_a_spec_is_told_from_what_is_not_trusted(void **state)
{
    struct fixture *x = *state;
    autoptr(sandbox_spec) spec = NULL;
    autofd int made = -1, fd = -1;
    struct err err = ERR_NONE;

    make_one(x, &made);
    assert_int_equal(unlinkat(made, "spec", 0), 0);
    assert_int_equal(sandbox_trust_open(&x->state_dir, ID, geteuid(), &fd, &spec, &err), -ENOENT);
    assert_true(fd >= 0);
    close(steal_fd(&fd));
    assert_int_equal(fchmod(made, 0770), 0);
    assert_int_equal(sandbox_trust_open(&x->state_dir, ID, geteuid(), &fd, &spec, &err), -EPERM);
    assert_true(fd < 0);
}

static void another_users_is_refused(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;

    make_one(x, &fd);
    assert_int_equal(open_trusted(x, geteuid() + 1, &err), -EPERM);
    assert_non_null(strstr(err.text, "belongs to another user"));
    if (geteuid() != 0)
        skip();
    assert_int_equal(fchownat(fd, "spec", 65534, 65534, 0), 0);
    assert_refused(x, "spec belongs to another user");
    assert_int_equal(fchownat(fd, "spec", 0, 0, 0), 0);
    assert_int_equal(fchown(fd, 65534, 65534), 0);
    assert_refused(x, "directory belongs to another user");
}

static void one_that_others_can_write_is_refused(void **state)
{
    static const mode_t modes[] = { 0720, 0702, 0722 };
    struct fixture *x = *state;
    autofd int fd = -1;

    make_one(x, &fd);
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        assert_int_equal(fchmod(fd, modes[i]), 0);
        assert_refused(x, "directory can be written by others");
        assert_int_equal(fchmod(fd, 0700), 0);
        assert_int_equal(fchmodat(fd, "spec", modes[i] & 0666, 0), 0);
        assert_refused(x, "spec can be written by others");
        assert_int_equal(fchmodat(fd, "spec", 0600, 0), 0);
    }
    assert_taken(x);
}

static void a_link_to_a_directory_is_refused(void **state)
{
    struct fixture *x = *state;
    autofd int fd = -1;

    make_one(x, &fd);
    assert_int_equal(renameat(x->state_dir.sandboxes_fd, ID, x->state_dir.fd, "elsewhere"), 0);
    assert_int_equal(symlinkat("../elsewhere", x->state_dir.sandboxes_fd, ID), 0);
    assert_refused(x, "directory is a link");
}

static void a_link_to_a_spec_is_refused(void **state)
{
    struct fixture *x = *state;
    autofd int fd = -1;

    make_one(x, &fd);
    assert_int_equal(renameat(fd, "spec", fd, "other"), 0);
    assert_int_equal(symlinkat("other", fd, "spec"), 0);
    assert_refused(x, "spec is a link");
}

static void what_is_no_file_is_refused(void **state)
{
    struct fixture *x = *state;
    autofd int fd = -1;

    make_one(x, &fd);
    assert_int_equal(unlinkat(fd, "spec", 0), 0);
    assert_int_equal(mkfifoat(fd, "spec", 0600), 0);
    assert_refused(x, "spec is not a file");
    assert_int_equal(unlinkat(x->state_dir.sandboxes_fd, ID "/spec", 0), 0);
    assert_int_equal(unlinkat(fd, "lock", 0), 0);
    assert_int_equal(unlinkat(x->state_dir.sandboxes_fd, ID, AT_REMOVEDIR), 0);
    assert_int_equal(file_put(x->state_dir.sandboxes_fd, ID, "", 0, 0600), 0);
    assert_refused(x, "directory is a link, or something else");
}

static void the_spec_of_another_is_refused(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autoptr(sandbox_spec) spec = spec_of("shop", "/srv/shop");
    autofd int fd = -1;

    make_one(x, &fd);
    spec->id = xdup("sb_1123456789abcdef");
    assert_int_equal(sandbox_spec_store(fd, spec, true, &err), 0);
    assert_refused(x, "spec is that of another sandbox");
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const names[] = { "..", "../sandboxes/sb_0123456789abcdef", "/etc", "" };
    struct fixture *x = *state;
    struct sandbox_spec *spec = NULL;
    int fd = -1;

    make_one(x, &fd);
    close(fd);
    fd = -1;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err err = ERR_NONE;

        assert_int_equal(sandbox_trust_open(&x->state_dir, names[i], geteuid(), &fd, &spec, &err), -EINVAL);
        assert_true(fd < 0 && !spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        state_test(ones_own_is_taken),
        state_test(ones_own_without_a_spec_is_told_from_what_is_not_trusted),
        state_test(another_users_is_refused),
        state_test(one_that_others_can_write_is_refused),
        state_test(a_link_to_a_directory_is_refused),
        state_test(a_link_to_a_spec_is_refused),
        state_test(what_is_no_file_is_refused),
        state_test(the_spec_of_another_is_refused),
        state_test(names_that_lead_elsewhere_are_refused),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
