#include "runtime_fixture.h"

#include "runtime/bwrap_probe.h"

/* A program that answers as some bwrap would. */
static char *fake_bwrap(const struct scratch *scratch, const char *version, const char *options)
{
    autofree char *script =
        xprintf("#!/bin/sh\ncase $1 in --version) echo '%s';; *) printf '%%s\\n' '%s';; esac\n", version, options);

    make_file(scratch, "bwrap", script, 0755);
    return xprintf("%s/bwrap", scratch->path);
}

static void versions_compare_by_numbers(void **state)
{
    (void) state;
    assert_int_equal(bwrap_compare_versions("0.8.0", "0.8.0"), 0);
    assert_int_equal(bwrap_compare_versions("0.8.0", "0.10.0"), -1);
    assert_int_equal(bwrap_compare_versions("0.12.0", "0.9.9"), 1);
    assert_int_equal(bwrap_compare_versions("0.8", "0.8.0"), 0);
    assert_int_equal(bwrap_compare_versions("0.8.0", "0.8.0.1"), -1);
    assert_int_equal(bwrap_compare_versions("0.8.0", ""), 1);
}

static const struct bwrap_advisory *advisory(const char *id)
{
    size_t count;
    const struct bwrap_advisory *all = bwrap_advisories(&count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].id, id) == 0)
            return &all[i];
    fail_msg("no advisory %s", id);
    return NULL;
}

static void advisories_know_versions_and_setuid(void **state)
{
    struct bwrap_probe probe = { .version = "0.8.0" };

    (void) state;
    assert_true(bwrap_is_affected(&probe, advisory("CVE-2026-87766")));
    assert_false(bwrap_is_affected(&probe, advisory("CVE-2026-41163")));
    strcpy(probe.version, "0.11.1");
    assert_false(bwrap_is_affected(&probe, advisory("CVE-2026-41163")));
    probe.is_setuid = true;
    assert_true(bwrap_is_affected(&probe, advisory("CVE-2026-41163")));
    strcpy(probe.version, "0.12.0");
    assert_false(bwrap_is_affected(&probe, advisory("CVE-2026-41163")));
    assert_false(bwrap_is_affected(&probe, advisory("CVE-2026-87766")));
}

static void options_are_taken_from_the_help(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path =
        fake_bwrap(scratch, "bubblewrap 0.9.1", "--perms O\n --size B\n --clearenv x\n --as-pid-1  y\n --bind-fd-not z");
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    if (bwrap_probe(path, &probe, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(probe.version, "0.9.1");
    assert_true(probe.has_size && probe.has_perms && probe.has_clearenv && probe.has_as_pid_1);
    assert_false(probe.has_disable_userns);
    assert_false(probe.is_setuid);
}

static void a_bwrap_that_is_too_old_is_refused_by_name(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path = fake_bwrap(scratch, "bubblewrap 0.4.1", "--as-pid-1 x --clearenv y --perms z ");
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    assert_int_equal(bwrap_probe(path, &probe, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "0.4.1 lacks --size"));
}

static void what_is_no_bwrap_is_refused(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path = fake_bwrap(scratch, "hello", "");
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    assert_int_equal(bwrap_probe(path, &probe, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "version"));
    assert_int_equal(bwrap_probe("/no/such/bwrap", &probe, &err), -ENOENT);
}

static void this_hosts_is_good_enough(void **state)
{
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    (void) state;
    if (!bwrap_find()) {
        print_message("skipped: no bwrap on this host\n");
        skip();
    }
    if (bwrap_probe(NULL, &probe, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(bwrap_compare_versions(probe.version, "0.5.0") > 0);
}

static void reading_the_file_tells_the_same_as_asking(void **state)
{
    struct bwrap_probe asked, read;

    (void) state;
    if (!bwrap_find()) {
        print_message("skipped: no bwrap on this host\n");
        skip();
    }
    assert_int_equal(bwrap_probe(NULL, &asked, NULL), 0);
    assert_int_equal(bwrap_probe_file(NULL, &read, NULL), 0);
    assert_string_equal(read.version, "");
    memcpy(read.version, asked.version, sizeof(read.version));
    assert_memory_equal(&asked, &read, sizeof(read));
}

static void a_script_is_asked(void **state)
{
    struct scratch *scratch = *state;
    autofree char *path = fake_bwrap(scratch, "bubblewrap 0.9.1", "--perms O\n --size B\n --clearenv x\n --as-pid-1  y");
    struct bwrap_probe probe;
    struct err err = ERR_NONE;

    assert_int_equal(bwrap_probe_file(path, &probe, NULL), 0);
    assert_string_equal(probe.version, "0.9.1");
    assert_int_equal(bwrap_probe_file("/no/such/bwrap", &probe, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_compare_by_numbers),
        cmocka_unit_test(advisories_know_versions_and_setuid),
        scratch_test(options_are_taken_from_the_help),
        scratch_test(a_bwrap_that_is_too_old_is_refused_by_name),
        scratch_test(what_is_no_bwrap_is_refused),
        cmocka_unit_test(this_hosts_is_good_enough),
        cmocka_unit_test(reading_the_file_tells_the_same_as_asking),
        scratch_test(a_script_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
