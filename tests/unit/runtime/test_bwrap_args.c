#include "runtime_fixture.h"

#include <dirent.h>

#include "runtime/bwrap_args.h"
#include "runtime/bwrap_args_int.h"

static const struct bwrap_probe modern = { .path = "/usr/bin/bwrap",
                                           .version = "0.8.0",
                                           .has_disable_userns = true,
                                           .has_size = true,
                                           .has_perms = true,
                                           .has_clearenv = true,
                                           .has_as_pid_1 = true };

/* A host as Debian has it: /usr merged, python3 without python. */
static void make_host(const struct scratch *scratch)
{
    make_file(scratch, "usr/bin/python3", "", 0755);
    make_dir(scratch, "usr/lib64");
    make_link(scratch, "usr/bin", "bin");
    make_link(scratch, "usr/lib64", "lib64");
    make_dir(scratch, "sbin");
    autofree char *large = xalloc(20001);
    memset(large, 'x', 20000);
    make_file(scratch, "etc/ld.so.cache", large, 0644);
    make_dir(scratch, "etc/ssl/certs");
    make_dir(scratch, "etc/ssl/private");
    make_file(scratch, "etc/shadow", "secret", 0644);
    make_link(scratch, "/usr/share/zoneinfo/Etc/UTC", "etc/localtime");
}

/* One option a line, with the scratch directory shown as HOST. */
static char *rendered(const struct scratch *scratch, const struct runtime_spec *spec, const struct bwrap_probe *probe)
{
    autodone(buf) struct buf raw = BUF_EMPTY;
    struct buf lines = BUF_EMPTY;
    autoptr(bwrap_args) args = NULL;
    struct err err = ERR_NONE;
    size_t len = strlen(scratch->path);

    if (bwrap_args_new(spec, probe, scratch->path, &args, &err) < 0)
        fail_msg("%s", err.text);
    bwrap_args_render(args, &raw);
    assert_int_equal(raw.data[raw.len - 1], '\0');
    for (size_t at = 0; at < raw.len; at += strlen(raw.data + at) + 1) {
        const char *word = raw.data + at;

        if (lines.len)
            buf_add_char(&lines, strncmp(word, "--", 2) == 0 ? '\n' : ' ');
        if (strncmp(word, scratch->path, len) == 0)
            buf_addf(&lines, "HOST%s", word + len);
        else
            buf_add_str(&lines, word);
    }
    return buf_dup_take(&lines);
}

#define NAMESPACES                                                                                                             \
    "--unshare-ipc\n--unshare-uts\n--unshare-cgroup\n--unshare-net\n--disable-userns\n"                                        \
    "--uid 1000\n--gid 1000\n--hostname sandbox\n--new-session\n--die-with-parent\n--as-pid-1\n--cap-drop ALL\n"
#define ENVIRONMENT                                                                                                            \
    "--clearenv\n--setenv HOME /home/agent\n--setenv USER agent\n--setenv LOGNAME agent\n--setenv SHELL /bin/sh\n"             \
    "--setenv PATH /usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/agentfense/bin\n"                         \
    "--setenv LANG C.UTF-8\n--setenv TMPDIR /tmp\n"
#define SYSTEM "--ro-bind HOST/usr /usr\n--symlink usr/bin /bin\n--ro-bind HOST/sbin /sbin\n--symlink usr/lib64 /lib64\n"
#define ETC                                                                                                                    \
    "--perms 0755\n--dir /etc\n--perms 0644\n--file 6 /etc/passwd\n--perms 0644\n--file 7 /etc/group\n--perms 0644\n"          \
    "--file 8 /etc/hosts\n--perms 0644\n--file 9 /etc/hostname\n--perms 0644\n--file 10 /etc/nsswitch.conf\n"                  \
    "--perms 0644\n--file 11 /etc/gitconfig\n"                                                                                 \
    "--ro-bind HOST/etc/ld.so.cache /etc/ld.so.cache\n--symlink /usr/share/zoneinfo/Etc/UTC /etc/localtime\n"                  \
    "--perms 0755\n--dir /etc/ssl\n--ro-bind HOST/etc/ssl/certs /etc/ssl/certs\n"
#define OWN                                                                                                                    \
    "--perms 0755\n--dir /run\n--perms 0755\n--dir /run/agentfense\n--perms 0755\n--dir /run/agentfense/bin\n"                 \
    "--symlink /usr/bin/python3 /run/agentfense/bin/python\n--ro-bind /bin/true /run/agentfense/init\n"
