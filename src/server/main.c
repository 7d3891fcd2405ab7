/*
 * agentfense-server: executed by 'agentfense serve', 'agentfense token' and clients that start a private server (private.h),
 * with the verb as argv[0]. It is a separate program because its libraries would slow down the start of every other verb.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/coverage.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/standard_output.h"
#include "server/config.h"
#include "server/private.h"
#include "server/server.h"
#include "server/token_verb.h"

#define EXIT_USAGE 2
#define EXIT_FAILED 125

/* Each running call may use a few descriptors, each sandbox one or two. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Call before starting threads, which inherit the mask. */
static void block_signals(sigset_t *ret)
{
    sigemptyset(ret);
    sigaddset(ret, SIGTERM);
    sigaddset(ret, SIGINT);
    sigaddset(ret, SIGHUP);
    sigaddset(ret, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, ret, NULL);
    sigdelset(ret, SIGPIPE);
}

static void reload_server(struct server *server)
{
    struct err err = ERR_NONE;

    if (server_reload(server, &err) < 0)
        log_error("certificates could not be read again; the old ones hold", LOG_STR("error", err.text));
    else
        log_info("reloaded");
}

static void serve_until_signal(struct server *server, const sigset_t *signals)
{
    for (;;) {
        int number = 0;

        sigwait(signals, &number);
        if (number != SIGHUP) {
            log_info("ending; sandboxes live on", LOG_INT("signal", number));
            return;
        }
        reload_server(server);
    }
}

/* A second signal ends the server as if it were killed. This loses only answers in progress. */
static void *end_on_second_signal(void *signals)
{
    int number = SIGHUP;

    while (number == SIGHUP)
        sigwait(signals, &number);
    log_warn("ending at once", LOG_INT("signal", number));
    coverage_save();
    _exit(EXIT_SUCCESS);
}

static void watch_second_signal(const sigset_t *signals)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, end_on_second_signal, (void *) signals) == 0)
        pthread_detach(thread);
}

static int serve_config(const struct config *config, const sigset_t *signals, struct err *err)
{
    static struct server server;
    int r = server_start(&server, config, err);

    if (r == 0) {
        sd_notify(0, "READY=1");
        serve_until_signal(&server, signals);
        sd_notify(0, "STOPPING=1");
        watch_second_signal(signals);
        server_drain(&server);
    }
    server_done(&server);
    return r;
}

static void apply_logging(const struct config *config)
{
    enum log_level level;
    enum log_format format;

    if (log_level_of_name(config->log_level, &level) == 0)
        log_set_level(level);
    if (log_format_of_name(config->log_format, &format) == 0)
        log_set_format(format);
}

static int print_text(char *text)
{
    fputs(text, stdout);
    free(text);
    return standard_output_finish("agentfense serve", EXIT_SUCCESS, EXIT_FAILED);
}

static int main_serve(int argc, char **argv)
{
    struct config config;
    struct err err = ERR_NONE;
    sigset_t signals;
    int r;

    r = config_load(&config, argc, (const char *const *) argv, &err);
    if (r < 0) {
        fprintf(stderr, "agentfense serve: %s\n", err.text);
        config_done(&config);
        return EXIT_USAGE;
    }
    if (config.wants_help || config.wants_version || config.wants_check) {
        if (config.wants_version)
            r = print_text(xprintf("agentfense %s\n", AGENTFENSE_VERSION));
        else
            r = print_text(config.wants_help ? config_help() : config_show(&config));
        config_done(&config);
        return r;
    }
    apply_logging(&config);
    block_signals(&signals);
    raise_limits();
    r = strcmp(argv[0], PRIVATE_VERB) == 0 ? private_serve(&config, &signals, &err) : serve_config(&config, &signals, &err);
    if (r < 0)
        fprintf(stderr, "agentfense serve: %s\n", err.text);
    config_done(&config);
    return r < 0 ? EXIT_FAILED : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    /* Threads start and end with the calls. With an arena for each, memory of the busiest moment would never be freed. */
    mallopt(M_ARENA_MAX, 2);
    log_set_format(LOG_FORMAT_TEXT);
    standard_output_begin();
    if (argc > 0 && strcmp(argv[0], "token") == 0)
        return standard_output_finish("agentfense token", token_verb(argc, argv), EXIT_FAILED);
    return main_serve(argc, argv);
}
