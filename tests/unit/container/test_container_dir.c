#include "container_fixture.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"
#include "container/container_dir.h"
#include "container/create_body.h"

struct world {
    char dir[64];
    int dir_fd, other_fd; /* of somebody else, who has the lock open */
    struct docker_order *order;
};

static int set_up(void **state)
{
    struct world *world = xnew(struct world);

    strcpy(world->dir, "/tmp/af-place-XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    world->dir_fd = open(world->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    world->other_fd = openat(world->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(world->dir_fd >= 0 && world->other_fd >= 0);
    assert_int_equal(mkdirat(world->dir_fd, CREATE_BODY_DIR, 0700), 0);
    world->order = full_order();
    world->order->container.dir = world->dir;
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;

    docker_order_free(world->order);
    close(world->other_fd);
    file_remove_tree(world->dir_fd, CREATE_BODY_DIR);
    unlinkat(world->dir_fd, "lock", 0);
    close(world->dir_fd);
    assert_int_equal(rmdir(world->dir), 0);
    free(world);
    return 0;
}

static bool is_there(const struct world *world)
{
    return faccessat(world->dir_fd, CREATE_BODY_DIR, F_OK, 0) == 0;
}

static void it_goes_with_its_supervisor(void **state)
{
    struct world *world = *state;

    container_dir_remove(world->order, 1);
    assert_false(is_there(world));
}

static void another_supervisor_keeps_it(void **state)
{
    struct world *world = *state;

    assert_int_equal(flock(world->other_fd, LOCK_EX | LOCK_NB), 0);
    container_dir_remove(world->order, 1);
    assert_true(is_there(world));
    /* Unless it is our own, which has the lock for as long as it lives. */
    container_dir_remove(world->order, getppid());
    assert_false(is_there(world));
}

/* A server asks whether a sandbox runs just when its supervisor died. */
static void whoever_only_asks_does_not_keep_it(void **state)
{
    struct world *world = *state;

    assert_int_equal(flock(world->other_fd, LOCK_SH | LOCK_NB), 0);
    container_dir_remove(world->order, 1);
    assert_false(is_there(world));
}

static void one_that_is_being_removed_has_no_lock(void **state)
{
    struct world *world = *state;

    assert_int_equal(unlinkat(world->dir_fd, "lock", 0), 0);
    container_dir_remove(world->order, 1);
    assert_false(is_there(world));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_goes_with_its_supervisor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_supervisor_keeps_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_only_asks_does_not_keep_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_being_removed_has_no_lock, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
