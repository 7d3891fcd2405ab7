#include "runtime_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "runtime/bwrap_args_int.h"
#include "runtime/stage.h"

#define ROUNDS 60
#define HELD_US 2000

static const struct bwrap_probe probe = { .path = "/usr/bin/bwrap", .has_perms = true, .has_size = true, .has_clearenv = true };

/* As anybody may who starts a process: until its exec it has all that was open. */
static void *fork_on(void *cookie)
{
    _Atomic bool *is_over = cookie;

    while (!atomic_load(is_over)) {
        pid_t pid = fork();

        if (pid == 0) {
            usleep(HELD_US);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
    return NULL;
}

static void own_mounts(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        skip();
}

static void a_root_is_made_while_others_start_processes(void **state)
{
    struct scratch *scratch = *state;
    autofree char *stage = xprintf("%s/stage", scratch->path), *init = xprintf("%s/init", scratch->path);
    struct runtime_spec spec = RUNTIME_SPEC_NONE;
    _Atomic bool is_over = false;
    pthread_t thread;

    own_mounts();
    make_dir(scratch, "stage");
    make_file(scratch, "init", "", 0755);
    spec.id = "s";
    spec.stage = stage;
    spec.init_path = init;
    spec.workspace = scratch->path;
    spec.hostname = "agent";
    spec.uid = getuid();
    spec.gid = getgid();
    if (stage_open(stage, spec.uid, spec.gid) < 0)
        skip();
    umount2(stage, MNT_DETACH);
    assert_int_equal(pthread_create(&thread, NULL, fork_on, &is_over), 0);
    for (int i = 0; i < ROUNDS; i++) {
        autoptr(bwrap_args) args = NULL;
        struct err err = ERR_NONE;
        struct statvfs st;

        assert_int_equal(stage_open(stage, spec.uid, spec.gid), 0);
        if (bwrap_args_new(&spec, &probe, "", &args, &err) < 0 || stage_build(&spec, args, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(statvfs(stage, &st), 0);
        assert_true(st.f_flag & ST_RDONLY);
        umount2(stage, MNT_DETACH);
    }
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { scratch_test(a_root_is_made_while_others_start_processes) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
