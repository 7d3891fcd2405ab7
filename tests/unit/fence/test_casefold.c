#include "fence_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fence/casefold.h"
#include "fence/handle.h"

/*
 * No test can rely on a file system that folds case. procfs behaves like one: it is not known to compare names as bytes, and it
 * finds names that it does not list, those of threads.
 */
struct thread {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pid_t tid;
    bool is_done;
};

static void *live_on(void *arg)
{
    struct thread *t = arg;

    autolock(&t->lock);
    t->tid = (pid_t) syscall(SYS_gettid);
    pthread_cond_broadcast(&t->changed);
    while (!t->is_done)
        pthread_cond_wait(&t->changed, &t->lock);
    return NULL;
}

static int open_dir(const char *path)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void name_of(pid_t pid, char out[16])
{
    snprintf(out, 16, "%d", (int) pid);
}

static void what_is_found_but_not_listed_does_not_exist(void **state)
{
    struct thread t = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    struct handle proc = { .fd = open_dir("/proc") };
    struct stat st;
    char name[16];
    pthread_t id;

    (void) state;
    assert_int_equal(pthread_create(&id, NULL, live_on, &t), 0);
    pthread_mutex_lock(&t.lock);
    while (!t.tid)
        pthread_cond_wait(&t.changed, &t.lock);
    pthread_mutex_unlock(&t.lock);
    name_of(t.tid, name);
    assert_int_equal(fstatat(proc.fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(casefold_check(NULL, &proc, name), -ENOENT);
    assert_int_equal(casefold_check(NULL, &proc, "self"), 0);
    assert_int_equal(casefold_check(NULL, &proc, name), -ENOENT);
    autofree char *own = xprintf("./%d/task", (int) getpid()), *alias = xprintf("./%s/task", name);
    assert_int_equal(casefold_check_path(proc.fd, own), 0);
    assert_int_equal(casefold_check_path(proc.fd, alias), -ENOENT);
    pthread_mutex_lock(&t.lock);
    t.is_done = true;
    pthread_cond_broadcast(&t.changed);
    pthread_mutex_unlock(&t.lock);
    pthread_join(id, NULL);
    casefold_free(proc.casefold);
    close(proc.fd);
}

static void a_name_that_came_since_the_listing_is_found(void **state)
{
    struct handle proc = { .fd = open_dir("/proc") };
    char name[16];
    pid_t child;

    (void) state;
    assert_int_equal(casefold_check(NULL, &proc, "self"), 0);
    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    name_of(child, name);
    assert_int_equal(casefold_check(NULL, &proc, name), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(casefold_check(NULL, &proc, "self"), 0);
    casefold_free(proc.casefold);
    close(proc.fd);
}

/* Where names are bytes nothing is compared: a comparison would not find this one. */
static void an_ordinary_directory_is_not_listed(void **state)
{
    struct fixture x;
    static const char *const rules[] = { "/**=write", NULL };
    struct handle *h;
    struct casefold *decided;

    (void) state;
    fixture_init(&x);
    put_dir(&x, "base/d");
    put_file(&x, "base/d/a", "a");
    fixture_open(&x, rules, 0);
    struct inode *dir = walk(&x, "d", NULL);
    assert_non_null(walk(&x, "d/a", NULL));
    assert_int_equal(handle_get(x.fence, dir, LAYER_BASE, &h), 0);
    decided = h->casefold;
    assert_non_null(decided);
    if (casefold_check(x.fence, h, "nothing") == 0) {
        casefold_recheck(x.fence, dir);
        assert_null(h->casefold);
        assert_int_equal(casefold_check(x.fence, h, "a"), 0);
        assert_ptr_equal(h->casefold, decided);
    } else {
        print_message("temporary files are on a file system that may fold case\n");
        casefold_recheck(x.fence, dir);
        assert_ptr_equal(h->casefold, decided);
    }
    handle_put(x.fence, h);
    fixture_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_found_but_not_listed_does_not_exist),
        cmocka_unit_test(a_name_that_came_since_the_listing_is_found),
        cmocka_unit_test(an_ordinary_directory_is_not_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
