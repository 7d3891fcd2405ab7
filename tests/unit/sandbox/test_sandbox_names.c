#include "sandbox/sandbox_names.h"

#include "state_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#define RACERS 8

static int make_owned(struct fixture *x, const char *owner, const char *name, char ret_id[SANDBOX_NAME_MAX], struct err *err)
{
    autoptr(sandbox_spec) spec = spec_of(name, "/srv/shop");
    autofd int fd = -1;
    int r;

    spec->owner = xdup(owner);
    r = state_dir_create(&x->state_dir, spec, true, &fd, err);
    if (r == 0)
        snprintf(ret_id, SANDBOX_NAME_MAX, "%s", spec->id);
    return r;
}

static void a_name_belongs_to_an_owner(void **state)
{
    static const char *const owners[] = { "", "alice", "Alice", "-", "../../etc", "a b\n\xc3\xa4/%", "%2D" };
    struct fixture *x = *state;
    char ids[ARRAY_LEN(owners)][SANDBOX_NAME_MAX], found[SANDBOX_ID_MAX];

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        struct err err = ERR_NONE;
        char again[SANDBOX_NAME_MAX];

        assert_int_equal(make_owned(x, owners[i], "shop", ids[i], &err), 0);
        assert_int_equal(make_owned(x, owners[i], "shop", again, &err), -EEXIST);
        assert_int_equal(err.code, ERR_ALREADY_EXISTS);
    }
    for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
        assert_int_equal(sandbox_names_find(&x->state_dir, owners[i], "shop", found), 0);
        assert_string_equal(found, ids[i]);
    }
    assert_int_equal(sandbox_names_find(&x->state_dir, "bob", "shop", found), -ENOENT);
    assert_int_equal(sandbox_names_find(&x->state_dir, "alice", "blog", found), -ENOENT);
}

static void owners_of_any_length_have_names(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_ID_MAX];
    autofree char *one = xprintf("%05000d1", 0), *other = xprintf("%05000d2", 0);

    open_it(x);
    assert_int_equal(make_owned(x, one, "shop", id, &err), 0);
    assert_int_equal(make_owned(x, other, "shop", id, &err), 0);
    assert_int_equal(sandbox_names_find(&x->state_dir, other, "shop", found), 0);
    assert_string_equal(found, id);
}

static void a_removed_sandbox_gives_its_name_back(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_ID_MAX], name[SANDBOX_NAME_MAX];

    open_it(x);
    assert_int_equal(make_owned(x, "alice", "shop", id, &err), 0);
    assert_int_equal(state_dir_remove(&x->state_dir, id, &err), 0);
    assert_int_equal(sandbox_names_find(&x->state_dir, "alice", "shop", found), -ENOENT);
    assert_int_equal(sandbox_names_find_id(&x->state_dir, "alice", id, name), -ENOENT); /* the file is gone too */
    assert_int_equal(make_owned(x, "alice", "shop", id, &err), 0);
}

static void a_claim_without_a_sandbox_is_free(void **state)
{
    static const char *const claims[] = { "sb_0123456789abcdef", "", "nonsense",
                                          "sb_0123456789abcdef and more than an id has" };
    struct fixture *x = *state;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_ID_MAX];

    open_it(x);
    assert_int_equal(mkdirat(x->state_dir.names_fd, "-", 0700), 0);
    for (size_t i = 0; i < ARRAY_LEN(claims); i++) {
        struct err err = ERR_NONE;

        assert_int_equal(file_replace(x->state_dir.names_fd, "-/shop", claims[i], strlen(claims[i]), 0600), 0);
        assert_int_equal(sandbox_names_find(&x->state_dir, "", "shop", found), -ENOENT);
        assert_int_equal(make_owned(x, "", "shop", id, &err), 0);
        assert_int_equal(sandbox_names_find(&x->state_dir, "", "shop", found), 0);
        assert_string_equal(found, id);
        assert_int_equal(state_dir_remove(&x->state_dir, id, &err), 0);
    }
}