#define DEVICES "--proc /proc\n--dev /dev\n--perms 1777\n--size 67108864\n--tmpfs /dev/shm\n--remount-ro /dev\n"
#define SCRATCH                                                                                                                \
    "--perms 1777\n--size 536870912\n--tmpfs /tmp\n--perms 0755\n--dir /var\n--symlink /tmp /var/tmp\n--perms 0755\n"          \
    "--dir /home\n--perms 0755\n--size 536870912\n--tmpfs /home/agent\n"
#define END "--bind /tmp /workspace\n--remount-ro /\n--chdir /workspace\n--seccomp 12"

static void a_plain_sandbox_is_exactly_this(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    autofree char *text = rendered(scratch, &spec, &modern);
    assert_string_equal(text, NAMESPACES ENVIRONMENT SYSTEM ETC OWN DEVICES SCRATCH END);
}

static void check_has(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("no '%s' in:\n%s", line, text);
}

static void check_lacks(const char *text, const char *line)
{
    if (strstr(text, line))
        fail_msg("'%s' in:\n%s", line, text);
}

static void the_hosts_network_brings_its_name_servers(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    make_file(scratch, "etc/resolv.conf", "nameserver 192.0.2.1\n", 0644);
    autofree char *without = rendered(scratch, &spec, &modern);
    check_lacks(without, "resolv.conf");
    spec.net = SANDBOX_NET_HOST;
    autofree char *with = rendered(scratch, &spec, &modern);
    check_lacks(with, "--unshare-net");
    check_has(with, "--perms 0644\n--file 12 /etc/resolv.conf\n");
}

static void the_specs_numbers_and_names_are_used(void **state)
{
    const char *env[] = { "A=1=2", "EMPTY=", NULL };
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    spec.agent_uid = 501;
    spec.agent_gid = 20;
    spec.hostname = "box";
    spec.env = env;
    spec.tmp_bytes = 1 << 20;
    autofree char *text = rendered(scratch, &spec, &modern);
    check_has(text, "--uid 501\n--gid 20\n--hostname box\n--new-session\n--die-with-parent\n--as-pid-1\n");
    check_has(text, "--setenv TMPDIR /tmp\n--setenv A 1=2\n--setenv EMPTY \n");
    check_has(text, "--size 1048576\n--tmpfs /tmp\n");
}

static void mounts_come_before_the_root_is_closed(void **state)
{
    const struct runtime_mount mounts[] = { { "/usr", "/mnt/a/b", true }, { "/tmp", "/data", false } };
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    spec.mounts = mounts;
    spec.mount_count = 2;
    autofree char *text = rendered(scratch, &spec, &modern);
    check_has(text, "--tmpfs /home/agent\n--perms 0755\n--dir /mnt\n--perms 0755\n--dir /mnt/a\n--ro-bind /usr /mnt/a/b\n"
                    "--bind /tmp /data\n--bind /tmp /workspace\n--remount-ro /\n");
}

static void init_can_be_copied_from_a_descriptor(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    autofd int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);

    make_host(scratch);
    assert_true(fd >= 0);
    spec.init_path = NULL;
    spec.init_fd = fd;
    autofree char *text = rendered(scratch, &spec, &modern);
    check_has(text, "--perms 0555\n--file 12 /run/agentfense/init\n");
    /* The caller's read position is its own. */
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
}

static void an_old_bwrap_gets_no_option_it_lacks(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    struct bwrap_probe old = modern;

    make_host(scratch);
    old.has_disable_userns = false;
    autofree char *text = rendered(scratch, &spec, &old);
    check_lacks(text, "--disable-userns");
    check_has(text, "--seccomp");
}

static void python_is_named_only_where_it_is_missing(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    make_file(scratch, "usr/local/bin/python", "", 0755);
    autofree char *both = rendered(scratch, &spec, &modern);
    check_lacks(both, "bin/python");
    unlinkat(scratch->fd, "usr/local/bin/python", 0);
    unlinkat(scratch->fd, "usr/bin/python3", 0);
    autofree char *neither = rendered(scratch, &spec, &modern);
    check_lacks(neither, "bin/python");
}

static void nothing_of_the_hosts_etc_is_shown_but_what_is_listed(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    make_dir(scratch, "etc/pki/tls/certs");
    autofree char *text = rendered(scratch, &spec, &modern);
    check_lacks(text, "shadow");
    check_lacks(text, "private");
    check_has(text, "--perms 0755\n--dir /etc/pki\n--perms 0755\n--dir /etc/pki/tls\n--ro-bind HOST/etc/pki/tls/certs "
                    "/etc/pki/tls/certs\n");
}

