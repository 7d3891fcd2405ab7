#include "supervisor/fencing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "policy/rule.h"
#include "supervisor/limit_default.h"

#define MAILBOX_MAX 256

/* A refusal on its way to the main thread. */
struct letter {
    struct letter *next;
    struct fence_denial denial; /* without its strings */
    char exec[CTL_NAME_MAX];
    char *path, *detail; /* owned */
};

struct fencing {
    struct fence *fence; /* owned */
    pthread_t thread;
    bool is_running;
    struct fencing_limits limits;
    struct roster *roster;
    struct chronicle *chronicle;
    int wake_fd; /* owned: an eventfd */
    struct watch watch;
    fencing_fn on_end;
    void *cookie;

    pthread_mutex_t lock; /* guards all below */
    struct letter *letters, **last_letter;
    unsigned letter_count;
    bool has_ended;
    int end_result;
};

struct fence *fencing_fence(struct fencing *fencing)
{
    return fencing->fence;
}

struct fencing_limits fencing_limits(const struct fencing *fencing)
{
    return fencing->limits;
}

void fencing_choose_limits(const struct sandbox_spec *spec, const char *dir_path, struct fencing_limits *ret)
{
    ret->bytes = spec->quota_bytes ? spec->quota_bytes : limit_default_disk(dir_path);
    ret->files = spec->quota_inodes ? spec->quota_inodes : limit_default_files(spec->quota_bytes, spec->memory_bytes);
}

