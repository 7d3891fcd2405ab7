/*
 * Compiles the table of seccomp.h at build time and prints the program as C source. At run time that would take a tenth of a
 * sandbox's start, and every supervisor would load libseccomp.
 *
 *     seccomp-compile >seccomp_program.c
 */
#include <errno.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/seccomp.h"

struct compile_cookie {
    scmp_filter_ctx ctx;
    int nr;
};

static int add_tests(const struct seccomp_rule *rule, const struct seccomp_test *tests, unsigned count, void *cookie)
{
    static const enum scmp_compare ops[] = { [SECCOMP_MASKED_EQUAL] = SCMP_CMP_MASKED_EQ,
                                             [SECCOMP_NOT_EQUAL] = SCMP_CMP_NE,
                                             [SECCOMP_GREATER] = SCMP_CMP_GT,
                                             [SECCOMP_GREATER_OR_EQUAL] = SCMP_CMP_GE };
    const struct compile_cookie *to = cookie;
    struct scmp_arg_cmp cmps[2];

    for (unsigned i = 0; i < count; i++) {
        bool is_masked = tests[i].op == SECCOMP_MASKED_EQUAL;

        cmps[i] = (struct scmp_arg_cmp){ .arg = tests[i].arg,
                                         .op = ops[tests[i].op],
                                         .datum_a = is_masked ? tests[i].mask : tests[i].value,
                                         .datum_b = is_masked ? tests[i].value : 0 };
    }
    return seccomp_rule_add_array(to->ctx, SCMP_ACT_ERRNO((uint32_t) rule->error), to->nr, count, cmps);
}

static int add_rule(scmp_filter_ctx ctx, const struct seccomp_rule *rule)
{
    struct compile_cookie to = { ctx, seccomp_syscall_resolve_name(rule->name) };

    if (to.nr == __NR_SCMP_ERROR)
        to.nr = rule->nr;
    /* Negative: the call does not exist on this architecture. */
    return to.nr < 0 ? 0 : seccomp_rule_expand(rule, add_tests, &to);
}

static int seccomp_add_rules(scmp_filter_ctx ctx)
{
    size_t count;
    const struct seccomp_rule *rules = seccomp_rules(&count);
    int r;

    /* A 32-bit program could not report the errors and would spin, so it is killed. This also prevents x32's numbers and
     * i386's int 0x80 from bypassing the filter. */
    if ((r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) < 0)
        return r;
    /* A binary tree instead of a list needs fewer steps per call. Old libraries lack this attribute. */
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (size_t i = 0; i < count; i++)
        if ((r = add_rule(ctx, &rules[i])) < 0)
            return r;
    return 0;
}

/* Prints one line per instruction. */
static int print_program(FILE *from)
{
    struct sock_filter at;

    rewind(from);
    printf("#include \"runtime/seccomp_program.h\"\n\nconst struct sock_filter seccomp_program[] = {\n");
    while (fread(&at, sizeof(at), 1, from) == 1)
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", at.code, at.jt, at.jf, at.k);
    printf("};\n\nconst size_t seccomp_program_bytes = sizeof(seccomp_program);\n");
    return ferror(from) || fflush(stdout) != 0 ? -EIO : 0;
}

int main(void)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    FILE *program = tmpfile();
    int r = ctx && program ? seccomp_add_rules(ctx) : -ENOMEM;

    if (r == 0)
        r = seccomp_export_bpf(ctx, fileno(program));
    if (r == 0)
        r = print_program(program);
    if (r < 0)
        fprintf(stderr, "seccomp-compile: %s\n", strerror(-r));
    if (program)
        fclose(program);
    if (ctx)
        seccomp_release(ctx);
    return r < 0;
}
