#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/defaults.h"
#include "base/mem.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "runtime/doctor.h"
#include "sandbox/state_dir.h"
#include "wire/driver_trial.h"

static const char help[] =
    "usage: agentfense doctor [--json]\n"
    "\n"
    "Tests which features for sandboxes this host has. Each line reports ok, degraded or missing, the consequence, and the\n"
    "fix. Exits with 0 if all required features work (optional ones may be missing), 1 if sandboxes run with less\n"
    "protection, 2 if no sandbox can run here.\n"
    "\n"
    "  --json                 JSON on standard output, with the defaults of all programs (docs/defaults.md)\n"
    "  -h, --help             this text\n";

static const char *colour_of(const struct doctor_finding *finding)
{
    if (finding->state == DOCTOR_OK)
        return "\033[32m";
    return finding->state == DOCTOR_MISSING && finding->weight == DOCTOR_ESSENTIAL ? "\033[31m" : "\033[33m";
}

static void print_detail(const char *label, const char *text)
{
    if (!text)
        return;
    printf("%28s%s: ", "", label);
    output_escaped(stdout, text);
    putchar('\n');
}

static void print_finding(const struct doctor_finding *finding, bool coloured)
{
    printf("%s%-8s%s  %-17s ", coloured ? colour_of(finding) : "", doctor_state_name(finding->state), coloured ? "\033[0m" : "",
           finding->name);
    output_escaped(stdout, finding->found);
    putchar('\n');
    print_detail("cost", finding->cost);
    print_detail("fix", finding->fix);
}

static json_t *finding_json(const struct doctor_finding *finding)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:s?, s:s?}", "name", finding->name, "state", doctor_state_name(finding->state),
                     "weight", doctor_weight_name(finding->weight), "found", output_json_name(finding->found), "cost",
                     finding->cost, "fix", finding->fix);
}

static void print_json(const struct doctor *doctor)
{
    static const char *const verdicts[] = { "ok", "degraded", "cannot run" };
    json_t *all = json_array(), *defaults = json_array();

    for (size_t i = 0; i < doctor->count; i++)
        json_array_append_new(all, finding_json(&doctor->findings[i]));
    for (const struct default_row *row = defaults_table; row->name; row++)
        json_array_append_new(defaults, json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", row->name, "run", row->run, "server",
                                                  row->server, "sdk", row->sdk, "setting", row->setting));
    output_json(
        json_pack("{s:s, s:o, s:o}", "verdict", verdicts[doctor_verdict(doctor)], "findings", all, "defaults", defaults));
}

static void print_text(const struct doctor *doctor)
{
    static const char *const verdicts[] = { "all is well", "sandboxes run, with what is said above",
                                            "no sandbox can run here" };
    bool lacks_some = false;

    for (size_t i = 0; i < doctor->count; i++) {
        print_finding(&doctor->findings[i], output_is_coloured(stdout));
        lacks_some |= doctor->findings[i].state != DOCTOR_OK;
    }
    if (doctor_verdict(doctor) == 0 && lacks_some)
        puts("\nsandboxes lack nothing; what is not ok above is optional");
    else
        printf("\n%s\n", verdicts[doctor_verdict(doctor)]);
}

/* Returns the directory for trials: that of the sandboxes if it exists, because its file system is the one that counts. */
static const char *trial_place(char out[PATH_MAX])
{
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    struct err ignored = ERR_NONE;

    if (state_dir_open(false, &state_dir, &ignored) < 0)
        return "/tmp";
    snprintf(out, PATH_MAX, "%s", state_dir.path);
    return out;
}

/* Lists the drivers for sandboxes over a directory. `auto` is the first that works. */
static void add_drivers(struct doctor *doctor)
{
    static const char *const names[] = { "driver fence", "driver overlayfs", "driver copy" };
    struct driver_trial trials[DRIVER_TRIAL_COUNT];
    char place[PATH_MAX];
    bool is_chosen = false;

    driver_trial_run(trial_place(place), trials);
    for (size_t i = 0; i < DRIVER_TRIAL_COUNT; i++) {
        bool is_auto = trials[i].works && !is_chosen;
        autofree char *found = xprintf("%s%s", trials[i].reason, is_auto ? "; 'auto' is this one" : "");

        is_chosen |= trials[i].works;
        doctor_add(doctor, names[i], DOCTOR_OPTIONAL, trials[i].works ? DOCTOR_OK : DOCTOR_MISSING, found,
                   trials[i].works ? NULL : "sandboxes cannot be created with this driver", NULL);
    }
}

static int run_doctor(int argc, char **argv)
{
    static const struct option long_options[] = {
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    bool json = false;
    int opt;

    while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (opt == 'h') {
            fputs(help, stdout);
            return EXIT_SUCCESS;
        }
        if (opt != 'j')
            return EXIT_USAGE;
        json = true;
    }
    if (optind < argc) {
        fputs("agentfense doctor: it takes no arguments; 'agentfense doctor --help' prints the usage\n", stderr);
        return EXIT_USAGE;
    }
    autoptr(doctor) doctor = doctor_new(NULL);
    add_drivers(doctor);
    if (json)
        print_json(doctor);
    else
        print_text(doctor);
    return doctor_verdict(doctor);
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "see what this host can do for a sandbox, and how to put right what it cannot",
    .run = run_doctor,
};
