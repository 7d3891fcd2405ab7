#include "container_fixture.h"

#include "container/orphan.h"

static void the_engine_is_asked_for_our_homes_alone(void **state)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    (void) state;
    orphan_list_path("0123abcd", &path);
    assert_string_equal(path.data, "/containers/json?all=1&filters=%7B%22label%22%3A%5B%22agentfense.home%3D0123abcd%22%5D%7D");
}

/* The last request the engine saw, after it was told to list these. */
static void sweep(const char *list, char request[static 256])
{
    autoptr(docker_order) order = full_order();
    autofree char *reply = xprintf("HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(list), list);
    autoptr(engine) engine = NULL;
    struct fake_engine fake;
    struct err err = ERR_NONE;

    fake_engine_start(&fake, reply, strlen(reply));
    assert_int_equal(engine_new(fake.path, -1, &engine, &err), 0);
    orphan_sweep(engine, order, &err);
    fake_engine_stop(&fake);
    snprintf(request, 256, "%.*s", (int) strcspn(fake.request, "\r"), fake.request);
}

/* An engine that does not heed the filter, or is not one at all. */
static void what_is_not_ours_is_not_touched(void **state)
{
    static const char *const lists[] = {
        "[]",
        "[{\"Id\":\"ab\"}]",
        "[{\"Id\":\"ab\",\"Labels\":{\"agentfense.sandbox\":\"shop-1\"}}]",
        "[{\"Id\":\"ab\",\"Labels\":{\"agentfense.sandbox\":\"shop-1\",\"agentfense.home\":\"other\"}}]",
        "[{\"Id\":\"../x\",\"Labels\":{\"agentfense.sandbox\":\"shop-1\",\"agentfense.home\":\"0123abcd\"}}]",
        "[{\"Id\":\"ab\",\"Labels\":{\"agentfense.sandbox\":\"../../etc\",\"agentfense.home\":\"0123abcd\"}}]",
        "[{\"Id\":\"ab\",\"Labels\":{\"agentfense.sandbox\":\"\",\"agentfense.home\":\"0123abcd\"}}]",
        "[7,null,\"x\",[]]",
        "{}",
        "nonsense",
    };

    (void) state;
    for (size_t i = 0; i < count_of(lists); i++) {
        char request[256];

        sweep(lists[i], request);
        assert_memory_equal(request, "GET /containers/json?", 21);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_is_asked_for_our_homes_alone),
        cmocka_unit_test(what_is_not_ours_is_not_touched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