static void small_files_are_copied_and_not_bound(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    make_file(scratch, "etc/services", "http 80/tcp\n", 0644);
    autofree char *text = rendered(scratch, &spec, &modern);
    check_has(text, "--perms 0644\n--file 12 /etc/services\n");
    check_has(text, "--ro-bind HOST/etc/ld.so.cache /etc/ld.so.cache\n");
}

static void a_host_without_usr_is_refused(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    autoptr(bwrap_args) args = NULL;
    struct err err = ERR_NONE;

    assert_int_equal(bwrap_args_new(&spec, &modern, scratch->path, &args, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/usr"));
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void its_descriptors_hold_the_files_and_end_with_it(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    struct bwrap_args *args;
    int before = count_fds();
    char text[64] = "";
    size_t count;

    make_host(scratch);
    assert_int_equal(bwrap_args_new(&spec, &modern, scratch->path, &args, NULL), 0);
    const struct proc_fd *fds = bwrap_args_fds(args, &count);
    assert_int_equal(count, 7);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(fds[i].target, BWRAP_FIRST_FD + (int) i);
        assert_true(fcntl(fds[i].fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(lseek(fds[i].fd, 0, SEEK_CUR), 0);
    }
    assert_true(read(fds[3].fd, text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "sandbox\n");
    bwrap_args_free(args);
    bwrap_args_free(NULL);
    assert_int_equal(count_fds(), before);
}

static void with_a_stage_bwrap_is_told_the_rest(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();

    make_host(scratch);
    spec.stage = "/stage";
    autofree char *text = rendered(scratch, &spec, &modern);
    assert_string_equal(text, NAMESPACES ENVIRONMENT "--dev-bind /stage /\n--proc /proc\n--chdir /workspace\n--seccomp 6");
}

/* The n-th that makes something, but the workspace and what only bwrap can. */
static const struct bwrap_op *nth_made(const struct bwrap_args *args, size_t n)
{
    for (size_t i = 0; i < args->count; i++) {
        const struct bwrap_op *op = &args->ops[i];
        const char *path = op->second ? op->second : op->first;

        if (path && *path == '/' && strcmp(op->option, "--dev-bind") != 0 && strcmp(op->option, "--chdir") != 0 &&
            strcmp(path, "/proc") != 0 && strcmp(path, "/workspace") != 0 && strcmp(op->option, "--setenv") != 0 && n-- == 0)
            return op;
    }
    return NULL;
}

static const char *or_none(const char *text)
{
    return text ? text : "(none)";
}

static void what_is_staged_is_what_bwrap_would_make(void **state)
{
    struct scratch *scratch = *state;
    struct runtime_spec spec = plain_spec();
    autoptr(bwrap_args) told = NULL;
    autoptr(bwrap_args) staged = NULL;
    size_t count = 0;

    make_host(scratch);
    assert_int_equal(bwrap_args_new(&spec, &modern, scratch->path, &told, NULL), 0);
    spec.stage = "/stage";
    assert_int_equal(bwrap_args_new(&spec, &modern, scratch->path, &staged, NULL), 0);
    for (const struct bwrap_op *a, *b; (a = nth_made(told, count)); count++) {
        b = nth_made(staged, count);
        assert_non_null(b);
        assert_true(b->is_staged && !a->is_staged);
        assert_string_equal(a->option, b->option);
        assert_string_equal(or_none(a->first), or_none(b->first));
        assert_string_equal(or_none(a->second), or_none(b->second));
        assert_int_equal(a->perms, b->perms);
        assert_int_equal(a->size_bytes, b->size_bytes);
        assert_int_equal(b->text.len > 0, strcmp(b->option, "--file") == 0);
    }
    assert_null(nth_made(staged, count));
    assert_true(count > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(with_a_stage_bwrap_is_told_the_rest),
        scratch_test(what_is_staged_is_what_bwrap_would_make),
        scratch_test(a_plain_sandbox_is_exactly_this),
        scratch_test(the_hosts_network_brings_its_name_servers),
        scratch_test(the_specs_numbers_and_names_are_used),
        scratch_test(mounts_come_before_the_root_is_closed),
        scratch_test(init_can_be_copied_from_a_descriptor),
        scratch_test(an_old_bwrap_gets_no_option_it_lacks),
        scratch_test(python_is_named_only_where_it_is_missing),
        scratch_test(nothing_of_the_hosts_etc_is_shown_but_what_is_listed),
        scratch_test(small_files_are_copied_and_not_bound),
        scratch_test(a_host_without_usr_is_refused),
        scratch_test(its_descriptors_hold_the_files_and_end_with_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
