#include "runtime_fixture.h"

#include "runtime/doctor.h"

static const struct doctor_finding *find(const struct doctor *doctor, const char *name)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (strcmp(doctor->findings[i].name, name) == 0)
            return &doctor->findings[i];
    fail_msg("nothing is said of %s", name);
    return NULL;
}

static void every_side_is_looked_at(void **state)
{
    static const char *const names[] = { "kernel",     "system calls", "FUSE",      "user namespaces", "seccomp",
                                         "bubblewrap", "cgroups",      "container", "Docker" };
    autoptr(doctor) doctor = doctor_new(NULL);

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_true(strlen(find(doctor, names[i])->found) > 0);
    for (size_t i = 0; i < doctor->count; i++)
        assert_true((doctor->findings[i].state == DOCTOR_OK) == (doctor->findings[i].cost == NULL));
}

static void apparmor_is_named_with_its_remedy(void **state)
{
    struct scratch *scratch = *state;
    const struct doctor_options options = { .root = scratch->path, .unshare = "/bin/false" };

    make_file(scratch, "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 0644);
    autoptr(doctor) doctor = doctor_new(&options);
    const struct doctor_finding *f = find(doctor, "user namespaces");
    assert_int_equal(f->state, DOCTOR_MISSING);
    assert_non_null(strstr(f->found, "AppArmor"));
    assert_non_null(strstr(f->fix, "/etc/apparmor.d/bwrap"));
    assert_non_null(strstr(f->fix, "kernel.apparmor_restrict_unprivileged_userns=0"));
    assert_int_equal(doctor_verdict(doctor), 2);
}

static void the_switches_that_forbid_namespaces_are_named(void **state)
{
    struct scratch *scratch = *state;
    const struct doctor_options options = { .root = scratch->path, .unshare = "/bin/false" };

    make_file(scratch, "proc/sys/user/max_user_namespaces", "0\n", 0644);
    autoptr(doctor) first = doctor_new(&options);
    assert_non_null(strstr(find(first, "user namespaces")->fix, "user.max_user_namespaces"));
    make_file(scratch, "proc/sys/kernel/unprivileged_userns_clone", "0\n", 0644);
    autoptr(doctor) second = doctor_new(&options);
    assert_non_null(strstr(find(second, "user namespaces")->fix, "unprivileged_userns_clone=1"));
}

static void no_fuse_means_no_sandbox(void **state)
{
    struct scratch *scratch = *state;
    const struct doctor_options options = { .root = scratch->path };
    autoptr(doctor) doctor = doctor_new(&options);
    const struct doctor_finding *f = find(doctor, "FUSE");

    assert_int_equal(f->state, DOCTOR_MISSING);
    assert_non_null(strstr(f->fix, "modprobe fuse"));
    assert_int_equal(doctor_verdict(doctor), 2);
}

static void no_bwrap_means_no_sandbox(void **state)
{
    const struct doctor_options options = { .bwrap = "/no/such/bwrap" };
    autoptr(doctor) doctor = doctor_new(&options);

    (void) state;
    assert_int_equal(find(doctor, "bubblewrap")->state, DOCTOR_MISSING);
    assert_int_equal(doctor_verdict(doctor), 2);
}

static void a_bwrap_that_cannot_start_is_told_with_its_words(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path = xprintf("%s/bwrap", scratch->path);
    const struct doctor_options options = { .bwrap = path };

    make_file(
        scratch, "bwrap",
        "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0;; --help) echo '--perms O --size B --clearenv x --as-pid-1 y "
        "--disable-userns z';; *) echo 'bwrap: No permissions to create new namespace' >&2; exit 1;; esac\n",
        0755);
    autoptr(doctor) doctor = doctor_new(&options);
    const struct doctor_finding *f = find(doctor, "sandbox");
    assert_int_equal(f->state, DOCTOR_MISSING);
    assert_non_null(strstr(f->found, "No permissions to create new namespace"));
    assert_int_equal(doctor_verdict(doctor), 2);
}

static void an_old_version_is_degraded(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path = xprintf("%s/bwrap", scratch->path);
    const struct doctor_options options = { .bwrap = path };

    make_file(
        scratch, "bwrap",
        "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.3.0;; --help) echo '--perms O --size B --clearenv x --as-pid-1 y "
        "--disable-userns z';; *) exit 1;; esac\n",
        0755);
    autoptr(doctor) doctor = doctor_new(&options);
    const struct doctor_finding *f = find(doctor, "bubblewrap");
    assert_int_equal(f->state, DOCTOR_DEGRADED);
    assert_non_null(strstr(f->cost, "CVE-2019-12439"));
    assert_non_null(strstr(f->found, "CVE-2026-87766"));
}

static void containers_are_recognised(void **state)
{
    struct scratch *scratch = *state;
    const struct doctor_options options = { .root = scratch->path };

    autoptr(doctor) without = doctor_new(&options);
    assert_int_equal(find(without, "container")->state, DOCTOR_OK);
    make_file(scratch, "run/.containerenv", "", 0644);
    autoptr(doctor) with = doctor_new(&options);
    assert_non_null(strstr(find(with, "container")->found, "Podman"));
}

static void verdicts_weigh(void **state)
{
    struct doctor_finding findings[] = { { .weight = DOCTOR_OPTIONAL, .state = DOCTOR_MISSING },
                                         { .weight = DOCTOR_USEFUL, .state = DOCTOR_OK },
                                         { .weight = DOCTOR_ESSENTIAL, .state = DOCTOR_OK } };
    struct doctor doctor = { findings, ARRAY_LEN(findings), 0 };

    (void) state;
    assert_int_equal(doctor_verdict(&doctor), 0);
    findings[1].state = DOCTOR_MISSING;
    assert_int_equal(doctor_verdict(&doctor), 1);
    findings[2].state = DOCTOR_DEGRADED;
    assert_int_equal(doctor_verdict(&doctor), 1);
    findings[2].state = DOCTOR_MISSING;
    assert_int_equal(doctor_verdict(&doctor), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_side_is_looked_at),
        scratch_test(apparmor_is_named_with_its_remedy),
        scratch_test(the_switches_that_forbid_namespaces_are_named),
        scratch_test(no_fuse_means_no_sandbox),
        cmocka_unit_test(no_bwrap_means_no_sandbox),
        scratch_test(a_bwrap_that_cannot_start_is_told_with_its_words),
        scratch_test(an_old_version_is_degraded),
        scratch_test(containers_are_recognised),
        cmocka_unit_test(verdicts_weigh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
