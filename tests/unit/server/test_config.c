#include "server/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "server/config_file.h"

static int set_up(void **state)
{
    (void) state;
    setenv("AGENTFENSE_STATE_DIR", "/somewhere", 1);
    unsetenv("AGENTFENSE_CONFIG");
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

/* Loads from a file with this text (NULL: none) and these words. */
static int load(struct config *config, const char *text, struct err *err, const char *first, const char *second)
{
    char path[] = "/tmp/agentfense-config-XXXXXX";
    const char *argv[] = { "serve", "--config", path, first, second, NULL };
    int argc = 3 + (first != NULL) + (second != NULL), r;

    if (text) {
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
        close(fd);
    } else {
        argv[2] = "";
    }
    *err = ERR_NONE;
    r = config_load(config, argc, argv, err);
    if (text)
        unlink(path);
    return r;
}

static void expect_refusal(const char *text, const char *option, const char *part)
{
    struct config config;
    struct err err;
    int r = load(&config, text, &err, option, NULL);

    if (r >= 0 || !strstr(err.text, part))
        fail_msg("'%s': %d '%s', without '%s'", text ? text : option, r, err.text, part);
    config_done(&config);
}

static void test_defaults_are_safe(void **state)
{
    struct config config;
    struct err err;
    (void) state;

    assert_int_equal(load(&config, NULL, &err, NULL, NULL), 0);
    assert_string_equal(config.grpc_addr, "localhost:9000");
    assert_string_equal(config.http_addr, "localhost:8080");
    assert_string_equal(config.runtime, "bwrap");
    assert_string_equal(config.codebase_path, "/somewhere/codebases");
    assert_string_equal(config.db_path, "/somewhere/metadata.db");
    assert_true(config.default_timeout_ns == 30000000000);
    assert_true(config.max_timeout_ns == 600000000000);
    assert_true(config.sync_on_completion);
    assert_false(config.allow_host_network);
    assert_int_equal(config.max_per_user, 0);
    config_done(&config);
}

/* The keys of the configuration that people have already, those that are passed over included. */
static void test_a_known_file_is_understood(void **state)
{
    static const char text[] =
        "server:\n  grpc_addr: \":9000\"\n  http_addr: \"\"\n"
        "storage:\n  codebase_path: /var/lib/agentfense/codebases\n  mount_path: /srv/agentfense/mounts\n"
        "  db_path: /var/lib/agentfense/metadata.db\n"
        "runtime:\n  type: docker\n  bwrap_path: /usr/bin/bwrap\n  default_timeout: 45s\n  max_timeout: 10m\n"
        "  docker:\n    host: \"\"\n    default_image: \"debian:12\"\n    network_mode: none\n"
        "    enable_networking: false\n    default_memory: 536870912\n"
        "sandbox:\n  default_expiration: 24h\n  max_per_user: 10\n  cleanup_interval: 5m\n"
        "  auto_cleanup_stopped: true\nlogging:\n  level: debug\n  format: json\ntest:\n  enabled: true\n";
    struct config config;
    struct err err;
    (void) state;

    if (load(&config, text, &err, NULL, NULL) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(config.grpc_addr, ":9000");
    assert_string_equal(config.http_addr, "");
    assert_string_equal(config.runtime, "docker");
    assert_string_equal(config.docker_image, "debian:12");
    assert_string_equal(config.mount_path, "/srv/agentfense/mounts");
    assert_true(config.default_timeout_ns == 45000000000);
    assert_int_equal(config.max_per_user, 10);
    assert_string_equal(config.log_format, "json");
    config_done(&config);
}

static void test_the_command_line_beats_the_environment_beats_the_file(void **state)
{
    static const char text[] = "server:\n  grpc_addr: \"127.0.0.1:1\"\n  http_addr: \"127.0.0.1:2\"\nsandbox:\n  memory: 1G\n";
    struct config config;
    struct err err;
    (void) state;

    setenv("AGENTFENSE_SERVER_GRPC_ADDR", "127.0.0.1:3", 1);
    setenv("AGENTFENSE_SERVER_HTTP_ADDR", "127.0.0.1:4", 1);
    assert_int_equal(load(&config, text, &err, "-grpc-addr", "127.0.0.1:5"), 0);
    unsetenv("AGENTFENSE_SERVER_GRPC_ADDR");
    unsetenv("AGENTFENSE_SERVER_HTTP_ADDR");
    assert_string_equal(config.grpc_addr, "127.0.0.1:5");
    assert_string_equal(config.http_addr, "127.0.0.1:4");
    assert_int_equal(config.memory_bytes, 1 << 30);
    config_done(&config);
}

static void test_lists(void **state)
{
    struct config config;
    struct err err;
    (void) state;

    assert_int_equal(
        load(&config, "server:\n  allowed_uids: [1000, 1001]\n  allowed_hosts: a.example, b.example\n", &err, NULL, NULL), 0);
    assert_int_equal(config.allowed_uids.count, 2);
    assert_string_equal(config.allowed_uids.items[1], "1001");
    assert_int_equal(config.allowed_hosts.count, 2);
    assert_string_equal(config.allowed_hosts.items[1], "b.example");
    config_done(&config);
    assert_int_equal(load(&config, "server:\n  allowed_uids: [1000]\n", &err, "--server-allowed-uids=7,8,9", NULL), 0);
    assert_int_equal(config.allowed_uids.count, 3);
    config_done(&config);
}

static void test_bad_values_are_refused_with_their_place(void **state)
{
    (void) state;
    expect_refusal("server:\n  grpc_addr: x\nruntime:\n  default_timeout: soon\n", NULL, "line 4: runtime.default_timeout: ");
    expect_refusal("runtime:\n  type: moon\n", NULL, "'moon' is not one of: bwrap docker mock");
    expect_refusal("sandbox:\n  max_per_user: -1\n", NULL, "sandbox.max_per_user: '-1' is no number");
    expect_refusal("sandbox:\n  sync_on_completion: maybe\n", NULL, "neither true nor false");
    expect_refusal("server:\n  grpc_addr: a\n  grpc_addr: b\n", NULL, "line 3: server.grpc_addr stands here a second time");
    expect_refusal("server:\n  grpc_addr: [a, b]\n", NULL, "a single value is expected");
    expect_refusal("server:\n  allowed_uids: [root]\n", NULL, "'root' in server.allowed_uids");
    expect_refusal("server:\n  tls_cert: /x\n", NULL, "go together");
    expect_refusal("runtime:\n  default_timeout: 20m\n", NULL, "longer than runtime.max_timeout");
    expect_refusal("storage:\n  codebase_path: /a\n  mount_path: /a/b\n", NULL, "must not lie in one another");
    expect_refusal("server: &x\n  grpc_addr: *x\n", NULL, "aliases are not taken");
    expect_refusal("- a\n", NULL, "sections such as");
    expect_refusal("runtime:\n  docker:\n    host: tcp://far:2375\n", NULL,
                   "runtime.docker.host: 'tcp://far:2375' is no engine");
    expect_refusal("runtime:\n  docker:\n    default_image: \"-rm -rf\"\n", NULL, "is no name of an image");
    expect_refusal("runtime:\n  docker:\n    oci_runtime: a/b\n", NULL, "'a/b' in runtime.docker.oci_runtime");
    expect_refusal("runtime:\n  docker:\n    network_mode: mars\n", NULL, "'mars' is not one of: none bridge host");
    expect_refusal("runtime:\n  docker:\n    network_mode: bridge\n", NULL, "runtime.docker.enable_networking is false");
    expect_refusal("runtime:\n  docker:\n    network_mode: host\n    enable_networking: true\n", NULL,
                   "sandbox.allow_host_network is false");
    expect_refusal("a: {a: {a: {a: {a: {a: {a: {a: {a: {}}}}}}}}}\n", NULL, "too deeply");
    expect_refusal(NULL, "--grpc-adr=x", "unknown option '--grpc-adr=x'");
    expect_refusal(NULL, "--grpc-addr", "needs a value");
    expect_refusal(NULL, "stray", "'stray' is no option");
}

static void test_a_missing_file_is_no_default(void **state)
{
    const char *argv[] = { "serve", "--config", "/does/not/exist.yaml", NULL };
    struct config config;
    struct err err = ERR_NONE;
    (void) state;

    assert_int_equal(config_load(&config, 3, argv, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/does/not/exist.yaml"));
    config_done(&config);
}

/* What is shown can be given back. */
static void test_every_setting_has_an_option_and_is_shown(void **state)
{
    struct config config;
    struct err err;
    autofree char *shown = NULL;
    autofree char *help = config_help();
    (void) state;

    assert_int_equal(load(&config, "# nothing\n", &err, "--sandbox-disk", "2G"), 0);
    shown = config_show(&config);
    assert_non_null(strstr(shown, "sandbox.disk: 2147483648\n"));
    assert_non_null(strstr(shown, "runtime.max_timeout: 600s\n"));
    assert_non_null(strstr(help, "storage.db_path"));
    config_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_safe),
        cmocka_unit_test(test_a_known_file_is_understood),
        cmocka_unit_test(test_the_command_line_beats_the_environment_beats_the_file),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad_values_are_refused_with_their_place),
        cmocka_unit_test(test_a_missing_file_is_no_default),
        cmocka_unit_test(test_every_setting_has_an_option_and_is_shown),
    };
    return cmocka_run_group_tests_name("config", tests, set_up, NULL);
}