/* Another sandbox got the name after a crash had freed it: whoever lost it must not take it away again. */
static void only_its_own_claim_is_released(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_ID_MAX];

    open_it(x);
    assert_int_equal(make_owned(x, "", "shop", id, &err), 0);
    sandbox_names_release(&x->state_dir, "", "shop", "sb_0123456789abcdef");
    assert_int_equal(sandbox_names_find(&x->state_dir, "", "shop", found), 0);
    assert_string_equal(found, id);
}

static void a_broken_sandbox_is_found_and_removed_by_its_name(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX];
    autofd int fd = -1;

    open_it(x);
    must_make(x, "shop");
    fd = open_named(x, "shop");
    assert_int_equal(unlinkat(fd, "spec", 0), 0);
    close(steal_fd(&fd));
    assert_int_equal(state_dir_find(&x->state_dir, "shop", id, &fd, &err), 0);
    close(steal_fd(&fd));
    state_dir_show_name(&x->state_dir, id, NULL, name);
    assert_string_equal(name, "shop");
    assert_int_equal(state_dir_find(&x->state_dir, "sho", found, &fd, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(state_dir_remove(&x->state_dir, id, &err), 0);
    assert_int_equal(sandbox_names_find_id(&x->state_dir, "", id, name), -ENOENT);
}

/* The power failed before the claim was on disk, but not the spec. */
static void a_name_without_a_claim_is_found_in_the_spec(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], other[SANDBOX_NAME_MAX], found[SANDBOX_NAME_MAX];
    autofd int fd = -1;

    open_it(x);
    assert_int_equal(make_owned(x, "", "shop", id, &err), 0);
    assert_int_equal(unlinkat(x->state_dir.names_fd, "-/shop", 0), 0);
    assert_int_equal(state_dir_find(&x->state_dir, "shop", found, &fd, &err), 0);
    assert_string_equal(found, id);
    close(steal_fd(&fd));

    /* Now two have it: who asks is told both ids. */
    assert_int_equal(make_owned(x, "", "shop", other, &err), 0);
    assert_int_equal(unlinkat(x->state_dir.names_fd, "-/shop", 0), 0);
    assert_int_equal(state_dir_find(&x->state_dir, "shop", found, &fd, &err), -EINVAL);
    assert_non_null(strstr(err.text, id));
    assert_non_null(strstr(err.text, other));
}

static void an_ambiguous_beginning_lists_eight(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char found[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX];
    int fd = -1;
    size_t listed = 0;

    open_it(x);
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof(name), "shop-%02d", i);
        must_make(x, name);
    }
    assert_int_equal(state_dir_find(&x->state_dir, "shop", found, &fd, &err), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    for (const char *at = err.text; (at = strstr(at, "shop-")); at++)
        listed++;
    assert_int_equal(listed, 8);
    assert_non_null(strstr(err.text, "and 3 more"));
}

