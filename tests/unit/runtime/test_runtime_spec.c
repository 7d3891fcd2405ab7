#include "runtime_fixture.h"

static void refused(const struct runtime_spec *spec, const char *words)
{
    struct err err = ERR_NONE;

    assert_true(runtime_spec_check(spec, &err) < 0);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void accepted(const struct runtime_spec *spec)
{
    struct err err = ERR_NONE;

    if (runtime_spec_check(spec, &err) < 0)
        fail_msg("%s", err.text);
}

static void a_plain_spec_is_accepted(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    accepted(&spec);
    assert_int_equal(runtime_spec_agent_uid(&spec), 1000);
    assert_int_equal(runtime_spec_agent_gid(&spec), 1000);
    assert_int_equal(runtime_spec_pids(&spec), 1024);
    assert_string_equal(runtime_spec_hostname(&spec), "sandbox");
}

static void names_are_checked(void **state)
{
    static const char *const bad[] = { "", "a/b", "../x", ".x", "-x", "a b", "a\nb" };
    struct runtime_spec spec;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        spec = plain_spec();
        spec.id = bad[i];
        refused(&spec, "sandbox id");
        spec = plain_spec();
        spec.hostname = bad[i];
        refused(&spec, "hostname");
    }
    spec = plain_spec();
    spec.id = NULL;
    refused(&spec, "sandbox id");
}

static void root_is_refused_under_any_name(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    if (geteuid() != 0)
        skip();
    spec.uid = 0;
    refused(&spec, "never run as root");
    spec = plain_spec();
    spec.gid = 0;
    refused(&spec, "never run as root");
    spec = plain_spec();
    spec.uid = (uid_t) -1;
    refused(&spec, "no user");
}

static void nobody_cannot_be_the_agent(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.agent_uid = 65534;
    refused(&spec, "nobody");
    spec = plain_spec();
    spec.agent_gid = 65534;
    refused(&spec, "nobody");
}

static void limits_that_make_no_sense_are_refused(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.limits.memory_bytes = 1000;
    refused(&spec, "memory");
    spec = plain_spec();
    spec.limits.cpu_quota_us = 10;
    refused(&spec, "cpu quota");
    spec = plain_spec();
    spec.limits.cpu_shares = 1;
    refused(&spec, "cpu shares");
    spec.limits.cpu_shares = 262145;
    refused(&spec, "cpu shares");
    spec = plain_spec();
    spec.limits.pids = 3;
    refused(&spec, "pids");
}

static void the_environment_is_names_and_values(void **state)
{
    const char *good[] = { "A=1", "B=", "C==", NULL }, *no_equals[] = { "A", NULL }, *no_name[] = { "=1", NULL };
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.env = good;
    accepted(&spec);
    spec.env = no_equals;
    refused(&spec, "NAME=value");
    spec.env = no_name;
    refused(&spec, "NAME=value");
}

static void workspace_and_init_are_needed(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.workspace = NULL;
    refused(&spec, "workspace");
    spec.workspace = "/tmp";
    accepted(&spec);
    spec.init_path = NULL;
    refused(&spec, "init");
    spec.init_fd = 0;
    accepted(&spec);
}

/* Every tree that is bound, fresh or writable inside: a mount point made there might be made elsewhere. */
static void destinations_in_the_sandboxs_own_trees_are_refused(void **state)
{
    static const char *const bad[] = { "/",        "/bin/x",     "/dev",           "/etc/ssl", "/home/agent/.cache",
                                       "/lib",     "/lib64/x",   "/proc/1",        "/root",    "/run/x",
                                       "/sbin",    "/sys",       "/tmp/x",         "/usr",     "/usr/share",
                                       "/var/lib", "/workspace", "/workspace/a/b", "/oldroot", "/newroot/x",
                                       "/boot",    "/libx32",    "/lib32" };
    struct runtime_spec spec = plain_spec();

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct runtime_mount mount = { "/usr", bad[i], true };

        spec.mounts = &mount;
        spec.mount_count = 1;
        refused(&spec, strcmp(bad[i], "/") == 0 ? "replace '/'" : "which the sandbox itself needs");
    }
}

static void unclean_paths_are_refused(void **state)
{
    static const char *const bad[] = { "",        "mnt",      "./mnt", "/mnt/", "/mnt/../workspace", "/mnt/../etc",
                                       "/mnt//x", "/mnt/./x", "//mnt", "/.." };
    struct runtime_spec spec = plain_spec();

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct runtime_mount to = { "/usr", bad[i], true }, from = { bad[i], "/mnt/x", true };

        spec.mounts = &to;
        spec.mount_count = 1;
        refused(&spec, "destination");
        spec.mounts = &from;
        refused(&spec, "source");
    }
}

static void mounts_in_mounts_are_refused(void **state)
{
    const struct runtime_mount nested[] = { { "/usr", "/mnt/a", true }, { "/usr", "/mnt/a/b", true } };
    const struct runtime_mount twice[] = { { "/usr", "/mnt/a", true }, { "/usr", "/mnt/a", false } };
    const struct runtime_mount beside[] = { { "/usr", "/mnt/a", true }, { "/usr", "/mnt/ab", true }, { "/usr", "/opt", true } };
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.mounts = nested;
    spec.mount_count = 2;
    refused(&spec, "another mount");
    spec.mounts = twice;
    refused(&spec, "another mount");
    spec.mounts = beside;
    spec.mount_count = 3;
    accepted(&spec);
}

static void a_stage_has_the_workspace_and_may_have_mounts(void **state)
{
    const struct runtime_mount mount = { "/usr", "/data", true };
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.workspace = NULL;
    spec.stage = "/stage";
    accepted(&spec);
    spec.mounts = &mount;
    spec.mount_count = 1;
    accepted(&spec);
}

static void sources_must_be_there_and_ordinary(void **state)
{
    const struct runtime_mount missing = { "/no/such/place", "/mnt/a", true }, device = { "/dev/null", "/mnt/a", true };
    struct runtime_spec spec = plain_spec();

    (void) state;
    spec.mounts = &missing;
    spec.mount_count = 1;
    refused(&spec, "/no/such/place");
    spec.mounts = &device;
    refused(&spec, "no directory, file or socket");
    spec.mount_count = RUNTIME_MOUNTS_MAX + 1;
    refused(&spec, "mounts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_spec_is_accepted),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(root_is_refused_under_any_name),
        cmocka_unit_test(nobody_cannot_be_the_agent),
        cmocka_unit_test(limits_that_make_no_sense_are_refused),
        cmocka_unit_test(the_environment_is_names_and_values),
        cmocka_unit_test(workspace_and_init_are_needed),
        cmocka_unit_test(destinations_in_the_sandboxs_own_trees_are_refused),
        cmocka_unit_test(unclean_paths_are_refused),
        cmocka_unit_test(mounts_in_mounts_are_refused),
        cmocka_unit_test(a_stage_has_the_workspace_and_may_have_mounts),
        cmocka_unit_test(sources_must_be_there_and_ordinary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