static void wake(struct fencing *fencing)
{
    uint64_t one = 1;

    if (write(fencing->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

static void letter_free(struct letter *letter)
{
    free(letter->path);
    free(letter->detail);
    free(letter);
}

/* In the fence's thread. A full mailbox loses the letter: the fence counts refusals itself. */
static void on_denial(const struct fence_denial *denial, void *cookie)
{
    struct fencing *fencing = cookie;
    struct letter *letter = xnew(struct letter);

    letter->denial = *denial;
    letter->path = xdup(denial->path);
    letter->detail = xprintf("%s %s%s%s", policy_op_name(denial->op), level_name(denial->level), denial->detail ? " " : "",
                             denial->detail ? denial->detail : "");
    memcpy(letter->exec, denial->exec, strnlen(denial->exec, CTL_NAME_MAX - 1));
    pthread_mutex_lock(&fencing->lock);
    bool fits = fencing->letter_count < MAILBOX_MAX;
    if (fits) {
        *fencing->last_letter = letter;
        fencing->last_letter = &letter->next;
        fencing->letter_count++;
    }
    pthread_mutex_unlock(&fencing->lock);
    if (fits)
        wake(fencing);
    else
        letter_free(letter);
}

static void put_down(struct fencing *fencing, struct letter *letter)
{
    chronicle_add(fencing->chronicle,
                  &(struct ctl_event){
                      .kind = CTL_EVENT_DENIED,
                      .wall_ns = letter->denial.wall_ns,
                      .exec = letter->exec,
                      .subject = letter->path,
                      .detail = letter->detail,
                      .numbers = { letter->denial.error, letter->denial.pid, (int64_t) letter->denial.repeats },
                  });
    letter_free(letter);
}

/* Several names: it was not known whose process it was, and may be by now. False: it may be soon, when the pid of a command comes
 * that has begun already; the roster tells of it. */
static bool find_sender(struct fencing *fencing, struct letter *letter)
{
    bool is_sure = !roster_awaits_pids(fencing->roster);

    if (*letter->exec && !strchr(letter->exec, ','))
        return true;
    roster_name_at(fencing->roster, letter->denial.pid, letter->denial.wall_ns, letter->exec);
    return is_sure || !strchr(letter->exec, ',');
}

static void deliver(struct fencing *fencing, bool all)
{
    struct letter *letters, *kept = NULL, **last = &kept;
    unsigned kept_count = 0;

    pthread_mutex_lock(&fencing->lock);
    letters = fencing->letters;
    fencing->letters = NULL;
    fencing->last_letter = &fencing->letters;
    fencing->letter_count = 0;
    pthread_mutex_unlock(&fencing->lock);
    while (letters) {
        struct letter *letter = letters;

        letters = letter->next;
        letter->next = NULL;
        if (find_sender(fencing, letter) || all) {
            put_down(fencing, letter);
            continue;
        }
        *last = letter;
        last = &letter->next;
        kept_count++;
    }
    if (!kept)
        return;
    pthread_mutex_lock(&fencing->lock);
    *last = fencing->letters;
    if (!fencing->letters)
        fencing->last_letter = last;
    fencing->letters = kept;
    fencing->letter_count += kept_count;
    pthread_mutex_unlock(&fencing->lock);
}

static void on_pid(void *cookie)
{
    struct fencing *fencing = cookie;
    bool has_letters;

    pthread_mutex_lock(&fencing->lock);
    has_letters = fencing->letters;
    pthread_mutex_unlock(&fencing->lock);
    if (has_letters)
        wake(fencing);
}

static void on_wake(uint32_t events, void *cookie)
{
    struct fencing *fencing = cookie;
    uint64_t count;
    bool has_ended;
    int r;

    (void) events;
    if (read(fencing->wake_fd, &count, sizeof(count)) < 0)
        return;
    deliver(fencing, false);
    pthread_mutex_lock(&fencing->lock);
    has_ended = fencing->has_ended;
    r = fencing->end_result;
    pthread_mutex_unlock(&fencing->lock);
    if (has_ended)
        fencing->on_end(r, fencing->cookie);
}

static void exec_of(pid_t pid, char out[FENCE_EXEC_MAX], void *cookie)
{
    _Static_assert(FENCE_EXEC_MAX == CTL_NAME_MAX, "an exec's name fits both");
    /* One of our own threads, for a client (file_ops.h). */
    if (pid > 0 && syscall(SYS_tgkill, getpid(), pid, 0) == 0)
        snprintf(out, FENCE_EXEC_MAX, "%s", FENCING_FILE_OP);
    else
        roster_name_of(((struct fencing *) cookie)->roster, pid, out);
}

static void *serve(void *cookie)
{
    struct fencing *fencing = cookie;
    int r = fence_run(fencing->fence);

    pthread_mutex_lock(&fencing->lock);
    fencing->has_ended = true;
    fencing->end_result = r;
    pthread_mutex_unlock(&fencing->lock);
    wake(fencing);
    return NULL;
}

static bool has_workspace_dir(const char *base_path, int base_fd)
{
    autofree char *path = xprintf("%s/workspace", base_path);
    struct stat st;

    return fstatat(base_fd, base_fd < 0 ? path : "workspace", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int fencing_rules(const struct sandbox_spec *spec, struct rule_list *rules, struct err *err)
{
    for (size_t i = 0; i < spec->rule_count; i++) {
        const struct sandbox_rule *rule = &spec->rules[i];
        int r;

        if (rule->type > RULE_FILE || rule->level > LEVEL_WRITE)
            return err_invalid(err, "rule %zu has an unknown type or level", i + 1);
        r = rule_list_add(rules, rule->pattern, strlen(rule->pattern), (enum rule_type) rule->type, (enum level) rule->level,
                          rule->priority, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int fencing_compile(const struct sandbox_spec *spec, int base_fd, struct ruleset **ret, struct err *err)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct ruleset_options options = { .workspace_is_real = has_workspace_dir(spec->base_path, base_fd) };
    int r = fencing_rules(spec, &rules, err);

    return r < 0 ? r : ruleset_new(&rules, &options, ret, err);
}

static int make_fence(struct fencing *fencing, const struct fencing_config *config, struct err *err)
{
    const struct sandbox_spec *spec = config->spec;
    autofree char *delta = xprintf("%s/delta", config->dir_path);
    autoptr(ruleset) rules = NULL;
    int r = fencing_compile(spec, config->base_fd, &rules, err);

    if (r < 0)
        return r;
    fencing_choose_limits(spec, config->dir_path, &fencing->limits);
    struct fence_config fence = {
        .base_path = spec->base_path,
        .base_fd = config->base_fd,
        .delta_path = delta,
        .rules = rules,
        .uid = config->uid,
        .gid = config->gid,
        .quota_bytes = fencing->limits.bytes,
        .quota_inodes = fencing->limits.files,
        .is_live = spec->is_live,
        .syncs_out = spec->codebase_path && spec->codebase_path[0] != '\0',
        .on_denial = on_denial,
        .exec_of = exec_of,
        .cookie = fencing,
    };
    r = fence_new(&fence, &fencing->fence, err);
    return r < 0 ? r : fence_mount(fencing->fence, config->mount_point, err);
}

int fencing_start(const struct fencing_config *config, struct fencing **ret, struct err *err)
{
    autoptr(fencing) fencing = xnew(struct fencing);
    int r;

    pthread_mutex_init(&fencing->lock, NULL);
    fencing->last_letter = &fencing->letters;
    fencing->roster = config->roster;
    fencing->chronicle = config->chronicle;
    fencing->on_end = config->on_end;
    fencing->cookie = config->cookie;
    fencing->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fencing->wake_fd < 0)
        return err_errno(err, -errno, "making an eventfd");
    r = watch_start(&fencing->watch, config->reactor, fencing->wake_fd, EPOLLIN, on_wake, fencing);
    if (r < 0)
        return err_errno(err, r, "watching the fence");
    r = make_fence(fencing, config, err);
    if (r < 0)
        return r;
    r = pthread_create(&fencing->thread, NULL, serve, fencing);
    if (r)
        return err_errno(err, -r, "starting the fence's thread");
    fencing->is_running = true;
    roster_tell(config->roster, on_pid, fencing);
    *ret = steal_ptr(&fencing);
    return 0;
}

void fencing_free(struct fencing *fencing)
{
    if (!fencing)
        return;
    watch_stop(&fencing->watch);
    roster_tell(fencing->roster, NULL, NULL);
    if (fencing->is_running) {
        fence_stop(fencing->fence);
        pthread_join(fencing->thread, NULL);
    }
    fence_free(fencing->fence);
    deliver(fencing, true); /* those of the last moments: the fence has told all when it is gone */
    if (fencing->wake_fd >= 0)
        close(fencing->wake_fd);
    pthread_mutex_destroy(&fencing->lock);
    free(fencing);
}