static void an_id_its_beginning_and_its_uuid_find_it(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], found[SANDBOX_NAME_MAX];
    autofd int a = -1, b = -1, c = -1, d = -1;

    open_it(x);
    for (size_t i = 0; i < 2; i++) {
        autoptr(sandbox_spec) spec = spec_of(i == 0 ? "one" : "sb", "/srv/shop");
        autofd int fd = -1;

        spec->id = xdup(i == 0 ? "sb_0123456789abcdef" : "sb_1123456789abcdef");
        assert_int_equal(state_dir_create(&x->state_dir, spec, true, &fd, &err), 0);
    }
    snprintf(id, sizeof(id), "sb_0123456789abcdef");
    assert_int_equal(state_dir_find(&x->state_dir, id, found, &a, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(state_dir_find(&x->state_dir, "sb_0", found, &b, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(state_dir_find(&x->state_dir, "01234567-89ab-4cde-8f00-000000000000", found, &c, &err), 0);
    assert_string_equal(found, id);
    assert_int_equal(state_dir_find(&x->state_dir, "s", found, &d, &err), 0); /* a name: what all ids begin with is none's */
    assert_string_equal(found, "sb_1123456789abcdef");
    assert_int_equal(state_dir_find(&x->state_dir, "sb_0000000000000000", found, &d, &err), -ENOENT);
}

static void no_name_looks_like_an_id(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autoptr(sandbox_spec) spec = spec_of("sb_0123456789abcdef", "/srv/shop");
    autofd int fd = -1;

    open_it(x);
    spec->id = xdup("sb_1123456789abcdef");
    assert_int_equal(state_dir_create(&x->state_dir, spec, true, &fd, &err), -EINVAL);
}

/* Each process claims the same name at the same time. 0: it has it; 1: it was told that somebody has. */
static _Noreturn void race(struct fixture *x, int start_fd)
{
    struct state_dir own = STATE_DIR_NONE;
    struct err err = ERR_NONE;
    autoptr(sandbox_spec) spec = spec_of("shop", "/srv/shop");
    int fd = -1, r;
    char byte;

    if (state_dir_open_at(x->state, &own, &err) < 0 || read(start_fd, &byte, 1) != 0)
        _exit(9);
    r = state_dir_create(&own, spec, false, &fd, &err);
    _exit(r == 0 ? 0 : r == -EEXIST && strstr(err.text, "'shop' already") ? 1 : 9);
}

static void of_those_who_want_a_name_at_once_one_gets_it(void **state)
{
    struct fixture *x = *state;

    open_it(x);
    for (int round = 0; round < 20; round++) {
        struct err err = ERR_NONE;
        int start[2], winners = 0, status;

        assert_int_equal(pipe(start), 0);
        for (int i = 0; i < RACERS; i++) {
            if (fork() == 0) {
                close(start[1]);
                race(x, start[0]);
            }
        }
        close(start[1]);
        close(start[0]);
        for (int i = 0; i < RACERS; i++) {
            assert_true(wait(&status) > 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
            winners += WEXITSTATUS(status) == 0;
        }
        assert_int_equal(winners, 1);
        assert_names(x, "shop ");
        assert_int_equal(count_entries(x), 1);
        assert_int_equal(remove_named(x, "shop", &err), 0);
    }
}

static void steps_of(const char *fault, bool removes, struct fixture *x)
{
    struct state_dir own = STATE_DIR_NONE;
    struct err err = ERR_NONE;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        int fd = -1;
        autoptr(sandbox_spec) spec = spec_of("shop", "/srv/shop");
        char id[SANDBOX_NAME_MAX];

        setenv("AGENTFENSE_FAULT", fault, 1);
        if (state_dir_open_at(x->state, &own, &err) < 0)
            _exit(9);
        if (!removes)
            state_dir_create(&own, spec, true, &fd, &err);
        else if (state_dir_find(&own, "shop", id, &fd, &err) == 0)
            state_dir_remove(&own, id, &err);
        _exit(8);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_kill_while_it_is_made_leaves_its_name_free(void **state)
{
    static const char *const faults[] = { "sandbox_name_claimed", "sandbox_spec_written" };
    struct fixture *x = *state;

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct err err = ERR_NONE;

        steps_of(faults[i], false, x);
        assert_names(x, "");
        must_make(x, "shop");
        assert_int_equal(remove_named(x, "shop", &err), 0);
    }
}

static void a_kill_while_it_is_removed_leaves_its_name_free(void **state)
{
    struct fixture *x = *state;

    open_it(x);
    must_make(x, "shop");
    steps_of("sandbox_removed", true, x);
    assert_names(x, "");
    must_make(x, "shop");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        state_test(a_name_belongs_to_an_owner),
        state_test(owners_of_any_length_have_names),
        state_test(a_removed_sandbox_gives_its_name_back),
        state_test(a_claim_without_a_sandbox_is_free),
        state_test(only_its_own_claim_is_released),
        state_test(a_broken_sandbox_is_found_and_removed_by_its_name),
        state_test(a_name_without_a_claim_is_found_in_the_spec),
        state_test(an_ambiguous_beginning_lists_eight),
        state_test(an_id_its_beginning_and_its_uuid_find_it),
        state_test(no_name_looks_like_an_id),
        state_test(of_those_who_want_a_name_at_once_one_gets_it),
        state_test(a_kill_while_it_is_made_leaves_its_name_free),
        state_test(a_kill_while_it_is_removed_leaves_its_name_free),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
