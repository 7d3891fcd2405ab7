#include "runtime_fixture.h"

#include "runtime/etc.h"

/* The text of one file, or NULL when it is left out. */
static char *written(const struct runtime_spec *spec, const char *root, const char *path)
{
    size_t count;
    const struct etc_file *files = etc_files(&count);

    for (size_t i = 0; i < count; i++) {
        struct buf text = BUF_EMPTY;

        if (strcmp(files[i].path, path) != 0)
            continue;
        if (files[i].write(spec, root, &text) == 0)
            return buf_dup_take(&text);
        buf_done(&text);
    }
    return NULL;
}

static void check(const struct runtime_spec *spec, const char *root, const char *path, const char *expected)
{
    autofree char *text = written(spec, root, path);

    if (expected) {
        assert_non_null(text);
        assert_string_equal(text, expected);
    } else {
        assert_null(text);
    }
}

static void users_are_root_agent_and_nobody(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    check(&spec, scratch->path, "/etc/passwd",
          "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n"
          "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    check(&spec, scratch->path, "/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n");
    spec.agent_uid = 501;
    spec.agent_gid = 20;
    make_file(scratch, "bin/bash", "", 0755);
    check(&spec, scratch->path, "/etc/passwd",
          "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:501:20:agent:/home/agent:/bin/bash\n"
          "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    check(&spec, scratch->path, "/etc/group", "root:x:0:\nagent:x:20:\nnogroup:x:65534:\n");
}

static void the_host_has_one_name_everywhere(void **state)
{
    struct runtime_spec spec = plain_spec();

    (void) state;
    check(&spec, "", "/etc/hostname", "sandbox\n");
    spec.hostname = "box-7";
    check(&spec, "", "/etc/hostname", "box-7\n");
    check(&spec, "", "/etc/hosts", "127.0.0.1 localhost box-7\n::1 localhost ip6-localhost ip6-loopback\n");
}

static void name_servers_are_there_only_with_the_hosts_network(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_file(scratch, "run/stub", "nameserver 192.0.2.1\n", 0644);
    make_dir(scratch, "etc");
    make_link(scratch, "../run/stub", "etc/resolv.conf");
    check(&spec, scratch->path, "/etc/resolv.conf", NULL);
    autofree char *without = written(&spec, scratch->path, "/etc/nsswitch.conf");
    assert_non_null(strstr(without, "hosts: files\n"));
    spec.net = SANDBOX_NET_HOST;
    check(&spec, scratch->path, "/etc/resolv.conf", "nameserver 192.0.2.1\n");
    autofree char *with = written(&spec, scratch->path, "/etc/nsswitch.conf");
    assert_non_null(strstr(with, "hosts: files dns\n"));
}

static void a_host_without_name_servers_is_no_error(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    spec.net = SANDBOX_NET_HOST;
    check(&spec, scratch->path, "/etc/resolv.conf", NULL);
    make_dir(scratch, "etc/resolv.conf");
    check(&spec, scratch->path, "/etc/resolv.conf", NULL);
}

static void git_is_told_not_to_trust_numbers_the_fence_makes_up(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    autofree char *text = written(&spec, scratch->path, "/etc/gitconfig");

    assert_non_null(strstr(text, "checkStat = minimal"));
    assert_non_null(strstr(text, "trustctime = false"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(users_are_root_agent_and_nobody),
        cmocka_unit_test(the_host_has_one_name_everywhere),
        scratch_test(name_servers_are_there_only_with_the_hosts_network),
        scratch_test(a_host_without_name_servers_is_no_error),
        scratch_test(git_is_told_not_to_trust_numbers_the_fence_makes_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
